"""Convolutions of few channels or filters, and of far or long windows: where they run."""

from __future__ import annotations

from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.precision import TF32
from polyc.dialects.plan import ScheduleOp
from polyc.test.support.lowered import assert_kernels_agree, lowered
from polyc.test.support.sketch import Sketch

Sizes = tuple[int, ...]


def conv(x: Sizes, w: Sizes, element: Attribute = f32, **how: Any) -> ModuleOp:
    """A convolution along one axis or two, which may be rounded to TF32."""
    s = Sketch("conv", element)
    kind = frontend.Conv1dOp if len(x) == 3 else frontend.Conv2dOp
    op = kind(s.input("x", *x), s.input("w", *w), **how)
    if element == f32:
        op.properties["precision"] = StringAttr(TF32)
    return s.done(y=s.add(op))


def kinds(module: ModuleOp) -> list[tuple[str, str, str]]:
    """Family, tensor cores and variant of the first plan of each kernel."""
    found: dict[str, tuple[str, str, str]] = {}
    for op in lowered(module, "sm_90a", "plan").walk():
        if isinstance(op, ScheduleOp):
            one = (str(op.pattern), str(op.mma.data), op.variant.data)
            found.setdefault(op.region.string_value(), one)
    return list(found.values())


NONE = [0, 0, 0, 0]

FAR: dict[str, tuple[Sizes, Sizes, dict[str, Any]]] = {
    "a short-time transform": ((4, 1, 64512), (514, 1, 512), {"stride": [160]}),
    "of an odd step": ((4, 2, 64511), (257, 2, 400), {"stride": [161]}),
    "no padding, a short step": ((4, 1, 64000), (512, 1, 10), {"stride": [5]}),
    "long windows side by side": ((16, 1, 16000), (80, 1, 251), {}),
    "overlapping patches": ((8, 3, 224, 224), (768, 3, 16, 16), {"stride": [10, 10]}),
    "patches that leave a rest": ((8, 3, 225, 230), (768, 3, 16, 16), {"stride": [16, 16]}),
    "many channels, far apart": ((8, 64, 225, 225), (128, 64, 3, 3), {"stride": [16, 16]}),
}


@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize(("x", "w", "how"), FAR.values(), ids=FAR)
def test_windows_that_no_tile_goes_along_are_rows_of_a_matrix(
    x: Sizes, w: Sizes, how: dict[str, Any], element: Attribute
) -> None:
    found = kinds(conv(x, w, element, **how))
    products = [one for one in found if one[0] != "loops"]
    assert [one[:2] for one in products] == [("matmul", "wgmma")]
    assert len(found) <= 4


def test_long_windows_that_would_be_many_times_the_image_are_no_rows() -> None:
    x, w = (64, 64, 1, 16000), (64, 64, 1, 400)
    assert ("matmul", "wgmma") not in [one[:2] for one in kinds(conv(x, w))]


FEW: dict[str, tuple[Sizes, Sizes]] = {
    "two edges": ((16, 1, 512, 512), (2, 1, 3, 3)),
    "colours": ((16, 3, 512, 512), (3, 3, 3, 3)),
    "one mask of some channels": ((16, 16, 256, 256), (1, 16, 3, 3)),
    "seven features": ((16, 1, 512, 512), (7, 1, 3, 3)),
}


@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize(("x", "w"), FEW.values(), ids=FEW)
def test_few_filters_are_one_kernel_of_threads(x: Sizes, w: Sizes, element: Attribute) -> None:
    ((family, mma, variant),) = kinds(conv(x, w, element, padding=[1, 1, 1, 1]))
    assert (family, mma) == ("loops", "none") and variant.startswith("line_")


@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize("each", [(8, 1), (8, 8)], ids=str)
def test_few_filters_in_groups_are_too(each: tuple[int, int], element: Attribute) -> None:
    filters, channels = each
    x, w = (24, 4 * channels, 112, 112), (4 * filters, channels, 3, 3)
    ((family, _, variant),) = kinds(conv(x, w, element, groups=4, padding=[1, 1, 1, 1]))
    assert family == "loops" and variant.startswith("line_")


def test_more_filters_and_channels_last_stay_on_tensor_cores() -> None:
    wide = kinds(conv((16, 1, 512, 512), (16, 1, 3, 3)))
    last = kinds(conv((16, 512, 512, 3), (3, 3, 3, 3), layout="nhwc"))
    assert [sum(one[1] == "wgmma" for one in found) for found in (wide, last)] == [1, 1]


def test_long_filters_of_each_channel_slide_along_lines() -> None:
    for side, taps in ((256, (21, 21)), (256, (31, 31)), (1600, (1, 31)), (1600, (1, 63))):
        x = (8, 64, side if taps[0] > 1 else 1, side)
        pads = [tap // 2 for tap in taps for _ in range(2)]
        ((family, _, variant),) = kinds(conv(x, (64, 1, *taps), groups=64, padding=pads))
        assert family == "loops" and variant.startswith("line_"), taps


SMALL: dict[str, tuple[Sizes, Sizes, dict[str, Any]]] = {
    "a transform": ((2, 1, 100), (10, 1, 24), {"stride": [12], "padding": [3, 4]}),
    "of two channels": ((1, 2, 90), (8, 2, 17), {"stride": [9]}),
    "overlapping patches": ((1, 3, 23, 25), (8, 3, 11, 10), {"stride": [9, 3]}),
    "with room": ((1, 2, 20, 22), (4, 2, 3, 5), {"stride": [10, 9], "padding": [1, 2, 0, 3]}),
    "patches with a rest": ((1, 3, 9, 11), (8, 3, 4, 4), {"stride": [4, 4]}),
    "far taps": ((1, 1, 300), (8, 1, 3), {"dilation": [66]}),
    "few filters": ((1, 3, 9, 12), (3, 3, 3, 3), {"padding": [1, 1, 1, 1]}),
    "few in groups": ((1, 4, 9, 12), (16, 2, 3, 3), {"groups": 2, "padding": [1, 1, 1, 1]}),
    "a long filter": ((1, 4, 40), (4, 1, 31), {"groups": 4, "padding": [15, 15]}),
    "a longer filter": ((1, 2, 72), (2, 1, 63), {"groups": 2, "padding": [31, 31]}),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize(("x", "w", "how"), SMALL.values(), ids=SMALL)
def test_kernels_compute_what_the_graph_means(
    x: Sizes, w: Sizes, how: dict[str, Any], element: Attribute, arch: str
) -> None:
    assert_kernels_agree(conv(x, w, element, **how), arch)
