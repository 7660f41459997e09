"""``region-expand-together``: the reductions of a chunk are the states of the whole (S6.5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import BinaryOp, KernelOp, ReduceTogetherOp
from polyc.lowering.index_to_region import IndexToRegion
from polyc.passes.pipeline import build
from polyc.passes.region.expand_together import RegionExpandTogether, takes_whole
from polyc.playback import region
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import only
from polyc.test.support.planes import PLANES
from polyc.test.support.root import ROOT
from polyc.tools.check import Expected
from polyc.tools.forms import with_forms
from polyc.tools.parsing import parse_text
from polyc.tools.play import programs
from polyc.tools.registry import make_context

STREAMED = ("frontend-to-tiny", "tiny-to-index", "index-to-region", "region-streaming-softmax")


TEXTS = {"planes": PLANES}
"""Beside the examples."""


def streamed(example: str, *more: str) -> ModuleOp:
    """The regions of an example, with a streaming softmax."""
    ctx = make_context()
    path = ROOT / "examples" / f"{example}.mlir"
    module = parse_text(ctx, TEXTS.get(example) or path.read_text(), str(path))
    for name in (*STREAMED, *more):
        whole = name == "index-to-region"
        (IndexToRegion(fuse="legal") if whole else build(name, "sm_90a")).apply(ctx, module)
    return module


def together_in(module: ModuleOp) -> int:
    return sum(isinstance(op, ReduceTogetherOp) for op in module.walk())


def together_in_kernel(kernel: KernelOp) -> int:
    return sum(isinstance(op, ReduceTogetherOp) for op in kernel.walk())


def expand(module: ModuleOp) -> None:
    RegionExpandTogether().apply(make_context(), module)
    verify(module)


@pytest.mark.parametrize("example", ["softmax", "planes", "causal_attention"])
def test_a_kernel_without_schedules_is_expanded(example: str) -> None:
    module = streamed(example)
    assert together_in(module) == 1
    expand(module)
    assert together_in(module) == 0


@pytest.mark.parametrize(("example", "kept"), [("softmax", 1), ("planes", 0)])
def test_a_schedule_that_streams_keeps_it(example: str, kept: int) -> None:
    module = streamed(example, "plan-select")
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]
    (kernel,) = (op for op in module.ops if isinstance(op, KernelOp))
    whole = {plan for plan in plans if takes_whole(plan, kernel)}
    assert (len(whole) == len(plans)) == (not kept)
    expand(module)
    assert together_in(module) == kept
    for plan in plans:
        assert (plan.form is not None) == bool(kept and plan in whole)
    text = str(module)
    expand(module)
    assert str(module) == text


def formed() -> ModuleOp:
    """Rows of any length: two schedules hold them, two stream them."""
    module = streamed("softmax", "plan-select")
    expand(module)
    return module


def test_schedules_that_hold_rows_compute_the_same_by_their_form() -> None:
    module = formed()
    x = np.random.default_rng(0).standard_normal((3, 100)).astype(np.float16)
    sizes = {"M": 3, "N": 100}
    kernel = next(op for op in module.ops if isinstance(op, KernelOp))
    (expected,) = region.run(kernel, [x], sizes, chunk=100)
    found = list(with_forms(module))
    assert [what for what, _ in found] == ["variant 'lanes' of @softmax"]
    for _, copy in found:
        one = next(op for op in copy.ops if isinstance(op, KernelOp))
        assert together_in_kernel(one) == 0
        np.testing.assert_array_equal(region.run(one, [x], sizes)[0], expected)
    assert together_in(module) == 1


def test_a_wrong_form_is_found() -> None:
    """``--check-each`` runs each schedule's own form, not the region alone."""
    module = formed()
    (program,) = programs(module)
    expected = Expected.of(program, {"M": 3, "N": 100})
    expected.check(module, "after it")
    plan = next(op for op in module.ops if isinstance(op, ScheduleOp))
    assert plan.form is not None
    shifted = next(op for op in plan.form.walk() if isinstance(op, BinaryOp))
    shifted.fn = StringAttr("max")
    with pytest.raises(PolycError, match="after it, as variant 'lanes' of @softmax computes it,"):
        expected.check(module, "after it")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("region.kernel @softmax", "region.kernel @other", "is one region.kernel @softmax"),
        ("outs(Y:", "outs(Z:", "has its signature; res_names differ"),
    ],
)
def test_a_form_has_the_signature_of_its_region(old: str, new: str, why: str) -> None:
    before, form = str(formed()).split("} form {", 1)
    wrong = "} form {".join([before, form.replace(old, new, 1)])
    with pytest.raises(PolycError, match=why):
        verify(parse_text(make_context(), wrong, "x.mlir"))


def test_a_schedule_that_holds_rows_is_not_built_from_parts() -> None:
    module = streamed("softmax", "plan-select")
    with pytest.raises(PolycError, match="run region-expand-together first") as caught:
        build("region-to-gpu", "sm_90a").apply(make_context(), module)
    assert caught.value.kind == "UnsupportedPlan"


def test_schedules_are_not_chosen_for_a_form() -> None:
    module = formed()
    text = str(module)
    build("plan-select", "sm_90a").apply(make_context(), module)
    assert str(module) == text


def test_short_rows_of_known_length_are_expanded() -> None:
    text = (ROOT / "examples" / "softmax.mlir").read_text().replace("[M, N]", "[M, 512]")
    ctx = make_context()
    module = parse_text(ctx, text, "softmax.mlir")
    for name in (*STREAMED, "plan-select"):
        build(name, "sm_90a").apply(ctx, module)
    expand(module)
    assert together_in(module) == 0


def test_what_a_schedule_says_falsely_stays_and_is_refused() -> None:
    """What is true of the region follows it; what was false before is not made true in silence."""
    module = streamed("planes", "plan-select")
    plan = next(op for op in module.ops if isinstance(op, ScheduleOp))
    said = plan.epilogue
    plan.epilogue = ArrayAttr([StringAttr("nothing")])
    expand(module)
    assert plan.epilogue != said
    with pytest.raises(PolycError, match="epilogue") as caught:
        build("region-to-gpu", "sm_90a").apply(make_context(), module)
    assert caught.value.kind == "BadPlan"


@given(st.integers(1, 5), st.integers(0, 200), st.integers(0, 2**32 - 1))
def test_random_rows_give_the_same(m: int, n: int, seed: int) -> None:
    before, after = streamed("softmax"), streamed("softmax")
    expand(after)
    rng = np.random.default_rng(seed)
    x: NDArray[Any] = (8 * rng.standard_normal((m, n))).astype(np.float16)
    sizes = {"M": m, "N": n}
    # In one chunk the states are those of the whole row, to the bit.
    (whole,) = region.run(only(before, KernelOp), [x], sizes, chunk=max(n, 1))
    (found,) = region.run(only(after, KernelOp), [x], sizes)
    np.testing.assert_array_equal(found, whole)
