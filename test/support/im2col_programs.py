"""Kernels that read the rows of an implicit GEMM, and what they must read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.im2col import Im2colAttr

Array = NDArray[Any]

GEOMETRIES = {
    "same": Im2colAttr.of([3, 3], [1, 1], [1, 1]),
    "valid": Im2colAttr.of([2, 3]),
    "strided": Im2colAttr.of([3, 3], [2, 2], [1, 1]),
    "uneven": Im2colAttr.of([3, 5], [2, 3], [0, 2], [2, 1]),
    "pointwise": Im2colAttr.of([1, 1], [2, 1]),
    "lopsided": Im2colAttr.of([3, 2], [2, 1], [0, 1], after=[1, 0]),
}
"""Filters that move in different ways."""


def rows(x: Array, geometry: Im2colAttr) -> Array:
    """``[taps, pixels of the output, channels]``, element by element from the definition."""
    images, height, width, channels = x.shape
    down, across = geometry.output(height, width)
    taps = [(r, s) for r in range(geometry.taps[0]) for s in range(geometry.taps[1])]
    found = np.zeros((len(taps), images, down, across, channels), x.dtype)
    for tap, (r, s) in enumerate(taps):
        for p in range(down):
            for q in range(across):
                h = p * geometry.steps[0] - geometry.pads[0] + r * geometry.dilations[0]
                w = q * geometry.steps[1] - geometry.pads[1] + s * geometry.dilations[1]
                if 0 <= h < height and 0 <= w < width:
                    found[tap, :, p, q] = x[:, h, w]
    return found.reshape(len(taps), -1, channels)


def convolution(x: Array, weights: Array, geometry: Im2colAttr) -> Array:
    """``[N, P, Q, K]`` in f32, of weights ``[K, R, S, C]``."""
    images, height, width, channels = x.shape
    down, across = geometry.output(height, width)
    filters = weights.astype(np.float32).reshape(weights.shape[0], -1, channels)
    taken = rows(x.astype(np.float32), geometry)
    result = np.einsum("tmc,ktc->mk", taken, filters)
    return result.reshape(images, down, across, -1)


def copy_kernel(
    geometry: Im2colAttr, pixels: int = 32, edits: Sequence[tuple[str, str]] = ()
) -> str:
    """A kernel @taps that copies every tap of every pixel by TMA, from X to Y [taps, T, C].

    ``T`` is as many rows as are wanted; those past the last pixel are zeros.  P and Q are the
    output's height and width.
    """
    (r_taps, s_taps), (stride_h, stride_w) = geometry.taps, geometry.steps
    (pad_h, pad_w), (dil_h, dil_w) = geometry.pads, geometry.dilations
    end_h, end_w = geometry.pads_after
    upper = [end_h - (r_taps - 1) * dil_h, end_w - (s_taps - 1) * dil_w]
    tensor_map = (
        f"!gpu.im2col_map<[{pixels}, 64], f16, swizzle 128, lower [{-pad_h}, {-pad_w}], "
        f"upper {upper}, strides [{stride_h}, {stride_w}]>"
    )
    tile = f"!gpu.shared<[{pixels}, 64], f16, swizzle 128>"
    taps = r_taps * s_taps
    output = f"!gpu.global<[{taps}, T, C], f16, align 16>"
    text = f"""gpu.module @im2col arch "sm_90a" symbols [N, H, W, C, T, P, Q] {{
  gpu.kernel @taps(%Y: {output} = tensor 1, %C: index = symbol C, %T: index = symbol T,
      %P: index = symbol P, %Q: index = symbol Q, %map: {tensor_map} = tensor_map 0)
      threads 32 shared_bytes {pixels * 128 + 8} {{
    %tile = gpu.shared_tile at 0 : {tile}
    %full = gpu.mbarrier at {pixels * 128} : !gpu.mbarrier<1>
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %step = arith.constant 64 : index
    %taps = arith.constant {taps} : index
    %rows = arith.constant {pixels} : index
    %eight = arith.constant 8 : index
    %lane = gpu.thread_id
    %block = gpu.block_id
    %leader = arith.cmpi eq, %lane, %zero : index
    gpu.prefetch_tensor_map %map : {tensor_map}
    scf.if %leader {{
      gpu.mbarrier_init %full[%zero] count 1 : !gpu.mbarrier<1>
      gpu.fence_mbarrier_init
    }}
    gpu.barrier
    %m = affine.apply affine_map<(d0) -> (d0 * {pixels})> (%block)
    %line = arith.divui %m, %Q : index
    %q = arith.remui %m, %Q : index
    %n = arith.divui %line, %P : index
    %p = arith.remui %line, %P : index
    %h = affine.apply affine_map<(d0) -> (d0 * {stride_h} - {pad_h})> (%p)
    %w = affine.apply affine_map<(d0) -> (d0 * {stride_w} - {pad_w})> (%q)
    %blocks = affine.apply affine_map<(d0) -> ((d0 + 63) floordiv 64)> (%C)
    scf.for %tap = %zero to %taps step %one {{
      %r = affine.apply affine_map<(d0) -> (d0 floordiv {s_taps} * {dil_h})> (%tap)
      %s = affine.apply affine_map<(d0) -> (d0 mod {s_taps} * {dil_w})> (%tap)
      scf.for %b = %zero to %blocks step %one {{
        %c = affine.apply affine_map<(d0) -> (d0 * 64)> (%b)
        %before = arith.muli %tap, %blocks : index
        %it = arith.addi %before, %b : index
        %parity = affine.apply affine_map<(d0) -> (d0 mod 2)> (%it)
        %base = gpu.shared_address %tile[%zero] : {tile}
        scf.if %leader {{
          gpu.mbarrier_expect %full[%zero] bytes {pixels * 128} : !gpu.mbarrier<1>
          gpu.tma_load_im2col %map[%n, %h, %w, %c] offsets [%r, %s] to %base, %full[%zero]
            : {tensor_map}, !gpu.mbarrier<1>
        }}
        gpu.mbarrier_wait %full[%zero] parity %parity : !gpu.mbarrier<1>
        %chunk = affine.apply affine_map<(d0) -> (d0 mod 8)> (%lane)
        scf.for %j = %zero to %rows step %one {{
          %first = arith.cmpi slt, %lane, %eight : index
          %row = affine.apply affine_map<(d0, d1) -> (d0 + d1)> (%m, %j)
          %place = affine.apply affine_map<(d0) -> (d0 mod 8)> (%j)
          %where = arith.xori %chunk, %place : index
          %byte = affine.apply affine_map<(d0, d1) -> (d0 * 128 + d1 * 16)> (%j, %where)
          %byte32 = arith.index_cast %byte : index to i32
          %address = arith.addi %base, %byte32 : i32
          %at = affine.apply affine_map<(d0, d1) -> (d0 + d1 * 8)> (%c, %chunk)
          %in_rows = arith.cmpi slt, %row, %T : index
          %in_columns = arith.cmpi slt, %at, %C : index
          %inside = arith.andi %in_rows, %in_columns : i1
          %mine = arith.andi %inside, %first : i1
          %value = gpu.load_shared %address : vector<8xf16>
          gpu.store_global %value, %Y[%tap, %row, %at : index, index, index] if %mine
            : vector<8xf16>, {output}
        }}
        gpu.barrier
      }}
    }}
    gpu.return
  }}
  gpu.dispatch (X: !gpu.global<[N, H, W, C], f16>) -> (Y: !gpu.global<[{taps}, T, C], f16>) {{
    gpu.launch @taps when (C mod 8 == 0) align [16, 16] grid [(T + {pixels - 1}) floordiv {pixels}]
  }}
}}
"""
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


def convolution_program(
    geometry: Im2colAttr,
    arch: str = "sm_80",
    when: str = "C mod 2 == 0, K mod 2 == 0",
    align: int = 4,
    tile: tuple[int, int, int] = (64, 32, 32),
    threads: int = 64,
    warp_tile: tuple[int, int] = (32, 32),
    loader: str = "",
    stages: int = 2,
) -> str:
    """A tile program @conv: X [N, H, W, C] and F [K, taps, C] to Y [pixels, K].

    ``loader`` is a clause of both copies, such as ``loader "register" ``.
    """
    bm, bn, bk = tile
    taps = geometry.taps[0] * geometry.taps[1]
    sizes = [str(d) for d in geometry.output_dims(Dim.sym("H"), Dim.sym("W"))]
    pixels = f"N * ({sizes[0]}) * ({sizes[1]})"

    def extent(axis: int) -> str:
        before, after, count, dilation, step = (
            pair[axis]
            for pair in (
                geometry.pads,
                geometry.pads_after,
                geometry.taps,
                geometry.dilations,
                geometry.steps,
            )
        )
        more = before + after - (count - 1) * dilation - 1
        return f"affine_map<(d0) -> ((d0 + {more}) floordiv {step} + 1)>"

    x, f = "!gpu.global<[N, H, W, C], f16>", f"!gpu.global<[K, {taps}, C], f16>"
    y = f"!gpu.global<[{pixels}, K], f16>"
    a, b = f"!gpu.shared<[{bm}, {bk}], f16>", f"!gpu.shared<[{bn}, {bk}], f16>"
    acc = f"!gpu.fragment<[{bm}, {bn}], f32>"
    mma = "wgmma" if arch == "sm_90a" else "mma.sync"
    return f"""gpu.module @m arch "{arch}" symbols [N, H, W, C, K] {{
  gpu.kernel @conv(%X: {x} = tensor 0, %F: {f} = tensor 1, %Y: {y} = tensor 2,
      %N: index = symbol N, %H: index = symbol H, %W: index = symbol W, %C: index = symbol C,
      %K: index = symbol K) threads {threads} {{
    %P = affine.apply {extent(0)} (%H)
    %Q = affine.apply {extent(1)} (%W)
    %NP = arith.muli %N, %P : index
    %M = arith.muli %NP, %Q : index
    %m0, %k0 = gpu.tile_coordinates[%M, %K] tile <{bm}, {bn}> raster "grouped" 8
    %line = arith.divui %m0, %Q : index
    %before = arith.muli %line, %Q : index
    %q = arith.subi %m0, %before : index
    %n = arith.divui %line, %P : index
    %above = arith.muli %n, %P : index
    %p = arith.subi %line, %above : index
    %acc = gpu.fragment : {acc}
    %zero = arith.constant 0.0 : f32
    gpu.fill %zero, %acc : {acc}
    %a = gpu.shared_tile : {a}
    %b = gpu.shared_tile : {b}
    %blocks = affine.apply affine_map<(d0) -> ((d0 + {bk - 1}) floordiv {bk})> (%C)
    %steps = affine.apply affine_map<(d0) -> (d0 * {taps})> (%blocks)
    gpu.pipeline %d, %i = to %steps step 1 stages {stages} {{
      %tap = arith.divui %i, %blocks : index
      %done = arith.muli %tap, %blocks : index
      %block = arith.subi %i, %done : index
      %c = affine.apply affine_map<(d0) -> (d0 * {bk})> (%block)
      %r = affine.apply affine_map<(d0) -> (d0 floordiv {geometry.taps[1]})> (%tap)
      %s = affine.apply affine_map<(d0) -> (d0 mod {geometry.taps[1]})> (%tap)
      gpu.copy %X[%n, %p, %q, %c] to %a im2col {geometry} tap [%r, %s] {loader}: {x}, {a}
      gpu.copy %F[%k0, %tap, %c] to %b axes <0, 2> {loader}: {f}, {b}
      gpu.contract %a affine_map<(m, n, k) -> (m, k)>, %b affine_map<(m, n, k) -> (n, k)>
        into %acc mma "{mma}" warp_tile <{warp_tile[0]}, {warp_tile[1]}> : {a}, {b}, {acc}
    }}
    gpu.map %acc : {acc} origin [%m0, %k0] ins()
        outs(%Y : {y} affine_map<(d0, d1)[s0, s1] -> (d0 + s0, d1 + s1)>) {{
    ^bb0(%v : f32):
      %h = arith.truncf %v : f32 to f16
      gpu.yield %h : f16
    }}
    gpu.return
  }}
  gpu.dispatch (X: {x}, F: {f}) -> (Y: {y}) {{
    gpu.launch @conv when ({when}) align [{align}, {align}, {align}]
        grid [({pixels} + {bm - 1}) floordiv {bm}, (K + {bn - 1}) floordiv {bn}]
  }}
}}
"""
