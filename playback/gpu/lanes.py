"""Values of a warp: a Python number where all lanes agree, else an array with a row a lane."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Any
Mask: TypeAlias = Array | None
"""The active lanes; None for all of them."""

LANES = np.arange(32)
NOBODY = np.zeros(0, np.int64)


def is_lanes(value: Value) -> TypeGuard[Array]:
    """Whether lanes may differ; what NumPy makes of a number has no axis."""
    return isinstance(value, np.ndarray) and value.ndim > 0


def every(flags: Array) -> bool:
    """Whether all of some booleans hold; NumPy's ``all`` takes ten times as long for a warp's."""
    return 0 not in flags.tobytes()


def some(flags: Array) -> bool:
    """Whether any of some booleans holds."""
    return 1 in flags.tobytes()


def spread(value: Value, lanes: Array) -> Array:
    """The value in each of ``lanes``, as i64."""
    if is_lanes(value):
        return value[lanes].astype(np.int64)
    return np.full(lanes.size, int(value), np.int64)


def byte_rows(value: Value, width: int, dtype: np.dtype[Any]) -> Array:
    """The bytes of a value of ``width`` elements, a row a lane."""
    if not is_lanes(value):
        value = np.full((32, width), value, dtype)
    return np.ascontiguousarray(value.reshape(32, width)).view(np.uint8)
