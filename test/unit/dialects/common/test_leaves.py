"""Constants and sizes have one text in ``frontend`` and in ``tiny``, with each one's type."""

from __future__ import annotations

import pytest
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from polyc.dialects.common.leaves import ConstantBase, DimBase
from polyc.tools.registry import make_context

DIALECTS = ("frontend", "tiny")
LEAVES = (
    "constant 0.5 : !{}.tensor<[], f32>",
    'constant -inf {{why = "mask"}} : !{}.tensor<[], f32>',
    "constant 5 : !{}.tensor<[], i64>",
    "dim K * M : !{}.tensor<[], f32>",
    'dim M {{why = "mean"}} : !{}.tensor<[], i64>',
)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_is_read_as_it_is_written(dialect: str, leaf: str) -> None:
    line = f"{dialect}.{leaf.format(dialect)}"
    op = Parser(make_context(), f"%x = {line}").parse_op()
    assert isinstance(op, ConstantBase | DimBase)
    assert str(op) == f"%x = {line}"


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("leaf", ("constant 0.5", "dim M"))
def test_the_other_dialects_type_is_refused(dialect: str, leaf: str) -> None:
    (other,) = set(DIALECTS) - {dialect}
    text = f"%x = {dialect}.{leaf} : !{other}.tensor<[], f32>"
    with pytest.raises(ParseError, match=rf"expected a !{dialect}\.tensor, not !{other}\.tensor"):
        Parser(make_context(), text).parse_op()
