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
