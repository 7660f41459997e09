"""``frontend-to-tiny``: the types in which values between kernels are stored (S0.6)."""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr, f32
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import frontend, tiny
from polyc.dialects.frontend.storable import storable
from polyc.lowering.frontend_to_tiny.builder import STORABLE, Builder


class NoteStorable(RewritePattern):
    """Note on the ops of a ``frontend.graph`` which results may be stored in their own type.

    Legal always: the note is an attribute, which the patterns that lower the ops turn into ``own``.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GraphOp, rewriter: PatternRewriter, /) -> None:
        found = storable(op)
        for one in op.body.block.ops:
            noted = any(result in found for result in one.results[:1])
            if noted != (STORABLE in one.attributes):
                if noted:
                    one.attributes[STORABLE] = UnitAttr()
                else:
                    del one.attributes[STORABLE]
                rewriter.notify_op_modified(one)


class RoundOnce(RewritePattern):
    """All that read a value read it rounded, where something rounds it to its own type anyway.

    So it lies in memory once, as what rounds it gives it.  Rounding: legal for a value that says
    its own type, which may be stored in it anywhere.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: tiny.UnaryOp | tiny.BinaryOp | tiny.SelectOp | tiny.ReduceOp | tiny.ScanOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        own, value = op.own, op.result
        if own is None:
            return
        uses = list(value.uses)
        casts = [
            u.operation
            for u in uses
            if isinstance(u.operation, tiny.CastOp)
            and tiny.tensor_of(u.operation.result).element_type == own
        ]
        others = [u for u in uses if u.operation not in casts]
        if not casts:
            return
        op.own = None
        rewriter.notify_op_modified(op)
        if not others:
            return
        build = Builder(rewriter, InsertPoint.after(op))
        narrow = build.cast(value, own)
        wide = build.cast(narrow, f32)
        for use in others:
            use.operation.operands[use.index] = wide
            rewriter.notify_op_modified(use.operation)
        for cast in casts:
            rewriter.replace(cast, [], [narrow])
