"""Products of f32 on tensor cores: every layout, every variant, within what a precision permits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.each_variant import results
from polyc.test.support.f32_products import LAYOUTS, operands, wanted

Build = Callable[[str, str], Program]

SHAPES = [
    (1, 1, 1),
    (33, 47, 429),
    (64, 72, 1040),
    (129, 257, 1025),
    (1, 4096, 512),
    (1000, 1000, 1000),
    (2047, 2048, 332),
    (512, 384, 4099),
    (2048, 2052, 2048),
]
"""M, N, K; copies pay for few points of k nowhere."""

OFF = {"tf32": 2.0**-9, "f32x3": 2.0**-20}
"""Of the sum of the terms' sizes, beside what the accumulator rounds."""


@pytest.fixture
def hopper() -> str:
    if not driver.device().runs("sm_90a"):
        pytest.skip("wgmma is of sm_90a")
    return "sm_90a"


@pytest.mark.parametrize("precision", OFF)
@pytest.mark.parametrize("flags", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=["x".join(map(str, shape)) for shape in SHAPES])
def test_every_variant_of_every_layout(
    build: Build, gemm: Any, hopper: str, shape: tuple[int, int, int], flags: str, precision: str
) -> None:
    """Whole numbers to the bit; others within what the precision permits."""
    program = build(gemm.text("f32", flags=f'{flags} precision="{precision}"'), hopper)
    for whole in (True, False):
        inputs = operands(flags, *shape, whole)
        expected = wanted(flags, inputs)
        sums = wanted(flags, [abs(x) for x in inputs])
        bound = 0 if whole else OFF[precision] + 3 * 1.2e-7 * (shape[2] + 2)
        ran = 0
        for variant, (found,) in results(program, inputs):
            assert (abs(np.asarray(found) - expected) <= bound * sums).all(), variant
            ran += 1
        assert ran >= 2


@pytest.mark.parametrize("precision", OFF)
def test_large_products_are_those_of_tensor_cores(
    build: Build, gemm: Any, hopper: str, precision: str
) -> None:
    program = build(gemm.text("f32", flags=f'precision="{precision}"'), hopper)
    assert precision in (program.chosen({"M": 2048, "N": 2048, "K": 2048}) or "")
    inputs = operands("", 2048, 2048, 2048, False)
    (found,) = program.run(inputs)
    expected, sums = wanted("", inputs), wanted("", [abs(x) for x in inputs])
    share = float((abs(np.asarray(found) - expected) / sums).max())
    # Three products are nearer than one of TF32 could be, and one is further off than exact ones.
    assert share < 2.0**-18 if precision == "f32x3" else 2.0**-20 < share < 2.0**-10
