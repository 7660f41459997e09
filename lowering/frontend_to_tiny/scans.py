"""``frontend-to-tiny``: scans (S3.2)."""

from __future__ import annotations

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace
from polyc.lowering.frontend_to_tiny.in_parts import scanned


class LowerScan(RewritePattern):
    """``frontend.scan`` → ``tiny.scan``, of real numbers in f32; of few long lines of integers of
    64 bits one of parts (``in_parts``).

    Legal when the operand is lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ScanOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build, fn = Builder.before(op, rewriter), op.function
        replace(op, scanned(build, value, fn, op.axis, op.is_reverse, op.is_exclusive), rewriter)
