"""``SinkPermute``: where it fires, what it leaves, and that numbers stay (S0.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.lowering.frontend_to_tiny.sunk_permutes import SinkPermute
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only, printed
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.play import play

Made = Callable[[Sketch, SSAValue], SSAValue]
FEW = settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)


def layer(s: Sketch, x: SSAValue) -> SSAValue:
    """A product over channels that lie inside, whose result has them outside: ``[N, C, L]``."""
    made = s.linear(s.permute(x, 0, 2, 1), "w", 4, bias=True)
    return s.permute(s.fn("gelu", made), 0, 2, 1)


def residual(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("add", layer(s, x), x)


def scaled(s: Sketch, x: SSAValue) -> SSAValue:
    """As ConvNeXt's layers end."""
    return s.fn("add", s.fn("mul", layer(s, x), s.input("gamma", 1, 4, 1)), x)


def few_axes(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("relu", s.fn("sub", s.input("shift", 4, 1), layer(s, x)))


def number(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("max", layer(s, x), s.number(0.25))


FIRES = [residual, scaled, few_axes, number]


def no_product(s: Sketch, x: SSAValue) -> SSAValue:
    return s.fn("add", s.permute(s.permute(x, 0, 2, 1), 0, 2, 1), x)


def read_twice(s: Sketch, x: SSAValue) -> SSAValue:
    made = layer(s, x)
    return s.fn("add", s.fn("mul", made, x), made)


def widened(s: Sketch, x: SSAValue) -> SSAValue:
    """The result has an axis that the permute has not."""
    return s.fn("add", layer(s, x), s.reshape(x, 1, "N", 4, "L"))


def of_two_products(s: Sketch, x: SSAValue) -> SSAValue:
    """Each with a permute, one behind another one: they would go back and forth between the two."""
    other = s.linear(s.permute(x, 0, 2, 1), "v", 4)
    return s.fn("add", layer(s, x), s.permute(s.permute(other, 2, 1, 0), 2, 0, 1))


STAYS = [no_product, read_twice, widened, of_two_products]


def whole(made: Made) -> ModuleOp:
    s = Sketch("sunk")
    return s.done(out=made(s, s.input("x", "N", 4, "L")))


def sink(module: ModuleOp) -> ModuleOp:
    rewrite(module, [SinkPermute()], recursive=True)
    verify(module)
    return module


@pytest.mark.parametrize("made", FIRES, ids=lambda f: f.__name__)
def test_what_follows_is_the_products(made: Made) -> None:
    module = sink(whole(made))
    graph = only(module, frontend.GraphOp)
    end = graph.body.block.last_op
    assert end is not None and isinstance(end.operands[0].owner, frontend.PermuteOp)
    followed = [op for op in module.walk() if isinstance(op, frontend.ElementwiseOp)]
    for op in followed:
        assert [str(d) for d in op.result.type.dims] == ["N", "L", "4"]
    once = printed(module)
    assert printed(sink(module)) == once


@pytest.mark.parametrize("made", STAYS, ids=lambda f: f.__name__)
def test_others_stay(made: Made) -> None:
    module = whole(made)
    once = printed(module)
    assert printed(sink(module)) == once


@FEW
@given(
    st.integers(0, 2**31), st.sampled_from([*FIRES, *STAYS]), st.integers(1, 4), st.integers(1, 5)
)
def test_numbers_stay(seed: int, made: Made, n: int, length: int) -> None:
    module, sizes = whole(made), {"N": n, "L": length}
    draws = ("uniform", "mixed", "rows", "tiny", "special")
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, sizes, seed, draws[seed % len(draws)])
    right = meant(module, inputs, sizes)
    found = play(sink(module), "sunk", inputs, sizes)
    assert found is not None
    assert_agree(found, right, made.__name__)
