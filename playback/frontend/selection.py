"""Places of extremes, as NumPy finds them (S0.6)."""

from __future__ import annotations

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
    function = np.argmax if op.function == "max" else np.argmin
    if op.last is None:
        found = function(plain, axis=op.axis, keepdims=True)
    else:
        found = plain.shape[op.axis] - 1 - function(np.flip(plain, op.axis), op.axis, keepdims=True)
    result = found.astype(kind)
    if isinstance(x, Estimate) and not x.exact:
        doubtful = _may_be_another(x, found, op.axis, op.function == "min")
        result = posing(unsure_where(Estimate(result), doubtful))
    return result if keep else result.reshape([n for i, n in enumerate(result.shape) if i != op.axis])


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
