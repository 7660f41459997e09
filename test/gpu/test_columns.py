"""Norms of columns, middle and several axes on the GPU, each variant against the FP32 reference."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

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
