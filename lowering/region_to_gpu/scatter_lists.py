"""``region-to-gpu``: lists of the updates of each place of a scatter, made ahead (S9, T3).

A place has the *list* of its updates, in their order.  Kernels make the lists, so that no block
looks at all updates:

1. ``links``: an atomic sum counts the updates of a list, and gives each a number, in any order.
   Those of a block that fall to one place are counted in shared memory first, so that no place is
   waited for by more than the blocks.  The first few to come stand where the place says, and a list
   of no more is left so.  A further one takes the head of one of the place's chains, in turn, by an
   atomic exchange, and is linked to what was there.
2. ``order``: an update walks along the chains of a longer list that it is in, all at once, and
   counts those before it.  So it knows its rank, and the last ones before it.  The first few of a
   list stand where the place says; a later one writes itself into the *group* of its rank, which
   the first of the group owns, and the first of one is linked to the first of the group before.

So a walk takes as long as a chain, and a list of more than ``LONG`` updates is not walked along.
The blocks of ``order`` sort the updates of such lists, a ``CHUNK`` that follow each other at a
time: those of one list become a *run*, in their order, and runs of a list are linked in several
chains, which chunks take in turn.

3. ``fill``: an update walks along the runs of its list, of which a chunk has one, and adds up how
   many are before its own.  So it knows its rank, and writes itself into a *part* of the list, of
   ``PART`` that follow each other.
4. ``parts`` (``scatter_parts.py``): blocks combine the updates of a part.

What these leave of a list is the same in every run.  Of ``set`` one kernel leaves for each place
the last update that falls to it, by an atomic maximum; of extremes, and of sums of integers, what
all updates make together, which is the same in any order (``scatter_atomics.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import accumulation, without_sign
from polyc.dialects.common.gathers import REDUCTIONS
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import (
    GlobalType,
)
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import AHEAD
from polyc.dialects.region.types import AxisAttr
from polyc.families.facts import power_of_two
from polyc.families.scatters.recognise import Lists, Scatters
from polyc.families.scatters.schedules import MOST
from polyc.lowering.region_to_gpu.frame import Frame, Space
from polyc.lowering.region_to_gpu.grid import Axis, Grid
from polyc.lowering.region_to_gpu.point import Point
from polyc.lowering.region_to_gpu.scatter_atomics import Key
from polyc.rewriting.emit import Emit

THREADS = 256
"""Threads of a block, each of which has an update."""

LINKING = 512
"""Threads of a block that links updates.  Those of one place are counted together."""

SLOTS = 1024
"""Places that such a block counts in shared memory, by the last bits of the list's number; of
several that share a slot, the last one.  An update of another one is counted by itself."""

POOLED = 1024
"""Updates from which on blocks combine those of a place before atomics do."""

EACH = 4
"""Updates of a thread of these."""

FIRST = 4
"""Updates of a list that stand where its place says."""

CHAINS = 3
"""Chains of a list in which further ones are linked in turn, so that as many are on their way at
once.  How long each is follows from how long the list is, so that nobody asks for its end, and what
is linked first may be linked to anything."""

GROUP = 4
"""Further ones that lie beside each other, so that their places come at once."""

LONG = 64
"""Updates of the longest list that is walked along, and combined one after another."""

PART = 128
"""Updates of a longer one that are combined to one, twice ``LONG`` or more.  Of one of ``GROWS``
they are twice as many, and so on each time that it is four times as long: as parts go side by side,
and what they come to goes one after another."""

GROWS = 2048
"""The shortest list whose parts are larger."""

ORDERING = 2
"""Blocks of a multiprocessor that walk along lists: for as many there are shared memory and
registers."""

CHUNK = 512
"""Updates that follow each other that a block of as many threads sorts by their lists.  What that
takes of shared memory is missing in the cache that walks go through: with 2048, 33 KB, a scatter of
65536 updates of 4096 rows took 91 us where it had taken 75 without."""

ID, FIRST_OF_RUN, RUN, BEFORE, LIST = range(5)
"""What is known of a place in a sorted chunk: the update that came there, where its run begins, how
long that is, the run of the same list that was linked before it in its chain, from 1, and the
number of its list."""

KNOWN = 8
"""Numbers of a place that these have room in."""

RUNS, FIRST_PART, FIRST_MEMBER, MEMBERS_OF = range(4)
"""What is known of a long list behind the heads of its chains: how many runs and updates it has,
and which part and which member of all is its first."""

RUN_CHAINS = 31
"""Chains of the runs of a list, so that who walks along them waits for as many at once."""

PLACE_BITS = 32
"""Of a key, those that are the place of an update in their order; that of its list is above."""

PARTS, MANY, MEMBERS = range(3)
"""What is counted of all lists: parts of long ones, how many are long, and their updates."""

HALF = "half"
"""What the axis is called of the blocks that sort chunks and those that walk along lists."""

WHOLE = 3
"""Of how many lists' lengths what is counted of all takes the room; of a tile how long its longest
list is stands behind it, and then the lengths."""

ROOM = FIRST
"""Where ``firsts`` has of a long list its first part.  Of others it has the first to come, and from
``FIRST`` on, where there are more, the first in their order."""

SIZE, BEGIN = range(2)
"""What is known of a part: how many updates it has, and where these begin."""


@dataclass(frozen=True)
class ListMaker:
    """The kernels ahead of a scatter's own, and the workspaces between them."""

    scatters: Scatters
    lists: Lists
    plan: ScheduleOp
    way: str

    @property
    def count(self) -> Dim:
        """How many updates there are."""
        return prod((size for _, size in self.scatters.over), start=Dim.const(1))

    @property
    def label(self) -> str:
        """What the axis of their order is called here: as the first axis that they have."""
        return self.scatters.over[0][0]

    def at(self, point: Point, place: SSAValue) -> dict[str, AffineExpr]:
        """Where an update at a place in the order is on each axis that they have."""
        found: dict[str, AffineExpr] = {}
        whole = Dim.const(1)
        longer = [(label, size) for label, size in self.scatters.over if size != whole]
        emit, size = point.emit, point.frame.size
        for label, extent in reversed(longer[1:]):
            own = emit.value(arith.RemUIOp(place, size(extent)))
            place = emit.value(arith.DivUIOp(place, size(extent)))
            found[label] = point.place_at(own)
        for label, _ in longer[:1]:
            found[label] = point.place_at(place)
        return {label: found.get(label, AffineExpr.constant(0)) for label, _ in self.scatters.over}

    @property
    def batch(self) -> list[Dim]:
        """Of how many sets of updates there are lists."""
        return [axis.size for axis in self.lists.batch]

    @property
    def listed(self) -> list[AxisAttr]:
        """The axes whose points have a list each, outermost first."""
        return [axis for axis in self.scatters.axes if axis.label in self.lists.labels]

    @property
    def column(self) -> AxisAttr | None:
        """The axis of a tile's columns, where these have a list each."""
        return next((axis for axis in self.listed if axis is self.scatters.column), None)

    @property
    def rows(self) -> int:
        """Rows of a tile."""
        return self.plan.tile_sizes[0]

    @property
    def columns(self) -> int:
        """Columns of a tile that have a list each."""
        return 1 if self.column is None else self.plan.tile_sizes[1]

    @property
    def row(self) -> AxisAttr:
        """The axis of a tile's rows, which have a list each."""
        row = self.scatters.row
        assert row is not None
        return row

    # Launches and workspaces

    @property
    def grid(self) -> Grid:
        """What the blocks of each kernel part: the updates."""
        return self._grid(THREADS)

    def _grid(self, threads: int) -> Grid:
        batch = [Axis(axis.label, axis.size) for axis in self.lists.batch]
        return Grid((*batch, Axis(self.label, self.count, threads)))

    @property
    def grids(self) -> list[Grid]:
        """The grid of each kernel of which a thread has an update.  In that which orders lists some
        blocks sort the chunks of long ones, the first to begin, and as many walk along others."""
        if self.way != "listed":
            return [self._grid(self.linking * self.each) if self.pools else self.grid]
        halves = Grid((Axis(HALF, Dim.const(2)), *self._grid(CHUNK).axes))
        return [self._grid(self.linking), halves, self.grid]

    @property
    def linking(self) -> int:
        """Threads of a block that counts or combines updates of one place together."""
        known = self.count.constant()
        return LINKING if known is None else max(32, min(LINKING, power_of_two(max(1, known))))

    @property
    def slots(self) -> int:
        """Slots of its table."""
        return min(SLOTS, 2 * self.linking)

    @property
    def pools(self) -> bool:
        """Whether blocks combine updates in a table before atomics do: those of 32 bits, where
        blocks have many."""
        if self.way != "atomic" or self.key.kind != i32:
            return False
        known = self.count.constant()
        return not self.lists.batch if known is None else known >= POOLED

    @property
    def each(self) -> int:
        """Updates of a thread."""
        return EACH if self.pools else 1

    @property
    def table(self) -> tuple[int, bool]:
        """The slots of a table of totals, and whether each place has one."""
        places = prod((one.axis.size for one in self.lists.placed), start=Dim.const(1)).constant()
        if places is not None and places <= self.linking * self.each:
            return max(1, places), True
        return self.slots, False

    @property
    def names(self) -> list[str]:
        """The kernels' names."""
        return [f"{self.plan.kernel_name}_{name}" for name in AHEAD[self.way]]

    def launches(self, align: Sequence[int]) -> list[LaunchOp]:
        """The kernels of which a thread has an update."""
        pairs = zip(self.names, self.grids, strict=False)
        return [LaunchOp(name, self.plan.when, align, grid.blocks()) for name, grid in pairs]

    def spaces(self) -> list[Space]:
        """What the kernels leave for each other and, the last ones, for the scatter's own."""
        name, each = self.plan.kernel_name, [axis.size for axis in self.listed]
        if self.way != "listed":
            kind = self.key.kind if self.way == "atomic" else i32
            return [Space(f"{name}_{self.way}", GlobalType.of(each, kind), zeroed=True)]
        updates = [*self.batch, self.count]
        # What is of all lists and of tiles is before what is of a list along the rows, so that one
        # clearing does, and nothing is behind their end.
        counted = [a.size + self.tiles + WHOLE if a is self.row else a.size for a in self.listed]
        parts, lone = [*self.batch, self.parts], [axis.size for axis in self.unlisted]
        return [
            Space(f"{name}_counts", GlobalType.of(counted, i32), zeroed=True),
            Space(f"{name}_links", GlobalType.of(updates, i32)),
            Space(f"{name}_firsts", GlobalType.of([*each, 2 * FIRST], i32)),
            Space(f"{name}_rest", GlobalType.of(each, i32)),
            Space(f"{name}_groups", GlobalType.of([*updates, GROUP], i32)),
            Space(f"{name}_following", GlobalType.of(updates, i32)),
            Space(f"{name}_runs", GlobalType.of([*updates, KNOWN], i32)),
            Space(f"{name}_members", GlobalType.of(updates, i32)),
            Space(f"{name}_sizes", GlobalType.of([*parts, 2], i32)),
            Space(f"{name}_partial", GlobalType.of([*parts, *lone], self.held)),
            Space(f"{name}_heads", GlobalType.of([*parts, RUN_CHAINS + 4], i32)),
            Space(f"{name}_chains", GlobalType.of([*each, CHAINS], i32)),
        ]

    @property
    def key(self) -> Key:
        """How an update is a number that atomics combine."""
        scatter = self.scatters.scatter
        return Key(scatter.fn.data, scatter.result.type.element_type, self.scatters.is_narrow)

    @property
    def left(self) -> list[int]:
        """The workspaces that the scatter's own kernel reads."""
        return [0] if self.way != "listed" else [0, 2, 3, 4, 5, 9]

    @property
    def unlisted(self) -> list[AxisAttr]:
        """The axes of the result along which places have one list together."""
        return [axis for axis in self.scatters.axes if axis not in self.listed]

    @property
    def parts(self) -> Dim:
        """Parts of long lists at most."""
        return self.count.ceildiv(LONG)

    @property
    def held(self) -> Attribute:
        """The type in which updates of a part are combined."""
        scatter = self.scatters.scatter
        kind = accumulation(REDUCTIONS[scatter.fn.data], scatter.result.type.element_type)
        return without_sign(kind)

    @property
    def tiles(self) -> Dim:
        """Tiles along the rows."""
        return self.row.size.ceildiv(self.rows)

    def counted(self, emit: Emit, frame: Frame, where: Mapping[str, SSAValue]) -> list[SSAValue]:
        """The coordinates of how long a list is."""
        found = [where[axis.label] for axis in self.listed]
        number = self.listed.index(self.row)
        found[number] = emit.value(arith.AddiOp(found[number], frame.size(self.tiles + WHOLE)))
        return found

    def of_all(self, emit: Emit, batch: Sequence[SSAValue], which: int) -> list[SSAValue]:
        """The coordinates of what is counted of all lists of a point of the batch."""
        points = dict(zip(self.lists.batch, batch, strict=True))
        points[self.row] = emit.index(which)
        return [points.get(axis) or emit.index(0) for axis in self.listed]

    def longest(self, emit: Emit, where: Mapping[str, SSAValue]) -> list[SSAValue]:
        """The coordinates of how long the longest list is of the tile of a list."""
        found: list[SSAValue] = []
        for axis in self.listed:
            wide = {self.row: self.rows, self.column: self.columns}.get(axis)
            at = where[axis.label]
            before = WHOLE if axis is self.row else 0
            place = AffineExpr.dimension(0) // (wide or 1) + before
            found.append(at if wide is None else emit.apply(place, [at]))
        return found


def part_of(emit: Emit, length: SSAValue) -> SSAValue:
    """How many updates the parts of a long list have, an i32; the last one may have fewer."""
    size, least = emit.int32(PART), GROWS
    while least <= MOST:
        larger = emit.compare("sge", length, emit.int32(least))
        more = emit.value(arith.AddiOp(size, size))
        size = emit.value(arith.SelectOp(larger, more, size))
        least *= 4
    return size


def parts_of(emit: Emit, length: SSAValue) -> SSAValue:
    """How many parts a long list has, an i32."""
    size = part_of(emit, length)
    more = emit.value(arith.AddiOp(length, emit.value(arith.SubiOp(size, emit.int32(1)))))
    return emit.value(arith.DivUIOp(more, size))
