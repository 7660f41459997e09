"""What sorts and pools do to tiles, as NumPy does it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.playback.estimate import Estimate, unsure_where
from polyc.playback.functions import order_by_bits
from polyc.playback.tile.cta import Array, Cta, Plays


def _ordered(array: Array, unsigned: bool) -> Array:
    """A view of integers without a sign, where they are such."""
    return array.view(f"u{array.dtype.itemsize}") if unsigned else array


def _sorted(row: Array, unsigned: bool) -> Array:
    """A row in its order.  Of one with an element that is not known none is."""
    if not isinstance(row, Estimate):
        return np.sort(_ordered(row, unsigned)).view(row.dtype)
    found = Estimate(_sorted(row.value, unsigned))
    if row.exact:
        return found  # pyright: ignore[reportReturnType]
    doubtful = np.full(row.shape, bool(np.any(row.error > 0)))
    return unsure_where(found, doubtful)  # pyright: ignore[reportReturnType]


def _by_bits(row: Array, bits: Sequence[int], unsigned: bool) -> Array:
    """A row in the order of some of its bits; what is alike in these keeps its order."""
    if isinstance(row, Estimate):
        return _sorted(row, unsigned)
    return np.take_along_axis(row, order_by_bits(row, (bits[0], bits[1]), -1, unsigned), -1)


def _sort(cta: Cta, op: tile.SortOp) -> None:
    array, count = cta.values[op.row], int(cta.values[op.count])
    if op.by is not None:
        row = (0, 0, slice(count))
        array[row] = _by_bits(array[row], op.by.data, op.unsigned is not None)
        return
    if isinstance(op.row.type, SharedType):
        row = (0, 0, slice(count))
    else:
        at = cta.numbers(op.at)
        row = (*at[: op.along], slice(count), *at[op.along :])
    array[row] = _sorted(array[row], op.unsigned is not None)


def _largest(array: Array, unsigned: bool) -> int:
    """The bits of the largest number, as a number with a sign."""
    return -1 if unsigned else int(np.iinfo(array.dtype).max)


def _keep_none(cta: Cta, op: tile.KeepNoneOp) -> None:
    pool, held = cta.values[op.pool], cta.values[op.held]
    held[0, 0, 0] = 0
    pool[0, 0, op.room] = _largest(pool, op.unsigned is not None)


def _plain(array: Array) -> Array:
    return array.value if isinstance(array, Estimate) else array


def _known(array: Array) -> bool:
    return not isinstance(array, Estimate) or not bool(np.any(array.error > 0))


def _keep_least(cta: Cta, op: tile.KeepLeastOp) -> None:
    pool, held = cta.values[op.pool], cta.values[op.held]
    count, keep, unsigned = int(_plain(held)[0, 0, 0]), op.keep.value.data, op.unsigned is not None
    if count > op.most:
        row = (0, 0, slice(count))
        pool[row] = _sorted(pool[row], unsigned)
        count, pool[0, 0, op.room] = keep, pool[0, 0, keep - 1]
    given = cta.values[op.fragment].reshape(-1)
    bound = _ordered(np.asarray(_plain(pool)[0, 0, op.room]), unsigned)
    # Of what is not known any may come in; all do, as far as there is room.
    chosen = _ordered(_plain(given), unsigned) < bound
    if not _known(given) or not _known(pool[0, 0, op.room : op.room + 1]):
        chosen = np.ones(chosen.shape, np.bool_)
    new = given[chosen]
    pool[0, 0, count : count + len(new)] = new
    held[0, 0, 0] = count + len(new)


def _kept(cta: Cta, op: tile.KeptOp) -> None:
    pool, unsigned = cta.values[op.pool], op.unsigned is not None
    count, fill = int(_plain(cta.values[op.held])[0, 0, 0]), op.fill.value.data
    row = (0, 0, slice(count))
    pool[row] = _sorted(pool[row], unsigned)
    if count < fill:
        pool[0, 0, count:fill] = _largest(pool, unsigned)


SORTING: Plays = {
    tile.SortOp: _sort,
    tile.KeepNoneOp: _keep_none,
    tile.KeepLeastOp: _keep_least,
    tile.KeptOp: _kept,
}
