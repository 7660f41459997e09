"""``region-to-gpu``: attention's sums again, where values of hidden keys are not finite (S0.6).

A kernel multiplies whole tiles: a key that a mask hides from a query has weight 0 there, and 0
times an infinity or NaN is NaN.  So a CTA looks at its finished sums.  Where one is not finite, it
computes all of them again, with values that are not finite left out of the steps that hide a key,
and with what these do to the queries that see them put in beforehand:

    marks = visible . (v is +inf or NaN),  then  visible . (v is -inf or NaN)
    sums  = inf, -inf, NaN or 0 by the marks, plus weights . (v where that is finite)

Where all values are finite the price is the look.  Otherwise it is a walk of small steps that
nothing overlaps, and two more over the steps that hide a key.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import AnyFloat, f32, i1
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineMap

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.tile.compute import LHS_MK, RHS_KN, RHS_NK
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.families.attention.gates import gates_asked, gates_left
from polyc.families.attention.operands import HeadOperand
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.attention.schedules import keys_again
from polyc.lowering.region_to_gpu.attention_parts import Parts, QueryTile, Rows
from polyc.lowering.region_to_gpu.point import COLUMN, ROW
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit
from polyc.rewriting.postorder import operands_of, reached

MARK = 2.0**23
"""What an infinity is marked by: sums of fewer ones are less than it, and exact."""

PROBES = 32
"""Sums of a row that are looked at, at most: each is of a thread's own columns, and they are short.
"""

COLUMNS = 64
"""Columns of V in registers at once, at most."""

VALUES = 16
"""The same of a thread's elements."""

Place = Callable[[Emit], QueryTile]
"""Computes which tile of queries a CTA has."""

Step = Callable[[Emit, QueryTile, SSAValue], None]
"""Makes a step's body, for a tile of queries and its first key."""


@dataclass
class Again:
    """The second way to the sums of a tile of queries.

    ``q`` is the tile of the queries, ``rows`` what is known of each, its last maximum above all,
    ``totals`` a tile's sums of its weights and those of all, and ``sums`` are the sums that the
    first way found.
    """

    parts: Parts
    plan: ScheduleOp
    q: SSAValue
    rows: Rows
    totals: tuple[SSAValue, SSAValue]
    sums: SSAValue

    def __post_init__(self) -> None:
        """Tiles and fragments, in the kernel's own block."""
        emit = self.parts.frame.emit
        keys = keys_again(self.attention)
        self.parts = self.parts.by(keys)
        queries, _, depth = self.plan.tile_sizes
        self.width = self.plan.warp_tile_sizes[1]
        element = self.attention.element

        def fragment(sizes: Sequence[int], kind: Attribute, name: str) -> SSAValue:
            return emit.value(tile.FragmentOp(FragmentType.of(sizes, kind)), name)

        def shared(columns: int, operand: HeadOperand) -> SSAValue:
            kind = SharedType.of([keys, columns], operand.element)
            return emit.value(SharedTileOp(kind), f"{operand.name}_again")

        self.k = shared(depth, self.attention.k)
        self.v = shared(self.width, self.attention.v)
        most = max(16, min(COLUMNS, VALUES * self.parts.threads // keys))
        self.columns = math.gcd(self.width, most)
        self.loaded = fragment([keys, self.columns], element, "loaded")
        self.scores = fragment([queries, keys], f32, "scores_again")
        self.weights = self.scores
        if element != f32:
            self.weights = fragment([queries, keys], element, "weights_again")
        probes = math.gcd(self.width, PROBES)
        self.by_thread = AffineMap(2, 0, (ROW, COLUMN % probes))
        self.probe = fragment([queries, probes], f32, "probe")
        self.wrong = fragment([queries, probes], i1, "wrong")

    @property
    def attention(self) -> StreamingAttention:
        return self.parts.attention

    @property
    def gates(self) -> Sequence[SSAValue]:
        """The conditions that hide keys of the walk."""
        return gates_left(self.attention, self.plan)

    def look(self, emit: Emit, place: Place) -> None:
        """Compute the sums again if one of them is not finite.

        ``place`` computes anew which tile of queries the CTA has, so that no loop before keeps what
        follows from it in registers.
        """
        # A sum over what is not finite is not finite.
        emit.op(tile.ReduceOp("sum", self.sums, self.by_thread, self.probe))

        def body(inner: Emit, probe: SSAValue) -> list[SSAValue]:
            return [is_not_finite(inner, probe)]

        self.parts.map(emit, self.probe, [], [self.wrong], body)
        wrong = emit.value(tile.AnyOp(self.wrong), "again")
        emit.when(wrong, lambda inner: self.walks(inner, place))

    def walks(self, emit: Emit, place: Place) -> None:
        """Marks of what is not finite, and the sums of what is.

        Where the first way left gates out, its maxima and sums may be those of hidden keys' scores,
        which are not finite either: these are found again first.
        """
        parts = self.parts
        if gates_asked(self.attention, self.plan) != self.gates:
            parts.none_yet(emit, self.rows, self.totals[1])
            self.walk(emit, place, self.statistics)
        emit.op(tile.FillOp(parts.zero, self.sums))
        self.walk(emit, place, lambda inner, at, key: self.mark(inner, at, key, math.inf))

        def above(inner: Emit, count: SSAValue) -> list[SSAValue]:
            some = inner.value(arith.CmpfOp(count, parts.zero, "ogt"))
            mark = parts.number(inner, MARK)
            return [inner.value(arith.SelectOp(some, mark, parts.zero))]

        parts.map(emit, self.sums, [], [self.sums], above)
        self.walk(emit, place, lambda inner, at, key: self.mark(inner, at, key, -math.inf))
        parts.map(emit, self.sums, [], [self.sums], self.value_of_marks)
        parts.find_base(emit, self.rows)
        self.walk(emit, place, self.weigh)

    def value_of_marks(self, emit: Emit, marks: SSAValue) -> list[SSAValue]:
        """What a sum is by its marks: a MARK of infinity, and ones of its negative."""
        parts = self.parts
        mark, infinity = parts.number(emit, MARK), parts.number(emit, math.inf)

        def chosen(predicate: str, bound: SSAValue, then: SSAValue, other: SSAValue) -> SSAValue:
            holds = emit.value(arith.CmpfOp(marks, bound, predicate))
            return emit.value(arith.SelectOp(holds, then, other))

        below = chosen("olt", mark, parts.none, infinity)
        some = chosen("ogt", mark, parts.number(emit, math.nan), below)
        return [chosen("oeq", parts.zero, parts.zero, some)]

    def walk(self, emit: Emit, place: Place, do: Step) -> None:
        """A loop over the keys, a tile at a time."""
        at = place(emit)
        keys = self.parts.visible_keys(emit, at)

        def body(inner: Emit, position: SSAValue) -> None:
            do(inner, at, self.parts.key(inner, keys, position))

        emit.loop(keys.count, body, step=self.parts.keys, hint="again")

    def mark(self, emit: Emit, at: QueryTile, key: SSAValue, infinity: float) -> None:
        """Count NaNs and the infinities of one sign that a query sees, where a step hides keys."""

        def counted(inner: Emit) -> None:
            def marked(then: Emit) -> None:
                self.change(then, lambda last, value: is_infinity(last, value, infinity), 1.0)

            self.values(inner, at, key, marked)
            self.visible(inner, at, key)
            self.add(inner)

        self.when_hiding(emit, at, key, counted)

    def statistics(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """Maxima and sums of weights, of the keys that are seen alone."""
        self.score(emit, at, key)
        self.parts.softmax(emit, self.scores, self.rows, *self.totals)

    def score(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """The scores of the queries and a tile of keys, -inf where a key is hidden."""
        self.products(emit, at, key)
        self.parts.score(emit, self.scores, at, key, self.gates)
        self.parts.mask(emit, self.scores, at, key)

    def weigh(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """Add the values by their weights."""
        parts = self.parts
        self.score(emit, at, key)
        parts.weights(emit, self.scores, self.rows)
        parts.keep(emit, self.scores, at, key)
        if self.weights is not self.scores:
            parts.round(emit, self.scores, self.weights)

        def without(inner: Emit) -> None:
            self.change(inner, is_not_finite, 0.0)

        self.values(emit, at, key, lambda inner: self.when_hiding(inner, at, key, without))
        self.add(emit)

    def when_hiding(
        self, emit: Emit, at: QueryTile, key: SSAValue, body: Callable[[Emit], None]
    ) -> None:
        """What is done in the steps that hide a key from a query."""
        left = self.parts.left(emit, at, key)
        cut = None if self.gates else self.parts.cut(emit, at, key, left)
        if cut is None:
            body(emit)
        else:
            emit.when(cut, body)

    def products(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """The products of the queries and a tile of keys."""
        self.parts.copy(emit, self.attention.k, at, key, self.k, self.loader)
        q, k = tile.ContractSide(self.q, LHS_MK), tile.ContractSide(self.k, RHS_NK)
        sizes = (self.plan.warp_tile_sizes[0], self.parts.keys)
        mma = self.plan.mma.data
        products = tile.ContractOp(q, k, self.scores, mma, sizes, clear=True, token=self.waits)
        self.contract(emit, located(products, self.attention.scores))

    @property
    def waits(self) -> bool:
        """Whether products are waited for."""
        return self.plan.mma.data == "wgmma"

    def contract(self, emit: Emit, products: tile.ContractOp) -> None:
        """Products, and the wait for them."""
        emit.op(products)
        if products.token is not None:
            emit.op(located(tile.AwaitOp(tokens=[products.token]), products))

    @property
    def loader(self) -> str:
        """How keys are loaded: all threads compute, so that none is there for TMA."""
        return "cp_async" if self.plan.loader.data == "tma" else self.plan.loader.data

    def visible(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """Weights that are 1 where a query sees a key, and 0 where it does not."""
        parts, gates = self.parts, self.gates
        scores = self.attention.scores.result
        if scores in reached(gates, operands_of):
            self.products(emit, at, key)
        else:
            emit.op(tile.FillOp(parts.zero, self.scores))
        block = Block(arg_types=[f32])
        point = parts.point(block, at, key)
        value: SSAValue = parts.zero
        for gate in gates:
            value = point.emit.value(arith.SelectOp(point.scalar(gate), value, parts.none))
        parts.close(emit, point, self.scores, value)
        parts.mask(emit, self.scores, at, key)

        def body(inner: Emit, score: SSAValue) -> list[SSAValue]:
            hidden = inner.value(arith.CmpfOp(score, parts.none, "oeq"))
            one = parts.number(inner, 1.0)
            seen = inner.value(arith.SelectOp(hidden, parts.zero, one))
            return [self.narrow(inner, seen)]

        parts.map(emit, self.scores, [], [self.weights], body)

    def values(
        self, emit: Emit, at: QueryTile, key: SSAValue, change: Callable[[Emit], None]
    ) -> None:
        """A tile of V, changed in registers on its way to shared memory, some columns at a time."""
        v = self.attention.v
        in_pages = v.paged is not None and v.paged.keys < self.parts.keys
        if in_pages:
            self.parts.copy(emit, v, at, key, self.v, self.loader)
        for column in range(0, self.width, self.columns):
            view = tile.CopyView(window=(0, column))
            if in_pages:
                taken = tile.CopyOp(tile.CopyEnd(self.v), tile.CopyEnd(self.loaded), view)
                emit.op(located(taken, v.read))
            else:
                self.parts.copy(emit, v, at, key, self.loaded, None, column)
            change(emit)
            moved = tile.CopyOp(tile.CopyEnd(self.loaded), tile.CopyEnd(self.v), view)
            emit.op(located(moved, v.read))

    def narrow(self, emit: Emit, value: SSAValue) -> SSAValue:
        """An f32 as the type of V."""
        element = cast("AnyFloat", self.attention.element)
        return value if element == f32 else emit.value(arith.TruncFOp(value, element))

    def change(
        self, emit: Emit, which: Callable[[Emit, SSAValue], SSAValue], number: float
    ) -> None:
        """Values of the tile become a number where ``which`` holds of them.

        The others become 0 where the number is not, and stay as they are where it is.
        """

        def body(inner: Emit, value: SSAValue) -> list[SSAValue]:
            wide = value if value.type == f32 else inner.value(arith.ExtFOp(value, f32))
            other = self.parts.zero if number else wide
            holds = which(inner, wide)
            found = inner.value(arith.SelectOp(holds, self.parts.number(inner, number), other))
            return [self.narrow(inner, found)]

        self.parts.map(emit, self.loaded, [], [self.loaded], body)

    def add(self, emit: Emit) -> None:
        """Add the products of weights and values to the sums."""
        p, v = tile.ContractSide(self.weights, LHS_MK), tile.ContractSide(self.v, RHS_KN)
        mma, sizes = self.plan.mma.data, self.plan.warp_tile_sizes
        weighted = tile.ContractOp(p, v, self.sums, mma, sizes, token=self.waits)
        self.contract(emit, located(weighted, self.attention.together))


def is_not_finite(emit: Emit, value: SSAValue) -> SSAValue:
    """Whether an f32 is infinite or NaN."""
    size = emit.value(math_ops.AbsFOp(value))
    return emit.value(arith.CmpfOp(size, Parts.number(emit, math.inf), "uge"))


def is_infinity(emit: Emit, value: SSAValue, infinity: float) -> SSAValue:
    """Whether an f32 is this infinity or NaN."""
    beyond = "uge" if infinity > 0 else "ule"
    return emit.value(arith.CmpfOp(value, Parts.number(emit, infinity), beyond))
