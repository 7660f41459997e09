"""The simulator: arithmetic of floats that ``arith`` and ``math`` lack."""

from __future__ import annotations

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.functions import erfc
from polyc.playback.gpu.translator import Translator, simulates


@simulates(hw.ErfcOp)
def _erfc(t: Translator, op: hw.ErfcOp) -> None:
    t.define(op.result, f"{t.object(erfc, 'f')}({t.values([op.operand])})")


@simulates(hw.FmodOp)
def _fmod(t: Translator, op: hw.FmodOp) -> None:
    t.define(op.result, f"{t.object(np.fmod, 'f')}({t.values(op.operands)})")
