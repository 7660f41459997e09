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
    ahead.  Legality: the tile is filled in this loop only, anew in each iteration, and
    nothing but the loop's own copies and contracts uses it, bare or guarded; raises PolycError
    ``TileShared`` otherwise.  A guarded copy may leave a slot as it was, so that what reads the
    tile is guarded as well, by conditions that imply the copy's (``TileStale``).  Of several copies
    into one tile at most one runs in an iteration (``TileFilledTwice``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        stages = op.stages.value.data
        copies = [c for c in copies_of(op) if c.slot is None]
        if stages == 1 or not copies:
            return
        versioned: set[SSAValue] = set()
        emit = Emit()
        slot = emit.apply(affine_dim(0) % stages, [op.iteration], hint="slot")
        rewriter.insert(emit.ops, InsertPoint.at_start(op.body.block))
        for target in dict.fromkeys(c.target for c in copies):
            kind = target.type
            assert isinstance(kind, SharedType)
            fillers = [c for c in copies if c.target is target]
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
                inside = enclosing_pipeline(user) is op
                if not (inside and isinstance(user, tile.CopyOp | tile.ContractOp)):
                    raise PolycError(
                        "TileShared",
                        f"{user.name} uses a tile that the pipeline keeps {stages} versions of; "
                        "only copies and contracts of the loop itself can",
                        user,
                    )
                if user not in copies and not covers(fills, literals(user)):
                    raise PolycError(
                        "TileStale",
                        f"{user.name} reads a tile in iterations whose copy is skipped, where its "
                        f"slot still holds the tile of {stages} iterations before; put both under "
                        "one condition",
                        user,
                    )
            ring = SharedType.of(kind.sizes, kind.element_type, kind.swizzle_bytes, stages)
            versioned.add(rewriter.replace_value_with_new_type(target, ring))
        for inner in list(op.body.walk()):
            if isinstance(inner, tile.CopyOp) and inner.target in versioned:
                rewriter.replace(inner, inner.like(slot=slot))
            elif isinstance(inner, tile.CopyOp) and inner.source in versioned:
                rewriter.replace(inner, inner.like(source_slot=slot))
            elif isinstance(inner, tile.ContractOp):
                self.set_contract_slots(inner, slot, versioned, rewriter)

    @staticmethod
    def set_contract_slots(
        op: tile.ContractOp, slot: SSAValue, tiles: set[SSAValue], rewriter: PatternRewriter
    ) -> None:
        lhs, rhs = (replace(x, slot=slot) if x.tile in tiles else x for x in op.sides)
        rewriter.replace(op, op.like(lhs, rhs))


@dataclass(frozen=True)
class GpuMultiVersionBuffers(ModulePass):
    """Make rings of the shared tiles that pipelines fill."""

    name = "gpu-multi-version-buffers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [VersionTiles()])
