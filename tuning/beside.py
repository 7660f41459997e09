"""Where two results of one program are least alike, and what of a result was not written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from polyc.playback.functions import Array


def unwritten(array: Array, byte: int, count: int) -> list[int]:
    """So many of the elements, by their number in row-major order, that hold ``byte`` alone."""
    import numpy as np

    bits = _bits(array)
    filled = int.from_bytes(bytes([byte]) * array.dtype.itemsize, "little")
    return [int(i) for i in np.flatnonzero(bits == bits.dtype.type(filled))[:count]]


def farthest(one: Array, other: Array, count: int) -> list[int]:
    """Elements, by their number in row-major order, in which two arrays of a shape differ most.

    Half of ``count`` by the distance over the elements' own size, half by the distance alone; NaN
    or an infinity beside a number comes first.  What has the same bits does not differ.
    """
    import numpy as np

    differing = np.flatnonzero(_bits(one) != _bits(other))
    if not differing.size:
        return []
    with np.errstate(all="ignore"):
        x, y = (a.reshape(-1)[differing].astype(np.float32) for a in (one, other))
        away = np.abs(x - y)
        away = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, away)
        away = np.where(np.isnan(away), np.inf, away)
        size = np.fmax(np.abs(x), np.abs(y))
        shares = np.where(away == 0, 0.0, np.where(np.isfinite(size), away / size, np.inf))
    found: list[int] = []
    for distance in (shares, away):
        found += _largest(distance, max(1, count // 2))
    return [int(differing[i]) for i in dict.fromkeys(found)]


def _largest(distance: Array, count: int) -> list[int]:
    """The places of the largest distances, of those above 0."""
    import numpy as np

    count = min(count, distance.size)
    places = np.argpartition(-distance, count - 1)[:count]
    places = places[np.argsort(-distance[places], kind="stable")]
    return [int(p) for p in places if distance[p] > 0]


def _bits(array: Array) -> Any:
    import numpy as np

    whole = np.ascontiguousarray(array).reshape(-1)
    return cast("Any", whole.view(f"u{array.dtype.itemsize}"))
