"""The norms of examples/tile beyond their rows in the table: every variant, NaN and infinities.

The variants for long rows work at any length.  A cluster's kernel is made small here by its own
text: an eighth of the threads and of the elements of a chunk, and clusters of 2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.finish import finish
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.reference import tolerance_check
from polyc.test.unit.tile_cases import CASES, Array, lowered, parsed
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

NORMS = ("softmax", "rms_norm", "layer_norm")
NUMBERS = re.compile(r"\b(65536|8192|4096|1024|512)\b")
"""Of a cluster's kernel: elements of a CTA's part and of a chunk, and threads."""


def smaller(name: str, variant: str) -> str:
    """One kernel of a file alone in its module, a cluster's at an eighth of its size."""
    text = module_text(parse_text(make_context(), CASES[name].text(), name))
    kept: list[str] = []
    for part in re.split(r"(?=  gpu\.(?:kernel|dispatch) )", text):
        if part.startswith("  gpu.kernel"):
            if f"@{variant}(" not in part:
                continue
            if "cluster 16" in part:
                part = NUMBERS.sub(lambda m: str(int(m[0]) // 8), part)
            part = part.replace("cluster 16", "cluster 2")
            part = re.sub(r"floordiv 16\)\)> \(%(block|grid)\)", r"floordiv 2))> (%\1)", part)
        elif part.startswith("  gpu.dispatch"):
            lines = part.replace("16 * M", "2 * M").splitlines()
            part = "\n".join(
                line for line in lines if "gpu.launch" not in line or f"@{variant} " in line
            )
        kept.append(part)
    return "".join(kept)


@cache
def module(name: str, variant: str, lower: bool) -> ModuleOp:
    found = parse_text(make_context(), smaller(name, variant), name)
    if lower:
        finish(found)
    return gpu_module_of(found)


def check(name: str, outputs: Sequence[Array], inputs: Sequence[Array]) -> None:
    kind = parsed(name).dispatch().arg_types.data[-1]
    (want,) = CASES[name].expected(inputs, {})
    assert (mismatch := tolerance_check(outputs[0], want, kind.element_type)) is None, mismatch
    if name == "softmax":  # Most results are below the tolerance's constant part.
        np.testing.assert_allclose(outputs[0].astype(np.float32), want, rtol=1.5e-3, atol=1e-7)


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("name", NORMS)
def test_a_row_a_cluster(name: str, schedule: str) -> None:
    """Three clusters walk over seven rows, so that the ring of chunks goes round."""
    sizes = {"M": 7, "N": 9000}
    inputs = CASES[name].inputs(sizes)
    variant = f"{name}_cluster"
    result = simulate(
        module(name, variant, True),
        inputs,
        sizes,
        schedule=schedule,
        completion="random",
        seed=1,
        multiprocessors=6,
    )
    result.check()
    check(name, result.outputs, inputs)


@pytest.mark.parametrize("schedule", ["round-robin", "random"])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("columns", [2600])
def test_a_row_in_shared_memory(name: str, columns: int, schedule: str) -> None:
    sizes = {"M": 3, "N": columns}
    inputs = CASES[name].inputs(sizes)
    variant = f"{name}_shared"
    result = simulate(
        module(name, variant, True), inputs, sizes, schedule=schedule, completion="random", seed=2
    )
    result.check()
    check(name, result.outputs, inputs)


@pytest.mark.parametrize("variant", ["cluster", "shared"])
@pytest.mark.parametrize("name", NORMS)
def test_long_rows_as_tiles(name: str, variant: str) -> None:
    sizes = {"M": 5, "N": 3208}
    inputs = CASES[name].inputs(sizes)
    found = module(name, f"{name}_{variant}", False)
    check(name, tile.run(found, inputs, sizes, multiprocessors=4), inputs)


@pytest.mark.parametrize("variant", ["warp", "block", "wide", "any"])
@pytest.mark.parametrize("name", NORMS)
def test_every_variant_takes_a_short_row(name: str, variant: str) -> None:
    sizes = {"M": 3, "N": 264}
    inputs = CASES[name].inputs(sizes, seed=5)
    result = simulate(lowered(name), inputs, sizes, f"{name}_{variant}", schedule="random", seed=3)
    result.check()
    check(name, result.outputs, inputs)


def special(change: str, x: Array) -> Array:
    """One row with values that arithmetic treats apart."""
    match change:
        case "one value":
            return np.full_like(x, 7)
        case "the largest":
            return np.where(x > 0, 65504, -65504)
        case "all minus infinity":
            return np.full_like(x, -np.inf)
        case _:
            return np.where(x > 2, float(change), x)


@pytest.mark.parametrize(
    "change", ["one value", "the largest", "all minus infinity", "-inf", "inf", "nan"]
)
@pytest.mark.parametrize("variant", ["warp", "block", "any", "cluster"])
def test_special_values(variant: str, change: str) -> None:
    """NaN and infinities come out as the reference has them, in every way to hold a row."""
    sizes = {"M": 1, "N": 264}
    (x,) = CASES["softmax"].inputs(sizes, seed=9)
    inputs = [special(change, x.astype(np.float32)).astype(x.dtype)]
    small = variant == "cluster"
    found = module("softmax", "softmax_cluster", True) if small else lowered("softmax")
    result = simulate(found, inputs, sizes, f"softmax_{variant}")
    result.check()
    check("softmax", result.outputs, inputs)


def test_a_large_mean_costs_no_accuracy() -> None:
    """The variance of LayerNorm is that of differences: E[x²] - E[x]² would lose all of it."""
    sizes = {"M": 2, "N": 1032}
    x, w, b = CASES["layer_norm"].inputs(sizes)
    inputs = [(x.astype(np.float32) + 2000).astype(x.dtype), w, b]
    result = simulate(lowered("layer_norm"), inputs, sizes)
    check("layer_norm", result.outputs, inputs)
