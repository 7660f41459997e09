"""Folded numbers are those of f32, to the bit."""

# pyright: basic

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyc.playback.functions import sign
from polyc.trace.folding import folded, is_neutral, to_f32

FLOATS = st.floats(width=32)
NUMPY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
}
ALONE = {
    "neg": np.negative,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sign": sign,
}


@given(FLOATS, FLOATS)
def test_folded_is_numpys_f32(a: float, b: float):
    with np.errstate(all="ignore"):
        for fn, numpys in NUMPY.items():
            if fn in ("max", "min") and a == b:
                continue  # either of two zeros
            np.testing.assert_equal(folded(fn, [a, b]), float(numpys(np.float32(a), np.float32(b))))
        for fn, numpys in ALONE.items():
            # The sign of a zero too.
            np.testing.assert_equal(folded(fn, [a]), float(numpys(np.float32(a))))


@given(FLOATS, FLOATS)
def test_a_neutral_number_changes_no_bit(x: float, drawn: float):
    for number in (drawn, 0.0, -0.0, 1.0):
        for fn in ("add", "sub", "mul", "div"):
            for position in (0, 1):
                if is_neutral(fn, position, number):
                    pair = (number, x) if position == 0 else (x, number)
                    found = folded(fn, pair)
                    assert found is not None
                    np.testing.assert_equal(found, x)
                    assert math.isnan(x) or math.copysign(1, found) == math.copysign(1, x)


def test_what_a_library_rounds_is_left():
    assert folded("exp", [1.0]) is None and folded("pow", [2.0, 2.0]) is None
    assert to_f32(1e300) == math.inf and to_f32(0.1) == float(np.float32(0.1))
