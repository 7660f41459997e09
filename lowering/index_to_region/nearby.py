"""``index-to-region``: the part of a graph that a change of what is stored has to do with.

What is stored beside what is stored already is tried value by value, and a network has hundreds of
kernels.  So only those are composed anew that compute or read a value about which something else is
settled, and those that make what these read; the others stay as they are.  That is the same
partition, unless a kernel further behind would be another one too: once all is decided the graph is
composed whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import BlockArgument, Operation, SSAValue

from polyc.lowering.index_to_region.kernels import Kernel, Kernels, Part, Settled, Stored

FEW = 32
"""Kernels of a graph that is always composed whole."""

MOST = 1 / 2
"""Of the kernels of a graph, that a part has at most."""


def changed(before: Settled, after: Settled) -> set[SSAValue]:
    """The values of which two say something else."""
    found = set(before.cuts) ^ set(after.cuts)
    found |= set(before.kept) ^ set(after.kept)
    found |= set(before.beside) ^ set(after.beside)
    found |= set(before.views) ^ set(after.views)
    orders = set(before.orders) | set(after.orders)
    return found | {v for v in orders if before.orders.get(v) != after.orders.get(v)}


def part_of(
    base: Kernels,
    settled: Settled,
    places: Mapping[Operation, int],
    more: Collection[SSAValue] = (),
) -> Part | None:
    """The kernels of ``base`` to compose anew where something else is settled; None for all.

    ``places`` are those of the ops in the program, and ``more`` values of which something else is
    known to come than in ``base``.
    """
    if len(base.kernels) <= FEW or base.settled.scores or settled.scores:
        return None
    other = changed(base.settled, settled).union(more)

    def touched(kernel: Kernel) -> bool:
        read = any(v in other or base.base(v) in other for v in kernel.reads)
        return read or not other.isdisjoint(kernel.computed)

    anew = [kernel for kernel in base.kernels if touched(kernel)]
    anew += [
        base.stored[value].kernel
        for kernel in anew
        for value in map(base.base, kernel.reads)
        if value in base.stored
    ]
    gone = dict.fromkeys(anew)
    stay = [kernel for kernel in base.kernels if kernel not in gone]
    if not gone or len(gone) > MOST * len(base.kernels):
        return None
    return _part(base, gone, stay, places)


def _part(
    base: Kernels,
    gone: Mapping[Kernel, None],
    stay: list[Kernel],
    places: Mapping[Operation, int],
) -> Part:
    """The part of a graph that some kernels are."""
    own: dict[SSAValue, None] = {}
    leaves: dict[SSAValue, None] = {}

    def made(value: SSAValue) -> bool:
        stored = base.stored.get(base.base(value))
        return stored is not None and stored.kernel in gone

    def read(value: SSAValue) -> None:
        """A value that the part reads, and what it is a view of."""
        found = own if made(value) else leaves
        while not isinstance(value, BlockArgument):
            found[value] = None
            if value not in base.views:
                return
            value = base.views[value]

    outputs: list[int] = []
    for kernel in gone:
        own.update(dict.fromkeys(kernel.computed))
        for value in kernel.reads:
            read(value)
        outputs += [root.output for root in kernel.roots if root.output is not None]
    for number, value in base.placed.items():
        if made(value):
            outputs.append(number)
            read(value)
    for value in leaves:
        own.pop(value, None)
    wanted: dict[SSAValue, Stored] = {}
    viewed: dict[SSAValue, str] = {}
    views = {v: of for v, of in base.views.items() if v not in own}
    for kernel in stay:
        for value in kernel.reads:
            if not made(value):
                continue
            of = base.base(value)
            wanted[of] = base.stored[of]
            if of is not value:
                viewed[of] = base.stored[of].reason
            while value in base.views:
                views[value] = base.views[value]
                value = base.views[value]
    stored = {v: one for v, one in base.stored.items() if one.kernel not in gone}
    placed = {number: v for number, v in base.placed.items() if number not in outputs}
    beside = Kernels(stay, stored, views, placed, base.settled)
    owners = {op for v in own if isinstance(op := v.owner, Operation)}
    ops = sorted(owners, key=places.__getitem__)
    return Part(ops, leaves, wanted, viewed, outputs, beside)


@dataclass
class Standing:
    """What kernels have in common that are alike and between kernels that are: layers of a network.

    ``alike`` gives a key that kernels share which differ in names alone.
    """

    alike: Callable[[Kernels], Callable[[Kernel], Hashable]]
    _of: Kernels | None = None
    _keys: dict[Kernel, Hashable] = field(default_factory=dict[Kernel, Hashable])
    _ask: Callable[[Kernel], Hashable] = hash
    _makers: dict[SSAValue, list[int]] = field(default_factory=dict[SSAValue, list[int]])
    _readers: dict[SSAValue, list[int]] = field(default_factory=dict[SSAValue, list[int]])

    def of(self, kernel: Kernel, kernels: Kernels) -> Hashable:
        """The key of one of some kernels, and those of its neighbours, one by one."""
        if kernels is not self._of:
            self._of, self._ask = kernels, self.alike(kernels)
            self._makers, self._readers = {}, {}
            for place, one in enumerate(kernels.kernels):
                for root in one.roots:
                    self._makers.setdefault(root.value, []).append(place)
                for value in one.reads:
                    self._readers.setdefault(value, []).append(place)
        before = {place for value in kernel.reads for place in self._makers.get(value, ())}
        after = {place for one in kernel.roots for place in self._readers.get(one.value, ())}
        near = [[kernels.kernels[i] for i in sorted(places)] for places in (before, after)]
        return self._key(kernel), *(tuple(map(self._key, some)) for some in near)

    def _key(self, kernel: Kernel) -> Hashable:
        if kernel not in self._keys:
            self._keys[kernel] = self._ask(kernel)
        return self._keys[kernel]
