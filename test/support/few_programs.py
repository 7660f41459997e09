"""Random attentions of few queries, and plans for them: the class of what decoding may ask for."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.plan import ScheduleOp
from polyc.passes.pipeline import build
from polyc.test.support.attention_programs import TO_REGION, Attention, passed
from polyc.test.support.gpu_text import find
from polyc.test.support.paged_programs import Drawn as DrawnPages
from polyc.test.support.paged_programs import Paged
from polyc.tools.registry import make_context

Array = np.ndarray[Any, Any]

LENGTHS = (1, 3, 97, 1023, 1025)
"""Of a cache: one key, fewer than a step has, and such that nothing divides."""

MASKS = ("[{h}, 1, N], f32", "[B, {h}, M, N], f16", "[B, 1, 1, N], i1", "[M, N], i1")
POSITIONS = ("", " causal offset N - M", " window [40, 2] offset N - M", " causal offset N - M - 1")


@dataclass(frozen=True)
class Few:
    """An attention, sizes to run it at, and a plan of its kernels for few queries."""

    program: Attention
    sizes: Mapping[str, int]
    plan: Mapping[str, Any]

    def inputs(self, seed: int) -> list[Array]:
        """Random values; where positions are hidden from all queries, V is not finite."""
        q, k, v, *masks = self.program.inputs(self.sizes, seed)
        if "N - M - 1" in self.program.options:
            v[..., -1, ::2], v[..., -1, 1::2] = np.nan, np.inf
        return [q, k, v, *masks]

    def planned(self, arch: str, folder: Path) -> ModuleOp:
        """The kernels of the plan alone, at the tile level."""
        return planned(self.program, arch, folder, self.plan)


def planned(
    program: Attention | Paged, arch: str, folder: Path, given: Mapping[str, Any]
) -> ModuleOp:
    """The kernels of one plan, at the tile level."""
    file = folder / "plan.json"
    file.write_text(json.dumps(given))
    module = passed(program.text(), *TO_REGION)
    build("plan-select", arch, str(file)).apply(make_context(), module)
    for schedule in find(module, ScheduleOp):
        if schedule.variant.data != given["variant"]:
            schedule.detach()
    for name in ("region-expand-together", "region-to-gpu"):
        build(name, arch).apply(make_context(), module)
    return module


def plan(
    rows: int, keys: int, features: tuple[int, int], parts: int, **more: Any
) -> dict[str, Any]:
    """A plan of heads that share keys; ``features`` are those of tiles of K and of V."""
    return {
        "variant": "cp_async",
        "tile": [rows, keys, features[0]],
        "warp_tile": [16, features[1]],
        "stages": 2,
        "split_k": parts,
        "algo_choice": {"attention": "shared_keys"},
        **more,
    }


def in_pages(paged: DrawnPages, arch: str, folder: Path) -> ModuleOp:
    """The kernels of a random attention over pages by its plan, at the tile level."""
    features = tile_of(paged.program.features)
    fields: dict[str, Any] = {}
    if paged.program.heads == paged.program.of_keys:
        fields["algo_choice"] = {"attention": "streaming_softmax"}
    given = plan(paged.rows, paged.keys, (features, features), paged.parts, **fields)
    return planned(paged.program, arch, folder, given)


def tile_of(size: int) -> int:
    """The features of a tile that holds a head's."""
    return size if size % 16 == 0 else -(-size // 32) * 32


def drawn(number: int, longest: int = LENGTHS[-1], widest: int = 256) -> Few:
    """The ``number``-th attention, of caches and heads that are not beyond the limits."""
    rng = random.Random(number)
    group, keys, queries = rng.choice((1, 2, 3, 4, 8)), rng.randint(1, 3), rng.randint(1, 16)
    depth, width = (8 * rng.randint(1, widest // 8) for _ in range(2))
    heads = group * keys
    masks = [rng.choice(MASKS).format(h=heads)] if rng.random() < 0.4 else []
    options = rng.choice(POSITIONS)
    options = f" cap {rng.randint(1, 5)}.0{options}" if rng.random() < 0.2 else options
    program = Attention(
        f"[B, {heads}, M, {depth}]",
        f"[B, {keys}, N, {depth}]",
        f"[B, {keys}, N, {width}]",
        [],
        options=options,
        masks=masks,
        element=rng.choice(("f16", "bf16")),
        lse=rng.random() < 0.5,
    )
    length = rng.choice([n for n in LENGTHS if n <= longest])
    sizes = {"B": rng.randint(1, 2), "M": queries, "N": length}
    rows = 16 * rng.randint(1, min(4, -(-group * queries // 16)))
    step = 32 if max(depth, width) <= 128 else 16
    fields: dict[str, Any] = {"stages": rng.randint(2, 3)}
    if group == 1:
        fields["algo_choice"] = {"attention": "streaming_softmax"}
    features = (tile_of(depth), tile_of(width))
    return Few(program, sizes, plan(rows, step, features, rng.randint(1, 9), **fields))
