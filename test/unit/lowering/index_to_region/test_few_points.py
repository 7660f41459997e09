"""Reductions of few points, and places: what is computed again and not stored."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp, f32, i32

from polyc.dialects import frontend
from polyc.dialects.region import KernelOp
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch
from polyc.test.unit.families.loops.test_lines import lowered


def less_maximum(size: int) -> ModuleOp:
    """An image less the largest of each window, which all of its elements want."""
    s = Sketch("f", f32)
    x = s.input("x", 8, 32, 120, 120)
    y = s.add(frontend.PoolOp("max", x, [2, 3], [size, size], stride=[size, size]))
    many = 120 // size
    wide = frontend.tensor((8, 32, many, size, many, size), f32)
    spread = s.reshape(s.add(frontend.ExpandOp(y, [0, 1, 2, 4], wide)), 8, 32, 120, 120)
    return s.done(y=s.fn("sub", x, spread))


@pytest.mark.parametrize(("size", "kernels"), [(2, 1), (5, 2)])
def test_a_maximum_of_four_is_computed_where_it_is_wanted(size: int, kernels: int) -> None:
    assert len(find(lowered(less_maximum(size), "plan"), KernelOp)) == kernels


def test_places_are_no_kernels() -> None:
    """A product of a place and a number, which 4096 rows want."""
    s = Sketch("f", i32)
    x = s.input("x", 4096, 64)
    at = s.add(frontend.IotaOp(frontend.tensor((64,), i32), 0))
    at = s.fn("add", s.fn("mul", at, s.number(3, i32)), s.number(1, i32))
    (kernel,) = find(lowered(s.done(y=s.fn("mul", x, at)), "plan"), KernelOp)
    assert len(kernel.inputs) == 1
