"""Where a reduction is better done in two: over its outer axes first, then over the inner ones.

``[979846, 2, 5, 3, 2]`` over the first and the fourth axis has two elements that lie together, of
which one result's are six apart: threads that part its points read a little here and there.  Over
the first axis alone it is a sum of columns, 60 of which lie together, and what is left is small.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polyc.dialects.common.dim import Shape

TOGETHER = 32
"""Elements that are to lie together where outer axes are reduced: a warp's."""

SHORT, SEVERAL = 16, 256
"""Elements of an innermost run of axes, all reduced or all kept, from which on threads part it as
it is where it and the run outside of it have so many."""

LESS = 16
"""How many times less the first step leaves, at least."""


LARGE = 1 << 16
"""Elements from which on two kernels are worth it."""


def outer_axes(dims: Shape, axes: Sequence[int]) -> tuple[int, ...] | None:
    """Those of ``axes`` that are reduced first, or None where all are at once.

    The innermost axes are short runs of reduced and of kept ones in turn.  As many of them stay as
    make a run of ``TOGETHER`` elements, whatever they are, and what lies outside of these is
    reduced first.
    """
    sizes = [dim.constant() for dim in dims]
    if 0 in sizes:
        return None
    known = [size if size is not None else LESS for size in sizes]
    reduced = set(axes)
    if None not in sizes and prod(known) < LARGE:
        return None
    inner, *others = _runs(sizes, reduced)
    if inner >= TOGETHER * 2 or (inner >= SHORT and inner * others[0] >= SEVERAL):
        return None
    found: tuple[int, ...] | None = None
    together = 1
    for cut in reversed(range(1, len(sizes))):
        size = sizes[cut]
        if size is None:
            break
        together *= size
        outside = tuple(at for at in axes if at < cut)
        if not _is_apart(sizes, reduced, cut):
            continue
        if prod(known[at] for at in outside) < LESS:
            break
        found = outside
        if together >= TOGETHER:
            break
    return found


def _is_apart(sizes: Sequence[int | None], reduced: set[int], cut: int) -> bool:
    """Whether kept axes lie between reduced ones from ``cut`` on and those outside."""
    within = [at for at in range(len(sizes)) if sizes[at] != 1]
    inside = [at for at in within if at >= cut and at in reduced]
    outside = [at for at in within if at < cut and at in reduced]
    if not inside or not outside:
        return False
    return any(at not in reduced for at in within if outside[-1] < at < inside[0])


def _runs(sizes: Sequence[int | None], reduced: set[int]) -> list[float]:
    """The elements of each run of axes that are all reduced or all kept, the innermost first."""
    found: list[float] = []
    kind = None
    for at in reversed(range(len(sizes))):
        size = sizes[at]
        if size == 1:
            continue
        if (at in reduced) != kind:
            found.append(1.0)
            kind = at in reduced
        found[-1] *= float("inf") if size is None else size
    return [*found, 1.0, 1.0]
