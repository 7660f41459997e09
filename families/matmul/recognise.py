"""The contraction of a region: what ``plan-select`` and the lowering schedule (S8, S9).

A region computes ``C[b..., m, n] = epilogue(sum over k of A[b..., m, k] * B[b..., k, n])``, or is
refused with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue

from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.precision import coarser
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.types import MemRefType, val_type
from polyc.families.facts import DEPTH, PIECE, ends_cleanly, holds_always
from polyc.families.follow import check_axes, check_rows, find_following
from polyc.poly.contraction import Operand as Read
from polyc.poly.pieces import Piece, guard_of, is_within_bounds
from polyc.rewriting.region.products import (
    WAY_OUT,
    Factor,
    Product,
    axis_size,
    epilogue_steps,
    find_products,
    unsupported,
)

HALF_TILE = 32
"""Rows from which on half of the least tile has something to multiply."""


@dataclass(frozen=True)
class MatrixOperand:
    """One side of a contraction: a tensor, the read of it, and the axes of its dimensions."""

    name: str
    read: ReadOp
    axes: tuple[str | None, ...]
    """The axis that walks each dimension of the tensor, outermost first; None for one place."""
    first: tuple[Dim, ...]
    """Where on each dimension it begins, or that place."""
    along: tuple[int, int]
    """The dimensions of the product's two axes; the tile's rows go along the second."""
    factor: Factor
    """What is multiplied of it."""

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """The tensors that it has one after another along an axis; none where it is one tensor."""
        return self.factor.pieces

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """What it is read from, in order."""
        return tuple(piece.read.tensor for piece in self.pieces) or (self.read.tensor,)

    def reads_along(self, axis: str) -> tuple[ReadOp, ...]:
        """The reads that go along an axis in one tensor: none of pieces that lie along it."""
        if not self.pieces:
            return (self.read,)
        return tuple(piece.read for piece in self.pieces if piece.axis != axis)

    @property
    def contiguous(self) -> tuple[Dim, ...]:
        """The size of the innermost dimension, of each tensor."""
        return tuple(cast("MemRefType", tensor.type).shape[-1] for tensor in self.tensors)

    @property
    def tile_axes(self) -> tuple[str, str]:
        """The axes of a tile of it: m or n, and k, as they are stored."""
        first, second = (self.axes[i] for i in self.along)
        assert first is not None and second is not None
        return first, second


COMPUTED = "make what is computed an output of a graph of its own"

JOIN = "join them in a graph of their own"

MERGED = "rows"
"""The axis that the rows of all matrices of a batch are, where a plan merges them."""

MOST_PRODUCTS = 2
"""Products whose accumulators a tile's threads hold beside each other."""


@dataclass(frozen=True)
class Beside:
    """A product with the same rows, columns and depth as another one, and one of its operands."""

    reduce: ReduceOp
    lhs: MatrixOperand
    rhs: MatrixOperand
    k: str


@dataclass(frozen=True)
class Contraction:
    """``C[b..., m, n] = epilogue(sum over k of A[b..., m, k] * B[b..., k, n])`` in a region.

    ``lhs`` carries m and ``rhs`` carries n, where n comes after m in the first output, or where
    elementwise ops compute ``lhs`` of what is read: threads do that in the registers from which
    tensor cores take the rows.  The axes ``batch`` are those of the outputs beside these two: an
    operand has all, some or none of them.
    """

    kernel: KernelOp
    reduce: ReduceOp
    lhs: MatrixOperand
    rhs: MatrixOperand
    batch: tuple[str, ...]
    m: str
    n: str
    k: str
    epilogue: tuple[str, ...]
    beside: tuple[Beside, ...] = ()
    """Products that share the operand of the rows, and meet this one in the epilogue."""
    follow: tuple[ReduceOp | ReduceTogetherOp, ...] = ()
    """Reductions along n in the epilogue, in order."""
    merges: tuple[str, ...] = ()
    """The axes that are one, ``MERGED``, as the kernels of a plan see it."""

    @property
    def parts(self) -> tuple[Beside, ...]:
        """All products of the region, this one first."""
        return (Beside(self.reduce, self.lhs, self.rhs, self.k), *self.beside)

    @property
    def sides(self) -> tuple[MatrixOperand, ...]:
        """The operands, each once: that of the rows, and those of the columns."""
        return (self.lhs, *(part.rhs for part in self.parts))

    @property
    def reads(self) -> set[ReadOp]:
        """The reads of the operands."""
        return {
            read
            for part in self.parts
            for side in (part.lhs, part.rhs)
            for read in side.factor.reads()
        }

    @property
    def is_exact(self) -> bool:
        """Whether its operands are f32, which threads multiply by themselves but where a precision
        permits tensor cores to."""
        return self.lhs.factor.element == f32

    @property
    def precision(self) -> str | None:
        """What products of f32 may be less than exact; None where nothing."""
        return coarser(self.reduce.precision)

    @property
    def names(self) -> str:
        """What a plan calls its products."""
        return ", ".join(str(part.reduce.label) for part in self.parts)

    def size(self, axis: str) -> Dim:
        """The number of points of an axis."""
        if axis == MERGED and self.merges:
            sizes = (axis_size(self.reduce, one) for one in self.merges)
            return prod(sizes, start=Dim.const(1))
        return axis_size(self.reduce, axis)

    @property
    def counts_more(self) -> bool:
        """Whether it has a batch, or axes of several sizes."""
        affine = (
            self.size(a).as_affine(self.kernel.symbol_names) for a in (self.m, self.n, self.k)
        )
        return bool(self.batch) or None in affine

    @property
    def outputs(self) -> tuple[tuple[str, ...], ...]:
        """The axes of each output's dimensions, outermost first."""
        return tuple(val_type(value).labels for value in self.kernel.yield_op.values)

    @property
    def rank(self) -> int:
        """The most dimensions that a tensor of it has which tiles are copied from or to."""
        return max(len(axes) for axes in (*(side.axes for side in self.sides), *self.outputs))


def staged_tile(gemm: Contraction, plan: ScheduleOp) -> tuple[int, int] | None:
    """The part of the output that a kernel stores at once by TMA; None where threads store.

    It takes one output of elements as wide as the operands' whose rows lie along n, as the
    accumulator's do.
    """
    outs = gemm.kernel.outs
    if len(outs) != 1 or element_bytes(outs.data[0].element_type) != plan.operand_bytes:
        return None
    return plan.staged_tile if gemm.outputs[0][-1] == gemm.n else None


def find_contraction(kernel: KernelOp) -> Contraction:
    """The contraction of a region.

    The region holds one sum of products, or two that share the operand of their rows, whose
    factors are reads of f16 or bf16 tensors, moved and cast only; of one product alone, one factor
    may be computed of what is read, or both are reads of f32.  Its rows may be reduced after it,
    where they are short and its operands are of 16 bits.  Axes that no tensor tells apart are one
    axis by now (``region-merge-axes``).  Raises PolycError ``UnsupportedProgram`` with the reason
    and the way out.
    """
    follow = find_following(kernel)
    products = find_products(
        kernel,
        1 if follow else MOST_PRODUCTS,
        follow=follow,
        computed=True,
        exact=not follow,
    )
    reduces = [product.reduce for product in products]
    steps = epilogue_steps(kernel, *reduces, transposed=True, follow=follow)
    if follow:
        check_axes(kernel, reduces[0].result)
    column = follow[0].labels[0] if follow else None
    if len(products) > 1 and any(product.lhs.element == f32 for product in products):
        why = "it has two products, and those of f32 are one a kernel"
        raise unsupported(kernel, why, WAY_OUT, reduces[1])
    first, *others = (_contracted(kernel, product, steps, column) for product in products)
    if follow:
        check_rows(kernel, follow, first.n, first.size(first.n))
    if others:
        for contraction in (first, *others):
            _check_as_read(kernel, contraction.sides, "which two products have", contraction)
    for other in others:
        _check_beside(kernel, first, other)
    beside = tuple(Beside(o.reduce, o.lhs, o.rhs, o.k) for o in others)
    return replace(first, beside=beside, follow=follow)


def _check_as_read(
    kernel: KernelOp, sides: Sequence[MatrixOperand], whose: str, at: Contraction
) -> None:
    """Refuse operands that are computed of what is read."""
    for side in sides:
        if side.factor.is_computed:
            why = f"it computes an operand of {side.name}, {whose}"
            raise unsupported(kernel, why, COMPUTED, at.reduce)


def _check_beside(kernel: KernelOp, one: Contraction, other: Contraction) -> None:
    """Refuse two products that do not go over the same tiles by the same rows."""
    same = (one.batch, one.m, one.n) == (other.batch, other.m, other.n)
    rows, others = (
        (c.lhs.tensors, ["k" if a == c.k else (a,) for a in c.lhs.axes], c.lhs.first)
        for c in (one, other)
    )
    if not same or one.size(one.k) != other.size(other.k):
        why = "it has two products over unlike axes"
    elif rows != others:
        why = f"it has two products, and {one.lhs.name} and {other.lhs.name} are not one operand"
    else:
        return
    raise unsupported(kernel, why, WAY_OUT, other.reduce)


def _contracted(
    kernel: KernelOp, product: Product, steps: tuple[str, ...], column: str | None
) -> Contraction:
    """One sum of products as a product of matrices; ``column`` is n where it is not left open."""
    reduce, pattern = product.reduce, product.pattern
    factors = (product.lhs, product.rhs)
    for side in factors:
        whole = side.read.guard is None if side.concat is None else side.concat.within is None
        if not whole:
            why = f"it reads {side.name} under a guard"
            raise unsupported(kernel, why, "pad the tensor outside", side.read)
    names, out = product.names, reduce.result.type.labels
    walks = [
        _walked(kernel, side, found, names)
        for side, found in zip(factors, (pattern.lhs, pattern.rhs), strict=True)
    ]
    if len(reduce.labels) != 1:
        raise unsupported(
            kernel,
            f"it sums over [{', '.join(reduce.labels)}], which are no one axis in both "
            f"{product.lhs.name} and {product.rhs.name}",
            "store them next to each other in the same order, or reshape them into one",
            reduce,
        )
    order = _outputs(kernel, out, column)[0]
    k = reduce.labels[0]
    own = ([names[a] for a in axes] for axes in (pattern.lhs_axes, pattern.rhs_axes))
    sides = [
        _operand(kernel, *side, order, reduce) for side in zip(factors, walks, own, strict=True)
    ]
    for side, _ in sides:
        at, depth = side.axes.index(k), axis_size(reduce, k)
        for read in side.reads_along(k):
            if not ends_cleanly(kernel, read, at, depth, side.first[at]):
                why = f"it reads {depth} points of {side.name} along {k}, with others behind them"
                raise unsupported(kernel, why, f"take a multiple of {DEPTH}, or copy them", read)
    # The later axis of the output is n, whichever factor carries it, but for a computed one's.
    (lhs, m), (rhs, n) = sorted(
        sides,
        key=lambda side: (side[1] == column, not side[0].factor.is_computed, order.index(side[1])),
    )
    batch = tuple(axis for axis in order if axis not in (m, n))
    found = Contraction(kernel, reduce, lhs, rhs, batch, m, n, k, steps)
    _check_as_read(kernel, [rhs], "whose axis is that of the columns", found)
    for side in (lhs, rhs):
        if side.pieces:
            _check_pieces(found, side, column)
    if lhs.factor.is_computed and lhs.tile_axes != (m, k):
        why = f"it computes an operand of {lhs.name}, which does not lie along {k}"
        raise unsupported(kernel, why, f"store {lhs.name} with {k} last", lhs.read)
    return found


def _check_pieces(found: Contraction, side: MatrixOperand, column: str | None) -> None:
    """Refuse an operand of pieces where tiles, or steps over k, may not lie inside of one."""
    kernel, axis = found.kernel, side.pieces[0].axis
    steps = {found.m: PIECE, found.n: PIECE, found.k: DEPTH}
    known, symbols = kernel.assumptions, kernel.symbol_names
    if axis == column:
        why = f"{side.name} follow each other along {axis}, which is reduced after the product"
        raise unsupported(kernel, why, JOIN, side.read)
    for piece in side.pieces:
        guard = guard_of(piece.read)
        if not is_within_bounds(piece.read, [piece.dimension], guard, known, symbols):
            why = f"it reads {kernel.name_of(piece.read.tensor)} under a guard"
            raise unsupported(kernel, why, JOIN, piece.read)
        step = steps.get(axis, 1)
        if not holds_always(Assumption(piece.first.mod(step), "=="), known, symbols):
            where = f"{axis} from {piece.first} on, which is no multiple of {step}"
            why = f"it reads {kernel.name_of(piece.read.tensor)} along {where}"
            raise unsupported(kernel, why, JOIN, piece.read)


Walk = tuple[tuple[str | None, Dim], ...]
"""What walks each dimension of a tensor, and from where on."""


def _walked(kernel: KernelOp, side: Factor, found: Read, names: Sequence[str]) -> Walk:
    """What walks each dimension of a factor: an axis, or nothing where it is read at one place."""
    walk: list[tuple[str | None, Dim]] = []
    for coordinate in found.coordinates:
        if coordinate.axis is None and coordinate.terms:
            raise unsupported(
                kernel,
                f"it reads {side.name} at {side.read.map.data}, not along its axes",
                WAY_OUT,
                side.read,
            )
        axis = None if coordinate.axis is None else names[coordinate.axis]
        walk.append((axis, Dim.from_affine(coordinate.offset, kernel.symbol_names)))
    return tuple(walk)


def _operand(
    kernel: KernelOp,
    side: Factor,
    walk: Walk,
    own: Sequence[str],
    order: Sequence[str],
    reduce: ReduceOp,
) -> tuple[MatrixOperand, str]:
    """One side of the product, and which of the axes that it has alone is tiled.

    That is its innermost dimension's, where this is not k, or else the latest in the output of
    those that half fill a tile, if any does; the others are axes of the batch.
    """
    if not own:
        raise unsupported(
            kernel,
            f"{side.name} has no axis that the other factor lacks, so that nothing of it is used "
            "twice",
            WAY_OUT,
            side.read,
        )
    walked, first = (tuple(part) for part in zip(*walk, strict=True))
    last, k = walked[-1], reduce.labels[0]
    if last != k and last not in own:
        where = f"at {first[-1]}" if last is None else f"along {last}"
        raise unsupported(
            kernel,
            f"it reads rows of {side.name} {where}, and a tile's rows lie along an axis of the "
            "product",
            f"store {side.name} with that dimension before the others",
            side.read,
        )

    def fills(axis: str) -> bool:
        size = axis_size(reduce, axis).constant()
        return size is None or size >= HALF_TILE

    latest = max(own, key=lambda axis: (fills(axis), order.index(axis)))
    tiled = next((a for a in own if a == last), latest)
    high, wide = sorted((walked.index(tiled), walked.index(k)))
    return MatrixOperand(side.name, side.read, walked, first, (high, wide), side), tiled


def _outputs(kernel: KernelOp, axes: Sequence[str], column: str | None) -> list[tuple[str, ...]]:
    """The axes of each output in its order; each has all axes of the accumulator.

    Where rows are reduced along ``column``, it may lack that.  The accumulator's own come last.
    """
    found = [val_type(value).labels for value in kernel.yield_op.values]
    for name, labels in zip(kernel.res_names, found, strict=True):
        if sorted(labels) != sorted(axes) and (
            column is None or sorted((*labels, column)) != sorted(axes)
        ):
            raise unsupported(
                kernel,
                f"output {name.data} lies along [{', '.join(labels)}] and the product along "
                f"[{', '.join(axes)}]",
                "make it an output of a graph of its own",
                kernel.yield_op,
            )
    return [*(labels for labels in found if len(labels) == len(axes)), tuple(axes)]
