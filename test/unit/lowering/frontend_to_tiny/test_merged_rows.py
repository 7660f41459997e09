"""Rows that are merged for a product and split again: what is left apart, and that numbers stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.lowering.frontend_to_tiny.merged_rows import KeepRowsApart
from polyc.playback.frontend import run
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import rewrite
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch

Between = Callable[[Sketch, SSAValue], SSAValue]


def _nothing(s: Sketch, x: SSAValue) -> SSAValue:
    return x


def _bias(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("relu", s.fn("add", s.input("bias", 5), x))


def _cast(s: Sketch, x: SSAValue) -> SSAValue:
    return s.cast(s.fn("mul", x, s.number(3.0)), f32)


def layer(
    between: Between = _nothing, *, to: tuple[int, ...] = (2, 3, 5), turned: bool = False
) -> ModuleOp:
    """``x [2, 3, 4]`` as ``[6, 4]`` through a product with ``[4, 5]``, and what follows."""
    s = Sketch("layer", f16)
    x = s.reshape(s.input("x", 2, 3, 4), 6, 4)
    w = s.input("w", 5, 4) if turned else s.input("w", 4, 5)
    return s.done(y=s.reshape(between(s, s.gemm(x, w, turned=turned)), *to))


def kept(module: ModuleOp) -> bool:
    """Whether the pattern fires, and the rows stay apart then."""
    fired = rewrite(module, [KeepRowsApart()], recursive=True)
    module.verify()
    left = any(isinstance(op, frontend.ReshapeOp) for op in module.walk())
    assert fired != left
    return bool(fired)


@pytest.mark.parametrize("between", [_nothing, _bias, _cast])
@pytest.mark.parametrize("turned", [False, True])
def test_rows_stay_apart_and_numbers_the_same(between: Between, turned: bool) -> None:
    module = layer(between, turned=turned)
    before = module.clone()
    assert kept(module)
    inputs = make_inputs(only(before, frontend.GraphOp), {}, 3)
    one, other = (run(only(m, frontend.GraphOp), inputs, {}) for m in (before, module))
    for left, right in zip(one, other, strict=True):
        assert left.dtype == right.dtype and np.array_equal(left, right)


def _wide(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("add", x, s.input("rest", 6, 5))


def _twice(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", x, x)


@pytest.mark.parametrize("between", [_wide, _twice])
def test_what_has_rows_of_its_own_keeps_them_merged(between: Between) -> None:
    assert not kept(layer(between))


@pytest.mark.parametrize("to", [(3, 2, 5), (2, 3, 1, 5), (6, 5, 1), (30,)])
def test_rows_that_are_split_another_way_stay_merged(to: tuple[int, ...]) -> None:
    assert not kept(layer(to=to))


def test_a_product_that_others_read_stays() -> None:
    s = Sketch("layer", f16)
    made = s.gemm(s.reshape(s.input("x", 2, 3, 4), 6, 4), s.input("w", 4, 5))
    assert not kept(s.done(y=s.reshape(made, 2, 3, 5), z=made))
