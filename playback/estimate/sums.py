"""What reductions and contractions do to errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from polyc.dialects.common.precision import F32X3, TF32
from polyc.playback.estimate.array import (
    FACTOR,
    FINITE,
    FLOOR,
    FUNCTIONS,
    REDUCTIONS,
    UFUNCS,
    Array,
    Estimate,
    U,
    as_estimate,
    errors_of,
    in_f64,
    made,
    plus,
    precision_of_products,
    together,
    unsure_where,
)

TENSOR_CORE = 1.0
"""Units in the last place of f32 that tensor cores lose for each 16 products, always towards zero.

Up to 0.80 were seen on an H200, in sums of 65,536 products of one sign of f16, and 0.72 of bf16
(``bench/agreement.py``).  They align 16 products with the sum so far and cut off what does not fit
(M. Fasi, N. J. Higham, M. Mikaitis, S. Pranesh, *Numerical behavior of NVIDIA tensor cores*, 2021).
"""


COARSE = {TF32: 2.0**-10, F32X3: 2.0**-22}
"""What a term of a sum may be off where it is a product of a precision, of its own size: the half
of what cutting both factors off to TF32 loses at most, and the last place of f32."""

PRODUCTS = {None: 16, TF32: 4, F32X3: 4}
"""Products that tensor cores align with the sum at once, at least, by the precision."""


def _axes(axis: Any, rank: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    chosen = cast("Sequence[int]", axis if isinstance(axis, tuple | list) else (axis,))
    return tuple(int(a) % rank for a in chosen)


def _extreme(
    larger: bool, x: Estimate, axis: Any, keepdims: bool = False, initial: Any = None, **_: Any
) -> Estimate:
    """The largest or smallest along axes, with the errors of those that it may be."""
    axes = _axes(axis, x.ndim)
    joined = np.maximum if larger else np.minimum
    start = (-np.inf if larger else np.inf) if initial is None else initial
    start = x.dtype.type(start)
    value = joined.reduce(x.value, axis=axes, keepdims=True, initial=start)
    shared = random = None
    if not x.exact:
        sign = 1.0 if larger else -1.0
        least = sign * in_f64(x) - FACTOR * x.error
        best = np.max(least, axis=axes, keepdims=True, initial=-np.inf)
        may = ~(sign * in_f64(x) + FACTOR * x.error < best)
        shared, random = (
            np.max(np.where(may, errors_of(x, n), 0.0), axis=axes, keepdims=True, initial=0.0)
            for n in ("shared", "random")
        )
        # An error may be NaN's or unknown: then so is what is made of it.
        unknown = np.any(np.isinf(x.error) & may, axis=axes, keepdims=True)
        shared = np.where(unknown, np.inf, np.where(np.isfinite(value), shared, 0.0))
    found = Estimate(value, shared, random)
    return found if keepdims else found.moved(lambda a: np.squeeze(a, axes))


def _sum(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None, **_: Any) -> Estimate:
    """A sum along axes; the order of its terms is anyone's."""
    x = as_estimate(x)
    axes = _axes(axis, x.ndim)
    value = np.asarray(np.sum(x.value, axis=axes, keepdims=True, dtype=dtype))
    terms = in_f64(x)
    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    total = np.sum(np.abs(terms), axis=axes, keepdims=True)
    size, partial = _sizes(terms, axes)
    shared = None if x.shared is None else np.sum(x.shared, axis=axes, keepdims=True)
    random = None if x.random is None else np.sqrt(_squares(x.random, axes))
    cost = None if count < 2 else _accumulation(count, partial, size)
    if cost is not None and _whole(terms) and _errorless(x):
        cost = np.where(total <= EXACT, 0.0, cost)
    if (precision := precision_of_products()) is not None:
        shared = plus(shared, COARSE[precision] * (partial + size))
    found = made(value, shared, plus(random, cost), _any_unknown(x, axes))
    found = _of_finite_factors(found, precision)
    finite = np.all(np.isfinite(terms), axis=axes, keepdims=True)
    beyond = _overflow(total, lambda: np.sum(terms, axis=axes, keepdims=True), finite)
    found = unsure_where(found, beyond)
    return found if keepdims else found.moved(lambda a: np.squeeze(a, axes))


def _product_along(x: Estimate, axis: Any = 0, keepdims: bool = False, **_: Any) -> Estimate:
    """``np.multiply.reduce``: a product along axes, whose order is anyone's."""
    axes = _axes(axis, x.ndim)
    value = np.asarray(np.multiply.reduce(x.value, axis=axes, keepdims=True))

    def joined(terms: Array) -> Array:
        return np.asarray(np.multiply.reduce(terms, axis=axes, keepdims=True))

    count = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    found = product_of(x, value, joined, np.full(value.shape, float(count)))
    return found if keepdims else found.moved(lambda a: np.squeeze(a, axes))


def _scattered_product(x: Estimate, at: tuple[Array, ...], value: Array) -> Estimate:
    def joined(terms: Array) -> Array:
        found = np.ones(value.shape)
        np.multiply.at(found, at, terms)
        return found

    count = np.zeros(value.shape)
    np.add.at(count, at, 1.0)
    return product_of(x, value, joined, count)


def product_of(
    x: Estimate, value: Array, joined: Callable[[Array], Array], count: Array
) -> Estimate:
    """A product's errors: how much it grows where each factor is larger by its error.

    Whole numbers below 2**24 are exact.  Where the factors above 1 overflow without the others, or
    those below vanish, so may a part of the product, in one order and not in another.
    """
    size, error = np.abs(in_f64(x)), x.error
    whole = joined(size)
    moved = None if x.exact else (joined(size + FACTOR * error) - whole) / FACTOR
    real = np.isfinite(size)
    above = joined(np.where(real, np.maximum(size, 1.0), 1.0))
    below = joined(np.where(size > 0, np.minimum(size, 1.0), 1.0))

    def among(holds: Array) -> Array:
        """Whether one factor is such."""
        return joined(np.where(holds, 0.0, 1.0)) == 0

    cost = U * (count - 1) * np.abs(value) + FLOOR
    integers = ~among((size != np.rint(size)) | (error > 0)) & (above <= EXACT)
    exact = (count < 2) | (whole == 0) | integers
    found = made(value, moved, np.where(exact, 0.0, cost))
    overflows = (above > FINITE) & among(size < 1)
    vanishes = (below < FLOOR) & ((above > 1) | among(np.isinf(size)))
    doubtful = (count > 1) & (overflows | vanishes)
    return unsure_where(found, np.asarray(doubtful | among(np.isinf(error))))


def whole_numbers(x: Estimate) -> bool:
    """Whether all elements are integers, and exact."""
    return _whole(in_f64(x)) and _errorless(x)


def _squares(e: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(e * e, axis=axes, keepdims=True)


def _errorless(*args: Estimate) -> bool:
    """Whether no element has an error, also of memory that was written to."""
    return all(a.exact or not a.error.any() for a in args)


def _any_unknown(x: Estimate, axes: tuple[int, ...]) -> Estimate:
    """Whether any term is unknown, as an Estimate in the shape of the sum."""
    if x.exact:
        return Estimate(np.zeros(()))
    unknown = np.any(np.isinf(x.error), axis=axes, keepdims=True)
    return Estimate(np.zeros(unknown.shape), np.where(unknown, np.inf, 0.0))


def _sizes(terms: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """The root of the terms' squares, and the largest sum of a part of them in a row."""
    size = np.sqrt(_squares(terms, axes))
    if not terms.size:
        return size, size
    kept = [i for i in range(terms.ndim) if i not in axes]
    flat = np.transpose(terms, [*kept, *axes]).reshape(*(terms.shape[i] for i in kept), -1)
    sums = np.cumsum(flat, axis=-1)
    most = np.maximum(np.max(sums, -1), 0.0) - np.minimum(np.min(sums, -1), 0.0)
    shape = [1 if i in axes else n for i, n in enumerate(terms.shape)]
    return size, np.asarray(most).reshape(shape)


def _accumulation(count: int, partial: Array, size: Array) -> Array:
    """The roundings of ``count`` additions: each of the sum so far, independent of the others."""
    return U * np.sqrt(count) * (partial + size) / 2


def _whole(*terms: Array) -> bool:
    """Whether all are integers: their sums are exact, in any order, up to 2²⁴."""
    return all(bool((t == np.rint(t)).all()) for t in terms)


EXACT = 2.0**24
"""Up to here f32 has every integer."""


def _overflow(total: Array, sum_of: Callable[[], Array], finite: Array | bool = True) -> Array:
    """Where finite terms overflow in one order, and in another not, or to another infinity.

    ``total`` sums their sizes; ``sum_of`` gives their sum in f64, where that is asked for.
    """
    beyond = finite & (total > 0.999 * FINITE)
    if not beyond.any():
        return beyond
    one_sign = np.abs(sum_of()) >= 0.999 * total
    return beyond & ~(one_sign & (total > 1.001 * FINITE))


def contracted(
    a: Estimate, b: Estimate, product: Callable[[Any, Any], Any], count: int
) -> Estimate:
    """``product(a, b)``, which is bilinear and sums ``count`` products for each element.

    The products may be on tensor cores, whose sums lose towards zero.
    """
    value = np.asarray(product(a.value, b.value))
    if not count:
        return Estimate(value)
    x, y = (np.abs(in_f64(z)) for z in (a, b))
    finite = bool(np.isfinite(x).all() and np.isfinite(y).all())
    x, y = (np.where(np.isfinite(z), z, 0.0) for z in (x, y))

    def with_other(e: Array, power: int) -> Array:
        return np.asarray(product(e, y**power))

    def with_first(e: Array, power: int) -> Array:
        return np.asarray(product(x**power, e))

    size = np.sqrt(np.maximum(with_other(x * x, 2), 0.0))
    partial = np.where(np.isfinite(value), np.abs(value), 0.0).astype(np.float64)
    random = _accumulation(count, partial, size)
    precision = precision_of_products()
    steps = np.ceil(count / PRODUCTS[precision])
    shared = TENSOR_CORE * 2 * U * steps * (partial + size) * (count > 1)
    total = with_other(x, 1)
    if finite and _whole(x, y) and _errorless(a, b):
        shared, random = (np.where(total <= EXACT, 0.0, e) for e in (shared, random))
    if precision is not None:
        shared = shared + COARSE[precision] * (partial + size)
    if not a.exact:
        shared = shared + _carried(a, with_other)
    if not b.exact:
        shared = shared + _carried(b, with_first)
    if not (a.exact or b.exact):
        ends = [np.where(np.isinf(e.error), 0.0, e.error) for e in (a, b)]
        shared = shared + np.asarray(product(*ends))
    found = made(value, shared, random, Estimate(np.zeros(value.shape), shared))
    found = _of_finite_factors(found, precision)
    if not finite:
        return found
    beyond = _overflow(total, lambda: np.asarray(product(in_f64(a), in_f64(b))))
    return unsure_where(found, beyond)


def _of_finite_factors(x: Estimate, precision: str | None) -> Estimate:
    """``x``, with nothing known where its products have parts that infinities do not have."""
    return x if precision != F32X3 else unsure_where(x, ~np.isfinite(x.value))


def _carried(operand: Estimate, joined: Callable[[Array, int], Array]) -> Array:
    """What the errors of an operand do to sums of its products.

    ``joined(e, p)`` sums the products of ``e`` and the other operand's sizes to the power of
    ``p``.  One element's error is in many sums: from here on it is shared.
    """
    unknown = np.isinf(operand.error)
    shared, random = (
        np.where(unknown, 0.0, errors_of(operand, name)) for name in ("shared", "random")
    )
    found = joined(shared, 1) + np.sqrt(np.maximum(joined(random**2, 2), 0.0))
    if unknown.any():
        found = np.where(joined(unknown.astype(np.float64), 0) > 0, np.inf, found)
    return found


def accumulated(a: Any, b: Any) -> Any:
    """``a + b`` where ``b`` is a further part of a sum: its roundings are others than ``a``'s."""
    if not (isinstance(a, Estimate) or isinstance(b, Estimate)):
        return a + b
    a, b = together(as_estimate(a), as_estimate(b))
    value = a.value + b.value
    cost = U * np.abs(value.astype(np.float64))
    roots = np.sqrt(errors_of(a, "random") ** 2 + errors_of(b, "random") ** 2 + cost**2)
    return made(value, plus(a.shared, b.shared), roots, a, b)


def scattered(kind: str, source: Estimate, at: tuple[Array, ...], start: Array) -> Estimate:
    """``start`` with each element of ``source`` combined into the one at its place."""
    join = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[kind]
    value = start.copy()
    join.at(value, at, source.value)
    if kind == "prod":
        return _scattered_product(source, at, value)
    shared, random = np.zeros(start.shape), np.zeros(start.shape)
    if kind != "sum":
        np.maximum.at(shared, at, errors_of(source, "shared"))
        np.maximum.at(random, at, errors_of(source, "random"))
        return made(value, shared, random, Estimate(value, np.where(np.isinf(shared), np.inf, 0)))
    terms, count = in_f64(source), np.zeros(start.shape)
    np.add.at(shared, at, errors_of(source, "shared"))
    np.add.at(random, at, errors_of(source, "random") ** 2)
    np.add.at(count, at, 1.0)
    squares, total = np.zeros(start.shape), np.zeros(start.shape)
    np.add.at(squares, at, terms * terms)
    np.add.at(total, at, np.abs(terms))
    cost = np.where(count > 1, _accumulation(1, np.abs(value), np.sqrt(squares)), 0.0)
    cost = cost * np.sqrt(count)
    if _whole(terms) and _errorless(source):
        cost = np.where(total <= EXACT, 0.0, cost)
    found = made(value, shared, np.sqrt(random) + cost)

    def sum_of() -> Array:
        wide = np.zeros(start.shape)
        np.add.at(wide, at, terms)
        return wide

    return unsure_where(found, _overflow(total, sum_of, np.isfinite(total)))


def _matmul(a: Estimate, b: Estimate) -> Estimate:
    return contracted(a, b, np.matmul, a.shape[-1])


def _tensordot(a: Any, b: Any, axes: Any) -> Estimate:
    a, b = as_estimate(a), as_estimate(b)
    count = int(np.prod([a.shape[i] for i in axes[0]], dtype=np.int64))
    return contracted(a, b, lambda p, q: np.tensordot(p, q, axes), count)


def _einsum(a: Any, la: Any, b: Any, lb: Any, out: Any, **kwargs: Any) -> Estimate:
    a, b = as_estimate(a), as_estimate(b)
    sizes = {**dict(zip(la, a.shape, strict=True)), **dict(zip(lb, b.shape, strict=True))}
    count = int(np.prod([n for label, n in sizes.items() if label not in out], dtype=np.int64))
    return contracted(a, b, lambda p, q: np.asarray(np.einsum(p, la, q, lb, out, **kwargs)), count)


def _max(x: Any, axis: Any = None, **how: Any) -> Estimate:
    return _extreme(True, as_estimate(x), axis, **how)


def _min(x: Any, axis: Any = None, **how: Any) -> Estimate:
    return _extreme(False, as_estimate(x), axis, **how)


def _max_along(x: Estimate, axis: Any = 0, **how: Any) -> Estimate:
    """``np.maximum.reduce``, whose axis is the first where none is said."""
    return _extreme(True, x, axis, **how)


def _min_along(x: Estimate, axis: Any = 0, **how: Any) -> Estimate:
    return _extreme(False, x, axis, **how)


UFUNCS["matmul"] = _matmul
REDUCTIONS.update(maximum=_max_along, minimum=_min_along, multiply=_product_along)
FUNCTIONS.update(
    {
        np.sum: _sum,
        np.max: _max,
        np.min: _min,
        np.tensordot: _tensordot,
        np.einsum: _einsum,
    }
)
