"""Element types: what each holds, and what a reduction over nothing of it is."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerAttr, bf16, f16, f32, i1, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects.common.elements import (
    COMPARE,
    ELEMENTS,
    INTEGERS,
    Functions,
    bounds,
    computed,
    holds,
    is_integer,
    is_unsigned,
    neutral,
    number_attr,
    number_of,
    ui8,
    ui64,
    width,
    without_sign,
)
from polyc.playback.functions import dtype_of


@pytest.mark.parametrize("element", INTEGERS)
def test_the_bounds_are_those_of_numpy(element: Attribute) -> None:
    of_numpy = np.iinfo(dtype_of(element))
    assert bounds(element) == (of_numpy.min, of_numpy.max)
    assert width(element) == of_numpy.bits
    assert is_unsigned(element) == (of_numpy.min == 0)
    assert neutral("sum", element) == 0
    assert (neutral("max", element), neutral("min", element)) == bounds(element)


def test_what_is_computed_and_what_kernels_have() -> None:
    assert [computed(e) for e in (f16, bf16, f32, i1, ui8)] == [f32, f32, f32, i1, ui8]
    assert [without_sign(e) for e in (f16, i1, ui8, ui64, i32)] == [f16, i1, i8, i64, i32]
    assert not is_integer(i1) and not is_integer(f16)
    assert neutral("max", f32) == -math.inf and neutral("sum", f32) == 0.0


@given(st.sampled_from(ELEMENTS), st.integers(-(2**66), 2**66))
def test_a_type_holds_what_reads_back(element: Attribute, number: int) -> None:
    if element == i1:
        assert holds(element, number) == (number in (0, 1))
    elif is_integer(element):
        least, most = bounds(element)
        assert holds(element, number) == (least <= number <= most)
    else:
        dtype = dtype_of(element)
        with np.errstate(all="ignore"):
            assert holds(element, number) == (
                float(np.asarray(number, float).astype(dtype)) == number
            )


def test_a_number_is_typed_exactly() -> None:
    attr = number_attr(-(2**63), i64)
    assert isinstance(attr, IntegerAttr) and number_of(attr) == -(2**63)
    assert number_of(number_attr(2**64 - 1, ui64)) == 2**64 - 1
    assert number_of(number_attr(5.0, i32)) == 5
    with pytest.raises(ValueError, match=r"0\.5 is no i32"):
        number_attr(0.5, i32)
    with pytest.raises(ValueError, match="256 is no ui8"):
        number_attr(256, ui8)
    assert not holds(i32, math.inf) and not holds(i32, math.nan)


def test_functions_of_a_kind() -> None:
    some = Functions(("exp",), ("shl",), ("or",))
    assert some.names == ("exp", "or", "shl")
    assert some.fault("shl", i32) is None and some.fault("or", i1) is None
    assert some.fault("shl", f16) == "shl is no function of f16, which has exp; add a cast"
    assert COMPARE.of(i1) == ("eq", "ne")
