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
from itertools import product, repeat
from math import inf, log, prod
from typing import Any

from polyc.cost.products import Tiles, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.families.facts import fixed_symbols
from polyc.families.matmul.recognise import Contraction
from polyc.families.matmul.space import DEPTH, MOST_COLUMNS, Tiling, space

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

SINGLY_COLUMNS = 224
"""The same of a block that goes on to other tiles, where threads store rows element by element: the
places of these stand beside its sums from tile to tile."""

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
    """What a thread holds beside its sums: an epilogue that is ``crowded``, and places of elements
    that it stores ``singly``.
    """

    crowded: bool = False
    singly: bool = False

    def leaves(self, plan: Tiles) -> bool:
        """Whether it leaves the registers that a plan's sums take."""
        most = CROWDED_COLUMNS if self.crowded else MOST_COLUMNS
        if self.singly and plan.persistent:
            most = min(most, SINGLY_COLUMNS)
        return plan.columns <= most


def seconds(gemm: Contraction, plan: Tiles, arch: str) -> Dim:
    """The modelled time of a product under a plan, in ns."""
    return nanoseconds(sizes_of(gemm), plan, ARCHS[arch].multiprocessors)


def ranked(
    known: tuple[int, int, int, int], arch: str, held: Held = Held()
) -> list[tuple[int, Tiling]]:
    """The plans of known sizes with their times, the fastest first."""
    batch, m, n, k = known
    chip, steps = ARCHS[arch].multiprocessors, -(-k // DEPTH)
    found: dict[Tiling, int] = {}
    for plan in space(arch):
        if not held.leaves(plan):
            continue
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
    fixed = fixed_symbols(gemm.kernel)
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


@cache
def _times(axes: Axes, arch: str) -> tuple[tuple[Tiling, tuple[float, ...]], ...]:
    """The plans of the space, each with the logarithms of its times at all sizes."""
    chip, points = ARCHS[arch].multiprocessors, list(product(*axes))
    return tuple(
        (plan, tuple(log(nanoseconds(point, plan, chip)) for point in points))
        for plan in space(arch)
    )


@cache
def _cover(axes: Axes, arch: str, held: Held, padded: bool) -> tuple[Tiling, ...]:
    """The plans that lose the least over all sizes, each the best one beside those before it."""
    plans = [(plan, times) for plan, times in _times(axes, arch) if held.leaves(plan)]
    # What plans of users may name is there; the widest takes what is left, and is the last.
    found = [one for one in plans if (one[0].is_padded if padded else one[0].is_named)]
    found.sort(key=lambda one: -one[0].columns)
    best = list(map(min, *(times for _, times in found), repeat(inf)))
    while len(found) < (MOST_PADDED if padded else MOST_KERNELS):
        cost, number = min((sum(map(min, times, best)), i) for i, (_, times) in enumerate(plans))
        if sum(best) - cost < WORTH * len(best):
            break
        found.append(plans[number])
        best = list(map(min, best, plans[number][1]))
    return tuple(plan for plan, _ in reversed(found))


def conditions(
    gemm: Contraction, plans: Sequence[Tiling], number: int, arch: str
) -> list[Assumption]:
    """Where a plan of several runs: where none behind it is faster."""
    mine = seconds(gemm, plans[number], arch)
    return [Assumption(seconds(gemm, other, arch) - mine, ">=") for other in plans[number + 1 :]]
