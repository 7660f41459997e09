"""Borrowed tensors: what a launch needs of one, whatever library it is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyc.dialects.common.diagnostic import PolycError

ELEMENT_BYTES: Mapping[str, int] = {"f16": 2, "bf16": 2, "f32": 4, "i1": 1}
"""Element types of a signature and their sizes."""

LIBRARY_NAMES: Mapping[str, str] = {
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "i1": "bool",
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
