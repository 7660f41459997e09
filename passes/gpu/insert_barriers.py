"""``gpu-insert-barriers``: threads meet between the accesses of a shared tile (T2).

A tile program is a sequence of ops on whole tiles, and threads run it.  Where one op writes a tile
that another one uses, by other threads or by the async proxy, a barrier, a wait or a fence has to
stand between the two.  Pipelines, rings, tokens and stores bring theirs; this pass finds what is
still missing, as Triton's membar analysis and TVM's ThreadSync do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.passes.support.gpu.check_roles import check_roles, named
from polyc.passes.support.gpu.loop_steps import Loop
from polyc.passes.support.gpu.scope import scope_barrier
from polyc.passes.support.gpu.shared_order import Made, Missing, Order
from polyc.passes.support.gpu.shared_state import NOTHING, Needs
from polyc.passes.support.gpu.uniform import agrees, around
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit

Plan = dict[Operation, Needs]

MEETS: Needs = frozenset(("meet", "cluster", "stores"))
"""What all threads have to come to."""


class Again(Exception):
    """Something was planned before an op that the walk is past."""


class Planner(Order):
    """Plans what a kernel lacks: before the op that lacks it, or in front of a loop or a branch
    around it that has no part in the matter.  One that is ``final`` raises where it would."""

    def __init__(self, made: Made, plan: Plan, final: bool = False) -> None:
        super().__init__(made, plan)
        self.plan = plan
        self.final = final

    def missing(self, op: Operation, found: Sequence[Missing]) -> Needs:
        needs = NOTHING.union(*(one.needs for one in found))
        places = [self.place(one, op) for one in found]
        point = min(places, key=lambda place: list(outwards(op)).index(place))
        if point is not op and needs <= self.plan.get(point, NOTHING):
            point = op  # It stands there already, and was not enough.
        if self.final and not needs <= self.plan.get(point, NOTHING):
            raise Again
        self.plan[point] = self.plan.get(point, NOTHING) | needs
        if point is not op:
            raise Again
        return needs

    @staticmethod
    def place(one: Missing, op: Operation) -> Operation:
        """The op in front of which the two accesses of ``one`` are set apart.

        Raises PolycError ``DivergentBarrier`` where threads would have to meet in code that not
        all of them run, ``LoadUnawaited`` where a load by TMA is never waited for.
        """
        if "load" in one.needs:
            raise PolycError(
                "LoadUnawaited",
                f"{op.name} touches {named(one.access)}, whose load by TMA signals an mbarrier, "
                "and nothing waits there in between; put a gpu.mbarrier_wait before it",
                op,
                notes=[made_by(one)],
            )
        was, carried = one.past.access.op, one.known.carried
        point = op
        for outer in outwards(op):
            parent, block = outer.parent_op(), outer.parent_block()
            assert block is not None
            if outer is not op:
                splits = isinstance(outer, tile.RolesOp) or (
                    isinstance(outer, scf.IfOp) and bool(one.needs & MEETS) and not agrees(outer)
                )
                if splits or isinstance(outer, Loop):
                    point = outer
            if carried is not None and parent is carried:
                break
            if block.find_ancestor_op_in_block(was) is not None and not (
                carried is not None and carried.is_ancestor(op)
            ):
                break
        if one.needs & MEETS:
            cluster = "cluster" in one.needs
            for outer in around(point):
                if not agrees(outer, cluster):
                    raise divergent(one, op, outer, cluster)
        return point


def outwards(op: Operation) -> Iterator[Operation]:
    """An op, and those around it up to its kernel's body."""
    current: Operation | None = op
    while current is not None and not isinstance(current, KernelOp):
        yield current
        current = current.parent_op()


def made_by(one: Missing) -> str:
    was = one.past.access
    what = "writes" if was.writes else "reads"
    return f"{was.op.name} {what} it before" + (
        "" if one.known.carried is None else ", an iteration ago"
    )


def divergent(one: Missing, op: Operation, outer: Operation, cluster: bool) -> PolycError:
    who = "CTAs of a cluster" if cluster else "threads"
    verb = "writes" if one.access.writes else "reads"
    where = "branch" if isinstance(outer, scf.IfOp) else "loop"
    return PolycError(
        "DivergentBarrier",
        f"{op.name} {verb} elements of {named(one.access)} that other threads "
        f"{'write' if one.past.access.writes else 'read'}, so that all {who} would have to meet "
        f"before it, in a {where} that they do not take together; move one of the two out of the "
        f"{where}, or let the threads that share the elements meet at a gpu.named_barrier",
        op,
        notes=[made_by(one)],
    )


class InsertBarriers(RewritePattern):
    """Put waits, fences and barriers where accesses of a shared tile are not ordered.

    Before an op that reads or writes a tile stands what is missing after an earlier access, where
    one of the two writes: for cp.async a commit and a wait; for wgmma and stores by TMA a wait; a
    fence of the async proxy where it follows what threads wrote; and a barrier of the op's scope.
    Nothing is put between accesses where each thread meets only its own elements, nor between slots
    of a ring that isl shows to be different.  What orders nothing any more, once the rest stands,
    is taken back.

    A kernel whose shared memory is placed is at the hardware level, and is left alone.  Code on
    addresses is ordered by its author: among its accesses a barrier is put only where isl sees two
    threads at one element, no barrier at all between them, and all threads there.

    Legality, exact: the new ops stand where all threads of the scope come by, or the kernel is
    refused (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        if op.shared_bytes is not None:
            return
        check_roles(op)
        plan = planned(op)
        for place, needs in plan.items():
            emit = Emit()
            write_out(emit, place, needs)
            rewriter.insert([located(new, place) for new in emit.ops], InsertPoint.before(place))


def planned(kernel: KernelOp) -> Plan:
    """What has to stand before which op of a kernel, no more than is needed."""
    made, plan = Made(kernel), Plan()
    while not walked(Planner(made, plan)):
        pass
    for place in list(plan):
        less = {other: needs for other, needs in plan.items() if other is not place}
        if len(plan) > 1 and walked(Planner(made, less, final=True)):
            plan = less
    return plan


def walked(planner: Planner) -> bool:
    """Whether a planner came to the end of its kernel."""
    try:
        planner.run()
    except Again:
        return False
    return True


def write_out(emit: Emit, op: Operation, needs: Needs) -> None:
    """The ops that ``needs`` are, for the threads that run ``op``."""
    if "copies" in needs:
        emit.op(hw.CpAsyncCommitOp())
        emit.op(hw.CpAsyncWaitOp(0))
    if "contracts" in needs:
        emit.op(tile.AwaitOp(0))
    if "stores" in needs:
        emit.op(hw.BulkWaitOp(0, read=True))
    if "fence" in needs:
        emit.op(hw.FenceProxyAsyncOp())
    if "cluster" in needs:
        emit.op(hw.ClusterBarrierOp())
    elif needs & MEETS:
        scope_barrier(emit, op)


@dataclass(frozen=True)
class GpuInsertBarriers(ModulePass):
    """Order the accesses of shared tiles that nothing orders."""

    name = "gpu-insert-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InsertBarriers()])
