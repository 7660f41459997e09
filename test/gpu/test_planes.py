"""Images and matrices whose rows threads load beside TMA, on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import measured as of_conv
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import measured as of_product
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime.program import Program
from polyc.test.support.gemm_programs import Product, inputs_of
from polyc.test.support.gpu_text import only
from polyc.test.unit.families.conv.test_planes import CASES, drawn, regions
from polyc.tools.play import play
from polyc.tools.registry import make_context

PRODUCTS = {
    "rows of 49": Product((40, 96), (3, 96, 49), (3, 40, 49)),
    "rows of 36": Product((136, 200), (2, 200, 36), (2, 136, 36)),
    "rows of 196": Product((72, 320), (2, 320, 196), (2, 72, 196)),
    "one matrix": Product((72, 64), (64, 90), (72, 90)),
}


def program(module: ModuleOp, plan: ScheduleOp) -> Program:
    """The kernel of a region under a plan."""
    module = module.clone()
    region = only(module, KernelOp)
    block = region.parent_block()
    assert block is not None
    block.insert_op_after(plan.clone(), region)
    for name in (*STAGES["plan"][1:], *STAGES["tiles"], *STAGES["gpu"]):
        build(name, "sm_90a").apply(make_context(), module)
    return Program.of_module(gpu_module_of(module))


def check(text: str, plans: list[ScheduleOp], module: ModuleOp) -> None:
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None and plans
    for plan in plans:
        found: list[Any] = program(module, plan).run(inputs)
        np.testing.assert_array_equal(
            np.asarray(found[0]), np.asarray(wanted[0]), plan.variant.data
        )


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    module = regions(PRODUCTS[name].text)
    plans = of_product(find_contraction(only(module, KernelOp)), "sm_90a")
    loose = [plan for plan in plans if plan.gathers or plan.loader.data == "flat"]
    check(PRODUCTS[name].text, loose[::3], module)


@pytest.mark.parametrize("name", CASES)
def test_convolutions(name: str) -> None:
    module = regions(CASES[name].text)
    plans = of_conv(find_convolution(only(module, KernelOp)), "sm_90a")
    check(CASES[name].text, plans[::3], module)


@pytest.mark.parametrize("seed", range(4, 16))
def test_any_geometry(seed: int) -> None:
    conv = drawn(seed)
    module = regions(conv.text)
    found = find_convolution(only(module, KernelOp))
    if found.planes:
        check(conv.text, of_conv(found, "sm_90a")[:2], module)
