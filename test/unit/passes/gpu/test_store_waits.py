"""``gpu-store-waits`` and the lowering of stores: tiles leave by TMA, and in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects import arith, scf

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import (
    ORDER,
    assert_refused,
    find,
    kernel,
    refusal,
    run,
    unchanged,
)

LAYOUT = (
    "#gpu.fragment_layout<threads {threads}, registers {registers}, affine_map<(d0, d1) -> "
    "(d0 floordiv 32 * 16 + d0 mod 32 floordiv 4 + d1 floordiv 2 mod 2 * 8, "
    "d1 floordiv 4 * 8 + d0 mod 4 * 2 + d1 mod 2)>>"
)


def copy(
    rows: int = 128,
    threads: int = 256,
    element: str = "f16",
    layout: str | None = None,
    width: int = 64,
) -> str:
    """C = A by way of an accumulator's fragment of 128 columns, and of a tile of ``width``."""
    columns = 128
    registers = rows * columns // threads
    where = LAYOUT.format(threads=threads, registers=registers) if layout is None else layout
    fragment = f"!gpu.fragment<[{rows}, {columns}], {element}, {where}>"
    shared = f"!gpu.shared<[{rows}, {width}], {element}>"
    tensor = f"!gpu.global<[M, N], {element}>"
    stores = "".join(
        f"""
      gpu.copy %f to %c window <0, {first}> : {fragment}, {shared}
      %j{first} = affine.apply affine_map<(d0) -> (d0 + {first})> (%j)
      gpu.copy %c to %C[%i, %j{first}] loader "tma" : {shared}, {tensor}"""
        for first in range(0, columns, width)
    )
    return f"""gpu.module @m arch "sm_90a" symbols [M, N] assuming (N mod 8 == 0) {{
  gpu.kernel @k(%A: {tensor} = tensor 0, %C: {tensor} = tensor 1, %M: index = symbol M,
      %N: index = symbol N) threads {threads} {{
    %c = gpu.shared_tile : {shared}
    gpu.tile_loop (%i, %j, %n) = [%M, %N] tile <{rows}, {columns}> raster "row" 1 {{
      %f = gpu.fragment : {fragment}
      gpu.copy %A[%i, %j] to %f : {tensor}, {fragment}{stores}
    }}
    gpu.return
  }}
  gpu.dispatch (A: {tensor}) -> (C: {tensor}) {{
    gpu.launch @k align [16, 16] grid [M ceildiv {rows}, N ceildiv {columns}] persistent
  }}
}}
"""


def simulated(text: str, m: int, n: int, **options: Any) -> tuple[Any, Any]:
    a = np.random.default_rng(m).integers(-9, 10, (m, n)).astype(np.float16)
    return a, simulate(gpu_module_of(run(text, *ORDER)), [a], {"M": m, "N": n}, **options)


@pytest.mark.turns(3)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("width", [32, 64, 128])
def test_a_tile_is_stored_whole_and_in_time(width: int, schedule: str) -> None:
    a, result = simulated(copy(width=width), 300, 264, schedule=schedule, completion="random")
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], a)


def test_warpgroups_store_their_own_rows() -> None:
    """Each warpgroup meets alone; a scope of one has no more than itself."""
    module = run(copy(), *ORDER)
    assert find(module, hw.NamedBarrierOp) and not find(module, hw.BarrierOp)
    alone = run(copy(rows=64, threads=128), *ORDER)
    assert find(alone, hw.BarrierOp) and not find(alone, hw.NamedBarrierOp)


def test_accumulators_go_by_stmatrix() -> None:
    module = run(copy(), *ORDER)
    stores = find(module, hw.StmatrixOp)
    # 128 columns, 16 at once: two tiles, each in a loop of 4.
    loops = [op.parent_op() for op in stores]
    bounds = [loop.ub.owner for loop in loops if isinstance(loop, scf.ForOp)]
    assert [str(b.value) for b in bounds if isinstance(b, arith.ConstantOp)] == ["4 : index"] * 2
    assert not find(module, hw.StoreSharedOp)


def test_other_fragments_go_by_each_thread() -> None:
    rows = (
        "#gpu.fragment_layout<threads 256, registers 64, affine_map<(d0, d1) -> "
        "(d0 floordiv 16 + d1 floordiv 8 * 16, d0 mod 16 * 8 + d1 mod 8)>>"
    )
    text = copy(layout=rows, width=128)
    module = run(text, *ORDER)
    assert find(module, hw.StoreSharedOp) and not find(module, hw.StmatrixOp)
    assert find(module, hw.BarrierOp) and not find(module, hw.NamedBarrierOp)
    a, result = simulated(text, 130, 136)
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], a)


def test_without_the_wait_a_tile_is_overwritten() -> None:
    module = run(copy(), *ORDER)
    for op in find(module, hw.BulkWaitOp)[:-1]:
        op.detach()
    a = np.ones((130, 136), np.float16)
    result = simulate(gpu_module_of(module), [a], {"M": 130, "N": 136})
    assert "StageOverwritten" in {f.kind for f in result.findings}


def test_without_the_fence_the_copy_engine_sees_old_bytes() -> None:
    module = run(copy(), *ORDER)
    for op in find(module, hw.FenceProxyAsyncOp):
        op.detach()
    a = np.ones((130, 136), np.float16)
    result = simulate(gpu_module_of(module), [a], {"M": 130, "N": 136})
    assert "ProxyFence" in {f.kind for f in result.findings}


def test_the_kernel_outlives_its_stores() -> None:
    module = run(copy(), *ORDER)
    find(module, hw.BulkWaitOp)[-1].detach()
    a = np.ones((130, 136), np.float16)
    result = simulate(gpu_module_of(module), [a], {"M": 130, "N": 136})
    assert {f.kind for f in result.findings} == {"Unfinished"}


def test_a_kernel_without_stores_is_left_alone() -> None:
    unchanged(kernel("    gpu.barrier"), "gpu-store-waits")


# Stores through registers -----------------------------------------------------------------------

BY_THREADS = {
    "16 bytes": ("f16", 8, "vector<8xf16>"),
    "4 bytes": ("f16", 2, "vector<2xf16>"),
    "pairs, wherever they begin": ("f16", 1, "vector<2xf16>"),
    "f32": ("f32", 4, "vector<4xf32>"),
}


def by_threads(element: str, multiple: int, arch: str = "sm_90a") -> str:
    """The copy with stores through registers, of rows that are a multiple of so many elements."""
    text = copy(element=element) if element == "f16" else copy(64, 128, element, width=32)
    text = text.replace('loader "tma"', 'loader "register"')
    text = text.replace("N mod 8", f"N mod {multiple}").replace("sm_90a", arch)
    size = 4 if element == "f32" else 2
    return text.replace("align [16, 16]", f"align [{size * multiple}, {size * multiple}]")


@pytest.mark.turns(3)
@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize(("element", "multiple", "kind"), BY_THREADS.values(), ids=BY_THREADS)
def test_a_tile_is_stored_by_threads(element: str, multiple: int, kind: str, schedule: str) -> None:
    text = by_threads(element, multiple)
    module = run(text, *ORDER)
    stores = find(module, hw.StoreGlobalOp)
    alone = {"f16"} if multiple == 1 else set[str]()
    assert {str(op.value.type) for op in stores} == {kind, *alone}
    m, n = 300, 256 + multiple
    a = np.random.default_rng(m).integers(-9, 10, (m, n))
    a = a.astype(np.float16 if element == "f16" else np.float32)
    result = simulate(
        gpu_module_of(module), [a], {"M": m, "N": n}, schedule=schedule, completion="random"
    )
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], a)


def test_threads_meet_before_they_store_and_before_the_tile_is_filled_again() -> None:
    text = by_threads("f16", 8)
    barriers = len(find(run(text, *ORDER), hw.BarrierOp))
    assert barriers == 4, "for each of two tiles"
    a = np.ones((130, 136), np.float16)
    for missing in range(barriers):
        module = run(text, *ORDER)
        find(module, hw.BarrierOp)[missing].detach()
        result = simulate(gpu_module_of(module), [a], {"M": 130, "N": 136})
        assert "DataRace" in {f.kind for f in result.findings}


def test_a_store_without_a_loader_goes_by_threads_where_rows_are_loose() -> None:
    text = by_threads("f16", 2).replace(' loader "register"', "")
    module = run(text, *ORDER)
    assert find(module, hw.StoreGlobalOp) and not find(module, hw.TmaStoreOp)
    old = run(by_threads("f16", 8, "sm_80").replace(' loader "register"', ""), *ORDER)
    assert find(old, hw.StoreGlobalOp)


def test_a_store_of_rows_that_hold_no_whole_chunks_is_refused() -> None:
    tensor = "!gpu.global<[M, N], f16, align 16>"
    text = kernel(
        f"""
    %c = gpu.shared_tile : !gpu.shared<[128, 4], f16>
    gpu.copy %c to %C[%M, %M] loader "register" : !gpu.shared<[128, 4], f16>, {tensor}""",
        f"%C: {tensor} = tensor 0, %M: index = symbol M",
        symbols="M, N",
    )
    message = (
        "register moves 8 elements at once and rows of !gpu.shared<[128, 4], f16, swizzle 0> have "
        "4; make rows a multiple of 8"
    )
    passes = ("gpu-layout-inference", "gpu-lower-tile-ops")
    assert_refused(text, "UnsupportedCopy", message, "gpu.copy", *passes)


# Stores with tokens ------------------------------------------------------------------------------


def awaited(between: str = "", ring: bool = True) -> str:
    """The copy, whose two stores each give a token; ``between`` stands between the awaits.

    With ``ring`` each store has a slot of its own, and both are awaited in the end.
    """
    text = copy()
    stores = [line for line in text.splitlines() if "gpu.copy %c to" in line]
    for number, line in enumerate(stores):
        text = text.replace(line, f"      %t{number} = {line.strip()} -> !gpu.token")
    end = "    }\n    gpu.return"
    if not ring:
        refill = "      gpu.copy %f to %c window <0, 64>"
        text = text.replace(refill, f"      gpu.await %t0\n{refill}")
        return text.replace(end, f"      gpu.await %t1\n{end}")
    text = text.replace("[128, 64], f16>", "[128, 64], f16, ring 2>")
    for slot, column in ((0, 0), (1, 64)):
        text = text.replace("%c = gpu", f"%s{slot} = arith.constant {slot} : index\n    %c = gpu")
        text = text.replace(f"%c window <0, {column}>", f"%c slot %s{slot} window <0, {column}>")
        text = text.replace(f"%c to %C[%i, %j{column}]", f"%c slot %s{slot} to %C[%i, %j{column}]")
    return text.replace(end, f"      gpu.await %t0\n{between}      gpu.await %t1\n{end}")


@pytest.mark.turns(3)
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("ring", [True, False])
def test_a_token_says_when_a_tile_may_be_filled_again(ring: bool, schedule: str) -> None:
    a, result = simulated(awaited(ring=ring), 300, 264, schedule=schedule, completion="random")
    assert result.findings == []
    np.testing.assert_array_equal(result.outputs[0], a)


def test_a_store_s_token_is_one_wait_for_reading_by_the_thread_that_stored() -> None:
    module = run(awaited(), *ORDER)
    waits = find(module, hw.BulkWaitOp)
    assert [(op.pending.value.data, op.read is not None) for op in waits] == [(1, True), (0, True)]
    for op in waits:
        branch, meeting = op.parent_op(), op.parent_op()
        assert isinstance(branch, scf.IfOp) and meeting is not None
        assert isinstance(meeting.next_op, hw.BarrierOp)


@pytest.mark.parametrize("which", [0, 1])
def test_without_a_token_s_wait_a_tile_is_overwritten(which: int) -> None:
    (refill,) = (line for line in awaited().splitlines() if "to %c slot %s0 window" in line)
    module = run(awaited(f"{refill}\n"), *ORDER)
    find(module, hw.BulkWaitOp)[which].detach()
    a = np.ones((300, 264), np.float16)
    result = simulate(gpu_module_of(module), [a], {"M": 300, "N": 264}, completion="late")
    assert {f.kind for f in result.findings} & {"StageOverwritten", "Unfinished"}


REFUSED = {
    "twice": ("TokenAwaitedTwice", "%t1 was awaited", awaited("      gpu.await %t1\n")),
    "never": ("TokenNeverAwaited", "nothing awaits %t0", awaited().replace("gpu.await %t0", "")),
    "too late": (
        "TileInFlight",
        "gpu.copy fills a tile that a store under way still reads",
        awaited(ring=False)
        .replace("      gpu.await %t0\n", "")
        .replace("await %t1", "await %t0, %t1"),
    ),
    "through registers": (
        "NotLowered",
        "a copy through registers is done when it is issued",
        awaited().replace('loader "tma"', 'loader "register"'),
    ),
}


@pytest.mark.parametrize(("kind", "message", "text"), REFUSED.values(), ids=REFUSED)
def test_a_token_is_awaited_once_and_in_time(kind: str, message: str, text: str) -> None:
    error = refusal(text, *ORDER)
    assert error.kind == kind and message in error.message
