"""How tiny ops are built: a reduction of one element is that one."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i32
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback import functions
from polyc.playback.tiny import run
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.registry import make_context


def reduced(fn: str, kind: Attribute, size: Size, *, keep: bool) -> tiny.GraphOp:
    """The lowered reduction of x [3, size, 2] over its second axis."""
    s = Sketch("f", kind)
    module = s.done(y=s.reduce(fn, s.input("x", 3, size, 2), 1, keep=keep))
    FrontendToTiny().apply(make_context(), module)
    return only(module, tiny.GraphOp)


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("kind", [f32, i32], ids=str)
@pytest.mark.parametrize("fn", ["sum", "prod", "max", "min", "mean"])
def test_a_reduction_of_one_element_is_that_one(fn: str, kind: Attribute, keep: bool) -> None:
    if fn == "mean" and kind == i32:
        pytest.skip("integers have no mean")
    graph = reduced(fn, kind, 1, keep=keep)
    assert not find(graph, tiny.ReduceOp)
    x = np.array([[[1.0, -0.0]], [[np.nan, np.inf]], [[-np.inf, 7.5]]], np.float32)
    if kind == i32:
        x = np.array([[[1, -7]], [[0, 2**31 - 1]], [[-(2**31), 5]]], np.int32)
    (found,) = run(graph, [x], {})
    right = functions.reduce("sum" if fn == "mean" else fn, x, (1,))
    assert found.tobytes() == (right[:, None] if keep else right).tobytes()


@pytest.mark.parametrize("size", [2, "N"])
def test_one_of_more_or_of_an_open_number_stays(size: Size) -> None:
    assert len(find(reduced("sum", f32, size, keep=False), tiny.ReduceOp)) == 1


def test_a_sum_of_one_product_is_that_product() -> None:
    """An outer product is elementwise: nothing is added up."""
    s = Sketch("f", f32)
    module = s.done(y=s.gemm(s.input("a", 4, 1), s.input("b", 1, 5)))
    FrontendToTiny().apply(make_context(), module)
    assert not find(module, tiny.ReduceOp) and not find(module, frontend.GemmOp)
    assert only(module, tiny.BinaryOp).fn.data == "mul"
