"""``gpu-warp-specialize``: one warpgroup loads, the others compute (T2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.passes.support.gpu.guards import guards_of
from polyc.passes.support.gpu.loop_steps import is_inside
from polyc.passes.support.gpu.pipeline_parts import (
    check_stages,
    check_threads,
    clone_iteration,
    copies_of,
    iterations,
    split,
    with_needs,
)
from polyc.passes.support.gpu.uniform import is_scalar
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import INDEX, Emit, affine_dim, clone_into, region_of

WARPGROUP = 128
"""Threads of a warpgroup."""


class SpecializeWarps(RewritePattern):
    """Give a pipeline's TMA copies to a producer warpgroup and the rest to consumers.

    A ring carries the flow: the producer acquires a slot, copies into it and thereby fills
    it; a consumer waits for it, issues the contract, and once the contract of the iteration
    before has finished (at most one stays pending) releases that one's slot.

    An operand that an iteration computes in registers has two fragments, in turn: what the pending
    contract reads stays, and the next operand is computed while it runs.

    Guarded statements keep their guards, which each role asks for itself.  The ring goes round all
    the same: an iteration whose copies are skipped fills its slot with nothing, and one whose
    contract is skipped waits for the contract before it, as nothing newer may be pending.

    Of a pipeline in a tile loop each role runs the tile loop: the producer goes on to the next
    tile's copies while the consumers finish theirs.  The ring's iterations count on from tile to
    tile, and the last slot of a tile is released when its contracts are done.  Where a copy is
    multicast the ring spans the cluster.  With ``pingpong`` a consumer computes whole tiles, every
    one of so many, and a shared tile through which it stores them has a slot for each.

    Legality: all copies are ``loader "tma"`` and all contracts ``wgmma``; the pipeline stands
    in the kernel's own block, or in a tile loop there, and its bound is the same for all tiles;
    everything after it reads fragments, which consumers own.  The ring has 2 slots or more: a
    slot is released one iteration late, and the producer of a ring of 1 would wait for ever.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        parent = op.parent_op()
        tiles = parent if isinstance(parent, tile.TileLoopOp) and parent.share is None else None
        kernel = parent if tiles is None else tiles.parent_op()
        if not isinstance(kernel, gpu.KernelOp) or not specializes(op):
            return
        consumers = kernel.threads.value.data // WARPGROUP - 1
        if consumers < 1:
            raise PolycError(
                "NoProducer",
                f"{kernel.threads.value.data} threads leave no warpgroup to load; a warp-"
                "specialised kernel has 128 more than its consumers",
                kernel,
            )
        turns = tiles is not None and tiles.pingpong is not None
        if turns and consumers < 2:
            raise PolycError(
                "NoTurns",
                f"{consumers} consumer takes no turns; give a kernel with pingpong 384 threads",
                kernel,
            )
        check_stages(op)
        together = 1 if turns else consumers
        check_threads(op, together * WARPGROUP)
        emit = Emit()
        peers = kernel.cluster_size if any(c.multicast is not None for c in copies_of(op)) else 1
        ring = emit.value(tile.RingOp(op.stages.value.data, together, peers), "ring")
        own: Turns | None = None
        if turns:
            own = Turns(emit.value(tile.OrderBarrierOp(consumers), "turns"), consumers)
        outer: Operation = op if tiles is None else tiles
        if tiles is not None and is_inside(op.bound, tiles):
            raise PolycError(
                "VaryingPipeline",
                "the number of iterations differs from tile to tile, so that nothing says which "
                "slot a tile begins with; write the roles out, with iterations that count on",
                op,
            )
        count = iterations(op, emit)
        loading, computing = split(op)
        producer = Emit()
        if tiles is None:
            producer.loop(
                count, lambda inner, i: self.produce(op, loading, ring, inner, i, i, {}), hint="i"
            )
        else:
            self.produce_tiles(op, tiles, loading, ring, count, producer)
        consumer = self.consumer(op, tiles, computing, ring, count, own)
        block = outer.parent_block()
        assert block is not None
        before = [o for o in block.ops if self.belongs_to_consumers(o, outer)]
        after: list[Operation] = []
        following = outer.next_op
        while following is not None and not isinstance(following, gpu.ReturnOp):
            after.append(following)
            following = following.next_op
        assert following is not None
        rewriter.replace(op, consumer.ops, [])
        middle = consumer.ops if tiles is None else [tiles]
        for moved in (*before, *middle, *after):
            moved.detach()
        if own is not None and tiles is not None:
            middle = [own.shared_out(tiles, rewriter)]
        budget, kernel.registers = kernel.registers, None
        computed = [*before, *middle, *after]
        roles = tile.RolesOp(
            consumers,
            budget.data if budget is not None else (0, 0),
            region_of([*producer.ops, tile.YieldOp()]),
            region_of([*computed, tile.YieldOp()]) if own is None else own.body(computed),
            independent=own is not None,
        )
        roles.location = op.location
        rewriter.insert(
            [*(located(new, op) for new in emit.ops), roles], InsertPoint.before(following)
        )

    @staticmethod
    def belongs_to_consumers(candidate: Operation, outer: Operation) -> bool:
        """Whether an op before the pipeline (or its tile loop) works on fragments."""
        if not candidate.is_before_in_block(outer):
            return False
        return isinstance(candidate, tile.FragmentOp | tile.FillOp) or not (
            is_scalar(candidate)
            or isinstance(candidate, tile.RingOp | tile.CopyOp | hw.SharedTileOp)
        )

    def produce_tiles(
        self,
        op: tile.PipelineOp,
        tiles: tile.TileLoopOp,
        loading: list[Operation],
        ring: SSAValue,
        count: SSAValue,
        emit: Emit,
    ) -> None:
        """The producer's own walk over the tiles."""
        old = tiles.body.block
        body = Block(arg_types=[INDEX] * len(old.args))
        values: dict[SSAValue, SSAValue] = {}
        for mine, theirs in zip(body.args, old.args, strict=True):
            mine.name_hint = theirs.name_hint
            values[theirs] = mine
        needed = with_needs([o for o in old.ops if o is not op], loading)
        for need in needed:
            if not is_scalar(need):
                raise PolycError(
                    "BadProducer",
                    f"the copies of the pipeline need {need.name}, which only its consumers run; "
                    "move it out of the tile loop or write the roles out",
                    need,
                )
        inner = Emit()
        clone_into(needed, values, inner)
        first = inner.value(arith.MuliOp(body.args[-1], count), "first")

        def step(loop: Emit, i: SSAValue) -> None:
            number = loop.apply(affine_dim(0) + affine_dim(1), [first, i], hint="number")
            self.produce(op, loading, ring, loop, i, number, values)

        inner.loop(count, step, hint="i")
        body.add_ops(inner.ops)
        walk = tile.TileLoopOp(
            list(tiles.sizes),
            tiles.tile.data,
            Region(body),
            tiles.raster.data,
            tiles.group.value.data,
            tiles.reversed is not None,
        )
        walk.attributes.update(tiles.attributes)
        emit.op(walk)

    @staticmethod
    def produce(
        op: tile.PipelineOp,
        part: list[Operation],
        ring: SSAValue,
        emit: Emit,
        i: SSAValue,
        number: SSAValue,
        outer: Mapping[SSAValue, SSAValue],
    ) -> None:
        emit.op(tile.RingAcquireOp(ring, number))
        signal = tile.CopySignal(ring, number)
        copied = Emit()
        clone_iteration(op, part, i, copied, number, outer)
        for new in copied.ops:
            if isinstance(new, tile.CopyOp):
                emit.op(new.like(signal=signal, loader="tma"))
                new.erase()
                continue
            emit.op(new)
            for copy in [o for o in new.walk() if isinstance(o, tile.CopyOp)]:
                signalling = copy.like(signal=signal, loader="tma")
                Rewriter.replace_op(copy, signalling)

    @staticmethod
    def consumer(
        op: tile.PipelineOp,
        tiles: tile.TileLoopOp | None,
        part: list[Operation],
        ring: SSAValue,
        count: SSAValue,
        turns: Turns | None,
    ) -> Emit:
        """The consumers' loop, in the pipeline's place; where they take turns, within one."""
        emit = Emit()
        first: SSAValue | None = None
        if tiles is not None:
            first = emit.value(arith.MuliOp(tiles.ordinal, count), "first")

        def of_ring(inner: Emit, i: SSAValue, shift: int = 0) -> SSAValue:
            if first is None:
                return inner.apply(affine_dim(0) + shift, [i], hint="previous" if shift else None)
            whole = affine_dim(0) + affine_dim(1) + shift
            return inner.apply(whole, [first, i], hint="previous" if shift else "number")

        def step(inner: Emit, i: SSAValue, twins: Mapping[SSAValue, SSAValue]) -> None:
            number = of_ring(inner, i)
            inner.op(tile.RingWaitOp(ring, number))
            computed = Emit()
            clone_iteration(op, part, i, computed, number, twins)
            inner.ops += computed.ops
            settle_before(computed.ops, inner)
            late = inner.compare("sgt", i, inner.index(0))
            inner.when(
                late, lambda then: then.ops.append(tile.RingReleaseOp(ring, of_ring(then, i, -1)))
            )

        twins = {
            value: emit.value(tile.FragmentOp(cast(FragmentType, value.type)), value.name_hint)
            for value in computed_operands(part)
        }
        if turns is not None:
            emit.op(tile.OrderEnterOp(turns.order, turns.number))
        if not twins:
            emit.loop(count, lambda inner, i: step(inner, i, {}), hint="i")
        else:

            def pair(inner: Emit, at: SSAValue) -> None:
                step(inner, inner.apply(affine_dim(0) * 2, [at], hint="i"), {})
                step(inner, inner.apply(affine_dim(0) * 2 + 1, [at], hint="i"), twins)

            emit.loop(emit.apply(affine_dim(0) // 2, [count], hint="pairs"), pair, hint="pair")
            odd = emit.compare("eq", emit.apply(affine_dim(0) % 2, [count]), emit.index(1))
            last = emit.apply(affine_dim(0) - 1, [count], hint="i")
            emit.when(odd, lambda then: step(then, last, {}))
        if turns is not None:
            emit.op(tile.OrderLeaveOp(turns.order, turns.number))
        emit.op(tile.AwaitOp(0))
        if first is not None:
            some = emit.compare("sgt", count, emit.index(0))
            emit.when(
                some,
                lambda then: then.ops.append(tile.RingReleaseOp(ring, of_ring(then, count, -1))),
            )
        return emit


@dataclass
class Turns:
    """Consumers that take turns: each has every ``count``-th tile of the CTA.

    They issue their contracts one after another, in the ``order``, so that one's epilogue runs
    beside another's.  ``number`` says which consumer it is.
    """

    order: SSAValue
    count: int
    block: Block = field(default_factory=lambda: Block(arg_types=[INDEX]))

    @property
    def number(self) -> SSAValue:
        return self.block.args[0]

    def shared_out(self, tiles: tile.TileLoopOp, rewriter: PatternRewriter) -> tile.TileLoopOp:
        """The loop over a consumer's own tiles; each has a slot of the shared tiles that it fills.

        Raises PolycError ``TileShared`` where something else than copies uses one of these.
        """
        copies = [op for op in tiles.body.block.ops if isinstance(op, tile.CopyOp)]
        filled = dict.fromkeys(c.target for c in copies if isinstance(c.target.type, SharedType))
        for held in filled:
            kind = held.type
            assert isinstance(kind, SharedType)
            for use in held.uses:
                if use.operation not in copies or kind.ring.data != 1:
                    raise PolycError(
                        "TileShared",
                        f"{use.operation.name} uses a tile of which each consumer needs one; with "
                        "pingpong only copies of a tile can",
                        use.operation,
                    )
            ring = SharedType.of(kind.sizes, kind.element_type, kind.swizzle_bytes, self.count)
            new = rewriter.replace_value_with_new_type(held, ring)
            for copy in [op for op in tiles.body.block.ops if isinstance(op, tile.CopyOp)]:
                if copy.target is new:
                    Rewriter.replace_op(copy, copy.like(slot=self.number))
                elif copy.source is new:
                    Rewriter.replace_op(copy, copy.like(source_slot=self.number))
        body = tiles.detach_region(tiles.body)
        made = tile.TileLoopOp(
            list(tiles.sizes),
            tiles.tile.data,
            body,
            tiles.raster.data,
            tiles.group.value.data,
            tiles.reversed is not None,
            self.number,
            self.count,
        )
        made.attributes.update(tiles.attributes)
        return located(made, tiles)

    def body(self, ops: Sequence[Operation]) -> Region:
        """What each of them does."""
        self.number.name_hint = "w"
        self.block.add_ops([*ops, tile.YieldOp()])
        return Region(self.block)


def computed_operands(part: Sequence[Operation]) -> list[SSAValue]:
    """The fragments that contracts of an iteration read in registers and that it writes itself."""
    contracts = [c for o in part for c in o.walk() if isinstance(c, tile.ContractOp)]
    held = dict.fromkeys(c.lhs for c in contracts if isinstance(c.lhs.type, FragmentType))
    return [
        value
        for value in held
        if any(use.operation not in contracts for use in value.uses if _is_in(use.operation, part))
    ]


def _is_in(op: Operation, part: Sequence[Operation]) -> bool:
    return any(one.is_ancestor(op) for one in part)


def settle_before(iteration: Sequence[Operation], emit: Emit) -> None:
    """Wait until of an iteration's contracts at most the last one is pending.

    Where the last one is guarded and skipped, nothing is: the wait then stands in the guards.  Of
    one that may run any number of times, nobody knows how many are pending, and none stays.
    """
    contracts = [c for o in iteration for c in o.walk() if isinstance(c, tile.ContractOp)]
    last = contracts[-1]
    guards = guards_of(last)
    whole = guards[-1] if guards else last
    if whole not in iteration or any(guard.false_region.blocks for guard in guards):
        emit.op(tile.AwaitOp(0))
        return
    if not guards:
        emit.op(tile.AwaitOp(1))
        return
    block = last.parent_block()
    assert block is not None
    block.insert_op_after(tile.AwaitOp(1), last)
    for guard in guards:
        guard.false_region.add_block(Block([tile.AwaitOp(0), scf.YieldOp()]))


def specializes(op: tile.PipelineOp) -> bool:
    """Whether all copies of a pipeline are by TMA and all its contracts wgmma."""
    copies = copies_of(op)
    contracts = [o for o in op.body.walk() if isinstance(o, tile.ContractOp)]
    return (
        bool(copies and contracts)
        and all(c.loader is not None and c.loader.data == "tma" for c in copies)
        and all(c.mma.data == "wgmma" for c in contracts)
    )


@dataclass(frozen=True)
class GpuWarpSpecialize(ModulePass):
    """Split pipelines of TMA copies and wgmma contracts into roles."""

    name = "gpu-warp-specialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SpecializeWarps()])
