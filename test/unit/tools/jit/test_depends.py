"""What a trace depends on: each thing that a function reads changes its fingerprint."""

# pyright: basic, reportUnknownLambdaType=false

import functools
import json
import math
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import polyc
from polyc.tools.jit.depends import Unknown, constant, fingerprint

WIDTH = 3
TABLE: dict[str, Any] = {"a": [1, 2.0], "b": (None, True)}


@dataclass(frozen=True)
class Config:
    scale: float = 2.0

    def twice(self) -> float:
        return self.scale * 2


class Pair(NamedTuple):
    a: int
    b: float


class Holder:
    width = 4

    def __init__(self) -> None:
        self.x = 1


CONFIG, PAIR, HOLDER, ARRAY = Config(), Pair(1, 2.0), Holder(), np.ones(2)


def helper(x: Any) -> Any:
    return x * WIDTH


@functools.lru_cache
def cached(n: int) -> int:
    return n + WIDTH


halved = functools.partial(helper, x=2)


def seen(function: Any) -> str:
    return json.dumps(fingerprint(function))


READERS: dict[str, tuple[Callable[..., Any], str, Any]] = {
    "a number": (lambda x: x * WIDTH, "WIDTH", 4),
    "its type": (lambda x: x * WIDTH, "WIDTH", 3.0),
    "a sign": (lambda x: x * WIDTH, "WIDTH", -0.0),
    "through a function": (lambda x: helper(x), "WIDTH", 5),
    "through a function in it": (lambda x: [helper(y) for y in x], "WIDTH", 5),
    "through a cached one": (lambda x: cached(1), "WIDTH", 5),
    "through a part": (lambda x: halved(), "WIDTH", 5),
    "another function": (lambda x: helper(x), "helper", lambda x: x),
    "a collection": (lambda x: TABLE["a"], "TABLE", {"a": [1, 2.5], "b": (None, True)}),
    "a dataclass": (lambda x: CONFIG.scale, "CONFIG", Config(3.0)),
    "a named tuple": (lambda x: PAIR.a, "PAIR", Pair(2, 2.0)),
    "an attribute of a class": (lambda x: Holder.width, "Holder", type("Holder", (), {"width": 5})),
    "a name of Python's": (lambda x: max(x), "max", min),
    "an element type": (lambda x: np.float16(x), "np", math),
}


@pytest.mark.parametrize("name", READERS)
def test_what_is_read_changes_it(name: str, monkeypatch: pytest.MonkeyPatch):
    function, read, other = READERS[name]
    first = seen(function)
    assert seen(function) == first
    monkeypatch.setitem(globals(), read, other)
    try:
        assert seen(function) != first
    except Unknown:
        assert read == "np"


def of(text: str, **scope: Any) -> Any:
    """A function of a text that defines ``f``."""
    exec(text, scope)
    return scope["f"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("def f(x):\n return x + 1", "def f(x):\n return x + 2"),
        ("def f(x):\n return x + 1", "def f(x):\n return x + 1.0"),
        ("def f(x):\n return x + 0.0", "def f(x):\n return x + -0.0"),
        ("def f(x, y=1):\n return x", "def f(x, y=2):\n return x"),
        ("def f(x, *, y=1):\n return x", "def f(x, *, y=2):\n return x"),
        ("def f(x):\n return x", "def f(y):\n return y"),
        ("def f(x):\n return x in {1, 2}", "def f(x):\n return x in {1, 3}"),
        ("def f(x):\n return (lambda y: y)(x)", "def f(x):\n return (lambda y: -y)(x)"),
        ("import math\ndef f(x):\n return math.pi", "import math\ndef f(x):\n return math.e"),
        ("def g(n):\n def f(x):\n  return n\n return f\nf = g(1)", None),
    ],
)
def test_code_changes_it_and_lines_do_not(one: str, other: str | None):
    first = seen(of(one))
    assert seen(of("\n\n" + one)) == first
    assert seen(of(one.replace("g(1)", "g(2)") if other is None else other)) != first


def test_a_function_may_call_itself_and_polyc():
    text = "import polyc\ndef f(x, n=3):\n return polyc.relu(x) if n == 0 else f(x, n - 1)"
    assert seen(of(text)) == seen(of(text))


def itself(x: Any) -> Any:
    itself.__globals__["WIDTH"] = 1
    return x


def writes(x: Any) -> Any:
    global WIDTH
    WIDTH = 3
    return x


def imports(x: Any) -> Any:
    import os

    return os


def named(x: Any) -> Any:
    return getattr(helper, "__closure__")  # noqa: B009


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: os.environ["A"], "reads os.environ"),
        (lambda x: random.random(), "reads random.random"),
        (lambda x: os, "reads os, a module"),
        (lambda x: np.random.rand(2), "reads np.random.rand"),
        (lambda x: HOLDER.x, "reads HOLDER.x, a .*Holder"),
        (lambda x: Holder(), "the class Holder"),
        (lambda x: ARRAY, "reads ARRAY, a numpy.ndarray"),
        (lambda x: eval("x"), "reads eval, which looks elsewhere"),
        (lambda x: open(x), "reads open"),  # noqa: SIM115
        (lambda x: not_there, "reads not_there, which is not there"),  # pyright: ignore
        (lambda x: helper.name, "an attribute of a function"),
        (itself, "reads __globals__"),
        (writes, "writes WIDTH"),
        (imports, "imports os"),
        (named, "reads __closure__"),
    ],
)
def test_what_cannot_be_told_is_said(function: Any, reason: str):
    with pytest.raises(Unknown, match=reason):
        fingerprint(function)


def test_constants():
    values: list[Any] = [1, 1.0, True, "1", (1, 2), None, np.float32(1), np.float16(1), Config()]
    assert len({json.dumps(constant(value)) for value in values}) == len(values)
    with pytest.raises(Unknown, match=r"a constant, a .*Holder"):
        constant(HOLDER)


def test_a_jitted_function_says_why_it_is_traced_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("POLYC_CACHE", "1")

    @polyc.jit(arch="sm_80")
    def told(x: polyc.Tensor["M", "f32"]):
        return x * HOLDER.x

    assert "traced in every process: test_a_jitted" in told.report
    assert "reads HOLDER.x, a " in str(told.retraced)
