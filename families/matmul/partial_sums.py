"""Products of few tiles and deep sums: any number of CTAs has the steps of each (S8, S9).

Where a cluster is too few for a tile, or a chip has none, CTAs store their sums of a part of the
steps in memory, and a second kernel adds them.  That costs a launch, and a trip of the sums to L2
and back for each part; so the model of time says which of these is worth it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import cast

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import OPERAND_BYTES
from polyc.dialects.plan.fields import Value
from polyc.dialects.plan.resources import MBARRIER_BYTES, SHARED_ALIGN
from polyc.families.facts import DEPTH
from polyc.families.family import Fields
from polyc.families.matmul.recognise import Contraction
from polyc.families.matmul.split import tiles_of

LEAST_STEPS = 8
"""Steps of 64 that a part has at least: those of fewer are loaded before the first is used."""

LEAST_PARTS = 4
"""Parts of a tile at least where there are clusters, which bring fewer of them together."""

TILES = ((64, 64), (64, 128), (128, 64), (128, 128))
"""Rows and columns of the tiles: small ones are more, and need fewer parts each to fill a chip."""

OPEN = {True: (64, 64, 32), False: (128, 128, 8)}
"""The tile where sizes are open, and the most parts of it: where there are clusters, which take
outputs of more tiles, and where there are none."""

MOST_STAGES = 8


@dataclass(frozen=True)
class Parts:
    """A tile whose steps ``parts`` CTAs have."""

    rows: int
    columns: int
    parts: int

    @property
    def name(self) -> str:
        """The name of its variant, behind that of the loader."""
        return f"{self.rows}x{self.columns}_parts{self.parts}"


def parted(gemm: Contraction, arch: str) -> list[Parts]:
    """The ways to part the tiles of a product that may be worth it.

    Where all sizes are known, those of which each multiprocessor has one CTA or half of them has,
    no two parts more than a step apart.  Otherwise one, for sizes of its own (``facts``): at the
    smallest sizes that symbols may have, the chip has room for it.
    """
    steps = gemm.size(gemm.k).ceildiv(DEPTH).constant()
    chip = ARCHS[arch].multiprocessors
    found: dict[Parts, None] = {}
    for rows, columns, most in _tiles(gemm, ARCHS[arch].cluster > 1):
        tiles = tiles_of(gemm, rows, columns // len(gemm.parts))
        least = prod(size.constant() or 1 for size in tiles)
        for share in (1, 2) if most is None else (1,):
            parts = min(chip // (least * share), most or chip)
            if steps is not None:
                parts = min(parts, steps // LEAST_STEPS)
                parts = _even(steps, parts) if parts > 1 else parts
            if parts >= (LEAST_PARTS if ARCHS[arch].cluster > 1 else 2):
                found[Parts(rows, columns // len(gemm.parts), parts)] = None
    return list(found)


def _tiles(gemm: Contraction, clusters: bool) -> Iterator[tuple[int, int, int | None]]:
    """Rows and columns of tiles, and how many parts one may have; None for as many as there is
    room for.  Two products share the columns of a tile.
    """
    if gemm.kernel.symbol_names:
        rows, columns, most = OPEN[clusters]
        yield rows, max(columns, 64 * len(gemm.parts)), most
        return
    for rows, columns in TILES:
        if len(gemm.parts) == 1 or columns > 64:
            yield rows, columns, None


def _even(steps: int, parts: int) -> int:
    """The fewest parts of which none has more steps than with ``parts``."""
    return -(-steps // -(-steps // parts))


def facts(gemm: Contraction, parts: Parts, arch: str) -> list[Assumption]:
    """That each multiprocessor has one CTA at most, and each part its least steps."""
    tiles = prod(tiles_of(gemm, parts.rows, parts.columns), start=Dim.const(1))
    return [
        Assumption(-tiles + ARCHS[arch].multiprocessors // parts.parts, ">="),
        Assumption(gemm.size(gemm.k) - parts.parts * LEAST_STEPS * DEPTH + (DEPTH - 1), ">="),
    ]


def fields(gemm: Contraction, parts: Parts, base: Mapping[str, Value], arch: str) -> Fields:
    """The fields of a plan: those of a variant's loader, with the tile and its parts."""
    rows, columns, grouped = parts.rows, parts.columns, base["mma"] == "wgmma"
    *_, depth = cast("list[int]", base["tile"])
    across = 1 if grouped else 2
    stage = (rows + len(gemm.parts) * columns) * depth * OPERAND_BYTES + 2 * MBARRIER_BYTES
    room = (ARCHS[arch].shared_bytes - SHARED_ALIGN) // stage
    most = MOST_STAGES if grouped else cast("int", base["stages"])
    return {
        **base,
        **({"fragment_buffers": 1} if len(gemm.parts) > 1 else {}),
        "tile": [rows, columns, depth],
        "warp_tile": [64 if grouped else rows // 2, columns // across],
        "stages": min(most, room),
        "consumers": rows // 64 if grouped else 1,
        "persistent": False,
        "registers": [],
        "split_k": parts.parts,
        "algo_choice": {"matmul": "partial_sums"},
    }
