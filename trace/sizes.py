"""Sizes of a traced tensor: numbers, or polynomials of symbols that Python calculates with."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import cast

from polyc.dialects.common.size_expr import Dim
from polyc.dialects.common.size_text import SizeReader, parse_dim
from polyc.trace.source import public, refuse

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Size:
    """A size that is not known before a call: ``M``, or ``(H - 1) // 2 + 1``.

    It adds, subtracts and multiplies with sizes and whole numbers, and is divided by a positive
    number with ``//`` and ``%``.  A comparison is a bool where it has one answer at all sizes, and
    is refused elsewhere (``UnknownSize``), as a trace is made once for all of them.
    """

    __slots__ = ("dim",)

    def __init__(self, dim: Dim) -> None:
        self.dim = dim

    def __repr__(self) -> str:
        return str(self.dim)

    def __hash__(self) -> int:
        return hash(self.dim)

    @public
    def __add__(self, other: SizeLike) -> SizeLike:
        return size_of(self.dim + dim_of(other))

    @public
    def __radd__(self, other: SizeLike) -> SizeLike:
        return size_of(dim_of(other) + self.dim)

    @public
    def __sub__(self, other: SizeLike) -> SizeLike:
        return size_of(self.dim - dim_of(other))

    @public
    def __rsub__(self, other: SizeLike) -> SizeLike:
        return size_of(dim_of(other) - self.dim)

    @public
    def __mul__(self, other: SizeLike) -> SizeLike:
        return size_of(self.dim * dim_of(other))

    @public
    def __rmul__(self, other: SizeLike) -> SizeLike:
        return size_of(dim_of(other) * self.dim)

    def __neg__(self) -> SizeLike:
        return size_of(-self.dim)

    @public
    def __floordiv__(self, other: SizeLike) -> SizeLike:
        return size_of(self.dim.floordiv(_divisor(self, other)))

    @public
    def __mod__(self, other: SizeLike) -> SizeLike:
        return size_of(self.dim.mod(_divisor(self, other)))

    @public
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Size | int):
            return NotImplemented
        return _decided(self, "==", other, lambda difference: difference == 0)

    @public
    def __lt__(self, other: SizeLike) -> bool:
        return _decided(self, "<", other, lambda difference: difference < 0)

    @public
    def __le__(self, other: SizeLike) -> bool:
        return _decided(self, "<=", other, lambda difference: difference <= 0)

    @public
    def __gt__(self, other: SizeLike) -> bool:
        return _decided(self, ">", other, lambda difference: difference > 0)

    @public
    def __ge__(self, other: SizeLike) -> bool:
        return _decided(self, ">=", other, lambda difference: difference >= 0)

    @public
    def __bool__(self) -> bool:
        refuse("UnknownSize", f"whether {self} is 0 is not known before a call")

    @public
    def __index__(self) -> int:
        refuse(
            "UnknownSize",
            f"{self} has no value before a call, and a whole number is asked for here",
        )

    @public
    def __float__(self) -> float:
        refuse(
            "UnknownSize",
            f"{self} has no value before a call, and a graph's numbers are constants; a mean "
            "divides by a size",
        )


SizeLike = Size | int


def _divisor(size: Size, by: SizeLike) -> int:
    number = dim_of(by).constant()
    if number is None or number <= 0:
        refuse("NonSCoP", f"{size} is divided by {by}; a size is divided by a positive number")
    return number


def _decided(size: Size, how: str, other: SizeLike, answer: Callable[[int], bool]) -> bool:
    difference = (size.dim - dim_of(other)).constant()
    if difference is None:
        refuse(
            "UnknownSize",
            f"whether {size} {how} {other} differs from call to call, and a graph is traced once "
            "for all sizes; fix the size by its annotation",
        )
    return answer(difference)


def size_of(dim: Dim) -> SizeLike:
    """A number where a size has one value."""
    value = dim.constant()
    return Size(dim) if value is None else value


def dim_of(size: object) -> Dim:
    """The dialect's size.  Refuses what is none."""
    if isinstance(size, Size):
        return size.dim
    if isinstance(size, int) and not isinstance(size, bool):
        return Dim.const(size)
    if isinstance(size, str):
        return read_dim(size)
    index = getattr(size, "__index__", None)  # a number of NumPy's
    if index is None or isinstance(size, bool):
        refuse("BadArgument", f"{size!r} is no size: give a whole number or a size of a shape")
    return Dim.const(cast("int", index()))


def read_dim(text: str) -> Dim:
    """A size that is written as in IR: ``M``, ``2 * K + 1``, ``H floordiv 2``."""
    if _WORD.fullmatch(text) is not None:
        return Dim.sym(text)
    reader = SizeReader(text)
    try:
        found = parse_dim(reader)
        reader.end()
    except ValueError:
        refuse(
            "BadArgument",
            f'"{text}" is no size: write a number, a symbol such as "M", or an expression such as '
            '"2 * M + 1" or "H floordiv 2"',
        )
    return found
