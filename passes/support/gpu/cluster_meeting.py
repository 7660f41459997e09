"""Where the CTAs of a cluster meet that have stored into each other's shared memory (T2).

All threads of all CTAs may meet at the cluster's barrier.  Where some of them have another role,
as a producer has, those that come by meet at an mbarrier of each CTA.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.passes.support.gpu.scope import in_loop, scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.uniform import agrees, around
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit


def meet_once(emit: Emit, op: Operation, cluster: int, rewriter: PatternRewriter) -> None:
    """Wait until the scopes of ``op`` in all CTAs have come here, and see what they stored.

    Once the threads of a scope have met, thread c of it arrives at the mbarrier of CTA c for all of
    them: the barrier passes on what they wrote, and the arrival releases it to the cluster.  The
    CTAs meet where the kernel begins, too, as nothing can be stored into one that has not started.
    """
    scope_barrier(emit, op)
    barrier = _barrier(op, cluster, rewriter)
    thread, zero = thread_in_scope(emit, op), emit.index(0)
    tells = emit.compare("slt", thread, emit.index(cluster))
    arrive = hw.MBarrierArriveClusterOp(barrier, zero, thread)
    emit.when(tells, lambda then: then.ops.append(arrive))
    emit.op(hw.MBarrierWaitOp(barrier, zero, zero, cluster=True))


def _barrier(op: Operation, cluster: int, rewriter: PatternRewriter) -> SSAValue:
    """The mbarrier where each CTA arrives once, made ready where the kernel begins."""
    start = Emit()
    barrier = start.value(hw.MBarrierOp(1), "combined")
    zero = start.index(0)
    first = start.compare("eq", start.value(hw.ThreadIdOp(), "thread"), zero)

    def initialise(inner: Emit) -> None:
        inner.op(hw.MBarrierInitOp(barrier, zero, cluster))
        inner.op(hw.FenceMBarrierInitOp())

    start.when(first, initialise)
    start.op(hw.ClusterBarrierOp())
    for new in start.ops:
        located(new, op)
    rewriter.insert(start.ops, InsertPoint.at_start(enclosing_kernel(op).body.block))
    return barrier


def check_once(op: Operation) -> None:
    """Refuse an op that some threads of the cluster do not come to, or come to again.

    Raises PolycError ``DivergentBarrier``.
    """
    outer = next((o for o in around(op) if not agrees(o, cluster=True)), None)
    if outer is None and not in_loop(op) and scope_of(op).number is None:
        return
    where = "independent consumers" if outer is None and not in_loop(op) else "a loop"
    if outer is not None:
        where = f"a {outer.name} that they do not take together"
    raise PolycError(
        "DivergentBarrier",
        f"{op.name} lets all CTAs of the cluster bring their parts together, once in a "
        f"kernel, and it stands in {where}; move it out",
        op,
    )
