"""``frontend-to-tiny``: numbers that a product's factors are scaled by, after it (S0.6)."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.frontend.scaled import ScaledLoad, scaled_load
from polyc.dialects.frontend.types import tensor, tensor_of
from polyc.lowering.frontend_to_tiny.builder import STORABLE
from polyc.rewriting.driver import located
from polyc.rewriting.region.building import erase_unused


class ScaleAfterProduct(RewritePattern):
    """``gemm(x * c, y)`` → ``gemm(x, y) * c``, and so for a division, and for the other factor.

    Tensor cores read x from memory then, as in ``softmax((Q * c) Kᵀ)``, and c is the product's
    epilogue.  Legal where x is an input of the graph, which movements may stand around, and c a
    finite number that is not 0.  A factor that the user rounds by a cast is left: it is what is
    rounded.

    Rounding: x * c is not rounded to the operands' type.  Reassociating: c is taken out of the sum.
    ``docs/semantics.md`` leaves open which of the two is computed.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GemmOp, rewriter: PatternRewriter, /) -> None:
        for place, factor in enumerate((op.a, op.b)):
            found = scaled_load(factor)
            if found is not None:
                self._take_out(op, place, found, rewriter)
                return

    def _take_out(
        self, op: frontend.GemmOp, place: int, found: ScaledLoad, rewriter: PatternRewriter
    ) -> None:
        factors = [op.a, op.b]
        given = factors[place]
        factors[place] = self._moved(found, rewriter)
        kind = tensor_of(op.result)
        product = frontend.GemmOp(
            *factors,
            transpose_a=op.transpose_a is not None,
            transpose_b=op.transpose_b is not None,
            precision=None if op.precision is None else op.precision.data,
            result_type=kind,
        )
        number = frontend.ConstantOp(found.number, tensor((), kind.element_type))
        scaled = frontend.ElementwiseOp(found.function, [product.result, number.result], kind)
        if STORABLE in op.attributes:
            scaled.attributes[STORABLE] = op.attributes[STORABLE]
        scaled.result.name_hint = op.result.name_hint
        made = [located(one, op) for one in (product, number, scaled)]
        rewriter.replace(op, made, [scaled.result])
        if isinstance(given.owner, Operation):
            erase_unused(given.owner, rewriter)

    @staticmethod
    def _moved(found: ScaledLoad, rewriter: PatternRewriter) -> SSAValue:
        """The loaded tensor, moved as the scaled one is."""
        value = found.loaded
        for move in reversed(found.moves):
            again = move.clone(value_mapper={move.operands[0]: value})
            rewriter.insert(located(again, move))
            value = again.results[0]
        return value
