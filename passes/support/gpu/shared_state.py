"""What has been done to shared tiles at a point of a kernel, and what settles it.

A state holds the accesses that were made and that a barrier, a wait or a fence has not settled for
everyone.  ``shared_order.py`` walks a kernel with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.passes.support.gpu.index_forms import Row
from polyc.passes.support.gpu.scope import Scope
from polyc.passes.support.gpu.shared_accesses import Access

Need = Literal["copies", "contracts", "stores", "load", "fence", "meet", "cluster"]
"""What must stand between two accesses: a wait for cp.async, for wgmma, for stores by TMA, for a
load by TMA; a fence of the async proxy; a meeting of the scope's threads, or of the cluster's."""

Needs = frozenset[Need]

NOTHING: Needs = frozenset()

WAIT: Mapping[str, Need] = {
    "cp_async": "copies",
    "wgmma": "contracts",
    "bulk": "stores",
    "tma": "load",
}
"""What waits for an asynchronous access."""

EVERYONE = 1 << 30
"""More threads than there are: an access that all know of."""

UNGROUPED = -1
"""A cp.async of no group yet."""

OLDEST = 64
"""Groups beyond which it does not matter how many are younger."""

FLIGHT = {"cp_async": UNGROUPED, "wgmma": 0, "bulk": 0, "tma": 0}
"""What is under way once it is issued; contracts and stores are a group each."""


@dataclass(frozen=True)
class Past:
    """An access that was made: where, by forms of its slot (and its row and column), what holds of
    these, and how many iterations ago.  ``when`` is what else holds, in this iteration alone."""

    access: Access
    forms: tuple[AffineExpr, ...]
    rows: tuple[Row, ...]
    when: tuple[Row, ...] = ()
    distance: int = 0

    def __hash__(self) -> int:
        return self.number

    @cached_property
    def number(self) -> int:
        """The hash, computed once: forms are trees."""
        return hash((self.access, self.forms, self.rows, self.when))

    @cached_property
    def leaves(self) -> frozenset[int]:
        """The leaves that it speaks of."""
        found = {d for form in self.forms for d in form.used_dims()}
        return frozenset(found.union(*(row.leaves for row in (*self.rows, *self.when))))

    @staticmethod
    def of(access: Access, forms: tuple[AffineExpr, ...], rows: Sequence[Row]) -> Past:
        """An access that is made now."""
        close = kept(forms, rows)
        return Past(access, forms, close, tuple(row for row in rows if row not in close))


@dataclass(frozen=True)
class Known:
    """What has happened since an access.

    ``flight``: the fewest younger groups while it is under way, None once its threads know that it
    is done.  ``met``: groups of so many threads have met since, ``EVERYONE`` for all.  ``hand``:
    some barrier stood since, of whatever threads.  ``unseen``: written, and not yet visible to the
    async proxy.  ``carried``: the loop that an earlier iteration of it was made in.
    """

    flight: int | None = None
    met: int = 1
    hand: bool = False
    unseen: bool = False
    carried: Operation | None = None

    @property
    def settled(self) -> bool:
        """Whether nothing can go wrong with the access any more."""
        return self.flight is None and self.met >= EVERYONE and not self.unseen

    def or_else(self, other: Known) -> Known:
        """What is known where two ways meet."""
        flights = [f for f in (self.flight, other.flight) if f is not None]
        return Known(
            min(flights) if flights else None,
            min(self.met, other.met),
            self.hand and other.hand,
            self.unseen or other.unseen,
            self.carried or other.carried,
        )


State = Mapping[Past, Known]


def add(state: dict[Past, Known], past: Past, known: Known) -> None:
    """Put what is known of an access into a state that may have it already."""
    state[past] = known.or_else(state[past]) if past in state else known


def joined(states: Iterable[State]) -> State:
    """What may have happened on one of several ways."""
    found: dict[Past, Known] = {}
    for state in states:
        for past, known in state.items():
            add(found, past, known)
    return found


def outside(op: Operation, state: State) -> State:
    """What was there before a loop."""
    return {p: k for p, k in state.items() if not op.is_ancestor(p.access.op)}


def kept(forms: Sequence[AffineExpr], rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows that tell something of a place: what they speak of hangs together with it."""
    close = {d for form in forms for d in form.used_dims()}
    left, found = list(dict.fromkeys(rows)), list[Row]()
    while near := [row for row in left if not close.isdisjoint(row.leaves)]:
        found += near
        left = [row for row in left if close.isdisjoint(row.leaves)]
        close.update(*(row.leaves for row in near))
    return tuple(found)


# What settles -----------------------------------------------------------------------------


def met(state: State, scope: Scope | None, cluster: bool = False, group: int = EVERYONE) -> State:
    """After a meeting: of all threads, or of a scope's, or of groups of ``group`` of a scope's.

    What is under way is not settled by it.  Accesses of another CTA's memory take a meeting of the
    ``cluster``.
    """
    found: dict[Past, Known] = {}
    for past, known in state.items():
        was = past.access
        if known.flight is None:
            known = replace(known, hand=True)
            if (scope is None or was.scope == scope) and (cluster or not was.remote):
                known = replace(known, met=max(known.met, group))
        if not known.settled:
            found[past] = known
    return found


def noticed(state: State) -> State:
    """After a barrier of nobody knows which threads."""
    return {p: k if k.flight is not None else replace(k, hand=True) for p, k in state.items()}


def aged(state: State, how: str) -> State:
    """After a group of asynchronous accesses was closed."""
    return {
        past: known
        if past.access.how != how or known.flight is None
        else replace(known, flight=min(known.flight + 1, OLDEST))
        for past, known in state.items()
    }


def waited(state: State, how: str, pending: int = 0) -> State:
    """After a wait for all but the ``pending`` youngest groups."""
    return {
        past: replace(known, flight=None)
        if past.access.how == how and known.flight is not None and known.flight >= pending
        else known
        for past, known in state.items()
    }


def fenced(state: State) -> State:
    """After each thread made what it wrote visible to the async proxy."""
    found: dict[Past, Known] = {}
    for past, known in state.items():
        if known.flight is None:
            known = replace(known, unseen=False)
        if not known.settled:
            found[past] = known
    return found


def arrived(state: State, barrier: SSAValue) -> State:
    """After a wait at an mbarrier: the loads that signal it are there, for all who wait."""
    return {
        past: replace(known, hand=True) if past.access.by_hand else known
        for past, known in state.items()
        if past.access.how != "tma" or past.access.signal is not barrier
    }


def after(state: State, needs: Needs, scope: Scope | None) -> State:
    """After what ``needs`` are, in the order in which it is written out; ``scope`` is who meets,
    None for all threads of the CTA."""
    for how, need in WAIT.items():
        if need in needs and how != "tma":
            state = waited(aged(state, how) if how == "cp_async" else state, how)
    if "fence" in needs:
        state = fenced(state)
    if "cluster" in needs:
        return met(state, None, cluster=True)
    return met(state, scope) if "meet" in needs or "stores" in needs else state
