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
from math import inf, prod
from typing import Any

from polyc.cost.device import device_of
from polyc.cost.products import (
    AS_USUAL,
    H200_RATES,
    STEP,
    Image,
    Rates,
    Size,
    Stored,
    Terms,
    Tiles,
    brought,
    busy,
    ceildiv,
    of_all,
    over_grid,
    terms,
    time_of,
    with_memory,
)
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.region import KernelOp
from polyc.families.facts import PIECE, fixed_symbols, where_fastest
from polyc.families.space import (
    GROUP_ROWS,
    MOST_COLUMNS,
    MOST_SHARED,
    OWN,
    Tiling,
    loading_registers,
    registers_begun,
    registers_left,
    space,
)

GRIDS = {
    1: (1, 16, 64, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192, 16384),
    2: (16, 64, 128, 256, 512, 1024, 1536, 2048, 4096, 8192, 16384),
    3: (24, 64, 100, 192, 320, 500, 768, 1152, 1700, 2560, 4000, 6000, 9000, 14000),
}
"""Sizes at which kernels for open ones are compared, by how many of a matrix are open."""

DEPTHS = {3: (32, 96, 192, 384, 768, 1536, 3072, 6144, 12288)}
"""The same of what is summed over, where there are fewer."""

BATCHES = (1, 32)
"""Matrices of a batch whose number is open."""

MOST_KERNELS = {1: 12, 2: 16, 3: 24}
"""Kernels that a product gets from the space, by how many of its sizes are open."""

MOST_PADDED = {1: 6, 2: 8, 3: 12}
"""The same of its operands' copies."""

WORTH = 0.002
"""The least share of the mean time that a kernel more has to save."""

FAR = 2
"""How much more a loss counts that is e times as large as the time, to one that is small."""

PARTS = 100_000
"""Of a loss that is counted."""

TURNS = 4
"""How often each of the kernels is looked for again beside the others."""

NEAR = 0.02
"""The logarithm of what a plan takes of the fastest's time somewhere, to be one of a few."""

LINE = 64
"""Elements of a line of the L2 cache."""

LEAST_STEPS = 4
"""Steps of a part of a tile at least."""

CROWDED_COLUMNS = 128
"""Columns of a tile at most where an epilogue holds much beside its sums."""

CROWDED_REGISTERS = 72
"""Registers beside its sums that a thread of such an epilogue has at least, if its tile is wide."""

HELD_REGISTERS = 40
"""Registers beside its sums that a thread has at least which holds an operand, in two buffers, and
what is on its way to these."""

LOOSE_ONCE = 160
"""Columns of a tile at most where rows begin at any element, of a block whose threads begin with
few registers: of three consumers, or of two that have one tile."""

LOOSE_READS = 128
"""The same of a block of several consumers where an epilogue reads."""

PAIRED_READS = 192
"""Columns of a tile at most of blocks that go on to other tiles and share what they read, where an
epilogue reads: of more its threads hold too much beside what they share.  Those of blocks of one
large tile do with any."""

LOOSE_BESIDE = 128
"""The same of a block that is not alone on its multiprocessor: with more columns its threads take
the registers of two.  Of 21 problems that were timed so none was the fastest."""

BESIDE_PIXELS = 50
"""Registers beside its sums that a thread has at least whose kernel has threads that load pixels:
all have as many."""

KEPT = 0.5
"""Of an L2 cache, what keeps pixels for the next tap: both of its halves have what multiprocessors
on either side read."""

idle_rates = cache(Rates.idle)
"""The rates of a chip of which a part is idle."""

FULL = 1.36
"""How much more rows in two lines cost on a chip of which no part is idle: what they ask L2 for
twice meets there what all others ask for.  5296 by 1920 by 4072, of such rows, takes 164 us by
128x128 and 138 by 128x256 (pairs, an H100), which the model had for as fast."""


def _has_places(plan: Tiling, gathers: bool, reads: bool) -> bool:
    """Whether threads have the registers by which they store rows that begin at any element; of
    plans whose producers ``gathers`` there are others that say so, and what an epilogue ``reads``
    takes places too.
    """
    if plan.rows == GROUP_ROWS and plan.persistent:
        return plan.columns < MOST_COLUMNS
    if plan.at_once > 1:
        return plan.columns <= LOOSE_BESIDE
    if gathers or plan.rows == GROUP_ROWS:
        return True
    many = MOST_COLUMNS if plan.persistent and plan.rows == 2 * GROUP_ROWS else LOOSE_ONCE
    return plan.columns <= (LOOSE_READS if reads else many)


def held_by(plan: Tiling) -> int:
    """The registers beside its sums of a thread that holds rows of a step."""
    return HELD_REGISTERS + plan.depth // 2


Axes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""Sizes of a batch, of rows, columns and depth, at which plans are compared."""

Known = tuple[int | None, ...]
"""The sizes of a batch, of rows, columns and depth; None for open ones."""


@dataclass(frozen=True)
class Problem:
    """A region that plans are ranked for, with its matrices, rows, columns and depth; of a
    convolution one image of all pixels, its filters and its channels.

    ``grid`` are sizes of these at which kernels for open ones are compared, where they are its own.
    ``lines`` are the open ones of the sizes by which the operands' rows lie in memory: where one is
    no multiple of a line's elements, rows lie in two lines of the cache each.
    """

    kernel: KernelOp
    sizes: tuple[Dim, Dim, Dim, Dim]
    grid: tuple[tuple[int, ...], ...] | None = None
    lines: tuple[Dim, ...] = ()

    @property
    def uneven(self) -> Dim:
        """1 where any of ``lines`` is no multiple of a line, else 0."""
        rests = sum((size.mod(LINE) for size in self.lines), Dim.const(0))
        return rests.ceildiv(max(1, len(self.lines) * (LINE - 1)))


@dataclass(frozen=True)
class Form:
    """What there is of a product, or of a convolution, beside its sizes.

    ``crowded``   whether an epilogue holds much beside the sums
    ``loose``     whether rows of its output may begin at any element, which threads store through
                  shared memory
    ``stored``    how the operands lie in memory, as far as that is known
    ``products``  that share the operand of their rows
    ``cut``       whether rows, and columns, lie in several tensors one after another, of which a
                  tile has one; and ``joined`` whether what is multiplied does, along any axis
    ``taps``      of a convolution, of which a tile has all channels for each
    ``depths``    of a step; where sizes are open the first
    ``within``    columns that tiles lie inside of, where there are such
    ``alone``     whether the blocks of a cluster share nothing that they read
    ``reads``     whether an epilogue reads something of its own
    ``rates``     of the chip
    ``known``     the same where sizes are known, with what its multiprocessors share; None where it
                  is not told from what each of them draws
    ``sums``      whether sums of parts may go through memory
    ``image``     of a convolution whose sizes are known
    ``held``      rows of a tile, where threads hold the operand of the rows in registers; 0 where
                  they do not
    ``gathers``   registers that a thread of the producer has at least, where those load the operand
                  of the columns; 0 where they do not
    ``own``       registers of a consumer's thread beside its sums, that it takes and that it needs
    """

    crowded: bool = False
    loose: bool = False
    stored: Stored = AS_USUAL
    products: int = 1
    cut: tuple[bool, bool] = (False, False)
    joined: bool = False
    taps: int = 1
    depths: tuple[int, ...] = (STEP,)
    within: int = 0
    alone: bool = False
    reads: bool = False
    rates: Rates = H200_RATES
    known: Rates | None = None
    sums: bool = True
    image: Image | None = None
    held: int = 0
    gathers: int = 0
    own: tuple[int, int] = OWN

    def most(self, opened: int, padded: bool) -> int:
        """Kernels at most of a product of which so many sizes are open; ``padded`` for others."""
        return (MOST_PADDED if padded else MOST_KERNELS)[opened]

    def space(self, arch: str, every: bool = False) -> tuple[Tiling, ...]:
        """The plans whose sums have the registers that they take, of ``every`` depth or one."""
        most = (CROWDED_COLUMNS if self.crowded else MOST_COLUMNS) // 2
        found = tuple(
            plan
            for depth in (self.depths if every else self.depths[:1])
            for plan in space(arch, self.products, most, self.loose, depth, self.own)
        )
        if self.loose:
            found = tuple(p for p in found if _has_places(p, bool(self.gathers), self.reads))
        found = tuple(filter(self.pays_to_share, found))
        picks = self.joined or self.alone or self.within or not self.sums or self.held
        picks = bool(picks or self.gathers)
        return tuple(filter(self.takes, found)) if picks else found

    def pays_to_share(self, plan: Tiling) -> bool:
        """Whether blocks of a plan that go on to other tiles, or have large ones, may share what
        they read: where a row of a box costs L2 two requests, as of the operand that both read.

        Of whole lines clusters of such blocks took 2 to 6 % longer than others, of 4104 by 4104 a
        fifth less (docs/performance.md).
        """
        large = plan.rows * plan.columns * plan.products > MOST_SHARED
        if plan.below == plan.beside == 1 or not (plan.persistent or large):
            return True
        halved = self.stored.columns if plan.below > 1 else self.stored.rows
        reading = PAIRED_READS if plan.persistent else 0
        most = reading if self.reads else MOST_COLUMNS
        return bool(halved) and plan.columns <= most and not (self.loose or self.crowded)

    def takes(self, plan: Tiling) -> bool:
        """Whether a plan's tiles lie in one tensor each and inside of groups, and none is another
        block's too; of a convolution, whose producers count, whether threads have registers left.
        """
        tile = (plan.rows, plan.columns)
        if plan.summed and not self.sums:
            return False
        if self.held and (plan.rows != self.held or registers_begun(plan) < held_by(plan)):
            return False
        if self.gathers:
            few = loading_registers(plan) < self.gathers
            if plan.persistent or few or registers_begun(plan) < BESIDE_PIXELS:
                return False
        alone = plan.below == plan.beside == 1 or not (self.joined or self.alone or self.within)
        whole = (PIECE % size == 0 for size, cut in zip(tile, self.cut, strict=True) if cut)
        enough = min(CROWDED_REGISTERS, plan.columns * 3 // 4) if self.crowded and self.alone else 0
        fits = self.within % plan.columns == 0 and registers_left(plan) >= enough
        return alone and fits and all(whole)

    def nanoseconds(self, sizes: tuple[Size, Size, Size, Size], plan: Tiles, arch: str) -> Size:
        """The modelled time of ``sizes`` under a plan."""
        chip = ARCHS[arch].multiprocessors
        return time_of(sizes, plan, self.terms(plan, chip), chip, self.taps)

    def of_known(self, sizes: tuple[int, int, int, int], plan: Tiles, arch: str) -> int:
        """The same of known sizes, with what no polynomial says: multiprocessors without a block
        leave the others more, and what taps of an image read again may not be in L2 any more."""
        chip = ARCHS[arch].multiprocessors
        if self.known is not None:
            of = terms(plan, chip, self.known, self.stored)
            memory = device_of(arch).memory / 1e9
            shared = of_all(sizes, plan, of, chip, self.known, self.stored, memory)
            alone = by_themselves(self).of_known(sizes, plan, arch)
            return round(alone**ALONE * shared ** (1 - ALONE))
        idle = 1 - busy(sizes, plan, chip)
        form = self if idle or self.image is not None else of_full(self)
        of = form.terms(plan, chip, idle)
        time = time_of(sizes, plan, of, chip, self.taps)
        if self.image is None:
            return time
        device = device_of(arch)
        moved = brought(sizes, plan, of, self.taps, self.image, device.cache_bytes * KEPT)
        return with_memory(time, sizes, plan, moved / device.memory * 1e9, self.rates)

    def of_uneven(self) -> Form:
        """The same where rows of both operands lie in two lines of the cache each."""
        rows, columns = max(1, self.stored.rows), max(1, self.stored.columns)
        return replace(self, stored=replace(self.stored, rows=rows, columns=columns))

    def terms(self, plan: Tiles, chip: int, idle: float = 0.0) -> Terms:
        """The factors of a plan's formula on so many multiprocessors, of which a part is idle."""
        return terms(plan, chip, idle_rates(self.rates, idle), self.stored)


@cache
def by_themselves(form: Form) -> Form:
    """The same by what each multiprocessor draws by itself."""
    return replace(form, known=None)


ALONE = 0.4
"""How much the formula of each multiprocessor by itself counts beside that of all of them, in the
logarithm: what one of them has for too fast by chance the other has not."""


@cache
def of_full(form: Form) -> Form:
    """The same on a chip of which no part is idle."""
    rates = form.rates
    return replace(form, rates=replace(rates, uneven=rates.uneven * FULL))


def seconds(problem: Problem, plan: Tiles, arch: str, form: Form = Form()) -> Dim:
    """The modelled time of a region under a plan, in ns.

    Where open sizes say whether rows lie in whole lines, one of two formulas counts.
    """
    even = form.nanoseconds(problem.sizes, plan, arch)
    if not problem.lines:
        return even
    more = form.of_uneven().nanoseconds(problem.sizes, plan, arch) - even
    return even + more * problem.uneven


def ranked(
    known: tuple[int, int, int, int], arch: str, form: Form = Form()
) -> list[tuple[int, Tiling]]:
    """The plans of known sizes with their times, the fastest first."""
    batch, m, n, k = known
    chip = ARCHS[arch].multiprocessors
    found: dict[Tiling, int] = {}
    for plan in form.space(arch, every=True):
        steps = ceildiv(k, plan.depth) * form.taps
        if plan.summed:
            # All numbers of parts are there: as many as fill the chip once, or twice.
            tiles = batch * -(-m // plan.rows) * -(-n // plan.columns)
            for waves in (1, 2):
                parts = min(chip * waves // max(1, tiles), steps // LEAST_STEPS)
                if parts < 2:
                    continue
                parts = -(-steps // -(-steps // parts))
                own = replace(plan, parts=parts)
                found[own] = form.of_known(known, own, arch)
        elif plan.parts == 1 or steps >= plan.parts * LEAST_STEPS:
            found[plan] = form.of_known(known, plan, arch)
    return sorted(((time, plan) for plan, time in found.items()), key=lambda one: one[0])


def known_sizes(problem: Problem) -> Known:
    """The sizes of a region that are constants, or that the facts about symbols make such."""
    fixed = fixed_symbols(problem.kernel)
    return tuple(
        size.evaluate(fixed) if fixed.keys() >= set(size.symbols()) else None
        for size in problem.sizes
    )


def fastest(problem: Problem, arch: str, form: Form, count: int) -> list[Tiling]:
    """So many plans of a region of known sizes, of a tile each, the fastest first; none of one of
    open ones.
    """
    known = known_sizes(problem)
    sizes = [size for size in known if size is not None]
    if len(sizes) < len(known):
        return []
    batch, m, n, k = sizes
    found: dict[tuple[int, ...], Tiling] = {}
    for _, plan in ranked((batch, m, n, k), arch, form):
        found.setdefault((plan.rows, plan.columns, plan.depth, plan.parts), plan)
    return list(found.values())[:count]


def chosen(problem: Problem, arch: str, form: Form, padded: bool = False) -> list[Tiling]:
    """The plans that a region gets, in order of dispatch; ``padded`` for those of the copies of a
    product's operands, which are fewer.
    """
    if one := fastest(problem, arch, form, 1):
        return one
    known = known_sizes(problem)
    opened = max(1, known[1:].count(None))
    grid = GRIDS[opened]
    grids = problem.grid or (BATCHES, grid, grid, DEPTHS.get(opened, grid))
    axes: Any = tuple(
        (value,) if value is not None else _allowed(problem, size, grid)
        for size, value, grid in zip(problem.sizes, known, grids, strict=True)
    )
    forms = (form, form.of_uneven()) if problem.lines else (form,)
    return list(_cover(axes, opened, arch, forms, padded))


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
def _losses(axes: Axes, arch: str, forms: tuple[Form, ...]) -> tuple[tuple[Tiling, ...], Any]:
    """The plans of the space that are near the fastest somewhere, and those of users' names, with
    what each loses to the fastest at all sizes of a grid and for each of ``forms``: the logarithm
    of how much more it takes, and more of what is large.

    Losses are whole numbers of ``PARTS``, so that their sums are the same in any order.
    """
    import numpy as np

    chip, first = ARCHS[arch].multiprocessors, forms[0]
    plans = first.space(arch)
    times = np.empty((len(plans), len(forms) * prod(map(len, axes))))
    for plan, row in zip(plans, times, strict=True):
        every = (over_grid(axes, plan, f.terms(plan, chip), chip, f.taps) for f in forms)
        row[:] = np.concatenate([*every])
    np.log(times, out=times)
    times -= times.min(axis=0)
    near = times.min(axis=1) < NEAR
    kept = [number for number, plan in enumerate(plans) if near[number] or plan.is_named]
    lost = times[kept]
    return tuple(plans[number] for number in kept), np.rint((lost + FAR * lost**2) * PARTS)


@cache
def _cover(
    axes: Axes, opened: int, arch: str, forms: tuple[Form, ...], padded: bool
) -> tuple[Tiling, ...]:
    """The plans that lose the least over all sizes: each the best one beside those before it, and
    then in turns each the best one beside all others.
    """
    import numpy as np

    plans, lost = _losses(axes, arch, forms)
    # What plans of users may name is there; the widest takes what is left, and is the last.
    always = [i for i, one in enumerate(plans) if (one.is_padded if padded else one.is_named)]
    found = sorted(always, key=lambda i: -plans[i].columns)
    most = forms[0].most(opened, padded)

    def best_beside(others: Sequence[int]) -> tuple[int, float]:
        """The plan that saves the most beside others, and what it leaves of the losses."""
        left = lost[list(others)].min(axis=0) if others else inf
        sums = np.minimum(lost, left).sum(axis=1)
        return int(sums.argmin()), float(sums.min())

    left = float(lost[found].min(axis=0).sum()) if found else inf
    while len(found) < most:
        one, sums = best_beside(found)
        if found and left - sums < WORTH * PARTS * lost.shape[1]:
            break
        found.append(one)
        left = sums
    for _ in range(TURNS):
        before = left
        for place in range(len(always), len(found)):
            one, sums = best_beside([*found[:place], *found[place + 1 :]])
            if sums < left:
                found[place], left = one, sums
        if left == before:
            break
    return tuple(plans[i] for i in reversed(found))


def conditions(
    problem: Problem, plans: Sequence[Tiling], arch: str, form: Form
) -> list[tuple[Assumption, ...]]:
    """Where each plan of several runs: where none behind it is faster."""
    return where_fastest([seconds(problem, plan, arch, form) for plan in plans])
