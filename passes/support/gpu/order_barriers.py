"""Patterns that lower order barriers: turns as hardware barriers (T2; PTX ISA, bar)."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.waiting import OrderType
from polyc.passes.support.gpu.scope import WARPGROUP, scope_of
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

FIRST = 9
"""The first hardware barrier that no scope uses (``scope.py``)."""

LAST = 15
"""The last hardware barrier of a CTA."""


class LowerOrderBarriers(RewritePattern):
    """Participant ``w`` has a hardware barrier of its own, at which its turn begins.

    It waits there, and at the end of its turn it arrives at the next one's: two warpgroups meet, of
    which only one waits.  The last participant arrives once before all turns, for number 0.

    Legality: who enters and leaves is one warpgroup of independent consumers, as many of them
    as take turns; the CTA has enough barriers (``ResourceExceeded``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.KernelOp, rewriter: PatternRewriter) -> None:
        first = FIRST
        for order in [o for o in op.walk() if isinstance(o, tile.OrderBarrierOp)]:
            assert isinstance(order.order.type, OrderType)
            count = order.order.type.participants.data
            if first + count - 1 > LAST:
                raise PolycError(
                    "ResourceExceeded",
                    f"turns of {count} need barriers {first} to {first + count - 1}, and a CTA has "
                    f"{LAST}; use fewer order barriers",
                    order,
                )
            self.lower(order, first, count, rewriter)
            first += count

    @staticmethod
    def lower(op: tile.OrderBarrierOp, first: int, count: int, rewriter: PatternRewriter) -> None:
        threads = 2 * WARPGROUP
        for user in [use.operation for use in op.order.uses]:
            assert isinstance(user, tile.OrderEnterOp | tile.OrderLeaveOp)
            check_participants(user, count)
            emit = Emit()
            if isinstance(user, tile.OrderEnterOp):
                emit.op(hw.NamedBarrierOp(first, threads, user.number, paces=True))
            else:
                following = emit.apply((affine_dim(0) + 1) % count, [user.number], hint="next")
                emit.op(hw.NamedBarrierArriveOp(first, threads, following))
            for new in emit.ops:
                located(new, user)
            rewriter.replace(user, emit.ops, [])
        emit = Emit()
        thread = emit.value(hw.ThreadIdOp(), "thread")
        warpgroup: SSAValue = emit.value(
            hw.WarpUniformOp(emit.apply(affine_dim(0) // WARPGROUP, [thread])), "warpgroup"
        )
        last = emit.compare("eq", warpgroup, emit.index(count - 1))
        emit.when(last, lambda then: then.ops.append(hw.NamedBarrierArriveOp(first, threads)))
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [None])


def check_participants(op: tile.OrderEnterOp | tile.OrderLeaveOp, count: int) -> None:
    """Raise PolycError ``BadOrder`` where others than the participants take a turn."""
    scope = scope_of(op)
    if scope.number is None or scope.threads != WARPGROUP:
        raise PolycError(
            "BadOrder",
            "turns are taken by independent consumers, a warpgroup each; say gpu.roles consumers "
            f"{count} independent",
            op,
        )
    roles = op.parent_op()
    while roles is not None and not isinstance(roles, tile.RolesOp):
        roles = roles.parent_op()
    assert isinstance(roles, tile.RolesOp)
    if (consumers := roles.consumers.value.data) != count:
        raise PolycError(
            "BadOrder",
            f"{consumers} consumers take turns of {count}; a turn that nobody takes never ends",
            op,
        )
