"""Samples are what playback of all gives there; smaller sizes keep their class."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from polyc.dialects.region import KernelOp
from polyc.passes.plan.select import propose
from polyc.playback.region import free_axes
from polyc.test.support.root import ROOT
from polyc.tools.check import Expected
from polyc.tools.pipeline import Compilation
from polyc.tools.play import Signature
from polyc.tools.tuning.regions import regions_of
from polyc.tools.tuning.samples import Sample, effort, sampled, smaller

CASES = {
    "gemm_bias_relu": {"M": 70, "N": 45, "K": 33},
    "softmax": {"M": 9, "N": 70},
    "causal_attention": {"B": 1, "H": 2, "M": 70, "N": 70},
    "conv_silu": {"N": 2, "H": 9, "W": 5, "C": 8, "F": 24},
}


@cache
def region(name: str) -> KernelOp:
    (found,) = regions_of(Compilation.of_file(ROOT / "examples" / f"{name}.mlir", "sm_90a"))
    return found


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("draw", ["uniform", "special"])
def test_a_sample_is_what_all_of_playback_gives_there(name: str, draw: str) -> None:
    kernel, sizes = region(name), CASES[name]
    signature = Signature.of(kernel)
    assert signature is not None
    whole = Expected.of(signature, sizes, 3, draw)
    points = sampled(kernel, sizes, (16, 32), 1e5, 0)
    assert set(points) == set(free_axes(kernel)) and points
    assert all((np.diff(at) > 0).all() for at in points.values())
    sample = Sample(kernel, sizes, whole.inputs, points)
    right = whole.outputs[0].value.astype(np.float16)
    assert sample.difference([right]) is None
    at = tuple(int(c[-1]) for c in sample.coordinates(0, points))
    wrong = right.copy()
    wrong[at] = 100.0
    found = sample.difference([wrong])
    assert found is not None and found[0] == 0
    assert found[1].index == at and found[1].actual == 100.0
    # An element that is none of the sample, by itself.
    number = right.size // 2 + 1
    assert sample.at(0, number, right.reshape(-1)[number]) is None
    missed = sample.at(0, number, np.asarray(100.0, np.float16))
    assert missed is not None and missed.actual == 100.0
    assert right[missed.index] == right.reshape(-1)[number] or np.isnan(missed.expected)


def test_a_sample_has_the_ends_and_borders_of_tiles() -> None:
    kernel = region("gemm_bias_relu")
    points = sampled(kernel, {"M": 4000, "N": 30, "K": 64}, (128,), 1e6, 0)
    assert {0, 3999} <= set(points["m"].tolist()) and list(points["n"]) == list(range(30))
    assert any(at % 128 == 0 for at in points["m"][1:]) and len(points["m"]) == 48
    few = sampled(kernel, {"M": 4000, "N": 4000, "K": 1 << 20}, (128,), 1e5, 0)
    assert 1 <= len(few["m"]) < 8


@pytest.mark.parametrize(
    ("name", "sizes", "kept"),
    [
        ("gemm_bias_relu", {"M": 1537, "N": 1536, "K": 1544}, {"M": 1, "K": 8}),
        ("gemm_bias_relu", {"M": 64, "N": 14336, "K": 4096}, {"M": 64}),
        ("softmax", {"M": 8192, "N": 5120}, {"N": 5120}),
        ("causal_attention", {"B": 4, "H": 16, "M": 2048, "N": 2048}, {}),
        ("conv_silu", {"N": 32, "H": 56, "W": 56, "C": 128, "F": 128}, {"C": 0, "F": 0}),
    ],
)
def test_smaller_sizes_leave_the_same_rest(
    name: str, sizes: dict[str, int], kept: dict[str, int]
) -> None:
    kernel = region(name)
    plans = propose(kernel, "sm_90a")[1]
    found = smaller(kernel, sizes, plans, 1.2e7)
    assert found is not None and found != sizes and effort(kernel, found) <= 1.2e7
    assert effort(kernel, sizes) > 1.2e7
    assert all(found[s] <= n for s, n in sizes.items())
    assert all(found[s] % 64 == n % 64 for s, n in kept.items())


def test_where_nothing_smaller_is_of_the_class_there_is_none() -> None:
    kernel = region("softmax")
    plans = propose(kernel, "sm_90a")[1]
    assert smaller(kernel, {"M": 64, "N": 6000}, plans, 1.0) is None
