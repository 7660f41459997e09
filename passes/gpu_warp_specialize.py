"""``gpu-warp-specialize``: one warpgroup loads, the others compute (T2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import is_side_effect_free

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import IntsAttr
from polyc.passes.driver import rewrite
from polyc.passes.emit import Emit, affine_dim, region_of
from polyc.passes.gpu_pipeline_parts import (
    check_stages,
    check_threads,
    clone_iteration,
    iterations,
    split,
)

WARPGROUP = 128
"""Threads of a warpgroup."""

REGISTERS = "registers"
"""Attribute of a kernel: the register budget a thread of [producer, consumer]."""


class SpecializeWarps(RewritePattern):
    """Give a pipeline's TMA copies to a producer warpgroup and the rest to consumers.

    A ring carries the flow: the producer acquires a slot, copies into it and thereby fills
    it; a consumer waits for it, issues the contract, and once the contract of the iteration
    before has finished (at most one stays pending) releases that one's slot.

    Legality: all copies are ``loader "tma"`` and all contracts ``wgmma``; the pipeline stands
    in the kernel's own block; everything after it reads fragments, which consumers own.  The
    ring has 2 slots or more: a slot is released one iteration late, and the producer of a ring
    of 1 would wait for ever.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        kernel = op.parent_op()
        if not isinstance(kernel, gpu.KernelOp):
            return
        body = list(op.body.block.ops)
        copies = [o for o in body if isinstance(o, tile.CopyOp) and o.is_load]
        contracts = [o for o in body if isinstance(o, tile.ContractOp)]
        if not copies or not contracts:
            return
        if any(c.loader is None or c.loader.data != "tma" for c in copies):
            return
        if any(c.mma.data != "wgmma" for c in contracts):
            return
        consumers = kernel.threads.value.data // WARPGROUP - 1
        if consumers < 1:
            raise PolycError(
                "NoProducer",
                f"{kernel.threads.value.data} threads leave no warpgroup to load; a warp-"
                "specialised kernel has 128 more than its consumers",
                kernel,
            )
        check_stages(op)
        check_threads(op, consumers * WARPGROUP)
        block = op.parent_block()
        assert block is not None
        emit = Emit()
        ring = emit.value(tile.RingOp(op.stages.value.data, consumers), "ring")
        count = iterations(op, emit)
        loading, computing = split(op)

        producer = Emit()
        producer.loop(count, lambda inner, i: self.produce(op, loading, ring, inner, i), hint="i")
        consumer = Emit()
        before = [o for o in block.ops if self.belongs_to_consumers(o, op)]
        consumer.loop(count, lambda inner, i: self.consume(op, computing, ring, inner, i), hint="i")
        consumer.op(tile.AwaitOp(0))
        after: list[Operation] = []
        following = op.next_op
        while following is not None and not isinstance(following, gpu.ReturnOp):
            after.append(following)
            following = following.next_op
        for moved in (*before, *after):
            moved.detach()
        budget = cast(IntsAttr | None, kernel.attributes.get(REGISTERS))
        roles = tile.RolesOp(
            consumers,
            budget.data if budget is not None else (0, 0),
            region_of([*producer.ops, tile.YieldOp()]),
            region_of([*before, *consumer.ops, *after, tile.YieldOp()]),
        )
        kernel.attributes.pop(REGISTERS, None)
        rewriter.replace(op, [*emit.ops, roles], [])

    @staticmethod
    def belongs_to_consumers(candidate: Operation, pipeline: tile.PipelineOp) -> bool:
        """Whether an op before the pipeline works on fragments."""
        if not candidate.is_before_in_block(pipeline):
            return False
        # Upstream's remainders do not say that they touch no memory; no op of arith does.
        pure = is_side_effect_free(candidate) or candidate.dialect_name() == "arith"
        return isinstance(candidate, tile.FragmentOp | tile.FillOp) or (
            not pure and not isinstance(candidate, tile.RingOp | tile.CopyOp | hw.SharedTileOp)
        )

    @staticmethod
    def produce(
        op: tile.PipelineOp, part: list[Operation], ring: SSAValue, emit: Emit, i: SSAValue
    ) -> None:
        emit.op(tile.RingAcquireOp(ring, i))
        copied = Emit()
        clone_iteration(op, part, i, copied)
        for new in copied.ops:
            if isinstance(new, tile.CopyOp):
                emit.op(new.like(signal=ring, signal_index=i, loader="tma"))
                new.erase()
            else:
                emit.op(new)

    @staticmethod
    def consume(
        op: tile.PipelineOp, part: list[Operation], ring: SSAValue, emit: Emit, i: SSAValue
    ) -> None:
        emit.op(tile.RingWaitOp(ring, i))
        clone_iteration(op, part, i, emit)
        emit.op(tile.AwaitOp(1))
        first = emit.compare("sgt", i, emit.index(0))
        emit.when(
            first,
            lambda inner: inner.ops.append(
                tile.RingReleaseOp(ring, inner.apply(affine_dim(0) - 1, [i], hint="previous"))
            ),
        )


@dataclass(frozen=True)
class GpuWarpSpecialize(ModulePass):
    """Split pipelines of TMA copies and wgmma contracts into roles."""

    name = "gpu-warp-specialize"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SpecializeWarps()])
