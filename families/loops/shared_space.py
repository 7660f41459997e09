"""The tiles that a reduction of known sizes may have, by the model of time (S8, S11.1).

What follows from the architecture's limits: tiles of any power of two of columns, of 128 to 1024
threads that have 1 to 8 vectors each, whose points one block has, those of a cluster, or as many as
fill the chip so many times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from polyc.cost.device import Device, device_of
from polyc.cost.reductions import (
    Reduction,
    SharedTile,
    reduction_of,
    steps_of,
    tiles_of,
    times_of,
    together,
    whole_steps,
)
from polyc.cost.values import Values
from polyc.dialects.common.arch import ARCHS
from polyc.families.facts import power_of_two
from polyc.families.loops.partial_sums import Shared
from polyc.families.structure import MOST_PARTS

THREADS = (128, 256, 512, 1024)
"""Of a block."""

LOADS = (1, 2, 4, 8)
"""Vectors that a thread has."""

MOST_ELEMENTS = 64
"""Of a thread: each has a register, and another one until it is added."""

MOST_MOMENTS, OF_MOMENTS, OF_BOTH = 512, 16, 8
"""Threads of a block, and elements of each, that find moments, and where they part two axes."""

WAVES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Blocks of each multiprocessor that parts make."""

CLUSTERS = (2, 4, 8)
"""Blocks of a cluster that share a tile."""

CLUSTERED = 8
"""Tiles for each multiprocessor, of which a cluster shares one, at most."""


def tiles(problem: Reduction, vector: int, arch: str) -> Iterator[SharedTile]:
    """All plans of a reduction whose threads read by vectors of ``vector``."""
    for tile in _tiles(problem, vector, arch):
        yield from _parts(problem, tile, arch, ARCHS[arch].multiprocessors)


def _tiles(problem: Reduction, vector: int, arch: str) -> Iterator[SharedTile]:
    """The tiles by themselves, in no parts."""
    warp = ARCHS[arch].warp
    for threads in THREADS:
        for loads in LOADS:
            elements = threads * loads * vector
            if loads * vector > MOST_ELEMENTS:
                continue
            most = OF_MOMENTS if problem.second == 1 else OF_BOTH
            if problem.moments and (threads > MOST_MOMENTS or loads * vector > most):
                continue
            for rows, columns in _shapes(problem, elements, vector, warp):
                yield SharedTile(rows, columns, threads, vector)


def open_tiles(problem: Reduction, vector: int, arch: str) -> Any:
    """The same for a kernel that is made before sizes are known, with what it has of this problem:
    all blocks that fill the chip so many times share the tiles, however many these are.

    All of them together (``cost.reductions.together``), as very many are asked about; None where
    there are none.
    """
    import numpy as np

    chip, most = ARCHS[arch].multiprocessors, ARCHS[arch].cluster
    every = list(_tiles(problem, vector, arch))
    if not every:
        return None
    shapes = together(every)
    count = np.broadcast_to(tiles_of(problem, shapes), shapes.rows.shape)
    steps = np.broadcast_to(whole_steps(problem, shapes), shapes.rows.shape)
    own = [(1, np.full(count.shape, not problem.moments))]
    several = (shapes.rows if problem.beside else shapes.columns) >= 2
    if _clusters(problem):
        near = several & (count <= chip * CLUSTERED)
        own += [(parts, near & (steps >= parts)) for parts in CLUSTERS if parts <= most]
    largest = np.minimum(np.minimum(-(-chip * WAVES[-1] // count), steps), MOST_PARTS)
    stored = several & (largest > 1)
    spreads: list[tuple[int, Any]] = []
    for blocks in (min(chip * waves, MOST_PARTS) for waves in WAVES):
        spreads.append((blocks, stored & (count * 2 <= blocks)))
    which, parts = _taken(own)
    shared, blocks = _taken(spreads)
    all_steps = np.maximum(1, steps[shared])
    each = np.minimum(np.maximum(1, blocks // np.maximum(1, count[shared])), all_steps)
    at = np.concatenate([which, shared])
    if not at.size:
        return None
    zeros = np.zeros(len(which), np.int64)
    return shapes._replace(
        rows=shapes.rows[at],
        columns=shapes.columns[at],
        threads=shapes.threads[at],
        vector=shapes.vector[at],
        parts=np.concatenate([parts, -(-all_steps // -(-all_steps // each))]),
        stored=np.concatenate([zeros > 0, blocks > 0]),
        blocks=np.concatenate([zeros, blocks]),
    )


def _taken(kinds: Sequence[tuple[int, Any]]) -> tuple[Any, Any]:
    """The places of the shapes, each in turn with the numbers of the kinds that take it, and these
    numbers."""
    import numpy as np

    which, kind = np.nonzero(np.stack([takes for _, takes in kinds], axis=1))
    return which, np.array([number for number, _ in kinds])[kind]


def _shapes(problem: Reduction, elements: int, vector: int, warp: int) -> Iterator[tuple[int, int]]:
    """Rows and columns of a tile of so many elements."""
    across = power_of_two(problem.kept if problem.beside else problem.inner)
    down = power_of_two(problem.inner if problem.beside else max(problem.kept, problem.second))
    columns = vector
    while columns <= elements:
        rows = elements // columns
        if columns <= max(across, vector) and rows <= max(1, down):
            yield rows, columns
        columns *= 2


def _parts(problem: Reduction, tile: SharedTile, arch: str, chip: int) -> Iterator[SharedTile]:
    shape = (tile.rows, tile.columns, tile.threads, tile.vector)
    if not problem.moments:
        yield SharedTile(*shape, 1, False)
    if (tile.rows if problem.beside else tile.columns) < 2:
        return
    count, steps = tiles_of(problem, tile), steps_of(problem, tile)
    seen = {1}
    for waves in WAVES:
        parts = min(-(-chip * waves // count), steps, MOST_PARTS)
        if parts > 1:
            parts = -(-steps // -(-steps // parts))
        if parts not in seen:
            seen.add(parts)
            yield SharedTile(*shape, parts, True)
    if _clusters(problem):
        for parts in CLUSTERS:
            if parts <= ARCHS[arch].cluster and steps >= parts and count <= chip * CLUSTERED:
                yield SharedTile(*shape, parts, False)


def _clusters(problem: Reduction) -> bool:
    """Whether the blocks of a cluster may share a tile."""
    return problem.beside and problem.others == problem.second == 1 and not problem.moments


def ranked(shared: Shared, vector: int, arch: str) -> list[tuple[float, SharedTile]]:
    """The tiles of a reduction with their times in ns, the fastest first; none of open sizes."""
    kernel = shared.loops.kernel
    if kernel.symbol_names:
        return []
    problem = reduction_of(Values(kernel, {}), shared.space.column, shared.space.is_apart)
    return [] if problem is None else list(_ranked(problem, vector, arch, device_of(arch)))


@lru_cache(64)
def _ranked(
    problem: Reduction, vector: int, arch: str, device: Device
) -> tuple[tuple[float, SharedTile], ...]:
    every = list(tiles(problem, vector, arch))
    if not every:
        return ()
    times = times_of(problem, together(every), device).tolist()
    return tuple(sorted(zip(times, every, strict=True), key=lambda one: one[0]))
