"""Axes in parts, and the first few one after another, are what they were at every layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, ui64
from polyc.lowering.frontend_to_tiny.in_parts import kept_time, parts_near
from polyc.passes.pipeline import build
from polyc.playback.functions import Array, dtype_of
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context


def numbers(kind: Attribute, shape: tuple[int, ...]) -> Array:
    dice, dtype = np.random.default_rng(len(shape)), dtype_of(kind)
    if is_integer(kind):
        ends = np.iinfo(dtype)
        return dice.integers(ends.min, ends.max, shape, dtype, endpoint=True)
    found = dice.integers(-300, 300, shape).astype(dtype)
    found.flat[::97] = np.nan
    return found


def lowered(module: ModuleOp, array: Array) -> ModuleOp:
    """The tiny graph, of which all layers down to regions agree with what is meant."""
    wanted = meant(module, [array], {})
    found: ModuleOp | None = None
    for name in ("frontend-to-tiny", "tiny-to-index", "index-to-region"):
        run_pass(make_context(), build(name, "sm_90a"), module)
        found = found or module.clone()
        got = play(module, "f", [array], {})
        assert got is not None
        assert_agree(got, wanted, name)
    assert found is not None
    return found


def few(
    kind: Attribute, shape: tuple[int, ...], axis: int, count: int, descending: bool
) -> ModuleOp:
    s = Sketch("f", kind)
    op = frontend.SortOp(s.input("x", *shape), axis, Dim.const(count), descending=descending)
    s.add(op)
    return s.done(values=op.values, places=op.places)


@pytest.mark.parametrize(
    ("kind", "shape", "axis", "count", "sorts", "minima"),
    [
        (f16, (20, 3, 70), 1, 1, 0, 1),
        (f32, (3, 1, 5), 1, 1, 1, 0),
        (f16, (1, 40000), 1, 2, 0, 2),
        (i32, (4000, 3), 0, 3, 1, 0),
        (f32, (20003,), 0, 5, 2, 0),
        (f32, (3, 24001), 1, 64, 2, 0),
        (f32, (30, 5, 8), 1, 2, 1, 0),
    ],
)
def test_the_first_few(
    kind: Attribute, shape: tuple[int, ...], axis: int, count: int, sorts: int, minima: int
) -> None:
    for descending in (False, True):
        module = few(kind, shape, axis, count, descending)
        found = lowered(module, numbers(kind, shape))
        least = [op for op in find(found, tiny.ReduceOp) if op.function == "min"]
        assert (len(find(found, tiny.SortOp)), len(least)) == (sorts, minima)


def test_open_rows_are_kept_by_blocks() -> None:
    s = Sketch("f", f32)
    op = frontend.SortOp(s.input("x", 8), 0, Dim.const(3))
    s.add(op)
    module = s.done(values=op.values)
    run_pass(make_context(), build("frontend-to-tiny", "sm_90a"), module)
    (sort,) = find(module, tiny.SortOp)
    assert sort.said == (32, 64)


@pytest.mark.parametrize(
    ("kind", "fn", "shape", "axis", "way", "scans"),
    [
        (i64, "sum", (2, 9001), 1, (False, False), 2),
        (i64, "max", (20000,), 0, (True, True), 2),
        (ui64, "min", (600, 3), 0, (False, True), 2),
        (i64, "prod", (3, 1024, 2), 1, (True, False), 2),
        # Parts that are many are cut into parts again.
        (i64, "sum", (20001, 2), 0, (False, True), 3),
        (i64, "max", (20001, 2), 0, (True, False), 3),
    ],
)
def test_a_scan_of_64_bits(
    kind: Attribute,
    fn: str,
    shape: tuple[int, ...],
    axis: int,
    way: tuple[bool, bool],
    scans: int,
) -> None:
    s = Sketch("f", kind)
    x = s.input("x", *shape)
    module = s.done(y=s.add(frontend.ScanOp(fn, x, axis, reverse=way[0], exclusive=way[1])))
    found = lowered(module, numbers(kind, shape))
    assert len(find(found, tiny.ScanOp)) == scans


@pytest.mark.parametrize(
    ("kind", "shape", "axis"), [(i64, (300, 9000), 1), (i64, (2, 4096), 1), (f32, (2, 90000), 1)]
)
def test_a_scan_that_stays_whole(kind: Attribute, shape: tuple[int, ...], axis: int) -> None:
    s = Sketch("f", kind)
    module = s.done(y=s.add(frontend.ScanOp("sum", s.input("x", *shape), axis)))
    run_pass(make_context(), build("frontend-to-tiny", "sm_90a"), module)
    assert len(find(module, tiny.ScanOp)) == 1


def test_parts_need_no_filling_where_others_near_do_not() -> None:
    assert parts_near(4096, 30) == 32
    assert parts_near(9973, 30) == 30


def test_few_long_rows_and_elements_that_lie_apart_take_longer() -> None:
    times: Callable[[int, int, bool], float] = kept_time
    assert times(1, 1 << 20, True) > 10 * times(64, 1 << 14, True)
    assert times(1 << 16, 1024, False) > 2 * times(1 << 16, 1024, True)
