"""How near is near enough (S0.6): the comparison, and what it tells apart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import Attribute

from polyc.dialects.frontend import GraphOp
from polyc.playback.agreement import ShapeMismatch, errors_needed, tolerance_check, unknown
from polyc.playback.draws import DRAWS
from polyc.playback.estimate import FACTOR, Estimate
from polyc.playback.frontend import run
from polyc.playback.functions import MANTISSA_BITS, round_to, sum_over
from polyc.playback.reference import make_inputs, reference
from polyc.test.support.gpu_text import only, parsed

TYPES = [f16, bf16, f32]


def agrees(actual: float, expected: float, element: Attribute, error: float = 0.0) -> bool:
    stored = round_to(np.array([[0.0, actual]], np.float64), element)
    wanted = Estimate(np.array([[0.0, expected]], np.float32), np.array([[0.0, error]]))
    return tolerance_check(stored, wanted, element) is None


@pytest.mark.parametrize(
    ("actual", "expected", "element", "agree"),
    [
        (1.0, 1.0, f16, True),
        (1.0, 1.0 + 2.0**-11, f16, True),
        (1.0, 1.0 + 2.0**-11 + 2.0**-22, f16, False),
        (1.0, 1.0 - 2.0**-12, f16, True),
        (1.0, 1.0 - 2.0**-12 - 2.0**-23, f16, False),
        (1.0, 1.0 + 2.0**-8, bf16, True),
        (1.0, 1.0 + 2.0**-7, bf16, False),
        (1.0, 1.0 + 2.0**-23, f32, False),
        (0.0, 2.0**-25, f16, True),
        (0.0, -(2.0**-24), f16, False),
        (-0.0, 0.0, f32, True),
        (math.nan, math.nan, f16, True),
        (math.nan, 1.0, f16, False),
        (1.0, math.nan, f16, False),
        (math.inf, math.inf, f16, True),
        (-math.inf, math.inf, f16, False),
        (math.inf, math.nan, f32, False),
        (65504.0, math.inf, f16, False),
        (math.inf, 70000.0, f16, True),
        (math.inf, 65520.0, f16, True),
        (math.inf, 65510.0, f16, False),
        (-math.inf, -65520.0, f16, True),
        (math.inf, -65520.0, f16, False),
        (65504.0, 65519.0, f16, True),
        (math.inf, 70000.0, bf16, False),
    ],
)
def test_what_is_exact_is_right_to_the_last_bit(
    actual: float, expected: float, element: Attribute, agree: bool
) -> None:
    assert agrees(actual, expected, element) is agree


@pytest.mark.parametrize("element", TYPES)
def test_an_error_widens_what_agrees_by_the_factor(element: Attribute) -> None:
    ulp = 2.0 ** -MANTISSA_BITS[element]
    error = 3 * ulp / FACTOR
    assert agrees(1 + 3 * ulp, 1.0, element, error)
    assert not agrees(1 + 4 * ulp, 1.0, element, error)
    assert agrees(math.inf, 1.0, element, math.inf)
    assert not agrees(math.nan, 1.0, element, error)


def test_what_may_overflow_agrees_with_both() -> None:
    assert agrees(math.inf, 65500.0, f16, 20 / FACTOR)
    assert agrees(65504.0, 65530.0, f16, 20 / FACTOR)
    assert not agrees(math.inf, 60000.0, f16, 20 / FACTOR)


@given(st.floats(width=32, allow_nan=False), st.sampled_from(TYPES))
def test_a_number_agrees_with_what_it_rounds_to(value: float, element: Attribute) -> None:
    x = np.array([value], np.float32)
    stored = round_to(x, element)
    assert tolerance_check(stored, x, element) is None
    above = np.nextafter(stored, stored.dtype.type(np.inf))
    if np.isfinite(above).all() and np.isfinite(stored).all():
        wide, next_wide = stored.astype(np.float64), above.astype(np.float64)
        if (next_wide - x > (next_wide - wide) * 0.51).all():
            assert tolerance_check(above, x, element) is not None


def test_conditions_are_equal() -> None:
    x = np.array([True, False])
    assert tolerance_check(x, x, i1) is None
    assert tolerance_check(~x, x, i1) is not None
    doubtful = Estimate(x, np.array([np.inf, 0.0]))
    assert tolerance_check(np.array([False, False]), doubtful, i1) is None
    assert unknown(doubtful) == 1 and unknown(x) == 0


def test_a_mismatch_names_the_first_element_that_differs() -> None:
    actual, expected = np.zeros((3, 4), np.float16), np.zeros((3, 4), np.float32)
    expected[1, 2], expected[2, 0] = 5, np.nan
    found = tolerance_check(actual, expected, f16)
    assert found is not None
    assert (found.index, found.actual, found.expected) == ((1, 2), 0.0, 5.0)
    assert (found.count, found.total) == (2, 12)
    assert str(found) == "element [1, 2] is 0, expected 5 within 0.00195; 2 of 12 elements differ"


def test_arrays_without_elements_agree_and_shapes_must() -> None:
    empty = np.zeros((0, 4), np.float16)
    assert tolerance_check(empty, empty.astype(np.float32), f16) is None
    with pytest.raises(ShapeMismatch, match=r"shape \[0, 4\], expected \[4, 0\]"):
        tolerance_check(empty, empty.T.astype(np.float32), f16)


# What it tells apart -------------------------------------------------------------------------

TENSOR = "!frontend.tensor<[M, N], f16>"
SOFTMAX = f"""frontend.graph @f(%x: {TENSOR}) -> (y: {TENSOR}) {{
  %0 = frontend.softmax %x axes [1] : {TENSOR}
  frontend.output %0 : {TENSOR}
}}
"""


def softmax(x: Any, shift: Callable[..., Any] = np.max) -> Any:
    """A softmax in f32, rounded to f16 at the end."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float32)
        powers = np.exp(wide - shift(wide, axis=1, keepdims=True))
        return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float16)


def softmax_of(columns: int, draw: str = "uniform") -> tuple[Any, Estimate]:
    graph, sizes = only(parsed(SOFTMAX), GraphOp), {"M": 12, "N": columns}
    inputs = make_inputs(graph, sizes, 0, draw)
    (wanted,) = reference(graph, inputs, sizes)
    (found,) = run(graph, inputs, sizes)
    assert tolerance_check(found, wanted, f16) is None
    assert tolerance_check(softmax(inputs[0]), wanted, f16) is None
    return inputs[0], wanted


@pytest.mark.parametrize("columns", [10, 700, 4000, 20_000])
def test_small_outputs_are_compared_by_their_own_size(columns: int) -> None:
    """An absolute tolerance takes zeros for the softmax of a long row."""
    x, wanted = softmax_of(columns)
    right = softmax(x)
    for wrong in (np.zeros_like(right), right * np.float16(1.85), right * np.float16(1.02)):
        mismatch = tolerance_check(wrong, wanted, f16)
        assert mismatch is not None and mismatch.count > right.size / 2


@pytest.mark.parametrize("columns", [150, 1000, 4000])
def test_one_column_too_many_or_too_few_is_seen(columns: int) -> None:
    x, wanted = softmax_of(columns)
    powers = np.exp(x.astype(np.float32))
    for phantom in (np.float32(1), -powers[:, :1]):
        wrong = (powers / (powers.sum(axis=1, keepdims=True) + phantom)).astype(np.float16)
        assert tolerance_check(wrong, wanted, f16) is not None


def test_a_least_in_place_of_a_largest_is_seen_on_large_inputs() -> None:
    """Between -1 and 1 no exponential overflows, whatever is subtracted."""
    x, wanted = softmax_of(300)
    assert tolerance_check(softmax(x, np.min), wanted, f16) is None
    x, wanted = softmax_of(300, "large")
    assert tolerance_check(softmax(x, np.min), wanted, f16) is not None


GEMM = """frontend.graph @f(%a: !frontend.tensor<[M, K], f16>, %b: !frontend.tensor<[K, N], f16>)
    -> (y: !frontend.tensor<[M, N], f32>) {
  %0 = frontend.gemm %a, %b {acc = f32} : (!frontend.tensor<[M, K], f16>, !frontend.tensor<[K, N], f16>) -> !frontend.tensor<[M, N], f32>
  frontend.output %0 : !frontend.tensor<[M, N], f32>
}
"""  # noqa: E501


@pytest.mark.parametrize("draw", [d for d in DRAWS if d != "special"])
@pytest.mark.parametrize("depth", [17, 257, 4099])
def test_a_product_left_out_is_seen(depth: int, draw: str) -> None:
    """Also of the longest sum, and of the smallest numbers."""
    graph, sizes = only(parsed(GEMM), GraphOp), {"M": 5, "N": 6, "K": depth}
    a, b = make_inputs(graph, sizes, 1, draw)
    (wanted,) = reference(graph, [a, b], sizes)
    (found,) = run(graph, [a, b], sizes)
    assert tolerance_check(found, wanted, f32) is None
    left_out = a.copy()
    left_out[:, depth // 2] = 0
    (wrong,) = run(graph, [left_out, b], sizes)
    assert tolerance_check(wrong, wanted, f32) is not None


def test_errors_needed_are_of_each_element() -> None:
    wanted = Estimate(np.array([1.0, 1.0, 0.0], np.float32), np.array([0.25, 0.0, 1.0]))
    found = errors_needed(np.array([2.0, 2.0, 0.0], np.float32), wanted, f32)
    assert found[0] == pytest.approx(4.0, rel=1e-6) and np.isinf(found[1]) and found[2] == 0


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2), (2, 0), (0, 1, 2)])
def test_sums_are_near_wherever_their_axes_lie(axes: tuple[int, ...]) -> None:
    """Of many equal numbers: one after another they would be off by hundreds of ulps."""
    x = np.full((60, 50, 40), np.float32(0.1))
    found, right = sum_over(x, axes), np.sum(x, axis=axes, dtype=np.float64)
    assert found.shape == right.shape and found.dtype == np.float32
    assert np.all(np.abs(found - right) <= 16 * np.spacing(right.astype(np.float32)))
    assert sum_over(x[:0], axes).shape == np.sum(x[:0], axis=axes).shape
