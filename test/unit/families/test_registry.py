"""The registry: the families in the order of asking, and where the parts of each are found."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from xdsl.dialects.builtin import StringAttr

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.families.family import Family
from polyc.families.registry import BY_NAME, FAMILIES
from polyc.lowering.region_to_gpu import lowering_of
from polyc.test.support.gemm_programs import Product, regions
from polyc.test.support.root import ROOT

NAMES = [family.name for family in FAMILIES]
EXAMPLES = {
    "matmul": "gemm_bias_relu",
    "conv": "conv_silu",
    "attention": "causal_attention",
    "rows": "softmax",
    "sorts": "sort_rows",
    "loops": "product_mixed",
}
"""For each family a graph of one region that it is the first to take."""

SCAN = """frontend.graph @scan(%x: !frontend.tensor<[M, N], f16>) -> !frontend.tensor<[M, N], f16> {
  %y = frontend.scan sum %x axis 1 : !frontend.tensor<[M, N], f16>
  frontend.output %y : !frontend.tensor<[M, N], f16>
}"""
"""The same of scans."""

SCATTER = """frontend.graph @scatter(%x: !frontend.tensor<[V, D], f16>,
    %i: !frontend.tensor<[N], i64>, %u: !frontend.tensor<[N, D], f16>)
    -> !frontend.tensor<[V, D], f16> {
  %y = frontend.scatter add %x, %i, %u axis 0 : (!frontend.tensor<[V, D], f16>,
      !frontend.tensor<[N], i64>, !frontend.tensor<[N, D], f16>) -> !frontend.tensor<[V, D], f16>
  frontend.output %y : !frontend.tensor<[V, D], f16>
}"""
"""And of scatters."""


def kernel_of(text: str) -> KernelOp:
    """The only region of a graph."""
    (found,) = (op for op in regions(text).ops if isinstance(op, KernelOp))
    return found


def example(family: str) -> KernelOp:
    if family in ("scans", "scatters"):
        return kernel_of(SCAN if family == "scans" else SCATTER)
    return kernel_of((ROOT / "examples" / f"{EXAMPLES[family]}.mlir").read_text())


def takes(family: Family[Any], kernel: KernelOp) -> bool:
    """Whether a family has schedules for a region on every architecture."""
    try:
        return all(family.schedules(kernel, arch) for arch in ARCHS)
    except PolycError as error:
        assert error.kind == "UnsupportedProgram"
        return False


def test_those_that_know_more_of_a_region_are_asked_first() -> None:
    assert NAMES == ["matmul", "conv", "attention", "rows", "sorts", "scatters", "scans", "loops"]
    assert list(BY_NAME) == NAMES and list(BY_NAME.values()) == list(FAMILIES)


def test_each_folder_of_rules_is_a_family() -> None:
    folders = {path.parent.name for path in (ROOT / "families").glob("*/recognise.py")}
    assert folders == {path.parent.name for path in (ROOT / "families").glob("*/schedules.py")}
    assert folders == set(NAMES) and len(NAMES) == len(folders)


@pytest.mark.parametrize("name", NAMES)
def test_the_rules_of_a_family_are_in_the_folder_of_its_name(name: str) -> None:
    family = BY_NAME[name]
    for rule in (family.recognise, family.propose, family.check_plan, family.restate):
        assert rule.__module__.startswith(f"polyc.families.{name}."), rule


@pytest.mark.parametrize("name", NAMES)
def test_the_builder_of_a_family_is_in_the_file_of_its_name(name: str) -> None:
    builder = import_module(f"polyc.lowering.region_to_gpu.{name}").LOWERING
    assert builder.__module__ == f"polyc.lowering.region_to_gpu.{name}"
    kernel, family = example(name), BY_NAME[name]
    made = lowering_of(family, family.recognise(kernel))
    assert type(made) is builder and made.kernel is kernel


@pytest.mark.parametrize("name", NAMES)
def test_each_family_is_the_first_to_take_a_region(name: str) -> None:
    assert next(family.name for family in FAMILIES if takes(family, example(name))) == name


@pytest.mark.parametrize("name", NAMES)
def test_a_schedule_names_its_family(name: str) -> None:
    for arch in ARCHS:
        for plan in BY_NAME[name].schedules(example(name), arch):
            assert plan.pattern == name and isinstance(plan.algo_choice.data[name], StringAttr)


@pytest.mark.parametrize("name", NAMES)
def test_a_family_contracts_where_its_kernels_use_tensor_cores(name: str) -> None:
    family = BY_NAME[name]
    for arch in ARCHS:
        cores = [plan.mma.data != "none" for plan in family.schedules(example(name), arch)]
        assert any(cores) == family.contracts


def test_the_last_family_takes_what_the_others_refuse() -> None:
    product = kernel_of(Product(("M", "K"), ("K", "N"), ("M", "N")).text)
    assert takes(FAMILIES[-1], product)
    for name in NAMES:
        assert takes(FAMILIES[-1], example(name)) == (name != "scans"), name
    assert not any(takes(family, example("loops")) for family in FAMILIES[:-1])
