"""The simulator: random numbers."""

from __future__ import annotations

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.functions import Array
from polyc.playback.gpu.translator import Translator, simulates
from polyc.playback.philox import pair


def _philox(place: Array, seed: Array) -> Array:
    return pair(*(np.asarray(x).astype(np.uint64) for x in (place, seed))).view(np.int64)


@simulates(hw.PhiloxOp)
def _random(t: Translator, op: hw.PhiloxOp) -> None:
    t.define(op.result, f"{t.object(_philox, 'f')}({t.values(op.operands)})")
