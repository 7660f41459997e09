"""Which sums of exponentials a maximum can be reduced together with (S6.10)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import region
from polyc.rewriting.changes import CLASSES, ChangeClass
from polyc.rewriting.region.building import type_of
from polyc.rewriting.region.views import VIEWS, behind_views, constant_of

LEAST_F32 = -3.4028234663852886e38
"""The least finite number of f32."""

LARGEST_F16 = 65504.0
"""The largest finite number of f16."""


@dataclass(frozen=True)
class Weighted:
    """A sum of ``exp(scale * (x - max(x)))``, perhaps times values, and the class of joining it."""

    sum: region.ReduceOp
    scale: float
    change: ChangeClass


@dataclass
class Streams:
    """The sums below a maximum that can be joined with it, and why others cannot."""

    sums: list[Weighted] = field(default_factory=list[Weighted])
    refusals: list[str] = field(default_factory=list[str])


class _NotJoined(Exception):
    """Why a sum stays a reduction of its own, as a clause about it."""


def streams(top: region.ReduceOp, classes: Sequence[str] = CLASSES) -> Streams:
    """The sums that depend on the maximum ``top``, judged as ``JoinSoftmax`` says."""
    found = Streams()
    if top.fn.data != "max":
        return found
    below = below_of(top)
    for op in below:
        if not isinstance(op, region.ReduceOp) or op.fn.data != "sum":
            continue
        try:
            joined = _weighted(top, op, below)
            if joined.change not in classes:
                raise _NotJoined(
                    f"joining it is {joined.change}, and only {', '.join(classes)} may fire"
                )
            found.sums.append(joined)
        except _NotJoined as why:
            found.refusals.append(f"{named(op)} does not join {named(top)}: {why}")
    return found


def named(op: region.ReduceOp) -> str:
    label = f' "{op.label}"' if op.label else ""
    return f"the {op.fn.data}{label} over [{', '.join(op.labels)}]"


def below_of(top: region.ReduceOp) -> dict[Operation, None]:
    """The ops that depend on ``top``, in the order of the text."""
    found: dict[Operation, None] = {}
    op = top.next_op
    while op is not None:
        if any(o.owner is top or o.owner in found for o in op.operands):
            found[op] = None
        op = op.next_op
    return found


def _weighted(top: region.ReduceOp, op: region.ReduceOp, below: dict[Operation, None]) -> Weighted:
    if set(op.labels) != set(top.labels):
        raise _NotJoined("the two are over different axes")
    for kind in (type_of(top.operand), top.result.type, type_of(op.operand), op.result.type):
        if kind.element_type != f32:
            raise _NotJoined(f"one of them is of {kind.element_type}, and states are scaled in f32")
    change: ChangeClass = "reassociating"
    value = op.operand
    while True:
        owner = value.owner
        match owner:
            case region.UnaryOp() if owner.fn.data == "exp":
                return Weighted(op, _scale(top, owner.operand), change)
            case region.UnaryOp() if owner.fn.data == "neg":
                value = owner.operand
            case region.CastOp():
                if owner.result.type.element_type != f32:
                    change = "finite-only"  # rounded at the scale of a chunk's maximum
                value = owner.operand
            case region.BroadcastInDimOp() | region.TransposeOp():
                value = owner.operand
            case region.BinaryOp() if owner.fn.data in ("mul", "div"):
                value = _factor(owner, below)
                change = "finite-only"  # a value may be infinite, and a weight of a chunk not 0
            case region.SelectOp():
                value = _chosen(owner, below)
            case region.ReduceOp():
                raise _NotJoined(f"it takes {named(owner)}")
            case _:
                raise _NotJoined(
                    "it is a sum of something else than exponentials times values of their own"
                )


def _factor(op: region.BinaryOp, below: dict[Operation, None]) -> SSAValue:
    """The factor with the exponential; the other one does not depend on the maximum."""
    left, right = (o.owner in below for o in op.operands)
    if left and right:
        for operand in op.operands:
            if isinstance(found := behind_views(operand).owner, region.ReduceOp):
                raise _NotJoined(
                    f"its terms need {named(found)}, which is known at the end only; apply that "
                    "to the sum"
                )
        raise _NotJoined(f"both operands of its {op.fn.data} depend on the maximum")
    if op.fn.data == "div" and right:
        raise _NotJoined("it divides by exponentials")
    return op.lhs if left else op.rhs


def _chosen(op: region.SelectOp, below: dict[Operation, None]) -> SSAValue:
    """The branch with the exponential, where the condition is given and the other is 0."""
    branches = [op.if_true, op.if_false]
    moving = [v for v in branches if v.owner in below]
    zero = [v for v in branches if constant_of(v) == 0]
    if op.condition.owner in below or len(moving) != 1 or len(zero) != 1:
        raise _NotJoined(
            "it selects, and not between an exponential and 0 by a condition that is given"
        )
    return moving[0]


def _scale(top: region.ReduceOp, exponent: SSAValue) -> float:
    """The factor of an exponent that is ``scale * (x - max(x))``."""
    scale, owner = 1.0, exponent.owner
    if isinstance(owner, region.BinaryOp) and owner.fn.data == "mul":
        for number, other in (
            (constant_of(owner.rhs), owner.lhs),
            (constant_of(owner.lhs), owner.rhs),
        ):
            if number is not None:
                scale, owner = number, other.owner
                break
    if not (math.isfinite(scale) and scale > 0):
        raise _NotJoined(f"its exponent is scaled by {scale}, which is not positive and finite")
    if (
        not isinstance(owner, region.BinaryOp)
        or owner.fn.data != "sub"
        or owner.lhs is not top.operand
        or not _is_maximum(behind_views(owner.rhs), top)
    ):
        raise _NotJoined("its exponent is not x - max(x), of the x whose maximum it is")
    return scale


def maximum_of(exponential: region.UnaryOp) -> region.ReduceOp | None:
    """The m of ``exp(scale * (x - m))`` that is the maximum of x; None where there is none.

    The exponential is then at most 1.
    """
    owner = exponential.operand.owner
    if isinstance(owner, region.BinaryOp) and owner.fn.data == "mul":
        owner = next((o.owner for o in owner.operands if constant_of(o) is None), owner)
    if not isinstance(owner, region.BinaryOp) or owner.fn.data != "sub":
        return None
    top = _top_behind(owner.rhs)
    if top is None:
        return None
    try:
        _scale(top, exponential.operand)
    except _NotJoined:
        return None
    return top


def is_below_maximum(value: SSAValue, labels: Iterable[str]) -> bool:
    """Whether a value is an exponential below the maximum of its own exponent over some axes."""
    power = value.owner
    if not isinstance(power, region.UnaryOp) or power.fn.data != "exp":
        return False
    top = maximum_of(power)
    return top is not None and set(top.labels) == set(labels)


def is_maximum_of(value: SSAValue, x: SSAValue) -> bool:
    """Whether ``value``, but for views, is the maximum of x, or a number where that is -inf."""
    top = _top_behind(value)
    return top is not None and top.operand is x and _is_maximum(behind_views(value), top)


def _top_behind(value: SSAValue) -> region.ReduceOp | None:
    """The maximum that ``value`` may be, or be made of by replacing -inf."""
    top = behind_views(value).owner
    match top:
        case region.SelectOp():
            top = behind_views(top.if_false).owner
        case region.BinaryOp() if top.fn.data == "max":
            top = behind_views(top.lhs if constant_of(top.lhs) is None else top.rhs).owner
        case _:
            pass
    return top if isinstance(top, region.ReduceOp) and top.fn.data == "max" else None


def read_type(value: SSAValue) -> Attribute | None:
    """The type of the tensor that a value is read from, moved and cast; None for what is computed.

    It is i1 where a condition that is read chooses between two numbers of f16, as casts of i1 do.
    """
    while isinstance(owner := value.owner, (*VIEWS, region.CastOp)):
        value = owner.operand
    match owner:
        case region.ReadOp():
            return owner.result.type.element_type
        case region.SelectOp():
            numbers = [constant_of(v) for v in (owner.if_true, owner.if_false)]
            small = all(n is not None and abs(n) <= LARGEST_F16 for n in numbers)
            return i1 if small and read_type(owner.condition) == i1 else None
        case _:
            return None


def _is_maximum(value: SSAValue, top: region.ReduceOp) -> bool:
    """Whether ``value`` is the maximum, or that with a finite number where it is -inf."""
    owner = value.owner
    if owner is top:
        return True
    if isinstance(owner, region.BinaryOp) and owner.fn.data == "max":
        # The least number is what takes the place of -inf, and of nothing else.
        sides = {behind_views(o).owner is top: constant_of(o) for o in owner.operands}
        return True in sides and sides.get(False) == LEAST_F32
    if not isinstance(owner, region.SelectOp) or behind_views(owner.if_false).owner is not top:
        return False
    test, number = owner.condition.owner, constant_of(owner.if_true)
    if not isinstance(test, region.CompareOp) or test.fn.data != "eq":
        return False
    sides = {behind_views(o).owner is top: constant_of(o) for o in test.operands}
    return sides.get(False) == -math.inf and True in sides and _finite(number)


def _finite(number: float | None) -> bool:
    return number is not None and math.isfinite(number)
