"""Where a reduction of open sizes has which tile, by the model of time (S8, S11.1, S12.4).

The model says how long what a region has takes at sizes all over the range of the symbols, and
which tile of the space is the fastest at some of them: whole, of a cluster, or shared by all blocks
that fill the chip, whatever the sizes.  The range is then halved, where that saves
the most, again and again, and what saves too little for a kernel is put together again: a part has
the tile that loses the least over its sizes, or what was there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, isqrt, log, prod
from typing import Any

from polyc.cost.device import Device, device_of
from polyc.cost.reductions import (
    Reduction,
    SharedTile,
    reduction_of,
    tiles_of,
    times_of,
    together,
    whole_steps,
)
from polyc.cost.time import TYPICAL, seconds_of, takes
from polyc.cost.values import Values
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.families.facts import fixed_symbols, left_open
from polyc.families.loops.partial_sums import VECTOR, Shared, vectors
from polyc.families.loops.recognise import size_of
from polyc.families.loops.shared_space import open_tiles
from polyc.families.remembered import Remembered, alike
from polyc.rewriting.structure import structure

POINTS = {1: 100, 2: 400, 3: 500, 4: 400}
"""Sizes that are compared, by how many symbols there are; of more symbols nothing is."""

FEWER = 2
"""The fastest tile is looked for at every so many-th of these, and what is found there is compared
at all."""

SPREAD = {
    1: (0.618034,),
    2: (0.754878, 0.569840),
    3: (0.819173, 0.671044, 0.549700),
    4: (0.856675, 0.733892, 0.628707, 0.538597),
}
"""Irrational steps by which points of so many axes lie evenly, wherever one stops (Roberts, 2018:
powers of the root of ``x ** (axes + 1) == x + 1``)."""

SMALLEST, LARGEST = 3, 23
"""Powers of 2 between which a symbol is."""

LEAST, MOST = 1 << 14, 1 << 31
"""Elements that are reduced at the sizes that are compared."""

PARTS = 36
"""Of the range of the sizes, each with a kernel, at most."""

WORTH = 0.002
"""What one more saves at least, of the loss at a size, in the mean over all."""

FAR = 5
"""How much more a loss counts that is e times as large as the time, to one that is small."""

UNIT = 100_000
"""Of a loss that is counted."""

DEPTH, NOTHING = 9, 0.02
"""How often a part is halved in turn, and the loss at a size, in its mean, that is none."""

NEVER = 1e12
"""The time of what is not possible, in ns."""

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class _Feature:
    """A size that conditions are about, its values at all places in order, and at each place which
    of these it is."""

    size: Dim
    values: tuple[int, ...]
    number: tuple[int, ...]

    def between(self, number: int) -> int:
        """The least size that is nearer to a value than to the one before."""
        return isqrt(self.values[number - 1] * self.values[number] - 1) + 1


@dataclass(frozen=True)
class _Lost:
    """What tiles lose at each place, a row of whole numbers each, and what is there without them:
    their sums are the same in any order."""

    tiles: Sequence[SharedTile | None]
    losses: Any


@dataclass(frozen=True)
class _Part:
    """Some of the places, what says so, and what loses the least there: None where that is what
    would run without tiles of the space."""

    places: tuple[int, ...]
    bounds: tuple[tuple[Dim, int, bool], ...]
    """Sizes with bounds, and whether they are at least that, or less."""
    tile: SharedTile | None
    loss: int

    @staticmethod
    def of(
        places: tuple[int, ...], bounds: tuple[tuple[Dim, int, bool], ...], lost: _Lost
    ) -> _Part:
        sums = lost.losses[:, list(places)].sum(axis=1)
        best = int(sums.argmin())
        return _Part(places, bounds, lost.tiles[best], int(sums[best]))

    def facts(self) -> Iterator[Assumption]:
        """What says that sizes are in the part: of several bounds the strictest."""
        strictest: dict[tuple[Dim, bool], int] = {}
        for size, bound, is_least in self.bounds:
            best, key = max if is_least else min, (size, is_least)
            strictest[key] = best(bound, strictest.get(key, bound))
        for (size, is_least), bound in strictest.items():
            if is_least:
                yield Assumption(size - bound, ">=")
            else:
                yield Assumption(Dim.const(bound - 1) - size, ">=")

    def split(self, features: Sequence[_Feature], lost: _Lost) -> tuple[_Part, _Part] | None:
        """The two halves that lose the least, below and above some value of a size."""
        best, at = inf, None
        for feature in features:
            ordered = sorted(self.places, key=feature.number.__getitem__)
            here = lost.losses[:, ordered]
            below = here.cumsum(axis=1).min(axis=0).tolist()
            above = here[:, ::-1].cumsum(axis=1).min(axis=0)[::-1].tolist()
            for cut in range(1, len(ordered)):
                number = feature.number[ordered[cut]]
                if number == feature.number[ordered[cut - 1]]:
                    continue
                if below[cut - 1] + above[cut] < best:
                    best, at = below[cut - 1] + above[cut], (feature, ordered, cut)
        if at is None:
            return None
        feature, ordered, cut = at
        bound = feature.between(feature.number[ordered[cut]])
        return (
            _Part.of(tuple(ordered[:cut]), (*self.bounds, (feature.size, bound, False)), lost),
            _Part.of(tuple(ordered[cut:]), (*self.bounds, (feature.size, bound, True)), lost),
        )


@dataclass
class _Tree:
    """A part, and its halves where there are such."""

    part: _Part
    halves: tuple[_Tree, _Tree] | None = None

    def leaves(self) -> list[_Part]:
        """The parts that it is in the end, in order."""
        if self.halves is None:
            return [self.part]
        return [leaf for half in self.halves for leaf in half.leaves()]

    def nodes(self) -> Iterator[_Tree]:
        """All trees in it with halves, the innermost first."""
        for half in self.halves or ():
            yield from half.nodes()
        if self.halves is not None:
            yield self

    def saved(self) -> float:
        """What each leaf beyond one saves."""
        leaves = self.leaves()
        return (self.part.loss - sum(leaf.loss for leaf in leaves)) / max(1, len(leaves) - 1)


def _grown(part: _Part, features: Sequence[_Feature], lost: _Lost, depth: int = DEPTH) -> _Tree:
    """A part in halves of halves, as long as there is something to lose."""
    if depth == 0 or part.loss <= NOTHING * UNIT * len(part.places):
        return _Tree(part)
    halves = part.split(features, lost)
    if halves is None:
        return _Tree(part)
    one, other = (_grown(half, features, lost, depth - 1) for half in halves)
    return _Tree(part, (one, other))


def _leaves(tree: _Tree, worth: float) -> list[_Part]:
    """The parts of a tree without those that save the least, until there are few and each is worth
    a kernel (Breiman et al., 1984, weakest links)."""
    while nodes := list(tree.nodes()):
        weakest = min(nodes, key=_Tree.saved)
        if len(tree.leaves()) <= PARTS and weakest.saved() >= worth:
            break
        weakest.halves = None
    return tree.leaves()


Make = Callable[[SharedTile, Sequence[Assumption], int], ScheduleOp]
"""Gives the schedule of a tile under conditions, and of how many of its likes it is."""


_Order = list[int | tuple[SharedTile, Sequence[Assumption], int]]
"""What is asked in order of dispatch: plans that there were, by number, and tiles of the space."""


def improved(
    shared: Shared, arch: str, plans: Sequence[ScheduleOp], make: Make
) -> list[ScheduleOp]:
    """The schedules of a reduction of open sizes, in order of dispatch: ``plans`` without those
    that store parts where that saves little, behind tiles of the space that save more.

    What reads by vectors is asked before what reads element by element, as it is.
    """
    given = tuple(structure(plan, ("region",)) for plan in plans)
    key = alike(shared.loops.kernel, arch, ("sym_name",)), given
    order = _ORDERS.of(key, lambda: _order(shared, arch, plans))
    return [plans[one] if isinstance(one, int) else make(*one) for one in order]


_ORDERS = Remembered[_Order]()


def _order(shared: Shared, arch: str, plans: Sequence[ScheduleOp]) -> _Order:
    found: _Order = []
    left = list(range(len(plans)))
    for vector, facts in vectors(shared):
        group = [n for n in left if (plans[n].integer("vectorize") > 1) == (vector > 1)]
        left = [n for n in left if n not in group]
        few, behind = ({n: plans[n] for n in some} for some in (group, left))
        found += _Dispatch(shared, vector, facts, arch, few, behind).order()
    return [*found, *left]


class _Dispatch:
    """What is asked in order of reads by vectors of one length, and what it takes at each place."""

    def __init__(
        self,
        shared: Shared,
        vector: int,
        facts: Sequence[Assumption],
        arch: str,
        plans: Mapping[int, ScheduleOp],
        behind: Mapping[int, ScheduleOp],
    ) -> None:
        self._shared, self._facts = shared, facts
        self._plans, self._behind, self._all = plans, behind, {**plans, **behind}
        self._device = device_of(arch)
        places = list(_places(shared, vector, facts))
        fastest = (_fastest(problem, vector, arch, self._device) for _, problem in places[::FEWER])
        self._tiles = list(dict.fromkeys(tile for tile in fastest if tile is not None))
        places = places if self._tiles else []
        self._places = [values for values, _ in places]
        self._takers = [
            {n for n, plan in self._all.items() if takes(plan, place.sizes)}
            for place in self._places
        ]
        """The plans that take each place."""
        # A list of each place, with a time of each tile.
        times = [_times(problem, self._tiles, self._device) for _, problem in places]
        self._of_tiles = list(zip(*times, strict=True))
        self._least = [min(one) for one in times]
        self._times: dict[tuple[int, int], float] = {}

    def order(self) -> _Order:
        if not self._places:
            return list(self._plans)
        found, made = _Order(), Counter[SharedTile]()
        parts = self._parts()
        kept = self._worth([i for part in parts if part.tile is None for i in part.places])
        for part in parts:
            if part.tile is not None:
                facts = [*self._facts, *part.facts(), *enough(self._shared, part.tile)]
                when = left_open(self._shared.loops.kernel, facts)
                if when is not None:
                    made[part.tile] += 1
                    found.append((part.tile, when, made[part.tile]))
        # What is left is asked last, and has the names that plans of users know.
        return [*found, *kept]

    def _worth(self, places: Sequence[int]) -> list[int]:
        """The plans without those that store parts and save little beside the others, at the places
        that have no tile."""
        kept = list(self._plans)
        loss = sum(self._losses(kept, places))
        for number in reversed(list(self._plans)):
            if self._plans[number].stores_sums:
                others = [one for one in kept if one != number]
                without = sum(self._losses(others, places))
                if without < loss + WORTH * UNIT * len(self._places):
                    kept, loss = others, without
        return kept

    def _parts(self) -> list[_Part]:
        """The range of the sizes in parts."""
        import numpy as np

        rows = [
            [_loss(*one) for one in zip(times, self._least, strict=True)]
            for times in self._of_tiles
        ]
        without = self._losses(list(self._plans), range(len(self._places)))
        lost = _Lost((*self._tiles, None), np.array([*rows, without]))
        features = _features(self._shared, [place.sizes for place in self._places])
        whole = _Part.of(tuple(range(len(self._places))), (), lost)
        return _leaves(_grown(whole, features, lost), WORTH * UNIT * len(self._places))

    def _losses(self, plans: Sequence[int], places: Sequence[int]) -> list[int]:
        """What the first plan that takes each of these places loses there."""
        order = [*plans, *self._behind]
        first = (next((n for n in order if n in self._takers[place]), None) for place in places)
        return [
            0 if plan is None else _loss(self._time(plan, place), self._least[place])
            for place, plan in zip(places, first, strict=True)
        ]

    def _time(self, plan: int, place: int) -> float:
        """The time of a plan at a place, in ns."""
        key = plan, place
        if key not in self._times:
            self._times[key] = seconds_of(self._places[place], self._all[plan]) * 1e9
        return self._times[key]


def enough(shared: Shared, tile: SharedTile) -> Iterator[Assumption]:
    """That there are blocks for all tiles that they share."""
    if tile.blocks:
        yield Assumption(Dim.const(tile.blocks) - shared.tiles(tile.rows, tile.columns), ">=")


def _times(problem: Reduction, several: Sequence[SharedTile], device: Device) -> list[float]:
    """The time of each tile for a problem, in ns, as its kernel has it: ``NEVER`` where there are
    more tiles than blocks to share them."""
    import numpy as np

    tiles = together(several)
    many = tiles_of(problem, tiles)
    times = times_of(problem, spread_all(problem, tiles), device)
    return np.where((tiles.blocks > 0) & (many > tiles.blocks), NEVER, times).tolist()


def spread_all(problem: Reduction, tiles: Any) -> Any:
    """Several tiles (``together``) as ``spread`` has each of them."""
    import numpy as np

    steps = np.maximum(1, whole_steps(problem, tiles))
    each = tiles.blocks // np.maximum(1, tiles_of(problem, tiles))
    parts = -(-steps // -(-steps // np.minimum(np.maximum(1, each), steps)))
    return tiles._replace(parts=np.where(tiles.blocks > 0, parts, tiles.parts))


def _loss(taken: float, best: float) -> int:
    """What a time loses to the best, in ``UNIT`` parts: the logarithm of how much more it is, and
    more of much."""
    one = log(max(taken, best) / best)
    return round((one + FAR * one * one) * UNIT)


def _places(
    shared: Shared, vector: int, facts: Sequence[Assumption]
) -> Iterator[tuple[Values, Reduction]]:
    """Sizes all over what the region's assumptions and ``facts`` allow, with what is reduced."""
    kernel = shared.loops.kernel
    known = fixed_symbols(kernel)
    names = [name for name in kernel.symbol_names if name not in known]
    whole = Values(kernel, dict.fromkeys(kernel.symbol_names, TYPICAL))
    for point in _points(len(names), odd=vector == 1):
        sizes = {**known, **dict(zip(names, point, strict=True))}
        if not all(fact.holds(sizes) for fact in (*kernel.assumptions.data, *facts)):
            continue
        values = whole.at(sizes)
        problem = reduction_of(values, shared.space.column, shared.space.is_apart)
        if problem is None:
            continue
        points = prod((problem.outer, problem.kept, problem.inner, problem.second, problem.others))
        if LEAST <= points <= MOST:
            yield values, problem


def _points(axes: int, odd: bool) -> Iterator[tuple[int, ...]]:
    """Sizes of so many symbols, evenly over the powers of 2: multiples of a vector, or ``odd``."""
    for number in range(1, POINTS.get(axes, 0) + 1):
        shares = (number * step % 1 for step in SPREAD[axes])
        powers = (2.0 ** (SMALLEST + (LARGEST - SMALLEST) * share) for share in shares)
        yield tuple(max(1, round(power / VECTOR)) * VECTOR - odd for power in powers)


@lru_cache(4096)
def _fastest(problem: Reduction, vector: int, arch: str, device: Device) -> SharedTile | None:
    """The fastest tile of a reduction; None where the space has none."""
    several = open_tiles(problem, vector, arch)
    if several is None:
        return None
    at = int(times_of(problem, several, device).argmin())
    fastest = SharedTile(*(field[at].item() for field in several))
    return fastest._replace(parts=1) if fastest.blocks else fastest


def _features(shared: Shared, places: Sequence[Sizes]) -> list[_Feature]:
    """What tells sizes apart: results along a tile, all results, and the reduced points."""
    *_, row, last = shared.space.sizes
    reduce = shared.reductions[0]
    sizes = [
        row if shared.space.column is None else last,
        prod(shared.space.sizes, start=Dim.const(1)),
        size_of(reduce, shared.inner),
        prod(shared.sizes, start=Dim.const(1)),
        prod((*shared.space.sizes, *shared.sizes), start=Dim.const(1)),
    ]
    found: list[_Feature] = []
    for size in dict.fromkeys(sizes):
        values = [size.evaluate(place) for place in places]
        classes = tuple(sorted(set(values)))
        if len(classes) > 1:
            of = {value: number for number, value in enumerate(classes)}
            found.append(_Feature(size, classes, tuple(of[value] for value in values)))
    return found
