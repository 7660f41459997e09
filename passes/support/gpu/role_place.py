"""Where a pipeline stands that gets roles: what each role walks through to come to it (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.index_forms import is_inside
from polyc.passes.support.gpu.pipeline_parts import copies_of, with_needs
from polyc.passes.support.gpu.uniform import BOUND, check_uniform


@dataclass(frozen=True)
class Place:
    """Where a pipeline stands: the tile loop and the branches around it, the outermost first."""

    op: tile.PipelineOp
    kernel: gpu.KernelOp
    frames: tuple[tile.TileLoopOp | scf.IfOp, ...]

    @staticmethod
    def of(op: tile.PipelineOp) -> Place | None:
        """None where something else is around it, or two tile loops."""
        frames: list[tile.TileLoopOp | scf.IfOp] = []
        parent = op.parent_op()
        while isinstance(parent, tile.TileLoopOp | scf.IfOp):
            frames.insert(0, parent)
            parent = parent.parent_op()
        loops = [frame for frame in frames if isinstance(frame, tile.TileLoopOp)]
        bare = all(
            frame.share is None and not frame.iter_args
            if isinstance(frame, tile.TileLoopOp)
            else not frame.results and not frame.false_region.blocks
            for frame in frames
        )
        if not isinstance(parent, gpu.KernelOp) or len(loops) > 1 or not bare:
            return None
        return Place(op, parent, tuple(frames))

    @property
    def tiles(self) -> tile.TileLoopOp | None:
        """The tile loop."""
        return next((f for f in self.frames if isinstance(f, tile.TileLoopOp)), None)

    @property
    def outermost(self) -> Operation:
        return self.frames[0] if self.frames else self.op

    @property
    def early(self) -> list[tile.CopyOp]:
        """The copies by TMA in front of the pipeline, beside it, of tiles that it reads."""
        block = self.op.parent_block()
        assert block is not None
        return [
            copy
            for copy in block.ops
            if isinstance(copy, tile.CopyOp)
            and copy.is_load
            and copy.loader is not None
            and copy.loader.data == "tma"
            and copy.token is None
            and copy.is_before_in_block(self.op)
            and any(self.op.is_ancestor(use.operation) for use in copy.target.uses)
        ]

    @property
    def conditions(self) -> list[SSAValue]:
        """Those of the branches around the pipeline, the outermost first."""
        return [frame.cond for frame in self.frames if isinstance(frame, scf.IfOp)]

    def settle(self) -> bool:
        """Let all that roles count by stand in front of them, where they find the same.

        That is the pipeline's bound and the conditions of the branches around it.  Whether it is
        so; False where some of it has to be found tile by tile.  Raises PolycError
        ``VaryingCondition`` and ``LateCondition`` where roles, or the CTAs of a cluster that fill
        each other's tiles, may not agree on it, ``VaryingPipeline`` where consumers with tiles of
        their own would have to know how many iterations others take.
        """
        together = any(copy.multicast is not None for copy in copies_of(self.op))
        for condition in self.conditions:
            check_uniform(condition, self.op, together)
        settled = [self.hoist(value) for value in (self.op.bound, *self.conditions)]
        if all(settled):
            return True
        check_uniform(self.op.bound, self.op, together, BOUND)
        if self.tiles is not None and self.tiles.pingpong is not None:
            raise PolycError(
                "VaryingPipeline",
                "the number of iterations differs from tile to tile, and with pingpong each "
                "consumer has tiles of its own, so that none would know how many iterations those "
                "of the others took; drop pingpong, or let all tiles take as many",
                self.op,
            )
        return False

    def hoist(self, value: SSAValue) -> bool:
        """Compute a value in front of the outermost frame; False where it depends on the frames."""
        outer, owner = self.outermost, value.owner
        if isinstance(owner, Block):
            return not is_inside(value, outer)
        if not outer.is_ancestor(owner):
            return True
        needed = with_needs(list(outer.walk()), [owner])
        inside = any(
            is_inside(v, outer) for o in needed for v in o.operands if isinstance(v, BlockArgument)
        )
        if inside or any(o.regions or not is_side_effect_free(o) for o in needed):
            return False
        block = outer.parent_block()
        assert block is not None
        for op in needed:
            op.detach()
            block.insert_op_before(op, outer)
        return True
