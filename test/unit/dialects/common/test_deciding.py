"""Which bits decide an order: how it is said, what is refused, and what playback finds wrong."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i64

from polyc.dialects.common.deciding import bits_attr, bits_fault, bits_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.playback import functions


def test_all_bits_decide_where_nothing_is_said() -> None:
    assert bits_attr(None) is None
    assert bits_of(None, i8) == (0, 8)
    assert bits_of(bits_attr((32, 48)), i64) == (32, 48)


@pytest.mark.parametrize("bits", [(8, 8), (9, 3), (0, 65)])
def test_bits_that_are_none(bits: tuple[int, int]) -> None:
    assert bits_fault(bits_attr(bits), i64) == (
        f"the bits {bits[0]} to {bits[1]} are none of i64, which has 0 to 64"
    )


def test_playback_looks_whether_they_do() -> None:
    keys = np.array([3 << 32 | 0, -1 << 32 | 1, 3 << 32 | 2], np.int64)
    found = functions.sort(keys, 0, 3, (32, 64))
    np.testing.assert_array_equal(found, np.sort(keys))
    with pytest.raises(PolycError, match="bits 32 to 64, and as they stand") as wrong:
        functions.sort(keys[::-1].copy(), 0, 3, (32, 64))
    assert wrong.value.kind == "OrderBroken"
