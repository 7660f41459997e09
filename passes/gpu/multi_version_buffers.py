"""``gpu-multi-version-buffers``: as many versions of a tile as a pipeline is deep (T2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.guards import covers, enclosing_pipeline, exclusive, literals
from polyc.passes.support.gpu.pipeline_parts import copies_of
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit, affine_dim


class VersionTiles(RewritePattern):
    """Turn the tiles that a pipeline's copies fill into rings, and address the slot.

    Iteration ``i`` uses slot ``i mod stages``, so a copy may run ``stages - 1`` iterations
    ahead.  Pipelines that follow one another in a block, as walks over the same keys do, may fill
    the same tile.

    Legality: the tile is filled in these loops only, anew in each iteration, and nothing but their
    own copies and contracts uses it, bare or guarded; pipelines that share it stand in one block
    and have as many stages; raises PolycError ``TileShared`` otherwise.  A guarded copy may leave a
    slot as it was, so that what reads the tile is guarded as well, by conditions that imply the
    copy's (``TileStale``).  Of several copies into one tile at most one runs in an iteration
    (``TileFilledTwice``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        stages = op.stages.value.data
        copies = [c for c in copies_of(op) if c.slot is None]
        if stages == 1 or not copies:
            return
        slots: dict[tuple[tile.PipelineOp, Walks], SSAValue] = {}
        for target in dict.fromkeys(c.target for c in copies):
            walks = self.walks(op, target)
            for walk in walks:
                self.check(walk, target)
                if (walk, walks) not in slots:
                    # Tiles of other walks may be numbered otherwise: they have a slot of their own.
                    emit = Emit()
                    found = emit.apply(affine_dim(0) % stages, [walk.iteration], hint="slot")
                    rewriter.insert(emit.ops, InsertPoint.at_start(walk.body.block))
                    slots[walk, walks] = found
            kind = target.type
            assert isinstance(kind, SharedType)
            ring = kind.like(ring=stages)
            versioned = rewriter.replace_value_with_new_type(target, ring)
            for walk in walks:
                self.set_slots(walk, versioned, slots[walk, walks], rewriter)

    @staticmethod
    def walks(op: tile.PipelineOp, target: SSAValue) -> Walks:
        """The pipelines that fill a tile, in the order of the text."""
        users = [use.operation for use in target.uses]
        fillers = [o for o in users if isinstance(o, tile.CopyOp) and o.target is target]
        found = [enclosing_pipeline(filler) for filler in fillers]
        block = op.parent_block()
        assert block is not None
        walks = tuple(o for o in block.ops if isinstance(o, tile.PipelineOp) and o in found)
        stages = op.stages.value.data
        for user in users:
            walk = enclosing_pipeline(user)
            if walk not in walks or not isinstance(user, tile.CopyOp | tile.ContractOp):
                raise PolycError(
                    "TileShared",
                    f"{user.name} uses a tile that the pipeline keeps {stages} versions of; "
                    "only copies and contracts of the loop itself can",
                    user,
                )
        for walk in walks:
            if walk.stages.value.data != stages:
                raise PolycError(
                    "TileShared",
                    f"pipelines of {stages} and of {walk.stages.value.data} stages use one tile, "
                    "of which each would keep as many versions; give them as many stages, or each "
                    "a tile of its own",
                    walk,
                )
        return walks

    @staticmethod
    def check(op: tile.PipelineOp, target: SSAValue) -> None:
        """Refuse a tile that an iteration may fill twice, or read when it did not fill it."""
        fillers = [c for c in copies_of(op) if c.target is target]
        fills = [literals(c) for c in fillers]
        for (_, one), (second, other) in combinations(zip(fillers, fills, strict=True), 2):
            if not exclusive(one, other):
                raise PolycError(
                    "TileFilledTwice",
                    "an iteration may copy into this tile twice, and nothing says which copy "
                    "comes last; give each a tile of its own, or opposite conditions",
                    second,
                )
        for use in target.uses:
            user = use.operation
            if enclosing_pipeline(user) is not op or user in fillers:
                continue
            if not covers(fills, literals(user)):
                raise PolycError(
                    "TileStale",
                    f"{user.name} reads a tile in iterations whose copy is skipped, where its "
                    f"slot still holds the tile of {op.stages.value.data} iterations before; put "
                    "both under one condition",
                    user,
                )

    @staticmethod
    def set_slots(
        op: tile.PipelineOp, held: SSAValue, slot: SSAValue, rewriter: PatternRewriter
    ) -> None:
        """Let a pipeline's copies and contracts take a slot of a tile."""
        for inner in list(op.body.walk()):
            if isinstance(inner, tile.CopyOp) and inner.target is held:
                rewriter.replace(inner, inner.like(slot=slot))
            elif isinstance(inner, tile.CopyOp) and inner.source is held:
                rewriter.replace(inner, inner.like(source_slot=slot))
            elif isinstance(inner, tile.ContractOp) and held in (inner.lhs, inner.rhs):
                lhs, rhs = (replace(x, slot=slot) if x.tile is held else x for x in inner.sides)
                rewriter.replace(inner, inner.like(lhs, rhs))


Walks = tuple[tile.PipelineOp, ...]
"""Pipelines that fill the same tiles."""


@dataclass(frozen=True)
class GpuMultiVersionBuffers(ModulePass):
    """Make rings of the shared tiles that pipelines fill."""

    name = "gpu-multi-version-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [VersionTiles()])
