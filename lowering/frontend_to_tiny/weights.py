"""``frontend-to-tiny``: a softmax's weights in the type of what they multiply (S0.6)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.frontend.types import tensor, tensor_of
from polyc.dialects.frontend.weights import RoundedWeights, rounded_weights
from polyc.lowering.frontend_to_tiny.builder import STORABLE
from polyc.rewriting.driver import located
from polyc.rewriting.notes import Note, Report
from polyc.rewriting.region.building import erase_unused


@dataclass
class RoundWeights(RewritePattern):
    """``gemm(w, cast(v, f32))`` → ``gemm(cast(w, f16), v)``, where w are a softmax's weights.

    People keep the weights in f32 and cast the values up to multiply the two; tensor cores take
    factors of f16 or bf16.  Legal where v is of such a type, an input, a cast or what may be stored
    in it, and w are at most 1, or that times what the type holds.

    ``rounding``: each weight by half an ulp of the values' type, about 2⁻¹² of it in f16 and 2⁻⁹ in
    bf16, as if the user had cast it.  ``docs/semantics.md`` leaves open whether it is rounded.
    """

    report: Report | None = None

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GemmOp, rewriter: PatternRewriter, /) -> None:
        found = rounded_weights(op)
        if found is None or not _is_narrow(found):
            return
        values = found.values
        for move in reversed(found.moves):
            moved = type(move).create(
                operands=[values],
                result_types=[tensor(tensor_of(move.results[0]).dims, found.element)],
                properties=dict(move.properties),
            )
            rewriter.insert(located(moved, move))
            values = moved.results[0]
        weights = located(frontend.CastOp(op.operands[found.place], found.element), op)
        rewriter.insert(weights)
        factors = [values, values]
        factors[found.place] = weights.result
        product = located(
            frontend.GemmOp(
                *factors,
                transpose_a=op.transpose_a is not None,
                transpose_b=op.transpose_b is not None,
                result_type=tensor_of(op.result),
            ),
            op,
        )
        if STORABLE in op.attributes:
            product.attributes[STORABLE] = op.attributes[STORABLE]
        product.result.name_hint = op.result.name_hint
        given = op.operands[1 - found.place].owner
        if self.report is not None:
            text = (
                f"the weights of a softmax are rounded to {found.element}, which the values that "
                "they multiply in f32 are cast from, so that tensor cores take both; "
                "frontend-to-tiny{classes=exact} keeps them in f32"
            )
            self.report.fired.append(Note("rounding", text, product))
        rewriter.replace(op, product)
        if isinstance(given, Operation):
            erase_unused(given, rewriter)


def _is_narrow(found: RoundedWeights) -> bool:
    """Whether the values are rounded to their type, or may be."""
    value = found.values
    while isinstance(op := value.owner, MovementOp) and len(op.operands) == 1:
        value = op.operands[0]
    if not isinstance(op, Operation):
        return True
    return isinstance(op, frontend.CastOp) or STORABLE in op.attributes
