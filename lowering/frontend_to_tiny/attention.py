"""``frontend-to-tiny``: attention as two contractions around a row softmax (S3.2, S0.6)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import UnrealizedConversionCastOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
)
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.affine.expressions import canonical_set
from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.precision import coarser
from polyc.dialects.common.signature import graph_of
from polyc.dialects.frontend.attention import is_boolean
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, mark, replace


class LowerAttention(RewritePattern):
    """``frontend.attention`` → scores, a masked row softmax, and the sum over the keys.

    Legal when the operands are lowered.  The products' spaces are [..., Hq, M, N, D] and
    [..., Hq, M, N, E]; a key head that several query heads share is repeated by movements.
    Where scores have a cap, they are multiplied by scale / cap, one number, before the tanh.
    An affine condition on the positions is a ``mask``, a mask that is data a ``select``,
    both of the scores (with -inf) and of the values (with 0, so that a key which is not
    allowed contributes nothing).  The largest score of a row is taken as 0 where it is
    -inf.  The second product reads exp(score - largest) rounded to the operand type, and
    the division by the sum comes after it, in f32.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.AttentionOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all(op.operands)
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.q).element_type
        q, k, v = operands[:3]
        k, v = _shared(op, build, k), _shared(op, build, v)
        q, k, v = (build.rounded(x, element) for x in (q, k, v))
        scores = self._scores(op, build, q, k)
        rows, at = op.scores[:-1], len(op.scores) - 1

        allowed: list[SSAValue] = []
        for mask, value in zip(op.masks, operands[3:], strict=True):
            if is_boolean(mask):
                allowed.append(build.aligned(value, op.scores))
                continue
            dims = tiny.tensor_of(value).dims
            finite = build.compare("ne", value, build.splat(-math.inf, dims))
            scores = build.binary("add", scores, build.aligned(value, op.scores))
            allowed.append(build.aligned(finite, op.scores))
        if (near := _positions(op, 0)) is not None:
            scores = build.mask(scores, near, -math.inf)
        for condition in allowed:
            scores = build.select(condition, scores, build.splat(-math.inf, op.scores))

        largest = build.reduce("max", scores, (at,))
        none = build.compare("eq", largest, build.splat(-math.inf, rows))
        largest = build.select(none, build.splat(0.0, rows), largest)
        shifted = build.binary("sub", scores, build.repeat(largest, (at,), op.scores))
        powers = build.unary("exp", shifted)
        total = build.reduce("sum", powers, (at,))

        space = (*op.scores, tiny.tensor_of(v).dims[-1])
        values = build.expand(v, (*range(at - 1), at, at + 1), space)
        if (near := _positions(op, 1)) is not None:
            values = build.mask(values, near, 0.0)
        for condition in allowed:
            wide = build.expand(condition, range(at + 1), space)
            values = build.select(wide, values, build.splat(0.0, space))
        weights = build.expand(build.rounded(powers, element), range(at + 1), space)
        summed = _products(op, build, weights, values, at)

        shape = (*rows, space[-1])
        empty = build.compare("eq", total, build.splat(0.0, rows))
        divided = build.binary("div", summed, build.repeat(total, (at,), shape))
        result = build.select(build.repeat(empty, (at,), shape), build.splat(0.0, shape), divided)
        if op.lse is not None:
            sums = build.binary("add", largest, build.unary("log", total))
            mark(op, result)
            _replace_both(op, result, sums, rewriter)
        else:
            replace(op, result, rewriter)

    @staticmethod
    def _scores(op: frontend.AttentionOp, build: Builder, q: SSAValue, k: SSAValue) -> SSAValue:
        features = tiny.tensor_of(q).dims[-1]
        space, at = (*op.scores, features), len(op.scores) - 1
        left = build.expand(q, (*range(at), at + 1), space)
        right = build.expand(k, (*range(at - 1), at, at + 1), space)
        scores = _products(op, build, left, right, at + 1)
        scale = op.scale
        if scale is None and (size := features.constant()) is not None:
            scale = 1 / math.sqrt(size) if size else math.inf
        if scale is None:
            scalar = build.unary("rsqrt", build.size(features))
            scores, scale = build.binary("mul", scores, build.spread(scalar, op.scores)), 1.0
        if op.cap is not None:
            scale /= op.cap
        if scale != 1:
            scores = build.binary("mul", scores, build.splat(scale, op.scores))
        if op.cap is None:
            return scores
        return build.binary("mul", build.unary("tanh", scores), build.splat(op.cap, op.scores))


def _products(
    op: frontend.AttentionOp, build: Builder, left: SSAValue, right: SSAValue, axis: int
) -> SSAValue:
    """The sum of products along an axis, as precise as the attention's have to be."""
    if coarser(op.precision) is None:
        return build.reduce("sum", build.binary("mul", left, right), (axis,))
    return build.contract(left, right, (axis,), op.precision)


def _replace_both(
    op: frontend.AttentionOp, result: SSAValue, sums: SSAValue, rewriter: PatternRewriter
) -> None:
    conversions = [
        UnrealizedConversionCastOp.get([value], [old.type])
        for value, old in zip((result, sums), op.results, strict=True)
    ]
    rewriter.replace(op, conversions, [c.results[0] for c in conversions])


def _shared(op: frontend.AttentionOp, build: Builder, value: SSAValue) -> SSAValue:
    """Keys or values with a head for each query head, or with a single one, which stretches."""
    *batch, heads, positions, features = tiny.tensor_of(value).dims
    group, wanted = op.group(), op.scores[-3]
    if group is None or group.constant() == 1 or heads.constant() == 1:
        return value
    at = len(batch)
    split: Shape = (*batch, heads, group, positions, features)
    repeated = build.expand(value, (*range(at + 1), at + 2, at + 3), split)
    return build.reshape(repeated, (*batch, wanted, positions, features))


def _positions(op: frontend.AttentionOp, more: int) -> AffineSet | None:
    """Where the positions of query and key allow the key; ``more`` axes follow the key's.

    None where every key is allowed.
    """
    left, right = op.span
    graph = graph_of(op)
    symbols: Sequence[str] = () if graph is None else graph.symbol_names
    at = len(op.scores) - 1
    query, key = AffineDimExpr(at - 1), AffineDimExpr(at)

    def affine(size: Dim) -> AffineExpr:
        expr = size.as_affine(symbols)
        assert expr is not None  # the verifier has seen that it is affine
        return expr

    ahead = key - query  # how far the key is after the query, but for the offset
    rows: list[AffineExpr] = []
    if right is not None:
        rows.append(affine(op.offset + right) - ahead)
    if left is not None:
        rows.append(ahead - affine(op.offset - left))
    if not rows:
        return None
    constraints = tuple(
        AffineConstraintExpr(AffineConstraintKind.ge, row, AffineConstantExpr(0)) for row in rows
    )
    return canonical_set(AffineSet(len(op.scores) + more, len(symbols), constraints))
