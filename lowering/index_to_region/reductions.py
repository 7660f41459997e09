"""``index-to-region``: where a kernel is cut so that it reduces nothing again and again (S11.1).

A kernel whose rows no family of rows takes runs as loops, in which a reduction inside of another
one, or of a row that several blocks hold a part of, is computed again in each of them.  So some of
its values are tried in memory, and the model of time says which way the graph takes least:

- what is made of a reduction and is then moved, as a softmax before its heads are split;
- the reductions that others need along other axes, as the pixels' mean that a norm is of;
- all reductions;

each alone, and the first together with either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.fusion import Kernel, Kernels

GAIN = 0.9
"""What a cut graph takes of the time of the graph as it is, at most, to be cut."""

AGAIN = "reduced once: fused, it would be computed again where it is used"

KernelKey = tuple[object, frozenset[SSAValue]]


def key_of(kernel: Kernel) -> KernelKey:
    """What makes a kernel of a graph the same one in two partitions."""
    return tuple((root.value, root.point) for root in kernel.roots), frozenset(kernel.reads)


@dataclass
class Reductions:
    """Decides for a graph which of its reductions are stored beside what is stored anyway.

    ``recompose`` makes the kernels where some more values are stored, ``seconds`` says how long
    each of some kernels takes, and ``again`` whether one computes a reduction again and again.
    """

    recompose: Callable[[Mapping[SSAValue, str]], Kernels]
    again: Callable[[Kernels], Callable[[Kernel], bool]]
    seconds: Callable[[Kernels], Callable[[Kernel], float]]
    taken: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    """The values that are stored, with the reason."""
    known: dict[KernelKey, float] = field(default_factory=dict[KernelKey, float])
    tried: set[KernelKey] = field(default_factory=set[KernelKey])

    def run(self, kernels: Kernels) -> Kernels:
        """The kernels of the graph, cut where that takes less time."""
        while (kernel := self._next(kernels)) is not None:
            self.tried.add(key_of(kernel))
            whole = {key_of(k) for k in kernels.kernels}
            best: tuple[float, dict[SSAValue, str], Kernels] | None = None
            for values in candidates(kernel):
                stored = {**self.taken, **dict.fromkeys(values, AGAIN)}
                found = self.recompose(stored)
                parts = {key_of(k) for k in found.kernels}
                before = self._total(kernels, whole - parts)
                after = self._total(found, parts - whole)
                if after < GAIN * before and (best is None or after - before < best[0]):
                    best = after - before, stored, found
            if best is not None:
                _, self.taken, kernels = best
        return kernels

    def _next(self, kernels: Kernels) -> Kernel | None:
        """A kernel that computes a reduction again, and was not tried."""
        again = self.again(kernels)
        for kernel in kernels.kernels:
            if (key := key_of(kernel)) in self.tried:
                continue
            if any(isinstance(v.owner, tiny.ReduceOp) for v in computed(kernel)) and again(kernel):
                return kernel
            self.tried.add(key)
        return None

    def _total(self, kernels: Kernels, wanted: set[KernelKey]) -> float:
        """The time of some kernels."""
        seconds = self.seconds(kernels)
        for kernel in kernels.kernels:
            key = key_of(kernel)
            if key in wanted and key not in self.known:
                self.known[key] = seconds(kernel)
        return sum(self.known[key] for key in wanted)


def computed(kernel: Kernel) -> dict[SSAValue, None]:
    """The values that a kernel computes, operands first."""
    return dict.fromkeys(key[0] for key, form in kernel.held().items() if form is not None)


def candidates(kernel: Kernel) -> Iterator[list[SSAValue]]:
    """Values of a kernel that might be stored, a list a way; none of them is an output of it."""
    inside = computed(kernel)
    found = [value for value in inside if isinstance(value.owner, tiny.ReduceOp)]
    users = _users(inside, kernel)
    roots = {root.value for root in kernel.roots}
    behind = _reductions_behind(inside, kernel)

    def made(values: list[SSAValue]) -> list[SSAValue]:
        ends = dict.fromkeys(_end(value, users) for value in values)
        return [value for value in ends if value not in roots]

    moved = [
        value
        for value in inside
        if cost.is_computed(value) and behind[value] and _is_moved(value, users)
    ]
    moved = [value for value in moved if value not in roots]
    inner = made([v for v in found if any(_is_under(v, other, behind) for other in found)])
    every = made(found)
    ways = [moved, inner, [*moved, *inner], every, [*moved, *every]]
    seen: set[frozenset[SSAValue]] = {frozenset()}
    for way in ways:
        if (values := frozenset(way)) not in seen:
            seen.add(values)
            yield way


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
    for op in users[value]:
        while isinstance(op, tiny.ExpandOp | tiny.CastOp):
            readers = users[op.results[0]]
            if len(readers) != 1:
                break
            op = readers[0]
        if isinstance(op, MovementOp) and not isinstance(op, tiny.ExpandOp):
            return True
    return False


def _is_under(
    value: SSAValue, other: SSAValue, behind: Mapping[SSAValue, frozenset[SSAValue]]
) -> bool:
    """Whether a reduction needs another one, which is of other rows."""
    if value is other or value not in behind[other]:
        return False
    ops = [cast(tiny.ReduceOp, v.owner) for v in (value, other)]
    shapes = [(tiny.tensor_of(op.operand).dims, op.axes) for op in ops]
    return shapes[0] != shapes[1]


def _end(value: SSAValue, users: Users) -> SSAValue:
    """The last of the elementwise ops of a reduction's shape that follow it alone."""
    while True:
        readers = users[value]
        if len(readers) != 1 or isinstance(readers[0], tiny.ReduceOp | MovementOp):
            return value
        result = readers[0].results[0]
        if not cost.is_computed(result):
            return value
        value = result
