"""Tensors with numbers that a traced function reads: parameters, one a tensor, with their names."""

# pyright: basic, reportOperatorIssue=false, reportArgumentType=false

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import polyc
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.test.support.tracing import text, trace
from polyc.trace.annotations import Tensor
from polyc.trace.captured import is_array

W = np.arange(12, dtype=np.float32).reshape(4, 3)
X = Tensor["M", 4, "f32"]


def test_every_way_of_reading_one_is_one_parameter() -> None:
    made = trace(lambda x: x @ W + polyc.constant(W)[0] - (W @ polyc.full((3, 1), 1.0)).sum(), X)
    assert made.captured == {"constant0": W}
    (graph,) = made.module.ops
    assert isinstance(graph, GraphOp)
    assert str(graph).count("frontend.parameter") == 1


@pytest.mark.parametrize("kind", [np.float16, np.float32, ml_dtypes.bfloat16, np.bool_])
def test_every_element_type(kind: Any) -> None:
    one = np.ones((2, 1, 3), kind)
    name = {"float16": "f16", "float32": "f32", "bfloat16": "bf16", "bool": "i1"}[one.dtype.name]
    shown = text(lambda x: (x, polyc.constant(one, "w")), X)
    assert f'frontend.parameter "w" : !frontend.tensor<[2, 1, 3], {name}>' in shown


def test_numbers_stay_numbers() -> None:
    shown = text(lambda x: x * np.float32(2) + np.array(3.0), X)
    assert "frontend.parameter" not in shown and shown.count("frontend.constant") == 2


def test_names_are_apart() -> None:
    v = W + 1

    def function(x: Any) -> Any:
        first = polyc.parameter("constant0", (4, 3))
        return x @ first + x @ W + x @ polyc.constant(v, "v") + x @ v

    made = trace(function, X)
    assert {name: array is W for name, array in made.captured.items()} == {
        "constant1": True,
        "v": False,
    }
    assert text(function, X).count("frontend.parameter") == 3


def test_what_nothing_reads_is_left_out() -> None:
    def function(x: Any) -> Any:
        polyc.constant(W)
        return x

    assert trace(function, X).captured == {}


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: x @ W.astype(np.float64), "'float64' is no element type"),
        (lambda x: polyc.constant([1.0, 2.0]), "a list is no tensor with numbers"),
        (
            lambda x: x @ polyc.constant(W, "w") + x @ polyc.constant(W + 1, "w"),
            "another parameter",
        ),
        (lambda x: polyc.parameter("w", ("M", 3)), "sizes that are numbers"),
        (lambda x: polyc.parameter("", (3,)), "a text that is not empty"),
        (lambda x: (polyc.parameter("w", (3,)), polyc.parameter("w", (4,))), "it has one type"),
    ],
)
def test_what_is_refused_points_at_its_line(made: Any, message: str) -> None:
    with pytest.raises(PolycError, match=message) as caught:
        text(made, X)
    assert caught.value.place is not None and caught.value.place.file == __file__


def test_outside_of_a_trace() -> None:
    with pytest.raises(PolycError, match="NotTracing"):
        polyc.constant(W)
    with pytest.raises(PolycError, match="NotTracing"):
        polyc.parameter("w", (3,))


def test_what_is_a_tensor() -> None:
    assert is_array(W) and is_array(W[0, 0])
    assert not is_array(3.0) and not is_array([1.0]) and not is_array(SimpleNamespace(shape=()))


def test_a_jitted_function_keeps_what_it_captured() -> None:
    scale = np.full(3, 2, np.float32)

    @polyc.jit(device="cpu", params={"bias": np.ones(3, np.float32)})
    def layer(x: X) -> Any:
        return x @ W * scale + polyc.parameter("bias", (3,))

    x = np.ones((2, 4), np.float32)
    for _ in range(2):
        assert (layer(x) == x @ W * 2 + 1).all()
    assert layer.compiled().constants is not None
    assert list(layer.compiled().constants.entries) == [1, 2, 3]

    @polyc.jit(arch="sm_80", params={"constant0": scale})
    def clash(x: X) -> Any:
        return x @ W

    with pytest.raises(PolycError, match="constant0 is what a captured tensor is called, and an"):
        clash.compiled()


def test_kernels_depend_on_no_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from polyc.runtime import kept

    monkeypatch.setattr(kept, "key", lambda what, parts: repr((what, parts)))
    monkeypatch.setattr(kept, "load", lambda name: None)
    saved: list[str] = []
    monkeypatch.setattr(kept, "save", lambda name, data: saved.append(str(name)))

    def entry(array: Any) -> Any:
        @polyc.jit(arch="sm_80")
        def layer(x: X) -> Any:
            return x @ array

        made = layer.compiled()
        assert "captures tensors (constant0)" in str(layer.retraced)
        return made.entry("sm_80")

    assert entry(W) == entry(W + 1) != entry(W[:, :2].copy())
    assert not saved
