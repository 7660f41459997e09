"""Playback of scatters gives what plain loops over the updates give, at the layers of tensors."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32, i1, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.elements import ELEMENTS, INTEGERS, ui64
from polyc.dialects.common.gathers import SCATTERS
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback import scatters
from polyc.playback import tiny as tiny_playback
from polyc.playback.estimate import Estimate
from polyc.playback.frontend import run
from polyc.playback.functions import Array, posing
from polyc.test.support.gathering import BY_ELEMENT, TAKE, TUPLES, Gathering
from polyc.test.support.scattering import Scattering, cases
from polyc.tools.registry import make_context


def played(
    one: Scattering, element: Attribute, inputs: Sequence[Array], index: Attribute
) -> list[Array]:
    """The result at the frontend, and below it."""
    module = one.module(element, index)
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    above = run(graph, inputs, {})[0]
    FrontendToTiny().apply(make_context(), module)
    module.verify()
    lower = next(iter(module.ops))
    assert isinstance(lower, tiny.GraphOp)
    return [above, tiny_playback.run(lower, inputs, {})[0]]


@pytest.mark.turns(1)
@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_every_type_of_data_and_of_indices(element: Attribute) -> None:
    for number, one in enumerate(cases()):
        if element == i1:
            one = Scattering("set", one.at)
        index = INTEGERS[(number + ELEMENTS.index(element)) % len(INTEGERS)]
        inputs = one.draw(element, index, random.Random(number))
        wanted = one.meant(*inputs, element)
        for found in played(one, element, inputs, index):
            assert found.dtype == inputs[0].dtype, one
            one.assert_same(found, wanted, (one, index, inputs[1].tolist()))


def test_every_function_as_numpy_has_it() -> None:
    x, u = np.arange(4, dtype=np.float32), np.asarray([3, -1, 2, 5, np.nan], np.float32)
    i = np.asarray([1, 1, -1, 7, 0], np.int64)
    inside = [0, 1, 2, 4]
    for fn in SCATTERS:
        one = Scattering(fn, Gathering(TAKE, (4,), (5,), from_end=True))
        wanted = x.copy()
        if fn == "set":
            wanted[i[inside]] = u[inside]
        else:
            ufunc = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[fn]
            with np.errstate(all="ignore"):
                ufunc.at(wanted, i[inside], u[inside])
        for found in played(one, f32, [x, i, u], i64):
            np.testing.assert_array_equal(found, wanted, fn)


def test_no_index_wraps() -> None:
    x, u = np.zeros(4, np.float32), np.arange(1, 6, dtype=np.float32)
    for from_end, last in ((True, 5), (False, 0)):
        one = Scattering("add", Gathering(TAKE, (4,), (5,), from_end=from_end))
        i = np.asarray([2**32 + 1, 2**63 - 1, -(2**63), -(2**32), -4], np.int64)
        for found in played(one, f32, [x, i, u], i64):
            assert found.tolist() == [last, 0, 0, 0]
    one = Scattering("add", Gathering(TAKE, (4,), (2,), from_end=True))
    at = np.asarray([2**64 - 1, 2], np.uint64)
    for found in played(one, f32, [x, at, u[:2]], ui64):
        assert found.tolist() == [0, 0, 2, 0]  # no negative one


@pytest.mark.parametrize("op", [TAKE, BY_ELEMENT, TUPLES])
def test_the_last_of_several_stays_and_the_last_axis_is_fastest(op: type) -> None:
    indices = {TAKE: (2, 2), BY_ELEMENT: (4,), TUPLES: (2, 2, 1)}[op]
    one = Scattering("set", Gathering(op, (2,), indices))
    u = np.arange(4, dtype=np.float32).reshape(one.at.given())
    i = np.zeros(indices, np.int64)
    for found in played(one, f32, [np.full(2, -1, np.float32), i, u], i64):
        assert found.tolist() == [3, -1]


def test_halves_are_added_in_f32_and_rounded_once() -> None:
    one = Scattering("add", Gathering(TAKE, (1,), (4096,)))
    inputs = [np.asarray([2048], np.float16), np.zeros(4096, np.int64), np.ones(4096, np.float16)]
    for found in played(one, f16, inputs, i64):
        assert found.tolist() == [6144]  # 2048 for ever, if each were rounded


def test_nothing_is_known_after_an_unknown_index() -> None:
    x = np.arange(4, dtype=np.float32)
    u = np.ones(2, np.float32)
    index = posing(Estimate(np.asarray([1, 2]), np.asarray([0.0, 1.0])))
    for fn in SCATTERS:
        found = scatters.scatter(fn, x, u, [index])
        assert isinstance(found, Estimate) and not np.isfinite(found.error).any()
        known = scatters.scatter(fn, posing(Estimate(x)), u, [np.asarray([1, 2])])
        assert isinstance(known, Estimate) and known.value[3] == 3
        assert np.isfinite(known.error).all() and known.error[3] == 0


def test_a_place_is_found_where_it_rises() -> None:
    there = np.asarray([-4, 0, 3])
    found = scatters.place_of(np.asarray([0, 3, 1, -4, -9, 2**40]), there)
    assert found.tolist() == [1, 2, -1, 0, -1, -1]
    assert scatters.place_of(np.asarray([0, 1]), there[:0]).tolist() == [-1, -1]
