"""Convolutions in groups as implicit GEMMs: tiles inside of groups (S4.9, S8, S9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.groups import groups_of
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV
from polyc.passes.pipeline import STAGES, build
from polyc.passes.support.plan.given import user_schedule
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")


def grouped(
    image: Sequence[int | str],
    filters: int,
    groups: int,
    *,
    taps: int = 3,
    stride: int = 1,
    layout: str = "nhwc",
    residual: bool = False,
) -> ModuleOp:
    """A convolution, a bias and relu; with ``residual`` the image is added."""
    s = Sketch("grouped")
    x = s.input("x", *image)
    first = layout == "nchw"
    inner = int(image[1 if first else 3]) // groups
    w = s.input("w", *((filters, inner, taps, taps) if first else (filters, taps, taps, inner)))
    made = s.add(
        frontend.Conv2dOp(
            x,
            w,
            layout=layout,
            stride=(stride, stride),
            padding=[taps // 2] * 4,
            dilation=(1, 1),
            groups=groups,
        )
    )
    bias = s.input("b", filters)
    made = s.fn("add", made, s.reshape(bias, 1, filters, 1, 1) if first else bias)
    return s.done(y=s.fn("relu", s.fn("add", made, x) if residual else made))


def lowered(module: ModuleOp, arch: str, until: str) -> ModuleOp:
    found = parse_text(make_context(), str(module), "graph.mlir")
    for stage in STAGES:
        for name in STAGES[stage]:
            build(name, arch).apply(make_context(), found)
        if stage == until:
            break
    return found


PROGRAMS = {
    "one tap": grouped(("B", 7, 9, 64), 64, 2, taps=1),
    "groups of 32": grouped(("B", 7, 9, 64), 64, 2),
    "fewer channels": grouped(("B", 6, 5, 48), 96, 3),
    "groups of 16, and a residual": grouped(("B", 5, 6, 32), 32, 2, residual=True),
    "five taps": grouped(("B", 5, 7, 32), 32, 2, taps=5),
    "strides": grouped(("B", 9, 8, 64), 64, 2, stride=2),
    "one image": grouped((1, 7, 9, 64), 64, 2),
    "groups of 80": grouped(("B", 4, 5, 160), 160, 2),
    "channels first": grouped(("B", 64, 7, 9), 64, 2, layout="nchw"),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_group_is_a_product_on_tensor_cores(name: str, arch: str) -> None:
    module = PROGRAMS[name]
    plans = find(lowered(module, arch, "plan"), ScheduleOp)
    mine = [plan for plan in plans if plan.pattern == "conv"]
    assert mine and all(plan.mma.data != "none" for plan in mine)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_variant_computes_the_graph(name: str, arch: str) -> None:
    module = PROGRAMS[name]
    graph = parse_text(make_context(), str(module), "graph.mlir")
    sizes = {"B": 1}
    inputs = make_inputs(only(graph, frontend.GraphOp), sizes, 4)
    wanted = meant(graph, inputs, sizes)
    built = gpu_module_of(lowered(module, arch, "gpu"))
    for variant in built.dispatch().variants():
        if all(fact.holds(sizes) for fact in variant.facts.data):
            result = simulate(built, inputs, sizes, variant.variant_name)
            result.check()
            assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("arch", ARCHS)
def test_what_a_group_does_not_read_is_not_in_its_sum(arch: str) -> None:
    """Infinities in the channels of a neighbour stay there: its tiles hold none of them."""
    module = PROGRAMS["groups of 16, and a residual"]
    graph = parse_text(make_context(), str(module), "graph.mlir")
    sizes = {"B": 1}
    inputs = make_inputs(only(graph, frontend.GraphOp), sizes, 4)
    inputs[0][..., 16:] = np.inf
    built = gpu_module_of(lowered(module, arch, "gpu"))
    (out,) = simulate(built, inputs, sizes).outputs
    assert np.isfinite(out[..., :16].astype(np.float32)).all()


@pytest.mark.parametrize("name", PROGRAMS)
def test_tiles_lie_inside_of_groups(name: str) -> None:
    for arch in ARCHS:
        module = lowered(PROGRAMS[name], arch, "plan")
        for kernel in find(module, KernelOp):
            if not CONV.takes(kernel):
                continue
            conv = find_convolution(kernel)
            groups = 3 if name == "fewer channels" else 2
            assert conv.size(conv.filters) == Dim.const(groups * conv.groups.filters)
            for plan in CONV.schedules(kernel, arch):
                _, columns, depth = plan.tile_sizes
                assert conv.groups.fits(columns, depth)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["groups of 32", "groups of 16, and a residual", "groups of 80"])
def test_kernels_of_groups_spill_nothing(name: str, arch: str) -> None:
    program = load(str(PROGRAMS[name]), arch)
    assert {k: info.spill_bytes for k, info in program.kernels.items() if info.spill_bytes} == {}


@pytest.mark.parametrize(
    "module",
    [
        grouped(("B", 7, 9, 64), 64, 8),
        grouped(("B", 7, 9, 32), 96, 4),
        grouped(("B", 64, 7, 9), 64, 8, layout="nchw"),
    ],
    ids=["8 filters", "8 channels", "8 filters first"],
)
def test_groups_that_are_no_tiles_are_refused(module: ModuleOp) -> None:
    """Their windows are stored, and a batch of products has a group each."""
    for arch in ARCHS:
        plans = find(lowered(module, arch, "plan"), ScheduleOp)
        assert not any(plan.pattern == "conv" for plan in plans)


def test_a_plan_whose_tiles_lie_in_several_groups_is_refused() -> None:
    module = lowered(PROGRAMS["groups of 32"], "sm_90a", "plan")
    base = find(module, ScheduleOp)[0]
    wide = {"tile": [base.tile_sizes[0], 64, 32], "warp_tile": [64, 64], "stages": 2}
    plan = user_schedule(base, wide)
    with pytest.raises(PolycError, match="tiles of 64 filters and 32 channels, and groups have 32"):
        CONV.check(find(module, KernelOp)[0], plan)


def test_an_image_read_plainly_has_one_group() -> None:
    module = lowered(grouped(("B", 7, 9, 64), 64, 1), "sm_90a", "region")
    (kernel,) = find(module, KernelOp)
    assert groups_of(kernel).filters == 0
