"""Converters of ATen's resizes with antialiasing, of which every place has weights of its own.

Along one axis of known sizes these are one product with a matrix that is known at import.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from polyc.importers.aten.support import refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.sizes import SizeLike
from polyc.trace.values import Value

Array = Any


def _known(size: SizeLike) -> int:
    if isinstance(size, int):
        return size
    raise refuse(f"the weights of a resize of {size} are known for known sizes only; give a number")


def along(x: Value, axis: int, weights: Array) -> Value:
    """The elements along an axis by a matrix, [places, elements], which is f32."""
    import numpy as np

    kind = x.dtype
    wide = x.permute(*[i for i in range(x.ndim) if i != axis], axis)
    made = f.matmul(to(wide, "f32"), f.constant(np.ascontiguousarray(weights.T, np.float32)))
    order = [*range(axis), x.ndim - 1, *range(axis, x.ndim - 1)]
    return to(made.permute(*order), kind)


# Resizes with antialiasing ---------------------------------------------------------------------


def _triangle(at: Array) -> Array:
    import numpy as np

    return np.maximum(0.0, 1.0 - np.abs(at))


def _cubic(at: Array) -> Array:
    """Keys' cubic with -0.5, which PyTorch has here, as PIL does."""
    import numpy as np

    a, x = -0.5, np.abs(at)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((x - 5) * x + 8) * x * a - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


def smoothed(
    size: int,
    wanted: int,
    filters: Callable[[Array], Array],
    support: float,
    align_corners: bool,
    factor: float | None,
) -> Array:
    """The weights of a resize with antialiasing, [wanted, size], each row of which sums to 1."""
    import numpy as np

    if align_corners:
        scale = (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    else:
        scale = size / wanted if factor is None else 1.0 / factor
    reach = support * max(scale, 1.0)
    found = np.zeros((wanted, size))
    for i in range(wanted):
        center = scale * (i + 0.5)
        low = max(int(center - reach + 0.5), 0)
        high = min(int(center + reach + 0.5), size)
        at = (np.arange(low, high) - center + 0.5) / max(scale, 1.0)
        weights = filters(at)
        found[i, low:high] = weights / weights.sum()
    return found


_FILTERS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic, 2.0)}


def _smooth(
    x: Value,
    output: Sequence[SizeLike],
    align_corners: bool,
    factors: Sequence[float | None],
    mode: str,
) -> Value:
    filters, support = _FILTERS[mode]
    known = factors or [None] * len(output)
    for axis, (wanted, by) in enumerate(zip(output, known, strict=True), 2):
        size = _known(x.shape[axis])
        weights = smoothed(size, _known(wanted), filters, support, align_corners, by)
        x = along(x, axis, weights)
    return x


@converter("torch", "aten._upsample_bilinear2d_aa.default")
def upsample_bilinear_smooth(
    x: Value, output: Any, align_corners: bool, *factors: float | None
) -> Value:
    return _smooth(x, output, align_corners, factors, "bilinear")


@converter("torch", "aten._upsample_bicubic2d_aa.default")
def upsample_bicubic_smooth(
    x: Value, output: Any, align_corners: bool, *factors: float | None
) -> Value:
    return _smooth(x, output, align_corners, factors, "bicubic")
