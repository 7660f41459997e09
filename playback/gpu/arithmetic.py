"""Arithmetic of ``arith`` and ``math`` on values of a warp.

A value is a Python number where all lanes agree, else an array with a row a lane: int32 for
``index`` and i32, so that NumPy wraps as the hardware does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from xdsl.dialects import arith, math
from xdsl.dialects.builtin import IndexType, IntegerType
from xdsl.ir import Attribute, Operation

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.hardware import scalar_type
from polyc.playback import functions
from polyc.playback.gpu.lanes import Array, Value, is_lanes, some

_INTEGERS: dict[int, type[np.generic]] = {
    1: np.bool_,
    8: np.int8,
    16: np.int16,
    32: np.int32,
    64: np.int64,
}


@cache
def dtype_of(kind: Attribute) -> np.dtype[Any]:
    """The NumPy type of a scalar, or of a vector's elements."""
    scalar = scalar_type(kind)
    if isinstance(scalar, IndexType):
        return np.dtype(np.int32)
    if isinstance(scalar, IntegerType):
        found = _INTEGERS.get(scalar.bitwidth)
        if found is None:
            raise PolycError("NotSimulated", f"the simulator has no integers like {scalar}")
        return np.dtype(found)
    return functions.dtype_of(scalar)


def w32(value: Value) -> Value:
    """A 32-bit result: Python's integers are cut to what a register holds."""
    if isinstance(value, int) and not -0x80000000 <= value <= 0x7FFFFFFF:
        return (value + 0x80000000) % 0x100000000 - 0x80000000
    return value


def wrap(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def as_lanes(value: Value, dtype: np.dtype[Any]) -> Array:
    """The value as an array that broadcasts over lanes."""
    found: Array = functions.as_array(value).astype(dtype, copy=False)
    return found


# Control -------------------------------------------------------------------------------


def split(m: Any, condition: Value) -> tuple[Any, Any]:
    """Masks of the lanes for which a condition holds, and of the others.

    None is all lanes, False nobody.
    """
    if not is_lanes(condition):
        return (m, False) if condition else (False, m)
    yes: Array = condition if m is None else condition & m
    count = int(np.count_nonzero(yes))
    if count == 0:
        return False, m
    if m is None:
        if count == 32:
            return None, False
        return yes, ~condition
    no = m & ~condition
    return (yes, no) if some(no) else (m, False)


def merge(yes: Any, no: Any, a: Value, b: Value) -> Value:
    """What a value is after two branches, taken under ``yes`` and ``no``."""
    if no is False:
        return a
    if yes is False:
        return b
    return choose(yes, a, b)


def choose(condition: Value, a: Value, b: Value) -> Value:
    """``a`` where the condition holds, else ``b``."""
    if not is_lanes(condition):
        return a if condition else b
    wide = max(np.ndim(a), np.ndim(b))
    mask: Array = condition[:, None] if wide == 2 else condition
    chosen: Array = np.where(mask, np.asarray(a), np.asarray(b))
    return chosen


def select(dtype: np.dtype[Any]) -> Callable[[Value, Value, Value], Value]:
    """``choose`` of integers of a type, of which a number of all lanes says nothing."""

    def run(condition: Value, a: Value, b: Value) -> Value:
        found = choose(condition, a, b)
        return found.astype(dtype, copy=False) if is_lanes(found) else found

    return run


# Integers ------------------------------------------------------------------------------


def _unsigned(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")


_BITWISE: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AndIOp: lambda a, b: a & b,
    arith.OrIOp: lambda a, b: a | b,
    arith.XOrIOp: lambda a, b: a ^ b,
}
_WRAPPING: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.ShLIOp: lambda a, b: a << b,
    arith.ShRSIOp: lambda a, b: a >> b,
}
_MODULO_2: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.AddiOp: np.logical_xor,
    arith.SubiOp: np.logical_xor,
    arith.MuliOp: np.logical_and,
}
_SIGNED_CHOICE: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.MinSIOp: np.minimum,
    arith.MaxSIOp: np.maximum,
}
_UNSIGNED: dict[type[Operation], Callable[[Any, Any], Any]] = {
    arith.MinUIOp: np.minimum,
    arith.MaxUIOp: np.maximum,
    arith.ShRUIOp: np.right_shift,
}
_DIVISION: dict[type[Operation], tuple[bool, Callable[[Any, Any], Any]]] = {
    arith.DivUIOp: (False, lambda a, b: a // b),
    arith.RemUIOp: (False, lambda a, b: a % b),
    arith.DivSIOp: (True, lambda a, b: (a - np.fmod(a, b)) // b),
    arith.RemSIOp: (True, np.fmod),
    arith.FloorDivSIOp: (True, lambda a, b: a // b),
    arith.CeilDivSIOp: (True, lambda a, b: -(-a // b)),
}

DIVISIONS = tuple(_DIVISION)


def integer(kind: type[Operation], dtype: np.dtype[Any]) -> Callable[..., Any] | None:
    """The function of an integer op on values of ``dtype``; None for an op not listed."""
    if kind in _BITWISE:
        return _BITWISE[kind]
    if dtype == np.bool_:
        return _MODULO_2.get(kind)
    bits = dtype.itemsize * 8
    if kind in _WRAPPING:
        plain = _WRAPPING[kind]

        def wrapping(a: Value, b: Value) -> Value:
            if is_lanes(a) or is_lanes(b):
                return plain(a, b)
            return wrap(plain(a, b), bits)

        return wrapping
    if kind in _SIGNED_CHOICE:
        pick = _SIGNED_CHOICE[kind]

        def signed(a: Value, b: Value) -> Value:
            found = pick(a, b)
            return found if is_lanes(a) or is_lanes(b) else int(found)

        return signed
    if kind in _UNSIGNED:
        work, unsigned = _UNSIGNED[kind], _unsigned(dtype)

        def natural(a: Value, b: Value) -> Value:
            x, y = as_lanes(a, dtype).view(unsigned), as_lanes(b, dtype).view(unsigned)
            found = np.asarray(work(x, y)).view(dtype)
            return found if is_lanes(a) or is_lanes(b) else int(found)

        return natural
    return None


def division(kind: type[Operation], dtype: np.dtype[Any]) -> Callable[..., Any]:
    """The function of a division: ``(values, whether a divisor is 0)``."""
    signed, work = _DIVISION[kind]
    unsigned = _unsigned(dtype)

    def divide(a: Value, b: Value) -> tuple[Value, Any]:
        x, y = as_lanes(a, dtype), as_lanes(b, dtype)
        if not signed:
            x, y = x.view(unsigned), y.view(unsigned)
        zero = y == 0
        if not (is_lanes(a) or is_lanes(b)):
            if zero:
                return -1, True
            if kind is arith.DivSIOp:
                quotient = abs(int(x)) // abs(int(y))
                return (quotient if (a < 0) == (b < 0) else -quotient), False
            if kind is arith.RemSIOp:
                rest = abs(int(x)) % abs(int(y))
                return (rest if a >= 0 else -rest), False
            return wrap(int(work(int(x), int(y))), dtype.itemsize * 8), False
        whole = np.int64 if signed else np.uint64
        found = work(x.astype(whole), np.where(zero, 1, y).astype(whole))
        return np.where(zero, -1, found.astype(dtype)).astype(dtype), zero

    return divide


_COMPARE: tuple[Callable[[Any, Any], Any], ...] = (
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
)


def compare_integers(predicate: int, dtype: np.dtype[Any]) -> Callable[..., Any]:
    """The relation of ``arith.cmpi``: eq, ne, signed lt le gt ge, unsigned lt le gt ge."""
    if predicate < 6:
        return _COMPARE[predicate]
    work, unsigned = _COMPARE[predicate - 4], _unsigned(dtype)

    def natural(a: Value, b: Value) -> Value:
        found = work(as_lanes(a, dtype).view(unsigned), as_lanes(b, dtype).view(unsigned))
        return found if is_lanes(a) or is_lanes(b) else bool(found)

    return natural


def compare_floats(predicate: int) -> Callable[..., Any]:
    """The relation of ``arith.cmpf``: false, ordered, unordered, true."""
    ordered = (np.equal, np.greater, np.greater_equal, np.less, np.less_equal, np.not_equal)

    def either_nan(a: Value, b: Value) -> Any:
        return np.isnan(a) | np.isnan(b)

    def run(a: Value, b: Value) -> Value:
        a, b = as_lanes(a, np.dtype(np.float32)), as_lanes(b, np.dtype(np.float32))
        match predicate:
            case 0 | 15:
                found = np.full(np.broadcast(a, b).shape, predicate == 15)
            case 7:
                found = ~either_nan(a, b)
            case 14:
                found = either_nan(a, b)
            case p if p < 7:
                found = ordered[p - 1](a, b) & ~either_nan(a, b)
            case p:
                found = ordered[p - 8](a, b) | either_nan(a, b)
        return found if np.ndim(found) else bool(found)

    return run


# Floats --------------------------------------------------------------------------------


def _rsqrt(x: Value) -> Value:
    return np.float32(1) / np.sqrt(x)


def _played(name: str) -> Callable[[Value], Value]:
    """A function that is playback's own, and takes arrays alone."""
    of_arrays = functions.UNARY[name]
    return lambda x: of_arrays(functions.as_array(x))


def _atan2(y: Value, x: Value) -> Value:
    return functions.atan2(functions.as_array(y), functions.as_array(x))


def _fma(a: Value, b: Value, c: Value) -> Value:
    """One rounding; the product of two f32 is exact in f64, and its sum all but."""
    x, y, z = (as_lanes(v, np.dtype(np.float64)) for v in (a, b, c))
    return (x * y + z).astype(np.float32)


FLOAT: dict[type[Operation], Callable[..., Any]] = {
    arith.AddfOp: np.add,
    arith.SubfOp: np.subtract,
    arith.MulfOp: np.multiply,
    arith.DivfOp: np.divide,
    arith.NegfOp: np.negative,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    math.AbsFOp: np.abs,
    math.AcosOp: _played("acos"),
    math.AcoshOp: _played("acosh"),
    math.AsinOp: _played("asin"),
    math.AsinhOp: _played("asinh"),
    math.AtanOp: _played("atan"),
    math.Atan2Op: _atan2,
    math.AtanhOp: _played("atanh"),
    math.CbrtOp: _played("cbrt"),
    math.CeilOp: np.ceil,
    math.CosOp: _played("cos"),
    math.CoshOp: _played("cosh"),
    math.Exp2Op: np.exp2,
    math.ExpM1Op: _played("expm1"),
    math.ExpOp: np.exp,
    math.FloorOp: np.floor,
    math.Log10Op: _played("log10"),
    math.Log1pOp: _played("log1p"),
    math.Log2Op: np.log2,
    math.LogOp: np.log,
    math.PowFOp: np.power,
    math.RoundEvenOp: np.rint,
    math.SinOp: _played("sin"),
    math.SinhOp: _played("sinh"),
    math.SqrtOp: np.sqrt,
    math.TanOp: _played("tan"),
    math.TanhOp: np.tanh,
    math.TruncOp: np.trunc,
    math.RsqrtOp: _rsqrt,
    math.ErfOp: _played("erf"),
    math.FmaOp: _fma,
}
"""Functions of floats, as docs/semantics.md gives them for every layer."""


def cast(dtype: np.dtype[Any]) -> Callable[[Value], Value]:
    """Conversion by value: rounding to nearest even, integers cut to their bits."""

    def run(value: Value) -> Value:
        if is_lanes(value):
            return value.astype(dtype)
        if dtype.kind == "i":
            return wrap(int(value), dtype.itemsize * 8)
        if dtype.kind == "b":
            return bool(int(value) & 1)
        if dtype.kind == "f" and isinstance(value, int):
            # NumPy would round a large one twice.
            whole = np.uint64 if value > np.iinfo(np.int64).max else np.int64
            return np.asarray(value, whole).astype(dtype)[()]
        return dtype.type(value)

    return run


def cast_unsigned(source: np.dtype[Any], dtype: np.dtype[Any]) -> Callable[[Value], Value]:
    """Conversion of what an integer's bits say without a sign."""
    if source == np.bool_:
        return cast(dtype)
    plain, unsigned = cast(dtype), _unsigned(source)

    def run(value: Value) -> Value:
        if is_lanes(value):
            # What was chosen between lanes and a number is in a wider type.
            return as_lanes(value, source).view(unsigned).astype(dtype)
        return plain(int(value) % (1 << source.itemsize * 8))

    return run


def cut(dtype: np.dtype[Any], unsigned: bool) -> Callable[[Value], Value]:
    """A float as an integer, cut towards 0; one that the type does not hold is anything."""
    held = _unsigned(dtype) if unsigned else dtype

    def run(value: Value) -> Value:
        with np.errstate(all="ignore"):
            found = np.asarray(value).astype(held).view(dtype)
        return found if is_lanes(value) else int(found)

    return run


def truncate(source: np.dtype[Any], dtype: np.dtype[Any]) -> Callable[[Value], Value]:
    """The low bits of an integer."""
    plain = cast(dtype)
    if dtype != np.bool_:
        return plain
    return lambda value: (value & 1) != 0


def bitcast(source: np.dtype[Any], dtype: np.dtype[Any]) -> Callable[[Value], Value]:
    """The same bits as another type."""

    def run(value: Value) -> Value:
        if is_lanes(value):
            return value.view(dtype)
        found = np.asarray(value, source).view(dtype)[()]
        return int(found) if dtype.kind in "iu" else found

    return run


def pack(values: list[Value], dtype: np.dtype[Any]) -> Array:
    """A vector in each lane from one value an element."""
    result = np.empty((32, len(values)), dtype)
    for i, value in enumerate(values):
        result[:, i] = value
    return result
