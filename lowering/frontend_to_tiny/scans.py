"""``frontend-to-tiny``: scans (S3.2)."""

from __future__ import annotations

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace


class LowerScan(RewritePattern):
    """``frontend.scan`` → ``tiny.scan``, of real numbers in f32.

    Legal when the operand is lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ScanOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        made = tiny.ScanOp(
            op.function, value, op.axis, reverse=op.is_reverse, exclusive=op.is_exclusive
        )
        replace(op, Builder.before(op, rewriter).add(made), rewriter)
