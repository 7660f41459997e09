"""Norms of columns, middle and several axes on the GPU, each variant against the FP32 reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from polyc.bench.any_axes import parse_problem, text_of
from polyc.bench.reductions import CASES, known
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import make_inputs
from polyc.runtime.program import Program
from polyc.test.support.agreeing import meant
from polyc.test.support.gpu_text import only, parsed

Build = Callable[[str, str], Program]

SMALL = {
    "column_softmax": {"M": 700, "N": 72},
    "column_layer_norm": {"M": 1300, "N": 40},
    "column_variance": {"M": 66000, "N": 8},
    "channel_variance": {"M": 33, "N": 4096},
    "channel_norm": {"M": 3, "N": 72},
    "middle_layer_norm": {"M": 2, "N": 40},
    "several_softmax": {"M": 2, "N": 40},
}
"""Small sizes with tails, at which kernels of several kinds run."""


@pytest.mark.parametrize("written", [False, True], ids=["open", "known"])
@pytest.mark.parametrize("op", SMALL)
def test_small_columns(build: Build, op: str, written: bool) -> None:
    """All variants that take the sizes; of known ones that which the model of time chooses."""
    sizes = SMALL[op]
    text = known(CASES[op].text, sizes) if written else CASES[op].text
    module = parsed(text)
    graph = only(module, GraphOp)
    given = {} if written else sizes
    inputs = make_inputs(graph, given)
    (wanted,) = meant(module, inputs, given)
    compiled, ran = build(text, "sm_90a"), 0
    for variant in compiled.variants:
        try:
            (found,) = compiled.run(inputs, symbols=given, variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant"
            continue
        kind = graph.outputs[0].type.element_type
        mismatch = tolerance_check(np.asarray(found), wanted, kind)
        assert mismatch is None, (variant, mismatch)
        ran += 1
    assert ran


@pytest.mark.parametrize("op", ["column_softmax", "column_layer_norm"])
def test_a_team_walks_over_tall_columns(build: Build, op: str) -> None:
    sizes = {"M": 110000, "N": 16}
    module = parsed(CASES[op].text)
    graph = only(module, GraphOp)
    inputs = make_inputs(graph, sizes)
    (wanted,) = meant(module, inputs, sizes)
    compiled = build(CASES[op].text, "sm_90a")
    assert str(compiled.chosen(sizes)).endswith("panel_walk_team128")
    for _ in range(3):
        (found,) = compiled.run(inputs, symbols=sizes)
        mismatch = tolerance_check(np.asarray(found), wanted, graph.outputs[0].type.element_type)
        assert mismatch is None, mismatch


@pytest.mark.parametrize(
    "problem",
    [
        "l1_norm:3x8209:1:f32",
        "layer_norm:5x70001:1:f32",
        "softmax:2x300001:1:f32",
        "sum:512x8x20x3x2:0,2,4:f16",
        "variance:300x8x12x3x2:0,2,4:f32",
        "max:4096x8x5:1:f16",
        "rms_norm:20000x28x2:1:f32",
        "layer_norm:7x31x31:1,2:f32",
        "argmax:20000x17x8:1:f32",
        "any:333x4096:1:ui8",
        "all:70x1000x24:1:ui8",
        "softmax:3x5x70001:1,2:f16",
    ],
)
def test_reductions_over_any_axes(build: Build, problem: str) -> None:
    text = text_of(parse_problem(problem))
    module = parsed(text)
    graph = only(module, GraphOp)
    inputs = make_inputs(graph, {})
    (wanted,) = meant(module, inputs, {})
    (found,) = build(text, "sm_90a").run(inputs)
    mismatch = tolerance_check(np.asarray(found), wanted, graph.outputs[0].type.element_type)
    assert mismatch is None, mismatch


@pytest.mark.parametrize(("op", "shape"), [("column", (70000, 8)), ("channel", (40, 64, 4096))])
def test_squares_about_a_far_mean(build: Build, op: str, shape: tuple[int, ...]) -> None:
    """The mean is a thousand times the deviation, and drifts: what is summed once loses no more
    digits than distances from the mean do."""
    case = CASES[f"{op}_variance"].text.replace("f16", "f32")
    draw = np.random.default_rng(1)
    x = draw.standard_normal(shape).astype(np.float32) + 1000
    x += np.linspace(0, 3, shape[0], dtype=np.float32).reshape(-1, *(1 for _ in shape[1:]))
    axes = (0,) if op == "column" else (0, 2)
    wanted = x.astype(np.float64).var(axes)
    sizes = {"M": shape[0], "N": shape[-1]}
    (found,) = build(case, "sm_90a").run([x], symbols=sizes)
    assert np.abs(np.asarray(found) / wanted - 1).max() < 2e-5
