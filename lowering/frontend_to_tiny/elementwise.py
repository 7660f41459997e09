"""``frontend-to-tiny``: elementwise functions, relations, select, casts and leaves (S3.2)."""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Shape
from polyc.dialects.common.elements import computed, is_integer, is_unsigned
from polyc.dialects.frontend.elementwise import SELU_ALPHA, SELU_SCALE
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, lowered_all, replace

DEEP = 16
"""Functions behind a convolution that are looked through."""


def _gelu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    scaled = build.binary("mul", x, build.splat(math.sqrt(0.5), shape))
    factor = build.binary("add", build.unary("erf", scaled), build.splat(1.0, shape))
    return build.binary("mul", build.binary("mul", x, build.splat(0.5, shape)), factor)


def _gelu_tanh(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    cube = build.binary("mul", build.binary("mul", x, x), x)
    bent = build.binary("add", x, build.binary("mul", cube, build.splat(0.044715, shape)))
    scaled = build.binary("mul", bent, build.splat(math.sqrt(2 / math.pi), shape))
    factor = build.binary("add", build.unary("tanh", scaled), build.splat(1.0, shape))
    return build.binary("mul", build.binary("mul", x, build.splat(0.5, shape)), factor)


def _relu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("max", x, build.splat(0, shape, tiny.tensor_of(x).element_type))


def _silu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("mul", x, build.unary("sigmoid", x))


def _relu6(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("min", _relu(build, x, shape), build.splat(6.0, shape))


def _hard_sigmoid(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    shifted = build.binary("add", x, build.splat(3.0, shape))
    return build.binary("div", _relu6(build, shifted, shape), build.splat(6.0, shape))


def _hard_swish(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("mul", x, _hard_sigmoid(build, x, shape))


def _tail(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    """``log1p(exp(-|x|))``: what softplus is above ``max(x, 0)``."""
    power = build.unary("exp", build.unary("neg", build.unary("abs", x)))
    return build.unary("log1p", power)


def _softplus(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("add", _relu(build, x, shape), _tail(build, x, shape))


def _log_sigmoid(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    least = build.binary("min", x, build.splat(0.0, shape))
    return build.binary("sub", least, _tail(build, x, shape))


def _tanh_of_softplus(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    """``tanh(softplus(x))``, as a quotient of polynomials of ``t = exp(-|x|)``.

    ``tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2)``, where e is ``exp(x)``: t below 0, and 1 / t
    above, where both sides of the quotient are multiplied by t² so that nothing overflows.  One
    exponential and a division take the place of three functions, and round less.
    """
    power = build.unary("exp", build.unary("neg", build.unary("abs", x)))
    above = build.compare("ge", x, build.splat(0.0, shape))
    two = build.splat(2.0, shape)
    square, double = build.binary("mul", power, power), build.binary("mul", power, two)
    one = build.select(above, build.splat(1.0, shape), square)
    rest = build.binary("mul", build.select(above, square, build.splat(1.0, shape)), two)
    over = build.binary("add", one, double)
    return build.binary("div", over, build.binary("add", over, rest))


def _mish(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("mul", x, _tanh_of_softplus(build, x, shape))


def _softsign(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    below = build.binary("add", build.unary("abs", x), build.splat(1.0, shape))
    return build.binary("div", x, below)


def _elu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    positive = build.compare("gt", x, build.splat(0.0, shape))
    return build.select(positive, x, build.unary("expm1", x))


def _selu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    positive = build.compare("gt", x, build.splat(0.0, shape))
    below = build.binary("mul", build.unary("expm1", x), build.splat(SELU_ALPHA, shape))
    return build.binary("mul", build.select(positive, x, below), build.splat(SELU_SCALE, shape))


def _mod(build: Builder, x: SSAValue, y: SSAValue, shape: Shape) -> SSAValue:
    """The rest of ``fmod``, by one divisor more where it has the other sign."""
    rest = build.binary("fmod", x, y)
    side = build.binary("mul", rest, build.unary("sign", y))
    other = build.compare("lt", side, build.splat(0.0, shape))
    return build.select(other, build.binary("add", rest, y), rest)


def _integer_sign(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    element = tiny.tensor_of(x).element_type
    one, zero = (build.splat(n, shape, element) for n in (1, 0))
    above = build.select(build.compare("gt", x, zero), one, zero)
    if is_unsigned(element):
        return above
    below = build.compare("lt", x, zero)
    return build.select(below, build.splat(-1, shape, element), above)


COMPOSED: dict[str, Callable[[Builder, SSAValue, Shape], SSAValue]] = {
    "elu": _elu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "hard_sigmoid": _hard_sigmoid,
    "hard_swish": _hard_swish,
    "log_sigmoid": _log_sigmoid,
    "mish": _mish,
    "relu": _relu,
    "relu6": _relu6,
    "selu": _selu,
    "silu": _silu,
    "softplus": _softplus,
    "softsign": _softsign,
}
"""Elementwise functions that tiny has no word for, as compositions of those it has."""

COMPOSED_OF_TWO: dict[str, Callable[[Builder, SSAValue, SSAValue, Shape], SSAValue]] = {
    "mod": _mod,
}
"""The same of functions of two operands."""


def _of_softplus(value: SSAValue) -> SSAValue | None:
    """The x of ``_softplus``; None of all else, as of one that is rounded."""
    top = value.owner
    if not isinstance(top, tiny.BinaryOp) or top.fn.data != "add":
        return None
    least, inner = top.lhs.owner, top.rhs
    for name in ("log1p", "exp", "neg", "abs"):
        if not isinstance(inner.owner, tiny.UnaryOp) or inner.owner.fn.data != name:
            return None
        inner = inner.owner.operand
    if not isinstance(least, tiny.BinaryOp) or least.fn.data != "max" or least.lhs is not inner:
        return None
    zero = least.rhs.owner
    zero = zero.operand.owner if isinstance(zero, tiny.ExpandOp) else zero
    return inner if isinstance(zero, tiny.ConstantOp) and zero.number == 0 else None


def _before_a_line(value: SSAValue) -> SSAValue | None:
    """What a convolution along one axis is made of, which has another one of one point; also behind
    functions of its elements.  None of all else."""
    line = value.owner
    if not isinstance(line, tiny.ReshapeOp):
        return None
    dims, outer = tiny.tensor_of(line.operand).dims, tiny.tensor_of(value).dims
    ones = [at for at, dim in enumerate(dims) if dim.constant() == 1]
    if not any((*dims[:at], *dims[at + 1 :]) == tuple(outer) for at in ones):
        return None
    return line.operand if _ends_windows(line.operand) else None


def _over(build: Builder, value: SSAValue, shape: Shape) -> SSAValue:
    """A value over the axes of a convolution, of which it lacks one of one point."""
    inner = _before_a_line(value)
    if inner is not None and tuple(tiny.tensor_of(inner).dims) == tuple(shape):
        return inner
    return build.reshape(value, shape)


def _ends_windows(value: SSAValue) -> bool:
    """Whether a value is a sum over several axes, or functions of its elements."""
    for _ in range(DEEP):
        op = value.owner
        if isinstance(op, tiny.ReduceOp):
            return op.fn.data == "sum" and len(op.axes) > 1
        if not isinstance(op, tiny.BinaryOp | tiny.UnaryOp | tiny.CastOp | tiny.PermuteOp):
            return False
        value = op.operands[0]
    return False


class LowerElementwise(RewritePattern):
    """``frontend.elementwise`` → ``tiny.unary``/``tiny.binary`` and expands (S3.2).

    Legal when the operands are lowered.  Right-aligned broadcasting becomes expands that
    name their dimensions; what tiny has no word for, as relu or mod, becomes its definition, and
    the tanh of a softplus, which no type rounds between, what mish multiplies by.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all(op.args)
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        shape = frontend.tensor_of(op.result).dims
        values = [build.aligned(v, shape) for v in operands]
        outer = shape
        if (inner := next(filter(None, map(_before_a_line, values)), None)) is not None:
            # Over the axes of the convolution, whose kernel then ends with it.
            shape = tiny.tensor_of(inner).dims
            values = [_over(build, v, shape) for v in values]
        whole = is_integer(frontend.tensor_of(op.result).element_type)
        if whole and op.function == "sign":
            result = _integer_sign(build, values[0], shape)
        elif op.function in COMPOSED_OF_TWO and not whole:
            result = COMPOSED_OF_TWO[op.function](build, values[0], values[1], shape)
        elif len(values) == 2:
            result = build.binary(op.function, values[0], values[1])
        elif op.function in COMPOSED:
            result = COMPOSED[op.function](build, values[0], shape)
        elif op.function == "tanh" and (inner := _of_softplus(values[0])) is not None:
            result = _tanh_of_softplus(build, inner, shape)
        else:
            result = build.unary(op.function, values[0])
        replace(op, result if shape is outer else build.reshape(result, outer), rewriter)


class LowerCast(RewritePattern):
    """``frontend.cast`` → a rounding to the type that the user wrote, back in f32 (S0.6).

    Legal when the operand is lowered.  A cast of a real number to f32 changes nothing, one to or
    from integers is one.  From a condition it selects 1 or 0; to one it compares with 0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.CastOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.result).element_type
        shape = frontend.tensor_of(op.result).dims
        before = frontend.tensor_of(op.operand).element_type
        inside = computed(element)
        if before == i1 and element != i1:
            one, zero = (build.splat(n, shape, inside) for n in (1, 0))
            value = build.select(value, one, zero)
        elif element == i1 and before != i1:
            value = build.compare("ne", value, build.splat(0, shape, computed(before)))
        elif element != inside:
            value = build.rounded(build.cast(value, f32), element)
        else:
            value = build.cast(value, element)
        replace(op, value, rewriter)


class LowerCompare(RewritePattern):
    """``frontend.compare`` → ``tiny.compare`` of the broadcast operands.

    Legal when the operands are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.CompareOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all(op.operands)
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        shape = frontend.tensor_of(op.result).dims
        lhs, rhs = (build.aligned(v, shape) for v in operands)
        replace(op, build.compare(op.function, lhs, rhs), rewriter)


class LowerClassify(RewritePattern):
    """``frontend.classify`` → a ``tiny.compare``: what is NaN is unlike itself.

    Infinite is what has the size of infinity, finite what is below.  Legal when the operand is
    lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ClassifyOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        if op.function == "isnan":
            found = build.compare("ne", value, value)
        else:
            infinity = build.splat(math.inf, frontend.tensor_of(op.result).dims)
            relation = "eq" if op.function == "isinf" else "lt"
            found = build.compare(relation, build.unary("abs", value), infinity)
        replace(op, found, rewriter)


class LowerSelect(RewritePattern):
    """``frontend.select`` → ``tiny.select`` of the broadcast operands.

    Legal when the operands are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.SelectOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all(op.operands)
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        shape = frontend.tensor_of(op.result).dims
        condition, then, otherwise = (build.aligned(v, shape) for v in operands)
        replace(op, build.select(condition, then, otherwise), rewriter)


class LowerConstant(RewritePattern):
    """``frontend.constant`` → ``tiny.constant``.  Legal always."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ConstantOp, rewriter: PatternRewriter, /) -> None:
        build = Builder.before(op, rewriter)
        element = computed(frontend.tensor_of(op.result).element_type)
        replace(op, build.splat(op.number, (), element), rewriter)


class LowerDim(RewritePattern):
    """``frontend.dim`` → ``tiny.dim``, or a constant.  Legal always."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.DimOp, rewriter: PatternRewriter, /) -> None:
        build = Builder.before(op, rewriter)
        kind = tiny.tensor((), computed(frontend.tensor_of(op.result).element_type))
        replace(op, build.add(tiny.DimOp(op.size, kind)), rewriter)


class LowerIota(RewritePattern):
    """``frontend.iota`` → ``tiny.iota`` of its axis, repeated along the others.  Legal always."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.IotaOp, rewriter: PatternRewriter, /) -> None:
        build = Builder.before(op, rewriter)
        kind = frontend.tensor_of(op.result)
        value = build.add(tiny.IotaOp(kind.dims[op.axis], kind.element_type))
        if kind.rank > 1:
            value = build.expand(value, (op.axis,), kind.dims)
        replace(op, value, rewriter)
