"""Functions of traced values that read at indices: ``polyc.take``, ``polyc.embedding``, ….

A negative index counts from the end, as NumPy's does, but for ``embedding``.  One outside of
its axis reads ``fill``, and the nearest element without one (docs/semantics.md).
"""

from __future__ import annotations

from polyc.dialects import frontend
from polyc.trace.source import public, refuse
from polyc.trace.values import Value, value_of


@public
def take(x: Value, indices: Value, axis: int = 0, *, fill: float | int | None = None) -> Value:
    """The elements of ``x`` at ``indices`` along an axis, which becomes the indices' axes.

    ``take(x, i, 1)[a, j, b]`` is ``x[a, i[j], b]``.
    """
    return _gathered(frontend.GatherOp, "take", x, indices, axis, fill)


@public
def take_along_axis(
    x: Value, indices: Value, axis: int = -1, *, fill: float | int | None = None
) -> Value:
    """The elements of ``x`` at an index along an axis for each: PyTorch's ``gather``.

    ``take_along_axis(x, i, 1)[a, b]`` is ``x[a, i[a, b]]``.
    """
    return _gathered(frontend.GatherElementsOp, "take_along_axis", x, indices, axis, fill)


@public
def gather_nd(
    x: Value, indices: Value, batch: int = 0, *, fill: float | int | None = None
) -> Value:
    """The elements or blocks of ``x`` at tuples of indices, which are the indices' last axis.

    The first ``batch`` axes are the same in both.  ``gather_nd(x, i)[a, b]`` is
    ``x[i[a, 0], i[a, 1], b]`` where a tuple has two.
    """
    one, at = value_of(x), _indices("gather_nd", indices)
    found = one.builder.gather_nd(one.ssa, at.ssa, batch, fill)
    return Value(one.builder, found)


@public
def embedding(table: Value, indices: Value, *, fill: float | int | None = None) -> Value:
    """The rows of a table at indices, which count from 0: ``torch.nn.functional.embedding``."""
    return _gathered(frontend.GatherOp, "embedding", table, indices, 0, fill, from_end=False)


def _gathered(
    kind: type[frontend.GatherOp | frontend.GatherElementsOp],
    what: str,
    x: Value,
    indices: Value,
    axis: int,
    fill: float | int | None,
    from_end: bool = True,
) -> Value:
    one, at = value_of(x), _indices(what, indices)
    found = one.builder.gather(kind, one.ssa, at.ssa, axis, fill, from_end=from_end)
    return Value(one.builder, found)


def _indices(what: str, indices: Value) -> Value:
    found = value_of(indices)
    if found.dtype.strip("ui").isdigit() and found.dtype != "i1":
        return found
    refuse("TypeMismatch", f"{what} takes indices of an integer type, not {found!r}; cast them")
