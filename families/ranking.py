"""Which plans of the space a region gets: the fastest by the model of time (S8, S11.1).

Of known sizes that is one.  Of open ones a few kernels share the sizes: beside those that are
always there the ones that lose the least over a grid of sizes, chosen one after another.  Each runs
where the model says that none of those behind it is faster, so that the first whose conditions hold
is the fastest, and the last of them takes what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product, repeat
from math import inf, log, prod
from typing import Any

from polyc.cost.products import Tiles, ceildiv, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.region import KernelOp
from polyc.families.space import DEPTH, MOST_COLUMNS, Tiling, registers_left, space

GRID = (16, 128, 512, 1536, 4096, 16384)
"""Sizes at which kernels for open ones are compared."""

BATCHES = (1, 32)
"""Matrices of a batch whose number is open."""

MOST_KERNELS = 6
"""Kernels that a product of open sizes gets from the space."""

MOST_PADDED = 3
"""The same of its operands' copies."""

WORTH = 0.01
"""The least share of the mean time that a kernel more has to save."""

LEAST_STEPS = 4
"""Steps of a part of a tile at least."""

CROWDED_COLUMNS = 128
"""Columns of a tile at most where an epilogue holds much beside its sums."""

CROWDED_REGISTERS = 72
"""Registers beside its sums that a thread of such an epilogue has at least, if its tile is wide."""

SINGLY_COLUMNS = 224
"""The same of a block that goes on to other tiles, where threads store rows element by element: the
places of these stand beside its sums from tile to tile."""

Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes of a batch, of rows, columns and depth, at which plans are compared."""

Known = tuple[int | None, ...]
"""The sizes of a batch, of rows, columns and depth; None for open ones."""


@dataclass(frozen=True)
class Problem:
    """What of a region plans are ranked by.

    ``sizes``   matrices, rows, columns and depth
    ``taps``    of a convolution, whose depth are its channels: a tile has all of them for each
    ``depths``  of a step; where sizes are open the first
    ``grid``    sizes at which kernels for open ones are compared, of each of ``sizes``
    """

    kernel: KernelOp
    sizes: tuple[Dim, Dim, Dim, Dim]
    taps: int = 1
    depths: tuple[int, ...] = (DEPTH,)
    grid: tuple[tuple[int, ...], ...] = (BATCHES, GRID, GRID, GRID)


@dataclass(frozen=True)
class Held:
    """What a thread holds beside its sums: an epilogue that is ``crowded``, and places of elements
    that it stores ``singly``.  Tiles lie inside of ``within`` columns, where there are such.
    """

    crowded: bool = False
    singly: bool = False
    within: int = 0

    def leaves(self, plan: Tiling) -> bool:
        """Whether it leaves the registers that a plan's sums take, and its tiles lie so."""
        if self.within % plan.columns:
            return False
        most = CROWDED_COLUMNS if self.crowded else MOST_COLUMNS
        if self.singly and plan.persistent:
            most = min(most, SINGLY_COLUMNS)
        enough = min(CROWDED_REGISTERS, plan.columns * 3 // 4)
        if self.crowded and registers_left(plan) < enough:
            return False
        return plan.columns <= most


def seconds(problem: Problem, plan: Tiles, arch: str) -> Dim:
    """The modelled time of a region under a plan, in ns."""
    chip = ARCHS[arch].multiprocessors
    return nanoseconds(problem.sizes, plan, chip, taps=problem.taps)


def ranked(
    known: tuple[int, int, int, int],
    arch: str,
    held: Held = Held(),
    taps: int = 1,
    depths: Sequence[int] = (DEPTH,),
) -> list[tuple[int, Tiling]]:
    """The plans of known sizes with their times, the fastest first."""
    batch, m, n, k = known
    chip = ARCHS[arch].multiprocessors
    found: dict[Tiling, int] = {}
    for plan in (plan for depth in depths for plan in space(arch, depth=depth)):
        if not held.leaves(plan):
            continue
        steps = taps * ceildiv(k, plan.depth)
        if plan.summed:
            # All numbers of parts are there: as many as fill the chip once, or twice.
            tiles = batch * -(-m // plan.rows) * -(-n // plan.columns)
            for waves in (1, 2):
                parts = min(chip * waves // max(1, tiles), steps // LEAST_STEPS)
                if parts < 2:
                    continue
                parts = -(-steps // -(-steps // parts))
                own = replace(plan, parts=parts)
                found[own] = nanoseconds(known, own, chip, taps=taps)
        elif plan.parts == 1 or steps >= plan.parts * LEAST_STEPS:
            found[plan] = nanoseconds(known, plan, chip, taps=taps)
    return sorted(((time, plan) for plan, time in found.items()), key=lambda one: one[0])


def known_sizes(problem: Problem) -> Known:
    """The sizes of a region that are constants, or that the facts about symbols make such."""
    fixed: dict[str, int] = {}
    for fact in problem.kernel.assumptions.data:
        names = fact.expr.symbols()
        if fact.kind == "==" and len(names) == 1:
            size = (Dim.sym(names[0]) - fact.expr, Dim.sym(names[0]) + fact.expr)
            value = next((v for one in size if (v := one.constant()) is not None), None)
            if value is not None:
                fixed[names[0]] = value
    return tuple(
        size.evaluate(fixed) if fixed.keys() >= set(size.symbols()) else None
        for size in problem.sizes
    )


def fastest(problem: Problem, arch: str, held: Held, count: int) -> list[Tiling]:
    """So many plans of a region of known sizes, of a tile each, the fastest first; none of one of
    open ones.
    """
    known = known_sizes(problem)
    sizes = [size for size in known if size is not None]
    if len(sizes) < len(known):
        return []
    batch, m, n, k = sizes
    found: dict[tuple[int, ...], Tiling] = {}
    for _, plan in ranked((batch, m, n, k), arch, held, problem.taps, problem.depths):
        found.setdefault((plan.rows, plan.columns, plan.depth, plan.parts), plan)
    return list(found.values())[:count]


def chosen(problem: Problem, arch: str, held: Held, padded: bool = False) -> list[Tiling]:
    """The plans that a region gets, in order of dispatch; ``padded`` for those of a product's
    operands' copies, which are fewer.
    """
    if one := fastest(problem, arch, held, 1):
        return one
    axes: Any = tuple(
        (value,) if value is not None else _allowed(problem, size, grid)
        for size, value, grid in zip(problem.sizes, known_sizes(problem), problem.grid, strict=True)
    )
    steps = (problem.taps, problem.depths[0])
    return list(_cover(axes, arch, steps, held, padded))


def _allowed(problem: Problem, size: Dim, values: Sequence[int]) -> tuple[int, ...]:
    """The values that the facts about a symbol alone leave to it."""
    if len(names := size.symbols()) != 1 or size != Dim.sym(names[0]):
        return tuple(values)
    facts = [f for f in problem.kernel.assumptions.data if f.expr.symbols() == names]
    bounds = [f for f in facts if f.kind == ">="]
    held = [v for v in values if all(f.holds({names[0]: v}) for f in bounds)]
    fixed = [v for v in range(1, 65) if all(f.holds({names[0]: v}) for f in facts)]
    return tuple(held or fixed or values)


@cache
def _times(
    axes: Axes, arch: str, taps: int, depth: int
) -> tuple[tuple[Tiling, tuple[float, ...]], ...]:
    """The plans of the space, each with the logarithms of its times at all sizes."""
    chip, points = ARCHS[arch].multiprocessors, list(product(*axes))
    return tuple(
        (plan, tuple(log(nanoseconds(point, plan, chip, taps=taps)) for point in points))
        for plan in space(arch, depth=depth)
    )


@cache
def _cover(
    axes: Axes, arch: str, steps: tuple[int, int], held: Held, padded: bool
) -> tuple[Tiling, ...]:
    """The plans that lose the least over all sizes, each the best one beside those before it;
    ``steps`` are taps, and the depth of each.
    """
    plans = [(plan, times) for plan, times in _times(axes, arch, *steps) if held.leaves(plan)]
    # What plans of users may name is there; the widest takes what is left, and is the last.
    found = [one for one in plans if (one[0].is_padded if padded else one[0].is_named)]
    found.sort(key=lambda one: -one[0].columns)
    best = [
        min(times)
        for times in zip(
            repeat(inf, prod(map(len, axes))), *(times for _, times in found), strict=True
        )
    ]
    while len(found) < (MOST_PADDED if padded else MOST_KERNELS):
        cost, number = min((sum(map(min, times, best)), i) for i, (_, times) in enumerate(plans))
        if sum(best) - cost < WORTH * len(best):
            break
        found.append(plans[number])
        best = list(map(min, best, plans[number][1]))
    return tuple(plan for plan, _ in reversed(found))


def conditions(
    problem: Problem, plans: Sequence[Tiling], number: int, arch: str
) -> list[Assumption]:
    """Where a plan of several runs: where none behind it is faster."""
    mine = seconds(problem, plans[number], arch)
    return [Assumption(seconds(problem, other, arch) - mine, ">=") for other in plans[number + 1 :]]
