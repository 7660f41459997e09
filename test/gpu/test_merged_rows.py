"""Convolutions and products whose rows are those of all images or matrices, on the GPU."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime.program import Program
from polyc.test.support.gemm_programs import inputs_of, regions
from polyc.test.unit.families.conv.test_merged_rows import CASES as CONVOLUTIONS
from polyc.test.unit.families.conv.test_merged_rows import built as of_conv
from polyc.test.unit.families.matmul.test_merged import CASES as PRODUCTS
from polyc.test.unit.families.matmul.test_merged import built as of_product
from polyc.tools.play import play
from polyc.tools.registry import make_context


def check(text: str, tiles: ModuleOp) -> None:
    """Compare what kernels in tiles make with the region."""
    module = regions(text)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    for name in STAGES["gpu"]:
        build(name, "sm_90a").apply(make_context(), tiles)
    (found,) = Program.of_module(gpu_module_of(tiles)).run(inputs)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted[0]))


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name: str) -> None:
    conv, plan = CONVOLUTIONS[name]
    check(conv.text, of_conv(conv, plan)[1])


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    own, plan, *way = PRODUCTS[name]
    check(own.text, of_product(own.text, plan, *way))
