"""Which plans of the space a product gets: the fastest by the model of time (S8, S11.1).

Of known sizes that is one.  Of open ones a few kernels share the sizes: beside those that are
always there the ones that lose the least over a grid of sizes, chosen one after another.  Each runs
where the model says that none of those behind it is faster, so that the first whose conditions hold
is the fastest, and the last of them takes what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from heapq import heapify, heappop, heapreplace
from itertools import repeat
from math import inf, log, prod
from operator import sub
from typing import Any

from polyc.cost.products import STEP, Tiles, nanoseconds, over_grid
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.families.matmul.recognise import Contraction
from polyc.families.matmul.space import MOST_COLUMNS, Tiling, space

GRID = (16, 128, 512, 1536, 4096, 16384)
"""Sizes at which kernels for open ones are compared."""

BATCHES = (1, 32)
"""Matrices of a batch whose number is open."""

MOST_KERNELS = 6
"""Kernels that a product of open sizes gets from the space."""

MOST_PADDED = 3
"""The same of its operands' copies."""

NEAR = 0.02
"""The logarithm of what a plan takes of the fastest's time somewhere, to be one of a few."""

WORTH = 0.01
"""The least share of the mean time that a kernel more has to save."""

LEAST_STEPS = 4
"""Steps of a part of a tile at least."""

CROWDED_COLUMNS = 128
"""Columns of a tile at most where an epilogue holds much beside its sums."""

Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes of a batch, of rows, columns and depth, at which plans are compared."""

Known = tuple[int | None, ...]
"""The sizes of a batch, of rows, columns and depth; None for open ones."""


def sizes_of(gemm: Contraction) -> tuple[Dim, Dim, Dim, Dim]:
    """Matrices, rows, columns and depth of a product."""
    batch = prod(map(gemm.size, gemm.batch), start=Dim.const(1))
    return batch, gemm.size(gemm.m), gemm.size(gemm.n), gemm.size(gemm.k)


@dataclass(frozen=True)
class Held:
    """What threads hold beside the sums of a product: an epilogue that is ``crowded``; and whether
    rows of its output are ``loose``, which threads store through shared memory.
    """

    crowded: bool = False
    loose: bool = False

    def space(self, arch: str) -> tuple[Tiling, ...]:
        """The plans whose sums have the registers that they take."""
        most = (CROWDED_COLUMNS if self.crowded else MOST_COLUMNS) // 2
        return space(arch, most=most, loose=self.loose)


def seconds(gemm: Contraction, plan: Tiles, arch: str) -> Dim:
    """The modelled time of a product under a plan, in ns."""
    return nanoseconds(sizes_of(gemm), plan, ARCHS[arch].multiprocessors)


def ranked(
    known: tuple[int, int, int, int], arch: str, held: Held = Held()
) -> list[tuple[int, Tiling]]:
    """The plans of known sizes with their times, the fastest first."""
    batch, m, n, k = known
    chip, steps = ARCHS[arch].multiprocessors, -(-k // STEP)
    found: dict[Tiling, int] = {}
    for plan in held.space(arch):
        if plan.summed:
            # All numbers of parts are there: as many as fill the chip once, or twice.
            tiles = batch * -(-m // plan.rows) * -(-n // plan.columns)
            for waves in (1, 2):
                parts = min(chip * waves // max(1, tiles), steps // LEAST_STEPS)
                if parts < 2:
                    continue
                parts = -(-steps // -(-steps // parts))
                own = replace(plan, parts=parts)
                found[own] = nanoseconds(known, own, chip)
        elif plan.parts == 1 or steps >= plan.parts * LEAST_STEPS:
            found[plan] = nanoseconds(known, plan, chip)
    return sorted(((time, plan) for plan, time in found.items()), key=lambda one: one[0])


def known_sizes(gemm: Contraction) -> Known:
    """The sizes of a product that are constants, or that the facts about symbols make such."""
    fixed: dict[str, int] = {}
    for fact in gemm.kernel.assumptions.data:
        names = fact.expr.symbols()
        if fact.kind == "==" and len(names) == 1:
            size = (Dim.sym(names[0]) - fact.expr, Dim.sym(names[0]) + fact.expr)
            value = next((v for one in size if (v := one.constant()) is not None), None)
            if value is not None:
                fixed[names[0]] = value
    return tuple(
        size.evaluate(fixed) if fixed.keys() >= set(size.symbols()) else None
        for size in sizes_of(gemm)
    )


def fastest(gemm: Contraction, arch: str, held: Held, count: int) -> list[Tiling]:
    """So many plans of a product of known sizes, of a tile each, the fastest first; none of a
    product of open ones.
    """
    known = known_sizes(gemm)
    sizes = [size for size in known if size is not None]
    if len(sizes) < len(known):
        return []
    batch, m, n, k = sizes
    found: dict[tuple[int, ...], Tiling] = {}
    for _, plan in ranked((batch, m, n, k), arch, held):
        found.setdefault((plan.rows, plan.columns, plan.parts), plan)
    return list(found.values())[:count]


def chosen(gemm: Contraction, arch: str, held: Held, padded: bool = False) -> list[Tiling]:
    """The plans that a product gets, in order of dispatch; ``padded`` for those of its operands'
    copies, which are fewer.
    """
    if one := fastest(gemm, arch, held, 1):
        return one
    sizes, known = sizes_of(gemm), known_sizes(gemm)
    axes: Any = tuple(
        (value,) if value is not None else _allowed(gemm, size, GRID if i else BATCHES)
        for i, (size, value) in enumerate(zip(sizes, known, strict=True))
    )
    return list(_cover(axes, arch, held, padded))


def _allowed(gemm: Contraction, size: Dim, values: Sequence[int]) -> tuple[int, ...]:
    """The values that the facts about a symbol alone leave to it."""
    if len(names := size.symbols()) != 1 or size != Dim.sym(names[0]):
        return tuple(values)
    facts = [f for f in gemm.kernel.assumptions.data if f.expr.symbols() == names]
    bounds = [f for f in facts if f.kind == ">="]
    held = [v for v in values if all(f.holds({names[0]: v}) for f in bounds)]
    fixed = [v for v in range(1, 65) if all(f.holds({names[0]: v}) for f in facts)]
    return tuple(held or fixed or values)


Timed = tuple[Tiling, tuple[float, ...]]
"""A plan with the logarithms of its times at all sizes of a grid."""


@cache
def _times(axes: Axes, arch: str, held: Held) -> tuple[Timed, ...]:
    """The plans of the space that are near the fastest somewhere, and those of users' names."""
    chip = ARCHS[arch].multiprocessors
    found = [(plan, tuple(map(log, over_grid(axes, plan, chip)))) for plan in held.space(arch)]
    least = tuple(map(min, *(times for _, times in found)))
    return tuple(
        (plan, times)
        for plan, times in found
        if plan.is_named or min(map(sub, times, least)) < NEAR
    )


@cache
def _cover(axes: Axes, arch: str, held: Held, padded: bool) -> tuple[Tiling, ...]:
    """The plans that lose the least over all sizes, each the best one beside those before it.

    What a plan saves beside others it saves at most beside more of them: what it saved when it was
    asked last is a bound, and most plans are not asked again.
    """
    plans = _times(axes, arch, held)
    # What plans of users may name is there; the widest takes what is left, and is the last.
    found = [one for one in plans if (one[0].is_padded if padded else one[0].is_named)]
    found.sort(key=lambda one: -one[0].columns)
    best = list(map(min, *(times for _, times in found), repeat(inf)))
    most = MOST_PADDED if padded else MOST_KERNELS
    bounds = [(-inf, number, 0) for number in range(len(plans))]
    heapify(bounds)
    while len(found) < most and bounds:
        _, number, asked = bounds[0]
        plan, times = plans[number]
        if asked < len(found):
            saved = sum(best) - sum(map(min, times, best))
            heapreplace(bounds, (-saved, number, len(found)))
            continue
        if -bounds[0][0] < WORTH * len(best):
            break
        heappop(bounds)
        found.append((plan, times))
        best = list(map(min, best, times))
    return tuple(plan for plan, _ in reversed(found))


def conditions(
    gemm: Contraction, plans: Sequence[Tiling], arch: str
) -> list[tuple[Assumption, ...]]:
    """Where each plan of several runs: where none behind it is faster."""
    times = [seconds(gemm, plan, arch) for plan in plans]
    return [
        tuple(Assumption(other - mine, ">=") for other in times[number:])
        for number, mine in enumerate(times, 1)
    ]
