"""NumPy semantics of the scatters of ``frontend``: a place for each update (S0.6)."""

from __future__ import annotations

import numpy as np

from polyc.dialects.frontend.scatters import ScatterBase
from polyc.playback.frontend.gathers import places_of, refuse_outside
from polyc.playback.functions import Array
from polyc.playback.scatters import scatter


def scattered(op: ScatterBase, x: Array, indices: Array, updates: Array) -> Array:
    """The result of ``op``."""
    refuse_outside(op, x.shape, indices)
    places, _ = places_of(op.GATHER, op.number, op.counts_from_end, x.shape, indices)
    whole = [np.broadcast_to(p, updates.shape) for p in places]
    return scatter(op.function, x, updates, whole)
