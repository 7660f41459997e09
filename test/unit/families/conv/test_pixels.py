"""Convolutions of one pixel each along one axis or three: products that need no image."""

from __future__ import annotations

import pytest

from polyc.dialects import tiny
from polyc.dialects.region import KernelOp
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gemm_programs import tensor
from polyc.test.support.gpu_text import find
from polyc.test.support.lowered import lowered
from polyc.test.support.split_programs import wanted_of
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

TF32 = ', precision = "tf32"'
PIXELS = {1: (48,), 3: (3, 4, 12)}
LETTERS = {1: "w", 3: "dhw"}


def graph(axes: int, first: bool, element: str, changed: str = "") -> str:
    """An image of 24 channels, 40 filters of one pixel and a bias; ``changed`` has one thing
    another way."""
    n, c, f, pixels = 2, 24, 40, list(PIXELS[axes])
    stride, padding = [1] * axes, [0] * 2 * axes
    taps, made, groups = [1] * axes, list(pixels), 1
    if changed == "stride":
        stride[-1], made[-1] = 2, -(-pixels[-1] // 2)
    elif changed == "padding":
        padding[-1], made[-1] = 1, pixels[-1] + 1
    elif changed == "taps":
        taps[-1], made[-1] = 2, pixels[-1] - 1
    elif changed == "groups":
        groups = 2

    def image(of: int, inside: list[int]) -> str:
        return tensor((n, of, *inside) if first else (n, *inside, of), element)

    x, y = image(c, pixels), image(f, made)
    depth = c // groups
    w = tensor((f, depth, *taps) if first else (f, *taps, depth), element)
    layout = f"nc{LETTERS[axes]}" if first else f"n{LETTERS[axes]}c"
    flags = TF32 if element == "f32" else ""
    return f"""frontend.graph @g(%X: {x}, %W: {w}) -> (Y: {y}) {{
  %0 = frontend.conv{axes}d {layout} %X, %W stride {stride} padding {padding} dilation {[1] * axes}
      groups {groups} {{acc = f32{flags}}} : ({x}, {w}) -> {y}
  %1 = frontend.elementwise relu %0 : {y}
  frontend.output %1 : {y}
}}
"""


@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("axes", PIXELS)
def test_a_pixel_is_read_where_it_lies(axes: int, first: bool, element: str) -> None:
    """By one kernel, whose numbers are those of the graph; weights are no image."""
    module = parse_text(make_context(), graph(axes, first, element), "t.mlir")
    *weights, product = find(lowered(module, "sm_90a", "plan"), KernelOp)
    assert "%X:" in str(product) and not any("%X:" in str(kernel) for kernel in weights)
    inputs, wanted = wanted_of(module, {})
    kernels = gpu_module_of(lowered(module, "sm_90a", "gpu"))
    found = simulate(kernels, inputs, {}, schedule="random", completion="random")
    found.check()
    assert_agree(found.outputs, wanted, f"{axes}, {first}, {element}")


@pytest.mark.parametrize("axes", PIXELS)
@pytest.mark.parametrize("changed", ["", "stride", "padding", "taps", "groups"])
def test_what_is_a_product_of_pixels(axes: int, changed: str) -> None:
    """Windows of more, far ones, those beyond the edge and groups are images."""
    module = parse_text(make_context(), graph(axes, True, "f16", changed), "t.mlir")
    module = lowered(module, "sm_90a", "tiny")
    dims = [tiny.tensor_of(op.operands[0]).dims for op in module.walk() if op.name == "tiny.reduce"]
    assert (len(dims) == 1 and len(dims[0]) == axes + 3) == (changed == "")
