"""Movements in boxes: what turns axes of which the innermost ones are short (S8, S9.3).

A block brings a box of a tensor to shared memory, whose lines there are as long as what lies
together in memory, across short axes too, and writes it in lines of the result.  So a movement of
pairs, or of small planes, moves whole sectors both ways.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, prod
from typing import cast

from xdsl.ir.affine import AffineDimExpr

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.plan.fields import Record
from polyc.dialects.region import (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    ReadOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
)
from polyc.dialects.region.kernel import kernel_of
from polyc.dialects.region.types import MemRefType
from polyc.families.facts import power_of_two
from polyc.families.loops.recognise import Loops, made_by, type_of

LINE = 128
"""Bytes that lie together in a box's lines at least, in memory and in the result."""

BOX = 8192
"""Bytes of a box, where axes are long enough."""

TILE = 64
"""What a tile of two axes has of a long one."""

SMALL = 1024
"""Elements of a tile of two axes up to which a block has too little on its way."""

WARP = 32
"""Threads of a warp."""

THREADS = (256, 128, 64, 32)
"""Threads of a block: the most that share a box in whole vectors."""

MOVED = (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    ReadOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
)
"""What may be computed of an element on its way."""


@dataclass(frozen=True)
class Side:
    """The axes of a tensor, outermost first, and how a box lies in it.

    ``line`` are the innermost ones, which a box has whole but for the first of them: they lie
    together in memory.
    """

    order: tuple[str, ...]
    line: tuple[str, ...]
    extents: Mapping[str, int]

    @property
    def others(self) -> tuple[str, ...]:
        """The axes outside of the line."""
        return self.order[: len(self.order) - len(self.line)]

    @property
    def tile(self) -> tuple[int, int]:
        """The lines of a box, and the elements of each."""
        lines, length = (prod(self.extents[a] for a in part) for part in (self.others, self.line))
        return lines, length

    def steps(self, part: Sequence[str]) -> dict[str, int]:
        """How far apart neighbours along each axis are among the points of a box along some."""
        found: dict[str, int] = {}
        step = 1
        for label in reversed(part):
            found[label] = step
            step *= self.extents[label]
        return found


@dataclass(frozen=True)
class Box:
    """A movement, and the box that a block has of it."""

    read: ReadOp
    sizes: Mapping[str, Dim]
    extents: Mapping[str, int]
    source: Side
    result: Side
    vector: int
    threads: int

    @cached_property
    def elements(self) -> int:
        return prod(self.extents.values())

    @property
    def facts(self) -> list[Assumption]:
        """What vectors along the lines of both sides need of open sizes."""
        if self.vector == 1:
            return []
        lengths = [self.dims(side)[-1] for side in (self.source, self.result)]
        return [Assumption(length.mod(self.vector), "==") for length in dict.fromkeys(lengths)]

    @property
    def warp_tile(self) -> list[int]:
        """What each of the warps has of the result's tile."""
        rows, columns = self.result.tile
        warps = self.threads // WARP
        across = gcd(columns, warps)
        return [rows * across // warps, columns // across]

    @property
    def cached(self) -> Record:
        """What ``cache`` says of the tensor that is moved."""
        kernel = kernel_of(self.read)
        assert kernel is not None
        name, at = kernel.name_of(self.read.tensor), self.result.order[-1]
        return {"tensor": name, "where": "smem", "at": f"{at}.o", "pingpong": False}

    def dims(self, side: Side) -> tuple[Dim, ...]:
        """The sizes of a tensor whose line is one axis."""
        whole = prod((self.sizes[a] for a in side.line), start=Dim.const(1))
        return (*(self.sizes[a] for a in side.others), whole)


def find_box(loops: Loops, arch: str, widest: int = MAX_VECTOR_BYTES) -> Box | None:
    """The box of a region that only moves, where a tile of two axes would have short lines; in
    vectors of so many elements at most."""
    kernel = loops.kernel
    if len(loops.spaces) != 1 or len(kernel.yield_op.values) != 1:
        return None
    (value,), (out,) = kernel.yield_op.values, kernel.outs
    made = list(made_by([value], into=True))
    reads = [op for op in made if isinstance(op, ReadOp)]
    if len(reads) != 1 or not all(isinstance(op, MOVED) for op in made):
        return None
    (read,), order = reads, type_of(value).labels
    there = _order_of(read)
    if there is None or there == order or set(there) != set(order):
        return None
    sizes = dict(zip(order, type_of(value).shape, strict=True))
    shape = cast("MemRefType", read.tensor.type).shape
    if list(out.shape) != [sizes[a] for a in order] or list(shape) != [sizes[a] for a in there]:
        return None
    size = max(
        element_bytes(without_sign(k)) for k in (out.element_type, read.result.type.element_type)
    )
    if not _is_short(loops, [sizes[axes[-1]] for axes in (there, order)], LINE // size):
        return None
    # Of bytes, lines of both sides may be more than a box has room for: then two sectors of each.
    for line in (LINE, LINE // 2):
        extents = dict.fromkeys(order, 1)
        for axes in (there, order):
            _reach(axes, sizes, extents, line // size)
        if prod(extents.values()) * size <= 2 * BOX:
            break
    else:
        return None
    _grow(there, sizes, extents, BOX // size)
    sides = [Side(axes, _line(axes, sizes, extents), extents) for axes in (there, order)]
    for vector in (8, 4, 2, 1):
        if vector * size > MAX_VECTOR_BYTES or vector > widest:
            continue
        for threads in THREADS:
            box = Box(read, sizes, extents, sides[0], sides[1], vector, threads)
            if _parts(box) and threads >= ARCHS[arch].warp:
                return box
    return None


def _order_of(read: ReadOp) -> tuple[str, ...] | None:
    """The axes of a tensor's dimensions, where a read has each point of it once."""
    results, labels = read.map.data.results, read.result.type.labels
    dims = [e.position for e in results if isinstance(e, AffineDimExpr)]
    whole = len(dims) == len(results) == len(set(dims)) == len(labels)
    return tuple(labels[d] for d in dims) if whole and read.guard is None else None


def _is_short(loops: Loops, innermost: Sequence[Dim], line: int) -> bool:
    """Whether an innermost axis is less than a line, or the tile of both axes is small."""
    known = [size.constant() for size in innermost]
    if any(size is not None and size < line for size in known):
        return True
    rows, columns = loops.spaces[0].sizes[-2:]
    small = (rows.constant() or TILE) * (columns.constant() or TILE)
    return bool(loops.turned) and small <= SMALL


def _reach(
    axes: Sequence[str], sizes: Mapping[str, Dim], extents: dict[str, int], want: int
) -> None:
    """Let a box have so many neighbours in memory of a tensor with these axes."""
    for label in reversed(axes):
        if want <= 1:
            return
        known = sizes[label].constant()
        taken = power_of_two(want)
        if known is not None:
            # What threads share evenly, or what there is so little of that they share the rest.
            even = known % 8 == 0 or known < 8
            whole = even and known <= want + want // 2
            taken = known if whole else min(taken, power_of_two(known))
        extents[label] = max(extents[label], taken)
        if known is None or extents[label] != known:
            return
        want = -(-want // max(1, known))


def _grow(
    axes: Sequence[str], sizes: Mapping[str, Dim], extents: dict[str, int], most: int
) -> None:
    """Let a box have more of the axes that it does not have whole, from inside."""
    for label in reversed(axes):
        known = sizes[label].constant()
        while prod(extents.values()) * 2 <= most:
            if known is not None and extents[label] * 2 > known:
                break
            extents[label] *= 2


def _line(
    axes: Sequence[str], sizes: Mapping[str, Dim], extents: Mapping[str, int]
) -> tuple[str, ...]:
    found: list[str] = []
    for label in reversed(axes):
        found.insert(0, label)
        if extents[label] != sizes[label].constant():
            break
    return tuple(found)


def _parts(box: Box) -> bool:
    """Whether threads share a box in vectors along the lines of both sides."""
    lanes = box.threads * box.vector
    if box.elements % lanes:
        return False
    for side in (box.source, box.result):
        length = box.dims(side)[-1]
        if side.tile[1] % box.vector:
            return False
        known = length.constant()
        if known is not None and known % box.vector:
            return False
    return True
