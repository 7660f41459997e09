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

from polyc.cost.products import AS_USUAL, STEP, Stored, Tiles, nanoseconds, over_grid
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.families.matmul.recognise import PIECE, Contraction
from polyc.families.matmul.space import MOST_COLUMNS, Tiling, space

GRIDS = {
    1: (1, 16, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384),
    2: (16, 64, 128, 256, 512, 1024, 1536, 2048, 4096, 8192, 16384),
    3: (16, 64, 192, 512, 1536, 4096, 16384),
}
"""Sizes at which kernels for open ones are compared, by how many of a matrix are open."""

BATCHES = (1, 32)
"""Matrices of a batch whose number is open."""

MOST_KERNELS = {1: 8, 2: 8, 3: 10}
"""Kernels that a product gets from the space, by how many of its sizes are open."""

MOST_PADDED = {1: 3, 2: 3, 3: 4}
"""The same of its operands' copies."""

WORTH = 0.01
"""The least share of the mean time that a kernel more has to save."""

FAR = 4
"""How much more a loss counts that is e times as large as the time, to one that is small."""

NEAR = 0.02
"""The logarithm of what a plan takes of the fastest's time somewhere, to be one of a few."""

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
class Form:
    """What there is of a product beside its sizes.

    ``crowded``   whether an epilogue holds much beside the sums
    ``loose``     whether rows of its output may begin at any element, which threads store through
                  shared memory
    ``stored``    how the operands lie in memory, as far as that is known
    ``products``  that share the operand of their rows
    ``cut``       whether rows, and columns, lie in several tensors one after another, of which a
                  tile has one; and ``joined`` whether what is multiplied does, along any axis
    """

    crowded: bool = False
    loose: bool = False
    stored: Stored = AS_USUAL
    products: int = 1
    cut: tuple[bool, bool] = (False, False)
    joined: bool = False

    def space(self, arch: str) -> tuple[Tiling, ...]:
        """The plans whose sums have the registers that they take."""
        most = (CROWDED_COLUMNS if self.crowded else MOST_COLUMNS) // 2
        found = space(arch, self.products, most, self.loose)
        return tuple(filter(self.takes, found)) if self.joined else found

    def takes(self, plan: Tiles) -> bool:
        """Whether a plan's tiles lie in one tensor each, and none is another block's too."""
        tile = (plan.rows, plan.columns)
        whole = (PIECE % size == 0 for size, cut in zip(tile, self.cut, strict=True) if cut)
        return plan.below == plan.beside == 1 and all(whole)


def seconds(gemm: Contraction, plan: Tiles, arch: str, form: Form = Form()) -> Dim:
    """The modelled time of a product under a plan, in ns."""
    return nanoseconds(sizes_of(gemm), plan, ARCHS[arch].multiprocessors, stored=form.stored)


def ranked(
    known: tuple[int, int, int, int], arch: str, form: Form = Form()
) -> list[tuple[int, Tiling]]:
    """The plans of known sizes with their times, the fastest first."""
    batch, m, n, k = known
    chip, steps = ARCHS[arch].multiprocessors, -(-k // STEP)
    found: dict[Tiling, int] = {}
    for plan in form.space(arch):
        if plan.summed:
            # All numbers of parts are there: as many as fill the chip once, or twice.
            tiles = batch * -(-m // plan.rows) * -(-n // plan.columns)
            for waves in (1, 2):
                parts = min(chip * waves // max(1, tiles), steps // LEAST_STEPS)
                if parts < 2:
                    continue
                parts = -(-steps // -(-steps // parts))
                own = replace(plan, parts=parts)
                found[own] = nanoseconds(known, own, chip, stored=form.stored)
        elif plan.parts == 1 or steps >= plan.parts * LEAST_STEPS:
            found[plan] = nanoseconds(known, plan, chip, stored=form.stored)
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


def fastest(gemm: Contraction, arch: str, form: Form, count: int) -> list[Tiling]:
    """So many plans of a product of known sizes, of a tile each, the fastest first; none of a
    product of open ones.
    """
    known = known_sizes(gemm)
    sizes = [size for size in known if size is not None]
    if len(sizes) < len(known):
        return []
    batch, m, n, k = sizes
    found: dict[tuple[int, ...], Tiling] = {}
    for _, plan in ranked((batch, m, n, k), arch, form):
        found.setdefault((plan.rows, plan.columns, plan.parts), plan)
    return list(found.values())[:count]


def chosen(gemm: Contraction, arch: str, form: Form, padded: bool = False) -> list[Tiling]:
    """The plans that a product gets, in order of dispatch; ``padded`` for those of its operands'
    copies, which are fewer.
    """
    if one := fastest(gemm, arch, form, 1):
        return one
    sizes, known = sizes_of(gemm), known_sizes(gemm)
    grid = GRIDS[max(1, known[1:].count(None))]
    axes: Any = tuple(
        (value,) if value is not None else _allowed(gemm, size, grid if i else BATCHES)
        for i, (size, value) in enumerate(zip(sizes, known, strict=True))
    )
    return list(_cover(axes, max(1, known[1:].count(None)), arch, form, padded))


def _allowed(gemm: Contraction, size: Dim, values: Sequence[int]) -> tuple[int, ...]:
    """The values that the facts about a symbol alone leave to it."""
    if len(names := size.symbols()) != 1 or size != Dim.sym(names[0]):
        return tuple(values)
    facts = [f for f in gemm.kernel.assumptions.data if f.expr.symbols() == names]
    bounds = [f for f in facts if f.kind == ">="]
    held = [v for v in values if all(f.holds({names[0]: v}) for f in bounds)]
    fixed = [v for v in range(1, 65) if all(f.holds({names[0]: v}) for f in facts)]
    return tuple(held or fixed or values)


Lost = tuple[Tiling, tuple[float, ...]]
"""A plan with what it loses to the fastest at all sizes of a grid: the logarithm of how much more
it takes, and more of what is large."""


@cache
def _losses(axes: Axes, arch: str, form: Form) -> tuple[Lost, ...]:
    """The plans of the space that are near the fastest somewhere, and those of users' names."""
    chip = ARCHS[arch].multiprocessors
    found = [
        (plan, tuple(map(log, over_grid(axes, plan, chip, form.stored))))
        for plan in form.space(arch)
    ]
    least = tuple(map(min, *(times for _, times in found)))
    more = ((plan, tuple(map(sub, times, least))) for plan, times in found)
    return tuple(
        (plan, tuple(one + FAR * one * one for one in lost))
        for plan, lost in more
        if plan.is_named or min(lost) < NEAR
    )


@cache
def _cover(axes: Axes, opened: int, arch: str, form: Form, padded: bool) -> tuple[Tiling, ...]:
    """The plans that lose the least over all sizes, each the best one beside those before it.

    What a plan saves beside others it saves at most beside more of them: what it saved when it was
    asked last is a bound, and most plans are not asked again.
    """
    plans = _losses(axes, arch, form)
    # What plans of users may name is there; the widest takes what is left, and is the last.
    found = [one for one in plans if (one[0].is_padded if padded else one[0].is_named)]
    found.sort(key=lambda one: -one[0].columns)
    best = list(map(min, *(lost for _, lost in found), repeat(inf)))
    most = (MOST_PADDED if padded else MOST_KERNELS)[opened]
    bounds = [(-inf, number, 0) for number in range(len(plans))]
    heapify(bounds)
    while len(found) < most and bounds:
        _, number, asked = bounds[0]
        plan, lost = plans[number]
        if asked < len(found):
            saved = sum(best) - sum(map(min, lost, best))
            heapreplace(bounds, (-saved, number, len(found)))
            continue
        if -bounds[0][0] < WORTH * len(best):
            break
        heappop(bounds)
        found.append((plan, lost))
        best = list(map(min, best, lost))
    return tuple(plan for plan, _ in reversed(found))


def conditions(
    gemm: Contraction, plans: Sequence[Tiling], arch: str, form: Form
) -> list[tuple[Assumption, ...]]:
    """Where each plan of several runs: where none behind it is faster."""
    times = [seconds(gemm, plan, arch, form) for plan in plans]
    return [
        tuple(Assumption(other - mine, ">=") for other in times[number:])
        for number, mine in enumerate(times, 1)
    ]
