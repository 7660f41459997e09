"""Which operands of products are a softmax's weights: exponentials below a maximum, or divided
(S0.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.movements import MovementOp

LARGEST = 256.0
"""The largest number by which weights may be multiplied that f16 then holds with room to spare."""


def are_weights(value: SSAValue) -> bool:
    """Whether a value is a softmax, or exponentials divided, moved, cast, scaled or hidden.

    So are those that are summed beside, as what is made of them is divided by the sum.  A product
    may take the exponentials, and the sum be divided: the two round unlike numbers.  Nor need
    exponentials below a maximum be divided before the product, as they may be rounded below
    another one.
    """
    divided = False
    stack = [value]
    seen: set[SSAValue] = set()
    while stack:
        found = stack.pop()
        op = found.owner
        if found in seen:
            continue
        seen.add(found)
        match op:
            case frontend.SoftmaxOp():
                return True
            case frontend.ElementwiseOp() if _is_power(op):
                below = op.args[-1]
                if divided or _is_below_maximum(below) or _is_at_most_0(below):
                    return True
                if are_summed(found):
                    return True
            case frontend.ElementwiseOp() if op.function in ("mul", "div"):
                divided = divided or op.function == "div"
                stack += op.operands if op.function == "mul" else op.operands[:1]
            case MovementOp() | frontend.CastOp():
                stack += op.operands
            case frontend.SelectOp() if _is_constant(op.otherwise):
                stack.append(op.then)
            case _:
                pass
    return False


def _is_power(op: frontend.ElementwiseOp) -> bool:
    """Whether an op is an exponential, or a power of a number."""
    real = not is_integer(frontend.tensor_of(op.result).element_type)
    return op.function == "exp" or (op.function == "pow" and real and _is_constant(op.args[0]))


def _is_below_maximum(value: SSAValue) -> bool:
    """Whether a value, perhaps scaled, is a difference to a maximum."""
    op = value.owner
    while isinstance(op, frontend.ElementwiseOp) and op.function in ("mul", "div"):
        op = next((a.owner for a in op.args if not _is_constant(a)), None)
    if not isinstance(op, frontend.ElementwiseOp) or op.function != "sub":
        return False
    stack = [op.args[1]]
    while stack:
        match stack.pop().owner:
            case frontend.ReduceOp() as top:
                return top.function == "max"
            case MovementOp() | frontend.CastOp() as moved:
                stack.append(moved.operands[0])
            case frontend.SelectOp() as chosen:
                stack += [chosen.then, chosen.otherwise]
            case frontend.ElementwiseOp() as one if one.function in ("max", "mul", "div"):
                stack += one.args
            case _:
                pass
    return False


def _is_constant(value: SSAValue) -> bool:
    while isinstance(op := value.owner, MovementOp | frontend.CastOp):
        value = op.operands[0]
    return isinstance(op, frontend.ConstantOp)


def are_multiplied(value: SSAValue) -> bool:
    """Whether a product reads a value, moved, cast, scaled or not."""
    stack = [value]
    while stack:
        for use in stack.pop().uses:
            op: Operation = use.operation
            if isinstance(op, frontend.GemmOp):
                return True
            scaled = isinstance(op, frontend.ElementwiseOp) and op.function in ("mul", "div")
            if scaled or isinstance(op, MovementOp | frontend.CastOp):
                stack += op.results
    return False


def are_summed(value: SSAValue) -> bool:
    """Whether a value, moved, cast, scaled or hidden, is summed."""
    stack, seen = [value], {value}
    while stack:
        for use in stack.pop().uses:
            op: Operation = use.operation
            if isinstance(op, frontend.ReduceOp):
                if op.function == "sum":
                    return True
                continue
            scaled = isinstance(op, frontend.ElementwiseOp) and op.function in ("mul", "div")
            if scaled or isinstance(op, MovementOp | frontend.CastOp | frontend.SelectOp):
                stack += [v for v in op.results if v not in seen]
                seen.update(op.results)
    return False


def are_unbounded(op: frontend.ElementwiseOp) -> bool:
    """Whether an op makes exponentials that are summed, and below no maximum.

    A product of them may be taken below their row's maximum, where none of them is infinite.
    """
    below = op.args[-1]
    bounded = _is_below_maximum(below) or _is_at_most_0(below)
    return _is_power(op) and not bounded and are_summed(op.result)


# Weights that a product of f32 may round -----------------------------------------------


@dataclass(frozen=True)
class RoundedWeights:
    """A product of f32: which operand are a softmax's weights, and what the other is cast from."""

    place: int
    values: SSAValue
    """The other operand before it was cast to f32."""
    moves: tuple[MovementOp, ...]
    """What moves it after that, the last first."""

    @property
    def element(self) -> Attribute:
        """The type of the values, that the weights may be rounded to."""
        return frontend.tensor_of(self.values).element_type


def rounded_weights(op: frontend.GemmOp) -> RoundedWeights | None:
    """What a product of f32 may round, as the values that it weighs are of f16 or bf16.

    Its weights are at most 1, or that times a number or tensor that the type of the values holds.
    """
    if frontend.tensor_of(op.a).element_type != f32:
        return None
    for place, (weights, other) in enumerate(((op.a, op.b), (op.b, op.a))):
        moves: list[MovementOp] = []
        while isinstance(moved := other.owner, MovementOp) and len(moved.operands) == 1:
            moves.append(moved)
            other = moved.operands[0]
        if not isinstance(moved, frontend.CastOp):
            continue
        element = frontend.tensor_of(moved.operand).element_type
        if not isinstance(element, Float16Type | BFloat16Type):
            continue
        if _are_fractions(weights, element):
            return RoundedWeights(place, moved.operand, tuple(moves))
    return None


def _are_fractions(value: SSAValue, element: Attribute) -> bool:
    """Whether all of a value are parts of 1, perhaps times what ``element`` holds."""
    kinds = (f32, element)
    op = value.owner
    match op:
        case frontend.SoftmaxOp():
            return True
        case MovementOp() if len(op.operands) == 1:
            return _are_fractions(op.operands[0], element)
        case frontend.CastOp():
            kind = frontend.tensor_of(op.result).element_type
            return kind in kinds and _are_fractions(op.operand, element)
        case frontend.SelectOp() if _constant(op.otherwise) == 0:
            return _are_fractions(op.then, element)
        case frontend.ElementwiseOp() if op.function == "exp":
            return _is_at_most_0(op.args[0])
        case frontend.ElementwiseOp() if op.function == "div":
            over, under = op.args
            number = _constant(under)
            small = number is not None and number >= 1 / LARGEST
            return _is_sum_of(under, over) or (small and _are_fractions(over, element))
        case frontend.ElementwiseOp() if op.function == "mul":
            for one, other in (op.args, op.args[::-1]):
                inverse = _source(other).owner
                if (
                    isinstance(inverse, frontend.ElementwiseOp)
                    and inverse.function == "reciprocal"
                    and _is_sum_of(inverse.args[0], one)
                ):
                    return True
                number = _constant(other)
                small = number is not None and abs(number) <= LARGEST
                if (small or _is_held(other, element)) and _are_fractions(one, element):
                    return True
            return False
        case _:
            return False


def _source(value: SSAValue) -> SSAValue:
    """What movements and casts to f32 show as ``value``."""
    while isinstance(op := value.owner, MovementOp | frontend.CastOp) and len(op.operands) == 1:
        if isinstance(op, frontend.CastOp) and frontend.tensor_of(op.result).element_type != f32:
            break
        value = op.operands[0]
    return value


def _constant(value: SSAValue) -> float | None:
    op = _source(value).owner
    return op.number if isinstance(op, frontend.ConstantOp) else None


def _is_held(value: SSAValue, element: Attribute) -> bool:
    """Whether a value is one of a type that ``element`` holds, cast or not."""
    source = _source(value)
    kind = frontend.tensor_of(source).element_type
    return kind == i1 or (kind == element and not isinstance(source.owner, frontend.ElementwiseOp))


def _is_sum_of(value: SSAValue, terms: SSAValue) -> bool:
    """Whether a value is the sum of terms that are exponentials, perhaps with more that is not
    negative."""
    found, terms = _source(value), _source(terms)
    power = isinstance(op := terms.owner, frontend.ElementwiseOp) and _is_power(op)
    match found.owner:
        case frontend.ReduceOp() as op:
            return power and op.function == "sum" and _source(op.operand) is terms
        case frontend.ElementwiseOp() as op if op.function == "add":
            return any(
                _is_sum_of(one, terms) and _is_not_negative(other)
                for one, other in (op.args, op.args[::-1])
            )
        case _:
            return False


def _is_not_negative(value: SSAValue) -> bool:
    number, op = _constant(value), _source(value).owner
    if number is not None:
        return number >= 0
    return isinstance(op, frontend.ElementwiseOp) and op.function == "exp"


def _is_at_most_0(value: SSAValue) -> bool:
    """Whether a value is a log_softmax, or scores below their maximum or their log-sum-exp."""
    op = _source(value).owner
    if isinstance(op, frontend.LogSoftmaxOp):
        return True
    if not isinstance(op, frontend.ElementwiseOp):
        return False
    match op.function:
        case "mul":
            return any(
                (number := _constant(other)) is not None
                and 0 < number < math.inf
                and _is_at_most_0(one)
                for one, other in (op.args, op.args[::-1])
            )
        case "sub":
            x, reference = (_source(a) for a in op.args)
            return _is_maximum_of(reference, x) or _is_log_sum_of(reference, x)
        case "neg":
            inner = _source(op.args[0]).owner
            if not isinstance(inner, frontend.ElementwiseOp) or inner.function != "sub":
                return False
            reference, x = (_source(a) for a in inner.args)
            return _is_maximum_of(reference, x) or _is_log_sum_of(reference, x)
        case _:
            return False


def _is_maximum_of(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is the maximum of x, or more than that."""
    value = _source(value)
    match value.owner:
        case frontend.ReduceOp() as op:
            return op.function == "max" and _source(op.operand) is x
        case frontend.ElementwiseOp() as op if op.function == "max":
            return any(_is_maximum_of(a, x) for a in op.args)
        case frontend.SelectOp() as op if _is_maximum_of(op.otherwise, x):
            test = op.condition.owner
            return isinstance(test, frontend.CompareOp) and -math.inf in map(
                _constant, test.operands
            )
        case _:
            return False


def _is_log_sum_of(value: SSAValue, x: SSAValue) -> bool:
    """Whether a value is the logarithm of the sum of the exponentials of x."""
    op = _source(value).owner
    if not isinstance(op, frontend.ElementwiseOp):
        return False
    if op.function == "add":
        return any(
            _is_maximum_of(top, x) and _is_log_of(log, x, top)
            for top, log in (op.args, op.args[::-1])
        )
    return _is_log_of(value, x, None)


def _is_log_of(value: SSAValue, x: SSAValue, top: SSAValue | None) -> bool:
    """Whether a value is the logarithm of the sum of exponentials of x, perhaps less ``top``."""
    log = _source(value).owner
    if not isinstance(log, frontend.ElementwiseOp) or log.function != "log":
        return False
    total = _source(log.args[0]).owner
    if not isinstance(total, frontend.ReduceOp) or total.function != "sum":
        return False
    power = _source(total.operand).owner
    if not isinstance(power, frontend.ElementwiseOp) or power.function != "exp":
        return False
    below = _source(power.args[0])
    if top is None:
        return below is x
    op = below.owner
    if not isinstance(op, frontend.ElementwiseOp) or op.function != "sub":
        return False
    return _source(op.args[0]) is x and _source(op.args[1]) is _source(top)
