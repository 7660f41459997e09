"""``frontend-to-tiny``: scans (S3.2)."""

from __future__ import annotations

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, replace
from polyc.lowering.frontend_to_tiny.in_parts import scan_in_parts, scan_parts


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
        if (parts := scan_parts(value, fn, op.axis)) is not None:
            how = op.is_reverse, op.is_exclusive
            replace(op, scan_in_parts(build, value, fn, op.axis, parts, *how), rewriter)
            return
        made = tiny.ScanOp(fn, value, op.axis, reverse=op.is_reverse, exclusive=op.is_exclusive)
        replace(op, build.add(made), rewriter)
