"""``region-im2col`` (S6.11): the columns and their product are the convolution."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import region
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.passes.region.im2col import MaterializeColumns, RegionIm2col
from polyc.playback import region as one_kernel
from polyc.playback.region import graph as region_graph
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.region_expressions import Array, of_type, text
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def conv(layout: str, numbers: str, groups: int = 1, relu: bool = False) -> str:
    """A convolution of 16 channels to 6 by 3 x 2 taps, on images of 7 x 6."""
    stride, padding, dilation = (eval(n) for n in numbers.split("; "))
    channels = 16 // groups
    out = [
        (size + low + high - d * (taps - 1) - 1) // s + 1
        for size, taps, s, d, low, high in zip(
            (7, 6), (3, 2), stride, dilation, padding[::2], padding[1::2], strict=True
        )
    ]
    image, weight, result = (
        ("N, 16, 7, 6", f"6, {channels}, 3, 2", f"N, 6, {out[0]}, {out[1]}")
        if layout == "nchw"
        else ("N, 7, 6, 16", f"6, 3, 2, {channels}", f"N, {out[0]}, {out[1]}, 6")
    )
    types = [f"!frontend.tensor<[{shape}], f16>" for shape in (image, weight, result)]
    options = f"stride {stride} padding {padding} dilation {dilation} groups {groups}"
    first = f"  %x = frontend.elementwise relu %X : {types[0]}\n" if relu else ""
    return f"""
frontend.graph @conv(%X: {types[0]}, %W: {types[1]}) -> (Y: {types[2]}) {{
{first}  %0 = frontend.conv2d {layout} {"%x" if relu else "%X"}, %W {options} {{acc = f32}}
      : ({types[0]}, {types[1]}) -> {types[2]}
  %1 = frontend.elementwise silu %0 : {types[2]}
  frontend.output %1 : {types[2]}
}}
"""


def lowered(source: str) -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, source, "conv.mlir")
    for each in (FrontendToTiny(), TinyToIndex(), IndexToRegion(fuse="legal")):
        each.apply(ctx, module)
    return module


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize(
    "numbers",
    [
        "[1, 1]; [0, 0, 0, 0]; [1, 1]",
        "[1, 1]; [1, 1, 1, 1]; [1, 1]",
        "[2, 3]; [0, 2, 1, 0]; [1, 1]",
        "[1, 2]; [2, 1, 0, 1]; [2, 3]",
    ],
)
def test_columns_and_product_are_the_convolution(layout: str, numbers: str) -> None:
    module = lowered(conv(layout, numbers))
    made = module.clone()
    assert rewrite(made, [MaterializeColumns("all")])
    verify(made)
    (graph,) = of_type(made, region.GraphOp)
    assert isinstance(graph, region.GraphOp)
    columns, product = graph.kernels()
    assert not of_type(ModuleOp([columns.clone()]), region.ReduceOp)
    for read in of_type(ModuleOp([product.clone()]), region.ReadOp):
        assert isinstance(read, region.ReadOp) and read.guard is None

    random = np.random.default_rng(1)
    (kernel,) = of_type(module, region.KernelOp)
    assert isinstance(kernel, region.KernelOp)
    inputs: list[Array] = []
    for arg in kernel.ins:
        assert isinstance(arg.type, region.MemRefType)
        shape = [d.evaluate({"N": 2}) for d in arg.type.shape]
        inputs.append(random.standard_normal(shape).astype(np.float16))
    inputs[1][0, 0, 0, 0] = np.inf  # a zero of the padding times this is NaN
    before = one_kernel.run(kernel, inputs, {"N": 2})[0].astype(np.float32)
    after = region_graph.run(graph, inputs, {"N": 2})[0].astype(np.float32)
    assert np.allclose(before, after, rtol=2e-3, atol=2e-3, equal_nan=True)
    once = text(made)
    assert not rewrite(made, [MaterializeColumns("all")]) and text(made) == once


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (conv("nhwc", "[1, 1]; [1, 1, 1, 1]; [1, 1]", 2), "are both read along"),
        (conv("nhwc", "[1, 1]; [1, 1, 1, 1]; [1, 1]", relu=True), "is computed in the kernel"),
    ],
)
def test_refused_as_a_wish_and_as_a_plan(source: str, why: str) -> None:
    module = lowered(source)
    assert not rewrite(module, [MaterializeColumns("all")])
    (kernel,) = of_type(module, region.KernelOp)
    assert isinstance(kernel, region.KernelOp)
    module.body.block.add_op(schedule(kernel.sym_name.data, "im2col"))
    with pytest.raises(PolycError, match=why) as error:
        rewrite(module, [MaterializeColumns("plan")])
    assert error.value.kind == "BadPlan"


def schedule(name: str, way: str) -> ScheduleOp:
    return ScheduleOp(
        name,
        "given",
        {
            "arch": "sm_80",
            "tensorize": "acc",
            "mma": "mma.sync",
            "loader": "cp_async",
            "tile": [128, 128, 32],
            "stages": 3,
            "warp_tile": [64, 32],
            "vectorize": 8,
            "algo_choice": {"conv": way},
        },
    )


@pytest.mark.parametrize("way", ["im2col", "implicit_gemm"])
def test_the_plan_decides(way: str) -> None:
    module = lowered(conv("nhwc", "[1, 1]; [1, 1, 1, 1]; [1, 1]"))
    module.body.block.add_op(schedule("conv", way))
    before = text(module)
    RegionIm2col().apply(make_context(), module)
    verify(module)
    kernels = [op.sym_name.data for op in module.ops if isinstance(op, region.KernelOp)]
    if way == "implicit_gemm":
        assert text(module) == before
        return
    assert kernels == ["conv_columns", "conv_product"]
    # The schedule was of a convolution; plan-select has others for the two kernels.
    assert not of_type(module, ScheduleOp)
    once = text(module)
    RegionIm2col().apply(make_context(), module)
    assert text(module) == once
