"""``gpu-lower-roles``: roles as a branch on the warpgroup (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, Region
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit, affine_dim

WARPGROUP = 128


class LowerRoles(RewritePattern):
    """The last warpgroup produces, the ones before it consume.

    ``setmaxnreg`` is for the whole warpgroup, so a single-threaded producer branches after it.
    Independent consumers see their warpgroup as their number.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.RolesOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        thread = emit.value(hw.ThreadIdOp(), "thread")
        warpgroup = emit.value(
            hw.WarpUniformOp(emit.apply(affine_dim(0) // WARPGROUP, [thread])), "warpgroup"
        )
        first = op.consumers.value.data
        produces = emit.compare("eq", warpgroup, emit.index(first))
        producer = self.taken(op.producer)
        if op.single_thread is not None:
            head = [o for o in producer if isinstance(o, hw.SetMaxRegistersOp)]
            rest = [o for o in producer if not isinstance(o, hw.SetMaxRegistersOp)]
            inner = Emit()
            inner.ops.extend(head)
            alone = inner.compare("eq", thread, inner.index(first * WARPGROUP))
            inner.when(alone, lambda then: then.ops.extend(rest))
            producer = inner.ops
        for number in op.consumer.block.args:
            number.replace_all_uses_with(warpgroup)
        emit.op(
            scf.IfOp(
                produces,
                [],
                [*producer, scf.YieldOp()],
                [*self.taken(op.consumer), scf.YieldOp()],
            )
        )
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def taken(region: Region) -> list[Operation]:
        """The ops of a role, detached, without its terminator."""
        ops = [o for o in region.block.ops if not isinstance(o, tile.YieldOp)]
        for o in ops:
            o.detach()
        return ops


@dataclass(frozen=True)
class GpuLowerRoles(ModulePass):
    """Branch on the role."""

    name = "gpu-lower-roles"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerRoles()])
