"""``index-to-region``: where a kernel is cut so that it computes less again and again (S11.1).

A kernel whose rows no family of rows takes runs as loops, in which a reduction inside of another
one, or of a row that several blocks hold a part of, is computed again in each of them.  So some of
its values are tried in memory, and the model of time says which way the graph takes least:

- what is made of a reduction and is then moved, as a softmax before its heads are split, of
  kernels of rows too, whose rows would be stored turned;
- the reductions that others need along other axes, as the pixels' mean that a norm is of;
- all reductions;
- what a reduction is of that needs others, but the terms of a product, as the mean of what a norm
  gives;
- all reductions but products, before anything is computed of them: what brings some together would
  hold them all, and their axes may lie in memory each in another way;

each alone, and the first together with either.  Of every kernel but those of products, what is
moved is tried where it is computed at several places, as what a rotation of features is of, or
made of a reduction in memory, which might be its kernel's then; and so is what two of them compute.
What a reduction reads moved is tried as it reads it, as heads that are merged before a norm.

Of a kernel of products, the factors are tried that it computes on their way to tensor cores: each
tile of the other factor's axis computes them again.  One that runs as loops is tried as others are
too: its products may be of factors that are reduced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import cast

from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.factors import factors
from polyc.lowering.index_to_region.kernels import Kernel, KernelKey, Kernels
from polyc.lowering.index_to_region.nearby import Standing

GAIN = 0.9
"""What a cut graph takes of the time of the graph as it is, at most, to be cut."""

SHORT = 16
"""Elements of a row from which on a number that it has is small beside it."""

ALONE = 4
"""Values of a kernel that are tried in memory one by one."""

SEVERAL = 3
"""Ops of a value that two kernels compute, from which on it is tried in memory."""

PATIENCE, LEAST = 2, 16_000
"""Forms of kernels that are modelled for each form of the graph's own, beside so many: all but
unrolled recurrences try all that there is to try, with half as many."""

GIVEN_UP = 8
"""Values behind others that are stored no longer for these, at most: behind a step of a recurrence
are all that its steps store."""

AGAIN = "computed once: fused, it would be computed again where it is used"

DEPTH = (
    "it is reduced, and would be again in each step of another reduction, with a reduction in each "
    "of its own steps"
)
"""Why a reduction is stored for what is inside of it."""

KEPT = "a product on tensor cores ends with it"


@dataclass
class Reductions:
    """Decides for a graph which values are stored beside what is stored anyway.

    ``recompose`` makes the kernels where some more values are stored, those of another choice
    beside, of which most stay.  ``seconds`` says how long each of some kernels takes, ``again``
    whether one runs as loops.  Where nothing helped a kernel, one that is alike and stands between
    such ones is not tried: the layers of a network are.
    """

    recompose: Callable[[Mapping[SSAValue, str], Kernels], Kernels]
    again: Callable[[Kernels], Callable[[Kernel], bool]]
    seconds: Callable[[Kernels], Callable[[Kernel], float]]
    standing: Standing
    taken: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """The values that are stored, with the reason."""
    known: dict[KernelKey, float] = field(default_factory=dict[KernelKey, float])
    tried: set[KernelKey] = field(default_factory=set[KernelKey])
    fruitless: set[Hashable] = field(default_factory=set[Hashable])
    """Where nothing helped."""
    spent: int = 0
    """Forms of the kernels that were modelled."""
    _counted: tuple[Kernels, set[SSAValue]] | None = None
    _passed: tuple[Kernels, int] | None = None

    def run(self, kernels: Kernels) -> Kernels:
        """The kernels of the graph, cut where that takes less time.

        Of a recurrence whose steps follow one another in the graph each kernel holds those before
        it, and what is stored of one changes all after it: not all of that is tried.
        """
        most = LEAST + PATIENCE * sum(len(kernel.held()) for kernel in kernels.kernels)
        beside = list[SSAValue]()
        while self.spent < most and (kernel := self._next(kernels)) is not None:
            self.tried.add(kernel.key)
            if (place := self.standing.of(kernel, kernels)) in self.fruitless:
                continue
            whole = {k.key for k in kernels.kernels}
            best: tuple[float, dict[SSAValue, str], Kernels] | None = None
            gain, ways = GAIN, candidates(kernel, self._in_others(kernel, self._shared(kernels)))
            # What was stored for what is inside of it stays, though that is in memory then.
            ends: Collection[SSAValue] = _stored_for_depth(kernel, kernels)
            if computing := computed_factors(kernel):
                loops = self.again(kernels)(kernel)
                gain, ends = 1.0, product_ends(kernels, kernel)
                ways = iter([computing, *(ways if loops else ())])
            for stored in (one for of in ways for one in self._with(of, kernels, ends)):
                if self.spent >= most:
                    break
                found = self.recompose(stored, kernels)
                parts = {k.key for k in found.kernels}
                before = self._total(kernels, whole - parts)
                limit = gain * before if best is None else min(gain * before, before + best[0])
                after = self._total(found, parts - whole, limit)
                if after < limit:
                    best = after - before, stored, found
            if best is not None:
                beside += [end for end in ends if end in best[1] and end not in self.taken]
                _, self.taken, kernels = best
            else:
                self.fruitless.add(place)
        return self._without(beside, kernels)

    def _without(self, beside: Sequence[SSAValue], kernels: Kernels) -> Kernels:
        """The kernels without what was stored ``beside`` something else, of that which takes longer
        so, now that the rest is known: as a product that another one ends in its own kernel."""
        for value in beside:
            if value not in self.taken:
                continue
            stored = {other: why for other, why in self.taken.items() if other is not value}
            found = self.recompose(stored, kernels)
            whole, parts = ({k.key for k in some.kernels} for some in (kernels, found))
            before = self._total(kernels, whole - parts)
            if self._total(found, parts - whole, before) < before:
                self.taken, kernels = stored, found
        return kernels

    def _with(
        self, values: Sequence[SSAValue], kernels: Kernels, ends: Collection[SSAValue] = ()
    ) -> Iterator[dict[SSAValue, str]]:
        """What is stored if ``values`` are too: beside all so far, or without what is behind them.

        That may be computed on the way to them then, as a norm's numbers are; what is behind values
        that are stored anyway is none of it.  ``ends`` of products that are read stay in memory,
        though nothing else may read them then.
        """
        stored = {**self.taken, **dict.fromkeys(values, AGAIN)}
        yield stored
        if any(end not in stored for end in ends):
            yield {**{end: self._kept(end, kernels) for end in ends}, **stored}
        behind: set[SSAValue] = set()
        work = list(values)
        while work:
            op = work.pop().owner
            read = op.operands if isinstance(op, Operation) else ()
            work += [
                v
                for v in dict.fromkeys(read)
                if v not in behind and (v in stored or v not in kernels.stored)
            ]
            behind.update(read)
        rest = {v: why for v, why in stored.items() if v not in behind or v in values}
        if 0 < len(stored) - len(rest) <= GIVEN_UP:
            yield rest

    def _kept(self, end: SSAValue, kernels: Kernels) -> str:
        """Why what is in memory stays there."""
        reason = kernels.stored[end].reason if end in kernels.stored else None
        return AGAIN if reason == DEPTH else KEPT

    def _next(self, kernels: Kernels) -> Kernel | None:
        """A kernel that may compute something again, and was not tried."""
        again, shared = self.again(kernels), self._shared(kernels)
        known = self._passed
        first = known[1] if known is not None and known[0] is kernels else 0
        for place in range(first, len(kernels.kernels)):
            kernel = kernels.kernels[place]
            self._passed = kernels, place
            if (key := kernel.key) in self.tried:
                continue
            if computed_factors(kernel):
                return kernel
            if moved_again(kernel) or self._in_others(kernel, shared):
                return kernel
            if _reduces(kernel) and (again(kernel) or _moves_reduced(kernel)):
                return kernel
            self.tried.add(key)
        return None

    def _shared(self, kernels: Kernels) -> set[SSAValue]:
        """The values that several kernels compute."""
        if self._counted is None or self._counted[0] is not kernels:
            counts = Counter(value for kernel in kernels.kernels for value in kernel.computed)
            shared = {v for v, count in counts.items() if count > 1 and cost.is_computed(v)}
            self._counted = kernels, shared
        return self._counted[1]

    def _in_others(self, kernel: Kernel, shared: Collection[SSAValue]) -> list[SSAValue]:
        """The last values of a kernel that another one computes too, each of several ops."""
        inside = kernel.computed
        users = _users(inside, kernel)
        both = {v for v in inside if v in shared}
        last = [v for v in inside if v in both and not any(o.results[0] in both for o in users[v])]
        return [v for v in last if _ops_behind(v, kernel, inside) >= SEVERAL]

    def _total(self, kernels: Kernels, wanted: set[KernelKey], most: float = inf) -> float:
        """The time of some kernels; infinite as soon as it is no less than ``most``."""
        seconds, total = self.seconds(kernels), 0.0
        several = [kernel for kernel in kernels.kernels if kernel.key in wanted]
        # What was asked before costs nothing.
        for kernel in sorted(several, key=lambda one: one.key not in self.known):
            key = kernel.key
            if key not in self.known:
                self.known[key] = seconds(kernel)
                self.spent += len(kernel.held())
            total += self.known[key]
            if total >= most:
                return inf
        return total


def product_ends(kernels: Kernels, kernel: Kernel) -> list[SSAValue]:
    """The values that products end with, and that a kernel reads from memory."""
    read = dict.fromkeys(map(kernels.base, kernel.reads))
    makers = {kernels.stored[value].kernel for value in read if value in kernels.stored}
    return [
        root.value
        for maker in kernels.kernels
        if maker in makers and any(map(cost.is_contraction, maker.computed))
        for root in maker.roots
        if root.output is None and root.value in read
    ]


def _stored_for_depth(kernel: Kernel, kernels: Kernels) -> list[SSAValue]:
    """The values that a kernel stores for the reductions inside of them."""
    roots = [root.value for root in kernel.roots if root.output is None]
    return [v for v in roots if v in kernels.stored and kernels.stored[v].reason == DEPTH]


def computed_factors(kernel: Kernel) -> list[SSAValue]:
    """The factors of a kernel's products that it computes, before they are moved.

    None where one is made of a reduction, but for attention: its weights, which are made of a
    product, stay where they are, and its queries may be made of their own norms.
    """
    inside = kernel.computed
    behind = _reductions_behind(inside, kernel)
    found: dict[SSAValue, None] = {}
    made: dict[SSAValue, frozenset[SSAValue]] = {}
    for factor in (f for v in inside if cost.is_contraction(v) for f in factors(v)):
        value = kernel.forms.same.get(factor, factor)
        while value in inside and not cost.is_computed(value):
            if not (operands := _operands(cast(Operation, value.owner), kernel)):
                break  # a constant that is moved
            value = operands[0]
        if behind.get(value):
            made[value] = behind[value]
        if value in inside and cost.is_computed(value):
            found[value] = None
    weights = {v for v, reduced in made.items() if any(map(cost.is_contraction, reduced))}
    if made and not weights:
        return []
    return [value for value in found if value not in weights]


def _reduces(kernel: Kernel) -> bool:
    return any(isinstance(value.owner, tiny.ReduceOp) for value in kernel.computed)


def _moves_reduced(kernel: Kernel) -> bool:
    """Whether a kernel without products turns what is made of a reduction, not what it writes.

    A kernel of rows would write its rows apart then.
    """
    inside = kernel.computed
    if any(cost.is_contraction(value) for value in inside):
        return False
    return bool(_made_and_moved(inside, kernel))


def _made_and_moved(inside: Mapping[SSAValue, None], kernel: Kernel) -> list[SSAValue]:
    """What a kernel computes of a reduction and then moves: rounded, where it is."""
    users, behind = _users(inside, kernel), _reductions_behind(inside, kernel)
    roots = {root.value for root in kernel.roots}
    found = {
        value
        for value in inside
        if cost.is_computed(value)
        and behind[value]
        and _is_moved(value, users)
        and value not in roots
    }
    return [v for v in inside if v in found and not any(o.results[0] in found for o in users[v])]


def moved_again(kernel: Kernel) -> list[SSAValue]:
    """What a kernel computes and moves, at several places or of a number that rows have in memory.

    Not what it writes.
    """
    places = Counter(key[0] for key, form in kernel.held().items() if form is not None)
    inside = dict.fromkeys(places)
    users = _users(inside, kernel)
    roots = {root.value for root in kernel.roots}
    sizes = [cost.points(tiny.tensor_of(v).dims) for v in kernel.reads if cost.is_computed(v)]
    found: list[SSAValue] = []
    for value in inside:
        if value in roots or not cost.is_computed(value) or not _is_moved(value, users):
            continue
        narrow = cost.points(tiny.tensor_of(value).dims) / SHORT
        if places[value] > 1 or any(size <= narrow for size in sizes):
            found.append(value)
    return found


def _ops_behind(value: SSAValue, kernel: Kernel, inside: Mapping[SSAValue, None]) -> int:
    """How many ops of a kernel compute something that a value is made of, with its own."""
    found: set[SSAValue] = set()
    work = [value]
    while work:
        here = work.pop()
        if here in inside and here not in found:
            found.add(here)
            work += _operands(cast(Operation, here.owner), kernel)
    return sum(_weight(value) for value in found if cost.is_computed(value))


def _weight(value: SSAValue) -> int:
    """What computing a value takes, of an op: a function is several."""
    op = value.owner
    return SEVERAL if isinstance(op, tiny.UnaryOp) and op.function not in ("neg", "abs") else 1


def candidates(kernel: Kernel, again: Sequence[SSAValue] = ()) -> Iterator[list[SSAValue]]:
    """Values of a kernel that might be stored, a list a way; none of them is an output of it.

    ``again`` are some that another kernel computes too.
    """
    roots = {root.value for root in kernel.roots}
    for one in (moved_again(kernel), [value for value in again if value not in roots]):
        if one:
            yield one
        yield from ([value] for value in one[:ALONE] if len(one) > 1)
    inside = kernel.computed
    found = [value for value in inside if isinstance(value.owner, tiny.ReduceOp)]
    users = _users(inside, kernel)
    behind = _reductions_behind(inside, kernel)

    def made(values: list[SSAValue]) -> list[SSAValue]:
        ends = dict.fromkeys(_end(value, users, roots) for value in values)
        return [value for value in ends if value not in roots]

    moved = _made_and_moved(inside, kernel)
    inner = made([v for v in found if any(_is_under(v, other, behind) for other in found)])
    every = made(found)
    read = [value for value in inside if _ends_moves(value, users)] if found else []
    # The terms of a product's sums are many times what it is of.
    plain = [value for value in found if not cost.is_contraction(value)]
    outer = [v for v in plain if any(_is_under(other, v, behind) for other in found)]
    reduced = dict.fromkeys(_reduced_of(v, inside, kernel) for v in outer)
    ways = [
        moved,
        inner,
        [*moved, *inner],
        every,
        [*moved, *every],
        read,
        [v for v in reduced if v not in roots],
        [v for v in plain if v not in roots],
    ]
    seen: set[frozenset[SSAValue]] = {frozenset()}
    for way in ways:
        if (values := frozenset(way)) not in seen:
            seen.add(values)
            yield way


def _reduced_of(value: SSAValue, inside: Collection[SSAValue], kernel: Kernel) -> SSAValue:
    """What a reduction is of, before it is only moved or widened."""
    (here,) = _operands(cast(Operation, value.owner), kernel)
    while here in inside and not cost.is_computed(here):
        (here, *_) = _operands(cast(Operation, here.owner), kernel)
    return here


def _reductions_behind(
    inside: Mapping[SSAValue, None], kernel: Kernel
) -> dict[SSAValue, frozenset[SSAValue]]:
    """The reductions inside of a kernel that each of its values is made of."""
    found: dict[SSAValue, frozenset[SSAValue]] = {}
    for value in inside:
        op = cast(Operation, value.owner)
        own = {value} if isinstance(op, tiny.ReduceOp) else set[SSAValue]()
        for operand in _operands(op, kernel):
            own |= found.get(operand, frozenset())
        found[value] = frozenset(own)
    return found


def _operands(op: Operation, kernel: Kernel) -> list[SSAValue]:
    return [kernel.forms.same.get(o, o) for o in op.operands]


Users = Mapping[SSAValue, list[Operation]]
"""The ops of a kernel that read each of its values, in the order of the kernel."""


def _users(inside: Mapping[SSAValue, None], kernel: Kernel) -> Users:
    found: dict[SSAValue, list[Operation]] = {value: [] for value in inside}
    for value in inside:
        op = cast(Operation, value.owner)
        for operand in dict.fromkeys(_operands(op, kernel)):
            if operand in found:
                found[operand].append(op)
    return found


def _is_moved(value: SSAValue, users: Users) -> bool:
    """Whether a value is read in another shape, and not only repeated."""
    work = [value]
    while work:
        for op in users[work.pop()]:
            if isinstance(op, tiny.ExpandOp | tiny.CastOp):
                work += op.results
            elif isinstance(op, MovementOp):
                return True
    return False


def _ends_moves(value: SSAValue, users: Users) -> bool:
    """Whether a value is what the last of some movements gives, which something computes with."""
    if not isinstance(value.owner, MovementOp) or isinstance(value.owner, tiny.ExpandOp):
        return False
    return any(not isinstance(op, MovementOp) for op in users[value])


def _is_under(
    value: SSAValue, other: SSAValue, behind: Mapping[SSAValue, frozenset[SSAValue]]
) -> bool:
    """Whether a reduction needs another one, which is of other rows."""
    if value is other or value not in behind[other]:
        return False
    ops = [cast(tiny.ReduceOp, v.owner) for v in (value, other)]
    shapes = [(tiny.tensor_of(op.operand).dims, op.axes) for op in ops]
    return shapes[0] != shapes[1]


def _end(value: SSAValue, users: Users, roots: Collection[SSAValue]) -> SSAValue:
    """The last of the elementwise ops of a reduction's shape that follow it alone, before one of
    ``roots`` where it is no product, which stays with what ends it."""
    product = cost.is_contraction(value)
    while True:
        readers = users[value]
        if len(readers) != 1 or isinstance(readers[0], tiny.ReduceOp | MovementOp):
            return value
        result = readers[0].results[0]
        if not cost.is_computed(result) or (result in roots and not product):
            return value
        value = result
