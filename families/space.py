"""The plans of products of matrices and convolutions on tensor cores fed by TMA (S8, S9, S11.1).

A plan is a tile, the CTAs that have a part of its steps, how many CTAs share a multiprocessor, and
what brings the operands.  Which of these there are follows from the architecture's limits: the
columns that wgmma takes, the registers of a thread, shared memory, and the sizes of clusters.
Nothing here knows sizes: the model of time ranks the plans for these (``families/ranking.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from polyc.cost.products import Tiles
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.plan import OPERAND_BYTES
from polyc.dialects.plan.resources import (
    CLUSTERED,
    LOOSE_COLUMNS,
    MBARRIER_BYTES,
    RESERVED,
    SHARED_ALIGN,
    SHARED_COLUMNS,
    STAGED_COLUMNS,
    SUM_BYTES,
    WGMMA_OWN,
    register_split,
    registers_at_launch,
)
from polyc.families.facts import DEPTH
from polyc.families.family import Fields

GROUP_ROWS = 64
"""Rows that a warpgroup multiplies at once."""

GROUPS = (1, 2, 3, 4)
"""Consumer warpgroups of a CTA, each with rows of its own."""

COLUMN_STEP, MOST_COLUMNS = 32, 256
"""Columns of tiles: whole panels of a swizzle of 64 bytes, as many as wgmma has at most."""

MOST_STAGES = 8

LEAST_STAGES = 3
"""Stages that keep a product going while the one before is awaited."""

PRODUCER_REGISTERS = {2: 40, 3: 24, 4: 24}
"""Of the thread that starts copies, by consumers; what a block has beside goes to these."""

TURNED = 48
"""The same where a block keeps them for good, and stores a tile while it loads the next."""

SUMMED = 96
"""Accumulators of a thread at most that stores those of several products to memory."""

PIXEL_REGISTERS = {False: 80, True: 56}
"""Of a producer's thread that loads pixels: those on their way and where they lie, or with cp.async
where they lie."""

OWN = (WGMMA_OWN, WGMMA_OWN)
"""Registers of a thread beside its sums, that it takes and that it needs."""

TAKING = (58, 42)
"""The same of one that takes rows of a step of f32 to registers, by two buffers in turn."""

ENOUGH_STAGES = 4
"""Stages of blocks whose sums go through memory."""

MOST_AT_ONCE = 4
"""CTAs of a multiprocessor that a plan is made for."""

MOST_SHARED = 128 * 192
"""Elements of a tile of which two blocks beside each other share what both read: larger ones read
little enough where rows lie in whole lines."""

MOST_SHARED_LINES = 128 * 256
"""The same where they do not: 5840 by 1112 by 6072 takes 147 us by blocks of 128x256 that go on to
other tiles, and 137 by such of 256x128 of one tile (an H100)."""

PAIRED, LEAST_PAIRED = 2, 192
"""Consumers of blocks that go on to other tiles and share what they read of the columns, and
columns of these at least: of more consumers registers do not hold what both need, and of 128
columns 5296 by 1920 by 4072 took 154 us, of 192 and 256 144 and 138 (an H100)."""

PARTS = (2, 3, 4, 6, 8, 16, 32, 64)
"""Parts of a tile whose sums go through memory, where the steps are not known."""


NAMED = {
    1: {(128, 256): "tma", (128, 128): "tma_small"},
    2: {(128, 128): "tma"},
}
"""Tiles of which plans of users may have the names, by the products that share their rows."""

PADDED = (128, 128)
"""The same where operands are copied."""


class Tiling(Tiles):
    """A plan of the space, by its name and its fields."""

    __slots__ = ()

    @property
    def is_named(self) -> bool:
        """Whether its name is one that plans of users may have."""
        alone = self.below == self.beside == 1
        return self.persistent and alone and (self.rows, self.columns) in NAMED[self.products]

    @property
    def is_padded(self) -> bool:
        """The same where operands are copied."""
        return self.is_named and (self.rows, self.columns) == PADDED

    @property
    def name(self) -> str:
        """The name of its variant."""
        known, plain = NAMED[self.products], self.is_named and self.depth == DEPTH
        return known[self.rows, self.columns] if plain else self.named("tma")

    @property
    def padded_name(self) -> str:
        """The same where it reads copies of its operands."""
        return "padded" if self.is_padded else self.named("padded")

    @property
    def flat_name(self) -> str:
        """The same where rows of an operand are taken as one."""
        return self.named("flat")

    @property
    def gather_name(self) -> str:
        """The same where threads load the operand of the columns."""
        return self.named("gather")

    def gathering(self, family: str = "matmul") -> Fields:
        """Its fields of such a plan: all threads have as many registers."""
        return {**self.fields(family), "loader": "gather", "registers": []}

    def named(self, loader: str) -> str:
        """A name of its fields."""
        found = f"{loader}_{self.rows}x{self.columns}"
        found += "" if self.depth == DEPTH else f"x{self.depth}"
        if self.parts > 1:
            found += f"_{'parts' if self.summed else 'split'}{self.parts}"
        elif not self.persistent:
            found += "_once"
        if self.at_once > 1:
            found += f"_by{self.at_once}"
        shared = self.below > 1 or self.beside > 1
        return f"{found}_shared{self.below}x{self.beside}" if shared else found

    def fields(self, family: str = "matmul") -> Fields:
        """Its fields of a plan of a region of ``family``."""
        groups = self.rows // GROUP_ROWS
        found: Fields = {
            "mma": "wgmma",
            "loader": "tma",
            "tile": [self.rows, self.columns, self.depth],
            "stages": self.stages,
            "warp_tile": [GROUP_ROWS, self.columns],
            "consumers": groups,
            "registers": registers_of(groups) if self.persistent else [],
            "raster": "grouped",
            "group": 16,
            "persistent": self.persistent,
            "split_k": self.parts,
            "vectorize": 8,
        }
        if self.below > 1 or self.beside > 1:
            found |= {"cluster": [self.below, self.beside], "multicast": True}
        return {**found, "algo_choice": {family: "partial_sums"}} if self.summed else found


def registers_of(groups: int, registers: int = ARCHS["sm_90a"].registers) -> list[int]:
    """Registers of a producer's and of a consumer's thread of a block that has all ``registers``
    of a multiprocessor."""
    if groups not in PRODUCER_REGISTERS:
        return []
    return register_split(registers, groups, PRODUCER_REGISTERS[groups])


def registers_left(plan: Tiling) -> int:
    """Registers of a consumer's thread beside its accumulators."""
    groups = plan.rows // GROUP_ROWS
    split = registers_of(groups) if plan.persistent else []
    room = ARCHS["sm_90a"].registers // plan.at_once
    own = split[1] if split else min(255, registers_at_launch(room, groups))
    return own - plan.products * plan.columns // 2


def loading_registers(plan: Tiling) -> int:
    """Registers of a thread of a block whose warpgroups have as many each."""
    room = ARCHS["sm_90a"].registers // plan.at_once
    return min(255, registers_at_launch(room, plan.rows // GROUP_ROWS))


def registers_begun(plan: Tiling) -> int:
    """Registers beside its accumulators that a consumer's thread begins with: code is made for
    these."""
    room = ARCHS["sm_90a"].registers // plan.at_once
    return registers_at_launch(room, plan.rows // GROUP_ROWS) - plan.products * plan.columns // 2


@cache
def space(
    arch: str,
    products: int = 1,
    most: int = 128,
    loose: bool = False,
    depth: int = DEPTH,
    own: tuple[int, int] = OWN,
) -> tuple[Tiling, ...]:
    """The plans that an architecture has for products; none where it has no wgmma.

    ``products`` share the rows of a tile, with accumulators of their own each; a thread has at most
    ``most`` registers of these.  ``loose`` are plans of outputs whose rows begin at any element:
    all of them have room to store through shared memory.  A step has ``depth`` elements of k.
    ``own`` are the registers that a thread of a block of one tile takes beside its sums, and needs.
    """
    if not ARCHS[arch].wgmma:
        return ()
    found: list[Tiling] = []
    for groups in GROUPS:
        for columns in range(COLUMN_STEP, MOST_COLUMNS + 1, COLUMN_STEP):
            if products * columns // 2 <= most:
                found += _of_tile(arch, products, groups, columns, loose, depth, own)
    return tuple(found)


def _of_tile(
    arch: str,
    products: int,
    groups: int,
    columns: int,
    loose: bool,
    depth: int,
    own: tuple[int, int],
) -> Iterator[Tiling]:
    chip, rows = ARCHS[arch], groups * GROUP_ROWS
    stage = (rows + products * columns) * depth * OPERAND_BYTES + 2 * MBARRIER_BYTES
    held = products * columns // 2
    tiling = partial(Tiling, rows, columns, products=products, depth=depth)
    room = chip.shared_bytes - SHARED_ALIGN

    def stages(left: int) -> int:
        return min(MOST_STAGES, left // stage)

    def staged(columns: int) -> int:
        """Bytes through which so many columns are stored."""
        widths = (*STAGED_COLUMNS, *(LOOSE_COLUMNS if loose else ()))
        return rows * OPERAND_BYTES * next((w for w in widths if columns % w == 0), columns)

    # A block that goes on to other tiles: it has the multiprocessor, and stores by TMA.
    split = registers_of(groups, chip.registers)
    most = split[1] if split else 255
    deep = stages(room - staged(columns))
    # Code is made for the registers that a thread begins with, whatever it has later.
    begun = registers_at_launch(chip.registers, groups)
    if held + max(TURNED, own[0]) <= most and held + WGMMA_OWN <= begun and deep >= LEAST_STAGES:
        yield tiling(deep, persistent=True)
        if groups == PAIRED and columns >= LEAST_PAIRED and columns % 64 == 0:
            yield tiling(deep, persistent=True, below=2)
    # Blocks of one tile, several on a multiprocessor: as many as registers have room for.
    threads = 128 * (1 + groups)
    takes, needs = (chip.registers // (threads * (-(-(held + one) // 8) * 8)) for one in own)
    most = min(MOST_AT_ONCE, max(takes, min(1, needs)), 2048 // threads)
    last, summed = 0, False
    for at_once in range(most, 0, -1):
        left = (chip.shared_bytes + RESERVED) // at_once - RESERVED - SHARED_ALIGN
        deep = stages(left - (staged(columns) if loose else 0))
        if deep < LEAST_STAGES or deep == last:
            continue
        last = deep
        yield tiling(deep, at_once)
        if at_once == 1 and rows * columns * products <= MOST_SHARED_LINES and columns % 64 == 0:
            yield tiling(deep, below=2)
            yield tiling(deep, beside=2)
        deep = stages(left)
        if held > SUMMED and products > 1:
            continue
        if not summed and deep >= ENOUGH_STAGES and rows <= 128 and columns % 64 == 0:
            summed = True
            for parts in PARTS:
                yield tiling(deep, at_once, parts, summed=True)
    for parts in CLUSTERED:
        sums = products * (rows * columns * SUM_BYTES + MBARRIER_BYTES)
        deep = stages(room - sums - (staged(columns // parts) if loose else 0))
        if columns % (SHARED_COLUMNS * parts) == 0 and deep >= LEAST_STAGES and most:
            yield tiling(deep, parts=parts)
