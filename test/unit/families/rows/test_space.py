"""The space of rows of known lengths: what is in it holds the row, and fits the chip."""

from __future__ import annotations

from functools import cache

import pytest
from xdsl.dialects.builtin import StringAttr

from polyc.cost.time import modelled
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.region import KernelOp
from polyc.families.family import fitted
from polyc.families.rows.recognise import Rows, find_rows
from polyc.families.rows.schedules import (
    ROWS,
    conditions,
    fastest,
    is_known,
    others,
    schedule_fields,
    variants,
)
from polyc.families.rows.space import space
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.row_programs import COLUMNS, PROGRAMS
from polyc.tools.registry import make_context


@cache
def rows_of(text: str, sizes: tuple[tuple[str, int], ...], arch: str) -> Rows:
    """The region of a program with these sizes in it."""
    for name, size in sizes:
        for mark in "[, ":
            text = text.replace(f"{mark}{name},", f"{mark}{size},")
            text = text.replace(f"{mark}{name}]", f"{mark}{size}]")
    module = parsed(text)
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        build(border, arch).apply(make_context(), module)
    return find_rows(only(module, KernelOp))


def known(name: str, count: int, length: int, arch: str = "sm_90a") -> Rows:
    program = COLUMNS["softmax"] if name == "columns" else PROGRAMS[name]
    sizes = (("M", length), ("N", count)) if name == "columns" else (("M", count), ("N", length))
    return rows_of(program.text, sizes, arch)


CASES = [
    ("softmax", 64, 1000),
    ("softmax", 64, 20480),
    ("layer_norm", 32, 1 << 20),
    ("residual", 7, 100008),
    ("columns", 4096, 8192),
    ("columns", 72, 100000),
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("name", "count", "length"), CASES)
def test_what_is_in_the_space_holds_the_row(name: str, count: int, length: int, arch: str) -> None:
    rows = known(name, count, length, arch)
    found = space(rows, arch, variants(rows, arch)[0].vector)
    assert found and len({variant.name for variant in found}) == len(found)
    for variant in found:
        when = conditions(rows, arch, variant)
        assert when is not None and not when
        fields = schedule_fields(rows, arch, variant)
        plan = fitted(rows.kernel.sym_name.data, variant.name, fields, when)
        plan.verify()
        ROWS.check(rows.kernel, plan)
        parts, width, deep = plan.integer("split_k"), *plan.tile_sizes[1:]
        assert parts * width * deep >= length > (parts - 1) * width * deep


@pytest.mark.parametrize(
    ("name", "count", "length"), [("layer_norm", 32, 1 << 20), ("columns", 4096, 8192)]
)
def test_the_fastest_by_the_model_is_what_is_proposed(name: str, count: int, length: int) -> None:
    rows = known(name, count, length)
    assert is_known(rows)
    plan = ROWS.schedules(rows.kernel, "sm_90a")[0]
    assert plan.takes_turns and not plan.when.data
    least = modelled(rows.kernel, plan, {}).seconds
    for variant in space(rows, "sm_90a", plan.integer("vectorize")):
        fields = schedule_fields(rows, "sm_90a", variant)
        other = fitted(rows.kernel.sym_name.data, variant.name, fields, ())
        assert modelled(rows.kernel, other, {}).seconds >= least
    assert fastest(rows, "sm_90a", plan).fields() == plan.fields()


def test_rows_of_open_sizes_have_the_table() -> None:
    rows = rows_of(PROGRAMS["softmax"].text, (), "sm_90a")
    assert not is_known(rows)
    assert [v.name for v in variants(rows, "sm_90a")][-1] == "any"


def test_more_rows_are_not_faster() -> None:
    times: list[float] = []
    for count in (1, 8, 11, 12, 40, 400):
        rows = known("layer_norm", count, 1 << 20)
        plan = ROWS.schedules(rows.kernel, "sm_90a")[0]
        times.append(modelled(rows.kernel, plan, {}).seconds)
    assert times == sorted(times)


ROW_SUM = """frontend.graph @row_sum(%X: !frontend.tensor<[M, N], f16>)
    -> (Y: !frontend.tensor<[M], f16>) {
  %y = frontend.reduce sum %X axes [1] : !frontend.tensor<[M, N], f16> -> !frontend.tensor<[M], f16>
  frontend.output %y : !frontend.tensor<[M], f16>
}
"""


@pytest.mark.parametrize(
    ("count", "length"), [(49, 1 << 20), (739, 56000), (3, 400001), (1, 800008)]
)
def test_a_sum_of_long_rows_is_walked_as_the_model_has_it_fastest(count: int, length: int) -> None:
    """Few rows have a cluster each, and no plan of the space is faster by the model."""
    rows = rows_of(ROW_SUM, (("M", count), ("N", length)), "sm_90a")
    plan = ROWS.schedules(rows.kernel, "sm_90a")[0]
    ROWS.check(rows.kernel, plan)
    assert plan.algo_choice.data["rows"] == StringAttr("streaming") and not plan.when.data
    assert plan.integer("split_k") > 1 or count > 132
    walks = [(us, one) for us, one in others(rows, "sm_90a") if "chunks" in one.variant.data]
    own = modelled(rows.kernel, plan, {}).seconds * 1e6
    assert walks and all(us >= own - 1e-6 for us, _ in walks)
