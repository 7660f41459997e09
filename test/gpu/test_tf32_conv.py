"""Convolutions of f32 on tensor cores, as TF32, on the GPU: whole numbers come out exactly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polyc.dialects.gpu.im2col import Im2colAttr
from polyc.dialects.plan import ScheduleOp
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime.program import Program
from polyc.test.support.conv_programs import Conv
from polyc.test.support.gemm_programs import inputs_of
from polyc.test.support.gpu_text import only
from polyc.test.unit.families.conv.test_planes import drawn
from polyc.test.unit.families.conv.test_tensor_float import CASES, TF32, planned
from polyc.tools.play import play
from polyc.tools.registry import make_context


def check(conv: Conv) -> None:
    module = planned(conv)
    assert only(module, ScheduleOp).tensor_float == "tf32"
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    for name in (*STAGES["plan"][1:], *STAGES["tiles"], *STAGES["gpu"]):
        build(name, "sm_90a").apply(make_context(), module)
    found: list[Any] = Program.of_module(gpu_module_of(module)).run(inputs)
    np.testing.assert_array_equal(np.asarray(found[0]), np.asarray(wanted[0]))


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("seed", range(8))
def test_any_geometry(seed: int) -> None:
    geometry: Im2colAttr = drawn(seed).geometry
    shape = tuple(int(size) for size in drawn(seed).x)
    x = (*shape[:3], 4 * (seed + 4))
    check(replace(TF32, geometry=geometry, x=x, filters=12 + 4 * seed, turned=seed % 2 == 1))


@pytest.mark.parametrize("turned", [False, True])
def test_many_tiles(turned: bool) -> None:
    check(replace(TF32, x=(5, 31, 29, 96), filters=136, turned=turned))
