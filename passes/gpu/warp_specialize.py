"""``gpu-warp-specialize``: one warpgroup loads, the others compute (T2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.pipeline_parts import (
    check_stages,
    check_threads,
    copies_of,
    split,
)
from polyc.passes.support.gpu.role_counts import Counts
from polyc.passes.support.gpu.role_parts import Flow, Producer, Turns
from polyc.passes.support.gpu.role_place import Place
from polyc.passes.support.gpu.uniform import is_scalar
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit, region_of

WARPGROUP = 128
"""Threads of a warpgroup."""


class SpecializeWarps(RewritePattern):
    """Give a pipeline's TMA copies to a producer warpgroup and the rest to consumers.

    A ring carries the flow: the producer acquires a slot, copies into it and thereby fills
    it; a consumer waits for it, issues the contract, and once the contract of the iteration
    before has finished (at most one stays pending) releases that one's slot.

    Where a contract waits for another one of its iteration, as attention's do, the tiles that each
    reads have a ring of their own; a contract is awaited where its sums are needed, and its slot
    released there (``gpu-skew`` then lets contracts of neighbouring iterations overlap).

    An operand that an iteration computes in registers has two fragments, in turn: what the pending
    contract reads stays, and the next operand is computed while it runs.

    Guarded statements keep their guards, which each role asks for itself.  The ring goes round all
    the same: an iteration whose copies are skipped fills its slot with nothing, and one whose
    contract is skipped waits for the contract before it, as nothing newer may be pending.

    Pipelines that follow one another in a block, as two walks over the same keys do, get roles
    together: the producer goes on from the copies of one to those of the next.  A tile that several
    fill has one ring, which counts on from each to the next; each awaits all its contracts, so that
    none is under way in the next.

    Of a pipeline in a tile loop each role runs the tile loop: the producer goes on to the next
    tile's copies while the consumers finish theirs.  The ring's iterations count on from tile to
    tile, and the last slot of a tile is released when its contracts are done.  Of a pipeline in a
    branch each role asks the condition.  A tile that TMA brings before the pipeline, beside it, and
    that it reads, is the producer's work too, with a ring of one slot, or of as many as the tile
    has where no copy and no contract names one.  Where a copy is multicast the ring spans the
    cluster.  With ``pingpong`` a consumer computes whole tiles, every one of so
    many, and a shared tile through which it stores them has a slot for each.

    Where the pipeline's bound and the branches' conditions are the same for all tiles, the first
    iteration of a tile is its ordinal times their number.  Where one varies, as what a tile of
    queries sees of the keys, each role computes it in every tile, and its tile loop carries how
    many iterations there were; a branch that is not taken adds none.

    What threads load of the planes of an image is the producer's work too: all of its threads load
    then, and one of them starts the copies by TMA.

    Legality: all copies are ``loader "tma"`` or of planes and all contracts ``wgmma``; the pipeline
    stands in the kernel's own block, or in a tile loop or branches there, and its bound and the
    branches' conditions are known before what it does, and the same for all threads
    (``check_uniform``), for all CTAs of a cluster where a copy is multicast, for all tiles with
    ``pingpong``; everything after it reads fragments, which consumers own. Nothing between
    pipelines that get roles together says where their copies lie, no other pipeline fills their
    tiles, and with ``pingpong`` there is one. The ring has 2 slots or more: a slot is released one
    iteration late, and the producer of a ring of 1 would wait for ever.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        walks = together(op)
        place = Place.of(walks) if walks else None
        if place is None:
            return
        kernel = place.kernel
        consumers = kernel.threads.value.data // WARPGROUP - 1
        if consumers < 1:
            raise PolycError(
                "NoProducer",
                f"{kernel.threads.value.data} threads leave no warpgroup to load; a warp-"
                "specialised kernel has 128 more than its consumers",
                kernel,
            )
        turns = place.tiles is not None and place.tiles.pingpong is not None
        if turns and consumers < 2:
            raise PolycError(
                "NoTurns",
                f"{consumers} consumer takes no turns; give a kernel with pingpong 384 threads",
                kernel,
            )
        if turns and len(walks) > 1:
            raise PolycError(
                "NoTurns",
                f"consumers that take turns run one pipeline a tile, and this tile loop has "
                f"{len(walks)}; drop pingpong, or make one of them",
                walks[1],
            )
        group = 1 if turns else consumers
        for walk in walks:
            check_stages(walk)
            check_threads(walk, group * WARPGROUP)
            check_shared(walk, walks)
        alike = place.settle()
        parts = [split(walk) for walk in walks]
        emit = Emit()
        count = Emit()
        counts = Counts.alike(place, count) if alike else Counts.carried(place, count, rewriter)
        place = counts.place
        flow = Flow.of(counts, emit, group)
        own: Turns | None = None
        if turns:
            own = Turns(emit.value(tile.OrderBarrierOp(consumers), "turns"), consumers)
        emit.ops += count.ops
        tiles, outer = place.tiles, place.outermost
        producer = Emit()
        Producer(flow, [loading for loading, _ in parts]).walk(producer)
        loops = [flow.consumer(i, computing, own) for i, (_, computing) in enumerate(parts)]
        consumer = loops[0]
        block = outer.parent_block()
        assert block is not None
        flow.take_early(rewriter)
        for walk, loop in zip(walks[1:], loops[1:], strict=True):
            rewriter.replace(walk, loop.ops, [])
        before = [o for o in block.ops if self.belongs_to_consumers(o, outer)]
        after: list[Operation] = []
        following = outer.next_op
        while following is not None and not isinstance(following, gpu.ReturnOp):
            after.append(following)
            following = following.next_op
        assert following is not None
        rewriter.replace(walks[0], consumer.ops, [])
        middle = consumer.ops if outer is walks[0] else [outer]
        for moved in (*before, *middle, *after):
            moved.detach()
        if own is not None and tiles is not None:
            middle = [own.shared_out(tiles, rewriter)]
        budget, kernel.registers = kernel.registers, None
        alone = all(copy.planes is None for part in parts for copy in loaded(part[0]))
        computed = [*before, *middle, *after]
        roles = tile.RolesOp(
            consumers,
            budget.data if budget is not None else (0, 0),
            region_of([*producer.ops, tile.YieldOp()]),
            region_of([*computed, tile.YieldOp()]) if own is None else own.body(computed),
            single_thread=alone,
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


def together(op: tile.PipelineOp) -> list[tile.PipelineOp]:
    """The pipelines beside ``op`` that get roles with it, in the order of the text; none where it
    gets none."""
    block = op.parent_block()
    assert block is not None
    found = [o for o in block.ops if isinstance(o, tile.PipelineOp) and specializes(o)]
    return found if op in found else []


def check_shared(op: tile.PipelineOp, walks: Sequence[tile.PipelineOp]) -> None:
    """Refuse a tile of a pipeline with roles that one without fills too; raises PolycError
    ``TileShared``."""
    for copy in copies_of(op):
        users = [use.operation for use in copy.target.uses]
        strange = next((o for o in users if not any(w.is_ancestor(o) for w in walks)), None)
        if strange is not None:
            raise PolycError(
                "TileShared",
                f"{strange.name} uses a tile that a producer fills ahead for the pipelines of TMA "
                "copies and wgmma contracts; only these can",
                strange,
            )


def loaded(part: Sequence[Operation]) -> list[tile.CopyOp]:
    """The copies among what loads."""
    return [op for outer in part for op in outer.walk() if isinstance(op, tile.CopyOp)]


def specializes(op: tile.PipelineOp) -> bool:
    """Whether all copies of a pipeline are by TMA, or of planes, and all its contracts wgmma."""
    copies = copies_of(op)
    contracts = [o for o in op.body.walk() if isinstance(o, tile.ContractOp)]
    return (
        bool(copies and contracts)
        and all(c.planes is not None or (c.loader and c.loader.data == "tma") for c in copies)
        and all(c.mma.data == "wgmma" for c in contracts)
    )


@dataclass(frozen=True)
class GpuWarpSpecialize(ModulePass):
    """Split pipelines of TMA copies and wgmma contracts into roles."""

    name = "gpu-warp-specialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SpecializeWarps()])
