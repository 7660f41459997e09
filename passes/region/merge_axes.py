"""``region-merge-axes``: axes that no tensor of a product tells apart become one (S6.1, S9).

``[n, h, w]`` of an image times a matrix is one axis of ``N * H * W`` points.  The kernel then sees
views of its tensors, and says in ``held`` how memory holds them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.affine.expressions import Floor, linear_of
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.region import (
    GatherOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    ScatterOp,
    SortOp,
)
from polyc.families.attention.schedules import ATTENTION
from polyc.families.conv.schedules import CONV
from polyc.families.facts import holds_always
from polyc.families.family import or_refusal
from polyc.families.loops.schedules import LOOPS, turned_names
from polyc.families.loops.tiles import VECTOR
from polyc.families.matmul.recognise import Contraction, find_contraction
from polyc.families.matmul.schedules import GEMM
from polyc.families.registry import FAMILIES
from polyc.families.rows.recognise import find_rows
from polyc.families.rows.schedules import ROWS
from polyc.families.scans.recognise import has_scan
from polyc.rewriting.driver import rewrite
from polyc.rewriting.region.digits import axes_apart, digits_apart
from polyc.rewriting.region.flatten import flattened, lines
from polyc.rewriting.region.merge_axes import (
    merged,
    sums_products,
    with_digits_apart,
    without_ones,
    without_points,
    without_unread,
)
from polyc.rewriting.region.one_row import with_a_row
from polyc.rewriting.region.other_shapes import units_outside


def reduced(kernel: KernelOp) -> int:
    """The axes that the reductions of a region are over, each reduction's counted."""
    return sum(len(op.labels) for op in kernel.walk() if isinstance(op, ReduceOp))


class MergeAxes(RewritePattern):
    """A region over the fewest axes, where that makes it a product or merges what is reduced.

    Where nothing is reduced axes merge if loops turn a tensor: a tile's rows are pixels of an image
    then, not of a line.  With a scan, or a gather beside which nothing is reduced, scattered or
    sorted, all merge that may: what these go along does not.

    Legality: axes merge where every read and output that has one of them has both, one right
    inside the other, and no guard goes by them (``rewriting/region/merge_axes.py``); no output is
    ``deferred``.  A convolution, whose taps tell rows and columns apart, keeps its axes, and so
    does one of one tap whose filters are in groups.  Exact: each element is what it was, and lies
    where it lay.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        if any(where.data == "deferred" for where in op.materialize):
            return
        found = merged(op)
        if found is op:
            return
        if (plain := _of_one_tap(op, found) or _of_lines(op, found)) is not None:
            rewriter.replace(op, plain, [])
            return
        if (
            has_scan(op)
            or _only_gathers(op)
            or GEMM.takes(found)
            or _is_vectors(op, found)
            or (reduced(op) and not _are_products(op))
            or (not reduced(op) and (_turned(found) or wider(op, found)))
        ):
            rewriter.replace(op, found, [])


def _is_vectors(kernel: KernelOp, found: KernelOp) -> bool:
    """Whether a product has one column, and is one of rows without that: of as many as fill a chip,
    or that are no more than what a block reads at once.  Or whether each of a batch has one row or
    one column, and its sums are short: threads beside each other add them, exactly."""
    gemm = or_refusal(partial(find_contraction, kernel))
    if isinstance(gemm, PolycError) or gemm.follow or gemm.beside:
        return False
    alone = [axis for axis in (gemm.m, gemm.n) if gemm.size(axis).constant() == 1]
    if not alone:
        return False
    rows = or_refusal(partial(find_rows, found))
    if isinstance(rows, PolycError) or not rows.are_lines:
        depth = gemm.size(gemm.k).constant()
        return bool(gemm.batch) and depth is not None and depth <= SHORT_SUM
    if gemm.n not in alone:
        return False
    count = prod((axis.size for axis in found.iters), start=Dim.const(1)).constant()
    fills = count is not None and count >= max(chip.multiprocessors for chip in ARCHS.values())
    return fills or rows.is_quick


SHORT_SUM = 256
"""Terms of a sum of products that a thread adds by itself, beside neighbours that do so."""


class UnreadApart(RewritePattern):
    """A region of a convolution with an output axis of one point that nothing is read along → one
    without it.

    What is reduced over filters, and keeps that axis, has one.  Legal everywhere
    (``without_unread``), and worth it where convolutions take the region so, and not as it is.
    Exact: it is another view of the same memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        if not sums_products(op) or any(where.data == "deferred" for where in op.materialize):
            return
        found = without_unread(op)
        if found is not op and not CONV.takes(op) and CONV.takes(found):
            rewriter.replace(op, found, [])


class UnitsOutside(RewritePattern):
    """A region of a product that reads ``[K, 1]`` → one that sees it as ``[1, K]``.

    One column of a matrix lies along k: as rows of one element nothing brings it in vectors, and it
    would be copied to rows of eight ahead of the product.  Legal everywhere
    (``units_outside``), and worth it where products of matrices take the region, which knows no
    windows then.  Exact: it is another view of the same memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        if not sums_products(op) or any(where.data == "deferred" for where in op.materialize):
            return
        gemm = or_refusal(lambda: find_contraction(op))
        if isinstance(gemm, PolycError):
            return
        tensors = {tensor for side in gemm.sides for tensor in side.tensors}
        found = units_outside(op, [arg for arg in op.ins if arg in tensors])
        if found is not op and GEMM.takes(found):
            rewriter.replace(op, found, [])


class HeadsApart(RewritePattern):
    """A region of products whose heads lie inside of rows → one that sees them apart.

    Queries ``[B, T, H * D]`` are read at ``h * D + d``, a digit of each.  As ``[B, T, H, D]`` every
    axis has a dimension of its own, as tiles are copied from.  Legal where all reads of a tensor
    count its dimension in digits of the same sizes; a batch of sequences and heads, and heads that
    share keys, are an axis of each first, which is all that attention needs
    (``rewriting/region/digits.py``).  Worth it where
    products of matrices take the region so, and no family of products takes it as it is, and where
    that is as fast as from copies: rows of what was read by digits are whole vectors, and no tile
    is narrower for axes of one operand that copies make one.  Exact: it is another view of the same
    memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        deferred = any(where.data == "deferred" for where in op.materialize)
        if deferred or not sums_products(op):
            return
        divided = axes_apart(without_unread(op))
        apart = digits_apart(divided)
        if apart is op or _are_products(op):
            return
        if divided is not op and ATTENTION.takes(divided):
            rewriter.replace(op, divided, [])
            return
        for found in (merged(apart), apart):
            gemm = or_refusal(partial(find_contraction, found))
            if not isinstance(gemm, PolycError) and _is_as_fast(gemm, op):
                rewriter.replace(op, found, [])
                return


def _is_as_fast(gemm: Contraction, before: KernelOp) -> bool:
    """Whether tiles of operands that a region had read otherwise than axis by axis are brought and
    multiplied as fast as those of copies.

    Their rows are known to begin at multiples of 16 bytes, and where an operand has several axes
    that the other lacks, of which copies may make one, as windows of an image or a projection's
    heads, the one that tiles go along fills them.
    """
    reads, were = (
        [op for op in kernel.body.block.ops if isinstance(op, ReadOp)]
        for kernel in (gemm.kernel, before)
    )
    plain = {r for r, was in zip(reads, were, strict=True) if _goes_along_axes(was)}
    known, symbols = gemm.kernel.assumptions, gemm.kernel.symbol_names
    columns = ((part.rhs, gemm.n, gemm.lhs) for part in gemm.parts)
    for side, axis, other in ((gemm.lhs, gemm.m, gemm.rhs), *columns):
        if side.read in plain:
            continue
        vector = MAX_VECTOR_BYTES // element_bytes(side.factor.element)
        sizes = (*side.contiguous, side.first[-1])
        if not all(holds_always(Assumption(n.mod(vector), "=="), known, symbols) for n in sizes):
            return False
        own = {one for one in side.axes if one is not None and one not in other.axes}
        points = gemm.size(axis).constant()
        if len(own) > 1 and points is not None and points % TILE and points < MANY_TILES * TILE:
            return False
    return True


TILE = 128
"""Rows or columns of the tiles that are nearly as fast as any."""

MANY_TILES = 4
"""From which on a last one that is not full is little beside the others."""


def _goes_along_axes(read: ReadOp) -> bool:
    return all(isinstance(e, AffineDimExpr | AffineConstantExpr) for e in read.map.data.results)


class QuotientsApart(RewritePattern):
    """A region along whose innermost axis neighbours read what lies far apart, as it is read at a
    quotient of that axis → one over an axis for each digit, which loops turn.

    Frames that overlap and are added lie in the samples' order by ``t floordiv 128`` and ``t mod
    128``, and their tensor has the quotient innermost.  Legal where the divisors part the axis
    (``rewriting/region/digits.py``).  Worth it where nothing is reduced, and loops bring a tensor
    in tiles then that they did not.  Exact: each element is what it was, and lies where it lay.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        if any(where.data == "deferred" for where in op.materialize) or reduced(op):
            return
        if not any(isinstance(o, ReadOp) and _ends_in_quotient(o) for o in op.body.block.ops):
            return
        found = axes_apart(op)
        if found is not op and _turned(found) and not _turned(op):
            rewriter.replace(op, found, [])


def _ends_in_quotient(read: ReadOp) -> bool:
    """Whether the innermost place that a read is at is a quotient alone."""
    results = read.map.data.results
    if not results:
        return False
    terms = linear_of(results[-1]).terms
    return len(terms) == 1 and isinstance(terms[0][0], Floor) and terms[0][1] == 1


class RowsApart(RewritePattern):
    """A region of rows that lie behind each other in longer ones → one that sees them apart.

    A norm of groups of ``[N, C]`` reads its row of ``C / G`` elements at ``g * (C / G) + c``, and
    its weights so.  As ``[N, G, C / G]`` it is one of rows, for which the families ask the last
    dimension.  Legal where all reads of a tensor count its dimensions whole
    (``rewriting/region/merge_axes.py``).  Worth it where rows take the region so, and not as it is,
    and it makes rows, not one number of each.  Exact: it is another view of the same memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        axes = {label for one in op.walk() if isinstance(one, ReduceOp) for label in one.labels}
        made = {axis.label for axis in op.iters}
        deferred = any(where.data == "deferred" for where in op.materialize)
        if deferred or len(axes) != 1 or not axes <= made:
            return
        rows = or_refusal(partial(find_rows, op))
        if not isinstance(rows, PolycError) and rows.are_lines:
            return
        found = with_digits_apart(op)
        if found is not op and ROWS.takes(found):
            rewriter.replace(op, found, [])


class OnesLeftOut(RewritePattern):
    """A region of rows that reads what has one point behind its row, as a bias ``[C, 1, 1]`` → one
    that sees it without, and reads vectors of it.

    Legal where nothing else is computed than rows (``rewriting/region/merge_axes.py``).  Exact: it
    is another view of the same memory.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        rows = or_refusal(partial(find_rows, op))
        deferred = any(where.data == "deferred" for where in op.materialize)
        if deferred or isinstance(rows, PolycError) or not rows.has_ones:
            return
        found = without_ones(op)
        if found is not op and ROWS.takes(found):
            rewriter.replace(op, found, [])


class FlattenShort(RewritePattern):
    """A region whose innermost axis is short → the same with some inner axes as one: as many as
    make a long line of whole vectors.

    Legal for known sizes, where all is computed at each point by itself or reduced over all of
    these axes or none, and a tensor has them as they lie (``rewriting/region/flatten.py``).  Worth
    it where a tile of the two inner axes has few elements, or vectors along the last one are
    narrow.  Exact.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        if any(where.data == "deferred" for where in op.materialize):
            return
        plain = merged(op)  # Of fewer axes there are fewer digits.
        axes = lines(plain)
        sizes = [axis.size.constant() for axis in axes]
        if len(axes) < 2 or not 0 < (last := sizes[-1] or 0) < SHORT_LINE:
            return
        together, length, best = len(axes) - 1, last, gcd(VECTOR, prod(n or 0 for n in sizes))
        while together and (length < LONG_LINE or gcd(VECTOR, length) < best):
            together -= 1
            if not (size := sizes[together]):
                return
            length *= size
        if length < LONG_LINE:
            return
        found = flattened(plain, axes[together:])
        if found is not None:
            rewriter.replace(op, found, [])


class FlattenKept(RewritePattern):
    """A region of reductions with a result for each of few neighbours, and others further out → the
    same with all results along one axis.

    ``[34080, 44, 17]`` summed over its second axis has 579360 results, of which a tile along the
    last axis has 17 and room for 32.  Legal for known sizes, where all outputs have the same axes
    and nothing else is computed than of each element alone and of the reductions
    (``rewriting/region/flatten.py``).  Worth it where what lies between the results of two outer
    points is short, and results are many.  Exact.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter, /) -> None:
        if any(where.data == "deferred" for where in op.materialize):
            return
        axes, kept = lines(op), list(op.iters)
        if min(len(kept), len(axes)) < 2 or axes[-1] != kept[-1] or not reduced(op):
            return
        sizes = [axis.size.constant() for axis in (*kept, *axes)]
        if None in sizes or 0 in sizes:
            return
        labels = {axis.label for axis in kept}
        between = [axis for axis in axes if axis.label not in labels]
        if axes[-2] not in between or axes[: -len(between) - 1] != kept[:-1]:
            return
        last = kept[-1].size.constant() or 0
        apart = last * prod(axis.size.constant() or 0 for axis in between)
        room = 1 << (last - 1).bit_length()
        if last >= MANY_BESIDE or (last >= SHORT_LINE and room < IDLE * last) or apart > APART:
            return
        if prod(axis.size.constant() or 0 for axis in kept) < LONG_LINE:
            return
        found = flattened(op, kept, apart=True)
        if found is not None:
            rewriter.replace(op, found, [])


MANY_BESIDE, IDLE, APART = 64, 1.25, 4096
"""Results that lie together, from which on a tile of them alone is wide; how many times as many as
there are a narrower one may have; and elements from those of one point to the next at most."""

SHORT_LINE, LONG_LINE = 16, 1 << 14
"""Elements of an innermost axis that is short, and of the one axis that is worth it."""


def wider(kernel: KernelOp, found: KernelOp) -> bool:
    """Whether whole vectors of more elements make up the rows that a region stores, of known sizes,
    once its axes are merged: a row of 331 by 8 is one of 2648.  Or whether a tile of short rows,
    which is as wide as a power of two, is one of long ones then."""
    if 0 < _vector(kernel) < _vector(found):
        return True
    lasts = [_last(kernel), _last(found)]
    return 0 < lasts[0] < SHORT_ROW <= lasts[1] and _vector(kernel) <= _vector(found)


SHORT_ROW = 256
"""Elements of a row that a tile has with others."""


def _last(kernel: KernelOp) -> int:
    """The shortest row that a region stores; 0 where that is not known."""
    rows = [out.shape[-1].constant() for out in kernel.outs if out.shape]
    return 0 if not rows or None in rows else min(row or 0 for row in rows)


def _vector(kernel: KernelOp) -> int:
    """The most elements of a vector that all rows are multiples of; 0 where that is not known."""
    rows = [out.shape[-1].constant() for out in kernel.outs if out.shape]
    return 0 if not rows or None in rows else gcd(VECTOR, *(row for row in rows if row))


def _only_gathers(kernel: KernelOp) -> bool:
    """Whether a region gathers, and does nothing else that an axis is known by."""
    ops = list(kernel.body.block.ops)
    others = ReduceOp | ReduceTogetherOp | ScatterOp | SortOp
    return any(isinstance(op, GatherOp) for op in ops) and not any(
        isinstance(op, others) for op in ops
    )


def _of_one_tap(kernel: KernelOp, merged: KernelOp) -> KernelOp | None:
    """A region without the one tap of its filters, where a family of products takes it with its
    rows and columns apart, and neither as it is nor merged: filters in groups do so."""
    if not any(op.labels[1:] for op in kernel.walk() if isinstance(op, ReduceOp)):
        return None
    plain = without_points(kernel)
    if plain is kernel or _are_products(kernel, merged):
        return None
    return plain if _are_products(plain) else None


def _of_lines(kernel: KernelOp, merged: KernelOp) -> KernelOp | None:
    """A region whose lines are images of one row, where convolutions take it so, and no family of
    products takes it as it is or merged: a row of one point is lost where lines are in groups."""
    lines = with_a_row(merged)
    if lines is merged or not CONV.takes(lines):
        return None
    return None if _are_products(kernel, merged) else lines


def _are_products(*kernels: KernelOp) -> bool:
    """Whether a family of products takes one of some regions."""
    return any(family.contracts and family.takes(one) for family in FAMILIES for one in kernels)


def _turned(kernel: KernelOp) -> bool:
    """Whether loops take a region, and turn a tile of what it reads."""
    found = or_refusal(lambda: LOOPS.recognise(kernel))
    return not isinstance(found, PolycError) and bool(turned_names(found))


def merge_products(module: ModuleOp) -> None:
    """Merge the axes of all regions of a module, and see operands of products as they are read."""
    rewrite(module, [MergeAxes()])
    rewrite(module, [UnreadApart()])
    rewrite(module, [UnitsOutside()])
    rewrite(module, [HeadsApart()])


def merge_axes(module: ModuleOp) -> None:
    """Merge the axes of all regions of a module, and then those that are one with their digits."""
    merge_products(module)
    rewrite(module, [QuotientsApart()])
    rewrite(module, [RowsApart()])
    rewrite(module, [OnesLeftOut()])
    rewrite(module, [FlattenShort()])
    rewrite(module, [FlattenKept()])


@dataclass(frozen=True)
class RegionMergeAxes(ModulePass):
    """Merge the axes of products of matrices that no tensor tells apart."""

    name = "region-merge-axes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        merge_axes(op)
