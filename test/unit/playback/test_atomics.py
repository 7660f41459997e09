"""Atomic updates: each place has all of its own, also of numbers without a sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc.playback.atomics import combine_at


@pytest.mark.parametrize(
    ("function", "wanted"),
    [("add", [8, 1, -5]), ("max", [6, 2, -1]), ("min", [0, -1, -4]), ("umax", [6, -1, -1])],
)
@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_updates_of_one_place_are_all_combined(
    function: str, wanted: list[int], kind: type[np.signedinteger[Any]]
) -> None:
    data = np.asarray([0, 2, -1], kind)
    combine_at(function, data, np.asarray([0, 0, 1, 2]), np.asarray([2, 6, -1, -4], kind))
    assert data.tolist() == wanted
