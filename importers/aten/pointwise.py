"""Converters of ATen's functions of elements: arithmetic, relations, activations, types."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from polyc.importers.aten.support import (
    Operand,
    alike,
    as_value,
    promoted,
    rank_of,
    real,
    refuse,
    to,
)
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.values import Value

# Types ---------------------------------------------------------------------------------------


@converter(
    "torch",
    *("aten.clone", "aten.contiguous", "aten.alias", "aten.detach", "aten.detach_copy"),
    *("aten.lift_fresh_copy", "aten.lift_fresh", "aten.alias_copy", "aten.positive"),
)
def same(x: Value, *_: Any, **__: Any) -> Value:
    return x


@converter("torch", "aten._to_copy", "aten.to.dtype_layout")
def to_copy(x: Value, *, dtype: str | None = None, copy: bool = False) -> Value:
    return to(x, dtype)


@converter("torch", "prims.convert_element_type")
def convert_element_type(x: Value, dtype: str) -> Value:
    return to(x, dtype)


@converter("torch", "aten.type_as")
def type_as(x: Value, other: Value) -> Value:
    return to(x, other.dtype)


@converter("torch", "aten.copy")
def copy(x: Value, source: Operand, non_blocking: bool = False) -> Value:
    return as_value(source, x.dtype).expand(*x.shape)


# Arithmetic ----------------------------------------------------------------------------------


def _scaled(x: Operand, alpha: Operand, element: str) -> Operand:
    """``x * alpha``, where alpha is not 1."""
    one = isinstance(alpha, int | float) and alpha == 1
    return x if one else as_value(x, element) * as_value(alpha, element)


@converter("torch", "aten.add")
def add(x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    element = promoted(x, y)
    a, b = as_value(x, element), as_value(_scaled(y, alpha, element), element)
    return a | b if element == "i1" else a + b


@converter("torch", "aten.sub")
def sub(x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    element = promoted(x, y)
    return as_value(x, element) - as_value(_scaled(y, alpha, element), element)


@converter("torch", "aten.rsub")
def rsub(x: Operand, y: Operand, alpha: Operand = 1) -> Value:
    return sub(y, x, alpha)


@converter("torch", "aten.mul")
def mul(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a & b if a.dtype == "i1" else a * b


@converter("torch", "aten.div", "aten.true_divide", "aten.divide")
def div(x: Operand, y: Operand, *, rounding_mode: str | None = None) -> Value:
    if rounding_mode is None:
        element = promoted(x, y)
        element = element if rank_of(element) == 2 else "f32"
        return as_value(x, element) / as_value(y, element)
    if rounding_mode == "floor":
        return floor_divide(x, y)
    if rounding_mode != "trunc":
        raise refuse(f"rounding_mode is None, floor or trunc, not {rounding_mode!r}")
    a, b = alike(x, y)
    if rank_of(a.dtype) == 2:
        return f.trunc(a / b)
    return Value(a.builder, a.builder.elementwise("div", a.ssa, b.ssa))


@converter("torch", "aten.floor_divide")
def floor_divide(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    if rank_of(a.dtype) == 1:
        return a // b
    # The rest is left out before the division, so that the quotient is whole, but for its rounding.
    return f.where(b == 0, a / b, f.round((a - f.mod(a, b)) / b))


@converter("torch", "aten.remainder")
def remainder(x: Operand, y: Operand) -> Value:
    return f.mod(*alike(x, y))


@converter("torch", "aten.fmod")
def fmod(x: Operand, y: Operand) -> Value:
    return f.fmod(*alike(x, y))


@converter("torch", "aten.atan2")
def atan2(x: Operand, y: Operand) -> Value:
    element = promoted(x, y)
    element = element if rank_of(element) == 2 else "f32"
    return f.atan2(as_value(x, element), as_value(y, element))


@converter("torch", "aten.pow")
def pow(x: Operand, y: Operand) -> Value:
    element = promoted(x, y)
    a = as_value(x, element)
    if isinstance(y, int | float) and not isinstance(y, bool):
        if y in (2, 3):
            return a * a if y == 2 else a * a * a
        if y == 1:
            return a
        if rank_of(element) == 2 and y in _POWERS:
            return _POWERS[y](a)
        if rank_of(element) == 2 and math.fabs(y) <= MOST_POWER and 2 * y == int(2 * y) and y != 0:
            return _power(a.cast("f32"), y).cast(element)
    return f.pow(a, as_value(y, element))


MOST_POWER = 4
"""The exponent up to which halves are products: of more a product is not as near as a power."""


def _power(x: Value, y: float) -> Value:
    """x to the y, of halves, by products and a root; C's ``powf`` for what is special too.

    Below 0 a whole number of halves is NaN, but for -inf, and what is 0 has no sign.
    """
    whole, is_half = int(math.fabs(y)), y != int(y)
    if not is_half:
        power = _whole(x, whole)
        return f.reciprocal(power) if y < 0 else power
    size = f.abs(x)
    if y > 0:
        power, far = _whole(size, whole) * f.abs(f.sqrt(x)), math.inf
    else:
        root = f.abs(f.rsqrt(x))
        power, far = _whole(root * root, whole) * root, 0.0
    return f.where(x <= -math.inf, far, power)


def _whole(x: Value, power: int) -> Value:
    """A power by squares."""
    if power == 1:
        return x
    half = _whole(x * x, power // 2)
    return half * x if power % 2 else half


_POWERS: dict[float, Callable[[Value], Value]] = {
    0.5: f.sqrt,
    -0.5: f.rsqrt,
    -1: f.reciprocal,
}


@converter("torch", "aten.maximum", "aten.max.other")
def maximum(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a | b if a.dtype == "i1" else f.maximum(a, b)


@converter("torch", "aten.minimum", "aten.min.other")
def minimum(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a & b if a.dtype == "i1" else f.minimum(a, b)


def _number_of(x: Operand, y: Operand, of: Callable[[Operand, Operand], Value]) -> Value:
    """A function of two, or of them the one that is no NaN."""
    a, b = alike(x, y)
    if rank_of(a.dtype) < 2:
        return of(a, b)
    return f.where(f.isnan(a), b, f.where(f.isnan(b), a, of(a, b)))


@converter("torch", "aten.fmax")
def fmax(x: Operand, y: Operand) -> Value:
    return _number_of(x, y, maximum)


@converter("torch", "aten.fmin")
def fmin(x: Operand, y: Operand) -> Value:
    return _number_of(x, y, minimum)


@converter("torch", "aten.clamp", "aten.clip")
def clamp(x: Value, min: Operand | None = None, max: Operand | None = None) -> Value:
    element = promoted(x, *(one for one in (min, max) if one is not None))
    found = as_value(x, element)
    if min is not None:
        found = f.maximum(found, as_value(min, element))
    return found if max is None else f.minimum(found, as_value(max, element))


@converter("torch", "aten.clamp_min")
def clamp_min(x: Value, min: Operand) -> Value:
    return clamp(x, min)


@converter("torch", "aten.clamp_max")
def clamp_max(x: Value, max: Operand) -> Value:
    return clamp(x, None, max)


@converter("torch", "aten.lerp")
def lerp(x: Value, end: Value, weight: Operand) -> Value:
    return x + as_value(weight, x.dtype) * (end - x)


@converter("torch", "aten.addcmul")
def addcmul(x: Value, a: Value, b: Value, *, value: Operand = 1) -> Value:
    return add(x, mul(a, b), value)


@converter("torch", "aten.addcdiv")
def addcdiv(x: Value, a: Value, b: Value, *, value: Operand = 1) -> Value:
    return add(x, div(a, b), value)


@converter("torch", "aten.square")
def square(x: Value) -> Value:
    return pow(x, 2)


@converter("torch", "aten.frac")
def frac(x: Value) -> Value:
    return x - f.trunc(x)


@converter("torch", "aten.hypot")
def hypot(x: Value, y: Value) -> Value:
    a, b = alike(x, y)
    top, low = f.maximum(f.abs(a), f.abs(b)), f.minimum(f.abs(a), f.abs(b))
    part = f.where(top == 0, as_value(0.0, a.dtype), low / top)
    return top * f.sqrt(1 + part * part)


@converter("torch", "aten.xlogy")
def xlogy(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return f.where((a == 0) & ~f.isnan(b), as_value(0.0, a.dtype), a * f.log(b))


@converter("torch", "aten.logaddexp")
def logaddexp(x: Value, y: Value) -> Value:
    a, b = alike(x, y)
    top = f.maximum(a, b)
    same_ends = f.isinf(a) & (a == b)
    return f.where(same_ends, a, top + f.log1p(f.exp(-f.abs(a - b))))


# Functions of one ----------------------------------------------------------------------------

_REAL: dict[str, Callable[[Value], Value]] = {
    **{
        one.__name__: one
        for one in (
            *(f.acos, f.acosh, f.asin, f.asinh, f.atan, f.atanh, f.cos, f.cosh),
            *(f.erf, f.erfc, f.exp, f.exp2, f.expm1, f.log, f.log10, f.log1p, f.log2),
            *(f.mish, f.reciprocal, f.rsqrt, f.selu, f.sigmoid, f.silu),
            *(f.sin, f.sinh, f.sqrt, f.tan, f.tanh, f.log_sigmoid),
        )
    },
    "special_erf": f.erf,
    "special_expm1": f.expm1,
    "special_log1p": f.log1p,
    "hardswish": f.hard_swish,
    "hardsigmoid": f.hard_sigmoid,
}
"""Functions of real numbers, which integers become first."""


def _of_reals(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def of_real(x: Value) -> Value:
        return function(real(x))

    return of_real


for _name, _function in _REAL.items():
    converter("torch", f"aten.{_name}")(_of_reals(_function))

_WHOLE = {"floor": f.floor, "ceil": f.ceil, "trunc": f.trunc, "fix": f.trunc}
"""Functions that leave whole numbers as they are."""


def _of_wholes(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
    def of_whole(x: Value) -> Value:
        return function(x) if rank_of(x.dtype) == 2 else x

    return of_whole


for _name, _function in _WHOLE.items():
    converter("torch", f"aten.{_name}")(_of_wholes(_function))


@converter("torch", "aten.round")
def round(x: Value, decimals: int = 0) -> Value:
    if rank_of(x.dtype) < 2:
        return x
    if not decimals:
        return f.round(x)
    return f.round(x * 10.0**decimals) / 10.0**decimals


@converter("torch", "aten.neg")
def neg(x: Value) -> Value:
    return -x


@converter("torch", "aten.abs")
def abs(x: Value) -> Value:
    return x if x.dtype == "i1" or x.dtype.startswith("u") else f.abs(x)


@converter("torch", "aten.sign", "aten.sgn")
def sign(x: Value) -> Value:
    if rank_of(x.dtype) < 2:
        return x if x.dtype == "i1" else f.sign(x)
    return f.where(f.isnan(x), as_value(0.0, x.dtype), f.sign(x))  # PyTorch's of NaN is 0


@converter("torch", "aten.relu")
def relu(x: Value) -> Value:
    return f.relu(x)


@converter("torch", "aten.relu6")
def relu6(x: Value) -> Value:
    return f.relu6(x)


@converter("torch", "aten.gelu")
def gelu(x: Value, *, approximate: str = "none") -> Value:
    return f.gelu(x, approximate)


@converter("torch", "aten.hardtanh")
def hardtanh(x: Value, min_val: Operand = -1.0, max_val: Operand = 1.0) -> Value:
    return clamp(x, as_value(min_val, x.dtype), as_value(max_val, x.dtype))


@converter("torch", "aten.leaky_relu")
def leaky_relu(x: Value, negative_slope: float = 0.01) -> Value:
    return f.where(x > 0, x, x * float(negative_slope))


@converter("torch", "aten.prelu", "aten._prelu_kernel")
def prelu(x: Value, weight: Value) -> Value:
    if weight.ndim == 1 and x.ndim > 1 and weight.shape != (1,):
        weight = weight.reshape(-1, *[1] * (x.ndim - 2))
    return f.where(x > 0, x, x * weight)


@converter("torch", "aten.elu")
def elu(x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    if alpha == scale == input_scale == 1:
        return f.elu(x)
    low = f.expm1(x * float(input_scale)) * float(alpha)
    return f.where(x > 0, x, low) * float(scale)


@converter("torch", "aten.celu")
def celu(x: Value, alpha: float = 1.0) -> Value:
    return elu(x, alpha, 1.0, 1.0 / alpha)


SOFTPLUS_IS_X = 15.0
"""From here on log(1 + exp(x)) is x in f32: exp(-15) is less than half of the last bit of 15."""


@converter("torch", "aten.softplus")
def softplus(x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    scaled = x if beta == 1 else x * float(beta)
    found = f.softplus(scaled)
    if beta == 1 and threshold >= SOFTPLUS_IS_X:
        return found
    found = found if beta == 1 else found / float(beta)
    return f.where(scaled > float(threshold), x, found)


@converter("torch", "aten.log_sigmoid_forward")
def log_sigmoid_forward(x: Value) -> tuple[Value, None]:
    return f.log_sigmoid(x), None


@converter("torch", "aten.logit")
def logit(x: Value, eps: float | None = None) -> Value:
    one = x if eps is None else clamp(x, float(eps), 1.0 - float(eps))
    return f.log(one / (1 - one))


@converter("torch", "aten.threshold")
def threshold(x: Value, threshold: Operand, value: Operand) -> Value:
    at = as_value(threshold, x.dtype)
    return f.where(x <= at, as_value(value, x.dtype), x)


@converter("torch", "aten.glu")
def glu(x: Value, dim: int = -1) -> Value:
    a, b = f.split(x, 2, dim)
    return a * f.sigmoid(b)


def _dropout(x: Value, p: float, train: bool) -> Value:
    if train and p:
        raise refuse(
            "dropout in training is random, and a graph's random numbers come of a seed that calls "
            "give; export the model in eval mode"
        )
    return x


@converter("torch", "aten.native_dropout")
def native_dropout(x: Value, p: float, train: bool | None) -> tuple[Value, Value]:
    return _dropout(x, p, bool(train)), as_value(True, "i1").expand(*x.shape)


# Relations and conditions --------------------------------------------------------------------


@converter("torch", "aten.eq")
def eq(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return ~(a ^ b) if a.dtype == "i1" else a == b


@converter("torch", "aten.ne", "aten.not_equal")
def ne(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a ^ b if a.dtype == "i1" else a != b


def _ordered(x: Operand, y: Operand) -> list[Value]:
    element = promoted(x, y)
    return [as_value(one, "i32" if element == "i1" else element) for one in (x, y)]


@converter("torch", "aten.lt")
def lt(x: Operand, y: Operand) -> Value:
    a, b = _ordered(x, y)
    return a < b


@converter("torch", "aten.le")
def le(x: Operand, y: Operand) -> Value:
    a, b = _ordered(x, y)
    return a <= b


@converter("torch", "aten.gt")
def gt(x: Operand, y: Operand) -> Value:
    a, b = _ordered(x, y)
    return a > b


@converter("torch", "aten.ge")
def ge(x: Operand, y: Operand) -> Value:
    a, b = _ordered(x, y)
    return a >= b


@converter("torch", "aten.bitwise_and", "aten.__and__")
def bitwise_and(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a & b


@converter("torch", "aten.bitwise_or", "aten.__or__")
def bitwise_or(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a | b


@converter("torch", "aten.bitwise_xor", "aten.__xor__")
def bitwise_xor(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a ^ b


@converter("torch", "aten.bitwise_not")
def bitwise_not(x: Value) -> Value:
    return ~x


@converter("torch", "aten.bitwise_left_shift", "aten.__lshift__")
def bitwise_left_shift(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a << b


@converter("torch", "aten.bitwise_right_shift", "aten.__rshift__")
def bitwise_right_shift(x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    return a >> b


@converter("torch", "aten.logical_and")
def logical_and(x: Value, y: Value) -> Value:
    return to(x, "i1") & to(y, "i1")


@converter("torch", "aten.logical_or")
def logical_or(x: Value, y: Value) -> Value:
    return to(x, "i1") | to(y, "i1")


@converter("torch", "aten.logical_xor")
def logical_xor(x: Value, y: Value) -> Value:
    return to(x, "i1") ^ to(y, "i1")


@converter("torch", "aten.logical_not")
def logical_not(x: Value) -> Value:
    return ~to(x, "i1")


def _classified(fn: Callable[[Value], Value], of_whole: bool) -> Callable[[Value], Value]:
    def question(x: Value) -> Value:
        if rank_of(x.dtype) == 2:
            return fn(x)
        return as_value(of_whole, "i1").expand(*x.shape)

    return question


for _name, _function, _of_whole in (
    ("isnan", f.isnan, False),
    ("isinf", f.isinf, False),
    ("isfinite", f.isfinite, True),
):
    converter("torch", f"aten.{_name}")(_classified(_function, _of_whole))


@converter("torch", "aten.where")
def where(condition: Value, x: Operand, y: Operand) -> Value:
    a, b = alike(x, y)
    if a.dtype == "i1":
        when = to(condition, "i1")
        return (when & a) | (~when & b)
    return f.where(to(condition, "i1"), a, b)


@converter("torch", "aten.masked_fill")
def masked_fill(x: Value, mask: Value, value: Operand) -> Value:
    return where(mask, as_value(value, x.dtype), x)


@converter("torch", "aten.nan_to_num")
def nan_to_num(
    x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Value:
    if rank_of(x.dtype) < 2:
        return x
    most = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38}[x.dtype]
    found = f.where(f.isnan(x), as_value(0.0 if nan is None else nan, x.dtype), x)
    high = as_value(most if posinf is None else posinf, x.dtype)
    low = as_value(-most if neginf is None else neginf, x.dtype)
    found = f.where(found == math.inf, high, found)
    return f.where(found == -math.inf, low, found)
