"""What is kept of regions: only what was asked of one that is alike, on the same chip."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp, StringAttr

from polyc.cost.device import DEVICES, modelled_on
from polyc.dialects.region import KernelOp
from polyc.families import remembered
from polyc.families.loops.schedules import LOOPS
from polyc.families.matmul.schedules import GEMM
from polyc.families.remembered import Remembered, alike
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.root import ROOT
from polyc.test.unit.families.loops.test_open_space import text_of
from polyc.tools.registry import make_context

ARCH = "sm_90a"


def region(text: str) -> KernelOp:
    """A program's region, in its module, as plans are chosen for it."""
    module = parsed(text)
    for name in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        build(name, ARCH).apply(make_context(), module)
    return only(module, KernelOp)


def product() -> KernelOp:
    return region((ROOT / "examples" / "gemm_bias_relu_aligned.mlir").read_text("utf-8"))


def sums() -> KernelOp:
    return region(text_of("columns"))


def refusing() -> int:
    raise ValueError("no answer")


def test_an_answer_is_asked_for_once_and_what_was_asked_last_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remembered, "MOST", 2)
    kept, asked = Remembered[str](), list[str]()

    def of(key: str) -> str:
        def make() -> str:
            asked.append(key)
            return key.upper()

        return kept.of(key, make)

    assert [of(key) for key in "abaacab"] == list("ABAACAB")
    assert asked == ["a", "b", "c", "b"]


def test_what_is_raised_is_not_kept() -> None:
    kept = Remembered[int]()
    with pytest.raises(ValueError, match="no answer"):
        kept.of("a", refusing)
    assert kept.of("a", lambda: 3) == 3


@pytest.mark.parametrize(
    ("make", "schedules"), [(product, GEMM.schedules), (sums, LOOPS.schedules)]
)
def test_schedules_are_said_again_and_are_others_ops(
    make: Callable[[], KernelOp], schedules: Callable[[KernelOp, str], list[object]]
) -> None:
    one, other = make(), make()
    first, second = schedules(one, ARCH), schedules(other, ARCH)
    assert list(map(str, first)) == list(map(str, second)) and len(first) > 2
    assert not {*map(id, first)} & {*map(id, second)}


def test_the_name_of_a_region_is_its_own() -> None:
    for one in (product(), sums()):
        family = GEMM if GEMM.takes(one) else LOOPS
        before = family.schedules(one, ARCH)
        one.properties["sym_name"] = StringAttr("other")
        after = family.schedules(one, ARCH)
        assert {plan.region.string_value() for plan in after} == {"other"}
        assert [p.variant for p in before] == [p.variant for p in after]


def test_another_chip_has_an_order_of_its_own() -> None:
    """One that draws next to nothing from memory splits no sums among its blocks."""
    here = LOOPS.schedules(sums(), ARCH)
    slow = replace(DEVICES[ARCH], name="slow", memory=DEVICES[ARCH].memory / 1000)
    with modelled_on(ARCH, slow):
        there = LOOPS.schedules(sums(), ARCH)
    assert [str(p) for p in here] != [str(p) for p in there]
    assert [str(p) for p in here] == [str(p) for p in LOOPS.schedules(sums(), ARCH)]


def test_what_kernels_beside_a_region_make_is_part_of_its_key() -> None:
    """Its inputs may be in L2."""
    whole = parsed((ROOT / "examples" / "mlp.mlir").read_text("utf-8"))
    for name in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        build(name, ARCH).apply(make_context(), whole)
    last = [op for op in whole.ops if isinstance(op, KernelOp)][-1]
    key = alike(last, ARCH)
    assert key == alike(last, ARCH) != alike(last, "sm_80")
    last.detach()
    ModuleOp([last])
    assert alike(last, ARCH) != key
