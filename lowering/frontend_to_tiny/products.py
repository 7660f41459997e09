"""``frontend-to-tiny``: gemm and conv2d as sums of products (S3.2)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import divided
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace


class LowerGemm(RewritePattern):
    """``frontend.gemm`` → ``reduce(sum, mul(expand a, expand b))`` over [..., M, K, N] (S3.2).

    Legal when both operands are lowered.  A transposed operand is permuted first.  An
    operand that is computed, not loaded, is rounded to the operand type (S0.6).
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
        space = (*batch, m, tiny.tensor_of(a).dims[-1], n)
        at = len(batch)
        left = (*range(at - rank_a + 2, at), at, at + 1)
        right = (*range(at - rank_b + 2, at), at + 1, at + 2)
        factors = build.expand(a, left, space), build.expand(b, right, space)
        replace(op, build.reduce("sum", build.binary("mul", *factors), (at + 1,)), rewriter)


class LowerConv2d(RewritePattern):
    """``frontend.conv2d`` → pad, window, and the sum of products over [C, R, S] (S3.2, S4.9).

    Legal when both operands are lowered.  The space of the products is [N, F, C, Ho, Wo,
    R, S] in layout ``nchw`` and [N, Ho, Wo, F, R, S, C] in ``nhwc``; groups split F and C,
    by a reshape, with their own axis before F.  A computed operand is rounded to the
    operand type (S0.6).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.Conv2dOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all((op.image, op.weight))
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.image).element_type
        x, w = (build.rounded(v, element) for v in operands)
        lower = self._nchw if op.layout == "nchw" else self._nhwc
        value = lower(op, build, x, w)
        shape = frontend.tensor_of(op.result).dims
        if tiny.tensor_of(value).rank != len(shape):
            value = build.reshape(value, shape)
        replace(op, value, rewriter)

    @staticmethod
    def _nchw(op: frontend.Conv2dOp, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        n, c, height, width = tiny.tensor_of(x).dims
        f, inner, *taps = tiny.tensor_of(w).dims
        ho, wo = frontend.tensor_of(op.result).dims[2:]
        if op.groups.constant() == 1:
            windows = _windows(op, build, x, (2, 3), taps)
            space = (n, f, c, ho, wo, *taps)
            left, right, summed = (0, 2, 3, 4, 5, 6), (1, 2, 5, 6), (2, 5, 6)
        else:
            g = op.groups
            each = divided(f, g, op)
            assert each is not None  # the verifier has seen that it comes out even
            x = build.reshape(x, (n, g, inner, height, width))
            w = build.reshape(w, (g, each, inner, *taps))
            windows = _windows(op, build, x, (3, 4), taps)
            space = (n, g, each, inner, ho, wo, *taps)
            left, right, summed = (0, 1, 3, 4, 5, 6, 7), (1, 2, 3, 6, 7), (3, 6, 7)
        factors = build.expand(windows, left, space), build.expand(w, right, space)
        return build.reduce("sum", build.binary("mul", *factors), summed)

    @staticmethod
    def _nhwc(op: frontend.Conv2dOp, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        n, height, width, c = tiny.tensor_of(x).dims
        f, *taps, inner = tiny.tensor_of(w).dims
        ho, wo = frontend.tensor_of(op.result).dims[1:3]
        if op.groups.constant() == 1:
            windows = build.permute(_windows(op, build, x, (1, 2), taps), (0, 1, 2, 4, 5, 3))
            space = (n, ho, wo, f, *taps, c)
            left, right, summed = (0, 1, 2, 4, 5, 6), (3, 4, 5, 6), (4, 5, 6)
        else:
            g = op.groups
            each = divided(f, g, op)
            assert each is not None
            x = build.reshape(x, (n, height, width, g, inner))
            w = build.reshape(w, (g, each, *taps, inner))
            windows = build.permute(_windows(op, build, x, (1, 2), taps), (0, 1, 2, 3, 5, 6, 4))
            space = (n, ho, wo, g, each, *taps, inner)
            left, right, summed = (0, 1, 2, 3, 5, 6, 7), (3, 4, 5, 6, 7), (5, 6, 7)
        factors = build.expand(windows, left, space), build.expand(w, right, space)
        return build.reduce("sum", build.binary("mul", *factors), summed)


def _windows(
    op: frontend.Conv2dOp, build: Builder, x: SSAValue, axes: tuple[int, int], taps: Sequence[Dim]
) -> SSAValue:
    """The image padded with zeros, its windows along ``axes``."""
    if any(op.padding):
        low, high = ([0] * tiny.tensor_of(x).rank for _ in range(2))
        for axis, a, b in zip(axes, op.padding[::2], op.padding[1::2], strict=True):
            low[axis], high[axis] = a, b
        x = build.add(tiny.PadOp(x, low, high, 0.0))
    return build.add(tiny.WindowOp(x, axes, taps, op.stride, op.dilation))
