"""Convolutions along depth, rows and columns, and what follows one, in the order of the graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.dim import Dim
from polyc.dialects.region import KernelOp
from polyc.families.conv.convolution import Convolution
from polyc.families.conv.recognise import find_convolution
from polyc.families.registry import BY_NAME
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import inputs_of, tensor
from polyc.test.support.lowered import lowered
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context


@dataclass(frozen=True)
class Volume:
    """A convolution ``[N, C, D, H, W]``, a bias of each filter and a residual."""

    x: tuple[int, int, int, int, int]
    w: tuple[int, int, int, int, int]
    padding: tuple[int, int, int] = (0, 0, 0)
    element: str = "f16"
    flags: str = ""
    more: bool = False

    @property
    def y(self) -> tuple[int, ...]:
        sizes = zip(self.x[2:], self.w[2:], self.padding, strict=True)
        return (self.x[0], self.w[0], *(size + 2 * pad - taps + 1 for size, taps, pad in sizes))

    @property
    def text(self) -> str:
        x, w, y = (tensor(shape, self.element) for shape in (self.x, self.w, self.y))
        b = tensor((self.w[0], 1, 1, 1), self.element)
        inputs, out = f"%X: {x}, %W: {w}", "%0"
        after = ""
        if self.more:
            inputs, out = f"{inputs}, %B: {b}, %R: {y}", "%3"
            after = f"""%1 = frontend.elementwise add %0, %B : ({y}, {b}) -> {y}
  %2 = frontend.elementwise add %1, %R : ({y}, {y}) -> {y}
  %3 = frontend.elementwise relu %2 : {y}"""
        pads = [pad for pad in self.padding for _ in range(2)]
        return f"""frontend.graph @g({inputs}) -> (Y: {y}) {{
  %0 = frontend.conv3d ncdhw %X, %W stride [1, 1, 1] padding {pads} dilation [1, 1, 1] groups 1
      {{acc = f32{self.flags}}} : ({x}, {w}) -> {y}
  {after}
  frontend.output {out} : {y}
}}
"""


TF32 = ', precision = "tf32"'
CASES = {
    "of f32, as TF32": Volume((2, 32, 5, 18, 16), (64, 32, 3, 3, 1), element="f32", flags=TF32),
    "with padding, and more behind": Volume(
        (2, 24, 3, 14, 16), (40, 24, 3, 3, 3), (1, 1, 1), element="f32", flags=TF32, more=True
    ),
    "of 16 bits": Volume((2, 32, 4, 16, 16), (64, 32, 2, 1, 3), more=True),
    "of planes in no vectors": Volume((2, 64, 3, 13, 15), (64, 64, 1, 3, 3)),
}


def parsed(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "t.mlir")


def conv_of(module: ModuleOp) -> Convolution:
    takes = BY_NAME["conv"].takes
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp) and takes(op))
    return find_convolution(kernel)


@pytest.mark.parametrize("name", CASES)
def test_planes_are_stored_where_they_lie(name: str) -> None:
    """By one kernel, with what follows, that agrees with the graph by the simulator."""
    case = CASES[name]
    graph = parsed(case.text)
    module = lowered(graph, "sm_90a", "plan")
    conv = conv_of(module)
    planes = case.y[2]
    assert conv.plane is not None and conv.turned
    assert conv.kernel.outs.data[0].shape == tuple(map(Dim.const, case.y))
    assert conv.output_dims[0] == Dim.const(case.y[0] * planes)
    assert conv.matrix_dims[2:] == (Dim.const(planes), Dim.const(case.y[3] * case.y[4]))
    assert conv.why_not_merged is not None and "planes" in conv.why_not_merged
    last = [op for op in module.walk() if isinstance(op, KernelOp)][-1]
    assert last is conv.kernel
    inputs = inputs_of(graph, {})
    wanted = play(lowered(graph, "sm_90a", "tiny"), "g", inputs, {})
    assert wanted is not None
    kernels = gpu_module_of(lowered(graph, "sm_90a", "gpu"))
    found = simulate(kernels, inputs, {}, schedule="random", completion="random")
    found.check()
    np.testing.assert_array_equal(found.outputs[0], np.asarray(wanted[0]))
    for made in nvrtc.compile_each(cuda_units(kernels), "sm_90a"):
        assert {(info.spill_bytes, info.stack) for info in made.kernels.values()} == {(0, 0)}


@pytest.mark.parametrize("element", ["f16", "f32"])
def test_a_residual_stays_with_an_image_of_the_graphs_order(element: str) -> None:
    """It lies as the graph has its axes, so that pixels that lie first would part it."""
    x, w, b, y = (
        tensor(shape, element)
        for shape in ((8, 32, 28, 28), (64, 32, 3, 3), (64, 1, 1), (8, 64, 28, 28))
    )
    flags = TF32 if element == "f32" else ""
    text = f"""frontend.graph @g(%X: {x}, %W: {w}, %B: {b}, %R: {y}) -> (Y: {y}) {{
  %0 = frontend.conv2d nchw %X, %W stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1] groups 1
      {{acc = f32{flags}}} : ({x}, {w}) -> {y}
  %1 = frontend.elementwise add %0, %B : ({y}, {b}) -> {y}
  %2 = frontend.elementwise add %1, %R : ({y}, {y}) -> {y}
  %3 = frontend.elementwise relu %2 : {y}
  frontend.output %3 : {y}
}}
"""
    module = lowered(parsed(text), "sm_90a", "region")
    last = [op for op in module.walk() if isinstance(op, KernelOp)][-1]
    conv = conv_of(module)
    assert conv.kernel is last and conv.filters_first
    assert conv.kernel.outs.data[0].shape == tuple(map(Dim.const, (8, 64, 28, 28)))


@pytest.mark.parametrize(("filters", "alone"), [(16, True), (128, False)])
def test_long_epilogues_of_few_filters_are_what_turns_them(filters: int, alone: bool) -> None:
    """Filters that fill no warpgroup's rows lie last, and what follows is computed once they are
    turned; others are stored as the graph has them, with what follows."""
    x, w, y = (
        tensor(shape, "f32")
        for shape in ((16, 8, 18, 66, 66), (filters, 8, 3, 3, 3), (16, filters, 16, 64, 64))
    )
    text = f"""frontend.graph @g(%X: {x}, %W: {w}) -> (Y: {y}) {{
  %0 = frontend.conv3d ncdhw %X, %W stride [1, 1, 1] padding {[0] * 6} dilation [1, 1, 1] groups 1
      {{acc = f32{TF32}}} : ({x}, {w}) -> {y}
  %1 = frontend.elementwise gelu %0 : {y}
  %2 = frontend.elementwise sigmoid %1 : {y}
  %3 = frontend.elementwise silu %2 : {y}
  frontend.output %3 : {y}
}}
"""
    module = lowered(parsed(text), "sm_90a", "region")
    last = [op for op in module.walk() if isinstance(op, KernelOp)][-1]
    conv = conv_of(module)
    assert (conv.kernel is not last) == alone
    assert conv.filters_first != alone and (len(conv.epilogue) == 0) == alone
