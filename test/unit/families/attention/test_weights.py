"""Attention whose weights are an output of the graph too (S6.10, S11.1)."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, UnitAttr, bf16

from polyc.dialects import frontend
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.dialects.region.graph import SOFTMAX_SUM
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.plan.select import propose
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.rewriting.notes import unsaid
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import TO_REGION, passed
from polyc.test.support.attention_spellings import Spelling
from polyc.test.support.gpu_text import only
from polyc.test.support.plans import leave_widest
from polyc.tools.play import play

PLAIN = Spelling(beside="weights")
TOGETHER = ("attention", "matmul")
"""An attention, and its scores once more."""

APART = ("matmul", "rows", "matmul")
"""Scores and weights in memory, which take less time where scores cost much."""

FORMS: dict[str, tuple[Spelling, tuple[str, ...]]] = {
    "plain": (PLAIN, TOGETHER),
    "softmax": (replace(PLAIN, powers="softmax"), TOGETHER),
    "lse": (replace(PLAIN, beside="both"), TOGETHER),
    "times": (replace(PLAIN, division="times"), TOGETHER),
    "output": (replace(PLAIN, division="output", beside="both"), TOGETHER),
    "guarded": (replace(PLAIN, powers="guarded", mask="where", width=(128, 128)), TOGETHER),
    "least": (replace(PLAIN, powers="least", mask="where", shape=(1, "N")), TOGETHER),
    "mask": (replace(PLAIN, powers="softmax", mask="where", shape=("H", 1, "N")), TOGETHER),
    "cap": (replace(PLAIN, powers="softmax", cap=20.0), TOGETHER),
    "bf16": (replace(PLAIN, element=bf16, width=(40, 24)), TOGETHER),
    "dropout": (replace(PLAIN, after="dropout"), TOGETHER),
    "inside": (replace(PLAIN, layout="inside"), TOGETHER),
    # The second kernel reads Q and K where they lie too.
    "rows": (replace(PLAIN, layout="rows", width=(24, 24)), TOGETHER),
    "shared": (replace(PLAIN, layout="shared", powers="softmax"), TOGETHER),
}


@cache
def before(name: str) -> str:
    return str(FORMS[name][0].module())


def graph(name: str) -> frontend.GraphOp:
    return only(passed(before(name)), frontend.GraphOp)


@cache
def regions(name: str) -> ModuleOp:
    with unsaid():
        return passed(before(name), *TO_REGION)


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def sizes_of(found: frontend.GraphOp, **sizes: int) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if name in found.symbol_names}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", FORMS)
def test_scores_never_lie_in_memory(name: str) -> None:
    found = kernels(regions(name))
    assert tuple(propose(kernel, "sm_90a")[0].name for kernel in found) == FORMS[name][1]
    if FORMS[name][1] == APART:
        return
    *_, attention, product = found
    assert len(attention.res_names) > 1
    assert str(attention.outs.data[-1].element_type) == "f32"
    assert [n.data for n in product.res_names] == ["w"]


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", FORMS)
def test_its_kernels_compute_what_it_means(name: str) -> None:
    found = graph(name)
    sizes = sizes_of(found, B=2, H=2, M=9, N=70, T=70)
    for seed, draw in enumerate(("uniform", "rows", "mixed")):
        inputs = make_inputs(found, sizes, seed, draw)
        made = play(regions(name), "attention", inputs, sizes)
        assert made is not None
        assert_agree(made, meant(passed(before(name)), inputs, sizes), f"{name} {draw}")


SIMULATED = {
    "lse": "sm_90a",
    "bf16": "sm_80",
    "rows": "sm_90a",
    "shared": "sm_80",
}


def simulated(name: str, arch: str, sizes: dict[str, int], inputs: Sequence[Any]) -> list[Any]:
    with unsaid():
        steps = (*TO_REGION, "plan-select", "region-to-gpu")
        module = passed(before(name), *steps, arch=arch, sizes=sizes)
        finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    assert not result.findings, "\n".join(map(str, result.findings))
    return list(result.outputs)


@pytest.mark.turns(3)
@pytest.mark.parametrize(("name", "arch"), SIMULATED.items())
def test_its_threads_compute_what_it_means(name: str, arch: str) -> None:
    found = graph(name)
    sizes = sizes_of(found, B=1, H=2, M=20, N=136, T=72)
    inputs = make_inputs(found, sizes, 3)
    made = simulated(name, arch, sizes, inputs)
    assert_agree(made, meant(passed(before(name)), inputs, sizes), f"{name} {arch}")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_hidden_key_has_a_weight_of_zero(arch: str) -> None:
    """To the bit, in each row that sees a key, whatever the key holds; others are NaN."""
    found = graph("mask")
    sizes = {"H": 2, "M": 5, "N": 40}
    inputs = make_inputs(found, sizes, 1)
    names = [name.data for name in found.arg_names]
    seen = inputs[names.index("mask")]
    seen[:] = True
    seen[0, 0, 3:17] = False
    seen[1] = False
    inputs[names.index("k")][0, 5] = np.inf
    weights = simulated("mask", arch, sizes, inputs)[1].astype(np.float32)
    assert (weights[0, :, 3:17] == 0).all() and (weights[0, :, 17:] > 0).all()
    assert np.allclose(weights[0].sum(-1), 1, atol=1e-2)
    assert np.isnan(weights[1]).all()


CAUSAL = (
    "tiny.mask {0} where affine_set<(d0, d1, d2)[s0, s1, s2] : (d1 - d2 + 3 >= 0)> fill -inf"
    " : !tiny.tensor<[H, M, N], f32> -> !tiny.tensor<[H, M, N], f32>"
)


def test_a_mask_of_positions_is_one_of_both_kernels() -> None:
    """Which is written in the tiny dialect; each row sees a key."""
    text = str(passed(before("softmax"), "frontend-to-tiny"))
    found = re.search(r"\n( *)%\w+ = tiny.reduce max (%\w+) ", text)
    assert found is not None
    head, tail = text[: found.start()], text[found.start() :]
    tail = re.sub(re.escape(found[2]) + r"\b", "%masked", tail)
    masked = f"{head}\n    %masked = {CAUSAL.format(found[2])}{tail}"
    with unsaid():
        after = passed(masked, *TO_REGION[1:])
    names = [propose(kernel, "sm_90a")[0].name for kernel in kernels(after)]
    assert tuple(names) == TOGETHER
    sizes = {"H": 2, "M": 9, "N": 40}
    inputs = make_inputs(graph("softmax"), sizes, 0)
    made = play(after, "attention", inputs, sizes)
    assert made is not None
    assert_agree(made, meant(passed(masked), inputs, sizes), "causal")
    weights = np.asarray(made[1], np.float32)
    hidden = np.arange(40)[None, :] > np.arange(9)[:, None] + 3
    assert (weights[:, hidden] == 0).all() and (weights[:, ~hidden] > 0).all()


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("name", "arch"), [("guarded", "sm_90a"), ("lse", "sm_90a"), ("lse", "sm_80")]
)
def test_its_kernels_compile_without_a_spill(name: str, arch: str) -> None:
    with unsaid():
        module = passed(before(name), *TO_REGION, "plan-select", arch=arch)
        leave_widest(module)
        passed(module, "region-to-gpu", arch=arch)
        finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel


def test_sums_are_said_to_be_sums() -> None:
    """So that the second kernel inverts one a row; a number that is made of one is not."""
    for name, said in (("plain", 1), ("times", 0)):
        *_, product = kernels(regions(name))
        found = [attrs.data.get(SOFTMAX_SUM) for attrs in product.arg_attrs]
        assert found.count(UnitAttr()) == said


@pytest.mark.parametrize("hidden", [-math.inf, -1e9])
def test_short_rows_are_softmaxed_where_they_are_made(hidden: float) -> None:
    """A tile has them whole: scores are computed once, and weights are written and read."""
    short = replace(PLAIN, powers="softmax", mask="where", hidden=hidden)
    text = str(short.module()).replace("N", "128")
    with unsaid():
        found = kernels(passed(text, *TO_REGION))
    assert [propose(kernel, "sm_90a")[0].name for kernel in found] == ["matmul", "matmul"]
