"""``frontend-to-tiny``: what follows a product that is permuted."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend.types import tensor, tensor_of
from polyc.rewriting.driver import located


class SinkPermute(RewritePattern):
    """``f(permute(x), y)`` → ``permute(f(x, permute(y)))``, of an elementwise ``f`` and a product.

    The layers of a network that has channels inside are between permutes where the rest has them
    outside.  What follows such a layer, as a scale and a residual, is computed with its product
    then, and the permute is in who reads it.  Legal where the permute's result has all axes of the
    op's, and nothing else reads it; what stands beside is permuted back, what has fewer axes with
    axes of one point.  ``x`` is a product, or what elementwise ops alone make of one; ``y`` is
    none, turned or not: the permute would only go from one product to the other, and back.

    Exact: every element is computed as before, of the same numbers.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ElementwiseOp, rewriter: PatternRewriter, /) -> None:
        found = [(at, arg.owner) for at, arg in enumerate(op.args) if is_product_turned(arg)]
        if len(found) != 1:
            return
        (place, permute) = found[0]
        if any(_ends_another(arg) for at, arg in enumerate(op.args) if at != place):
            return
        assert isinstance(permute, frontend.PermuteOp)
        dims, perm = tensor_of(permute.result).dims, permute.perm
        if tensor_of(op.result).dims != dims:
            return
        back = [perm.index(axis) for axis in range(len(perm))]

        def turned(value: SSAValue) -> SSAValue:
            own = tensor_of(value).dims
            if not own:
                return value
            if len(own) < len(dims):
                sizes: list[Dim] = [*[Dim.const(1)] * (len(dims) - len(own)), *own]
                rewriter.insert(wide := located(frontend.ReshapeOp(value, sizes), op))
                value = wide.result
            rewriter.insert(made := located(frontend.PermuteOp(value, back), op))
            return made.result

        args = [permute.operand if at == place else turned(a) for at, a in enumerate(op.args)]
        kind = tensor(_in_order(dims, back), tensor_of(op.result).element_type)
        inner = op.create(
            operands=args,
            result_types=[kind],
            properties=op.properties.copy(),
            attributes=op.attributes.copy(),
        )
        rewriter.insert(located(inner, op))
        inner.results[0].name_hint = op.result.name_hint
        rewriter.replace(op, located(frontend.PermuteOp(inner.results[0], perm), op))
        rewriter.erase(permute)


def is_product_turned(value: SSAValue) -> bool:
    """Whether a value is a permute of what a product ends with, and is read once."""
    if not isinstance(permute := value.owner, frontend.PermuteOp) or not value.has_one_use():
        return False
    return _ends_product(permute.operand)


def _ends_another(value: SSAValue) -> bool:
    """Whether a value is what a product ends with, behind any permutes."""
    while isinstance(permute := value.owner, frontend.PermuteOp) and value.has_one_use():
        value = permute.operand
    return _ends_product(value)


def _ends_product(value: SSAValue) -> bool:
    """Whether a value is a product, or what elementwise ops alone make of one, and is read once."""
    while value.has_one_use():
        match value.owner:
            case (
                frontend.GemmOp() | frontend.Conv1dOp() | frontend.Conv2dOp() | frontend.Conv3dOp()
            ):
                return True
            case frontend.CastOp() as op:
                value = op.operand
            case frontend.ElementwiseOp() as op:
                dims = tensor_of(value).dims
                wide = [o for o in op.args if tensor_of(o).dims == dims and o.has_one_use()]
                made = [o for o in wide if not isinstance(o.owner, frontend.PermuteOp)]
                if len(made) != 1:
                    return False
                value = made[0]
            case _:
                return False
    return False


def _in_order(dims: Sequence[Dim], order: Sequence[int]) -> list[Dim]:
    return [dims[axis] for axis in order]
