"""``frontend-to-tiny``: products of matrices whose rows are several axes of a tensor."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.frontend.types import tensor, tensor_of
from polyc.rewriting.driver import located
from polyc.rewriting.region.building import erase_unused


class KeepRowsApart(RewritePattern):
    """``reshape(f(reshape(x) @ w))`` → ``f(x @ w)``, for rows that are merged and split again.

    A layer that takes a matrix has ``[B, S, K]`` as ``[B * S, K]``, and its result comes out as
    ``[B, S, N]``.  What follows the product, as a residual, then runs over the axes that the
    product has, and is computed with it.  Legal where the reshape's result has the axes of ``x``
    but for the last, ``w`` is a matrix, ``f`` is elementwise with nothing beside that is wider than
    a row, and nothing else reads a value between.

    Exact: every element is computed as before.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        rows = tensor_of(op.result).dims[:-1]
        follow: list[frontend.ElementwiseOp | frontend.CastOp] = []
        value = op.operand
        while not isinstance(product := value.owner, frontend.GemmOp):
            inner = _followed(value)
            if inner is None or not isinstance(product, frontend.ElementwiseOp | frontend.CastOp):
                return
            follow.append(product)
            value = inner
        if product.transpose_a is not None or not value.has_one_use() or len(rows) < 2:
            return
        merged = product.a.owner
        if not isinstance(merged, frontend.ReshapeOp) or tensor_of(product.b).rank != 2:
            return
        *outer, depth = tensor_of(merged.operand).dims
        width = tensor_of(value).dims[-1]
        same = tensor_of(product.a).dims[-1] == depth and tensor_of(op.result).dims[-1] == width
        if not same or tuple(outer) != rows:
            return

        def again(one: Operation, operands: list[SSAValue]) -> SSAValue:
            (result,) = one.results
            kind = tensor((*rows, width), tensor_of(result).element_type)
            made = one.create(
                operands=operands,
                result_types=[kind],
                properties=one.properties.copy(),
                attributes=one.attributes.copy(),
            )
            rewriter.insert(located(made, one))
            made.results[0].name_hint = result.name_hint
            return made.results[0]

        made = again(product, [merged.operand, product.b])
        for one in reversed(follow):
            made = again(one, [made if o is value else o for o in one.operands])
            value = one.result
        rewriter.replace(op, [], [made])
        erase_unused(follow[0] if follow else product, rewriter)


def _followed(value: SSAValue) -> SSAValue | None:
    """The one operand of an elementwise op that has its rows, where nothing else reads ``value``;
    None where there are others."""
    if not value.has_one_use():
        return None
    match value.owner:
        case frontend.CastOp() as op:
            return op.operand
        case frontend.ElementwiseOp() as op:
            wide = [o for o in op.args if tensor_of(o).dims == tensor_of(value).dims]
            rows = [o for o in op.args if tensor_of(o).rank <= 1]
            return wide[0] if len(wide) == 1 and len(rows) == len(op.args) - 1 else None
        case _:
            return None
