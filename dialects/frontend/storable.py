"""Which values of a ``frontend`` graph may be rounded to their own type (S0.6).

An intermediate's type is nominal: it is the type in which the value is stored, if it goes through
memory between two kernels.  Whether it does is decided far below; which values it may be is decided
here, for the reference that results are compared with and for all layers, which store no others
narrower than they are computed.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import bf16, f16
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.movements import MovementOp
from polyc.dialects.frontend import (
    AttentionOp,
    CastOp,
    CompareOp,
    Conv2dOp,
    ElementwiseOp,
    GemmOp,
    GraphOp,
    LayerNormOp,
    LogSoftmaxOp,
    OutputOp,
    ReduceOp,
    RmsNormOp,
    SelectOp,
    SoftmaxOp,
    tensor_of,
)

PRODUCTS = (GemmOp, Conv2dOp, AttentionOp)
"""Ops of which tensor cores make a kernel."""

REDUCTIONS = (*PRODUCTS, ReduceOp, SoftmaxOp, LogSoftmaxOp, LayerNormOp, RmsNormOp)
"""Ops that compute an element of many."""

ELEMENTWISE = (ElementwiseOp, CompareOp, SelectOp, CastOp, OutputOp)
"""Ops that may always follow what they read in one kernel."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What a value is made of: ``source`` is what movements moved."""

    source: SSAValue
    reduction: bool = False
    product: bool = False


def storable(graph: GraphOp) -> dict[SSAValue, Attribute]:
    """The computed values that may be stored between two kernels in f16 or bf16, with that type.

    They are of that type and made of a reduction, and, looking through movements,

    - more than one op reads them, or one at two places,
    - or an op reads them that is no function of the elements at one place,
    - or a function joins them with another value that is made of a reduction, where a product is
      among what the two are made of: one kernel need not hold both.

    So what follows a product alone, on the way to an output, is none of them.  Neither is what a
    cast gives, which has been rounded, nor what is rounded to its own type by all that read it.
    """
    made: dict[SSAValue, _Made] = {}
    places: dict[SSAValue, int] = {}
    found: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    for op in graph.body.block.ops:
        read = [made.get(o) or _Made(o) for o in dict.fromkeys(op.operands)]
        if isinstance(op, MovementOp):
            made[op.results[0]] = read[0]
            continue
        for one in read:
            places[one.source] = places.get(one.source, 0) + 1
            if places[one.source] > 1 or not isinstance(op, ELEMENTWISE) or _joined(one, read):
                found.add(one.source)
        seen |= {
            (made.get(operand) or _Made(operand)).source
            for i, operand in enumerate(op.operands)
            if not rounds(op, i)
        }
        for result in op.results:
            reduction = isinstance(op, REDUCTIONS) or any(m.reduction for m in read)
            product = isinstance(op, PRODUCTS) or any(m.product for m in read)
            made[result] = _Made(result, reduction, product)
    both = found & seen
    return {
        value: tensor_of(value).element_type
        for value in made
        if value in both and made[value].reduction and _is_narrow(value)
    }


def _joined(one: _Made, read: list[_Made]) -> bool:
    """Whether an op that reads these values joins ``one`` with another reduction."""
    others = [m for m in read if m.source is not one.source and m.reduction]
    return any(m.product or one.product for m in others)


def _is_narrow(value: SSAValue) -> bool:
    return tensor_of(value).element_type in (f16, bf16) and not isinstance(value.owner, CastOp)


def rounds(op: Operation, operand: int) -> bool:
    """Whether an op rounds an operand to its own type in any case.

    It does not matter to it whether that has been stored in that type.
    """
    match op:
        case GemmOp() | Conv2dOp():
            return True
        case AttentionOp():
            return operand < 3
        case CastOp():
            return tensor_of(op.operand).element_type == tensor_of(op.result).element_type
        case _:
            return isinstance(op, OutputOp)
