"""A kernel's tensor is the memory that the host binds, or a view of it (S9.3, S4.7)."""

from __future__ import annotations

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import without_sign
from polyc.dialects.common.views import is_cut_anew, is_view
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.types import GlobalType, TensorMapType

IM2COL_AXES = 4
"""Axes of what an im2col map reads: image, row, column, channel."""


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
    # The host says of integers whether they are signed, and kernels do in their ops.
    if seen.element_type != without_sign(memory.element_type):
        raise VerifyException(f"{bound}; a view has the same elements")
    if len(view) != axes:
        raise VerifyException(f"{bound}, and boxes of {axes} axes do not fit {shape_text(view)}")
    if not is_view(view, memory.dims) and not is_cut_anew(view, memory.dims):
        raise VerifyException(
            f"{bound}, and {shape_text(view)} is no view of {shape_text(memory.dims)}: "
            "consecutive sizes are merged and split, and none moves"
        )
