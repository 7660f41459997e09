"""Attention whose weights are kept in part: dropout, factors, conditions (S6.10)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.families.attention.gates import KEPT_FEATURES
from polyc.families.attention.recognise import find_attention
from polyc.families.attention.schedules import schedules
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import TO_REGION, passed
from polyc.test.support.attention_spellings import Spelling
from polyc.test.support.gpu_text import only

KEPT = {
    "mul": Spelling(after="mul"),
    "key": Spelling(after="key", powers="softmax"),
    "dropout": Spelling(after="dropout", mask="add", shape=("H", "M", "N")),
    "where": Spelling(after="where", layout="inside"),
}
SIZES = {"B": 1, "H": 2, "M": 70, "N": 150}


@cache
def graph(name: str) -> frontend.GraphOp:
    return only(passed(str(KEPT[name].module())), frontend.GraphOp)


def region(spelling: Spelling) -> KernelOp:
    return only(passed(str(spelling.module()), *TO_REGION), KernelOp)


@pytest.mark.parametrize("name", KEPT)
def test_what_is_kept_is_found(name: str) -> None:
    found = find_attention(region(KEPT[name]))
    (kept,) = found.kept
    assert kept.condition == (name == "where")
    assert not find_attention(region(replace(KEPT[name], after=""))).kept


def test_a_number_of_a_row_follows_the_sum() -> None:
    assert not find_attention(region(Spelling(after="row"))).kept


def test_wide_heads_under_a_mask_keep_all_their_weights() -> None:
    """Threads lack registers for masks, factors and outputs of wide heads; either is well."""
    wide = (KEPT_FEATURES + 64, KEPT_FEATURES + 64)
    both = Spelling(after="mul", mask="add", width=wide)
    module = passed(str(both.module()), *TO_REGION)
    assert len([op for op in module.walk() if isinstance(op, KernelOp)]) > 1
    for one in (replace(both, after=""), replace(both, mask="")):
        assert schedules(find_attention(region(one)), "sm_80")
    whole = find_attention(region(KEPT["dropout"]))
    with pytest.raises(PolycError, match="it keeps a part of its weights"):
        schedules(replace(whole, depth=wide[0], width=wide[0]), "sm_80")


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", KEPT)
def test_kernels_compute_what_the_graph_means(name: str, arch: str) -> None:
    sizes = {k: v for k, v in SIZES.items() if k in graph(name).symbol_names}
    steps = (*TO_REGION, "plan-select", "region-to-gpu")
    module = passed(str(KEPT[name].module()), *steps, arch=arch, sizes=sizes)
    finish(module)
    for seed, draw in enumerate(("uniform", "rows")):
        inputs = make_inputs(graph(name), sizes, seed, draw)
        result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
        assert not result.findings, "\n".join(map(str, result.findings))
        right = meant(passed(str(KEPT[name].module())), inputs, sizes)
        assert_agree(list(result.outputs), right, f"{name} {draw}")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_kernel_compiles_without_a_spill(arch: str) -> None:
    """The widest heads that have a mask too."""
    wide = replace(KEPT["dropout"], width=(KEPT_FEATURES, KEPT_FEATURES))
    module = passed(str(wide.module()), *TO_REGION, "plan-select", "region-to-gpu", arch=arch)
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack, info.smem) == (0, 0, 0), kernel
