"""Which values of a ``frontend`` graph may be rounded to their own type (S0.6).

An intermediate's type is nominal: it is the type in which the value is stored, if it goes through
memory between two kernels.  Whether it does is decided far below; which values it may be is decided
here, for the reference that results are compared with and for all layers, which store no others
narrower than they are computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xdsl.dialects.builtin import AnyFloat, bf16, f16, f32
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects.common.movements import MovementOp
from polyc.dialects.frontend import (
    AdaptivePoolOp,
    ArgPoolOp,
    ArgReduceOp,
    AttentionOp,
    CastOp,
    ClassifyOp,
    CompareOp,
    ConvBase,
    ConvTransposeOp,
    DropoutOp,
    ElementwiseOp,
    GemmOp,
    GraphOp,
    LayerNormOp,
    LogSoftmaxOp,
    OutputOp,
    PoolOp,
    ReduceOp,
    ResizeOp,
    RmsNormOp,
    ScanOp,
    SelectOp,
    SoftmaxOp,
    SortOp,
    tensor_of,
)

PRODUCTS = (GemmOp, ConvBase, AttentionOp)
"""Ops of which tensor cores make a kernel."""

REDUCTIONS = (
    *(*PRODUCTS, PoolOp, AdaptivePoolOp, ReduceOp, SoftmaxOp, LogSoftmaxOp, LayerNormOp, RmsNormOp),
    *(ArgPoolOp, ArgReduceOp, ScanOp, SortOp),
)
"""Ops that compute an element of many."""

ELEMENTWISE = (ElementwiseOp, CompareOp, ClassifyOp, SelectOp, CastOp, DropoutOp, OutputOp)
"""Ops that may always follow what they read in one kernel."""


@dataclass(frozen=True, slots=True)
class _Made:
    """What a value is made of: ``source`` is what was widened, or has been ``moved``."""

    source: SSAValue
    reduction: bool = False
    product: bool = False
    moved: bool = False


def storable(graph: GraphOp) -> dict[SSAValue, Attribute]:
    """The computed values that may be stored between two kernels in f16 or bf16, with that type.

    They are of that type, made of a reduction or read at several places of which one is moved, and,
    looking through movements and casts to f32,

    - more than one op reads them, or one at two places,
    - or an op reads them that is no function of the elements at one place,
    - or a function reads them moved, as the results of most convolutions are, repeats them
      along an axis, or joins them with another value that is made of a reduction, where a product
      is among what is read: one kernel need not hold all,
    - or all that read them round them to that type, so that it makes no difference.

    So what follows a product alone, on the way to an output, is rounded there and nowhere before.
    What a cast gives has been rounded, and is none of them.
    """
    made: dict[SSAValue, _Made] = {}
    places: dict[SSAValue, int] = {}
    found: set[SSAValue] = set()
    moved: set[SSAValue] = set()
    seen: set[SSAValue] = set()
    for op in graph.body.block.ops:
        read = {o: made.get(o) or _Made(o) for o in op.operands}
        if keeps(op):
            one = read[op.operands[0]]
            made[op.results[0]] = replace(one, moved=one.moved or not isinstance(op, CastOp))
            continue
        for operand, one in read.items():
            places[one.source] = places.get(one.source, 0) + 1
            if one.moved:
                moved.add(one.source)
            joined = _joined(operand, one, op, list(read.values()))
            if places[one.source] > 1 or not isinstance(op, ELEMENTWISE) or joined:
                found.add(one.source)
        sources = [read[o].source for o in op.operands]
        seen |= {v for i, v in enumerate(sources) if not rounds(op, i, tensor_of(v).element_type)}
        for result in op.results:
            reduction = isinstance(op, REDUCTIONS) or any(m.reduction for m in read.values())
            product = isinstance(op, PRODUCTS) or any(m.product for m in read.values())
            made[result] = _Made(result, reduction, product, _in_groups(op))
    return {
        value: tensor_of(value).element_type
        for value, one in made.items()
        if one.source is value
        and (one.reduction or (places.get(value, 0) > 1 and value in moved))
        and _is_narrow(value)
        and (value in found or value not in seen)
    }


def _joined(operand: SSAValue, one: _Made, op: Operation, read: list[_Made]) -> bool:
    """Whether a function reads ``one`` moved, as ``operand``, repeats it or joins it with more."""
    stretched = any(tensor_of(r).dims != tensor_of(operand).dims for r in op.results)
    if one.product and (one.moved or stretched):
        return True
    others = [m for m in read if m.source is not one.source and m.reduction]
    return any(m.product or one.product for m in others)


def _in_groups(op: Operation) -> bool:
    """Whether a convolution's results are moved: in groups, transposed, or not over two axes."""
    moved = isinstance(op, ConvBase) and (op.groups.constant() != 1 or op.COUNT != 2)
    return moved or isinstance(op, ConvTransposeOp)


def _is_narrow(value: SSAValue) -> bool:
    return tensor_of(value).element_type in (f16, bf16) and not isinstance(value.owner, CastOp)


def keeps(op: Operation) -> bool:
    """Whether the result has elements of the operand as they are: moved, or in f32."""
    if isinstance(op, CastOp):
        kinds = [tensor_of(v).element_type for v in (op.operand, op.result)]
        return kinds[1] == f32 and isinstance(kinds[0], AnyFloat)
    return isinstance(op, MovementOp) or (isinstance(op, ResizeOp) and op.mode == "nearest")


def rounds(op: Operation, operand: int, own: Attribute) -> bool:
    """Whether an op rounds an operand to the type ``own`` in any case.

    It does not matter to it whether that has been stored in that type.
    """
    match op:
        case GemmOp() | ConvBase():
            kind = tensor_of(op.operands[operand]).element_type
        case AttentionOp() if operand < 3:
            kind = tensor_of(op.operands[operand]).element_type
        case OutputOp():
            kind = tensor_of(op.args[operand]).element_type
        case CastOp():
            kind = tensor_of(op.result).element_type
        case _:
            return False
    return kind == own
