"""``index-to-region``: which two products are attention, and what their kernel reads (S11.1).

One of them weighs by a softmax of the other.  What the two read beside what is between them comes
from memory, but for queries that are computed with them and factors that stay gathered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import BlockArgument, Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.movements import MovementOp
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.epilogues import MORE, Epilogues
from polyc.lowering.index_to_region.factors import axes_of, factors
from polyc.lowering.index_to_region.levels import Level
from polyc.lowering.index_to_region.scores import Reads, Scores, shared_scores

ASIDE = (*MORE, tiny.ScanOp, tiny.SortOp)
"""What no two products around a softmax hold of what they read beside their factors."""

APART = (tiny.ScatterOp, tiny.ScanOp, tiny.SortOp)
"""What stands between no two products around a softmax."""


@dataclass
class Attentions(Epilogues):
    """The products of a graph that weigh by a softmax of another one."""

    queries: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Of such a first product the factor that no key has a part in, where something computes it."""
    gathering: dict[tuple[SSAValue, SSAValue], Level] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], Level]
    )
    """Such two of which some factor is gathered, and stays so; with the level that they had."""

    seen: dict[SSAValue, tuple[list[SSAValue], list[SSAValue], list[tiny.ReduceOp]]] = field(
        default_factory=dict[SSAValue, tuple[list[SSAValue], list[SSAValue], list[tiny.ReduceOp]]]
    )
    """What of softmaxes factors are made of, for those that were asked about."""

    def _find_cores(self) -> None:
        """Pair products of which one weighs by a softmax of the other, each with one at most.

        First those that are seen to sum over what the softmax goes along, as another softmax, of
        features say, may lie between a product and the scores that are made of it.
        """
        found: list[tuple[bool, int, SSAValue, SSAValue, SSAValue, list[tiny.ReduceOp]]] = []
        places = {value: place for place, value in enumerate(self.levels)}
        for second in self.levels:
            behind = dict.fromkeys(v for f in factors(second) for v in self._behind(f))
            for first in (v for v in behind if v in places and v is not second):
                if (weights := self._softmax_of(first, second)) is not None:
                    along = self._goes_along(*weights, second)
                    found.append((not along, places[first], first, second, *weights))
        for _, _, first, second, factor, maxima in sorted(found, key=lambda one: one[:2]):
            if all(self.levels[v] is Level.AS_IT_IS for v in (first, second)):
                self.weights[first, second] = factor
                level = Level.CORE
                queries = self.queries_of(first, maxima)
                if queries is not None and cost.is_computed(self.source(queries)):
                    self.queries[first] = queries
                    level = Level.CORE_WITH_QUERIES
                self.levels[first] = self.levels[second] = level
                read = self._stored_for(first, second)
                if any(isinstance(self.source(f).owner, tiny.GatherOp) for f in read):
                    self.gathering[first, second] = level

    def queries_of(self, first: SSAValue, maxima: Sequence[tiny.ReduceOp]) -> SSAValue | None:
        """The factor of a product that is the same along what the maxima of it are taken over."""
        dims = tiny.tensor_of(first).dims
        reduce = cast(tiny.ReduceOp, first.owner)
        rank = tiny.tensor_of(reduce.operand).rank
        kept = [axis for axis in range(rank) if axis not in reduce.axes]
        along = {op.axes for op in maxima if tiny.tensor_of(op.operand).dims == dims}
        if len(along) != 1:
            return None
        keys = {kept[axis] for axis in along.pop()}
        found = [f for f in factors(first) if keys.isdisjoint(axes_of(f) or keys)]
        return found[0] if len(found) == 1 else None

    def _softmax_of(
        self, first: SSAValue, second: SSAValue
    ) -> tuple[SSAValue, list[tiny.ReduceOp]] | None:
        """The factor of ``second`` that is a softmax of ``first``, and its reductions, or None.

        It is made of exponentials of ``first``, and of a maximum of that or of their sum, and of no
        product that needs ``first``, as what follows an attention is.  What chooses by it, as the
        experts of a mixture are chosen, is sorted, scanned or scattered, which no kernel of both
        does.
        """
        for factor in factors(second):
            behind = self._behind(factor)
            if first not in behind:
                continue
            powers, others, maxima = self._seen_behind(factor)
            powers = [v for v in powers if first in self._behind(v)]
            if not powers:
                continue
            others = (v for v in others if v is not first)
            if any(first in self._behind(f) for v in others for f in factors(v)):
                continue
            if any(isinstance(v.owner, APART) and first in self._behind(v) for v in behind):
                continue
            along = [op for op in maxima if first in self._behind(op.result)]
            along = along or [op for value in powers for op in self._sums_of(value)]
            if along:
                return factor, along
        return None

    def _seen_behind(
        self, factor: SSAValue
    ) -> tuple[list[SSAValue], list[SSAValue], list[tiny.ReduceOp]]:
        """The powers, the contractions and the maxima that a factor is made of."""
        if factor not in self.seen:
            behind = self._behind(factor)
            maxima = [v.owner for v in behind if isinstance(v.owner, tiny.ReduceOp)]
            self.seen[factor] = (
                [v for v in behind if _is_power(v)],
                [v for v in behind if v in self.contractions],
                [op for op in maxima if op.function == "max"],
            )
        return self.seen[factor]

    def _sums_of(self, value: SSAValue) -> Iterator[tiny.ReduceOp]:
        """The sums of a value that is moved and cast only, and multiplied by nothing."""
        for op in self.users.get(value, ()):
            if isinstance(op, tiny.ReduceOp):
                if op.function == "sum":
                    yield op
            elif isinstance(op, MovementOp | tiny.CastOp):
                yield from self._sums_of(op.results[0])

    def _goes_along(
        self, factor: SSAValue, along: Sequence[tiny.ReduceOp], second: SSAValue
    ) -> bool:
        """Whether a product is seen to sum over what one of the reductions ``along`` is of."""
        summed = cast(tiny.ReduceOp, second.owner).axes
        source = self.source(factor)
        axes = {self._axis_below(factor, source, axis) for axis in summed}
        dims = tiny.tensor_of(source).dims
        return any(set(op.axes) == axes and tiny.tensor_of(op.operand).dims == dims for op in along)

    def _cores(self) -> list[tuple[SSAValue, SSAValue]]:
        """The products around a softmax that stay together with it."""
        levels = (
            Level.CORE_WITH_QUERIES,
            Level.CORE,
            Level.CORE_BARE,
            Level.CORE_PLAIN,
            Level.CORE_SPREAD,
        )
        return [pair for pair in self.weights if all(self.levels[v] in levels for v in pair)]

    def _read_by(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """The factors of two products that stay together, but for the softmax between them."""
        weights = self.weights[first, second]
        return [*factors(first), *(f for f in factors(second) if f is not weights)]

    def _stored_for(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """Those of them that are stored: not the queries that the two are computed with."""
        read = self._read_by(first, second)
        if self.levels[first] is not Level.CORE_WITH_QUERIES:
            return read
        return [factor for factor in read if factor is not self.queries[first]]

    def _read_from(
        self, first: SSAValue, second: SSAValue, read: Sequence[SSAValue]
    ) -> Iterator[SSAValue]:
        """What factors of two around a softmax are read from, behind gathers that stay with them.

        Queries are gathered on their way to memory.
        """
        queries = self.queries.get(first)
        for factor in read:
            source = self.source(factor)
            while (
                (first, second) in self.gathering
                and factor is not queries
                and isinstance(source.owner, tiny.GatherOp)
            ):
                source = self.source(source.owner.operand)
            yield source

    def _sides(self, first: SSAValue, second: SSAValue) -> list[SSAValue]:
        """What two around a softmax read beside their factors and is reduced or gathered, as a bias
        of positions or a mask that is looked up.

        It is stored as it is read, where it does not repeat: no step of theirs holds more of those.
        """
        read = set(self._read_from(first, second, self._stored_for(first, second)))
        end, _ = self._epilogue(second)
        inside = self._behind(end, read, through=second)
        beyond = {*read, *self._read_by(first, second)}
        made: set[SSAValue] = {first, second}
        found: dict[SSAValue, None] = {}
        for value in inside:
            op = cast(Operation, value.owner)
            given = [self.same.get(o, o) for o in op.operands]
            if value is first or not any(o in made for o in given):
                continue
            made.add(value)
            work = [o for o in given if o not in made and o not in beyond]
            while work:
                source = self.source(here := work.pop())
                if source in beyond or isinstance(source, BlockArgument):
                    continue
                if cost.is_contraction(source):
                    continue
                if isinstance(source.owner, ASIDE):
                    found[self._read_as(here)] = None
                else:
                    work += [self.same.get(o, o) for o in cast(Operation, source.owner).operands]
        return list(found)

    def _gathered(
        self, first: SSAValue, second: SSAValue, read: Collection[SSAValue]
    ) -> set[SSAValue]:
        """What is gathered for two around a softmax, and its places, which are of each step.

        Places that are reduced are computed once, and stored.
        """
        made = (v for f in self._stored_for(first, second) for v in self._behind(f, read))
        once = (tiny.ReduceOp, tiny.ScatterOp, tiny.ScanOp, tiny.SortOp)
        return {v for v in made if v not in read and not self._has(v, *once)}

    def shared(self) -> dict[tuple[SSAValue, SSAValue], Scores]:
        """The products around a softmax that stay together, and whose scores others want too."""
        found: dict[tuple[SSAValue, SSAValue], Scores] = {}
        reads = Reads(self.same, self.users)
        for first, second in self._cores():
            end, _ = self._epilogue(second)
            sources = set(self._read_from(first, second, self._read_by(first, second)))
            sources.update(self._sides(first, second))
            inside = self._behind(end, sources, through=second)
            weights = self._behind(self.weights[first, second], sources)
            scores = shared_scores(reads, (first, second), weights, inside, end)
            if scores is not None:
                found[first, second] = scores
        return found

    def _beside(self) -> list[SSAValue]:
        """What is stored of attention: its kernel may give its log-sum-exp beside."""
        return [self._epilogue(second)[0] for _, second in self._cores()]


def _is_power(value: SSAValue) -> bool:
    """Whether a value is an exponential, or a power of something."""
    match value.owner:
        case tiny.UnaryOp() as op:
            return op.function == "exp"
        case tiny.BinaryOp() as op:
            return op.function == "pow" and not is_integer(tiny.tensor_of(value).element_type)
        case _:
            return False
