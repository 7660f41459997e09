"""Whether a region computes what a smaller one, a pattern, does: by structure, sizes left open.

A pattern's sizes are its own symbols, and each becomes an expression of the target's.  The ops have
to be the same, operands of commutative ones in either order; axes and tensors are told apart by
what they do and not by their names.  Sizes, access maps and guards are compared as isl sees them.
So nothing matches that computes something else, and what is written in another way may be missed:
``Difference`` says where the search came furthest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations

from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from polyc.affine.isl import IslLimitExceeded
from polyc.dialects.common.dim import Assumption
from polyc.dialects.common.numbers import number_text
from polyc.dialects.region import (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    DimOp,
    IndexOp,
    InsideOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    SelectOp,
    SortOp,
    TransposeOp,
    UnaryOp,
)
from polyc.dialects.region.types import AxisAttr, ValType, val_type
from polyc.rewriting.region.matching_sizes import Binding, Sizes

MOVES = (BroadcastInDimOp, TransposeOp)
"""Other names of a value: an axis is what its name says, wherever it stands."""

COMMUTATIVE = ("add", "mul", "max", "min", "eq", "ne")
"""Functions whose operands may change places (docs/semantics.md)."""

MOST = 256
"""Ways to pair the parts of two regions that are tried."""

STEPS = 50000
"""Pairs of values that are looked at until a search is given up."""

Axes = tuple[tuple[str, str], ...]
"""The pattern's axes in scope, each with the target's, in order of their names."""


@dataclass(frozen=True)
class Difference:
    """Why a region is not matched: a sentence, and the op of the target that it is about.

    ``depth`` is how many values had been paired before.
    """

    text: str
    at: Operation
    depth: int = 0


@dataclass(frozen=True)
class Match:
    """How a pattern lies in a region.

    ``tensors``  for each tensor of the pattern, inputs and then outputs, the target's, by position
    ``symbols``  for each symbol of the pattern's tensors, its size in the target's symbols
    ``facts``    what the pattern assumes, in the target's symbols; the target need not promise it
    """

    tensors: tuple[int, ...]
    symbols: Mapping[str, Binding]
    facts: tuple[Assumption, ...]


@dataclass(frozen=True)
class _Goal:
    """Two values that have to be equal, under ``axes``."""

    pattern: SSAValue
    target: SSAValue
    axes: Axes


@dataclass(frozen=True)
class _State:
    """What has been paired so far, and what is left to pair."""

    goals: tuple[_Goal, ...]
    tensors: Mapping[int, int] = field(default_factory=dict[int, int])
    done: frozenset[_Goal] = frozenset()
    extents: tuple[tuple[AxisAttr, AxisAttr], ...] = ()
    leaves: tuple[_Goal, ...] = ()
    """Reads, sizes and conditions, which are compared once the symbols are known."""


def match(pattern: KernelOp, target: KernelOp) -> Match | Difference:
    """How ``pattern`` lies in ``target``, or the difference that was met last on the way.

    Both are regions over as few axes as each can have (``merged``), without
    ``region.reduce_together``.  Exact: the target's outputs are the pattern's, whatever the inputs,
    at all sizes that the target's assumptions and ``facts`` allow, but for the order of sums and
    the sign of a zero of ``max`` and ``min``, which no op defines.
    """
    search = _Search(pattern, target)
    try:
        return search.run()
    except IslLimitExceeded as error:
        return Difference(f"isl gives up on its sizes: {error}", target)


class _Search:
    def __init__(self, pattern: KernelOp, target: KernelOp) -> None:
        self.pattern, self.target = pattern, target
        self.own = {**_own_axes(pattern), **_own_axes(target)}
        self.sketch = {**_sketches(pattern), **_sketches(target)}
        self.sizes = Sizes(pattern, target)
        self._steps = 0
        self._deepest = -1
        self._difference = Difference("nothing in common", target)

    def run(self) -> Match | Difference:
        outs, wanted = len(self.target.outs), len(self.pattern.outs)
        if outs != wanted:
            return Difference(f"it has {outs} outputs, and the pattern has {wanted}", self.target)
        ways = 0
        for order in self._orders():
            for state in self._paired(order):
                ways += 1
                if ways > MOST:
                    text = f"more than {MOST} ways to pair its parts with the pattern's"
                    return Difference(text, self.target)
                if (found := self._sized(state, order)) is not None:
                    return found
        return self._difference

    def _differs(self, state: _State, text: str, at: Operation | None, more: int = 0) -> None:
        """Remember a difference, if none was met after more had been paired."""
        depth = len(state.done) + more
        if depth > self._deepest:
            self._deepest = depth
            self._difference = Difference(text, at or self.target, depth)

    # Structure

    def _orders(self) -> Iterator[tuple[int, ...]]:
        """For each output of the pattern the target's: those that look alike first."""
        mine = [self.sketch[_real(v)] for v in self.pattern.yield_op.values]
        theirs = [self.sketch[_real(v)] for v in self.target.yield_op.values]
        asked = permutations(range(len(mine))) if len(mine) <= 4 else ()
        alike = [order for order in asked if [theirs[j] for j in order] == mine]
        yield from alike or [tuple(range(len(mine)))]

    def _paired(self, order: Sequence[int]) -> Iterator[_State]:
        """Every way in which the ops of both are the same, sizes and maps aside."""
        goals: list[_Goal] = []
        extents: list[tuple[AxisAttr, AxisAttr]] = []
        mine, theirs = self.pattern.yield_op.values, self.target.yield_op.values
        axes: dict[str, str] = {}
        for i, j in enumerate(order):
            ours, other = val_type(mine[i]), val_type(theirs[j])
            if len(ours.axes) != len(other.axes):
                self._differs(
                    _State(()),
                    f"its output {self.target.res_names.data[j].data} goes along "
                    f"{len(other.axes)} axes, and the pattern's along {len(ours.axes)}",
                    None,
                )
                return
            for a, b in zip(ours.axes, other.axes, strict=True):
                if axes.setdefault(a.label, b.label) != b.label:
                    return
                extents.append((a, b))
        scope = tuple(sorted(axes.items()))
        goals = [_Goal(_real(mine[i]), _real(theirs[j]), scope) for i, j in enumerate(order)]
        stack = [_State(tuple(goals), extents=tuple(extents))]
        while stack:
            state = stack.pop()
            self._steps += 1
            if self._steps > STEPS:
                self._differs(state, f"more than {STEPS} steps to compare it", None, STEPS)
                return
            if not state.goals:
                yield state
                continue
            goal, *rest = state.goals
            state = replace(state, goals=tuple(rest))
            if goal in state.done:
                stack.append(state)
            else:
                done = replace(state, done=state.done | {goal})
                stack += reversed(list(self._step(goal, done)))

    def _step(self, goal: _Goal, state: _State) -> Iterator[_State]:
        """What is left to pair where two values are to be equal: nothing if they are not."""
        ours, theirs = goal.pattern.owner, goal.target.owner
        assert isinstance(ours, Operation) and isinstance(theirs, Operation)
        if (fault := self._unlike(goal, ours, theirs)) is not None:
            self._differs(state, fault, theirs)
            return
        match ours, theirs:
            case ReadOp(), ReadOp():
                yield from self._read(goal, ours, theirs, state)
            case ReduceOp(), ReduceOp():
                yield from self._reduced(goal, ours, theirs, state)
            case SortOp(), SortOp():
                yield self._sorted(goal, ours, theirs, state)
            case (DimOp(), DimOp()) | (IndexOp(), IndexOp()) | (InsideOp(), InsideOp()):
                yield replace(state, leaves=(*state.leaves, goal))
            case _:
                mine = [_real(v) for v in ours.operands]
                for operands in self._operands(ours, mine, [_real(v) for v in theirs.operands]):
                    pairs = zip(mine, operands, strict=True)
                    goals = tuple(_Goal(a, b, goal.axes) for a, b in pairs)
                    yield replace(state, goals=(*goals, *state.goals))

    def _operands(
        self, op: Operation, mine: Sequence[SSAValue], theirs: Sequence[SSAValue]
    ) -> Iterator[Sequence[SSAValue]]:
        """The target's operands, in the orders in which they may be the pattern's."""
        orders = [list(theirs)]
        if isinstance(op, BinaryOp | CompareOp) and op.fn.data in COMMUTATIVE:
            orders.append(list(reversed(theirs)))
        wanted = [self.sketch[v] for v in mine]

        def alike(order: Sequence[SSAValue]) -> int:
            """An operand that is alike tells which of the other two differ."""
            return sum(self.sketch[v] == w for v, w in zip(order, wanted, strict=True))

        most = max(map(alike, orders))
        found = [order for order in orders if alike(order) == most]
        yield found[0]
        if len(found) > 1 and found[1] != found[0]:
            yield found[1]

    def _unlike(self, goal: _Goal, ours: Operation, theirs: Operation) -> str | None:
        """How two ops differ by themselves, but for sizes; None where they do not."""
        if type(ours) is not type(theirs):
            return f"it has {_named(theirs)} where the pattern has {_named(ours)}"
        if isinstance(ours, _PLAIN) and _figure(ours) != _figure(theirs):
            return f"it has {_named(theirs)} where the pattern has {_named(ours)}"
        if not isinstance(ours, _PLAIN):
            return f"it has {_named(theirs)}, which is not matched"
        a, b = _element(goal.pattern), _element(goal.target)
        if a != b:
            return f"its {_named(theirs)} gives {b}, and the pattern's {a}"
        axes = dict(goal.axes)
        mine, other = self.own[goal.pattern], self.own[goal.target]
        if {axes.get(label) for label in mine} != other:
            return (
                f"its {_named(theirs)} goes along [{', '.join(sorted(other))}], and the pattern's "
                f"along [{', '.join(sorted(str(axes.get(a)) for a in mine))}]"
            )
        return None

    def _read(self, goal: _Goal, ours: ReadOp, theirs: ReadOp, state: _State) -> Iterator[_State]:
        assert isinstance(ours.tensor, BlockArgument) and isinstance(theirs.tensor, BlockArgument)
        mine, other = ours.tensor.index, theirs.tensor.index
        bound = state.tensors.get(mine)
        if bound is None and other in state.tensors.values():
            before = next(i for i, j in state.tensors.items() if j == other)
            text = f"{self._input(other)} would be both {self._mine(before)} and {self._mine(mine)}"
            self._differs(state, f"{text} of the pattern", theirs)
        elif bound not in (None, other):
            assert bound is not None
            text = f"{self._mine(mine)} of the pattern would be both {self._input(bound)} and"
            self._differs(state, f"{text} {self._input(other)}", theirs)
        else:
            tensors = {**state.tensors, mine: other}
            yield replace(state, tensors=tensors, leaves=(*state.leaves, goal))

    def _reduced(
        self, goal: _Goal, ours: ReduceOp, theirs: ReduceOp, state: _State
    ) -> Iterator[_State]:
        if len(ours.labels) != len(theirs.labels):
            text = f"its {_named(theirs)} is over {len(theirs.labels)} axes, and the pattern's over"
            self._differs(state, f"{text} {len(ours.labels)}", theirs)
            return
        mine, other = val_type(ours.operand), val_type(theirs.operand)
        for labels in permutations(theirs.labels):
            # Within, a name means the axis that is summed, whatever it means outside.
            axes = {a: b for a, b in goal.axes if b not in labels}
            extents = list(state.extents)
            for a, b in zip(ours.labels, labels, strict=True):
                axes[a] = b
                first, second = mine.axis(a), other.axis(b)
                assert first is not None and second is not None
                extents.append((first, second))
            inner = _Goal(_real(ours.operand), _real(theirs.operand), tuple(sorted(axes.items())))
            yield replace(state, goals=(inner, *state.goals), extents=tuple(extents))

    def _sorted(self, goal: _Goal, ours: SortOp, theirs: SortOp, state: _State) -> _State:
        axes = {a: b for a, b in goal.axes if a != ours.into and b != theirs.over}
        axes[ours.over] = theirs.over
        first = val_type(ours.operand).axis(ours.over)
        second = val_type(theirs.operand).axis(theirs.over)
        assert first is not None and second is not None
        inner = _Goal(_real(ours.operand), _real(theirs.operand), tuple(sorted(axes.items())))
        extents = (*state.extents, (first, second))
        return replace(state, goals=(inner, *state.goals), extents=extents)

    def _mine(self, position: int) -> str:
        return self.pattern.arg_names.data[position].data

    def _input(self, position: int) -> str:
        return self.target.arg_names.data[position].data

    # Sizes

    def _sized(self, state: _State, order: Sequence[int]) -> Match | None:
        """The match, where the symbols' sizes make extents, maps and guards equal."""
        first, second = len(self.pattern.ins), len(self.target.ins)
        if len(state.tensors) < first:
            unread = next(i for i in range(first) if i not in state.tensors)
            self._differs(state, f"the pattern does not read its {self._mine(unread)}", None)
            return None
        inputs = [state.tensors[i] for i in range(first)]
        tensors = (*inputs, *(second + j for j in order))
        for number, binding in enumerate(self.sizes.bindings(tensors)):
            if number >= MOST:
                break
            fault = self.sizes.unequal_tensors(binding, tensors)
            fault = fault or self.sizes.unequal_axes(binding, state.extents)
            at: Operation = self.target
            for goal in () if fault else state.leaves:
                ours, theirs = goal.pattern.owner, goal.target.owner
                assert isinstance(ours, Operation) and isinstance(theirs, Operation)
                if (
                    fault := self.sizes.unequal(binding, ours, theirs, dict(goal.axes))
                ) is not None:
                    at = theirs
                    break
            if fault is None:
                return Match(tensors, self.sizes.named(binding), self.sizes.facts(binding))
            self._differs(state, fault, at, 1)
        if (fault := self.sizes.unbound) is not None:
            self._differs(state, fault, None, 1)
        return None


# What a value is, sizes aside ----------------------------------------------------------

_PLAIN = (
    *(ReadOp, ConstantOp, DimOp, IndexOp, InsideOp),
    *(UnaryOp, BinaryOp, CompareOp, SelectOp, CastOp, BitcastOp, ReduceOp, SortOp),
)
"""The ops that are compared; two others, as gathers, scatters and scans, never match."""


def _real(value: SSAValue) -> SSAValue:
    """A value itself, whatever it is broadcast to."""
    while isinstance(op := value.owner, MOVES):
        value = op.operand
    return value


def _element(value: SSAValue) -> Attribute:
    return val_type(value).element_type


def _figure(op: Operation) -> object:
    """What an op says beside its operands, axes and sizes."""
    match op:
        case ConstantOp():
            return str(op.number) if isinstance(op.number, int) else struct.pack("d", op.number)
        case ReduceOp():
            return op.fn.data, op.accumulator
        case UnaryOp() | BinaryOp() | CompareOp():
            return op.fn.data
        case _:
            return None


def _named(op: Operation) -> str:
    """An op as a sentence names it."""
    match op:
        case ConstantOp():
            return f"{op.name} {number_text(op.number, op.value.type)}"
        case ReduceOp():
            return f"{op.name} {op.fn.data} in {op.accumulator}"
        case UnaryOp() | BinaryOp() | CompareOp():
            return f"{op.name} {op.fn.data}"
        case CastOp():
            return f"{op.name} to {op.result.type.element_type}"
        case _:
            return op.name


def _values(kernel: KernelOp) -> Iterator[tuple[Operation, SSAValue]]:
    for op in kernel.body.block.ops:
        for value in op.results:
            if isinstance(value.type, ValType):
                yield op, value


def _own_axes(kernel: KernelOp) -> dict[SSAValue, set[str]]:
    """The axes along which each value may differ."""
    own: dict[SSAValue, set[str]] = {}
    for op, value in _values(kernel):
        labels = set(val_type(value).labels)
        if isinstance(op, ReadOp | IndexOp | InsideOp | ConstantOp | DimOp) or op.regions:
            own[value] = labels
        elif isinstance(op, SortOp):
            own[value] = (own[op.operand] - {op.over}) | {op.into}
        else:
            own[value] = set[str]().union(*(own[v] for v in op.operands)) & labels
    return own


def _sketches(kernel: KernelOp) -> dict[SSAValue, object]:
    """For each value a number that equal values of two regions share; sizes are left out of it."""
    found: dict[SSAValue, object] = {}
    for op, value in _values(kernel):
        if isinstance(op, MOVES):
            found[value] = found[op.operand]
            continue
        operands = [hash(found.get(v)) for v in op.operands]
        if isinstance(op, BinaryOp | CompareOp) and op.fn.data in COMMUTATIVE:
            operands.sort()
        found[value] = hash((op.name, _figure(op), _element(value), tuple(operands)))
    return found
