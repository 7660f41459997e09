"""``region-to-gpu``: which tiles of queries the CTAs of an attention's kernel have (S6.10)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.ir import Block, Region, SSAValue

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import BlockIdOp, OpaqueOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.attention import PATTERN, SHARED_KEYS
from polyc.dialects.plan.fields import record_of
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.attention.shared import SharedKeys
from polyc.lowering.region_to_gpu.attention_parts import Keys, Parts, QueryTile
from polyc.rewriting.emit import INDEX, Emit, affine_dim, ceil_div


@dataclass(frozen=True)
class Placed:
    """A tile of queries, and which point of the batch it is of."""

    at: QueryTile
    number: SSAValue


@dataclass(frozen=True)
class Tiles:
    """The tiles of queries of a schedule, and their order.

    Batch points go one by one, or by groups whose tiles alternate, the batch fastest, so that CTAs
    which run at once share their keys.  Where later queries see more keys, the tiles with most of
    them come first, so that the CTAs end together: by the hardware's own order where each has one
    tile.  In a persistent kernel a CTA takes such a tile and that of as few in turn, which have as
    many keys together wherever they are.
    """

    attention: StreamingAttention
    plan: ScheduleOp

    @property
    def queries(self) -> int:
        return self.plan.tile_sizes[0]

    @property
    def heads(self) -> int:
        """Batch points whose tiles alternate."""
        return self.plan.integer("group") if self.plan.raster.data == "grouped" else 1

    @property
    def alike(self) -> bool:
        """Whether all tiles see the same keys, those of a group's places beyond the batch too."""
        visible = self.attention.score.visible
        return self.heads == 1 and not visible.end_keys(1) and not visible.first_keys(1)

    @property
    def shared(self) -> SharedKeys | None:
        """The heads whose queries a tile has together, as they share keys."""
        packs = record_of(self.plan.algo_choice)[PATTERN] == SHARED_KEYS
        return self.attention.shared if packs else None

    @property
    def batch(self) -> Dim:
        """How many attentions there are, those of heads in one tile being one."""
        total = Dim.const(1)
        for size in self._batch():
            total = total * size
        return total

    def _batch(self) -> list[Dim]:
        shared = self.shared
        sizes = {label: self.attention.size(label) for label in self.attention.batch}
        if shared is not None:
            sizes[shared.axis] = sizes[shared.axis].floordiv(shared.heads)
        return list(sizes.values())

    @property
    def rows(self) -> Dim:
        """The rows of all tiles of one attention: its queries, for each head that they have."""
        heads = 1 if self.shared is None else self.shared.heads
        return self.attention.size(self.attention.m) * heads

    @property
    def grid(self) -> list[Dim]:
        """Tiles of queries, of as many batch points as whole groups have."""
        tiles = self.rows.ceildiv(self.queries)
        if self.plan.mma.data != "wgmma" and self.heads == 1:
            parts = self.plan.integer("split_k")
            return [*self._batch(), tiles * parts]
        return [self.batch.ceildiv(self.heads), tiles, Dim.const(self.heads)]

    def only(self, parts: Parts, emit: Emit, anew: bool = False) -> Placed:
        """The tile of a CTA that has one; ``anew`` is not kept from an earlier time."""
        block = emit.value(BlockIdOp(), "block")
        if anew:
            block = emit.value(OpaqueOp(block), "block")
        part: SSAValue | None = None
        if parts.splits > 1:
            part = emit.apply(affine_dim(0) % parts.splits, [block], hint="part")
            block = emit.apply(affine_dim(0) // parts.splits, [block])
        rows = affine_dim(0) * parts.heads
        tiles = emit.apply(ceil_div(rows, self.queries), [parts.size_m], hint="tiles")
        if self.heads == 1:
            rest = emit.value(arith.RemUIOp(block, tiles), "part")
            number = emit.value(arith.DivUIOp(block, tiles))
            place = affine_dim(0)
        else:
            together = emit.apply(affine_dim(0) * self.heads, [tiles])
            group = emit.value(arith.DivUIOp(block, together), "group")
            rest = emit.value(arith.RemUIOp(block, together), "rest")
            inside = affine_dim(0) * self.heads + affine_dim(1) % self.heads
            number = emit.apply(inside, [group, rest])
            place = affine_dim(0) // self.heads
        if self.attention.score.visible.grows:
            place = affine_dim(1) - place - 1
        row = emit.apply(place * self.queries, [rest, tiles], hint=f"{self.attention.m}0")
        return Placed(self.tile(parts, emit, number, row, part), number)

    @staticmethod
    def tile(
        parts: Parts, emit: Emit, number: SSAValue, row: SSAValue, part: SSAValue | None = None
    ) -> QueryTile:
        """The tile at a point of the batch from a row on."""
        batch = parts.batch(emit, number)
        return QueryTile(batch, row, part, parts.end(emit, batch))

    def anew(self, parts: Parts, emit: Emit, placed: Placed) -> QueryTile:
        """The same tile, as what no loop before keeps anything of in registers."""
        if not self.plan.flag("persistent"):
            return self.only(parts, emit, anew=True).at
        number, row = (emit.value(OpaqueOp(x)) for x in (placed.number, placed.at.row))
        return self.tile(parts, emit, number, row)

    def keys(self, parts: Parts, emit: Emit, placed: Placed) -> Keys:
        """The keys that such a tile sees: none where a last group has more places than points."""
        keys = parts.visible_keys(emit, placed.at)
        if self.heads == 1:
            return keys
        there = emit.compare("slt", placed.number, parts.frame.size(self.batch))
        some = emit.value(arith.SelectOp(there, keys.count, parts.zero_index), "some")
        return Keys(keys.first, some)

    def each(self, parts: Parts, emit: Emit, do: Callable[[Emit, Placed], None]) -> None:
        """A loop over the tiles of a CTA, in the same order as those of CTAs that have one."""
        if self.alike:
            body = Block(arg_types=[INDEX, INDEX, INDEX])
            number, query, ordinal = body.args
            number.name_hint = "batch"
            inner = Emit(emit)
            sizes, steps = [parts.frame.size(self.batch), parts.size_m], [1, self.queries]
        else:
            body = Block(arg_types=[INDEX, INDEX, INDEX, INDEX])
            group, query, head, ordinal = body.args
            group.name_hint, head.name_hint = "group", "head"
            inner = Emit(emit)
            inside = affine_dim(0) * self.heads + affine_dim(1)
            number = inner.apply(inside, [group, head], hint="batch")
            groups = parts.frame.size(self.batch.ceildiv(self.heads))
            sizes, steps = [groups, parts.size_m, emit.index(self.heads)], [1, self.queries, 1]
        query.name_hint, ordinal.name_hint = "q0", "n"
        do(inner, Placed(self.tile(parts, inner, number, query), number))
        body.add_ops(inner.ops)
        grows = self.attention.score.visible.grows
        loop = tile.TileLoopOp(sizes, steps, Region(body), "row", 1, grows, paired=grows)
        emit.op(loop)
