"""``frontend-to-tiny``: high-level ops as compositions of the smallest vocabulary (S3.2).

Each pattern turns one op into tiny ops and is exact: it changes no value.  In between, a
frontend value stands behind an ``unrealized_conversion_cast`` from the tiny value that
holds it, an f32 one (S0.6), so every pattern works alone and in any mixture; the pass
drops the casts at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnrealizedConversionCastOp, f32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import frontend, tiny
from polyc.dialects.dim import Shape
from polyc.dialects.signature import SizedTensorType
from polyc.passes.driver import rewrite

# Building tiny ops ---------------------------------------------------------------------


class Builder:
    """Inserts tiny ops at one place and returns their results."""

    def __init__(self, rewriter: PatternRewriter, at: InsertPoint) -> None:
        self._rewriter = rewriter
        self._at = at

    @staticmethod
    def before(op: Operation, rewriter: PatternRewriter) -> Builder:
        return Builder(rewriter, InsertPoint.before(op))

    def add(self, op: Operation) -> SSAValue:
        self._rewriter.insert(op, self._at)
        return op.results[0]

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        """``value`` in ``element``; itself when it is that already."""
        if tiny.tensor_of(value).element_type == element:
            return value
        return self.add(tiny.CastOp(value, element))

    def rounded(self, value: SSAValue, element: Attribute) -> SSAValue:
        """The f32 ``value`` rounded to ``element``, in f32 again.

        Nothing is added for a value that has just been widened from ``element``.
        """
        owner = value.owner
        if element == f32 or (
            isinstance(owner, tiny.CastOp) and tiny.tensor_of(owner.operand).element_type == element
        ):
            return value
        return self.cast(self.cast(value, element), f32)

    def splat(self, number: float, shape: Shape) -> SSAValue:
        """A constant of ``shape``."""
        scalar = self.add(tiny.ConstantOp(number))
        return scalar if not shape else self.expand(scalar, (), shape)

    def expand(self, value: SSAValue, dims: Sequence[int], shape: Shape) -> SSAValue:
        element = tiny.tensor_of(value).element_type
        return self.add(tiny.ExpandOp(value, dims, tiny.tensor(shape, element)))

    def aligned(self, value: SSAValue, shape: Shape) -> SSAValue:
        """``value`` broadcast right-aligned to ``shape``; itself when it has its axes."""
        dims = tiny.tensor_of(value).dims
        stretched = any(
            d.constant() == 1 and s.constant() != 1
            for d, s in zip(reversed(dims), reversed(shape), strict=False)
        )
        if len(dims) == len(shape) and not stretched:
            return value
        return self.expand(value, range(len(shape) - len(dims), len(shape)), shape)

    def unary(self, fn: str, value: SSAValue) -> SSAValue:
        return self.add(tiny.UnaryOp(fn, value))

    def binary(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        return self.add(tiny.BinaryOp(fn, lhs, rhs))


def _stored(t: Attribute) -> tiny.TensorType:
    """The tiny type of a frontend tensor as it lies in memory."""
    t = cast(SizedTensorType, t)
    return tiny.TensorType(t.shape, t.element_type)


def lowered(value: SSAValue) -> SSAValue | None:
    """The tiny value that holds the frontend ``value``, once that has been lowered."""
    owner = value.owner
    if isinstance(owner, UnrealizedConversionCastOp) and len(owner.inputs) == 1:
        source = owner.inputs[0]
        return source if isinstance(source.type, tiny.TensorType) else None
    return None


def _lowered_all(values: Sequence[SSAValue]) -> list[SSAValue] | None:
    found = [v for v in map(lowered, values) if v is not None]
    return found if len(found) == len(values) else None


def _replace(op: Operation, value: SSAValue, rewriter: PatternRewriter) -> None:
    """Put the tiny ``value`` in the place of the result of ``op``."""
    hint = op.results[0].name_hint
    if hint is not None and value.name_hint is None:
        value.name_hint = hint
    conversion = UnrealizedConversionCastOp.get([value], [op.results[0].type])
    rewriter.replace(op, conversion)


# Patterns ------------------------------------------------------------------------------


class LowerGraph(RewritePattern):
    """``frontend.graph`` → ``tiny.graph`` with the same signature, types as stored.

    Legal always.  Each argument in use is widened to f32 once, at the start: values are
    computed in f32 from the first load (S0.6).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GraphOp, rewriter: PatternRewriter, /) -> None:
        block = op.body.block
        build = Builder(rewriter, InsertPoint.at_start(block))
        for arg in tuple(block.args):
            stored = _stored(arg.type)
            nominal = arg.type
            arg = rewriter.replace_value_with_new_type(arg, stored)
            uses = tuple(arg.uses)
            if not uses:
                continue
            value = build.cast(arg, f32)
            if value is not arg and arg.name_hint:
                value.name_hint = f"{arg.name_hint}_f32"
            conversion = UnrealizedConversionCastOp.get([value], [nominal])
            build.add(conversion)
            for use in uses:
                use.operation.operands[use.index] = conversion.results[0]
        graph = tiny.GraphOp(
            op.sym_name.data,
            [_stored(t) for t in op.function_type.inputs],
            [_stored(t) for t in op.function_type.outputs],
            rewriter.move_region_contents_to_new_regions(op.body),
            arg_names=[n.data for n in op.arg_names],
            res_names=[n.data for n in op.res_names],
            arg_attrs=[a.data for a in op.arg_attrs],
            res_attrs=[a.data for a in op.res_attrs],
            assumptions=op.facts,
        )
        graph.attributes |= op.attributes
        rewriter.replace(op, graph)


class LowerGemm(RewritePattern):
    """``frontend.gemm`` → ``reduce(sum, mul(expand a, expand b))`` over [M, K, N] (S3.2).

    Legal when both operands are lowered.  A transposed operand is permuted first.  An
    operand that is computed, not loaded, is rounded to the operand type (S0.6).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GemmOp, rewriter: PatternRewriter, /) -> None:
        operands = _lowered_all((op.a, op.b))
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.a).element_type
        a, b = (build.rounded(v, element) for v in operands)
        if op.transpose_a is not None:
            a = build.add(tiny.PermuteOp(a, (1, 0)))
        if op.transpose_b is not None:
            b = build.add(tiny.PermuteOp(b, (1, 0)))
        m, n = frontend.tensor_of(op.result).dims
        space = (m, tiny.tensor_of(a).dims[1], n)
        product = build.binary(
            "mul", build.expand(a, (0, 1), space), build.expand(b, (1, 2), space)
        )
        _replace(op, build.add(tiny.ReduceOp("sum", product, (1,))), rewriter)


def _gelu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    scaled = build.binary("mul", x, build.splat(math.sqrt(0.5), shape))
    factor = build.binary("add", build.unary("erf", scaled), build.splat(1.0, shape))
    return build.binary("mul", build.binary("mul", x, build.splat(0.5, shape)), factor)


def _relu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("max", x, build.splat(0.0, shape))


def _silu(build: Builder, x: SSAValue, shape: Shape) -> SSAValue:
    return build.binary("mul", x, build.unary("sigmoid", x))


COMPOSED: dict[str, Callable[[Builder, SSAValue, Shape], SSAValue]] = {
    "gelu": _gelu,
    "relu": _relu,
    "silu": _silu,
}
"""Elementwise functions that tiny has no word for, as compositions of those it has."""


class LowerElementwise(RewritePattern):
    """``frontend.elementwise`` → ``tiny.unary``/``tiny.binary`` and expands (S3.2).

    Legal when the operands are lowered.  Right-aligned broadcasting becomes expands that
    name their dimensions; relu, gelu and silu become their definitions.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        operands = _lowered_all(op.args)
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        shape = frontend.tensor_of(op.result).dims
        values = [build.aligned(v, shape) for v in operands]
        if len(values) == 2:
            result = build.binary(op.function, values[0], values[1])
        elif op.function in COMPOSED:
            result = COMPOSED[op.function](build, values[0], shape)
        else:
            result = build.unary(op.function, values[0])
        _replace(op, result, rewriter)


class LowerCast(RewritePattern):
    """``frontend.cast`` → a rounding to the type that the user wrote, back in f32 (S0.6).

    Legal when the operand is lowered.  A cast to f32 changes nothing.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.CastOp, rewriter: PatternRewriter, /) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.result).element_type
        _replace(op, build.rounded(value, element), rewriter)


class LowerOutput(RewritePattern):
    """``frontend.output`` → ``tiny.output`` of the values rounded to the outputs' types.

    Legal when the values are lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.OutputOp, rewriter: PatternRewriter, /) -> None:
        values = _lowered_all(op.args)
        if values is None:
            return
        build = Builder.before(op, rewriter)
        results = [
            build.cast(v, frontend.tensor_of(a).element_type)
            for v, a in zip(values, op.args, strict=True)
        ]
        rewriter.replace(op, tiny.OutputOp(results))


class DropUnusedConversion(RewritePattern):
    """Erase an ``unrealized_conversion_cast`` of a tiny value that nothing uses any more."""

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self, op: UnrealizedConversionCastOp, rewriter: PatternRewriter, /
    ) -> None:
        if lowered(op.results[0]) is not None and not any(r.first_use for r in op.results):
            rewriter.erase(op)


def patterns() -> list[RewritePattern]:
    """The patterns of the pass, fresh ones."""
    return [LowerGraph(), LowerGemm(), LowerElementwise(), LowerCast(), LowerOutput()]


@dataclass(frozen=True)
class FrontendToTiny(ModulePass):
    """Every ``frontend.graph`` as a ``tiny.graph`` that computes the same values (S3).

    Signature, names, promises and assumptions stay.
    """

    name = "frontend-to-tiny"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, patterns())
        rewrite(op, [DropUnusedConversion()])
