"""Integers are known, or nothing is known of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i32, i64

from polyc.dialects.common.elements import ui8, ui64
from polyc.playback import functions
from polyc.playback.agreement import tolerance_check
from polyc.playback.estimate import Estimate, to_integers
from polyc.playback.functions import posing


def doubtful(values: Any, error: float) -> Estimate:
    array = np.asarray(values, np.float32)
    return Estimate(array, np.full(array.shape, error))


def test_a_number_near_an_integer_is_cut_to_either() -> None:
    cut = functions.round_to(posing(doubtful([1.5, 2.0001, -0.2], 1e-3)), i32)
    assert isinstance(cut, Estimate)
    assert cut.value.tolist() == [1, 2, 0]
    assert np.isinf(cut.error).tolist() == [False, True, False]


def test_what_is_made_of_an_unknown_integer_is_not_known() -> None:
    cut = functions.round_to(posing(doubtful([1.5, 2.0001], 1e-3)), i32)
    total = functions.binary("add", cut, posing(Estimate(np.asarray([1, 1], np.int32))))
    assert isinstance(total, Estimate) and np.isinf(total.error).tolist() == [False, True]
    summed = functions.reduce("sum", total, (0,))
    assert isinstance(summed, Estimate) and np.isinf(summed.error)
    less = functions.compare("lt", cut, posing(Estimate(np.asarray([9, 9], np.int32))))
    assert isinstance(less, Estimate) and np.isinf(less.error).tolist() == [False, True]
    assert isinstance(cut, Estimate)
    real = Estimate.astype(cut, np.float32)
    assert real.value.tolist() == [1, 2] and np.isinf(real.error).tolist() == [False, True]


def test_a_known_integer_is_told_to_the_last_bit() -> None:
    right = Estimate(np.asarray([2**62, 2**62 + 1], np.int64))
    wrong = tolerance_check(np.asarray([2**62, 2**62 + 2], np.int64), right, i64)
    assert wrong is not None and f"is {2**62 + 2}, expected {2**62 + 1}" in str(wrong)
    assert tolerance_check(right.value, right, i64) is None
    unknown = Estimate(right.value, np.asarray([0.0, np.inf]))
    assert tolerance_check(np.asarray([2**62, 5], np.int64), unknown, i64) is None


@pytest.mark.parametrize(
    ("element", "numbers", "wanted"),
    [
        (i8, [3.9, -3.9, 127.9, 128, -129, np.nan, np.inf], [3, -3, 127, 127, -128, 0, 127]),
        (ui8, [-0.9, -5, 255.9, 256, -np.inf], [0, 0, 255, 255, 0]),
        (
            i32,
            [2147483520, 2147483648, -2147483648, -3e9],
            [2**31 - 128, 2**31 - 1] + [-(2**31)] * 2,
        ),
        (i64, [2.0**63, -(2.0**63), 2.0**62], [2**63 - 1, -(2**63), 2**62]),
        (ui64, [2.0**64, 2.0**63, -1.0], [2**64 - 1, 2**63, 0]),
    ],
)
def test_a_real_number_saturates(element: Any, numbers: Any, wanted: Any) -> None:
    found = functions.round_to(np.asarray(numbers, np.float32), element)
    assert found.tolist() == wanted


def test_an_integer_wraps() -> None:
    assert to_integers(np.asarray([300, -1]), np.dtype(np.uint8)).tolist() == [44, 255]
    assert to_integers(np.asarray([2**31]), np.dtype(np.int32)).tolist() == [-(2**31)]
