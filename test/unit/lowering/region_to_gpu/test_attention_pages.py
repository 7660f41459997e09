"""Attention over keys in pages: every layer, in tiles, thread by thread, and through NVRTC."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.region import KernelOp as Region
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support import few_programs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import TO_REGION, passed
from polyc.test.support.few_programs import in_pages, planned
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.paged_programs import HOSTILE, Paged, drawn
from polyc.tools.play import play

SIZES = {"B": 2, "P": 5, "J": 3}


def plan(rows: int, keys: int, features: int, parts: int, **more: Any) -> dict[str, Any]:
    return few_programs.plan(rows, keys, (features, features), parts, **more)


def agree(program: Paged, module: ModuleOp, sizes: Mapping[str, int], inputs: list[Any]) -> None:
    """At every layer down to threads there is what the graph says, and no fault."""
    right = meant(parsed(program.text()), inputs, dict(sizes))
    found = play(module, "attention", list(inputs), dict(sizes))
    assert found is not None
    assert_agree(list(found), right)
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, dict(sizes))
    assert not result.findings, "\n".join(map(str, result.findings))
    assert_agree(list(result.outputs), right)


ALONE = {"algo_choice": {"attention": "streaming_softmax"}}

CASES: dict[str, tuple[Paged, str, dict[str, Any], Mapping[str, int]]] = {
    "two pages a step": (Paged(16), "sm_80", plan(16, 32, 64, 2), SIZES),
    "four pages a step, of bf16": (
        Paged(16, element="bf16", index="i64"),
        "sm_90a",
        plan(16, 64, 64, 1),
        SIZES,
    ),
    "two steps a page, heads outside": (
        Paged(64, tokens=False),
        "sm_90a",
        plan(16, 32, 64, 3),
        {**SIZES, "J": 2},
    ),
    "a page a step, zeros where there is none": (
        Paged(32, mode="fill 0.0"),
        "sm_80",
        plan(16, 32, 64, 2),
        SIZES,
    ),
    "pages whose sizes are no power of 2": (
        Paged(48, index="i64", mode="fill 0.0"),
        "sm_90a",
        plan(16, 16, 64, 2),
        {**SIZES, "J": 2},
    ),
    "lengths": (Paged(16, lengths="lt"), "sm_80", plan(16, 32, 64, 2), {**SIZES, "B": 3}),
    "lengths that are seen, in parts of steps": (
        Paged(64, lengths="le", index="i64", tokens=False),
        "sm_90a",
        plan(16, 32, 64, 3),
        {**SIZES, "B": 3, "J": 2},
    ),
    "few queries, which see what is before them": (
        Paged(16, queries="M", options=" causal offset J * 16 - M"),
        "sm_80",
        plan(16, 32, 64, 2),
        {**SIZES, "M": 5},
    ),
    "heads of 40 of their own": (
        Paged(16, heads=2, features=40),
        "sm_80",
        plan(16, 32, 64, 2, **ALONE),
        SIZES,
    ),
    "pages of 4": (Paged(4), "sm_80", plan(16, 32, 64, 2), {**SIZES, "J": 11}),
    "pages of 2, of heads outside": (
        Paged(2, tokens=False, lengths="le"),
        "sm_90a",
        plan(16, 16, 64, 2),
        {**SIZES, "J": 19},
    ),
    "a token each": (
        Paged(None, index="i64", mode="from_end fill 0.0"),
        "sm_80",
        plan(16, 16, 64, 2),
        {**SIZES, "J": 37, "P": 50},
    ),
    "heads in a row": (Paged(16, in_rows=True), "sm_90a", plan(16, 32, 64, 2), SIZES),
    "no page": (Paged(16), "sm_80", plan(16, 32, 64, 2), {**SIZES, "P": 0}),
    "no key": (Paged(16, lengths="lt"), "sm_90a", plan(16, 32, 64, 2), {**SIZES, "J": 0}),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_kernels_give_what_the_graph_says_whatever_the_table_does(
    name: str, tmp_path: Path
) -> None:
    program, arch, given, sizes = CASES[name]
    module = planned(program, arch, tmp_path, given)
    assert len(find(module, KernelOp)) == (2 if given["split_k"] > 1 else 1)
    agree(program, module, sizes, program.inputs(sizes, 3, HOSTILE))


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", [1, 4, 13])
def test_attentions_drawn_at_random_give_what_the_graph_says(number: int, tmp_path: Path) -> None:
    """Of the class that ``test/gpu/test_paged.py`` draws more and longer ones of."""
    paged = drawn(number, longest=97, widest=64)
    module = in_pages(paged, ("sm_80", "sm_90a")[number % 2], tmp_path)
    with np.errstate(all="ignore"):
        agree(paged.program, module, paged.sizes, paged.inputs(number))


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    "program",
    [
        Paged(16, lengths="lt"),
        Paged(64, tokens=False, mode="fill 0.0"),
        Paged(24),
        Paged(16, mode="fill 1.0"),
    ],
)
def test_every_layer_agrees(program: Paged) -> None:
    """Where the pages are no kernel's too, as those of few tokens."""
    inputs = program.inputs(SIZES, 5, HOSTILE)
    right = meant(parsed(program.text()), inputs, dict(SIZES))
    for number in range(1, len(TO_REGION) + 1):
        module = passed(program.text(), *TO_REGION[:number])
        found = play(module, "attention", list(inputs), dict(SIZES))
        if found is not None:
            assert_agree(list(found), right, TO_REGION[number - 1])


@pytest.mark.turns(2)
@pytest.mark.parametrize("at", [0, 20, 31])
def test_values_of_hidden_keys_leave_no_trace(at: int, tmp_path: Path) -> None:
    """Tokens beyond a length, which share a page with those that are seen, may be anything."""
    program = Paged(16, lengths="lt")
    module = planned(program, "sm_80", tmp_path, plan(16, 32, 64, 2))
    q, k, v, table, _ = program.inputs(SIZES, 7)
    table[:] = np.arange(6).reshape(2, 3) % 5
    v[table[0, at // 16], at % 16, :, ::3], v[table[0, at // 16], at % 16, :, 1::3] = np.inf, np.nan
    inputs = [q, k, v, table, np.array([20, 48], np.int32)]
    wanted = play(parsed(program.text()), "attention", list(inputs), dict(SIZES))
    assert wanted is not None
    finish(module)
    with np.errstate(invalid="ignore"):
        result = simulate(only(module, gpu.ModuleOp), inputs, dict(SIZES))
    assert not result.findings, "\n".join(map(str, result.findings))
    ours, theirs = (np.asarray(x[0], np.float32) for x in (result.outputs, wanted))
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))
    finite = np.isfinite(theirs)
    np.testing.assert_allclose(ours[finite], theirs[finite], atol=4e-3)
    assert np.isfinite(ours[0]).all() == (at >= 20)


def test_a_walk_ends_where_the_length_does(tmp_path: Path) -> None:
    """No page behind it is asked for, and none is copied."""
    program = Paged(16, lengths="lt")
    copied: list[int] = []
    for length in (0, 16, 48):
        module = planned(program, "sm_80", tmp_path, plan(16, 32, 64, 1))
        *inputs, _ = program.inputs(SIZES, 3)
        finish(module)
        given = [*inputs, np.array([length, 0], np.int32)]
        result = simulate(only(module, gpu.ModuleOp), given, dict(SIZES))
        assert not result.findings
        copied.append(result.counters.cp_async_bytes)
    queries = 6 * 64 * 2  # four heads beside each other, and the last two of them
    # An empty sequence asks for nothing; others for whole pages of K and V, of two heads.
    assert copied == [0, queries + 16 * 2 * 2 * 128, queries + 48 * 2 * 2 * 128]


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("arch", "program"),
    [
        ("sm_90a", Paged(16, heads=32, of_keys=8, features=128)),
        ("sm_80", Paged(16, heads=32, of_keys=8, features=128, lengths="lt", element="bf16")),
        ("sm_90a", Paged(64, features=256, lengths="lt", queries="M")),
        ("sm_80", Paged(64, queries="M", options=" causal offset J * 64 - M")),
    ],
)
def test_kernels_compile_without_a_spill(arch: str, program: Paged) -> None:
    module = passed(program.text(), *TO_REGION, "plan-select", arch=arch, few=True)
    passed(module, "region-expand-together", "region-to-gpu", arch=arch)
    assert all(
        copy.loader is None or copy.loader.data != "tma" for copy in find(module, tile.CopyOp)
    )
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


@pytest.mark.parametrize(
    ("program", "kernels"),
    [(Paged(16), 1), (Paged(24), 3), (Paged(16, mode="fill 1.0"), 3), (Paged(48, lengths="le"), 1)],
)
def test_pages_that_a_step_has_are_one_kernels(program: Paged, kernels: int) -> None:
    """Others, and numbers that a copy cannot bring, go through memory."""
    found = find(passed(program.text(), *TO_REGION), Region)
    assert len(found) == kernels or (kernels > 1 and len(found) > 1)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"loader": "register", "vectorize": 1}, "keys and values lie in pages that data picks"),
        ({"tile": [16, 32, 64]}, "which are no whole pages of 48 keys"),
    ],
)
def test_plans_that_no_page_has_are_refused(
    fields: dict[str, Any], why: str, tmp_path: Path
) -> None:
    given = {**plan(16, 16, 64, 1), **fields}
    with pytest.raises(PolycError, match=why):
        planned(Paged(48), "sm_80", tmp_path, given)
