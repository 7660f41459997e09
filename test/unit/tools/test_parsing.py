"""The parser of the tools on text that upstream cannot take."""

from __future__ import annotations

import pytest
from xdsl.dialects import affine
from xdsl.utils.exceptions import ParseError

from polyc.dialects.common.diagnostic import Place, PolycError, place_of
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context


@pytest.mark.parametrize("start", ["", "frontend.graph @g(%A: !frontend.tensor<[M], f32> {role = "])
def test_an_open_string_is_refused_in_linear_time(start: str) -> None:
    """Upstream's lexer would take longer than the age of the universe."""
    with pytest.raises(ParseError, match="string"):
        parse_text(make_context(), f'{start}"{"a" * 100_000}', "open.mlir")


@pytest.mark.parametrize("literal", ["", "plain", r"\"\\\n\t", r"\0A\ff"])
def test_a_closed_string_reads_as_before(literal: str) -> None:
    text = f'builtin.module attributes {{name = "{literal}"}} {{\n}}'
    assert f'name = "{literal}"'[:8] in str(parse_text(make_context(), text, "closed.mlir"))


@pytest.mark.parametrize(
    "text",
    [
        'builtin.module attributes {a = "\u00e9", b = ["x\\C3\\BCy"]} {\n}\n',
        'builtin.module attributes {"\u00e9" = 1 : i32} {\n}\n',
    ],
)
def test_strings_that_are_not_ascii_read_back(text: str) -> None:
    """The printer escapes them, and upstream's lexer reads the escapes as bytes."""
    ctx = make_context()
    printed = module_text(parse_text(ctx, text, "x.mlir"))
    assert "\\C3" in printed
    assert module_text(parse_text(ctx, printed, "x.mlir")) == printed


def test_places_in_a_file_with_a_name_that_is_not_ascii() -> None:
    ctx = make_context()
    text = module_text(parse_text(ctx, "%0 = arith.constant 1 : i32", "\u00e9.mlir"), True)
    module = parse_text(ctx, text, "other.mlir")
    assert place_of(next(iter(module.ops))) == Place("\u00e9.mlir", 1, 1)
    assert module_text(module, True) == text


def test_a_name_is_ascii() -> None:
    with pytest.raises(ParseError, match="cannot begin a name"):
        parse_text(make_context(), "builtin.module attributes {\u00e9 = 1 : i32} {\n}", "x.mlir")


@pytest.mark.parametrize(
    "wrong",
    ['symbols = ["M"], ', "", 'symbols = ["M", 3 : i32], ', "symbols = 3 : i32, "],
)
def test_a_container_whose_property_is_wrong_is_named(wrong: str) -> None:
    """Ops inside ask it for the property before its own verifier runs."""
    text = f'"gpu.module"() <{{sym_name = "g", arch = "sm_90a", {wrong}assumptions = '
    text += "#polyc.assumptions<()>}> ({\n gpu.kernel @k() threads 32 {\n gpu.return\n }\n"
    text += " gpu.dispatch (A: !gpu.global<[M], f32>) -> () {\n"
    text += "  gpu.launch @k when (M >= 1) align [4] grid [M]\n }\n}) : () -> ()"
    ctx = make_context()
    if wrong.startswith('symbols = ["M"]'):
        verify(parse_text(ctx, text, "x.mlir"))
        return
    with pytest.raises(
        PolycError, match=r"'symbols'|expected ArrayAttr|base attribute string"
    ) as caught:
        verify(parse_text(ctx, text, "x.mlir"))
    assert caught.value.place == Place("x.mlir", 1, 1)


def test_a_map_that_is_written_again_is_read_once():
    text = "".join(
        f"%{i} = affine.apply affine_map<(d0)[s0] -> (d0 + s0 floordiv {2 + i % 2})> (%a)[%a]\n"
        for i in range(4)
    )
    module = parse_text(make_context(), f"%a = arith.constant 8 : index\n{text}", "t.mlir")
    maps = [op.map.data for op in module.ops if isinstance(op, affine.ApplyOp)]
    assert [str(m.results[0]) for m in maps] == [f"(d0 + (s0 floordiv {d}))" for d in (2, 3, 2, 3)]
    assert maps[0] is maps[2] and maps[1] is maps[3]
