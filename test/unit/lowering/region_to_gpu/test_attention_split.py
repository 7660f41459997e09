"""Tiles of heads that share keys, and CTAs that share a tile's keys, beside the graph (S6.10)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.attention_split import MANY, ROWS
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support import few_programs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import TO_REGION, Attention, passed
from polyc.test.support.few_programs import drawn, planned
from polyc.test.support.gpu_text import find, only, parsed
from polyc.tools.play import play


def attention(heads: int, of_keys: int, queries: str, size: str, **more: Any) -> Attention:
    kv = f"[B, {of_keys}, N, {size}]"
    return Attention(f"[B, {heads}, {queries}, {size}]", kv, kv, [], **more)


def plan(rows: int, keys: int, features: int, parts: int, **more: Any) -> dict[str, Any]:
    return few_programs.plan(rows, keys, (features, features), parts, **more)


def agree(
    program: Attention, module: ModuleOp, sizes: Mapping[str, int], inputs: list[Any] | None = None
) -> None:
    """In tiles and thread by thread the kernels give what the graph says, and race nowhere."""
    inputs = program.inputs(sizes, seed=2) if inputs is None else inputs
    right = meant(parsed(program.text()), inputs, dict(sizes))
    found = play(module, "attention", list(inputs), dict(sizes))
    assert found is not None
    assert_agree(list(found), right)
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, dict(sizes))
    assert not result.findings, "\n".join(map(str, result.findings))
    assert_agree(list(result.outputs), right)


ONE = {"B": 2, "N": 150}
SOME = {"B": 1, "N": 300, "M": 7}
LSE: dict[str, Any] = {"options": " causal offset N - M", "lse": True}

CASES: dict[str, tuple[Attention, str, dict[str, Any], Mapping[str, int]]] = {
    "a token": (attention(8, 2, "1", "64"), "sm_80", plan(16, 32, 64, 4), ONE),
    "a token of bf16": (
        attention(8, 1, "1", "64", element="bf16"),
        "sm_90a",
        plan(16, 32, 64, 3),
        ONE,
    ),
    "more parts than steps": (attention(4, 2, "1", "64"), "sm_80", plan(16, 32, 64, 9), ONE),
    "no key": (
        attention(4, 2, "1", "64", **{"lse": True}),
        "sm_80",
        plan(16, 32, 64, 2),
        {"B": 1, "N": 0},
    ),
    "groups that no tile has whole": (
        attention(6, 2, "M", "64", **LSE),
        "sm_90a",
        plan(16, 32, 64, MANY + 1),
        SOME,
    ),
    "rows of several warps": (
        attention(5, 1, "M", "64", **LSE),
        "sm_80",
        plan(48, 32, 64, 2),
        SOME,
    ),
    "a window": (
        attention(4, 2, "M", "64", options=" window [40, 3] offset N - M"),
        "sm_80",
        plan(16, 32, 64, 3),
        SOME,
    ),
    "masks of data": (
        attention(
            4, 2, "M", "64", options=" cap 2.0", masks=["[B, 4, M, N], f16", "[B, 1, 1, N], i1"]
        ),
        "sm_90a",
        plan(16, 32, 64, 4),
        SOME,
    ),
    "heads of 40": (
        attention(4, 2, "M", "40", options=" causal offset N - M"),
        "sm_80",
        plan(16, 32, 64, 4),
        SOME,
    ),
    "parts of one head": (
        attention(2, 2, "M", "64", options=" causal offset N - M"),
        "sm_80",
        plan(16, 32, 64, 2 * ROWS + MANY, algo_choice={"attention": "streaming_softmax"}),
        SOME,
    ),
    "keys twice": (
        attention(2, 2, "M", "64"),
        "sm_80",
        plan(16, 32, 64, 3, algo_choice={"attention": "streaming_softmax_2pass"}),
        SOME,
    ),
    "a tile that is not parted": (attention(8, 2, "M", "64"), "sm_90a", plan(32, 64, 64, 1), SOME),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_kernels_give_what_the_graph_says(name: str, tmp_path: Path) -> None:
    program, arch, given, sizes = CASES[name]
    module = planned(program, arch, tmp_path, given)
    parts, stored = given["split_k"], find(module, gpu.WorkspaceOp)
    assert len(stored) == (3 if parts > 1 else 0)
    assert len(find(module, KernelOp)) == (2 if parts > 1 else 1)
    agree(program, module, sizes)


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", [5, 9, 11])
def test_attentions_drawn_at_random_give_what_the_graph_says(number: int, tmp_path: Path) -> None:
    """Of the class that ``test/gpu/test_few.py`` draws more and longer ones of."""
    few = drawn(number, longest=97, widest=64)
    module = few.planned(("sm_80", "sm_90a")[number % 2], tmp_path)
    with np.errstate(all="ignore"):
        agree(few.program, module, few.sizes, few.inputs(number))


@pytest.mark.turns(2)
@pytest.mark.parametrize("at", [0, 40, 299])
def test_values_of_hidden_keys_leave_no_trace(at: int, tmp_path: Path) -> None:
    """What is not finite reaches the queries that see it, in whichever part it is (S0.6)."""
    program = attention(4, 2, "M", "64", options=" causal offset N - M - 1", lse=True)
    module = planned(program, "sm_80", tmp_path, plan(16, 32, 64, 4))
    q, k, v = program.inputs(SOME, seed=4)
    v[:, :, at, ::3], v[:, :, at, 1::3] = np.inf, np.nan
    wanted = play(parsed(program.text()), "attention", [q, k, v], dict(SOME))
    assert wanted is not None
    finish(module)
    with np.errstate(invalid="ignore"):
        result = simulate(only(module, gpu.ModuleOp), [q, k, v], dict(SOME))
    assert not result.findings, "\n".join(map(str, result.findings))
    for found, right in zip(result.outputs, wanted, strict=True):
        ours, theirs = (np.asarray(x, np.float32) for x in (found, right))
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
        np.testing.assert_array_equal(np.isinf(ours), np.isinf(theirs))
        finite = np.isfinite(theirs)
        np.testing.assert_allclose(ours[finite], theirs[finite], atol=4e-3)
    if at == 299:
        assert np.isfinite(np.asarray(result.outputs[0], np.float32)).all()


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("arch", "features", "queries", "more"),
    [
        ("sm_90a", "128", "1", {"masks": ["[B, 8, M, N], f16"], **LSE}),
        ("sm_80", "256", "5", LSE),
        ("sm_90a", "256", "1", {"masks": ["[B, 8, M, N], f16"], "options": " causal offset N - M"}),
    ],
)
def test_kernels_for_few_queries_compile_without_a_spill(
    arch: str, features: str, queries: str, more: Mapping[str, Any]
) -> None:
    program = attention(
        8,
        2,
        queries,
        features,
        **{
            **more,
            "options": str(more.get("options", "")).replace("M", queries),
            "masks": [m.replace("M", queries) for m in more.get("masks", ())],
        },
    )
    module = passed(program.text(), *TO_REGION, "plan-select", "region-to-gpu", arch=arch, few=True)
    (first, *others) = only(module, gpu.DispatchOp).variants()
    few = [op for op in find(module, KernelOp) if "_few_parts64" in op.sym_name.data]
    assert len(few) == 2 and "_few_parts64" in str(first)
    for op in [*find(module, KernelOp)]:
        if op not in few:
            op.detach()
    for op in others:
        op.detach()
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


@pytest.mark.parametrize(
    ("given", "arch", "message"),
    [
        (
            {"variant": "tma", "split_k": 2, "persistent": False},
            "sm_90a",
            "asks for a split_k that kernels of wgmma do not have; use 1, or mma.sync",
        ),
        (
            {"variant": "tma", "algo_choice": {"attention": "shared_keys"}},
            "sm_90a",
            "asks for a way of attention (shared_keys) that kernels of wgmma do not have",
        ),
        (plan(16, 32, 64, 2000), "sm_80", "cuts the keys of a tile into 2000 parts; use 1024"),
        (plan(16, 48, 64, 2), "sm_80", "has steps of 48 keys, of which each part has whole ones"),
    ],
)
def test_what_is_not_built_is_refused(
    given: Mapping[str, Any], arch: str, message: str, tmp_path: Path
) -> None:
    program = attention(8, 2, "M", "64", options=" causal")
    with pytest.raises(PolycError) as caught:
        planned(program, arch, tmp_path, given)
    assert message in caught.value.message


def test_heads_with_keys_of_their_own_are_not_taken_together(tmp_path: Path) -> None:
    with pytest.raises(PolycError) as caught:
        planned(attention(4, 4, "M", "64"), "sm_80", tmp_path, plan(16, 32, 64, 2))
    assert "each head of the region has its own; choose streaming_softmax" in caught.value.message
