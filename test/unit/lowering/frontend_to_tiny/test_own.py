"""The types in which values between kernels are stored, in tiny (S0.6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny import FrontendToTiny, NoteStorable, RoundOnce
from polyc.playback.estimate import Estimate
from polyc.playback.frontend import evaluate
from polyc.playback.reference import known, make_inputs, reference
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def lowered(module: ModuleOp) -> tiny.GraphOp:
    FrontendToTiny().apply(make_context(), module)
    verify(module)
    return only(module, tiny.GraphOp)


def marks(graph: tiny.GraphOp) -> list[str]:
    """The ops that say in which type their results are stored."""
    found: list[str] = []
    for op in graph.body.block.ops:
        if isinstance(op, tiny.FunctionOp | tiny.ReduceOp) and op.own is not None:
            found.append(f"{op.function} {op.own}")
        elif isinstance(op, tiny.SelectOp) and op.own is not None:
            found.append(f"select {op.own}")
    return found


def residual(element: Any = f16) -> ModuleOp:
    """A value that a norm and a sum read, as a transformer's residual stream."""
    s = Sketch("residual", element)
    x = s.input("x", "T", 64)
    x = s.fn("add", x, s.linear(x, "w", 64))
    return s.done(y=s.fn("add", x, s.linear(s.layer_norm(x, "n"), "v", 64)))


@pytest.mark.parametrize("element", [f16, bf16])
def test_a_residual_says_its_type(element: Any) -> None:
    """So does the product that a sum joins with it: one kernel need not hold both."""
    assert marks(lowered(residual(element))) == [f"add {element}", f"sum {element}"]
    assert marks(lowered(residual(f32))) == []


def test_what_follows_a_product_alone_says_nothing() -> None:
    s = Sketch("alone")
    x = s.linear(s.input("x", "T", 64), "w", 88, bias=True)
    assert marks(lowered(s.done(y=s.fn("gelu", x)))) == []


def test_every_kind_of_op_says_it() -> None:
    """Also behind a movement, by which a reduction keeps its axis, and of an attention."""
    s = Sketch("kinds")
    x = s.input("x", 2, "T", 16)
    y = s.add(frontend.AttentionOp(x, x, x))
    z = s.fn("exp", s.fn("sub", y, s.reduce("max", y, 2, keep=True)))
    found = marks(lowered(s.done(y=s.softmax(z))))
    assert found == ["select f16", "max f16", "exp f16"]


def test_notes_follow_the_graph() -> None:
    """A note that the text had is taken away where it is wrong, and there is nothing more to do."""
    module = residual()
    graph = only(module, frontend.GraphOp)
    first = graph.body.block.first_op
    assert first is not None
    first.attributes["storable"] = only(module, frontend.GraphOp).sym_name
    assert rewrite(module, [NoteStorable()])
    noted = [op.name for op in graph.body.block.ops if "storable" in op.attributes]
    made = ["elementwise", "layer_norm", "gemm", "elementwise"]
    assert noted == [f"frontend.{name}" for name in made]
    assert not rewrite(module, [NoteStorable()])


TWO = """tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (!tiny.tensor<[M, N], f16>, !tiny.tensor<[M, N], f32>) {
  %s = tiny.reduce sum %x axes [0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
  %e = tiny.expand %s dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
  %h = tiny.unary exp %e OWN : !tiny.tensor<[M, N], f32>
  %t = tiny.unary tanh %h : !tiny.tensor<[M, N], f32>
  %a = tiny.cast %h : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
  %b = tiny.cast %h : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f16>
  %w = tiny.cast %b : !tiny.tensor<[M, N], f16> -> !tiny.tensor<[M, N], f32>
  %y = tiny.binary add %t, %w : !tiny.tensor<[M, N], f32>
  tiny.output %a, %y : !tiny.tensor<[M, N], f16>, !tiny.tensor<[M, N], f32>
}"""  # noqa: E501


def test_what_is_rounded_for_one_is_rounded_for_all() -> None:
    module = parse_text(make_context(), TWO.replace("OWN", "own f16"), "two.mlir")
    assert rewrite(module, [RoundOnce()])
    verify(module)
    h, narrow, wide, tanh, *rest = list(only(module, tiny.GraphOp).body.block.ops)[2:]
    assert isinstance(h, tiny.UnaryOp) and h.own is None
    assert [use.operation for use in h.result.uses] == [narrow]
    assert isinstance(narrow, tiny.CastOp) and isinstance(wide, tiny.CastOp)
    assert wide.operand is narrow.result and tanh.operands[0] is wide.result
    assert [op.name for op in rest] == ["tiny.cast", "tiny.binary", "tiny.output"]
    assert rest[-1].operands[0] is narrow.result
    assert not rewrite(module, [RoundOnce()])


def test_a_value_of_no_own_type_is_left_alone() -> None:
    """Nor one that is rounded to another type, nor one that nothing rounds."""
    bare = parse_text(make_context(), TWO.replace("OWN", ""), "two.mlir")
    assert not rewrite(bare, [RoundOnce()])
    other = parse_text(make_context(), TWO.replace("OWN", "own bf16"), "two.mlir")
    assert not rewrite(other, [RoundOnce()])
    assert not rewrite(lowered(residual()).parent_op() or bare, [RoundOnce()])


def test_an_output_is_rounded_before_it_is_moved() -> None:
    """So what lies in memory to be moved lies there in the output's type."""
    s = Sketch("moved")
    h = s.linear(s.input("x", "T", 64), "w", 64)
    graph = lowered(s.done(y=s.permute(s.reshape(h, "T", 4, 16), 1, 0, 2)))
    *_, cast, reshape, permute, output = graph.body.block.ops
    assert isinstance(cast, tiny.CastOp) and isinstance(reshape, tiny.ReshapeOp)
    assert isinstance(permute, tiny.PermuteOp)
    assert output.operands[0] is permute.result
    assert marks(graph) == []


def test_a_pad_is_moved_as_it_is() -> None:
    """A pad takes f32: what it moves says its type."""
    s = Sketch("padded")
    h = s.linear(s.input("x", "T", 64), "w", 64)
    assert marks(lowered(s.done(y=s.add(frontend.PadOp(h, [0, 0], [0, 8], 0.0))))) == ["sum f16"]


# What a reader may see -------------------------------------------------------------------


def errors(module: ModuleOp, layer: str) -> Any:
    """The errors of the first output by the reference, of the frontend or of tiny."""
    graph = only(module, frontend.GraphOp)
    sizes = {"T": 20}
    inputs = make_inputs(graph, sizes, 3)
    if layer == "frontend":
        return reference(graph, inputs, sizes)[0].error
    (found,) = run(lowered(module), known(inputs), sizes)
    assert isinstance(found, Estimate)
    return found.error


def pooled(element: Any, rounded: bool = False) -> ModuleOp:
    """The mean of a product, which may be stored, and the same where it is of f32."""
    s = Sketch("pooled", f16)
    h = s.gemm(s.input("x", "T", 64), s.input("w", 64, 64), element=element)
    h = s.cast(h, f16) if rounded else h
    return s.done(y=s.cast(s.reduce("mean", s.permute(h, 1, 0), 1), f32))


@pytest.mark.parametrize("layer", ["frontend", "tiny"])
def test_readers_may_see_what_was_stored(layer: str) -> None:
    wide, own = errors(pooled(f32), layer), errors(pooled(f16), layer)
    assert (own > 10 * wide).all()
    # Through a mean of 20 the rounding of a number below 16 comes to much less than its ulp.
    assert own.max() < 2.0**-8
    below = errors(pooled(f32, rounded=True), "frontend")
    assert (own >= below).mean() > 0.9


@pytest.mark.parametrize("layer", ["frontend", "tiny"])
def test_who_rounds_sees_no_other(layer: str) -> None:
    """A chain of products is compared as before, and so is what follows a product alone."""

    def chain(element: Any) -> ModuleOp:
        s = Sketch("chain")
        h = s.gemm(s.input("x", "T", 64), s.input("w", 64, 64), element=element)
        h = s.permute(s.fn("relu", h), 1, 0)
        return s.done(y=s.gemm(s.cast(h, f16), s.input("v", "T", 24)))

    np.testing.assert_array_equal(errors(chain(f16), layer), errors(chain(f32), layer))


def test_the_value_itself_stays() -> None:
    module = residual()
    sizes = {"T": 20}
    graph = only(module, frontend.GraphOp)
    inputs = make_inputs(graph, sizes, 3)
    (found,) = reference(graph, inputs, sizes)
    (plain,) = evaluate(graph, inputs, sizes, exact_sums=True)
    np.testing.assert_array_equal(found.value, plain)
