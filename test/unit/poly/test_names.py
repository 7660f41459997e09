"""Names of values, axes, sizes and numbers in reports."""

from __future__ import annotations

import json
from math import inf, nan

import pytest

from polyc.dialects.common.dim import Dim
from polyc.dialects.index import AxisAttr
from polyc.dialects.tiny import GraphOp
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.poly.names import axis_names, number_json, size_json, value_name, value_names
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def graph(body: str, output: str) -> GraphOp:
    """A graph of the inputs %v0 and %y, with its book."""
    kind = "!tiny.tensor<[M], f32>"
    lines = "".join(f"  {line} : {kind}\n" for line in body.splitlines())
    text = (
        f"tiny.graph @g(%v0: {kind}, %y: {kind}) -> {kind} {{\n{lines}"
        f"  tiny.output %{output} : {kind}\n}}\n"
    )
    context = make_context()
    module = parse_text(context, text, "names.mlir")
    TinyToIndex().apply(context, module)
    (found,) = (op for op in module.walk() if isinstance(op, GraphOp))
    return found


def test_inputs_are_called_as_the_signature_says_and_the_rest_is_numbered() -> None:
    of = graph("%0 = tiny.unary neg %v0\n%1 = tiny.unary exp %0\n%2 = tiny.unary neg %1", "2")
    assert sorted(value_names(of).values()) == ["v0", "v1", "v2", "v3", "y"]


def test_a_name_that_is_taken_gets_a_number() -> None:
    of = graph("%a = tiny.unary neg %v0\n%b = tiny.unary exp %a\n%c = tiny.unary abs %b", "c")
    names = value_names(of)
    results = [value for value in names if value.name_hint in ("a", "b", "c")]
    results[0].name_hint = results[1].name_hint = results[2].name_hint = "y"
    assert [value_names(of)[value] for value in results] == ["y_1", "y_2", "y_3"]
    assert value_name(results[2]) == "y_3"


@pytest.mark.parametrize(
    ("sizes", "symbols", "reduced_from", "names"),
    [
        (["M", "K"], [], None, ("m", "k")),
        (["M", "M"], [], None, ("m", "i1")),
        (["M", "M"], [], 1, ("m", "r0")),
        ([8, Dim.sym("M") + 1], [], 1, ("i0", "r0")),
        (["M"], ["m"], None, ("i0",)),
        (["MAX", "Or"], [], None, ("i0", "i1")),
    ],
)
def test_axes_are_called_after_their_size(
    sizes: list[Dim | int | str],
    symbols: list[str],
    reduced_from: int | None,
    names: tuple[str, ...],
) -> None:
    axes = [AxisAttr.of(i, f"i{i}", size) for i, size in enumerate(sizes)]
    assert axis_names(axes, symbols, reduced_from) == names


def test_sizes_and_numbers_are_what_json_can_hold() -> None:
    assert [size_json(Dim.const(3)), size_json(Dim.sym("M") + 1)] == [3, "M + 1"]
    assert json.dumps([number_json(x) for x in (1.5, inf, -inf, nan)], allow_nan=False) == (
        '[1.5, "inf", "-inf", "nan"]'
    )
