"""Where the elements of a tile are: what a warp reaches at once, and what a thread finds once."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, i64

from polyc.cost.places import beside, finding, number_at, shared_by
from polyc.cost.values import Values
from polyc.cost.work import LOAD, SCATTERED, load_cost, most_over
from polyc.dialects import frontend
from polyc.dialects.region import ConstantOp, GatherOp, KernelOp, ReadOp
from polyc.dialects.region.types import val_type
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.unit.families.loops.test_lines import lowered


def values_of(module: ModuleOp) -> Values:
    return Values(only(lowered(module, "region"), KernelOp), {})


def resized(mode: str, *to: int, corners: bool = False) -> Values:
    """Images of 64 by 96 halves at other sizes, a kernel."""
    s = Sketch("f", f16)
    x = s.input("x", 8, 16, 64, 96)
    how: dict[str, Any] = {"coordinates": "align_corners"} if corners else {}
    rounding: dict[str, Any] = {"rounding": "round_prefer_ceil"} if mode == "nearest" else {}
    sizes = [frontend.tensor_of(x).dims[0].const(n) for n in to]
    return values_of(
        s.done(y=s.add(frontend.ResizeOp(x, [2, 3], sizes, mode=mode, **how, **rounding)))
    )


def turned_around() -> Values:
    """Lines of 96 halves from their end, by an index that is computed."""
    s = Sketch("f", f16)
    x = s.input("x", 64, 96)
    at = s.add(frontend.IotaOp(frontend.tensor((96,), i64), 0))
    last = s.add(frontend.ConstantOp(95, frontend.tensor((), i64)))
    at = s.fn("sub", last, at)
    return values_of(s.done(y=s.add(frontend.GatherOp(x, at, 1))))


def by_data() -> Values:
    s = Sketch("f", f16)
    x, at = s.input("x", 64, 96), s.input("at", 96, element=i64)
    return values_of(s.done(y=s.add(frontend.GatherOp(x, at, 1))))


@pytest.mark.parametrize(("wide", "over"), [(192, 0.5), (96, 1.0), (32, 3.0), (250, 96 / 250)])
def test_a_warp_reaches_what_its_places_say(wide: int, over: float) -> None:
    values = resized("nearest", 64, wide)
    (read,) = find(values.kernel, ReadOp)
    column = val_type(values.kernel.yield_op.values[0]).labels[-1]
    found = beside(values, read, [column])
    assert found is not None
    # A warp has 64 bytes of a line that is as long, in sectors of 32.
    assert found.over == pytest.approx(over, abs=0.51)
    assert ceil(found.lines) <= ceil(32 * 2 * over / 128) + 1


def test_places_that_are_computed_are_known_and_those_of_data_are_not() -> None:
    values = turned_around()
    (gather,) = find(values.kernel, GatherOp)
    (read,) = find(values.kernel, ReadOp)
    label = gather.result.type.labels[-1]
    assert [number_at(values, gather.indices[0], {label: i}) for i in (0, 40, 95)] == [95, 55, 0]
    warp = beside(values, read, [label])
    assert warp is not None and warp.lines <= 1.5 and warp.over < 1.6
    price, over = load_cost(values, read, label, {label: 32})
    assert price == LOAD and over < 1.6
    data = by_data()
    read = next(op for op in find(data.kernel, ReadOp) if len(op.map.data.results) == 2)
    assert beside(data, read, [label]) is None
    assert load_cost(data, read, label, {label: 32})[0] == SCATTERED


def test_an_infinity_is_no_place() -> None:
    infinite = ConstantOp(float("inf"), f16)
    assert number_at(by_data(), infinite.result, {}) is None


def test_what_windows_go_along_is_near() -> None:
    """A window at a floor of its output's place has the rest of a sector to itself: 19 or 20
    elements of a line, of which a step brings one."""
    s = Sketch("pooled")
    x = s.input("x", 4, 64, 32, 136)
    values = values_of(s.done(y=s.add(frontend.AdaptivePoolOp("mean", x, [2, 3], [14, 7]))))
    (read,) = find(values.kernel, ReadOp)
    label = val_type(values.kernel.yield_op.values[0]).labels[-1]
    taps = dict.fromkeys(val_type(read.result).labels, 0) | {label: 8}
    assert load_cost(values, read, label, taps)[1] == most_over(read, taps) == 1.0
    # Of a block that has one point of each other axis, all of a sector is brought for one element.
    alone = dict.fromkeys(taps, 1) | {label: 8}
    assert load_cost(values, read, label, alone)[1] > 10


def test_what_depends_on_a_column_alone_is_found_once_for_its_rows() -> None:
    values = resized("linear", 64, 250, corners=True)
    labels = val_type(values.kernel.yield_op.values[0]).labels
    found = finding(values, values.outputs, [labels[-2]], [labels[-1]])
    assert found.of_column > 10 > found.of_row and found.of_both > 0
    assert found.each(8, 1) < 0.5 * found.each(1, 4)
    # As one axis all of it is of every point.
    whole = finding(values, values.outputs, labels, labels)
    assert whole.of_both == pytest.approx(found.of_row + found.of_column + found.of_both)


def test_a_thread_has_rows_of_the_columns_of_a_tile() -> None:
    assert shared_by((8, 128), 256) == (1.0, 4.0)
    assert shared_by((64, 32), 256) == (8.0, 1.0)
    assert shared_by((1, 16), 256) == (1.0, 1.0)


def test_a_read_at_an_index_may_have_floors_of_another_axis() -> None:
    """Channels of a convolution in groups, each taken at an index: the neighbours have the index,
    and what they read has groups, which are floors of a channel."""
    s = Sketch("f", f16)
    x, w = s.input("x", 2, 7, 6, 2), s.input("w", 4, 3, 3, 1)
    at = s.input("at", 2, 5, 4, 33, element=i64)
    made = s.add(frontend.Conv2dOp(x, w, layout="nhwc", groups=2))
    module = lowered(s.done(y=s.add(frontend.GatherElementsOp(made, at, 3))), "plan")
    for kernel in find(module, KernelOp):
        values = Values(kernel, {})
        column = val_type(kernel.yield_op.values[0]).labels[-1]
        for read in find(kernel, ReadOp):
            price, over = load_cost(values, read, column, {column: 32})
            assert price > 0 and over > 0
