"""A region as loops: what each point of its outputs computes (the family that takes every region).

A point of an output is computed from reads, which are affine in the axes, and from reductions.  A
reduction is a loop over its axes; where its operand holds another reduction that depends on these
axes, that one is a loop inside.  What does not depend on them is computed before the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import cast

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.affine.expressions import Floor, expr_of, linear_of
from polyc.cost.pinned import MOST_POINTS, pinned_by
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import ui64, without_sign
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.region import (
    GatherOp,
    IndexOp,
    InsideOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ScanOp,
    ScatterOp,
    SortOp,
    UnaryOp,
)
from polyc.dialects.region.moments import moments_of
from polyc.dialects.region.orders import innermost_first, neighbour_of
from polyc.dialects.region.types import MemRefType, ValType
from polyc.rewriting.region.chunks import expanded

PARTS = 16
"""Points of a reduced axis from which on the lanes of a warp part them."""

TURNED = 16
"""Points of two axes from which on a tile of both is turned in shared memory: half a sector."""

SHORT_TURNED = 4
"""The same of an axis whose whole lines lie one after another along the other one, as the taps of a
filter do: threads that read them read memory in its order.  And of one whose points lie apart, as
every second pixel of a line does: as many as these fill a sector."""

FAR = 8
"""Elements by which points of a turned tile lie apart in memory at most: a sector has some."""

SHORT_WINDOW = 64
"""Points of windows that slide, as of a pooling, up to which a thread takes its own alone."""

LONG_WINDOW, MANY = 1024, 1 << 18
"""The same where there are so many outputs that threads alone fill a chip."""

FEW_POINTS, MANY_RESULTS, MORE = 256, 1 << 15, 4
"""Points of a reduction and the results beside it, all that lies together, up to which a thread
reduces its own alone where there are so many results: a block for each would end as it begins.  Of
several times as many results up to ``MORE`` times as many points."""

FEW_COLUMNS = 4
"""Neighbouring results up to which a warp is better used along what is reduced, where there are few
results in all: the coordinates of bodies that forces are summed for."""

SHORT_LINE = 64
"""Points of an innermost axis up to which a tile has neighbours along the next one as its rows."""

LANES = 32
"""Of a warp, whose neighbours have neighbouring columns where there are as many."""

MANY_PIECES, SHORTEST = 1024, 32
"""Pieces of a reduction from which on threads part these beside the points of each, and the bytes
of one: a sector."""

MANY_ROWS = 8
"""Points of an axis from which on it may be a tile's rows in the place of a longer one."""

MOST_TURNED = 2
"""Tensors that a kernel turns, each with a tile in shared memory."""


@dataclass(frozen=True)
class Loops:
    """Any region; ``expanded`` is it as its schedules will have it, without reductions in parts."""

    kernel: KernelOp
    expanded: KernelOp

    @property
    def values(self) -> list[SSAValue]:
        """The outputs."""
        return list(self.expanded.yield_op.values)

    @cached_property
    def reductions(self) -> list[ReduceOp]:
        """The reductions that the outputs need first."""
        return reductions_in(self.values)

    @cached_property
    def spaces(self) -> list[Space]:
        """The spaces of the outputs."""
        return spaces_of(self.expanded)

    @cached_property
    def turned(self) -> list[ReadOp]:
        """The reads that go through shared memory, turned there."""
        return turned_reads(self.expanded, self.spaces)


ALONE = (ScanOp, SortOp, ScatterOp)
"""What is computed for all elements of a line together."""


def find_loops(kernel: KernelOp) -> Loops:
    """What loops compute of a region.

    Raises PolycError ``UnsupportedProgram`` for one with a scan, a sort or a scatter, which other
    families compute once where loops would for each element.
    """
    for op in kernel.walk():
        if isinstance(op, ALONE):
            raise PolycError(
                "UnsupportedProgram",
                f"region @{kernel.sym_name.data} does not run as loops: it has a {op.name}, which "
                "each point would compute again, and no other family takes it as it is; make its "
                "result an output of a graph of its own",
                op,
            )
    return Loops(kernel, expanded(kernel))


def made_by(values: Sequence[SSAValue], into: bool = False) -> Iterator[Operation]:
    """The ops that ``values`` are made by; a reduction's operand is followed only with ``into``."""
    seen: set[SSAValue] = set()
    work = list(values)
    while work:
        value = work.pop()
        if value in seen or not isinstance(op := value.owner, Operation):
            continue
        seen.add(value)
        yield op
        if into or not isinstance(op, ReduceOp):
            work += reversed(op.operands)


def reductions_in(values: Sequence[SSAValue]) -> list[ReduceOp]:
    """The reductions that ``values`` need first; theirs in turn are ``reductions_in`` operands."""
    return [op for op in made_by(values) if isinstance(op, ReduceOp)]


def summed(values: Sequence[SSAValue]) -> list[ReduceOp]:
    """The same, or both of the moments that ``values`` need: the squares are about the mean, and
    threads find both together."""
    found = moments_of(values)
    return reductions_in(values) if found is None else found.reductions


LOADS = 4
"""Vectors that a thread has on their way at once where threads part reductions, with a register for
each of their elements."""


def loads_of(reductions: Sequence[ReduceOp]) -> int:
    """How many vectors a thread has at once: half as many where there are several reductions, or
    what is reduced takes registers of its own, as several tensors, an exponential or integers of 64
    bits do."""
    made = list(made_by([reduce.operand for reduce in reductions]))
    reads = sum(isinstance(op, ReadOp) for op in made)
    costly = any(isinstance(op, UnaryOp) and op.fn.data not in ("neg", "abs") for op in made)
    costly |= any(reduce.accumulates_in in (i64, ui64) for reduce in reductions)
    return LOADS // 2 if reads > 1 or costly or len(reductions) > 1 else LOADS


def neighbours_of(values: Sequence[SSAValue], over: Set[str] = frozenset()) -> set[str]:
    """The axes whose neighbours are neighbours in memory, in some read that ``values`` need.

    Other axes may go by steps beside, as heads do over their features.  What is reduced over axes
    of ``over`` may be made of values without them too, as distances from a mean are: these are read
    once for all of its points, and do not count.
    """
    made = list(made_by(values, into=True))
    behind = made_by([op.operand for op in made if isinstance(op, ReduceOp)], into=True)
    once = {op for op in behind if over and over.isdisjoint(type_of(op.results[0]).labels)}
    reads = [op for op in made if isinstance(op, ReadOp) and op not in once]
    return {label for op in reads if (label := neighbour_of(op)) is not None}


def line_of(op: ReadOp) -> tuple[str | None, int]:
    """The axis that goes along the lines in memory of what is read, and by how many elements: 1
    where its neighbours are those in memory, or a few, as where every second pixel is read.
    """
    label = neighbour_of(op)
    if label is not None or not op.map.data.results:
        return label, 1
    match linear_of(op.map.data.results[-1]).terms:
        case [(("d", int(position)), step)] if 1 < step <= FAR:
            return op.result.type.labels[position], step
        case _:
            return None, 1


def windows_of(values: Sequence[SSAValue]) -> set[str]:
    """The axes along which windows slide that reductions which ``values`` need go over."""
    found: set[str] = set()
    reduced = {a for op in made_by(values, True) if isinstance(op, ReduceOp) for a in op.labels}
    for op in made_by(values, into=True):
        for expr in op.map.data.results if isinstance(op, ReadOp) else ():
            labels = type_of(op.results[0]).labels
            used = {labels[e.position] for e in expr.dfs() if isinstance(e, AffineDimExpr)}
            if used & reduced:
                found |= used - reduced
    return found


def axes_in(values: Sequence[SSAValue]) -> list[str]:
    """The axes at whose points ``values`` are read or asked for, outside of reductions."""
    found: dict[str, None] = {}
    for op in made_by(values):
        if isinstance(op, ReadOp | IndexOp | InsideOp):
            found.update(dict.fromkeys(op.result.type.labels))
    return list(found)


def type_of(value: SSAValue) -> ValType:
    """The type of a region value."""
    return cast(ValType, value.type)


def size_of(reduce: ReduceOp, label: str) -> Dim:
    """How many points of an axis a reduction takes."""
    axis = type_of(reduce.operand).axis(label)
    assert axis is not None
    return axis.size


# Cost ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Steps:
    """What one element costs: how often loops run for it, as expressions of the sizes."""

    once: tuple[Dim, ...]
    """Of each loop nest that the element needs, the steps."""
    nested: ReduceOp | None
    """A reduction that is computed again in the steps of another one, if there is one."""

    @property
    def total(self) -> Dim:
        return sum(self.once, Dim.const(0))


def steps_of(kernel: KernelOp) -> Steps:
    """What an element of the outputs costs where all loops run for it alone."""
    nested: list[ReduceOp] = []
    seen: set[SSAValue] = set()
    loops: list[Dim] = []

    def walk(reduce: ReduceOp, bound: Set[str], times: Dim) -> None:
        inner = bound | set(reduce.labels)
        steps = times
        for label in reduce.labels:
            steps = steps * size_of(reduce, label)
        loops.append(steps)
        for other in reductions_in([reduce.operand]):
            labels = set(type_of(other.result).labels)
            if labels & inner:
                nested.append(other)
                walk(other, inner, steps)
            else:
                first(other)

    def first(reduce: ReduceOp) -> None:
        if reduce.result not in seen:
            seen.add(reduce.result)
            walk(reduce, set(), Dim.const(1))

    for reduce in reductions_in(list(kernel.yield_op.values)):
        first(reduce)
    return Steps(tuple(loops), nested[0] if nested else None)


# Spaces -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Space:
    """Outputs over the same axes: the space that a tile is a part of.

    A tile runs along ``column``, the innermost axis, and along ``row``; of each ``outer`` axis it
    has one point.  Where neighbours in memory are neighbours of a reduced axis and not of the
    innermost one, that one is the row, and the columns are left to the reduction.  Blocks
    part the other axes, and each walks the ``walked`` ones: the outputs need what is reduced over
    them, which a block then reduces once.
    """

    outputs: tuple[int, ...]
    outer: tuple[str, ...]
    row: str | None
    column: str | None
    sizes: tuple[Dim, ...]
    """Of ``outer``, then of the row and the column, 1 for none."""
    walked: frozenset[str]

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The axes in the order of ``sizes``."""
        return (*self.outer, self.row, self.column)

    @property
    def is_apart(self) -> bool:
        """Whether a tile has one point of the outputs."""
        return self.row is None and self.column is None

    def along(self, place: int) -> int | None:
        """The axis of a tile, 0 its rows or 1 its columns, that one of ``labels`` runs along."""
        return place - len(self.outer) if place >= len(self.outer) else None


def spaces_of(kernel: KernelOp) -> list[Space]:
    """The spaces of a kernel's outputs."""
    groups: dict[frozenset[str], list[int]] = {}
    for i, value in enumerate(kernel.yield_op.values):
        groups.setdefault(frozenset(type_of(value).labels), []).append(i)
    return [_space(kernel, outputs) for outputs in groups.values()]


def _space(kernel: KernelOp, outputs: Sequence[int]) -> Space:
    values = [kernel.yield_op.values[i] for i in outputs]
    kind = type_of(values[0])
    sizes = dict(zip(kind.labels, kind.shape, strict=True))
    needed = reductions_in(values)
    reduced = {label for reduce in needed for label in reduce.labels}
    together = neighbours_of(values, reduced)
    *leading, column = kind.labels or (None,)
    row: str | None = None
    far = {label for reduce in needed for label in reduce.labels if _is_far(size_of(reduce, label))}
    if _are_pieces(needed, sizes, together):
        leading, column = list(kind.labels), None
    elif together & far and _is_left(kind, together) and not _slides(values, {column}, needed):
        row, column = column, None
    elif _parted(kernel, values, needed) and not _are_short(kind, needed):
        pass  # Rows of threads part the points of the reduction, and blocks the other axes.
    else:
        # Windows of neighbours overlap.  An open size may be large; of known ones the largest is.
        slid = [label for label in leading if label in windows_of(values)]
        across = [] if needed else _turned_axes(values, sizes)
        # Short lines lie one after another along the axis outside of them.
        inner = [] if needed or not _is_short_line(sizes, column) else leading[-1:]
        inner = [label for label in inner if _extent(sizes[label]) >= TURNED]
        for label in across[:1] or slid[-1:] or inner or leading:
            if sizes[label].constant() == 1:
                continue
            if row is None or _extent(sizes[label]) >= _extent(sizes[row]):
                row = label
        long = column is not None and _extent(sizes[column]) >= LANES
        if row is not None and column is not None and long and not (needed or across or inner):
            # Places that depend on columns, and on no row, a thread finds once for all of its rows.
            apart = not (is_plain(values, row) or is_plain(values, column))
            plain = [a for a in leading if (sizes[a].constant() or 0) >= MANY_ROWS]
            told = any(isinstance(op, IndexOp | GatherOp) for op in made_by(values))
            if apart and told:
                plain = [a for a in plain if is_plain(values, a)]
                row = max(plain, key=lambda a: _extent(sizes[a]), default=row)
            elif apart and leading[-1] in plain:
                row = leading[-1]  # Blocks go on as memory does.
        elif needed and not (slid or across) and row is not None and column is not None and long:
            # The same of windows that have nothing in common.
            row = leading[-1] if (sizes[leading[-1]].constant() or 0) >= MANY_ROWS else row
    outer = tuple(label for label in leading if label != row)
    one = Dim.const(1)
    ends = [one if label is None else sizes[label] for label in (row, column)]
    kept = {label for reduce in needed for label in type_of(reduce.result).labels}
    walked = reduced.intersection(kind.labels) - kept
    whole = (*(sizes[a] for a in outer), *ends)
    return Space(tuple(outputs), outer, row, column, whole, frozenset(walked))


def _is_left(kind: ValType, together: Set[str]) -> bool:
    """Whether a tile's columns are a reduction's, whose points lie together in memory: points of
    the innermost axis do not, or there are less than a sector of them and few results in all."""
    if not kind.labels or kind.labels[-1] not in together:
        return True
    results = prod(map(_extent, kind.shape))
    return _extent(kind.shape[-1]) <= FEW_COLUMNS and results <= MANY_RESULTS


def _are_pieces(needed: Sequence[ReduceOp], sizes: Mapping[str, Dim], together: Set[str]) -> bool:
    """Whether what is reduced lies in short pieces beside those of other results, and there are
    many of each, as the channels of a group do in channels last: threads part the pieces."""
    if not needed or len({tuple(reduce.labels) for reduce in needed}) > 1:
        return False
    inner, *others = innermost_first(needed[0])
    short = size_of(needed[0], inner).constant()
    if inner not in together or short is None or short >= SHORT_LINE:
        return False
    reads = [op for op in made_by([needed[0].operand]) if isinstance(op, ReadOp)]
    kinds = [op.result.type.element_type for op in reads if neighbour_of(op) == inner]
    if short * min(map(element_bytes, map(without_sign, kinds)), default=0) < SHORTEST:
        return False
    longest = max((_extent(size_of(needed[0], label)) for label in others), default=0)
    return bool(sizes) and longest >= MANY_PIECES


def is_plain(values: Sequence[SSAValue], label: str) -> bool:
    """Whether what values read is at an axis's own points: none of its places is a quotient of
    these, and no index depends on it."""
    for op in made_by(values):
        if isinstance(op, IndexOp) and label in op.result.type.labels:
            return False
        if not isinstance(op, ReadOp) or label not in op.result.type.labels:
            continue
        at = op.result.type.labels.index(label)
        for expr in op.map.data.results:
            for atom, _ in linear_of(expr).terms:
                if isinstance(atom, Floor) and at in expr_of(atom.num).used_dims():
                    return False
    return True


def _are_short(kind: ValType, needed: Sequence[ReduceOp]) -> bool:
    """Whether many results are of few points each, of known sizes, and few of them lie together."""
    points = max(prod(_extent(size_of(r, a)) for a in r.labels) for r in needed)
    results = prod(map(_extent, kind.shape))
    together = points * _extent(kind.shape[-1])
    most = FEW_POINTS * min(MORE, results // MANY_RESULTS)
    return together <= most and results < float("inf")


def _is_short_line(sizes: Mapping[str, Dim], column: str | None) -> bool:
    """Whether the innermost axis has fewer points than a tile of rows is wide."""
    known = None if column is None else sizes[column].constant()
    return known is not None and known <= SHORT_LINE


def _turned_axes(values: Sequence[SSAValue], sizes: Mapping[str, Dim]) -> list[str]:
    """The axes that lie innermost in what values are read from, and not in the values."""
    column = next(iter(type_of(values[0]).labels[-1:]), None)
    if column is None or _extent(sizes[column]) < TURNED:
        return []
    found: dict[str, None] = {}
    for op in made_by(values):
        if isinstance(op, ReadOp) and column in op.result.type.labels:
            label, step = line_of(op)
            size = None if label is None or label == column else sizes.get(label)
            if label is None or size is None:
                continue
            apart = step > 1 or _are_whole_lines(op, column, size)
            least = SHORT_TURNED if apart else TURNED
            if _extent(size) >= least:
                found[label] = None
    return list(found)


def _are_whole_lines(read: ReadOp, column: str, size: Dim) -> bool:
    """Whether lines of ``size`` points that are read lie one after another along ``column``."""
    shape = cast("MemRefType", read.tensor.type).shape
    *_, outer = read.map.data.results[:-1] or (None,)
    walks = isinstance(outer, AffineDimExpr) and read.result.type.labels[outer.position] == column
    return walks and shape[-1] == size and isinstance(read.map.data.results[-1], AffineDimExpr)


def turned_reads(kernel: KernelOp, spaces: Sequence[Space]) -> list[ReadOp]:
    """The reads of tensors that lie along the rows of a tile, where outputs lie along its columns.

    Threads that have neighbours of an output would each read a cache line of their own, so a tile
    of the tensor goes through shared memory, read and written along the lines of memory.  A tile
    has a place along each axis of such a read: one below a gather is not turned.
    """
    values = list(kernel.yield_op.values)
    if len(spaces) != 1 or reductions_in(values):
        return []
    (space,) = spaces
    if space.row is None or space.row not in _turned_axes(values, _sizes_of(space)):
        return []
    reads = [op for op in made_by(values) if isinstance(op, ReadOp)]
    ours = [op for op in reads if line_of(op)[0] == space.row]
    placed = [op for op in ours if {*op.result.type.labels} <= {*space.labels}]
    return [op for op in placed if space.column in op.result.type.labels][:MOST_TURNED]


def _sizes_of(space: Space) -> dict[str, Dim]:
    return {a: n for a, n in zip(space.labels, space.sizes, strict=True) if a is not None}


def _parted(kernel: KernelOp, values: Sequence[SSAValue], needed: Sequence[ReduceOp]) -> bool:
    """Whether threads that lie along the columns are better used for parts of a reduction.

    The columns lie together in memory, nothing that a reduction reads is read again along another
    axis of the outputs, as short windows that slide along one do, but for a number that all outputs
    have of a step, and no output has an axis that is reduced.  Where each point of the reduction
    and the outputs has an element of its own in some tensor, that one is what is waited for, and
    others may be read again, as a mask of rows beside the rows is.
    """
    axes = [type_of(value).labels for value in kernel.yield_op.values]
    own = axes[0]
    summed = {label for reduce in needed for label in reduce.labels}
    if len(own) < 2 or any(set(a) != set(own) for a in axes) or summed & set(own) or not summed:
        return False
    if own[-1] not in neighbours_of(values, summed):
        return False
    if _slides(values, set(own), needed):
        return False
    reads = (op for op in made_by(values, into=True) if isinstance(op, ReadOp))
    labels = [set(op.result.type.labels) for op in reads]
    if any(found >= summed.union(own) for found in labels):
        return True
    return all(found.issuperset(own) or found <= summed for found in labels if found & summed)


def _slides(values: Sequence[SSAValue], axes: Set[str | None], needed: Sequence[ReduceOp]) -> bool:
    """Whether windows slide along some axes that are short, or of which there are many: a thread
    takes its own alone."""
    if not windows_of(values) & axes:
        return False
    longest = max(prod(_extent(size_of(r, a)) for a in r.labels) for r in needed)
    outputs = prod(_extent(size) for size in type_of(values[0]).shape)
    return longest <= (SHORT_WINDOW if outputs < MANY else LONG_WINDOW)


def parted(reduce: ReduceOp, along: tuple[bool, bool], tile: tuple[int, int]) -> dict[str, int]:
    """The reduced axes whose points the threads along an axis of a tile part, with that axis.

    ``along`` says whether results differ between a tile's rows, and its columns.  Parts are brought
    together in f32; a sum in a narrower type keeps its order.
    """
    if not reduce.is_shared:
        return {}
    free = [axis for axis in (1, 0) if not along[axis] and tile[axis] > 1]
    return dict(zip(innermost_first(reduce), free, strict=False))


def pinned_axes(reduce: ReduceOp) -> set[str]:
    """The axes of a reduction of which guards say at which points a tensor is read at all: these
    are gone through one by one, so that each reads what it has."""
    reads = (op for op in made_by([reduce.operand]) if isinstance(op, ReadOp))
    found = set[str]().union(*(pinned_by(read, reduce.labels) for read in reads))
    points = prod(size_of(reduce, label).constant() or MOST_POINTS + 1 for label in found)
    return found if points <= MOST_POINTS else set()


def split_size(kernel: KernelOp, tile: tuple[int, int]) -> Dim | None:
    """The points of the reductions that the blocks of a cluster may share, or None.

    All reductions are parted by a tile's rows, over axes of the same size, and none needs another
    one's result; the outputs are over the same axes, and no block walks one.
    """
    spaces = spaces_of(kernel)
    needed = reductions_in(list(kernel.yield_op.values))
    if len(spaces) != 1 or spaces[0].row is not None or spaces[0].walked or not needed:
        return None
    column = spaces[0].column
    sizes: set[Dim] = set()
    for reduce in needed:
        apart = parted(reduce, (False, column in type_of(reduce.result).labels), tile)
        label = next((a for a, axis in apart.items() if axis == 0), None)
        if label is None or reductions_in([reduce.operand]):
            return None
        sizes.add(size_of(reduce, label))
    return sizes.pop() if len(sizes) == 1 else None


def _is_far(size: Dim) -> bool:
    """Whether a reduction goes over an axis of so many points that a warp's lanes part them."""
    return _extent(size) >= PARTS


def _extent(size: Dim) -> float:
    found = size.constant()
    return float("inf") if found is None else found
