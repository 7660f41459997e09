"""A softmax's weights in f32: where they are rounded as the values, and what is said (S0.6)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.tiny import CastOp, GraphOp
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.playback.reference import make_inputs
from polyc.playback.tiny import run
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Weights = Callable[[Sketch, SSAValue], SSAValue]


def softmax(s: Sketch, x: SSAValue) -> SSAValue:
    return s.softmax(x)


def below(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.fn("sub", x, s.reduce("max", x, 1, keep=True)))


def of_log_softmax(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("exp", s.add(frontend.LogSoftmaxOp(x, [1])))


def plain(s: Sketch, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", x)
    return s.fn("div", powers, s.reduce("sum", powers, 1, keep=True))


def with_one(s: Sketch, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", x)
    total = s.fn("add", s.number(1.0), s.reduce("sum", powers, 1, keep=True))
    return s.fn("mul", powers, s.fn("reciprocal", total))


def scaled(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", s.softmax(x), s.number(1 / 0.9))


ROUNDED = (softmax, below, of_log_softmax, plain, with_one, scaled)


def powers_alone(s: Sketch, x: SSAValue) -> SSAValue:
    """They may be beyond f16."""
    return s.fn("exp", x)


def by_f32(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", s.softmax(x), s.input("times", "M", "N"))


def largely_scaled(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("mul", s.softmax(x), s.number(1e6))


def by_another_sum(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("div", below(s, x), s.reduce("sum", x, 1, keep=True))


def of_no_softmax(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("sigmoid", x)


KEPT = (powers_alone, by_f32, largely_scaled, by_another_sum, of_no_softmax)


def graph(weights: Weights, element: Attribute = f16, other: Attribute = f32) -> ModuleOp:
    s = Sketch("weighted", f32)
    w = weights(s, s.input("x", "M", "N"))
    v = s.input("v", "N", "K", element=element)
    return s.done(y=s.gemm(w, s.cast(v, f32) if element != other else v))


def lowered(module: ModuleOp, *classes: str) -> ModuleOp:
    found = parse_text(make_context(), str(module), "graph.mlir")
    (FrontendToTiny(classes) if classes else FrontendToTiny()).apply(make_context(), found)
    return found


def casts(module: ModuleOp, element: Attribute) -> int:
    kinds = [op.result.type for op in module.walk() if isinstance(op, CastOp)]
    return sum(kind.element_type == element for kind in kinds)


@pytest.mark.parametrize("element", [f16, bf16], ids=str)
@pytest.mark.parametrize("weights", ROUNDED, ids=lambda f: f.__name__)
def test_weights_are_rounded_as_the_values(
    weights: Weights, element: Attribute, capsys: pytest.CaptureFixture[str]
) -> None:
    found = lowered(graph(weights, element))
    said = capsys.readouterr().err
    assert said.count("remark[rounding]") == 1 and f"rounded to {element}" in said
    assert casts(found, element) == 1


@pytest.mark.parametrize("weights", KEPT, ids=lambda f: f.__name__)
def test_others_are_not(weights: Weights, capsys: pytest.CaptureFixture[str]) -> None:
    assert not casts(lowered(graph(weights)), f16)
    assert not capsys.readouterr().err


def test_values_of_f32_and_a_user_who_wants_f32_leave_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not casts(lowered(graph(softmax, f32)), f16)
    assert not casts(lowered(graph(softmax), "exact", "reassociating"), f16)
    assert not capsys.readouterr().err


@pytest.mark.parametrize("weights", ROUNDED, ids=lambda f: f.__name__)
def test_the_reference_allows_for_both(weights: Weights) -> None:
    """The same reference, with the rounding and without; and it does not allow for an ulp more."""
    module = graph(weights)
    sizes = {"M": 3, "N": 40, "K": 8}
    before = only(module, frontend.GraphOp)
    inputs = make_inputs(before, sizes, 2)
    right = meant(module, inputs, sizes)
    for classes in ((), ("exact",)):
        assert_agree(run(only(lowered(module, *classes), GraphOp), inputs, sizes), right)
    off = [e.value * np.float32(1 + 2.0**-7) for e in right]
    with pytest.raises(AssertionError):
        assert_agree(off, right)
