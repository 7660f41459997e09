"""What a graph makes of an attention's scores beside it, and which of the two ways it takes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects import frontend, tiny
from polyc.dialects.region import GraphOp, KernelOp
from polyc.lowering.index_to_region.contractions import Products
from polyc.lowering.index_to_region.forms import equal_casts
from polyc.lowering.index_to_region.levels import Level
from polyc.lowering.index_to_region.scores import is_softmax_sum
from polyc.playback.reference import make_inputs
from polyc.rewriting.notes import unsaid
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.attention_programs import passed
from polyc.test.support.attention_spellings import Spelling
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.tools.play import play

TO_INDEX = ("frontend-to-tiny", "tiny-to-index")
PLAIN = Spelling(beside="weights")


def products(text: str) -> Products:
    graph = only(passed(text, *TO_INDEX), tiny.GraphOp)
    return Products(graph, equal_casts(graph))


def function(value: SSAValue) -> str:
    op = value.owner
    assert isinstance(op, Operation)
    return op.function if isinstance(op, tiny.BinaryOp | tiny.UnaryOp | tiny.ReduceOp) else op.name


def test_maxima_and_sums_are_the_rows() -> None:
    found = products(str(PLAIN.module()))
    (scores,) = found.shared().values()
    assert [function(value) for value in scores.rows] == ["max", "sum"]
    assert [is_softmax_sum(value) for value in scores.rows] == [False, True]
    assert not scores.stored
    assert {"exp", "sub", "div"} <= {function(value) for value in scores.again}


@pytest.mark.parametrize("beside", ["", "lse"])
def test_an_attention_that_keeps_its_scores_shares_none(beside: str) -> None:
    assert not products(str(replace(PLAIN, beside=beside).module())).shared()


def test_products_that_part_share_none() -> None:
    found = products(str(PLAIN.module()))
    (pair,) = found.shared()
    apart = found.apart(pair)
    assert not apart.shared() and found.shared()
    assert all(found.levels[value] is Level.CORE for value in pair)


def with_more(kind: str) -> str:
    """An attention whose weights are averaged over its heads, or multiply other values too."""
    s = Sketch("f")
    q, k, v = (s.input(x, "H", n, 64) for x, n in zip("qkv", "MNN", strict=True))
    scale = s.add(frontend.ConstantOp(0.125, frontend.tensor((), f32)))
    scores = s.fn("mul", s.gemm(q, k, turned=True, element=f32), scale)
    weights = s.softmax(scores)
    narrow = s.cast(weights, s.element)
    y = s.gemm(narrow, v)
    match kind:
        case "mean":
            return str(s.done(y=y, a=s.reduce("mean", weights, 0)))
        case "mean and all":
            return str(s.done(y=y, a=s.reduce("mean", weights, 0), w=narrow))
        case "two":
            return str(s.done(y=y, z=s.gemm(narrow, s.input("u", "H", "N", 64))))
        case "scores":
            return str(s.done(y=y, w=narrow, s=scores))
        case "own values":
            mean = s.reduce("mean", weights, 1, keep=True)
            values = s.fn("mul", s.cast(v, f32), s.permute(mean, 0, 2, 1))
            return str(s.done(y=s.gemm(narrow, s.cast(values, s.element))))
        case _:
            raise KeyError(kind)


@pytest.mark.turns(2)
@pytest.mark.parametrize("kind", ["mean", "mean and all", "two", "scores", "own values"])
def test_others_of_the_scores_are_what_they_mean(kind: str) -> None:
    """In kernels that run in their order.

    What needs weights for its values is no attention.  Weights that are an output beside their mean
    lie in memory once, and a kernel that reads them makes both.
    """
    text = with_more(kind)
    with unsaid():
        after = passed(text, *TO_INDEX, "index-to-region", "region-postpone-division")
    assert only(after, GraphOp)
    found = [op for op in after.walk() if isinstance(op, KernelOp)]
    sums = [k for k in found if "softmax_sum" in str(k.arg_attrs)]
    assert bool(sums) == (kind != "own values")
    sizes = {"H": 2, "M": 5, "N": 11}
    inputs = make_inputs(only(passed(text), frontend.GraphOp), sizes, 0)
    made = play(after, "f", inputs, sizes)
    assert made is not None
    assert_agree(made, meant(passed(text), inputs, sizes), kind)


def test_an_output_as_wide_as_its_values_is_no_output_of_the_attention() -> None:
    """As many keys as features: the weights have the shape of the attention's output."""
    text = str(replace(PLAIN, powers="softmax").module()).replace("N", "64").replace("M", "2048")
    with unsaid():
        after = passed(text, *TO_INDEX, "index-to-region")
    found = [op for op in after.walk() if isinstance(op, KernelOp)]
    names = [{n.data for n in kernel.res_names} for kernel in found]
    assert not any({"y", "w"} <= one for one in names)


def test_what_an_attention_reads_is_not_stored_beside_it() -> None:
    """Layers of which one's softmax weighs what the next ones make: its rows' numbers are read by
    kernels that it reads itself."""
    s = Sketch("layers")
    x = s.input("x", "T", 256)
    for number in range(2):
        y = s.softmax(s.reshape(s.layer_norm(x, f"n{number}"), "T", 4, 64))
        y = s.fn("gelu", s.linear(s.reshape(y, "T", 256), f"a{number}", 512, bias=True))
        x = s.fn("add", x, s.linear(y, f"b{number}", 256))
    text = str(s.done(y=s.fn("relu", x)))
    with unsaid():
        after = passed(text, *TO_INDEX, "index-to-region")
    sizes = {"T": 3}
    inputs = make_inputs(only(passed(text), frontend.GraphOp), sizes, 0)
    made = play(after, "layers", inputs, sizes)
    assert made is not None
    assert_agree(made, meant(passed(text), inputs, sizes))
