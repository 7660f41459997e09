"""How many kernels attention becomes, however it is written, and of which families (S6.10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.families.attention.schedules import ATTENTION
from polyc.families.registry import FAMILIES
from polyc.passes.finish import finish
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.rewriting.notes import unsaid
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import TO_REGION, passed
from polyc.test.support.gpu_text import only
from polyc.test.support.more_spellings import MORE
from polyc.test.support.spelling_table import SPELLINGS
from polyc.tools.play import play

Families = tuple[str, ...]

ONE: Families = ("attention",)
"""What every spelling becomes that is not among the others."""

APART: Families = ("matmul", "rows", "matmul")
"""Two products, and a softmax of rows in memory between them."""

WEIGHTS: Families = (*ONE, "matmul")
"""An attention, and its scores once more, for weights that are wanted in memory."""

OTHERS: Mapping[str, Families] = {
    # What is done to K is computed ahead where no product makes it, and to Q in the kernel, where
    # the model of time says so; else it is the product's end, but for a rotation, which reads its
    # columns moved.
    "factor: bias": ("loops", *ONE),
    "factor: rope": ("loops", *ONE),
    "factor: rms": ("rows", "rows", *ONE),
    "factor: l2": ("rows", "rows", *ONE),
    "factor: projected": ("matmul", "matmul", *ONE),
    **{
        f"factor: projected {factor}{more}": ("matmul", "matmul", *ONE)
        for factor in ("bias", "rms", "l2")
        for more in ("", ", scaled query")
    },
    "factor: projected rope": ("matmul", "matmul", "loops", *ONE),
    "factor: projected rope, scaled query": ("matmul", "matmul", "loops", *ONE),
    # V is rounded to bf16 ahead, as tensor cores take two factors of one type.
    "f16, weights in bf16": ("loops", *ONE),
    # Features are not the innermost axis: K or V is copied so that they are.
    **{
        f"layout: {turned}{more}": ("loops", *ONE)
        for turned in ("turned", "turned values")
        for more in ("", ", softmax, where", ", log-sum-exp")
    },
    # Numbers of f32 may be none of f16.
    "after: mul f32": APART,
    "after: mul f32, softmax": APART,
    "after: mul f32, where": APART,
    # A number in the sum is relative to the maximum of scores that the mask hides, too.
    "exponentials times a mask, a number is added": APART,
    "output turned": ("loops", *ONE),
    # What is looked up, or reduced, lies in memory as it is read.
    "bias looked up": ("loops", *ONE),
    "mask looked up": ("loops", *ONE),
    "number of a key reduced": ("rows", *ONE),
    "channels first": ("loops", "loops", "loops", *ONE),
    # The weights are wanted in memory: a product of its own computes them.
    "beside: weights": WEIGHTS,
    "beside: both": WEIGHTS,
}
"""The spellings that become several kernels, with their families in the order in which they run."""


GRAPHS: Mapping[str, Callable[[], ModuleOp]] = {
    **{name: one.module for name, one in SPELLINGS.items()},
    **MORE,
}
"""All spellings, by name."""


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def graph(name: str) -> frontend.GraphOp:
    return only(passed(str(GRAPHS[name]())), frontend.GraphOp)


def sizes_of(found: frontend.GraphOp, **sizes: int) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if name in found.symbol_names}


def family_of(kernel: KernelOp) -> str:
    """The family whose schedules a region gets."""
    attempts = ((family.name, family.attempt(kernel, "sm_90a")) for family in FAMILIES)
    return next(name for name, found in attempts if not isinstance(found, PolycError))


def test_there_is_a_row_for_no_other_spelling() -> None:
    assert set(OTHERS) <= set(GRAPHS) and not set(SPELLINGS) & set(MORE)


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", GRAPHS)
def test_a_spelling_becomes_these_kernels(name: str) -> None:
    """And a kernel that is no attention, of several, says why."""
    with unsaid():
        found = kernels(passed(str(GRAPHS[name]()), *TO_REGION))
        families = tuple(map(family_of, found))
        assert families == OTHERS.get(name, ONE)
        for kernel, family in zip(found, families, strict=True):
            if family != "attention":
                refused = ATTENTION.attempt(kernel, "sm_90a")
                assert isinstance(refused, PolycError) and "as attention: " in refused.message


PLAYED: tuple[str, ...] = (
    *("scale: both", "scale: divided query, softmax", "add, then scaled", "soft cap, where"),
    *("where not hides by least", "built hides by -1e9, then scaled", "ALiBi, where"),
    *("powers: pow, where", "powers: apart", "powers: least, output divided"),
    *("division: output by f16, rounded sums", "division: times, log-sum-exp"),
    *("layout: turned", "layout: turned values, softmax, where", "scale: query"),
    *("layout: rows, log-sum-exp", "layout: packed, softmax, where", "layout: grouped"),
    *("after: dropout, where", "after: where, softmax", "factor: projected rms, scaled query"),
    *("powers: plain, output divided", "powers: log_softmax", "f16, weights in f32"),
    *("division: weights, rounded sums", "f16, weights in bf16"),
    *("bias looked up", "mask looked up", "number of a key reduced"),
    *(name for name in MORE if name not in OTHERS),
)
"""Spellings whose kernels are played back; ``SIMULATED`` run thread by thread too."""

SIMULATED = {
    "scale: both": "sm_80",
    "powers: apart": "sm_90a",
    "division: output by f16, rounded sums": "sm_80",
    "layout: rows, log-sum-exp": "sm_90a",
    "where not hides by least": "sm_80",
    "layout: inside, log-sum-exp": "sm_80",
    "plain, log-sum-exp": "sm_90a",
    "sink, joined": "sm_80",
    "V in bf16": "sm_80",
    "bias looked up": "sm_90a",
    "texts one after another": "sm_90a",
    "one text": "sm_90a",
    "one text of merged rows": "sm_80",
    "V in f16, others in bf16": "sm_90a",
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PLAYED)
def test_its_kernels_compute_what_it_means(name: str) -> None:
    before = graph(name)
    module = passed(str(GRAPHS[name]()))
    sizes = sizes_of(before, B=2, H=2, M=9, N=70, T=70)
    with unsaid():
        after = passed(str(GRAPHS[name]()), *TO_REGION)
    for seed, draw in enumerate(("uniform", "rows", "mixed")):
        inputs = make_inputs(before, sizes, seed, draw)
        found = play(after, "attention", inputs, sizes)
        assert found is not None
        assert_agree(found, meant(module, inputs, sizes), f"{name} {draw}")


@pytest.mark.turns(2)
@pytest.mark.parametrize(("name", "arch"), SIMULATED.items())
def test_its_threads_compute_what_it_means(name: str, arch: str) -> None:
    before = graph(name)
    sizes = sizes_of(before, B=1, H=2, M=20, N=150, T=70)
    with unsaid():
        passes = (*TO_REGION, "plan-select", "region-expand-together", "region-to-gpu")
        module = passed(str(GRAPHS[name]()), *passes, arch=arch, sizes=sizes)
        finish(module)
    inputs = make_inputs(before, sizes, 1)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    assert not result.findings, "\n".join(map(str, result.findings))
    right = meant(passed(str(GRAPHS[name]())), inputs, sizes)
    assert_agree(list(result.outputs), right, name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("after: mul f32", "does not join the max"),
        ("exponentials times a mask, a number is added", "2 reductions beside the softmax"),
    ],
)
def test_one_remark_says_why_there_are_several(
    name: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    passed(str(GRAPHS[name]()), *TO_REGION)
    said = capsys.readouterr().err
    assert said.count("remark[NotStreamed]") == 1 and why in said


def test_one_kernel_is_not_said_to_be_several(capsys: pytest.CaptureFixture[str]) -> None:
    passed(str(GRAPHS["plain"]()), *TO_REGION)
    assert "NotStreamed" not in capsys.readouterr().err
