"""Which plans of wgmma an attention gets: the fastest by the model of time (S8, S11.1).

Of known sizes that is one.  Of open ones a few share the sizes, as products' do
(``families/ranking.py``): beside the one that is always there those that lose the least over
a grid of sizes, each where none behind it is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import log, prod
from typing import TypeVar

from xdsl.ir.affine import AffineExpr

from polyc.cost.attention import Sight, Tiles, at_memory, evenness, holds, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.region import KernelOp
from polyc.families.attention.recognise import StreamingAttention
from polyc.families.facts import fixed_symbols, where_fastest

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 16384)
"""Queries and keys at which kernels are compared, as many of both."""

ROWS = (1 << 14, 1 << 17, 1 << 20)
"""Queries in all, of an open batch."""

MOST_KERNELS = 6
"""Kernels of wgmma that an attention of open sizes gets."""

WORTH = 0.002
"""The least share of the mean time that a kernel more has to save."""

QUERY = "first query"
"""A name for a tile's first query, which is no symbol's."""


def sight_of(attention: StreamingAttention) -> Sight[Dim]:
    """The sizes of an attention, and which keys its queries see."""
    visible, names = attention.score.visible, attention.kernel.symbol_names
    symbols = [AffineExpr.symbol(i) for i in range(len(names) + 1)]

    def bound(
        bounds: Callable[[int], Sequence[AffineExpr]],
    ) -> Callable[[int, Dim], Dim] | None:
        if not bounds(1):
            return None
        found: dict[int, Dim] = {}

        def at(rows: int, query: Dim) -> Dim:
            if rows not in found:
                expr = bounds(rows)[0].replace_dims_and_symbols([symbols[-1]], symbols[:-1])
                found[rows] = Dim.from_affine(expr, [*names, QUERY])
            return found[rows].substitute({QUERY: query})

        return at

    return Sight(
        prod(map(attention.size, attention.batch), start=Dim.const(1)),
        attention.size(attention.m),
        attention.size(attention.n),
        *attention.tile_features,
        bound(visible.end_keys),
        bound(visible.first_keys),
        attention.shared is None,
    )


def at_sizes(sight: Sight[Dim], sizes: Mapping[str, int]) -> Sight[int]:
    """The same at sizes of all symbols."""

    def bound(of: Callable[[int, Dim], Dim] | None) -> Callable[[int, int], int] | None:
        if of is None:
            return None
        return lambda rows, query: of(rows, Dim.const(query)).evaluate(sizes)

    heads, queries, keys = (n.evaluate(sizes) for n in (sight.heads, sight.queries, sight.keys))
    ends = bound(sight.end), bound(sight.first)
    return Sight(heads, queries, keys, sight.depth, sight.width, *ends, sight.apart)


Plan = TypeVar("Plan", bound=Tiles)


def is_known(attention: StreamingAttention) -> bool:
    """Whether the sizes of an attention are numbers, by themselves or by facts about symbols."""
    return fixed_symbols(attention.kernel).keys() >= set(attention.kernel.symbol_names)


def ordered(attention: StreamingAttention, arch: str, plans: Sequence[Plan]) -> list[Plan]:
    """Plans of an attention of known sizes, the fastest first."""
    known = at_sizes(sight_of(attention), fixed_symbols(attention.kernel))
    return sorted(plans, key=lambda plan: order_of(known, plan, ARCHS[arch].multiprocessors))


def order_of(sight: Sight[int], plan: Tiles, chip: int) -> tuple[int, tuple[int, int], int]:
    """What plans are sorted by: their times, and those that memory alone bounds by how evenly they
    ask for it."""
    time, least = nanoseconds(sight, plan, chip), at_memory(sight)
    return (time, (0, 0), time) if time > least else (least, evenness(plan), time)


def chosen(attention: StreamingAttention, arch: str, plans: Sequence[Plan]) -> list[Plan]:
    """Those of ``plans`` that an attention gets, in order of dispatch.

    Of known sizes that is the fastest one.  Of open ones the first plan is among them, and is the
    last that may run.
    """
    if len(plans) == 1:
        return list(plans)
    if is_known(attention):
        return ordered(attention, arch, plans)[:1]
    chip, sight = ARCHS[arch].multiprocessors, sight_of(attention)
    points = [at_sizes(sight, point) for point in _points(attention.kernel, sight)]
    times = {plan: [log(nanoseconds(one, plan, chip)) for one in points] for plan in plans}
    found, best = [plans[0]], times[plans[0]]
    while len(found) < MOST_KERNELS:
        new = min(times, key=lambda plan: sum(map(min, times[plan], best)))
        if sum(best) - sum(map(min, times[new], best)) < WORTH * len(best):
            break
        found.append(new)
        best = list(map(min, best, times[new]))
    return found[::-1]


def ahead(
    attention: StreamingAttention, arch: str, every: Sequence[Plan], plans: Sequence[Plan]
) -> tuple[Plan, tuple[Assumption, ...]] | None:
    """The one of ``every`` plan that runs ahead of the chosen ``plans`` of open sizes, and where.

    It asks memory for its bytes most evenly, and runs where memory is all that it waits for, or
    where it is faster than the others.  None where memory never is, or it is one of them.
    """
    first = min(every, key=evenness)
    if is_known(attention) or first in plans:
        return None
    chip, sight = ARCHS[arch].multiprocessors, sight_of(attention)
    points = [at_sizes(sight, point) for point in _points(attention.kernel, sight)]
    if all(nanoseconds(one, first, chip) > at_memory(one) for one in points):
        return None
    mine = nanoseconds(sight, first, chip)
    # All of the others are slower, or memory is: each counts 1, and memory as much as all of them.
    slower = [holds(nanoseconds(sight, one, chip) - mine) for one in plans]
    count = sum(slower, start=holds(at_memory(sight) - mine) * len(slower))
    return first, (Assumption(count - len(slower), ">="),)


def _points(kernel: KernelOp, sight: Sight[Dim]) -> list[dict[str, int]]:
    """Sizes of a region's symbols at which its plans are compared, as its assumptions allow."""
    fixed = fixed_symbols(kernel)
    of_lengths = [s for size in (sight.queries, sight.keys) for s in size.symbols()]
    lengths = [s for s in dict.fromkeys(of_lengths) if s not in fixed]
    batch = [s for s in kernel.symbol_names if s not in fixed and s not in lengths]
    found: list[dict[str, int]] = []
    for rows, length in product(ROWS if batch else (0,), LENGTHS if lengths else (1,)):
        point = {**fixed, **dict.fromkeys(batch, 1), **dict.fromkeys(lengths, length)}
        if batch:
            each = sight.heads.evaluate(point) * sight.queries.evaluate(point)
            point[batch[0]] = max(1, rows // max(1, each))
        found.append(point)
    held = [p for p in found if all(fact.holds(p) for fact in kernel.assumptions.data)]
    return held or found


def conditions(
    attention: StreamingAttention, plans: Sequence[Tiles], arch: str
) -> list[tuple[Assumption, ...]]:
    """Where each plan of several runs: where none behind it is faster."""
    chip, sight = ARCHS[arch].multiprocessors, sight_of(attention)
    return where_fastest([nanoseconds(sight, plan, chip) for plan in plans])
