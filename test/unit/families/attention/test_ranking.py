"""Plans of wgmma that attentions get: the best of known sizes, and a few that share open ones."""

from __future__ import annotations

import random
from math import exp, log

import pytest

from polyc.cost.attention import Tiles, at_memory, evenness, nanoseconds
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.families.attention import ranking
from polyc.families.attention.recognise import StreamingAttention, find_attention
from polyc.families.attention.schedules import (
    ATTENTION,
    MEASURED,
    PAIRED,
    all_of_space,
    conditions,
    schedules,
    tiling_of_plan,
)
from polyc.families.facts import left_open
from polyc.families.family import fitted
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.runtime import nvrtc
from polyc.test.support.attention_programs import Attention, passed
from polyc.test.support.gpu_text import only

ARCH = "sm_90a"
CHIP = ARCHS[ARCH].multiprocessors


def attention(heads: str, length: str, size: int, options: str = "") -> StreamingAttention:
    shape = f"[{heads}, {length}, {size}]"
    return find_attention(Attention(shape, shape, shape, [], options=options).kernel())


@pytest.mark.parametrize("options", ["", " causal"])
def test_open_sizes_get_a_few_kernels_and_the_first_that_may_run_is_the_fastest(
    options: str,
) -> None:
    """Of sizes with more tiles than a chip has room for.

    Under a mask the formula of open sizes takes the middle of an odd number of tiles for a pair.
    """
    found = attention("H", "M", 64, options)
    plans = [p for p in schedules(found, ARCH) if p.mma.data == "wgmma"]
    assert 2 <= len(plans) <= ranking.MOST_KERNELS + 1 and plans[-1].variant.data == "tma"
    sight, draw = ranking.sight_of(found), random.Random(0)
    for _ in range(100):
        length = 64 * round(exp(draw.uniform(0, log(128))))
        sizes = {"H": draw.randint(1, 64) + 4 * CHIP * 256 // length, "M": length}
        first = next(p for p in plans if all(fact.holds(sizes) for fact in p.when.data))
        known = ranking.at_sizes(sight, sizes)
        times = {p: nanoseconds(known, tiling_of_plan(p), CHIP) for p in plans}
        least = max(min(times.values()), at_memory(known))
        assert times[first] <= (1.15 if options else 1.05) * least, sizes


@pytest.mark.parametrize("size", [64, 128])
@pytest.mark.parametrize("options", ["", " causal"])
def test_of_open_sizes_few_tiles_take_as_long_as_the_longest(size: int, options: str) -> None:
    """Where there are fewer tiles than multiprocessors, and low ones end sooner."""
    found = attention("H", "M", size, options)
    plans = [p for p in schedules(found, ARCH) if p.mma.data == "wgmma"]
    sight, draw = ranking.sight_of(found), random.Random(1)
    for _ in range(50):
        length = 64 * draw.randint(1, 40)
        sizes = {"H": draw.randint(1, max(1, CHIP * 64 // length)), "M": length}
        first = next(p for p in plans if all(fact.holds(sizes) for fact in p.when.data))
        known = ranking.at_sizes(sight, sizes)
        times = {p: nanoseconds(known, tiling_of_plan(p), CHIP) for p in plans}
        assert times[first] <= 1.15 * min(times.values()), sizes


@pytest.mark.parametrize(
    ("heads", "length", "size", "options"),
    [("1024", "512", 64, " causal"), ("512", "1024", 128, ""), ("4", "300", 96, "")],
)
def test_known_sizes_get_the_best_plan_of_the_space(
    heads: str, length: str, size: int, options: str
) -> None:
    found = attention(heads, length, size, options)
    first = next(p for p in schedules(found, ARCH) if not p.of_few_queries)
    known = ranking.at_sizes(ranking.sight_of(found), {})
    times = [nanoseconds(known, plan, CHIP) for plan in all_of_space(found, ARCH)]
    assert nanoseconds(known, tiling_of_plan(first), CHIP) == min(times)


def test_short_causal_tiles_are_low_and_long_ones_high() -> None:
    """As measured on an H100; the short ones come in pairs."""
    short, long = (
        next(p for p in schedules(attention(h, n, 64, " causal"), ARCH) if not p.of_few_queries)
        for h, n in (("1024", "512"), ("64", "8192"))
    )
    assert (short.tile_sizes[0], short.at_once, short.flag("persistent")) == (64, 3, True)
    assert (long.tile_sizes[0], long.at_once, long.flag("persistent")) == (192, 1, False)


@pytest.mark.parametrize(
    ("size", "options", "name"),
    [(64, " causal", "tma_64x32_by4"), (64, "", "tma_128x64"), (128, " causal", "tma_64x64_by2")],
)
def test_what_waits_for_memory_alone_asks_for_it_evenly(size: int, options: str, name: str) -> None:
    """Where keys are few, of known sizes and of open ones, as measured on an H100."""
    few = {"H": 2**19 // (2 * size), "M": 128 if size == 64 else 124}
    many = {"H": 2**21 // (16 * size), "M": 1024}
    known = attention(str(few["H"]), str(few["M"]), size, options)
    assert next(p for p in schedules(known, ARCH) if not p.of_few_queries).variant.data == name
    every = schedules(attention("H", "M", size, options), ARCH)
    plans = [p for p in every if not p.of_few_queries]
    first, other = (
        next(p for p in plans if all(fact.holds(sizes) for fact in p.when.data))
        for sizes in (few, many)
    )
    assert first.variant.data == name != other.variant.data


def test_heads_that_share_keys_bring_them_once() -> None:
    """So that less is moved, and fewer plans wait for memory alone."""
    q = "[B, 32, M, 64]"
    times = [
        at_memory(
            ranking.at_sizes(
                ranking.sight_of(find_attention(Attention(q, kv, kv, []).kernel())),
                {"B": 64, "M": 128},
            )
        )
        for kv in (q, "[B, 8, M, 64]")
    ]
    assert times[0] == pytest.approx(2 * times[1], rel=1e-3)


def test_single_tiles_beside_each_other_ask_most_evenly() -> None:
    plans = [
        Tiles(64, 64, 1, 4),
        Tiles(64, 64, 1, 2),
        Tiles(128, 64, 2, 1, True),
        Tiles(128, 128, 2, 1, True),
        Tiles(64, 64, 1, 2, True),
        Tiles(128, 64, 2, 1),
    ]
    assert sorted(plans, key=evenness) == plans


def test_pairs_are_of_tiles_that_see_more_keys_later_on() -> None:
    """And of those whose threads have registers for the loop."""
    names = {
        options: [name for name, _ in all_of_space(attention("H", "M", 64, options), ARCH).values()]
        for options in ("", " causal")
    }
    assert not any(name.endswith(PAIRED) for name in names[""])
    pairs = [name.removesuffix(PAIRED) for name in names[" causal"] if name.endswith(PAIRED)]
    assert pairs and set(pairs) < set(names[" causal"])
    assert not {"tma", "tma_64x32_by4"} & set(pairs)


def test_heads_that_share_keys_leave_no_registers_for_the_lowest_tiles() -> None:
    """Nor do masks that go by the lengths; what is seen of all keys takes none."""
    alone, grouped = "[B, 32, M, 64]", "[B, 8, M, 64]"
    for keys, options, least in (
        (alone, " causal", 4),
        (grouped, " causal", 3),
        (alone, " causal offset M - B", 3),
        (grouped, "", 4),
    ):
        found = find_attention(Attention(alone, keys, keys, [], options=options).kernel())
        plans = all_of_space(found, ARCH)
        assert max(plan.at_once for plan in plans) == least
        pairs = [plan.at_once for plan, (name, _) in plans.items() if name.endswith(PAIRED)]
        assert max(pairs, default=least - 1) == least - 1


def test_scores_that_read_masks_keep_their_tile() -> None:
    shape = "[H, M, 64]"
    found = find_attention(Attention(shape, shape, shape, [], masks=["[H, M, M], f32"]).kernel())
    assert len(all_of_space(found, ARCH)) == 1


@pytest.mark.turns(1)
@pytest.mark.parametrize(
    ("size", "options", "name"),
    [
        (64, " causal", "tma_64x64_by3"),
        (64, " causal window [511, 0]", "tma_64x64_by3_paired"),
        (128, " causal", "tma_paired"),
        (64, " causal", "tma_192x64_paired"),
        (64, "", "tma_64x32_by4"),
        (128, " causal", "tma_64x64_by2"),
    ],
)
def test_ctas_that_share_a_multiprocessor_compile_without_a_spill(
    size: int, options: str, name: str
) -> None:
    shape = f"[H, M, {size}]"
    spills_nothing(Attention(shape, shape, shape, [], options=options), name)


@pytest.mark.turns(1)
@pytest.mark.parametrize(
    ("size", "masks", "name"),
    [
        (32, ["[1, 3, 49, 49], f16"], "tma_64x64_by3"),
        (32, ["[64, 1, 49, 49], i1", "[1, 3, 49, 49], f16"], "tma_64x64_by3"),
        (64, ["[64, 1, 49, 49], i1"], "tma_64x64_by2"),
        (128, ["[64, 3, 49, 49], f32", "[64, 1, 49, 49], i1"], "tma_64x64_by2"),
    ],
)
def test_low_tiles_with_masks_and_biases_compile_without_a_spill(
    size: int, masks: list[str], name: str
) -> None:
    shape = f"[64, 3, 49, {size}]"
    one = Attention(shape, shape, shape, [], masks=masks)
    spills_nothing(one, name)
    (first, *_) = schedules(find_attention(one.kernel()), ARCH)
    assert first.variant.data.startswith("tma_64x64_by")


def spills_nothing(one: Attention, name: str) -> None:
    """A plan of an attention, by its name, compiles for as many CTAs as it says."""
    module = passed(one.region())
    kernel = only(module, KernelOp)
    found = find_attention(kernel)
    fields = dict(all_of_space(found, ARCH).values())[name]
    when = left_open(kernel, conditions(found, tma=True))
    assert when is not None
    block = kernel.parent_block()
    assert block is not None
    plan = fitted(kernel.sym_name.data, name, fields, when)
    block.insert_op_after(plan, kernel)
    module = passed(module, "region-to-gpu", arch=ARCH)
    finish(module)
    made = only(module, gpu.ModuleOp)
    (built,) = made.kernels()
    assert built.blocks_per_sm.value.data == plan.at_once
    result = nvrtc.compile_cuda(cuda_source(made), ARCH)
    assert not result.warnings()
    (info,) = result.kernels.values()
    assert (
        info.spill_bytes == 0 and info.registers * built.threads.value.data * plan.at_once <= 65536
    )


def test_what_is_measured_are_plans_of_known_sizes() -> None:
    found = ATTENTION.others(attention("64", "512", 64), ARCH)
    assert 2 <= len(found) <= MEASURED
    assert len({p.variant.data for p in found}) == len(found)
    assert ATTENTION.others(attention("H", "512", 64), ARCH) == []
