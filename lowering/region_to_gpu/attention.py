"""``region-to-gpu``: the kernels of attention with a streaming softmax (S6.10, S9, T3).

A kernel is one loop over the keys in a CTA's tile of queries, for both architectures: scores, their
softmax so far, and the weighted sum of values.  Rings, roles, the overlap of steps and turns are
``gpu`` passes' work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.gpu.hardware import OpaqueOp, SharedTileOp
from polyc.dialects.gpu.launches import LaunchOp
from polyc.dialects.gpu.tile.compute import LHS_MK, RHS_KN, RHS_NK
from polyc.dialects.gpu.types import FragmentType, SharedType, index_attr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.attention import PATTERN, TWO_PASSES, tiles_ahead
from polyc.dialects.plan.fields import record_of
from polyc.dialects.region import KernelOp, ReadOp
from polyc.families.attention.gates import gates_asked
from polyc.families.attention.operands import HeadOperand
from polyc.families.attention.queries import ComputedQueries, queries_read
from polyc.families.attention.recognise import StreamingAttention
from polyc.lowering.region_to_gpu.attention_again import Again
from polyc.lowering.region_to_gpu.attention_end import End
from polyc.lowering.region_to_gpu.attention_parts import (
    Keys,
    Parts,
    QueryTile,
    Rows,
)
from polyc.lowering.region_to_gpu.attention_queries import compute_queries
from polyc.lowering.region_to_gpu.attention_split import Joined, PartsStored
from polyc.lowering.region_to_gpu.attention_tiles import Placed, Tiles
from polyc.lowering.region_to_gpu.frame import MAX_VECTOR_BYTES, Frame, Space, alignments
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim, ceil_div
from polyc.rewriting.region.building import type_of


@dataclass(frozen=True)
class AttentionLowering:
    """A region that is attention with a streaming softmax."""

    attention: StreamingAttention

    @property
    def kernel(self) -> KernelOp:
        return self.attention.kernel

    def check_form(self, plan: ScheduleOp) -> None:
        """A streaming softmax is built as it is."""

    def launches(self, plan: ScheduleOp) -> list[LaunchOp]:
        grid = Tiles(self.attention, plan).grid
        align = self.aligned(plan)
        first = LaunchOp(plan.kernel_name, plan.when, align, grid, plan.flag("persistent"))
        if not plan.stores_sums:
            return [first]
        rows = Joined(self.attention, plan).grid
        return [first, LaunchOp(plan.kernel_names[1], plan.when, align, rows)]

    def aligned(self, plan: ScheduleOp) -> list[int]:
        """The alignment of each tensor's base: as its vectors are wide, and where a producer may
        bring masks of queries and keys by TMA, as that asks for."""
        align, attention = alignments(self.kernel, plan), self.attention
        if plan.loader.data != "tma":
            return align
        both = {attention.m, attention.n}
        for read in (op for op in self.kernel.body.walk() if isinstance(op, ReadOp)):
            if isinstance(read.tensor, BlockArgument) and both <= {*type_of(read.result).labels}:
                align[read.tensor.index] = MAX_VECTOR_BYTES
        return align

    def spaces(self, plan: ScheduleOp) -> list[Space]:
        kinds = PartsStored.kinds(self.attention, plan) if plan.stores_sums else []
        return [Space(f"{plan.kernel_name}_sums", kind) for kind in kinds]

    def build(
        self, plan: ScheduleOp, bindings: Sequence[BindAttr], spaces: Sequence[BindAttr]
    ) -> list[gpu.KernelOp]:
        found = [AttentionBuilder(self.attention.as_planned(plan), plan, spaces).build(bindings)]
        if plan.stores_sums:
            found.append(Joined(self.attention, plan).build(bindings, spaces))
        return found


LOWERING = AttentionLowering


@dataclass
class AttentionBuilder:
    """Builds the kernel of a schedule.

    With ``mma.sync`` each warp has rows of the scores, with ``wgmma`` each warpgroup; then the walk
    goes from the last keys to the first, so that the steps that a mask or the end of the keys cuts
    come first.

    In two passes, which a plan may ask for, the first finds each row's maximum and
    sum, so that the second's weights are final: nothing that was summed is scaled, and scores are
    computed twice.  Both bring keys to the same tile.
    """

    attention: StreamingAttention
    plan: ScheduleOp
    spaces: Sequence[BindAttr] = ()
    """Where CTAs that share the keys of a tile leave what they found."""

    def __post_init__(self) -> None:
        self.frame = Frame(self.attention.kernel)
        self.emit = self.frame.emit
        self.parts = Parts(self.attention, self.plan, self.frame)
        self.tiles = Tiles(self.attention, self.plan)
        self.stored: PartsStored | None = None
        if self.spaces:
            self.stored = PartsStored.of(self.parts, self.plan, self.spaces)
        self.by_groups = self.plan.mma.data == "wgmma"
        way = record_of(self.plan.algo_choice)[PATTERN]
        self.passes = 2 if way == TWO_PASSES else 1

    def build(self, bindings: Sequence[BindAttr]) -> gpu.KernelOp:
        emit = self.emit
        tiles = self.tiles
        if not self.plan.flag("persistent"):
            at = tiles.only(self.parts, emit)
            keys = tiles.keys(self.parts, emit, at)
            self.allocate()
            self.tile(emit, at, keys, self.some(emit, keys))
        elif tiles.alike:
            keys = Keys(self.parts.zero_index, self.parts.size_n)
            some = self.some(emit, keys)
            self.allocate()
            tiles.each(self.parts, emit, lambda inner, at: self.tile(inner, at, keys, some))
        else:
            self.allocate()
            tiles.each(self.parts, emit, self.own_keys)
        kernel = self.frame.finish(self.plan, bindings)
        kernel.blocks_per_sm = index_attr(self.plan.at_once)
        return kernel

    def allocate(self) -> None:
        attention, emit = self.attention, self.emit
        element = attention.element
        queries, keys, depth = self.plan.tile_sizes
        width = self.plan.warp_tile_sizes[1]

        def shared(
            rows: int, columns: int, operand: HeadOperand | ComputedQueries, slots: int = 1
        ) -> SSAValue:
            kind = SharedType.of([rows, columns], operand.element, ring=slots)
            return emit.value(SharedTileOp(kind), f"{operand.name}_tile")

        def fragment(sizes: Sequence[int], kind: Attribute, name: str) -> SSAValue:
            return emit.value(tile.FragmentOp(FragmentType.of(sizes, kind)), name)

        self.q = shared(queries, depth, attention.q, tiles_ahead(self.plan))
        self.k = shared(keys, depth, attention.k)
        self.v = shared(keys, width, attention.v)
        self.scores = fragment([queries, keys], f32, "scores")
        # Of f32 the weights are no other numbers than those in the scores' place.
        self.weights = self.scores
        if element != f32:
            self.weights = fragment([queries, keys], element, "weights")
        self.out = fragment([queries, width], f32, "out")
        self.rows = Rows(*(fragment([queries], f32, n) for n in ("max", "was", "base", "alpha")))
        self.part = fragment([queries], f32, "part")
        self.sums = fragment([queries], f32, "sums")
        self.second: Again | None = None
        if attention.hides:
            totals = (self.part, self.sums)
            self.second = Again(self.parts, self.plan, self.q, self.rows, totals, self.out)

    def some(self, emit: Emit, keys: Keys) -> SSAValue:
        """Whether a tile sees any key."""
        return emit.compare("sgt", keys.count, self.parts.zero_index)

    def own_keys(self, emit: Emit, placed: Placed) -> None:
        """A tile of a loop in which each sees keys of its own."""
        keys = self.tiles.keys(self.parts, emit, placed)
        self.tile(emit, placed, keys, self.some(emit, keys))

    def tile(self, emit: Emit, placed: Placed, keys: Keys, some: SSAValue) -> None:
        """What a CTA does for a tile of queries; ``some`` says whether it sees any key."""
        parts, rows = self.parts, self.rows
        emit.op(tile.FillOp(parts.zero, self.out))
        parts.none_yet(emit, rows, self.sums)
        # Where there are no keys, nothing waits for the queries.
        emit.when(some, lambda inner: self.some_keys(inner, placed, keys))
        if not self.by_groups:
            self.walks(emit, placed.at, keys)
            self.look(emit, placed)
        at = placed.at
        if self.stored is not None:
            self.stored.store(emit, at, rows.maximum, self.sums, self.out)
        else:
            End(parts, at, rows, self.sums, self.out).write(emit)

    def some_keys(self, emit: Emit, placed: Placed, keys: Keys) -> None:
        """The queries, and for warpgroups the walk: both roles ask the condition once."""
        at, loader = placed.at, self.plan.loader.data
        queries, first = self.attention.q, at.row
        if self.parts.shared is not None and isinstance(queries, HeadOperand):
            beside = self.heads_beside(queries)
            if beside is None:
                # The rows are no neighbours in memory that a copy could bring.
                queries = queries_read(queries.name, queries.read, queries.feature)
            else:
                number = self.attention.batch.index(self.parts.shared.axis)
                queries, both = beside, [at.batch[number], at.row]
                first = emit.apply(affine_dim(0) + affine_dim(1), both)
        if isinstance(queries, ComputedQueries):
            compute_queries(self.parts, queries, emit, at, self.q)
        else:
            self.parts.copy(emit, queries, at, first, self.q, loader)
        if self.by_groups:
            self.walks(emit, at, keys)
            self.look(emit, placed)

    def heads_beside(self, queries: HeadOperand) -> HeadOperand | None:
        """The one query of each head as a tile along the heads; None where it is no such tile.

        Rows behind those of the heads that share keys are of other heads, and no output has them.
        """
        attention, shared = self.attention, self.parts.shared
        assert shared is not None
        head = AffineExpr.dimension(attention.batch.index(shared.axis))
        if attention.size(attention.m).constant() != 1 or head not in queries.axes:
            return None
        swapped = {head: shared.axis, attention.m: AffineExpr.constant(0)}
        return replace(queries, axes=tuple(swapped.get(x, x) for x in queries.axes))

    def look(self, emit: Emit, placed: Placed) -> None:
        """Values of hidden keys leave no trace (S0.6)."""
        if self.second is not None:
            self.second.look(emit, lambda inner: self.tiles.anew(self.parts, inner, placed))

    def walks(self, emit: Emit, at: QueryTile, keys: Keys) -> None:
        """The way over the keys, once, or once for the softmax and once for the values."""
        if self.passes == 1:
            self.walk(emit, at, keys, self.step)
            return
        self.walk(emit, at, keys, self.statistics)
        self.walk(emit, at, keys, self.values)

    def walk(self, outer: Emit, at: QueryTile, keys: Keys, do: Step) -> None:
        """A pipeline over the keys, of which ``do`` makes the body."""
        body = Block(arg_types=[INDEX, INDEX])
        position, iteration = body.args
        iteration.name_hint = "i"
        inner = Emit(outer)
        step, stages = self.plan.tile_sizes[1], self.plan.integer("stages")
        if self.by_groups:
            known = self.attention.size(self.attention.n).constant()
            if known is not None and -(-known // step) == 2 and not self.attention.hides:
                # Of two steps that are known ptxas leaves no loop, and holds the scores of both.
                keys = Keys(keys.first, outer.value(OpaqueOp(keys.count), "keys"))
            steps = outer.apply(ceil_div(affine_dim(0), step), [keys.count], hint="steps")
            backwards = (affine_dim(1) - affine_dim(0) - 1) * step
            position = inner.apply(backwards, [iteration, steps], hint="k0")
        key = self.parts.key(inner, keys, position)
        key.name_hint = f"{self.attention.n}0"
        do(inner, at, key, iteration)
        body.add_ops(inner.ops)
        pipeline = tile.PipelineOp(keys.count, step, stages, Region(body))
        outer.op(located(pipeline, self.attention.together))

    def step(self, emit: Emit, at: QueryTile, key: SSAValue, iteration: SSAValue) -> None:
        """Scores, their softmax so far, and the values by its weights."""
        parts = self.parts
        self.load(emit, at, key, (self.attention.k, self.k), (self.attention.v, self.v))
        self.score(emit, at, key)
        self.softmax(emit)
        if self.by_groups:
            # The first step has nothing to scale.
            later = emit.compare("sgt", iteration, parts.zero_index)
            emit.when(later, lambda then: parts.scaled(then, self.out, self.rows))
        else:
            parts.scaled(emit, self.out, self.rows)
        self.weigh(emit, at, key)

    def statistics(self, emit: Emit, at: QueryTile, key: SSAValue, iteration: SSAValue) -> None:
        """Of two passes the first: maxima and sums."""
        self.load(emit, at, key, (self.attention.k, self.k))
        self.score(emit, at, key)
        self.softmax(emit)

    def values(self, emit: Emit, at: QueryTile, key: SSAValue, iteration: SSAValue) -> None:
        """Of two passes the second: scores again, now for the row's last maximum, and values."""
        self.load(emit, at, key, (self.attention.k, self.k), (self.attention.v, self.v))
        self.score(emit, at, key)
        self.parts.weights(emit, self.scores, self.rows)
        self.weigh(emit, at, key)

    def load(
        self, emit: Emit, at: QueryTile, key: SSAValue, *copies: tuple[HeadOperand, SSAValue]
    ) -> None:
        for operand, target in copies:
            self.parts.copy(emit, operand, at, key, target, self.plan.loader.data)

    def score(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """The scores of the queries and a tile of keys."""
        parts, plan = self.parts, self.plan
        sizes = (plan.warp_tile_sizes[0], plan.tile_sizes[1])
        q, k = tile.ContractSide(self.q, LHS_MK), tile.ContractSide(self.k, RHS_NK)
        products = tile.ContractOp(q, k, self.scores, plan.mma.data, sizes, clear=True)
        emit.op(located(products, self.attention.scores))
        # A hidden key's score that is not -inf by itself is NaN, and all is computed again.
        parts.score(emit, self.scores, at, key, gates_asked(self.attention, self.plan))
        parts.mask(emit, self.scores, at, key)

    def softmax(self, emit: Emit) -> None:
        """New maxima, weights in the scores' place, and the sums of these."""
        self.parts.softmax(emit, self.scores, self.rows, self.part, self.sums)

    def weigh(self, emit: Emit, at: QueryTile, key: SSAValue) -> None:
        """Add the values by the weights."""
        self.parts.keep(emit, self.scores, at, key)
        if self.weights is not self.scores:
            self.parts.round(emit, self.scores, self.weights)
        p, v = tile.ContractSide(self.weights, LHS_MK), tile.ContractSide(self.v, RHS_KN)
        weighted = tile.ContractOp(p, v, self.out, self.plan.mma.data, self.plan.warp_tile_sizes)
        emit.op(located(weighted, self.attention.together))


Step = Callable[[Emit, QueryTile, SSAValue, SSAValue], None]
"""Makes a step's body, for a tile of queries, its first key and its number."""
