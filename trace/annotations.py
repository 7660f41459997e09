"""What a function's annotations say of its tensors: ``polyc.Tensor["M", "K", "f16"]``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, cast

from polyc.dialects.common.diagnostic import Place
from polyc.dialects.common.size_expr import Assumption, Dim, Shape, shape_text
from polyc.dialects.common.size_text import SizeReader, parse_assumptions
from polyc.trace.sizes import Size, dim_of
from polyc.trace.source import public, refuse

_BITS = (8, 16, 32, 64)

ELEMENTS = (
    *("f16", "bf16", "f32", "i1"),
    *(f"{sign}{bits}" for sign in ("i", "ui") for bits in _BITS),
)
"""Element types by their names."""

_OTHER_NAMES = {
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float": "f32",
    "bool": "i1",
    **{f"int{bits}": f"i{bits}" for bits in _BITS},
    **{f"{sign}{bits}": f"ui{bits}" for sign in ("uint", "u") for bits in _BITS},
    "long": "i64",
}
"""What NumPy and PyTorch call them."""


def element_name(kind: object) -> str:
    """``f16`` of "f16", "float16", ``numpy.float16`` or ``torch.float16``.  Refuses others."""
    for text in (kind, getattr(kind, "name", None), getattr(kind, "__name__", None), str(kind)):
        if isinstance(text, str):
            word = text.rpartition(".")[2]
            word = _OTHER_NAMES.get(word, word)
            if word in ELEMENTS:
                return word
    refuse(
        "UnknownType",
        f"{kind!r} is no element type; there are {', '.join(ELEMENTS)}, and the types of NumPy and "
        "PyTorch that are the same",
    )


_LIKE_A_TYPE = re.compile(r"(f|bf|i|u|s|float|bfloat|int|uint|complex)\d+\w*|double|char|long")
"""Names that nobody means as a size's."""


def _is_element(item: object) -> bool:
    if isinstance(item, str):
        known = item in ELEMENTS or item in _OTHER_NAMES
        return known or _LIKE_A_TYPE.fullmatch(item) is not None
    return not isinstance(item, int | float | Size)


@dataclass(frozen=True)
class TensorAnnotation:
    """Sizes and an element type, which is None where the first call says it."""

    dims: Shape
    element: str | None

    def __str__(self) -> str:
        return f"{shape_text(self.dims)} of {self.element or 'any type'}"


@public
def annotation(items: object) -> TensorAnnotation:
    """What ``Tensor[items]`` says.  Refuses what is no size and no type."""
    listed = list(cast("tuple[object, ...]", items)) if isinstance(items, tuple) else [items]
    element = None
    if listed and _is_element(listed[-1]):
        element = element_name(listed.pop())
    dims: list[Dim] = []
    for item in listed:
        if _is_element(item):
            refuse("UnknownType", f"{item!r} is a type, and stands last: sizes come before it")
        dim = dim_of(item)
        if (value := dim.constant()) is not None and value < 0:
            refuse("BadArgument", f"a tensor has a size of {value}; sizes are 0 or more")
        dims.append(dim)
    return TensorAnnotation(tuple(dims), element)


class Tensor:
    """``polyc.Tensor["M", "K", "f16"]``: a matrix of f16 whose sizes every call may choose.

    A size is a symbol's name, an expression of symbols as IR writes it (``"2 * K"``) or a number.
    One name is one size wherever it stands in a signature.  The element type is ``f16``, ``bf16``,
    ``f32``, ``i1`` or an integer type, or a type of NumPy or PyTorch that is one of them; without
    one the tensors of a call say it.  In the function the parameter is a ``Value``.
    """

    __slots__ = ()

    def __class_getitem__(cls, items: Any) -> Any:
        return annotation(items)


def read_assumptions(text: str, at: Place | None = None) -> tuple[Assumption, ...]:
    """Facts such as ``"K mod 8 == 0, M >= 1"``.  Raises PolycError."""
    if not text.strip():
        return ()
    reader = SizeReader(f"({text})")
    try:
        found = parse_assumptions(reader)
        reader.end()
    except ValueError as error:
        refuse("BadArgument", f'assume="{text}" is no list of facts: {error}', at)
    return found
