"""``gpu.reduce_scatter``: parts that CTAs of a cluster push to each other, held to NumPy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.ir import Operation

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.layouts import mma_sync_accumulator, wgmma_accumulator
from polyc.playback import tile as playback
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, refusal, run

LOWERED = list(GPU_PASSES)
SHORT = ("gpu-layout-inference", "gpu-lower-tile-ops")
Array = np.ndarray[Any, Any]

COMBINE: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
}


def laid(layout: object) -> str:
    return f", {layout}"


def scatter(
    sizes: tuple[int, int] = (64, 32),
    parts: int = 2,
    kind: str = "sum",
    *,
    threads: int = 128,
    layout: object = None,
    target: object = None,
    rows: str = "",
    around: str = "{op}",
    cluster: int | None = None,
    element: str = "f32",
) -> str:
    """A kernel whose cluster combines tiles of X, one below the other, into Y."""
    high, wide = sizes
    share = wide // parts
    own = layout or (wgmma_accumulator(high, wide, (64, wide)))
    source = f"!gpu.fragment<[{high}, {wide}], {element}, {own}>"
    part = f"!gpu.fragment<[{high}, {share}], {element}{laid(target) if target else ''}>"
    said = f" rows {rows}" if rows else ""
    op = around.format(op=f"gpu.reduce_scatter {kind} %x{said} into %y : {source}, {part}")
    text = kernel(
        f"""
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %rank = gpu.cluster_rank
    %i = affine.apply affine_map<(d0) -> (d0 * {high})>(%rank)
    %x = gpu.fragment : {source}
    %y = gpu.fragment : {part}
    gpu.copy %X[%i, %zero] to %x : !gpu.global<[M, N], {element}>, {source}
    {op}
    %j = affine.apply affine_map<(d0) -> (d0 * {share})>(%rank)
    gpu.copy %y to %Y[%zero, %j] : {part}, !gpu.global<[R, N], {element}>""",
        f"%X: !gpu.global<[M, N], {element}> = tensor 0, %Y: !gpu.global<[R, N], {element}> = "
        "tensor 1, %M: index = symbol M, %N: index = symbol N, %R: index = symbol R",
        threads=threads,
        symbols="M, N, R",
        dispatch=f"""
  gpu.dispatch (X: !gpu.global<[M, N], {element}>) -> (Y: !gpu.global<[R, N], {element}>) {{
    gpu.launch @k align [4, 4] grid [{parts}]
  }}""",
    )
    return text.replace(f"threads {threads} {{", f"threads {threads} cluster {cluster or parts} {{")


def numbers(rows: int, columns: int) -> Array:
    found: Array = np.random.default_rng(0).standard_normal((rows, columns))
    return found.astype(np.float32)


def combined(x: Array, parts: int, kind: str) -> Array:
    """What the CTAs have, in the order of their ranks."""
    return functools.reduce(COMBINE[kind], np.split(x, parts))


SHAPES = {
    "two": ((64, 32), 2, 128, wgmma_accumulator(64, 32, (64, 32))),
    "four": ((64, 64), 4, 128, wgmma_accumulator(64, 64, (64, 64))),
    "eight": ((64, 64), 8, 128, wgmma_accumulator(64, 64, (64, 64))),
    "two warpgroups": ((128, 32), 2, 256, wgmma_accumulator(128, 32, (64, 32))),
    "mma.sync": ((32, 32), 2, 64, mma_sync_accumulator(32, 32, (16, 32))),
    "taller warps": ((32, 32), 4, 32, mma_sync_accumulator(32, 32, (32, 32))),
}


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("name", SHAPES)
def test_parts_are_combined_in_the_order_of_ranks(name: str, schedule: str) -> None:
    """To the bit, by the simulator and by the tiles themselves."""
    (high, wide), parts, threads, layout = SHAPES[name]
    x = numbers(parts * high, wide)
    text = scatter((high, wide), parts, threads=threads, layout=layout)
    sizes = {"M": parts * high, "N": wide, "R": high}
    result = simulate(only(run(text, *LOWERED), ModuleOp), [x], sizes, schedule=schedule, seed=3)
    result.check()
    wanted = combined(x, parts, "sum")
    np.testing.assert_array_equal(result.outputs[0], wanted)
    (played,) = playback.run(only(run(text), ModuleOp), [x], sizes)
    np.testing.assert_array_equal(played, wanted)


@pytest.mark.parametrize("kind", ["max", "min"])
def test_extremes_and_nan(kind: str) -> None:
    x = numbers(128, 32)
    x[3, 5] = x[70, 20] = np.nan
    module = only(run(scatter(kind=kind), *LOWERED), ModuleOp)
    result = simulate(module, [x], {"M": 128, "N": 32, "R": 64})
    result.check()
    wanted = combined(x, 2, kind)
    assert np.isnan(wanted[3, 5]) and np.isnan(wanted[6, 20])
    np.testing.assert_array_equal(result.outputs[0], wanted)


def test_integers() -> None:
    x = np.random.default_rng(0).integers(-99, 99, (128, 32)).astype(np.int32)
    module = only(run(scatter(element="i32"), *LOWERED), ModuleOp)
    result = simulate(module, [x], {"M": 128, "N": 32, "R": 64})
    result.check()
    np.testing.assert_array_equal(result.outputs[0], x[:64] + x[64:])


@pytest.mark.turns(3)
@pytest.mark.parametrize("inside", [1, 9, 40, 100])
@pytest.mark.parametrize("name", ["four", "taller warps"])
def test_rows_outside_do_not_travel(name: str, inside: int) -> None:
    (high, wide), parts, threads, layout = SHAPES[name]
    x = numbers(parts * high, wide)
    sizes = {"M": parts * high, "N": wide, "R": min(inside, high)}
    counted: list[int] = []
    for rows in ("%R", ""):
        text = scatter((high, wide), parts, threads=threads, layout=layout, rows=rows)
        result = simulate(only(run(text, *LOWERED), ModuleOp), [x], sizes)
        result.check()
        np.testing.assert_array_equal(result.outputs[0], combined(x, parts, "sum")[:inside])
        counted.append(result.counters.shared_write_bytes)
        (played,) = playback.run(only(run(text), ModuleOp), [x], sizes)
        np.testing.assert_array_equal(played, combined(x, parts, "sum")[:inside])
    assert counted[1] == parts * high * wide * 4
    assert (counted[0] < counted[1]) == (inside < high - 8)


def test_the_tiles_give_nothing_of_rows_outside() -> None:
    """What is unspecified is not a number in playback, so that nobody relies on it."""
    text = scatter(rows="%one")
    (played,) = playback.run(
        only(run(text), ModuleOp), [numbers(128, 32)], {"M": 128, "N": 32, "R": 64}
    )
    assert np.isfinite(played[0]).all() and np.isnan(played[1:]).all()


def test_neighbours_store_neighbouring_vectors() -> None:
    module = only(run(scatter((64, 64), 4), *LOWERED), ModuleOp)
    result = simulate(module, [numbers(256, 64)], {"M": 256, "N": 64, "R": 64})
    stores = find(module, hw.StoreClusterOp)
    assert {str(op.value.type) for op in stores} == {"vector<4xf32>"}
    assert result.counters.bank_conflicts == 0


# What orders them ----------------------------------------------------------------------


def without(kind: type[Operation], number: int = 0) -> ModuleOp:
    """The lowered kernel without one op."""
    module = only(run(scatter(), *LOWERED), ModuleOp)
    op = find(module, kind)[number]
    op.detach()
    op.erase()
    return module


def found(module: ModuleOp) -> set[str]:
    """The kinds of what the simulator finds in some interleavings."""
    kinds: set[str] = set()
    for seed in range(2):
        sizes = {"M": 128, "N": 32, "R": 64}
        result = simulate(module, [numbers(128, 32)], sizes, schedule="random", seed=seed)
        kinds |= {finding.kind for finding in result.findings}
    return kinds


def test_the_simulator_finds_nothing_in_what_is_lowered() -> None:
    assert found(only(run(scatter(), *LOWERED), ModuleOp)) == set()


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (hw.ClusterBarrierOp, "PeerLifetime"),
        (hw.BarrierOp, "DataRace"),
        (hw.MBarrierWaitOp, "DataRace"),
        (hw.MBarrierArriveClusterOp, "Deadlock"),
    ],
)
def test_the_simulator_finds_what_is_left_out(kind: type[Operation], wanted: str) -> None:
    kinds = found(without(kind))
    assert wanted in kinds, kinds


def test_the_wait_is_for_the_cluster() -> None:
    """An mbarrier's wait acquires what its own CTA did, unless it says more (PTX ISA)."""
    module = only(run(scatter(), *LOWERED), ModuleOp)
    assert only(module, hw.MBarrierWaitOp).cluster is not None
    assert only(module, hw.MBarrierArriveClusterOp).reads is None


# Refusals ------------------------------------------------------------------------------


def test_other_parts_than_the_cluster_has_are_refused() -> None:
    text = scatter((64, 64), 4, cluster=2)
    message = (
        "gpu.reduce_scatter makes 4 parts and the kernel's clusters have 2 CTAs; give both the "
        "same number"
    )
    assert_refused(text, "BadScatter", message, "gpu.reduce_scatter", *SHORT)


LOOP = "scf.for %t = %zero to %R step %one {{ {op} }}"
BRANCH = "%c = arith.cmpi eq, %rank, %one : index\n    scf.if %c {{ {op} }}"


@pytest.mark.parametrize(
    ("around", "where"),
    [
        (LOOP, "in a loop; move it out"),
        (BRANCH, "in a scf.if that they do not take together; move it out"),
    ],
)
def test_code_that_not_all_come_by_once_is_refused(around: str, where: str) -> None:
    error = refusal(scatter(around=around), *SHORT)
    assert error.kind == "DivergentBarrier" and error.message.endswith(where)


def test_a_branch_on_sizes_is_taken_together() -> None:
    around = "%c = arith.cmpi sgt, %R, %one : index\n    scf.if %c {{ {op} }}"
    x = numbers(128, 32)
    module = only(run(scatter(around=around), *LOWERED), ModuleOp)
    result = simulate(module, [x], {"M": 128, "N": 32, "R": 64})
    result.check()
    np.testing.assert_array_equal(result.outputs[0], combined(x, 2, "sum"))


@pytest.mark.parametrize(
    ("layout", "target", "words"),
    [
        # Warps beside each other hold different columns.
        (
            mma_sync_accumulator(32, 32, (16, 16)),
            None,
            "threads hold unlike places of parts of 16",
        ),
        # A thread's registers have more of one part than of the other.
        (
            "#gpu.fragment_layout<threads 128, registers 8, affine_map<(t, r) -> "
            "(t floordiv 4, t mod 4 + (r + 2) mod 8 * 4)>>",
            None,
            "does not hold the same of each part",
        ),
        # Eight threads side by side have the columns of both parts.
        (
            "#gpu.fragment_layout<threads 128, registers 8, affine_map<(t, r) -> "
            "(t floordiv 8 + r floordiv 4 * 16, t mod 8 * 4 + r mod 4)>>",
            None,
            "threads hold unlike places of parts of 16",
        ),
        (
            mma_sync_accumulator(32, 32, (16, 32)),
            mma_sync_accumulator(32, 16, (32, 16)),
            "leave the target's layout open",
        ),
    ],
)
def test_layouts_that_no_part_has_are_refused(layout: object, target: object, words: str) -> None:
    error = refusal(scatter((32, 32), 2, layout=layout, target=target), *SHORT)
    assert error.kind == "LayoutConflict" and words in error.message


def test_halves_are_refused() -> None:
    text = scatter(element="f16")
    message = (
        "a reduction is computed in f32, i32 or i64, not in f16; map the fragment to f32 first"
    )
    assert_refused(text, "UnsupportedReduce", message, "gpu.reduce_scatter", *SHORT)
