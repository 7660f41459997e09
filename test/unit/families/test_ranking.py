"""Plans that products get: the best of known sizes, and a few that share open ones."""

from __future__ import annotations

import random
from dataclasses import replace
from math import exp, log

import numpy as np
import pytest

from polyc.affine import isl
from polyc.bench.splits import TEXT, built, regions
from polyc.cost.products import SHARED_RATES, Stored, Tiles, goes_by_rows, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.region import KernelOp
from polyc.families import ranking
from polyc.families.matmul.problems import form_of, problem_of
from polyc.families.matmul.recognise import Contraction, find_contraction
from polyc.families.matmul.schedules import GEMM, MEASURED, is_ranked, schedules
from polyc.families.space import MOST_SHARED, space
from polyc.passes.pipeline import STAGES, build
from polyc.passes.plan.select import propose
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.tools.load import load
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

CHIP = ARCHS["sm_90a"].multiprocessors


def region(m: object, n: object, k: object) -> KernelOp:
    module = regions((m, n, k))  # pyright: ignore[reportArgumentType]
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def test_open_sizes_get_a_few_kernels_and_the_first_that_may_run_is_the_fastest() -> None:
    """The host takes the first whose conditions hold: that is the least modelled time of all.

    It knows of rows that lie in two lines each.
    """
    kernel = region("M", "N", "K")
    gemm = find_contraction(kernel)
    even = ranking.Form()
    plans = ranking.chosen(problem_of(gemm), "sm_90a", even)
    assert 2 <= len(plans) <= ranking.MOST_KERNELS[3]
    named = schedules(gemm, "sm_90a")[: len(plans)]
    draw = random.Random(0)
    for _ in range(300):
        m, n, k = (max(8, round(exp(draw.uniform(0, log(16384))) / 8) * 8) for _ in range(3))
        sizes = {"M": m, "N": n, "K": k}
        first = next(p for p in named if all(fact.holds(sizes) for fact in p.when.data))
        form = even.of_uneven() if n % 64 or k % 64 else even
        times = [form.nanoseconds((1, m, n, k), plan, "sm_90a") for plan in plans]
        assert times[named.index(first)] == min(times), sizes


def test_every_size_has_a_kernel() -> None:
    found = schedules(find_contraction(region("M", "N", "K")), "sm_90a")
    assert not found[-1].when.data
    last = [p for p in found if p.mma.data == "wgmma" and p.loader.data == "tma"][-1]
    assert [str(f) for f in last.when.data] == ["K mod 8 == 0", "N mod 8 == 0", "K >= 1"]


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    "sizes", [("M", "N", "K"), ("M", 4096, 4096), ("M", 4096, "K"), (16, "N", 4096), (77, "N", "K")]
)
def test_what_is_chosen_covers_the_whole_range(sizes: tuple[int | str, ...]) -> None:
    """Isl says so of the conditions that it can read, those of the model of time left aside."""
    kernel = region(*sizes)
    symbols, found = kernel.symbol_names, schedules(find_contraction(kernel), "sm_90a")
    affine = [p for p in found if all(f.expr.as_affine(symbols) for f in p.when.data)]
    for only in (affine, [p for p in affine if p.mma.data == "wgmma"]):
        whole = kernel.assumptions.data
        if only is not affine:
            rows = [Dim.sym(s) for s in sizes[1:] if isinstance(s, str)]
            whole += tuple(Assumption(row.mod(8), "==") for row in rows)
            whole += tuple(Assumption(row - 1, ">=") for row in rows)
        sets = [AssumptionsAttr((*whole, *p.when.data)).as_affine_set(symbols) for p in only]
        assert isl.covers(AssumptionsAttr(whole).as_affine_set(symbols), tuple(sets))


def test_kernels_for_open_sizes_lose_little() -> None:
    """Beside the best plan of the space for each of random sizes, by the model."""
    plans = ranking.chosen(
        problem_of(find_contraction(region("M", "N", "K"))), "sm_90a", ranking.Form()
    )
    draw, lost = random.Random(1), 0.0
    for _ in range(60):
        m, n, k = (round(exp(draw.uniform(log(64), log(16384))) / 64) * 64 or 64 for _ in range(3))
        best, _ = ranking.ranked((1, m, n, k), "sm_90a")[0]
        lost += log(min(nanoseconds((1, m, n, k), plan, CHIP) for plan in plans) / best)
    assert exp(lost / 60) < 1.2


@pytest.mark.parametrize("sizes", [(1536, 1536, 1536), (16, 4096, 14336), (128, 128, 65536)])
def test_known_sizes_get_the_best_plan_of_the_space(sizes: tuple[int, int, int]) -> None:
    kernel = region(*sizes)
    _, found, _ = propose(kernel, "sm_90a")
    form = form_of(find_contraction(kernel), "sm_90a", copied=False)
    times = ranking.ranked((1, *sizes), "sm_90a", form)
    assert found[0].variant.data == times[0][1].name and is_ranked(kernel, found[0])
    assert times == sorted(times, key=lambda one: one[0])
    each = (form.of_known((1, *sizes), plan, "sm_90a") for plan in space("sm_90a"))
    assert min(each) >= times[0][0] or times[0][1].parts > 1


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [
        ((3264, 320, 14016), "row"),  # 26 rows of 5 tiles of 128x64, or such
        ((144, 8776, 6032), "grouped"),  # rows are longer
        ((4096, 4096, 4096), "grouped"),
        ((65536, 8192, 64), "grouped"),  # more tiles in a row than are read at once
        (("M", 320, 14016), "grouped"),
    ],
)
def test_tiles_go_row_by_row_where_rows_are_short(sizes: tuple[int, int, int], kind: str) -> None:
    found = schedules(find_contraction(region(*sizes)), "sm_90a")
    orders = {p.raster.data for p in found if p.mma.data == "wgmma"}
    assert orders == {kind}


@pytest.mark.parametrize(("m", "n", "k"), [(300, 72, 136), (136, 40, 72)])
def test_kernels_whose_tiles_go_row_by_row_are_right(m: int, n: int, k: int) -> None:
    """In the simulator, with tails: of one tile a block and of more."""
    draw = np.random.default_rng(0)
    a = draw.integers(-4, 5, (m, k)).astype(np.float16)
    b = draw.integers(-4, 5, (k, n)).astype(np.float16)
    plans = GEMM.others(find_contraction(region(m, n, k)), "sm_90a")
    found = [p for p in plans if p.raster.data == "row" and p.integer("split_k") == 1]
    once = next(p for p in found if not p.persistent.value.data)
    for plan in [once, *(p for p in found if p.persistent.value.data)][:2]:
        rows, columns, _ = plan.tile_sizes
        assert goes_by_rows(m, n, Tiles(rows, columns, 4))
        kernels = gpu_module_of(built((m, n, k), plan))
        run = simulate(kernels, [a, b], {}, plan.kernel_name, schedule="random")
        run.check()
        np.testing.assert_array_equal(run.outputs[0], (a.astype(float) @ b).astype(np.float16))


def assuming(fact: str) -> Contraction:
    """A product of M rows of which something is known."""
    text = TEXT.format(m="M", n=4096, k=4096)
    text = text.replace("f16>) {\n", f"f16>) assuming ({fact}) {{\n", 1)
    ctx = make_context()
    module = parse_text(ctx, text, "product.mlir")
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(ctx, module)
    kernel = next(op for op in module.walk() if isinstance(op, KernelOp))
    assert kernel.assumptions.data
    return find_contraction(kernel)


def test_facts_about_sizes_narrow_what_is_compared() -> None:
    """Of at most 16 rows no tile of many is made but those that always are."""
    plans = ranking.chosen(problem_of(assuming("M <= 16")), "sm_90a", ranking.Form())
    assert all(plan.rows == 64 for plan in plans if not plan.is_named)


def test_a_size_that_a_fact_fixes_is_known() -> None:
    gemm = assuming("M == 9984")
    assert ranking.known_sizes(problem_of(gemm)) == (1, 9984, 4096, 4096)
    assert ranking.known_sizes(problem_of(assuming("M >= 9984"))) == (1, None, 4096, 4096)
    (plan,) = ranking.chosen(problem_of(gemm), "sm_90a", ranking.Form())
    assert plan == ranking.ranked((1, 9984, 4096, 4096), "sm_90a")[0][1]


def test_what_is_measured_is_the_fastest_of_each_tile() -> None:
    gemm = assuming("M == 16")
    found = GEMM.others(gemm, "sm_90a")
    form = form_of(gemm, "sm_90a", copied=False)
    times = ranking.ranked((1, 16, 4096, 4096), "sm_90a", form)
    assert len(found) == MEASURED and found[0].variant.data == times[0][1].name
    assert len({(tuple(p.tile_sizes), p.integer("split_k")) for p in found}) == MEASURED
    assert GEMM.others(assuming("M >= 16"), "sm_90a") == []


@pytest.mark.parametrize("sizes", [(4095, 4095, 4095), (8192, 8191, 4096)])
def test_odd_rows_go_through_shared_memory_and_spill_nothing(sizes: tuple[int, int, int]) -> None:
    """Also from the widest tile, of which a thread holds 128 sums."""
    plan = schedules(find_contraction(region(*sizes)), "sm_90a")[0]
    assert plan.loader.data == "padded" and plan.staged_tile is not None
    for name, info in load(
        TEXT.format(**dict(zip("mnk", sizes, strict=True))), "sm_90a"
    ).kernels.items():
        assert info.spill_bytes == 0, (name, info)


def test_plans_of_odd_rows_have_room_for_what_goes_through_shared_memory() -> None:
    tight, loose = ({p.named("p"): p for p in space("sm_90a", loose=one)} for one in (False, True))
    both = [(loose[name], plan) for name, plan in tight.items() if name in loose]
    fewer = [one for one, other in both if one.stages < other.stages]
    assert fewer and not any(plan.summed for plan in fewer)
    assert all(one.stages == other.stages for one, other in both if one.summed)


@pytest.mark.parametrize(("m", "n", "k"), [(5840, 1112, 6072), (4104, 4104, 4104)])
def test_blocks_that_go_on_share_columns_whose_rows_are_no_whole_lines(
    m: int, n: int, k: int
) -> None:
    """A row of a box costs L2 two requests there; where an epilogue reads, tiles are narrower."""

    def widest(form: ranking.Form, persistent: bool = True) -> int:
        found = (p for p in form.space("sm_90a") if p.persistent == persistent and p.below > 1)
        large = (p for p in found if persistent or p.rows * p.columns > MOST_SHARED)
        return max((p.columns for p in large), default=0)

    uneven = ranking.Form(stored=Stored(1, 1))
    assert widest(ranking.Form()) == 0
    assert widest(replace(uneven, loose=True)) == widest(replace(uneven, crowded=True)) == 0
    assert widest(uneven) == 256 and widest(replace(uneven, reads=True)) == 192
    # So do large tiles of blocks that have one each, of the operand that both read.
    assert widest(ranking.Form(), False) == widest(replace(uneven, crowded=True), False) == 0
    assert widest(uneven, False) == 256 and widest(ranking.Form(stored=Stored(1)), False) == 0
    beside = ranking.Form(stored=Stored(1)).space("sm_90a")
    assert any(p.beside > 1 and p.rows * p.columns > MOST_SHARED for p in beside)
    for form in (uneven, replace(uneven, known=SHARED_RATES)):
        first, *_ = ranking.ranked((1, m, n, k), "sm_90a", form)
        assert first[1].together == 2 and first[1].parts == 1
