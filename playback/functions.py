"""What the functions of every dialect do to NumPy arrays; one table for all layers (S0.6).

NumPy gives a scalar of its own where it computes on arrays of rank 0; every result here is an
array.  Real numbers are f32 inside a graph, integers of their own type.  Rounding to f16 or bf16
is to nearest even and gives infinity beyond the largest finite value.  docs/semantics.md says the
same in words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, cast

import ml_dtypes
import numpy as np
from numpy.typing import DTypeLike, NDArray
from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import Attribute

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import (
    INTEGERS,
    Number,
    computed,
    is_integer,
    is_unsigned,
    neutral,
    width,
)
from polyc.dialects.frontend.elementwise import SELU_ALPHA, SELU_SCALE
from polyc.playback import estimate, philox
from polyc.playback.estimate import Estimate, to_integers

Array: TypeAlias = NDArray[Any]
UnaryFunction = Callable[[Array], Array]
BinaryFunction = Callable[[Array, Array], Array]

# Element types -------------------------------------------------------------------------

DTYPES: dict[Attribute, np.dtype[Any]] = {
    f16: np.dtype(np.float16),
    bf16: np.dtype(cast(DTypeLike, ml_dtypes.bfloat16)),
    f32: np.dtype(np.float32),
    i1: np.dtype(np.bool_),
    **{t: np.dtype(f"{'u' * is_unsigned(t)}int{width(t)}") for t in INTEGERS},
}
"""The NumPy dtype of each element type."""

MANTISSA_BITS: dict[Attribute, int] = {f16: 10, bf16: 7, f32: 23}
"""Stored significand bits; one ulp of x is 2**(exponent of x - bits)."""

MIN_EXPONENT: dict[Attribute, int] = {f16: -14, bf16: -126, f32: -126}
"""The exponent of the smallest normal number."""


def element_of(dtype: np.dtype[Any]) -> Attribute:
    """The element type that arrays of a dtype hold."""
    return next(t for t, d in DTYPES.items() if d == dtype)


def dtype_of(element_type: Attribute) -> np.dtype[Any]:
    """The NumPy dtype of an element type; PolycError for one that polyc does not have."""
    found = DTYPES.get(element_type)
    if found is None:
        known = ", ".join(map(str, DTYPES))
        raise PolycError("UnsupportedProgram", f"{element_type} has no playback; {known} have")
    return found


def round_to(array: Array, element_type: Attribute) -> Array:
    """``array`` in ``element_type``'s dtype: rounded to nearest even, or cut to integers."""
    dtype = dtype_of(element_type)
    with np.errstate(all="ignore"):
        if dtype.kind in "iu" and not isinstance(array, Estimate):
            return to_integers(as_array(array), dtype)
        return as_array(array).astype(dtype, copy=False)


def posing(known: Estimate) -> Array:
    """An Estimate where an array is asked for: playback takes it as one."""
    return cast(Array, known)


def round_freely(array: Array, element_type: Attribute) -> Array:
    """``round_to`` where another computation may round a multiple of the values, or later.

    The weights of a streamed softmax are rounded relative to the largest score so far.
    """
    if isinstance(array, Estimate):
        return posing(estimate.rounded(array, dtype_of(element_type), reproducible=False))
    return round_to(array, element_type)


def as_stored(array: Array, element_type: Attribute) -> Array:
    """``array`` where another computation may read it as it was stored in ``element_type``.

    An array of numbers is itself: it is of a computation that stores nothing.
    """
    if isinstance(array, Estimate):
        return posing(estimate.may_be_stored(array, dtype_of(element_type)))
    return array


def perhaps_rounded(array: Array, element_type: Attribute) -> Array:
    """``array`` where another computation may round a multiple of it to ``element_type``.

    An array of numbers is itself.
    """
    if isinstance(array, Estimate):
        return posing(estimate.rounding_allowed(array, dtype_of(element_type)))
    return array


def known_below(array: Array, most: float) -> Array:
    """``array`` where nothing is known of numbers above ``most``, infinite ones included.

    An array of numbers is itself.
    """
    return posing(estimate.unsure_beyond(array, most)) if isinstance(array, Estimate) else array


def as_array(found: Any) -> Array:
    """What NumPy gave as an array, where it may have been a scalar."""
    return posing(found) if isinstance(found, Estimate) else np.asarray(found)


def row_major(array: Array) -> Array:
    """A copy in row-major order."""
    return array.copy() if isinstance(array, Estimate) else np.array(array, order="C")


def zeros_like(array: Array, shape: Sequence[int]) -> Array:
    """Zeros of another shape, in the type of ``array`` and, like it, with errors or without."""
    found = np.zeros(tuple(shape), array.dtype)
    return posing(Estimate.memory(found)) if isinstance(array, Estimate) else found


def widen(array: Array) -> Array:
    """``array`` as values are inside a graph: integers as they are, all else in f32.

    Exact for every stored type.
    """
    array = as_array(array)
    return array if array.dtype.kind in "iu" else array.astype(np.float32, copy=False)


def as_tf32(x: Array) -> Array:
    """Numbers of f32 as tensor cores take them for TF32: without the lower 13 bits."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return (bits & np.uint32(0xFFFFE000)).view(np.float32)


def nearest_tf32(x: Array) -> Array:
    """The nearest numbers of TF32 to those of f32, ties away from 0; NaN and infinities stay."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    near = as_tf32((bits + np.uint32(0x1000)).view(np.float32))
    return np.where(np.isfinite(x), near, x).astype(np.float32)


def ulp(array: Array, element_type: Attribute) -> Array:
    """The distance between neighbours of ``element_type`` around each value, in f64.

    Not defined for infinities and NaN.
    """
    values = array.astype(np.float64)
    lowest = MIN_EXPONENT[element_type]
    exponent = np.where(values == 0, lowest, np.frexp(values)[1] - 1)
    return np.ldexp(1.0, np.maximum(exponent, lowest) - MANTISSA_BITS[element_type])


# Functions -----------------------------------------------------------------------------


def number(value: Number, element: Attribute) -> Array:
    """A number as an array of rank 0: in f32 for real ones, in their own type for integers."""
    return np.asarray(value, dtype_of(computed(element)))


def size(value: int, element: Attribute) -> Array:
    """A size, rounded to f32, or wrapped to an integer type."""
    if is_integer(element):
        return np.asarray(value, np.int64).astype(dtype_of(element))
    return np.asarray(value, np.float32)


def iota(count: int, element: Attribute) -> Array:
    """The positions from 0 on, wrapped to an integer type."""
    return np.arange(count, dtype=np.int64).astype(dtype_of(element))


def _f32(value: float) -> np.float32:
    return np.float32(value)


_erf = np.frompyfunc(math.erf, 1, 1)


def erf(x: Array) -> Array:
    """The error function, computed in f64 and rounded to f32."""
    if isinstance(x, Estimate):
        return posing(estimate.erf(x, erf))
    return np.asarray(_erf(x.astype(np.float64)), dtype=np.float64).astype(np.float32)


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    return _f32(1) / (_f32(1) + np.exp(-x))


def relu(x: Array) -> Array:
    """``max(x, 0)``; NaN stays."""
    return np.maximum(x, _f32(0))


def gelu(x: Array) -> Array:
    """``0.5 x (1 + erf(x / sqrt 2))``."""
    return (x * _f32(0.5)) * (erf(x * _f32(math.sqrt(0.5))) + _f32(1))


def gelu_tanh(x: Array) -> Array:
    """``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))``."""
    bent = x + ((x * x) * x) * _f32(0.044715)
    return (x * _f32(0.5)) * (np.tanh(bent * _f32(math.sqrt(2 / math.pi))) + _f32(1))


def silu(x: Array) -> Array:
    """``x * sigmoid(x)``; NaN at -inf, as the product is."""
    return x * sigmoid(x)


def sign(x: Array) -> Array:
    """1, -1, or what is neither above nor below 0: a zero with its sign, and NaN."""
    return np.where(x > 0, _f32(1), np.where(x < 0, _f32(-1), x))


def relu6(x: Array) -> Array:
    """``min(max(x, 0), 6)``; NaN stays."""
    return np.minimum(relu(x), _f32(6))


def hard_sigmoid(x: Array) -> Array:
    """``relu6(x + 3) / 6``."""
    return relu6(x + _f32(3)) / _f32(6)


def hard_swish(x: Array) -> Array:
    """``x * hard_sigmoid(x)``."""
    return x * hard_sigmoid(x)


def _softplus_tail(x: Array) -> Array:
    return log1p(np.exp(-np.abs(x)))


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))``, as ``max(x, 0) + log1p(exp(-|x|))``."""
    return relu(x) + _softplus_tail(x)


def log_sigmoid(x: Array) -> Array:
    """``log(sigmoid(x))``, as ``min(x, 0) - log1p(exp(-|x|))``."""
    return np.minimum(x, _f32(0)) - _softplus_tail(x)


def mish(x: Array) -> Array:
    """``x * tanh(softplus(x))``."""
    return x * np.tanh(softplus(x))


def softsign(x: Array) -> Array:
    """``x / (1 + |x|)``."""
    return x / (np.abs(x) + _f32(1))


def elu(x: Array) -> Array:
    """``x`` above 0, else ``exp(x) - 1``."""
    return np.where(x > _f32(0), x, expm1(x))


def selu(x: Array) -> Array:
    """``scale * x`` above 0, else ``scale * alpha * (exp(x) - 1)``."""
    below = expm1(x) * _f32(SELU_ALPHA)
    return np.where(x > _f32(0), x, below) * _f32(SELU_SCALE)


def mod(x: Array, y: Array) -> Array:
    """The rest of a division that rounds down: ``fmod``, one ``y`` on where the signs differ."""
    rest = np.fmod(x, y)
    return np.where(rest * sign(y) < _f32(0), rest + y, rest)


def atan2(y: Array, x: Array) -> Array:
    """The angle of the point (x, y), in f64 and rounded to f32."""
    if isinstance(y, Estimate) or isinstance(x, Estimate):
        return posing(estimate.atan2(y, x, atan2))
    found = np.arctan2(as_array(y).astype(np.float64), as_array(x).astype(np.float64))
    return np.asarray(found, np.float32)


def _wide(name: str, function: UnaryFunction) -> UnaryFunction:
    """``function``, computed in f64 and rounded to f32: the same on every machine."""

    def run(x: Array) -> Array:
        if isinstance(x, Estimate):
            return posing(estimate.curve(name, x, run))
        return np.asarray(function(as_array(x).astype(np.float64)), np.float32)

    run.__name__ = name
    return run


acos = _wide("acos", np.arccos)
acosh = _wide("acosh", np.arccosh)
asin = _wide("asin", np.arcsin)
asinh = _wide("asinh", np.arcsinh)
atan = _wide("atan", np.arctan)
atanh = _wide("atanh", np.arctanh)
cbrt = _wide("cbrt", np.cbrt)
cos = _wide("cos", np.cos)
cosh = _wide("cosh", np.cosh)
erfc = _wide("erfc", estimate.erfc)
exp2 = _wide("exp2", np.exp2)
expm1 = _wide("expm1", np.expm1)
log10 = _wide("log10", np.log10)
log1p = _wide("log1p", np.log1p)
log2 = _wide("log2", np.log2)
sin = _wide("sin", np.sin)
sinh = _wide("sinh", np.sinh)
tan = _wide("tan", np.tan)


UNARY: dict[str, UnaryFunction] = {
    "abs": np.abs,
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cbrt": cbrt,
    "ceil": np.ceil,
    "cos": cos,
    "cosh": cosh,
    "elu": elu,
    "erf": erf,
    "erfc": erfc,
    "exp": np.exp,
    "exp2": exp2,
    "expm1": expm1,
    "floor": np.floor,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
    "log": np.log,
    "log10": log10,
    "log1p": log1p,
    "log2": log2,
    "log_sigmoid": log_sigmoid,
    "mish": mish,
    "neg": np.negative,
    "reciprocal": lambda x: _f32(1) / x,
    "relu": relu,
    "relu6": relu6,
    "round": np.rint,
    "rsqrt": lambda x: _f32(1) / np.sqrt(x),
    "selu": selu,
    "sigmoid": sigmoid,
    "sign": sign,
    "silu": silu,
    "sin": sin,
    "sinh": sinh,
    "softplus": softplus,
    "softsign": softsign,
    "sqrt": np.sqrt,
    "tan": tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}
"""Functions of one f32 array."""

BINARY: dict[str, BinaryFunction] = {
    "add": np.add,
    "atan2": atan2,
    "div": np.divide,
    "fmod": np.fmod,
    "max": np.maximum,
    "min": np.minimum,
    "mod": mod,
    "mul": np.multiply,
    "pow": np.power,
    "sub": np.subtract,
}
"""Functions of two f32 arrays; max and min give NaN where either is NaN."""


def _quotient(x: Array, y: Array) -> Array:
    """``x / y`` cut towards 0, and 0 over 0."""
    floor = np.floor_divide(x, y)
    cut = (np.multiply(floor, y) != x) & ((x < 0) != (y < 0))
    return np.where(y == 0, x.dtype.type(0), np.add(floor, cut.astype(x.dtype)))


def _remainder(x: Array, y: Array) -> Array:
    """What ``_quotient`` leaves, with the sign of ``x``, and 0 over 0."""
    return np.where(y == 0, x.dtype.type(0), np.fmod(x, y))


def _modulo(x: Array, y: Array) -> Array:
    """What a quotient rounded down leaves, with the sign of ``y``, and 0 over 0."""
    return np.where(y == 0, x.dtype.type(0), np.mod(x, y))


def _shifted(left: bool) -> BinaryFunction:
    """A shift by ``y`` bits, as an unsigned number: from the type's width on all bits are gone."""

    def function(x: Array, y: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        gone = (y < 0) | (y >= y.dtype.type(bits))
        by = np.where(gone, y.dtype.type(bits - 1), y)
        if left:
            return np.where(gone, x.dtype.type(0), np.left_shift(x, by))
        found = np.right_shift(x, by)
        return found if x.dtype.kind == "i" else np.where(gone, x.dtype.type(0), found)

    return function


def _power_of_bits(x: Array, n: Array) -> Array:
    with np.errstate(over="ignore"):
        found = np.ones(np.broadcast_shapes(x.shape, n.shape), x.dtype)
        for bit in range(8 * x.dtype.itemsize):
            named = (n >> x.dtype.type(bit)) & x.dtype.type(1) != 0
            found = np.where(named, found * x, found)
            x = x * x
    return found


def power_of_bits(x: Array, n: Array) -> Array:
    """``x`` to the ``n`` of integers without a sign, in the low bits of their type."""
    if isinstance(x, Estimate) or isinstance(n, Estimate):
        return posing(estimate.of_integers(_power_of_bits, x, n))
    return as_array(_power_of_bits(as_array(x), as_array(n)))


def _whole_power(x: Array, n: Array) -> Array:
    """``x`` to the ``n``; to a number below 0 the quotient of 1, which is cut towards 0."""
    if x.dtype.kind == "u":
        return _power_of_bits(x, n)
    unsigned = np.dtype(f"u{x.dtype.itemsize}")
    bits = n.astype(unsigned)
    odd = bits & unsigned.type(1)
    unit = (x == 1) | (x == -1)
    inverse = np.where(unit, _power_of_bits(x.astype(unsigned), odd), unsigned.type(0))
    whole = _power_of_bits(x.astype(unsigned), bits)
    return np.where(n < 0, inverse, whole).astype(x.dtype)


def whole_power(x: Array, n: Array) -> Array:
    """A power of integers, which wraps in their type."""
    if isinstance(x, Estimate) or isinstance(n, Estimate):
        return posing(estimate.of_integers(_whole_power, x, n))
    return as_array(_whole_power(as_array(x), as_array(n)))


INTEGER_UNARY: dict[str, UnaryFunction] = {
    "abs": np.abs,
    "neg": np.negative,
    "not": np.invert,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "sign": np.sign,
}
"""Functions of one array of integers, which wrap in their type."""

INTEGER_BINARY: dict[str, BinaryFunction] = {
    "add": np.add,
    "and": np.bitwise_and,
    "div": _quotient,
    "fmod": _remainder,
    "max": np.maximum,
    "min": np.minimum,
    "mod": _modulo,
    "mul": np.multiply,
    "or": np.bitwise_or,
    "philox": philox.pair,
    "pow": whole_power,
    "shl": _shifted(left=True),
    "shr": _shifted(left=False),
    "sub": np.subtract,
    "xor": np.bitwise_xor,
}
"""Functions of two arrays of one integer type, which wrap in it."""

CONDITION_UNARY: dict[str, UnaryFunction] = {"not": np.logical_not}
"""Functions of one array of conditions."""

CONDITION_BINARY: dict[str, BinaryFunction] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.not_equal,
}
"""Functions of two arrays of conditions."""

COMPARE: dict[str, BinaryFunction] = {
    "eq": np.equal,
    "ge": np.greater_equal,
    "gt": np.greater,
    "le": np.less_equal,
    "lt": np.less,
    "ne": np.not_equal,
}
"""Relations of two arrays of one type; with a NaN all are false but ``ne``."""

IDENTITY: dict[str, float] = {"sum": 0.0, "prod": 1.0, "max": -math.inf, "min": math.inf}
"""What a reduction of real numbers over nothing gives."""

JOINED: dict[str, np.ufunc] = {"prod": np.multiply, "max": np.maximum, "min": np.minimum}
"""How a reduction that is no sum joins two numbers."""


def unary(fn: str, x: Array) -> Array:
    """A function of one array in its own type, without NumPy's warnings."""
    with np.errstate(all="ignore"):
        if x.dtype.kind in "iu":
            return as_array(INTEGER_UNARY[fn](x))
        return as_array(CONDITION_UNARY[fn](x)) if x.dtype == np.bool_ else widen(UNARY[fn](x))


def binary(fn: str, x: Array, y: Array) -> Array:
    """A function of two arrays in their type, without NumPy's warnings."""
    with np.errstate(all="ignore"):
        if x.dtype.kind in "iu":
            return as_array(INTEGER_BINARY[fn](x, y))
        if x.dtype == np.bool_:
            return as_array(CONDITION_BINARY[fn](x, y))
        return widen(BINARY[fn](x, y))


def compare(fn: str, x: Array, y: Array) -> Array:
    """``COMPARE[fn]``, booleans."""
    return as_array(COMPARE[fn](x, y))


def bitcast(x: Array) -> Array:
    """The bits of f32 as i32, or of i32 as f32; nothing is known of those of what is inexact."""
    target = np.dtype(np.int32 if x.dtype == np.float32 else np.float32)
    if isinstance(x, Estimate):
        value = np.ascontiguousarray(x.value).reshape(x.shape).view(target)
        return posing(estimate.unsure_where(Estimate(value), x.error > 0))
    return np.ascontiguousarray(x).reshape(x.shape).view(target)


def order_by_bits(x: Array, bits: tuple[int, int], axis: int, unsigned: bool) -> Array:
    """The places of integers in the order of their bits from the first up to the second, as a
    number with a sign unless ``unsigned``; what is alike there as it stands."""
    first, end = bits
    number = x.view(f"u{x.dtype.itemsize}").astype(np.uint64) << np.uint64(64 - end)
    if not unsigned:
        number = number.view(np.int64)
    return np.argsort(number >> number.dtype.type(64 - end + first), axis, kind="stable")


def sort(x: Array, axis: int, count: int, bits: tuple[int, int] | None = None) -> Array:
    """The ``count`` least of integers along an axis, in their order; where one is not known, none
    of the row is.

    Raises PolycError ``OrderBroken`` where ``bits`` are said to decide, and do not.
    """
    where = (*(slice(None) for _ in range(axis)), slice(count))
    if not isinstance(x, Estimate):
        if bits is not None:
            order = order_by_bits(x, bits, axis, x.dtype.kind == "u")
            if not np.array_equal(np.take_along_axis(x, order, axis), np.sort(x, axis)):
                raise PolycError(
                    "OrderBroken",
                    f"a sort says that its integers are in the order of their bits {bits[0]} to "
                    f"{bits[1]}, and as they stand where these are alike, and they are not; leave "
                    "that out, or say which bits decide",
                )
        return np.sort(x, axis)[where]
    found = Estimate(np.sort(x.value, axis))
    if not x.exact:
        unknown = np.any(x.error > 0, axis=axis, keepdims=True)
        found = estimate.unsure_where(found, np.broadcast_to(unknown, x.shape))
    return posing(found[where])


def classify(fn: str, x: Array) -> Array:
    """Whether numbers are finite, infinite or none, booleans."""
    with np.errstate(all="ignore"):
        if fn == "isnan":
            return as_array(np.not_equal(x, x))
        relation = np.equal if fn == "isinf" else np.less
        return as_array(relation(np.abs(x), _f32(math.inf)))


def _of_conditions(fn: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Whether any or all hold: the max or min of 1 where one does, else 0, above 0."""
    number = np.where(x, _f32(1), _f32(0))
    return as_array(np.greater(reduce("max" if fn == "any" else "min", number, axes), _f32(0)))


def reduce(fn: str, x: Array, axes: tuple[int, ...]) -> Array:
    """Sum, product, max or min of an array over ``axes``; what is neutral of nothing.

    Real numbers are summed in f32, integers in their own type, in which they wrap.  Also any and
    all of booleans.
    """
    with np.errstate(all="ignore"):
        if fn in ("any", "all"):
            return _of_conditions(fn, x, axes)
        if x.dtype.kind in "iu":
            start = x.dtype.type(neutral(fn, element_of(x.dtype)))
            ufunc = np.add if fn == "sum" else JOINED[fn]
            return as_array(ufunc.reduce(x, axis=axes, dtype=x.dtype, initial=start))
        if fn == "sum":
            return sum_over(x, axes)
        joined = JOINED[fn]
        return as_array(joined.reduce(x, axis=axes, initial=_f32(IDENTITY[fn])))


def sum_over(x: Array, axes: tuple[int, ...], kind: type[np.floating[Any]] = np.float32) -> Array:
    """Sums over ``axes`` in ``kind``, pairs of pairs wherever the axes lie.

    NumPy adds one element after another along an axis whose neighbours are far in memory: over
    2500 equal numbers that is off by hundreds of ulps, as no kernel's tree of sums is.  An Estimate
    sums by itself.
    """
    if type(x) is not np.ndarray:
        return as_array(np.sum(x, axis=axes, dtype=kind))
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    count = math.prod(x.shape[axis] for axis in axes)
    lines = np.ascontiguousarray(np.transpose(x, (*kept, *axes)).reshape(*shape, count))
    return as_array(np.sum(lines, axis=-1, dtype=kind))


SCANNED: dict[str, np.ufunc] = {"sum": np.add, **JOINED}
"""How a scan joins an element with those before it."""


def scan(
    fn: str,
    x: Array,
    axis: int,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    kind: type[np.floating[Any]] = np.float32,
) -> Array:
    """Sums, products, maxima or minima of the elements along an axis up to each one.

    Real numbers are computed in ``kind`` and given as f32, integers in their own type, in which
    they wrap.
    """
    x = np.moveaxis(x, axis, -1)
    if reverse:
        x = x[..., ::-1]
    with np.errstate(all="ignore"):
        plain = x.value if isinstance(x, Estimate) else x
        dtype = plain.dtype if plain.dtype.kind in "iu" else kind
        found = widen(as_array(SCANNED[fn].accumulate(plain, -1, dtype=dtype)))
    start = found.dtype.type(neutral(fn, element_of(found.dtype)))
    if isinstance(x, Estimate):
        errors = estimate.scanned(fn, x, found)
        found = cast(Array, estimate.start_at(errors, start) if exclusive else errors)
    elif exclusive:
        head = np.full((*found.shape[:-1], min(1, found.shape[-1])), start)
        found = np.concatenate([head, found[..., :-1]], -1)
    if reverse:
        found = found[..., ::-1]
    return np.moveaxis(found, -1, axis)
