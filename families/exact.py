"""Tiles of f32 that threads multiply by themselves (``mma = "fma"``), of products and windows.

A plan is a tile, how many of its rows and columns a warp has, how deep its steps are, and how many
blocks share its steps.  The model of time ranks them for sizes (``cost/exact.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from polyc.cost.exact import exact_terms
from polyc.cost.products import Terms, Tiles
from polyc.families.facts import PIECE
from polyc.families.family import Fields
from polyc.families.ranking import Form
from polyc.families.space import PARTS, Tiling

FMA: Fields = {
    "mma": "fma",
    "loader": "cp_async",
    "tile": [128, 128, 16],
    "warp_tile": [64, 32],
    "stages": 3,
    "fragment_buffers": 2,
    "raster": "grouped",
    "group": 8,
    "vectorize": 4,
}
"""256 threads of 8x8 sums: 4 loads of 16 bytes from shared memory for 64 multiply-adds each."""
FMA_SMALL: Fields = {**FMA, "tile": [64, 64, 16], "warp_tile": [32, 32], "stages": 4}
"""For outputs of so few tiles that larger ones leave most of the chip idle."""

WIDE, ANY = 4, 1
"""Elements of f32 that threads bring and store at once: of rows that are vectors, and of any."""

NAMES = {(128, 256): "_large", (128, 128): "", (64, 64): "_small"}
"""The names of tiles that plans of users may have."""


@dataclass(frozen=True, slots=True)
class ExactTiling(Tiling):
    """A plan of f32: ``warp`` are the rows and the columns of a warp."""

    warp: tuple[int, int] = (64, 64)

    @property
    def is_named(self) -> bool:
        return self.parts == 1 and (self.rows, self.columns) in NAMES

    @property
    def is_padded(self) -> bool:
        return self.is_named

    @property
    def name(self) -> str:
        return self.of_width(WIDE)

    def of_width(self, width: int) -> str:
        """The name of its variant, whose threads bring and store so many elements at once."""
        found = "fma" if width > ANY else "fma_any"
        if self.is_named:
            return found + NAMES[self.rows, self.columns]
        found += f"_{self.rows}x{self.columns}"
        return found + f"_parts{self.parts}" if self.parts > 1 else found

    def fields(self, family: str = "matmul") -> Fields:
        found: Fields = {
            **FMA,
            "tile": [self.rows, self.columns, self.depth],
            "warp_tile": list(self.warp),
            "stages": self.stages,
            "split_k": self.parts,
        }
        return {**found, "algo_choice": {family: "partial_sums"}} if self.summed else found


DEPTH = 16
"""Elements of k in a step."""

_TILES = (
    ExactTiling(128, 256, 3, depth=DEPTH),
    ExactTiling(256, 128, 3, depth=DEPTH),
    ExactTiling(128, 128, 3, at_once=2, depth=DEPTH, warp=(64, 32)),
    ExactTiling(128, 64, 4, at_once=2, depth=DEPTH, warp=(32, 32)),
    ExactTiling(64, 128, 4, at_once=2, depth=DEPTH, warp=(32, 32)),
    ExactTiling(64, 64, 4, at_once=4, depth=DEPTH, warp=(32, 32)),
    ExactTiling(32, 128, 4, at_once=4, depth=DEPTH, warp=(32, 32)),
    ExactTiling(16, 128, 4, at_once=2, depth=2 * DEPTH, warp=(16, 32)),
    ExactTiling(128, 32, 4, at_once=4, depth=DEPTH, warp=(32, 32)),
    ExactTiling(128, 16, 4, at_once=2, depth=2 * DEPTH, warp=(32, 16)),
)
"""Warps have 64x64 sums, of which a thread takes 6 loads for 128 multiply-adds, where a
multiprocessor has eight such warps; fewer where tiles are small, or low for outputs of few rows."""

MOST_BROUGHT = 16
"""Elements of pixels that a thread brings for a step at most: it keeps where each of them lies."""

MOST_SPLIT = 128 * 128
"""Elements of a tile at most whose steps several blocks have."""


MOST_EXACT, MOST_ANY = 8, 5
"""Kernels at most of a product of open sizes whose rows are vectors, and of one of any."""


@cache
def exact_space() -> tuple[ExactTiling, ...]:
    """All plans of f32, those whose sums go through memory for some numbers of parts."""
    parted = (
        replace(tile, parts=parts, summed=True)
        for tile in _TILES
        if tile.rows * tile.columns <= MOST_SPLIT
        for parts in PARTS
    )
    return (*_TILES, *parted)


@dataclass(frozen=True)
class ExactForm(Form):
    """What there is of a product of f32, or of its windows, beside its sizes.

    ``largest`` are the elements of a tile at most, where threads hold more than its sums.
    ``pixels`` is the axis of a tile, 0 or 1, of whose elements threads keep where they lie.
    """

    largest: int = 128 * 256
    pixels: int | None = None

    def most(self, opened: int, padded: bool) -> int:
        return MOST_ANY if padded else MOST_EXACT

    def space(self, arch: str, every: bool = False) -> tuple[Tiling, ...]:
        return tuple(filter(self.takes, exact_space()))

    def takes(self, plan: Tiling) -> bool:
        tile = (plan.rows, plan.columns)
        whole = (PIECE % size == 0 for size, cut in zip(tile, self.cut, strict=True) if cut)
        fits = plan.rows * plan.columns <= self.largest
        if self.pixels is not None:
            assert isinstance(plan, ExactTiling)
            warps = plan.rows * plan.columns // (plan.warp[0] * plan.warp[1])
            fits &= tile[self.pixels] * plan.depth <= MOST_BROUGHT * 32 * warps
        return fits and (self.sums or not plan.summed) and all(whole)

    def terms(self, plan: Tiles, chip: int, idle: float = 0.0) -> Terms:
        assert isinstance(plan, ExactTiling)
        return exact_terms(plan, plan.warp, chip)
