"""Graphs as PyTorch functions: what a gather gives there is what it means."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from polyc.bench.in_torch import element, function
from polyc.dialects import frontend
from polyc.dialects.common.elements import INTEGERS, ui8
from polyc.test.support.gathering import assert_same, cases, data, hostile

torch: Any = pytest.importorskip("torch")

EVERY = [one for one in cases() if all(one.shape[axis] for axis in one.axes())]


@pytest.mark.parametrize("number", range(len(EVERY)))
def test_gathers(number: int) -> None:
    one, dice = EVERY[number], random.Random(number)
    index = (*INTEGERS[:4], ui8)[number % 5]
    x = data(one.shape, INTEGERS[2], dice)
    i = hostile(one.indices, index, one.shape[one.axes()[-1]], dice)
    graph = next(iter(one.module(INTEGERS[2], index).ops))
    assert isinstance(graph, frontend.GraphOp)
    (found,) = function(torch, graph, {})(torch.from_numpy(x), torch.from_numpy(i))
    assert_same(np.asarray(found), one.meant(x, i), (one, i.tolist()))
    assert element(torch, graph.body.block.args[1]) == torch.from_numpy(i).dtype
