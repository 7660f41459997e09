"""Few queries and many keys: the tiles that are proposed, and how many CTAs share the keys."""

from __future__ import annotations

from typing import cast

import pytest

from polyc.cost.device import device_of
from polyc.cost.time import chosen, modelled
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention.few import LEAST, TILE_ROWS, few_queries
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
    [(32, 8, "1", 16), (32, 8, "5", 32), (32, 4, "16", 64), (8, 8, "1", 16), (80, 1, "M", 64)],
)
def test_tiles_are_as_high_as_the_queries_of_all_heads(
    arch: str, heads: int, of_keys: int, queries: str, rows: int
) -> None:
    found = [*few_queries(find_attention(kernel("B", heads, of_keys, queries, "N", 128)), arch)]
    assert found
    assert {cast("list[int]", few.fields["tile"])[0] for few in found} == {rows}


def test_many_queries_have_other_tiles() -> None:
    assert not [*few_queries(find_attention(kernel("B", 32, 8, "64", "N", 128)), "sm_90a")]


def test_an_open_number_of_queries_has_two_heights() -> None:
    """Few kernels: those of a token, at two numbers of parts, and one of more queries."""
    plans = schedules(kernel("B", 32, 8, "M", "N", 128))
    assert len([plan for plan in plans if plan.of_few_queries]) <= 3
    for queries, rows in ((1, 16), (4, 16), (5, TILE_ROWS), (32, TILE_ROWS), (512, None)):
        plan = chosen(plans, {"B": 1, "M": queries, "N": 8192})
        assert plan is not None and plan.of_few_queries == (rows is not None)
        assert rows is None or plan.tile_sizes[0] == rows


@pytest.mark.parametrize(("batch", "keys"), [(1, 8192), (1, 1024), (16, 4096), (64, 2048)])
def test_known_and_open_sizes_keep_the_chip_busy(batch: int, keys: int) -> None:
    """CTAs for most multiprocessors where there are keys for them, and keys for each part."""
    chip = ARCHS["sm_90a"].multiprocessors
    sizes = {"B": batch, "N": keys}
    known = chosen(schedules(kernel(str(batch), 32, 8, "1", str(keys), 128)), {})
    tiles = chosen(schedules(kernel(str(batch), 32, 8, "1", "N", 128)), sizes)
    open_one = chosen(schedules(kernel("B", 32, 8, "1", "N", 128)), sizes)
    for plan in (known, tiles, open_one):
        assert plan is not None and plan.of_few_queries
        parts = plan.integer("split_k")
        assert batch * 8 * parts >= min(chip, batch * 8 * keys // 64)
        assert parts * plan.tile_sizes[1] <= keys


@pytest.mark.parametrize(("of_keys", "size"), [(8, 128), (4, 64), (32, 64)])
def test_any_number_of_sequences_draws_most_of_the_memory(of_keys: int, size: int) -> None:
    """By the model, and where two launches are little beside the keys."""
    region = kernel("B", 32, of_keys, "1", "N", size)
    plans = schedules(region)
    for batch in (2, 3, 5, 9, 11, 17, 23, 37, 64):
        sizes = {"B": batch, "N": 65536 // of_keys}
        plan = chosen(plans, sizes)
        assert plan is not None
        least = 4 * batch * 65536 * size / device_of("sm_90a").memory
        assert modelled(region, plan, sizes).memory < 1.6 * least


def test_keys_of_a_window_are_few() -> None:
    """Parts are of the keys that are seen, and the others' bytes are not counted."""
    kv = "[B, 8, N, 128]"
    plain, window = (
        Attention("[B, 32, 1, 128]", kv, kv, [], options=options).kernel()
        for options in ("", " window [511, 0] offset N - 1")
    )
    sizes = {"B": 16, "N": 32768}
    plans = [chosen(schedules(region), sizes) for region in (plain, window)]
    for plan in plans:
        assert plan is not None and plan.of_few_queries
    for batch in (1, 16):
        plan = chosen(schedules(window), {**sizes, "B": batch})
        assert plan is not None and plan.integer("split_k") * plan.tile_sizes[1] <= 512
    whole, seen = (
        modelled(region, plan, sizes).memory
        for region, plan in zip((plain, window), plans, strict=True)
        if plan is not None
    )
    assert seen < whole / 32


def test_few_keys_are_left_to_other_tiles() -> None:
    plan = chosen(schedules(kernel("B", 32, 8, "1", "N", 128)), {"B": 1, "N": LEAST - 1})
    assert plan is not None and not plan.of_few_queries


def test_the_model_takes_a_group_of_heads_to_read_keys_once() -> None:
    region = kernel("B", 32, 8, "1", "N", 128)
    plans = schedules(region)
    few = next(plan for plan in plans if plan.of_few_queries)
    many = next(plan for plan in plans if plan.variant.data == "tma")
    sizes = {"B": 64, "N": 4096}
    read = [modelled(region, plan, sizes).cache for plan in (few, many)]
    assert read[1] == pytest.approx(4 * read[0], rel=0.05)
