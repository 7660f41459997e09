"""Attention of f32 by threads: in tiles, thread by thread, where V is not finite, and by NVRTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.attention.recognise import find_attention
from polyc.families.attention.schedules import schedules
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import (
    PROGRAMS,
    TO_REGION,
    Attention,
    passed,
)
from polyc.test.support.gpu_text import find, only, parsed, printed
from polyc.test.unit.lowering.region_to_gpu.test_attention_kernels import one
from polyc.tools.play import play

NAMES = (
    "full",
    "causal from the end",
    "window to both sides",
    "additive mask of a row, causal",
    "boolean mask, causal",
    "log-sum-exp",
    "one head of keys",
    "heads of 48 and 80",
    "heads of 72 and 40, masked",
    "batches and heads of 128",
)
EXACT: Mapping[str, Attention] = {name: replace(PROGRAMS[name], element="f32") for name in NAMES}
VARIANTS = ("fma", "fma_any")
HIDING = ("causal from the end", "boolean mask, causal", "heads of 72 and 40, masked")


@cache
def _tiles(name: str, arch: str) -> str:
    text = printed(EXACT[name].region()).replace("align 16", "align 4")
    return printed(passed(text, "plan-select", "region-to-gpu", arch=arch))


def tiles(name: str, variant: str, arch: str = "sm_80") -> ModuleOp:
    """A program's kernel of one variant, at the tile level; its tensors start at any element."""
    return one(parsed(_tiles(name, arch)), f"_{variant}")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", NAMES)
def test_one_kernel_by_threads(name: str, arch: str) -> None:
    """No tensor core rounds a factor, and nothing of the scores' size is stored."""
    module = passed(EXACT[name].text(), *TO_REGION, "plan-select", arch=arch)
    plans = find(module, ScheduleOp)
    assert {plan.mma.data for plan in plans} == {"fma"}
    assert len({plan.region for plan in plans}) == 1


def coarse(heads: str, positions: str, features: int, options: str = "") -> str:
    """Attention whose products may be of TF32."""
    kind = f"!frontend.tensor<[{heads}, {positions}, {features}], f32>"
    return f"""frontend.graph @attention(%q: {kind}, %k: {kind}, %v: {kind}) -> {kind} {{
  %0 = frontend.attention %q, %k, %v{options} {{acc = f32, precision = "tf32"}}
    : ({kind}, {kind}, {kind}) -> {kind}
  frontend.output %0 : {kind}
}}
"""


@pytest.mark.parametrize(
    ("heads", "positions", "features", "kernels"),
    [
        ("4", "512", 64, ["wgmma", "none", "wgmma"]),
        ("4", "512", 128, ["wgmma", "none", "wgmma"]),
        ("4", "512", 32, ["fma"]),  # stored scores would take as long
        ("32", "8192", 64, ["fma"]),  # 8 GiB of them
        ("H", "M", 64, ["fma"]),  # nobody knows how many
    ],
)
def test_products_that_may_be_of_tf32_are_kernels_of_their_own_where_that_pays(
    heads: str, positions: str, features: int, kernels: list[str]
) -> None:
    text = coarse(heads, positions, features)
    plans = find(passed(text, *TO_REGION, "plan-select", arch="sm_90a"), ScheduleOp)
    first = {plan.region.string_value(): plan.mma.data for plan in reversed(plans)}
    assert list(reversed(first.values())) == kernels


@pytest.mark.parametrize("options", ["", " causal"])
@pytest.mark.parametrize(("heads", "positions"), [("2", "72"), ("H", "M")])
def test_products_of_tf32_are_as_precise_as_they_have_to_be(
    heads: str, positions: str, options: str
) -> None:
    """Where each is a kernel, and in one kernel, which is exact."""
    text = coarse(heads, positions, 64, options)
    sizes = {"H": 2, "M": 72} if heads == "H" else {}
    rng = np.random.default_rng(5)
    inputs = [rng.standard_normal((2, 72, 64)).astype(np.float32) for _ in range(3)]
    right = meant(parsed(text), inputs, sizes)
    module = passed(text, *TO_REGION, arch="sm_90a")
    for stage in ((), ("plan-select", "region-expand-together", "region-to-gpu")):
        if stage:
            module = passed(printed(module), *stage, arch="sm_90a")
        found = play(module, "attention", list(inputs), sizes)
        assert found is not None
        assert_agree(list(found), right)


@pytest.mark.turns(3)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_tiles_give_what_the_region_does(name: str, variant: str) -> None:
    program, module = EXACT[name], tiles(name, variant)
    for sizes in program.sizes:
        inputs = program.inputs(sizes)
        right = meant(parsed(program.text()), inputs, dict(sizes))
        found = play(module, "attention", inputs, dict(sizes))
        assert found is not None
        assert_agree(list(found), right)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "variant"), [(name, VARIANTS[i % 2]) for i, name in enumerate(NAMES)]
)
def test_threads_give_what_the_region_does(name: str, variant: str) -> None:
    """No race, no access outside, no wait that is missing."""
    program, module = EXACT[name], tiles(name, variant)
    finish(module)
    for sizes in program.sizes:
        inputs = program.inputs(sizes, seed=1)
        result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
        assert not result.findings, "\n".join(map(str, result.findings))
        right = meant(parsed(program.text()), inputs, dict(sizes))
        assert_agree(list(result.outputs), right)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", HIDING)
def test_keys_that_are_hidden_leave_no_trace(name: str) -> None:
    """What is not finite at a key that a query does not see is not in its sums, and is in those of
    the queries that see it."""
    program, module = EXACT[name], tiles(name, "fma")
    sizes = dict(program.sizes[0])
    inputs = program.inputs(sizes)
    inputs[2][..., 30, 1] = np.inf
    with np.errstate(invalid="ignore"):
        graph = play(parsed(program.text()), "attention", list(inputs), sizes)
        found = play(module, "attention", list(inputs), sizes)
    assert graph is not None and found is not None
    kinds = np.isfinite(graph[0])
    assert kinds.any() and not kinds.all()
    np.testing.assert_array_equal(np.isfinite(found[0]), kinds)
    clean = [*inputs]
    clean[2] = np.where(np.isfinite(inputs[2]), inputs[2], np.float32(0))
    right = meant(parsed(program.text()), clean, sizes)
    exact = np.asarray(right[0].value).astype(np.float32)
    assert_agree([np.where(kinds, found[0], exact)], right[:1])


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "name",
    [
        "full",
        "causal from the end",
        "additive mask of a row, causal",
        "log-sum-exp",
        "batches and heads of 128",
        "heads of 48 and 80",
    ],
)
def test_kernels_compile_without_a_spill(name: str, arch: str) -> None:
    module = parsed(_tiles(name, arch))
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


def test_one_query_is_no_tile_of_threads() -> None:
    program = Attention("[H, 1, 64]", "[H, N, 64]", "[H, N, 64]", [], element="f32")
    attention = find_attention(only(program.whole(), KernelOp))
    with pytest.raises(PolycError, match="it has 1 queries of f32, of which threads multiply 16"):
        schedules(attention, "sm_90a")
