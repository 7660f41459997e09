"""Kernels of attention against their regions: in tiles, thread by thread, and through NVRTC."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import place_of
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.plan import ScheduleOp
from polyc.families.attention.variants import VARIANTS
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback.estimate import Estimate
from polyc.playback.gpu import simulate
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import (
    PROGRAMS,
    TO_REGION,
    Array,
    heads_in_rows,
    heads_of,
    in_rows_of_64,
    in_two_walks,
    passed,
    rows_of_heads,
)
from polyc.test.support.gpu_text import find, only, parsed, printed
from polyc.tools.play import play

NAMES = ["cp_async", "scalar"]
SIMULATED = [
    "full",
    "no key",
    "no query",
    "causal from the end",
    "window to both sides",
    "additive mask of a row, causal",
    "boolean mask, causal",
    "log-sum-exp",
    "bf16",
    "one head of keys",
    "heads of 48 and 80",
    "heads of 40",
    "heads of 8 and 24",
    "heads of 72 and 40, masked",
    "shared heads of 40, log-sum-exp",
]
BOTH = ("full", "causal from the end", "heads of 72 and 40, masked")
"""Programs that every variant is run on, thread by thread."""

NARROW_SWIZZLE = ("heads of 48 and 80", "heads of 72 and 40, masked")
"""Rows that are no multiple of 128 bytes have several panels of fewer, which begin in one bank."""

COMPILED = [
    *(("sm_80", name) for name in ("causal from the end", "both masks", "log-sum-exp")),
    *(("sm_80", name) for name in ("batches and heads of 128", "heads of 64 and 256")),
    ("sm_90a", "causal from the end"),
    ("sm_90a", "batches and heads of 128"),
]


@cache
def text(name: str) -> str:
    """The region of a program; its tensors start at any element, so that every variant is there."""
    return printed(PROGRAMS[name].region()).replace("align 16", "align 2")


@cache
def _tiles(name: str, arch: str) -> ModuleOp:
    return passed(text(name), "plan-select", "region-to-gpu", arch=arch)


def tiles(name: str, arch: str) -> ModuleOp:
    """The program's kernels at the tile level, to be changed."""
    module = _tiles(name, arch)
    copy = module.clone()
    for old, new in zip(module.walk(), copy.walk(), strict=True):
        new.location = old.location
    return copy


def one(module: ModuleOp, variant: str) -> ModuleOp:
    """The module with one variant alone."""
    for op in [*find(module, KernelOp), *only(module, gpu.DispatchOp).launches()]:
        name = op.sym_name.data if isinstance(op, KernelOp) else op.kernel_name
        if not name.endswith(variant):
            op.detach()
    return module


def wanted(name: str, inputs: list[Array], sizes: dict[str, int]) -> list[Estimate]:
    return meant(parsed(PROGRAMS[name].text()), inputs, sizes)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("arch", "variant", "name"),
    [
        kind
        for i, name in enumerate(PROGRAMS)
        for kind in (("sm_80", NAMES[i % 2], name), ("sm_90a", "tma", name))
        if kind[0] == "sm_90a" or name not in SIMULATED  # there threads play the tiles
    ],
)
def test_tiles_of_every_variant_give_what_the_region_does(
    arch: str, variant: str, name: str
) -> None:
    """Both variants of sm_80 are one kernel in tiles but for a loader: each program takes one."""
    program = PROGRAMS[name]
    module = one(tiles(name, arch), variant)
    (launch,) = only(module, gpu.DispatchOp).launches()
    for sizes in program.sizes:
        if not all(fact.holds(sizes) for fact in launch.when.data):
            assert variant == "tma" and 0 in sizes.values()
            continue
        inputs = program.inputs(sizes)
        right = wanted(name, inputs, dict(sizes))
        found = play(module, "attention", inputs, dict(sizes))
        assert found is not None
        assert_agree(list(found), right)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "variant"),
    [
        (name, variant)
        for i, name in enumerate(SIMULATED)
        for j, variant in enumerate(NAMES)
        if name in BOTH or i % 2 == j
    ],
)
def test_threads_give_what_the_region_does(name: str, variant: str) -> None:
    """No race, no access outside, no wait that is missing, no bank conflict.

    Variants differ in how they load: a loader meets masks, narrow heads, and sizes of 0 or more.
    """
    program = PROGRAMS[name]
    module = one(tiles(name, "sm_80"), variant)
    finish(module)
    for sizes in program.sizes:
        inputs = program.inputs(sizes, seed=1)
        result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
        assert not result.findings, "\n".join(map(str, result.findings))
        assert_agree(list(result.outputs), wanted(name, inputs, dict(sizes)))
        if variant == "cp_async" and name not in NARROW_SWIZZLE:
            assert result.counters.bank_conflicts == 0


def test_mutants_of_a_kernel_are_caught() -> None:
    """Copies, waits and barriers that are left out, and numbers that are wrong."""
    name, sizes = "causal from the end", {"H": 1, "M": 70, "N": 150}
    module = one(tiles(name, "sm_80"), "cp_async")
    finish(module)
    lowered, inputs = only(module, gpu.ModuleOp), PROGRAMS[name].inputs(sizes)
    case = Case.of(lowered, None, sizes, inputs, wanted(name, inputs, sizes))
    found = mutants(lowered)
    flow = [m for m in found if m.op in ("gpu.cp_async_wait", "gpu.cp_async_commit", "gpu.barrier")]
    chosen = [*flow, *found[:: len(found) // 4]]
    survived = [v for v in (judge(m, [case]) for m in chosen) if v.outcome == "survived"]
    assert not survived, "\n".join(str(v.mutant) for v in survived)


@pytest.mark.turns(2)
@pytest.mark.parametrize(("arch", "name"), COMPILED)
def test_kernels_compile_without_a_spill(arch: str, name: str) -> None:
    module = tiles(name, arch)
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


HEADS = (8, 40, 72, 120, 136, 248)
"""Heads that no step of tensor cores has."""


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("arch", "variant", "features"),
    # In turn, and the widest on both.
    [(*(("sm_80", "cp_async"), ("sm_90a", "tma"))[i % 2], n) for i, n in enumerate(HEADS)]
    + [("sm_80", "cp_async", HEADS[-1])],
)
def test_heads_that_no_step_of_tensor_cores_has_compile_without_a_spill(
    arch: str, variant: str, features: int
) -> None:
    text = heads_of(features, " causal").text()
    module = passed(text, *TO_REGION, "plan-select", "region-to-gpu", arch=arch)
    one(module, variant)
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    ((kernel, info),) = result.kernels.items()
    assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


def simulated(
    module: ModuleOp, inputs: Sequence[Array], sizes: dict[str, int], right: Sequence[Estimate]
) -> None:
    """In tiles and thread by thread the module gives what is right."""
    found = play(module, "attention", list(inputs), sizes)
    assert found is not None
    assert_agree(list(found), list(right))
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    assert not result.findings, "\n".join(map(str, result.findings))
    assert_agree(list(result.outputs), list(right))


@pytest.mark.turns(3)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("arch", VARIANTS)
def test_heads_that_follow_one_another_in_a_row(arch: str, packed: bool) -> None:
    graph = heads_in_rows(packed)
    sizes = {"B": 2, "M": 70, "H": 3}
    inputs = rows_of_heads(packed, 64, sizes)
    module = passed(graph, *TO_REGION, "plan-select", "region-to-gpu", arch=arch)
    simulated(module, inputs, sizes, meant(parsed(graph), inputs, sizes))


@pytest.mark.turns(3)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("arch", VARIANTS)
@pytest.mark.parametrize("features", [40, 80, 112])
def test_what_is_not_finite_in_the_head_beside_stays_there(
    arch: str, packed: bool, features: int
) -> None:
    """Tiles are wider than heads of 40, and than those of 112 where TMA brings them; what fills
    them are zeros, in Q as in K."""
    graph = heads_in_rows(packed, features)
    sizes = {"B": 1, "M": 70, "H": 3}
    inputs = rows_of_heads(packed, features, sizes)
    for number, array in enumerate(inputs):
        heads = array.reshape(1, 70, -1, 3, features)
        heads[..., 0, :], heads[..., 2, :] = np.nan, (np.inf, -np.inf, np.nan)[number]
    module = passed(graph, *TO_REGION, "plan-select", "region-to-gpu", arch=arch)
    clean = [np.where(np.isfinite(array), array, 0).astype(np.float16) for array in inputs]
    right = [value[:, 1:2] for value in meant(parsed(graph), clean, sizes)]
    with np.errstate(invalid="ignore"):
        played = play(module, "attention", inputs, sizes)
        finish(module)
        result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    assert not result.findings, "\n".join(map(str, result.findings))
    assert played is not None
    for found in (*played, *result.outputs):
        assert_agree([found[:, 1:2]], right)


@pytest.mark.turns(2)
@pytest.mark.parametrize("features", [80, 144, 208])
def test_tiles_of_whole_rows_hold_narrower_heads(features: int) -> None:
    """What TMA brings beyond a head are zeros, and no output has them."""
    program, sizes = heads_of(features), {"H": 2, "M": 70, "N": 90}
    inputs = program.inputs(sizes)
    module = passed(program.text(), *TO_REGION, "plan-select", "region-to-gpu", arch="sm_90a")
    plans = find(passed(program.text(), *TO_REGION, "plan-select", arch="sm_90a"), ScheduleOp)
    (wide,) = {plan.tile_sizes[2] for plan in plans if plan.loader.data == "tma"}
    assert wide == {80: 96, 144: 192, 208: 256}[features]
    simulated(module, inputs, sizes, meant(parsed(program.text()), inputs, sizes))


@pytest.mark.parametrize("arch", VARIANTS)
def test_columns_of_v_beside_a_head_are_of_no_output(arch: str) -> None:
    program = heads_of(40)
    sizes = {"H": 2, "M": 20, "N": 90}
    q, k, v = program.inputs(sizes)
    rows = np.full((2, 90, 64), np.nan, np.float16)
    rows[:, :, :40] = v
    right = meant(parsed(program.text()), [q, k, v], sizes)
    module = passed(in_rows_of_64("v"), "plan-select", "region-to-gpu", arch=arch)
    with np.errstate(invalid="ignore"):
        simulated(module, [q, k, rows], sizes, right)


# What a kernel does ------------------------------------------------------------------------------


def first(name: str) -> KernelOp:
    return only(tiles(name, "sm_80"), gpu.ModuleOp).kernels()[0]


def test_masks_are_applied_where_they_cut_a_tile() -> None:
    for name in ("full", "causal", "window"):
        pipeline = only(first(name), tile.PipelineOp)
        (cut,) = find(pipeline, scf.IfOp)
        assert len(find(cut, tile.MapOp)) == 1
    assert not find(only(first("even sizes"), tile.PipelineOp), scf.IfOp)


def test_a_score_that_is_more_than_a_scale_is_mapped() -> None:
    """A scale alone goes into the exponent; else there is one map more, which reads the mask."""
    maps = {n: find(only(first(n), tile.PipelineOp), tile.MapOp) for n in ("full", "additive mask")}
    assert len(maps["additive mask"]) == len(maps["full"]) + 1
    read = [m for m in maps["additive mask"] if m.inputs and m.inputs[0].name_hint == "mask0"]
    assert len(read) == 1 and len(read[0].inputs) in (1, 2)


def test_keys_that_no_query_of_a_tile_sees_are_not_walked_over() -> None:
    """At 300 positions and a window of 41, a tile of 64 queries walks over at most 3 of keys."""
    program = PROGRAMS["window"]
    module = one(tiles("window", "sm_80"), "cp_async")
    finish(module)
    (sizes,) = program.sizes
    result = simulate(only(module, gpu.ModuleOp), program.inputs(sizes), sizes)
    rows = 64 + 64 * 2
    steps = result.counters.cp_async_bytes / (rows * 64 * 2)
    assert steps <= 5 * 2.5


def test_kernels_keep_places() -> None:
    """Every op says where in the text its source stands."""
    module = tiles("log-sum-exp", "sm_80")
    for op in module.walk():
        place = place_of(op.location)
        assert place is not None and place.line, op.name


# Two passes --------------------------------------------------------------------------------------

TWO_PASSES = [
    "full",
    "no key",
    "causal from the end",
    "window to both sides",
    "both masks",
    "log-sum-exp",
    "bf16",
    "heads of 72 and 40, masked",
]


@cache
def in_two(name: str, arch: str = "sm_80") -> ModuleOp:
    """The kernel of cp_async that takes the keys twice, at the tile level; not to be changed."""
    return in_two_walks(text(name), "cp_async", arch)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", TWO_PASSES)
def test_two_passes_give_what_the_region_does(name: str) -> None:
    program = PROGRAMS[name]
    module = in_two(name).clone()
    finish(module)
    for seed, sizes in enumerate(program.sizes):
        inputs = program.inputs(sizes, seed)
        result = simulate(only(module, gpu.ModuleOp), inputs, sizes, seed=seed)
        assert not result.findings, "\n".join(map(str, result.findings))
        assert_agree(list(result.outputs), wanted(name, inputs, dict(sizes)))


SPILLED = pytest.mark.xfail(
    reason="ptxas keeps three numbers in memory from before the loops to the end", strict=True
)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("arch", "name"),
    [
        *(("sm_80", name) for name in ("full", "causal from the end", "both masks")),
        *(("sm_90a", name) for name in ("full", "both masks")),
        pytest.param("sm_90a", "causal from the end", marks=SPILLED),
    ],
)
def test_two_passes_compile_without_a_spill(arch: str, name: str) -> None:
    module = in_two(name, arch).clone()
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    (info,) = result.kernels.values()
    assert (info.spill_bytes, info.stack) == (0, 0)


def test_the_second_pass_scales_nothing() -> None:
    """The first has one product and no values; the second has no maximum and no factor."""
    first, second = find(in_two("full"), tile.PipelineOp)
    assert len(find(first, tile.ContractOp)) == 1 and len(find(second, tile.ContractOp)) == 2
    assert [op.kind.data for op in find(first, tile.ReduceOp)] == ["max", "sum"]
    assert not find(second, tile.ReduceOp)
    (sums,) = {op.acc for op in find(second, tile.ContractOp)[1:]}
    assert not [op for op in find(second, tile.MapOp) if sums in op.outputs]
