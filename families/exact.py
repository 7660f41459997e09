"""Tiles of f32 that threads multiply by themselves (``mma = "fma"``), of products and windows."""

from __future__ import annotations

from polyc.families.family import Fields

FMA: Fields = {
    "mma": "fma",
    "loader": "cp_async",
    "tile": [128, 128, 16],
    "warp_tile": [64, 32],
    "stages": 4,
    "raster": "grouped",
    "group": 8,
    "vectorize": 4,
}
"""256 threads of 8x8 sums: 16 loads of 16 bytes from shared memory for 256 multiply-adds each."""
FMA_SMALL: Fields = {**FMA, "tile": [64, 64, 16], "warp_tile": [32, 32]}
"""For outputs of so few tiles that larger ones leave most of the chip idle."""
