"""Convolutions of one pixel each along one axis or three: products that need no image."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import tiny
from polyc.dialects.region import KernelOp
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gemm_programs import inputs_of, tensor
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
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


def lowered(text: str, *stages: str) -> ModuleOp:
    ctx = make_context()
    module = parse_text(ctx, text, "t.mlir")
    for stage in stages:
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(ctx, module)
    return module


@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("axes", PIXELS)
def test_a_pixel_is_read_where_it_lies(axes: int, first: bool, element: str) -> None:
    """By one kernel, whose numbers are those of the graph; weights are no image."""
    text = graph(axes, first, element)
    module = lowered(text, "tiny", "index", "region", "plan")
    *weights, product = [op for op in module.walk() if isinstance(op, KernelOp)]
    assert "%X:" in str(product) and not any("%X:" in str(kernel) for kernel in weights)
    inputs = inputs_of(lowered(text), {})
    wanted = play(lowered(text, "tiny"), "g", inputs, {})
    assert wanted is not None
    for stage in ("tiles", "gpu"):
        for one in STAGES[stage]:
            build(one, "sm_90a").apply(make_context(), module)
    found = simulate(gpu_module_of(module), inputs, {}, schedule="random", completion="random")
    found.check()
    assert_agree(found.outputs, wanted, f"{axes}, {first}, {element}")


@pytest.mark.parametrize("axes", PIXELS)
@pytest.mark.parametrize("changed", ["", "stride", "padding", "taps", "groups"])
def test_what_is_a_product_of_pixels(axes: int, changed: str) -> None:
    """Windows of more, far ones, those beyond the edge and groups are images."""
    module = lowered(graph(axes, True, "f16", changed), "tiny")
    dims = [tiny.tensor_of(op.operands[0]).dims for op in module.walk() if op.name == "tiny.reduce"]
    assert (len(dims) == 1 and len(dims[0]) == axes + 3) == (changed == "")
