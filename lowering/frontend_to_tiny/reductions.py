"""``frontend-to-tiny``: reduce, softmax, log_softmax, layer_norm and rms_norm (S3.2)."""

from __future__ import annotations

from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny.bounds import is_within
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, lowered_all, replace


class LowerReduce(RewritePattern):
    """``frontend.reduce`` → ``tiny.reduce``; a mean divides the sum by the size.

    Whether any or all conditions hold is the max or min of their numbers, above 0: over nothing
    these are -inf and inf.  Legal when the operand is lowered.  With ``keepdims`` an expand adds
    the axes of size 1.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ReduceOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        conditions = op.function in frontend.REDUCTIONS_OF_CONDITIONS
        if conditions:
            shape = tiny.tensor_of(value).dims
            number = build.select(value, build.splat(1.0, shape), build.splat(0.0, shape))
            result = build.reduce("max" if op.function == "any" else "min", number, op.axes)
        elif op.function == "mean":
            result = build.mean(value, op.axes)
        else:
            result = build.reduce(op.function, value, op.axes)
        if op.keepdims is not None:
            result = build.repeat(result, op.axes, frontend.tensor_of(op.result).dims)
        if conditions:
            none = build.splat(0.0, frontend.tensor_of(op.result).dims)
            result = build.compare("gt", result, none)
        replace(op, result, rewriter)


SMALL = 8.0
"""A number whose exponential, and that of its opposite, are far from the ends of f32: of any number
of points the sum is."""


class LowerSoftmax(RewritePattern):
    """``frontend.softmax`` and ``log_softmax`` → max, sub, exp, sum, and div or log and sub.

    Legal when the operand is lowered.  What is known to be small, as behind a clamp, has no maximum
    taken from it: its exponentials neither overflow nor vanish.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: frontend.SoftmaxOp | frontend.LogSoftmaxOp, rewriter: PatternRewriter, /
    ) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        shape, axes = tiny.tensor_of(value).dims, op.axes
        shifted = value
        if not is_within(value, SMALL):
            largest = build.repeat(build.reduce("max", value, axes), axes, shape)
            shifted = build.binary("sub", value, largest)
        powers = build.unary("exp", shifted)
        total = build.reduce("sum", powers, axes)
        if isinstance(op, frontend.SoftmaxOp):
            result = build.binary("div", powers, build.repeat(total, axes, shape))
        else:
            logs = build.repeat(build.unary("log", total), axes, shape)
            result = build.binary("sub", shifted, logs)
        replace(op, result, rewriter)


class LowerNorm(RewritePattern):
    """``frontend.layer_norm`` and ``rms_norm`` → means, rsqrt, and products (S3.2).

    Legal when the operands are lowered.  The mean of a layer_norm is subtracted before the
    squares are summed, so that nothing cancels.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: frontend.LayerNormOp | frontend.RmsNormOp, rewriter: PatternRewriter, /
    ) -> None:
        operands = lowered_all(op.operands)
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        value, rest = operands[0], operands[1:]
        shape, axes = tiny.tensor_of(value).dims, op.axes
        if isinstance(op, frontend.LayerNormOp):
            mean = build.repeat(build.mean(value, axes), axes, shape)
            value = build.binary("sub", value, mean)
        squares = build.mean(build.binary("mul", value, value), axes)
        eps = build.splat(op.eps, tiny.tensor_of(squares).dims)
        root = build.unary("rsqrt", build.binary("add", squares, eps))
        result = build.binary("mul", value, build.repeat(root, axes, shape))
        for fn, name in (("mul", "weight"), ("add", "bias")):
            if name in op.PARAMETERS and op.parameter(name) is not None:
                parameter = build.expand(rest.pop(0), axes, shape)
                result = build.binary(fn, result, parameter)
        replace(op, result, rewriter)
