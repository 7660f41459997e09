"""Q, K and V of an attention: how the tensors lie that it reads (S6.10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias, cast

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.affine.expressions import NotAffine, canonical_expr, linear_of, uses_dim
from polyc.dialects import region
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.sizes import quotient
from polyc.dialects.region.types import AxisAttr, MemRefType
from polyc.families.attention.paged import Paged, pages_of
from polyc.families.attention.softmax import Refused
from polyc.rewriting.region.building import type_of

FEATURE_STEP = 8
"""Heads are whole vectors of 16 bytes, and start at such ones where several are in a row."""

CORE_STEP = 16
"""A step of a tensor core takes 16 features; so do the swizzled rows of a tile."""

PADDED_STEP = 32
"""Features of which there are more in a tile than in a head fill rows of 64 bytes: these have a
wider swizzle than rows of 32, and four lanes that share eight columns store them at once.  On an
H200 heads of 96 take less time than heads of 80, and those of 160 than those of 144."""

WHOLE_ROW = 64
"""Features of a swizzled row of 128 bytes, the widest that TMA brings at once."""


def in_tiles(features: int, element: Attribute, whole_rows: bool = False) -> int:
    """The features of a tile that holds a head; those beyond the head are zeros.

    Of f32, which lanes multiply by themselves, eight have four neighbouring features each.
    ``whole_rows`` asks for tiles as TMA brings them best, of heads of more than 64 features whose
    rows are not of whole 64 bytes: of rows of 128 bytes where the tile grows by no more than a
    third, else of 64.  A row comes in two pieces then where it came in three of 64 bytes, or in
    seven of 32.  Heads of 72 take 198 us so for 229, of 80 143 for 158, of 112 138 for 157, of 144
    152 for 168, of 152 144 for 161, of 176 117 for 158, of 208 109 for 130 and of 240 112 for 159;
    heads of 48, 96 and 160 would take 174 for 170, 141 for 126 and 124 for 118 (H100).
    """
    fills = features % _step(element) == 0
    padded = -(-features // PADDED_STEP) * PADDED_STEP
    least = features if fills else padded
    if not whole_rows or element == f32 or features % PADDED_STEP == 0 or features < WHOLE_ROW:
        return least
    wide = -(-features // WHOLE_ROW) * WHOLE_ROW
    return wide if 3 * wide <= 4 * least else padded


def _step(element: Attribute) -> int:
    return PADDED_STEP if element == f32 else CORE_STEP


@dataclass(frozen=True)
class HeadOperand:
    """Q, K or V: a tensor that is read along two axes, at a place that the batch axes give."""

    name: str
    read: region.ReadOp
    shape: Shape
    """The sizes of the tensor, of which the last may be two: heads in a row, and features."""
    axes: tuple[str | AffineExpr, ...]
    """Of each dimension of ``shape`` the axis that walks it, or, as an expression whose
    dimensions are the batch axes, where the tile lies."""
    offset: AffineExpr
    """The first feature of a head, where several heads are in a row of one dimension; 0 else."""
    paged: Paged | None = None
    """Of keys or values in pages that an index picks, which; their place in ``axes`` is 0 then, and
    keys go along those of a page."""

    @property
    def places(self) -> list[AffineExpr]:
        """What says where the keys of a point of the batch lie, in the batch's axes."""
        return [*(axis for axis in self.axes if isinstance(axis, AffineExpr)), self.offset]

    @property
    def along(self) -> tuple[int, int]:
        """The dimensions of the positions and of the features, which are the last."""
        first, last = (i for i, axis in enumerate(self.axes) if isinstance(axis, str))
        return first, last

    @property
    def element(self) -> Attribute:
        """The type that it is stored in."""
        return self.read.result.type.element_type

    @property
    def feature(self) -> str:
        """The axis of the features, the innermost."""
        return cast("str", self.axes[-1])


Factor: TypeAlias = tuple[region.ReadOp, region.GatherOp | None]
"""What a factor of a product is read by, and the gather that it may be of."""


def operand_of(
    kernel: region.KernelOp,
    factor: Factor,
    walks: tuple[str, str],
    batch: Sequence[str],
    summed: bool,
) -> HeadOperand:
    """How a factor lies in its tensor; ``summed`` are products over its features.

    Raises Refused where it is no tile of a tensor.
    """
    read, gather = factor
    name, shape = kernel.name_of(read.tensor), tuple(cast("MemRefType", read.tensor.type).shape)
    paged = None if gather is None else pages_of(kernel, read, gather, walks[0], batch)
    labels = read.result.type.labels
    places: list[AffineExpr] = [
        AffineDimExpr(batch.index(x)) if x in batch else AffineDimExpr(len(batch)) for x in labels
    ]
    symbols = [AffineExpr.symbol(i) for i in range(len(kernel.symbol_names))]
    found: list[str | AffineExpr] = []
    sizes = list(shape)
    offset: AffineExpr = AffineExpr.constant(0)
    keys = type_of(read.result).axis(walks[0])
    for number, expr in enumerate(read.map.data.results):
        walked = [x for x in walks if x in labels and uses_dim(expr, labels.index(x))]
        axis = walked[0] if walked else None
        if paged is not None and number == paged.dimension:
            found.append(AffineExpr.constant(0))
            if keys is None:  # A page of one key has an axis for it.
                found.append(walks[0])
                sizes.insert(number + 1, Dim.const(1))
            continue
        if paged is not None and axis == walks[0]:
            found.append(walks[0])
            continue
        own = AffineExpr.constant(0) if axis is None else AffineDimExpr(labels.index(axis))
        rest = canonical_expr(expr - own)
        if any(x not in batch and uses_dim(rest, i) for i, x in enumerate(labels)):
            raise Refused(f"it reads {name} at {expr}, not along an axis", read)
        place = rest.replace_dims_and_symbols(places, symbols)
        if axis == walks[1]:
            offset = place
        elif axis is not None and (
            rest != AffineExpr.constant(0) or keys is None or keys.size != shape[number]
        ):
            if (outer := _sequences(rest, place, keys, shape[number])) is not None:
                many, length, which = outer
                sizes[len(found) : len(found) + 1] = [many, length]
                found += [which, axis]
                continue
            raise Refused(f"it reads {name} at {expr}, not along an axis of its size", read)
        found.append(place if axis is None else axis)
    if sorted(a for a in found if isinstance(a, str)) != sorted(walks):
        raise Refused(f"it reads {name} not along {walks[0]} and {walks[1]}", read)
    if found[-1] != walks[1]:
        raise Refused(f"features are not the innermost axis of {name}", read)
    starts = linear_of(offset)
    if any(step % FEATURE_STEP for step in (starts.constant, *(c for _, c in starts.terms))):
        raise Refused(f"heads of {name} do not start at multiples of {FEATURE_STEP}", read)
    return apart(HeadOperand(name, read, tuple(sizes), tuple(found), offset, paged), summed)


def _sequences(
    rest: AffineExpr, place: AffineExpr, keys: AxisAttr | None, size: Dim
) -> tuple[Dim, Dim, AffineExpr] | None:
    """Of a dimension of ``size`` with whole sequences one after another, how many there are, their
    length, and which one begins at ``place``.

    None where ``rest``, the same in the axes of the read, is no sequence's start.
    """
    length = None if keys is None else keys.size.constant()
    many = None if length is None else quotient(size, Dim.const(length))
    if not length or many is None:
        return None
    try:
        starts = linear_of(rest)
    except NotAffine:
        return None
    if any(s % length for s in (starts.constant, *(c for _, c in starts.terms))):
        return None
    return many, Dim.const(length), canonical_expr(place // length)


def apart(operand: HeadOperand, summed: bool, whole_rows: bool = False) -> HeadOperand:
    """The operand with a head's features as a dimension, where a tile is wider than a head.

    Beyond its tensor a tile is filled with zeros, and beyond a head in a row are features of
    others.  Where these are ``summed`` over, the operand is refused; columns of V that are none
    of the head are only of columns that no output has.  ``whole_rows`` is as for ``in_tiles``.

    Raises Refused.
    """
    axis = type_of(operand.read.result).axis(operand.feature)
    assert axis is not None
    size = axis.size.constant()
    *outer, row = operand.shape
    if (
        size is None
        or size % FEATURE_STEP
        or in_tiles(size, operand.element, whole_rows) == size
        or row.constant() == size
    ):
        return operand
    starts, heads = linear_of(operand.offset), quotient(row, Dim.const(size))
    steps = (starts.constant, *(c for _, c in starts.terms))
    if heads is not None and not any(step % size for step in steps):
        number = canonical_expr(operand.offset // size)
        return replace(
            operand,
            shape=(*outer, heads, Dim.const(size)),
            axes=(*operand.axes[:-1], number, operand.feature),
            offset=AffineExpr.constant(0),
        )
    if summed:
        step = _step(operand.element)
        raise Refused(
            f"heads of {operand.name} have {size} features, no multiple of {step}, and "
            f"are not whole parts of its rows of {row}",
            operand.read,
        )
    return operand
