"""What annotations of a tile program say: ``T.Tensor["M", "K", T.f16]``.

Plain data: a function that is decorated and runs from the disk cache imports no xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from polyc.dialects.common.size_expr import Assumption, Dim, Shape
from polyc.dialects.common.size_text import SizeReader, parse_assumptions, parse_shape
from polyc.tile.source import public, refuse

R = TypeVar("R")


class Element(str):
    """An element type by its name; it equals the type of the IR."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        is_type = type(other).__module__.startswith("xdsl.")
        return str.__eq__(self, str(other)) if is_type or isinstance(other, str) else False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


f16, bf16, f32 = Element("f16"), Element("bf16"), Element("f32")
i32, i1 = Element("i32"), Element("i1")

NAMES = {
    **{name: name for name in ("f16", "bf16", "f32", "i32", "i1", "index")},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float": "f32",
    "int32": "i32",
    "bool": "i1",
}
"""Element types by the names that may be written for them."""


def element_name(given: object) -> str:
    """The name of an element type, from it, its name or a type of the IR.

    Raises PolycError ``UnknownType``.
    """
    is_type = type(given).__module__.startswith("xdsl.")
    if (isinstance(given, str) or is_type) and (name := NAMES.get(str(given))) is not None:
        return name
    refuse("UnknownType", f"{given!r} is no element type; take T.f16, T.bf16, T.f32 or T.i32")


def read(parse: Callable[[SizeReader], R], text: str) -> R:
    """What a text about sizes says.  Raises PolycError ``InvalidText``."""
    reader = SizeReader(text)
    try:
        found = parse(reader)
        reader.end()
    except ValueError as error:
        refuse("InvalidText", f"{text} is not understood: {error}")
    return found


def read_dim(text: str) -> Dim:
    """A size from its text, as ``!gpu.global`` writes it."""
    found = read(parse_shape, f"[{text}]")
    if len(found) != 1:
        refuse("NotASize", f"{text!r} is not one size")
    return found[0]


def read_facts(text: str) -> tuple[Assumption, ...]:
    """Facts about sizes from their text: ``K mod 8 == 0, K >= 1``."""
    return read(parse_assumptions, f"({text})") if text.strip() else ()


def _dim(given: object) -> Dim:
    if isinstance(given, int) and not isinstance(given, bool):
        return Dim.const(given)
    if isinstance(given, str):
        return read_dim(given)
    dim = getattr(given, "dim", None)  # of T.size
    if isinstance(dim, Dim):
        return dim
    refuse("NotASize", f"{given!r} is no size; take an integer, a name or an expression of sizes")


@dataclass(frozen=True)
class Option:
    """A word about a tensor of the signature: its alignment or attributes."""

    align: int = 0
    attributes: tuple[tuple[str, str | bool | int], ...] = ()


def align(size: int) -> Option:
    """In a tensor's annotation: rows start at multiples of ``size`` bytes."""
    return Option(align=size)


def attributes(**values: str | bool | int) -> Option:
    """In a tensor's annotation: what it is, ``role="param"``, ``storage="const_pool"``."""
    return Option(attributes=tuple(values.items()))


@dataclass(frozen=True)
class TensorSpec:
    """A tensor of a signature: what ``T.Tensor[M, K, T.f16]`` gives."""

    dims: Shape
    element: str
    align: int
    attributes: tuple[tuple[str, str | bool | int], ...]
    output: bool


def _spec(items: object, output: bool) -> TensorSpec:
    several = cast("tuple[object, ...]", items) if isinstance(items, tuple) else (items,)
    listed = list(several)
    options = [item for item in listed if isinstance(item, Option)]
    rest = [item for item in listed if not isinstance(item, Option)]
    if not rest:
        refuse("UnknownType", "a tensor has sizes and an element type: T.Tensor[M, K, T.f16]")
    element = element_name(rest[-1])
    return TensorSpec(
        tuple(_dim(size) for size in rest[:-1]),
        element,
        max((o.align for o in options), default=0),
        tuple(item for o in options for item in o.attributes),
        output,
    )


class _TensorMeta(type):
    """``T.Tensor[M, K, T.f16]`` is a specification."""

    is_output = False

    def __getitem__(cls, items: Any) -> Any:
        return public(_spec)(items, cls.is_output)


class Tensor(metaclass=_TensorMeta):
    """A tensor of the signature, which a kernel's function sees as one of ``polyc.tile.tiles``."""


class _OutMeta(_TensorMeta):
    is_output = True


class Out(Tensor, metaclass=_OutMeta):
    """An output: ``C: T.Out[M, N, T.f16]``."""
