"""Numbers and lanes compute alike, and as the ops say."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects import arith
from xdsl.ir import Operation

from polyc.playback.gpu import arithmetic
from polyc.test.support.turns import examples

BINARY: list[type[Operation]] = [
    arith.AddiOp,
    arith.SubiOp,
    arith.MuliOp,
    arith.AndIOp,
    arith.OrIOp,
    arith.XOrIOp,
    arith.MinSIOp,
    arith.MaxSIOp,
    arith.MinUIOp,
    arith.MaxUIOp,
]
WORD = np.dtype(np.int32)


@settings(max_examples=examples(60))
@given(st.sampled_from(BINARY), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1))
def test_numbers_and_lanes_compute_alike(kind: type[Operation], a: int, b: int) -> None:
    function = arithmetic.integer(kind, WORD)
    assert function is not None
    lanes = function(np.full(32, a, np.int32), np.full(32, b, np.int32))
    assert lanes.dtype == WORD
    assert set(lanes.tolist()) == {function(a, b)}


@settings(max_examples=examples(60))
@given(
    st.sampled_from(arithmetic.DIVISIONS),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**31), 2**31 - 1).filter(lambda b: b not in (0, -1)),
)
def test_divisions(kind: type[Operation], a: int, b: int) -> None:
    divide = arithmetic.division(kind, WORD)
    x, y = (a % 2**32, b % 2**32) if kind in (arith.DivUIOp, arith.RemUIOp) else (a, b)
    towards_zero = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    results: dict[type[Operation], int] = {
        arith.DivUIOp: x // y,
        arith.RemUIOp: x % y,
        arith.DivSIOp: towards_zero,
        arith.RemSIOp: x - towards_zero * y,
        arith.FloorDivSIOp: x // y,
        arith.CeilDivSIOp: -(-x // y),
    }
    wanted = (results[kind] + 2**31) % 2**32 - 2**31
    lanes, zero = divide(np.full(32, a, np.int32), np.full(32, b, np.int32))
    assert not np.any(zero)
    assert set(lanes.tolist()) == {wanted}
    number, zero = divide(a, b)
    assert not zero and (number + 2**31) % 2**32 - 2**31 == wanted


def test_division_by_zero_is_told() -> None:
    divide = arithmetic.division(arith.DivUIOp, WORD)
    assert divide(3, 0) == (-1, True)
    lanes, zero = divide(np.arange(32, dtype=np.int32), np.arange(32, dtype=np.int32))
    assert zero.tolist() == [True] + [False] * 31
    assert lanes[1:].tolist() == [1] * 31


@given(
    st.lists(st.booleans(), min_size=32, max_size=32),
    st.lists(st.booleans(), min_size=32, max_size=32),
)
def test_split_masks(outer: list[bool], inner: list[bool]) -> None:
    m, c = np.array(outer), np.array(inner)
    mask = None if m.all() else m
    if not m.any():
        return
    yes, no = arithmetic.split(mask, c)
    for found, wanted in ((yes, m & c), (no, m & ~c)):
        if found is False:
            assert not wanted.any()
        elif found is None:
            assert wanted.all()
        else:
            assert wanted.any() and not found.all()
            np.testing.assert_array_equal(found, wanted)


def test_bits_are_seen_without_a_sign_in_their_own_type() -> None:
    """Also of lanes that were chosen beside a number, which NumPy has in 64 bits."""
    lanes = np.arange(-16, 16, dtype=np.int8)
    chosen = arithmetic.choose(lanes < 0, lanes, 5)
    found = arithmetic.cast_unsigned(np.dtype(np.int8), np.dtype(np.int32))(chosen)
    assert found.dtype == np.int32
    assert found.tolist() == [*range(240, 256), *[5] * 16]
