"""Convolutions of images joined channel by channel, as decoders with skips have them (S9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import tensor_of
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV
from polyc.passes.support.plan.given import user_schedule
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered, sizes_of
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.load import load

ARCHS = ("sm_80", "sm_90a")


def convolved(
    s: Sketch, x: SSAValue, name: str, filters: Size, *, padding: int = 1, layout: str = "nhwc"
) -> SSAValue:
    """A convolution of 3x3 taps."""
    channels = tensor_of(x).dims[3 if layout == "nhwc" else 1]
    taps = (3, 3, channels) if layout == "nhwc" else (channels, 3, 3)
    w = s.input(name, filters, *taps)
    made = frontend.Conv2dOp(
        x, w, layout=layout, stride=(1, 1), padding=[padding] * 4, dilation=(1, 1), groups=1
    )
    return s.add(made)


def joined(channels: Sequence[Size], *, padding: int = 1, skip: bool = False) -> ModuleOp:
    """Images beside each other; ``skip`` adds one to the output."""
    s = Sketch("joined")
    images = [s.input(f"x{i}", "B", 6, 7, size) for i, size in enumerate(channels)]
    made = convolved(s, s.concat(3, *images), "w", 72, padding=padding)
    made = s.fn("relu", s.fn("add", made, s.input("bias", 72)))
    return s.done(y=s.fn("add", made, s.input("skip", "B", 6, 7, 72)) if skip else made)


PROGRAMS: dict[str, Callable[[], ModuleOp]] = {
    "a symbol of channels": partial(joined, (64, "C")),
    "three, no padding": partial(joined, (64, 128, 40), padding=0),
    "a residual": partial(joined, (128, 16), skip=True),
}
SIZES = {"B": 2, "C": 24}, {"B": 1, "C": 5}


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "arch"),
    [
        ("a symbol of channels", "sm_80"),
        ("a symbol of channels", "sm_90a"),
        ("three, no padding", "sm_90a"),
        ("a residual", "sm_80"),
    ],
)
def test_every_variant_takes_each_step_from_its_image(name: str, arch: str) -> None:
    """One kernel, with tails, and no race."""
    module = PROGRAMS[name]()
    planned = lowered(module, arch, "plan")
    (region,) = find(planned, KernelOp)
    assert find_convolution(region).image.pieces
    kernels = gpu_module_of(lowered(module, arch, "gpu"))
    ran: set[str] = set()
    for given in SIZES:
        sizes = sizes_of(module, given)
        inputs = make_inputs(only(module, frontend.GraphOp), sizes, 4)
        wanted = meant(module, inputs, sizes)
        for variant in kernels.dispatch().variants():
            kernel = variant.variant_name
            if kernel in ran or not all(fact.holds(sizes) for fact in variant.facts.data):
                continue
            result = simulate(kernels, inputs, sizes, kernel, schedule="random", seed=2)
            assert not result.findings, "\n".join(map(str, result.findings))
            assert_agree(result.outputs, wanted, kernel)
            ran.add(kernel)
    ran_of = {p.variant.data for p in find(planned, ScheduleOp) if p.kernel_name in ran}
    assert ran_of >= {p.variant.data for p in find(planned, ScheduleOp) if not p.when.data}


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_kernels_of_joined_images_spill_nothing(arch: str) -> None:
    program = load(str(lowered(joined((64, 128)), arch, "gpu")), arch)
    assert {k: i.spill_bytes for k, i in program.kernels.items() if i.spill_bytes or i.stack} == {}
    assert not program.warnings(), nvrtc.version()


def decoder() -> ModuleOp:
    """A step of a decoder in NCHW: what a convolution gives beside an earlier image."""
    s = Sketch("decoder")
    up = convolved(s, s.input("x", "B", 64, 8, 9), "v", 128, layout="nchw")
    held = convolved(s, s.input("z", "B", 64, 8, 9), "u", 64, layout="nchw")
    whole = s.concat(1, s.fn("relu", up), s.fn("relu", held))
    return s.done(y=convolved(s, whole, "w", 64, layout="nchw"))


def test_convolutions_read_what_others_give() -> None:
    """Nothing is copied between them: pixels lie outside and channels inside all along."""
    regions = find(lowered(decoder(), "sm_90a", "region"), KernelOp)
    convolutions = [k for k in regions if 'name "acc' in str(k)]
    assert [len(find_convolution(k).image.pieces) for k in convolutions] == [0, 0, 2]


def beside() -> ModuleOp:
    s = Sketch("beside")
    images = [s.input(n, "B", 6, 7, 64) for n in "ab"]
    return s.done(y=convolved(s, s.concat(2, *images), "w", 64))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (partial(joined, (40, 64)), "reads x1 along r2 from 40 on, and a step has 64 channels"),
        (beside, "not what lies in the image|in windows|computed by"),
    ],
)
def test_images_that_a_step_may_lie_across_are_joined_first(
    make: Callable[[], ModuleOp], why: str
) -> None:
    (region,) = find(lowered(make(), "sm_90a", "region", fuse="legal"), KernelOp)
    with pytest.raises(PolycError, match=why):
        find_convolution(region)
    assert len(find(lowered(make(), "sm_90a", "region"), KernelOp)) == 2


def test_a_users_steps_lie_inside_of_an_image() -> None:
    planned = lowered(joined((64, 64)), "sm_90a", "plan")
    (region,) = find(planned, KernelOp)
    base = find(planned, ScheduleOp)[0]
    CONV.check(region, base)
    rows, columns, _ = base.tile_sizes
    plan = user_schedule(base, {"tile": [rows, columns, 128], "stages": 2})
    with pytest.raises(PolycError, match="in steps of 128, and x1 begins at 64"):
        CONV.check(region, plan)
