"""Fragments to and from shared memory, and who must know of whose bytes."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.playback.gpu import SimulationResult, simulate
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def kinds(result: SimulationResult) -> set[str]:
    return {f.kind for f in result.findings}


MATRIX = """
gpu.module @matrix arch "sm_90a" symbols [N] {
  gpu.kernel @matrix(
      %X: !gpu.global<[N], f16, align 16> = tensor 0,
      %Y: !gpu.global<[N], f16, align 16> = tensor 1) threads 32 shared_bytes 1024 {
    %thread = gpu.thread_id
    %zero = arith.constant 0 : index
    %tile = gpu.shared_tile at 0 : !gpu.shared<[32, 8], f16, swizzle 0>
    %copy = gpu.shared_tile at 512 : !gpu.shared<[32, 8], f16, swizzle 0>
    %at = affine.apply affine_map<(d0) -> (d0 * 8)> (%thread)
    %byte = affine.apply affine_map<(d0) -> (d0 * 16)> (%thread)
    %byte32 = arith.index_cast %byte : index to i32
    %base = gpu.shared_address %tile[%zero] : !gpu.shared<[32, 8], f16, swizzle 0>
    %other = gpu.shared_address %copy[%zero] : !gpu.shared<[32, 8], f16, swizzle 0>
    %from = arith.addi %base, %byte32 : i32
    %to = arith.addi %other, %byte32 : i32
    %x = gpu.load_global %X[%at : index] : !gpu.global<[N], f16, align 16> -> vector<8xf16>
    gpu.store_shared %x, %from : vector<8xf16>
    gpu.barrier
    %r = memref.alloca() : memref<4xi32, #gpu<space register>>
    gpu.ldmatrix LOAD %from to %r[%zero] : memref<4xi32, #gpu<space register>>
    gpu.stmatrix STORE %r[%zero] to %to : memref<4xi32, #gpu<space register>>
    gpu.barrier
    %y = gpu.load_shared %to : vector<8xf16>
    gpu.store_global %y, %Y[%at : index] : vector<8xf16>, !gpu.global<[N], f16, align 16>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[N], f16>) -> (Y: !gpu.global<[N], f16>) {
    gpu.launch @matrix align [16, 16] grid [1]
  }
}
"""


@pytest.mark.parametrize("load", ["", "transpose"])
@pytest.mark.parametrize("store", ["", "transpose"])
def test_stmatrix_undoes_ldmatrix(load: str, store: str) -> None:
    text = MATRIX.replace("LOAD", load).replace("STORE", store)
    x = np.arange(256, dtype=np.float16)
    result = simulate(parse_text(make_context(), text, "matrix.mlir"), [x], {"N": 256})
    result.check()
    blocks = x.reshape(4, 8, 8)
    wanted = blocks if load == store else blocks.transpose(0, 2, 1)
    np.testing.assert_array_equal(result.outputs[0], wanted.reshape(-1))


def test_a_store_by_other_lanes_needs_a_barrier_before_ldmatrix() -> None:
    """Lanes of one warp do not know of each other's stores; each reads its own row here."""
    text = MATRIX.replace("LOAD", "").replace("STORE", "").replace("    gpu.barrier\n", "")
    x = np.arange(256, dtype=np.float16)
    module = parse_text(make_context(), text, "matrix.mlir")
    assert kinds(simulate(module, [x], {"N": 256})) == set()
    swapped = text.replace("-> (d0 * 16)> (%thread)", "-> (d0 * 16)> (%thread)", 1).replace(
        "gpu.ldmatrix  %from", "gpu.ldmatrix  %base"
    )
    assert swapped != text
    module = parse_text(make_context(), swapped, "matrix.mlir")
    assert "DataRace" in kinds(simulate(module, [x], {"N": 256}))
