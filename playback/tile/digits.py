"""What blocks that sort rows digit by digit do to tiles, as NumPy does it."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.digits import TOGETHER, counted
from polyc.playback.estimate import Estimate
from polyc.playback.tile.cta import Array, Cta, Plays


def _plain(array: Any) -> Array:
    return array.value if isinstance(array, Estimate) else array


def _values(cta: Cta, op: tile.DigitOp) -> tuple[Any, Array]:
    """The elements of a tile, and the values of their digit."""
    row = cta.values[op.row][0, 0, : int(cta.values[op.count])]
    first, end = op.bits
    plain = _plain(row)
    digit = plain.view(f"u{plain.dtype.itemsize}").astype(np.uint64) >> np.uint64(first)
    digit &= np.uint64((1 << end - first) - 1)
    if op.unsigned is None:
        digit ^= np.uint64(1 << end - first - 1)
    return row, digit.astype(np.int64)


def _count(cta: Cta, op: tile.CountDigitOp) -> None:
    _, digit = _values(cta, op)
    found = np.bincount(digit, minlength=counted(op.counts))
    cta.values[op.counts][*cta.numbers(op.at)] = found


def _sum(cta: Cta, op: tile.SumCountsOp) -> None:
    (first, tiles), at = cta.numbers([op.first, op.tiles]), cta.numbers(op.at)
    values = slice(first, first + TOGETHER)
    counts = cta.values[op.counts][*at]
    here = _plain(counts)[:tiles, values]
    after = np.cumsum(here, 0, dtype=np.int32)
    cta.values[op.totals][*at, values] = after[-1] if tiles else 0
    counts[:tiles, values] = after - here


def _begins(cta: Cta, op: tile.MoveByDigitOp | tile.SortByDigitOp) -> Array:
    """Where the first element of a tile with each value goes in its row."""
    at = cta.numbers(op.at)
    totals = _plain(cta.values[op.totals])[*at]
    before = _plain(cta.values[op.counts])[*at, int(cta.values[op.tile])]
    return np.cumsum(totals) - totals + before


def _sort(cta: Cta, op: tile.SortByDigitOp) -> None:
    row, digit = _values(cta, op)
    begin, order = _begins(cta, op), np.argsort(digit, kind="stable")
    counted_ones = np.bincount(digit, minlength=begin.size)
    cta.values[op.bases][0, 0] = begin - (np.cumsum(counted_ones) - counted_ones)
    row[...] = row[order]


def _move(cta: Cta, op: tile.MoveByDigitOp) -> None:
    row, digit = _values(cta, op)
    begin, order = _begins(cta, op), np.argsort(digit, kind="stable")
    alike = digit[order]
    first = np.searchsorted(alike, alike)
    place = begin[alike] + np.arange(alike.size) - first
    where = cta.numbers(op.target_at)
    where.insert(op.along, place)  # pyright: ignore[reportArgumentType]
    cta.values[op.target][tuple(where)] = row[order]


DIGITS: Plays = {
    tile.CountDigitOp: _count,
    tile.SumCountsOp: _sum,
    tile.MoveByDigitOp: _move,
    tile.SortByDigitOp: _sort,
}
