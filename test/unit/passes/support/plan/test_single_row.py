"""Products of one row, or of one column, as rows: when they are proposed, and what they compute."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, VectorType, bf16, f16, f32
from xdsl.ir import Attribute

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.support.plan.single_row import single_rows
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.test.support.split_programs import (
    across,
    batched,
    gated,
    leave_only,
    plain,
    residual,
    run,
    wanted_of,
    written,
)


def singles(module: ModuleOp, arch: str = "sm_90a") -> list[ScheduleOp]:
    """The schedules of rows of a product."""
    return [
        plan for plan in find(run(module, "plan", arch=arch), ScheduleOp) if plan.pattern == "rows"
    ]


def turned(m: Size = "M", n: Size = "N", k: Size = "K") -> ModuleOp:
    """The single column of a matrix times many rows."""
    s = Sketch("turned")
    return s.done(y=s.gemm(s.input("x", m, k), s.input("w", n, k), turned=True))


def exact(m: Size = "M", n: Size = "N", k: Size = "K") -> ModuleOp:
    """The same of f32."""
    s = Sketch("exact", f32)
    return s.done(y=s.gemm(s.input("x", m, k), s.input("w", n, k), turned=True))


def standing(m: Size = "M", k: Size = "K", kind: Attribute = f16) -> ModuleOp:
    """Rows times a matrix of one column, whose elements lie along k."""
    s = Sketch("standing", kind)
    return s.done(y=s.gemm(s.input("x", m, k), s.input("w", k, 1)))


@pytest.mark.parametrize("kind", [f16, f32])
@pytest.mark.parametrize(("m", "k"), [(4096, 4096), (4097, 4099), ("M", "K")])
def test_one_column_is_a_row_of_rows_of_its_own(m: Size, k: Size, kind: Attribute) -> None:
    """It was copied to rows of eight, or multiplied in tiles whose columns are empty but one."""
    found = singles(standing(m, k, kind))
    # Of known sizes the region has no axis of one column, and is no product.
    name = "one_i1_block" if isinstance(m, str) else "block"
    assert found and found[0].variant.data.startswith(name)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("m", "n", "k", "found"),
    [
        # Of known sizes one that always runs, and nothing else.
        (1, 4096, 4096, ["one_i0_block"]),
        (1, 4096, 1024, ["one_i0_warp"]),
        (1, 4096, 14336, ["one_i0_block_by16"]),
        (1, 4096, 65536, ["one_i0_chunks"]),
        (1, 4096, 999, ["one_i0_warp"]),
        (4096, 1, 4096, ["block"]),
        # Few rows, which are short.
        (1, 64, 4096, ["one_i0_block"]),
        # Without the axis of one column neighbours of a tile are rows.
        (4096, 1, 512, ["warp"]),
        # Too few rows for the chip, two of them, rows that are no rows of a kernel.
        (1, 100, 16384, []),
        (2, 4096, 4096, []),
        (1, 4096, 4, []),
        # Open ones: in front of those that take the rest.
        ("M", 4096, 4096, ["one_i0_block"]),
        (1, "N", 4096, ["one_i0_block"]),
        ("M", "N", "K", ["one_i0_block", "one_i0_chunks", "one_i1_block", "one_i1_chunks"]),
    ],
)
def test_sizes_decide(m: Size, n: Size, k: Size, found: list[str], arch: str) -> None:
    plans = find(run(plain(m, n, k), "plan", arch=arch), ScheduleOp)
    names = [plan.variant.data for plan in plans if plan.pattern == "rows"]
    # Long rows of known lengths go in chunks of a size that the model chooses.
    ways = [
        tuple(re.sub("one_[^_]*_", "one_", one) for one in both)
        for both in zip(names, found, strict=False)
    ]
    assert len(names) == len(found) and all(name.startswith(way) for name, way in ways)
    if found and isinstance(m, int) and isinstance(n, int):
        assert len(plans) == 1 and not plans[0].when.data
    if "M" in (m, n):
        assert [p.pattern for p in plans[: len(found)]] == ["rows"] * len(found)
        assert plans[-1].pattern == "matmul"
        one = {"M": 1, "N": 4096, "K": 4096}
        two = {**one, "M": 2}
        first, second = (
            next(p for p in plans if all(fact.holds(sizes) for fact in p.when.data))
            for sizes in (one, two)
        )
        assert first.pattern == "rows" and second.pattern == "matmul"


def down(n: Size = "N", k: Size = "K", kind: Attribute = f16, bias: bool = False) -> ModuleOp:
    """One row times columns that lie along the other axis."""
    s = Sketch("down", kind)
    y = s.gemm(s.input("x", 1, k), s.input("w", k, n))
    return s.done(y=s.fn("relu", s.fn("add", y, s.input("b", 1, n)) if bias else y))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("n", "k", "found"),
    [
        (4096, 4096, "one_i0_vector"),
        (14336, 4096, "one_i0_vector"),
        # Rows of which no vectors are whole, and so little that half of a chip is idle.
        (4095, 4096, ""),
        (32, 64, ""),
    ],
)
def test_columns_that_lie_across_are_summed(n: int, k: int, found: str, arch: str) -> None:
    """By the blocks of the family of loops, and of more than one row by tensor cores."""
    plans = find(run(down(n, k), "plan", arch=arch), ScheduleOp)
    names = [plan.variant.data for plan in plans if plan.pattern == "loops"]
    assert [name.startswith(found) for name in names] == ([True] if found else [])
    if found:
        assert len(plans) == 1 and not plans[0].when.data
    two = Sketch("two")
    both = two.done(y=two.gemm(two.input("x", 2, k), two.input("w", k, n)))
    assert all(p.pattern == "matmul" for p in find(run(both, "plan", arch=arch), ScheduleOp))


def test_of_open_rows_columns_that_lie_across_are_no_sums() -> None:
    assert {p.pattern for p in find(run(across(), "plan"), ScheduleOp)} == {"matmul"}


def test_a_plan_of_ones_own_may_sum_columns(tmp_path: Path) -> None:
    """And of more rows than one it is none of the product's."""
    first = only(run(down(4096, 4096), "plan"), ScheduleOp)
    fields = {"variant": first.variant.data, "tile": [64, 64, 1], "warp_tile": [4, 64]}
    (plan,) = find(run(down(4096, 4096), "plan", written(tmp_path, fields)), ScheduleOp)
    assert plan.pattern == "loops" and plan.tile_sizes == (64, 64, 1)
    with pytest.raises(PolycError) as refused:
        ways = written(tmp_path, {"algo_choice": {"loops": "cuda_cores"}})
        run(plain(2, 4096, 4096), "plan", ways)
    assert refused.value.kind == "BadPlan"


COLUMNS: dict[str, ModuleOp] = {
    "plain": down(1024, 640),
    "parts": down(512, 3000),
    "bf16": down(1032, 200, bf16),
    "f32": down(1028, 132, f32),
    "a bias": down(2056, 760, bias=True),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_are_summed_right(name: str) -> None:
    module = COLUMNS[name]
    inputs, right = wanted_of(module, {})
    kernels = gpu_module_of(run(module, "gpu"))
    result = simulate(kernels, inputs, {})
    assert result.variant is not None and "_one_i0_vector" in result.variant
    assert not result.findings
    assert_agree(result.outputs, right)
    for made in nvrtc.compile_each(list(cuda_units(kernels)), "sm_90a"):
        assert {i.spill_bytes for i in made.kernels.values()} == {0}


def test_a_row_s_elements_are_read_once_for_all_columns_of_a_thread() -> None:
    """Eight columns of a thread are multiplied by one element of the row."""
    kernels = gpu_module_of(run(down(4096, 4096), "gpu"))
    loads = [op for op in find(kernels, hw.LoadGlobalOp) if op.parent_op() is not None]
    wide = [op for op in loads if isinstance(op.result.type, VectorType)]
    inner = [op for op in loads if op.parent is wide[0].parent]
    assert len(inner) == 2 and wide[0] in inner


def test_what_lies_across_k_is_not_rows() -> None:
    """Nor is what is no product, and a product of rows that are reduced stays one."""
    assert not singles(across())
    s = Sketch("mean")
    module = s.done(y=s.reduce("mean", s.input("x", 4096, 512), 1))
    kernel = only(run(module, "plan"), KernelOp)
    assert not list(single_rows(kernel, "sm_90a"))


def test_a_plan_of_ones_own_may_be_rows(tmp_path: Path) -> None:
    """Fields are laid over a schedule of rows as over others, and what it is not is refused."""
    fields = {"variant": "one_i0_block", "tile": [1, 4096, 1], "warp_tile": [1, 1024]}
    (plan,) = find(run(plain(1, 4096, 4096), "plan", written(tmp_path, fields)), ScheduleOp)
    assert plan.pattern == "rows" and plan.threads() == 128
    with pytest.raises(PolycError) as refused:
        run(plain(1, 4096, 4096), "plan", written(tmp_path, {**fields, "mma": "wgmma"}))
    assert refused.value.kind in ("BadPlan", "UnsupportedPlan")


Make = Callable[[], ModuleOp]

CASES: dict[str, tuple[Make, dict[str, int], str]] = {
    "plain": (plain, {"M": 1, "N": 139, "K": 24}, "block"),
    "chunks": (plain, {"M": 1, "N": 132, "K": 8200}, "chunks"),
    "one column": (plain, {"M": 133, "N": 1, "K": 40}, "block"),
    "a standing column": (standing, {"M": 133, "K": 40}, "block"),
    "a residual": (residual, {"M": 1, "N": 135, "K": 264}, "block"),
    "a batch": (batched, {"B": 3, "M": 1, "N": 45, "K": 72}, "block"),
    "two products": (gated, {"M": 1, "N": 134, "K": 328}, "block"),
    "f32": (exact, {"M": 1, "N": 140, "K": 104}, "block"),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_a_single_row_computes_what_it_means(name: str) -> None:
    """By the variant that the dispatch chooses, with no finding."""
    make, sizes, wanted = CASES[name]
    module = make()
    inputs, right = wanted_of(module, sizes)
    kernels = gpu_module_of(run(module, "gpu"))
    result = simulate(kernels, inputs, sizes)
    assert result.variant is not None and result.variant.endswith(wanted), result.variant
    assert "_one_" in result.variant and not result.findings
    assert_agree(result.outputs, right)


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_single_rows_spill_nothing(arch: str) -> None:
    for make in (plain, standing, residual, batched, gated, exact):
        module = make()
        names = [plan.variant.data for plan in singles(make(), arch)]
        assert names
        kernels = gpu_module_of(
            run(module, "gpu", arch=arch, leave=lambda m, names=names: leave_only(m, *names))
        )
        for result in nvrtc.compile_each(list(cuda_units(kernels)), arch):
            assert {i.spill_bytes for i in result.kernels.values()} == {0}
            assert not result.warnings()
