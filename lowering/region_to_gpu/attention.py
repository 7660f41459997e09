"""``region-to-gpu``: the kernels of attention with a streaming softmax (S6.10, S9, T3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, Region, SSAValue

from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.tile.compute import LHS_MK, RHS_KN, RHS_NK
from polyc.dialects.gpu.types import BindAttr, FragmentType, SharedType
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention.recognise import StreamingAttention
from polyc.lowering.region_to_gpu.attention_end import End
from polyc.lowering.region_to_gpu.attention_parts import (
    BY_ROW,
    QUARTERS,
    Keys,
    Parts,
    QueryTile,
    Rows,
)
from polyc.lowering.region_to_gpu.attention_sm90 import Sm90Builder, grid_of
from polyc.lowering.region_to_gpu.frame import Frame, alignments
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit


@dataclass(frozen=True)
class AttentionLowering:
    """A region that is attention with a streaming softmax."""

    attention: StreamingAttention

    @property
    def kernel(self) -> KernelOp:
        return self.attention.kernel

    def check_form(self, plan: ScheduleOp) -> None:
        """A streaming softmax is built as it is."""

    def launch(self, plan: ScheduleOp) -> LaunchOp:
        attention = self.attention
        if plan.mma.data == "wgmma":
            grid = grid_of(attention, plan)
        else:
            grid = [attention.size(label) for label in attention.batch]
            grid.append(attention.size(attention.m).ceildiv(plan.tile_sizes[0]))
        align = alignments(self.kernel, plan)
        return LaunchOp(plan.kernel_name, plan.when, align, grid, plan.flag("persistent"))

    def build(self, plan: ScheduleOp, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        if plan.mma.data == "wgmma":
            return Sm90Builder(self.attention, plan).build(bindings)
        return AttentionBuilder(self.attention, plan).build(bindings)


LOWERING = AttentionLowering


@dataclass
class AttentionBuilder:
    """Builds the kernel of a schedule for ``mma.sync``: each warp has rows of the scores."""

    attention: StreamingAttention
    plan: ScheduleOp

    def __post_init__(self) -> None:
        self.frame = Frame(self.attention.kernel)
        self.emit = self.frame.emit
        self.parts = Parts(self.attention, self.plan, self.frame)

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        parts, emit = self.parts, self.emit
        at = parts.place(emit)
        keys = parts.visible_keys(emit, at)
        self.allocate()
        self.load_queries(at, keys)
        self.walk(at, keys)
        emit.op(tile.ReduceOp("sum", self.sums, BY_ROW, self.rows.before))
        End(parts, at, self.rows, self.rows.before, self.out).write(emit)
        return self.frame.finish(self.plan, bindings)

    def allocate(self) -> None:
        attention, emit, parts = self.attention, self.emit, self.parts
        element = attention.element
        queries, keys, depth = self.plan.tile_sizes
        width = self.plan.warp_tile_sizes[1]

        def shared(rows: int, columns: int, name: str) -> SSAValue:
            kind = SharedType.of([rows, columns], element)
            return emit.value(SharedTileOp(kind), f"{name}_tile")

        def fragment(sizes: Sequence[int], kind: Attribute, name: str) -> SSAValue:
            return emit.value(tile.FragmentOp(FragmentType.of(sizes, kind)), name)

        self.q = shared(queries, depth, attention.q.name)
        self.k = shared(keys, depth, attention.k.name)
        self.v = shared(keys, width, attention.v.name)
        self.scores = fragment([queries, keys], f32, "scores")
        self.weights = fragment([queries, keys], element, "weights")
        self.out = fragment([queries, width], f32, "out")
        self.rows = Rows(*(fragment([queries], f32, n) for n in ("max", "was", "base", "alpha")))
        self.part = fragment([queries, 4], f32, "part")
        self.sums = fragment([queries, 4], f32, "sums")
        for value, target in (
            (parts.zero, self.out),
            (parts.zero, self.sums),
            (parts.none, self.rows.maximum),
            (parts.none, self.rows.before),
        ):
            emit.op(tile.FillOp(value, target))

    def load_queries(self, at: QueryTile, keys: Keys) -> None:
        """Q comes in with the first keys; where there are none, nothing waits for it."""
        some = self.emit.compare("sgt", keys.count, self.parts.zero_index)
        attention, loader = self.attention, self.plan.loader.data
        self.emit.when(
            some, lambda inner: self.parts.copy(inner, attention.q, at, at.row, self.q, loader)
        )

    def walk(self, at: QueryTile, keys: Keys) -> None:
        """The pipeline over the keys."""
        attention, plan, parts = self.attention, self.plan, self.parts
        body = Block(arg_types=[INDEX, INDEX])
        position, iteration = body.args
        iteration.name_hint = "i"
        outer, inner = self.emit, Emit(self.emit)
        key = parts.key(inner, keys, position)
        key.name_hint = f"{attention.n}0"
        for operand, target in ((attention.k, self.k), (attention.v, self.v)):
            parts.copy(inner, operand, at, key, target, plan.loader.data)
        rows, width = plan.warp_tile_sizes
        scores = (rows, plan.tile_sizes[1])
        q, k = tile.ContractSide(self.q, LHS_MK), tile.ContractSide(self.k, RHS_NK)
        products = tile.ContractOp(q, k, self.scores, "mma.sync", scores, clear=True)
        inner.op(located(products, attention.scores))
        parts.score(inner, self.scores, at, key)
        parts.mask(inner, self.scores, at, key, at, parts.left(inner, key))
        inner.op(tile.ReduceOp("max", self.scores, BY_ROW, self.rows.maximum, accumulate=True))
        parts.rescale(inner, self.rows)
        parts.weights(inner, self.scores, self.rows)
        inner.op(tile.ReduceOp("sum", self.scores, QUARTERS, self.part))
        parts.scaled(inner, self.sums, self.rows, more=self.part)
        parts.round(inner, self.scores, self.weights)
        parts.scaled(inner, self.out, self.rows)
        p, v = tile.ContractSide(self.weights, LHS_MK), tile.ContractSide(self.v, RHS_KN)
        weighted = tile.ContractOp(p, v, self.out, "mma.sync", (rows, width))
        inner.op(weighted)
        body.add_ops(inner.ops)
        step, stages = plan.tile_sizes[1], plan.integer("stages")
        pipeline = tile.PipelineOp(keys.count, step, stages, Region(body))
        outer.op(located(pipeline, attention.together))
