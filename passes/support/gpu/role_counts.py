"""What the rings of pipelines' roles count by, from tile to tile (T2).

Where all tiles take as many iterations, the first one of a tile is its ordinal times that.  Where
they do not, the tile loop carries how many there were.  A ring that several pipelines fill, one
after another, counts on from each to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint

from polyc.dialects.common.diagnostic import PolycError
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
    """How often each pipeline's body runs, and what came before.

    ``before`` are its iterations in the CTA's tiles before, ``visits`` how often these came to the
    pipelines: values of the tile loop's body, or None where the tile's ordinal says it.  ``after``
    is what they are behind the pipelines.
    """

    place: Place
    counts: tuple[SSAValue, ...]
    before: tuple[SSAValue, ...] | None = None
    visits: SSAValue | None = None
    after: tuple[SSAValue, ...] = ()

    @staticmethod
    def alike(place: Place, emit: Emit) -> Counts:
        """Of pipelines whose iterations are the same for all tiles, computed in front of all."""
        several = len(place.ops) > 1
        return Counts(place, each(place, emit, lambda op: counted(op, emit, several)))

    @staticmethod
    def carried(place: Place, emit: Emit, rewriter: PatternRewriter) -> Counts:
        """Of some whose iterations vary: the loop over tiles carries their sums.

        A branch around the pipelines gives what they were if it is not taken, and what the
        pipelines make of them otherwise.  ``emit`` gets the first tile's, in front of all.
        """
        tiles = place.tiles
        if tiles is not None:
            place = asked(place, rewriter)
        here = Emit()
        several = len(place.ops) > 1
        counts = each(place, here, lambda op: counted(op, here, several))
        if tiles is None:
            rewriter.insert(here.ops, InsertPoint.before(place.op))
            return Counts(place, counts)
        branches = place.frames[place.frames.index(tiles) + 1 :]
        zero = emit.index(0)
        start: list[SSAValue] = []
        body = tiles.body.block
        carried: dict[SSAValue, SSAValue] = {}
        following: list[SSAValue] = []
        for op, count in zip(place.ops, counts, strict=True):
            if count in carried:
                continue
            start.append(zero)
            carried[count] = body.insert_arg(INDEX, len(body.args))
            carried[count].name_hint = "first"
            some = count if several else at_least_none(op, count, here)
            more = here.apply(affine_dim(0) + affine_dim(1), [carried[count], some], hint="next")
            following.append(more)
        visits: SSAValue | None = None
        if place.early and branches:
            start.append(start[0])
            visits = body.insert_arg(INDEX, len(body.args))
            visits.name_hint = "visit"
            following.append(here.apply(affine_dim(0) + 1, [visits], hint="visits"))
        rewriter.insert(here.ops, InsertPoint.before(place.op))
        now = [*carried.values(), *([] if visits is None else [visits])]
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
        before = tuple(carried[count] for count in counts)
        return Counts(replace(place, frames=frames), counts, before, visits, after)

    def first(
        self, emit: Emit, number: int, users: Sequence[int], values: Values = NO_VALUES
    ) -> SSAValue | None:
        """What a ring counts at the first iteration of a tile of pipeline ``number``; None for 0.

        ``users`` are the pipelines that fill the ring, this one among them, and ``values`` is what
        stands for the consumers' values.
        """
        tiles = self.place.tiles
        counts = [values.get(count, count) for count in self.counts]
        ahead = [counts[user] for user in users if user < number]
        if tiles is None:
            return sum_of(ahead, emit, "first") if ahead else None
        if self.before is not None:
            tiles_before = [values.get(self.before[user], self.before[user]) for user in users]
            return sum_of([*tiles_before, *ahead], emit, "first")
        ordinal = values.get(tiles.ordinal, tiles.ordinal)
        whole = sum_of([counts[user] for user in users], emit, "together")
        first = emit.value(arith.MuliOp(ordinal, whole), "first")
        return sum_of([first, *ahead], emit, "first")

    def visit(self, emit: Emit, values: Values = NO_VALUES) -> SSAValue:
        """How often the CTA came to the pipelines before."""
        tiles = self.place.tiles
        if tiles is None:
            return emit.index(0)
        came = tiles.ordinal if self.visits is None else self.visits
        return values.get(came, came)

    @property
    def made(self) -> list[Operation]:
        """The ops in the frames that say how often the pipelines run, but for the frames."""
        outer = self.place.outermost
        owners = [value.owner for value in (*self.counts, *self.after, *self.place.conditions)]
        return [
            owner for owner in owners if isinstance(owner, Operation) and outer.is_ancestor(owner)
        ]


def each(
    place: Place, emit: Emit, count: Callable[[tile.PipelineOp], SSAValue]
) -> tuple[SSAValue, ...]:
    """How often each pipeline's body runs: one value for those that run as often."""
    found: dict[tuple[SSAValue, int], SSAValue] = {}
    for op in place.ops:
        key = op.bound, op.step.value.data
        if key not in found:
            found[key] = count(op)
    return tuple(found[op.bound, op.step.value.data] for op in place.ops)


def counted(op: tile.PipelineOp, emit: Emit, several: bool) -> SSAValue:
    """How often a pipeline's body runs; of one of several, which others count on from, 0 for a
    bound below it."""
    count = iterations(op, emit)
    return at_least_none(op, count, emit) if several else count


def at_least_none(op: tile.PipelineOp, count: SSAValue, emit: Emit) -> SSAValue:
    """A pipeline's iterations: a bound below 0 is none."""
    return emit.value(arith.MaxSIOp(count, emit.index(0))) if may_be_empty(op) else count


def sum_of(values: Sequence[SSAValue], emit: Emit, hint: str) -> SSAValue:
    """The sum of some indices; one is its own."""
    if len(values) == 1:
        return values[0]
    total = affine_dim(0)
    for i in range(1, len(values)):
        total += affine_dim(i)
    return emit.apply(total, values, hint=hint)


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
    inside = all(any(one.is_ancestor(user) for one in place.ops) for user in users)
    if not early or not inside or not all(map(may_be_empty, place.ops)):
        return place
    if len(place.ops) > 1:
        raise PolycError(
            "VaryingPipeline",
            "these pipelines may have no iteration in a tile, and tiles are brought for them alone "
            "in front; put both into a branch that asks whether there is one",
            op,
        )
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
