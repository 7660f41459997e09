"""mish and a tanh of a softplus are a quotient of polynomials of one exponential (S3.2)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import region, tiny
from polyc.test.support.gpu_text import find, run
from polyc.test.support.lowered import lowered
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.play import play

Made = Callable[[Sketch, SSAValue], SSAValue]
FEW = settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)
WITHIN = 6
"""Units in the last place of f32."""


def mish(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mish", x)


def apart(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", x, s.fn("tanh", s.fn("softplus", x)))


def turned(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", s.fn("tanh", s.fn("softplus", x)), x)


def whole(made: Made, element: Attribute = f32) -> ModuleOp:
    s = Sketch("g", element)
    return s.done(out=made(s, s.input("x", "M")))


def functions(module: ModuleOp) -> list[str]:
    """The functions of one operand in the tiny layer."""
    return [op.fn.data for op in find(run(module, "frontend-to-tiny"), tiny.UnaryOp)]


@pytest.mark.parametrize("element", [f16, f32], ids=str)
@pytest.mark.parametrize("made", [mish, apart, turned], ids=lambda f: f.__name__)
def test_one_exponential_is_left(made: Made, element: Attribute) -> None:
    """In the kernel, too: nothing reads the softplus any more."""
    assert "tanh" not in functions(whole(made, element))
    kernel = lowered(whole(made, element), "sm_90a", "region")
    assert sorted(op.fn.data for op in find(kernel, region.UnaryOp)) == ["abs", "exp", "neg"]


def rounded(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("tanh", s.cast(s.cast(s.fn("softplus", x), f16), f32))


def of_relu(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("tanh", s.fn("relu", x))


def sigmoid(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("sigmoid", s.fn("softplus", x))


@pytest.mark.parametrize(
    ("made", "kept"), [(rounded, "tanh"), (of_relu, "tanh"), (sigmoid, "log1p")]
)
def test_others_stay(made: Made, kept: str) -> None:
    assert kept in functions(whole(made))


def test_a_softplus_that_is_read_elsewhere_stays() -> None:
    s = Sketch("g", f32)
    inner = s.fn("softplus", s.input("x", "M"))
    module = s.done(out=s.fn("tanh", inner), z=inner)
    assert functions(module).count("log1p") == 1 and "tanh" not in functions(module)


@FEW
@given(st.lists(st.floats(width=32), min_size=1, max_size=30), st.sampled_from([mish, apart]))
def test_numbers_are_those_of_f64(values: list[float], made: Made) -> None:
    """At the ends of f32, zeros, infinities and NaN too; but for what an exponential flushes."""
    x = np.array(values, np.float32)
    found = play(whole(made), "g", [x], {"M": len(x)})
    assert found is not None
    wide = x.astype(np.float64)
    with np.errstate(all="ignore"):
        below = np.exp(-np.abs(wide))
        right = wide * np.tanh(np.maximum(wide, 0) + np.log1p(below))
        scale = np.maximum(np.abs(right).astype(np.float32), np.float32(2.0**-120))
        near = np.abs(np.asarray(found[0]) - right) <= WITHIN * np.spacing(scale)
    same = (np.isnan(right) & np.isnan(found[0])) | (np.asarray(found[0]) == right)
    assert np.all(near | same), (x, found[0], right)
