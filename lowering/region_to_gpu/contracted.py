"""``region-to-gpu``: reductions that tensor cores contract, and what follows them (S9, T3).

A tile has [BM, BN] of the last two axes of the output as the kernel sees it and one point of those
before them.  A pipeline goes over the summed axes: a step copies a tile of each operand to shared
memory, and adds their product to an accumulator, a fragment.  What follows the sum is mapped over
it.  Products of matrices and convolutions differ in where a step's tiles lie.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.dialects import scf
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.types import FragmentType, GlobalType, SharedType, index_attr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.types import MemRefType
from polyc.lowering.region_to_gpu.frame import Space
from polyc.lowering.region_to_gpu.grid import Coordinates, Grid, blocks_of
from polyc.lowering.region_to_gpu.k_major import KMajor
from polyc.lowering.region_to_gpu.kernel import Builder, Walked
from polyc.lowering.region_to_gpu.padded import Padded
from polyc.lowering.region_to_gpu.partial_sums import PART, PartialSums, adding, parted
from polyc.lowering.region_to_gpu.partial_sums import THREADS as ADDING
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, MakePoint, Point, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Span, Tile
from polyc.lowering.region_to_gpu.row_steps import Output, RowSteps
from polyc.lowering.region_to_gpu.split import Split
from polyc.poly.pieces import Piece
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim
from polyc.rewriting.region.products import Factor

FIRST_ROW, FIRST_COLUMN = AffineExpr.symbol(0), AffineExpr.symbol(1)

PANEL = 64
"""Elements of a row of a panel of shared memory that TMA stores."""

M, N, K = range(3)
"""The axes of a product of tiles: rows, columns, depth."""


@dataclass(frozen=True)
class Operand:
    """What a step copies to shared memory: ``axes`` are those of the product that its tile has."""

    name: str
    read: ReadOp
    axes: tuple[int, int]

    @property
    def map(self) -> AffineMap:
        """From the product's axes to the tile's."""
        return AffineMap(3, 0, tuple(AffineExpr.dimension(axis) for axis in self.axes))


@dataclass(frozen=True)
class Target:
    """An output as the kernel sees it, and the axis that walks each dimension of it."""

    tensor: SSAValue
    axes: Sequence[str]


class ContractedLowering(Walked):
    """A region whose sums of products run on tensor cores, on its way to kernels.

    Where CTAs that share a tile store their sums, it is two: the second one adds them.  Where it
    reads copies of operands, those that make them run ahead.
    """

    @abstractmethod
    def builder(self, plan: ScheduleOp, grids: Sequence[Grid], adds: bool = False) -> Contracted:
        """What builds the kernel of a schedule, or the one that ``adds``."""

    def copies(self, plan: ScheduleOp) -> Sequence[Padded | KMajor]:
        """The tensors that are copied to other rows before a schedule's kernels read them."""
        return []

    @property
    def reduces_rows(self) -> bool:
        """Whether rows of the output are reduced after its sums."""
        return False

    @abstractmethod
    def width(self, plan: ScheduleOp) -> int:
        """Columns of the tiles of the kernel that adds."""

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        (one,) = own = super().launches(plan)
        align = one.align.data
        if plan.stores_sums:
            both = zip(plan.kernel_names, self._two(plan), strict=True)
            own = [LaunchOp(n, plan.when, align, blocks_of([grid])) for n, grid in both]
        return [*(copy.launch(plan.when, align) for copy in self.copies(plan)), *own]

    def _two(self, plan: ScheduleOp) -> tuple[Grid, Grid]:
        """The grids of both kernels."""
        (grid,) = self.grids(plan)
        parts = plan.integer("split_k")
        return parted(grid, parts), adding(grid, self.width(plan), parts, self.reduces_rows)

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        """The copies of operands, and the sums of each product's parts."""
        copies = [copy.space for copy in self.copies(plan)]
        if not plan.stores_sums:
            return copies
        (grid,) = self.grids(plan)
        kind = PartialSums.kind(grid, plan.integer("split_k"))
        return [*copies, *[Space(f"{plan.kernel_name}_sums", kind)] * plan.products]

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        copies, bound = self.copies(plan), list(bindings)
        made: list[gpu.KernelOp] = []
        for copy, space in zip(copies, spaces, strict=False):
            made.append(copy.kernel(self.kernel, bindings[copy.number], space))
            bound[copy.number] = space
        sums = spaces[len(copies) :]
        if not plan.stores_sums:
            return [*made, *super().build(plan, bound, sums)]
        kinds = [space.kind for space in self.spaces(plan)[len(copies) :]]
        both = zip(self._two(plan), (False, True), strict=True)
        builders = [self.builder(plan, [grid], adds).taking(sums, kinds) for grid, adds in both]
        return [*made, *(builder.build(bound) for builder in builders)]


class Contracted(Builder):
    """Builds the kernel of one schedule.

    ``reduces``  its sums of products, each with an accumulator
    ``operands`` what they multiply, each once: that of the rows, then one of the columns each
    ``staged``   the part of the output that a persistent kernel stores at once by TMA, or None
    ``follow``   reductions along the columns that follow them, in the order of the text
    ``has_tail`` whether a tile that is reduced may be wider than the output
    ``adds``     whether it is the kernel that adds the sums of a tile's parts, and goes on
    ``copies``   tensors of which it reads copies with other rows
    """

    def __init__(
        self,
        kernel: KernelOp,
        plan: ScheduleOp,
        grids: Sequence[Grid],
        reduces: Sequence[ReduceOp],
        operands: Sequence[Operand],
        staged: tuple[int, int] | None = None,
        follow: Sequence[ReduceOp] = (),
        has_tail: bool = True,
        adds: bool = False,
        copies: Sequence[Padded | KMajor] = (),
    ) -> None:
        super().__init__(kernel, plan, grids, {copy.number: copy.kind for copy in copies})
        self.reduces, self.operands = tuple(reduces), tuple(operands)
        self.staged, self.follow, self.has_tail = staged, tuple(follow), has_tail
        self.split, self.adds = Split.of(plan), adds
        self.sums: list[PartialSums] = []
        self.together = not plan.stores_sums and (
            self.split is not None or plan.integers("cluster")[1] > 1
        )
        """Whether the CTAs of a cluster have rows of the output together."""

    # What products of matrices and convolutions differ in

    @abstractmethod
    def steps(self, at: Coordinates) -> tuple[SSAValue, int]:
        """How far the steps over the summed axes go, and how long one is.

        What a tile computes once for them may be emitted here.
        """

    @abstractmethod
    def step(self, at: Coordinates, body: Block, shared: Sequence[SSAValue]) -> SSAValue:
        """The copies of a step to shared tiles; returns the operand of the rows.

        The arguments of ``body`` are where the step is, and its number.
        """

    @abstractmethod
    def targets(self) -> list[Target]:
        """The outputs."""

    @property
    def wraps(self) -> Dim | None:
        """How many rows a matrix has of an output ``[matrices, columns, rows]``, whose tiles have
        rows of several; None of others."""
        return None

    @property
    def point(self) -> MakePoint:
        """The scalars of the epilogue at one point of the tile, or of one of its rows."""
        return Point

    # The walk

    def taking(self, spaces: Sequence[BindAttr], kinds: Sequence[GlobalType]) -> Contracted:
        """Let the sums of a tile's parts lie in workspaces, one of each product."""
        parts = self.plan.integer("split_k")
        ends = zip(kinds, spaces, strict=True)
        self.sums = [PartialSums(parts, self.frame.space(*end)) for end in ends]
        return self

    def finish(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        if self.adds:
            return self.frame.finish(self.plan, bindings, adding=ADDING)
        return super().finish(bindings)

    def compute(self, grid: Grid, at: Coordinates) -> None:
        """One tile of the output: contract, and hand on what comes out."""
        self.scope = emit = self.emit
        self.axes = [axis.label for axis in grid.axes if axis.label != PART]
        at = dict(at)
        self.part = at.pop(PART, None)
        for axis, value in at.items():
            value.name_hint = axis if axis in self.axes[:-2] else f"{axis}0"
        place = [at[axis] for axis in self.axes]
        if self.adds:
            self.epilogue(at, [sums.add(emit, grid.tile[-2:], place) for sums in self.sums])
            return
        rows, columns, _ = self.plan.tile_sizes
        zero = emit.zero_f32()
        accs: list[SSAValue] = []
        for _ in self.reduces:
            accs.append(emit.value(tile.FragmentOp(FragmentType.of([rows, columns], f32)), "acc"))
            emit.op(tile.FillOp(zero, accs[-1]))
        self.contract(at, accs)
        if self.part is not None:
            for sums, acc in zip(self.sums, accs, strict=True):
                sums.store(emit, acc, self.part, place)
            return
        if self.split is not None:
            at, accs = self.split.combine(
                emit, at, (self.axes[-2], self.axes[-1]), self.height, accs
            )
        self.epilogue(at, accs)

    def sizes(self, grid: Grid) -> list[SSAValue]:
        found = super().sizes(grid)
        self.height, self.width = found[-2:]
        return found

    def contract(self, at: Coordinates, accs: Sequence[SSAValue]) -> None:
        """The pipeline over the summed axes: copy the operands' tiles, and contract them."""
        plan = self.plan
        bound, length = self.steps(at)
        operands = [self.lying(operand) for operand in self.operands]
        shared = [self.shared(operand) for operand in operands]
        body = Block(arg_types=[INDEX, INDEX])
        found: list[SSAValue] = []
        body.add_ops(self.within(lambda: found.append(self.step(at, body, shared))))
        rows = tile.ContractSide(found[0], operands[0].map)
        columns = zip(operands[1:], shared[1:], strict=True)
        for reduce, acc, (operand, held) in zip(self.reduces, accs, columns, strict=True):
            side = tile.ContractSide(held, operand.map)
            contract = tile.ContractOp(rows, side, acc, plan.mma.data, plan.warp_tile_sizes)
            if (buffers := plan.integer("fragment_buffers")) > 1:
                contract.fragment_buffers = index_attr(buffers)
            body.add_op(located(contract, reduce))
        made = tile.PipelineOp(bound, length, plan.integer("stages"), Region(body))
        self.emit.op(located(made, self.reduces[0]))

    def turned(self, operand: Operand) -> bool:
        """Whether an operand's tile lies along k, and threads load lines of one k of it."""
        return self.plan.loads_lines and operand.axes[-1] == K

    def lying(self, operand: Operand) -> Operand:
        """An operand as its tile has it."""
        return replace(operand, axes=operand.axes[::-1]) if self.turned(operand) else operand

    def shared(self, operand: Operand) -> SSAValue:
        """The tile of an operand in shared memory."""
        element = cast("MemRefType", operand.read.tensor.type).element_type
        kind = SharedType.of([self.plan.tile_sizes[axis] for axis in operand.axes], element)
        return self.emit.value(located(SharedTileOp(kind), operand.read), f"{operand.name}_tile")

    def take(
        self,
        factor: Factor,
        place: Sequence[SSAValue],
        target: SSAValue,
        view: tile.CopyView,
        travel: tile.CopyTravel,
    ) -> None:
        """The copy of an operand's tile at ``place``: of pieces, from the one that has it whole."""

        def copy(emit: Emit, read: ReadOp, place: Sequence[SSAValue]) -> None:
            source = tile.CopyEnd(self.frame.argument(read.tensor), place)
            emit.op(located(tile.CopyOp(source, tile.CopyEnd(target), view, travel), read))

        def choose(emit: Emit, pieces: Sequence[Piece]) -> None:
            piece, *rest = pieces
            at = place[piece.dimension]
            if rest:
                here, there = Emit(emit), Emit(emit)
                choose(here, [piece])
                choose(there, rest)
                inside = emit.compare("slt", at, self.frame.size(rest[0].first))
                own, others = ([*side.ops, scf.YieldOp()] for side in (here, there))
                emit.op(scf.IfOp(inside, [], own, others))
                return
            moved = affine_dim(0) - affine_dim(1)
            start = emit.apply(moved, [at, self.frame.size(piece.first)])
            copy(emit, piece.read, [start if p is at else p for p in place])

        if factor.pieces:
            choose(self.emit, factor.pieces)
        else:
            copy(self.emit, factor.read, place)

    def epilogue(self, at: Coordinates, accs: Sequence[SSAValue]) -> None:
        """What follows the contractions, computed of their accumulators, and written.

        A persistent kernel maps into a fragment, and stores that by TMA, so that the stores go
        on while the next tile is computed.  Rows that begin at any element go the same way, by
        threads.
        """
        targets = self.targets()
        out, whole = targets[0], None
        if self.staged is not None:
            element = element_of(out.tensor)
            assert isinstance(accs[0].type, FragmentType)
            kind = FragmentType.of(accs[0].type.sizes, element)
            whole = self.emit.value(tile.FragmentOp(kind), "out")
        end = self.kernel.yield_op
        outputs = [
            Output(value, target.tensor, target.axes, whole)
            for value, target in zip(end.values, targets, strict=True)
        ]
        maps = RowMaps(self.frame, self.emit, self.span(at, accs), self.point, (ReduceOp,))
        steps = RowSteps(maps, outputs, self.together)
        over = Tile(held={op.result: acc for op, acc in zip(self.reduces, accs, strict=True)})
        steps.whole(over, self.follow)
        steps.write_statistics()
        if self.staged is not None:
            assert whole is not None
            stores = self.turned_stores if self.plan.turns_stores else self.stores
            for op in stores(at, whole, out, self.staged):
                located(op, end)

    def span(self, at: Coordinates, accs: Sequence[SSAValue]) -> Span:
        """The tile of the accumulators, or this CTA's share of it."""
        *batch, m, n = self.axes
        assert isinstance(accs[0].type, FragmentType)
        rows, columns = accs[0].type.sizes
        places = {m: ROW + FIRST_ROW}
        places |= {axis: AffineExpr.symbol(i) for i, axis in enumerate(batch, 2)}
        origin = [at[axis] for axis in (m, n, *batch)]
        length = self.width if self.follow and self.has_tail else None
        return Span((rows, columns), n, COLUMN + FIRST_COLUMN, places, origin, length, 1)

    def stores(
        self, at: Coordinates, fragment: SSAValue, target: Target, staged: tuple[int, int]
    ) -> list[Operation]:
        """The fragment by parts into a shared tile, and from there to the tensor."""
        emit, made = self.emit, len(self.emit.ops)
        assert isinstance(fragment.type, FragmentType)
        *_, m, n = self.axes
        labels = list(target.axes)
        axes = along((labels.index(m), labels.index(n)), len(labels))
        kind = SharedType.of(staged, fragment.type.element_type)
        if pad := self.plan.staged_pad:
            kind = kind.like(swizzle=0, pad=pad)
        shared = emit.value(SharedTileOp(kind), "out_tile")
        loader = "tma" if self.plan.stores_lines else "register"
        for start in range(0, fragment.type.sizes[1], staged[1]):
            part = tile.CopyView(None if fragment.type.sizes == staged else (0, start))
            emit.op(tile.CopyOp(tile.CopyEnd(fragment), tile.CopyEnd(shared), part))
            column = emit.apply(affine_dim(0) + start, [at[n]]) if start else at[n]
            place = [column if label == n else at[label] for label in labels]
            end, view = tile.CopyEnd(target.tensor, place), tile.CopyView(axes=axes)
            emit.op(tile.CopyOp(tile.CopyEnd(shared), end, view, tile.CopyTravel(loader)))
        return emit.ops[made:]

    def turned_stores(
        self, at: Coordinates, fragment: SSAValue, target: Target, staged: tuple[int, int]
    ) -> list[Operation]:
        """The same to an output that has its columns before its rows: turned on its way to shared
        memory, and from there on, where rows of a tile lie in several matrices, in each of these,
        by TMA where whole panels of it lie in one."""
        emit, made = self.emit, len(self.emit.ops)
        assert isinstance(fragment.type, FragmentType)
        *batch, m, n = self.axes
        rows, width = staged
        kind = SharedType.of((width, rows), fragment.type.element_type)
        shared = emit.value(SharedTileOp(kind), "out_tile")
        whole = self.wraps is None or (self.wraps.constant() or 1) % PANEL == 0
        travel = tile.CopyTravel("tma" if whole and self.plan.stores_lines else "register")
        view = tile.CopyView(wraps=None if self.wraps is None else 0)
        matrix = [at[axis] for axis in batch] if self.wraps is None else [emit.index(0)]
        for start in range(0, fragment.type.sizes[1], width):
            part = None if fragment.type.sizes == staged else (0, start)
            turn = tile.CopyView(part, turned=True)
            emit.op(tile.CopyOp(tile.CopyEnd(fragment), tile.CopyEnd(shared), turn))
            column = emit.apply(affine_dim(0) + start, [at[n]]) if start else at[n]
            end = tile.CopyEnd(target.tensor, [*matrix, column, at[m]])
            emit.op(tile.CopyOp(tile.CopyEnd(shared), end, view, travel))
        return emit.ops[made:]


def along(axes: tuple[int, int], rank: int) -> tuple[int, int] | None:
    """The dimensions of a tensor that a tile lies in, as a copy says them: its last two are not."""
    return None if axes == (rank - 2, rank - 1) else axes
