"""NumPy semantics of transposed convolutions: each element by the taps that it has (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from polyc.dialects import frontend
from polyc.playback.frontend.convolutions import groups_of
from polyc.playback.frontend.pooling import elements_at
from polyc.playback.functions import Array, widen
from polyc.playback.signature import value_sizes


def transposed_convolution(
    op: frontend.ConvTransposeOp, image: Array, weight: Array, symbols: Mapping[str, int]
) -> Array:
    """The result of ``op`` on operands as products take them, in f32.

    Elements of one remainder by the stride, of each axis, have the same taps and are computed
    together.
    """
    count = op.COUNT
    if not op.channels_first:
        image, weight = (np.moveaxis(a, -1, 1) for a in (image, weight))
    shape = value_sizes(frontend.tensor_of(op.result), symbols)
    sides = shape[2:] if op.channels_first else shape[1:-1]
    channels, filters = weight.shape[:2]
    groups = groups_of(op, channels, symbols)
    inner = channels // max(groups, 1)
    low, steps = op.padding[::2], op.stride
    wide = [-(-size // step) for size, step in zip(sides, steps, strict=True)]
    found: list[Array] = []
    for phase in product(*map(range, steps)):
        taps = [
            [r for r in range(n) if (o + p - d * r) % s == 0]
            for n, o, p, d, s in zip(weight.shape[2:], phase, low, op.dilation, steps, strict=True)
        ]
        # Of each axis, the image's element for each element of the phase and each tap of it.
        places: list[Array] = [
            (s * np.arange(n)[:, None] + o + p - d * np.asarray(own, np.int64)[None, :]) // s
            for n, own, o, p, d, s in zip(wide, taps, phase, low, op.dilation, steps, strict=True)
        ]
        read = elements_at(image, range(2, 2 + count), places, 0.0)
        some = weight[(slice(None), slice(None), *np.ix_(*taps))] if all(taps) else None
        parts = [np.zeros((len(image), *wide, 0), read.dtype)]
        for g in range(groups):
            own = slice(g * inner, (g + 1) * inner)
            if some is None:
                parts.append(np.zeros((len(image), *wide, filters), read.dtype))
                continue
            axes = (1, *range(3, 3 + 2 * count, 2)), (0, *range(2, 2 + count))
            parts.append(np.tensordot(read[:, own], some[own], axes=axes))
        found.append(np.concatenate(parts, -1)[None])
    whole = np.reshape(np.concatenate(found), (*steps, len(image), *wide, groups * filters))
    order = [count, *(a for i in range(count) for a in (count + 1 + i, i)), 2 * count + 1]
    merged = [n * s for n, s in zip(wide, steps, strict=True)]
    whole = np.reshape(np.transpose(whole, order), (len(image), *merged, groups * filters))
    whole = whole[(slice(None), *(slice(0, n) for n in sides))]
    return widen(np.moveaxis(whole, -1, 1) if op.channels_first else whole)
