"""Memory as kernels see it: tensors in global memory, tensor maps, shared bytes, registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyc.playback.functions import nearest_tf32
from polyc.playback.gpu.clocks import GlobalShadow

Array = NDArray[Any]

WINDOW = 1024
"""The shared address of a CTA's first dynamic byte; not 0, so that a null address is outside."""

WINDOW_STRIDE = 1 << 24
"""Distance of the CTAs' shared memories in their cluster's window."""

PATTERN = {0: 16, 32: 256, 64: 512, 128: 1024}
"""Bytes after which a swizzle repeats, by its span."""


class GlobalTensor:
    """A dense row-major tensor at ``base`` in global memory; ``data`` is flat.

    ``shadow`` is there when a kernel stores to the tensor.  ``role`` is what it is to the host:
    what an ``output`` or a ``workspace`` holds at first is not defined.
    """

    def __init__(self, name: str, array: Array, base: int, role: str) -> None:
        self.name = name
        self.shape = array.shape
        self.data = array.reshape(-1)
        self.base = base
        self.role = role
        self.itemsize = int(array.dtype.itemsize)
        self.shadow: GlobalShadow | None = None

    @property
    def size(self) -> int:
        return int(self.data.size)

    @property
    def is_undefined(self) -> bool:
        """Whether elements that no kernel has written may not be read."""
        return self.role != "input"

    def track(self) -> None:
        if self.shadow is None:
            self.shadow = GlobalShadow(self.size)

    def element_text(self, offset: int) -> str:
        """``C[3, 5]``, or where beyond the tensor an offset lies."""
        if not 0 <= offset < self.size:
            return f"element {offset} of {self.name}, which has {self.size}"
        where = ", ".join(map(str, np.unravel_index(offset, self.shape))) if self.shape else ""
        return f"{self.name}[{where}]"


def swizzled(addresses: Array, span: int) -> Array:
    """Where the hardware puts the 16-byte chunk that is linearly at ``addresses``.

    Address bits 7 to 9 are XORed into bits 4 to 6, as many as the span has chunks
    (PTX ISA, tensor swizzling modes).
    """
    if not span:
        return addresses
    return addresses ^ ((addresses >> 3) & (span - 16))


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor: boxes of ``box`` elements of ``tensor``, swizzled over ``span`` bytes.

    ``view`` are the sizes that it sees the tensor in, where they are not the tensor's own.
    """

    tensor: GlobalTensor
    box: tuple[int, ...]
    span: int
    view: tuple[int, ...] | None = field(default=None, kw_only=True)
    rounds: bool = field(default=False, kw_only=True)
    """Whether what it loads is rounded to TF32."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes that boxes are taken from."""
        return self.tensor.shape if self.view is None else self.view

    @property
    def bytes(self) -> int:
        """Bytes that one load delivers, whether inside the tensor or not."""
        return prod(self.box) * self.tensor.itemsize

    def fault(self) -> str | None:
        """What cuTensorMapEncodeTiled would refuse, or None."""
        size, shape = self.tensor.itemsize, self.shape
        if self.tensor.base % 16:
            return f"{self.tensor.name} starts at {self.tensor.base:#x}, no multiple of 16"
        stride = size
        for extent in reversed(shape[1:]):
            stride *= extent
            if stride % 16:
                return f"rows of {self.tensor.name} are {stride} bytes apart, no multiple of 16"
        if len(shape) != len(self.box):
            return f"a box of rank {len(self.box)} does not fit {self.tensor.name}"
        return None

    def misplaced(self, start: Sequence[int]) -> str | None:
        """What makes a copy at ``start`` undefined, or None."""
        return None

    def _box(self, start: Sequence[int]) -> tuple[Array, Array]:
        """The elements of the box at ``start`` in its order, and which are in the tensor."""
        inside = np.ones((), np.bool_)
        offset = np.zeros((), np.int64)
        for first, size, extent in zip(start, self.box, self.shape, strict=True):
            at = first + np.arange(size)
            inside = inside[..., None] & ((at >= 0) & (at < extent))
            offset = offset[..., None] * extent + np.clip(at, 0, max(extent - 1, 0))
        return offset.reshape(-1), inside.reshape(-1)

    def _sectors(self, elements: Array) -> int:
        return int(np.unique((self.tensor.base + elements * self.tensor.itemsize) >> 5).size)

    def box_at(self, start: Sequence[int]) -> tuple[Array, Array, int]:
        """The box's bytes with zeros outside the tensor, its elements inside, its sectors."""
        flat, within = self._box(start)
        values = np.zeros(flat.size, self.tensor.data.dtype)
        elements = flat[within]
        values[within] = self.tensor.data[elements]
        values = nearest_tf32(values) if self.rounds else values
        return values.view(np.uint8), elements, self._sectors(elements)

    def elements_at(self, start: Sequence[int]) -> tuple[Array, int]:
        """The elements of a box inside the tensor, and their sectors."""
        flat, within = self._box(start)
        return flat[within], self._sectors(flat[within])

    def store_at(self, start: Sequence[int], data: Array) -> None:
        """Write the box's bytes ``data``; what is outside the tensor is dropped."""
        flat, within = self._box(start)
        self.tensor.data[flat[within]] = data.reshape(-1).view(self.tensor.data.dtype)[within]


class SharedMemory:
    """The dynamic shared bytes of one CTA, seen at any width."""

    def __init__(self, size: int) -> None:
        self.size = size
        # Poison: what nobody wrote reads as NaN in every float type.
        self.bytes: Array = np.full(-(-size // 16) * 16, 0xFF, np.uint8)
        self.rows = {w: self.bytes.reshape(-1, w) for w in (1, 2, 4, 8, 16)}

    def load(self, addresses: Array, width: int, dtype: np.dtype[Any]) -> Array:
        """Row ``i``: the elements of the ``width`` bytes at ``addresses[i]``."""
        return self.rows[width][addresses // width].view(dtype)

    def store(self, addresses: Array, values: Array) -> None:
        """Write ``values``, bytes with a row an access."""
        width = values.shape[1]
        self.rows[width][addresses // width] = values


class Registers:
    """A register array of one warp: ``data`` has the lanes as its last axis.

    ``tracked`` arrays are accumulators of wgmma.  Times are the warp's ``moment``: ``touched``
    when code last read or wrote them, ``written`` when it last wrote, ``fenced`` at the last
    register fence, ``group`` the newest wgmma group that accumulates in them, ``reader`` the newest
    one that has them as its left operand.
    """

    __slots__ = (
        "data",
        "fenced",
        "full",
        "group",
        "initialised",
        "issued",
        "name",
        "reader",
        "touched",
        "tracked",
        "written",
    )

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], tracked: bool):
        self.name = name
        self.data: Array = np.empty((*shape, 32), dtype)
        self.data.view(np.uint8).fill(0xFF)
        self.initialised: Array = np.zeros((*shape, 32), np.bool_)
        self.full = False
        self.tracked = tracked
        self.touched = -1
        self.written = -1
        self.fenced = -1
        self.group = 0
        self.reader = 0
        self.issued = -1
