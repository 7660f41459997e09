"""Which operands of products are weights, whose rounding the reference allows for (S0.6)."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import f16
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.frontend.weights import are_multiplied, are_weights
from polyc.playback.reference import reference
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch


def divided(s: Sketch, x: SSAValue) -> SSAValue:
    powers = s.fn("exp", s.fn("sub", x, s.reduce("max", x, 1, keep=True)))
    return s.fn("div", powers, s.reduce("sum", powers, 1, keep=True))


def test_a_softmax_and_divided_exponentials_are_weights() -> None:
    s = Sketch("known")
    x = s.input("x", "M", "N")
    soft, own = s.softmax(x), divided(s, x)
    moved = s.permute(s.cast(s.fn("mul", soft, s.number(0.5)), f16), 1, 0)
    assert all(map(are_weights, (soft, own, moved)))
    assert not any(map(are_weights, (x, s.fn("tanh", x), s.fn("exp", x), s.fn("div", x, x))))


def test_exponentials_below_a_maximum_are_weights() -> None:
    """Divided or not: another maximum may be in its place while they are rounded."""
    s = Sketch("known")
    x = s.input("x", "M", "N")
    top, low = (s.reduce(f, x, 1, keep=True) for f in ("max", "min"))
    none = s.add(frontend.CompareOp("eq", top, s.number(float("-inf"))))
    guarded = s.add(frontend.SelectOp(none, s.number(0.0), top))
    below = [s.fn("sub", x, s.fn("max", guarded, s.number(-65504.0))), s.fn("sub", x, top)]
    below.append(s.fn("mul", s.number(0.5), below[1]))
    below.append(s.fn("sub", s.fn("mul", x, s.number(0.5)), s.fn("mul", top, s.number(0.5))))
    assert all(are_weights(s.cast(s.fn("exp", d), f16)) for d in below)
    assert all(are_weights(s.fn("pow", s.number(2.0), d)) for d in below)
    assert not are_weights(s.fn("pow", below[1], s.number(2.0)))
    others = (s.fn("sub", x, low), s.fn("sub", top, x), s.fn("add", x, top), s.fn("mul", x, top))
    assert not any(are_weights(s.fn("exp", d)) for d in others)


def test_a_product_multiplies_what_it_reads_moved_or_cast() -> None:
    s = Sketch("known")
    x = s.input("x", "M", "N")
    narrow, other = s.cast(s.softmax(x), f16), s.fn("tanh", x)
    s.gemm(s.permute(narrow, 1, 0), x)
    assert are_multiplied(narrow) and are_multiplied(x) and not are_multiplied(other)
    scaled, added = s.cast(s.fn("exp", x), f16), s.cast(s.fn("exp", x), f16)
    s.gemm(s.fn("div", scaled, s.input("l", "M", 1)), x)
    s.gemm(s.fn("add", added, s.input("b", "M", 1)), x)
    assert are_multiplied(scaled) and not are_multiplied(added)


def test_only_products_of_weights_have_errors_of_their_rounding() -> None:
    """On the same numbers: half an ulp of each weight, and nothing of another operand."""
    found: dict[str, float] = {}
    x = np.random.default_rng(1).standard_normal((8, 64)).astype(np.float16)
    for name in ("softmax", "given"):
        s = Sketch("f")
        given = s.input("x", "M", "N")
        made = s.softmax(given) if name == "softmax" else given
        module = s.done(y=s.gemm(made, s.input("v", "N", "K")))
        graph = only(module, frontend.GraphOp)
        ones = np.ones((64, 2), np.float16)
        (out,) = reference(graph, [x, ones], {"M": 8, "N": 64, "K": 2})
        found[name] = float((out.error / (1 + np.abs(out.value))).max())
    assert found["softmax"] > 2.0**-16 > found["given"]
