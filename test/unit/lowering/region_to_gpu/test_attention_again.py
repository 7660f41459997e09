"""Sums that are computed again: what is not finite in V reaches the queries that see it (S0.6).

The reference is the playback of the graph, which computes attention as a reduction over the keys
that the mask allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects import arith, scf
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import SharedTileOp
from polyc.lowering.region_to_gpu.attention_again import MARK, Again
from polyc.lowering.region_to_gpu.attention_parts import Parts
from polyc.passes.finish import finish
from polyc.playback import tile as playback
from polyc.playback.gpu import simulate
from polyc.rewriting.emit import Emit
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import PROGRAMS, TO_REGION, Array, Attention, passed
from polyc.test.support.gpu_text import find, kernel, only, parsed
from polyc.test.support.turns import examples
from polyc.test.unit.lowering.region_to_gpu.test_attention_kernels import one, tiles
from polyc.tools.play import play

SPECIAL = (np.nan, np.inf, -np.inf)


def kernels(name: str, arch: str, variant: str) -> ModuleOp:
    """A program's kernel of one variant, at the tile level."""
    return one(tiles(name, arch), variant)


def classes(array: Any) -> NDArray[np.int8]:
    """0 where an element is finite, 1 and 2 for the infinities, 3 for NaN."""
    wide = np.asarray(array, np.float32)
    kinds = [np.isnan(wide), np.isposinf(wide), np.isneginf(wide)]
    return np.select(kinds, [3, 1, 2], 0).astype(np.int8)


class Case:
    """A program, inputs whose V is not finite at some places, and what is right for them."""

    def __init__(self, name: str, some: NDArray[np.bool_], seed: int) -> None:
        program = PROGRAMS[name]
        self.sizes = dict(program.sizes[0])
        rng = np.random.default_rng(seed)
        self.inputs = program.inputs(self.sizes, seed)
        clean = self.inputs[2]
        with np.errstate(invalid="ignore"):
            self.inputs[2] = np.where(some, rng.choice(SPECIAL, clean.shape), clean)
            self.inputs[2] = self.inputs[2].astype(clean.dtype)
        graph = parsed(program.text())
        found = play(graph, "attention", list(self.inputs), self.sizes)
        assert found is not None
        self.classes = [classes(array) for array in found]
        without = [*self.inputs]
        without[2] = np.where(some, 0, clean).astype(clean.dtype)
        self.without = meant(graph, without, self.sizes)

    def check(self, outputs: Sequence[Any]) -> None:
        """Every element is of the right class, and a finite one as if all of V were finite."""
        for found, right, kinds in zip(outputs, self.without, self.classes, strict=True):
            np.testing.assert_array_equal(classes(found), kinds)
            exact = np.asarray(right.value).astype(np.asarray(found).dtype)
            assert_agree([np.where(kinds == 0, found, exact)], [right])


def played(module: ModuleOp, case: Case) -> Sequence[Any]:
    """What whole tiles find."""
    with np.errstate(invalid="ignore"):
        found = play(module, "attention", list(case.inputs), case.sizes)
    assert found is not None
    return found


def shape_of_v(name: str) -> tuple[int, ...]:
    return PROGRAMS[name].inputs(PROGRAMS[name].sizes[0])[2].shape


@cache
def at_random(name: str) -> Case:
    """One value in 250 is not finite."""
    return Case(name, np.random.default_rng(5).random(shape_of_v(name)) < 0.004, 5)


@cache
def at_keys(name: str) -> Case:
    """Of a key that the mask hides from some queries, no value is finite."""
    some = np.zeros(shape_of_v(name), np.bool_)
    some[..., MASKS[name], :] = True
    return Case(name, some, 6)


MASKS: dict[str, int] = {
    "causal": 90,
    "causal from the end": 120,
    "window": 130,
    "window to both sides": 310,
    "boolean mask, causal": 30,
    "additive mask": 100,
    "additive mask of a row, causal": 40,
    "both masks": 50,
    "shared heads": 13,
    "shared heads of 40, log-sum-exp": 17,
    "heads of 72 and 40, masked": 60,
    "heads of 8 and 24": 20,
    "log-sum-exp": 28,
    "batches and heads of 128": 33,
    "bf16": 64,
}
"""Programs with masks, and a key of each that some queries see, or none."""

VARIANTS = (("sm_80", "cp_async"), ("sm_80", "scalar"), ("sm_90a", "tma"))


TILED = [
    (*variant, name)
    for i, variant in enumerate(VARIANTS)
    for j, name in enumerate(MASKS)
    if (i + j) % 3 == 0
]
"""Each program with one of the three in turn: loaders differ in nothing that tiles show."""


@pytest.mark.turns(2)
@pytest.mark.parametrize(("arch", "variant", "name"), TILED)
def test_tiles_hide_what_is_not_finite(arch: str, variant: str, name: str) -> None:
    module = kernels(name, arch, variant)
    for case in (at_keys(name), at_random(name)):
        assert any((kinds == 0).any() for kinds in case.classes)
        found = played(module, case)
        case.check(found)


SIMULATED = [
    *((name, "sm_80", "cp_async") for name in ("causal", "both masks", "bf16")),
    *((name, "sm_80", "scalar") for name in ("window", "heads of 72 and 40, masked")),
    *((name, "sm_90a", "tma") for name in ("causal from the end", "window to both sides")),
    *((name, "sm_90a", "tma") for name in ("boolean mask, causal", "additive mask")),
    ("shared heads of 40, log-sum-exp", "sm_90a", "tma"),
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "arch", "variant"), SIMULATED)
def test_threads_hide_what_is_not_finite(name: str, arch: str, variant: str) -> None:
    """No race between the first way and the second, and none within this one."""
    module = kernels(name, arch, variant)
    finish(module)
    for case in (at_keys(name), at_random(name)) if name == "causal" else (at_random(name),):
        result = simulate(only(module, gpu.ModuleOp), case.inputs, case.sizes, seed=4)
        assert not result.findings, "\n".join(map(str, result.findings))
        case.check(result.outputs)


@pytest.mark.turns(1)
@pytest.mark.parametrize(("arch", "variant"), VARIANTS)
@pytest.mark.parametrize("special", SPECIAL, ids=str)
def test_keys_that_no_query_sees_leave_no_trace(arch: str, variant: str, special: float) -> None:
    """Of 150 keys 70 queries see the first 70: of the others nothing is finite."""
    program = PROGRAMS["causal"]
    sizes = dict(program.sizes[0])
    inputs = program.inputs(sizes)
    right = meant(parsed(program.text()), inputs, sizes)
    inputs[2][:, 70:] = special
    module = kernels("causal", arch, variant)
    with np.errstate(invalid="ignore"):
        found = play(module, "attention", list(inputs), sizes)
    assert found is not None
    assert_agree(list(found), right)


@pytest.mark.parametrize(("arch", "variant"), VARIANTS)
def test_a_query_that_is_not_finite_is_no_matter_of_the_others(arch: str, variant: str) -> None:
    """Its own sums are NaN, in both ways; V is finite, and the second way finds the same."""
    program = PROGRAMS["causal from the end"]
    sizes = dict(program.sizes[0])
    inputs = program.inputs(sizes)
    right = meant(parsed(program.text()), inputs, sizes)
    inputs[0][1, 33, 5] = np.nan
    with np.errstate(invalid="ignore"):
        found = play(kernels("causal from the end", arch, variant), "attention", inputs, sizes)
    assert found is not None
    hit = np.zeros(found[0].shape, np.bool_)
    hit[1, 33] = True
    np.testing.assert_array_equal(np.isnan(found[0]), hit)
    exact = np.asarray(right[0].value).astype(found[0].dtype)
    assert_agree([np.where(hit, exact, found[0])], right)


# The marks -----------------------------------------------------------------------------

SMALL = Attention(
    "[1, M, 16]", "[1, N, 16]", "[1, N, 16]", [{"M": 6, "N": 40}], masks=["[M, N], i1"]
)


@cache
def small(arch: str) -> ModuleOp:
    return passed(SMALL.text(), *TO_REGION, "plan-select", "region-to-gpu", arch=arch)


@settings(max_examples=examples(24))
@given(
    st.sampled_from(["sm_80", "sm_90a"]),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    st.sampled_from([0.01, 0.2, 0.9]),
    st.lists(st.sampled_from(SPECIAL), min_size=1, max_size=3),
)
def test_each_sum_is_of_the_class_of_the_values_that_its_query_sees(
    arch: str, seed: int, seen: float, some: float, kinds: list[float]
) -> None:
    """Random masks, V and kinds of what is not finite, against NumPy."""
    (sizes,) = SMALL.sizes
    inputs = SMALL.inputs(sizes, seed % 1000)
    rng = np.random.default_rng(seed)
    inputs[3] = mask = rng.random((6, 40)) < seen
    v = inputs[2].astype(np.float32)
    v = np.where(rng.random(v.shape) < some, rng.choice(kinds, v.shape), v)
    inputs[2] = v.astype(np.float16)
    with np.errstate(invalid="ignore"):
        found = play(small(arch), "attention", list(inputs), dict(sizes))
    assert found is not None

    def any_seen(which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return (mask[:, :, None] & which[0][None]).any(axis=1)

    nan, up, down = (any_seen(f(v)) for f in (np.isnan, np.isposinf, np.isneginf))
    wanted = np.select([nan | (up & down), up, down], [3, 1, 2], 0)
    np.testing.assert_array_equal(classes(found[0])[0], wanted)
    np.testing.assert_array_equal(found[0][0][~mask.any(axis=1)], 0)


IDENTITY = kernel(
    """
    %zero = arith.constant 0 : index
    %x = gpu.fragment : !gpu.fragment<[128], f32>
    gpu.copy %X[%zero] to %x : !gpu.global<[M], f32>, !gpu.fragment<[128], f32>
    gpu.map %x : !gpu.fragment<[128], f32> origin [] ins()
        outs(%x : !gpu.fragment<[128], f32> affine_map<(i) -> (i)>) {
    ^bb0(%e: f32):
      gpu.yield %e : f32
    }
    gpu.copy %x to %Y[%zero] : !gpu.fragment<[128], f32>, !gpu.global<[M], f32>""",
    "%X: !gpu.global<[M], f32> = tensor 0, %Y: !gpu.global<[M], f32> = tensor 1",
    symbols="M",
    dispatch="""
  gpu.dispatch (X: !gpu.global<[M], f32>) -> (Y: !gpu.global<[M], f32>) {
    gpu.launch @k align [4, 4] grid [1]
  }""",
)


def test_what_a_sum_is_by_its_marks() -> None:
    """A mark of +inf or NaN, and up to 2^23 - 1 ones of -inf or NaN; both at once are NaN."""
    module = parsed(IDENTITY)
    block = only(module, tile.MapOp).body.block
    emit = Emit()
    again = object.__new__(Again)
    again.parts = object.__new__(Parts)
    again.parts.zero = Parts.number(emit, 0.0)
    again.parts.none = Parts.number(emit, -np.inf)
    values = again.value_of_marks(emit, block.args[0])
    (end,) = block.ops
    Rewriter.insert_op([*emit.ops, tile.YieldOp(values)], InsertPoint.before(end))
    Rewriter.erase_op(end)
    module.verify()
    counts = [0, 1, 2, 1000, 2**22 + 1, 2**23 - 1]
    marked = np.array([a * MARK + count for a in (0, 1) for count in counts], np.float32)
    (found,) = playback.run(only(module, gpu.ModuleOp), [marked], {"M": marked.size})
    wanted = [0.0, *[-np.inf] * 5, np.inf, *[np.nan] * 5]
    np.testing.assert_array_equal(found, np.array(wanted, np.float32))


# When ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("arch", "variant"), VARIANTS)
def test_without_a_mask_nothing_is_asked(arch: str, variant: str) -> None:
    for name, asked in (("full", 0), ("one head of keys", 0), ("causal", 1), ("both masks", 1)):
        module = kernels(name, arch, variant)
        assert len(find(module, tile.AnyOp)) == asked, name
        again = [op for op in find(module, SharedTileOp) if "again" in str(op.tile.name_hint)]
        assert len(again) == 2 * asked


def never(module: ModuleOp) -> ModuleOp:
    """The kernel that never computes its sums again."""
    said_no(only(module, tile.AnyOp).result)
    return module


def said_no(value: SSAValue) -> None:
    """Nothing has the condition any more."""
    no = arith.ConstantOp.from_int_and_width(0, 1)
    assert isinstance(value.owner, Operation)
    Rewriter.insert_op(no, InsertPoint.after(value.owner))
    value.replace_all_uses_with(no.result)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("arch", "variant", "name"),
    [("sm_80", "cp_async", "causal"), ("sm_90a", "tma", "causal from the end")],
)
def test_finite_values_cost_a_look(arch: str, variant: str, name: str) -> None:
    """No product more than of a kernel that never computes again, and no byte of V; else there is.

    One CTA of one tile has what is not finite: the others do not compute again.
    """
    program = PROGRAMS[name]
    sizes = dict(program.sizes[0])
    inputs = program.inputs(sizes)

    def counted(module: ModuleOp, given: Sequence[Array]) -> tuple[int, int, int]:
        finish(module)
        result = simulate(only(module, gpu.ModuleOp), given, sizes)
        counters = result.counters
        return counters.mma + counters.wgmma, counters.cp_async_bytes, counters.global_read_bytes

    least = counted(never(kernels(name, arch, variant)), inputs)
    assert counted(kernels(name, arch, variant), inputs) == least
    inputs[2][1, 60, 7] = np.inf
    once = counted(kernels(name, arch, variant), inputs)
    assert all(more > few for more, few in zip(once, least, strict=True))
    inputs[2][:, 60, 7] = np.inf
    twice = counted(kernels(name, arch, variant), inputs)
    assert twice[0] - least[0] == 2 * (once[0] - least[0])


# What each part of the second way is for -------------------------------------------------


def comparisons(branch: scf.IfOp) -> Sequence[SSAValue]:
    """What is asked of the values of V in the three walks, in their order."""
    maps = [op for op in find(branch, tile.MapOp) if op.space.name_hint == "loaded"]
    found = [only(op, arith.CmpfOp).result for op in maps]
    assert len(found) == 3
    return found


def marks(branch: scf.IfOp) -> Sequence[SSAValue]:
    """What is asked first of the marks of one infinity, and of those of both."""
    maps = [op for op in find(branch, tile.MapOp) if op.space.name_hint == "out"]
    assert len(maps) == 2
    return [find(op, arith.CmpfOp)[0].result for op in maps]


def changed(branch: scf.IfOp) -> SSAValue:
    """Whether a step of the last walk hides a key."""
    steps = find(find(branch, scf.ForOp)[-1], scf.IfOp)
    (found,) = [op for op in steps if only(op, tile.MapOp).space.name_hint == "loaded"]
    return found.cond


PARTS: dict[str, Callable[[scf.IfOp], SSAValue]] = {
    "+inf and NaN are marked": lambda branch: comparisons(branch)[0],
    "-inf and NaN are marked": lambda branch: comparisons(branch)[1],
    "V is changed": lambda branch: comparisons(branch)[2],
    "V is changed where a step hides a key": changed,
    "many marks are one": lambda branch: marks(branch)[0],
    "marks become values": lambda branch: marks(branch)[1],
}


@pytest.mark.parametrize(("arch", "variant"), [VARIANTS[0], VARIANTS[2]])
@pytest.mark.parametrize("part", PARTS)
def test_without_a_part_of_it_a_sum_is_wrong(arch: str, variant: str, part: str) -> None:
    case = at_random("causal")
    module = kernels("causal", arch, variant)
    case.check(played(module, case))
    (use,) = only(module, tile.AnyOp).result.uses
    assert isinstance(use.operation, scf.IfOp)
    said_no(PARTS[part](use.operation))
    module.verify()
    with pytest.raises(AssertionError):
        case.check(played(module, case))


def test_without_the_second_way_a_sum_is_wrong() -> None:
    case = at_keys("causal")
    with pytest.raises(AssertionError):
        case.check(played(never(kernels("causal", "sm_80", "cp_async")), case))


# Scores of hidden keys that are not finite -------------------------------------------------------

ROW = "additive mask of a row, causal"


@cache
def hidden_by_a_bias() -> tuple[list[Array], dict[str, int]]:
    """Keys that a bias of -inf hides from all queries, of which K and V are not finite; and a value
    of a key that is seen."""
    sizes = dict(PROGRAMS[ROW].sizes[0])
    q, k, v, bias = (array.copy() for array in PROGRAMS[ROW].inputs(sizes, 3))
    bias[..., 7], bias[..., 40] = -np.inf, -np.inf
    k[..., 7, :], k[..., 40, 1], v[..., 40, :] = np.nan, np.inf, np.nan
    v[..., 60, 2] = np.inf
    return [q, k, v, bias], sizes


@pytest.mark.parametrize(("arch", "variant"), VARIANTS)
def test_scores_of_keys_that_a_bias_hides_leave_no_trace(arch: str, variant: str) -> None:
    """The ordinary path adds the bias alone: a NaN there has maxima and sums found again."""
    inputs, sizes = hidden_by_a_bias()
    module = kernels(ROW, arch, variant)
    with np.errstate(invalid="ignore"):
        found = play(module, "attention", list(inputs), sizes)
        wanted = meant(parsed(PROGRAMS[ROW].text()), inputs, sizes)
    assert found is not None and not np.isnan(np.asarray(found[0], np.float32)).any()
    assert_agree(list(found), wanted)


def test_threads_find_maxima_and_sums_again() -> None:
    inputs, sizes = hidden_by_a_bias()
    module = kernels(ROW, "sm_90a", "tma")
    finish(module)
    with np.errstate(invalid="ignore"):
        result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
        wanted = meant(parsed(PROGRAMS[ROW].text()), inputs, sizes)
    assert not result.findings
    assert_agree(list(result.outputs), wanted)


def test_the_ordinary_path_chooses_no_score_by_a_bias() -> None:
    """It is one fused addition to the scaled products; a mask that is a condition is asked."""
    (step,) = find(kernels(ROW, "sm_90a", "tma"), tile.PipelineOp)
    scored = next(op for op in find(step, tile.MapOp) if op.outputs[0] is op.space)
    assert find(scored, math_ops.FmaOp) and not find(scored, arith.AddfOp)
    assert not find(scored, arith.CmpfOp) and not find(scored, arith.SelectOp)
    (step,) = find(kernels("both masks", "sm_90a", "tma"), tile.PipelineOp)
    scored = next(op for op in find(step, tile.MapOp) if op.outputs[0] is op.space)
    assert find(scored, arith.SelectOp)
