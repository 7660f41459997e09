"""Kernels that read the rows of an implicit GEMM, and what they must read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyc.dialects.gpu.im2col import Im2colAttr

Array = NDArray[Any]

GEOMETRIES = {
    "same": Im2colAttr.of([3, 3], [1, 1], [1, 1]),
    "valid": Im2colAttr.of([2, 3]),
    "strided": Im2colAttr.of([3, 3], [2, 2], [1, 1]),
    "uneven": Im2colAttr.of([3, 5], [2, 3], [0, 2], [2, 1]),
    "pointwise": Im2colAttr.of([1, 1], [2, 1]),
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
    upper = [pad_h - (r_taps - 1) * dil_h, pad_w - (s_taps - 1) * dil_w]
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
