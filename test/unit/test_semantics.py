"""docs/semantics.md, run: every example at the frontend and at the tiny level (S0.6)."""

from __future__ import annotations

import doctest
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.passes.driver import verify
from polyc.playback import frontend as frontend_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.functions import Array, round_to
from polyc.tools.registry import make_context

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "semantics.md"


def _parse(text: str) -> ModuleOp:
    module = Parser(make_context(), text).parse_module()
    verify(module)
    return module


def _play(text: str, inputs: Sequence[Array], symbols: Mapping[str, int] | None = None) -> Array:
    """The first output of the graph; a frontend graph is lowered, and both must agree."""
    module = _parse(text)
    graph = next(iter(module.ops))
    sizes = symbols or {}
    if isinstance(graph, frontend.GraphOp):
        above = frontend_playback.run(graph, inputs, sizes)[0]
        FrontendToTiny().apply(make_context(), module)
        verify(module)
        below = tiny_playback.run(cast(tiny.GraphOp, next(iter(module.ops))), inputs, sizes)[0]
        np.testing.assert_array_equal(np.signbit(above), np.signbit(below))
        np.testing.assert_array_equal(above, below)
        return below
    assert isinstance(graph, tiny.GraphOp)
    return tiny_playback.run(graph, inputs, sizes)[0]


def _scalars(*values: float) -> list[Array]:
    return [np.asarray(v, np.float32) for v in values]


SCALAR = "!frontend.tensor<[], f32>"


def elementwise(fn: str, *args: float) -> float:
    names = [f"%x{'abc'[i]}" for i in range(len(args))]
    types = f"({', '.join([SCALAR] * len(args))}) -> {SCALAR}"
    signature = ", ".join(f"{n}: {SCALAR}" for n in names)
    text = f"""frontend.graph @f({signature}) -> {SCALAR} {{
      %y = frontend.elementwise {fn} {", ".join(names)} : {types}
      frontend.output %y : {SCALAR}
    }}"""
    return float(_play(text, _scalars(*args)))


def cast_to(x: float, element: str) -> float:
    narrow = f"!frontend.tensor<[], {element}>"
    text = f"""frontend.graph @f(%x: {SCALAR}) -> {SCALAR} {{
      %y = frontend.cast %x : {SCALAR} -> {narrow}
      %z = frontend.cast %y : {narrow} -> {SCALAR}
      frontend.output %z : {SCALAR}
    }}"""
    return float(_play(text, _scalars(x)))


def stored(x: float, element: str) -> float:
    narrow = f"!frontend.tensor<[], {element}>"
    text = f"""frontend.graph @f(%x: {SCALAR}) -> {narrow} {{
      %y = frontend.cast %x : {SCALAR} -> {narrow}
      frontend.output %y : {narrow}
    }}"""
    return float(_play(text, _scalars(x)))


def chain(element: str, x: float, *steps: str | tuple[str, float]) -> float:
    """Steps on an ``element`` value: ``(fn, operand)``, or a cast that the user wrote."""
    t = f"!frontend.tensor<[], {element}>"
    operands = [x, *(s[1] for s in steps if not isinstance(s, str))]
    signature = ", ".join(f"%in{chr(97 + i)}: {t}" for i in range(len(operands)))
    lines: list[str] = []
    value, used = "%ina", 1
    for number, step in enumerate(steps):
        result = f"%v{chr(97 + number)}"
        if isinstance(step, str):
            lines.append(f"{result} = frontend.cast {value} : {t} -> {t}")
        else:
            operand = f"%in{chr(97 + used)}"
            used += 1
            lines.append(
                f"{result} = frontend.elementwise {step[0]} {value}, {operand} : ({t}, {t}) -> {t}"
            )
        value = result
    body = "\n".join(lines)
    text = f"frontend.graph @f({signature}) -> {t} {{\n{body}\nfrontend.output {value} : {t}\n}}"
    module = _parse(text)
    (output,) = cast(frontend.GraphOp, next(iter(module.ops))).outputs
    return float(_play(text, [round_to(a, output.type.element_type) for a in _scalars(*operands)]))


def reduce(fn: str, values: Sequence[float]) -> float:
    text = f"""tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> !tiny.tensor<[], f32> {{
      %y = tiny.reduce {fn} %x axes [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[], f32>
      tiny.output %y : !tiny.tensor<[], f32>
    }}"""
    array = np.asarray(values, np.float32)
    result = float(_play(text, [array], {"N": len(values)}))
    if fn == "sum":
        # The same through a product, which playback sums without storing it.
        text = """tiny.graph @f(%x: !tiny.tensor<[N], f32>, %one: !tiny.tensor<[N], f32>) -> !tiny.tensor<[], f32> {
          %p = tiny.binary mul %x, %one : !tiny.tensor<[N], f32>
          %y = tiny.reduce sum %p axes [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[], f32>
          tiny.output %y : !tiny.tensor<[], f32>
        }"""  # noqa: E501
        again = float(_play(text, [array, np.ones_like(array)], {"N": len(values)}))
        assert again == result or (math.isnan(again) and math.isnan(result))
    return result


def gemm(
    a: Sequence[Sequence[float]],
    b: Sequence[Sequence[float]],
    element: str,
    n: int | None = None,
    plus: float | None = None,
) -> list[list[float]]:
    """The product in an f32 output; ``plus`` is added to ``a`` first."""
    columns = n if n is not None else len(b[0])
    sizes = {"M": len(a), "K": len(b), "N": columns}
    left, right = f"!frontend.tensor<[M, K], {element}>", f"!frontend.tensor<[K, N], {element}>"
    one, result = f"!frontend.tensor<[1], {element}>", "!frontend.tensor<[M, N], f32>"
    add = f"%s = frontend.elementwise add %a, %p : ({left}, {one}) -> {left}"
    text = f"""frontend.graph @f(%a: {left}, %b: {right}, %p: {one}) -> {result} {{
      {add if plus is not None else ""}
      %c = frontend.gemm {"%a" if plus is None else "%s"}, %b {{acc = f32}}
          : ({left}, {right}) -> {result}
      frontend.output %c : {result}
    }}"""
    graph = cast(frontend.GraphOp, next(iter(_parse(text).ops)))
    arrays = [
        np.asarray(a, np.float32).reshape(sizes["M"], sizes["K"]),
        np.asarray(b, np.float32).reshape(sizes["K"], sizes["N"]),
        np.asarray([plus or 0.0], np.float32),
    ]
    stored_as = [
        round_to(x, spec.type.element_type) for x, spec in zip(arrays, graph.inputs, strict=True)
    ]
    return cast(list[list[float]], _play(text, stored_as, sizes).tolist())


def select(relation: str, x: float, y: float, a: float, b: float) -> float:
    t = "!tiny.tensor<[], f32>"
    text = f"""tiny.graph @f(%x: {t}, %y: {t}, %a: {t}, %b: {t}) -> {t} {{
      %c = tiny.compare {relation} %x, %y : {t}
      %s = tiny.select %c, %a, %b : {t}
      tiny.output %s : {t}
    }}"""
    return float(_play(text, _scalars(x, y, a, b)))


NAMES: dict[str, Any] = {
    "cast": cast_to,
    "chain": chain,
    "elementwise": elementwise,
    "gemm": gemm,
    "inf": math.inf,
    "nan": math.nan,
    "reduce": reduce,
    "select": select,
    "stored": stored,
}


def _blocks() -> list[tuple[str, str, int]]:
    """Every block of examples: its heading, its text, its line."""
    text = DOCUMENT.read_text()
    found: list[tuple[str, str, int]] = []
    for match in re.finditer(r"^```pycon\n(.*?)^```$", text, re.M | re.S):
        before = text[: match.start()]
        heading = re.findall(r"^#+ (.*)$", before, re.M)[-1]
        found.append((heading, match[1], before.count("\n") + 1))
    return found


@pytest.mark.parametrize(
    ("heading", "source", "line"), [pytest.param(*b, id=f"{b[0]}:{b[2]}") for b in _blocks()]
)
def test_examples_of_the_document(heading: str, source: str, line: int) -> None:
    test = doctest.DocTestParser().get_doctest(source, dict(NAMES), heading, str(DOCUMENT), line)
    report: list[str] = []
    results = doctest.DocTestRunner().run(test, out=report.append)
    assert results.attempted > 0
    assert not results.failed, "".join(report)


@pytest.mark.parametrize("fn", [*frontend.UNARY_FUNCTIONS, *frontend.BINARY_FUNCTIONS])
def test_document_names_every_function(fn: str) -> None:
    assert f'elementwise("{fn}"' in DOCUMENT.read_text()


@pytest.mark.parametrize("fn", [*frontend.UNARY_FUNCTIONS, *frontend.BINARY_FUNCTIONS])
def test_nan_goes_through(fn: str) -> None:
    nan = math.nan
    if fn in frontend.UNARY_FUNCTIONS:
        assert math.isnan(elementwise(fn, nan))
    else:
        assert math.isnan(elementwise(fn, nan, 2.0))
        assert math.isnan(elementwise(fn, 2.0, nan))
