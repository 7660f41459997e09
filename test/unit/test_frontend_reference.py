"""The FP32 reference and what agrees with it (S0.6)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Attribute
from xdsl.parser import Parser

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.playback.frontend import run
from polyc.playback.functions import dtype_of, round_to, ulp
from polyc.playback.reference import ShapeMismatch, make_inputs, reference, tolerance_check
from polyc.tools.registry import make_context


def check(actual: float, expected: float, element: Attribute) -> bool:
    a = round_to(np.array([[0.0, actual]], np.float64), element)
    return tolerance_check(a, np.array([[0.0, expected]], np.float32), element) is None


@pytest.mark.parametrize(
    ("actual", "expected", "element", "agree"),
    [
        (1.0, 1.0, f16, True),
        (1.0029, 1.0, f16, True),
        (1.006, 1.0, f16, False),
        (1.0, 1.009, bf16, True),
        (1.0, 1.02, bf16, False),
        (1.0019, 1.0, f32, True),
        (1.0021, 1.0, f32, False),
        (0.0, -0.0009, f16, True),
        (0.0, 0.0, f32, True),
        (-0.0, 0.0, f32, True),
        (math.nan, math.nan, f16, True),
        (math.nan, 1.0, f16, False),
        (1.0, math.nan, f16, False),
        (math.inf, math.inf, f16, True),
        (-math.inf, math.inf, f16, False),
        (math.inf, math.nan, f32, False),
        (65504.0, math.inf, f16, False),
        (math.inf, 70000.0, f16, True),
        (math.inf, 65510.0, f16, True),
        (-math.inf, -65510.0, f16, True),
        (math.inf, -65510.0, f16, False),
        (math.inf, 60000.0, f16, False),
        (math.inf, 70000.0, bf16, False),
    ],
)
def test_tolerance(actual: float, expected: float, element: Attribute, agree: bool) -> None:
    assert check(actual, expected, element) is agree


def test_a_mismatch_names_the_first_element_that_differs() -> None:
    actual, expected = np.zeros((3, 4), np.float16), np.zeros((3, 4), np.float32)
    expected[1, 2], expected[2, 0] = 5, np.nan
    found = tolerance_check(actual, expected, f16)
    assert found is not None
    assert (found.index, found.actual, found.expected) == ((1, 2), 0.0, 5.0)
    assert (found.count, found.total) == (2, 12)
    assert str(found).startswith("element [1, 2] is 0, expected 5 within 0.0")
    assert str(found).endswith("; 2 of 12 elements differ")


def test_arrays_without_elements_agree_and_shapes_must() -> None:
    empty = np.zeros((0, 4), np.float16)
    assert tolerance_check(empty, empty.astype(np.float32), f16) is None
    with pytest.raises(ShapeMismatch, match=r"shape \[0, 4\], expected \[4, 0\]"):
        tolerance_check(empty, empty.T.astype(np.float32), f16)


@pytest.mark.parametrize("element", [f16, bf16, f32])
def test_ulp_is_the_distance_to_the_next_number(element: Attribute) -> None:
    dtype = dtype_of(element)
    for value in (1.0, 1.5, 3.0, 0.1, 1000.0):
        x = np.array(value, dtype)
        above = np.nextafter(x, np.array(np.inf, dtype))
        step = float(above.astype(np.float64) - x.astype(np.float64))
        assert ulp(x, element) == step
    smallest: dict[Attribute, float] = {f16: 2.0**-24, bf16: 2.0**-133, f32: 2.0**-149}
    assert ulp(np.array([0.0, 1e-50]), element).tolist() == [smallest[element]] * 2


def _graph(name: str, root: str) -> GraphOp:
    text = (Path(root) / "examples" / name).read_text()
    module = Parser(make_context(), text).parse_module()
    module.verify()
    return cast(GraphOp, next(iter(module.ops)))


EXAMPLES = ["gemm_bias_relu.mlir", "gemm_bias_relu_bf16.mlir", "gemm_bias_relu_aligned.mlir"]


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_agree_with_the_reference(name: str, pytestconfig: pytest.Config) -> None:
    graph = _graph(name, str(pytestconfig.rootpath))
    sizes = {"M": 33, "N": 48, "K": 320}
    inputs = make_inputs(graph, sizes, seed=3)
    a, b, bias = (x.astype(np.float64) for x in inputs)
    (expected,) = reference(graph, inputs, sizes)
    np.testing.assert_allclose(expected, np.maximum(a @ b + bias, 0), rtol=1e-6, atol=1e-6)
    (actual,) = run(graph, inputs, sizes)
    element = graph.outputs[0].type.element_type
    assert actual.dtype == dtype_of(element)
    assert tolerance_check(actual, expected, element) is None
    wrong = actual.copy()
    wrong[7, 5] += np.asarray(1.0, actual.dtype)
    found = tolerance_check(wrong, expected, element)
    assert found is not None and found.index == (7, 5)


def test_inputs_are_reproducible_and_independent(pytestconfig: pytest.Config) -> None:
    graph = _graph(EXAMPLES[0], str(pytestconfig.rootpath))
    sizes = {"M": 5, "N": 5, "K": 5}
    first, again, other = (make_inputs(graph, sizes, s) for s in (1, 1, 2))
    for x, y in zip(first, again, strict=True):
        np.testing.assert_array_equal(x, y)
    assert (first[0] != other[0]).any() and (first[0] != first[1]).any()
    assert [x.shape for x in first] == [(5, 5), (5, 5), (5,)]
    assert all(np.abs(x.astype(np.float32)).max() <= 1 for x in first)


def test_assumptions_bind_inputs(pytestconfig: pytest.Config) -> None:
    graph = _graph("gemm_bias_relu_aligned.mlir", str(pytestconfig.rootpath))
    with pytest.raises(PolycError, match="assumes K mod 8 == 0, which K=7 does not satisfy"):
        make_inputs(graph, {"M": 1, "N": 8, "K": 7})
