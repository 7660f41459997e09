"""``frontend-to-tiny``: movements, one to one, and concat (S3.1)."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import i1
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import neutral
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered, lowered_all, replace

MOVEMENTS: Mapping[type[MovementOp], type[MovementOp]] = {
    frontend.ReshapeOp: tiny.ReshapeOp,
    frontend.PermuteOp: tiny.PermuteOp,
    frontend.ExpandOp: tiny.ExpandOp,
    frontend.PadOp: tiny.PadOp,
    frontend.SliceOp: tiny.SliceOp,
}
"""The movements that both dialects have."""


class LowerMovement(RewritePattern):
    """A movement of ``frontend`` → the movement of ``tiny`` with the same numbers.

    Legal when the operand is lowered.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: frontend.ReshapeOp
        | frontend.PermuteOp
        | frontend.ExpandOp
        | frontend.PadOp
        | frontend.SliceOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        value = lowered(op.operand)
        if value is None:
            return
        build = Builder.before(op, rewriter)
        shape, element = frontend.tensor_of(op.result).dims, tiny.tensor_of(value).element_type
        moved = MOVEMENTS[type(op)].create(
            operands=[value],
            result_types=[tiny.tensor(shape, element)],
            properties=op.properties,
        )
        replace(op, build.add(moved), rewriter)


class LowerConcat(RewritePattern):
    """``frontend.concat`` → the max of its operands, each padded with -inf to the whole.

    Exact: ``max(x, -inf)`` is x for every x, NaN and the zeros included, as is that of an integer
    and the least of its type.  Legal when the operands are lowered.  Conditions go as 1 and 0.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ConcatOp, rewriter: PatternRewriter, /) -> None:
        values = lowered_all(op.args)
        if values is None:
            return
        build = Builder.before(op, rewriter)
        boolean = frontend.tensor_of(op.result).element_type == i1
        if boolean:
            shapes = [tiny.tensor_of(v).dims for v in values]
            values = [
                build.select(v, build.splat(1.0, s), build.splat(0.0, s))
                for v, s in zip(values, shapes, strict=True)
            ]
        sizes = [tiny.tensor_of(v).dims[op.axis] for v in values]
        nothing = [Dim.const(0)] * frontend.tensor_of(op.result).rank
        least = neutral("max", tiny.tensor_of(values[0]).element_type)
        padded = [
            build.add(
                tiny.PadOp(
                    value,
                    _with(nothing, op.axis, sum(sizes[:i], Dim.const(0))),
                    _with(nothing, op.axis, sum(sizes[i + 1 :], Dim.const(0))),
                    least,
                )
            )
            for i, value in enumerate(values)
        ]
        result = padded[0] if len(values) > 1 else values[0]
        for value in padded[1:]:
            result = build.binary("max", result, value)
        if boolean:
            whole = build.splat(0.0, frontend.tensor_of(op.result).dims)
            result = build.compare("ne", result, whole)
        replace(op, result, rewriter)


def _with(sizes: list[Dim], axis: int, size: Dim) -> list[Dim]:
    return [*sizes[:axis], size, *sizes[axis + 1 :]]
