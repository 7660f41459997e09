"""The formula of an attention's time: open sizes and known ones, and what its kernels do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.cost.attention import Sight, Tiles, counted, nanoseconds, steps_of
from polyc.cost.products import Size
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention import ranking
from polyc.families.attention.recognise import find_attention
from polyc.families.attention.schedules import tiling_of_plan
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback.gpu import simulate
from polyc.test.support.attention_programs import H64, Attention, passed
from polyc.test.support.gpu_text import only, printed
from polyc.test.support.split_programs import leave_only
from polyc.tools.registry import make_context

CHIP = 132
PLANS = (
    Tiles(192, 128, 3, persistent=True),
    Tiles(128, 128, 2),
    Tiles(64, 64, 1, at_once=3),
    Tiles(128, 64, 2, persistent=True),
)


def full(heads: Size, length: Size) -> Sight[Size]:
    return Sight(heads, length, length, 64, 64)


def causal(heads: Size, length: Size) -> Sight[Size]:
    return Sight(heads, length, length, 64, 64, end=lambda rows, query: query + rows)


@given(st.sampled_from(PLANS), st.booleans(), st.integers(1000, 9999), st.integers(1, 20000))
def test_the_formula_of_open_sizes_is_the_figure_of_known_ones(
    plan: Tiles, masked: bool, heads: int, length: int
) -> None:
    """Of more tiles than a chip has room for.  Under a mask known sizes count what each tile sees,
    and the formula what the first and the last one say, which is near where there are several."""
    sees = causal if masked else full
    formula = nanoseconds(sees(Dim.sym("H"), Dim.sym("N")), plan, CHIP)
    known = nanoseconds(sees(heads, length), plan, CHIP)
    found = formula.evaluate({"H": heads, "N": length})
    assert found >= known * 0.98 > 0
    assert found == known or masked
    assert found < 1.15 * known or length < 16 * plan.rows


@given(st.sampled_from(PLANS), st.booleans(), st.integers(1, 99), st.integers(1, 99))
def test_more_heads_and_longer_ones_take_no_less(
    plan: Tiles, masked: bool, heads: int, lengths: int
) -> None:
    sees = causal if masked else full
    one = nanoseconds(sees(heads, 128 * lengths), plan, CHIP)
    for more in (sees(heads + 1, 128 * lengths), sees(heads, 128 * lengths + 128)):
        assert nanoseconds(more, plan, CHIP) >= one


@given(st.sampled_from(PLANS), st.integers(1, 40))
def test_steps_are_those_of_all_tiles(plan: Tiles, tiles: int) -> None:
    """Of whole tiles; where these do not end with steps, within half a step a tile."""
    for sees in (full, causal):
        sight = sees(3, tiles * plan.rows)
        found = steps_of(sight, plan)[1]
        exact = counted(sight, plan).steps // 3
        assert abs(found - exact) <= (tiles / 2 if plan.rows % plan.keys else 0)


def test_a_few_tiles_take_as_long_as_the_longest() -> None:
    """Also those that could share a multiprocessor, and do not."""
    alone, together = PLANS[1], replace(PLANS[1], at_once=2)
    assert nanoseconds(causal(4, 4096), alone, CHIP) == nanoseconds(causal(4, 4096), together, CHIP)
    one, more = (nanoseconds(causal(n, 4096), alone, CHIP) for n in (1, 4))
    assert one == more < nanoseconds(causal(5, 4096), together, CHIP)


def test_ctas_that_go_on_share_no_beginning() -> None:
    """Their tiles' ends are shorter."""
    plan = PLANS[0]
    long, short = (
        nanoseconds(full(4096, 128), one, CHIP) for one in (replace(plan, persistent=False), plan)
    )
    assert long > 1.2 * short


SIZES: Mapping[str, tuple[str, dict[str, int]]] = {
    "full": ("", {"H": 2, "M": 70, "N": 150}),
    "causal": (" causal", {"H": 1, "M": 200, "N": 200}),
    "causal from the end": (" causal offset N - M", {"H": 1, "M": 70, "N": 300}),
    "a window": (" causal window [99, 0]", {"H": 1, "M": 330, "N": 330}),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", SIZES)
def test_counts_are_the_simulators(name: str) -> None:
    options, sizes = SIZES[name]
    program = Attention(*H64, sizes=[sizes], options=options)
    module = passed(printed(program.region()), "plan-select", arch="sm_90a")
    leave_only(module, "tma")
    sight = ranking.sight_of(find_attention(only(module, KernelOp)))
    tiling = tiling_of_plan(only(module, ScheduleOp))
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    finish(module)
    counters = simulate(only(module, gpu.ModuleOp), program.inputs(sizes), sizes).counters
    expected = counted(ranking.at_sizes(sight, sizes), tiling)
    assert (counters.tma_bytes, counters.wgmma) == (expected.tma_bytes, expected.wgmma)
