"""The simulator: random numbers."""

from __future__ import annotations

from functools import partial

import numpy as np

from polyc.dialects.gpu import hardware as hw
from polyc.playback.functions import Array
from polyc.playback.gpu.translator import Translator, simulates
from polyc.playback.philox import pair

LANES = 32


def _one(place: Array, seed: Array) -> Array:
    return pair(*(np.asarray(x).astype(np.uint64) for x in (place, seed))).view(np.int64)


def _several(count: int, place: Array, seed: Array) -> Array:
    """The numbers from each lane's place on."""
    with np.errstate(over="ignore"):
        places = np.asarray(place).astype(np.uint64)[..., None] + np.arange(count, dtype=np.uint64)
    found = _one(places, np.asarray(seed)[..., None])
    return np.array(np.broadcast_to(found, (LANES, count)))


@simulates(hw.PhiloxOp)
def _random(t: Translator, op: hw.PhiloxOp) -> None:
    function = _one if op.multiple is None else partial(_several, op.count)
    t.define(op.result, f"{t.object(function, 'f')}({t.values(op.operands)})")
