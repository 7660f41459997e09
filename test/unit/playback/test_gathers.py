"""Playback of gathers gives what plain loops over the elements give, at the layers of tensors."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.elements import ELEMENTS, INTEGERS, ui64
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback import gathers
from polyc.playback import tiny as tiny_playback
from polyc.playback.estimate import Estimate
from polyc.playback.frontend import run
from polyc.playback.functions import Array, posing
from polyc.test.support.gathering import TAKE, Gathering, assert_same, cases, data, hostile
from polyc.tools.registry import make_context


def played(one: Gathering, element: Attribute, x: Array, i: Array, index: Attribute) -> list[Array]:
    """The result at the frontend, and below it."""
    module = one.module(element, index)
    graph = next(iter(module.ops))
    assert isinstance(graph, frontend.GraphOp)
    above = run(graph, [x, i], {})[0]
    FrontendToTiny().apply(make_context(), module)
    module.verify()
    lower = next(iter(module.ops))
    assert isinstance(lower, tiny.GraphOp)
    return [above, tiny_playback.run(lower, [x, i], {})[0]]


@pytest.mark.parametrize("element", ELEMENTS, ids=str)
def test_every_type_of_data_and_of_indices(element: Attribute) -> None:
    every = list(cases())
    for number, (one, index) in enumerate(product(every, INTEGERS)):
        if number % len(ELEMENTS) != ELEMENTS.index(element):
            continue
        dice = random.Random(number)
        size = one.shape[one.axes()[-1]]
        x, i = data(one.shape, element, dice), hostile(one.indices, index, size, dice)
        wanted = one.meant(x, i)
        for found in played(one, element, x, i, index):
            assert found.dtype == x.dtype, one
            assert_same(found, wanted, (one, index, i.tolist()))


def test_no_index_wraps() -> None:
    x = np.arange(4, dtype=np.float32)
    for fill, wanted in ((None, [3, 3, 0, 0, 0]), (-5.0, [-5, -5, -5, -5, 0])):
        one = Gathering(TAKE, (4,), (5,), 0, fill, from_end=True)
        i = np.asarray([2**32 + 1, 2**63 - 1, -(2**63), -(2**32), -4], np.int64)
        for found in played(one, f32, x, i, i64):
            assert found.tolist() == wanted
    one, most = Gathering(TAKE, (4,), (2,), 0, None, from_end=True), 2**64 - 1
    for found in played(one, f32, x, np.asarray([most, 2], np.uint64), ui64):
        assert found.tolist() == [3, 2]  # no negative one


def test_nothing_is_known_of_what_an_unknown_index_reads() -> None:
    x = posing(Estimate(np.arange(4, dtype=np.float32)))
    index = posing(Estimate(np.asarray([1, 2]), np.asarray([0.0, 1.0])))
    found = gathers.gather(x, [index], [0], None, f32)
    assert isinstance(found, Estimate)
    assert found.value[0] == 1 and found.error[0] == 0
    assert not np.isfinite(found.error[1])
