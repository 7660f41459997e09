"""Scatters write what their indices say, in order, and nothing outside, at every layer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend, tiny
from polyc.dialects.common.elements import ELEMENTS, INTEGERS, ui8
from polyc.dialects.common.gathers import SCATTERS
from polyc.dialects.region import KernelOp
from polyc.dialects.region import ScatterOp as RegionScatter
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback.functions import Array, dtype_of
from polyc.test.support.gathering import BY_ELEMENT, TAKE, TUPLES, Gathering
from polyc.test.support.lowered import lowered
from polyc.test.support.scattering import Scattering, cases
from polyc.test.support.sketch import Sketch
from polyc.test.unit.lowering.frontend_to_tiny.test_gathers import all_layers
from polyc.tools.registry import make_context

EVERY = list(cases())


def every_layer(
    one: Scattering,
    module: ModuleOp,
    inputs: Sequence[Array],
    element: Attribute,
    sizes: Mapping[str, int],
    seed: int,
) -> None:
    x, i, u = inputs
    all_layers(module, inputs, one.meant(x, i, u, element), sizes, seed, "scattered")


@pytest.mark.turns(3)
@pytest.mark.parametrize("number", range(len(EVERY)))
def test_every_layer(number: int) -> None:
    """Each op along every axis, by every function, with hostile indices, through to tiles."""
    one, dice = EVERY[number], random.Random(number)
    element = ELEMENTS[number % len(ELEMENTS)]
    if element == i1:
        one = Scattering("set", one.at)
    kind = INTEGERS[(number // 4 + number) % len(INTEGERS)]
    every_layer(one, one.module(element, kind), one.draw(element, kind, dice), element, {}, number)


def rows(fn: str, element: Attribute = f32) -> ModuleOp:
    """Rows of a table whose sizes are a call's."""
    s = Sketch("scattered", element)
    x, i = s.input("x", "V", 4), s.input("i", "N", element=i64)
    return s.done(y=s.add(frontend.ScatterOp(fn, x, i, s.input("u", "N", 4), 0, from_end=True)))


@pytest.mark.turns(1)
@pytest.mark.parametrize("fn", SCATTERS)
def test_rows_of_any_sizes(fn: str) -> None:
    """More updates than rows, so that some are of one; no updates, and no rows."""
    for seed, (height, count) in enumerate(((3, 9), (5, 3), (1, 4), (0, 2), (4, 0))):
        at = Gathering(TAKE, (height, 4), (count,), 0, from_end=True)
        one, element = Scattering(fn, at), (f16, f32, i32)[seed % 3]
        inputs = one.draw(element, i64, random.Random(seed))
        sizes = {"V": height, "N": count}
        every_layer(one, rows(fn, element), inputs, element, sizes, seed)


def test_an_index_is_not_of_fewer_bits_than_the_rows_need() -> None:
    """One of 8 bits counts from the end of 300 rows, or up to 255 from the start."""
    one = Scattering("add", Gathering(TAKE, (300,), (4,), 0, from_end=True))
    x, u = np.zeros(300, np.float32), np.arange(1, 5, dtype=np.float32)
    for kind, at in ((i8, [-128, -1, 127, 1]), (ui8, [255, 128, 127, 1])):
        i = np.asarray(at, dtype_of(kind))
        wanted = one.meant(x, i, u, f32)
        assert np.flatnonzero(wanted).tolist() == sorted(a % 300 for a in at)
        every_layer(one, one.module(f32, kind), [x, i, u], f32, {}, 0)


def around(fn: str) -> ModuleOp:
    """Indices, updates and a tensor that are computed, and a sum of what is written."""
    s = Sketch("scattered", f32)
    x, i, u = s.input("x", "V", "D"), s.input("i", "N", element=i32), s.input("u", "N", "D")
    at = s.fn("add", i, s.number(1, i32))
    found = s.add(frontend.ScatterOp(fn, s.fn("neg", x), at, s.fn("abs", u), 0))
    return s.done(y=s.reduce("max", s.fn("neg", found), 1))


@pytest.mark.parametrize("fn", ["set", "add"])
def test_what_is_around_may_be_computed(fn: str) -> None:
    dice = np.random.default_rng(7)
    x, u = (np.asarray(dice.integers(-9, 9, (n, 3)), np.float32) for n in (4, 6))
    i = np.asarray([0, 0, -1, 2, -2, 3], np.int32)
    one = Scattering(fn, Gathering(TAKE, (4, 3), (6,)))
    wanted = (-one.meant(-x, i + 1, np.abs(u), f32)).max(1)
    sizes = {"V": 4, "D": 3, "N": 6}
    for seed in range(3):
        all_layers(around(fn), [x, i, u], wanted, sizes, seed, "scattered")


def test_what_is_elementwise_around_is_one_kernel() -> None:
    s = Sketch("scattered", f32)
    x, i, u = s.input("x", "V", "D"), s.input("i", "N", element=i64), s.input("u", "N", "D")
    found = s.add(frontend.ScatterOp("add", s.fn("neg", x), i, s.fn("exp", u), 0))
    module = lowered(s.done(y=s.fn("relu", found)), "sm_90a", "region")
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    assert sum(isinstance(op, RegionScatter) for op in kernel.walk()) == 1


def test_a_scatter_of_a_scatter_is_another_kernel() -> None:
    s = Sketch("scattered", f32)
    x, i, u = s.input("x", "V", "D"), s.input("i", "N", element=i64), s.input("u", "N", "D")
    first: SSAValue = s.add(frontend.ScatterOp("add", x, i, u, 0))
    module = lowered(s.done(y=s.add(frontend.ScatterOp("set", first, i, u, 0))), "sm_90a", "region")
    assert sum(isinstance(op, KernelOp) for op in module.walk()) == 2


def scatter_of(one: Scattering, element: Attribute = f32) -> tiny.ScatterOp:
    module = one.module(element)
    FrontendToTiny().apply(make_context(), module)
    (found,) = (op for op in module.walk() if isinstance(op, tiny.ScatterOp))
    return found


@pytest.mark.parametrize(
    ("at", "axes", "updates"),
    [
        (Gathering(TAKE, (2, 5, 3), (4, 6), 1), (1,), (2, 24, 3)),
        (Gathering(BY_ELEMENT, (4, 5), (4, 7), 1), (1,), (4, 7)),
        # Fewer updates than rows: a place along the rows is an index too.
        (Gathering(BY_ELEMENT, (4, 5), (3, 7), 1), (0, 1), (3, 7)),
        (Gathering(TUPLES, (4, 5, 3), (2, 6, 2), 0), (0, 1), (12, 1, 3)),
        (Gathering(TUPLES, (2, 4, 5), (2, 3, 1), 1), (1,), (2, 3, 5)),
    ],
)
def test_indices_come_to_have_the_shape_of_updates(
    at: Gathering, axes: tuple[int, ...], updates: tuple[int, ...]
) -> None:
    found = scatter_of(Scattering("add", at))
    assert found.axes == axes and len(found.indices) == len(axes)
    for value in (found.updates, *found.indices):
        assert tuple(d.constant() for d in tiny.tensor_of(value).dims) == updates


ONE = [
    Gathering(TAKE, (2, 5), (), 0),
    Gathering(TAKE, (3, 5), (1,), 1, from_end=True),
    Gathering(BY_ELEMENT, (4, 7), (4, 1), 1),
    Gathering(BY_ELEMENT, (5, 3, 2), (1, 3, 2), 0, from_end=True),
]
"""Of one update for each line along the axis."""


@pytest.mark.parametrize("at", ONE, ids=str)
@pytest.mark.parametrize("fn", SCATTERS)
def test_one_update_of_a_line_is_a_choice(at: Gathering, fn: str) -> None:
    """With indices outside, which change nothing, and from the end; no scatter is left."""
    for seed, element in enumerate((f16, f32, i32)):
        one = Scattering(fn, at)
        module = one.module(element)
        inputs = one.draw(element, i64, random.Random(seed))
        every_layer(one, module, inputs, element, {}, seed)
        FrontendToTiny().apply(make_context(), module)
        assert not any(isinstance(op, tiny.ScatterOp) for op in module.walk())


def test_a_place_is_of_more_bits_than_a_short_index() -> None:
    """One of 8 bits is of no place beyond 127, with which its bits agree."""
    one = Scattering("set", Gathering(BY_ELEMENT, (2, 300), (2, 1), 1))
    x, i = np.zeros((2, 300), np.float32), np.asarray([[5], [-3]], np.int8)
    u = np.ones((2, 1), np.float32)
    assert one.meant(x, i, u, f32).reshape(-1).nonzero()[0].tolist() == [5]
    every_layer(one, one.module(f32, i8), [x, i, u], f32, {}, 0)


def test_a_one_hot_row_is_made_beside_its_maximum() -> None:
    """What asks for the place of the largest and sets it there is one kernel of rows."""
    s = Sketch("scattered", f32)
    x = s.input("x", 64, 128)
    at = s.add(frontend.ArgReduceOp("max", x, 1, keepdims=True))
    found = s.add(frontend.ScatterElementsOp("set", x, at, s.reduce("sum", x, 1, keep=True), 1))
    module = lowered(s.done(y=s.fn("neg", found)), "sm_90a", "region")
    assert sum(isinstance(op, KernelOp) for op in module.walk()) == 1


def test_conditions_go_as_numbers() -> None:
    found = scatter_of(Scattering("set", Gathering(TAKE, (4,), (3,))), i1)
    assert tiny.tensor_of(found.operand).element_type == f32
