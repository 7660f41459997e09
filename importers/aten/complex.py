"""Complex numbers of a model, as two tensors of real ones: rotations of places, Fourier transforms.

Graphs have no complex elements.  Within a model a complex tensor is a ``Complex``, which no input
or output is; movements go to both of its parts.  A Fourier transform along an axis of known size is
a product with the matrix of its waves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import pi
from typing import Any, cast

from polyc.importers.aten.support import axis_of, refuse, to
from polyc.importers.registry import converter_of
from polyc.trace import functions as f
from polyc.trace.values import Value


@dataclass(frozen=True)
class Complex:
    """The real and the imaginary part of a tensor, f32 of one shape."""

    real: Value
    imag: Value


Part = "Value | float | int | complex"

PARTS: dict[str, Callable[..., Any]] = {}
"""What says an op of complex tensors, by its name without ``aten.`` and its overload."""


def _says(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        PARTS.update(dict.fromkeys(names, function))
        return function

    return register


MOVED = (
    *("view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "unsqueeze"),
    *("squeeze", "slice", "select", "split", "split_with_sizes", "unbind", "cat", "stack"),
    *("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "index_select", "index"),
    *("repeat", "flip", "roll", "constant_pad_nd", "sum", "mean", "as_strided", "unfold"),
)
"""Ops that are the same op of both parts."""


def complex_of(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """What an op of complex tensors is, or one that makes them.  Raises PolycError."""
    base = name.split(".")[1] if "." in name else name
    if base in PARTS:
        return PARTS[base](*args, **kwargs)
    convert = converter_of("torch", name, name.rpartition(".")[0])
    if base not in MOVED or convert is None:
        raise refuse(f"{name} of complex numbers is not known")
    real = convert(*_each(args, "real"), **_each(kwargs, "real"))
    imag = convert(*_each(args, "imag"), **_each(kwargs, "imag"))
    if isinstance(real, list | tuple):
        pairs = zip(cast("Sequence[Value]", real), cast("Sequence[Value]", imag), strict=True)
        return [Complex(a, b) for a, b in pairs]
    return Complex(real, imag)


def _each(given: Any, part: str) -> Any:
    if isinstance(given, Complex):
        return getattr(given, part)
    if isinstance(given, list | tuple):
        return [_each(one, part) for one in cast("Sequence[Any]", given)]
    if isinstance(given, dict):
        return {k: _each(v, part) for k, v in cast("dict[str, Any]", given).items()}
    return given


def _pair(x: Any) -> tuple[Any, Any]:
    """Both parts of what is complex, or real."""
    if isinstance(x, Complex):
        return x.real, x.imag
    if isinstance(x, complex):
        return x.real, x.imag
    return x, 0.0


def _made(real: Any, imag: Any) -> Complex:
    """Parts of one shape."""
    whole = real + imag * 0.0 if isinstance(imag, Value) else real
    return Complex(real.expand(*whole.shape), imag.expand(*whole.shape))


@_says("view_as_complex")
def view_as_complex(x: Value) -> Complex:
    return Complex(to(x[..., 0], "f32"), to(x[..., 1], "f32"))


@_says("view_as_real", "view_as_real_copy")
def view_as_real(x: Complex) -> Value:
    return f.stack([x.real, x.imag], x.real.ndim)


@_says("real")
def real(x: Any) -> Value:
    return x.real if isinstance(x, Complex) else x


@_says("imag")
def imag(x: Complex) -> Value:
    return x.imag


@_says("complex")
def complex_(a: Value, b: Value) -> Complex:
    return _made(a, b)


@_says("polar")
def polar(length: Value, angle: Value) -> Complex:
    return _made(length * f.cos(angle), length * f.sin(angle))


@_says("_to_copy", "to")
def to_copy(x: Any, *_: Any, dtype: str | None = None, **__: Any) -> Any:
    if isinstance(x, Complex):
        return x if dtype is None or dtype.startswith("complex") else to(x.real, dtype)
    one = to(x, "f32")
    return Complex(one, one * 0.0)


@_says("convert_element_type")
def convert_element_type(x: Any, dtype: str) -> Any:
    return to_copy(x, dtype=dtype)


@_says("abs")
def length(x: Complex) -> Value:
    return f.sqrt(x.real * x.real + x.imag * x.imag)


@_says("angle")
def angle(x: Complex) -> Value:
    return f.atan2(x.imag, x.real)


@_says("conj", "_conj", "conj_physical", "_conj_physical")
def conj(x: Complex) -> Complex:
    return Complex(x.real, -x.imag)


@_says("resolve_conj", "resolve_neg")
def resolved(x: Complex) -> Complex:
    return x


@_says("neg")
def neg(x: Complex) -> Complex:
    return Complex(-x.real, -x.imag)


@_says("exp")
def exp(x: Complex) -> Complex:
    size = f.exp(x.real)
    return Complex(size * f.cos(x.imag), size * f.sin(x.imag))


@_says("add")
def add(x: Any, y: Any, *, alpha: Any = 1) -> Complex:
    (a, b), (c, d) = _pair(x), _pair(y)
    if alpha != 1:
        c, d = c * alpha, d * alpha
    return _made(a + c, b + d)


@_says("sub")
def sub(x: Any, y: Any, *, alpha: Any = 1) -> Complex:
    (a, b), (c, d) = _pair(x), _pair(y)
    if alpha != 1:
        c, d = c * alpha, d * alpha
    return _made(a - c, b - d)


@_says("mul")
def mul(x: Any, y: Any) -> Complex:
    if not isinstance(x, Complex | complex):
        x, y = y, x
    (a, b), (c, d) = _pair(x), _pair(y)
    if not isinstance(y, Complex | complex):
        return _made(a * c, b * c)
    return _made(a * c - b * d, a * d + b * c)


@_says("div")
def div(x: Any, y: Any) -> Complex:
    (a, b), (c, d) = _pair(x), _pair(y)
    if not isinstance(y, Complex | complex):
        return _made(a / c, b / c)
    whole = c * c + d * d
    return _made((a * c + b * d) / whole, (b * c - a * d) / whole)


@_says("matmul", "mm", "bmm")
def matmul(x: Any, y: Any) -> Complex:
    if not isinstance(x, Complex):
        return Complex(f.matmul(x, y.real), f.matmul(x, y.imag))
    if not isinstance(y, Complex):
        return Complex(f.matmul(x.real, y), f.matmul(x.imag, y))
    (a, b), (c, d) = _pair(x), _pair(y)
    return Complex(f.matmul(a, c) - f.matmul(b, d), f.matmul(a, d) + f.matmul(b, c))


# Fourier transforms --------------------------------------------------------------------------


def _waves(rows: int, columns: int, period: int) -> tuple[Any, Any]:
    """Cosines and sines of so many whole waves, [rows, columns], exact in their phase."""
    import numpy as np

    phase = np.outer(np.arange(rows), np.arange(columns)) % period * (2 * pi / period)
    return np.cos(phase).astype(np.float32), np.sin(phase).astype(np.float32)


def _along(x: Value, axis: int, matrix: Any) -> Value:
    wide = x.permute(*[i for i in range(x.ndim) if i != axis], axis)
    made = f.matmul(wide, f.constant(matrix))
    return made.permute(*range(axis), x.ndim - 1, *range(axis, x.ndim - 1))


def _length(x: Value, axis: int) -> int:
    size = x.shape[axis]
    if not isinstance(size, int):
        raise refuse(f"a Fourier transform of {size} elements has no known waves; give a number")
    return size


def _transformed(x: Complex, axis: int, forward: bool) -> Complex:
    size = _length(x.real, axis)
    cos, sin = _waves(size, size, size)
    sin = -sin if forward else sin
    (a, b) = (_along(one, axis, cos) for one in (x.real, x.imag))
    (c, d) = (_along(one, axis, sin) for one in (x.real, x.imag))
    return Complex(a - d, b + c)


@_says("fft_c2c")
def fft_c2c(x: Complex, *, dim: Sequence[int], forward: bool) -> Complex:
    for one in dim:
        x = _transformed(x, axis_of(x.real, one), forward)
    return x


@_says("fft_r2c")
def fft_r2c(x: Value, *, dim: Sequence[int], onesided: bool) -> Complex:
    *others, last = (axis_of(x, one) for one in dim)
    size = _length(x, last)
    cos, sin = _waves(size, size // 2 + 1 if onesided else size, size)
    found = Complex(_along(x, last, cos), _along(x, last, -sin))
    return fft_c2c(found, dim=others, forward=True)


@_says("fft_c2r")
def fft_c2r(x: Complex, *, dim: Sequence[int], last_dim_size: int) -> Value:
    import numpy as np

    *others, last = (axis_of(x.real, one) for one in dim)
    x = fft_c2c(x, dim=others, forward=False)
    kept = last_dim_size // 2 + 1
    cos, sin = _waves(kept, last_dim_size, last_dim_size)
    # What is left out is the conjugate of what is there, but for the ends.
    twice = np.full((kept, 1), 2.0, np.float32)
    twice[0] = 1.0
    if last_dim_size % 2 == 0:
        twice[-1] = 1.0
    return _along(x.real, last, cos * twice) - _along(x.imag, last, sin * twice)
