"""What converters of ATen's ops share: PyTorch's promotion of types, numbers as values, axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product
from polyc.dialects.frontend import DimOp
from polyc.trace.elements import ELEMENTS
from polyc.trace.sizes import Size, SizeLike, dim_of, size_of
from polyc.trace.values import Value, current

Operand = Any
"""A value, a number, or a size."""

BEYOND = 2**62
"""An end of a slice that PyTorch writes for the end of the axis is at least this."""


def rank_of(dtype: str) -> int:
    """0 of conditions, 1 of integers, 2 of real numbers: PyTorch's categories."""
    return 0 if dtype == "i1" else 1 if dtype.strip("ui").isdigit() else 2


def wider(a: str, b: str) -> str:
    """The type that two tensors of one rank are promoted to."""
    if a == b:
        return a
    if rank_of(a) != rank_of(b):
        return a if rank_of(a) > rank_of(b) else b
    if rank_of(a) == 2:
        return "f32"  # f16 and bf16 have no other in common
    bits = {one: int(one.strip("ui")) for one in (a, b)}
    if a.startswith("u") == b.startswith("u"):
        return max((a, b), key=lambda one: bits[one])
    signed, unsigned = (b, a) if a.startswith("u") else (a, b)
    if bits[signed] > bits[unsigned]:
        return signed
    if bits[unsigned] < 64:
        return f"i{2 * bits[unsigned]}"
    raise PolycError("TypeMismatch", f"{a} and {b} have no type in common; cast one of them")


def promoted(*given: Operand) -> str:
    """The element type that operands have in common, by PyTorch's rules: a tensor with axes decides
    before one without, and that before a number, but for the category."""
    groups: list[str | None] = [None, None, None]
    for one in given:
        if isinstance(one, Value):
            place, own = (0 if one.ndim else 1), one.dtype
        else:
            place = 2
            own = "i1" if isinstance(one, bool) else "f32" if isinstance(one, float) else "i64"
        known = groups[place]
        groups[place] = own if known is None else wider(known, own)
    found: str | None = None
    for own in groups:
        if own is not None and (found is None or rank_of(own) > rank_of(found)):
            found = own
    assert found is not None
    return found


def as_value(given: Operand, element: str) -> Value:
    """A value of an element type, of a value, a number, or a size."""
    if isinstance(given, Value):
        return given if given.dtype == element else given.cast(element)
    builder = current()
    if isinstance(given, Size):
        return Value(builder, builder.add(DimOp(given.dim, ELEMENTS[element])))
    if element == "i1":
        number = Value(builder, builder.constant(int(bool(given)), ELEMENTS["i32"]))
        return number != 0
    number = float(given) if rank_of(element) == 2 else int(given)
    return Value(builder, builder.constant(number, ELEMENTS[element]))


def alike(*given: Operand) -> list[Value]:
    """Operands as values of the type that they are promoted to."""
    element = promoted(*given)
    return [as_value(one, element) for one in given]


def real(x: Operand) -> Value:
    """A value of real numbers; integers and conditions become f32."""
    element = promoted(x)
    return as_value(x, element if rank_of(element) == 2 else "f32")


def number(x: Value) -> Value:
    """A value of numbers; conditions become i64, as sums of them are."""
    return x.cast("i64") if x.dtype == "i1" else x


def to(x: Value, dtype: str | None) -> Value:
    """A value of another element type, where one is named."""
    return x if dtype is None or dtype == x.dtype else cast_to(x, dtype)


def cast_to(x: Value, dtype: str) -> Value:
    """A value of another element type; a number is a condition where it is not 0."""
    return x != 0 if dtype == "i1" and x.dtype != "i1" else x.cast(dtype)


def axis_of(x: Value, axis: int) -> int:
    """An axis, from 0 on; a scalar is taken as if it had one."""
    return axis % max(x.ndim, 1)


def axes_of(x: Value, axes: Any) -> list[int]:
    """Axes in increasing order; all of them for None and for an empty list."""
    if axes is None or axes == []:
        return list(range(x.ndim))
    listed = [axes] if isinstance(axes, int) else list(cast("Sequence[int]", axes))
    return sorted(axis_of(x, axis) for axis in listed)


def numbers(given: Any, count: int) -> list[Any]:
    """One number for each of ``count`` axes, of one number or a list of one or of all."""
    listed = [given] if isinstance(given, int | float) else list(cast("Sequence[Any]", given))
    return listed * count if len(listed) == 1 else listed


def size(x: Value, axis: int) -> SizeLike:
    """The size of an axis."""
    return x.shape[axis]


def count(sizes: Sequence[SizeLike]) -> SizeLike:
    """How many elements a shape has."""
    return size_of(product([dim_of(one) for one in sizes]) if sizes else Dim.const(1))


def refuse(why: str) -> PolycError:
    """The refusal of an argument, whose op and place the importer adds."""
    return PolycError("BadArgument", why)
