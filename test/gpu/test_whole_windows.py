"""Convolutions of few planes, taken in whole windows where these lie, on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.test.unit.families.conv.test_whole_windows import CASES, Few, direct, inputs_of
from polyc.tools.load import load


@pytest.mark.parametrize("name", CASES)
def test_the_result_is_that_of_a_direct_evaluation(name: str) -> None:
    check(CASES[name])


@pytest.mark.parametrize("seed", range(6))
def test_any_window(seed: int) -> None:
    check(Few.drawn(seed))


def check(few: Few) -> None:
    program = load(few.text, "sm_90a")
    assert [name for name in program.kernels if "gather" in name], few
    x, w = inputs_of(few)
    found: list[Any] = program.run([x, w])
    np.testing.assert_array_equal(np.asarray(found[0]), direct(few, x, w))
