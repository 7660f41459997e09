"""tiny-split-constants: both graphs together compute what the one did, at every layer."""

# pyright: basic

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr, f16, f32, i64

from polyc.dialects import frontend, tiny
from polyc.passes.pipeline import build
from polyc.passes.tiny.split_constants import SplitConstants
from polyc.playback.reference import make_inputs
from polyc.playback.tiny import run
from polyc.rewriting.driver import rewrite, verify
from polyc.rewriting.notes import Report, unsaid
from polyc.test.fuzz.random_programs import Maker
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.check import Expected
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.play import with_made
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context

KEPT = DictionaryAttr({"storage": StringAttr("const_pool")})


def graphs(module: ModuleOp) -> list[tiny.GraphOp]:
    return [op for op in module.ops if isinstance(op, tiny.GraphOp)]


def split(module: ModuleOp) -> Report:
    report = Report()
    rewrite(module, [SplitConstants(report)])
    verify(module)
    return report


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 7))
def test_random_graphs_compute_the_same(seed: int, which: int) -> None:
    """Some inputs of a random graph are parameters."""
    sizes = {"M": 3, "N": 5, "K": 4}
    maker = Maker(random.Random(seed), sizes, ((3, 5), (5,), (4, 5, 2), ("M", "N", "K")))
    for _ in range(seed % 7 + 2):
        maker.step()
    module = maker.closed()
    with unsaid():
        run_pass(make_context(), build("frontend-to-tiny", "sm_80"), module)
    (graph,) = graphs(module)
    attrs = [KEPT if which >> i & 1 else DictionaryAttr({}) for i in range(len(graph.inputs))]
    graph.properties["arg_attrs"] = type(graph.arg_attrs)(attrs)
    inputs = make_inputs(graph, sizes, seed)
    wanted = run(graph, inputs, sizes)
    names = [spec.name for spec in graph.inputs]
    expected = Expected.of(graph, sizes, seed)
    report = split(module)
    *before, main = graphs(module)
    assert bool(before) == bool(report.fired)
    given = with_made(module, main.sym_name.data, dict(zip(names, inputs, strict=True)), sizes)
    found = run(main, inputs if given is None else given, sizes)
    exact = all("own" not in op.properties for one in before for op in one.body.block.ops)
    expected.check(module, "both graphs")
    for mine, theirs in zip(found, wanted, strict=True):
        if exact:
            np.testing.assert_array_equal(mine.astype(np.float32), theirs.astype(np.float32))
    text = module_text(module)
    split(module)
    assert module_text(module) == text, "it is done once"


TEXT = """
tiny.graph @f(%x: !tiny.tensor<[M, 4], f32>, %w: !tiny.tensor<[2, 2], f32> {storage = "const_pool"},
    %made0: !tiny.tensor<[4], f32> {storage = "const_pool", entry = "b"}) -> (C: !tiny.tensor<[M, 4], f32>) {
  %0 = tiny.reshape %w : !tiny.tensor<[2, 2], f32> -> !tiny.tensor<[4], f32>
  %1 = tiny.binary mul %0, %made0 : !tiny.tensor<[4], f32>
  %2 = tiny.unary exp %1 : !tiny.tensor<[4], f32>
  %3 = tiny.expand %2 dims [1] : !tiny.tensor<[4], f32> -> !tiny.tensor<[M, 4], f32>
  %4 = tiny.expand %1 dims [1] : !tiny.tensor<[4], f32> -> !tiny.tensor<[M, 4], f32>
  %5 = tiny.expand %made0 dims [1] : !tiny.tensor<[4], f32> -> !tiny.tensor<[M, 4], f32>
  %6 = tiny.binary mul %x, %3 : !tiny.tensor<[M, 4], f32>
  %7 = tiny.binary add %6, %4 : !tiny.tensor<[M, 4], f32>
  %8 = tiny.binary add %7, %5 : !tiny.tensor<[M, 4], f32>
  tiny.output %8 : !tiny.tensor<[M, 4], f32>
}
tiny.graph @f_made(%x: !tiny.tensor<[M], f32>) -> (C: !tiny.tensor<[M], f32>) {
  tiny.output %x : !tiny.tensor<[M], f32>
}
"""  # noqa: E501


def test_names_are_apart_and_parameters_that_are_read_stay(ctx: Context) -> None:
    module = parse_text(ctx, TEXT, "f.mlir")
    report = split(module)
    made, main, other = graphs(module)
    assert [g.sym_name.data for g in (made, main, other)] == ["f_made_1", "f", "f_made"]
    assert [(s.name, s.pooled, s.made) for s in main.inputs] == [
        ("x", None, None),
        ("made0", "b", None),
        ("made1", None, "f_made_1.made1"),
        ("made2", None, "f_made_1.made2"),
    ]
    assert [s.pooled for s in made.inputs] == ["w", "b"]
    assert {note.kind for note in report.fired} == {"MadeOnce"}
    assert [note.text.partition(", is made of ")[2] for note in report.fired] == [
        "w, b once, when they are bound"
    ] * 2
    x = np.ones((3, 4), np.float32)
    named: dict[str, Any] = {"x": x, "w": x[:2, :2] * 2, "made0": x[0] * 3}
    inputs = with_made(module, "f", named, {"M": 3})
    assert inputs is not None
    (found,) = run(main, inputs, {"M": 3})
    np.testing.assert_allclose(found, np.exp(6.0) + 9, rtol=1e-6)


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ('{made = "f.a"}', "made .* is kept in the constant pool, and the tensor is not"),
        ('{storage = "const_pool", made = "f"}', "made is an output of a graph, such as"),
        ('{storage = "const_pool", entry = "w", made = "f.a"}', "not both"),
    ],
)
def test_what_says_no_output_is_refused(ctx: Context, attrs: str, message: str) -> None:
    text = TEXT.replace('{storage = "const_pool"}', attrs)
    with pytest.raises(Exception, match=message):
        verify(parse_text(ctx, text, "f.mlir"))


def looked_up(places: str) -> ModuleOp:
    """A bias of positions, of a table's rows at ``places``, added to two texts' scores, and a
    comparison of it."""
    s = Sketch("g", f32)
    x, table = s.input("x", 2, 3, 40, 40), s.input("table", 1600, 3, element=f16)
    at = s.input("places", 40, 40, element=i64)
    if places == "in order":
        at = s.reshape(s.add(frontend.IotaOp(frontend.tensor((1600,), i64), 0)), 40, 40)
    bias = s.cast(s.permute(s.add(frontend.GatherOp(table, at, 0)), 2, 0, 1), f32)
    kind = frontend.tensor((2, 3, 40, 40), f32)
    both = s.add(frontend.ExpandOp(bias, [1, 2, 3], kind)) if places == "of each text" else bias
    asked = x if places == "in order" else both
    seen = s.add(frontend.CompareOp("gt", asked, s.number(0.5)))
    module = s.done(y=s.add(frontend.SelectOp(seen, s.fn("add", x, both), x)))
    with unsaid():
        run_pass(make_context(), build("frontend-to-tiny", "sm_80"), module)
    (graph,) = graphs(module)
    kept = [spec.name in ("table", "places") for spec in graph.inputs]
    attrs = [KEPT if one else DictionaryAttr({}) for one in kept]
    graph.properties["arg_attrs"] = type(graph.arg_attrs)(attrs)
    return module


@pytest.mark.parametrize("places", ["anywhere", "of each text", "in order"])
def test_what_is_looked_up_is_made_once_as_it_is_read(places: str) -> None:
    """It is not kept again for each text, nor is what is asked of it; rows in order stay where they
    are."""
    module = looked_up(places)
    (before,) = graphs(module)
    inputs = make_inputs(before, {}, 5)
    names = [spec.name for spec in before.inputs]
    (wanted,) = run(before, inputs, {})
    split(module)
    *_, main = graphs(module)
    made = [tuple(str(d) for d in s.type.dims) for s in main.inputs if s.made is not None]
    assert made == ([] if places == "in order" else [("3", "40", "40")])
    given = with_made(module, "g", dict(zip(names, inputs, strict=True)), {})
    (found,) = run(main, inputs if given is None else given, {})
    np.testing.assert_array_equal(found, wanted)
