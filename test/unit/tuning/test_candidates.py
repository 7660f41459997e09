"""The plans to try: each verified, in the order of the model, of unlike tiles."""

from __future__ import annotations

from functools import cache

import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModuleOp
from polyc.dialects.region import KernelOp
from polyc.families.ranking import ranked
from polyc.test.support.root import ROOT
from polyc.tools.pipeline import Compilation
from polyc.tools.tuning.regions import lowered, regions_of
from polyc.tuning.candidates import candidates, laid
from polyc.tuning.columns import FIELDS
from polyc.tuning.regions import facts


@cache
def region(name: str, arch: str = "sm_90a") -> tuple[Compilation, KernelOp]:
    job = Compilation.of_file(ROOT / "examples" / f"{name}.mlir", arch)
    (found,) = regions_of(job)
    return job, found


@pytest.mark.parametrize(
    ("name", "sizes", "arch"),
    [
        ("gemm_bias_relu", {"M": 16, "N": 1536, "K": 4096}, "sm_90a"),
        ("gemm_bias_relu", {"M": 129, "N": 1001, "K": 333}, "sm_80"),
        ("softmax", {"M": 64, "N": 6000}, "sm_90a"),
        ("causal_attention", {"B": 1, "H": 2, "M": 256, "N": 256}, "sm_80"),
    ],
)
def test_they_are_in_the_order_of_the_model_and_are_built(
    name: str, sizes: dict[str, int], arch: str
) -> None:
    job, found = region(name, arch)
    listed = candidates(found, arch, sizes, 8)
    times = [one.time.seconds for one in listed[1:]]
    assert times == sorted(times) and 3 <= len(listed) <= 8
    assert len({str(one.fields) for one in listed}) == len(listed)
    assert len({one.name for one in listed}) == len(listed)
    assert all(str(fact) in map(str, listed[0].plan.when.data) for fact in facts(sizes))
    lowered(job, found, listed[-1].plan)


def test_products_have_plans_of_the_whole_space() -> None:
    _, found = region("gemm_bias_relu")
    sizes = {"M": 16, "N": 1536, "K": 4096}
    names = {one.name for one in candidates(found, "sm_90a", sizes, 24)}
    ahead = dict.fromkeys(plan.name for _, plan in ranked((1, 16, 1536, 4096), "sm_90a"))
    assert len(names & set(list(ahead)[:12])) >= 4


def test_a_recorded_plan_is_tried_first() -> None:
    _, found = region("softmax")
    sizes = {"M": 64, "N": 6000}
    last = candidates(found, "sm_90a", sizes, 8)[-1]
    again = candidates(found, "sm_90a", sizes, 4, recorded=last.fields)
    assert again[0].name == "recorded" and again[0].fields == last.fields
    assert last.fields not in [one.fields for one in again[1:]]


def test_a_plan_that_does_not_fit_is_refused() -> None:
    _, found = region("gemm_bias_relu")
    with pytest.raises(PolycError, match="BadPlan"):
        laid(found, "sm_90a", {"tile": [64, 128, 63]}, (), "given")


def test_a_convolution_is_tried_with_its_columns_stored_too() -> None:
    job, found = region("conv_silu")
    sizes = {"N": 2, "H": 7, "W": 7, "C": 8, "F": 64}
    listed = candidates(found, "sm_90a", sizes, 64)
    assert len({tuple(c.plan.tile_sizes) for c in listed}) > 3
    (columns,) = (c for c in listed if c.name == "columns")
    assert columns.fields == {"arch": "sm_90a", "algo_choice": {"conv": "im2col"}}
    assert columns.time.launch == 2 * listed[0].time.launch  # of two kernels
    (module,) = lowered(job, found, columns.plan).ops
    assert isinstance(module, GpuModuleOp) and len(list(module.kernels())) >= 2


def test_what_is_no_convolution_is_not_taken_apart() -> None:
    _, found = region("gemm_bias_relu")
    with pytest.raises(PolycError, match="BadPlan"):
        laid(found, "sm_90a", {**FIELDS, "stages": 4}, (), "given")
