"""Places of extremes and sorts are NumPy's at every layer, with ties, NaN and signs of zeros."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import AnyFloat, ModuleOp, bf16, f16, f32, i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import FLOATS, INTEGERS, bounds, ui8, ui32, ui64
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny, in_parts
from polyc.passes.pipeline import build
from polyc.playback.estimate import Estimate
from polyc.playback.frontend import run
from polyc.playback.frontend.selection import arg_reduce, sort
from polyc.playback.functions import Array, dtype_of, posing
from polyc.test.fuzz import layers
from polyc.test.fuzz.random_programs import RandomProgram
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

NUMBERS = (*FLOATS, *INTEGERS)


def telling(element: Attribute, shape: tuple[int, ...], seed: int) -> Array:
    """Few numbers, so that many are equal: the ends of the type, zeros of both signs, NaN."""
    if isinstance(element, AnyFloat):
        few = [0.0, -0.0, 1.0, 2.0, -1.0, np.inf, -np.inf, np.nan, 3e-5]
    else:
        least, most = bounds(element)
        few = [least, least + 1, 0, 1, 2, most, most - 1]
    return np.random.default_rng(seed).choice(np.asarray(few, dtype_of(element)), shape)


def extremes(element: Attribute, axis: int) -> ModuleOp:
    """The places of both extremes, the first and the last."""
    s = Sketch("f", element)
    x = s.input("x", "M", "N")
    made = [
        frontend.ArgReduceOp("max", x, axis),
        frontend.ArgReduceOp("max", x, axis, last=True, keepdims=True, element=i32),
        frontend.ArgReduceOp("min", x, axis, keepdims=True),
        frontend.ArgReduceOp("min", x, axis, last=True, element=i32),
    ]
    return s.done(**{f"y{i}": s.add(op) for i, op in enumerate(made)})


def in_order(element: Attribute, axis: int, first: int | None, descending: bool) -> ModuleOp:
    s = Sketch("f", element)
    x = s.input("x", 5, 7)
    size = None if first is None else Dim.const(first)
    op = frontend.SortOp(x, axis, size, descending=descending)
    s.add(op)
    return s.done(values=op.values, places=op.places)


def wide(x: Array) -> Array:
    """As NumPy sorts: bf16 is no type of its own."""
    return x.astype(np.float32) if x.dtype.kind not in "iu" else x


def lower_playback(module: ModuleOp, array: Array, sizes: dict[str, int]) -> list[Array]:
    FrontendToTiny().apply(make_context(), module)
    module.verify()
    found = play(module, "f", [array], sizes)
    assert found is not None
    return [np.asarray(x) for x in found]


def same(found: Array, wanted: Array) -> None:
    """The same numbers, the signs of zeros too; which NaN it is means nothing."""
    np.testing.assert_array_equal(wide(found), wide(wanted))
    if wanted.dtype.kind not in "iu":
        zeros = wide(wanted) == 0
        np.testing.assert_array_equal(np.signbit(found)[zeros], np.signbit(wanted)[zeros])


@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_places_of_extremes_are_those_that_numpy_finds(element: Attribute) -> None:
    for axis in (0, 1):
        array = telling(element, (6, 9), axis)
        module = extremes(element, axis)
        graph = next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        above = run(graph, [array], {"M": 6, "N": 9})
        x, last = wide(array), array.shape[axis] - 1
        turned = np.flip(x, axis)
        wanted = [
            np.argmax(x, axis),
            last - np.argmax(turned, axis, keepdims=True),
            np.argmin(x, axis, keepdims=True),
            last - np.argmin(turned, axis),
        ]
        below = lower_playback(module, array, {"M": 6, "N": 9})
        for one, other, right in zip(above, below, wanted, strict=True):
            np.testing.assert_array_equal(one, right)
            np.testing.assert_array_equal(other, right)


@pytest.mark.turns(3)
@pytest.mark.parametrize("element", NUMBERS, ids=str)
def test_sorts_are_stable_and_keep_the_signs_of_zeros(element: Attribute) -> None:
    for seed, (axis, first, descending) in enumerate(
        ((0, None, False), (1, None, True), (1, 3, True), (0, 1, False), (1, 0, True))
    ):
        array = telling(element, (5, 7), seed)
        module = in_order(element, axis, first, descending)
        graph = next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        above = run(graph, [array], {})
        # Python's sort is stable, turned or not, and takes the tuple's order.
        rows = np.moveaxis(array, axis, -1)
        places = np.empty(rows.shape, np.int64)
        for at in np.ndindex(rows.shape[:-1]):
            row = wide(rows[at]).tolist()
            key: Callable[[int], tuple[bool, float]] = lambda i, r=row: (r[i] != r[i], r[i])  # noqa: E731
            number = {i: (True, 0.0) if row[i] != row[i] else key(i) for i in range(len(row))}
            places[at] = sorted(range(len(row)), key=number.__getitem__, reverse=descending)
        wanted = np.moveaxis(places, -1, axis)
        wanted = wanted[: 5 if first is None else first] if axis == 0 else wanted[:, :first]
        values = np.take_along_axis(array, wanted, axis)
        below = lower_playback(module, array, {})
        for found in (above, below):
            same(found[0], values)
            np.testing.assert_array_equal(found[1], wanted)


ROOM: dict[Attribute, int] = {f16: 15, bf16: 15, i8: 24, ui8: 23, i16: 16, f32: 0, i32: 0}
"""Bits of a place beside an element in a key of 32."""


@pytest.mark.parametrize("element", ROOM, ids=str)
@pytest.mark.parametrize("more", [0, 1])
def test_a_key_is_of_32_bits_where_an_element_and_its_place_have_room(
    element: Attribute, more: int
) -> None:
    """The longest row of which it is one, and the next one, with both results."""
    size = (1 << ROOM[element]) + more
    s = Sketch("f", element)
    op = frontend.SortOp(s.input("x", 1, size), 1, descending=bool(more))
    s.add(op)
    module = s.done(values=op.values, places=op.places)
    narrow, graph = ROOM[element] > 0 and not more, next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    lowered = module.clone()
    FrontendToTiny().apply(make_context(), lowered)
    (found,) = find(lowered, tiny.SortOp)
    assert tiny.tensor_of(found.operand).element_type == (i32 if narrow else i64)
    if size > 1 << 17:
        return  # The types say it; what is computed is the same as of fewer.
    array = telling(element, (1, size), 3)
    expected = run(graph, [array], {})
    for one, wanted in zip(lower_playback(module, array, {}), expected, strict=True):
        same(one, wanted)


def test_places_among_nothing() -> None:
    for element in (f32, i64):
        module = extremes(element, 1)
        array = np.zeros((3, 0), dtype_of(element))
        graph = next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        for found in (
            run(graph, [array], {"M": 3, "N": 0}),
            lower_playback(module, array, {"M": 3, "N": 0}),
        ):
            assert all((one == -1).all() for one in found)


@pytest.mark.turns(3)
@pytest.mark.parametrize("element", [f16, f32, i8, i32, ui32, ui64], ids=str)
def test_all_layers_agree_down_to_the_tiles(element: Attribute) -> None:
    for seed, sizes in enumerate(({"M": 3, "N": 9}, {"M": 1, "N": 0})):
        program = RandomProgram(extremes(element, 1 if seed else 0), sizes)
        assert layers.failure(program, 7 * seed) is None
    program = RandomProgram(in_order(element, 1, 3, True), {})
    assert layers.failure(program, 5) is None


def of_computed(make: Callable[[Sketch, SSAValue], SSAValue], element: Attribute) -> ModuleOp:
    s = Sketch("f", element)
    x = make(s, s.input("x", 4, 12))
    best, order = frontend.ArgReduceOp("max", x, 1), frontend.SortOp(x, 1, Dim.const(3))
    s.add(best)
    s.add(order)
    return s.done(best=best.result, values=order.values, places=order.places)


COMPUTED: dict[str, Callable[[Sketch, SSAValue], SSAValue]] = {
    "a function": lambda s, x: s.fn("exp", x),
    "a softmax": lambda s, x: s.softmax(x),
    "a product": lambda s, x: s.gemm(x, s.input("w", 12, 12)),
    "a product of its own": lambda s, x: s.fn("mul", x, s.fn("sin", x)),
    "moved": lambda s, x: s.add(frontend.PermuteOp(s.input("t", 12, 4), [1, 0])),
}


@pytest.mark.turns(2)
@pytest.mark.parametrize("what", COMPUTED)
def test_what_is_compared_is_computed(what: str) -> None:
    """In whatever kernel it is: the place is of what was the largest there."""
    for seed, element in enumerate((f16, f32)):
        program = RandomProgram(of_computed(COMPUTED[what], element), {})
        assert layers.failure(program, seed) is None


def test_a_sort_is_a_kernel_that_reduces_nothing() -> None:
    s = Sketch("f", f32)
    op = frontend.SortOp(s.softmax(s.input("x", 4, 12)), 1)
    s.add(op)
    module = s.done(values=op.values)
    for name in ("frontend-to-tiny", "tiny-to-index", "index-to-region", "plan-select"):
        run_pass(make_context(), build(name, "sm_90a"), module)
    patterns = {plan.pattern for plan in find(module, ScheduleOp)}
    assert "sorts" in patterns
    assert "it is reduced, and a kernel that sorts what is made of it" in str(module)


def test_more_than_a_kernel_keeps_is_a_slice_of_all() -> None:
    s = Sketch("f", f32)
    op = frontend.SortOp(s.input("x", 4096), 0, Dim.const(2000))
    s.add(op)
    module = s.done(values=op.values)
    FrontendToTiny().apply(make_context(), module)
    (sort,) = find(module, tiny.SortOp)
    assert sort.operand.type == sort.result.type
    assert find(module, tiny.SliceOp)
    array = np.random.default_rng(0).normal(size=4096).astype(np.float32)
    found = play(module, "f", [array], {})
    assert found is not None
    np.testing.assert_array_equal(found[0], np.sort(array)[:2000])


@pytest.mark.parametrize("size", [4096, 4097])
@pytest.mark.parametrize("element", [f32, bf16, i8], ids=str)
def test_many_of_a_long_row_are_those_of_its_sorted_parts(
    monkeypatch: pytest.MonkeyPatch, element: Attribute, size: int
) -> None:
    """Ties across parts, a part with a rest, and rows that are not cut: too few, or too many."""
    monkeypatch.setattr(in_parts, "SORTED", 2200)
    monkeypatch.setattr(in_parts, "MULTIPROCESSORS", 4)
    for rows, count, sorts in ((2, 1030, 2), (1, 1030, 1), (2, 1500, 1)):
        s = Sketch("f", element)
        op = frontend.SortOp(s.input("x", rows, size), 1, Dim.const(count), descending=True)
        s.add(op)
        module = s.done(values=op.values, places=op.places)
        array, graph = telling(element, (rows, size), count), next(iter(module.ops))
        assert isinstance(graph, frontend.GraphOp)
        expected = run(graph, [array], {})
        for one, wanted in zip(lower_playback(module, array, {}), expected, strict=True):
            same(one, wanted)
        assert len(find(module, tiny.SortOp)) == sorts


def test_a_place_is_known_where_no_other_may_be_as_large() -> None:
    value = np.asarray([[1.0, 3.0, 3.5, 0.0]], np.float32)
    near = np.asarray([[0.0, 0.2, 0.0, 0.0]])
    s = Sketch("f", f32)
    for fn, turned in (("max", 1), ("min", -1)):
        op = frontend.ArgReduceOp(fn, s.input(fn, "M", "N"), 1)
        for error, sure in ((near, False), (near / 8, True), (0 * near, True)):
            found = arg_reduce(op, posing(Estimate(value * np.float32(turned), error)))
            assert isinstance(found, Estimate)
            assert found.value.tolist() == [2] and bool(np.isinf(found.error).any()) != sure


def test_what_stands_at_a_place_is_as_near_as_the_elements_are() -> None:
    value = np.asarray([[4.0, 1.0, 1.1, 2.0]], np.float32)
    error = np.asarray([[0.0, 0.1, 0.0, 0.0]])
    op = frontend.SortOp(Sketch("f", f32).input("x", 1, 4), 1)
    values, places = sort(op, posing(Estimate(value, error)), {})
    assert isinstance(values, Estimate) and isinstance(places, Estimate)
    np.testing.assert_array_equal(values.value, value[:, [1, 2, 3, 0]])
    # 1.0 may be 1.4 or 0.6, by four errors: then 1.1 comes first.
    np.testing.assert_allclose(values.error[0], [0.1, 0.075, 0.0, 0.0], atol=1e-5)
    assert np.isinf(places.error[0]).tolist() == [True, True, False, False]
    lost = Estimate(value, np.where(error > 0, np.inf, 0.0))
    values, places = sort(op, posing(lost), {})
    assert isinstance(values, Estimate) and isinstance(places, Estimate)
    assert np.isinf(values.error).all() and np.isinf(places.error).all()
