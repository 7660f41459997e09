"""``region-to-gpu``: CTAs that share the keys of a tile, and what joins them (S6.10, S9).

A first kernel has a CTA for each part of the keys of each tile.  It leaves what it found of every
row in three workspaces: the largest score, the sum of its weights, and the weighted sum of V.  A
second one brings the parts of a row together,

    max = max of max[p],  total = sum of w[p] * total[p],  sums = sum of w[p] * sums[p]

where ``w[p]`` is what the weights of a part are worth below the largest maximum, 0 for one that has
seen no key; and goes on as a kernel without parts ends.  The parts are added in their order, or
every fourth by a warp of its own and then these sums, so that runs repeat to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import BlockIdOp
from polyc.dialects.gpu.types import FragmentType, GlobalType, element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.families.attention.recognise import StreamingAttention
from polyc.lowering.region_to_gpu.attention_end import End
from polyc.lowering.region_to_gpu.attention_parts import Parts, QueryTile, Rows, sizes_of
from polyc.lowering.region_to_gpu.attention_tiles import Tiles
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.partial_sums import in_order
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, element_of
from polyc.passes.support.gpu.free_layouts import WARP, row_layout
from polyc.passes.support.gpu.spread import Spread
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim, ceil_div

ROWS = 4
"""Rows of a fragment of the kernel that joins: a warp has one."""

THREADS = ROWS * WARP

MANY = 16
"""Parts that a warp has on their way at once; of more of a row, each of a CTA's warps has some."""


@dataclass(frozen=True)
class PartsStored:
    """The workspaces: of maxima, of totals, and of sums over V's features too."""

    parts: Parts
    maxima: SSAValue
    totals: SSAValue
    sums: SSAValue

    @staticmethod
    def kinds(attention: StreamingAttention, plan: ScheduleOp) -> list[GlobalType]:
        """Their types: a point for each part of each query."""
        labels = (*attention.batch, attention.m)
        rows = [Dim.const(plan.integer("split_k")), *(attention.size(x) for x in labels)]
        wide = [*rows, Dim.const(attention.width)]
        return [GlobalType.of(dims, f32) for dims in (rows, rows, wide)]

    @staticmethod
    def of(parts: Parts, plan: ScheduleOp, spaces: Sequence[BindAttr]) -> PartsStored:
        """As arguments of a kernel."""
        kinds = PartsStored.kinds(parts.attention, plan)
        ends = zip(kinds, spaces, strict=True)
        return PartsStored(parts, *(parts.frame.space(*end) for end in ends))

    def store(
        self, emit: Emit, at: QueryTile, maximum: SSAValue, total: SSAValue, sums: SSAValue
    ) -> None:
        """Write what a CTA found of a tile's rows."""
        assert at.part is not None
        origin = [*at.batch, at.row, at.part]
        part = AffineExpr.symbol(len(at.batch) + 1)
        for fragment, target in (
            (maximum, self.maxima),
            (total, self.totals),
            (sums, self.sums),
        ):
            block = Block(arg_types=[element_of(fragment)])
            block.add_op(tile.YieldOp([block.args[0]]))
            maps = [self.place(len(sizes_of(fragment)), part)]
            new = tile.MapOp(fragment, origin, [], [target], maps, Region(block))
            emit.op(located(new, self.parts.attention.together))

    def place(self, rank: int, part: AffineExpr, alone: bool = False) -> AffineMap:
        """From a row of a tile, and a column, to a workspace.

        The origins are the batch, the first row, and one more that ``part`` may use.  ``alone`` is
        a tile whose rows are all of that row.
        """
        attention = self.parts.attention
        places = self.parts.places(AffineExpr.constant(0) if alone else ROW)
        rows = (places[label] for label in (*attention.batch, attention.m))
        ends = (COLUMN,) if rank == 2 else ()
        return AffineMap(rank, len(attention.batch) + 2, (part, *rows, *ends))


@dataclass(frozen=True)
class Joined:
    """The second kernel: a CTA has four rows, or one whose parts its warps share."""

    attention: StreamingAttention
    plan: ScheduleOp

    @property
    def parts(self) -> int:
        """How many there are of each row."""
        return self.plan.integer("split_k")

    @property
    def apart(self) -> int:
        """Warps that share the parts of a row."""
        return 1 if self.parts <= MANY else ROWS

    @property
    def grid(self) -> list[Dim]:
        """Its CTAs."""
        tiles = Tiles(self.attention, self.plan)
        return [tiles.batch, tiles.rows.ceildiv(ROWS // self.apart)]

    def build(self, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]) -> gpu.KernelOp:
        """The kernel."""
        frame = Frame(self.attention.kernel)
        parts = Parts(self.attention, self.plan, frame)
        stored = PartsStored.of(parts, self.plan, spaces)
        _Joining(self, parts, stored).write()
        return frame.finish(self.plan, bindings, adding=THREADS)


class _Joining:
    """Builds the body of the second kernel.

    Fragments have a row for each warp: four rows of tiles, or four parts of one row, which are
    then brought together.
    """

    def __init__(self, joined: Joined, parts: Parts, stored: PartsStored) -> None:
        self.joined, self.parts, self.stored = joined, parts, stored
        self.emit = parts.frame.emit
        self.apart = joined.apart
        self.left: SSAValue | None = None
        self.width = parts.attention.tile_features[1]
        vector = next(v for v in (4, 2, 1) if self.width % (WARP * v) == 0 or v == 1)
        self.layout, _ = row_layout(
            ROWS, self.width, vector, element_bytes(f32), THREADS, meets=True
        )

    def write(self) -> None:
        """The parts of the CTA's rows, joined, and the outputs of that."""
        emit, parts = self.emit, self.parts
        at = self._at()
        maximum, weight, total = (self._narrow(ROWS, name) for name in ("max", "w", "sums"))
        sums = self._wide(ROWS, "out")
        for value, target in ((parts.none, maximum), (parts.zero, total), (parts.zero, sums)):
            emit.op(tile.FillOp(value, target))
        self._each(lambda inner, part: self._maximum(inner, at, part, maximum))
        maximum = self._join("max", maximum)
        rows = ROWS // self.apart
        was, base, alpha = (self._narrow(rows, name) for name in ("was", "base", "alpha"))
        found = Rows(maximum, was, base, alpha)
        parts.find_base(emit, found)
        self._each(lambda inner, part: self._add(inner, at, part, base, weight, total, sums))
        End(parts, at, found, self._join("sum", total), self._join("sum", sums)).write(emit)

    def _at(self) -> QueryTile:
        """The rows of a CTA."""
        emit, parts = self.emit, self.parts
        rows = ROWS // self.apart
        block = emit.value(BlockIdOp(), "block")
        whole = affine_dim(0) * parts.heads
        tiles = emit.apply(ceil_div(whole, rows), [parts.size_m], hint="tiles")
        rest = emit.value(arith.RemUIOp(block, tiles), "rest")
        number = emit.value(arith.DivUIOp(block, tiles))
        row = emit.apply(affine_dim(0) * rows, [rest], hint=f"{parts.attention.m}0")
        return QueryTile(parts.batch(emit, number), row)

    def _each(self, one: Callable[[Emit, SSAValue], None]) -> None:
        """``one`` for the parts of each row, in their order: the first of those of all warps."""

        def step(inner: Emit, number: SSAValue) -> None:
            part = inner.apply(affine_dim(0) * self.apart, [number], hint="part")
            left = affine_dim(0) * -1 + self.joined.parts
            self.left = inner.apply(left, [part]) if self.joined.parts % self.apart else None
            one(inner, part)

        in_order(self.emit, -(-self.joined.parts // self.apart), MANY, step)

    def _maximum(self, emit: Emit, at: QueryTile, part: SSAValue, maximum: SSAValue) -> None:
        """The larger one of what is known and a part's."""

        def body(inner: Emit, known: SSAValue, own: SSAValue) -> SSAValue:
            own = self._there(inner, own, self.parts.none)
            return inner.value(arith.MaximumfOp(known, own))

        self._map(emit, maximum, at, part, [self.stored.maxima], [], body)

    def _add(
        self,
        emit: Emit,
        at: QueryTile,
        part: SSAValue,
        base: SSAValue,
        weight: SSAValue,
        total: SSAValue,
        sums: SSAValue,
    ) -> None:
        """Add what a part found, by its weight below the largest maximum."""

        def weigh(inner: Emit, _: SSAValue, own: SSAValue, base: SSAValue) -> SSAValue:
            own = self._there(inner, own, self.parts.none)
            return self.parts.worth(inner, own, base)

        def add(inner: Emit, known: SSAValue, own: SSAValue, weight: SSAValue) -> SSAValue:
            return inner.value(math_ops.FmaOp(own, weight, known))

        self._map(emit, weight, at, part, [self.stored.maxima], [base], weigh)
        self._map(emit, total, at, part, [self.stored.totals], [weight], add)
        self._map(emit, sums, at, part, [self.stored.sums], [weight], add)

    def _there(self, emit: Emit, value: SSAValue, other: SSAValue) -> SSAValue:
        """What a part has, or something else where the last step of a warp has none."""
        if self.joined.parts % self.apart == 0:
            return value
        number = emit.value(tile.TileIndexOp(0), "r")
        left = self.left
        assert left is not None
        inside = emit.compare("slt", number, left)
        return emit.value(arith.SelectOp(inside, value, other))

    def _map(
        self,
        emit: Emit,
        space: SSAValue,
        at: QueryTile,
        part: SSAValue,
        stored: Sequence[SSAValue],
        held: Sequence[SSAValue],
        body: Callable[..., SSAValue],
    ) -> None:
        """A map over ``space`` into itself, of what a part has left, and of fragments by row."""
        rank = len(sizes_of(space))
        block = Block(arg_types=[element_of(v) for v in (space, *stored, *held)])
        inner = Emit()
        result = body(inner, *block.args)
        block.add_ops([*inner.ops, tile.YieldOp([result])])
        origin = [*at.batch, at.row, part]
        count = len(origin)
        own = AffineMap(rank, count, (ROW, COLUMN)[:rank])
        first = AffineExpr.symbol(count - 1)
        if self.apart == 1:
            place = self.stored.place(rank, first)
        else:
            place = self.stored.place(rank, first + ROW, alone=True)
        maps = [place] * len(stored)
        for fragment in held:
            one = sizes_of(fragment)[0] == 1
            maps.append(AffineMap(rank, count, (AffineExpr.constant(0) if one else ROW,)))
        new = tile.MapOp(space, origin, [*stored, *held], [space], [*maps, own], Region(block))
        emit.op(located(new, self.parts.attention.together))

    def _join(self, kind: str, found: SSAValue) -> SSAValue:
        """What four warps have of one row, brought together; of rows of their own, as it is."""
        if self.apart == 1:
            return found
        rank = len(sizes_of(found))
        by = AffineMap(rank, 0, (AffineExpr.constant(0), *((COLUMN,) if rank == 2 else ())))
        joined = self._wide(1, "sum") if rank == 2 else self._narrow(1, "joined")
        self.emit.op(tile.ReduceOp(kind, found, by, joined))
        return joined

    def _wide(self, rows: int, name: str) -> SSAValue:
        """A fragment of sums."""
        return self._fragment(rows, name, (COLUMN,), self.width)

    def _narrow(self, rows: int, name: str) -> SSAValue:
        """A fragment of one number a row."""
        return self._fragment(rows, name, ())

    def _fragment(
        self, rows: int, name: str, columns: Sequence[AffineExpr], *width: int
    ) -> SSAValue:
        row = ROW if rows == ROWS else AffineExpr.constant(0)
        layout = Spread.of(self.layout).image(AffineMap(2, 0, (row, *columns))).layout()
        kind = FragmentType.of([rows, *width], f32, layout)
        return self.emit.value(tile.FragmentOp(kind), name)
