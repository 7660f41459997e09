"""Convolutions whose filters are reduced in their kernels (S6.6, S9)."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.conv.recognise import find_convolution
from polyc.families.conv.schedules import CONV
from polyc.families.space import GROUP_ROWS
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.split_programs import run, wanted_of
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Dims = tuple[int | str, ...]


def tensor(dims: Dims, kind: str) -> str:
    return f"!frontend.tensor<[{', '.join(map(str, dims))}], {kind}>"


def text(
    kind: str,
    tail: str,
    x: Dims = (2, 9, 11, 16),
    filters: int = 40,
    planes: bool = False,
    precision: str = "",
    groups: int = 1,
) -> str:
    """A 3x3 convolution, a bias and what reduces its filters; with ``planes`` in NCHW."""
    n, h, w, c = x
    order = (0, 3, 1, 2) if planes else (0, 1, 2, 3)
    image, out = ([dims[i] for i in order] for dims in (x, (n, h, w, filters)))
    weights: Dims = (filters, 3, 3, c) if not planes else (filters, c, 3, 3)
    if groups > 1:
        assert isinstance(c, int)
        weights = (filters, 3, 3, c // groups)
    at = order.index(3)
    bias: Dims = (filters, 1, 1) if planes else (filters,)
    given, taps, added, y = (
        tensor(tuple(image), kind),
        tensor(weights, kind),
        tensor(bias, "f32"),
        tensor(tuple(out), "f32"),
    )
    left = tensor(tuple(d for i, d in enumerate(out) if i != at), "f32")
    half = tensor(tuple(out), "f16")
    ends = {
        "min": f"  %e = frontend.reduce min %b axes [{at}] : {y} -> {left}\n",
        "softmax": f"  %e = frontend.softmax %b axes [{at}] : {y}\n",
        "rounded": f"  %s = frontend.softmax %b axes [{at}] : {y}\n"
        f"  %e = frontend.cast %s : {y} -> {half}\n",
        "spread": f"  %m = frontend.reduce mean %b axes [{at}] keepdims : {y} -> "
        f"{tensor(tuple(1 if i == at else d for i, d in enumerate(out)), 'f32')}\n"
        f"  %e = frontend.elementwise sub %b, %m : ({y}, "
        f"{tensor(tuple(1 if i == at else d for i, d in enumerate(out)), 'f32')}) -> {y}\n",
    }
    end = {"min": left, "rounded": half}.get(tail, y)
    said = "" if not precision else f', precision = "{precision}"'
    layout = "nchw" if planes else "nhwc"
    return f"""frontend.graph @g(%x: {given}, %w: {taps}, %v: {added}) -> (y: {end}) {{
  %a = frontend.conv2d {layout} %x, %w stride [1, 1] padding [1, 1, 1, 1] dilation [1, 1]
      groups {groups} {{acc = f32{said}}} : ({given}, {taps}) -> {y}
  %b = frontend.elementwise add %a, %v : ({y}, {added}) -> {y}
{ends[tail]}  frontend.output %e : {end}
}}
"""


def planned(source: str, arch: str) -> ModuleOp:
    return run(parse_text(make_context(), source, "g.mlir"), "plan", arch=arch)


WAYS = [("f16", ""), ("bf16", ""), ("f32", "tf32"), ("f32", "")]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tail", ["min", "softmax", "spread"])
@pytest.mark.parametrize(("kind", "precision"), WAYS)
def test_what_reduces_filters_is_no_kernel_of_its_own(
    kind: str, precision: str, tail: str, arch: str
) -> None:
    module = planned(text(kind, tail, precision=precision), arch)
    plan = only(module, ScheduleOp)
    assert plan.pattern == "conv" and plan.variant.data.endswith("_whole")
    assert f"reduce_{'sum' if tail == 'spread' else tail.replace('softmax', 'max')}" in str(
        plan.epilogue
    )
    assert plan.tile_sizes[1] == 64 and not plan.stores_sums


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_channels_that_lie_outside_are_copied_and_what_is_reduced_stays(kind: str) -> None:
    """As convolutions of PyTorch's models come: image and filters are turned ahead of it."""
    module = planned(text(kind, "min", planes=True, precision="tf32"), "sm_90a")
    plans = find(module, ScheduleOp)
    assert [plan.pattern for plan in plans] == ["loops", "loops", "conv"]
    assert plans[-1].variant.data.endswith("_whole")
    assert not find_convolution(find(module, KernelOp)[-1]).turned


@pytest.mark.parametrize(
    ("filters", "x", "groups"),
    [
        (136, (2, 9, 11, 16), 1),  # More than threads hold beside what becomes of them.
        (64, (2, 9, 11, 64), 2),
    ],
)
def test_others_have_a_kernel_behind_them(filters: int, x: Dims, groups: int) -> None:
    plans = find(planned(text("f16", "min", x, filters, groups=groups), "sm_90a"), ScheduleOp)
    assert [plan.pattern for plan in plans] == ["conv", "rows"]


def test_a_softmax_whose_channels_lie_outside_is_stored_by_pixels_first() -> None:
    plans = find(planned(text("f16", "softmax", planes=True), "sm_90a"), ScheduleOp)
    assert [plan.pattern for plan in plans[2:]] == ["conv", "loops"]
    assert plans[2].variant.data.endswith("_whole")


def test_a_plan_of_ones_own_has_all_filters_in_a_tile() -> None:
    module = planned(text("f16", "min", filters=128, x=(8, 32, 32, 64)), "sm_90a")
    kernel, plan = only(module, KernelOp), only(module, ScheduleOp)
    own = ScheduleOp(plan.region, "own", {**plan.fields(), "tile": [128, 64, 64]})  # pyright: ignore
    with pytest.raises(PolycError, match="128 filters are reduced after the convolution"):
        CONV.check(kernel, own)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("tail", ["min", "softmax", "rounded", "spread"])
@pytest.mark.parametrize(("kind", "precision"), WAYS)
def test_tails_and_races(kind: str, precision: str, tail: str, arch: str) -> None:
    """Tiles with pixels and filters beyond the last ones, in the simulator."""
    if tail == "rounded" and kind == "f32":
        pytest.skip("a softmax of f32 is stored as f32")
    module = parse_text(make_context(), text(kind, tail, precision=precision), "g.mlir")
    inputs, right = wanted_of(module, {})
    kernels = gpu_module_of(run(module, "gpu", arch=arch))
    result = simulate(kernels, inputs, {}, schedule="random")
    result.check()
    assert_agree(result.outputs, right)


@pytest.mark.turns(4)
@pytest.mark.parametrize("filters", [32, 64, 128])
@pytest.mark.parametrize(("kind", "precision"), WAYS)
def test_nothing_spills(kind: str, precision: str, filters: int) -> None:
    """Of tiles of many pixels, of which fewest registers are left, and of open sizes."""
    for tail in ("min", "softmax"):
        for x in ((32, 64, 64, 64), ("N", "H", "W", 64)):
            source = text(kind, tail, x, filters, precision=precision)
            for arch in ("sm_80", "sm_90a"):
                module = parse_text(make_context(), source, "g.mlir")
                kernels = gpu_module_of(run(module, "gpu", arch=arch))
                for made in nvrtc.compile_each(list(cuda_units(kernels)), arch):
                    assert {info.spill_bytes for info in made.kernels.values()} == {0}


def test_of_a_minimum_tiles_are_taller_than_of_a_softmax() -> None:
    """What becomes of the sums takes as many registers as these do, or none."""
    rows = [
        only(
            planned(text("f32", tail, (32, 96, 96, 64), 128, precision="tf32"), "sm_90a"),
            ScheduleOp,
        ).tile_sizes[0]
        for tail in ("min", "softmax")
    ]
    assert rows[0] > rows[1] >= GROUP_ROWS
