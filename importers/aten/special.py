"""Converters of ATen's rarer functions of elements: signs, special functions, classes."""

from __future__ import annotations

import math
from typing import Any

from polyc.importers.aten.support import Operand, alike, as_value, rank_of, real, refuse
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.values import Value

# Signs ---------------------------------------------------------------------------------------


@converter("torch", "aten.signbit")
def signbit(x: Value) -> Value:
    """Whether a number is below 0, or the zero that is."""
    if x.dtype == "i1":
        return x & ~x
    if rank_of(x.dtype) == 1:
        return x < 0
    return (x < 0) | ((x == 0) & (f.reciprocal(x) < 0))


@converter("torch", "aten.copysign")
def copysign(x: Operand, y: Operand) -> Value:
    a, b = alike(real(x), y)
    size = f.abs(a)
    return f.where(signbit(b), -size, size)


@converter("torch", "aten.ldexp")
def ldexp(x: Value, other: Value) -> Value:
    a, b = alike(real(x), real(other))
    return a * f.exp2(b)


@converter("torch", "aten.rrelu")
def rrelu(
    x: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Value:
    if training:
        raise refuse("rrelu in training draws its slopes; export the model in eval mode")
    return f.where(x > 0, x, x * ((float(lower) + float(upper)) / 2))


# Classes -------------------------------------------------------------------------------------


@converter("torch", "aten.one_hot")
def one_hot(x: Value, num_classes: int = -1) -> Value:
    if num_classes < 0:
        raise refuse("one_hot finds the number of classes in its input; name num_classes")
    return (x.unsqueeze(x.ndim) == f.arange(num_classes, x.dtype)).cast("i64")


# Special functions ---------------------------------------------------------------------------

_LANCZOS = (
    *(0.99999999999980993, 676.5203681218851, -1259.1392167224028, 771.32342877765313),
    *(-176.61502916214059, 12.507343278686905, -0.13857109526572012),
    *(9.9843695780195716e-6, 1.5056327351493116e-7),
)
"""Lanczos' series of the gamma function for g = 7 (Godfrey's coefficients)."""


def _lgamma_above(x: Value) -> Value:
    """The logarithm of the gamma function of numbers of 0.5 and more."""
    one = x - 1.0
    series = as_value(_LANCZOS[0], "f32")
    for i, factor in enumerate(_LANCZOS[1:], 1):
        series = series + factor / (one + float(i))
    base = one + 7.5
    return 0.5 * math.log(2 * math.pi) + (one + 0.5) * f.log(base) - base + f.log(series)


@converter("torch", "aten.lgamma", "aten.special_gammaln")
def lgamma(x: Value) -> Value:
    one = real(x)
    low = one < 0.5
    found = _lgamma_above(f.where(low, 1.0 - one, one))
    # By reflection, of the distance to the next whole number.
    away = f.abs(one - f.round(one))
    below = math.log(math.pi) - f.log(f.sin(away * math.pi)) - found
    found = f.where(low, below, found)
    return f.where(f.isinf(one), f.abs(one), found)


@converter("torch", "aten.digamma", "aten.special_digamma", "aten.special_psi")
def digamma(x: Value) -> Value:
    """By reflection, six steps up, and the series at infinity."""
    one = real(x)
    low = one < 0.5
    at = f.where(low, 1.0 - one, one)
    steps = 1.0 / at
    for i in range(1, 6):
        steps = steps + 1.0 / (at + float(i))
    high = at + 6.0
    part = 1.0 / (high * high)
    tail = part * (1 / 12 - part * (1 / 120 - part * (1 / 252)))
    found = f.log(high) - 0.5 / high - tail - steps
    signed = one - f.round(one)
    found = f.where(low, found - math.pi / f.tan(signed * math.pi), found)
    ends = f.where(signbit(one), float("inf"), float("-inf"))
    found = f.where(one == 0, ends, found)
    whole = (one < 0) & (signed == 0)
    return f.where(whole, float("nan"), f.where(one == float("inf"), one, found))


_INSIDE = (
    *(2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087),
    *(-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
)
_OUTSIDE = (
    *(-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773),
    *(-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
"""Coefficients of M. Giles, *Approximating the erfinv function* (2010), for f32."""


def _polynomial(x: Value, factors: tuple[float, ...]) -> Value:
    found = as_value(factors[0], "f32")
    for one in factors[1:]:
        found = found * x + one
    return found


@converter("torch", "aten.erfinv", "aten.special_erfinv")
def erfinv(x: Value) -> Value:
    one = real(x)
    w = -f.log1p(-one * one)
    inside = _polynomial(w - 2.5, _INSIDE)
    outside = _polynomial(f.sqrt(f.maximum(w, 5.0)) - 3.0, _OUTSIDE)
    found = f.where(w < 5.0, inside, outside) * one
    # A step of Newton's, where the derivative is no infinity.
    left = f.erf(found) - one
    slope = f.exp(found * found) * (math.sqrt(math.pi) / 2)
    found = f.where(w < 5.0, found - left * slope, found)
    return f.where(f.abs(one) == 1, one * float("inf"), found)


_BESSEL_LOW = (*(1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.0360768, 0.0045813),)
_BESSEL_HIGH = (
    *(0.39894228, 0.01328592, 0.00225319, -0.00157565, 0.00916281, -0.02057706),
    *(0.02635537, -0.01647633, 0.00392377),
)
"""Abramowitz and Stegun, 9.8.1 and 9.8.2."""


@converter("torch", "aten.i0", "aten.special_i0")
def i0(x: Value) -> Value:
    size = f.abs(real(x))
    low, high = size / 3.75, 3.75 / f.maximum(size, 3.75)
    below = _polynomial(low * low, tuple(reversed(_BESSEL_LOW)))
    above = _polynomial(high, tuple(reversed(_BESSEL_HIGH))) / f.sqrt(f.maximum(size, 3.75))
    return f.where(size < 3.75, below, f.exp(size) * above)
