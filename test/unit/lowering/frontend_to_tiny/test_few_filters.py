"""Convolutions of few filters, tap by tap: what they mean, and which are computed so."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.frontend_to_tiny import LowerGraph
from polyc.lowering.frontend_to_tiny.convolutions import LowerConv
from polyc.playback.frontend import run
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.driver import rewrite
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import only
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of

Sizes = tuple[int | str, ...]


def conv(x: Sizes, w: Sizes, element: Attribute = f16, **how: Any) -> ModuleOp:
    s = Sketch("conv", element)
    return s.done(y=s.add(frontend.Conv2dOp(s.input("x", *x), s.input("w", *w), **how)))


FEW: dict[str, tuple[Sizes, Sizes, dict[str, Any]]] = {
    "planes": ((2, 64, 6, 8), (3, 64, 3, 3), {"padding": [1, 1, 1, 1]}),
    "channels last": ((1, 7, 5, 64), (4, 3, 3, 64), {"layout": "nhwc", "padding": [1, 1, 0, 2]}),
    "apart": ((1, 64, 9, 8), (2, 64, 2, 3), {"dilation": [3, 2], "padding": [2, 0, 1, 1]}),
    "no padding": ((1, 72, 6, 6), (1, 72, 5, 5), {}),
}


@pytest.mark.parametrize("name", FEW)
def test_few_filters_are_summed_tap_by_tap(name: str) -> None:
    """Fires: one product of all taps, whose parts are summed where the windows have them."""
    x, w, how = FEW[name]
    module = conv(x, w, **how)
    inputs, wanted = wanted_of(module, {})
    done = module.clone()
    rewrite(done, [LowerGraph()])
    assert rewrite(done, [LowerConv()])
    taps = prod(w[-2:] if "layout" not in how else w[1:3])
    parts = [op for op in done.walk() if isinstance(op, tiny.SliceOp)]
    assert len([op for op in parts if tiny.tensor_of(op.operand).rank == 4]) == taps
    assert not [op for op in done.walk() if isinstance(op, tiny.WindowOp)]
    result = simulate(gpu_module_of(lowered(module, "sm_90a", "gpu")), inputs, {})
    result.check()
    assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("name", FEW)
def test_zeros_outside_are_values(name: str) -> None:
    """0 times an infinite tap is NaN, where it lies outside of the image and nowhere else."""
    x, w, how = FEW[name]
    module = conv(x, w, **how)
    (image, filters), _ = wanted_of(module, {})
    image, filters = np.abs(image) + 1, filters.copy()
    filters[(0, 1, -1, 0) if "layout" not in how else (0, -1, 0, 1)] = np.inf
    if w[0] != 1:
        filters[1] = 1
        filters[(1, 0, 0, 1) if "layout" not in how else (1, 0, 1, 0)] = -np.inf
    wanted = run(only(module, frontend.GraphOp), [image, filters], {})
    padded = any(how.get("padding", ()))
    assert np.isnan(wanted[0]).any() == padded and np.isinf(wanted[0]).any()
    result = simulate(gpu_module_of(lowered(module, "sm_90a", "gpu")), [image, filters], {})
    result.check()
    assert_agree(result.outputs, wanted)


@pytest.mark.parametrize(
    ("x", "w", "how"),
    [
        ((2, 64, 6, 8), (8, 64, 3, 3), {}),  # more filters than a tile has rows for
        ((2, 16, 6, 8), (4, 16, 3, 3), {}),  # parts that are more than the windows
        ((2, 64, 6, 8), (3, 64, 3, 3), {"stride": [2, 2]}),
        ((2, 64, 6, 8), (4, 32, 3, 3), {"groups": 2}),
        ((2, 64, 6, 8), (3, 64, 1, 1), {}),
        (("N", 64, 6, 8), (3, 64, 3, 3), {}),
        ((2, 60, 6, 8), (3, 60, 3, 3), {}),  # channels that are no whole vectors
        ((2, 64, 6, 8), (3, 64, 3, 3), {"element": f32}),
    ],
)
def test_other_filters_take_windows(x: Sizes, w: Sizes, how: dict[str, Any]) -> None:
    """Refuses: what would move more, and what lies apart."""
    module = conv(x, w, **how)
    rewrite(module, [LowerGraph()])
    assert rewrite(module, [LowerConv()])
    assert [op for op in module.walk() if isinstance(op, tiny.WindowOp)]


def test_the_image_of_few_filters_is_read_where_it_lies() -> None:
    """The filter alone is copied, which mixes its taps and filters; tensor cores read planes.  What
    taps give outside of the image is made of the filter alone, by rows and by columns of taps."""
    module = conv((4, 320, 32, 32), (4, 320, 3, 3), padding=[1, 1, 1, 1])
    found = lowered(module, "sm_90a", "plan")
    kernels = [op for op in found.walk() if isinstance(op, KernelOp)]
    reads = [[name.data for name in kernel.arg_names] for kernel in kernels]
    copy = kernels[0].res_names.data[0].data
    assert [names for names in reads if "x" in names] == [["x", copy]]
    assert reads[0] == ["w"] and reads.count([copy]) == 2 and len(kernels) == 5
    plans = [op for op in found.walk() if isinstance(op, ScheduleOp)]
    assert sum("wgmma" in str(plan.fields()["mma"]) for plan in plans) == 1
