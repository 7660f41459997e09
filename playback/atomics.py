"""Atomic updates of an array's elements, by the function's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from polyc.playback.functions import Array

ATOMIC: Mapping[str, np.ufunc] = {"add": np.add, "max": np.maximum, "min": np.minimum}
"""Read-modify-write functions."""


def combine_at(function: str, data: Array, at: Any, values: Array) -> None:
    """Combine ``values`` into the elements of ``data`` at places, each once for each of these.

    ``umax`` is the maximum of 32 or 64 bits as numbers without a sign.
    """
    if function == "umax":
        unsigned = np.dtype(f"u{data.dtype.itemsize}")
        data, values = data.view(unsigned), np.asarray(values, data.dtype).view(unsigned)
        function = "max"
    with np.errstate(all="ignore"):
        ATOMIC[function].at(data, at, values)
