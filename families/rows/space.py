"""The ways that rows of a known length may be held (S8, S9, S11.1).

What follows from the architecture's limits: any power of two of warps that have a row in registers,
and any number of blocks that keep it in shared memory, one row after another, with rows that are
on their way meanwhile.  The model of time says which is the fastest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import cast

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.gpu.types import element_bytes
from polyc.families.rows.recognise import Rows
from polyc.families.rows.variants import KEPT, WARP, RowsVariant, are_copied

WARPS = (2, 4, 8, 16)
"""Warps of a block that has a row in registers."""

MOST_EACH = 64
"""Elements of a row that a thread has in registers at most."""

BLOCKS = (8, 16, 32)
"""Warps of a block that keeps rows in shared memory."""

WIDTH = 4096
"""Elements of a chunk of these, and a vector for each thread at least."""

ROOMS = (16, 24, 32, 40, 48, 64, 96, 128, 160, 192, 216)
"""KB of a row that a block keeps."""

HIGH = (32, 64, 128)
"""Rows that lie side by side of a panel."""

AT_ONCE, ROUNDS = (2, 3, 4), (1, 2, 3, 4, 5, 6)
"""Blocks of a multiprocessor, and panels that a team has one after another, where these come out
even."""

PANEL_WARPS = 8
"""Warps of a block that keeps panels."""

MOST_PARTS = 128
"""Blocks of a team that has a panel: each adds up what all of them have of its columns."""

STREAMING = (4, 8, 16, 32)
"""Warps of a block that walks over a row once."""

LOADS = (1, 2, 4, 8)
"""Vectors that each of their threads has on their way."""

CLUSTERS = (1, 2, 4, 8)
"""Blocks of a cluster that walk over a row together."""

SHORT_ROWS, SHORT_LENGTH = (1, 2, 4, 8, 16), 1024
"""Rows of a tile whose warps have one each at a time, and how long these are at most."""

STAGES = (1,)
"""Rows that it keeps."""


def space(rows: Rows, arch: str, vector: int) -> list[RowsVariant]:
    """The variants for rows of a known length, in vectors of ``vector``."""
    if rows.turned:
        return list(_panels(rows, arch, vector))
    found = [*_resident(rows, vector), *_kept(rows, arch, vector)]
    return found if rows.walks_again else [*found, *_streamed(rows, arch, vector)]


def _resident(rows: Rows, vector: int) -> Iterator[RowsVariant]:
    """Rows in registers."""
    length = rows.length.constant()
    assert length is not None
    for warps in WARPS:
        lanes = warps * WARP * vector
        columns = -(-length // lanes) * lanes
        if columns <= MOST_EACH * WARP * warps and length > lanes // 2:
            name = f"block_by{warps}"
            yield RowsVariant(name, "resident", 1, columns, warps, vector, exact=True)


def _streamed(rows: Rows, arch: str, vector: int) -> Iterator[RowsVariant]:
    """Rows that are walked once: some a warp each, or in chunks that a block or a cluster has."""
    length = rows.length.constant()
    assert length is not None
    for high in SHORT_ROWS:
        if length <= SHORT_LENGTH:
            yield RowsVariant(f"warp_rows{high}", "resident", high, SHORT_LENGTH, 1, vector)
    for warps in STREAMING:
        for loads in LOADS:
            columns = warps * WARP * vector * loads
            for parts in CLUSTERS:
                if parts <= ARCHS[arch].cluster and columns * parts <= max(length, columns):
                    name = f"chunks{columns}_by{warps}" + (f"_split{parts}" if parts > 1 else "")
                    yield RowsVariant(name, "streaming", 1, columns, warps, vector, parts)


def _shared_out(length: int, width: int, most: int) -> tuple[int, int]:
    """Chunks of each part of a row that has ``most`` at most, and the parts: as few chunks as so
    many parts leave, and as many parts as these need."""
    chunks = -(-length // (width * -(-length // (width * most))))
    return chunks, -(-length // (width * chunks))


def _panels(rows: Rows, arch: str, vector: int) -> Iterator[RowsVariant]:
    """Rows that lie side by side, in shared memory: of one block, which ends with them or goes on
    to others, or of a team."""
    length = rows.length.constant()
    if not rows.kept or vector < 2:
        return
    assert length is not None
    bytes_of = sum(element_bytes(op.result.type.element_type) for op in rows.kept)
    most = ARCHS[arch].shared_bytes - KEPT // 10
    for high in HIGH:
        shape = RowsVariant("", "kept", high, 0, PANEL_WARPS, vector)
        high, wide = shape.panel(rows)
        chunk = high * wide * bytes_of
        fits = {
            _shared_out(length, wide, room * 1024 // chunk)
            for room in ROOMS
            if room * 1024 >= chunk
        }
        for chunks, parts in sorted(fits | set(_balanced(rows, arch, high, wide))):
            kept = chunks * chunk
            if kept > most or parts > MOST_PARTS:
                continue
            name = f"panel{high}_team{parts}" if parts > 1 else f"panel{high}_keeps{chunks}"
            yield replace(shape, name=name, parts=parts, kept=kept, turns=True)
            if parts == 1:
                yield replace(shape, name=f"panel{high}_once", kept=kept)


def _balanced(rows: Rows, arch: str, high: int, wide: int) -> Iterator[tuple[int, int]]:
    """Chunks of each part of a panel, and the parts, with which teams have whole rounds of panels:
    the last one is not one of a few."""
    sizes = [axis.size.constant() for axis in rows.outer]
    length = rows.length.constant()
    if None in sizes or length is None:
        return
    *outer, beside = [cast("int", size) for size in sizes]
    panels = prod(outer) * -(-beside // high)
    for blocks in AT_ONCE:
        for rounds in ROUNDS:
            parts = ARCHS[arch].multiprocessors * blocks // max(1, -(-panels // rounds))
            if parts > 1:
                chunks = -(-length // (wide * parts))
                yield chunks, -(-length // (wide * chunks))


def _kept(rows: Rows, arch: str, vector: int) -> Iterator[RowsVariant]:
    """Rows in shared memory."""
    length, limits = rows.length.constant(), ARCHS[arch]
    if not rows.walks_again or not are_copied(rows, vector):
        return
    assert length is not None
    bytes_of = sum(element_bytes(op.result.type.element_type) for op in rows.kept)
    seen: set[tuple[int, int, int, int]] = set()
    for warps in BLOCKS:
        width = max(WIDTH, warps * WARP * vector)
        if length < width:
            continue
        for room in ROOMS:
            chunks = room * 1024 // (width * bytes_of)
            if not chunks:
                continue
            chunks, parts = _shared_out(length, width, chunks)
            for stages in STAGES:
                kept = stages * chunks * width * bytes_of
                key = (warps, chunks, parts, stages)
                room_left = limits.shared_bytes - KEPT // 10
                if key in seen or kept > room_left or parts > warps * WARP:
                    continue
                if parts > limits.multiprocessors * (room_left // kept):
                    continue  # A team runs at once.
                seen.add(key)
                name = f"kept_by{warps}_team{parts}_stages{stages}"
                yield RowsVariant(name, "kept", 1, width, warps, vector, parts, kept, True, stages)
