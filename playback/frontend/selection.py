"""Places of extremes and sorts, as NumPy has them (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from polyc.dialects import frontend
from polyc.playback.estimate import FACTOR, Estimate, unsure_where
from polyc.playback.functions import Array, dtype_of, posing


def arg_reduce(op: frontend.ArgReduceOp, x: Array) -> Array:
    """Where along the axis the extreme is; -1 along an axis without elements."""
    plain = x.value if isinstance(x, Estimate) else x
    keep = op.keepdims is not None
    kind = dtype_of(frontend.tensor_of(op.result).element_type)
    if not plain.shape[op.axis]:
        shape = list(plain.shape)
        shape[op.axis] = 1
        found = np.full(shape, -1, kind)
        return found if keep else np.squeeze(found, op.axis)
    found, doubtful = extreme_at(x, op.axis, least=op.function == "min", last=op.last is not None)
    result = found.astype(kind)
    if doubtful is not None:
        result = posing(unsure_where(Estimate(result), doubtful))
    return (
        result if keep else result.reshape([n for i, n in enumerate(result.shape) if i != op.axis])
    )


def extreme_at(
    x: Array, axis: int, *, least: bool, last: bool = False
) -> tuple[Array, Array | None]:
    """Where along an axis the extreme is, the first or last of equal ones, and whether it may be
    another; None where all is exact.  The axis stays, with size 1."""
    plain = x.value if isinstance(x, Estimate) else x
    function = np.argmin if least else np.argmax
    if last:
        found = plain.shape[axis] - 1 - function(np.flip(plain, axis), axis, keepdims=True)
    else:
        found = function(plain, axis=axis, keepdims=True)
    if not isinstance(x, Estimate) or x.exact:
        return found, None
    return found, _may_be_another(x, found, axis, least)


def _may_be_another(x: Estimate, found: Array, axis: int, least: bool) -> Array:
    """Whether an element may be beyond the one found: the two are no farther apart than known."""
    low, high = reach(x)
    if least:
        low, high = -high, -low
    floor = np.take_along_axis(low, found, axis)
    beyond = high > floor
    np.put_along_axis(beyond, found, False, axis)
    lost = np.isinf(x.error)
    return np.any(beyond | lost, axis=axis, keepdims=True)


def reach(x: Estimate) -> tuple[Array, Array]:
    """Between which numbers each element may be, in f64; what is exact is itself.

    One that touches an inexact one may be either side of it.
    """
    wide, error = x.value.astype(np.float64), FACTOR * x.error
    inexact = x.error > 0
    with np.errstate(all="ignore"):
        low = np.where(inexact, np.nextafter(wide - error, -np.inf), wide)
        high = np.where(inexact, np.nextafter(wide + error, np.inf), wide)
    return low, high


def sort(op: frontend.SortOp, x: Array, symbols: Mapping[str, int]) -> tuple[Array, Array]:
    """The elements along the axis in their order, and where they stood."""
    plain, axis = (x.value if isinstance(x, Estimate) else x), op.axis
    count = op.first.evaluate(symbols)
    kind = dtype_of(frontend.tensor_of(op.places).element_type)
    where = (*(slice(None) for _ in range(axis)), slice(count))
    turned = op.descending is not None
    whole = _order(plain, axis, turned)
    order = whole[where]
    values, places = np.take_along_axis(plain, order, axis), order.astype(kind)
    if not isinstance(x, Estimate):
        return values, places
    if x.exact:
        return posing(Estimate(values)), posing(Estimate(places))
    low, high = reach(x)
    lost = np.any(np.isinf(x.error), axis=axis, keepdims=True)
    # What stands at a place is between what would, were all as small or as large as they may be.
    least, most = (np.take_along_axis(e, _order(e, axis, turned)[where], axis) for e in (low, high))
    with np.errstate(all="ignore"):
        wide = values.astype(np.float64)
        apart = np.maximum(most - wide, wide - least) / FACTOR
    apart = np.where(np.isfinite(wide), apart, 0.0)
    shared = np.where(lost, np.inf, apart)
    doubtful = _may_be_elsewhere(whole, low, high, axis, turned)[where] | lost
    return posing(Estimate(values, shared)), posing(unsure_where(Estimate(places), doubtful))


def _order(x: Array, axis: int, descending: bool) -> Array:
    """The places of elements in order, those of equal ones as they stand; NaN is above all."""
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # Turned, the last of equal ones comes first, and is turned back.
    last = x.shape[axis] - 1
    return np.flip(last - np.argsort(np.flip(x, axis), axis, kind="stable"), axis)


def _may_be_elsewhere(order: Array, low: Array, high: Array, axis: int, descending: bool) -> Array:
    """Whether what stands at a place may change it with another, in the order of the values."""
    low, high = (np.take_along_axis(e, order, axis) for e in (low, high))
    if descending:
        low, high = -high, -low
    found = np.zeros(low.shape, np.bool_)
    if low.shape[axis] > 1:
        before = (*(slice(None) for _ in range(axis)), slice(None, -1))
        after = (*(slice(None) for _ in range(axis)), slice(1, None))
        found[after] |= np.maximum.accumulate(high, axis)[before] > low[after]
        back = np.flip(np.minimum.accumulate(np.flip(low, axis), axis), axis)
        found[before] |= back[after] < high[before]
    return found
