"""Which convolutions the partition leaves to implicit GEMMs, whatever their windows are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects.frontend import GraphOp, tensor
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.split_programs import run
from polyc.tools.play import play
from polyc.trace.builder import Builder

Make = Callable[[Builder, SSAValue, SSAValue], SSAValue]


def transposed(count: int, **how: Any) -> Make:
    return lambda b, x, w: b.conv_transpose(x, w, count, precision="tf32", **how)


def straight(count: int, **how: Any) -> Make:
    return lambda b, x, w: b.conv(x, w, count, precision="tf32", **how)


def least(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    """What is least over the filters, behind a convolution."""
    return b.reduce("min", b.conv(x, w, 2, precision="tf32"), [1], keepdims=True)


CASES: dict[str, tuple[Make, tuple[int, ...], tuple[int, ...], int]] = {
    "transposed": (transposed(2), (8, 32, 64, 64), (32, 32, 3, 3), 1),
    "transposed, in steps": (transposed(2, stride=(2, 2)), (8, 64, 64, 64), (64, 32, 3, 3), 4),
    "transposed, a line": (transposed(1), (8, 32, 4096), (32, 32, 3), 1),
    "transposed, of planes": (transposed(3), (4, 16, 8, 32, 32), (16, 32, 3, 3, 3), 1),
    "a line": (straight(1), (8, 32, 4096), (32, 32, 3), 1),
    "planes": (straight(3), (4, 16, 8, 32, 32), (32, 16, 3, 3, 3), 1),
    "planes of few channels": (straight(3), (4, 3, 8, 64, 64), (32, 3, 3, 3, 1), 1),
    "the least of filters": (least, (8, 32, 64, 64), (64, 32, 3, 3), 1),
}


def graph(make: Make, x: tuple[int, ...], w: tuple[int, ...], element: Any = f32) -> ModuleOp:
    build = Builder("g", {"x": tensor(x, element), "w": tensor(w, element)})
    return build.finish({"y": make(build, *build.inputs)})


@pytest.mark.parametrize("name", CASES)
def test_they_are_implicit_gemms(name: str) -> None:
    make, x, w, several = CASES[name]
    plans = find(run(graph(make, x, w), "plan"), ScheduleOp)
    convolutions = {p.region.string_value() for p in plans if p.pattern == "conv"}
    assert len(convolutions) == several
    assert {p.mma.data for p in plans if p.pattern in ("conv", "matmul")} >= {"wgmma"}


SMALL: dict[str, tuple[Make, tuple[int, ...], tuple[int, ...]]] = {
    "transposed": (transposed(2), (2, 16, 5, 6), (16, 16, 3, 3)),
    "transposed, in steps": (transposed(2, stride=(2, 3)), (2, 16, 4, 5), (16, 16, 3, 4)),
    "transposed, of planes": (
        transposed(3, stride=(2, 2, 2), padding=(1, 1, 1, 1, 1, 1)),
        (1, 16, 3, 4, 5),
        (16, 16, 3, 3, 3),
    ),
    "a line": (straight(1), (2, 16, 12), (16, 16, 3)),
    "planes": (straight(3), (2, 16, 4, 5, 6), (16, 16, 3, 3, 3)),
    "planes of few channels": (straight(3), (2, 3, 4, 5, 6), (16, 3, 3, 3, 1)),
    "the least of filters": (least, (2, 16, 6, 7), (16, 16, 3, 3)),
}


@pytest.mark.parametrize("name", SMALL)
def test_values_are_what_the_graph_means(name: str) -> None:
    module = graph(*SMALL[name])
    inputs = make_inputs(only(module, GraphOp), {}, 4)
    found = play(run(module, "region"), "g", inputs, {})
    assert found is not None
    assert_agree(found, meant(module, inputs, {}))


def test_phases_of_a_transposed_convolution_store_an_image_once() -> None:
    make = transposed(3, stride=(2, 2, 2))
    made = find(run(graph(make, (4, 16, 8, 16, 16), (16, 32, 3, 3, 3)), "region"), KernelOp)
    # An image of planes has the channels of one or of two of them.
    images = [k for k in made if [argument.name_hint for argument in k.body.block.args] == ["x"]]
    stored = [k.outs.data[0].shape[-1].constant() or 0 for k in images]
    assert sorted(stored) == [16, 32]


def test_pixels_of_a_square_are_summed_in_their_order() -> None:
    """So that rows of all pixels of a channel are one axis, as those of others are."""
    build = Builder("g", {"x": tensor((4, 8, 64, 64), f16)})
    module = build.finish({"y": build.layer_norm(build.inputs[0], axes=[2, 3], eps=1e-5)})
    (plan, *_) = find(run(module, "plan"), ScheduleOp)
    assert plan.pattern == "rows"
