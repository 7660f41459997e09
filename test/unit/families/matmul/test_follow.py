"""Products whose rows are reduced after them: which regions, which plans, and what these take."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.follow import WIDTHS, find_following, steps_of
from polyc.families.matmul.recognise import find_contraction
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.pipeline import build
from polyc.runtime import nvrtc
from polyc.test.support.follow_programs import PROGRAMS, gate, heads
from polyc.test.support.gpu_text import find, only
from polyc.test.support.plans import leave_widest
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run, split, written
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

DEEP = ["K mod 8 == 0", "K >= 1"]

ONE = [name for name in PROGRAMS if name != "heads"]
"""The programs that are one kernel; heads in a row of a weight's are a product and a norm."""


def kernels(module: ModuleOp, last: str = "region") -> list[KernelOp]:
    return find(run(module, last), KernelOp)


# Which regions -------------------------------------------------------------------------


@pytest.mark.parametrize("n", [8, 64, 200, WIDTHS[-1]])
@pytest.mark.parametrize("name", ONE)
def test_short_rows_stay_with_their_product(name: str, n: int) -> None:
    (kernel,) = kernels(PROGRAMS[name](n))
    gemm = find_contraction(kernel)
    assert gemm.size(gemm.n).constant() == n
    assert gemm.follow == find_following(kernel)
    # Of a maximum and what is below it one state is the maximum again, until both are one.
    assert steps_of(gemm.follow) == {"active": 1, "highest": 3}.get(name, 2)


@pytest.mark.parametrize("n", [WIDTHS[-1] + 1, 4096, "N"])
@pytest.mark.parametrize("name", [name for name in ONE if name != "turned"])
def test_long_rows_are_reduced_by_a_kernel_of_their_own(name: str, n: int | str) -> None:
    """A size that is not known may be any."""
    found = kernels(PROGRAMS[name](n))
    assert len(found) == 2
    assert find_contraction(found[0]).follow == ()


def test_heads_in_a_row_of_a_weight_are_a_product_and_a_norm() -> None:
    """No tile of columns is a head's alone where a larger one is faster."""
    first, second = kernels(heads(64))
    assert find_contraction(first).follow == ()
    with pytest.raises(PolycError):
        find_contraction(second)


def normed_gate() -> ModuleOp:
    """A norm before a gate: the norm is stored, and the gate stays one kernel."""
    s = Sketch("normed_gate")
    x = s.layer_norm(s.input("x", "M", 512), "norm")
    return s.done(y=s.softmax(s.linear(x, "w", 64)))


def gate_of_two() -> ModuleOp:
    """What a softmax gives is a factor again."""
    s = Sketch("gate_of_two")
    x = s.input("x", "M", 512)
    return s.done(y=s.linear(s.softmax(s.linear(x, "w", 64)), "v", 512))


def of_columns() -> ModuleOp:
    """The rows of a product are summed, of which a tile has some alone."""
    s = Sketch("of_columns")
    return s.done(y=s.reduce("sum", s.linear(s.input("x", "M", 512), "w", 64), 0))


def across_heads() -> ModuleOp:
    """A sum along both axes of a product."""
    s = Sketch("across_heads")
    return s.done(y=s.reduce("max", s.linear(s.input("x", 64, 4096), "w", 64), 0, 1))


@pytest.mark.parametrize(
    ("make", "follow"),
    [
        (normed_gate, [None, 2]),
        (gate_of_two, [2, 0]),
        (of_columns, [0, None]),
        (across_heads, [0, None]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_else_is_around_a_product(
    make: Callable[[], ModuleOp], follow: list[int | None]
) -> None:
    """Steps that follow the product of each kernel; None where it has no product."""
    found: list[int | None] = []
    for kernel in kernels(make()):
        try:
            found.append(steps_of(find_contraction(kernel).follow))
        except PolycError:
            found.append(None)
    assert found == follow


REGION = """
region.kernel @r iters [m: M, n: 64]
    ins(%x: !region.memref<[M, K], f16, align 16>, %w: !region.memref<[64, K], f16, align 16>)
    outs(y: !region.memref<[M, 64], f32, align 16> gmem) {{
  %0 = region.read %x affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[M, K], f16, align 16> -> !region.val<[m: M, k: K], f16>
  %1 = region.read %w affine_map<(d0, d1)[s0, s1] -> (d0, d1)> : !region.memref<[64, K], f16, align 16> -> !region.val<[n: 64, k: K], f16>
  %2 = region.cast %0 : !region.val<[m: M, k: K], f16> -> !region.val<[m: M, k: K], f32>
  %3 = region.cast %1 : !region.val<[n: 64, k: K], f16> -> !region.val<[n: 64, k: K], f32>
  %4 = region.broadcast_in_dim %2 dims [0, 2] : !region.val<[m: M, k: K], f32> -> !region.val<[m: M, n: 64, k: K], f32>
  %5 = region.broadcast_in_dim %3 dims [1, 2] : !region.val<[n: 64, k: K], f32> -> !region.val<[m: M, n: 64, k: K], f32>
  %6 = region.binary mul %4, %5 : !region.val<[m: M, n: 64, k: K], f32>
  %acc = region.reduce sum %6 over [k] init 0.0 acc f32 name "acc" : !region.val<[m: M, n: 64, k: K], f32> -> !region.val<[m: M, n: 64], f32>
  {line}
  region.yield %y : !region.val<[m: M, n: 64], f32>
}}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "%s = region.reduce sum %acc over [m] init 0.0 acc f32 : "
            "!region.val<[m: M, n: 64], f32> -> !region.val<[n: 64], f32>\n"
            "  %b = region.broadcast_in_dim %s dims [1] : !region.val<[n: 64], f32> -> "
            "!region.val<[m: M, n: 64], f32>\n"
            "  %y = region.binary sub %acc, %b : !region.val<[m: M, n: 64], f32>",
            "what follows its product is reduced over m, which has M points",
        ),
        (
            "%s = region.reduce max %acc over [m, n] init -inf acc f32 : "
            "!region.val<[m: M, n: 64], f32> -> !region.val<[], f32>\n"
            "  %b = region.broadcast_in_dim %s dims [] : !region.val<[], f32> -> "
            "!region.val<[m: M, n: 64], f32>\n"
            "  %y = region.binary sub %acc, %b : !region.val<[m: M, n: 64], f32>",
            "what follows its product is reduced over [m, n]",
        ),
    ],
)
def test_other_reductions_are_refused_with_the_reason(line: str, why: str) -> None:
    module = parse_text(make_context(), REGION.format(line=line), "r.mlir")
    with pytest.raises(PolycError) as caught:
        find_contraction(only(module, KernelOp))
    assert (caught.value.kind, why in caught.value.message) == ("UnsupportedProgram", True)


# Which plans ---------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(("n", "columns"), [(8, 32), (33, 64), (100, 128), (129, 256)])
def test_tiles_are_as_wide_as_the_rows(n: int, columns: int, arch: str) -> None:
    """With those beside them in their cluster; a split's CTAs part them."""
    for plan in find(run(gate(n), "plan", arch=arch), ScheduleOp):
        wide = plan.tile_sizes[1] * plan.integers("cluster")[1]
        assert wide == columns or (plan.integer("split_k") > 1 and wide >= n)
        if plan.integers("cluster")[1] > 1:
            assert (plan.mma.data, plan.flag("persistent")) == ("wgmma", False)


def test_a_plan_that_parts_the_rows_is_refused(tmp_path: Path) -> None:
    parted = split(1, {"tile": [64, 32, 64], "warp_tile": [64, 32]}, consumers=1, when=DEEP)
    file = written(tmp_path, parted)
    with pytest.raises(PolycError) as caught:
        run(gate(64), "plan", file)
    assert caught.value.kind == "BadPlan"
    assert "has 32 columns in a tile" in caught.value.message


@pytest.mark.parametrize(
    ("make", "fields", "there"),
    [
        (lambda: gate(256), {"persistent": True}, "use [1, 2] and persistent false"),
        (lambda: gate(256), {"cluster": [2, 2]}, "use [1, 2] and persistent false"),
    ],
    ids=["persistent", "both ways"],
)
def test_a_cluster_along_the_columns_has_a_tile_each(
    make: Callable[[], ModuleOp], fields: dict[str, object], there: str, tmp_path: Path
) -> None:
    beside = {"variant": "tma_low", "cluster": [1, 2], "persistent": False, "registers": []}
    chosen = {**split(1, when=DEEP), **beside, **fields}
    with pytest.raises(PolycError) as caught:
        run(make(), "gpu", written(tmp_path, chosen))
    assert caught.value.kind == "UnsupportedPlan"
    assert there in caught.value.message


def test_rows_in_parts_are_not_built() -> None:
    """A user who leaves the pass out that takes them whole is told which."""
    module = run(gate(64), "region")
    build("plan-select", "sm_90a").apply(make_context(), module)
    with pytest.raises(PolycError) as caught:
        build("region-to-gpu", "sm_90a").apply(make_context(), module)
    assert caught.value.kind == "UnsupportedPlan"
    assert "run region-expand-together first" in caught.value.message


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "n", "arch"),
    # Where the widest rows fit, narrower ones do; the accumulator's layout is another for each.
    [
        ("normed", 256, "sm_90a"),
        ("active", 256, "sm_80"),
        ("batched", 256, "sm_90a"),
    ],
)
def test_nothing_spills(name: str, n: int, arch: str) -> None:
    module = run(PROGRAMS[name](n), "gpu", arch=arch, leave=leave_widest)
    result = nvrtc.compile_cuda(cuda_source(only(module, GpuModule)), arch)
    assert not result.warnings()
    found = result.kernels
    assert {k: i.spill_bytes for k, i in found.items() if i.spill_bytes or i.stack} == {}


def test_the_column_that_is_reduced_may_be_written_first() -> None:
    """A softmax along what the program writes as rows: the tile's columns are what is reduced."""
    s = Sketch("turned")
    y = s.gemm(s.input("w", 64, "K"), s.input("x", "K", "M"))
    (kernel,) = kernels(s.done(y=s.add(frontend.SoftmaxOp(y, [0]))))
    gemm = find_contraction(kernel)
    assert (str(gemm.size(gemm.m)), str(gemm.size(gemm.n))) == ("M", "64")
