"""``KeepBatchApart``: where it fires, what it leaves, and that numbers stay (S0.6)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import tensor_of
from polyc.lowering.frontend_to_tiny.merged_batch import KeepBatchApart
from polyc.playback.reference import make_inputs
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.tools.play import play

SIZES = {"B": 2, "M": 5, "N": 6}
B, H, D = Dim.sym("B"), Dim.const(3), Dim.const(4)


def merged(s: Sketch, name: str, length: str) -> SSAValue:
    """Heads of rows, [B * H, length, D]."""
    x = s.reshape(s.input(name, B, length, 12), B, length, H, D)
    return s.reshape(s.permute(x, 0, 2, 1, 3), B * H, length, D)


def split(s: Sketch, x: SSAValue) -> SSAValue:
    return s.reshape(x, B, H, *tensor_of(x).dims[1:])


def scores(s: Sketch) -> SSAValue:
    k = s.permute(merged(s, "k", "N"), 0, 2, 1)
    return s.fn("mul", s.gemm(merged(s, "q", "M"), k), s.number(0.5))


def attention(s: Sketch) -> SSAValue:
    return split(s, s.gemm(s.softmax(scores(s)), merged(s, "v", "N")))


def masked(s: Sketch) -> SSAValue:
    """As ``nn.MultiheadAttention`` merges its mask."""
    mask = s.input("mask", B, 1, 1, "N")
    shape = frontend.tensor((B, H, Dim.const(1), Dim.sym("N")), f32)
    mask = s.reshape(s.add(frontend.ExpandOp(mask, [0, 1, 2, 3], shape)), B * H, 1, "N")
    seen = s.fn("add", s.fn("add", scores(s), mask), s.input("bias", 1, "M", "N"))
    return split(s, s.gemm(s.softmax(seen), merged(s, "v", "N")))


def back_and_forth(s: Sketch) -> SSAValue:
    """Scores that are split for their mask, and merged again."""
    seen = s.fn("add", split(s, scores(s)), s.input("mask", B, 1, "M", "N"))
    weights = s.softmax(s.reshape(seen, B * H, "M", "N"))
    return split(s, s.gemm(weights, merged(s, "v", "N")))


def reduced(s: Sketch) -> SSAValue:
    found = scores(s)
    top = s.reduce("max", found, 2, keep=True)
    return split(s, s.fn("sub", found, top))


def weights_too(s: Sketch) -> SSAValue:
    """The weights are split too, and summed over the heads."""
    weights = s.softmax(scores(s))
    y = split(s, s.gemm(weights, merged(s, "v", "N")))
    mean = s.reduce("sum", split(s, weights), 1)
    return s.fn("add", y, s.reduce("sum", s.reshape(mean, B, 1, "M", "N"), 3, keep=True))


def weights_first(s: Sketch) -> SSAValue:
    """The weights are split, and read so, before what the result is made of."""
    weights = s.softmax(scores(s))
    mean = s.reduce("sum", s.fn("exp", split(s, weights)), 3, keep=True)
    return s.fn("add", split(s, s.gemm(weights, merged(s, "v", "N"))), mean)


FIRES = [attention, masked, back_and_forth, reduced, weights_too, weights_first]


def not_merged(s: Sketch) -> SSAValue:
    q, k = (s.input(name, B * H, "M", D) for name in "qk")
    return split(s, s.gemm(q, k, turned=True))


def one_of_the_batch(s: Sketch) -> SSAValue:
    k = s.input("k", "N", D)
    return split(s, s.gemm(merged(s, "q", "M"), k, turned=True))


def along_the_batch(s: Sketch) -> SSAValue:
    return split(s, s.add(frontend.SoftmaxOp(scores(s), [0])))


def wanted_merged(s: Sketch) -> SSAValue:
    found = scores(s)
    return s.fn("add", split(s, found), s.reduce("sum", found, 0))


def no_product(s: Sketch) -> SSAValue:
    return split(s, s.fn("exp", merged(s, "q", "M")))


REFUSES = [not_merged, one_of_the_batch, along_the_batch, wanted_merged, no_product]


def graph(made: Callable[[Sketch], SSAValue]) -> ModuleOp:
    s = Sketch("f", f32)
    return s.done(y=made(s))


def products(module: ModuleOp) -> list[int]:
    """The ranks of the graph's products."""
    ops = (op for op in module.walk() if isinstance(op, frontend.GemmOp))
    return [tensor_of(op.result).rank for op in ops]


@pytest.mark.parametrize("made", FIRES)
def test_a_batch_that_is_split_again_stays_apart(made: Callable[[Sketch], SSAValue]) -> None:
    before, module = graph(made), graph(made)
    rewrite(module, [KeepBatchApart()], recursive=True)
    verify(module)
    assert set(products(module)) == {4} and len(products(module)) == len(products(before))
    inputs = make_inputs(only(before, frontend.GraphOp), SIZES, 1)
    found = play(module, "f", inputs, SIZES)
    assert found is not None
    assert_agree(found, meant(before, inputs, SIZES), made.__name__)


@pytest.mark.parametrize("made", REFUSES)
def test_others_stay(made: Callable[[Sketch], SSAValue]) -> None:
    module = graph(made)
    rewrite(module, [KeepBatchApart()], recursive=True)
    assert str(module) == str(graph(made))


def test_graphs_are_deeper_than_calls_of_python() -> None:
    def deep(s: Sketch) -> SSAValue:
        found = scores(s)
        for _ in range(1200):
            found = s.fn("tanh", found)
        return split(s, found)

    module = graph(deep)
    rewrite(module, [KeepBatchApart()], recursive=True)
    verify(module)
    assert products(module) == [4]
