"""Kernels of attention for sm_90a: thread by thread, through NVRTC, and what is in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pytest
from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu.symbols import constant_of
from polyc.playback.estimate import Estimate
from polyc.playback.gpu import simulate
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import (
    H64,
    PROGRAMS,
    TO_REGION,
    Array,
    Attention,
    in_two_walks,
    passed,
)
from polyc.test.support.gpu_text import assert_refused, find, only, parsed, printed, run
from polyc.test.support.split_programs import leave_only
from polyc.tools.play import play

H128, H192, H256 = (
    (f"[H, M, {size}]", f"[H, N, {size}]", f"[H, N, {size}]") for size in (128, 192, 256)
)
SIZES = [{"H": 2, "M": 70, "N": 150}]
MASK = ["[H, M, N], f32"]

MORE: Mapping[str, Attention] = {
    "full 128": Attention(*H128, sizes=SIZES),
    "causal 128": Attention(*H128, sizes=SIZES, options=" causal offset N - M"),
    "window 128": Attention(*H128, sizes=SIZES, options=" causal window [40, 0]"),
    "mask 128": Attention(*H128, sizes=SIZES, options=" causal window [99, 0]", masks=MASK),
    "bias of keys 128": Attention(*H128, sizes=SIZES, options=" causal", masks=["[H, 1, N], f32"]),
    "bias of queries and keys 192": Attention(
        *H192, sizes=SIZES, options=" cap 3.0", masks=["[1, N], f32", "[M, 1], i1"]
    ),
    "causal 192": Attention(*H192, sizes=SIZES, options=" causal"),
    "causal 256": Attention(*H256, sizes=SIZES, options=" causal"),
    "mask 256": Attention(*H256, sizes=SIZES, masks=MASK),
    "several steps": Attention(
        *H64, sizes=[{"H": 1, "M": 200, "N": 500}], options=" causal offset 250"
    ),
    "a window of several steps": Attention(
        *H64, sizes=[{"H": 1, "M": 200, "N": 600}], options=" window [150, 160] offset 200"
    ),
}
ALL = {**PROGRAMS, **MORE}

SIMULATED = [
    "one key, one query",
    "no query",
    "the first rows see nothing",
    "additive mask of a row, causal",
    "log-sum-exp",
    "shared heads",
    "heads of 16",
    "heads of 48 and 80",
    "heads of 64 and 256",
    "heads of 40",
    "heads of 8 and 24",
    "heads of 72 and 40, masked",
    "shared heads of 40, log-sum-exp",
    *MORE,
]
COMPILED = [
    "causal from the end",
    "bf16",
    "additive mask of a row, causal",
    "log-sum-exp",
    "heads of 72 and 40, masked",
    *(name for name in MORE if "steps" not in name and "full" not in name),
]


@cache
def region(name: str) -> str:
    return printed(ALL[name].region())


@cache
def tiles(name: str) -> ModuleOp:
    """The tma variant alone, at the tile level; not to be changed."""
    module = passed(region(name), "plan-select", arch="sm_90a")
    leave_only(module, "tma")
    return passed(module, "region-to-gpu", arch="sm_90a")


@cache
def lowered(name: str) -> gpu.ModuleOp:
    """The variant at the hardware level; not to be changed."""
    module = tiles(name).clone()
    finish(module)
    return only(module, gpu.ModuleOp)


def wanted(name: str, inputs: Sequence[Array], sizes: Mapping[str, int]) -> list[Estimate]:
    return meant(parsed(ALL[name].text()), inputs, sizes)


# What it computes --------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", MORE)
def test_tiles_give_what_the_region_does(name: str) -> None:
    for sizes in MORE[name].sizes:
        inputs = MORE[name].inputs(sizes)
        found = play(tiles(name), "attention", inputs, dict(sizes))
        assert found is not None
        assert_agree(list(found), wanted(name, inputs, sizes))


ORDERS = (("round-robin", "late"), ("random", "random"))
IN_ORDER = [
    (name, *order) for number, name in enumerate(SIMULATED) for order in (ORDERS[number % 2 :][:1])
]
"""Happens-before is the same in both orders: each kernel takes one in turn."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "schedule", "completion"), IN_ORDER)
def test_threads_give_what_the_region_does(name: str, schedule: str, completion: str) -> None:
    """No race, no access outside, no wait that is missing or that never ends."""
    module = lowered(name)
    for seed, given in enumerate(ALL[name].sizes):
        # Of those that tiles play with two heads a head is enough.
        sizes = {**given, "H": 1} if name in MORE else given
        inputs = ALL[name].inputs(sizes, seed)
        result = simulate(
            module, inputs, sizes, schedule=schedule, completion=completion, seed=seed
        )
        assert not result.findings, "\n".join(map(str, result.findings))
        assert_agree(list(result.outputs), wanted(name, inputs, sizes))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", COMPILED)
def test_a_kernel_compiles_without_a_spill(name: str) -> None:
    result = nvrtc.compile_cuda(cuda_source(lowered(name)), "sm_90a")
    assert not result.warnings()
    for word in ("serialized", "ignored", "warning", "Performance Loss"):
        assert word not in result.log
    (info,) = result.kernels.values()
    assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0)


@pytest.mark.parametrize("least", [-1e9, -3.4028235e38])
def test_a_mask_of_huge_numbers_leaves_what_the_scores_say(least: float) -> None:
    """A row of which all keys have the same huge number beside their scores sees all of them."""
    sizes = {"H": 1, "M": 3, "N": 200}
    q, k, v, _ = PROGRAMS["additive mask"].inputs(sizes)
    mask = np.zeros((1, 3, 200), np.float32)
    mask[0, 1], mask[0, 2, 5:] = least, least
    inputs = [q, k, v, mask]
    found = play(tiles("additive mask"), "attention", inputs, sizes)
    assert found is not None
    assert_agree(list(found), wanted("additive mask", inputs, sizes))


def test_heads_inside_positions_are_read_and_written_where_they_lie() -> None:
    """[B, M, heads, features], permuted around the attention: one kernel, no copy."""
    outer = {n: f"!frontend.tensor<[B, {n}, {h}, 64], f16>" for n, h in (("M", 4), ("N", 2))}
    inner = {n: f"!frontend.tensor<[B, {h}, {n}, 64], f16>" for n, h in (("M", 4), ("N", 2))}
    permuted = {n: f"perm [0, 2, 1, 3] : {outer[n]} -> {inner[n]}" for n in "MN"}
    text = f"""
frontend.graph @attention(%q: {outer["M"]}, %k: {outer["N"]}, %v: {outer["N"]})
    -> (O: {outer["M"]}) {{
  %0 = frontend.permute %q {permuted["M"]}
  %1 = frontend.permute %k {permuted["N"]}
  %2 = frontend.permute %v {permuted["N"]}
  %3 = frontend.attention %0, %1, %2 causal {{acc = f32}}
      : ({inner["M"]}, {inner["N"]}, {inner["N"]}) -> {inner["M"]}
  %4 = frontend.permute %3 perm [0, 2, 1, 3] : {inner["M"]} -> {outer["M"]}
  frontend.output %4 : {outer["M"]}
}}
"""
    sizes = {"B": 2, "M": 70, "N": 90}
    rng = np.random.default_rng(0)
    shapes = ((2, 70, 4, 64), (2, 90, 2, 64), (2, 90, 2, 64))
    inputs = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    right = meant(parsed(text), inputs, sizes)
    module = passed(text, *TO_REGION, "plan-select", arch="sm_90a")
    leave_only(module, "tma")
    passed(module, "region-to-gpu", arch="sm_90a")
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes, "attention_tma")
    assert not result.findings
    assert_agree(result.outputs, list(right))


def test_mutants_of_a_kernel_are_caught() -> None:
    """Waits, arrivals and fences that are left out, and numbers that are wrong."""
    name, sizes = "full 128", {"H": 3, "M": 70, "N": 260}
    inputs = MORE[name].inputs(sizes)
    case = Case.of(lowered(name), None, sizes, inputs, wanted(name, inputs, sizes))
    found = mutants(lowered(name))
    flow = [m for m in found if re.search("mbarrier|wgmma_wait|wgmma_fence|named_barrier", m.op)]
    chosen = [*flow[:: len(flow) // 5], *found[:: len(found) // 5]]
    survived = [v for v in (judge(m, [case]) for m in chosen) if v.outcome == "survived"]
    assert not survived, "\n".join(str(v.mutant) for v in survived)


PLANS = {
    "one consumer": (
        ("tile = [192, 128, 64]", "tile = [64, 128, 64]"),
        ("consumers = 3", "consumers = 1"),
        ("registers = [32, 160]", "registers = []"),
    ),
    "three stages": (("stages = 2", "stages = 3"),),
    "a tile a CTA": (
        ("persistent = true", "persistent = false"),
        ('"pingpong" = true', '"pingpong" = false'),
    ),
}


def edited(text: str, edits: Sequence[tuple[str, str]]) -> str:
    """Schedules with other fields of the tma variant, the first that the texts are found in."""
    start = text.index('variant "tma"')
    before, own = text[:start], text[start:]
    for old, new in edits:
        assert old in own
        own = own.replace(old, new, 1)
    return before + own


@pytest.mark.parametrize("edits", PLANS.values(), ids=PLANS)
def test_a_plan_of_the_users_own(edits: Sequence[tuple[str, str]]) -> None:
    module = passed(edited(planned("full"), edits), "region-to-gpu", arch="sm_90a")
    finish(module)
    sizes = {"H": 2, "M": 70, "N": 450}
    inputs = PROGRAMS["full"].inputs(sizes)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes, "attention_tma")
    assert not result.findings
    assert_agree(result.outputs, wanted("full", inputs, sizes))


PERSISTENT = (
    ("persistent = false", "persistent = true"),
    ('"pingpong" = false', '"pingpong" = true'),
)
"""Queries of the next tile come while a CTA works on one."""
ONE_BY_ONE = (('raster = "grouped"', 'raster = "row"'), ("group = 4", "group = 1"))
SIDE_BY_SIDE = (('raster = "row"', 'raster = "grouped"'), ("group = 1", "group = 4"))
LOOPS: Mapping[str, tuple[str, Sequence[tuple[str, str]], Mapping[str, int]]] = {
    "causal": ("causal 128", PERSISTENT, {"H": 3, "M": 300, "N": 260}),
    "early rows see nothing": ("causal 128", PERSISTENT, {"H": 2, "M": 400, "N": 120}),
    "one by one": ("causal 128", (*PERSISTENT, *ONE_BY_ONE), {"H": 2, "M": 300, "N": 120}),
    "three consumers": ("causal", PERSISTENT, {"H": 2, "M": 390, "N": 300}),
    "a window": ("window 128", PERSISTENT, {"H": 2, "M": 300, "N": 200}),
    "the same keys": ("full 128", SIDE_BY_SIDE, {"H": 5, "M": 200, "N": 200}),
    "one key": ("causal 128", PERSISTENT, {"H": 2, "M": 200, "N": 1}),
}
"""Plans whose CTAs have several tiles each, of different keys."""


@cache
def planned(name: str) -> str:
    """The region with the tma variant's schedule alone."""
    module = passed(region(name), "plan-select", arch="sm_90a")
    leave_only(module, "tma")
    return printed(module)


@cache
def looped(name: str) -> gpu.ModuleOp:
    program, edits, _ = LOOPS[name]
    module = passed(edited(planned(program), edits), "region-to-gpu", arch="sm_90a")
    finish(module)
    return only(module, gpu.ModuleOp)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "ctas"), [(name, 1 + i % 2) for i, name in enumerate(LOOPS)])
def test_ctas_of_several_tiles_give_what_the_region_does(name: str, ctas: int) -> None:
    program, _, sizes = LOOPS[name]
    inputs = ALL[program].inputs(sizes)
    result = simulate(
        looped(name), inputs, sizes, "attention_tma", schedule="random", multiprocessors=ctas
    )
    assert not result.findings, "\n".join(map(str, result.findings))
    assert_agree(result.outputs, wanted(program, inputs, sizes))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["causal", "a window"])
def test_a_loop_over_tiles_compiles_without_a_spill(name: str) -> None:
    """Three consumers with steps of 128 keys have no registers for it: no such plan is proposed
    (``families/attention/space.py``), and one of 64 keys is in its test."""
    result = nvrtc.compile_cuda(cuda_source(looped(name)), "sm_90a")
    assert not result.warnings()
    info = result.kernels["attention_tma"]
    assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0)


def test_tiles_with_most_keys_come_first() -> None:
    """In a group of heads the last queries first, heads fastest; a group ends beyond the batch."""
    module = passed(edited(planned("causal 128"), PERSISTENT), "region-to-gpu", arch="sm_90a")
    (loop,) = find(module, tile.TileLoopOp)
    assert loop.tile.data == (1, 128, 1) and loop.reversed is not None
    assert loop.raster.data == "row" and constant_of(loop.sizes[2]) == 4


# What is in it -----------------------------------------------------------------------------------


@cache
def structured(name: str) -> ModuleOp:
    """The kernel with its roles, its skew and its turns, and steps cut; not to be changed."""
    return run(tiles(name).clone(), *GPU_PASSES[: GPU_PASSES.index("gpu-split-steps") + 1])


def maps(name: str) -> list[tile.MapOp]:
    """The maps of the first step, in order."""
    roles = only(structured(name), tile.RolesOp)
    some = next(op for op in find(roles, scf.IfOp) if find(op, tile.ReduceOp))
    return [op for op in find(some, tile.MapOp) if not inside_loop(op, some)]


def inside_loop(op: Operation, outer: Operation) -> bool:
    parent = op.parent_op()
    while parent is not outer and not isinstance(parent, scf.ForOp):
        assert parent is not None
        parent = parent.parent_op()
    return parent is not outer


def test_a_kernel_is_one_plain_loop() -> None:
    """The lowering writes no ring, role or turn: passes do."""
    for name in ("full", "causal 128", "window 128"):
        kernel = only(tiles(name), KernelOp)
        pipeline = only(kernel, tile.PipelineOp)
        assert len(find(pipeline, tile.ContractOp)) == len(find(pipeline, tile.CopyOp)) == 2
        for kind in (tile.RingOp, tile.RolesOp, tile.OrderBarrierOp):
            assert not find(kernel, kind)
        for kind in (tile.AwaitOp, scf.ForOp):
            assert not find(pipeline, kind)
            assert (len(find(kernel, kind)) == 0) == (name == "full")


def test_one_producer_feeds_consumers_by_rings() -> None:
    for name, groups, stages in (("causal", 3, 2), ("causal 128", 2, 2)):
        kernel = only(structured(name), KernelOp)
        roles = only(kernel, tile.RolesOp)
        assert roles.consumers.value.data == groups and roles.independent is not None
        rings = [str(r.ring.type) for r in find(kernel, tile.RingOp)]
        assert rings == ["!gpu.ring<1>", f"!gpu.ring<{stages}>", f"!gpu.ring<{stages}>"]
        copies = [c for c in roles.producer.walk() if isinstance(c, tile.CopyOp)]
        assert len(copies) == groups + 2
        assert all(c.loader and c.loader.data == "tma" for c in copies)
        assert {c.mma.data for c in find(kernel, tile.ContractOp)} == {"wgmma"}
        loops = steps(roles)
        assert loops
        for kind in (tile.OrderEnterOp, tile.OrderLeaveOp):
            assert [len(find(loop, kind)) for loop in loops] == [1] * len(loops)


def test_a_scale_is_in_the_exponent() -> None:
    """No map of the scores before their maximum but the mask's, and exp2 of a sum of products."""
    for name in ("full", "causal", "window 128"):
        mask, _, weights = maps(name)[:3]
        assert len(find(mask, arith.SelectOp)) == 1 and not find(mask, arith.MulfOp)
        assert len(find(weights, math.FmaOp)) == len(find(weights, math.Exp2Op)) == 1
    units = {
        f"{op.value}".split()[0]
        for weights in (maps("full")[2], maps("no scale")[2])
        for op in find(weights, arith.ConstantOp)
    }
    assert {round(float(u), 6) for u in units} == {0.180337, 1.442695}


@pytest.mark.parametrize("name", ["additive mask", "negative scale"])
def test_another_score_is_mapped_and_its_maximum_subtracted(name: str) -> None:
    """A mask of f32 may be so large that its rounding shows: its scores are subtracted as they
    are.  Those of 16 bits that are scaled alone take one operation, with the rounded maximum."""
    score, _, _, weights = maps(name)[:4]
    exact = name == "additive mask"
    assert find(score, math.FmaOp if exact else arith.MulfOp)
    assert len(find(weights, arith.SubfOp)) == int(exact)
    assert len(find(weights, math.FmaOp)) == int(not exact)
    assert len(find(weights, math.Exp2Op)) == 1


def test_masks_are_applied_in_steps_that_they_may_cut() -> None:
    """Loops over steps with and without a mask; even sizes without a mask have none at all."""
    masked = {"full": [0], "causal": [1, 0], "window 128": [1, 0, 1], "even sizes": [0]}
    for name, expected in masked.items():
        roles = only(structured(name), tile.RolesOp)
        loops = steps(roles)
        selects = [[m for m in find(o, tile.MapOp) if m.space is reduced(o)] for o in loops]
        found = [sum(len(find(m, arith.CmpiOp)) > 0 for m in some) for some in selects]
        assert found == expected, name
    assert not find(maps("even sizes")[0], arith.CmpiOp)


def steps(roles: tile.RolesOp) -> list[scf.ForOp]:
    """The loops over the keys, but for those that compute again."""
    return [op for op in find(roles, scf.ForOp) if find(op, tile.ReduceOp)]


def reduced(loop: scf.ForOp) -> object:
    return find(loop, tile.ReduceOp)[0].source


def test_keys_that_no_query_of_a_tile_sees_are_not_loaded() -> None:
    """Of six blocks of 112 keys each of the two tiles of 128 queries sees five."""
    sizes = {"H": 1, "M": 200, "N": 600}
    inputs = MORE["a window of several steps"].inputs(sizes)
    counters = simulate(lowered("a window of several steps"), inputs, sizes).counters
    queries, block = 64 * 64 * 2, 2 * 112 * 64 * 2
    assert counters.tma_bytes == 2 * 2 * queries + (5 + 5) * block


def test_tiles_of_the_same_keys_are_one_kernels_and_others_go_by_the_longest() -> None:
    launch = only(tiles("full 128"), gpu.DispatchOp).launches()[0]
    assert launch.persistent is not None
    assert len(find(tiles("full 128"), tile.TileLoopOp)) == 1
    launch = only(tiles("causal 128"), gpu.DispatchOp).launches()[0]
    assert launch.persistent is None and not find(tiles("causal 128"), tile.TileLoopOp)
    grid = [d.evaluate({"H": 5, "M": 300, "N": 1}) for d in launch.grid.data]
    assert grid == [2, 3, 4]


# Refusals ----------------------------------------------------------------------------------------

REFUSED = {
    "hilbert": (
        "causal",
        ('raster = "grouped"', 'raster = "hilbert"'),
        'a raster that region-to-gpu does not build yet for attention; use "row" or "grouped"',
    ),
    "cluster": (
        "causal",
        ("cluster = [1, 1]", "cluster = [2, 1]"),
        "a cluster that region-to-gpu does not build yet for attention; use [1, 1]",
    ),
}


@pytest.mark.parametrize(("name", "edit", "said"), REFUSED.values(), ids=REFUSED)
def test_a_choice_that_is_not_built_is_refused(name: str, edit: tuple[str, str], said: str) -> None:
    text = edited(printed(passed(region(name), "plan-select", arch="sm_90a")), [edit])
    message = f"plan 'tma' asks for {said}"
    assert_refused(text, "UnsupportedPlan", message, 'variant "tma"', "region-to-gpu")


# Two walks over the keys -------------------------------------------------------------------------

TWO_WALKS = [
    "full 128",
    "several steps",
    "a window of several steps",
    "the first rows see nothing",
    "mask 128",
    "log-sum-exp",
    "shared heads of 40, log-sum-exp",
    "bias of queries and keys 192",
]


@cache
def in_two(name: str) -> gpu.ModuleOp:
    """The kernel that takes the keys twice, at the hardware level; not to be changed."""
    module = in_two_walks(region(name), "tma", "sm_90a")
    finish(module)
    return only(module, gpu.ModuleOp)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", TWO_WALKS)
def test_two_walks_give_what_the_region_does(name: str) -> None:
    """Full tiles are one CTA's, one after another, so that what rings count goes on from tile to
    tile; masks have the number of steps vary."""
    for seed, sizes in enumerate(ALL[name].sizes):
        inputs = ALL[name].inputs(sizes, seed)
        result = simulate(in_two(name), inputs, sizes, seed=seed)
        assert not result.findings, "\n".join(map(str, result.findings))
        assert_agree(list(result.outputs), wanted(name, inputs, sizes))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ["full 128", "mask 128", "bias of queries and keys 192"])
def test_two_walks_compile_without_a_spill(name: str) -> None:
    result = nvrtc.compile_cuda(cuda_source(in_two(name)), "sm_90a")
    assert not result.warnings()
    (info,) = result.kernels.values()
    assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0)


def test_a_plan_of_persistent_tiles_walks_twice_too() -> None:
    """Tiles that see keys of their own count both walks' steps."""
    name = "a window of several steps"
    module = in_two_walks(region(name), "tma", "sm_90a", *PERSISTENT)
    finish(module)
    (sizes,) = ALL[name].sizes
    inputs = ALL[name].inputs(sizes)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    assert not result.findings
    assert_agree(list(result.outputs), wanted(name, inputs, sizes))


def test_two_walks_share_the_tiles_of_keys() -> None:
    """K has one ring, which goes on from walk to walk; the second walk alone has values, and the
    queries of the next tile come ahead."""
    module = in_two_walks(region("full 128"), "tma", "sm_90a")
    first, second = find(module, tile.PipelineOp)
    assert [len(find(walk, tile.ContractOp)) for walk in (first, second)] == [1, 2]
    assert not find(second, tile.ReduceOp)
    module = passed(module, *GPU_PASSES[: GPU_PASSES.index("gpu-skew")], arch="sm_90a")
    rings = [str(op.ring.type) for op in find(module, tile.RingOp)]
    assert rings == ["!gpu.ring<2>"] * 3


def test_heads_of_256_are_not_walked_over_twice() -> None:
    planned = printed(passed(region("causal 256"), "plan-select", arch="sm_90a"))
    text = planned.replace('= "streaming_softmax"', '= "streaming_softmax_2pass"', 1)
    message = (
        "plan 'tma' walks over the keys twice by wgmma, and threads have registers for that with "
        "heads of 192 features, not of 256; walk once, or use mma.sync"
    )
    assert_refused(text, "BadPlan", message, "plan.schedule", "region-to-gpu")
