"""The kernels of products that are no matter of a model: those of each architecture's table (S8).

They are what users may name, what takes rows and addresses that the space of plans is not for, and
all that an architecture without wgmma has.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption
from polyc.dialects.plan.fields import Value
from polyc.families.family import Fields
from polyc.families.follow import MOST_HELD, WIDTHS


@dataclass(frozen=True)
class MatmulVariant:
    """A kernel that runs when all contiguous sizes are multiples of ``multiple``."""

    name: str
    multiple: int
    fields: Mapping[str, Value]
    tiles: int = 0
    """The least tiles of the output, taken for whole ones: fewer leave multiprocessors idle."""
    at_once: bool = False
    """Whether it is only for outputs whose tiles the multiprocessors take at once, one each."""
    larger: tuple[int, int] | None = None
    """The larger tile that it is taken in the place of where its own fill the chip better."""
    lasts: tuple[int, int] = (5, 3)
    """How long such a tile lasts, as a fraction of its own: one of 128x256 holds twice the products
    of one of 128x128, and reads each row of an operand for twice as many."""
    in_batches: Mapping[str, Value] = field(default_factory=dict[str, Value])
    """The fields that differ where tiles are counted in more sizes than M, N and K."""
    crowded: Mapping[str, Value] | None = field(default_factory=dict[str, Value])
    """Those that differ where the epilogue reads two tensors or more by rows, which takes
    registers; None where nothing helps, and it is left out."""
    where: tuple[Assumption, ...] | None = None
    """Where the model of time takes it; None where its own facts say where it runs."""


WGMMA: Fields = {
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 256, 64],
    "stages": 4,
    "warp_tile": [64, 256],
    "consumers": 2,
    "registers": [40, 232],
    "raster": "grouped",
    "group": 16,
    "persistent": True,
    "vectorize": 8,
}
WGMMA_SMALL: Fields = {**WGMMA, "tile": [128, 128, 64], "stages": 6, "warp_tile": [64, 128]}
WGMMA_LOW: Fields = {
    **WGMMA,
    "tile": [64, 128, 64],
    "stages": 8,
    "warp_tile": [64, 128],
    "consumers": 1,
    "registers": [],
}
"""Two thirds of the time of 128x128 a tile, as fills_better() reckons, at half of its products: it
is faster as long as one wave of it is enough, and at no other number of waves.  Half as many
columns instead would take as long, but two tiles of wgmma would share less of what they read from
shared memory, and outputs of few rows would have twice as many tiles."""
_MMA_SYNC: Fields = {
    "mma": "mma.sync",
    "tile": [128, 128, 32],
    "warp_tile": [64, 64],
    "raster": "grouped",
    "group": 8,
}
_MMA_SYNC_LARGE: Fields = {
    **_MMA_SYNC,
    "loader": "cp_async",
    "tile": [256, 128, 64],
    "stages": 3,
    "fragment_buffers": 2,
    "vectorize": 8,
}
"""Operands are loaded a step ahead, and k is 64 deep so that four steps share a barrier; 147456
bytes of shared memory fit a block of sm_80.  256x128 needs a tile for each of an A100's 108
multiprocessors."""
_NARROW: Fields = {"tile": [128, 64, 32], "warp_tile": [64, 32]}
"""Threads that load single elements hold many addresses: with those of a batch, accumulators for
128 columns would not stay in registers beside them."""
_SCALAR = MatmulVariant(
    "scalar",
    1,
    {**_MMA_SYNC, "loader": "register", "stages": 2, "vectorize": 1},
    in_batches=_NARROW,
)
_LOW: Fields = {"tile": [64, 64, 32], "warp_tile": [32, 32]}
"""Where deep products have copies, these are for shallow ones: threads wait for their loads there,
and what hides that is more blocks."""
COPIED: Fields = {"loader": "padded", "vectorize": 1}
"""Operands are copied to rows that TMA takes, so that a tile costs what others do.  One of 128x128
is nearly as fast as a larger one where there are many, and leaves less of the chip idle where there
are few, so that one kernel is for all sizes."""

ROWS_OF_REGISTERS = 16
"""Rows of a warp that multiplies what it computes in registers: with all columns of the tile."""

VARIANTS: Mapping[str, tuple[MatmulVariant, ...]] = {
    "sm_90a": (
        MatmulVariant("tma_low", 8, WGMMA_LOW, at_once=True),
        MatmulVariant("tma_small", 8, WGMMA_SMALL, larger=(128, 256)),
        MatmulVariant("tma", 8, WGMMA, crowded=None),
        MatmulVariant("padded", 1, {**WGMMA_SMALL, **COPIED}),
        MatmulVariant(
            "cp_async", 2, {**_MMA_SYNC, **_LOW, "loader": "cp_async", "stages": 3, "vectorize": 2}
        ),
        replace(_SCALAR, fields={**_SCALAR.fields, **_LOW}, in_batches={}),
    ),
    "sm_80": (
        MatmulVariant(
            "cp_async16_large",
            8,
            _MMA_SYNC_LARGE,
            tiles=ARCHS["sm_80"].multiprocessors,
            crowded={"fragment_buffers": 1},
        ),
        MatmulVariant(
            "cp_async16",
            8,
            {**_MMA_SYNC_LARGE, "tile": [128, 128, 64]},
            crowded={"fragment_buffers": 1},
        ),
        MatmulVariant(
            "padded",
            1,
            {**_MMA_SYNC_LARGE, "tile": [128, 128, 64], "fragment_buffers": 1, **COPIED},
        ),
        MatmulVariant(
            "cp_async4", 2, {**_MMA_SYNC, "loader": "cp_async", "stages": 3, "vectorize": 2}
        ),
        _SCALAR,
    ),
}
"""The variants of each architecture, fastest first; the last one takes every shape."""

SHALLOW: Fields = {"tile": [32, 64, 32], "warp_tile": [16, 32], "stages": 4}
"""What threads that load single elements have instead where their tiles are few: all of a shallow
product is on its way at once."""

FEW_TILES = 5
"""Such tiles for each multiprocessor at most.  Six products of a depth of 61 to 125 with 66 to 561
tiles took an H100 0.69 to 0.94 of what 64x64 in two stages takes, and two with 1026 and 2145 tiles
1.17 and 1.08 of it."""


def of_few_tiles(variant: MatmulVariant) -> MatmulVariant:
    """A variant that loads single elements, of few tiles; others as they are."""
    if variant.fields["loader"] != "register":
        return variant
    return replace(variant, fields={**variant.fields, **SHALLOW})


_MMA_SYNC_ONLY = tuple(v for v in VARIANTS["sm_90a"] if v.fields["mma"] == "mma.sync")
"""The variants of sm_90a for rows and addresses that TMA does not take as they are."""

_BESIDE: Fields = {"tile": [128, 64, 32], "warp_tile": [64, 32], "fragment_buffers": 1}
"""Two accumulators take the registers of one that is twice as wide."""

PAIRS: Mapping[str, tuple[MatmulVariant, ...]] = {
    "sm_90a": (
        MatmulVariant("tma", 8, {**WGMMA_SMALL, "stages": 4}),
        MatmulVariant("padded", 1, {**WGMMA_SMALL, "stages": 4, **COPIED}),
        *(replace(v, fields={**v.fields, **_BESIDE}) for v in _MMA_SYNC_ONLY),
    ),
    "sm_80": (
        MatmulVariant(
            "cp_async16",
            8,
            {**_MMA_SYNC_LARGE, **_BESIDE, "tile": [128, 64, 64], "fragment_buffers": 2},
            crowded={"fragment_buffers": 1},
        ),
        *(replace(v, fields={**v.fields, **_BESIDE}) for v in VARIANTS["sm_80"][2:]),
    ),
}
"""The variants of two products that share the operand of their rows."""


def followed(columns: int, arch: str) -> tuple[MatmulVariant, ...]:
    """The variants of a product whose rows of so many elements are reduced after it.

    A warpgroup has its rows whole where these are short; the CTAs of a cluster, which lie along
    them, or the warps beside each other exchange what they reduce where not.
    """
    if ARCHS[arch].wgmma:
        wide = min(columns, MOST_HELD)
        tma: Fields = {**WGMMA, "stages": 6, "warp_tile": [64, wide]}
        if columns > wide:
            tma |= {"persistent": False, "registers": [], "cluster": [1, columns // wide]}
        high = {**tma, "tile": [128, wide, 64]}
        low = {**tma, "tile": [64, wide, 64], "consumers": 1, "registers": []}
        first = (
            MatmulVariant("tma_low", 8, low, larger=(128, wide)),
            MatmulVariant("tma", 8, high),
            MatmulVariant("padded", 1, {**high, **COPIED}),
        )
        others = _MMA_SYNC_ONLY
    else:
        first, others = (), VARIANTS[arch][1:]
    rows = 64 if columns == WIDTHS[-1] else 128
    own: Fields = {"warp_tile": [32, min(columns, 64)], "fragment_buffers": 1}

    def whole(variant: MatmulVariant) -> MatmulVariant:
        _, _, depth = cast("list[int]", variant.fields["tile"])
        fields = {**variant.fields, **own, "tile": [rows, columns, depth]}
        return replace(variant, fields=fields, in_batches={})

    return (*first, *map(whole, others))
