"""``index-to-region``: what follows a product and stays in its kernel, at its level (S11.1).

That is its epilogue: elementwise ops, and reductions of its short rows.  The last of them is
stored, and so is what they read that is reduced or gathered.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import cast

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import BlockArgument, Operation, SSAValue

from polyc.dialects import index, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.movements import MovementOp
from polyc.families.follow import WIDTHS
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.factors import Factors, factors, joined, repeats
from polyc.lowering.index_to_region.levels import Level
from polyc.lowering.index_to_region.memory import stored_size

MORE = (tiny.ReduceOp, tiny.GatherOp, tiny.ScatterOp)
"""What the kernel of a product holds no other one of, nor beside it."""

COMPUTED = 4
"""Bytes of an element as products are summed."""

END = "a product {where}, which holds no other reduction, ends with it"
SIDE = "it is reduced, and what follows a product {where} reads it from memory"
GATHERED = "it is read where data says, and what follows a product {where} reads it from memory"


@dataclass
class Epilogues(Factors):
    """The products of a graph, their levels, and what follows each."""

    levels: dict[SSAValue, Level] = field(default_factory=dict[SSAValue, Level])
    """The level of each product, in the order of the program."""
    partners: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Products that may share a kernel, the earlier one first."""
    given_up: dict[SSAValue, None] = field(default_factory=dict[SSAValue, None])
    """Products that no family takes, whatever is stored, as those of two types."""
    follows: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """What elementwise ops make of each product, in the order of the program."""
    rows: dict[SSAValue, list[SSAValue]] = field(default_factory=dict[SSAValue, list[SSAValue]])
    """The same with reductions of its short rows, for products that have some."""
    weights: dict[tuple[SSAValue, SSAValue], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], SSAValue]
    )
    """Two products of which the second weighs by a softmax of the first: that factor of it."""
    as_given: frozenset[SSAValue] = frozenset()
    """Values around convolutions that lie as the graph has their axes."""
    stored_alone: frozenset[SSAValue] = frozenset()
    """Products with which nothing stays that follows them."""
    joining: frozenset[SSAValue] = frozenset()
    """Products whose factors are joined in memory where they are a concat."""
    ended: frozenset[SSAValue] = frozenset()
    """Products that threads compute where they lie, whose ends are stored."""

    def _epilogue(self, value: SSAValue) -> tuple[SSAValue, list[SSAValue]]:
        """The last value of what follows a product alone, and what that reads of reductions and
        gathers."""
        before = tuple(
            first
            for first, second in self.partners.items()
            if second is value and self._is_pair(first, second)
        )
        key = ("epilogue", value, self.levels[value], before, value in self.stored_alone)
        if key not in self.told:
            self.told[key] = self._found_epilogue(value, before)
        return self.told[key]

    def _found_epilogue(
        self, value: SSAValue, before: Sequence[SSAValue]
    ) -> tuple[SSAValue, list[SSAValue]]:
        """That of a product; with those ``before`` it shares a kernel."""
        bare = self.levels[value] in (
            Level.CORE_BARE,
            Level.CORE_PLAIN,
            Level.BARE,
            Level.SPREAD,
        )
        follow = self._behind_product(value)
        inside: set[SSAValue] = {value}
        for first in before:
            inside |= {first, *self.follows[first]} - set(follow)
        outputs = self._all_outputs(value)
        end, sides = value, list[SSAValue]()
        held: list[SSAValue] = []
        narrow: tuple[SSAValue, list[SSAValue]] = end, []
        # What reads them beside what comes next; of a value that ends them nothing else is wanted.
        unmet = {op for one in inside for op in self._unmet(one, inside, outputs)}
        for here in follow:
            op = cast(Operation, here.owner)
            given = [self.same.get(o, o) for o in op.operands]
            others = [self.source(o) for o in given if o not in inside]
            if any(self._later(o, value) for o in others):
                break
            if bare and not all(o in inside or repeats(o) for o in given):
                break  # another tensor as large as the product
            inside.add(here)
            unmet.discard(op)
            alone = not unmet
            unmet.update(self._unmet(here, inside, outputs))
            made = (self._narrow_parts(o, MORE) for o in others if self._has(o, *MORE))
            held += [part for parts in made for part in parts]
            if cost.is_computed(here) and alone:
                end = here
                sides += held
                held.clear()
                if isinstance(tiny.tensor_of(here).element_type, Float32Type):
                    narrow = end, list(sides)
                if bare and isinstance(op, tiny.CastOp):
                    break
        if stored_size(end) > COMPUTED and not any(
            isinstance(op, tiny.OutputOp) for op in self._readers(end)
        ):
            # What has more bytes, as an element and its place in one key, who reads it makes again.
            end, sides = narrow
        return end, (sides if self.levels[value] > Level.CORE_SPREAD else [])

    def _later(self, value: SSAValue, than: SSAValue) -> bool:
        """Whether ``value`` follows a later product, which what comes of both stays with."""
        last, places = self._last_followed()
        return last.get(value, -1) > places[than]

    def _is_end(self, value: SSAValue) -> bool:
        """Whether a value is a product, or follows one."""
        return value in self._last_followed()[0]

    def _last_followed(self) -> tuple[Mapping[SSAValue, int], Mapping[SSAValue, int]]:
        """The place among the products of the last one that a value is or follows, and theirs."""
        if "last" not in self.told:
            last: dict[SSAValue, int] = {}
            for place, product in enumerate(self.levels):
                last |= dict.fromkeys((product, *self.follows[product]), place)
            self.told["last"] = last, {product: place for place, product in enumerate(self.levels)}
        return self.told["last"]

    def _unmet(
        self, value: SSAValue, inside: Collection[SSAValue], outputs: bool
    ) -> Iterator[Operation]:
        """The ops that read a value and make none ``inside``; with ``outputs`` it may be one of the
        graph's."""
        for op in self.users.get(value, ()):
            made = op.results and op.results[0] in inside
            if not made and not (outputs and isinstance(op, tiny.OutputOp)):
                yield op

    def _behind_product(self, value: SSAValue) -> list[SSAValue]:
        """What follows a product and may stay with it."""
        if value in self.stored_alone:
            return []
        rows = self.levels[value] in (Level.ROWS, Level.ROWS_PLAIN)
        return (self.rows if rows else self.follows)[value]

    def _pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """The partners that stay together."""
        return [pair for pair in self.partners.items() if self._is_pair(*pair)]

    def _is_pair(self, first: SSAValue, second: SSAValue) -> bool:
        level = self.levels[first]
        return level is self.levels[second] and level in (Level.PAIR, Level.PAIR_PLAIN)

    def _all_outputs(self, value: SSAValue) -> bool:
        """Whether every output of the graph is a product, or follows it: one kernel writes them."""
        last = self.graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        follow = {value, *self._behind_product(value)}
        return all(self.same.get(o, o) in follow for o in last.args)

    def _is_beside_others(self, value: SSAValue) -> bool:
        """Whether the graph has an output that is made of other products than one of a pair is."""
        last = self.graph.body.block.last_op
        assert isinstance(last, tiny.OutputOp)
        pair = {v for both in self.weights if value in both for v in both}
        behind = {v for output in last.args for v in self._behind(output)}
        return any(v in self.levels and v not in pair for v in behind)

    def _is_turned(self, value: SSAValue) -> bool:
        """Whether a product is stored with its axes in another order than it has."""
        own = self._pixels_first(value)
        if own is None or own == tuple(range(len(own))):
            return False
        return self._epilogue(value)[0] not in self.as_given

    def _parts(self, op: Operation, value: SSAValue) -> bool:
        """Whether the end of what follows a product is stored for the sake of ``op``.

        As an output of the graph it is stored anyway, with the others of its shape, and with what a
        softmax gives beside it; but a convolution that stores its pixels first has an output that
        does not copied.
        """
        if not isinstance(op, tiny.OutputOp) or self._is_turned(value):
            return True
        if self.levels[value] in (Level.CORE_BARE, Level.CORE_PLAIN):
            return self._is_beside_others(value)
        core = (Level.CORE_WITH_QUERIES, Level.CORE)
        return self.levels[value] not in core and not self._all_outputs(value)

    def _end(self, found: dict[SSAValue, str], value: SSAValue) -> None:
        """Store the last of the elementwise ops that follow a product alone, and their sides."""
        end, sides = self._epilogue(value)
        if any(self._parts(op, value) for op in self._readers(end)):
            found.setdefault(end, self._reason(end, END, value))
        for side in sides:
            self._store(found, [side], self._why_aside(side), value)

    def _store(
        self,
        found: dict[SSAValue, str],
        values: Iterator[SSAValue] | Sequence[SSAValue],
        why: str,
        product: SSAValue,
        plain: bool = False,
    ) -> None:
        for value in values:
            moved = plain and not isinstance(value, BlockArgument)
            if cost.is_computed(value) or moved:
                found.setdefault(value, self._reason(value, why, product))

    def _reason(self, value: SSAValue, why: str, product: SSAValue) -> str:
        """Why a value is stored for a product, with what either takes."""
        stored = cost.seconds_stored(value, len(self.users.get(value, ())))
        where, without = "on tensor cores", "without tensor cores"
        if self._kind(product) is Float32Type:
            where, without = "in tiles of f32", "in loops"
        return (
            f"{why.format(where=where)}; storing it takes about {stored * 1e6:.3g} us, and the "
            f"product {without} {cost.seconds_by_threads(product) * 1e6:.3g} us (a size that is "
            f"not known is taken as {cost.TYPICAL})"
        )

    def _why_aside(self, side: SSAValue) -> str:
        return SIDE if self._has(side, tiny.ReduceOp) else GATHERED

    def _sources(self, value: SSAValue) -> Iterator[SSAValue]:
        """What the factors of a product are read from: of a concat its parts, if others make them,
        until it is known that no kernel reads them so.

        Those are tensors, and what products end with.  What elementwise ops make is joined on its
        way to memory.
        """
        for factor in factors(value):
            parts = [] if value in self.joining else self._parts_read(factor)
            yield from parts or [self.source(factor)]

    def _parts_read(self, factor: SSAValue) -> list[SSAValue]:
        """The parts of a concat that a factor is, if others make them."""
        parts = [self.source(part) for part in joined(self.source(factor), self.same)]
        there = all(self._is_end(part) or not cost.is_computed(part) for part in parts)
        return parts if there else []

    def _readers_in_order(self) -> dict[SSAValue, list[tuple[int, Operation]]]:
        """The ops that read each value, with their places in the program."""
        found: dict[SSAValue, list[tuple[int, Operation]]] = {}
        for place, op in enumerate(self.graph.body.block.ops):
            for operand in dict.fromkeys(self.same.get(o, o) for o in op.operands):
                found.setdefault(operand, []).append((place, op))
        return found

    def _following(
        self,
        value: SSAValue,
        readers: Mapping[SSAValue, Sequence[tuple[int, Operation]]],
        rows: bool = False,
    ) -> list[SSAValue]:
        """What elementwise ops make of a value, in the order of the program.

        With ``rows`` they may reduce it along a short axis, always the same one, and use what that
        gives all along the axis again.
        """
        inside: dict[SSAValue, None] = {value: None}
        space = tiny.tensor_of(value).dims
        along: set[int] = set()
        ahead = dict(readers.get(value, ()))
        places = list(ahead)
        heapify(places)
        while places:
            op = ahead[heappop(places)]
            skipped = isinstance(op, (*MORE, MovementOp, index.ValueOp))
            match op:
                case tiny.ReduceOp() if rows and tiny.tensor_of(op.operand).dims == space:
                    again = along | set(op.axes)
                    skipped = not _is_short(space, again)
                    if not skipped:
                        along = again
                case tiny.ExpandOp() if rows:
                    skipped = tiny.tensor_of(op.result).dims != space
                case _:
                    pass
            if not op.results or skipped or op.results[0] in self.same:
                continue
            inside[op.results[0]] = None
            for place, reader in readers.get(op.results[0], ()):
                if place not in ahead:
                    ahead[place] = reader
                    heappush(places, place)
        return list(inside)[1:]


def _is_short(space: Sequence[Dim], axes: set[int]) -> bool:
    """Whether a product's tile has all of its points along ``axes``, which are one."""
    sizes = [space[axis].constant() for axis in axes]
    return len(sizes) == 1 and sizes[0] is not None and sizes[0] <= WIDTHS[-1]
