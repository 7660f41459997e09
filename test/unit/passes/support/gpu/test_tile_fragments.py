"""Copies, maps and atomics of fragments: lowered, simulated, and held to NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.pipeline import GPU_PASSES
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import assert_refused, find, kernel, only, refusal, run

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


SHORT = ("gpu-layout-inference", "gpu-lower-tile-ops")
MATRIX = "!gpu.global<[M, N], f16, align 16>"
ARGS = (
    f"%X: {MATRIX} = tensor 0, %Y: {MATRIX} = tensor 1, %M: index = symbol M, %N: index = symbol N"
)
DISPATCH = """
  gpu.dispatch (X: !gpu.global<[M, N], f16>) -> (Y: !gpu.global<[M, N], f16>) {
    gpu.launch @k when (N mod 8 == 0) align [16, 16] grid [1]
  }"""


def simulated(
    body: str, x: np.ndarray[Any, Any], dispatch: str = DISPATCH, args: str = ARGS
) -> Any:
    text = kernel(body, args, arch="sm_80", symbols="M, N", dispatch=dispatch)
    sizes = {"M": x.shape[0], "N": x.shape[1]}
    result = simulate(gpu_module(text), [x], sizes, schedule="random", seed=4)
    result.check()
    return result.outputs[0]


@pytest.mark.parametrize("swizzle", ["", ", swizzle 64", ", swizzle 128"])
def test_through_shared_memory(swizzle: str) -> None:
    """A tile goes into halves of a wider one, and comes back by halves of another tile's width."""
    shared = f"!gpu.shared<[16, 128], f16{swizzle}>"
    x = np.random.default_rng(1).standard_normal((16, 128)).astype(np.float16)
    found = simulated(
        f"""
    %zero = arith.constant 0 : index
    %half = arith.constant 64 : index
    %f = gpu.fragment : !gpu.fragment<[16, 64], f16>
    %g = gpu.fragment : !gpu.fragment<[16, 128], f16>
    %t = gpu.shared_tile : {shared}
    %u = gpu.shared_tile : !gpu.shared<[16, 64], f16>
    gpu.copy %X[%zero, %zero] to %f : {MATRIX}, !gpu.fragment<[16, 64], f16>
    gpu.copy %f to %t window <0, 64> : !gpu.fragment<[16, 64], f16>, {shared}
    gpu.copy %X[%zero, %half] to %f : {MATRIX}, !gpu.fragment<[16, 64], f16>
    gpu.copy %f to %t window <0, 0> : !gpu.fragment<[16, 64], f16>, {shared}
    gpu.barrier
    gpu.copy %t to %g : {shared}, !gpu.fragment<[16, 128], f16>
    gpu.copy %g to %Y[%zero, %zero] : !gpu.fragment<[16, 128], f16>, {MATRIX}
    """,
        x,
    )
    assert np.array_equal(found, np.concatenate([x[:, 64:], x[:, :64]], 1))


PIECES = (
    "!gpu.fragment<[8, 256], f16, #gpu.fragment_layout<threads 128, registers 16, "
    "affine_map<(t, r) -> (t floordiv 16, r floordiv 8 * 128 + t mod 16 * 8 + r mod 8)>>>"
)


def test_a_window_of_the_registers() -> None:
    """The right half of a fragment, which all threads hold in the same registers."""
    x = np.random.default_rng(2).standard_normal((8, 256)).astype(np.float16)
    found = simulated(
        f"""
    %zero = arith.constant 0 : index
    %f = gpu.fragment : {PIECES}
    %g = gpu.fragment : !gpu.fragment<[8, 128], f16>
    %t = gpu.shared_tile : !gpu.shared<[8, 128], f16>
    gpu.copy %X[%zero, %zero] to %f : {MATRIX}, {PIECES}
    gpu.copy %f to %t window <0, 128> : {PIECES}, !gpu.shared<[8, 128], f16>
    gpu.barrier
    gpu.copy %t to %g : !gpu.shared<[8, 128], f16>, !gpu.fragment<[8, 128], f16>
    gpu.copy %g to %Y[%zero, %zero] : !gpu.fragment<[8, 128], f16>, {MATRIX}
    gpu.copy %t to %f window <0, 0> : !gpu.shared<[8, 128], f16>, {PIECES}
    gpu.copy %f to %Y[%zero, %zero] : {PIECES}, {MATRIX}
    """,
        x,
    )
    assert np.array_equal(found, np.concatenate([x[:, 128:], x[:, 128:]], 1))


def test_a_window_that_cuts_registers_apart() -> None:
    text = kernel(f"""
    %f = gpu.fragment : {PIECES}
    %t = gpu.shared_tile : !gpu.shared<[8, 64], f16>
    gpu.copy %f to %t window <0, 32> : {PIECES}, !gpu.shared<[8, 64], f16>""")
    message = (
        "register 0 of some threads lies in the window at [0, 32] and of others does not; move the "
        "window or annotate another layout"
    )
    assert_refused(text, "UnsupportedCopy", message, "gpu.copy", *SHORT)


def test_atomics_add_what_each_element_holds_once() -> None:
    """Threads that repeat an element add it once, and none beyond the tensor."""
    x = np.arange(3 * 24, dtype=np.float16).reshape(3, 24)
    fragment = "!gpu.fragment<[4, 32], f32>"
    found = simulated(
        f"""
    %zero = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    %f = gpu.fragment : {fragment}
    gpu.fill %one, %f : {fragment}
    gpu.atomic "add" %f to %Y[%zero, %zero] : {fragment}, !gpu.global<[M, N], f32>
    gpu.atomic "add" %f to %Y[%zero, %zero] : {fragment}, !gpu.global<[M, N], f32>
    """,
        x,
        """
  gpu.kernel @set(%Y: !gpu.global<[M, N], f32> = tensor 1,
      %M: index = symbol M, %N: index = symbol N) threads 128 {
    %zero = arith.constant 0 : index
    %two = arith.constant 2.0 : f32
    %f = gpu.fragment : !gpu.fragment<[4, 32], f32>
    gpu.fill %two, %f : !gpu.fragment<[4, 32], f32>
    gpu.copy %f to %Y[%zero, %zero] : !gpu.fragment<[4, 32], f32>, !gpu.global<[M, N], f32>
    gpu.return
  }
  gpu.dispatch (X: !gpu.global<[M, N], f16>) -> (Y: !gpu.global<[M, N], f32>) {
    gpu.sequence @both align [2, 4] {
      gpu.launch @set grid [1]
      gpu.launch @k grid [1]
    }
  }""",
        "%X: !gpu.global<[M, N], f16> = tensor 0, %Y: !gpu.global<[M, N], f32> = tensor 1, "
        "%M: index = symbol M, %N: index = symbol N",
    )
    assert (found == 4).all()


# What a map reads ----------------------------------------------------------------------


def test_a_map_reads_statistics_shared_tiles_and_its_place() -> None:
    x = np.random.default_rng(3).standard_normal((4, 256)).astype(np.float16)
    found = simulated(
        f"""
    %zero = arith.constant 0 : index
    %f = gpu.fragment : !gpu.fragment<[4, 256], f16>
    %w = gpu.fragment : !gpu.fragment<[4, 256], f32>
    %m = gpu.fragment : !gpu.fragment<[4], f32>
    %t = gpu.shared_tile : !gpu.shared<[4, 256], f16>
    gpu.copy %X[%zero, %zero] to %f : {MATRIX}, !gpu.fragment<[4, 256], f16>
    gpu.copy %f to %t : !gpu.fragment<[4, 256], f16>, !gpu.shared<[4, 256], f16>
    gpu.barrier
    gpu.map %f : !gpu.fragment<[4, 256], f16> origin [] ins()
      outs(%w : !gpu.fragment<[4, 256], f32> affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%e : f16):
      %v = arith.extf %e : f16 to f32
      gpu.yield %v : f32
    }}
    gpu.reduce max %w by affine_map<(i, j) -> (i)> into %m
      : !gpu.fragment<[4, 256], f32>, !gpu.fragment<[4], f32>
    gpu.map %w : !gpu.fragment<[4, 256], f32> origin []
      ins(%m : !gpu.fragment<[4], f32> affine_map<(i, j) -> (i)>,
          %t : !gpu.shared<[4, 256], f16> affine_map<(i, j) -> (i, 255 - j)>)
      outs(%f : !gpu.fragment<[4, 256], f16> affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%e : f32, %top : f32, %mirror : f16):
      %j = gpu.tile_index 1
      %limit = arith.constant 100 : index
      %low = arith.cmpi slt, %j, %limit : index
      %half = arith.truncf %top : f32 to f16
      %v = arith.select %low, %mirror, %half : f16
      gpu.yield %v : f16
    }}
    gpu.copy %f to %Y[%zero, %zero] : !gpu.fragment<[4, 256], f16>, {MATRIX}
    """,
        x,
    )
    want = np.where(np.arange(256) < 100, x[:, ::-1], x.max(1, keepdims=True))
    assert np.array_equal(found, want)


def test_a_map_does_not_read_other_threads_registers() -> None:
    backwards = (
        "!gpu.fragment<[128], f32, #gpu.fragment_layout<threads 128, registers 1, "
        "affine_map<(t, r) -> (127 - t)>>>"
    )
    text = kernel(f"""
    %f = gpu.fragment : !gpu.fragment<[128, 4], f32>
    %m = gpu.fragment : {backwards}
    gpu.map %f : !gpu.fragment<[128, 4], f32> origin []
      ins(%m : {backwards} affine_map<(i, j) -> (i)>)
      outs(%f : !gpu.fragment<[128, 4], f32> affine_map<(i, j) -> (i, j)>) {{
    ^bb0(%e : f32, %s : f32):
      gpu.yield %s : f32
    }}""")
    error = refusal(text, *SHORT)
    assert error.kind == "LayoutConflict" and "another thread holds it" in error.message


def test_more_threads_hold_a_fragment_than_run() -> None:
    text = kernel(copy_of(256), threads=128)
    message = (
        "256 threads hold !gpu.fragment<[256], f16, #gpu.fragment_layout<threads 256, registers 1, "
        "affine_map<(d0, d1) -> (d0)>>> and 128 run this; launch more threads or annotate another "
        "layout"
    )
    assert_refused(text, "ThreadMismatch", message, "gpu.copy", *SHORT)


def copy_of(threads: int) -> str:
    kind = (
        f"!gpu.fragment<[{threads}], f16, #gpu.fragment_layout<threads {threads}, registers 1, "
        "affine_map<(t, r) -> (t)>>>"
    )
    return f"""
    %f = gpu.fragment : {kind}
    %t = gpu.shared_tile : !gpu.shared<[{threads}], f16>
    gpu.copy %f to %t : {kind}, !gpu.shared<[{threads}], f16>"""
