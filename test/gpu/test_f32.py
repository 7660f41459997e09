"""Products of f32 that threads multiply: every layout, every variant, exact and close."""

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
ARCHS = ("sm_80", "sm_90a")

SHAPES = [
    (1, 1, 1),
    (5, 7, 0),
    (33, 47, 29),
    (64, 72, 40),
    (129, 257, 65),
    (128, 256, 64),
    (1, 4096, 512),
    (4096, 1, 512),
    (1000, 1000, 1000),
    (2047, 2048, 332),
    (512, 384, 4099),
    (7, 68, 9001),
]
"""M, N, K; the first five for the sanitizer too."""


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("flags", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=["x".join(map(str, shape)) for shape in SHAPES])
def test_every_variant_of_every_layout(
    build: Build, gemm: Any, shape: tuple[int, int, int], flags: str, arch: str
) -> None:
    """Whole numbers to the bit; others within FP32's error of a sum of K products."""
    program = build(gemm.text("f32", flags=flags), arch)
    for whole in (True, False):
        inputs = operands(flags, *shape, whole)
        expected = wanted(flags, inputs)
        sums = wanted(flags, [abs(x) for x in inputs])
        bound = 0 if whole else 1.2e-7 * (shape[2] + 2)
        ran = 0
        for variant, (found,) in results(program, inputs):
            assert (abs(np.asarray(found) - expected) <= bound * sums).all(), variant
            ran += 1
        assert ran >= 2


def test_those_of_the_compiler_are_no_loops(build: Build, gemm: Any) -> None:
    arch = "sm_90a" if driver.device().runs("sm_90a") else "sm_80"
    program = build(gemm.text("f32"), arch)
    assert any(
        "fma" in (program.chosen(dict(zip("MNK", shape, strict=True))) or "") for shape in SHAPES
    )
