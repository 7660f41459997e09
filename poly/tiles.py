"""The tiles that a report assumes where the user gives none, by the role of an axis (S4.10)."""

from __future__ import annotations

from collections.abc import Mapping

from polyc.poly.blocks import Block

ROWS, COLUMNS, DEPTH = 128, 128, 64
"""The tile of a contraction: lhs axes, rhs axes, reduced axes."""

BESIDE = 8
"""Rows of the image beside each other in the tile of a convolution with two windows."""

INNER, OUTER = 64, 8
"""The tile of any other block: its last axis and the one before."""


def tiles_of(block: Block, given: Mapping[str, int]) -> dict[int, int]:
    """A tile size for the axes of a block by position; an axis without one lies whole in a tile.

    ``given`` has sizes by axis name, which go before the defaults.  No tile is longer than an
    axis of known size.  The taps of a window are taken one at a time.
    """
    sizes = _contraction(block) if block.pattern is not None else _elementwise(block)
    sizes |= {i: given[name] for i, name in enumerate(block.dims) if name in given}
    for axis, tile in sizes.items():
        known = block.entry.all_axes[axis].dim.constant()
        if known is not None:
            sizes[axis] = max(1, min(tile, known))
    return dict(sorted(sizes.items()))


def _contraction(block: Block) -> dict[int, int]:
    pattern = block.pattern
    assert pattern is not None
    sizes = dict.fromkeys(pattern.batch, 1)
    windows = {w.axis for w in pattern.windows}
    taps = {w.tap for w in pattern.windows}
    for axes, tile in ((pattern.lhs_axes, ROWS), (pattern.rhs_axes, COLUMNS)):
        walked = [a for a in axes if a in windows]
        for axis in axes:
            sizes[axis] = 1
        if len(walked) == 2:
            sizes |= {walked[0]: BESIDE, walked[1]: tile // BESIDE}
        elif axes:
            sizes[walked[0] if walked else axes[-1]] = tile
    for axis in pattern.reduce:
        sizes[axis] = 1 if axis in taps else DEPTH
    return sizes


def _elementwise(block: Block) -> dict[int, int]:
    sizes = dict.fromkeys(range(block.rank), 1)
    for axis, tile in zip(reversed(range(block.rank)), (INNER, OUTER), strict=False):
        sizes[axis] = tile
    return sizes


def around_taps(block: Block, tiles: Mapping[int, int]) -> dict[int, int]:
    """The tiles with every tap of a window inside, as a halo is counted."""
    windows = () if block.pattern is None else block.pattern.windows
    taps = {w.tap for w in windows}
    return {a: t for a, t in tiles.items() if a not in taps}
