"""Where two results differ most, and what was not written."""

from __future__ import annotations

import numpy as np

from polyc.tuning.beside import farthest, unwritten
from polyc.tuning.gpu import POISON


def test_what_differs_most_by_share_and_by_distance_comes_first() -> None:
    one = np.array([[1.0, 100.0, 0.001], [np.nan, np.inf, 2.0]], np.float16)
    other = one.copy()
    assert farthest(one, other, 4) == []
    other[0, 1], other[0, 2] = 101.0, 0.002
    assert farthest(one, other, 2) == [2, 1]
    assert set(farthest(one, other, 8)) == {1, 2}
    other[1, 2] = np.nan
    assert farthest(one, other, 2) == [5]
    assert 4 in farthest(one, -one, 2)  # an infinity beside the other one
    zeros = np.zeros(3, np.float32)
    assert farthest(zeros, -zeros, 4) == []  # zeros of unlike sign are alike


def test_conditions_and_what_holds_poison() -> None:
    conditions = np.array([True, False, True])
    assert farthest(conditions, ~conditions, 8) == [0, 1, 2]
    written = np.array([1.0, np.nan, np.inf], np.float32)
    assert unwritten(written, POISON, 4) == []
    written.view(np.uint8)[4:] = POISON
    assert unwritten(written, POISON, 4) == [1, 2] and unwritten(written, POISON, 1) == [1]
