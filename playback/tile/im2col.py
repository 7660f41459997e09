"""What one tap of a convolution reads, on NumPy (``gpu.copy`` with ``im2col``)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
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


def windows(
    image: Array, geometry: Im2colAttr, place: Sequence[int], first: int, shape: Sequence[int]
) -> Array:
    """The tile ``[points, pixels]`` of an image ``[1, H, W, C]``: rows are points of windows, the
    taps of each channel, from number ``first`` on; zero behind the last one.
    """
    found = zeros_like(image, shape)
    _, columns = geometry.taps
    each, channels = prod(geometry.taps), image.shape[-1]
    for row in range(shape[0]):
        channel, tap = divmod(first + row, each)
        if channel < channels:
            at = divmod(tap, columns)
            found[row] = taken(image, geometry, [0, *place, channel], at, (shape[1], 1))[:, 0]
    return found
