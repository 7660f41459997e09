"""``region-to-gpu``: attention on SM90, by TMA and wgmma with a producer and consumers (S9, S15.3).

A CTA computes a tile of queries, 64 of them a warpgroup, and takes a block of keys at a step, from
the last keys that any of the queries sees to the first.  One thread of a warpgroup of its own loads
Q once, and K and V through a ring each.  The scores of a step and the weighted values of the step
before are under way together, and the softmax of those scores runs while the tensor cores work for
this or, by turns, for another warpgroup.  Weights stay in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, Region, SSAValue

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp, SharedTileOp
from polyc.dialects.gpu.tile.compute import LHS_MK, RHS_KN, RHS_NK
from polyc.dialects.gpu.types import BindAttr, FragmentType, SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.families.attention.recognise import HeadOperand, StreamingAttention
from polyc.lowering.region_to_gpu.attention_end import End
from polyc.lowering.region_to_gpu.attention_parts import (
    BY_ROW,
    QUARTERS,
    Keys,
    Parts,
    QueryTile,
    Rows,
)
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim, ceil_div

GROUP_ROWS = 64
"""Queries of a consumer warpgroup: rows of one wgmma."""

QUAD = 4
"""Threads that share a row of an accumulator; each keeps its part of the row's sum."""


@dataclass(frozen=True)
class Work:
    """A tile of queries, and the blocks of keys that it sees; step 0 takes the last of them."""

    at: QueryTile
    keys: Keys
    steps: SSAValue
    """How many blocks."""
    ordinal: SSAValue
    """How many tiles this CTA had before."""
    before: SSAValue | None
    """How many steps it had before; None for none."""

    def iteration(self, emit: Emit, step: SSAValue) -> SSAValue:
        """The number of a step among all of this CTA."""
        if self.before is None:
            return step
        return emit.value(arith.AddiOp(self.before, step), "it")


class Sm90Builder:
    """Builds the kernel of one schedule."""

    def __init__(self, attention: StreamingAttention, plan: ScheduleOp) -> None:
        self.attention = attention
        self.plan = plan
        self.frame = Frame(attention.kernel)
        self.emit = self.frame.emit
        self.parts = Parts(attention, plan, self.frame)
        self.queries, self.keys, self.depth = plan.tile_sizes
        self.width = plan.warp_tile_sizes[1]
        self.consumers = plan.integer("consumers")
        self.stages = plan.integer("stages")
        self.heads = side_by_side(plan)

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        self.allocate()
        if self.plan.flag("persistent"):
            self.emit.op(self.roles(self.each_tile))
        else:
            work = self.only_work()
            self.emit.op(self.roles(lambda emit, do: do(emit, work)))
        return self.frame.finish(self.plan, bindings)

    # Shared memory

    def allocate(self) -> None:
        """Q, a part a consumer; K and V by stages; and their rings."""
        attention, emit = self.attention, self.emit
        depth, width = self.depth, self.width
        self.q = self.shared(attention.q, (GROUP_ROWS, depth), self.consumers, "q")
        self.k = self.shared(attention.k, (self.keys, depth), self.stages, "k")
        self.v = self.shared(attention.v, (self.keys, width), self.stages, "v")
        self.q_ring = emit.value(tile.RingOp(1, self.consumers), "rq")
        self.k_ring = emit.value(tile.RingOp(self.stages, self.consumers), "rk")
        self.v_ring = emit.value(tile.RingOp(self.stages, self.consumers), "rv")
        self.turn: SSAValue | None = None
        if self.consumers > 1:
            self.turn = emit.value(tile.OrderBarrierOp(self.consumers), "turn")

    def shared(
        self, operand: HeadOperand, sizes: tuple[int, int], ring: int, hint: str
    ) -> SSAValue:
        kind = SharedType.of(sizes, self.attention.element, ring=ring)
        return self.emit.value(located(SharedTileOp(kind), operand.read), hint)

    # Work

    def only_work(self) -> Work:
        """The tile of a CTA that has one.

        Batch points go by groups, in a group tile by tile, with the batch fastest, so that CTAs
        which run at once share their keys.  Where later queries see more keys, the tiles go from
        the last: the hardware's own order then balances them.
        """
        emit, heads = self.emit, self.heads
        block = emit.value(BlockIdOp(), "block")
        tiles = emit.apply(ceil_div(affine_dim(0), self.queries), [self.parts.size_m], hint="tiles")
        together = emit.apply(affine_dim(0) * heads, [tiles])
        group = emit.value(arith.DivUIOp(block, together), "group")
        rest = emit.value(arith.RemUIOp(block, together), "rest")
        number = emit.apply(affine_dim(0) * heads + affine_dim(1) % heads, [group, rest])
        part = affine_dim(0) // heads
        if self.attention.score.visible.grows:
            part = affine_dim(1) - part - 1
        query = emit.apply(part * self.queries, [rest, tiles], hint="q0")
        at = QueryTile(self.parts.batch(emit, number), query)
        keys = self.parts.visible_keys(emit, at)
        if heads > 1:
            # The last group may have room for more than there are.
            there = emit.compare("slt", number, self.frame.size(batch_size(self.attention)))
            some = emit.value(arith.SelectOp(there, keys.count, emit.index(0)), "some")
            keys = Keys(keys.first, some)
        return Work(at, keys, self.steps(emit, keys), emit.index(0), None)

    def steps(self, emit: Emit, keys: Keys) -> SSAValue:
        return emit.apply(ceil_div(affine_dim(0), self.keys), [keys.count], hint="steps")

    def each_tile(self, emit: Emit, do: Callable[[Emit, Work], None]) -> None:
        """A loop over the tiles of a CTA, all of which see the same keys."""
        count = self.frame.size(batch_size(self.attention))
        body = Block(arg_types=[INDEX, INDEX, INDEX])
        number, query, ordinal = body.args
        number.name_hint, query.name_hint, ordinal.name_hint = "batch", "q0", "n"
        inner = Emit(emit)
        at = QueryTile(self.parts.batch(inner, number), query)
        keys = self.parts.visible_keys(inner, at)
        steps = self.steps(inner, keys)
        before = inner.value(arith.MuliOp(ordinal, steps), "before")
        do(inner, Work(at, keys, steps, ordinal, before))
        body.add_ops(inner.ops)
        sizes = [count, self.parts.size_m]
        emit.op(tile.TileLoopOp(sizes, [1, self.queries], Region(body), "row", 1))

    def key(self, emit: Emit, work: Work, step: SSAValue) -> SSAValue:
        """The first key of a step."""
        place = (affine_dim(1) - affine_dim(0) - 1) * self.keys
        position = emit.apply(place, [step, work.steps], hint="k0")
        return self.parts.key(emit, work.keys, position)

    # Roles

    def roles(self, for_each: Callable[[Emit, Callable[[Emit, Work], None]], None]) -> tile.RolesOp:
        """A producer and the consumers, each with its part of every tile of the CTA."""
        producer, consumer = Emit(self.emit), Emit(self.emit)
        for_each(producer, self.load)
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = "w"
        for_each(consumer, Consumer(self, consumer, body.args[0]).attend)
        body.add_ops([*consumer.ops, tile.YieldOp()])
        return tile.RolesOp(
            self.consumers,
            self.plan.integers("registers") or (0, 0),
            Region(Block([*producer.ops, tile.YieldOp()])),
            Region(body),
            independent=True,
        )

    def load(self, emit: Emit, work: Work) -> None:
        """What the producer does for a tile of queries."""
        emit.when(self.any(emit, work), lambda then: self.load_steps(then, work))

    def load_steps(self, emit: Emit, work: Work) -> None:
        parts, attention = self.parts, self.attention
        emit.op(tile.RingAcquireOp(self.q_ring, work.ordinal))
        for i in range(self.consumers):
            query = emit.apply(affine_dim(0) + i * GROUP_ROWS, [work.at.row])
            parts.copy(
                emit, attention.q, work.at, query, self.q, "tma",
                slot=emit.index(i), signal=(self.q_ring, work.ordinal),
            )  # fmt: skip

        def step(body: Emit, i: SSAValue) -> None:
            iteration = work.iteration(body, i)
            slot, key = self.slot(body, iteration), self.key(body, work, i)
            for operand, shared, ring in (
                (attention.k, self.k, self.k_ring),
                (attention.v, self.v, self.v_ring),
            ):
                body.op(tile.RingAcquireOp(ring, iteration))
                parts.copy(
                    body, operand, work.at, key, shared, "tma",
                    slot=slot, signal=(ring, iteration),
                )  # fmt: skip

        emit.loop(work.steps, step, hint="i")

    def slot(self, emit: Emit, iteration: SSAValue) -> SSAValue:
        return emit.apply(affine_dim(0) % self.stages, [iteration], hint="slot")

    @staticmethod
    def any(emit: Emit, work: Work) -> SSAValue:
        """Whether the tile sees any key."""
        return emit.compare("sgt", work.steps, emit.index(0))


class Consumer:
    """A warpgroup's fragments, and its way over the keys."""

    def __init__(self, builder: Sm90Builder, emit: Emit, number: SSAValue) -> None:
        self.builder = builder
        self.parts = builder.parts
        self.number = number
        attention, keys = builder.attention, builder.keys

        def fragment(hint: str, *sizes: int, kind: Attribute = f32) -> SSAValue:
            return emit.value(tile.FragmentOp(FragmentType.of(sizes, kind)), hint)

        self.s = fragment("s", GROUP_ROWS, keys)
        self.p = fragment("p", GROUP_ROWS, keys, kind=attention.element)
        self.o = fragment("o", GROUP_ROWS, builder.width)
        self.rows = Rows(*(fragment(hint, GROUP_ROWS) for hint in ("m", "was", "base", "alpha")))
        self.part = fragment("part", GROUP_ROWS, QUAD)
        self.sums = fragment("sums", GROUP_ROWS, QUAD)
        self.total = fragment("total", GROUP_ROWS)

    def attend(self, emit: Emit, work: Work) -> None:
        """What a consumer does for its queries of a tile."""
        parts, rows = self.parts, self.rows
        place = affine_dim(0) + affine_dim(1) * GROUP_ROWS
        row = emit.apply(place, [work.at.row, self.number], hint="row")
        self.at = QueryTile(work.at.batch, row)
        for value, fragment in (
            (parts.zero, self.o),
            (parts.zero, self.sums),
            (parts.none, rows.maximum),
            (parts.none, rows.before),
        ):
            emit.op(tile.FillOp(value, fragment))
        some = self.builder.any(emit, work)
        emit.when(some, lambda then: self.walk(then, work))
        emit.op(tile.ReduceOp("sum", self.sums, BY_ROW, self.total))
        End(parts, self.at, rows, self.total, self.o).write(emit)

    def walk(self, emit: Emit, work: Work) -> None:
        """The scores of the first step, then each step's with the values of the one before."""
        b, parts = self.builder, self.parts
        first = work.iteration(emit, emit.index(0))
        emit.op(tile.RingWaitOp(b.q_ring, work.ordinal))
        emit.op(tile.RingWaitOp(b.k_ring, first))
        emit.op(tile.AwaitOp(tokens=[self.products(emit, first)]))
        emit.op(tile.RingReleaseOp(b.k_ring, first))
        self.softmax(emit, work, emit.index(0), first=True)
        parts.round(emit, self.s, self.p)
        self.loop(emit, work)
        last = emit.apply(affine_dim(0) - 1, [work.steps])
        last = work.iteration(emit, last)
        emit.op(tile.RingReleaseOp(b.q_ring, work.ordinal))
        emit.op(tile.RingWaitOp(b.v_ring, last))
        emit.op(tile.AwaitOp(tokens=[self.values(emit, last)]))
        emit.op(tile.RingReleaseOp(b.v_ring, last))

    def loop(self, emit: Emit, work: Work) -> None:
        """The steps after the first; ``gpu-split-steps`` parts those that the mask cuts."""
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = "i"
        inner = Emit(emit)
        self.step(inner, work, body.args[0])
        body.add_ops([*inner.ops, scf.YieldOp()])
        one = emit.index(1)
        emit.op(scf.ForOp(one, work.steps, one, [], body))

    def step(self, emit: Emit, work: Work, i: SSAValue) -> None:
        """The scores of a step and the values of the one before it."""
        b = self.builder
        it = work.iteration(emit, i)
        before = emit.apply(affine_dim(0) - 1, [it], hint="before")
        emit.op(tile.RingWaitOp(b.k_ring, it))
        if b.turn is not None:
            emit.op(tile.OrderEnterOp(b.turn, self.number))
        products = self.products(emit, it)
        emit.op(tile.RingWaitOp(b.v_ring, before))
        values = self.values(emit, before)
        if b.turn is not None:
            emit.op(tile.OrderLeaveOp(b.turn, self.number))
        emit.op(tile.AwaitOp(tokens=[products]))
        emit.op(tile.RingReleaseOp(b.k_ring, it))
        self.softmax(emit, work, i)
        emit.op(tile.AwaitOp(tokens=[values]))
        emit.op(tile.RingReleaseOp(b.v_ring, before))
        self.parts.scaled(emit, self.o, self.rows)
        self.parts.round(emit, self.s, self.p)

    def products(self, emit: Emit, iteration: SSAValue) -> SSAValue:
        """Begin the product of the queries and a step's keys; the token of its end."""
        b = self.builder
        slot, shape = b.slot(emit, iteration), (GROUP_ROWS, b.keys)
        q = tile.ContractSide(b.q, LHS_MK, self.number)
        k = tile.ContractSide(b.k, RHS_NK, slot)
        contract = tile.ContractOp(q, k, self.s, "wgmma", shape, token=True, clear=True)
        return emit.value(located(contract, b.attention.scores))

    def values(self, emit: Emit, iteration: SSAValue) -> SSAValue:
        """Begin to add a step's values by their weights; the token of its end."""
        b = self.builder
        slot, shape = b.slot(emit, iteration), (GROUP_ROWS, b.width)
        p, v = tile.ContractSide(self.p, LHS_MK), tile.ContractSide(b.v, RHS_KN, slot)
        contract = tile.ContractOp(p, v, self.o, "wgmma", shape, token=True)
        return emit.value(located(contract, b.attention.together))

    def softmax(self, emit: Emit, work: Work, i: SSAValue, first: bool = False) -> None:
        """Products become scores and these weights; maxima and sums follow."""
        parts, rows = self.parts, self.rows
        key = self.builder.key(emit, work, i)
        parts.score(emit, self.s, self.at, key)
        if first:
            # The keys that are none are the last ones.
            parts.hide(emit, self.s, self.at, key, parts.left(emit, key))
        else:
            parts.mask(emit, self.s, self.at, key, work.at, None)
        emit.op(tile.ReduceOp("max", self.s, BY_ROW, rows.maximum, accumulate=True))
        parts.rescale(emit, rows)
        parts.weights(emit, self.s, rows)
        emit.op(tile.ReduceOp("sum", self.s, QUARTERS, self.part))
        parts.scaled(emit, self.sums, rows, more=self.part)


def side_by_side(plan: ScheduleOp) -> int:
    """Batch points whose tiles alternate, so that CTAs which run at once share their keys."""
    return plan.integer("group") if plan.raster.data == "grouped" else 1


def batch_size(attention: StreamingAttention) -> Dim:
    """How many attentions there are."""
    total = Dim.const(1)
    for label in attention.batch:
        total = total * attention.size(label)
    return total


def grid_of(attention: StreamingAttention, plan: ScheduleOp) -> list[Dim]:
    """Tiles of queries, of as many batch points as whole groups have."""
    tiles = attention.size(attention.m).ceildiv(plan.tile_sizes[0])
    heads = side_by_side(plan)
    return [batch_size(attention).ceildiv(heads), tiles, Dim.const(heads)]
