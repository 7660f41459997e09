"""Whether what was timed is right: the comparison of S0.6, on rows of every tile.

A benchmark's outputs are too large to compute again on the host.  One row of each 64 is, chosen at
random, with all of its terms; of the others it is asked that they were written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polyc.playback.agreement import errors_needed
from polyc.playback.estimate import FACTOR, Estimate, as_estimate
from polyc.playback.functions import DTYPES, dtype_of, round_freely, widen

EVERY = 64
MOST = 256


def picked(rows: int, seed: int = 0) -> list[int]:
    """One row of each 64 at random, the last one, and at most 256 of them."""
    random = np.random.default_rng(seed)
    blocks = [(low, min(low + EVERY, rows)) for low in range(0, rows, EVERY)]
    if len(blocks) > MOST:
        blocks = [blocks[int(i)] for i in random.choice(len(blocks), MOST, replace=False)]
    return sorted({*(int(random.integers(a, b)) for a, b in blocks), rows - 1})


def on_host(torch: Any, tensor: Any) -> Any:
    """A tensor as a NumPy array of its type."""
    if tensor.dtype == torch.bfloat16:
        return tensor.contiguous().view(torch.int16).cpu().numpy().view(dtype_of(_bf16()))
    return tensor.cpu().numpy()


def _bf16() -> Any:
    return next(kind for kind, dtype in DTYPES.items() if dtype.name == "bfloat16")


def exact(array: Any) -> Any:
    """An input as a factor of a sum that is computed in f64."""
    return Estimate(array).astype(np.float64)


def product(a: Any, b: Any) -> Any:
    """``a @ b``, summed in f64 and rounded to f32, with its errors."""
    return widen(np.matmul(exact(a), exact(b)))


def attention(q: Any, k: Any, v: Any, allowed: Any = None) -> Any:
    """One head at some queries [rows, features] over all keys; ``allowed`` is which they see."""
    element = next(kind for kind, dtype in DTYPES.items() if dtype == q.dtype)
    scores: Any = product(q, k.T) * (np.float32(1) / np.sqrt(np.float32(q.shape[1])))
    if allowed is not None:
        scores = np.where(allowed, scores, np.float32(-np.inf))
    weights = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    total = widen(weights.sum(-1, keepdims=True, dtype=np.float64))
    operand = widen(round_freely(weights, element)).astype(np.float64)
    return widen(np.matmul(operand, exact(v))) / total


def share(torch: Any, found: Any, wanted: Any) -> float:
    """The largest error of a tensor's elements in parts of what agrees; over 1 is wrong."""
    array = on_host(torch, found)
    if not array.size:
        return 0.0
    element = next(kind for kind, dtype in DTYPES.items() if dtype == array.dtype)
    return float(np.max(errors_needed(array, as_estimate(wanted), element))) / FACTOR


def worst(
    torch: Any, out: Any, rows: Sequence[int], wanted: Callable[[Sequence[int]], Any]
) -> float:
    """``share`` of the rows of a matrix; infinite where some element was not written.

    ``wanted`` computes rows, and is asked for 32 of them at a time.
    """
    if not bool(torch.isfinite(out).all()):
        return float("inf")
    parts = [list(rows[i : i + 32]) for i in range(0, len(rows), 32)]
    with np.errstate(all="ignore"):
        return max((share(torch, out[part], wanted(part)) for part in parts), default=0.0)
