"""Views: a kernel's tensor is the memory that the host binds, seen in other axes (S9.3, S4.7).

A dense tensor of sizes ``[N, P, Q, F]`` is also a matrix of ``[N * P * Q, F]``, and the matrix such
a tensor: consecutive axes are merged and split, nothing moves, and the address is the same.  Sizes
are polynomials in one canonical form, so that equal products are equal objects.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import Dim, shape_text
from polyc.dialects.common.sizes import quotient
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.types import BindAttr, GlobalType, TensorMapType

IM2COL_AXES = 4
"""Axes of what an im2col map reads: image, row, column, channel."""


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


def check_bound(where: str, binding: BindAttr, seen: Attribute, memory: GlobalType) -> None:
    """Refuse a kernel's argument that is no view of ``memory``; raises VerifyException."""
    bound = f"{where} of {memory} as {seen}"
    match seen:
        case GlobalType():
            view, axes = seen.dims, len(seen.dims)
        case TensorMapType() | Im2colMapType():
            view = memory.dims if binding.view_dims is None else binding.view_dims
            axes = IM2COL_AXES if isinstance(seen, Im2colMapType) else len(seen.sizes)
        case _:
            raise VerifyException(f"{bound}, which is no tensor and no tensor map")
    if seen.element_type != memory.element_type:
        raise VerifyException(f"{bound}; a view has the same elements")
    if len(view) != axes:
        raise VerifyException(f"{bound}, and boxes of {axes} axes do not fit {shape_text(view)}")
    if not is_view(view, memory.dims):
        raise VerifyException(
            f"{bound}, and {shape_text(view)} is no view of {shape_text(memory.dims)}: "
            "consecutive sizes are merged and split, and none moves"
        )
