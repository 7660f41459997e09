"""What of a region is played back where all of it is too much: a part of its points, or fewer.

An element of an output needs of each axis that nothing is reduced over its own point alone.  So
some points of these axes are as good as all, for the elements that lie at them; each is computed
as playback computes it, over the whole of what is reduced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import lcm
from typing import TYPE_CHECKING, cast

from xdsl.ir import Attribute

from polyc.cost.values import MOVES, Values, read_labels, result_labels
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import ConstantOp, DimOp, KernelOp, ReadOp, ReduceOp
from polyc.dialects.region.types import ValType, val_type
from polyc.tools.check import sizes_text
from polyc.tools.play import Arrays

if TYPE_CHECKING:
    from polyc.playback.agreement import Mismatch
    from polyc.playback.estimate import Estimate
    from polyc.playback.functions import Array

PRODUCTS = 128
"""Products of a contraction in the time that playback takes for one element of a function."""

CHUNK = 1024
"""Points that a sample reduces together at a time."""

COUNTS = (48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
"""Points of an axis, of which a sample has the most that its effort allows."""


def effort(
    kernel: KernelOp, sizes: Mapping[str, int], counts: Mapping[str, int] | None = None
) -> float:
    """The elements that playback computes, each of which takes it about 0.1 microseconds.

    ``counts`` are the points of some axes, where fewer than all are there.
    """
    values = Values(kernel, sizes)
    values.extents.update(counts or {})
    products = {
        op
        for reduce in values.contractions()
        for op in values.behind([reduce.operand])
        if not values.own(op.results[0]) < set(val_type(reduce.operand).labels)
    }
    total = 0.0
    for op in values.reached:
        if isinstance(op, ReduceOp):
            terms = values.points(val_type(op.operand).labels)
            total += terms / PRODUCTS if values.factors(op) is not None else terms
        elif isinstance(op, ReadOp):
            labels = read_labels(op) if op.guard is None else result_labels(op)
            total += values.points(labels) / 4
        elif op not in products and not isinstance(op, (*MOVES, ConstantOp, DimOp)):
            total += values.points(result_labels(op))
    return total


# Fewer points at the asked sizes ----------------------------------------------------------


def sampled(
    kernel: KernelOp,
    sizes: Mapping[str, int],
    tiles: Iterable[int],
    most: float,
    seed: int,
) -> dict[str, Array]:
    """Points of the axes that an element needs its own point of: ends, borders of tiles, others.

    As many of each as an effort of ``most`` allows, and one at least.
    """
    import numpy as np

    from polyc.playback.region import free_axes

    extents = Values(kernel, sizes).extents
    free = free_axes(kernel)
    count = next(
        (n for n in COUNTS if effort(kernel, sizes, {a: min(n, extents[a]) for a in free}) <= most),
        1,
    )
    random = np.random.default_rng([seed, len(free)])
    return {a: _coordinates(extents[a], count, sorted(set(tiles)), random) for a in free}


def _coordinates(extent: int, count: int, tiles: Sequence[int], random: object) -> Array:
    import numpy as np

    draws = cast("np.random.Generator", random)
    if extent <= count:
        return np.arange(extent)
    borders: list[int] = []
    for tile in (t for t in tiles if t < extent):
        last = (extent - 1) // tile * tile
        middle = int(draws.integers(1, last // tile + 1)) * tile
        borders += [tile - 1, tile, last - 1, last, middle - 1, middle]
    draws.shuffle(borders)
    taken = list(dict.fromkeys([extent - 1, 0, *borders[: count // 2]]))[:count]
    while len(taken) < count:
        taken = list(dict.fromkeys([*taken, int(draws.integers(extent))]))
    return np.array(sorted(taken))


@dataclass
class Sample:
    """The elements of a region's outputs at some points, and any other one when it is asked for.

    ``points`` has coordinates of the free axes; an output has its elements at them, and all along
    the axes that are not free.
    """

    kernel: KernelOp
    sizes: Mapping[str, int]
    inputs: Arrays
    points: Mapping[str, Array]
    names: Sequence[str] = ()
    count: int = 0
    _expected: Sequence[Estimate] = ()
    _known: dict[tuple[int, int], Estimate] = field(
        default_factory=dict["tuple[int, int]", "Estimate"]
    )

    def __post_init__(self) -> None:
        self.names = [n.data for n in self.kernel.res_names]
        self._expected = self._played(self.points)
        self.count = sum(e.size for e in self._expected)

    @property
    def where(self) -> str:
        return sizes_text(self.sizes)

    def difference(self, outputs: Arrays) -> tuple[int, Mismatch] | None:
        """The first output, by position, with an element of the sample that does not agree."""
        import numpy as np

        from polyc.playback.agreement import tolerance_check

        for i, (actual, expected) in enumerate(zip(outputs, self._expected, strict=True)):
            at = self.coordinates(i, self.points)
            part = actual.reshape(self._shape(i))[np.ix_(*at)] if at else actual.reshape(())
            found = tolerance_check(part, expected, self._element(i))
            if found is not None:
                index = tuple(int(c[j]) for c, j in zip(at, found.index, strict=True))
                return i, replace(found, index=index)
        return None

    def at(self, output: int, number: int, value: Array) -> Mismatch | None:
        """What differs where an element of an output, by its number in row-major order, is so."""
        import numpy as np

        from polyc.playback.agreement import tolerance_check

        shape = self._shape(output)
        index = tuple(int(i) for i in np.unravel_index(number, shape)) if shape else ()
        key = output, number
        if key not in self._known:
            labels = self._labels(output)
            place = dict(zip(labels, index, strict=True))
            points = {a: np.array([place.get(a, int(at[0]))]) for a, at in self.points.items()}
            whole = self._played(points)[output]
            inside = tuple(0 if a in points else place[a] for a in labels)
            self._known[key] = whole[inside].reshape((1,) * len(shape))
        given = np.asarray(value).reshape((1,) * len(shape))
        found = tolerance_check(given, self._known[key], self._element(output))
        return None if found is None else replace(found, index=index)

    def _played(self, points: Mapping[str, Array]) -> list[Estimate]:
        from polyc.playback.estimate import as_estimate, rounding_freely
        from polyc.playback.reference import known
        from polyc.playback.region import run

        with rounding_freely():
            made = run(self.kernel, known(list(self.inputs)), self.sizes, CHUNK, points)
        return [as_estimate(x) for x in made]

    def _labels(self, output: int) -> tuple[str, ...]:
        return val_type(self.kernel.yield_op.values[output]).labels

    def _shape(self, output: int) -> tuple[int, ...]:
        extents = Values(self.kernel, self.sizes).extents
        return tuple(extents[a] for a in self._labels(output))

    def coordinates(self, output: int, points: Mapping[str, Array]) -> list[Array]:
        import numpy as np

        labels, shape = self._labels(output), self._shape(output)
        return [points.get(a, np.arange(n)) for a, n in zip(labels, shape, strict=True)]

    def _element(self, output: int) -> Attribute:
        return val_type(self.kernel.yield_op.values[output]).element_type


# Smaller sizes of the same class ----------------------------------------------------------


LEAST = 64
"""The least block that all sizes are cut by before some are cut further."""


def smaller(
    kernel: KernelOp, sizes: Mapping[str, int], plans: Sequence[ScheduleOp], most: float
) -> dict[str, int] | None:
    """Smaller sizes that the region assumes, with an effort of ``most``, or None.

    A size that is cut leaves the same rest by a block as before, so that what is a tail stays one,
    of the same width; the block is what all tiles of ``plans`` divide, or else the largest power of
    two that ``most`` allows, and two blocks at least are left, more where there is room.  Before
    that, sizes that only count blocks of threads are cut to a few, which leaves no rest out; and
    where blocks of ``LEAST`` are too much, the smallest sizes first are cut by less.
    """
    whole = lcm(*(n for plan in plans for n in plan.tile_sizes if n > 0))
    counted = _counted(kernel, plans) & set(sizes)
    rest = [s for s in sorted(sizes, key=lambda s: (sizes[s], s)) if s not in counted]
    powers = [1 << i for i in reversed(range(whole.bit_length())) if LEAST <= 1 << i < whole]
    blocks = [dict.fromkeys(rest, modulus) for modulus in (whole, *powers)]
    for symbol in rest:
        blocks += [{**blocks[-1], symbol: modulus} for modulus in (16, 4, 1)]

    def cut(by: Mapping[str, int], times: int, few: int) -> dict[str, int] | None:
        made = {s: min(n, few) if s in counted else n for s, n in sizes.items()}
        for s, modulus in by.items():
            made[s] = min(sizes[s], sizes[s] % modulus + times * modulus)
        held = made != dict(sizes) and all(fact.holds(made) for fact in kernel.facts)
        return made if held and effort(kernel, made) <= most else None

    for by in blocks:
        for few in (17, 8, 4, 3, 2) if counted else (0,):
            found = [made for times in (2, 4, 8, 16, 32) if (made := cut(by, times, few))]
            if found:
                return found[-1]
    return None


def _counted(kernel: KernelOp, plans: Sequence[ScheduleOp]) -> set[str]:
    """The symbols of axes whose points all plans give a block of threads each, and of no others."""
    sizes = {a.label: a.size for a in kernel.iters}
    whole = {label for label in sizes if all(label in plan.bind.data for plan in plans)}
    other: set[str] = set()
    for op in kernel.walk():
        for value in op.results:
            if isinstance(value.type, ValType):
                for axis in value.type.axes:
                    if axis.label not in whole:
                        other |= set(axis.size.symbols())
    return {s for label in whole for s in sizes[label].symbols()} - other
