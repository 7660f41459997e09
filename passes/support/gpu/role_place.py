"""Where pipelines stand that get roles: what each role walks through to come to them (T2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.traits import is_side_effect_free

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.index_forms import is_inside
from polyc.passes.support.gpu.pipeline_parts import copies_of, split, with_needs
from polyc.passes.support.gpu.uniform import BOUND, check_uniform, is_scalar


@dataclass(frozen=True)
class Place:
    """Where pipelines stand that follow one another in a block: the tile loop and the branches
    around them, the outermost first."""

    ops: tuple[tile.PipelineOp, ...]
    kernel: gpu.KernelOp
    frames: tuple[tile.TileLoopOp | scf.IfOp, ...]

    @staticmethod
    def of(ops: Sequence[tile.PipelineOp]) -> Place | None:
        """None where something else is around them, or two tile loops."""
        frames: list[tile.TileLoopOp | scf.IfOp] = []
        parent = ops[0].parent_op()
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
        return Place(tuple(ops), parent, tuple(frames))

    @property
    def op(self) -> tile.PipelineOp:
        """The first pipeline."""
        return self.ops[0]

    @property
    def tiles(self) -> tile.TileLoopOp | None:
        """The tile loop."""
        return next((f for f in self.frames if isinstance(f, tile.TileLoopOp)), None)

    @property
    def outermost(self) -> Operation:
        return self.frames[0] if self.frames else self.op

    @property
    def early(self) -> list[tile.CopyOp]:
        """The copies by TMA in front of the pipelines, beside them, of tiles that they read."""
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
            and any(op.is_ancestor(use.operation) for use in copy.target.uses for op in self.ops)
        ]

    @property
    def conditions(self) -> list[SSAValue]:
        """Those of the branches around the pipelines, the outermost first."""
        return [frame.cond for frame in self.frames if isinstance(frame, scf.IfOp)]

    def settle(self) -> bool:
        """Let all that roles count by stand in front of them, where they find the same.

        That is the pipelines' bounds and the conditions of the branches around them.  Whether it is
        so; False where some of it has to be found tile by tile.  Raises PolycError
        ``VaryingCondition`` and ``LateCondition`` where roles, or the CTAs of a cluster that fill
        each other's tiles, may not agree on it, ``VaryingPipeline`` where consumers with tiles of
        their own would have to know how many iterations others take.
        """
        together = any(copy.multicast is not None for op in self.ops for copy in copies_of(op))
        self.gather()
        for condition in self.conditions:
            check_uniform(condition, self.op, together)
        bounds = dict.fromkeys(op.bound for op in self.ops)
        settled = [self.hoist(value) for value in (*bounds, *self.conditions)]
        if all(settled):
            return True
        for op in self.ops:
            check_uniform(op.bound, op, together, BOUND)
        if self.tiles is not None and self.tiles.pingpong is not None:
            raise PolycError(
                "VaryingPipeline",
                "the number of iterations differs from tile to tile, and with pingpong each "
                "consumer has tiles of its own, so that none would know how many iterations those "
                "of the others took; drop pingpong, or let all tiles take as many",
                self.op,
            )
        return False

    def gather(self) -> None:
        """Compute in front of the first pipeline what is computed between it and the others.

        Raises PolycError ``LateCondition`` where a bound or a copy of the others depends on what
        stands between them and does more.
        """
        block = self.op.parent_block()
        assert block is not None
        between = [
            op
            for op in block.ops
            if self.op.is_before_in_block(op) and op.is_before_in_block(self.ops[-1])
        ]
        stays = {op for op in between if not is_scalar(op)}
        for op in between:
            used = {value.owner for inner in op.walk() for value in inner.operands}
            if op in stays or used & stays:
                stays.add(op)
                continue
            op.detach()
            block.insert_op_before(op, self.op)
        for op in self.ops[1:]:
            loading, _ = split(op)
            needed = [op.bound, *(v for o in loading for inner in o.walk() for v in inner.operands)]
            late = next((v.owner for v in needed if v.owner in stays), None)
            if late is not None:
                assert isinstance(late, Operation)
                late = next(o for o in reversed(with_needs(between, [late])) if not is_scalar(o))
                raise PolycError(
                    "LateCondition",
                    f"a bound or a copy of this pipeline depends on what {late.name} gives, which "
                    "is known only when the pipeline before has run, and the copies run ahead of "
                    "it; let it depend on sizes, coordinates and tensors that the kernel only "
                    "reads",
                    op,
                )

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
