"""Arrays that know how far a right computation of them may be off (S0.6).

An ``Estimate`` is a NumPy array with two errors an element, in its own unit.  Playback runs on it
as it runs on arrays, so that what is computed is what the errors are derived from: each function
adds its unit roundoffs times the size of its terms, and carries on the errors of its operands by
its own slope.  This is running error analysis (N. J. Higham, *Accuracy and Stability of Numerical
Algorithms*, 2nd edition, sections 3.3 and 4.2), with errors of two kinds:

- ``random`` errors of unlike elements are independent: a sum of n of them grows as √n;
- ``shared`` errors may be the same everywhere, as those of a row's maximum or mean are along the
  row, and add up in full.  What is repeated along an axis becomes shared.

An error is a size that is typical for the worst element of a large array, not a bound of every
conceivable rounding; ``playback/agreement.py`` has the factor that separates right from wrong, and
what right kernels were seen to need.  An infinite error says that nothing is known: where a sum of
finite terms may overflow in one order and not in another, or a divisor may be 0.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]

U = 2.0**-24
"""The unit roundoff of f32."""

FLOOR = 2.0**-126
"""What a function may lose at the lower end of f32: some instructions flush subnormals to zero."""

FACTOR = 4.0
"""Errors that a right result may be off (``playback/agreement.py``).

What jumps, as a rounding does, or bends is asked for this many errors, and not for one.
"""

UFUNCS: dict[str, Callable[..., Any]] = {}
"""The rule of each of NumPy's functions of elements, by its name; other files of this room add."""

REDUCTIONS: dict[str, Callable[..., Any]] = {}
"""The rule of ``reduce`` of NumPy's functions of elements."""

INTEGERS: dict[str, Callable[..., Any]] = {}
"""The rules of integers: of each method of NumPy's functions, and of a ``cast`` to or from them."""

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""The rule of each of NumPy's functions of arrays that playback uses."""


class Estimate:
    """An array ``value`` and its errors, None where the value is exact.

    Errors are f64 of the value's shape; those of booleans are 0 or infinite, for conditions that
    rounding may turn over.  It takes the NumPy functions that playback uses; any other raises
    TypeError, so that no error is lost in silence.
    """

    __slots__ = ("random", "shared", "value")

    def __init__(
        self, value: Any, shared: Array | None = None, random: Array | None = None
    ) -> None:
        self.value: Array = np.asarray(value)
        self.shared = shared
        self.random = random

    # What an array has ------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        return self.value.shape

    @property
    def ndim(self) -> int:
        return self.value.ndim

    @property
    def size(self) -> int:
        return self.value.size

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.value.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        return self.value.strides

    @property
    def T(self) -> Estimate:
        return self.moved(np.transpose)

    @property
    def exact(self) -> bool:
        """Whether every computation gives the same value."""
        return self.shared is None and self.random is None

    @property
    def error(self) -> Array:
        """Both errors together, f64 of the value's shape."""
        return errors_of(self, "shared") + errors_of(self, "random")

    def __len__(self) -> int:
        return len(self.value)

    def __repr__(self) -> str:
        return f"Estimate({self.value!r}, error={self.error!r})"

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError("an Estimate is no plain array; use .value where its errors do not matter")

    def moved(self, move: Callable[[Array], Array]) -> Estimate:
        """The result of a movement, which treats values and errors alike."""
        shared, random = (None if e is None else move(e) for e in (self.shared, self.random))
        return Estimate(move(self.value), shared, random)

    def __getitem__(self, where: Any) -> Estimate:
        where = _plain(where)
        return self.moved(lambda a: np.asarray(a[where]))

    def __setitem__(self, where: Any, other: Any) -> None:
        """Values and errors of a part, in place as in an array; of memory made by ``memory``."""
        found, where = as_estimate(other), _plain(where)
        if self.shared is None or self.random is None:
            raise TypeError("an exact Estimate is not written to; make one by Estimate.memory")
        self.value[where] = found.value
        self.shared[where] = errors_of(found, "shared")
        self.random[where] = errors_of(found, "random")

    @staticmethod
    def memory(value: Array) -> Estimate:
        """``value`` as memory that is written to; views of it write to it too."""
        return Estimate(value, np.zeros(value.shape), np.zeros(value.shape))

    def astype(self, dtype: Any, copy: bool = True) -> Estimate:
        """As an array's: without ``copy``, what is of the type already is itself, a view too."""
        if not copy and self.dtype == np.dtype(dtype):
            return self
        return rounded(self, np.dtype(dtype), reproducible=True)

    def view(self, dtype: Any) -> Estimate:
        """The same bits of integers as another type of their width."""
        return Estimate(self.value.view(dtype), self.shared, self.random)

    def copy(self) -> Estimate:
        return self.moved(np.copy)

    def reshape(self, *shape: Any) -> Estimate:
        return self.moved(lambda a: a.reshape(*shape))

    def transpose(self, *axes: Any) -> Estimate:
        return self.moved(lambda a: a.transpose(*axes))

    def swapaxes(self, a: int, b: int) -> Estimate:
        return self.moved(lambda x: x.swapaxes(a, b))

    def sum(self, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Estimate:
        return np.sum(self, axis=axis, keepdims=keepdims, dtype=dtype)  # pyright: ignore

    def max(self, axis: Any = None, keepdims: bool = False) -> Estimate:
        return np.max(self, axis=axis, keepdims=keepdims)  # pyright: ignore

    def mean(self, axis: Any = None, keepdims: bool = False) -> Estimate:
        total = self.sum(axis, keepdims)
        return total / np.float32(self.size / max(1, total.size))

    # Operators --------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return np.add(self, other)

    def __radd__(self, other: Any) -> Any:
        return np.add(other, self)

    def __sub__(self, other: Any) -> Any:
        return np.subtract(self, other)

    def __rsub__(self, other: Any) -> Any:
        return np.subtract(other, self)

    def __mul__(self, other: Any) -> Any:
        return np.multiply(self, other)

    def __rmul__(self, other: Any) -> Any:
        return np.multiply(other, self)

    def __truediv__(self, other: Any) -> Any:
        return np.divide(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return np.divide(other, self)

    def __matmul__(self, other: Any) -> Any:
        return np.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return np.matmul(other, self)

    def __neg__(self) -> Any:
        return np.negative(self)

    def __and__(self, other: Any) -> Any:
        return np.logical_and(self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return np.logical_or(self, other)

    __ror__ = __or__

    def __invert__(self) -> Any:
        return np.logical_not(self)

    def __lt__(self, other: Any) -> Any:
        return np.less(self, other)

    def __le__(self, other: Any) -> Any:
        return np.less_equal(self, other)

    def __gt__(self, other: Any) -> Any:
        return np.greater(self, other)

    def __ge__(self, other: Any) -> Any:
        return np.greater_equal(self, other)

    def __eq__(self, other: object) -> Any:
        return np.equal(self, other)  # pyright: ignore

    def __ne__(self, other: object) -> Any:
        return np.not_equal(self, other)  # pyright: ignore

    __hash__ = None  # pyright: ignore

    # NumPy's functions ------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *args: Any, **kwargs: Any) -> Any:
        name, found = ufunc.__name__, [as_estimate(a) for a in args]
        with np.errstate(all="ignore"):
            if method in INTEGERS and _are_integers(found):
                return INTEGERS[method](ufunc, *found, **kwargs)
            if method == "__call__" and name in UFUNCS and not kwargs:
                return UFUNCS[name](*found)
            if method == "reduce" and name in REDUCTIONS:
                return REDUCTIONS[name](found[0], **kwargs)
        return NotImplemented

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rule = FUNCTIONS.get(function)
        if rule is None:
            return NotImplemented
        with np.errstate(all="ignore"):
            return rule(*args, **kwargs)


def as_estimate(x: Any) -> Estimate:
    """``x`` itself, or an array or number that is exact."""
    return x if isinstance(x, Estimate) else Estimate(x)


def _plain(where: Any) -> Any:
    """An index whose conditions are plain arrays."""
    if isinstance(where, tuple):
        return tuple(_plain(w) for w in cast("tuple[Any, ...]", where))
    return where.value if isinstance(where, Estimate) else where


def errors_of(x: Estimate, name: str) -> Array:
    found = getattr(x, name)
    return np.broadcast_to(np.float64(0.0), x.shape) if found is None else found


def made(value: Array, shared: Array | None, random: Array | None, *of: Estimate) -> Estimate:
    """An Estimate whose errors are consistent with its value.

    A value that is not finite is certain where all that it is made ``of`` is; an error that came
    out as NaN, or beyond what f32 holds, knows nothing.
    """
    if shared is None and random is None:
        return Estimate(value)
    zero = np.zeros(value.shape)
    total = (zero if shared is None else shared) + (zero if random is None else random)
    lost = np.isnan(total) | (total > FINITE)
    unknown = zero.astype(np.bool_)
    for x in of:
        if not x.exact:
            unknown = unknown | np.isinf(x.error)
    finite = np.isfinite(value)
    unsure = np.where(finite, lost, False) | unknown

    def cleaned(e: Array | None) -> Array | None:
        return None if e is None else np.where(unsure, np.inf, np.where(finite, e, 0.0))

    shared, random = cleaned(shared), cleaned(random)
    if shared is None and unsure.any():
        shared = np.where(unsure, np.inf, 0.0)
    return Estimate(value, shared, random)


FINITE = float(np.finfo(np.float32).max)


def unsure_where(x: Estimate, doubtful: Array) -> Estimate:
    """``x``, with nothing known where ``doubtful``."""
    if not doubtful.any():
        return x
    return Estimate(x.value, np.where(doubtful, np.inf, errors_of(x, "shared")), x.random)


def plus(*errors: Array | None) -> Array | None:
    there = [e for e in errors if e is not None]
    if not there:
        return None
    found = there[0]
    for e in there[1:]:
        found = found + e
    return found


def times(factor: Any, error: Array | None) -> Array | None:
    """A factor times an error; nothing times what is not known is nothing."""
    if error is None:
        return None
    return np.where(factor == 0, 0.0, np.asarray(factor, np.float64) * error)


def in_f64(x: Estimate) -> Array:
    return x.value.astype(np.float64)


def repeated(x: Estimate, shape: tuple[int, ...]) -> Estimate:
    """``x`` in a larger shape.  What is repeated is the same error many times: shared."""
    if x.shape == shape:
        return x

    def move(array: Array) -> Array:
        return np.broadcast_to(array, shape)

    if int(np.prod(shape)) <= x.size:
        return x.moved(move)
    return Estimate(x.value, plus(x.shared, x.random), None).moved(move)


def together(*args: Estimate) -> list[Estimate]:
    shape = np.broadcast_shapes(*(a.shape for a in args))
    return [repeated(a, shape) for a in args]


_TERMS: ContextVar[str | None] = ContextVar("terms", default=None)


@contextmanager
def products_of(precision: str | None) -> Generator[None]:
    """In here the terms of sums are products of a precision; None is exact ones."""
    token = _TERMS.set(precision)
    try:
        yield
    finally:
        _TERMS.reset(token)


def precision_of_products() -> str | None:
    """The precision that ``products_of`` says of sums' terms."""
    return _TERMS.get()


_FREELY: ContextVar[bool] = ContextVar("freely", default=False)


@contextmanager
def rounding_freely() -> Generator[None]:
    """In here no rounding of what is inexact is reproducible.

    For programs below the frontend, whose casts may be of a streamed softmax's weights.
    """
    token = _FREELY.set(True)
    try:
        yield
    finally:
        _FREELY.reset(token)


def _are_integers(values: Sequence[Estimate]) -> bool:
    """Whether a function of these computes with integers: Python's own may stand beside floats."""
    kinds = {a.dtype.kind for a in values}
    return not kinds.isdisjoint("iu") and kinds <= {"i", "u", "b"}


def _kinds(*types: np.dtype[Any]) -> str:
    return "".join(t.kind for t in types)


def rounded(x: Estimate, dtype: np.dtype[Any], reproducible: bool) -> Estimate:
    """``x`` rounded to ``dtype``.

    Where it is ``reproducible`` that every way of computing rounds here, values that are near
    each other round alike, but for those beside a border between two.  Else another may round a
    multiple of it, or not at all: half an ulp of each is lost, and nothing is known of what is
    beyond the type.
    """
    if "i" in (kinds := _kinds(x.dtype, dtype)) or "u" in kinds:
        return INTEGERS["cast"](x, dtype)
    reproducible = reproducible and not (_FREELY.get() and not x.exact)
    with np.errstate(all="ignore"):
        value = x.value.astype(dtype)
        if np.can_cast(x.dtype, dtype) or (x.exact and (reproducible or x.dtype == np.float64)):
            return Estimate(value, x.shared, x.random)
        if dtype == np.bool_:
            doubtful = not x.exact and (np.abs(in_f64(x)) <= FACTOR * x.error) & (x.error > 0)
            return unsure_where(Estimate(value), np.asarray(doubtful))
        if x.exact:
            low = high = value.astype(np.float64)
        else:
            low, high = (
                (in_f64(x) + s * x.error).astype(np.float32).astype(dtype).astype(np.float64)
                for s in (-FACTOR, FACTOR)
            )
        wide, half = value.astype(np.float64), dtype == np.float16
        jump = np.fmax(np.abs(high - wide), np.abs(wide - low))
        if dtype == np.float32:
            # What is rounded from f64 is a sum, which was charged for this already.
            jump = np.where(np.isfinite(jump), errors_of(x, "random"), np.inf)
        else:
            # A value beside a border jumps an ulp, and several of a sum may jump alike.
            ulp = np.maximum(
                np.abs(wide) * 2.0 ** -(10 if half else 7), 2.0 ** -(24 if half else 133)
            )
            jump = np.maximum(jump / FACTOR, np.minimum(jump, ulp))
            if not reproducible:
                jump = np.maximum(jump, ulp / 2 * (x.value != 0))
        same = (low == wide) & (high == wide)
        jump = np.where(np.isfinite(wide), jump, np.where(same, 0.0, np.inf))
        found = made(value, x.shared, jump, x)
        if reproducible:
            return found
        return unsure_where(found, np.asarray(~np.isfinite(wide) & np.isfinite(x.value)))


def rounding_allowed(x: Estimate, dtype: np.dtype[Any]) -> Estimate:
    """``x``, which another computation may have rounded to ``dtype`` at any scale.

    The values stay; half an ulp of each may be lost.
    """
    with np.errstate(all="ignore"):
        half = dtype == np.float16
        size = np.where(np.isfinite(x.value), np.abs(in_f64(x)), 0.0)
        ulp = np.maximum(size * 2.0 ** -(10 if half else 7), 2.0 ** -(24 if half else 133))
        return made(x.value, x.shared, plus(x.random, ulp / 2 * (x.value != 0)), x)


def unsure_beyond(x: Estimate, most: float) -> Estimate:
    """``x``, with nothing known where it is more than ``most``."""
    return unsure_where(x, np.asarray(np.abs(in_f64(x)) > most))
