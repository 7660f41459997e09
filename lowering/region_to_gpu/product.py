"""``region-to-gpu``: what the kernels of matrix products and convolutions have in common (S9, T3).

A block computes a tile of the output, [BM, BN] of its last two axes as the kernel sees it and one
point of those before them.  The accumulator is a fragment; what follows the sum is mapped over it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import ClusterRankOp, SharedTileOp
from polyc.dialects.gpu.types import BindAttr, FragmentType, IntsAttr, SharedType, index_attr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReduceOp
from polyc.lowering.region_to_gpu.frame import Frame, refuse_choice
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, MakePoint, Point, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Span, Tile
from polyc.lowering.region_to_gpu.row_steps import Output, RowSteps
from polyc.lowering.region_to_gpu.split import Split
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim

FIRST_ROW, FIRST_COLUMN = AffineExpr.symbol(0), AffineExpr.symbol(1)

Coordinates = Mapping[str, SSAValue]
"""Where a tile of the output begins: the first coordinate on each axis of the output."""


@dataclass(frozen=True)
class Target:
    """An output as the kernel sees it, and the axis that walks each dimension of it."""

    tensor: SSAValue
    axes: Sequence[str]


def check_reduction(label: str | None, plan: ScheduleOp) -> None:
    """Refuse a schedule that tensorizes other reductions than ``label``; raises PolycError."""
    if plan.tensorize.data != label:
        raise PolycError(
            "UnsupportedPlan",
            f"the plan tensorizes {plan.tensorize.data!r} and the region reduces {label!r}",
            plan,
        )


class ProductBuilder(ABC):
    """Builds the kernel of one schedule.

    ``reduces`` its sums of products, each with an accumulator
    ``axes``    the axes of the output as the kernel sees it: a batch's, then rows and columns
    ``staged``  the part of the output that a persistent kernel stores at once by TMA, or None
    ``follow``  reductions along the columns that follow them, in the order of the text
    ``has_tail``  whether a tile that is reduced may be wider than the output
    """

    def __init__(
        self,
        kernel: KernelOp,
        reduces: Sequence[ReduceOp],
        plan: ScheduleOp,
        axes: Sequence[str],
        staged: tuple[int, int] | None,
        follow: Sequence[ReduceOp] = (),
        has_tail: bool = True,
    ) -> None:
        self.kernel, self.reduces, self.plan = kernel, tuple(reduces), plan
        self.axes, self.staged, self.follow = tuple(axes), staged, tuple(follow)
        self.has_tail = has_tail
        self.split = Split.of(plan)
        self.beside = plan.integers("cluster")[1]
        """CTAs of a cluster that have the columns of the output together."""
        self.frame = Frame(kernel)
        self.emit = self.frame.emit
        self.tile = [*(1 for _ in self.axes[:-2]), *plan.tile_sizes[:2]]

    @abstractmethod
    def sizes(self) -> list[SSAValue]:
        """The sizes of ``axes``; what does not change from tile to tile may be emitted here."""

    @abstractmethod
    def contract(self, at: Coordinates, accs: Sequence[SSAValue]) -> None:
        """The pipeline over the summed axes: copy the operands' tiles, and contract them."""

    @abstractmethod
    def targets(self) -> list[Target]:
        """The outputs."""

    @property
    def point(self) -> MakePoint:
        """The scalars of the epilogue at one point of the tile, or of one of its rows."""
        return Point

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        plan, frame = self.plan, self.frame
        self.check_supported()
        sizes = self.sizes()
        self.height, self.width = sizes[-2:]
        if plan.flag("persistent"):
            self.tile_loop(sizes)
        else:
            self.compute(self.coordinates(sizes))
        together = prod(plan.integers("cluster")) * plan.integer("split_k")
        kernel = frame.finish(plan, bindings, together)
        if split := plan.integers("registers"):
            kernel.registers = IntsAttr(tuple(split))
        return kernel

    def coordinates(self, sizes: Sequence[SSAValue]) -> Coordinates:
        """Where the only tile of a block begins, or its part of the tile of a cluster."""
        plan, emit, beside = self.plan, self.emit, self.beside
        place = tile.TileCoordinatesOp(
            sizes,
            [*self.tile[:-1], self.tile[-1] * beside],
            plan.raster.data,
            plan.integer("group"),
            cluster=self.split is not None or beside > 1,
        )
        emit.op(place)
        found: dict[str, SSAValue] = dict(zip(self.axes, place.coordinates, strict=True))
        if beside > 1:
            rank = emit.value(ClusterRankOp(), "rank")
            own = affine_dim(0) + affine_dim(1) * self.tile[-1]
            found[self.axes[-1]] = emit.apply(own, [found[self.axes[-1]], rank])
        return found

    def check_supported(self) -> None:
        """Refuse, with its name, a choice of the plan that no lowering obeys yet."""
        plan = self.plan
        rows, columns = plan.integers("cluster")
        persistent = plan.flag("persistent")
        roles = persistent and plan.loader.data == "tma"
        by_rows = f"[{rows}, 1], neighbours along the rows"
        alone = "[1, 1], or a persistent kernel that loads by tma"
        shared = rows == 1 and not persistent and self.split is None
        for field, taken, there in (
            ("cluster", columns != 1 and not self.follow, by_rows),
            ("cluster", columns != 1 and not shared, f"[1, {columns}] and persistent false"),
            ("multicast", columns != 1 and plan.flag("multicast"), "false"),
            ("cluster", rows != 1 and not roles, alone),
            ("pingpong", plan.flag("pingpong"), "false"),
            ("persistent", persistent and plan.mma.data != "wgmma", "false"),
            ("raster", plan.raster.data not in ("row", "grouped"), '"row" or "grouped"'),
        ):
            if taken:
                refuse_choice(plan, field, "region-to-gpu does not build yet", there)

    def tile_loop(self, sizes: Sequence[SSAValue]) -> None:
        """A loop over the block's tiles; its body is what another kernel does once.

        Shared tiles and what is computed from sizes alone stand before it.
        """
        plan = self.plan
        body = Block(arg_types=[INDEX] * (len(sizes) + 1))
        *coordinates, ordinal = body.args
        ordinal.name_hint = "tile"
        outer, self.emit = self.emit, Emit()
        self.compute(dict(zip(self.axes, coordinates, strict=True)))
        inner, self.emit = self.emit, outer
        for op in inner.ops:
            if isinstance(op, SharedTileOp):
                outer.op(op)
        body.add_ops([o for o in inner.ops if not isinstance(o, SharedTileOp)])
        outer.op(
            tile.TileLoopOp(sizes, self.tile, Region(body), plan.raster.data, plan.integer("group"))
        )

    def compute(self, at: Coordinates) -> None:
        """One tile of the output: contract, and hand on what comes out."""
        emit = self.emit
        for axis, value in at.items():
            value.name_hint = axis if axis in self.axes[:-2] else f"{axis}0"
        rows, columns, _ = self.plan.tile_sizes
        zero = emit.zero_f32()
        accs: list[SSAValue] = []
        for _ in self.reduces:
            accs.append(emit.value(tile.FragmentOp(FragmentType.of([rows, columns], f32)), "acc"))
            emit.op(tile.FillOp(zero, accs[-1]))
        self.contract(at, accs)
        if self.split is not None:
            axes = self.axes[-2], self.axes[-1]
            at, accs = self.split.combine(emit, at, axes, self.height, accs)
        self.epilogue(at, accs)

    def pipeline(
        self, bound: SSAValue, step: int, body: Block, *contracts: tile.ContractOp
    ) -> None:
        """A pipeline of ``body``, which holds the copies, and the contracts that end it."""
        buffers = self.plan.integer("fragment_buffers")
        for reduce, contract in zip(self.reduces, contracts, strict=True):
            if buffers > 1:
                contract.fragment_buffers = index_attr(buffers)
            body.add_op(located(contract, reduce))
        made = tile.PipelineOp(bound, step, self.plan.integer("stages"), Region(body))
        self.emit.op(located(made, self.reduces[0]))

    def epilogue(self, at: Coordinates, accs: Sequence[SSAValue]) -> None:
        """What follows the contractions, computed of their accumulators, and written.

        A persistent kernel maps into a fragment, and stores that by TMA, so that the stores go
        on while the next tile is computed.
        """
        targets = self.targets()
        out, whole = targets[0], None
        if self.staged is not None:
            element = element_of(out.tensor)
            kind = FragmentType.of(self.plan.tile_sizes[:2], element)
            whole = self.emit.value(tile.FragmentOp(kind), "out")
        end = self.kernel.yield_op
        outputs = [
            Output(value, target.tensor, target.axes, whole)
            for value, target in zip(end.values, targets, strict=True)
        ]
        maps = RowMaps(self.frame, self.emit, self.span(at, accs), self.point, (ReduceOp,))
        steps = RowSteps(maps, outputs, self.split is not None or self.beside > 1)
        over = Tile(held={op.result: acc for op, acc in zip(self.reduces, accs, strict=True)})
        steps.whole(over, self.follow)
        steps.write_statistics()
        if self.staged is not None:
            assert whole is not None
            for op in self.stores(at, whole, out, self.staged):
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
        shared = emit.value(SharedTileOp(kind), "out_tile")
        for start in range(0, self.plan.tile_sizes[1], staged[1]):
            part = tile.CopyView(None if fragment.type.sizes == staged else (0, start))
            emit.op(tile.CopyOp(tile.CopyEnd(fragment), tile.CopyEnd(shared), part))
            column = emit.apply(affine_dim(0) + start, [at[n]]) if start else at[n]
            place = [column if label == n else at[label] for label in labels]
            end, view = tile.CopyEnd(target.tensor, place), tile.CopyView(axes=axes)
            emit.op(tile.CopyOp(tile.CopyEnd(shared), end, view, tile.CopyTravel("tma")))
        return emit.ops[made:]


def along(axes: tuple[int, int], rank: int) -> tuple[int, int] | None:
    """The dimensions of a tensor that a tile lies in, as a copy says them: its last two are not."""
    return None if axes == (rank - 2, rank - 1) else axes
