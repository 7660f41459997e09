"""``gpu.reduce`` within a thread, a warp, across warps and CTAs: simulated and held to NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import scf

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback import tile as playback
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, refusal, run

LOWERED = list(GPU_PASSES)
SHORT = ("gpu-layout-inference", "gpu-lower-tile-ops")
ROW = "(i, j) -> (i)"
COLUMN = "(i, j) -> (j)"

NUMPY: dict[str, Callable[..., Any]] = {"sum": np.sum, "max": np.max, "min": np.min}


def reduce(
    tile: tuple[int, int],
    by: str,
    result: int,
    kind: str = "sum",
    *,
    threads: int = 128,
    cluster: int = 1,
    layout: str = "",
    accumulate: bool = False,
    times: int = 1,
) -> str:
    """A kernel that reduces the one tile of X into y, ``times`` times over."""
    rows, columns = tile
    source = f"!gpu.fragment<[{rows}, {columns}], f32{layout}>"
    target = f"!gpu.fragment<[{result}], f32>"
    words = f"{' accumulate' if accumulate else ''}{' cluster' if cluster > 1 else ''}"
    step = "%i = affine.apply affine_map<(d0) -> (d0 mod 2)> (%b)"
    if cluster > 1:
        step = (
            f"%r = gpu.cluster_rank\n    %i = affine.apply affine_map<(d0) -> (d0 * {rows})> (%r)"
        )
    clustered = f"\n      cluster {cluster}" if cluster > 1 else ""
    text = kernel(
        f"""
    %b = gpu.block_id
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %times = arith.constant {times} : index
    {step}
    %three = arith.constant 3.0 : f32
    %x = gpu.fragment : {source}
    %y = gpu.fragment : {target}
    gpu.copy %X[%i, %zero] to %x : !gpu.global<[M, N], f32>, {source}
    gpu.fill %three, %y : {target}
    scf.for %t = %zero to %times step %one {{
      gpu.reduce {kind} %x by affine_map<{by}> into %y{words} : {source}, {target}
    }}
    gpu.copy %y to %Y[%b, %zero] : {target}, !gpu.global<[C, R], f32>""",
        "%X: !gpu.global<[M, N], f32> = tensor 0, %Y: !gpu.global<[C, R], f32> = tensor 1, "
        "%M: index = symbol M, %N: index = symbol N, %C: index = symbol C, %R: index = symbol R",
        threads=threads,
        symbols="M, N, C, R",
        dispatch="""
  gpu.dispatch (X: !gpu.global<[M, N], f32>) -> (Y: !gpu.global<[C, R], f32>) {
    gpu.launch @k align [4, 4] grid [C]
  }""",
    )
    return text.replace(f"threads {threads}", f"threads {threads}{clustered}")


def check(text: str, x: np.ndarray[Any, Any], want: np.ndarray[Any, Any], schedule: str) -> None:
    module = only(run(text, *LOWERED), ModuleOp)
    sizes = {"M": x.shape[0], "N": x.shape[1], "C": want.shape[0], "R": want.shape[1]}
    result = simulate(module, [x], sizes, schedule=schedule, seed=3)
    result.check()
    np.testing.assert_allclose(result.outputs[0], want, rtol=1e-5, atol=1e-5)


def numbers(rows: int, columns: int) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = np.random.default_rng(0).standard_normal((rows, columns))
    return found.astype(np.float32)


WGMMA = (
    ", #gpu.fragment_layout<threads 128, registers 16, affine_map<(t, r) -> (t floordiv 32 * 16 + "
    "t mod 32 floordiv 4 + r floordiv 2 mod 2 * 8, r floordiv 4 * 8 + t mod 4 * 2 + r mod 2)>>"
)
ALONE = ", #gpu.fragment_layout<threads 32, registers 2, affine_map<(t, r) -> (0, r * 32 + t)>>"
"""A warp of several has all elements."""

FOURS = (
    ", #gpu.fragment_layout<threads 128, registers 8, affine_map<(t, r) -> "
    "(t floordiv 32 * 2 + r floordiv 4, t mod 32 * 4 + r mod 4)>>"
)
"""A thread has four columns of two rows, and each warp rows of its own."""

SHAPES = {
    "one row a warp": ((4, 256), ROW, 4, ""),
    "rows in a warp": ((32, 32), ROW, 32, ""),
    "a row a thread": ((128, 4), ROW, 128, ""),
    "a row a CTA": ((1, 512), ROW, 1, ""),
    "two rows, two warps each": ((2, 256), ROW, 2, ""),
    "threads that repeat": ((1, 64), ROW, 1, ""),
    "columns in threads": ((8, 512), COLUMN, 512, ""),
    "columns across warps": ((16, 64), COLUMN, 64, ""),
    "rows of an accumulator": ((64, 32), ROW, 64, WGMMA),
    "columns of an accumulator": ((64, 32), COLUMN, 32, WGMMA),
    "everything": ((8, 64), "(i, j) -> (0)", 1, ""),
    "one warp of four": ((1, 64), ROW, 1, ALONE),
    "four columns a thread": ((8, 128), COLUMN, 128, FOURS),
    "parts of rows": ((4, 256), "(i, j) -> (j floordiv 64)", 4, ""),
}


def test_warps_that_hold_nothing_exchange_nothing() -> None:
    module = run(reduce((1, 64), ROW, 1, layout=ALONE), *SHORT)
    shuffles = find(module, hw.ShuffleOp)
    assert len(shuffles) == 5
    assert all(isinstance(op.parent_op(), scf.IfOp) for op in shuffles)


def test_results_side_by_side_meet_by_vectors() -> None:
    module = run(reduce((8, 128), COLUMN, 128, layout=FOURS), *SHORT)
    (store,), loads = find(module, hw.StoreSharedOp), find(module, hw.LoadSharedOp)
    assert len(loads) == 4
    assert {str(one.type) for one in (store.value, *(op.result for op in loads))} == {
        "vector<4xf32>"
    }


@pytest.mark.turns(3)
@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize(("tile", "by", "result", "layout"), SHAPES.values(), ids=SHAPES)
def test_sums(tile: tuple[int, int], by: str, result: int, layout: str, schedule: str) -> None:
    x = numbers(*tile)
    want = np.zeros((1, result), np.float32)
    i, j = np.indices(tile)
    place = {ROW: i, COLUMN: j, "(i, j) -> (0)": 0 * i, "(i, j) -> (j floordiv 64)": j // 64}[by]
    np.add.at(want[0], place.ravel(), x.ravel())
    text = reduce(tile, by, result, layout=layout, times=2)
    check(text, x, want, schedule)
    check(
        reduce(tile, by, result, layout=layout, accumulate=True, times=3), x, 3 * want + 3, schedule
    )


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("tile", [(4, 256), (1, 512)])
def test_extremes_and_nan(kind: str, tile: tuple[int, int]) -> None:
    x = numbers(*tile)
    check(reduce(tile, ROW, tile[0], kind), x, NUMPY[kind](x, axis=1)[None], "random")
    x[-1, 5] = np.nan
    check(reduce(tile, ROW, tile[0], kind), x, NUMPY[kind](x, axis=1)[None], "random")


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("cluster", [2, 4])
@pytest.mark.parametrize(
    ("tile", "by", "result"),
    [((1, 512), ROW, 1), ((4, 128), COLUMN, 128), ((2, 256), ROW, 2)],
)
def test_clusters(tile: tuple[int, int], by: str, result: int, cluster: int, schedule: str) -> None:
    """Each CTA of a cluster reduces rows of its own, and all get the whole."""
    rows, columns = tile
    x = numbers(rows * cluster, columns)
    parts = x.reshape(cluster, rows, columns)
    whole = parts.sum(0).sum(1 if by == ROW else 0)
    want = np.broadcast_to(whole, (cluster, result))
    check(reduce(tile, by, result, cluster=cluster, times=2), x, want, schedule)


def test_one_barrier_an_iteration_where_threads_meet_twice() -> None:
    """Two reductions in a loop guard each other's scratch; one alone needs a barrier more."""
    alone = run(reduce((1, 512), ROW, 1, times=2), *LOWERED)
    assert len(find(alone, hw.BarrierOp)) == 2
    text = reduce((1, 512), ROW, 1, times=2)
    (line,) = (s for s in text.splitlines() if "gpu.reduce" in s)
    twice = run(text.replace(line, f"{line}\n{line}"), *LOWERED)
    assert len(find(twice, hw.BarrierOp)) == 2
    once = run(
        text.replace("scf.for %t = %zero to %times step %one", "scf.if %true").replace(
            "%times =", "%true = arith.constant true\n    %times ="
        ),
        *LOWERED,
    )
    assert len(find(once, hw.BarrierOp)) == 1


HALF = "!gpu.fragment<[1, 512], f16>"
ELSEWHERE = (
    "!gpu.fragment<[64], f32, #gpu.fragment_layout<threads 128, registers 1, "
    "affine_map<(t, r) -> (t mod 64)>>>"
)


def test_a_half_is_mapped_first() -> None:
    text = kernel(f"""
    %x = gpu.fragment : {HALF}
    %y = gpu.fragment : !gpu.fragment<[1], f16>
    gpu.reduce max %x by affine_map<{ROW}> into %y : {HALF}, !gpu.fragment<[1], f16>""")
    message = (
        "a reduction is computed in f32, i32 or i64, not in f16; map the fragment to f32 first"
    )
    assert_refused(text, "UnsupportedReduce", message, "gpu.reduce", *SHORT)


@pytest.mark.parametrize("element", ["f16", "bf16"])
@pytest.mark.parametrize("columns", [32, 512])
def test_halves_are_refused_in_every_layout(element: str, columns: int) -> None:
    source, target = (f"!gpu.fragment<[{n}], {element}>" for n in (f"1, {columns}", 1))
    text = kernel(f"""
    %x = gpu.fragment : {source}
    %y = gpu.fragment : {target}
    gpu.reduce sum %x by affine_map<{ROW}> into %y : {source}, {target}""")
    error = refusal(text, *SHORT)
    assert error.kind == "UnsupportedReduce" and f"not in {element}" in error.message


def whole(text: str) -> str:
    """The same kernel on integers."""
    return text.replace("arith.constant 3.0 : f32", "arith.constant 3 : i32").replace("f32", "i32")


@pytest.mark.turns(3)
@pytest.mark.parametrize("kind", NUMPY)
@pytest.mark.parametrize("cluster", [1, 2])
@pytest.mark.parametrize(
    ("tile", "by", "result"),
    [((4, 256), ROW, 4), ((1, 512), ROW, 1), ((16, 64), COLUMN, 64), ((128, 4), ROW, 128)],
)
def test_integers(tile: tuple[int, int], by: str, result: int, cluster: int, kind: str) -> None:
    """Within a thread, a warp, across warps and CTAs; all values negative, or all positive."""
    rows, columns = tile
    text = whole(reduce(tile, by, result, kind, cluster=cluster, times=2))
    far = np.random.default_rng(0).integers(1, 2**30, (rows * cluster, columns)).astype(np.int32)
    for x in (far, -far):
        parts = x.reshape(cluster, rows, columns)
        axes = (0, 2 if by == ROW else 1)
        with np.errstate(over="ignore"):
            found = NUMPY[kind](parts, axis=axes, **({"dtype": np.int32} if kind == "sum" else {}))
        want = np.broadcast_to(found, (cluster, result))
        module = only(run(text, *LOWERED), ModuleOp)
        sizes = {"M": rows * cluster, "N": columns, "C": cluster, "R": result}
        lowered = simulate(module, [x], sizes, schedule="random", seed=3)
        lowered.check()
        np.testing.assert_array_equal(lowered.outputs[0], want)
        written = playback.run(only(run(text), ModuleOp), [x], sizes)
        np.testing.assert_array_equal(written[0], want)


def test_a_result_elsewhere() -> None:
    text = kernel(f"""
    %x = gpu.fragment : !gpu.fragment<[16, 64], f32>
    %y = gpu.fragment : {ELSEWHERE}
    gpu.reduce max %x by affine_map<{COLUMN}> into %y
      : !gpu.fragment<[16, 64], f32>, {ELSEWHERE}""")
    message = (
        "the result of this reduction lies in #gpu.fragment_layout<threads 128, registers 4, "
        "affine_map<(d0, d1) -> ((((d0 mod 16) * 4) + d1))>> and not in !gpu.fragment<[64], f32, "
        "#gpu.fragment_layout<threads 128, registers 1, affine_map<(d0, d1) -> ((d0 mod 64))>>>: "
        "another thread holds it; leave the target's layout open"
    )
    assert_refused(text, "LayoutConflict", message, "gpu.reduce", *SHORT)


def test_lanes_of_no_pattern() -> None:
    kind = (
        "!gpu.fragment<[8, 12], f32, #gpu.fragment_layout<threads 96, registers 1, "
        "affine_map<(t, r) -> (t floordiv 12, t mod 12)>>>"
    )
    text = kernel(f"""
    %x = gpu.fragment : {kind}
    %y = gpu.fragment : !gpu.fragment<[8], f32>
    gpu.reduce sum %x by affine_map<{ROW}> into %y : {kind}, !gpu.fragment<[8], f32>""")
    message = (
        "gpu.reduce by (d0, d1) -> (d0) of #gpu.fragment_layout<threads 96, registers 1, "
        "affine_map<(d0, d1) -> ((d0 floordiv 12), (d0 mod 12))>>: lanes 4 apart share a place in "
        "some warps only"
    )
    assert_refused(text, "LayoutConflict", message, "gpu.reduce", *SHORT)
