"""How the printer spells the types of values.

A ``CType`` is how a value's type is spelled.  What the words of a vector are: an element of 4 or 8
bytes is a word of its own, smaller elements are packed into u32 words (u16 and u8 where the vector
is that short), element 0 in the lowest bits.  A condition is a byte, as in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, IndexType, IntegerType
from xdsl.dialects.builtin import VectorType as XVectorType
from xdsl.ir import Attribute

TYPEDEFS = {
    "u8": "typedef unsigned char u8;",
    "u16": "typedef unsigned short u16;",
    "u32": "typedef unsigned int u32;",
    "u64": "typedef unsigned long long u64;",
    "i64": "typedef long long i64;",
    "f16": "typedef u16 f16;",
    "bf16": "typedef u16 bf16;",
}
"""Names of scalar types; f16 and bf16 are bits in storage, never operands of C arithmetic."""

TENSOR_MAP = "struct __align__(64) TensorMap {\n  u64 v[16];\n};"


@dataclass(frozen=True, slots=True)
class CType:
    """The C spelling of a type.

    ``word`` is the C type of one register's worth; a scalar is one word of itself.  A
    vector is a struct ``{ word v[words]; }`` with ``lanes`` elements in each word.
    """

    name: str
    word: str
    bytes: int
    words: int = 1
    lanes: int = 1
    element: str = ""

    @property
    def is_vector(self) -> bool:
        return bool(self.element)

    @property
    def definition(self) -> str:
        """The struct's text."""
        align = min(16, self.bytes & -self.bytes)
        return f"struct __align__({align}) {self.name} {{\n  {self.word} v[{self.words}];\n}};"

    def parts(self, value: str) -> list[str]:
        """The words of ``value``."""
        return [f"{value}.v[{i}]" for i in range(self.words)] if self.is_vector else [value]


_INTEGERS = {1: "bool", 8: "u8", 16: "u16", 32: "u32", 64: "i64"}
_SIZES = {"bool": 1, "u8": 1, "u16": 2, "f16": 2, "bf16": 2, "u32": 4, "int": 4, "float": 4}


def _scalar(attribute: Attribute) -> str | None:
    match attribute:
        case IndexType():
            return "int"
        case IntegerType():
            return _INTEGERS.get(attribute.width.data)
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case Float32Type():
            return "float"
        case _:
            return None


@cache
@cache
def c_type(attribute: Attribute) -> CType | None:
    """The C type of a scalar or one-dimensional vector; None where C has none here."""
    if not isinstance(attribute, XVectorType):
        name = _scalar(attribute)
        return None if name is None else CType(name, name, _SIZES.get(name, 8))
    vector = cast("XVectorType[Attribute]", attribute)
    element, shape = _scalar(vector.element_type), vector.get_shape()
    if element is None or len(shape) != 1:
        return None
    size, (count,) = _SIZES.get(element, 8), shape
    word, width = element, size
    if size < 4:
        width = next(w for w in (4, 2, 1) if size * count % w == 0)
        word = {4: "u32", 2: "u16", 1: "u8"}[width]
    short = {"float": "f32", "int": "i32", "bool": "i1"}.get(element, element)
    total = size * count
    return CType(f"{short}x{count}", word, total, total // width, width // size, element)
