"""``gpu-wgmma-sync``: fences, groups and waits around wgmma (T2; PTX ISA, wgmma)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.loops import is_rolled, is_unrolled, mark_rolled
from polyc.passes.support.gpu.registers import launch_registers
from polyc.passes.support.gpu.symbols import dim_of, enclosing_kernel
from polyc.rewriting.driver import rewrite

WGMMA = hw.WgmmaOp | hw.WgmmaRegistersOp

FEW = 16
"""Steps that the compiler may unroll whole."""

TIGHT = 128
"""Registers of a thread of a block of three consumers, for whose code there are no more, whatever
these take later.  Rolled, four kernels took 0.5 % longer to 0.5 % less (an H100)."""


class GroupWgmma(RewritePattern):
    """Put one fence before and one commit after the run of wgmma of one contract.

    They accumulate in the same registers, which only the first of them may clear.  The fence
    orders the warpgroup's own accesses of the accumulator, and of a left operand in registers,
    before the run.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: hw.WgmmaOp | hw.WgmmaRegistersOp, rewriter: PatternRewriter
    ) -> None:
        if not isinstance(op.prev_op, hw.WgmmaFenceOp) and not together(op.prev_op, op):
            rewriter.insert(hw.WgmmaFenceOp(), InsertPoint.before(op))
        if not isinstance(op.next_op, hw.WgmmaCommitOp) and not together(op, op.next_op):
            rewriter.insert(hw.WgmmaCommitOp(), InsertPoint.after(op))


def together(first: Operation | None, second: Operation | None) -> bool:
    """Whether two neighbours are of one contract."""
    return (
        isinstance(first, WGMMA)
        and isinstance(second, WGMMA)
        and first.acc is second.acc
        and second.clear is None
    )


class LowerAwait(RewritePattern):
    """A contract is one wgmma group, so awaiting contracts is waiting for groups.

    What is ready afterwards is settled there.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.AwaitOp, rewriter: PatternRewriter) -> None:
        fences = [hw.RegisterFenceOp(v) for v in op.ready]
        rewriter.replace(op, [hw.WgmmaWaitOp(op.depth), *fences], [])


class FenceAccumulators(RewritePattern):
    """Settle the registers that wgmma accumulates in, where other code touches them.

    That is after the code that sets them, unless the next wgmma clears them, and after the waits
    for them: those that say what they make ready, or else the waits for the last group in the block
    that allocates them.  Not inside a run of wgmma: ptxas would serialise them.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: memref.AllocaOp, rewriter: PatternRewriter) -> None:
        users = [use.operation for use in op.memref.uses]
        block = op.parent_block()
        products = [u for u in users if isinstance(u, WGMMA) and u.acc is op.memref]
        if block is None or not products:
            return
        starts = [u for u in products if isinstance(u.prev_op, hw.WgmmaFenceOp)]
        places: list[Operation] = []
        if any(u.clear is None for u in starts):
            for user in users:
                if isinstance(user, memref.StoreOp):
                    places.append(self.around(user, products))
        if not any(isinstance(u, hw.RegisterFenceOp) for u in users):
            for other in block.ops:
                if isinstance(other, hw.WgmmaWaitOp) and other.pending.value.data == 0:
                    places.append(other)
        for place in dict.fromkeys(places):
            if not self.settled_after(place, op.memref):
                rewriter.insert(hw.RegisterFenceOp(op.memref), InsertPoint.after(place))

    @staticmethod
    def settled_after(place: Operation, registers: SSAValue) -> bool:
        following = place.next_op
        while isinstance(following, hw.RegisterFenceOp):
            if following.registers is registers:
                return True
            following = following.next_op
        return False

    @staticmethod
    def around(store: Operation, products: Sequence[Operation]) -> Operation:
        """The outermost op around a store that has none of the products in it."""
        place = store
        while (outer := place.parent_op()) is not None:
            if isinstance(outer, tile.RolesOp | gpu.KernelOp):
                break
            if any(outer.is_ancestor(p) for p in products):
                break
            place = outer
        return place


class RollSteps(RewritePattern):
    """A loop of ``FEW`` steps of wgmma or less, as is known when it is compiled, is left as it is,
    where threads have ``TIGHT`` registers or less.

    The compiler unrolls these whole, and finds the descriptors of every slot of the ring before
    them: more than a warp has uniform registers for, so that threads keep some beside their sums,
    and spill (16 and 48 bytes of a ResNet's 192 x 128).  Exact.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if is_unrolled(op) or is_rolled(op) or not any(isinstance(o, WGMMA) for o in op.body.ops):
            return
        kernel = enclosing_kernel(op)
        if launch_registers(kernel) > TIGHT:
            return
        count = dim_of(op.ub, kernel)
        if count is not None and (count.constant() or FEW + 1) <= FEW:
            mark_rolled(op)
            rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class GpuWgmmaSync(ModulePass):
    """Make wgmma's ordering explicit."""

    name = "gpu-wgmma-sync"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [GroupWgmma(), LowerAwait()])
        rewrite(op, [FenceAccumulators(), RollSteps()])
