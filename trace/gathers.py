"""Functions of traced values at indices: ``polyc.take``, ``polyc.embedding``, ``polyc.scatter``, ….

A negative index counts from the end, as NumPy's does, but for ``embedding``.  One outside of
its axis reads ``fill``, and the nearest element without one (docs/semantics.md).  With ``trap``
that is a fault, which ``polyc.load(…, debug=True)`` and playback report.
"""

from __future__ import annotations

import operator
from typing import Any, cast

from xdsl.dialects.builtin import i1

from polyc.dialects import frontend
from polyc.dialects.common.elements import Number, holds, is_integer
from polyc.dialects.common.numbers import not_held
from polyc.trace.folding import to_f32
from polyc.trace.sizes import Size
from polyc.trace.source import public, refuse
from polyc.trace.values import Value, same_type, value_of


@public
def take(
    x: Value,
    indices: Value,
    axis: int = 0,
    *,
    fill: float | int | None = None,
    trap: bool = False,
) -> Value:
    """The elements of ``x`` at ``indices`` along an axis, which becomes the indices' axes.

    ``take(x, i, 1)[a, j, b]`` is ``x[a, i[j], b]``.
    """
    return _gathered(frontend.GatherOp, "take", x, indices, axis, fill, trap=trap)


@public
def take_along_axis(
    x: Value,
    indices: Value,
    axis: int = -1,
    *,
    fill: float | int | None = None,
    trap: bool = False,
) -> Value:
    """The elements of ``x`` at an index along an axis for each: PyTorch's ``gather``.

    ``take_along_axis(x, i, 1)[a, b]`` is ``x[a, i[a, b]]``.
    """
    what = "take_along_axis"
    return _gathered(frontend.GatherElementsOp, what, x, indices, axis, fill, trap=trap)


@public
def gather_nd(
    x: Value,
    indices: Value,
    batch: int = 0,
    *,
    fill: float | int | None = None,
    trap: bool = False,
) -> Value:
    """The elements or blocks of ``x`` at tuples of indices, which are the indices' last axis.

    The first ``batch`` axes are the same in both.  ``gather_nd(x, i)[a, b]`` is
    ``x[i[a, 0], i[a, 1], b]`` where a tuple has two.
    """
    one, at = value_of(x), _indices("gather_nd", indices)
    found = one.builder.gather_nd(
        one.ssa, at.ssa, operator.index(batch), _fill("gather_nd", fill, one), trap=trap
    )
    return Value(one.builder, found)


@public
def embedding(
    table: Value, indices: Value, *, fill: float | int | None = None, trap: bool = False
) -> Value:
    """The rows of a table at indices, which count from 0: ``torch.nn.functional.embedding``."""
    how = {"from_end": False, "trap": trap}
    return _gathered(frontend.GatherOp, "embedding", table, indices, 0, fill, **how)


def _gathered(
    kind: type[frontend.GatherOp | frontend.GatherElementsOp],
    what: str,
    x: Value,
    indices: Value,
    axis: int,
    fill: float | int | None,
    from_end: bool = True,
    trap: bool = False,
) -> Value:
    one, at = value_of(x), _indices(what, indices)
    number = _fill(what, fill, one)
    found = one.builder.gather(kind, one.ssa, at.ssa, axis, number, from_end=from_end, trap=trap)
    return Value(one.builder, found)


def _indices(what: str, indices: Value) -> Value:
    found = value_of(indices)
    if found.dtype.strip("ui").isdigit() and found.dtype != "i1":
        return found
    refuse("TypeMismatch", f"{what} takes indices of an integer type, not {found!r}; cast them")


def _fill(what: str, fill: object, of: Value) -> Number | None:
    """What stands for elements outside, as their type has it."""
    if fill is None:
        return None
    element = of.kind.element_type
    number = getattr(fill, "__float__", None)
    if number is None or isinstance(fill, Value | Size) or getattr(fill, "shape", ()) != ():
        refuse("BadArgument", f"{what} fills with a number, not with {fill!r}")
    try:
        value: Number = operator.index(cast("Any", fill))
    except TypeError:
        value = float(number())
    if is_integer(element):
        if (fault := not_held(value, element)) is not None:
            refuse("TypeMismatch", f"{what} fills with {fault}; give one of these, or cast")
        return int(value)
    if element == i1 and not holds(element, value):
        refuse("TypeMismatch", f"{what} fills conditions with True or False, not with {fill!r}")
    return to_f32(float(value))


# Writing --------------------------------------------------------------------------------


@public
def scatter(
    x: Value,
    indices: Value,
    updates: Value,
    axis: int = 0,
    *,
    reduce: str = "set",
    trap: bool = False,
) -> Value:
    """``x`` with ``updates`` at ``indices`` along an axis, where ``take`` reads.

    ``reduce`` is ``set``, which takes the last update of an element, ``add``, ``mul``, ``max`` or
    ``min``.  An index outside of the axis leaves its updates out.
    """
    return _scattered(frontend.ScatterOp, "scatter", x, indices, updates, axis, reduce, trap)


@public
def scatter_along_axis(
    x: Value,
    indices: Value,
    updates: Value,
    axis: int = -1,
    *,
    reduce: str = "set",
    trap: bool = False,
) -> Value:
    """``x`` with an update for each index along an axis, where ``take_along_axis`` reads:
    PyTorch's ``scatter`` and ``scatter_reduce``."""
    what = "scatter_along_axis"
    return _scattered(frontend.ScatterElementsOp, what, x, indices, updates, axis, reduce, trap)


@public
def scatter_nd(
    x: Value,
    indices: Value,
    updates: Value,
    batch: int = 0,
    *,
    reduce: str = "set",
    trap: bool = False,
) -> Value:
    """``x`` with updates at tuples of indices, where ``gather_nd`` reads."""
    one, at, new = value_of(x), _indices("scatter_nd", indices), value_of(updates)
    same_type("scatter_nd", one, new)
    count = operator.index(batch)
    made = one.builder.scatter_nd(reduce, one.ssa, at.ssa, new.ssa, count, trap=trap)
    return Value(one.builder, made)


def _scattered(
    kind: type[frontend.ScatterOp | frontend.ScatterElementsOp],
    what: str,
    x: Value,
    indices: Value,
    updates: Value,
    axis: int,
    reduce: str,
    trap: bool,
) -> Value:
    one, at, new = value_of(x), _indices(what, indices), value_of(updates)
    same_type(what, one, new)
    made = one.builder.scatter(kind, reduce, one.ssa, at.ssa, new.ssa, axis, trap=trap)
    return Value(one.builder, made)
