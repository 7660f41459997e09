"""What one tap of a convolution reads, on NumPy (``gpu.copy`` with ``im2col``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.playback.functions import zeros_like

Array = NDArray[Any]


def taken(
    tensor: Array,
    geometry: Im2colAttr,
    place: Sequence[int],
    tap: Sequence[int],
    shape: Sequence[int],
) -> Array:
    """The tile ``[pixels, channels]`` of ``tensor [N, H, W, C]``, zero where it leaves that.

    ``place`` is image, row and column of the tile's first pixel of the output, and its first
    channel; ``tap`` is the filter's row and column.
    """
    images, height, width, depth = tensor.shape
    image, p, q, channel = place
    down, across = geometry.output(height, width)
    columns = q + np.arange(shape[0])
    lines = p + columns // across
    at = image + lines // down
    h, w = (
        base * step - pad + t * dilation
        for base, step, pad, t, dilation in zip(
            (lines % down, columns % across),
            geometry.steps,
            geometry.pads,
            tap,
            geometry.dilations,
            strict=True,
        )
    )
    inside = (at < images) & (h >= 0) & (h < height) & (w >= 0) & (w < width)
    count = max(0, min(shape[1], depth - channel))
    found = zeros_like(tensor, shape)
    chosen = at[inside], h[inside], w[inside]
    found[inside, :count] = tensor[chosen][:, channel : channel + count]
    return found
