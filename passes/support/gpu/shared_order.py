"""Which accesses of shared tiles nothing orders yet, at every point of a kernel.

A forward walk: a state holds the accesses made so far that nothing has settled, each with the slot
of its ring as an affine form.  Loops are walked to a fixpoint; what an earlier iteration did is the
same form at an earlier value of the loop's variable, so that isl decides whether two accesses can
meet in one slot, under the conditions of the branches around them.  The first iterations are walked
by themselves, until nothing from before the loop is left: a pipeline's prologue is other code than
its steady state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import SharedType
from polyc.passes.support.gpu.index_forms import (
    Form,
    Forms,
    Row,
    at_least,
    equal,
    never_zero,
    possible,
    value_of,
)
from polyc.passes.support.gpu.loop_steps import Counted, Steps, Turn
from polyc.passes.support.gpu.scope import Scope, enclosing_role, scope_of
from polyc.passes.support.gpu.shared_accesses import Access, accesses, unknown
from polyc.passes.support.gpu.shared_state import (
    EVERYONE,
    FLIGHT,
    NOTHING,
    WAIT,
    Known,
    Need,
    Needs,
    Past,
    State,
    add,
    after,
    aged,
    arrived,
    fenced,
    joined,
    kept,
    met,
    noticed,
    outside,
    waited,
)
from polyc.passes.support.gpu.tile_exchange import exchange_of
from polyc.passes.support.gpu.tile_scan import line_of
from polyc.passes.support.gpu.tile_stores import Writers
from polyc.passes.support.gpu.uniform import agrees, around, threads_agree

FURTHEST = 16
"""Iterations back beyond which an access's place is not kept."""

MOST_CONDITIONS = 8
"""Conditions of branches that an access is remembered with."""

FIRST_STEPS = 16
"""The most first iterations of a loop that are walked by themselves."""


@dataclass(frozen=True)
class AccessPoint:
    """Where an access is made now: the forms of its slot (and its row and column), and what
    holds."""

    access: Access
    forms: tuple[AffineExpr, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Missing:
    """Two accesses that nothing orders, and what would."""

    past: Past
    known: Known
    access: Access
    needs: Needs


class Made:
    """The accesses of a kernel's ops, and its tiles that are written and touched in some way.

    ``written`` has those that each role writes, of code of no role under None.
    """

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self.made: dict[Operation, tuple[Access, ...]] = {}
        self.written: dict[Hashable, set[SSAValue]] = {None: set()}
        self.by_async: set[SSAValue] = set()
        self.at_addresses: set[SSAValue] = set()
        self.crossing: dict[tile.ReduceOp, bool] = {}
        for op in kernel.walk():
            for access in self.of(op):
                if access.writes:
                    region, _ = enclosing_role(op)
                    self.written.setdefault(region, set()).add(access.tile)
                if access.is_async_proxy:
                    self.by_async.add(access.tile)
                if access.by_hand:
                    self.at_addresses.add(access.tile)

    def of(self, op: Operation) -> tuple[Access, ...]:
        """The accesses of an op."""
        if op not in self.made:
            self.made[op] = tuple(accesses(op))
        return self.made[op]

    def crosses_warps(self, op: tile.ReduceOp) -> bool:
        """Whether warps exchange what a reduction combines."""
        if op not in self.crossing:
            self.crossing[op] = exchange_of(op)[2].crosses_warps
        return self.crossing[op]


class Order(ABC):
    """Walks a kernel.  ``missing`` is told what an op lacks, and returns what stands before it now.

    ``planned`` is what stands before ops, beyond what the text says.
    """

    def __init__(self, made: Made, planned: Mapping[Operation, Needs]) -> None:
        self.kernel = made.kernel
        self.made = made
        self.planned = planned
        self.forms = Forms()
        self.rows: list[Row] = []
        self.now: list[Row] = []

    @abstractmethod
    def missing(self, op: Operation, found: Sequence[Missing]) -> Needs:
        """What now stands before ``op``, which lacks ``found``."""

    def run(self) -> None:
        """Walk the kernel once."""
        if any(self.made.written.values()):
            self.block(self.kernel.body.block, {})

    # Ops

    def block(self, block: Block, state: State) -> State:
        for op in block.ops:
            state = self.op(op, state)
        return state

    def op(self, op: Operation, state: State) -> State:
        if (planned := self.planned.get(op)) is not None:
            state = after(state, planned, who_meets(op))
        step = _STEPS.get(type(op))
        return self.accessed(op, state) if step is None else step(self, op, state)

    def roles(self, op: tile.RolesOp, state: State) -> State:
        """Roles run at the same time, each from what was before."""
        return joined([self.block(r.block, state) for r in (op.producer, op.consumer)])

    def accessed(self, op: Operation, state: State) -> State:
        """After an op's accesses, which are checked against those before."""
        made = self.made.of(op)
        if not made:
            return state
        now = [place for access in made for place in self.placed(access)]
        if isinstance(op, tile.CopyOp) and op.is_store:
            # The op itself fences and meets, and waits for nothing.
            state = self.check(op, now, state, waits=True)
            state = self.before_store(op, state)
        state = self.check(op, now, state)
        if isinstance(op, tile.ContractOp) and any(a.how == "wgmma" for a in made):
            state = aged(state, "wgmma")
        region, _ = enclosing_role(op)
        relevant = self.made.written[None] | self.made.written.get(region, set())
        found = dict(state)
        for place in now:
            access = place.access
            if region is not None and access.tile not in relevant:
                continue
            if access.how == "tma" and (region is not None or access.signal is None):
                continue  # Rings and gpu-inject-tma-barriers carry it.
            if access.how == "bulk" and access.tile not in self.made.at_addresses:
                continue  # gpu-store-waits orders what fills the tile.
            by_async = access.tile in self.made.by_async
            unseen = access.writes and not access.is_async_proxy and by_async
            past = Past.of(access, place.forms, place.rows)
            found[past] = Known(FLIGHT.get(access.how), unseen=unseen)
        return found

    def placed(self, access: Access) -> Iterator[AccessPoint]:
        """Where an access is made; several places where its slot may be one of several."""
        assert isinstance(access.tile.type, SharedType)
        slots: Sequence[Form] = (Form(AffineExpr.constant(0)),)
        if access.slot is not None and access.tile.type.ring.data > 1:
            slots = self.forms.of(access.slot)
        point: tuple[AffineExpr, ...] = ()
        if access.place is not None:
            sides = [self.forms.of(v) for v in access.place]
            if all(len(side) == 1 and self.follows_thread(side[0]) for side in sides):
                point = tuple(side[0].expr for side in sides)
        for slot in slots:
            yield AccessPoint(access, (slot.expr, *point), (*self.rows, *slot.rows))

    def follows_thread(self, form: Form) -> bool:
        """Whether a form differs between threads by nothing but the thread's own number."""
        values = (value_of(self.forms.leaves[d]) for d in form.expr.used_dims())
        return all(threads_agree(value) for value in values if value is not None)

    # Pairs of accesses

    def check(
        self, op: Operation, now: Sequence[AccessPoint], state: State, waits: bool = False
    ) -> State:
        """Tell what ``op`` lacks; with ``waits``, of waits alone."""
        found: list[Missing] = []
        for past, known in state.items():
            for place in now:
                needs = self.needs(past, known, place)
                if waits:
                    needs &= frozenset(WAIT.values())
                if needs:
                    found.append(Missing(past, known, place.access, needs))
        return after(state, self.missing(op, found), who_meets(op)) if found else state

    def needs(self, past: Past, known: Known, place: AccessPoint) -> Needs:
        """What must stand between an access that was made and one that is made now."""
        was, now = past.access, place.access
        if was.tile is not now.tile or not (was.writes or now.writes):
            return NOTHING
        if was.how == now.how and now.how in ("atomic", "tma"):
            return NOTHING
        in_flight = known.flight is not None
        if was.how == "bulk" and isinstance(now.op, tile.CopyOp):
            return NOTHING  # gpu-store-waits orders them, or their author by a token.
        if (was.by_hand or now.by_hand) and known.hand and not in_flight:
            return NOTHING
        if was.by_hand and now.by_hand:
            return self.by_hand(past, known, place)
        needs: set[Need] = set()
        if known.unseen and now.is_async_proxy:
            needs.add("fence")
        if in_flight:
            needs.add(WAIT[was.how])
        open_yet = in_flight or known.met < EVERYONE
        if not (needs or open_yet) or not self.one_slot(past, place):
            return NOTHING
        if open_yet and not self.same_threads(past, known, place):
            needs.add("cluster" if was.remote or now.remote else "meet")
        return frozenset(needs)

    def holding(self, past: Past, place: AccessPoint) -> list[Row]:
        """What holds of an access and one made now, where they meet in a slot."""
        slots = equal(past.forms[0], place.forms[0])
        return [*past.rows, *past.when, *place.rows, *self.now, slots]

    def one_slot(self, past: Past, place: AccessPoint) -> bool:
        """Whether two accesses may meet in a slot."""
        was, now = past.forms[0], place.forms[0]
        if was == now:
            return not (past.rows or past.when) or possible(self.holding(past, place))
        return not never_zero(was - now) and possible(self.holding(past, place))

    def by_hand(self, past: Past, known: Known, place: AccessPoint) -> Needs:
        """What code on addresses lacks: a barrier, where isl sees two threads at one element.

        Its author orders it.  What follows no affine place is taken as right, and so is what stands
        in code of some threads.
        """
        was, now = past.access, place.access
        if not len(past.forms) == len(place.forms) == 3 or was.scope != now.scope:
            return NOTHING
        if was.remote or now.remote or known.flight is not None or known.met >= EVERYONE:
            return NOTHING
        together = all(agrees(o) for op in (was.op, now.op) for o in around(op))
        return frozenset(("meet",)) if together and self.points_meet(past, place) else NOTHING

    def same_threads(self, past: Past, known: Known, place: AccessPoint) -> bool:
        """Whether each thread (or group of threads that have met) meets no other's access."""
        was, now = past.access, place.access
        if was.scope != now.scope or was.remote or now.remote:
            return False
        if now.scope.threads == 1:
            return True
        group = 1 if known.flight is not None else known.met
        if max(was.together, now.together) > group:
            return False
        if was is now and was.writes and was.holders is not unknown:
            return True  # Each element has one writer.
        one, other = was.holders(), now.holders()
        return one is not None and other is not None and not one.apart(other, group)

    def points_meet(self, past: Past, place: AccessPoint) -> bool:
        """Whether two threads touch one element, each at its own place."""
        here = self.forms.leaf(hw.ThreadIdOp.name)
        there = self.forms.leaf("another thread")
        assert isinstance(here, AffineDimExpr)
        names: list[AffineExpr] = [AffineDimExpr(d) for d in range(len(self.forms.leaves))]
        names[here.position] = there
        row, column = (e.replace_dims_and_symbols(names, []) for e in past.forms[1:])
        threads = self.kernel.threads.value.data
        rows = [
            *self.holding(past, place),
            equal(row, place.forms[1]),
            at_least(place.forms[2] - column, 1 - place.access.width),
            at_least(column - place.forms[2], 1 - past.access.width),
            *(at_least(t) for t in (here, there)),
            *(at_least(-t, 1 - threads) for t in (here, there)),
        ]
        apart = (at_least(here - there, 1), at_least(there - here, 1))
        return any(possible([*rows, one]) for one in apart)

    # Meetings that ops bring

    def named(self, op: hw.NamedBarrierOp, state: State) -> State:
        if op.paces is not None:
            return state
        return self.met_by(op, op.threads.value.data, state)

    @staticmethod
    def met_by(op: Operation, threads: int, state: State) -> State:
        """After a meeting of so many threads."""
        scope = scope_of(op)
        if not all(agrees(o) for o in around(op)):
            return noticed(state)
        return met(state, scope, group=EVERYONE if threads >= scope.threads else threads)

    def voted(self, op: tile.AnyOp, state: State) -> State:
        """The threads of a scope meet where they ask each other."""
        return met(state, who_meets(op))

    def sorted(self, op: Operation, state: State) -> State:
        """The threads that sort a row meet before, and before its next use."""
        return met(state, who_meets(op))

    def asked(self, op: hw.BarrierAnyOp, state: State) -> State:
        return self.met_by(op, op.threads.value.data, state)

    def before_store(self, op: tile.CopyOp, state: State) -> State:
        """A store's own beginning: threads that filled its tile meet."""
        if op.loader is None or op.loader.data != "tma":
            return met(state, who_meets(op))
        groups, state = Writers.planned(op).groups, fenced(state)
        if groups == 1:
            return met(state, who_meets(op))
        scope = scope_of(op)
        return met(state, scope, group=scope.threads // groups)

    def reduced(self, op: tile.ReduceOp, state: State) -> State:
        """A reduction's threads meet where it goes from warp to warp."""
        if op.cluster is not None and self.kernel.cluster_size > 1:
            return met(state, None, cluster=True)
        return met(state, who_meets(op)) if self.made.crosses_warps(op) else state

    def scanned(self, op: tile.ScanOp, state: State) -> State:
        """A scan's threads meet where a line lies in several warps, or several runs of it."""
        return met(state, who_meets(op)) if line_of(op).meets else state

    # Control

    @contextmanager
    def under(self, rows: Sequence[Row], now: Sequence[Row] = ()) -> Generator[None]:
        """Where ``rows`` hold; ``now`` only in this iteration."""
        before = self.rows, self.now
        self.rows, self.now = [*self.rows, *rows], [*self.now, *now]
        try:
            yield
        finally:
            self.rows, self.now = before

    def branch(self, op: scf.IfOp, state: State) -> State:
        ways = [self.forms.condition(op.cond, holds) for holds in (True, False)]
        ends: list[State] = []
        for region, rows in zip((op.true_region, op.false_region), ways, strict=True):
            with self.under(rows):
                ends.append(self.block(region.block, state) if region.blocks else state)
        # What differs between the two is remembered with the way, until the iteration ends.
        found: dict[Past, Known] = {}
        for end, other, rows in zip(ends, reversed(ends), ways, strict=True):
            for past, known in end.items():
                if rows and other.get(past) != known and len(past.when) < MOST_CONDITIONS:
                    when = tuple(dict.fromkeys((*past.when, *rows)))
                    if not possible([*past.rows, *when, *self.rows, *self.now]):
                        continue
                    past = replace(past, when=when)
                add(found, past, known)
        return found

    def loop(self, op: Counted, state: State) -> State:
        steps = Steps.of(op, self.forms)
        if steps.trips is not None:
            return self.unrolled(op, steps, state)
        body = op.body.block
        exits = [self.where(state, steps.never())] if steps.may_be_empty else []
        number = 0
        while number < FIRST_STEPS:
            with self.under(steps.inside(), steps.at(number, self.forms)):
                end = self.block(body, state)
                exits.append(self.where(end, steps.over()))
                following = self.turned(op, self.where(end, steps.goes_on()), steps)
            settled = outside(op, following) == outside(op, state)
            state, number = following, number + 1
            if settled:
                break
        while True:
            with self.under(steps.inside(), steps.beyond(number)):
                end = self.block(body, state)
                following = self.turned(op, self.where(end, steps.goes_on()), steps)
                last = self.where(end, steps.over())
            merged = joined([state, following])
            if merged == state:
                return self.turned(op, joined([*exits, last]))
            state = merged

    def unrolled(self, op: Counted, steps: Steps, state: State) -> State:
        """A loop of few iterations, one by one."""
        assert steps.lower is not None and steps.step is not None and steps.trips is not None
        for number in range(steps.trips):
            with self.under(steps.at(number, self.forms)):
                end = self.block(op.body.block, state)
            here = steps.lower + steps.step * number
            state = {
                past: replace(known, carried=op) if op.is_ancestor(past.access.op) else known
                for past, known in self.turned(op, end, here=here).items()
            }
        return state

    def repeated(self, op: scf.WhileOp, state: State) -> State:
        """A loop without a count; it ends after its first region."""
        while True:
            middle = self.block(op.before_region.block, state)
            end = self.block(op.after_region.block, middle)
            merged = joined([state, self.turned(op, end, Steps())])
            if merged == state:
                return self.turned(op, middle)
            state = merged

    def where(self, state: State, rows: Sequence[Row]) -> State:
        """What may have been where ``rows`` hold too."""
        if not rows:
            return state
        context = [*self.rows, *self.now, *rows]
        return {
            past: known
            for past, known in state.items()
            if not (past.rows or past.when) or possible([*past.rows, *past.when, *context])
        }

    def turned(
        self,
        op: Counted | scf.WhileOp,
        state: State,
        steps: Steps | None = None,
        here: AffineExpr | None = None,
    ) -> State:
        """A state at the end of an iteration as the next one sees it, or what follows the loop."""
        turn = Turn.of(op, self.forms, steps, here)
        found: dict[Past, Known] = {}
        for past, known in state.items():
            if steps is not None and op.is_ancestor(past.access.op):
                known = replace(known, carried=op)
            if not past.leaves & turn.changed:
                add(found, past, known)
                continue
            far = past.distance >= furthest(past.access)
            forms = tuple(turn.expr(e, far) for e in past.forms)
            rows = [turn.row(row, far) for row in past.rows]
            if not far:
                rows += turn.equations(past.leaves)
            when = tuple(row for row in past.when if turn.changed.isdisjoint(row.leaves))
            distance = past.distance + (forms != past.forms)
            add(found, Past(past.access, forms, kept(forms, rows), when, distance), known)
        return found


def furthest(access: Access) -> int:
    """Iterations back beyond which the slot of an access is not kept: rings repeat themselves."""
    assert isinstance(access.tile.type, SharedType)
    return min(access.tile.type.ring.data + 2, FURTHEST)


def who_meets(op: Operation) -> Scope | None:
    """The scope of an op, None for all threads of the CTA."""
    scope = scope_of(op)
    return None if scope.barrier == 0 else scope


def _tokens(order: Order, op: tile.AwaitOp, state: State) -> State:
    return state if op.tokens else waited(state, "wgmma", op.depth)


_STEPS: dict[type[Operation], Callable[[Order, Any, State], State]] = {
    tile.RolesOp: Order.roles,
    scf.ForOp: Order.loop,
    tile.TileLoopOp: Order.loop,
    tile.PipelineOp: Order.loop,
    scf.WhileOp: Order.repeated,
    scf.IfOp: Order.branch,
    hw.BarrierOp: lambda order, op, state: met(state, None),
    hw.ClusterBarrierOp: lambda order, op, state: met(state, None, cluster=True),
    hw.NamedBarrierOp: Order.named,
    hw.BarrierAnyOp: Order.asked,
    tile.AnyOp: Order.voted,
    tile.SortOp: Order.sorted,
    tile.KeepNoneOp: Order.sorted,
    tile.KeepLeastOp: Order.sorted,
    tile.KeptOp: Order.sorted,
    tile.CountDigitOp: Order.sorted,
    tile.SumCountsOp: Order.sorted,
    tile.MoveByDigitOp: Order.sorted,
    tile.SortByDigitOp: Order.sorted,
    hw.CpAsyncCommitOp: lambda order, op, state: aged(state, "cp_async"),
    hw.CpAsyncWaitOp: lambda order, op, state: waited(state, "cp_async", op.pending.value.data),
    tile.AwaitOp: _tokens,
    hw.WgmmaWaitOp: lambda order, op, state: waited(state, "wgmma"),
    hw.BulkWaitOp: lambda order, op, state: waited(state, "bulk", op.pending.value.data),
    hw.FenceProxyAsyncOp: lambda order, op, state: fenced(state),
    hw.MBarrierWaitOp: lambda order, op, state: arrived(state, op.barrier),
    tile.RingWaitOp: lambda order, op, state: arrived(state, op.ring),
    tile.ReduceOp: Order.reduced,
    tile.ScanOp: Order.scanned,
}
"""What an op does to a state; every other one makes its accesses."""
