"""Bits that decide the order of integers: those of a type, and what playback holds of them."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i64

from polyc.dialects.common.deciding import bits_attr, bits_fault, bits_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.playback.functions import sort


def test_bits_are_some_of_the_type() -> None:
    assert bits_of(None, i64) == (0, 64)
    assert bits_of(bits_attr((32, 48)), i64) == (32, 48)
    assert bits_fault(bits_attr((0, 8)), i8) is None
    assert bits_fault(bits_attr((4, 9)), i8) == "the bits 4 to 9 are none of i8, which has 0 to 8"


def test_bits_that_do_not_decide_are_a_fault() -> None:
    """Keys with their place below are in the order of the bits above; in another order they are
    not, and playback says so."""
    high = np.array([3, 1, 3, 2], np.int64)
    keys = (high << 32) + np.arange(4)
    assert sort(keys, 0, 4, (32, 64)).tolist() == sorted(keys.tolist())
    with pytest.raises(PolycError) as caught:
        sort(keys[::-1].copy(), 0, 4, (32, 64))
    assert caught.value.kind == "OrderBroken"
