"""Scans over traced values: ``polyc.cumsum``, ``cumprod``, ``cummax`` and ``cummin``.

Each is a ``frontend.scan``; docs/semantics.md has what it gives of NaN, infinities and nothing.
"""

from __future__ import annotations

from polyc.trace.source import public, refuse
from polyc.trace.values import Value, value_of


@public
def cumsum(x: Value, axis: int = -1, *, reverse: bool = False, exclusive: bool = False) -> Value:
    """The sums of the elements along an axis up to each one.

    With ``exclusive`` up to the one before it; with ``reverse`` from the end.
    """
    return _scan("cumsum", "sum", x, axis, reverse, exclusive)


@public
def cumprod(x: Value, axis: int = -1, *, reverse: bool = False, exclusive: bool = False) -> Value:
    """The products of the elements along an axis up to each one, as ``cumsum``."""
    return _scan("cumprod", "prod", x, axis, reverse, exclusive)


@public
def cummax(x: Value, axis: int = -1, *, reverse: bool = False, exclusive: bool = False) -> Value:
    """The largest element along an axis up to each one, as ``cumsum``; NaN from one on."""
    return _scan("cummax", "max", x, axis, reverse, exclusive)


@public
def cummin(x: Value, axis: int = -1, *, reverse: bool = False, exclusive: bool = False) -> Value:
    """The smallest element along an axis up to each one, as ``cumsum``; NaN from one on."""
    return _scan("cummin", "min", x, axis, reverse, exclusive)


def _scan(name: str, fn: str, x: Value, axis: int, reverse: bool, exclusive: bool) -> Value:
    one = value_of(x)
    if type(axis) is not int:
        refuse("BadArgument", f"{name} goes along one axis, a whole number, not {axis!r}")
    made = one.builder.scan(fn, one.ssa, axis, reverse=reverse, exclusive=exclusive)
    return Value(one.builder, made)
