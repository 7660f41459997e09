"""``frontend-to-tiny``: gemm as a sum of products (S3.2)."""

from __future__ import annotations

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace


class LowerGemm(RewritePattern):
    """``frontend.gemm`` → ``reduce(sum, mul(expand a, expand b))`` over [..., M, K, N] (S3.2).

    Legal when both operands are lowered.  A transposed operand is permuted first.  An
    operand that is computed, not loaded, is rounded to the operand type (S0.6).  A sum of one term
    is that term: an outer product is elementwise.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GemmOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all((op.a, op.b))
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.a).element_type
        a, b = (build.rounded(v, element) for v in operands)
        rank_a, rank_b = tiny.tensor_of(a).rank, tiny.tensor_of(b).rank
        if op.transpose_a is not None:
            a = build.permute(a, (*range(rank_a - 2), rank_a - 1, rank_a - 2))
        if op.transpose_b is not None:
            b = build.permute(b, (*range(rank_b - 2), rank_b - 1, rank_b - 2))
        *batch, m, n = frontend.tensor_of(op.result).dims
        if tiny.tensor_of(a).dims[-1].constant() == 1:
            space = (*batch, m, n)
            a, b = (build.aligned(value, space) for value in (a, b))
            replace(op, build.binary("mul", a, b), rewriter)
            return
        space = (*batch, m, tiny.tensor_of(a).dims[-1], n)
        at = len(batch)
        left = (*range(at - rank_a + 2, at), at, at + 1)
        right = (*range(at - rank_b + 2, at), at + 1, at + 2)
        factors = build.expand(a, left, space), build.expand(b, right, space)
        replace(op, build.contract(*factors, (at + 1,), op.precision), rewriter)
