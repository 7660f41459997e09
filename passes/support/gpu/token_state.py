"""What asynchronous ops are under way at a point of a program, for ``gpu-resolve-tokens``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from xdsl.ir import SSAValue


@dataclass(frozen=True)
class Flight:
    """An asynchronous op under way: its token, if it has one, and what it works on.

    ``sure`` says that it was issued on every way to here.  Only such a one is counted: to wait
    for more than is needed is always right.
    """

    token: SSAValue | None
    acc: SSAValue | None = None
    lhs: SSAValue | None = None
    tile: SSAValue | None = None
    sure: bool = True


@dataclass
class State:
    """What is under way at a point of the program, the oldest first, and which tokens are spent.

    ``contracts``, ``copies`` and ``stores`` are counted apart, as the hardware counts them.
    """

    contracts: list[Flight] = field(default_factory=list[Flight])
    copies: list[Flight] = field(default_factory=list[Flight])
    stores: list[Flight] = field(default_factory=list[Flight])
    spent: set[SSAValue] = field(default_factory=set[SSAValue])
    done: set[SSAValue] = field(default_factory=set[SSAValue])
    """Tokens whose op is complete, since a younger one was awaited."""

    @property
    def queues(self) -> tuple[list[Flight], list[Flight], list[Flight]]:
        """What is counted apart."""
        return self.contracts, self.copies, self.stores

    @property
    def flights(self) -> list[Flight]:
        return [flight for queue in self.queues for flight in queue]

    def copy(self) -> State:
        queues = (list(self.contracts), list(self.copies), list(self.stores))
        return State(*queues, set(self.spent), set(self.done))

    def renamed(self, names: dict[SSAValue, SSAValue]) -> State:
        """The same with other names of tokens; the old names are spent."""
        new = self.copy()
        for flights in new.queues:
            for i, flight in enumerate(flights):
                if flight.token is not None and flight.token in names:
                    flights[i] = replace(flight, token=names[flight.token])
        new.spent |= names.keys()
        new.done = {names.get(t, t) for t in new.done}
        return new

    def become(self, other: State) -> None:
        """What is under way from here on."""
        self.contracts, self.copies, self.stores = other.queues
        self.spent, self.done = other.spent, other.done

    def same(self, other: State) -> bool:
        """Whether the same ops with tokens are under way, in the same order."""
        return [awaited(q) for q in self.queues] == [awaited(q) for q in other.queues]

    def met(self, other: State) -> State:
        """What is under way where two ways meet that leave the same tokens."""
        return State(
            both(self.contracts, other.contracts),
            both(self.copies, other.copies),
            both(self.stores, other.stores),
            self.spent | other.spent,
            self.done | other.done,
        )


def awaited(flights: Sequence[Flight]) -> list[SSAValue]:
    """The tokens of ops under way."""
    return [flight.token for flight in flights if flight.token is not None]


def both(one: Sequence[Flight], other: Sequence[Flight]) -> list[Flight]:
    """What may be under way after either of two ways, the oldest first."""
    same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))
    apart = [*one[same:], *other[same:]]
    tokens = set(awaited(one)) & set(awaited(other))
    found = [*one[:same], *(replace(f, sure=f.token in tokens) for f in apart)]
    return list(dict.fromkeys(found))


def youngest(flights: Sequence[Flight], count: int) -> list[Flight]:
    """What may be under way once at most ``count`` of the ops are."""
    if not count:
        return []
    sure = [i for i, flight in enumerate(flights) if flight.sure]
    return list(flights) if len(sure) < count else list(flights[sure[-count] :])
