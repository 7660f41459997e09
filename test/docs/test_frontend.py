"""docs/dialects/frontend.md shows every op of the dialect, as it is written."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from xdsl.context import Context

from polyc.dialects import frontend
from polyc.rewriting.driver import verify
from polyc.tools.parsing import parse_text

PAGE = Path("docs/dialects/frontend.md").read_text()
TEXTS = re.findall(r"```mlir\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize("text", TEXTS, ids=lambda t: re.findall(r"@(\w+)", t)[0])
def test_a_text_reads_and_verifies(text: str, ctx: Context) -> None:
    module = parse_text(ctx, text, "page.mlir")
    verify(module)
    assert str(parse_text(ctx, str(module), "again.mlir")) == str(module)


def test_every_op_is_shown() -> None:
    shown = set(re.findall(r"frontend\.\w+", "".join(TEXTS)))
    assert {op.name for op in frontend.Frontend.operations} <= shown


ROWS: dict[str, Iterable[str]] = {
    "`elementwise` of one operand": frontend.UNARY.floats,
    "`elementwise` of two": frontend.BINARY.floats,
    "of one, of integers": frontend.UNARY.integers,
    "of two, of integers": frontend.BINARY.integers,
    "of one, of conditions": frontend.UNARY.conditions,
    "of two, of conditions": frontend.BINARY.conditions,
    "`compare`": frontend.COMPARISONS,
    "`classify`": frontend.CLASSES,
    "`reduce`": (*frontend.REDUCTIONS, *frontend.REDUCTIONS_OF_CONDITIONS),
    "`arg_reduce`, `arg_pool`": frontend.EXTREMES,
    "`pool`": frontend.POOLINGS,
    "`adaptive_pool`": frontend.ADAPTIVE,
    "`random`": frontend.DISTRIBUTIONS,
    "`resize nearest`, where": frontend.COORDINATES,
    "`resize nearest`, rounded by": frontend.ROUNDINGS,
}


@pytest.mark.parametrize("row", ROWS)
def test_every_function_is_listed(row: str) -> None:
    (listed,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", PAGE, re.M)
    assert re.findall(r"`(\w+)`", listed) == [*ROWS[row]]
