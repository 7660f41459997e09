"""Tensor-core instructions: which lane holds what, and what a wgmma descriptor addresses.

Layouts are those of the PTX ISA: ``ldmatrix`` (9.7.15.5), ``mma.m16n8k16`` (9.7.15.4.8), the
wgmma accumulator and matrix descriptor (9.7.16.5).  Operand values are exact in f32; sums are
taken in f32, in another order than the hardware's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyc.playback.functions import as_tf32
from polyc.playback.gpu.storage import PATTERN, swizzled

Array = NDArray[Any]


def ldmatrix_fragments(rows: Array, transpose: bool) -> Array:
    """The four i32 registers of each lane, as ``[register, lane]``.

    ``rows`` is the 16 bytes at each lane's address.  Register ``j`` of lane ``l`` has elements
    ``2 (l mod 4)`` and the next of row ``l / 4`` of block ``j``; with ``transpose`` rows and
    columns of the block are exchanged.
    """
    blocks = rows.view(np.uint16).reshape(4, 8, 8)
    if transpose:
        blocks = blocks.transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).view(np.int32).reshape(4, 32)


def stmatrix_rows(registers: Array, transpose: bool) -> Array:
    """The 16 bytes that go to each lane's address: the inverse of ``ldmatrix_fragments``."""
    blocks = np.ascontiguousarray(registers).view(np.uint16).reshape(4, 8, 8)
    if transpose:
        blocks = blocks.transpose(0, 2, 1)
    return np.ascontiguousarray(blocks).view(np.uint8).reshape(32, 16)


def mma_a(registers: Array, dtype: np.dtype[Any]) -> Array:
    """The 16 x 16 operand a from four registers a lane; of f32 the 16 x 8 one of wgmma."""
    if dtype == np.float32:
        numbers = np.ascontiguousarray(registers).view(dtype).reshape(2, 2, 8, 4)
        return as_tf32(numbers.transpose(1, 2, 0, 3).reshape(16, 8))
    halves = np.ascontiguousarray(registers).view(dtype).reshape(2, 2, 8, 4, 2)
    return halves.transpose(1, 2, 0, 3, 4).reshape(16, 16).astype(np.float32)


def mma_b(registers: Array, dtype: np.dtype[Any]) -> Array:
    """The 16 x 8 operand b from two registers a lane."""
    halves = np.ascontiguousarray(registers).view(dtype).reshape(2, 8, 4, 2)
    return halves.transpose(0, 2, 3, 1).reshape(16, 8).astype(np.float32)


def mma_accumulate(registers: Array, product: Array) -> Array:
    """Four accumulator registers a lane plus the 16 x 8 product in their layout."""
    return registers + product.reshape(2, 8, 4, 2).transpose(0, 3, 1, 2).reshape(4, 32)


def accumulator_layout(tile: Array) -> Array:
    """A 64 x N tile as ``[warp, register, lane]`` of a wgmma accumulator."""
    n = tile.shape[1]
    parts = tile.reshape(4, 2, 8, n // 8, 4, 2)
    return parts.transpose(0, 3, 1, 5, 2, 4).reshape(4, n // 2, 32)


# Descriptors ---------------------------------------------------------------------------

_CODE = {0: 0, 128: 1, 64: 2, 32: 3}
_SPAN = {code: span for span, code in _CODE.items()}


def encode_descriptor(address: int, leading: int, stride: int, span: int) -> int:
    """The 64 bits of a matrix descriptor: 14-bit fields in units of 16 bytes."""
    low = (address & 0x3FFFF) >> 4 | (leading >> 4) << 16
    return low | (stride >> 4) << 32 | _CODE[span] << 62


@dataclass(frozen=True)
class Descriptor:
    """A decoded matrix descriptor; all in bytes."""

    start: int
    leading: int
    stride: int
    base_offset: int
    span: int


def decode_descriptor(bits: int) -> Descriptor:
    """The fields of a matrix descriptor (PTX ISA 9.7.16.5.1)."""
    return Descriptor(
        (bits & 0x3FFF) << 4,
        (bits >> 16 & 0x3FFF) << 4,
        (bits >> 32 & 0x3FFF) << 4,
        bits >> 49 & 7,
        _SPAN[bits >> 62 & 3],
    )


@cache
def _offsets(rows: int, major: bool, leading: int, stride: int, span: int) -> Array:
    """Linear byte offsets of the 16-byte chunks of an operand of ``rows`` by 16.

    Contiguous along k (``major`` false): chunk ``[row, 2]``.  Contiguous along rows: chunk
    ``[rows / 8, k]``.  The canonical layouts of the PTX ISA, 9.7.16.5.
    """
    if major:
        j, k = np.arange(rows // 8)[:, None], np.arange(16)[None, :]
        if not span:
            return j * stride + k % 8 * 16 + k // 8 * leading
        chunks = span // 16
        return j // chunks * leading + j % chunks * 16 + k // 8 * stride + k % 8 * span
    r, c = np.arange(rows)[:, None], np.arange(2)[None, :]
    if not span:
        return r // 8 * stride + r % 8 * 16 + c * leading
    return r // 8 * stride + r % 8 * span + c * 16


def operand_addresses(descriptor: Descriptor, rows: int, major: bool) -> Array:
    """Shared addresses of an operand's chunks, swizzled; the array is the operand's chunk grid."""
    offsets = _offsets(rows, major, descriptor.leading, descriptor.stride, descriptor.span)
    return swizzled(descriptor.start + offsets, descriptor.span)


def operand(chunks: Array, rows: int, major: bool, dtype: np.dtype[Any]) -> Array:
    """The ``rows`` x 16 operand from its chunks' bytes, ``[..., 16]`` in ``operand_addresses``.

    Of f32 it is ``rows`` x 8 numbers of TF32, whose lower 13 bits do not count.
    """
    if dtype == np.float32:
        return as_tf32(chunks.view(dtype)).reshape(rows, 8)
    values = chunks.view(dtype)
    if major:
        values = values.reshape(rows // 8, 16, 8).transpose(0, 2, 1)
    return values.reshape(rows, 16).astype(np.float32)


def descriptor_fault(descriptor: Descriptor) -> str | None:
    """Why the hardware would read other bytes than the layout says, or None.

    The swizzle works on address bits, so a pattern starts at a multiple of its length; a
    descriptor may begin inside the first row of one.
    """
    if descriptor.base_offset:
        return "has a base offset, which kernels here do not use"
    span = descriptor.span
    if span and descriptor.start % PATTERN[span] >= span:
        return (
            f"starts at {descriptor.start:#x}, in the middle of a swizzle pattern of "
            f"{PATTERN[span]} bytes"
        )
    return None
