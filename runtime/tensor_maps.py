"""Tensor maps: how TMA sees a tensor (CUDA driver API, CUtensorMap)."""

from __future__ import annotations

import ctypes
from ctypes import c_int, c_uint, c_uint64, c_void_p

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver

_TENSOR_MAP_TYPES = {"i1": (0, 1), "f16": (6, 2), "bf16": (9, 2), "f32": (7, 4), "tf32": (11, 4)}
"""CUtensorMapDataType and bytes an element: a condition is a byte, and of ``tf32`` are f32 that a
load rounds."""

_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}

LINE, LINES = 2, 3
"""What L2 asks memory for at once where TMA asks it of less, 128 bytes or 256 (CUDA driver API,
CUtensorMapL2promotion)."""

PAIR = 256
"""Bytes of two lines, which begin at their multiples."""


class TensorMap:
    """A CUtensorMap: 128 bytes on a 64-byte boundary, passed to a kernel by value."""

    def point_to(self, pointer: int) -> None:
        """Describe the same tensor at another address, as aligned as the one before."""
        driver.call("cuTensorMapReplaceAddress", self.pointer, c_void_p(pointer))

    def copied(self) -> TensorMap:
        """Another one, which describes the same."""
        made = TensorMap()
        ctypes.memmove(made.argument, self.argument, 128)
        return made

    def __init__(self) -> None:
        self._memory = ctypes.create_string_buffer(128 + 64)
        start = ctypes.addressof(self._memory)
        self.offset = -start % 64
        self.argument = (c_uint64 * 16).from_buffer(self._memory, self.offset)
        self.pointer = ctypes.byref(self.argument)


def tensor_map(
    pointer: int,
    element: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    box: tuple[int, ...],
    swizzle: int,
    onward: bool = False,
) -> TensorMap:
    """A tiled tensor map.

    ``shape``, ``strides`` (in elements; the last is 1) and ``box`` are in row-major
    order, outermost first; ``swizzle`` is 0, 32, 64 or 128 bytes.  Reads outside give 0.  Where
    loads go ``onward`` along rows of whole pairs of lines, memory is asked for both of a pair: the
    second one comes with the first, and not a step later.
    Raises PolycError when the hardware's rules do not hold: a 16-byte base and strides,
    sizes of at least 1, a box of at most 256 an axis whose row fits the swizzle (CUDA
    driver API, cuTensorMapEncodeTiled).
    """
    kind, size = _TENSOR_MAP_TYPES[element]
    rank = len(shape)
    problem = ""
    if pointer % 16:
        problem = f"the base address {pointer:#x} is not a multiple of 16"
    elif min(shape) < 1:
        problem = f"the shape {list(shape)} has an empty axis"
    elif any(stride * size % 16 for stride in strides[:-1]):
        problem = f"the strides {list(strides)} are not multiples of 16 bytes"
    elif max(box) > 256 or (swizzle and box[-1] * size > swizzle):
        problem = f"the box {list(box)} does not fit a swizzle of {swizzle} bytes"
    if problem:
        raise PolycError("TensorMapFailed", f"TMA cannot read the tensor: {problem}")
    result = TensorMap()
    row = size * (strides[-2] if rank > 1 else shape[-1])
    driver.call(
        "cuTensorMapEncodeTiled",
        ctypes.byref(result.argument),
        kind,
        c_uint(rank),
        c_void_p(pointer),
        (c_uint64 * rank)(*reversed(shape)),
        (c_uint64 * max(1, rank - 1))(*(stride * size for stride in reversed(strides[:-1]))),
        (c_uint * rank)(*reversed(box)),
        (c_uint * rank)(*([1] * rank)),
        0,
        _SWIZZLES[swizzle],
        LINES if onward and not any(one % PAIR for one in (pointer, row)) else LINE,
        0,
    )
    return result


def im2col_map(
    pointer: int,
    element: str,
    shape: tuple[int, ...],
    box: tuple[int, int],
    swizzle: int,
    lower: tuple[int, int],
    upper: tuple[int, int],
    steps: tuple[int, int],
) -> TensorMap:
    """A tensor map over the pixels of a dense NHWC tensor.

    ``box`` is pixels and channels of a copy; ``lower`` and ``upper`` are the bounding box's corners
    and ``steps`` the strides, along height and width.  Reads outside give 0.  Raises PolycError
    when the hardware's rules do not hold: a 16-byte base and pixel, four axes without an empty one,
    a bounding box that is not empty (CUDA driver API, cuTensorMapEncodeIm2col).
    """
    kind, size = _TENSOR_MAP_TYPES[element]
    problem = ""
    if len(shape) != 4:
        problem = f"the shape {list(shape)} has not four axes (NHWC)"
    elif pointer % 16:
        problem = f"the base address {pointer:#x} is not a multiple of 16"
    elif min(shape) < 1:
        problem = f"the shape {list(shape)} has an empty axis"
    elif shape[3] * size % 16:
        problem = f"pixels of {shape[3]} channels are not multiples of 16 bytes"
    elif any(e - 1 + u < b for e, b, u in zip(shape[1:3], lower, upper, strict=True)):
        problem = f"the filter does not fit into the shape {list(shape)}"
    if problem:
        raise PolycError("TensorMapFailed", f"TMA cannot read the tensor: {problem}")
    result = TensorMap()
    _, height, width, channels = shape
    row = channels * size
    driver.call(
        "cuTensorMapEncodeIm2col",
        ctypes.byref(result.argument),
        kind,
        c_uint(4),
        c_void_p(pointer),
        (c_uint64 * 4)(*reversed(shape)),
        (c_uint64 * 3)(row, row * width, row * width * height),
        (c_int * 2)(*reversed(lower)),
        (c_int * 2)(*reversed(upper)),
        c_uint(box[1]),
        c_uint(box[0]),
        (c_uint * 4)(1, steps[1], steps[0], 1),
        0,
        _SWIZZLES[swizzle],
        LINE,
        0,
    )
    return result
