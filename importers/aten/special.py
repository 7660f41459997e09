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


_CENTRE_OVER = (59.109374720, 159.29113202, 50.434271938, 3.3871327179)
_CENTRE_UNDER = (67.187563600, 78.757757664, 17.895169469, 1.0)
_NEAR_OVER = (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777)
_NEAR_UNDER = (0.12021132975, 0.73700164250, 1.0)
_FAR_OVER = (0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150)
_FAR_UNDER = (0.012258202635, 0.24197894225, 1.0)
"""Wichura's algorithm AS 241 for seven digits (1988)."""


@converter("torch", "aten.special_ndtri")
def ndtri(x: Value) -> Value:
    """The quantile of the normal distribution."""
    one = real(x)
    q = one - 0.5
    part = 0.180625 - q * q
    middle = q * _polynomial(part, _CENTRE_OVER) / _polynomial(part, _CENTRE_UNDER)
    r = f.sqrt(-f.log(f.minimum(one, 1.0 - one)))
    near, far = r - 1.6, r - 5.0
    tail = f.where(
        r <= 5.0,
        _polynomial(near, _NEAR_OVER) / _polynomial(near, _NEAR_UNDER),
        _polynomial(far, _FAR_OVER) / _polynomial(far, _FAR_UNDER),
    )
    found = f.where(f.abs(q) <= 0.425, middle, f.where(q < 0, -tail, tail))
    ends = f.where(q < 0, float("-inf"), float("inf"))
    return f.where((one == 0) | (one == 1), ends, found)


_ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418),
    *(0.37409196, 1.00002368, -1.26551223),
)
"""Of the fit of Numerical Recipes, section 6.2."""


def _erfcx_above(x: Value) -> Value:
    """exp(x²) erfc(x) of numbers of 0 and more."""
    t = 1.0 / (1.0 + 0.5 * x)
    return t * f.exp(_polynomial(t, _ERFC))


@converter("torch", "aten.special_erfcx")
def erfcx(x: Value) -> Value:
    one = real(x)
    above = _erfcx_above(f.abs(one))
    return f.where(one < 0, 2.0 * f.exp(one * one) - above, above)


@converter("torch", "aten.special_log_ndtr")
def log_ndtr(x: Value) -> Value:
    """The logarithm of the normal distribution's function, far below too."""
    one = real(x) * math.sqrt(0.5)
    size = f.abs(one)
    above = _erfcx_above(size) / 2.0
    return f.where(one < -0.7, f.log(above) - one * one, f.log1p(-0.5 * f.erfc(one)))


# Bessel's functions --------------------------------------------------------------------------

_I0_LOW = (0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0)
_I0_HIGH = (
    *(0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565),
    *(0.00225319, 0.01328592, 0.39894228),
)
_I1_LOW = (0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5)
_I1_HIGH = (
    *(-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801),
    *(-0.00362018, -0.03988024, 0.39894228),
)
_K0_LOW = (7.4e-6, 1.075e-4, 0.00262698, 0.0348859, 0.23069756, 0.4227842, -0.57721566)
_K0_HIGH = (
    *(0.00053208, -0.0025154, 0.00587872, -0.01062446, 0.02189568, -0.07832358, 1.25331414),
)
_K1_LOW = (-4.686e-5, -0.00110404, -0.01919402, -0.18156897, -0.67278579, 0.15443144, 1.0)
_K1_HIGH = (
    *(-0.00068245, 0.00325614, -0.00780353, 0.01504268, -0.0365562, 0.23498619, 1.25331414),
)
_J0_LOW = (0.00021, -0.0039444, 0.0444479, -0.3163866, 1.2656208, -2.2499997, 1.0)
_J0_SIZE = (0.00014476, -0.00072805, 0.00137237, -9.512e-5, -0.0055274, -7.7e-7, 0.79788456)
_J0_TURN = (0.00013558, -0.00029333, -0.00054125, 0.00262573, -3.954e-5, -0.04166397, -0.78539816)
_J1_LOW = (1.109e-5, -0.00031761, 0.00443319, -0.03954289, 0.21093573, -0.56249985, 0.5)
_J1_SIZE = (-0.00020033, 0.00113653, -0.00249511, 0.00017105, 0.01659667, 1.56e-6, 0.79788456)
_J1_TURN = (-0.00029166, 0.00079824, 0.00074348, -0.00637879, 5.65e-5, 0.12499612, -2.35619449)
"""Abramowitz and Stegun, 9.4.1 to 9.4.6 and 9.8.1 to 9.8.8, the highest power first."""


def _i_scaled(x: Value, low: tuple[float, ...], high: tuple[float, ...]) -> Value:
    """exp(-x) times a modified function of the first kind, of 0 and more; of order 1 over x."""
    t, over = x / 3.75, 3.75 / f.maximum(x, 3.75)
    root = f.sqrt(f.maximum(x, 3.75))
    below = _polynomial(t * t, low) * f.exp(-f.minimum(x, 3.75))
    above = _polynomial(over, high) / root
    return f.where(x < 3.75, below, above)


def _i1_scaled(x: Value) -> Value:
    """exp(-|x|) times the modified function of the first kind and of order 1."""
    size = f.abs(x)
    found = _i_scaled(size, _I1_LOW, _I1_HIGH)
    return f.where(size < 3.75, found * x, f.where(x < 0, -found, found))


@converter("torch", "aten.special_i0e")
def i0e(x: Value) -> Value:
    return _i_scaled(f.abs(real(x)), _I0_LOW, _I0_HIGH)


@converter("torch", "aten.i0", "aten.special_i0", "aten.special_modified_bessel_i0")
def i0(x: Value) -> Value:
    size = f.abs(real(x))
    return f.exp(size) * _i_scaled(size, _I0_LOW, _I0_HIGH)


@converter("torch", "aten.special_i1e")
def i1e(x: Value) -> Value:
    return _i1_scaled(real(x))


@converter("torch", "aten.special_i1", "aten.special_modified_bessel_i1")
def i1(x: Value) -> Value:
    one = real(x)
    return f.exp(f.abs(one)) * _i1_scaled(one)


def _k_scaled(x: Value, order: int) -> Value:
    """exp(x) times a modified function of the second kind, of numbers above 0."""
    half = f.minimum(x, 2.0) / 2.0
    part, log = half * half, f.log(half)
    if order == 0:
        below = _polynomial(part, _K0_LOW) - log * i0(half * 2.0)
    else:
        below = _polynomial(part, _K1_LOW) / (half * 2.0) + log * i1(half * 2.0)
    above = _polynomial(2.0 / f.maximum(x, 2.0), _K1_HIGH if order else _K0_HIGH)
    found = f.where(x <= 2.0, below * f.exp(half * 2.0), above / f.sqrt(f.maximum(x, 2.0)))
    ends = f.where(x == 0, float("inf"), float("nan"))
    return f.where(x > 0, found, ends)


@converter("torch", "aten.special_scaled_modified_bessel_k0")
def scaled_k0(x: Value) -> Value:
    return _k_scaled(real(x), 0)


@converter("torch", "aten.special_modified_bessel_k0")
def k0(x: Value) -> Value:
    one = real(x)
    return f.exp(-one) * _k_scaled(one, 0)


@converter("torch", "aten.special_scaled_modified_bessel_k1")
def scaled_k1(x: Value) -> Value:
    return _k_scaled(real(x), 1)


@converter("torch", "aten.special_modified_bessel_k1")
def k1(x: Value) -> Value:
    one = real(x)
    return f.exp(-one) * _k_scaled(one, 1)


def _j(x: Value, low: Any, size: Any, turn: Any) -> tuple[Value, Value]:
    """A function of the first kind near 0, without its factor, and from 3 on."""
    t, far = f.minimum(x, 3.0) / 3.0, f.maximum(x, 3.0)
    u = 3.0 / far
    wave = f.cos(far + _polynomial(u, turn))
    return _polynomial(t * t, low), _polynomial(u, size) * wave / f.sqrt(far)


@converter("torch", "aten.special_bessel_j0")
def j0(x: Value) -> Value:
    size = f.abs(real(x))
    below, above = _j(size, _J0_LOW, _J0_SIZE, _J0_TURN)
    return f.where(size <= 3.0, below, above)


@converter("torch", "aten.special_bessel_j1")
def j1(x: Value) -> Value:
    one = real(x)
    size = f.abs(one)
    below, above = _j(size, _J1_LOW, _J1_SIZE, _J1_TURN)
    return f.where(size <= 3.0, below * one, f.where(one < 0, -above, above))


@converter("torch", "aten.special_spherical_bessel_j0")
def spherical_j0(x: Value) -> Value:
    one = real(x)
    part = one * one
    near = 1.0 - part / 6.0 * (1.0 - part / 20.0)
    return f.where(f.abs(one) < 0.2, near, f.sin(one) / f.where(one == 0, 1.0, one))


# Hurwitz's function --------------------------------------------------------------------------


def _zeta(s: Value, q: Value) -> Value:
    """The sum of (q + k)^-s: eight of it, and Euler's and Maclaurin's rest."""
    found = f.pow(q, -s)
    for k in range(1, 8):
        found = found + f.pow(q + float(k), -s)
    w = q + 8.0
    last = f.pow(w, -s)
    found = found + last * w / (s - 1.0) + 0.5 * last
    rise, factor = s, last / w
    for i, part in enumerate((1 / 12, -1 / 720, 1 / 30240, -1 / 1209600)):
        found = found + part * rise * factor
        rise = rise * (s + float(2 * i + 1)) * (s + float(2 * i + 2))
        factor = factor / (w * w)
    return found


@converter("torch", "aten.special_zeta")
def zeta(x: Operand, q: Operand) -> Value:
    """For x above 1 and q above 0; NaN elsewhere, but for the pole."""
    s, at = alike(real(x), real(q))
    found = f.where((s > 1.0) & (at > 0.0), _zeta(s, at), float("nan"))
    return f.where(s == 1.0, float("inf"), found)


@converter("torch", "aten.polygamma", "aten.special_polygamma")
def polygamma(n: int, x: Value) -> Value:
    """Derivatives of the digamma function, of numbers above 0."""
    if n == 0:
        return digamma(x)
    one = real(x)
    sign = math.factorial(n) * (1.0 if n % 2 else -1.0)
    found = sign * _zeta(as_value(float(n + 1), "f32"), one)
    return f.where(one > 0.0, found, float("nan"))
