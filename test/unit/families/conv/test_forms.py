"""Convolutions of other forms as whole programs: in groups and transposed, of one row or column."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.bench.conv_forms import Form, drawn
from polyc.dialects.plan import ScheduleOp
from polyc.passes.pipeline import STAGES, build
from polyc.playback import tile
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

FORMS = {
    "one tap in groups": Form(2, 64, 64, (20, 26), (1, 1), (1, 1), (1, 1), (0, 0), 2, False, "f16"),
    "a column of taps in groups": Form(
        2, 64, 64, (20, 17), (3, 1), (1, 1), (1, 1), (1, 0), 2, False, "f16"
    ),
    "transposed in groups": Form(
        2, 64, 64, (14, 15), (3, 3), (1, 1), (1, 1), (1, 1), 2, True, "f16"
    ),
    "transposed in groups, in phases": Form(
        1, 64, 64, (24, 21), (4, 4), (2, 2), (1, 1), (1, 1), 2, True, "f16"
    ),
    "planes of one tap in groups": Form(
        1, 64, 64, (4, 14, 15), (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), 2, False, "f16"
    ),
    "planes of one tap in groups of f32": Form(
        1, 64, 64, (4, 14, 15), (1, 3, 3), (1, 1, 1), (1, 1, 1), (0, 1, 1), 2, False, "f32"
    ),
    "planes transposed in groups, in phases": Form(
        1, 64, 64, (6, 13, 12), (3, 4, 4), (2, 2, 2), (1, 1, 1), (1, 1, 1), 2, True, "f16"
    ),
}


def lowered(form: Form, *stages: str) -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, form.text(constant=False), "t.mlir")
    for stage in stages:
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(ctx, module)
    return module


@pytest.mark.parametrize("name", FORMS)
def test_they_agree_in_tiles_of_tensor_cores(name: str) -> None:
    form = FORMS[name]
    module = lowered(form, "tiny", "index", "region", "plan")
    plans = [op for op in module.walk() if isinstance(op, ScheduleOp) and op.mma.data != "none"]
    # One tap is a product, whose groups lie inside of rows.
    wanted = "matmul" if name == "one tap in groups" else "conv"
    assert plans and all(plan.pattern == wanted for plan in plans)
    assert agrees(form, module)


@pytest.mark.parametrize("transposed", [False, True])
def test_planes_of_small_groups_are_computed_along_their_lines(transposed: bool) -> None:
    """Threads have neighbours of a line, and phases lie with their channels outside of these."""
    steps = (2, 2, 2) if transposed else (1, 1, 1)
    form = Form(
        2, 16, 16, (3, 12, 24), (3, 3, 5), steps, (1, 1, 1), (1, 1, 2), 4, transposed, "f32"
    )
    module = lowered(form, "tiny", "index", "region", "plan")
    plans = [op for op in module.walk() if isinstance(op, ScheduleOp)]
    assert all(plan.pattern == "loops" for plan in plans)
    slid = [plan for plan in plans if plan.slides_lines or plan.slides_windows]
    assert len(slid) >= (6 if transposed else 1)  # a phase of one tap has nothing to share
    assert agrees(form, module)


def agrees(form: Form, module: ModuleOp) -> bool:
    """Whether tiles make of whole numbers what the graph does."""
    rng = np.random.default_rng(form.channels)
    kind = {"f16": np.float16, "f32": np.float32}[form.element]
    inputs: list[Any] = [rng.integers(-2, 3, s).astype(kind) for s in form.shapes[:2]]
    wanted = play(lowered(form), "conv", inputs, {})
    assert wanted is not None
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    (found,) = tile.run(gpu_module_of(module), inputs, {})
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted[0]))
    return True


def test_what_is_drawn_has_a_result() -> None:
    """The benchmark's random forms are the same in each process, and of every kind."""
    draw = random.Random(7)
    forms = [drawn(draw, "f16") for _ in range(60)]
    assert {len(form.sizes) for form in forms} == {1, 2, 3}
    assert {form.transposed for form in forms} == {False, True}
    assert forms[0] == drawn(random.Random(7), "f16")
