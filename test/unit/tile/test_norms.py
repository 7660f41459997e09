"""The norms of examples/tile beyond their rows in the table: every variant, NaN and infinities.

The variants for long rows work at any length.  Kernels of a cluster and of a grid are made small
here by their own text: an eighth of the threads and of the elements of a chunk, and clusters of 2.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.finish import finish
from polyc.playback import tile
from polyc.playback.agreement import tolerance_check
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.mutation import mutants, mutated
from polyc.test.support.tile_cases import CASES, Array, lowered, parsed
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

NORMS = ("softmax", "rms_norm", "layer_norm")
NUMBERS = re.compile(r"\b(65536|8192|4096|1024|512)\b")
"""Of a cluster's kernel: elements of a CTA's part and of a chunk, and threads."""

GRID_NUMBERS = re.compile(r"\b(2097152|8192|2048|256)\b")
"""Of a grid's kernel: columns of all CTAs, of one and of a chunk, and threads."""


def smaller(name: str, variant: str) -> str:
    """One variant of a file alone in its module, a cluster's or grid's at an eighth of its size."""
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
            part = re.sub(r"(?m)^ *gpu\.sequence @(\w+)(.*\n)*? *}\n", only_sequence(variant), part)
            lines = part.replace("16 * M", "2 * M").splitlines()
            part = "\n".join(
                line for line in lines if "gpu.launch" not in line or f"@{variant} " in line
            )
        kept.append(part)
    whole = "".join(kept)
    if not variant.endswith("_grid"):
        return whole
    whole = whole.replace("8.192000e+03", "1.024000e+03").replace("8191", "1023")
    return GRID_NUMBERS.sub(lambda m: str(int(m[0]) // 8), whole)


def only_sequence(variant: str) -> Callable[[re.Match[str]], str]:
    """Drops every sequence but that of a name."""
    return lambda m: m[0] if m[1] == variant else ""


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


IN_TURN = [(name, ("round-robin", "random")[i % 2]) for i, name in enumerate(NORMS)]
"""The norms walk over rows in the same way: a schedule each."""


@pytest.mark.turns(2)
@pytest.mark.parametrize(("name", "schedule"), IN_TURN)
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


GRID_SIZES = {"M": 13, "N": 2600}
"""Four teams of three CTAs, or three, walk over the rows; the last CTA has 552 columns of 1024."""


def on_a_grid(name: str, inputs: Sequence[Array], found: ModuleOp, **options: Any) -> Any:
    return simulate(found, inputs, GRID_SIZES, f"{name}_grid", multiprocessors=3, **options)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("schedule", "completion"),
    [("round-robin", "late"), ("random", "random"), ("one-warp-ahead", "late")],
)
@pytest.mark.parametrize("name", NORMS)
def test_a_row_a_team_of_the_grid(name: str, schedule: str, completion: str) -> None:
    inputs = CASES[name].inputs(GRID_SIZES)
    found = module(name, f"{name}_grid", True)
    result = on_a_grid(name, inputs, found, schedule=schedule, completion=completion, seed=1)
    result.check()
    assert result.launches == [(f"{name}_grid", 9 if name == "layer_norm" else 12)]
    check(name, result.outputs, inputs)


@pytest.mark.parametrize("name", NORMS)
def test_teams_give_the_same_bits_in_any_order(name: str) -> None:
    inputs = CASES[name].inputs(GRID_SIZES, seed=2)
    found = module(name, f"{name}_grid", True)
    one = on_a_grid(name, inputs, found)
    other = on_a_grid(name, inputs, found, schedule="random", seed=7)
    assert np.array_equal(one.outputs[0], other.outputs[0])


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", NORMS)
def test_mutants_of_a_grid_are_caught(name: str) -> None:
    found = module(name, f"{name}_grid", True)
    inputs = CASES[name].inputs(GRID_SIZES)
    right = on_a_grid(name, inputs, found).outputs[0]
    steps = ("gpu.signal_global", "gpu.wait_global", "gpu.cp_async_wait", "gpu.store_global")
    chosen = [m for m in mutants(found) if m.op in steps and "predicate" not in m.change]
    assert {m.op for m in chosen} == set(steps)
    for mutant in chosen:
        result = on_a_grid(name, inputs, mutated(found, mutant))
        assert result.findings or not np.array_equal(result.outputs[0], right), mutant


@pytest.mark.turns(2)
@pytest.mark.parametrize(("name", "schedule"), IN_TURN)
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


@pytest.mark.turns(2)
@pytest.mark.parametrize("variant", ["cluster", "grid", "shared"])
@pytest.mark.parametrize("name", NORMS)
def test_long_rows_as_tiles(name: str, variant: str) -> None:
    sizes = {"M": 5, "N": 3208}
    inputs = CASES[name].inputs(sizes)
    found = module(name, f"{name}_{variant}", False)
    check(name, tile.run(found, inputs, sizes, multiprocessors=4), inputs)


@pytest.mark.turns(2)
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


@pytest.mark.turns(1)
@pytest.mark.parametrize(
    "change", ["one value", "the largest", "all minus infinity", "-inf", "inf", "nan"]
)
@pytest.mark.parametrize("variant", ["warp", "block", "any", "cluster", "grid"])
def test_special_values(variant: str, change: str) -> None:
    """NaN and infinities come out as the reference has them, in every way to hold a row."""
    sizes = {"M": 1, "N": 264}
    (x,) = CASES["softmax"].inputs(sizes, seed=9)
    inputs = [special(change, x.astype(np.float32)).astype(x.dtype)]
    small = variant in ("cluster", "grid")
    if variant == "grid":  # Several CTAs a row.
        sizes = {"M": 1, "N": 2072}
        (x,) = CASES["softmax"].inputs(sizes, seed=9)
        inputs = [special(change, x.astype(np.float32)).astype(x.dtype)]
    found = module("softmax", f"softmax_{variant}", True) if small else lowered("softmax")
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


def test_a_large_mean_costs_a_team_no_accuracy() -> None:
    """Nor are squares about the CTAs' own means just added up: those means differ here."""
    x, w, b = CASES["layer_norm"].inputs(GRID_SIZES)
    offsets = np.concatenate([np.full(1024, 2000), np.full(x.shape[1] - 1024, 2003)])
    inputs = [(x.astype(np.float32) + offsets).astype(x.dtype), w, b]
    found = module("layer_norm", "layer_norm_grid", True)
    check("layer_norm", on_a_grid("layer_norm", inputs, found).outputs, inputs)
