"""Which threads run an op: the whole CTA, or the warpgroups of a role (T2).

A tile op belongs to all threads of its scope together.  Lowerings take the thread's number and
the meeting point from here, so that one pattern serves kernels with and without roles.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, Region, SSAValue

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.passes.support.gpu.uniform import agrees, around
from polyc.rewriting.emit import Emit, affine_dim

WARPGROUP = 128
"""Threads of a warpgroup."""

CONSUMERS_BARRIER = 1
"""Named barrier of consumers that work together, and of the first independent one."""

PRODUCER_BARRIER = 5
"""Named barrier of the producer's threads; independent consumers have 1 to 4."""

WARPGROUPS_BARRIER = 6
"""Named barrier of the first warpgroup of a scope that meets alone; 6 to 8, one a warpgroup."""


@dataclass(frozen=True)
class Scope:
    """The threads that run an op together.

    ``threads`` of them, from the CTA's thread ``first`` on; ``barrier`` is the named barrier where
    they meet, 0 for the whole CTA.  ``number`` is the value that tells independent consumers
    apart: number ``w`` has the threads from ``first + w * threads`` on, and barrier
    ``barrier + w``.
    """

    threads: int
    first: int = 0
    barrier: int = 0
    number: SSAValue | None = None


def scope_of(op: Operation) -> Scope:
    """The scope of an op in a kernel; raises PolycError ``NoKernel`` outside one."""
    threads = enclosing_kernel(op).threads.value.data
    region, roles = enclosing_role(op)
    if roles is None:
        return Scope(threads)
    consuming = roles.consumers.value.data * WARPGROUP
    if region is roles.producer:
        width = 1 if roles.single_thread is not None else WARPGROUP
        return Scope(width, consuming, PRODUCER_BARRIER)
    if roles.independent is not None:
        return Scope(WARPGROUP, 0, CONSUMERS_BARRIER, roles.consumer.block.args[0])
    return Scope(consuming, 0, CONSUMERS_BARRIER)


def enclosing_role(op: Operation) -> tuple[Region | None, tile.RolesOp | None]:
    """The region of the role that an op stands in, and its ``gpu.roles``; None outside of roles."""
    inner: Operation = op
    while (parent := inner.parent_op()) is not None:
        if isinstance(parent, tile.RolesOp):
            return inner.parent_region(), parent
        inner = parent
    return None, None


def in_loop(op: Operation) -> bool:
    """Whether an op of a kernel runs several times."""
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, scf.ForOp | scf.WhileOp | tile.TileLoopOp | tile.PipelineOp):
            return True
        parent = parent.parent_op()
    return False


def thread_in_scope(emit: Emit, op: Operation) -> SSAValue:
    """The number of the thread among those of the op's scope: 0 to ``threads - 1``."""
    scope = scope_of(op)
    if scope.threads == 1:
        return emit.index(0)
    thread = emit.value(hw.ThreadIdOp(), "thread")
    if scope.number is not None:
        return emit.apply(affine_dim(0) % scope.threads, [thread], hint="thread")
    return emit.apply(affine_dim(0) - scope.first, [thread], hint="thread")


def leader(emit: Emit, op: Operation) -> SSAValue | None:
    """Whether a thread is the first of the op's scope; None where it is the only one."""
    if scope_of(op).threads == 1:
        return None
    return emit.compare("eq", thread_in_scope(emit, op), emit.index(0))


def scope_barrier(emit: Emit, op: Operation) -> None:
    """All threads of the op's scope meet, and see each other's writes.

    Raises PolycError ``DivergentBarrier`` where the op stands in code that not all of them run.
    """
    scope = scope_of(op)
    if scope.threads == 1:
        return
    check_together(op)
    if scope.barrier == 0:
        emit.op(hw.BarrierOp())
    else:
        emit.op(hw.NamedBarrierOp(scope.barrier, scope.threads, scope.number))


def scope_any(emit: Emit, op: Operation, condition: SSAValue) -> SSAValue:
    """Whether any thread of the op's scope has a condition: they meet for it as at a barrier.

    Raises PolycError ``DivergentBarrier`` where the op stands in code that not all of them run.
    """
    scope = scope_of(op)
    if scope.threads == 1:
        return condition
    check_together(op)
    return emit.value(hw.BarrierAnyOp(condition, scope.barrier, scope.threads, scope.number))


def check_together(op: Operation) -> None:
    """Refuse an op where threads of its scope meet, in code that not all of them run.

    Raises PolycError ``DivergentBarrier``.
    """
    scope = scope_of(op)
    for outer in around(op):
        if not agrees(outer):
            raise PolycError(
                "DivergentBarrier",
                f"{op.name} lets all {scope.threads} threads meet, in a "
                f"{'branch' if isinstance(outer, scf.IfOp) else 'loop'} that they do not take "
                "together; move it out, or let the condition depend on sizes and coordinates alone",
                op,
            )
