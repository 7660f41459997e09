"""Lines that are read in windows, as rows of images: convolutions along one axis in groups."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.region import KernelOp
from polyc.families.conv.recognise import find_convolution
from polyc.families.registry import BY_NAME
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback import region
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.rewriting.region.one_row import with_a_row
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gemm_programs import tensor
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered
from polyc.test.support.split_programs import wanted_of
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

CONV = BY_NAME["conv"]


def graph(axes: int, taps: int, groups: int) -> str:
    """A convolution [8, 64, (6,) 100] in groups, along the last axis in windows."""
    pixels, window, padding = [100], [taps], [taps // 2] * 2
    if axes == 2:
        pixels, window, padding = [6, 100], [1, taps], [0, 0, *padding]
    made = [*pixels[:-1], pixels[-1] + 2 * (taps // 2) - taps + 1]
    x, y = tensor((8, 64, *pixels)), tensor((8, 64, *made))
    w, b = tensor((64, 64 // groups, *window)), tensor((64, *[1] * axes))
    layout = {1: "ncw", 2: "nchw"}[axes]
    return f"""frontend.graph @g(%X: {x}, %W: {w}, %B: {b}) -> (Y: {y}) {{
  %0 = frontend.conv{axes}d {layout} %X, %W stride {[1] * axes} padding {padding}
      dilation {[1] * axes} groups {groups} {{acc = f32}} : ({x}, {w}) -> {y}
  %1 = frontend.elementwise add %0, %B : ({y}, {b}) -> {y}
  frontend.output %1 : {y}
}}
"""


def parsed(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "t.mlir")


@pytest.mark.parametrize("taps", [3, 16])
def test_lines_in_groups_run_on_tensor_cores(taps: int) -> None:
    """As images of one row, by the implicit GEMM; the simulator finds the graph's numbers."""
    module = parsed(graph(1, taps, 4))
    (kernel,) = filter(CONV.takes, find(lowered(module, "sm_90a", "plan"), KernelOp))
    conv = find_convolution(kernel)
    assert kernel.iters.data[1 + conv.turned].label.endswith("_row")
    assert conv.groups.filters == 16
    inputs, wanted = wanted_of(module, {})
    kernels = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    found = simulate(kernels, inputs, {}, schedule="random", completion="random")
    found.check()
    assert_agree(found.outputs, wanted, f"{taps} taps")
    for made in nvrtc.compile_each(cuda_units(kernels), "sm_90a"):
        assert {(info.spill_bytes, info.stack) for info in made.kernels.values()} == {(0, 0)}


def memory(*sizes: int) -> str:
    return f"!region.memref<{list(sizes)}, f32, align 16, noalias>"


def value(axes: str) -> str:
    sizes = {"n": 2, "w": 9, "f": 4, "s": 2, "c": 3}
    return f"!region.val<[{', '.join(f'{axis}: {sizes[axis]}' for axis in axes)}], f32>"


LINES = f"""
builtin.module {{
  region.kernel @k iters [n: 2, w: 9, f: 4]
      ins(%x: {memory(2, 9, 3)}, %y: {memory(4, 2, 3)}, %z: {memory(2, 9, 4)})
      outs(o: {memory(2, 9, 4)} gmem) {{
    %0 = region.read %x affine_map<(d0, d1, d2, d3) -> (d0, d1 + d2 - 1, d3)>
        where affine_set<(d0, d1, d2, d3) : (d1 + d2 - 1 >= 0)> else 0.0
        : {memory(2, 9, 3)} -> {value("nwsc")}
    %1 = region.read %y affine_map<(d0, d1, d2) -> (d0, d1, d2)>
        : {memory(4, 2, 3)} -> {value("fsc")}
    %2 = region.broadcast_in_dim %0 dims [0, 1, 3, 4] : {value("nwsc")} -> {value("nwfsc")}
    %3 = region.broadcast_in_dim %1 dims [2, 3, 4] : {value("fsc")} -> {value("nwfsc")}
    %4 = region.binary mul %2, %3 : {value("nwfsc")}
    %5 = region.reduce sum %4 over [s, c] init 0.0 acc f32 : {value("nwfsc")} -> {value("nwf")}
    %6 = region.read %z affine_map<(d0, d1, d2) -> (d0, d1, d2)>
        : {memory(2, 9, 4)} -> {value("nwf")}
    %7 = region.binary add %5, %6 : {value("nwf")}
    region.yield %7 : {value("nwf")}
  }}
}}
"""


def kernel_of(text: str) -> KernelOp:
    return only(parsed(text), KernelOp)


def test_a_row_is_another_view_of_the_same() -> None:
    kernel = kernel_of(LINES)
    found = with_a_row(kernel)
    found.verify()
    assert [axis.label for axis in found.iters] == ["n", "w_row", "w", "f"]
    shapes = [[size.constant() for size in kind.shape] for kind in found.seen]
    assert shapes == [[2, 1, 9, 3], [4, 2, 3], [2, 1, 9, 4], [2, 1, 9, 4]]
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s, np.float32) for s in ((2, 9, 3), (4, 2, 3), (2, 9, 4))]
    (before,), (after,) = (region.run(one, given, {}) for one in (kernel, found))
    np.testing.assert_array_equal(np.asarray(before).reshape(-1), np.asarray(after).reshape(-1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(d0, d1 + d2 - 1, d3)", "(d0, d1, d3)"),
        ("(d0, d1 + d2 - 1, d3)", "(d1 floordiv 8, d1 + d2 - 1, d3)"),
        ("region.binary mul", "region.binary add"),
    ],
)
def test_other_lines_stay(old: str, new: str) -> None:
    """Lines that are not read in windows, or along two coordinates, or with no sum of products."""
    assert old in LINES
    kernel = kernel_of(LINES.replace(old, new))
    assert with_a_row(kernel) is kernel


def test_what_a_family_takes_has_no_row_more() -> None:
    """One row of taps along two axes is a convolution as it is."""
    plans = lowered(parsed(graph(2, 3, 4)), "sm_90a", "plan")
    (kernel,) = filter(CONV.takes, find(plans, KernelOp))
    assert not any(axis.label.endswith("_row") for axis in kernel.iters)
