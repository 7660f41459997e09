"""``gpu-store-waits`` and the lowering of stores: tiles leave by TMA, and in time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu import SCHEDULES, simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.unit.gpu_text import ORDER, find, run, unchanged

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
    assert len(find(module, hw.StmatrixOp)) == 8  # 128 columns, 16 at once
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
    text = copy().replace('loader "tma"', 'loader "register"')
    unchanged(text, "gpu-store-waits")
