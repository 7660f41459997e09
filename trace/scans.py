"""Scans over traced values: ``polyc.cumsum``, ``cumprod``, ``cummax`` and ``cummin``.

Each is a ``frontend.scan``; docs/semantics.md has what it gives of NaN, infinities and nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from polyc.trace.source import public, refuse
from polyc.trace.values import Value, value_of


class Scan(Protocol):
    """A scan of a value along an axis."""

    def __call__(
        self, x: Value, axis: int = -1, *, reverse: bool = False, exclusive: bool = False
    ) -> Value: ...


def _scan(name: str, fn: str, doc: str) -> Scan:
    def function(
        x: Value, axis: int = -1, *, reverse: bool = False, exclusive: bool = False
    ) -> Value:
        one = value_of(x)
        if type(axis) is not int:
            refuse("BadArgument", f"{name} goes along one axis, a whole number, not {axis!r}")
        made = one.builder.scan(fn, one.ssa, axis, reverse=reverse, exclusive=exclusive)
        return Value(one.builder, made)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return cast(Scan, public(cast("Callable[[Value], Value]", function)))


cumsum = _scan(
    "cumsum",
    "sum",
    "The sums of the elements along an axis up to each one; with ``exclusive`` up to the one "
    "before it, with ``reverse`` from the end.",
)
cumprod = _scan("cumprod", "prod", "The products of the elements up to each one, as ``cumsum``.")
cummax = _scan(
    "cummax", "max", "The largest element up to each one, as ``cumsum``; NaN from one on."
)
cummin = _scan(
    "cummin", "min", "The smallest element up to each one, as ``cumsum``; NaN from one on."
)
