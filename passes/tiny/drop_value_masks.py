"""``tiny-drop-value-masks``: values that a softmax gives no weight are not masked beside it.

Attention's values are masked as its scores are, so that a key which is not allowed contributes
nothing, whatever lies there.  A kernel that makes both products of tiles knows how to keep that
(S6.5).  Products of f32 as sums of narrower ones are kernels of their own, and one whose factor
differs from query to query is a product of matrices no more: it would run as loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineSet
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects import tiny
from polyc.dialects.common.precision import coarser
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.notes import Note, show
from polyc.rewriting.region.building import erase_unused

Masks = tuple[frozenset[AffineSet], frozenset[SSAValue]]
"""What has to hold where a value is no fill: conditions of positions, and conditions that are
data."""


@dataclass
class DropValueMask(RewritePattern):
    """``sum(exp(mask(s, -inf) - r) * mask(v, 0))`` → ``sum(exp(mask(s, -inf) - r) * v)``.

    Legal where all that masks the values masks the scores too, with -inf: their weights are 0
    there, or NaN as before.  Worth it for products that are coarser than f32, which are kernels of
    their own.  ``finite-only``: a value that is not finite and has no weight makes the sum NaN.
    """

    fired: list[Note] = field(default_factory=list["Note"])

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.ReduceOp, rewriter: PatternRewriter, /) -> None:
        product = op.operand.owner
        if op.function != "sum" or coarser(op.precision) is None:
            return
        if not isinstance(product, tiny.BinaryOp) or product.function != "mul":
            return
        for weights, values in ((product.lhs, product.rhs), (product.rhs, product.lhs)):
            bare, hidden = _unmasked(values, 0.0, tiny.tensor_of(values).rank)
            if bare is values or not _covers(_masks_of_weights(weights), hidden):
                continue
            both = (weights, bare) if values is product.rhs else (bare, weights)
            again = located(tiny.BinaryOp("mul", *both), product)
            rewriter.insert(again)
            op.operands[0] = again.results[0]
            rewriter.notify_op_modified(op)
            erase_unused(product, rewriter)
            self.fired.append(
                Note(
                    "finite-only",
                    "values without a weight are not masked beside it, so that the product runs on "
                    "tensor cores: a value there that is infinite or NaN makes the result NaN; "
                    'precision="f32" leaves them masked',
                    op,
                )
            )
            return


def _covers(scores: Masks | None, values: Masks) -> bool:
    """Whether all that hides values hides scores."""
    return scores is not None and values[0] <= scores[0] and values[1] <= scores[1]


def _masks_of_weights(weights: SSAValue) -> Masks | None:
    """What hides the scores that weights are exp of, in the space of the product; None where they
    are nothing of the kind."""
    op = weights.owner
    if not isinstance(op, tiny.ExpandOp) or list(op.dims) != list(range(len(op.dims))):
        return None
    rank, value = tiny.tensor_of(weights).rank, op.operand
    if op.stretched():
        return None
    while isinstance(made := value.owner, tiny.CastOp | tiny.BinaryOp):
        if isinstance(made, tiny.BinaryOp) and made.function != "div":
            return None
        value = made.operands[0]
    if not isinstance(made, tiny.UnaryOp) or made.function != "exp":
        return None
    shifted = made.operand.owner
    if not isinstance(shifted, tiny.BinaryOp) or shifted.function != "sub":
        return None
    return _unmasked(shifted.lhs, -math.inf, rank)[1]


def _unmasked(value: SSAValue, fill: float, rank: int) -> tuple[SSAValue, Masks]:
    """A value without the masks over it that give ``fill``, and these in a space of ``rank`` axes,
    of which its own are the first."""
    places, conditions = set[AffineSet](), set[SSAValue]()
    while True:
        match value.owner:
            case tiny.MaskOp() as op if op.number == fill:
                places.add(_in_space(op.condition, rank))
                value = op.operand
            case tiny.SelectOp() as op if _number(op.otherwise) == fill:
                conditions.add(_repeated(op.condition))
                value = op.then
            case _:
                return value, (frozenset(places), frozenset(conditions))


def _in_space(condition: AffineSet, rank: int) -> AffineSet:
    """A condition on the first axes of a space of ``rank``."""
    return AffineSet(rank, condition.num_symbols, condition.constraints)


def _repeated(value: SSAValue) -> SSAValue:
    """What a condition is that is repeated along more axes, behind its own."""
    while isinstance(op := value.owner, tiny.ExpandOp) and not op.stretched():
        if list(op.dims) != list(range(len(op.dims))):
            break
        value = op.operand
    return value


def _number(value: SSAValue) -> float | None:
    """The number that a value is everywhere, if it is one."""
    while isinstance(op := value.owner, tiny.ExpandOp):
        value = op.operand
    return op.number if isinstance(op, tiny.ConstantOp) else None


@dataclass(frozen=True)
class TinyDropValueMasks(ModulePass):
    """Attention's values without masks, where its products are kernels of their own.

    Each use is finite-only, and reported on stderr.
    """

    name = "tiny-drop-value-masks"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        pattern = DropValueMask()
        rewrite(op, [pattern], recursive=True)
        show(pattern.fired)
