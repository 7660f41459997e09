"""The FP32 reference (S0.6)."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32
from xdsl.ir import Attribute
from xdsl.parser import Parser

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.playback.agreement import tolerance_check
from polyc.playback.draws import DRAWS
from polyc.playback.frontend import run
from polyc.playback.functions import dtype_of, ulp
from polyc.playback.reference import make_inputs, reference
from polyc.test.support.root import ROOT
from polyc.tools.registry import make_context


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
    np.testing.assert_allclose(expected.value, np.maximum(a @ b + bias, 0), rtol=1e-6, atol=1e-6)
    (actual,) = run(graph, inputs, sizes)
    element = graph.outputs[0].type.element_type
    assert actual.dtype == dtype_of(element)
    assert tolerance_check(actual, expected, element) is None
    wrong = actual.copy()
    wrong[7, 5] += np.asarray(1.0, actual.dtype)
    found = tolerance_check(wrong, expected, element)
    assert found is not None and found.index == (7, 5)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("path", sorted(p.name for p in (ROOT / "examples").glob("*.mlir")))
def test_the_reference_knows_every_size(path: str, size: int) -> None:
    """Also where a sum is over nothing; each kind of inputs agrees with the plain playback."""
    graph = _graph(path, str(ROOT))
    sizes = dict.fromkeys(graph.symbol_names, size)
    if not all(fact.holds(sizes) for fact in graph.facts):
        pytest.skip("the graph assumes other sizes")
    for draw in DRAWS:
        inputs = make_inputs(graph, sizes, 0, draw)
        for found, wanted, spec in zip(
            run(graph, inputs, sizes), reference(graph, inputs, sizes), graph.outputs, strict=True
        ):
            assert tolerance_check(found, wanted, spec.type.element_type) is None


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


def test_what_is_special_is_so_in_one_input(pytestconfig: pytest.Config) -> None:
    """NaN of two operands would meet everywhere, and leave nothing to compare."""
    graph = _graph(EXAMPLES[0], str(pytestconfig.rootpath))
    sizes = {"M": 9, "N": 8, "K": 16}
    for seed in range(4):
        inputs = make_inputs(graph, sizes, seed, "special")
        assert [not np.isfinite(x).all() for x in inputs] == [i == seed % 3 for i in range(3)]


def test_an_unknown_kind_of_inputs(pytestconfig: pytest.Config) -> None:
    graph = _graph(EXAMPLES[0], str(pytestconfig.rootpath))
    with pytest.raises(KeyError, match="uniforme"):
        make_inputs(graph, {"M": 1, "N": 8, "K": 8}, 0, "uniforme")
