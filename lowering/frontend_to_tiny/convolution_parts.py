"""What a convolution is on its way to products, and sizes that its way is chosen by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, Operation

from polyc.dialects.common.dim import Dim, Shape

TILE = 8
"""Filters of a group from which on tensor cores compute a convolution in groups, and channels that
are one vector."""

GROUP = 16
"""Filters and channels of a group are multiples of it where an implicit GEMM has tiles inside."""


@dataclass(frozen=True)
class Geometry:
    """How windows walk over an image: of rows, then of columns."""

    stride: Sequence[int]
    dilation: Sequence[int]
    padding: Sequence[int]
    """Rows above and below, columns left and right."""


@dataclass(frozen=True)
class Convolution:
    """A convolution along some axes."""

    at: Operation
    """Where it stands: sizes are compared under the assumptions there."""
    first: bool
    """Whether the result has channels before the pixels."""
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    groups: Dim
    element: Attribute
    """The type that operands are rounded to."""
    precision: StringAttr | None
    shape: Shape
    """Of the result."""
    alone: bool = True
    """Whether the result is nothing else's part, as a phase of a transposed one is."""
    apart: Shape = ()
    """Images and planes that those of an image are together, where the result has them apart, with
    filters between them."""
