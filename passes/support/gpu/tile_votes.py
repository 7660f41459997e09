"""The pattern that lowers ``gpu.any``: registers, then threads, ask each other (T2)."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.scope import scope_any, scope_of, thread_in_scope
from polyc.passes.support.gpu.tile_contracts import registers_of
from polyc.passes.support.gpu.tile_fragments import spread_of
from polyc.rewriting.emit import Emit


class LowerAny(RewritePattern):
    """Each thread asks its registers, and then all threads of the scope each other.

    A thread that holds nothing of the fragment has no part in the answer, and gets it too.
    Legality, exact: all threads of the scope come by, or the op is refused (``DivergentBarrier``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.AnyOp, rewriter: PatternRewriter) -> None:
        layout, _ = spread_of(op.fragment, op)
        emit = Emit()
        registers = registers_of(emit, op.fragment)
        loads = (
            memref.LoadOp.get(registers, [emit.index(r)]) for r in range(layout.registers.data)
        )
        found = emit.value(next(loads))
        for load in loads:
            found = emit.value(arith.OrIOp(found, emit.value(load)))
        if layout.threads.data < scope_of(op).threads:
            thread = thread_in_scope(emit, op)
            holds = emit.compare("slt", thread, emit.index(layout.threads.data))
            found = emit.both(holds, found)
        asked = scope_any(emit, op, found)
        rewriter.replace(op, emit.ops, [asked])
