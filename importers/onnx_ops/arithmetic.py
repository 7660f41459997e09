"""Arithmetic, relations, conditions, bits and casts."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from math import inf, nan

from polyc.importers.onnx_ops import elements
from polyc.importers.onnx_ops.items import ABSENT, Emulated, Item
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value

FLOATS = ("f16", "bf16", "f32")


def is_float(x: Value) -> bool:
    """Whether a value holds real numbers."""
    return x.dtype in FLOATS


def elementwise(fn: str, *args: Value) -> Value:
    """A function of the dialect, by its name."""
    build = args[0].builder
    return Value(build, build.elementwise(fn, *(a.ssa for a in args)))


def _unary(op: str, fn: str) -> None:
    @converter("onnx", op)
    def say(node: Node) -> Value:
        return elementwise(fn, node.value())

    say.__name__ = op


for _op, _fn in {
    **{n: n.lower() for n in ("Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh")},
    **{n: n.lower() for n in ("Ceil", "Cos", "Cosh", "Erf", "Exp", "Floor", "Log", "Mish")},
    **{n: n.lower() for n in ("Neg", "Not", "Reciprocal", "Relu", "Round", "Sigmoid", "Sign")},
    **{n: n.lower() for n in ("Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh")},
    "BitwiseNot": "not",
    "HardSwish": "hard_swish",
}.items():
    _unary(_op, _fn)


def _binary(op: str, fn: str) -> None:
    @converter("onnx", op)
    def say(node: Node) -> Value:
        return elementwise(fn, node.value(0), node.value(1))

    say.__name__ = op


for _op, _fn in {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "And": "and",
    "Or": "or",
    "Xor": "xor",
    "BitwiseAnd": "and",
    "BitwiseOr": "or",
    "BitwiseXor": "xor",
}.items():
    _binary(_op, _fn)


def _relation(op: str, fn: str) -> None:
    @converter("onnx", op)
    def say(node: Node) -> Value:
        a, b = node.value(0), node.value(1)
        return Value(a.builder, a.builder.compare(fn, a.ssa, b.ssa))

    say.__name__ = op


for _op, _fn in {
    "Equal": "eq",
    "Less": "lt",
    "LessOrEqual": "le",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
}.items():
    _relation(_op, _fn)


def _variadic(op: str, join: Callable[[Value, Value], Value]) -> None:
    @converter("onnx", op)
    def say(node: Node) -> Value:
        return reduce(join, node.values())

    say.__name__ = op


_variadic("Max", lambda a, b: elementwise("max", a, b))
_variadic("Min", lambda a, b: elementwise("min", a, b))
_variadic("Sum", lambda a, b: a + b)


@converter("onnx", "Mean")
def mean(node: Node) -> Value:
    """The mean of tensors, element by element."""
    values = node.values()
    return reduce(lambda a, b: a + b, values) / float(len(values))


@converter("onnx", "Mod")
def mod(node: Node) -> Value:
    """``fmod`` keeps the sign of the dividend, else it is the divisor's."""
    return elementwise("fmod" if node.attr("fmod", 0) else "mod", node.value(0), node.value(1))


@converter("onnx", "Pow")
def power(node: Node) -> Value:
    """The result has the base's type, whatever the exponent's is."""
    base, exponent = node.value(0), node.value(1)
    if base.dtype == exponent.dtype:
        return elementwise("pow", base, exponent)
    if is_float(base) or not is_float(exponent):
        return elementwise("pow", base, exponent.cast(base.dtype))
    return elementwise("pow", base.cast("f32"), exponent.cast("f32")).cast(base.dtype)


@converter("onnx", "BitShift")
def shift(node: Node) -> Value:
    """By as many bits to the left or to the right."""
    fn = "shl" if node.attr("direction") == b"LEFT" else "shr"
    return elementwise(fn, node.value(0), node.value(1))


@converter("onnx", "Clip")
def clip(node: Node) -> Value:
    """Bounds are attributes before operator set 11, and inputs from then on."""
    x = node.value()
    low: Value | float | None = node.attr("min")
    high: Value | float | None = node.attr("max")
    low = node.optional(1) if node.has(1) else low
    high = node.optional(2) if node.has(2) else high
    x = x if low is None else F.maximum(x, low)
    return x if high is None else F.minimum(x, high)


@converter("onnx", "Where")
def where(node: Node) -> Value:
    """One of two by a condition."""
    return F.where(node.value(0), node.value(1), node.value(2))


@converter("onnx", "IsNaN")
def is_nan(node: Node) -> Value:
    """Whether elements are NaN."""
    return F.isnan(node.value())


@converter("onnx", "IsInf")
def is_infinite(node: Node) -> Value:
    """Whether elements are infinite, of the signs that are asked for."""
    x = node.value()
    found = F.isinf(x)
    if not node.attr("detect_negative", 1):
        found = found & (x > 0.0)
    if not node.attr("detect_positive", 1):
        found = found & (x < 0.0)
    return found


def converted(node: Node, to: int) -> Item:
    """A cast to an element type of ONNX, a small one where these are emulated."""
    x = node.wide()
    if node.constants.emulate and (small := elements.SMALL.get(to)) is not None:
        saturate = bool(node.attr("saturate", 1))
        return Emulated(narrowed(x, small, saturate), to)
    return x.cast(node.constants.element(to))


def narrowed(x: Value, small: elements.Small, saturate: bool = True) -> Value:
    """Numbers brought to those that a small type has, in the type that stands for it.

    Integers keep their low bits.  Real numbers are rounded to nearest, ties to even; beyond the
    largest they are that, or without ``saturate`` infinite, NaN where the type has no infinity.
    """
    if small.whole:
        bits = x.cast("i32") << (32 - small.bits)
        if small.signed:
            return (bits >> (32 - small.bits)).cast(small.stored)
        return bits.cast("ui32").__rshift__(32 - small.bits).cast(small.stored)
    x = x.cast("f32")
    kept = F.minimum(F.maximum(x, -small.largest), small.largest) if saturate else x
    exponent = F.floor(F.log2(F.maximum(abs(kept), 2.0**-126)))
    step = F.exp2(F.maximum(exponent, float(small.least)) - float(small.bits))
    found = F.round(kept / step) * step
    if not saturate:
        far = F.where(x > 0.0, inf, -inf) if small.infinite else nan
        found = F.where(F.isinf(x) | (abs(found) > small.largest), far, found)
    found = F.where(F.isnan(x), nan if small.has_nan else 0.0, found)
    return found if small.negative_zero else found + 0.0


@converter("onnx", "Cast")
def cast(node: Node) -> Item:
    """Another element type."""
    return converted(node, int(node.attr("to", elements.FLOAT)))


@converter("onnx", "CastLike")
def cast_like(node: Node) -> Item:
    """The element type of another tensor."""
    return converted(node, node.number_of_element(1))


@converter("onnx", "BitCast")
def bitcast(node: Node) -> Value:
    """The same bits under another type of as many."""
    x, to = node.value(), node.constants.element(int(node.attr("to")))
    if x.dtype == to:
        return x
    whole = all(d not in FLOATS and d != "i1" for d in (x.dtype, to))
    if whole and x.dtype.strip("ui") == to.strip("ui"):
        return x.cast(to)  # a cast of integers keeps the bits
    if (x.dtype, to) == ("i1", "ui8"):
        return x.cast(to)  # a condition is the byte 0 or 1
    node.unsaid(f"graphs have no bitcast from {x.dtype} to {to}")


@converter("onnx", "Identity")
def identity(node: Node) -> Item:
    """What it is given, a sequence too."""
    return node.item(0)


@converter("onnx", "Dropout")
def dropout(node: Node) -> tuple[Item, Item]:
    """Inference: what it is given, and a mask of what is kept."""
    training = node.has(2) and bool(node.number(2, "training_mode"))
    ratio = float(node.number(1, "ratio")) if node.has(1) else float(node.attr("ratio", 0.5))
    if training and ratio:
        node.unsaid("dropout while training draws numbers that ONNX does not define")
    if not node.wants(1):
        return node.item(0), ABSENT
    x = node.value()
    return x, node.constants.full(x.kind.dims, True, "i1")
