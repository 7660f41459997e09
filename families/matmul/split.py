"""Products whose output has few tiles: a cluster of CTAs splits the steps of each (S8, S9).

One tile is one CTA's work, so that a product of few rows and columns leaves most of a chip idle,
however deep it is.  The CTAs of a cluster then take parts of k, and bring their sums together in
shared memory.  What is read grows by nothing: each step's operands are read by one CTA still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from polyc.cost.products import clusters
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import OPERAND_BYTES
from polyc.dialects.plan.resources import MBARRIER_BYTES, SHARED_ALIGN, SUM_BYTES
from polyc.families.facts import DEPTH, holds_always
from polyc.families.family import Fields
from polyc.families.follow import steps_of
from polyc.families.matmul.recognise import Contraction

LEAST_STEPS = 4
"""Steps of a CTA at least: fewer do not fill the stages of its ring."""

SAVED_STEPS = 12
"""Steps that others must take off a CTA: about the time in which a cluster brings sums together."""

PARTS = (8, 4, 2)
"""CTAs of a cluster, the most first: 8 is what every chip of sm_90 has room for."""

FEW_ROWS = 16
"""Rows of an output of which a low tile has few."""

LOW, HIGH = 64, 128
"""Rows of a tile: of the rows that are not there, a box costs the copy engine what others do."""

STAGES = (4, 6)
"""The least and the most stages that the sums of a tile shall leave room for."""


@dataclass(frozen=True)
class Split:
    """A tile, whose steps ``parts`` CTAs share."""

    rows: int
    columns: int
    stages: int
    parts: int

    def fields(self) -> Fields:
        """The fields of a plan in which it differs from a persistent kernel."""
        return {
            "tile": [self.rows, self.columns, DEPTH],
            "stages": self.stages,
            "warp_tile": [64, self.columns],
            "consumers": self.rows // 64,
            "registers": [],
            "persistent": False,
            "split_k": self.parts,
        }


def named(splits: Sequence[Split]) -> dict[str, Split]:
    """The splits of a product by the names of their variants."""
    found: dict[str, Split] = {}
    for split in splits:
        name = f"tma_{'low_' if split.rows == LOW else ''}split{split.parts}"
        found[f"tma_wide_split{split.parts}" if name in found else name] = split
    return found


def tiles_of(gemm: Contraction, rows: int, columns: int) -> list[Dim]:
    """The tiles along each axis of the output: a batch's, the rows and the columns."""
    matrix = (gemm.size(gemm.m).ceildiv(rows), gemm.size(gemm.n).ceildiv(columns))
    return [*map(gemm.size, gemm.batch), *matrix]


def facts(gemm: Contraction, tile: Sequence[int], parts: int, arch: str) -> list[Assumption]:
    """That the chip has room for all clusters at once, and each CTA of them its steps.

    A low tile is for outputs of no more rows.
    """
    rows, columns, depth = tile
    tiles = prod(tiles_of(gemm, rows, columns), start=Dim.const(1))
    found = [
        Assumption(-tiles + clusters(ARCHS[arch].multiprocessors, parts), ">="),
        Assumption(gemm.size(gemm.k) - least_steps(parts) * depth, ">="),
    ]
    return [*found, Assumption(-gemm.size(gemm.m) + LOW, ">=")] if rows == LOW else found


def least_steps(parts: int) -> int:
    """The steps of a tile from where on it is worth to part them."""
    return max(parts * LEAST_STEPS, -(-SAVED_STEPS * parts // (parts - 1)))


def splits(gemm: Contraction, arch: str) -> list[Split]:
    """The splits of a product that may be worth a kernel, each for sizes of its own.

    One is of a low tile, for outputs of so few rows, and one of a high tile; and where that is not
    for all sizes, the one of the widest tile and the fewest CTAs, which has room for most tiles.
    """
    if not ARCHS[arch].wgmma:
        return []
    known, symbols = gemm.kernel.assumptions, gemm.kernel.symbol_names
    rows = gemm.size(gemm.m)

    def holds(size: Dim) -> bool:
        return holds_always(Assumption(size, ">="), known, symbols)

    def for_all(split: Split) -> bool:
        tile = (split.rows, split.columns, DEPTH)
        return all(holds(fact.expr) for fact in facts(gemm, tile, split.parts, arch))

    found: list[Split] = []
    if not holds(rows - (LOW + 1)):
        low = _fitting(gemm, arch, LOW)
        found += low[:1]
    if not holds(-rows + LOW):
        high = _fitting(gemm, arch, HIGH)
        found += high[:1]
        most = sorted(high, key=lambda split: (split.parts, -split.columns))[:1]
        if most != high[:1] and not for_all(high[0]):
            found += most
    return found


def _fitting(gemm: Contraction, arch: str, rows: int) -> list[Split]:
    """The splits of tiles of so many rows that the chip has room for, the best one first.

    That is where symbols are as small as they can be: of those that keep half of the chip busy one
    of the fewest CTAs a cluster, as these bring their sums together soonest.  Of two such tiles the
    narrow one keeps more of it busy; the wide one reads the rows less often, of which a low tile
    has many that are not there.
    """
    chip, depth = ARCHS[arch], gemm.size(gemm.k).constant()
    known, symbols = gemm.kernel.assumptions, gemm.kernel.symbol_names

    def at_most(axis: str, size: int) -> bool:
        return holds_always(Assumption(-gemm.size(axis) + size, ">="), known, symbols)

    some = gemm.size(gemm.m).constant()
    most = chip.multiprocessors
    half = clusters(most, 2)
    few = rows == LOW and (some is None or some <= FEW_ROWS)
    found: list[tuple[tuple[bool, int, int], Split]] = []
    widths = (64,) if at_most(gemm.n, 64) else (128, 64)
    if gemm.follow:
        widths = [columns for columns in widths if at_most(gemm.n, columns)]
    for columns in widths:
        *batch, high, wide = tiles_of(gemm, rows, columns)
        low = Dim.const(1) if rows == LOW else high
        least = prod(tiles.constant() or 1 for tiles in (*batch, low, wide))
        for parts in PARTS:
            rest = steps_of(gemm.follow) * (rows * parts * SUM_BYTES + MBARRIER_BYTES)
            stages = stages_of(len(gemm.parts), rows, columns, chip.shared_bytes - rest)
            deep = depth is None or depth >= least_steps(parts) * DEPTH
            if stages < STAGES[0] or least > clusters(most, parts) or not deep:
                continue
            busy = least * parts >= half
            by_width = -columns if few else columns
            order = (False, parts, by_width) if busy else (True, -least * parts, 0)
            found.append((order, Split(rows, columns, stages, parts)))
    return [split for _, split in sorted(found, key=lambda one: one[0])]


def stages_of(products: int, rows: int, columns: int, shared: int) -> int:
    """The stages that ``shared`` bytes have room for beside the sums of a tile."""
    sums = products * (rows * columns * SUM_BYTES + MBARRIER_BYTES)
    stage = (rows + products * columns) * DEPTH * OPERAND_BYTES + 2 * MBARRIER_BYTES
    return min(STAGES[1], (shared - SHARED_ALIGN - sums) // stage)
