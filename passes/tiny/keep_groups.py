"""``tiny-keep-groups``: what follows a norm of groups is computed in the groups' own axes.

A GroupNorm of ``[N, C]`` is one of rows of ``[N, G, C / G]``, after which the groups are merged
again and scaled by channels.  Over merged axes the norm's sums are repeated in steps, which no
kernel of rows does: each group was read once for its mean, once for its variance and once more.
In the groups' axes it is one kernel, which has what follows too.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import tiny
from polyc.dialects.common.dim import Shape
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.region.building import erase_unused
from polyc.rewriting.tiny.groups import merged_groups


class KeepGroups(RewritePattern):
    """``f(reshape(x), y)`` → ``reshape(f(x, reshape(y)))``, where the first merges a norm's groups.

    ``f`` is elementwise, and ``x`` is computed, element by element, of a reduction that is repeated
    along its last axis, which the reshape merges with those before it.  Legal where the reshape
    merges axes and splits none.  Exact: each element is computed as before, of the same numbers.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: tiny.UnaryOp
        | tiny.BinaryOp
        | tiny.CompareOp
        | tiny.SelectOp
        | tiny.CastOp
        | tiny.BitcastOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        merged = next(filter(None, map(merged_groups, op.operands)), None)
        if merged is None:
            return
        dims = tiny.tensor_of(merged).dims

        def add(made: Operation) -> SSAValue:
            rewriter.insert(located(made, op))
            return made.results[0]

        def apart(value: SSAValue) -> SSAValue:
            view = value.owner
            if isinstance(view, tiny.ReshapeOp) and tiny.tensor_of(view.operand).dims == dims:
                return view.operand
            if isinstance(view, tiny.ExpandOp) and not view.dims:
                return add(tiny.ExpandOp(view.operand, (), _typed(value, dims)))
            return add(tiny.ReshapeOp(value, dims))

        again = type(op).create(
            operands=[apart(value) for value in op.operands],
            result_types=[_typed(op.result, dims)],
            properties=dict(op.properties),
        )
        whole = tiny.ReshapeOp(add(again), tiny.tensor_of(op.result).dims)
        before = [value.owner for value in op.operands]
        rewriter.replace(op, [located(whole, op)])
        for one in before:
            if isinstance(one, Operation):
                erase_unused(one, rewriter)


def _typed(value: SSAValue, dims: Shape) -> tiny.TensorType:
    return tiny.tensor(dims, tiny.tensor_of(value).element_type)


@dataclass(frozen=True)
class TinyKeepGroups(ModulePass):
    """The groups of a norm stay axes in what follows it, element by element."""

    name = "tiny-keep-groups"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if any(isinstance(one, tiny.ReshapeOp) for one in op.walk()):
            rewrite(op, [KeepGroups()], recursive=True)
