"""Few queries and many keys: the tiles that are proposed, and how many CTAs share the keys."""

from __future__ import annotations

from typing import cast

import pytest

from polyc.cost.time import chosen, modelled
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention.few import LEAST, MOST_BUSY, few_queries
from polyc.families.attention.recognise import find_attention
from polyc.passes.plan.select import propose
from polyc.test.support.attention_programs import Attention


def kernel(batch: str, heads: int, of_keys: int, queries: str, keys: str, size: int) -> KernelOp:
    kv = f"[{batch}, {of_keys}, {keys}, {size}]"
    return Attention(f"[{batch}, {heads}, {queries}, {size}]", kv, kv, []).kernel()


def schedules(region: KernelOp, arch: str = "sm_90a") -> list[ScheduleOp]:
    return propose(region, arch)[1]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("heads", "of_keys", "queries", "rows"),
    [(32, 8, "1", 16), (32, 8, "5", 32), (32, 4, "16", 64), (8, 8, "1", 16), (32, 1, "M", 32)],
)
def test_tiles_are_as_high_as_the_queries_of_all_heads(
    arch: str, heads: int, of_keys: int, queries: str, rows: int
) -> None:
    found = [*few_queries(find_attention(kernel("B", heads, of_keys, queries, "N", 128)), arch)]
    assert found
    assert {cast("list[int]", few.fields["tile"])[0] for few in found} == {rows}


def test_many_queries_have_other_tiles() -> None:
    assert not [*few_queries(find_attention(kernel("B", 32, 8, "64", "N", 128)), "sm_90a")]


def test_an_open_number_of_queries_asks_for_few() -> None:
    region = kernel("B", 32, 8, "M", "N", 128)
    plans = schedules(region)
    for queries, few in ((1, True), (4, True), (5, False), (512, False)):
        plan = chosen(plans, {"B": 1, "M": queries, "N": 8192})
        assert plan is not None and plan.of_few_queries == few


@pytest.mark.parametrize(("batch", "keys"), [(1, 8192), (1, 1024), (16, 4096), (64, 2048)])
def test_known_and_open_sizes_keep_the_chip_busy(batch: int, keys: int) -> None:
    """CTAs for half of the multiprocessors at least, and keys for each part."""
    chip = ARCHS["sm_90a"].multiprocessors
    sizes = {"B": batch, "N": keys}
    known = chosen(schedules(kernel(str(batch), 32, 8, "1", str(keys), 128)), {})
    open_one = chosen(schedules(kernel("B", 32, 8, "1", "N", 128)), sizes)
    for plan in (known, open_one):
        assert plan is not None and plan.of_few_queries
        parts = plan.integer("split_k")
        assert chip // 2 <= batch * 8 * parts <= MOST_BUSY * chip
        assert parts * plan.tile_sizes[1] <= keys


def test_few_keys_are_left_to_other_tiles() -> None:
    plan = chosen(schedules(kernel("B", 32, 8, "1", "N", 128)), {"B": 1, "N": LEAST - 1})
    assert plan is not None and not plan.of_few_queries


def test_the_model_takes_a_group_of_heads_to_read_keys_once() -> None:
    region = kernel("B", 32, 8, "1", "N", 128)
    few, many = (
        next(plan for plan in schedules(region) if plan.variant.data == name)
        for name in ("few", "tma")
    )
    sizes = {"B": 64, "N": 4096}
    read = [modelled(region, plan, sizes).cache for plan in (few, many)]
    assert read[1] == pytest.approx(4 * read[0], rel=0.05)
