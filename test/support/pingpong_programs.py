"""Programs and plans of ping-pong: consumers that take turns, each with a tile of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import ModuleOp, bf16

from polyc.dialects import frontend
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import across, batched, gated, plain, residual


def turns(columns: int = 128, consumers: int = 2, **more: Any) -> dict[str, Any]:
    """A plan of two or three consumers, each with tiles of 64 rows of its own."""
    return {
        "variant": "tma",
        "pingpong": True,
        "tile": [64, columns, 64],
        "warp_tile": [64, columns],
        "consumers": consumers,
        "registers": [40, 232] if consumers == 2 else [32, 160],
        "stages": 3,
        "when": ["K mod 8 == 0", "N mod 8 == 0", "K >= 1"],
        **more,
    }


def convolution() -> ModuleOp:
    s = Sketch("conv")
    x, w = s.input("x", "N", 6, 6, "C"), s.input("w", "F", 3, 3, "C")
    return s.done(
        y=s.fn("relu", s.add(frontend.Conv2dOp(x, w, layout="nhwc", padding=[1, 1, 1, 1])))
    )


CASES: dict[str, tuple[Callable[[], ModuleOp], dict[str, Any], dict[str, int]]] = {
    "one tile": (plain, turns(), {"M": 64, "N": 128, "K": 128}),
    "an odd number of tiles": (plain, turns(), {"M": 300, "N": 136, "K": 200}),
    "one step": (plain, turns(64), {"M": 200, "N": 200, "K": 8}),
    "three consumers": (plain, turns(consumers=3), {"M": 460, "N": 136, "K": 72}),
    "wide tiles": (plain, turns(256, stages=4), {"M": 200, "N": 520, "K": 72}),
    "columns first": (plain, turns(raster="column", group=1), {"M": 200, "N": 264, "K": 72}),
    "bf16": (lambda: plain(element=bf16), turns(), {"M": 200, "N": 136, "K": 72}),
    "a residual": (residual, turns(), {"M": 200, "N": 136, "K": 72}),
    "an output in f32": (across, turns(), {"M": 200, "N": 136, "K": 72}),
    "a batch": (batched, turns(), {"B": 3, "M": 70, "N": 136, "K": 72}),
    "two products": (gated, turns(64), {"M": 200, "N": 136, "K": 72}),
    "a convolution": (
        convolution,
        turns(when=["C mod 8 == 0", "F mod 8 == 0", "C >= 1", "N >= 1", "F >= 1"]),
        {"N": 5, "C": 16, "F": 136},
    ),
}
"""Programs, plans and sizes, at which two CTAs have several tiles each."""
