"""The tiles of loops by rule: what a region's axes and known sizes leave of them (S8)."""

from __future__ import annotations

from math import prod

from polyc.cost.places import finding
from polyc.cost.time import TYPICAL
from polyc.cost.values import Values
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.region import ReadOp
from polyc.dialects.region.orders import innermost_first
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import power_of_two, power_within
from polyc.families.loops.recognise import (
    TURNED,
    Loops,
    Space,
    is_plain,
    loads_of,
    made_by,
    neighbours_of,
    size_of,
    type_of,
)

WARPS = 8
"""Of a block."""
REGISTERS = 4
"""Elements of a thread, where vectors are not longer."""
SMALLER = 8
"""How many times smaller a tensor is that is read in narrower accesses, if it has to be."""
THREADS = 2048
"""That a multiprocessor has room for."""
COLUMNS = 128
"""Of a tile with rows.  A warp then has whole rows, and a row's reduction stays in it."""
NARROWEST = 32
"""Of one with rows at least: a warp's threads have neighbours of a row."""
PARTED = 32
"""Of one whose rows are parts of a reduction, so that there are more blocks: a warp's."""
VECTOR = 8
"""Elements of the widest access."""
ACCUMULATOR_BYTES = 4
"""What integers are accumulated in at least."""


LINE_BYTES = 128
"""Of a cache line: what a turned tile has of one at least, in memory and turned."""
TURNED_SIDE = 64
"""Rows and columns of a turned tile at most."""


def deepest(loops: Loops) -> Dim:
    """The size of the innermost reduced axis: the largest, or one that is not known."""
    sizes = [size_of(reduce, innermost_first(reduce)[0]) for reduce in loops.reductions]
    return max(sizes, key=lambda size: size.constant() or float("inf"), default=Dim.const(1))


def tile_of(
    loops: Loops, arch: str, parts: bool, vector: int, beside: int = PARTED
) -> tuple[int, int]:
    """Rows and columns of a tile; known sizes bound it.

    Where its threads part reductions (``parts``), a tile has all of its rows and columns: those
    that no output runs along part the points, and ``beside`` is what it has of the others at most.
    """
    warp = ARCHS[arch].warp
    together = parts and not _are_own(loops)
    own = REGISTERS if together else _results_each(loops, arch)
    elements = WARPS * warp * max(own, vector * (loads_of(loops.reductions) if together else 1))
    if loops.turned:
        narrowest = min(element_bytes(op.result.type.element_type) for op in loops.turned)
        side = min(LINE_BYTES // narrowest, TURNED_SIDE)
        (space,) = loops.spaces
        short = (space.sizes[-2].constant() or TURNED) < TURNED
        # Of short lines there are more.
        return power_within(space.sizes[-2], side), power_within(
            space.sizes[-1], side * (1 + short)
        )
    space = max(
        loops.spaces, key=lambda s: len(s.sizes) * (s.column is not None) + (s.row is not None)
    )
    *_, rows, columns = space.sizes
    if space.row is None:
        wide = elements if parts else 1
        if space.column is not None:
            wide = power_within(columns, beside if parts else elements)
    else:
        wide = COLUMNS if space.column is None else power_within(columns, COLUMNS)
        plain = is_plain(loops.values, space.row)
        if vector == 1 and not loops.reductions and space.column is not None and plain:
            wide = _narrowed(loops, space, wide, elements // (WARPS * warp))
    high = elements // wide
    if not parts:
        high = power_within(rows, high)
        if space.row is not None and space.column is not None:
            # Of few rows a tile has more columns, so that no threads are idle.
            wide = max(wide, power_within(columns, elements // high))
    elif vector > 1:
        # All threads have a vector, and rows beyond the longest reduction are nobody's.
        high = max(power_within(deepest(loops), high), WARPS * warp * vector // wide)
    # A warp has an element each at least.
    return (high, wide) if high * wide >= warp else (high, warp // high)


def flat_points(loops: Loops, arch: str, points: int) -> int:
    """Points of a tile where all axes are one: as many of each thread as of other tiles, and of a
    block fewer where there would be no more than the multiprocessors."""
    warp = ARCHS[arch].warp
    wide = WARPS * warp * _results_each(loops, arch)
    while wide > warp and points // wide < ARCHS[arch].multiprocessors:
        wide //= 2
    return wide


def _narrowed(loops: Loops, space: Space, wide: int, each: int) -> int:
    """Columns of a tile, ``wide`` or less, whose threads have ``each`` elements one by one.

    Of a narrow one a thread has more rows of fewer columns, for which it finds once what depends on
    these alone, as places of a resize do: where rows have places of their own, nothing is saved.
    """
    kernel = loops.expanded
    values = Values(kernel, dict.fromkeys(kernel.symbol_names, TYPICAL))
    outputs = [values.outputs[i] for i in space.outputs]
    found = finding(values, outputs, [str(space.row)], [str(space.column)])
    rows = space.sizes[-2].constant() or TYPICAL

    def cost(columns: int) -> tuple[float, int]:
        own = min(each, columns / min(columns, NARROWEST))
        # Of few rows a thread's others are nobody's.
        return found.each(max(1.0, min(each / own, rows)), own), -columns

    widths = [wide]
    while widths[-1] > NARROWEST:
        widths.append(widths[-1] // 2)
    return min(widths, key=cost)


def _results_each(loops: Loops, arch: str) -> int:
    """Elements of a thread where vectors are not longer: one, where each is reduced by it alone and
    there are no more of known sizes than threads find room; where nothing is reduced as many as
    have the bytes of a vector."""
    if not loops.reductions:
        widest = max((element_bytes(t.element_type) for t in _large(loops)), default=REGISTERS)
        return max(REGISTERS, MAX_VECTOR_BYTES // widest)
    sizes = [
        size.constant()
        for space in loops.spaces
        for label, size in zip(space.labels, space.sizes, strict=True)
        if label not in space.walked
    ]
    if not loops.reductions or len(loops.spaces) > 1 or None in sizes:
        return REGISTERS
    many = prod(size or 0 for size in sizes) // (ARCHS[arch].multiprocessors * THREADS)
    return min(REGISTERS, power_of_two(max(1, many)))


def warp_tile_of(tile: tuple[int, int], warps: int) -> list[int]:
    """What each of so many warps has of a tile: whole rows, or the same part of them."""
    rows, columns = tile
    down = min(rows, warps)
    return [rows // down, columns * down // warps]


def _large(loops: Loops) -> list[MemRefType]:
    """Of known sizes the tensors that are not much smaller than others, else those of most axes."""
    seen = list(loops.kernel.seen)
    points = [prod(size.constant() or 0 for size in t.shape) for t in seen]
    if all(points):
        most = max(points, default=0)
        return [t for t, count in zip(seen, points, strict=True) if count * SMALLER >= most]
    axes = max((len(t.shape) for t in seen), default=0)
    return [t for t in seen if len(t.shape) == axes]


def vector_of(loops: Loops) -> int:
    """Elements that one access can take at most: 1 where none lie side by side for a thread."""
    columns = {s.column for s in loops.spaces}
    if len(columns) > 1 or None in columns:
        return 1
    # A thread has vectors where it reduces alone, and where rows of threads part a reduction, each
    # with columns of its own; not where a row's threads share one.
    parted = all(s.row is None and not s.walked for s in loops.spaces)
    if not parted and not reduces_alone(loops):
        return 1
    # A number that is the same everywhere, as a seed is, has no neighbours.
    reads = any(isinstance(op, ReadOp) and op.result.type.labels for op in made_by(loops.values))
    if reads and not columns & neighbours_of(loops.values) and not loops.turned:
        return 1
    # What has fewer axes, as a number of each column, is read in several accesses.
    widest = max(element_bytes(t.element_type) for t in _large(loops))
    if any(is_integer(reduce.accumulator) for reduce in loops.reductions):
        # Integers are accumulated in 32 bits, and a thread has no registers for more of them.
        widest = max(widest, ACCUMULATOR_BYTES)
    return min(VECTOR, MAX_VECTOR_BYTES // widest)


def reduces_alone(loops: Loops) -> bool:
    """Whether each point of a tile has reductions of its own, so that no threads part them."""
    return _are_own(loops) and not any(space.walked for space in loops.spaces)


def _are_own(loops: Loops) -> bool:
    """Whether reductions differ along both axes of a tile, whatever a block walks."""
    own = [set(type_of(reduce.result).labels) for reduce in loops.reductions]
    return all({s.row, s.column} <= labels for labels in own for s in loops.spaces)


def turned_names(loops: Loops) -> list[str]:
    """The tensors that a kernel turns in shared memory."""
    return list(dict.fromkeys(loops.expanded.name_of(op.tensor) for op in loops.turned))
