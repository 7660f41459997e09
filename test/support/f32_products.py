"""Products of f32 with a bias and relu, as their graphs are run on the GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LAYOUTS = ("", "transpose_a", "transpose_b", "transpose_a transpose_b")


def operands(flags: str, m: int, n: int, k: int, whole: bool) -> list[np.ndarray[Any, Any]]:
    """A, B and bias; of small integers, whose sums are exact in any order and which TF32 has, or
    normal ones.
    """
    rng = np.random.default_rng([m, n, k, whole])
    a = (k, m) if "transpose_a" in flags else (m, k)
    b = (n, k) if "transpose_b" in flags else (k, n)

    def drawn(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        values = rng.integers(-9, 10, shape) if whole else rng.standard_normal(shape)
        return values.astype(np.float32)

    return [drawn(a), drawn(b), drawn((n,))]


def wanted(flags: str, inputs: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """``relu(a @ b + bias)`` in FP64."""
    a, b, bias = (x.astype(np.float64) for x in inputs)
    a, b = a.T if "transpose_a" in flags else a, b.T if "transpose_b" in flags else b
    return np.maximum(a @ b + bias, 0)
