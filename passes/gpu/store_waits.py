"""``gpu-store-waits``: when a tile that a TMA store reads may be overwritten, or may end (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import index_attr
from polyc.passes.support.gpu.tile_stores import Writers, writes
from polyc.passes.support.gpu.uniform import agrees, around
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import Emit


class WaitForStores(RewritePattern):
    """Before a tile is filled again, the thread that stored it waits until it has been read.

    The others meet that thread.  At the end of the role or of the kernel the storing threads wait
    for their last stores, since shared memory goes when its CTA ends.  A run of fills of one tile
    in one block waits once, at its first.

    Where each warpgroup fills rows of its own, these meetings and stores are a warpgroup's own too.

    A store through registers is done when it is issued: after it, the threads only meet before the
    tile is filled again.

    Legality: a store that gives a token is its author's to await, and is left alone.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not op.is_store or op.loader is None:
            return
        if op.token is not None or op.store_groups is not None:
            return
        stores = [s for s in stores_of(op.source) if s.token is None]
        by_tma = [s.loader is not None and s.loader.data == "tma" for s in stores]
        writers = Writers.of(op) if all(by_tma) else Writers.whole(op)
        for store in stores:
            store.store_groups = index_attr(writers.groups)
        for fill in writes(op.source):
            if not follows_fill(fill):
                emit, place = Emit(), where_all_come(fill)
                if any(by_tma):
                    self.wait(emit, place, writers)
                writers.meet(emit, place)
                rewriter.insert([located(new, fill) for new in emit.ops], InsertPoint.before(place))
        end = end_of_scope(op)
        if any(by_tma) and not waits_before(end):
            emit = Emit()
            self.wait(emit, op, writers)
            rewriter.insert([located(new, op) for new in emit.ops], InsertPoint.before(end))
        rewriter.notify_op_modified(op)

    @staticmethod
    def wait(emit: Emit, op: Operation, writers: Writers) -> None:
        leads = writers.leads(emit, op)
        if leads is None:
            emit.op(hw.BulkWaitOp(0, read=True))
        else:
            emit.when(leads, lambda then: then.ops.append(hw.BulkWaitOp(0, read=True)))


def stores_of(shared: SSAValue) -> list[tile.CopyOp]:
    """The copies of a shared tile to tensors."""
    users = [use.operation for use in shared.uses]
    return [u for u in users if isinstance(u, tile.CopyOp) and u.source is shared and u.is_store]


def follows_fill(fill: tile.CopyOp) -> bool:
    """Whether the last op before ``fill`` in its block that uses its tile fills it too."""
    before = fill.prev_op
    while before is not None:
        if any(fill.target in inner.operands for inner in before.walk()):
            return isinstance(before, tile.CopyOp) and before.target is fill.target
        before = before.prev_op
    return False


def where_all_come(op: Operation) -> Operation:
    """The op, or the outermost branch around it that not all threads take: one issues TMA loads."""
    place = op
    for outer in around(op):
        if not agrees(outer):
            place = outer
    return place


def end_of_scope(op: Operation) -> Operation:
    """The terminator of the role, or of the kernel, that ``op`` runs in."""
    block = op.parent_block()
    while block is not None:
        parent = block.parent_op()
        if isinstance(parent, tile.RolesOp | gpu.KernelOp):
            break
        block = None if parent is None else parent.parent_block()
    assert isinstance(block, Block)
    end = block.last_op
    assert end is not None
    return end


def waits_before(end: Operation) -> bool:
    """Whether a wait for all stores stands before a terminator already."""
    before = end.prev_op
    if not isinstance(before, scf.IfOp | hw.BulkWaitOp):
        return False
    return any(isinstance(o, hw.BulkWaitOp) for o in before.walk())


@dataclass(frozen=True)
class GpuStoreWaits(ModulePass):
    """Let tiles be overwritten only after TMA stores have read them."""

    name = "gpu-store-waits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [WaitForStores()])
