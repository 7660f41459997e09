"""How far playback's functions are off, in ulps, beside what is known of a kernel's (S0.6).

Each function is played back on numbers of all sizes and signs, one of 4093 of all bit patterns or
some pairs, and held against Python's ``math`` in f64, which is some 2**-29 ulp off.  What is
printed and written is the largest distance in ulps of the exact value, half of one for a result
that is rounded correctly.  Subnormal results count in ulps of the least normal number.

    python bench/function_errors.py [--output bench/results/function_errors.json]

``KERNEL`` is what a kernel's functions are off at most, by those who wrote them.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import f32

from polyc.bench.race import commit, now
from polyc.playback import functions

Array = np.ndarray[Any, Any]

STEP = 4093
"""Of so many bit patterns one is asked for."""

GUIDE, OWN = "the CUDA C++ Programming Guide", "lowering/gpu_to_cuda"

KERNEL: Mapping[str, tuple[float, str]] = {
    "acos": (2, GUIDE),
    "acosh": (4, GUIDE),
    "asin": (2, GUIDE),
    "asinh": (3, GUIDE),
    "atan": (2, GUIDE),
    "atan2": (3, GUIDE),
    "atanh": (3, GUIDE),
    "cbrt": (1, GUIDE),
    "cos": (2, GUIDE),
    "cosh": (2, GUIDE),
    "erf": (2.3, OWN),
    "erfc": (4, GUIDE),
    "exp": (2, GUIDE),
    "exp2": (2, GUIDE),
    "expm1": (1, GUIDE),
    "fmod": (0, GUIDE),
    "log": (1, GUIDE),
    "log10": (3, GUIDE),
    "log1p": (1, GUIDE),
    "log2": (1, GUIDE),
    "pow": (8, GUIDE),
    "rsqrt": (2, GUIDE),
    "sin": (2, GUIDE),
    "sinh": (3, GUIDE),
    "tan": (4, GUIDE),
    "tanh": (2, GUIDE),
}
"""The largest error of a function in a kernel, in ulps beside the rounded exact value, and where it
is said.  Where editions of the guide differ it is the larger."""


def _rsqrt(x: float) -> float:
    return 1 / math.sqrt(x)


EXACT: Mapping[str, Callable[..., float]] = {
    **{name: getattr(math, name) for name in KERNEL if name != "rsqrt"},
    "rsqrt": _rsqrt,
}
"""The functions in f64."""


def numbers() -> Array:
    """Finite numbers of f32 of both signs, all exponents alike."""
    bits = np.arange(0, 0x7F800000, STEP, dtype=np.uint32)
    x = bits.view(np.float32)
    return np.concatenate([x, -x])


def pairs(seed: int = 0) -> tuple[Array, Array]:
    """Pairs of numbers of unlike sizes, 2**-20 to 2**20."""
    rng = np.random.default_rng(seed)
    count = 200_000
    x, y = (rng.standard_normal(count) * np.exp2(rng.integers(-20, 20, count)) for _ in range(2))
    return x.astype(np.float32), y.astype(np.float32)


def exact(name: str, *operands: Array) -> Array:
    """The function in f64; NaN where it has no finite value."""
    function, found = EXACT[name], np.full(operands[0].shape, np.nan)
    for i, values in enumerate(zip(*(x.tolist() for x in operands), strict=True)):
        try:
            value = function(*values)
        except (ValueError, OverflowError, ZeroDivisionError):
            continue
        found[i] = value if isinstance(value, float) else math.nan
    return found


def largest(name: str) -> float:
    """The largest error of playback's function, in ulps."""
    two = name in functions.BINARY
    operands = pairs() if two else (numbers(),)
    call = functions.binary if two else functions.unary
    wanted, found = exact(name, *operands), call(name, *operands)
    top = float(np.finfo(np.float32).max)
    with np.errstate(all="ignore"):
        sure = np.isfinite(wanted) & (np.abs(wanted) <= top) & (wanted != 0)
    off = np.abs(found[sure].astype(np.float64) - wanted[sure])
    return float(np.max(off / functions.ulp(wanted[sure], f32)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, (bound, source) in KERNEL.items():
        rows.append({"function": name, "playback": largest(name), "kernel": bound, "by": source})
        print(f"{name:8} {rows[-1]['playback']:.3f}  kernel {bound:g}", flush=True)
    report = {"commit": commit(), "date": now(), "numpy": np.__version__, "rows": rows}
    if options.output is not None:
        options.output.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
