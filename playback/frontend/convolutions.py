"""NumPy semantics of the convolutions of ``frontend``: windows times filters (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import fail
from polyc.playback import views
from polyc.playback.functions import Array, widen


def convolution(
    op: frontend.ConvOp, image: Array, weight: Array, symbols: Mapping[str, int]
) -> Array:
    """The result of ``op`` on operands as products take them, in f32."""
    count = op.COUNT
    if not op.channels_first:
        image, weight = (np.moveaxis(a, -1, 1) for a in (image, weight))
    ends = zip(op.padding[::2], op.padding[1::2], strict=True)
    image = np.pad(image, ((0, 0), (0, 0), *ends))
    filters, inner = weight.shape[:2]
    groups = groups_of(op, filters, symbols)
    sides = range(2, 2 + count)
    patches = views.window(image, sides, weight.shape[2:], op.stride, op.dilation)
    each = filters // max(groups, 1)
    parts = [np.zeros((len(image), *patches.shape[2 : 2 + count], 0), patches.dtype)]
    summed = (1, *range(2 + count, 2 + 2 * count)), (1, *range(2, 2 + count))
    parts += [
        np.tensordot(
            patches[:, g * inner : (g + 1) * inner],
            weight[g * each : (g + 1) * each],
            axes=summed,
        )
        for g in range(groups)
    ]
    result = np.concatenate(parts, -1)  # [N, …, F]
    return widen(np.moveaxis(result, -1, 1) if op.channels_first else result)


def groups_of(op: frontend.ConvBase, filters: int, symbols: Mapping[str, int]) -> int:
    """How many groups there are, which ``filters`` come in.  Raises PolycError."""
    groups = op.groups.evaluate(symbols)
    if filters and (groups < 1 or filters % groups):
        fail("BadArgument", f"{filters} filters do not divide into {groups} groups", op)
    return groups
