"""Tracing: outputs, facts, and functions that return what is no value."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from polyc import PolycError, Tensor
from polyc.dialects.common.diagnostic import place_of
from polyc.test.support.tracing import text, trace

X = Tensor["M", "K", "f16"]


def test_outputs_keep_their_shape():
    assert trace(lambda x: x * 2.0, X).shape == "one"
    assert trace(lambda x: (x * 2.0, x + 1.0), X).shape == "tuple"
    found = trace(lambda x: {"y": x * 2.0, "z": x.sum()}, X)
    assert (found.shape, found.keys) == ("dict", ("y", "z"))


def test_ops_stand_at_the_users_lines():
    def f(x: Any) -> Any:
        return x * 2.0  # this line

    module = trace(f, X).module
    lines = {p.line for op in module.walk() if (p := place_of(op)) is not None}
    first = f.__code__.co_firstlineno
    assert first + 1 in lines
    assert all(str(place_of(op)).startswith(__file__) for op in module.walk())


def test_facts_decide_what_is_legal():
    def halves(x: Any) -> Any:
        return x.reshape(x.shape[0], 2, x.shape[1] // 2)

    assert "assuming (K mod 2 == 0)" in text(halves, X, assume="K mod 2 == 0")
    with pytest.raises(PolycError, match="reshape keeps the number of elements"):
        text(halves, X)
    with pytest.raises(PolycError, match="no list of facts"):
        text(halves, X, assume="K mod")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: None, "f returns nothing"),
        (lambda x: 1.0, "1.0, a float"),
        (lambda x: (), "returns no value"),
        (lambda x: (x, 2), "2, a int"),
    ],
)
def test_what_is_refused(function: Callable[..., Any], message: str):
    with pytest.raises(PolycError, match=message) as caught:
        trace(function, X)
    assert caught.value.place is not None and caught.value.place.file == __file__


def test_what_the_function_raises_is_its_own():
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 // 0, X)


def test_a_trace_within_a_trace():
    with pytest.raises(PolycError, match=r"NestedTrace.*traced while another graph is"):
        trace(lambda x: trace(lambda y: y, X), X)
