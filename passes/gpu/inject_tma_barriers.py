"""``gpu-inject-tma-barriers``: TMA loads that signal nothing get an mbarrier of their own (T2).

A copy in a pipeline or on a ring has its flow control from there.  Elsewhere an author writes
``gpu.copy`` and reads the tile: the threads must wait until it has come, which this pass adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, ModuleOp, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.guards import enclosing_pipeline
from polyc.passes.support.gpu.scope import (
    enclosing_role,
    in_loop,
    scope_barrier,
    scope_of,
    thread_in_scope,
)
from polyc.passes.support.gpu.symbols import constant_of, enclosing_kernel
from polyc.passes.support.gpu.uniform import agrees, around
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit


def _waits_for_nothing(op: Operation | None) -> bool:
    return (
        isinstance(op, tile.CopyOp)
        and op.is_load
        and op.loader is not None
        and op.loader.data == "tma"
        and op.signal is None
        and enclosing_pipeline(op) is None
    )


class InjectTmaBarrier(RewritePattern):
    """One thread of the scope announces and issues a run of TMA loads; all wait for their bytes.

    A run is neighbouring loads of different tiles with nothing but pure ops between them: two
    loads of one tile would be under way at once.  The wait stands after the run, or at the
    ``gpu.await`` of a load's token.  In a loop, each use of the barrier has the other parity than
    the one before, which a register keeps.  Where the tile was used before, the threads of the
    scope meet first, so that nobody still reads what the copy overwrites; before a multicast copy
    those of the cluster do, and once where the kernel begins.

    Legality: a load that gives a token is awaited once, in its own block, so that copies and waits
    alternate; raises PolycError ``TokenNeverAwaited``, ``TokenAwaitedTwice`` or ``TokenCarried``.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not _waits_for_nothing(op) or _waits_for_nothing(_before(op)):
            return
        run = _run_from(op)
        wait_at = self.awaited(run)
        kernel = enclosing_kernel(op)
        start = Emit()
        barrier = start.value(hw.MBarrierOp(1), "arrived")
        zero = start.index(0)
        first = start.compare("eq", start.value(hw.ThreadIdOp(), "thread"), zero)

        def initialise(inner: Emit) -> None:
            inner.op(hw.MBarrierInitOp(barrier, zero, 1))
            inner.op(hw.FenceMBarrierInitOp())

        start.when(first, initialise)
        shared = any(copy.multicast is not None for copy in run)
        start.op(hw.ClusterBarrierOp() if shared else hw.BarrierOp())
        phase = self.phase(start, zero, op)
        rewriter.insert(start.ops, InsertPoint.at_start(kernel.body.block))
        rewriter.insert(self.issue(run, barrier, zero), InsertPoint.before(run[-1]))
        wait = Emit()
        parity = zero
        if phase is not None:
            now = wait.value(memref.LoadOp.get(phase, [zero]))
            parity = wait.value(arith.IndexCastOp(now, IndexType()), "parity")
            flipped = wait.value(arith.XOrIOp(now, wait.int32(1)))
            wait.op(memref.StoreOp.get(flipped, phase, [zero]))
        wait.op(hw.MBarrierWaitOp(barrier, zero, parity))
        rewriter.insert(
            wait.ops,
            InsertPoint.before(wait_at) if wait_at is not None else InsertPoint.after(run[-1]),
        )
        if wait_at is not None:
            self.drop_tokens(wait_at, run, rewriter)
        for copy in run:
            rewriter.erase(copy)

    @staticmethod
    def phase(start: Emit, zero: SSAValue, op: tile.CopyOp) -> SSAValue | None:
        """The register that keeps the parity, set to 0; None for a load that runs once."""
        if not in_loop(op):
            return None
        phase = start.registers(1, i32, "phase")
        start.op(memref.StoreOp.get(start.int32(0), phase, [zero]))
        return phase

    @staticmethod
    def issue(run: Sequence[tile.CopyOp], barrier: SSAValue, zero: SSAValue) -> list[Operation]:
        """The meeting where tiles were used before, and the loads of one thread."""
        op = run[-1]
        emit = Emit()
        multicast = next((copy for copy in run if copy.multicast is not None), None)
        if multicast is not None:
            check_cluster(multicast)
        if any(_used_before(copy) for copy in run):
            if any(_written_by_threads(copy) for copy in run):
                emit.op(hw.FenceProxyAsyncOp())
            if multicast is None:
                scope_barrier(emit, op)
            else:
                emit.op(hw.ClusterBarrierOp())
        total = 0
        for copy in run:
            assert isinstance(copy.target.type, SharedType)
            total += copy.target.type.slot_bytes

        def load(inner: Emit) -> None:
            inner.op(hw.MBarrierExpectOp(barrier, zero, total))
            for copy in run:
                inner.op(copy.like(signal=tile.CopySignal(barrier, zero)))

        if scope_of(op).threads == 1:
            load(emit)
        else:
            leader = emit.compare("eq", thread_in_scope(emit, op), emit.index(0))
            emit.when(leader, load)
        return emit.ops

    @staticmethod
    def awaited(run: Sequence[tile.CopyOp]) -> tile.AwaitOp | None:
        """The await of the run's tokens; None where none gives one."""
        found: list[tile.AwaitOp] = []
        for copy in run:
            if copy.token is None:
                continue
            users = [use.operation for use in copy.token.uses]
            if not users:
                raise PolycError(
                    "TokenNeverAwaited",
                    "this copy's token is never awaited, so that its tile may be read before it "
                    "has come; await it, or let the copy give no token",
                    copy,
                )
            if len(users) > 1:
                raise PolycError("TokenAwaitedTwice", "a token is awaited once", users[1])
            user = users[0]
            if not isinstance(user, tile.AwaitOp) or user.parent_block() is not copy.parent_block():
                raise PolycError(
                    "TokenCarried",
                    "the token of a TMA load is awaited in the block of the load; a ring carries "
                    "the flow between iterations",
                    user,
                )
            found.append(user)
        return min(found, key=_place) if found else None

    @staticmethod
    def drop_tokens(
        at: tile.AwaitOp, run: Sequence[tile.CopyOp], rewriter: PatternRewriter
    ) -> None:
        """Take the run's tokens from their awaits; the first one waits for all of the run."""
        gone = {copy.token for copy in run if copy.token is not None}
        users = {use.operation for token in gone for use in token.uses}
        for user in sorted(users, key=_place):
            kept = [token for token in user.operands if token not in gone]
            if kept:
                rewriter.replace(user, tile.AwaitOp(tokens=kept))
            else:
                rewriter.erase(user)


def check_cluster(op: tile.CopyOp) -> None:
    """Raise PolycError ``DivergentBarrier`` where not all threads of a cluster come by a copy."""
    roles = enclosing_role(op)[1]
    outer = next((o for o in around(op) if not agrees(o, cluster=True)), roles)
    if outer is not None:
        raise PolycError(
            "DivergentBarrier",
            "a multicast copy fills the tile of every CTA of the cluster, so that all of their "
            f"threads have to meet before it, and it stands in a {outer.name} that they do not "
            "take together; let a gpu.ring with peers carry the tile, or copy without multicast",
            op,
        )


def _place(op: Operation) -> int:
    block = op.parent_block()
    assert block is not None
    return block.get_operation_index(op)


def _before(op: Operation) -> Operation | None:
    """The last op before this one that has effects."""
    other = op.prev_op
    while other is not None and is_side_effect_free(other):
        other = other.prev_op
    return other


def _run_from(op: tile.CopyOp) -> list[tile.CopyOp]:
    """The load and those after it that are under way with it, each into a tile of its own."""
    run = [op]
    other = op.next_op
    while other is not None and (_waits_for_nothing(other) or is_side_effect_free(other)):
        if isinstance(other, tile.CopyOp):
            if not all(_apart(other, copy) for copy in run):
                break
            run.append(other)
        other = other.next_op
    return run


def _apart(a: tile.CopyOp, b: tile.CopyOp) -> bool:
    """Whether two loads fill different tiles, or different slots of one that are numbers."""
    if a.target is not b.target:
        return True
    if a.slot is None or b.slot is None:
        return False
    one, other = constant_of(a.slot), constant_of(b.slot)
    return one is not None and other is not None and one != other


def _others(op: tile.CopyOp) -> list[Operation]:
    return [use.operation for use in op.target.uses if use.operation is not op]


def _used_before(op: tile.CopyOp) -> bool:
    """Whether some op may have used the tile when the copy begins."""
    if in_loop(op):
        return True
    block: Block | None = op.parent_block()
    assert block is not None
    for other in _others(op):
        outer = block.find_ancestor_op_in_block(other)
        if outer is None or outer.is_before_in_block(op):
            return True
    return False


def _written_by_threads(op: tile.CopyOp) -> bool:
    """Whether threads, and not the copy engine, write the tile somewhere."""
    return any(
        isinstance(other, tile.CopyOp)
        and other.target is op.target
        and (other.loader is None or other.loader.data != "tma")
        for other in _others(op)
    )


@dataclass(frozen=True)
class GpuInjectTmaBarriers(ModulePass):
    """Make threads wait for the TMA loads that nothing else carries."""

    name = "gpu-inject-tma-barriers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InjectTmaBarrier()])
