"""Borrowed tensors: what a launch needs of one, whatever library it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyc.dialects.common.diagnostic import PolycError

_BITS = (8, 16, 32, 64)

ELEMENT_BYTES: Mapping[str, int] = {
    **{"f16": 2, "bf16": 2, "f32": 4, "i1": 1},
    **{f"{sign}{bits}": bits // 8 for sign in ("i", "ui") for bits in _BITS},
}
"""Element types of a signature and their sizes."""

LIBRARY_NAMES: Mapping[str, str] = {
    **{"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i1": "bool"},
    **{f"i{bits}": f"int{bits}" for bits in _BITS},
    **{f"ui{bits}": f"uint{bits}" for bits in _BITS},
}
"""What NumPy and PyTorch call them."""


@dataclass(frozen=True, slots=True)
class TensorView:
    """A borrowed tensor: address, shape, strides, element type and device.

    It keeps the tensor's owner alive.  ``strides`` are in elements, those of an axis that has at
    most one element being what they are in a dense tensor.  ``gpu`` is None for host memory,
    which is ``pinned`` where copies to it may still be on their way.  What is written to a
    ``readonly`` tensor breaks a promise of its owner, and what is written to a ``copied`` one is
    lost.

    ``stream`` is where the owner of GPU memory works on it, None where nothing says so.
    ``ordered`` says that a launch on the stream that the view was made for, or on ``stream``,
    comes after what the owner has begun.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: str
    gpu: int | None
    owner: object
    readonly: bool = False
    copied: bool = False
    pinned: bool = False
    stream: int | None = None
    ordered: bool = True

    @property
    def size(self) -> int:
        """Number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def bytes(self) -> int:
        return self.size * ELEMENT_BYTES.get(self.element, 0)

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie side by side, in row-major order."""
        return not self.size or self.strides == row_major(self.shape)

    @property
    def is_of_rows(self) -> bool:
        """Whether its rows lie side by side at least: the last axis is dense, and no two elements
        are the same, however far apart and in whichever order the others lie."""
        end = 1
        for stride, extent in sorted(zip(self.strides, self.shape, strict=True)):
            if extent > 1:
                if stride < end:
                    return False
                end = stride * extent
        return not self.shape or self.shape[-1] <= 1 or self.strides[-1] == 1

    @property
    def reach(self) -> int:
        """Bytes from its address to the end of its last element, where no stride is negative."""
        if not self.size:
            return 0
        last = sum((n - 1) * step for n, step in zip(self.shape, self.strides, strict=True))
        return (last + 1) * ELEMENT_BYTES.get(self.element, 0)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a dense row-major tensor."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def in_elements(
    name: str, shape: Sequence[int], strides: Sequence[int], item: int
) -> tuple[int, ...]:
    """Strides given in bytes, in elements of ``item`` bytes.

    A stride along which nothing is read is that of a dense tensor.  Raises PolycError
    ``NotContiguous`` where elements lie a part of an element apart, as in a packed struct.
    """
    dense = row_major(shape)
    if 0 in shape:
        return dense
    made: list[int] = []
    for extent, stride, own in zip(shape, strides, dense, strict=True):
        if extent > 1 and (not item or stride % item):
            raise PolycError(
                "NotContiguous",
                f"{name} of shape {list(shape)} has strides of {list(strides)} bytes, not "
                f"{[step * item for step in dense]}, and elements of {item}, as a field of a "
                "packed struct has; make it contiguous",
            )
        made.append(own if extent <= 1 else stride // item)
    return tuple(made)
