"""The simulator: arithmetic and conversions of integers that ``arith`` lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.estimate.integers import to_integers
from polyc.playback.functions import Array, power_of_bits
from polyc.playback.gpu.arithmetic import dtype_of
from polyc.playback.gpu.translator import Translator, simulates


def _power(dtype: np.dtype[Any]) -> Callable[[Any, Any], Array]:
    unsigned = np.dtype(f"u{dtype.itemsize}")

    def run(base: Any, exponent: Any) -> Array:
        x, n = (np.asarray(v).astype(dtype).view(unsigned) for v in (base, exponent))
        return power_of_bits(x, n).view(dtype)

    return run


@simulates(hw.PowerOp)
def _powers(t: Translator, op: hw.PowerOp) -> None:
    function = t.object(_power(dtype_of(op.result.type)), "f")
    t.define(op.result, f"{function}({t.values(op.operands)})")


def _clamped(unsigned: bool) -> Callable[[Any], Array]:
    held = np.dtype(np.uint32 if unsigned else np.int32)

    def run(value: Any) -> Array:
        with np.errstate(all="ignore"):
            return to_integers(np.asarray(value, np.float32), held).view(np.int32)

    return run


@simulates(hw.CutOp)
def _cut(t: Translator, op: hw.CutOp) -> None:
    function = t.object(_clamped(op.unsigned is not None), "f")
    t.define(op.result, f"{function}({t.values(op.operands)})")
