"""``region-to-gpu``: which schedules of a graph's kernels run together (S12.4).

A sequence has a kernel for each region of a graph and the conditions of all of them.  Kernels
choose alike where sequences are told apart by names of schedules alone; but which schedule is the
best one differs from kernel to kernel with the sizes.  So the sizes are sampled, and what each
kernel would choose by itself there is a sequence too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from polyc.cost.time import takes
from polyc.dialects.common.dim import AssumptionsAttr
from polyc.dialects.plan import ScheduleOp

SAMPLES = (1, 16, 64, 128, 256, 512, 1000, 1001, 1024, 2048, 4096, 8192, 16384)
"""Sizes at which kernels choose by themselves."""
AROUND = 1024
"""The size of the other symbols while one is sampled."""
MOST = 16
"""Sequences that samples add to a graph at most."""

Chosen = tuple[int, ...]
"""Of each kernel the number of its schedule, in the order of dispatch."""


def together(
    plans: Sequence[Sequence[ScheduleOp]], symbols: Sequence[str], known: AssumptionsAttr
) -> dict[Chosen, str]:
    """The schedules that run together, with a name of their own, in the order of dispatch.

    ``plans`` are the schedules of each kernel.  The first choice whose conditions hold is the one
    to run: where all of one choice's schedules come before another's, so does it.
    """
    by_name = _by_name(plans)
    found = dict(by_name)
    for chosen in _sampled(plans, symbols, known):
        if chosen not in found and len(found) < len(by_name) + MOST:
            variants = (own[i].variant.data for own, i in zip(plans, chosen, strict=True))
            found[chosen] = _free("_".join(dict.fromkeys(variants)), found.values())
    if len(found) == len(by_name):
        return by_name

    def order(chosen: Chosen) -> tuple[int, int, Chosen]:
        """Where no sample was: rather a little slower than with a kernel that takes every size."""
        last = (i == len(own) - 1 > 0 for own, i in zip(plans, chosen, strict=True))
        return sum(last), max(chosen), chosen

    return {chosen: found[chosen] for chosen in sorted(found, key=order)}


def _by_name(plans: Sequence[Sequence[ScheduleOp]]) -> dict[Chosen, str]:
    """For each name of a schedule, what the kernels have of that name.

    A kernel without a schedule of that name has its next one, or its last, which takes all sizes.
    """
    lists = [[plan.variant.data for plan in own] for own in plans]
    names = merged(lists)
    found: dict[Chosen, str] = {}
    for number, name in enumerate(names):
        later = names[number:]
        chosen = tuple(
            next((i for i, own in enumerate(some) if own in later), len(some) - 1) for some in lists
        )
        found.setdefault(chosen, name)
    return found


def _sampled(
    plans: Sequence[Sequence[ScheduleOp]], symbols: Sequence[str], known: AssumptionsAttr
) -> Iterator[Chosen]:
    """What each kernel chooses by itself at the sampled sizes that the assumptions allow."""
    for sizes in _sizes(symbols):
        if not all(fact.holds(sizes) for fact in known.data):
            continue
        chosen = [_first(own, sizes) for own in plans]
        if None not in chosen:
            yield tuple(i for i in chosen if i is not None)


def _first(plans: Sequence[ScheduleOp], sizes: Mapping[str, int]) -> int | None:
    """The first of some schedules whose conditions hold."""
    return next((i for i, plan in enumerate(plans) if takes(plan, sizes)), None)


def _sizes(symbols: Sequence[str]) -> Iterator[dict[str, int]]:
    """All symbols alike, then each by itself."""
    if not symbols:
        return
    for size in SAMPLES:
        yield dict.fromkeys(symbols, size)
    for symbol in symbols if len(symbols) > 1 else ():
        for size in SAMPLES:
            yield {**dict.fromkeys(symbols, AROUND), symbol: size}


def _free(name: str, taken: Iterable[str]) -> str:
    """``name``, with a number after it where another sequence has it."""
    names, found, number = set(taken), name, 2
    while found in names:
        found, number = f"{name}_{number}", number + 1
    return found


def merged(lists: Sequence[Sequence[str]]) -> list[str]:
    """The names of all lists, the longest one's first; another's stand before what follows them.

    So the last name is the last one of all lists that have it, where they agree on an order.
    """
    names = list(max(lists, key=len))
    for some in lists:
        for i, name in enumerate(some):
            if name not in names:
                after = [names.index(later) for later in some[i + 1 :] if later in names]
                names.insert(min(after, default=len(names)), name)
    return names
