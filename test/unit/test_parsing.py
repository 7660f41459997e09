"""The parser of the tools on text that upstream's lexer cannot take."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError

from polyc.tools.parsing import parse_text
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
