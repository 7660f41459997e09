"""Patterns that lower signals between the CTAs of a grid to one thread's (T2)."""

from __future__ import annotations

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.launches import LaunchOp
from polyc.passes.support.gpu.scope import scope_barrier, scope_of, thread_in_scope
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit

WARP = 32


class LowerGridSignal(RewritePattern):
    """The threads of the scope meet, and one of its last warp adds.

    What all of them wrote is released with it: the barrier passes it on to the one, and the
    addition on to who waits (PTX ISA, causality order).  A release takes its thread about as long
    as a trip to the L2 cache, and so does a read: ``LowerGridWait`` reads in the first warp, so
    that neither waits for the other.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.GridSignalOp, rewriter: PatternRewriter) -> None:
        emit = Emit()
        scope_barrier(emit, op)
        last = max(0, scope_of(op).threads - WARP)
        _by_one(emit, op, last, hw.SignalGlobalOp(op.counters, op.indices))
        _replace(op, emit, rewriter)


class LowerGridWait(RewritePattern):
    """The scope's first thread reads the counter until it is large enough, and then all meet.

    Legality: every launch of the kernel is ``cooperative`` (``NotCooperative``); else the CTA that
    is waited for may never start.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.GridWaitOp, rewriter: PatternRewriter) -> None:
        check_cooperative(op)
        emit = Emit()
        _by_one(emit, op, 0, hw.WaitGlobalOp(op.counters, op.indices, op.count))
        scope_barrier(emit, op)
        _replace(op, emit, rewriter)


def check_cooperative(op: tile.GridWaitOp | tile.AwaitPostsOp) -> None:
    """Refuse a wait in a kernel that some launch does not run all at once."""
    kernel = enclosing_kernel(op)
    module = kernel.parent_op()
    assert module is not None
    for launch in module.walk():
        if not isinstance(launch, LaunchOp) or launch.kernel_name != kernel.sym_name.data:
            continue
        if launch.cooperative is None:
            raise PolycError(
                "NotCooperative",
                f"CTAs of @{kernel.sym_name.data} wait for each other, and this launch does not "
                "run them at once; say cooperative",
                launch,
            )


def _by_one(
    emit: Emit,
    op: tile.GridSignalOp | tile.GridWaitOp,
    number: int,
    step: hw.SignalGlobalOp | hw.WaitGlobalOp,
) -> None:
    """Thread ``number`` of the scope takes the step."""
    one = emit.compare("eq", thread_in_scope(emit, op), emit.index(number))
    emit.when(one, lambda then: then.ops.append(step))


def _replace(
    op: tile.GridSignalOp | tile.GridWaitOp, emit: Emit, rewriter: PatternRewriter
) -> None:
    for new in emit.ops:
        located(new, op)
    rewriter.replace(op, emit.ops, [])
