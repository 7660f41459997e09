"""Views: a dense tensor's memory, seen in other axes (S4.7, S9.3).

A dense tensor of sizes ``[N, P, Q, F]`` is also a matrix of ``[N * P * Q, F]``, and the matrix such
a tensor: consecutive axes are merged and split, nothing moves, and the address is the same.  Sizes
are polynomials in one canonical form, so that equal products are equal objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import quotient


def merged_axes(view: Sequence[Dim], memory: Sequence[Dim]) -> list[list[int]] | None:
    """For each axis of ``view`` the consecutive axes of ``memory`` that it is the product of.

    None where it is no such view.  An axis of size 1 may be the product of none, and those of
    ``memory`` at its end may be in no product.
    """
    if not view:
        one = Dim.const(1)
        return [] if all(size == one for size in memory) else None
    product = Dim.const(1)
    for count in range(len(memory) + 1):
        if count:
            product = product * memory[count - 1]
        if product == view[0]:
            rest = merged_axes(view[1:], memory[count:])
            if rest is not None:
                return [list(range(count)), *([a + count for a in axes] for axes in rest)]
    return None


def is_view(view: Sequence[Dim], memory: Sequence[Dim]) -> bool:
    """Whether ``view`` merges consecutive axes of ``memory``, splits axes into such ones, or both.

    Both are where axis for axis the smaller size divides what is left of the larger one:
    ``[2 * K, M]`` and ``[2, K * M]`` have ``[2, K, M]`` in common.
    """
    if merged_axes(view, memory) is not None or merged_axes(memory, view) is not None:
        return True
    left, right = list(view), list(memory)
    while left and right:
        if (rest := quotient(left[0], right[0])) is not None:
            left[0] = rest
            del right[0]
        elif (rest := quotient(right[0], left[0])) is not None:
            right[0] = rest
            del left[0]
        else:
            return False
    return all(size.constant() == 1 for size in (*left, *right))


CUT = (8, 16, 32, 64)
"""Elements of the lines that a run of memory may be cut into."""


def is_cut_anew(view: Sequence[Dim], memory: Sequence[Dim]) -> bool:
    """Whether the last two axes of ``view`` are a run of ``memory`` in lines of 8, 16, 32 or 64
    elements, wherever axes of that begin: 64 rows of 49 are 49 lines of 64.

    The last two axes of both are the same elements in the same order then.  An axis of memory that
    is as long as a line is may have moved, so it is none.
    """
    if len(view) < 2 or len(memory) < 2 or view[-1].constant() not in CUT:
        return False
    if view[-1] in memory[-2:]:
        return False
    (*outer, lines, line), (*others, high, wide) = view, memory
    return is_view([*outer, lines * line], [*others, high * wide])
