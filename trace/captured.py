"""Tensors that a traced function reads and is not given: parameters of the graph (S12.2).

The graph has their sizes and types and no numbers: the constant pool holds these, whatever they are
when the program is bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.dialects.frontend import TensorType, tensor
from polyc.trace.annotations import element_name
from polyc.trace.elements import ELEMENTS
from polyc.trace.source import refuse


class Captured:
    """The tensors that one trace has read, by the names of their entries."""

    def __init__(self) -> None:
        self.tensors: dict[str, object] = {}
        self._names: dict[int, str] = {}

    def name(self, given: object, wanted: str | None, taken: Sequence[str]) -> str:
        """The entry of a tensor, which has one name however often it is read.

        Refuses a name that another tensor has.
        """
        if (known := self._names.get(id(given))) is not None and wanted in (None, known):
            return known
        if wanted is None:
            number = len(self.tensors)
            while (wanted := f"constant{number}") in self.tensors or wanted in taken:
                number += 1
        elif wanted in self.tensors or wanted in taken:
            refuse("BadArgument", f"{wanted!r} is the name of another parameter; give this another")
        self.tensors[wanted] = given
        self._names[id(given)] = wanted
        return wanted


def is_array(x: object) -> bool:
    """Whether something is a tensor with numbers, of any library."""
    ways = ("__dlpack__", "__array__", "__cuda_array_interface__")
    typed = hasattr(x, "dtype") and hasattr(x, "shape")
    return typed and any(hasattr(x, way) for way in ways)


def kind_of(x: Any) -> TensorType:
    """The type of a tensor with numbers.  Refuses element types that graphs do not have."""
    element = ELEMENTS[element_name(getattr(x.dtype, "name", x.dtype))]
    return tensor([int(size) for size in x.shape], element)
