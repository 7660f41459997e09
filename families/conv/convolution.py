"""What a convolution of a region is: an implicit GEMM of pixels and filters (S4.9, S5.2, S9)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.precision import coarser
from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import OPERAND_BYTES
from polyc.dialects.region import (
    IndexOp,
    InsideOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
)
from polyc.dialects.region.types import MemRefType
from polyc.families.conv.groups import Groups
from polyc.families.facts import exprs_of, uses
from polyc.rewriting.region.products import (
    Factor,
    axis_size,
)

PIXELS = "pixels"
"""The name of the axis that rows and columns of the output are together, and its images where its
filters lie inside of them."""


@dataclass(frozen=True)
class Convolution:
    """A convolution as an implicit GEMM in a region.

    ``pixel_axes`` are image, row and column of the output, ``filters`` its last axis, or where it
    has its ``filters_first`` that before rows and columns, ``channels`` the summed axis beside the
    taps.  Where images of the output are planes of others, as those along the depth of three axes,
    ``plane`` is their axis, before the rows.  The image has its channels last, or with ``planes``
    before rows and columns.  Where it is ``turned``, rows of the product are filters, and columns
    pixels of one image: so is one with its filters first, but where a plan merges the pixels of all
    images (:meth:`merged`).
    """

    kernel: KernelOp
    reduce: ReduceOp
    image: Factor
    filter: Factor
    geometry: Im2colAttr
    pixel_axes: tuple[str, str, str]
    filters: str
    channels: str
    epilogue: tuple[str, ...]
    groups: Groups
    turned: bool = False
    planes: bool = False
    filters_first: bool = False
    whole: bool = False
    """Whether a step has points of whole windows: ``channels`` are those, plane by plane, and in
    each its taps."""
    plane: str | None = None
    """The axis of the output's planes, where the images of ``pixel_axes`` have several each."""
    follow: tuple[ReduceOp | ReduceTogetherOp, ...] = ()
    """Reductions along the filters in the epilogue, in order."""

    @property
    def is_exact(self) -> bool:
        """Whether image and filter are f32, which threads multiply by themselves but where a
        precision permits TF32."""
        return self.image.element == f32

    @property
    def precision(self) -> str | None:
        """What its precision permits of products of f32 on tensor cores; None where nothing."""
        return coarser(self.reduce.precision)

    @property
    def halves(self) -> int:
        """How many elements of 16 bits one of its operands is as wide as."""
        return 2 if self.is_exact else 1

    def size(self, axis: str) -> Dim:
        """The number of points of an axis."""
        return axis_size(self.reduce, axis)

    @property
    def taps(self) -> int:
        """How many pixels of the image a pixel of the output reads, each with all channels of a
        step."""
        return 1 if self.whole else prod(self.geometry.taps)

    @property
    def image_dims(self) -> Shape:
        """The image's sizes: images, rows, columns, channels; those of pieces together."""
        if self.planes:
            images, channels, *inside = cast("MemRefType", self.image.read.tensor.type).shape
            return (images, *inside, channels)
        *first, channels = cast("MemRefType", self.image.read.tensor.type).shape
        rest = (piece.size for piece in self.image.pieces[1:])
        return (*first, sum(rest, channels))

    @property
    def output_dims(self) -> Shape:
        """The output's sizes: images, rows, columns, filters, which may be reduced."""
        if self.follow:
            *outer, rows, columns = map(self.size, self.inside)
            return (prod(outer, start=Dim.const(1)), rows, columns, self.size(self.filters))
        images, *inside = self.kernel.outs.data[0].shape
        if self.filters_first:
            inside = [*inside[1:], inside[0]]
        if self.plane is not None:
            images *= inside.pop(0)
        return (images, *inside)

    @property
    def pixels(self) -> Dim:
        """Pixels along one side of the implicit GEMM: those of all images, or where the output is
        ``turned`` those of one.
        """
        images, rows, columns, _ = self.output_dims
        return rows * columns if self.turned else images * rows * columns

    @property
    def tile_axes(self) -> tuple[str, str]:
        """The axes along which the rows and the columns of a tile lie."""
        return (self.filters, PIXELS) if self.turned else (PIXELS, self.filters)

    @property
    def batch(self) -> tuple[str, ...]:
        """The axes of which a tile has one point: the images of a ``turned`` output, and their
        planes."""
        if not self.turned:
            return ()
        return (self.pixel_axes[0],) if self.plane is None else (self.pixel_axes[0], self.plane)

    @property
    def inside(self) -> tuple[str, ...]:
        """The axes that pixels of the implicit GEMM are together."""
        images, *inside = self.pixel_axes
        if self.turned:
            return tuple(inside)
        return (images, *inside) if self.plane is None else (images, self.plane, *inside)

    @property
    def reduces_filters(self) -> bool:
        """Whether a pixel of the output has one element, of all filters."""
        return self.filters not in labels_of(self.kernel)

    @property
    def line(self) -> Dim:
        """The number of neighbours in a row of the implicit GEMM's output."""
        if self.reduces_filters:
            return Dim.const(1)
        _, rows, columns, filters = self.output_dims
        return rows * columns if self.filters_first else filters

    @property
    def reads_by_pixels(self) -> bool:
        """Whether the epilogue reads a tensor that moves with the pixels, such as a residual."""
        reads = [op for op in self.kernel.body.block.ops if isinstance(op, ReadOp)]
        image = self.image.reads()
        return any(read not in image and reads_pixels(self, read) for read in reads)

    @property
    def matrix_dims(self) -> Shape:
        """The output's sizes as a matrix, pixels and filters; images, filters, planes if there are
        any, and pixels of one, where it has its filters first, and pixels alone where filters are
        reduced.
        """
        if self.reduces_filters:
            return (self.pixels,)
        if self.filters_first:
            *first, rows, columns = self.kernel.outs.data[0].shape
            return (*first, rows * columns)
        return (self.pixels, self.output_dims[-1])

    @property
    def matrix_axes(self) -> tuple[str, ...]:
        """The axes of ``matrix_dims``."""
        if not self.turned:
            return self.tile_axes[:1] if self.reduces_filters else self.tile_axes
        first, *planes = self.batch
        return (first, self.filters, *planes, PIXELS)

    @property
    def merged(self) -> Convolution:
        """The same with pixels of all images as rows, and filters as columns."""
        return replace(self, turned=False)

    @property
    def why_not_merged(self) -> str | None:
        """Why its pixels are no rows that are stored with filters first; None where they are."""
        if not self.filters_first:
            return "its output has its filters last, so that its pixels are rows anyway"
        if self.plane is not None:
            return f"its images have planes along {self.plane}, with filters before them"
        if self.planes or self.groups.filters or self.is_exact:
            return "it is of one group of 16 bits, of an image with its channels last"
        if any(size.constant() is None for size in self.output_dims):
            return "its output has sizes that are not known"
        operands = {*self.image.operations(), *self.filter.operations()}
        for op in self.kernel.body.block.ops:
            if op in operands or not isinstance(op, ReadOp | IndexOp | InsideOp):
                continue
            if any(uses(op, expr, self.pixel_axes) for expr in exprs_of(op)):
                return "its epilogue reads or counts pixels or images of its output"
        sizes = [element_bytes(out.element_type) for out in self.kernel.outs.data]
        if sizes != [OPERAND_BYTES]:
            return "it has another output than one of 16 bits"
        return None

    @property
    def filter_dims(self) -> Shape:
        """The filter's sizes with its taps as one axis: filters, taps, channels."""
        return (self.size(self.filters), Dim.const(self.taps), self.size(self.channels))


def labels_of(kernel: KernelOp) -> tuple[str, ...]:
    """The axes of a region's outputs, the outermost first."""
    return tuple(axis.label for axis in kernel.iters)


def reads_pixels(conv: Convolution, read: ReadOp) -> bool:
    """Whether an epilogue's read moves with the pixels of the output, its images apart where these
    are no axis of a tile.
    """
    return any(uses(read, e, conv.inside) for e in read.map.data.results)


def merged_pixels(conv: Convolution, read: ReadOp) -> int:
    """The first of the dimensions of an epilogue's read that are one axis of pixels, as the rows
    and columns of a tensor of the output's images are; those of its images are too where the
    output's are.  -1 where there are none.
    """
    axes = conv.inside
    labels, results = read.result.type.labels, read.map.data.results
    walked = [labels[e.position] if isinstance(e, AffineDimExpr) else None for e in results]
    shape = cast("MemRefType", read.tensor.type).shape
    known = {axis.label: axis.size for axis in conv.kernel.iters}
    sizes, many = tuple(known[axis] for axis in axes), len(axes)
    for first in range(len(walked) - many + 1 if conv.turned else 1):
        if walked[first : first + many] == list(axes) and shape[first : first + many] == sizes:
            return first
    return -1
