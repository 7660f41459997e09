"""``region-to-gpu``: kernels whose rows are whole tiles, or are walked in chunks."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import gcd, prod
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.cost.rows import stores_turned
from polyc.dialects.common.dim import Assumption
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import ClusterRankOp, SharedTileOp
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
    element_bytes,
    index_attr,
)
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.region import (
    CompareOp,
    GatherOp,
    InsideOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    SelectOp,
    UnaryOp,
)
from polyc.dialects.region.scope import NEUTRAL
from polyc.dialects.region.together import StateOp
from polyc.dialects.region.types import ValType
from polyc.families.facts import holds_always
from polyc.families.rows.recognise import Rows
from polyc.families.rows.schedules import (
    down_of,
    is_resident,
    is_upright,
    known_sizes,
)
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid
from polyc.lowering.region_to_gpu.kernel import Builder
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Point, Wanted, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Span, Tile
from polyc.lowering.region_to_gpu.row_point import RowPoint
from polyc.lowering.region_to_gpu.row_steps import ALONG, Output, RowSteps
from polyc.lowering.region_to_gpu.rows_flat import flattened
from polyc.passes.support.gpu.free_layouts import BANK_BYTES, row_layout
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit
from polyc.rewriting.region.chunks import Chunk

PLAIN = ("abs", "exp", "neg", "reciprocal", "rsqrt", "sqrt")
"""Functions that take few registers beside their operand."""

BLOCKS = 32
"""Blocks of a multiprocessor at most."""

ROOM = 1024
"""Threads of a multiprocessor that have 64 registers each."""

PANEL_BESIDE = 80
"""Registers of a thread that keeps rows side by side, and reads others beside them."""

OWN = 40
"""Registers of a thread that has all points of its rows, beside those: each in memory's type and,
of 16 bits, as f32."""

DOWN = AffineMap(2, 0, (COLUMN,))
"""A tile's elements to their rows, where these lie side by side and it is their points' chunk."""

EACH = AffineMap(1, 0, (ROW,))
"""A value of each row to the same row."""


class RowBuilder(Builder):
    """Builds the kernel of one schedule."""

    def __init__(self, rows: Rows, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        super().__init__(rows.kernel, plan, grids)
        self.rows = rows
        self.parts = plan.integer("split_k")
        """Blocks of a cluster, which take a row's chunks in turn."""
        self.upright = is_upright(rows, plan)
        if self.upright:
            self.along = DOWN

    def sizes(self, grid: Grid) -> list[SSAValue]:
        self.length = self.frame.size(self.rows.length)
        return super().sizes(grid) if len(grid.axes) > 1 else []

    def compute(self, grid: Grid, at: Coordinates) -> None:
        self.maps = RowMaps(self.frame, self.emit, self.span(at), RowPoint, layout=self.layout())
        self.steps = RowSteps(self.maps, self.outputs, self.parts > 1, self.along)
        self.reduce()
        self.steps.write_statistics()

    @property
    def outputs(self) -> list[Output]:
        """What the kernel writes."""
        values = self.rows.kernel.yield_op.values
        return [
            Output(value, out, cast(ValType, value.type).labels)
            for value, out in zip(values, self.frame.outputs, strict=True)
        ]

    @abstractmethod
    def reduce(self) -> None:
        """Reduce, and write what has the row's axis."""

    along = ALONG
    """What a tile's elements are reduced to."""

    def layout(self) -> FragmentLayoutAttr | None:
        """How a tile of rows that lie side by side lies with threads: vectors along neighbours in
        memory, lanes beside each other there, and then the points of the rows.
        """
        if not self.rows.turned:
            return None
        (height, width, _), threads = self.plan.tile_sizes, self.plan.threads()
        return FragmentLayoutAttr.of(threads, height * width // threads, self.spread())

    def spread(self) -> AffineMap:
        """A thread and its register to the elements of such a tile."""
        height, vector = self.plan.tile_sizes[0], self.plan.integer("vectorize")
        down, across = down_of(self.plan), height // vector
        thread, register = AffineExpr.dimension(0), AffineExpr.dimension(1)
        beside, point = thread % across * vector + register % vector, thread // across
        point += register // vector * down
        return AffineMap(2, 0, (point, beside) if self.upright else (beside, point))

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        kernel = super().finish(bindings)
        kernel.blocks_per_sm = index_attr(self.blocks_at_once)
        return kernel

    @property
    def blocks_at_once(self) -> int:
        """How many blocks are to find room on a multiprocessor, as the model of time has it.

        Rows that lie side by side take less than 64 registers where they have to, and more where
        nothing says so; of several tensors, wide ones, or elements that are read one by one, they
        need more, and so do threads that have all points of their rows.
        Others need what a thread has of them, in memory's type and as f32, and vectors along them.
        """
        if self.upright and self.plan.keeps_rows:
            beside = len(self.rows.reads) > len(self.rows.kept)
            room = self.plan.target.registers // (PANEL_BESIDE * self.plan.threads())
            return min(self.plan.blocks_kept, max(1, room)) if beside else self.plan.blocks_kept
        if self.plan.keeps_rows and self.plan.integer("vectorize") == 1:
            # Copies of single elements, each with a place of its own, would take all registers.
            return self.plan.blocks_kept
        if self.upright or not self.rows.turned:
            return self.resident_at_once
        read = sum(element_bytes(op.result.type.element_type) for op in self.rows.reads)
        wide = [element_bytes(op.result.type.element_type) for op in self.rows.whole]
        threads, vector = self.plan.threads(), self.plan.integer("vectorize")
        if down_of(self.plan) == 1 and vector > 1:
            each = prod(self.plan.tile_sizes) // threads * sum(wide)
            return max(1, self.plan.target.registers // ((OWN + 3 * each // 4) * threads))
        if vector < 4:
            return 1
        room = ROOM if read <= 2 else ROOM * 3 // 4 if max(wide) <= 2 else ROOM // 2
        return max(1, room // threads)

    @property
    def resident_at_once(self) -> int:
        """The same of rows in registers, where they are whole tiles of tensors and nothing takes
        more than plain functions do."""
        plan, threads = self.plan, self.plan.threads()
        if not is_resident(plan) or plan.integer("vectorize") < 4 or not self.is_plain:
            return 1
        each = prod(plan.tile_sizes[:2]) // threads
        outer = {axis.label for axis in self.rows.outer}
        registers = each + each // 4 + 4
        for op in self.rows.reads:
            size = element_bytes(op.result.type.element_type)
            many = each if outer & set(op.result.type.labels) else plan.integer("vectorize")
            registers += many * size // 4
        least = 40 if self.rows.chained else 32
        registers = max(least, -(-registers // 8) * 8)
        return max(1, min(BLOCKS, plan.target.registers // (registers * threads)))

    @property
    def is_plain(self) -> bool:
        """Whether a kernel makes one result, by plain functions of copied rows and of vectors."""
        outer = {axis.label for axis in self.rows.outer}
        for op in self.rows.kernel.body.walk():
            match op:
                case ReadOp():
                    mine = outer & set(op.result.type.labels)
                    copied = self.rows.copied(op, self.plan.tile_sizes[0])
                    if op.guard is not None or (mine and self.rows.has_row(op.result) > copied):
                        return False
                case UnaryOp() if op.fn.data not in PLAIN:
                    return False
                case CompareOp() | InsideOp() | SelectOp() | ReduceTogetherOp() | GatherOp():
                    return False
                case _:
                    pass
        return len(self.rows.reductions) <= 2 and len(self.rows.kernel.outs) == 1

    # Where the block works

    def span(self, at: Coordinates) -> Span:
        """The block's tile, the first one of its rows."""
        height, width, _ = self.plan.tile_sizes
        places: dict[str, AffineExpr] = {}
        for i, (label, value) in enumerate(at.items()):
            places[label], value.name_hint = AffineExpr.symbol(i), label
        if at:
            last = self.rows.outer[-1].label
            places[last] += ROW
            at[last].name_hint = f"{last}0"
        length, vector = self.length if self.has_tail() else None, self.vector()
        row = self.rows.row.label
        origin = list(at.values())
        if self.upright:
            return Span((width, height), row, COLUMN, places, origin, length, 1, upright=True)
        return Span((height, width), row, COLUMN, places, origin, length, vector)

    def multiple_of(self, size: int) -> bool:
        """Whether every row is a multiple of so many elements."""
        facts, symbols = known_sizes(self.rows, self.plan), self.rows.kernel.symbol_names
        return holds_always(Assumption(self.rows.length.mod(size), "=="), facts, symbols)

    def vector(self) -> int:
        """So many neighbours are inside a row or beyond its end together."""
        vector = self.plan.integer("vectorize")
        return vector if not self.rows.turned and self.multiple_of(vector) else 1

    def has_tail(self) -> bool:
        """Whether a tile may go beyond the end of a row."""
        width = self.plan.tile_sizes[1]
        if not is_resident(self.plan):
            return not self.multiple_of(width)
        facts, symbols = known_sizes(self.rows, self.plan), self.rows.kernel.symbol_names
        return not holds_always(Assumption(self.rows.length - width, "=="), facts, symbols)

    # A tile

    def load(self, over: Tile, steps: Sequence[Sequence[SSAValue]]) -> None:
        """Copy what the first step or several steps read into fragments, each tensor once."""
        emit = self.maps.emit
        reached = [self.steps.along_row(roots, ()) for roots in steps]
        for op in self.rows.kernel.body.block.ops:
            gathers = isinstance(op, GatherOp) and self.maps.has_row(op.result)
            copied = isinstance(op, ReadOp) and self.rows.copied(op, self.maps.span.sizes[0])
            if not gathers and not copied:
                continue
            users = [i for i, values in enumerate(reached) if op.results[0] in values]
            if element_of(op.results[0]) == i1:
                continue
            if not users or (users[0] > 0 and len(users) == 1):
                continue
            if isinstance(op, GatherOp):
                fragment = self.maps.wide(element_of(op.result), op.result.name_hint)
                self.maps.over_tile(over, fragment, [Wanted(op.result, fragment, (ROW, COLUMN))])
                over.held[op.result] = fragment
            elif isinstance(op, ReadOp):
                fragment = self.maps.wide(element_of(op.result), op.tensor.name_hint)
                copy = tile.CopyOp(self.home_of(op, over), tile.CopyEnd(fragment))
                emit.op(located(copy, op))
                over.held[op.result] = fragment

    def home_of(self, read: ReadOp, over: Tile) -> tile.CopyEnd:
        """Where a tile of a read is copied from."""
        return tile.CopyEnd(self.frame.argument(read.tensor), self.corner_of(read, over))

    def corner_of(
        self, read: ReadOp, over: Tile, origin: Sequence[SSAValue] | None = None
    ) -> list[SSAValue]:
        """The tile's first coordinates in the tensor of a read; those of another row's tile, where
        ``origin`` says which."""
        emit = self.maps.emit
        start = emit.index(0) if over.start is None else over.start
        symbols = list(self.frame.symbols.values())
        where = [*(self.maps.span.origin if origin is None else origin), start]
        return [emit.apply(c, where, symbols) for c in self.rows.coordinates(read)]


class Resident(RowBuilder):
    """Whole rows in registers.

    Results whose neighbours in memory are those of other rows, as channels last in NCHW are, go
    through shared memory, and from there along the lines of the outputs.
    """

    @property
    def outputs(self) -> list[Output]:
        return [
            replace(one, whole=self.maps.wide(element_of(one.tensor), "out"))
            if self.is_across(one)
            else one
            for one in super().outputs
        ]

    def is_across(self, output: Output) -> bool:
        """Whether a tile of a result is turned on its way to memory."""
        row, beside = self.rows.row.label, self.rows.outer[-1:]
        lies = row in output.axes and [output.axes[-1]] == [axis.label for axis in beside]
        turned = self.rows.turned or row == output.axes[-1]
        return lies and not turned and stores_turned(self.plan, element_of(output.tensor))

    def reduce(self) -> None:
        reductions = [op for op in self.rows.reductions if isinstance(op, ReduceOp)]
        over = Tile()
        self.load(over, self.steps.roots(reductions))
        self.steps.whole(over, reductions)
        start = len(self.maps.emit.ops)
        for one in self.steps.outputs:
            if one.whole is not None:
                self.turn(one, one.whole)
        for op in self.maps.emit.ops[start:]:
            located(op, self.rows.kernel.yield_op)

    def turn(self, output: Output, fragment: SSAValue) -> None:
        """Bring a tile of a result to shared memory, and from there to its lines."""
        emit, kind, span = self.maps.emit, element_of(fragment), self.maps.span
        (height, width), size = span.sizes, element_bytes(kind)
        # A word more than a row needs: threads of neighbouring rows read of unlike banks.
        line = width + -(-BANK_BYTES // size)
        shared = emit.value(SharedTileOp(SharedType.of([height, line], kind, 0)), "turned")
        emit.op(tile.CopyOp(tile.CopyEnd(fragment), tile.CopyEnd(shared), tile.CopyView((0, 0))))
        known = self.rows.outer[-1].size.constant()
        vector = 1 if known is None else gcd(MAX_VECTOR_BYTES // size, known, height)
        layout, _ = row_layout(width, height, vector, size, self.plan.threads())
        space = emit.value(tile.FragmentOp(FragmentType.of([width, height], kind, layout)))
        places = dict(span.places)
        last = self.rows.outer[-1].label
        places[last] = places[last].replace_dims_and_symbols(
            [COLUMN, ROW], [AffineExpr.symbol(i) for i in range(len(span.origin))]
        )
        places[self.rows.row.label] = ROW
        block = Block(arg_types=[kind, kind])
        block.args[1].name_hint = "turned"
        block.add_op(tile.YieldOp([block.args[1]]))
        maps = [
            AffineMap(2, len(span.origin), (COLUMN, ROW)),
            AffineMap(2, len(span.origin), tuple(places[axis] for axis in output.axes)),
        ]
        emit.op(tile.MapOp(space, span.origin, [shared], [output.tensor], maps, Region(block)))


class Streaming(RowBuilder):
    """Rows in chunks."""

    def __init__(self, rows: Rows, plan: ScheduleOp, grids: Sequence[Grid]) -> None:
        self.flat = flattened(rows.kernel)
        super().__init__(replace(rows, kernel=self.flat.kernel), plan, grids)
        self.chunks = {chunk.op: chunk for chunk in self.flat.chunks}
        self.rank: SSAValue | None = None
        """Which block of its cluster this one is, where a cluster has a row."""

    def reduce(self) -> None:
        if self.parts > 1 and self.rank is None:
            self.rank = self.emit.value(ClusterRankOp(), "rank")
        self.reduce_levels()

    def reduce_levels(self) -> None:
        """The reductions, those that need none of each other together, and the outputs."""
        levels = self.flat.levels()
        inner = {op for chunk in self.flat.chunks for op in chunk.reductions}
        whole = [op for op in self.rows.reductions if op not in inner]
        for level in range(1, max(levels.values()) + 1):
            self.reduce_all([op for op in whole if levels[op] == level])
        if values := self.steps.wide_outputs:
            self.write_all(values)

    def write_all(self, values: Sequence[SSAValue]) -> None:
        """The walk that writes what the region yields along the row."""
        self.walk(lambda over: self.write(over, values))

    def write(self, over: Tile, values: Sequence[SSAValue]) -> None:
        """Compute a chunk of the outputs, and write it."""
        self.load(over, [values])
        self.taken(over)
        self.steps.write(over, values)

    def taken(self, over: Tile) -> None:
        """What a kernel does with the place of a chunk that is in registers for the last time."""

    def walk(self, body: Callable[[Tile], None]) -> None:
        """A loop over the chunks of the row, or those of them that are the block's."""
        maps, width = self.maps, self.plan.tile_sizes[1]
        outer = maps.emit
        own = AffineExpr.dimension(0) * width
        start = 0 if self.rank is None else outer.apply(own, [self.rank])

        def chunk(inner: Emit, start: SSAValue) -> None:
            maps.emit = inner
            body(Tile(start))
            maps.forget()
            maps.emit = outer

        hint = f"{self.rows.row.label}0"
        outer.loop(self.length, chunk, step=width * self.parts, hint=hint, start=start)

    def reduce_all(self, ops: Sequence[ReduceOp | ReduceTogetherOp]) -> None:
        """Reductions that need none of each other, in one walk over the row."""
        totals = self.walked(ops)
        self.joined(ops, totals)
        self.maps.statistics |= totals

    def walked(self, ops: Sequence[ReduceOp | ReduceTogetherOp]) -> dict[SSAValue, SSAValue]:
        """What the walk finds of each, in whoever has a part of the row."""
        maps = self.maps
        totals: dict[SSAValue, SSAValue] = {}
        steps: list[tuple[ReduceOp, bool]] = []
        for op in ops:
            if isinstance(op, ReduceOp):
                totals[op.result] = self.running(op)
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
                target = totals[op.result] if more else self.running(op)
                self.steps.reduce(over, op, later, target, more)
                if not more:
                    maps.statistics[op.result] = target
                    maps.passing.add(op.result)
            for op in ops:
                if isinstance(op, ReduceTogetherOp):
                    chunk = self.chunks[op]
                    here = [Held(self.state(v), self.place) for v in chunk.states]
                    self.combine(chunk, [totals[v] for v in op.states], here)

        self.walk(body)
        return totals

    place: tuple[AffineExpr, ...] = (ROW,)
    """A place of a fragment of what a reduction has so far."""

    def running(self, op: ReduceOp) -> SSAValue:
        """A fragment for what a reduction has so far."""
        return self.so_far(op.label, op.accumulates_in)

    def so_far(self, hint: str | None, element: Attribute = f32) -> SSAValue:
        """The same of a name: one value a row."""
        return self.maps.narrow(hint, element)

    def joined(
        self, ops: Sequence[ReduceOp | ReduceTogetherOp], totals: dict[SSAValue, SSAValue]
    ) -> None:
        """Bring together what those who share a row have of its reductions."""
        if self.rank is not None:
            for op in ops:
                if isinstance(op, ReduceOp):
                    totals[op.result] = self.over_cluster(op, totals[op.result])
                else:
                    self.combine_cluster(self.chunks[op], [totals[v] for v in op.states], self.rank)

    def over_cluster(self, op: ReduceOp, total: SSAValue) -> SSAValue:
        """What the blocks of the cluster have of a reduction, together."""
        whole = self.maps.narrow(op.label, op.accumulates_in)
        reduce = tile.ReduceOp(op.fn.data, total, EACH, whole, cluster=True)
        self.emit.op(located(reduce, op))
        return whole

    def combine_cluster(self, chunk: Chunk, totals: Sequence[SSAValue], rank: SSAValue) -> None:
        """Bring the states of the cluster's blocks together, by rank: every block all of them.

        Each block puts its own states among places of -inf, one a rank, and the largest of what
        the blocks have at a place is what the rank's block put there.
        """
        maps, emit, op = self.maps, self.emit, chunk.op
        kind, each, last = self.parts_of_state()
        nothing = maps.number(NEUTRAL["max"])

        def own(point: Point, scalar: SSAValue) -> SSAValue:
            here = point.emit.compare("eq", point.index(ROW), rank)
            return point.emit.value(arith.SelectOp(here, scalar, nothing))

        heard: list[SSAValue] = []
        for state, total in zip(op.states, totals, strict=True):
            said, found = (emit.value(tile.FragmentOp(kind), state.name_hint) for _ in range(2))
            places = tuple(AffineExpr.dimension(i) for i in range(each.num_dims))
            held: dict[SSAValue, Held] = {state: Held(total, last or (AffineExpr.constant(0),))}
            wanted = [Wanted(state, said, places, own)]
            maps.over_places(emit, said, held, wanted, each.num_dims)
            emit.op(located(tile.ReduceOp("max", said, each, found, cluster=True), op))
            heard.append(found)
        for part in range(self.parts):
            place = (AffineExpr.constant(part), *((ROW,) if last else ()))
            there = [Held(found, place) for found in heard]
            if part:
                self.combine(chunk, totals, there)
                continue
            first: dict[SSAValue, Held] = dict(zip(op.states, there, strict=True))
            wanted = [Wanted(v, t, (ROW,)) for v, t in zip(op.states, totals, strict=True)]
            maps.over_places(emit, totals[0], first, wanted)

    def parts_of_state(self) -> tuple[FragmentType, AffineMap, tuple[AffineExpr, ...]]:
        """A fragment that each thread has for what all blocks have of a state, of one row, or of
        the tile's, as it has these; the map to each place of it, and which row a place is of."""
        parts, threads = self.parts, self.plan.threads()
        if not self.upright:
            layout = FragmentLayoutAttr.of(threads, parts, AffineMap(2, 0, (COLUMN,)))
            return FragmentType.of([parts], f32, layout), EACH, ()
        height, vector = self.plan.tile_sizes[0], self.plan.integer("vectorize")
        own = ROW % (height // vector) * vector + COLUMN % vector
        spread = AffineMap(2, 0, (COLUMN // vector, own))
        layout = FragmentLayoutAttr.of(threads, parts * vector, spread)
        return FragmentType.of([parts, height], f32, layout), AffineMap.identity(2), (COLUMN,)

    def states_of_nothing(self, chunk: Chunk) -> dict[SSAValue, SSAValue]:
        """Fragments for a reduction's states, with what they are over no element."""
        states: dict[SSAValue, SSAValue] = {}
        for total, state in zip(chunk.op.states, chunk.states, strict=True):
            states[total] = fragment = self.so_far(total.name_hint)
            if state.owner in chunk.reductions:
                self.neutral(cast(ReduceOp, state.owner), fragment)
                continue
            nothing: dict[SSAValue, SSAValue] = {}
            for op in chunk.reductions:
                nothing[op.result] = self.running(op)
                self.neutral(op, nothing[op.result])
            space = nothing[chunk.reductions[0].result]
            wanted = [Wanted(state, fragment, self.place)]
            held = {value: Held(found, self.place) for value, found in nothing.items()}
            self.maps.over_places(self.emit, space, held, wanted, len(self.place))
        return states

    def neutral(self, op: ReduceOp, fragment: SSAValue) -> None:
        """Fill a fragment with what a reduction gives over nothing."""
        self.emit.op(located(tile.FillOp(self.maps.nothing(op), fragment), op))

    def state(self, value: SSAValue) -> SSAValue:
        """The fragment of a chunk's state."""
        found = self.maps.statistic(value)
        assert found is not None, "a state is reduced"
        return found

    def combine(self, chunk: Chunk, totals: Sequence[SSAValue], more: Sequence[Held]) -> None:
        """Bring more states of a row into those of what went before."""
        maps, block = self.maps, chunk.op.combine.block
        held = [*(Held(total, self.place) for total in totals), *more]
        both: dict[SSAValue, Held] = dict(zip(block.args, held, strict=True))
        last = block.last_op
        assert isinstance(last, StateOp)
        wanted = [Wanted(v, t, self.place) for v, t in zip(last.values, totals, strict=True)]
        maps.over_places(maps.emit, totals[0], both, wanted, len(self.place))
