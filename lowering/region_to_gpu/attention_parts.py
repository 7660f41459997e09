"""``region-to-gpu``: what the kernels of attention have in common, at the tile level (S6.10, T3).

A block has a tile of queries and walks over the keys that they see.  With each tile of keys it
takes the scores, which are products of queries and keys until a map makes them what the region
says, and brings three values of each query up to date, in base 2:

    base  = -unit * max            unit = log2(e) * factor * scale
    alpha = exp2(unit * max' + base)   what the sums so far are worth, for the maximum max' before
    p     = exp2(unit * s + base)

The product of a scale and a maximum is rounded, which is well where it is as small as products of
queries and keys are, or as numbers of f16: alpha is of what was rounded.  A mask of f32 that is
added to the scores may be -1e9 or the least number there is; then base is the maximum itself, which
the scores are relative to before they are scaled.

Where no key was visible yet, the maximum is -inf, base is 0 and alpha too, so that no infinity is
subtracted from another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import AnyFloat, FloatAttr, f32
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap

from polyc.affine.expressions import canonical_expr
from polyc.dialects import region
from polyc.dialects.common.dim import Assumption, Dim, Shape
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.scalars import APPROXIMATE
from polyc.dialects.gpu.types import FragmentType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.dialects.plan.fields import record_of
from polyc.families.attention.gates import ends_walked, is_near, is_tight
from polyc.families.attention.operands import HeadOperand
from polyc.families.attention.paged import Paged
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.facts import holds_always
from polyc.lowering.region_to_gpu.attention_pages import end_at, page_at
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Making, Point, element_of
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim, ceil_div
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.views import behind_views, constant_of

WARPGROUP = 128
"""Threads of a warpgroup, of which one brings tiles where others multiply by wgmma."""

BY_ROW = AffineMap.from_callable(lambda i, j: (i,))


@dataclass(frozen=True)
class QueryTile:
    """A tile of queries: its attention among the batch, and its first row."""

    batch: Sequence[SSAValue]
    """Its point of each axis; of heads that share keys, the first one."""
    row: SSAValue
    """Its first row: a query, or one of the heads of a query where these share keys."""
    part: SSAValue | None = None
    """Which part of its keys is walked over, where CTAs share them."""
    end: SSAValue | None = None
    """How many keys there are for its queries, where that is data."""


@dataclass(frozen=True)
class Keys:
    """The keys that some query of a tile sees: ``count`` of them from ``first`` on.

    There are none where it is 0 or less.
    """

    first: SSAValue
    count: SSAValue


@dataclass(frozen=True)
class Rows:
    """What a kernel keeps of each query, as fragments of rank 1."""

    maximum: SSAValue
    before: SSAValue
    """The maximum before the last tile of keys."""
    base: SSAValue
    alpha: SSAValue


@dataclass(frozen=True)
class Lying:
    """Where a tile lies: its first coordinates in a tensor of a ``shape``, and the axes ``along``
    which it runs.  Its rows may be in more ``pages`` than the first, ``across`` an axis.
    """

    at: list[SSAValue]
    shape: Shape
    along: tuple[int, int]
    pages: tuple[SSAValue, ...] = ()
    across: int | None = None


class Parts:
    """Emits the parts of a kernel of attention; ``emit`` is the body that they go to."""

    def __init__(self, attention: StreamingAttention, plan: ScheduleOp, frame: Frame) -> None:
        self.attention = attention
        self.queries, self.keys, _ = plan.tile_sizes
        self.step = self.keys
        """Keys of a step of the walk, of which parts have whole ones."""
        self.splits = plan.integer("split_k")
        """CTAs that share the keys of a tile."""
        packs = record_of(plan.algo_choice)[PATTERN] == SHARED_KEYS
        self.shared = attention.shared if packs else None
        self.threads = plan.threads() - (WARPGROUP if plan.mma.data == "wgmma" else 0)
        """Those that compute."""
        self.frame = frame
        self.by_point = plan.mma.data == "wgmma" or self.shared is not None
        """Whether a mask asks of each score where it is, rather than for its row's bounds: these
        are registers that the consumers of wgmma do not have, and rows of heads that share keys
        have no bounds that go from row to row by one step."""
        outer = frame.emit
        score = attention.score
        self.near = is_near(attention)
        """Whether exponents are relative to a base that is the maximum times ``unit``."""
        self.fuses = not is_tight(attention, plan)
        """Whether what is added to scaled products is added as they are scaled: the CUDA compiler
        then keeps more in registers."""
        self.unit = math.log2(math.e) * attention.factor * (score.scale or 1.0)
        self.zero_index = outer.index(0)
        self.symbols = list(frame.symbols.values())
        self.all_symbols = [AffineExpr.symbol(i) for i in range(len(self.symbols))]
        self.size_m, self.size_n = (
            frame.size(attention.size(label)) for label in (attention.m, attention.n)
        )
        self.ends = ends_walked(attention, plan)
        """What says that there are less keys than the tensors have."""
        self.found: dict[object, SSAValue] = {}
        """Where pages lie, by what was asked."""
        self.none = self.number(outer, -math.inf, "none")
        self.zero = self.number(outer, 0.0, "zero")

    @property
    def heads(self) -> int:
        """Rows that a query has in a tile: its heads that share keys, or one."""
        return 1 if self.shared is None else self.shared.heads

    @property
    def reach(self) -> int:
        """Queries that a tile has rows of, at most."""
        heads, rows = self.heads, self.queries
        return rows // heads if rows % heads == 0 else (rows + heads - 2) // heads + 1

    def by(self, keys: int) -> Parts:
        """The same parts for steps of so many keys."""
        other = copy(self)
        other.keys = keys
        return other

    @staticmethod
    def number(emit: Emit, value: float, hint: str | None = None) -> SSAValue:
        return emit.value(arith.ConstantOp(FloatAttr(value, f32)), hint)

    # Where

    def groups(self, label: str) -> Dim:
        """How many tiles stand beside each other along an axis of the batch."""
        size = self.attention.size(label)
        return size.floordiv(self.heads) if self._packs(label) else size

    def _packs(self, label: str) -> bool:
        return self.shared is not None and self.shared.axis == label

    def batch(self, emit: Emit, number: SSAValue) -> list[SSAValue]:
        """The coordinates of the ``number``-th point of the batch, the last axis fastest."""
        labels = self.attention.batch
        found: list[SSAValue] = []
        for label in reversed(labels[1:]):
            size = self.frame.size(self.groups(label))
            found.insert(0, emit.value(arith.RemUIOp(number, size), label))
            number = emit.value(arith.DivUIOp(number, size))
        if labels:
            number.name_hint = labels[0]
            found.insert(0, number)
        for i, label in enumerate(labels):
            if self._packs(label):
                first = affine_dim(0) * self.heads
                found[i] = emit.apply(first, [found[i]], hint=f"{label}0")
        return found

    def places(self, within: AffineExpr = ROW) -> dict[str, AffineExpr]:
        """Where the axes of the batch and the queries are in a map, in row ``within`` of a tile.

        Its origins begin with the tile's coordinates of the batch, and its first row.
        """
        labels = self.attention.batch
        places = {label: AffineExpr.symbol(i) for i, label in enumerate(labels)}
        row = within + AffineExpr.symbol(len(labels))
        if self.shared is not None:
            places[self.shared.axis] = places[self.shared.axis] + row % self.heads
            row = row // self.heads
        places[self.attention.m] = row
        return places

    def end(self, emit: Emit, batch: Sequence[SSAValue]) -> SSAValue | None:
        """How many keys there are at a point of the batch by lengths that are data, if any are."""
        found: SSAValue | None = None
        for end in self.ends:
            own = end_at(emit, self.frame, self.attention, end, batch)
            found = own if found is None else emit.value(arith.MinSIOp(found, own))
        if found is not None:
            found.name_hint = f"{self.attention.n}_end"
        return found

    def first_query(self, emit: Emit, at: QueryTile) -> SSAValue:
        """The first query that a tile has a row of."""
        return emit.apply(affine_dim(0) // self.heads, [at.row], hint=f"{self.attention.m}0")

    def visible_keys(self, emit: Emit, at: QueryTile) -> Keys:
        """The keys that a kernel walks over for a tile of queries."""
        visible = self.attention.score.visible
        query = at.row if visible.everywhere else self.first_query(emit, at)
        end = self.size_n if at.end is None else at.end
        for expr in visible.end_keys(self.reach):
            end = emit.value(arith.MinSIOp(end, emit.apply(expr, [query], self.symbols)))
        first = self.zero_index
        for expr in visible.first_keys(self.reach):
            first = emit.value(arith.MaxSIOp(first, emit.apply(expr, [query], self.symbols)))
        if first is not self.zero_index:
            keys = self.keys if at.part is None else self.step
            whole = (affine_dim(0) // keys) * keys
            first = emit.apply(whole, [first], hint=f"{self.attention.n}_first")
            end = emit.value(arith.SubiOp(end, first))
        if end is not self.size_n:
            end.name_hint = f"{self.attention.n}_count"
        return Keys(first, end) if at.part is None else self._part(emit, first, end, at.part)

    def _part(self, emit: Emit, first: SSAValue, count: SSAValue, part: SSAValue) -> Keys:
        """One CTA's part of so many keys: as many steps as the others', or those that are left."""
        most = emit.apply(ceil_div(affine_dim(0), self.step * self.splits) * self.step, [count])
        before = emit.value(arith.MuliOp(part, most), "before")
        left = emit.value(arith.SubiOp(count, before))
        own = emit.value(arith.MinSIOp(left, most), f"{self.attention.n}_part")
        first = before if first is self.zero_index else emit.value(arith.AddiOp(first, before))
        return Keys(first, own)

    def key(self, emit: Emit, keys: Keys, position: SSAValue) -> SSAValue:
        """The first key of a tile, at a position of the walk."""
        if keys.first is self.zero_index:
            return position
        return emit.value(arith.AddiOp(keys.first, position), f"{self.attention.n}0")

    def coordinates(
        self, emit: Emit, operand: HeadOperand, at: QueryTile, position: SSAValue
    ) -> list[SSAValue]:
        """Where in its tensor a tile of Q, K or V begins, at a first query or key."""
        found: list[SSAValue] = []
        for axis in operand.axes:
            if axis == operand.feature:
                found.append(emit.apply(operand.offset, at.batch, self.symbols))
            elif isinstance(axis, AffineExpr):
                found.append(emit.apply(axis, at.batch, self.symbols))
            else:
                found.append(position)
        return found

    def copy(
        self,
        emit: Emit,
        operand: HeadOperand,
        at: QueryTile,
        position: SSAValue,
        target: SSAValue,
        loader: str | None,
        column: int = 0,
    ) -> None:
        """Bring a tile of Q, K or V, from a column on, to shared memory.

        Without a loader it goes to registers.
        """
        if operand.paged is None:
            places = self.coordinates(emit, operand, at, position)
            lies = Lying(places, operand.shape, operand.along)
        else:
            lies = self.in_pages(emit, operand, operand.paged, at, position)
        places, last = lies.at, len(lies.shape) - 1
        assert isinstance(operand.read.tensor, BlockArgument)
        tensor = self.frame.view(operand.read.tensor.index, lies.shape)
        axes = None if lies.along == (last - 1, last) else lies.along
        if column:
            places[last] = emit.apply(affine_dim(0) + column, [places[last]])
        moved = tile.CopyOp(
            tile.CopyEnd(tensor, places),
            tile.CopyEnd(target),
            tile.CopyView(axes=axes, pages=lies.pages, across=lies.across),
            tile.CopyTravel(loader),
        )
        emit.op(located(moved, operand.read))

    def in_pages(
        self,
        emit: Emit,
        operand: HeadOperand,
        paged: Paged,
        at: QueryTile,
        position: SSAValue,
    ) -> Lying:
        """Where a step's keys are in their page, whose keys are whole steps, or in their pages."""
        row, column = operand.along
        found = self.coordinates(emit, operand, at, self.zero_index)
        first, *more = (
            self.page(emit, paged, at, position, keys) for keys in range(0, self.keys, paged.keys)
        )
        found[paged.dimension] = first
        if more:
            return Lying(found, operand.shape, operand.along, tuple(more), paged.dimension)
        # A whole step of a page is all of an axis: none of its keys is outside.
        inside = affine_dim(0) % paged.keys // self.keys
        found.insert(row, emit.apply(inside, [position], hint="inside"))
        split = (Dim.const(paged.keys // self.keys), Dim.const(self.keys))
        shape = (*operand.shape[:row], *split, *operand.shape[row + 1 :])
        return Lying(found, shape, (row + 1, column + 1))

    def page(
        self, emit: Emit, paged: Paged, at: QueryTile, position: SSAValue, further: int
    ) -> SSAValue:
        """The page of the key that is so much ``further`` than a step's first; it may be none.

        Keys and values that one index is of ask once in a step.
        """
        axis = type_of(paged.gather.operand).axis(*paged.gather.labels)
        assert axis is not None
        asked = (emit, paged.index, axis.size, paged.gather.number, position, further)
        if asked not in self.found:
            key = emit.apply(affine_dim(0) + further, [position])
            page = page_at(emit, self.frame, self.attention, paged, at.batch, key)
            if further and not (self.whole and at.end is None):
                there = emit.compare("slt", key, self.size_n if at.end is None else at.end)
                page = emit.value(arith.SelectOp(there, page, self.frame.size(axis.size)), "page")
            self.found[asked] = page
        return self.found[asked]

    # Scores

    def point(self, block: Block, at: QueryTile, key: SSAValue) -> Point:
        """An element of a tile of scores."""
        attention = self.attention
        axes = self.places()
        axes[attention.n] = COLUMN + AffineExpr.symbol(len(at.batch) + 1)
        known: dict[SSAValue, SSAValue] = {attention.scores.result: block.args[0]}
        origin = [*at.batch, at.row, key]
        fused = attention.scores.result if self.fuses else None
        return _Score(fused, self.frame, block, known, axes, 2, origin)

    def score(
        self,
        emit: Emit,
        scores: SSAValue,
        at: QueryTile,
        key: SSAValue,
        gates: Sequence[SSAValue],
    ) -> None:
        """Products become scores, where that is more than a scale; ``gates`` make -inf of some."""
        score = self.attention.score
        if score.scale is not None and not gates:
            return
        block = Block(arg_types=[f32])
        block.args[0].name_hint = self.attention.scores.label
        point = self.point(block, at, key)
        value = point.scalar(score.value) if score.scale is None else block.args[0]
        for gate in gates:
            value = point.emit.value(arith.SelectOp(point.scalar(gate), value, self.none))
        self.close(emit, point, scores, value)

    def keep(self, emit: Emit, weights: SSAValue, at: QueryTile, key: SSAValue) -> None:
        """Weights become what is kept of them, in their place."""
        if not self.attention.kept:
            return
        block = Block(arg_types=[f32])
        block.args[0].name_hint = "p"
        point = self.point(block, at, key)
        value: SSAValue = block.args[0]
        for kept in self.attention.kept:
            by = point.scalar(kept.value)
            op = arith.SelectOp(by, value, self.zero) if kept.condition else arith.MulfOp(value, by)
            value = point.emit.value(op)
        self.close(emit, point, weights, value)

    def mask(self, emit: Emit, scores: SSAValue, at: QueryTile, key: SSAValue) -> None:
        """Scores of keys that a query does not see, or that are none, become -inf.

        That is done in the tiles that have such keys for some query.
        """
        left = self.left(emit, at, key)
        cut = self.cut(emit, at, key, left)
        if cut is None:
            self.hide(emit, scores, at, key, left)
        else:
            emit.when(cut, lambda inner: self.hide(inner, scores, at, key, left))

    def cut(
        self, emit: Emit, at: QueryTile, key: SSAValue, left: SSAValue | None
    ) -> SSAValue | None:
        """Whether a tile has a key that is none or that a query does not see; None: not known."""
        slack = self.attention.score.visible.slack(self.reach, self.keys)
        if slack is None:
            return None
        query = self.first_query(emit, at) if slack else at.row
        cut: SSAValue | None = None
        if left is not None:
            cut = emit.compare("slt", left, emit.index(self.keys))
        for expr in slack:
            value = emit.apply(expr, [query, key], self.symbols)
            hidden = emit.compare("slt", value, self.zero_index)
            cut = hidden if cut is None else emit.value(arith.OrIOp(cut, hidden))
        if cut is not None:
            cut.name_hint = "cut"
        return cut

    @property
    def whole(self) -> bool:
        """Whether all keys are whole steps."""
        attention, kernel = self.attention, self.attention.kernel
        whole = Assumption(attention.size(attention.n).mod(self.keys), "==")
        return holds_always(whole, kernel.assumptions, kernel.symbol_names)

    def left(self, emit: Emit, at: QueryTile, key: SSAValue) -> SSAValue | None:
        """How many keys there are from a tile's first one on; None where tiles have no tail."""
        if at.end is not None:
            return emit.value(arith.SubiOp(at.end, key), "left")
        if self.whole:
            return None
        return emit.value(arith.SubiOp(self.size_n, key), "left")

    def hide(
        self, emit: Emit, scores: SSAValue, at: QueryTile, key: SSAValue, left: SSAValue | None
    ) -> None:
        """Scores of keys that a query does not see become -inf, whether there are any or not.

        Each column is compared with the bounds of what the row's query sees; ``left`` are the keys
        of the tile that there are.
        """
        attention, visible = self.attention, self.attention.score.visible
        if visible.everywhere and left is None:
            return
        block = Block(arg_types=[f32])
        block.args[0].name_hint = attention.scores.label
        point = self.point(block, at, key)
        inner = point.emit
        seen: SSAValue | None = None
        ends: list[SSAValue] = []
        firsts: list[SSAValue] = []
        if visible.everywhere:
            pass
        elif self.by_point or visible.slack(1, 1) is None:
            seen = point.inside(visible.points, (attention.m, attention.n), attention.scores)
        else:
            row = inner.value(tile.TileIndexOp(0), "r")
            for bounds, found in ((ends, visible.end_keys(1)), (firsts, visible.first_keys(1))):
                bounds += [self._bound(emit, inner, expr, at, key, row) for expr in found]
        if left is not None:
            ends.append(left)
        column = inner.value(tile.TileIndexOp(1), "c") if ends or firsts else None
        for bounds, nearest, holds in (
            (ends, arith.MinSIOp, "slt"),
            (firsts, arith.MaxSIOp, "sge"),
        ):
            if bounds and column is not None:
                bound = reduce(lambda x, y: inner.value(nearest(x, y)), bounds)
                seen = inner.both(seen, inner.compare(holds, column, bound))
        assert seen is not None
        value = inner.value(arith.SelectOp(seen, block.args[0], self.none))
        self.close(emit, point, scores, value)

    def _bound(
        self,
        emit: Emit,
        inner: Emit,
        expr: AffineExpr,
        at: QueryTile,
        key: SSAValue,
        row: SSAValue,
    ) -> SSAValue:
        """A bound of the keys of a row's query, as a column; computed outside but for the row."""
        column = canonical_expr(expr - affine_dim(1))
        step = canonical_expr(
            column.replace_dims_and_symbols([affine_dim(0) + 1, affine_dim(1)], self.all_symbols)
            - column
        )
        if isinstance(step, AffineConstantExpr):
            first = emit.apply(column, [at.row, key], self.symbols)
            return inner.apply(affine_dim(0) * step.value + affine_dim(1), [row, first])
        moved = column.replace_dims_and_symbols(
            [affine_dim(0) + affine_dim(2), affine_dim(1)], self.all_symbols
        )
        return inner.apply(moved, [at.row, key, row], self.symbols)

    def close(self, emit: Emit, point: Point, scores: SSAValue, value: SSAValue) -> None:
        """The end of a map over scores into themselves, of what ``point`` made."""
        point.block.add_ops([*point.emit.ops, tile.YieldOp([value])])
        maps = [*point.input_maps, point.map((ROW, COLUMN))]
        body = Region(point.block)
        new = tile.MapOp(scores, point.origin, point.inputs, [scores], maps, body)
        emit.op(located(new, self.attention.scores))

    # The softmax

    def none_yet(self, emit: Emit, rows: Rows, sums: SSAValue) -> None:
        """Maxima and sums of no key."""
        for value, target in (
            (self.zero, sums),
            (self.none, rows.maximum),
            (self.none, rows.before),
        ):
            emit.op(tile.FillOp(value, target))

    def softmax(
        self, emit: Emit, scores: SSAValue, rows: Rows, part: SSAValue, sums: SSAValue
    ) -> None:
        """New maxima, weights in the scores' place, and their sums; ``part`` are a tile's."""
        emit.op(tile.ReduceOp("max", scores, BY_ROW, rows.maximum, accumulate=True))
        self.rescale(emit, rows)
        self.weights(emit, scores, rows)
        emit.op(tile.ReduceOp("sum", scores, BY_ROW, part))
        self.scaled(emit, sums, rows, more=part)

    def rescale(self, emit: Emit, rows: Rows) -> None:
        """Base and alpha of a new maximum, which is then the one before."""

        def body(inner: Emit, new: SSAValue, old: SSAValue) -> list[SSAValue]:
            base = self._base(inner, new)
            return [base, self.worth(inner, old, base), new]

        self.map(emit, rows.maximum, [rows.before], [rows.base, rows.alpha, rows.before], body)

    def worth(self, emit: Emit, maximum: SSAValue, base: SSAValue) -> SSAValue:
        """What sums below a maximum count below another one, of which ``base`` is."""
        if not self.near or self.attention.score.scale is not None:
            return self.power(emit, maximum, base)
        own = emit.value(arith.MulfOp(maximum, self.number(emit, self.unit)))
        return emit.value(math_ops.Exp2Op(emit.value(arith.AddfOp(own, base)), APPROXIMATE))

    def find_base(self, emit: Emit, rows: Rows) -> None:
        """The base of the maximum."""

        def body(inner: Emit, maximum: SSAValue) -> list[SSAValue]:
            return [self._base(inner, maximum)]

        self.map(emit, rows.maximum, [], [rows.base], body)

    def _base(self, emit: Emit, maximum: SSAValue) -> SSAValue:
        """What exponents are relative to, below a maximum."""
        dark = emit.value(arith.CmpfOp(maximum, self.none, "oeq"))
        low = maximum
        if self.near:
            low = emit.value(arith.MulfOp(maximum, self.number(emit, -self.unit)))
        return emit.value(arith.SelectOp(dark, self.zero, low), "base")

    def weights(self, emit: Emit, scores: SSAValue, rows: Rows) -> None:
        """Scores become weights, in their place."""

        def body(inner: Emit, score: SSAValue, base: SSAValue) -> list[SSAValue]:
            return [self.power(inner, score, base)]

        self.map(emit, scores, [rows.base], [scores], body)

    def power(self, emit: Emit, score: SSAValue, base: SSAValue) -> SSAValue:
        """What a score weighs."""
        unit = self.number(emit, self.unit)
        if self.near:
            exponent = emit.value(math_ops.FmaOp(score, unit, base))
        else:
            exponent = emit.value(arith.MulfOp(emit.value(arith.SubfOp(score, base)), unit))
        return emit.value(math_ops.Exp2Op(exponent, APPROXIMATE))

    def round(self, emit: Emit, weights: SSAValue, rounded: SSAValue) -> None:
        """Weights as an operand of the product with V."""
        element = cast("AnyFloat", self.attention.element)

        def body(inner: Emit, value: SSAValue) -> list[SSAValue]:
            return [inner.value(arith.TruncFOp(value, element))]

        self.map(emit, weights, [], [rounded], body)

    def scaled(self, emit: Emit, sums: SSAValue, rows: Rows, more: SSAValue | None = None) -> None:
        """Sums of the tiles before, for the new maximum; ``more`` is added."""

        def body(inner: Emit, value: SSAValue, *others: SSAValue) -> list[SSAValue]:
            if more is None:
                return [inner.value(arith.MulfOp(value, others[0]))]
            return [inner.value(math_ops.FmaOp(value, others[1], others[0]))]

        self.map(emit, sums, [*([] if more is None else [more]), rows.alpha], [sums], body)

    def map(
        self,
        emit: Emit,
        space: SSAValue,
        inputs: Sequence[SSAValue],
        outputs: Sequence[SSAValue],
        body: Callable[..., list[SSAValue]],
    ) -> None:
        """A map over fragments, of which those of rank 1 go by the row."""
        rank = len(sizes_of(space))
        block = Block(arg_types=[element_of(v) for v in (space, *inputs)])
        inner = Emit()
        results = body(inner, *block.args)
        block.add_ops([*inner.ops, tile.YieldOp(results)])
        axes = (ROW, COLUMN)
        maps = [AffineMap(rank, 0, axes[: len(sizes_of(v))]) for v in (*inputs, *outputs)]
        new = tile.MapOp(space, [], inputs, outputs, maps, Region(block))
        emit.op(located(new, self.attention.together))


class _Score(Point):
    """A point of the scores: ``products`` times a number, and something that is added to that, are
    one fused multiplication and addition, where ``products`` are given."""

    def __init__(
        self,
        products: SSAValue | None,
        frame: Frame,
        block: Block,
        known: Mapping[SSAValue, SSAValue],
        axes: Mapping[str, AffineExpr],
        rank: int,
        origin: Sequence[SSAValue],
    ) -> None:
        super().__init__(frame, block, known, axes, rank, origin)
        self.products = products

    def make(self, op: Operation) -> Making:
        if isinstance(op, region.BinaryOp) and op.fn.data == "add":
            for value, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
                number = self.factor(value)
                if number is not None and op.result.type.element_type == f32:
                    more = self.cast((yield other), f32)
                    factor = Parts.number(self.emit, number)
                    assert self.products is not None
                    scaled = yield self.products
                    return self.emit.value(math_ops.FmaOp(scaled, factor, more))
        return (yield from super().make(op))

    def factor(self, value: SSAValue) -> float | None:
        """The number that ``value`` is the products times; None where it is something else."""
        op = behind_views(value).owner
        if not isinstance(op, region.BinaryOp) or op.fn.data != "mul":
            return None
        if self.products is None or op.result.type.element_type != f32:
            return None
        for one, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if behind_views(one) is self.products:
                return constant_of(other)
        return None


def sizes_of(fragment: SSAValue) -> tuple[int, ...]:
    """The sizes of a fragment."""
    return cast("FragmentType", fragment.type).sizes
