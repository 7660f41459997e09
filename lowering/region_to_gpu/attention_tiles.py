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
from polyc.families.attention.recognise import StreamingAttention
from polyc.lowering.region_to_gpu.attention_parts import Keys, Parts, QueryTile
from polyc.rewriting.emit import INDEX, Emit, affine_dim, ceil_div


@dataclass(frozen=True)
class Placed:
    """The tile of a CTA that has one, and which point of the batch it is of."""

    at: QueryTile
    number: SSAValue


@dataclass(frozen=True)
class Tiles:
    """The tiles of queries of a schedule, and their order.

    Batch points go one by one, or by groups whose tiles alternate, the batch fastest, so that CTAs
    which run at once share their keys.  Where later queries see more keys, a CTA of one tile has
    the more of them the earlier it starts: the hardware's own order then balances them.
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
    def batch(self) -> Dim:
        """How many attentions there are."""
        total = Dim.const(1)
        for label in self.attention.batch:
            total = total * self.attention.size(label)
        return total

    @property
    def grid(self) -> list[Dim]:
        """Tiles of queries, of as many batch points as whole groups have."""
        tiles = self.attention.size(self.attention.m).ceildiv(self.queries)
        if self.plan.mma.data != "wgmma":
            return [*(self.attention.size(label) for label in self.attention.batch), tiles]
        return [self.batch.ceildiv(self.heads), tiles, Dim.const(self.heads)]

    def only(self, parts: Parts, emit: Emit, anew: bool = False) -> Placed:
        """The tile of a CTA that has one; ``anew`` is not kept from an earlier time."""
        block = emit.value(BlockIdOp(), "block")
        if anew:
            block = emit.value(OpaqueOp(block), "block")
        tiles = emit.apply(ceil_div(affine_dim(0), self.queries), [parts.size_m], hint="tiles")
        if self.heads == 1:
            rest = emit.value(arith.RemUIOp(block, tiles), "part")
            number = emit.value(arith.DivUIOp(block, tiles))
            part = affine_dim(0)
        else:
            together = emit.apply(affine_dim(0) * self.heads, [tiles])
            group = emit.value(arith.DivUIOp(block, together), "group")
            rest = emit.value(arith.RemUIOp(block, together), "rest")
            inside = affine_dim(0) * self.heads + affine_dim(1) % self.heads
            number = emit.apply(inside, [group, rest])
            part = affine_dim(0) // self.heads
        if self.attention.score.visible.grows:
            part = affine_dim(1) - part - 1
        query = emit.apply(part * self.queries, [rest, tiles], hint=f"{self.attention.m}0")
        return Placed(QueryTile(parts.batch(emit, number), query), number)

    def keys(self, parts: Parts, emit: Emit, placed: Placed) -> Keys:
        """The keys that such a tile sees: none where a last group has more places than points."""
        keys = parts.visible_keys(emit, placed.at)
        if self.heads == 1:
            return keys
        there = emit.compare("slt", placed.number, parts.frame.size(self.batch))
        some = emit.value(arith.SelectOp(there, keys.count, parts.zero_index), "some")
        return Keys(keys.first, some)

    def each(self, parts: Parts, emit: Emit, do: Callable[[Emit, QueryTile], None]) -> None:
        """A loop over the tiles of a CTA."""
        body = Block(arg_types=[INDEX, INDEX, INDEX])
        number, query, ordinal = body.args
        number.name_hint, query.name_hint, ordinal.name_hint = "batch", "q0", "n"
        inner = Emit(emit)
        do(inner, QueryTile(parts.batch(inner, number), query))
        body.add_ops(inner.ops)
        sizes = [parts.frame.size(self.batch), parts.size_m]
        emit.op(tile.TileLoopOp(sizes, [1, self.queries], Region(body), "row", 1))
