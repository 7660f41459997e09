"""A softmax of joined scores, of which a part is used: what is split, and that numbers stay."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.frontend_to_tiny.joined import SplitJoinedSoftmax
from polyc.playback.frontend import run
from polyc.rewriting.driver import rewrite
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.registry import make_context


def graph(
    start: Size = 0,
    stop: Size = "N",
    *,
    width: Size = 1,
    shifted: bool = False,
    beside: bool = False,
    narrow: bool = False,
) -> ModuleOp:
    """Scores [M, N], a column or more beside them, and a part of the softmax of both; ``narrow``
    ones are widened before it."""
    s = Sketch("sink", f16 if narrow else f32)
    x, sink = s.input("x", "M", "N"), s.input("sink", "M", width)
    both = s.concat(1, x, sink)
    if narrow and shifted:
        both = s.cast(both, f32)
    if shifted:
        both = s.fn("sub", both, s.reduce("max", both, 1, keep=True))
    if narrow and not shifted:
        both = s.cast(both, f32)
    soft = s.softmax(both)
    part = s.cut(soft, 1, start, stop)
    return s.done(y=part, w=soft) if beside else s.done(y=part)


def split(module: ModuleOp) -> bool:
    rewrite(module, [SplitJoinedSoftmax()], recursive=True)
    module.verify()
    return not any(isinstance(op, frontend.SoftmaxOp) for op in module.walk())


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("shifted", [False, True])
def test_the_scores_beside_a_column_are_a_softmax_with_more_in_its_sum(
    shifted: bool, narrow: bool
) -> None:
    module = graph(shifted=shifted, narrow=narrow)
    dice = np.random.default_rng(4)
    sizes = {"M": 6, "N": 9}
    x = (8 * dice.standard_normal((6, 9))).astype(np.float32)
    sink = (8 * dice.standard_normal((6, 1))).astype(np.float32)
    x[1], sink[2], x[3, 0], sink[4] = -np.inf, np.inf, np.nan, -np.inf
    x[5], sink[5] = -np.inf, -np.inf
    if narrow:
        x, sink = x.astype(np.float16), sink.astype(np.float16)
    (right,) = run(only(module, frontend.GraphOp), [x, sink], sizes)
    assert split(module)
    (found,) = run(only(module, frontend.GraphOp), [x, sink], sizes)
    assert np.allclose(found, right, rtol=1e-6, atol=0, equal_nan=True)
    assert not right[1].any() and np.isnan(right[[2, 3, 5]]).all()


@pytest.mark.parametrize(
    "module",
    [graph(1, "N"), graph(width=2), graph(beside=True), graph("N", Dim.sym("N") + 1)],
    ids=["another part", "two columns", "all is an output", "the column"],
)
def test_others_stay(module: ModuleOp) -> None:
    assert not split(module)


@pytest.mark.parametrize("within", [False, True])
def test_a_difference_that_a_cast_rounds_stays(within: bool) -> None:
    """The numbers are near each other beside what a half holds of them, their difference is not."""
    s = Sketch("sink", f32)
    both = s.concat(1, s.input("x", "M", "N"), s.input("sink", "M", 1))
    both = s.fn("sub", both, s.reduce("max", both, 1, keep=True))
    both = s.cast(both, f32) if within else both
    module = s.done(y=s.cut(s.softmax(s.cast(s.cast(both, f16), f32)), 1, 0, "N"))
    assert not split(module)


def test_the_pass_splits() -> None:
    module = graph()
    FrontendToTiny().apply(make_context(), module)
    kinds = [v.type for op in module.walk() for v in op.results]
    sizes = {str(d) for kind in kinds if isinstance(kind, tiny.TensorType) for d in kind.dims}
    assert "N" in sizes and not any("+" in size for size in sizes)
