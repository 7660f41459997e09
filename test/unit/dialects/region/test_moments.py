"""Which regions have a sum and the squares about its mean."""

from __future__ import annotations

import pytest

from polyc.dialects.region import KernelOp
from polyc.dialects.region.moments import moments_of
from polyc.passes.pipeline import STAGES, build
from polyc.test.support.gpu_text import find, parsed
from polyc.tools.registry import make_context

KIND = "!frontend.tensor<[M, N], f16>"
MEAN = "!frontend.tensor<[1, N], f16>"


def kernels(lines: str, out: str = "[N]") -> list[KernelOp]:
    text = f"frontend.graph @g(%X: {KIND}) -> (Y: !frontend.tensor<{out}, f16>) {{\n{lines}\n"
    text += f"  frontend.output %y : !frontend.tensor<{out}, f16>\n}}\n"
    module = parsed(text.replace("T", KIND).replace("U", MEAN))
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(make_context(), module)
    return find(module, KernelOp)


BOTH = (
    "  %m = frontend.reduce mean %X axes [0] keepdims : T -> U\n"
    "  %d = frontend.elementwise sub %X, %m : (T, U) -> T\n"
    "  %s = frontend.elementwise mul %d, %d : (T, T) -> T\n"
    "  %y = frontend.reduce mean %s axes [0] : T -> !frontend.tensor<[N], f16>"
)


def test_a_variance_has_both() -> None:
    (kernel,) = kernels(BOTH)
    found = moments_of(kernel.yield_op.values)
    assert found is not None
    assert found.total.labels == found.squares.labels and found.total.fn.data == "sum"
    assert found.reductions == [found.total, found.squares]


POWERS = (
    "  %m = frontend.reduce max %X axes [0] keepdims : T -> U\n"
    "  %d = frontend.elementwise sub %X, %m : (T, U) -> T\n"
    "  %e = frontend.elementwise exp %d : T\n"
    "  %s = frontend.reduce sum %e axes [0] : T -> !frontend.tensor<[N], f16>\n"
    "  %l = frontend.elementwise log %s : !frontend.tensor<[N], f16>\n"
    "  %t = frontend.reshape %m : U -> !frontend.tensor<[N], f16>\n"
    "  %y = frontend.elementwise add %l, %t : "
    "(!frontend.tensor<[N], f16>, !frontend.tensor<[N], f16>) -> !frontend.tensor<[N], f16>"
)


def test_a_maximum_and_what_grows_below_it_are_one_kernel() -> None:
    (kernel,) = kernels(POWERS)
    found = moments_of(kernel.yield_op.values)
    assert found is not None and found.below and found.mean is found.total.result
    assert found.stored == [found.total.result, found.squares.result]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("exp %d", "sqrt %d"),
        ("sub %X, %m : (T, U)", "sub %m, %X : (U, T)"),
        ("reduce max %X", "reduce min %X"),
        ("reduce sum %e", "reduce max %e"),
    ],
    ids=["no exponential", "above it", "no maximum", "no sum"],
)
def test_others_are_no_powers(old: str, new: str) -> None:
    found = [moments_of(one.yield_op.values) for one in kernels(POWERS.replace(old, new))]
    assert found and not any(found)


def test_a_softmax_of_all_reads_twice() -> None:
    """One kernel finds both, and one reads again and writes."""
    line = "  %y = frontend.softmax %X axes [0, 1] : T"
    text = f"frontend.graph @g(%X: T) -> (Y: T) {{\n{line}\n  frontend.output %y : T\n}}\n"
    module = parsed(text.replace("T", KIND))
    for stage in ("tiny", "index", "region"):
        for name in STAGES[stage]:
            build(name, "sm_90a").apply(make_context(), module)
    first, second = find(module, KernelOp)
    found = moments_of(first.yield_op.values)
    assert found is not None and found.below and len(first.outs) == 2
    assert moments_of(second.yield_op.values) is None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("mul %d, %d", "mul %d, %X"),
        ("sub %X, %m : (T, U)", "sub %m, %X : (U, T)"),
        ("reduce mean %X axes [0]", "reduce max %X axes [0]"),
        ("reduce mean %s axes [0]", "reduce max %s axes [0]"),
    ],
    ids=["no square", "the other way", "no sum", "no sum of squares"],
)
def test_others_have_none(old: str, new: str) -> None:
    """Whether they are one kernel, or the mean has one of its own."""
    found = [moments_of(one.yield_op.values) for one in kernels(BOTH.replace(old, new))]
    assert found and not any(found)
