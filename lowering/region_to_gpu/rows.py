"""``region-to-gpu``: the kernels of rows that are reduced along one axis (S9, T3).

A resident kernel has whole rows in registers: it reads a tile once, and reduces and maps that
until the output is written.  A streaming kernel walks a row in chunks, once for the reductions
that need no other one, once more for those that need these, and once for the output.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import BindAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import BinaryOp, KernelOp, ReadOp, ReduceOp, ReduceTogetherOp, UnaryOp
from polyc.dialects.region.scope import NEUTRAL
from polyc.dialects.region.together import StateOp
from polyc.dialects.region.types import ValType
from polyc.families.rows.recognise import Rows
from polyc.lowering.region_to_gpu.frame import alignments, refuse_choice
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Wanted, element_of
from polyc.lowering.region_to_gpu.rows_flat import flattened
from polyc.lowering.region_to_gpu.rows_maps import RowMaps, Tile
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.chunks import Chunk

CHEAP = ("add", "sub", "mul", "max", "min", "neg", "abs")
"""Functions of one instruction: what they give is computed again rather than kept."""

ALONG = AffineMap(2, 0, (ROW,))
"""A tile's elements to their rows."""


@dataclass(frozen=True)
class RowsLowering:
    """A region whose reductions all run along one axis."""

    rows: Rows

    @property
    def kernel(self) -> KernelOp:
        return self.rows.kernel

    def check(self, plan: ScheduleOp) -> None:
        """Every schedule that the verifier takes speaks of what rows have."""

    def launch(self, plan: ScheduleOp) -> LaunchOp:
        blocks = Dim.const(1)
        for size in block_counts(self.rows, plan):
            blocks = blocks * size
        return LaunchOp(plan.kernel_name, plan.when, alignments(self.kernel, plan), [blocks])

    def build(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        for field, taken, there in (
            ("cluster", plan.integers("cluster") != (1, 1), "[1, 1]"),
            ("persistent", plan.flag("persistent"), "false"),
            ("raster", plan.raster.data != "row", '"row"'),
        ):
            if taken:
                refuse_choice(plan, field, "region-to-gpu does not build for rows", there)
        resident = plan.algo_choice.data["rows"] == StringAttr("resident")
        builder = Resident(self.rows, plan) if resident else Streaming(self.rows, plan)
        return builder.build(bindings)


LOWERING = RowsLowering


def block_counts(rows: Rows, plan: ScheduleOp) -> list[Dim]:
    """How many blocks walk each outer axis: a block takes several rows of the innermost one."""
    sizes = [axis.size for axis in rows.outer]
    if sizes:
        sizes[-1] = sizes[-1].ceildiv(plan.tile_sizes[0])
    return sizes


class Builder(ABC):
    """Builds the kernel of one schedule."""

    def __init__(self, rows: Rows, plan: ScheduleOp, whole: bool) -> None:
        self.plan = plan
        self.flat = flattened(rows.kernel, whole)
        self.rows = Rows(self.flat.kernel, rows.outer, rows.row)
        self.maps = RowMaps(self.rows, plan)
        self.frame = self.maps.frame

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        self.find_corner()
        self.compute()
        self.write_statistics()
        return self.frame.finish(self.plan, bindings)

    @abstractmethod
    def compute(self) -> None:
        """Reduce, and write what has the row's axis."""

    # Where the block works

    def find_corner(self) -> None:
        """Where the block's first row is on each outer axis: the last axis goes fastest."""
        emit, height = self.frame.emit, self.plan.tile_sizes[0]
        counts = block_counts(self.rows, self.plan)
        left = emit.value(BlockIdOp(), "block")
        found: list[SSAValue] = []
        for i in range(len(counts) - 1, -1, -1):
            place = left
            if i:
                count = self.frame.size(counts[i])
                place = emit.value(arith.RemUIOp(left, count))
                left = emit.value(arith.DivUIOp(left, count))
            if i == len(counts) - 1 and height > 1:
                place = emit.apply(AffineExpr.dimension(0) * height, [place])
            label = self.rows.outer[i].label
            place.name_hint = f"{label}0" if i == len(counts) - 1 else label
            found.insert(0, place)
        self.maps.corner = found

    # A tile

    def load(self, over: Tile, steps: Sequence[Sequence[SSAValue]]) -> None:
        """Copy what the first step or several steps read into fragments, each tensor once."""
        emit = self.maps.emit
        reached = [self.along_row(roots, ()) for roots in steps]
        for op in self.flat.kernel.body.block.ops:
            if not isinstance(op, ReadOp) or not self.rows.copied(op, self.maps.height):
                continue
            users = [i for i, values in enumerate(reached) if op.result in values]
            if users and (users[0] == 0 or len(users) > 1):
                fragment = self.maps.wide(element_of(op.result), op.tensor.name_hint)
                start = tile.CopyEnd(self.frame.argument(op.tensor), self.corner_of(op, over))
                copy = tile.CopyOp(start, tile.CopyEnd(fragment))
                emit.op(located(copy, op))
                over.held[op.result] = fragment

    def corner_of(self, read: ReadOp, over: Tile) -> list[SSAValue]:
        """The tile's first coordinates in the tensor of a read."""
        emit = self.maps.emit
        start = emit.index(0) if over.start is None else over.start
        symbols = list(self.frame.symbols.values())
        where = [*self.maps.corner, start]
        return [emit.apply(c, where, symbols) for c in self.rows.coordinates(read)]

    def along_row(
        self, roots: Sequence[SSAValue], held: Collection[SSAValue]
    ) -> dict[SSAValue, None]:
        """The values along the row that a map computes for ``roots``, operands before users."""

        def computed(values: Iterable[SSAValue]) -> list[SSAValue]:
            return [v for v in values if v not in held and self.rows.has_row(v)]

        def operands(value: SSAValue) -> list[SSAValue]:
            assert isinstance(value.owner, Operation)
            return computed(value.owner.operands)

        return dict.fromkeys(reached(computed(roots), operands))

    def kept(
        self, over: Tile, now: Sequence[SSAValue], later: Sequence[SSAValue]
    ) -> list[SSAValue]:
        """What a step computes or reads that a later step needs too, and that is not cheap."""
        chosen: list[SSAValue] = []
        again = self.along_row(later, over.held)
        for value in reversed(self.along_row(now, over.held)):
            if value in again and _costs(value):
                chosen.append(value)
                again = self.along_row(later, {*over.held, *chosen})
        return chosen

    def reduce(
        self, over: Tile, op: ReduceOp, later: Sequence[SSAValue], target: SSAValue, more: bool
    ) -> None:
        """Reduce a tile into one value a row, with ``more`` on top of what the target has.

        Elements beyond the row's end become what changes no result (S6.4).
        """
        maps, kind = self.maps, op.fn.data
        beyond, own = maps.number(NEUTRAL[kind]), (ROW, COLUMN)
        keep = self.kept(over, [op.operand], later)
        source = maps.wide(f32, op.label)
        wanted = [Wanted(op.operand, source, own, maps.inside(over, beyond))]
        made: dict[SSAValue, SSAValue] = {}
        for value in keep:
            if value is op.operand and element_of(value) == f32:
                made[value] = source
            else:
                made[value] = maps.wide(element_of(value), value.name_hint)
                wanted.append(Wanted(value, made[value], own))
        maps.over_tile(over, self.space(over, [op.operand], source), wanted)
        over.held.update(made)
        maps.emit.op(located(tile.ReduceOp(kind, source, ALONG, target, accumulate=more), op))

    def space(self, over: Tile, roots: Sequence[SSAValue], other: SSAValue | None) -> SSAValue:
        """A fragment for a map to run over: one that it reads, if there is one, or ``other``."""
        needed = self.along_row(roots, ())
        found = [f for v, f in over.held.items() if v in needed] or list(over.held.values())
        if found:
            return found[-1]
        return other or self.maps.wide(f32)

    def write(self, over: Tile, values: Sequence[SSAValue]) -> None:
        """Compute the outputs along the row, and write them."""
        axes, _ = self.maps.axes(over)
        wanted = [
            Wanted(v, out, tuple(axes[label] for label in cast(ValType, v.type).labels))
            for v, out in self.outputs()
            if v in values
        ]
        self.maps.over_tile(over, self.space(over, values, None), wanted)

    def outputs(self) -> list[tuple[SSAValue, SSAValue]]:
        """What the region yields, and the tensors that it goes to."""
        return list(zip(self.flat.kernel.yield_op.values, self.frame.outputs, strict=True))

    @property
    def wide_outputs(self) -> list[SSAValue]:
        """What the region yields along the row."""
        return [v for v, _ in self.outputs() if self.rows.has_row(v)]

    def write_statistics(self) -> None:
        """Write the outputs of which each row has one."""
        maps = self.maps
        axes, _ = maps.axes(None)
        for value, out in self.outputs():
            if not self.rows.has_row(value):
                place = tuple(axes[label] for label in cast(ValType, value.type).labels)
                space = maps.statistic(value) or maps.narrow()
                maps.over_rows(self.frame.emit, space, maps.statistics, [Wanted(value, out, place)])


class Resident(Builder):
    """Whole rows in registers."""

    def __init__(self, rows: Rows, plan: ScheduleOp) -> None:
        super().__init__(rows, plan, whole=True)

    def compute(self) -> None:
        reductions = [op for op in self.rows.reductions if isinstance(op, ReduceOp)]
        steps: list[list[SSAValue]] = [[op.operand] for op in reductions]
        if self.wide_outputs:
            steps.append(self.wide_outputs)
        over = Tile()
        self.load(over, steps)
        for i, op in enumerate(reductions):
            later = [value for roots in steps[i + 1 :] for value in roots]
            target = self.maps.narrow(op.label)
            self.reduce(over, op, later, target, more=False)
            self.maps.statistics[op.result] = target
        if self.wide_outputs:
            self.write(over, self.wide_outputs)


class Streaming(Builder):
    """Rows in chunks."""

    def __init__(self, rows: Rows, plan: ScheduleOp) -> None:
        super().__init__(rows, plan, whole=False)
        self.chunks = {chunk.op: chunk for chunk in self.flat.chunks}

    def compute(self) -> None:
        levels = self.flat.levels()
        inner = {op for chunk in self.flat.chunks for op in chunk.reductions}
        whole = [op for op in self.rows.reductions if op not in inner]
        for level in range(1, max(levels.values()) + 1):
            self.reduce_all([op for op in whole if levels[op] == level])
        if values := self.wide_outputs:

            def write(over: Tile) -> None:
                self.load(over, [values])
                self.write(over, values)

            self.walk(write)

    def walk(self, body: Callable[[Tile], None]) -> None:
        """A loop over the chunks of the row."""
        maps = self.maps
        outer = maps.emit

        def chunk(inner: Emit, start: SSAValue) -> None:
            maps.emit = inner
            body(Tile(start))
            maps.forget()
            maps.emit = outer

        hint = f"{self.rows.row.label}0"
        outer.loop(maps.length, chunk, step=maps.width, hint=hint)

    def reduce_all(self, ops: Sequence[ReduceOp | ReduceTogetherOp]) -> None:
        """Reductions that need none of each other, in one walk over the row."""
        maps = self.maps
        totals: dict[SSAValue, SSAValue] = {}
        steps: list[tuple[ReduceOp, bool]] = []
        for op in ops:
            if isinstance(op, ReduceOp):
                totals[op.result] = maps.narrow(op.label)
                self.neutral(op, totals[op.result])
                steps.append((op, True))
            else:
                chunk = self.chunks[op]
                totals |= self.states_of_nothing(chunk)
                steps += [(inner, False) for inner in chunk.reductions]

        def body(over: Tile) -> None:
            self.load(over, [[op.operand] for op, _ in steps])
            for i, (op, more) in enumerate(steps):
                later = [after.operand for after, _ in steps[i + 1 :]]
                target = totals[op.result] if more else maps.narrow(op.label)
                self.reduce(over, op, later, target, more)
                if not more:
                    maps.statistics[op.result] = target
                    maps.passing.add(op.result)
            for op in ops:
                if isinstance(op, ReduceTogetherOp):
                    self.combine(self.chunks[op], [totals[v] for v in op.states])

        self.walk(body)
        maps.statistics |= totals

    def states_of_nothing(self, chunk: Chunk) -> dict[SSAValue, SSAValue]:
        """Fragments for a reduction's states, with what they are over no element."""
        states: dict[SSAValue, SSAValue] = {}
        for total, state in zip(chunk.op.states, chunk.states, strict=True):
            states[total] = fragment = self.maps.narrow(total.name_hint)
            if state.owner in chunk.reductions:
                self.neutral(cast(ReduceOp, state.owner), fragment)
                continue
            nothing: dict[SSAValue, SSAValue] = {}
            for op in chunk.reductions:
                nothing[op.result] = self.maps.narrow(op.label)
                self.neutral(op, nothing[op.result])
            space = nothing[chunk.reductions[0].result]
            wanted = [Wanted(state, fragment, (ROW,))]
            self.maps.over_rows(self.frame.emit, space, nothing, wanted)
        return states

    def neutral(self, op: ReduceOp, fragment: SSAValue) -> None:
        """Fill a fragment with what a reduction gives over nothing."""
        value = self.maps.number(NEUTRAL[op.fn.data])
        self.frame.emit.op(located(tile.FillOp(value, fragment), op))

    def combine(self, chunk: Chunk, totals: Sequence[SSAValue]) -> None:
        """Bring the states of a chunk into those of what went before."""
        maps, block = self.maps, chunk.op.combine.block
        both: dict[SSAValue, SSAValue] = dict(zip(block.args, totals, strict=False))
        for arg, state in zip(block.args[len(totals) :], chunk.states, strict=True):
            here = maps.statistic(state)
            assert here is not None, "a state is reduced"
            both[arg] = here
        last = block.last_op
        assert isinstance(last, StateOp)
        wanted = [Wanted(v, t, (ROW,)) for v, t in zip(last.values, totals, strict=True)]
        maps.over_rows(maps.emit, totals[0], both, wanted)


def _costs(value: SSAValue) -> bool:
    """Whether a value takes a read or more than an instruction."""
    op = value.owner
    return isinstance(op, ReadOp) or (
        isinstance(op, UnaryOp | BinaryOp) and op.fn.data not in CHEAP
    )
