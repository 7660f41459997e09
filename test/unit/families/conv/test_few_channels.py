"""Convolutions of few channels: lines of their windows are channels of an image that is stored."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.playback.agreement import tolerance_check
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs, reference
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only, printed
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.tools.registry import make_context

Pair = tuple[int, int]


def conv(
    image: Sequence[int | str],
    taps: Pair,
    stride: Pair = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0),
    layout: str = "nhwc",
    dilation: Pair = (1, 1),
) -> ModuleOp:
    """16 filters over an image, given as [N, H, W, C]."""
    n, h, w, c = image
    s = Sketch("few")
    first = layout == "nchw"
    x = s.input("x", *((n, c, h, w) if first else image))
    filters = s.input("w", 16, *((c, *taps) if first else (*taps, c)))
    op = frontend.Conv2dOp(
        x, filters, layout=layout, stride=stride, padding=padding, dilation=dilation
    )
    return s.done(y=s.add(op))


def tiny(module: ModuleOp) -> str:
    """The text of a module's tiny graph."""
    FrontendToTiny().apply(make_context(), module)
    return printed(module)


@pytest.mark.parametrize("layout", ["nhwc", "nchw"])
def test_lines_of_few_channels_are_channels(layout: str) -> None:
    """Seven pixels of three channels are 21, filled up with zeros to two steps of 16."""
    text = tiny(conv(("N", 9, "W", 3), (7, 7), (2, 2), (3, 3, 3, 3), layout))
    assert "-> !tiny.tensor<[N, 9, (W + 1) floordiv 2, 32], f16>" in text
    assert "-> !tiny.tensor<[16, 7, 1, 32], f16>" in text
    assert text.count("tiny.window") == 2


@pytest.mark.parametrize(
    ("channels", "taps", "stride"),
    [(16, (3, 3), (1, 1)), (4, (3, 1), (1, 1)), (3, (3, 22), (1, 1)), (3, (2, 2), (2, 2))],
    ids=["a step of them", "one column", "long lines", "patches"],
)
def test_other_lines_are_no_channels(channels: int, taps: Pair, stride: Pair) -> None:
    assert tiny(conv(("N", 8, 64, channels), taps, stride)).count("tiny.window") <= 1


def test_an_odd_number_of_channels_is_filled_up() -> None:
    """Zeros beside the channels are the sum's, and a copy of 16 bytes takes a pixel."""
    odd, even = (tiny(conv(("N", 9, 8, c), (3, 1), (1, 1), (1, 1, 0, 0))) for c in (3, 4))
    assert "!tiny.tensor<[N, 9, 8, 8], f16>" in odd
    assert "tiny.pad %x_f32 low [0, 1, 0, 0]" in even


CONVOLUTIONS = {
    "first of a ResNet": conv(("N", 9, "W", 3), (7, 7), (2, 2), (3, 3, 3, 3)),
    "gray": conv(("N", 9, "W", 1), (5, 5), (1, 2), (2, 1, 2, 1), "nchw"),
    "a line": conv(("N", 9, "W", 8), (1, 3)),
    "one image": conv((1, 9, "W", 3), (3, 3), (1, 1), (1, 1, 1, 1), "nchw"),
    "dilated": conv(("N", 9, "W", 3), (3, 3), (2, 1), (0, 2, 1, 1), "nchw", (1, 2)),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch"),
    # In turn: how lines are laid out is the same for each.
    [(name, ("sm_80", "sm_90a")[i % 2]) for i, name in enumerate(CONVOLUTIONS)],
)
def test_they_compute_what_they_mean_on_tensor_cores(name: str, arch: str) -> None:
    module = CONVOLUTIONS[name]
    wanted = only(module, frontend.GraphOp)
    plans = find(run(module, "plan", arch=arch), ScheduleOp)
    assert any(plan.mma.data != "none" for plan in plans)
    kernels = finished(only(run(module, "gpu", arch=arch), gpu.ModuleOp))
    done = nvrtc.compile_cuda(cuda_source(kernels), arch)
    assert not done.warnings()
    assert all((info.spill_bytes, info.stack) == (0, 0) for info in done.kernels.values())
    sizes = {"N": 2, "W": 11}
    inputs = make_inputs(wanted, sizes)
    result = simulate(kernels, inputs, sizes, schedule="random", seed=3)
    result.check()
    (right,) = reference(wanted, inputs, sizes)
    kind = wanted.outputs[0].type.element_type
    assert tolerance_check(np.asarray(result.outputs[0]), right, kind) is None
