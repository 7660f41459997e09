"""What the rings of a pipeline's roles count by, from tile to tile (T2).

Where all tiles take as many iterations, the first one of a tile is its ordinal times that.  Where
they do not, the tile loop carries how many there were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.index_forms import Forms, at_least
from polyc.passes.support.gpu.known_rows import can_be
from polyc.passes.support.gpu.pipeline_parts import iterations
from polyc.passes.support.gpu.role_place import Place
from polyc.rewriting.driver import located
from polyc.rewriting.emit import INDEX, Emit, affine_dim

Values = Mapping[SSAValue, SSAValue]
NO_VALUES: Values = {}


@dataclass(frozen=True)
class Counts:
    """How often a pipeline's body runs, and what came before.

    ``before`` are the iterations of the CTA's tiles before, ``visits`` how often these came to the
    pipeline: values of the tile loop's body, or None where the tile's ordinal says it.  ``after``
    is what they are behind the pipeline.
    """

    place: Place
    count: SSAValue
    before: SSAValue | None = None
    visits: SSAValue | None = None
    after: tuple[SSAValue, ...] = ()

    @staticmethod
    def alike(place: Place, emit: Emit) -> Counts:
        """Of a pipeline whose iterations are the same for all tiles, computed in front of all."""
        return Counts(place, iterations(place.op, emit))

    @staticmethod
    def carried(place: Place, emit: Emit, rewriter: PatternRewriter) -> Counts:
        """Of one whose iterations vary: the loop over tiles carries their sum.

        A branch around the pipeline gives what it was if it is not taken, and what the pipeline
        makes of it otherwise.  ``emit`` gets the first tile's, in front of all.
        """
        tiles = place.tiles
        if tiles is not None:
            place = asked(place, rewriter)
        here = Emit()
        count = iterations(place.op, here)
        if tiles is None:
            rewriter.insert(here.ops, InsertPoint.before(place.op))
            return Counts(place, count)
        branches = place.frames[place.frames.index(tiles) + 1 :]
        start = [emit.index(0)]
        body = tiles.body.block
        before = body.insert_arg(INDEX, len(body.args))
        before.name_hint = "first"
        # A bound below 0 is no iteration.
        some = here.value(arith.MaxSIOp(count, here.index(0))) if may_be_empty(place.op) else count
        following = [here.apply(affine_dim(0) + affine_dim(1), [before, some], hint="next")]
        visits: SSAValue | None = None
        if place.early and branches:
            start.append(start[0])
            visits = body.insert_arg(INDEX, len(body.args))
            visits.name_hint = "visit"
            following.append(here.apply(affine_dim(0) + 1, [visits], hint="visits"))
        rewriter.insert(here.ops, InsertPoint.before(place.op))
        now = [before] if visits is None else [before, visits]
        after = tuple(following)
        made = dict[Operation, tile.TileLoopOp | scf.IfOp]()
        for branch in reversed(branches):
            assert isinstance(branch, scf.IfOp)
            end(branch.true_region.block, scf.YieldOp(*following))
            other = [scf.YieldOp(*now)]
            new = scf.IfOp(branch.cond, [INDEX] * len(now), branch.detach_region(0), other)
            new.attributes.update(branch.attributes)
            for result, value in zip(new.results, following, strict=True):
                result.name_hint = value.name_hint
            made[branch] = located(new, branch)
            rewriter.replace(branch, new, [])
            following = list(new.results)
        end(body, tile.YieldOp(following))
        loop = tiles.like(tiles.detach_region(tiles.body), iter_args=start)
        made[tiles] = located(loop, tiles)
        rewriter.replace(tiles, loop, [])
        frames = tuple(made.get(frame, frame) for frame in place.frames)
        return Counts(replace(place, frames=frames), count, before, visits, after)

    def first(self, emit: Emit, values: Values = NO_VALUES) -> SSAValue | None:
        """The number of the first iteration of a tile; None where a CTA has one tile.

        ``values`` is what stands for the consumers' values.
        """
        tiles = self.place.tiles
        if tiles is None:
            return None
        if self.before is not None:
            return values.get(self.before, self.before)
        ordinal = values.get(tiles.ordinal, tiles.ordinal)
        return emit.value(arith.MuliOp(ordinal, self.count), "first")

    def visit(self, emit: Emit, values: Values = NO_VALUES) -> SSAValue:
        """How often the CTA came to the pipeline before."""
        tiles = self.place.tiles
        if tiles is None:
            return emit.index(0)
        came = tiles.ordinal if self.visits is None else self.visits
        return values.get(came, came)

    @property
    def made(self) -> list[Operation]:
        """The ops in the frames that say how often the pipeline runs, but for the frames."""
        outer = self.place.outermost
        owners = [value.owner for value in (self.count, *self.after, *self.place.conditions)]
        return [
            owner for owner in owners if isinstance(owner, Operation) and outer.is_ancestor(owner)
        ]


def may_be_empty(op: tile.PipelineOp) -> bool:
    """Whether nothing shows that a pipeline has an iteration."""
    forms = Forms()
    none = [(*bound.rows, at_least(bound.expr * -1)) for bound in forms.of(op.bound)]
    return can_be(op, forms, none)


def asked(place: Place, rewriter: PatternRewriter) -> Place:
    """Let a branch ask whether there are iterations, where tiles are brought for them alone.

    The threads would all wait for these tiles and do nothing behind that which lets the threads of
    a warp meet: the next one's could come while some still wait.
    """
    op, early = place.op, place.early
    users = {use.operation for copy in early for use in copy.target.uses} - set(early)
    if not early or not all(map(op.is_ancestor, users)) or not may_be_empty(op):
        return place
    emit = Emit()
    some = emit.compare("sgt", op.bound, emit.index(0))
    branch = scf.IfOp(some, [], [scf.YieldOp()])
    emit.op(branch)
    rewriter.insert([located(new, op) for new in emit.ops], InsertPoint.before(op))
    moved = [*early, op]
    for inner in moved:
        inner.detach()
    last = branch.true_region.block.last_op
    assert last is not None
    branch.true_region.block.insert_ops_before(moved, last)
    return replace(place, frames=(*place.frames, branch))


def end(block: Block, terminator: Operation) -> None:
    """Let a block end with this."""
    last = block.last_op
    if isinstance(last, scf.YieldOp | tile.YieldOp):
        last.detach()
        last.erase()
    block.add_op(terminator)
