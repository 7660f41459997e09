"""``gpu-skew``: a step's last product runs beside the next step's first one (T2).

Where each step of a loop multiplies, computes on the sums and multiplies again, as attention does,
the tensor cores would wait for the threads and the threads for them.  A loop whose last product is
one step late has two products under way at a time, and its threads compute while the tensor cores
work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, SharedType
from polyc.passes.support.gpu.index_forms import Forms, at_least
from polyc.passes.support.gpu.known_rows import can_be
from polyc.passes.support.gpu.pipeline_parts import with_needs
from polyc.passes.support.gpu.ring_flow import depths
from polyc.passes.support.gpu.symbols import constant_of
from polyc.passes.support.gpu.tile_effects import fragments_of, writes
from polyc.passes.support.gpu.uniform import is_scalar
from polyc.rewriting.driver import located, rewrite
from polyc.rewriting.emit import INDEX, Emit, affine_dim, clone_into

FLOW = (tile.RingWaitOp, tile.RingReleaseOp, tile.AwaitOp)
"""What stands beside a late contract: its slot's flow, and the wait for its end."""


class SkewSteps(RewritePattern):
    """Run the contracts at the end of a loop's body one step late.

    The body's end is the *late* part: from the first wait for a slot behind all other work, its
    contracts, their awaits and the releases of what they read.  The loop begins with the first step
    but for its late part; each step after it issues its first contracts, then the late ones of the
    step before, and awaits these where it touches what they read or write; the late part of the
    last step follows the loop.  Releases behind the loop of slots that the late contracts do not
    read come before that last part.

    Legality, exact: the order of any two ops that touch one fragment stays, as does that of the ops
    on a ring; only contracts of neighbouring steps change places with what does not touch their
    operands.  The loop carries no values, steps by 1 and, where nothing shows that it has a step,
    stands in a branch that asks.  Refused, and left as they are: loops whose late contracts wait
    for no other of their step, or share a fragment, a tile that threads write, or a ring with what
    is issued before them; steps with barriers, or with waits that count contracts.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: scf.ForOp, rewriter: PatternRewriter) -> None:
        if op.iter_args or constant_of(op.step) != 1:
            return
        parts = Parts.of(op)
        if parts is None:
            return
        emit = Emit()
        if runs(op):
            releases = movable_releases(op, parts)
            self.skewed(op, parts, releases, emit)
            for release in releases:
                if isinstance(release, tile.RingReleaseOp):
                    rewriter.erase(release)
        else:
            some = emit.compare("sgt", op.ub, op.lb)
            emit.when(some, lambda then: self.skewed(op, parts, [], then))
        for new in emit.ops:
            located(new, op)
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def skewed(op: scf.ForOp, parts: Parts, releases: Sequence[Operation], emit: Emit) -> None:
        """The first step, the loop and the last late part."""
        (variable,) = op.body.block.args
        body = list(op.body.block.ops)[:-1]
        clone_into(with_needs(body, parts.early), {variable: op.lb}, emit)
        block = Block(arg_types=[INDEX])
        block.args[0].name_hint = variable.name_hint
        inner = Emit()
        now: dict[SSAValue, SSAValue] = {variable: block.args[0]}
        late = with_needs(body, parts.late)
        scalars = [o for o in late if o not in parts.late]
        issued, settled = parts.halves
        clone_into(with_needs(body, parts.issue), now, inner)
        then: dict[SSAValue, SSAValue] = {
            variable: inner.apply(affine_dim(0) - 1, [block.args[0]], hint="before")
        }
        clone_into(scalars, then, inner)
        clone_into(issued, then, inner)
        left = [o for o in with_needs(body, parts.early) if not now.keys() & set(o.results)]
        left = [o for o in left if o not in parts.issue]
        at = next(i for i, o in enumerate(left) if o is parts.meeting)
        clone_into(left[:at], now, inner)
        clone_into(settled, then, inner)
        clone_into(left[at:], now, inner)
        block.add_ops([*inner.ops, scf.YieldOp()])
        start = emit.apply(affine_dim(0) + 1, [op.lb])
        loop = scf.ForOp(start, op.ub, op.step, [], block)
        loop.attributes.update(op.attributes)
        emit.op(loop)
        clone_into(releases, {}, emit)
        last: dict[SSAValue, SSAValue] = {
            variable: emit.apply(affine_dim(0) - 1, [op.ub], hint="last")
        }
        clone_into([*scalars, *parts.late], last, emit)


@dataclass(frozen=True)
class Parts:
    """A loop's body: what a step does at once, of which ``issue`` begins its contracts, and what
    it does one step late."""

    early: tuple[Operation, ...]
    issue: tuple[Operation, ...]
    late: tuple[Operation, ...]
    meeting: Operation
    """The first op of ``early`` that reads what the late contracts write, or writes what they
    read."""

    @property
    def halves(self) -> tuple[list[Operation], list[Operation]]:
        """The late part up to its last contract, and what waits for its end."""
        last = max(i for i, op in enumerate(self.late) if isinstance(op, tile.ContractOp))
        return list(self.late[: last + 1]), list(self.late[last + 1 :])

    @staticmethod
    def of(op: scf.ForOp) -> Parts | None:
        """None where a body has no such parts."""
        acting = [o for o in op.body.block.ops if not is_scalar(o)]
        if acting and isinstance(acting[-1], scf.YieldOp):
            acting.pop()
        first = len(acting)
        while first and isinstance(acting[first - 1], (*FLOW, tile.ContractOp)):
            first -= 1
        # The flow in front of the first late contract may be of an earlier one.
        early, late = acting[:first], acting[first:]
        contracts = [o for o in late if isinstance(o, tile.ContractOp)]
        chain = depths(acting)
        if not contracts or not all(chain[c] > 0 and c.token is not None for c in contracts):
            return None
        tokens = {c.token for c in contracts}
        awaited = {t for o in late if isinstance(o, tile.AwaitOp) for t in o.tokens}
        if awaited != tokens or not early:
            return None
        while isinstance(late[0], tile.AwaitOp | tile.RingReleaseOp):
            early.append(late.pop(0))
        if not all(map(is_plain, acting)):
            return None
        begun = [i for i, o in enumerate(early) if isinstance(o, tile.ContractOp)]
        rings = [{o.ring for o in side if isinstance(o, FLOW[:2])} for side in (early, late)]
        if not begun or rings[0] & rings[1]:
            return None
        end = begun[0] + 1
        while end < len(early) and isinstance(early[end], tile.ContractOp | tile.RingWaitOp):
            end += 1
        while not isinstance(early[end - 1], tile.ContractOp):
            end -= 1
        touched = {v for c in contracts for v in c.operands if isinstance(v.type, HELD)}
        changed = {value for c in contracts for value in writes(c)}

        def meets(o: Operation) -> bool:
            used = {value for inner in o.walk() for value in fragments_of(inner)}
            made = {value for inner in o.walk() for value in writes(inner)}
            return bool(used & changed or made & touched)

        meeting = next((o for o in early if meets(o)), None)
        if meeting is None or early.index(meeting) < end:
            return None
        return Parts(tuple(early), tuple(early[:end]), tuple(late), meeting)


HELD = (FragmentType, SharedType)
"""What contracts read and write."""

PLAIN = (
    tile.MapOp,
    tile.ReduceOp,
    tile.FillOp,
    tile.CopyOp,
    tile.ContractOp,
    tile.RingWaitOp,
    tile.RingReleaseOp,
    tile.TileIndexOp,
    tile.YieldOp,
    scf.YieldOp,
    scf.IfOp,
)
"""Ops of a step whose order with its contracts their operands tell."""


def is_plain(op: Operation) -> bool:
    """Whether an op, and those in its branches, are ordered by what they touch: no barrier is
    among them, and no wait that counts contracts."""
    return all(
        bool(inner.tokens)
        if isinstance(inner, tile.AwaitOp)
        else isinstance(inner, PLAIN) or is_scalar(inner)
        for inner in op.walk()
    )


def runs(op: scf.ForOp) -> bool:
    """Whether what is around a loop shows that it has a step."""
    forms = Forms()
    none = [
        (*low.rows, *high.rows, at_least(low.expr - high.expr))
        for low, high in product(forms.of(op.lb), forms.of(op.ub))
    ]
    return not can_be(op, forms, none)


def movable_releases(op: scf.ForOp, parts: Parts) -> list[Operation]:
    """The releases right behind a loop of slots that its late contracts do not read, with what is
    computed for them."""
    read = {v for o in parts.late for v in o.operands if isinstance(v.type, SharedType)}
    between: list[Operation] = []
    found: list[Operation] = []
    following = op.next_op
    while following is not None and (
        isinstance(following, tile.RingReleaseOp) or is_scalar(following)
    ):
        between.append(following)
        if isinstance(following, tile.RingReleaseOp):
            fills = [use.operation for use in following.ring.uses]
            carried = {copy.target for copy in fills if isinstance(copy, tile.CopyOp)}
            if not carried & read:
                found.append(following)
        following = following.next_op
    return with_needs(between, found)


@dataclass(frozen=True)
class GpuSkew(ModulePass):
    """Overlap the products of neighbouring steps."""

    name = "gpu-skew"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [SkewSteps()])
