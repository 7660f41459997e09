"""The simulator: arithmetic of floats that ``arith`` and ``math`` lack."""

from __future__ import annotations

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.gpu.translator import Translator, simulates


@simulates(hw.FmodOp)
def _fmod(t: Translator, op: hw.FmodOp) -> None:
    t.define(op.result, f"{t.object(np.fmod, 'f')}({t.values(op.operands)})")
