"""Copies, maps and atomics of fragments: lowered, simulated, and held to NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.gpu_pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.test.unit.gpu_text import find, kernel, only, run

LOWERED = list(GPU_PASSES)


def copy(shape: str, tile: str, element: str, align: int, threads: int = 128) -> str:
    """Copy a tensor by tiles, a CTA a band of rows."""
    rows, columns = (int(n) for n in tile.split(", "))
    kind = f"!gpu.global<[M, N], {element}{f', align {align}' if align else ''}>"
    fragment = f"!gpu.fragment<[{tile}], {element}>"
    bytes_ = max(align, 2)
    return kernel(
        f"""
    %b = gpu.block_id
    %i = affine.apply affine_map<(d0) -> (d0 * {rows})> (%b)
    %zero = arith.constant 0 : index
    %one = arith.constant {columns} : index
    %f = gpu.fragment : {fragment}
    scf.for %j = %zero to %N step %one {{
      gpu.copy %X[%i, %j] to %f : {kind}, {fragment}
      gpu.copy %f to %Y[%i, %j] : {fragment}, {kind}
    }}""",
        f"%X: {kind} = tensor 0, %Y: {kind} = tensor 1, %M: index = symbol M, %N: index = symbol N",
        arch="sm_80",
        threads=threads,
        symbols="M, N",
        dispatch=f"""
  gpu.dispatch (X: !gpu.global<[M, N], {element}>) -> (Y: !gpu.global<[M, N], {element}>) {{
    gpu.launch @k when (N mod {bytes_ // 2} == 0) align [{bytes_}, {bytes_}] grid [M ceildiv {rows}]
  }}""",
    )


def gpu_module(text: str) -> ModuleOp:
    return only(run(text, *LOWERED), ModuleOp)


@pytest.mark.parametrize(
    ("tile", "align", "n", "bytes_"),
    [
        ("4, 256", 16, 520, 16),
        ("4, 256", 8, 516, 8),
        ("4, 256", 4, 258, 4),
        ("4, 256", 0, 259, 2),
        # More threads than vectors: one of them writes.
        ("1, 64", 16, 96, 16),
        ("8, 8", 16, 24, 16),
    ],
)
def test_there_and_back(tile: str, align: int, n: int, bytes_: int) -> None:
    """Tails below and to the right stay zeros and unwritten; accesses are as wide as proven."""
    text = copy("", tile, "f16", align)
    x = np.random.default_rng(0).standard_normal((9, n)).astype(np.float16)
    result = simulate(gpu_module(text), [x], {"M": 9, "N": n}, schedule="random", seed=1)
    result.check()
    assert np.array_equal(result.outputs[0], x)
    lowered = run(text, *LOWERED)
    widths = {hw.access_bytes(op.result.type) for op in find(lowered, hw.LoadGlobalOp)}
    assert widths == {bytes_}
