"""Schedules of attention: variants, tiles, resources, and plans of the user's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value
from polyc.dialects.region import KernelOp
from polyc.families.attention import ranking
from polyc.families.attention.recognise import find_attention
from polyc.families.attention.schedules import ATTENTION, bytes_again, keys_again, lacking
from polyc.families.attention.variants import MAX_FEATURES, VARIANTS
from polyc.passes.pipeline import build
from polyc.test.support.attention_programs import PROGRAMS, Attention, heads_of
from polyc.test.support.gpu_text import assert_refused, find, only, parsed, printed, run
from polyc.tools.registry import make_context

H64 = ("[H, M, 64]", "[H, N, 64]", "[H, N, 64]")
FULL, CAUSAL = Attention(*H64, []), Attention(*H64, [], " causal")


def planned(program: Attention, arch: str = "sm_80") -> list[ScheduleOp]:
    """The schedules for any number of queries."""
    found = ATTENTION.schedules(program.kernel(), arch)
    return [plan for plan in found if not plan.of_few_queries]


def fields(program: Attention, **other: Value) -> dict[str, Value]:
    """The fields of the first schedule of sm_80, with others in their place."""
    return {**planned(program)[0].fields(), **other}


# Variants --------------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("arch", VARIANTS)
def test_the_last_variant_takes_every_size(arch: str, name: str) -> None:
    program = PROGRAMS[name]
    found = planned(program, arch)
    assert 1 <= len(found) <= 3 + ranking.MOST_KERNELS and not found[-1].when.data
    for plan in found:
        plan.verify()
        assert plan.arch.data == arch and plan.pattern == "attention"
        assert plan.tensorize.data == "acc"


def test_tensors_that_start_anywhere_have_a_variant_of_their_own() -> None:
    text = printed(FULL.region()).replace("align 16", "align 2")
    module = run(text)
    build("plan-select", "sm_80").apply(make_context(), module)
    found = [p for p in find(module, ScheduleOp) if not p.of_few_queries]
    assert [(p.variant.data, p.loader.data) for p in found] == [
        ("cp_async", "cp_async"),
        ("scalar", "register"),
    ]


@pytest.mark.parametrize(
    ("name", "tile", "warp_tile"),
    [
        ("full", (128, 128, 64), (32, 64)),
        ("causal", (128, 128, 64), (32, 64)),
        ("window", (64, 64, 64), (16, 64)),
        ("additive mask", (64, 64, 64), (16, 64)),
        ("negative scale", (64, 64, 64), (16, 64)),
        ("batches and heads of 128", (64, 64, 128), (16, 128)),
        ("heads of 48 and 80", (128, 32, 48), (32, 80)),
        ("heads of 64 and 256", (64, 64, 64), (16, 256)),
        ("heads of 40", (128, 128, 64), (32, 64)),
        ("heads of 8 and 24", (128, 128, 32), (32, 32)),
        ("heads of 72 and 40, masked", (64, 64, 96), (16, 64)),
    ],
)
def test_tiles_are_as_high_as_registers_allow(
    name: str, tile: tuple[int, ...], warp_tile: tuple[int, ...]
) -> None:
    plan = planned(PROGRAMS[name])[0]
    assert (plan.tile_sizes, plan.warp_tile_sizes) == (tile, warp_tile)


def test_tails_are_those_that_the_sizes_leave() -> None:
    assert planned(FULL)[0].to_json()["predicate_tail"] == ["m", "n"]
    assert planned(PROGRAMS["even sizes"])[0].to_json()["predicate_tail"] == []


def test_heads_without_registers_are_refused() -> None:
    wide = only(run(printed(FULL.region()).replace("64", "272")), KernelOp)
    with pytest.raises(PolycError) as caught:
        ATTENTION.schedules(wide, "sm_80")
    assert caught.value.kind == "UnsupportedProgram"
    assert f"its heads have 272 features, and {MAX_FEATURES} are the most" in caught.value.message


def test_the_widest_heads_are_those_of_whole_tiles() -> None:
    plans = planned(heads_of(248), "sm_90a")
    assert [(p.variant.data, p.tile_sizes[2], p.warp_tile_sizes[1]) for p in plans] == [
        ("tma", 256, 256),
        ("cp_async", 256, 256),
    ]
    assert plans[0].to_json()["predicate_tail"] == ["m", "n", "r0", "i2"]


def test_heads_that_leave_a_part_of_their_tiles_free_have_low_ones_where_each_load_is_guarded() -> (
    None
):
    for features, queries in ((40, 64), (64, 128)):
        module = run(printed(heads_of(features).region()).replace("align 16", "align 2"))
        plans = {p.variant.data: p for p in ATTENTION.schedules(only(module, KernelOp), "sm_80")}
        assert plans["scalar"].tile_sizes[0] == queries


def test_tensors_of_more_axes_than_a_tensor_map_has_are_not_loaded_by_tma(tmp_path: Path) -> None:
    def program(axes: str) -> Attention:
        return Attention(f"[{axes}, M, 64]", f"[{axes}, N, 64]", f"[{axes}, N, 64]", [])

    names = [p.variant.data for p in planned(program("A, B, H"), "sm_90a")]
    assert [n for n in names if not n.startswith("tma_")] == ["tma", "cp_async"]
    assert [p.variant.data for p in planned(program("A, B, C, H"), "sm_90a")] == ["cp_async"]
    given = {k: v for k, v in WGMMA.items() if k != "arch"}
    with pytest.raises(PolycError) as caught:
        with_plan(program("A, B, C, H"), given, tmp_path, "sm_90a")
    assert caught.value.kind == "BadPlan"
    assert "at most 5 dimensions, and Q, K and V have up to 6" in caught.value.message


def test_what_is_not_finite_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A region that multiplies what is hidden says more than its kernel does (S0.6)."""
    guard = " where affine_set<(d0, d1, d2, d3)[s0, s1, s2] : (((d1 * -1) + d3) >= 0)> else 0.0"
    text = printed(CAUSAL.region())
    assert text.count(guard) == 1
    for masked, said in ((text.replace(guard, ""), True), (text, False)):
        kernel = only(parsed(masked), KernelOp)
        ATTENTION.schedules(kernel, "sm_80")
        found = capsys.readouterr().err
        remark = "remark[finite-only]: a key that the mask forbids contributes nothing, and not 0 "
        assert (remark in found) == said
    ATTENTION.schedules(FULL.kernel(), "sm_80")
    assert "forbids" not in capsys.readouterr().err


# Resources -------------------------------------------------------------------------------------


def test_resources_of_both_products() -> None:
    """Q once, K and V in every stage; scores and output in registers; a row is one warp's."""
    plan = ScheduleOp("a", "v", fields(FULL))
    assert plan.threads() == 128
    assert plan.shared_bytes() == (128 * 64 + 2 * 128 * (64 + 64)) * 2
    assert plan.accumulator_registers() == 32 * (128 + 64) // 32
    grouped = ScheduleOp("a", "v", fields(FULL, **WGMMA))
    assert grouped.threads() == 384 and grouped.staged_tile is None
    assert grouped.shared_bytes() == (128 * 64 + 2 * 128 * 128) * 2 + 16 * 5 + 1024
    assert grouped.accumulator_registers() == 64 * (128 + 64) // 128


WGMMA: dict[str, Value] = {
    "arch": "sm_90a",
    "mma": "wgmma",
    "loader": "tma",
    "tile": [128, 128, 64],
    "warp_tile": [64, 64],
    "consumers": 2,
    "registers": [40, 232],
    "persistent": True,
}

WRONG: dict[str, tuple[dict[str, Value], str]] = {
    "no tensor cores": ({"mma": "none", "loader": "register", "stages": 1}, "wgmma or fma"),
    "rows of a warp": ({"warp_tile": [8, 64]}, "warp_tile is 8 queries; mma.sync takes 16"),
    "rows of a warpgroup": (
        {**WGMMA, "warp_tile": [32, 64]},
        "warp_tile is 32 queries; wgmma takes 64 at a time",
    ),
    "rows of a tile": ({"tile": [48, 64, 64]}, "warps of 32 queries do not make up a tile of 48"),
    "consumers": (
        {**WGMMA, "consumers": 3},
        "3 consumers of 64 queries do not make up a tile of 128",
    ),
    "keys": ({"tile": [128, 72, 64]}, "keys of a step are 72; mma.sync takes a multiple of 16"),
    "features": ({"tile": [128, 64, 24]}, "features are 24"),
    "columns": ({**WGMMA, "tile": [128, 272, 64]}, "one wgmma makes 256 columns at most"),
    "buffers": ({"fragment_buffers": 2}, "belong to products of matrices"),
    "registers of a thread": (
        {"tile": [128, 256, 64]},
        "ResourceExceeded: warp_tile 32x64 with 256 keys a step takes at least 320 registers",
    ),
    "shared memory": (
        {"stages": 5},
        "ResourceExceeded: tile 128x128x64 with 5 stages takes 180224 bytes of shared memory",
    ),
    "threads": (
        {"tile": [1024, 16, 64], "warp_tile": [16, 64]},
        "ResourceExceeded: 1024 queries take 2048 threads, sm_80 allows 1024",
    ),
    "consumers of mma.sync": ({"consumers": 2}, "belong to wgmma kernels"),
    "wgmma of sm_80": ({**WGMMA, "arch": "sm_80"}, "wgmma needs sm_90a"),
    "registers at launch": (
        {**WGMMA, "registers": [40, 240]},
        "ResourceExceeded: registers 40 + 2 * 240",
    ),
}


@pytest.mark.parametrize(("change", "sentence"), WRONG.values(), ids=WRONG)
def test_a_schedule_that_cannot_run_is_refused(change: dict[str, Value], sentence: str) -> None:
    with pytest.raises(VerifyException) as caught:
        ScheduleOp("a", "v", fields(FULL, **change)).verify()
    assert sentence in str(caught.value)


# The user's own --------------------------------------------------------------------------------


def with_plan(program: Attention, given: dict[str, Any], folder: Path, arch: str) -> ScheduleOp:
    path = folder / "plan.json"
    path.write_text(json.dumps(given))
    module = program.region()
    build("plan-select", arch, str(path)).apply(make_context(), module)
    return next(plan for plan in find(module, ScheduleOp) if not plan.of_few_queries)


def test_the_users_tiles_are_taken(tmp_path: Path) -> None:
    given = {"tile": [64, 32, 64], "warp_tile": "16x64", "stages": 3}
    plan = with_plan(FULL, given, tmp_path, "sm_80")
    assert (plan.tile_sizes, plan.integer("stages")) == ((64, 32, 64), 3)


def test_tiles_of_other_heads_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PolycError) as caught:
        with_plan(FULL, {"tile": [64, 64, 128], "warp_tile": "16x64"}, tmp_path, "sm_80")
    assert caught.value.kind == "BadPlan"
    assert "has tiles for heads of 128 and 64 features" in caught.value.message
    assert "the region's have 64 and 64" in caught.value.message


def test_tiles_as_wide_as_heads_that_do_not_fill_them_are_refused(tmp_path: Path) -> None:
    program = PROGRAMS["heads of 40"]
    given = {"tile": [64, 32, 64], "warp_tile": "16x64", "stages": 3}
    assert with_plan(program, given, tmp_path, "sm_80").tile_sizes == (64, 32, 64)
    with pytest.raises(PolycError) as caught:
        with_plan(program, {**given, "tile": [64, 32, 48]}, tmp_path, "sm_80")
    assert caught.value.kind == "BadPlan"
    assert (
        "has tiles for heads of 48 and 64 features (the last of tile and of warp_tile); the "
        "region's have 40 and 40, which tiles of 64 and 64 hold" in caught.value.message
    )


@pytest.mark.parametrize("arch", VARIANTS)
def test_plans_of_the_compilers_own_have_room_to_compute_again(arch: str) -> None:
    for features in (8, 64, 72, 128, 136, 192, 248, 256):
        attention = find_attention(heads_of(features, " causal").kernel())
        found = ATTENTION.schedules(attention.kernel, arch)
        assert found and all(lacking(attention, plan) <= 0 for plan in found), features
        keys = keys_again(attention)
        assert keys == (32 if features <= 128 else 16)
        assert bytes_again(attention) == keys * 2 * attention.tile_features[0] * 2


def test_a_plan_without_room_to_compute_again_is_refused(tmp_path: Path) -> None:
    """A mask that hides keys takes room for tiles of K and V; without one it is not needed."""
    given = {"tile": [128, 80, 64], "warp_tile": "32x64", "stages": 7}
    taken = (128 + 7 * 2 * 80) * 64 * 2
    assert with_plan(FULL, given, tmp_path, "sm_80").shared_bytes() == taken
    with pytest.raises(PolycError) as caught:
        with_plan(CAUSAL, given, tmp_path, "sm_80")
    assert caught.value.kind == "BadPlan"
    assert caught.value.message.endswith(
        f"lacks {taken + 2 * 32 * 64 * 2 - 163 * 1024} bytes of shared memory for tiles of 32 "
        "keys, by which sums that are not finite are computed again without the keys that the "
        "mask hides; take fewer keys at a step, or fewer stages"
    )
    fewer = with_plan(CAUSAL, {**given, "stages": 6}, tmp_path, "sm_80")
    assert fewer.integer("stages") == 6


def test_tma_needs_tensors_that_are_not_empty(tmp_path: Path) -> None:
    given = {k: v for k, v in WGMMA.items() if k != "arch"}
    with pytest.raises(PolycError) as caught:
        with_plan(FULL, {**given, "when": []}, tmp_path, "sm_90a")
    assert caught.value.kind == "BadPlan"
    assert 'a tensor map has no empty axis; add "H >= 1" to its when' in caught.value.message
    facts = ["H >= 1", "M >= 1", "N >= 1"]
    plan = with_plan(FULL, {**given, "when": facts}, tmp_path, "sm_90a")
    assert plan.loader.data == "tma"


UNBUILT = "region-to-gpu does not build yet for attention"
NOT_BUILT = {
    "persistent": (
        ("persistent = false", "persistent = true"),
        "a persistent that kernels of mma.sync do not have; use false",
    ),
    "cluster": (
        ("cluster = [1, 1]", "cluster = [2, 1]"),
        f"a cluster that {UNBUILT}; use [1, 1]",
    ),
    "raster": (('raster = "row"', 'raster = "grouped"'), f'a raster that {UNBUILT}; use "row"'),
    "group": (("group = 1", "group = 2"), "a group that is 2 for the raster 'row'; use 1"),
}


@pytest.mark.parametrize(("edit", "what"), NOT_BUILT.values(), ids=NOT_BUILT)
def test_a_choice_that_is_not_built_is_refused(edit: tuple[str, str], what: str) -> None:
    said, asked = edit
    module = FULL.region()
    arch = "sm_90a" if "cluster" in said else "sm_80"
    build("plan-select", arch).apply(make_context(), module)
    text = printed(module)
    start = text.index('variant "cp_async"')
    assert said in text[start:]
    text = text[:start] + text[start:].replace(said, asked)
    message = f"plan 'cp_async' asks for {what}"
    assert_refused(text, "UnsupportedPlan", message, 'variant "cp_async"', "region-to-gpu")


def test_a_plan_of_another_region_is_refused() -> None:
    module = FULL.region()
    build("plan-select", "sm_80").apply(make_context(), module)
    text = printed(module)
    message = "the plan tensorizes 'other' and the region reduces 'acc'"
    other = text.replace('tensorize = "acc"', 'tensorize = "other"')
    assert_refused(other, "UnsupportedPlan", message, "plan.schedule", "region-to-gpu")
    message = (
        "plan 'cp_async' has tiles for heads of 32 and 64 features (the last of tile and of "
        "warp_tile); the region's have 64 and 64"
    )
    other = text.replace("tile = [128, 128, 64]", "tile = [128, 128, 32]")
    marker = 'plan.schedule @attention variant "cp_async"'
    assert_refused(other, "BadPlan", message, marker, "region-to-gpu")


def test_text_comes_back() -> None:
    module = CAUSAL.region()
    build("plan-select", "sm_80").apply(make_context(), module)
    text = printed(module)
    assert printed(parsed(text)) == text
