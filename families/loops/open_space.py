"""Where a reduction of open sizes has which tile, by the model of time (S8, S11.1, S12.4).

The model says how long what a region has takes at sizes all over the range of the symbols, and
which tile of the space is the fastest at each of them.  The range is then parted, where that saves
the most, again and again as long as it is worth a kernel: a part has the tile that loses the least
over its sizes, or what was there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from math import isqrt, log, prod

from polyc.cost.device import device_of
from polyc.cost.reductions import Reduction, SharedTile, nanoseconds, reduction_of
from polyc.cost.time import chosen, modelled
from polyc.cost.values import Values
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.families.facts import fixed_symbols, left_open
from polyc.families.loops.partial_sums import Shared, vectors
from polyc.families.loops.recognise import size_of
from polyc.families.loops.shared_space import tiles

GRIDS = {
    1: (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 65536, 1 << 18, 1 << 20, 1 << 23),
    2: (8, 24, 64, 160, 512, 1536, 5120, 24576, 131072, 1 << 20, 1 << 23),
    3: (8, 32, 256, 4096, 1 << 17, 1 << 22),
    4: (8, 256, 1 << 17),
}
"""Values of each symbol, by how many there are, one less where no vector divides them; of more
symbols nothing is compared."""

LEAST, MOST = 1 << 14, 1 << 31
"""Elements that are reduced at the sizes that are compared."""

PARTS = 12
"""Of the range of the sizes, each with a kernel, at most."""

WORTH = 0.01
"""What one more saves at least, of the loss at a size, in the mean over all."""

FAR = 4
"""How much more a loss counts that is e times as large as the time, to one that is small."""

THREADS = (256, 1024)
"""Threads of a block of the tiles that are compared."""

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


_Lost = dict[SharedTile | None, list[float]]
"""What tiles lose at each place, and what is there without them."""


@dataclass(frozen=True)
class _Part:
    """Some of the places, what says so, and what loses the least there: None where that is what
    would run without tiles of the space."""

    places: tuple[int, ...]
    bounds: tuple[tuple[Dim, int, bool], ...]
    """Sizes with bounds, and whether they are at least that, or less."""
    tile: SharedTile | None
    loss: float

    @staticmethod
    def of(
        places: tuple[int, ...], bounds: tuple[tuple[Dim, int, bool], ...], lost: _Lost
    ) -> _Part:
        sums = {tile: sum(map(found.__getitem__, places)) for tile, found in lost.items()}
        tile = min(sums, key=lambda one: sums[one])
        return _Part(places, bounds, tile, sums[tile])

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
        best, at = self.loss, None
        for feature in features:
            ordered = sorted(self.places, key=feature.number.__getitem__)
            below = _least_so_far(ordered, lost)
            above = _least_so_far(ordered[::-1], lost)[::-1]
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


def _least_so_far(ordered: Sequence[int], lost: _Lost) -> list[float]:
    """What loses the least over the first of some places, for each number of them."""
    sums = [accumulate(map(found.__getitem__, ordered)) for found in lost.values()]
    return [min(each) for each in zip(*sums, strict=True)]


Make = Callable[[SharedTile, Sequence[Assumption], int], ScheduleOp]
"""Gives the schedule of a tile under conditions, and of how many of its likes it is."""


def improved(
    shared: Shared, arch: str, plans: Sequence[ScheduleOp], make: Make
) -> list[ScheduleOp]:
    """The schedules of a reduction of open sizes, in order of dispatch: ``plans`` without those
    that store parts where that saves little, behind tiles of the space that save more.

    What reads by vectors is asked before what reads element by element, as it is.
    """
    found: list[ScheduleOp] = []
    left = list(plans)
    for vector, facts in vectors(shared):
        group = [plan for plan in left if (plan.integer("vectorize") > 1) == (vector > 1)]
        left = [plan for plan in left if plan not in group]
        found += _Dispatch(shared, vector, facts, arch, group, left).improved(make)
    return [*found, *left]


class _Dispatch:
    """What is asked in order of reads by vectors of one length, and what it takes at each place."""

    def __init__(
        self,
        shared: Shared,
        vector: int,
        facts: Sequence[Assumption],
        arch: str,
        plans: Sequence[ScheduleOp],
        behind: Sequence[ScheduleOp],
    ) -> None:
        self._shared, self._facts = shared, facts
        self._plans, self._behind = plans, behind
        self._device = device_of(arch)
        places = [
            (sizes, problem, best)
            for sizes, problem in _places(shared, vector, facts)
            if (best := _fastest(problem, vector, arch)) is not None
        ]
        self._places = [sizes for sizes, _, _ in places]
        self._problems = [problem for _, problem, _ in places]
        self._least = [time for _, _, (time, _) in places]
        self._tiles = list(dict.fromkeys(tile for _, _, (_, tile) in places))
        self._times: dict[tuple[str, int], float] = {}

    def improved(self, make: Make) -> list[ScheduleOp]:
        if not self._places:
            return list(self._plans)
        kept, found = self._worth(), list[ScheduleOp]()
        made = Counter[SharedTile]()
        for part in self._parts(kept):
            if part.tile is not None:
                when = left_open(self._shared.loops.kernel, [*self._facts, *part.facts()])
                if when is not None:
                    made[part.tile] += 1
                    found.append(make(part.tile, when, made[part.tile]))
        # What is left is asked last, and has the names that plans of users know.
        return [*found, *kept]

    def _worth(self) -> list[ScheduleOp]:
        """The plans without those that store parts and save little beside the others."""
        kept = list(self._plans)
        loss = sum(self._losses(kept))
        for plan in reversed(self._plans):
            if plan.stores_sums:
                others = [one for one in kept if one is not plan]
                without = sum(self._losses(others))
                if without < loss + WORTH * len(self._places):
                    kept, loss = others, without
        return kept

    def _parts(self, plans: Sequence[ScheduleOp]) -> list[_Part]:
        """The range of the sizes in parts."""
        lost: _Lost = {tile: self._lost(tile) for tile in self._tiles}
        lost[None] = self._losses(plans)
        features = _features(self._shared, self._places)
        parts = [_Part.of(tuple(range(len(self._places))), (), lost)]
        halves = {parts[0]: parts[0].split(features, lost)}
        while len(parts) < PARTS:
            saved, part = 0.0, parts[0]
            for one in parts:
                if (two := halves[one]) and one.loss - two[0].loss - two[1].loss > saved:
                    saved, part = one.loss - two[0].loss - two[1].loss, one
            two = halves[part]
            if two is None or saved < WORTH * len(self._places):
                break
            parts = [*(one for one in parts if one is not part), *two]
            halves |= {half: half.split(features, lost) for half in two}
        return parts

    def _losses(self, plans: Sequence[ScheduleOp]) -> list[float]:
        """What the first plan that takes each place loses there."""
        first = [chosen((*plans, *self._behind), sizes) for sizes in self._places]
        return [
            0.0 if plan is None else _loss(self._time(plan, number), self._least[number])
            for number, plan in enumerate(first)
        ]

    def _time(self, plan: ScheduleOp, number: int) -> float:
        """The time of a plan at a place, in ns."""
        key = plan.variant.data, number
        if key not in self._times:
            kernel, sizes = self._shared.loops.kernel, self._places[number]
            self._times[key] = modelled(kernel, plan, sizes).seconds * 1e9
        return self._times[key]

    def _lost(self, tile: SharedTile) -> list[float]:
        """What a tile loses at each place."""
        times = (nanoseconds(problem, tile, self._device) for problem in self._problems)
        return [_loss(time, least) for time, least in zip(times, self._least, strict=True)]


def _loss(taken: float, best: float) -> float:
    """What a time loses to the best: the logarithm of how much more it is, and more of much."""
    one = log(max(taken, best) / best)
    return one + FAR * one * one


def _places(
    shared: Shared, vector: int, facts: Sequence[Assumption]
) -> Iterator[tuple[Sizes, Reduction]]:
    """Sizes all over what the region's assumptions and ``facts`` allow, with what is reduced."""
    kernel = shared.loops.kernel
    known = fixed_symbols(kernel)
    names = [name for name in kernel.symbol_names if name not in known]
    grid = GRIDS.get(len(names), ()) if names else (1,)
    odd = () if vector > 1 else tuple(value - 1 for value in grid)
    for values in product(odd or grid, repeat=len(names)):
        sizes = {**known, **dict(zip(names, values, strict=True))}
        if not all(fact.holds(sizes) for fact in (*kernel.assumptions.data, *facts)):
            continue
        problem = reduction_of(Values(kernel, sizes), shared.space.column)
        if problem is None:
            continue
        points = prod((problem.outer, problem.kept, problem.inner, problem.second, problem.others))
        if LEAST <= points <= MOST:
            yield sizes, problem


@lru_cache(1024)
def _fastest(problem: Reduction, vector: int, arch: str) -> tuple[float, SharedTile] | None:
    """The fastest tile of a reduction with its time in ns; None where the space has none."""
    device = device_of(arch)
    few = (tile for tile in tiles(problem, vector, arch) if tile.threads in THREADS)
    times = ((nanoseconds(problem, tile, device), tile) for tile in few)
    return min(times, key=lambda one: one[0], default=None)


def _features(shared: Shared, places: Sequence[Sizes]) -> list[_Feature]:
    """What tells sizes apart: results along a tile, all results, and the reduced points."""
    *_, row, last = shared.space.sizes
    reduce = shared.reductions[0]
    sizes = [
        row if shared.space.column is None else last,
        prod(shared.space.sizes, start=Dim.const(1)),
        size_of(reduce, shared.inner),
        prod(shared.sizes, start=Dim.const(1)),
    ]
    found: list[_Feature] = []
    for size in dict.fromkeys(sizes):
        values = [size.evaluate(place) for place in places]
        classes = tuple(sorted(set(values)))
        if len(classes) > 1:
            of = {value: number for number, value in enumerate(classes)}
            found.append(_Feature(size, classes, tuple(of[value] for value in values)))
    return found
