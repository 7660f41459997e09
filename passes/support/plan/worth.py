"""Which schedules that families propose are worth a kernel, by the model of time (S11.1).

A product whose sums go through memory has a second kernel, and more than one way to be parted: a
family proposes those that suit the chip, and the model compares them with what would run without.
Of plain products and convolutions the family has asked the model of the whole space already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from polyc.cost.time import chosen, seconds_of
from polyc.cost.values import Values
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv import schedules as conv
from polyc.families.facts import pointers_promised
from polyc.families.loops import schedules as loops
from polyc.families.matmul import schedules as matmul

SIZES = (64, 1024, 16, 256, 4096, 16384, 65536, 4099)
"""What symbols are taken as, one after another, where conditions allow."""

FEW = (1, 4096, 16, 1024, 64, 16384, 256)
"""The same for tiles of few queries: a token or two, and caches of any length."""

TRIED = 512
"""Choices of sizes that are tried for a schedule's conditions."""

ASKED = 3
"""Of those that they allow, at how many the model is asked."""

SURE = 0.9
"""The share of the other's time that is worth a second kernel, and less for sure by the model."""

SAME = 1.02
"""The same of tiles for few queries beside others of these: some of them are worth it."""


def worth(kernel: KernelOp, plans: Sequence[ScheduleOp]) -> list[ScheduleOp]:
    """The schedules without those whose sums go through memory where that is not the faster way.

    Of known sizes at most one of them stays, the fastest; of open ones those that are faster at
    all sizes that the model is asked about, or, for few queries, as fast where some are faster.
    """
    weighed = [plan.weighed for plan in plans]
    is_ranked = any(family.is_ranked(kernel, plans[0]) for family in (matmul, conv, loops))
    if all(weighed) or not any(weighed) or is_ranked:
        return list(plans)
    kept, times = list[ScheduleOp](), _Times(kernel)
    shares: dict[ScheduleOp, float] = {}
    few: list[ScheduleOp] = []
    for number, plan in enumerate(plans):
        if not plan.weighed:
            kept.append(plan)
            continue
        before = [one for one in kept if kernel.symbol_names or not one.weighed]
        others = [one for one in plans[number + 1 :] if not one.weighed]
        share = _share(times, plan, before, others)
        if plan.of_few_queries and kernel.symbol_names and (share is None or share < SAME):
            # Which of them is the fastest their own conditions say.
            few.append(plan)
            kept.append(plan)
        if share is not None and share < SURE:
            shares[plan] = share
            if plan not in kept:
                kept.append(plan)
    if not any(plan in shares for plan in few):
        kept = [plan for plan in kept if plan not in few]
    if not kernel.symbol_names and shares:
        fastest = min(shares, key=lambda plan: shares[plan])
        kept = [plan for plan in kept if plan is fastest or plan not in shares]
    first = kept[0]
    if first in shares and not first.when.data and pointers_promised(kernel, first.widest):
        return [first]
    return kept


class _Times:
    """What schedules of a region take at sizes, by the model, which is asked once of each."""

    def __init__(self, kernel: KernelOp) -> None:
        self.kernel = kernel
        self._values: dict[tuple[int, ...], Values] = {}
        self._seconds: dict[tuple[ScheduleOp, tuple[int, ...]], float] = {}

    def seconds(self, plan: ScheduleOp, sizes: Mapping[str, int]) -> float:
        """The time of a schedule."""
        point = tuple(sizes.values())
        if point not in self._values:
            any_of = next(iter(self._values.values()), None)
            new = Values(self.kernel, sizes) if any_of is None else any_of.at(sizes)
            self._values[point] = new
        if (plan, point) not in self._seconds:
            self._seconds[plan, point] = seconds_of(self._values[point], plan)
        return self._seconds[plan, point]


def _share(
    times: _Times,
    plan: ScheduleOp,
    before: Sequence[ScheduleOp],
    others: Sequence[ScheduleOp],
) -> float | None:
    """The largest share of the others' time that a schedule takes, at sizes that none before it
    takes; None where it never runs.
    """
    found: list[float] = []
    left = (sizes for sizes in _sizes(times.kernel, plan) if chosen(before, sizes) is None)
    for sizes in islice(left, ASKED):
        other = chosen(others, sizes)
        if other is None:
            return None
        mine, theirs = (times.seconds(one, sizes) for one in (plan, other))
        found.append(mine / theirs if theirs else 1.0)
    return max(found, default=None)


def _sizes(kernel: KernelOp, plan: ScheduleOp) -> Iterator[Mapping[str, int]]:
    """Sizes that a region's assumptions and a schedule's conditions allow."""
    names = kernel.symbol_names
    facts = (*kernel.assumptions.data, *plan.when.data)
    tried = FEW if plan.of_few_queries else SIZES
    for values in islice(product(tried, repeat=len(names)), TRIED):
        sizes = dict(zip(names, values, strict=True))
        if all(fact.holds(sizes) for fact in facts):
            yield sizes
