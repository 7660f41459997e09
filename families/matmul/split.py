"""Products whose output has few tiles: a cluster of CTAs splits the steps of each (S8, S9).

One tile is one CTA's work, so that a product of few rows and columns leaves most of a chip idle,
however deep it is.  The CTAs of a cluster then take parts of k, and bring their sums together in
shared memory.  What is read grows by nothing: each step's operands are read by one CTA still.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import OPERAND_BYTES
from polyc.dialects.plan.resources import MBARRIER_BYTES, SHARED_ALIGN, SUM_BYTES
from polyc.families.facts import holds_always
from polyc.families.family import Fields
from polyc.families.matmul.recognise import Contraction

DEPTH = 64
"""Elements of k that a step takes."""

LEAST_STEPS = 4
"""Steps of a CTA at least: fewer do not fill the stages of its ring."""

SAVED_STEPS = 12
"""Steps that others must take off a CTA: about the time in which a cluster brings sums together."""

PARTS = (8, 4, 2)
"""CTAs of a cluster, the most first: 8 is what every chip of sm_90 has room for."""

GPC = 16
"""SMs that each GPC of a chip of sm_90 is taken to have for clusters.  A cluster lies in one GPC
(CUDA C++ Programming Guide, "Thread Block Clusters"); what is left of that stays out of them."""

COUNT = 2
"""Variants of one product, each for sizes of its own."""

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


def tiles_of(gemm: Contraction, rows: int, columns: int) -> list[Dim]:
    """The tiles along each axis of the output: a batch's, the rows and the columns."""
    matrix = (gemm.size(gemm.m).ceildiv(rows), gemm.size(gemm.n).ceildiv(columns))
    return [*map(gemm.size, gemm.batch), *matrix]


def clusters(arch: str, parts: int) -> int:
    """The clusters of ``parts`` CTAs that run at once, of one CTA an SM."""
    return ARCHS[arch].multiprocessors // GPC * (GPC // parts)


def facts(gemm: Contraction, tile: Sequence[int], parts: int, arch: str) -> list[Assumption]:
    """That the chip has room for all clusters at once, and each CTA of them its steps."""
    rows, columns, depth = tile
    tiles = prod(tiles_of(gemm, rows, columns), start=Dim.const(1))
    return [
        Assumption(-tiles + clusters(arch, parts), ">="),
        Assumption(gemm.size(gemm.k) - least_steps(parts) * depth, ">="),
    ]


def least_steps(parts: int) -> int:
    """The steps of a tile from where on it is worth to part them."""
    return max(parts * LEAST_STEPS, -(-SAVED_STEPS * parts // (parts - 1)))


def splits(gemm: Contraction, arch: str) -> list[Split]:
    """The splits of a product that may be worth a kernel, those of most CTAs first.

    The tile is the largest one whose clusters keep more than half of the chip busy where symbols
    are as small as they can be, or else the smallest: a larger one reads its operands for more
    elements.  Of the numbers of CTAs that there is room for then, the largest is taken, and the
    next one for larger sizes.
    """
    chip = ARCHS[arch]
    if not chip.wgmma:
        return []
    known, symbols = gemm.kernel.assumptions, gemm.kernel.symbol_names

    def at_most(axis: str, size: int) -> bool:
        return holds_always(Assumption(-gemm.size(axis) + size, ">="), known, symbols)

    rows = 64 if at_most(gemm.m, 64) else 128
    widths = (64,) if at_most(gemm.n, 64) else (128, 64)
    found: list[Split] = []
    for columns in widths:
        least = prod(tiles.constant() or 1 for tiles in tiles_of(gemm, rows, columns))
        stages = stages_of(len(gemm.parts), rows, columns, chip.shared_bytes)
        depth = gemm.size(gemm.k).constant()
        fitting = [
            parts
            for parts in PARTS
            if least <= clusters(arch, parts)
            and (depth is None or depth >= least_steps(parts) * DEPTH)
        ]
        if stages < STAGES[0] or not fitting:
            continue
        found = [Split(rows, columns, stages, parts) for parts in fitting[:COUNT]]
        if gemm.size(gemm.n).constant() is None or 2 * least * fitting[0] > chip.multiprocessors:
            break
    tile = (found[0].rows, found[0].columns, DEPTH) if found else ()
    if found and all(
        holds_always(fact, known, symbols) for fact in facts(gemm, tile, found[0].parts, arch)
    ):
        return found[:1]
    return found


def stages_of(products: int, rows: int, columns: int, shared: int) -> int:
    """The stages that ``shared`` bytes have room for beside the sums of a tile."""
    sums = products * (rows * columns * SUM_BYTES + MBARRIER_BYTES)
    stage = (rows + products * columns) * DEPTH * OPERAND_BYTES + 2 * MBARRIER_BYTES
    return min(STAGES[1], (shared - SHARED_ALIGN - sums) // stage)
