"""Size expressions: one canonical form, text that reads back, agreement with affine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import Builtin
from xdsl.ir.affine import AffineExpr
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from polyc.dialects.common.dim import (
    Assumption,
    AssumptionsAttr,
    Dim,
    DimAttr,
    ShapeAttr,
    parse_assumptions,
    parse_dim,
)
from polyc.dialects.common.size_text import SizeReader

SYMBOLS = ("M", "N", "K_1")
M, N, K = (Dim.sym(s) for s in SYMBOLS)


def parsed(text: str) -> Dim:
    context = Context()
    context.load_dialect(Builtin)
    return parse_dim(Parser(context, text))


def attribute(text: str) -> DimAttr | ShapeAttr | AssumptionsAttr:
    context = Context()
    context.load_dialect(Builtin)
    for attr in (DimAttr, ShapeAttr, AssumptionsAttr):
        context.load_attr_or_type(attr)
    found = Parser(context, text).parse_attribute()
    assert isinstance(found, DimAttr | ShapeAttr | AssumptionsAttr)
    return found


def _steps(inner: st.SearchStrategy[Dim], products: bool) -> st.SearchStrategy[Dim]:
    pairs = st.tuples(inner, inner)
    divided = st.tuples(inner, st.integers(1, 9))
    ways = [
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        inner.map(lambda d: -d),
        st.tuples(inner, st.integers(-4, 4)).map(lambda p: p[0] * p[1]),
        divided.map(lambda p: p[0].floordiv(p[1])),
        divided.map(lambda p: p[0].ceildiv(p[1])),
        divided.map(lambda p: p[0].mod(p[1])),
    ]
    if products:
        ways.append(pairs.map(lambda p: p[0] * p[1]))
    return st.one_of(ways)


LEAVES = st.one_of(st.integers(-20, 20).map(Dim.const), st.sampled_from(SYMBOLS).map(Dim.sym))
AFFINE = st.recursive(LEAVES, lambda inner: _steps(inner, False), max_leaves=8)
ANY = st.recursive(LEAVES, lambda inner: _steps(inner, True), max_leaves=8)
VALUES = st.fixed_dictionaries({s: st.integers(0, 50) for s in SYMBOLS})


@given(ANY, VALUES)
def test_text_reads_back_as_the_same_expression(dim: Dim, values: dict[str, int]) -> None:
    again = parsed(str(dim))
    assert again == dim == parse_dim(SizeReader(str(dim)))
    assert str(again) == str(dim)
    assert again.evaluate(values) == dim.evaluate(values)


@given(ANY, ANY, st.integers(1, 12), VALUES)
def test_operators_compute(a: Dim, b: Dim, den: int, values: dict[str, int]) -> None:
    x, y = a.evaluate(values), b.evaluate(values)
    assert (a + b).evaluate(values) == x + y
    assert (a - b).evaluate(values) == x - y
    assert (a * b).evaluate(values) == x * y
    assert (-a).evaluate(values) == -x
    assert a.floordiv(den).evaluate(values) == x // den
    assert a.ceildiv(den).evaluate(values) == -(-x // den)
    assert a.mod(den).evaluate(values) == x % den


@given(ANY, ANY, ANY)
def test_equal_polynomials_are_equal_objects(a: Dim, b: Dim, c: Dim) -> None:
    assert a + b == b + a
    assert a * b == b * a
    assert (a + b) + c == a + (b + c)
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert (a - a).constant() == 0


@given(ANY, st.sampled_from(SYMBOLS), ANY, VALUES)
def test_substitute_agrees_with_evaluate(
    dim: Dim, name: str, by: Dim, values: dict[str, int]
) -> None:
    replaced = {**values, name: by.evaluate(values)}
    assert dim.substitute({name: by}).evaluate(values) == dim.evaluate(replaced)


def _at(expr: AffineExpr, values: Sequence[int]) -> int:
    return expr.eval([], list(values))


@given(AFFINE, VALUES)
def test_as_affine_agrees_with_evaluate(dim: Dim, values: dict[str, int]) -> None:
    expr = dim.as_affine(SYMBOLS)
    assert expr is not None
    assert _at(expr, [values[s] for s in SYMBOLS]) == dim.evaluate(values)
    back = Dim.from_affine(expr, SYMBOLS)
    assert back == dim


@given(ANY)
def test_symbols_are_those_that_matter(dim: Dim) -> None:
    assert set(dim.symbols()) <= set(SYMBOLS)
    assert dim.substitute({}) == dim
    if not dim.symbols():
        assert dim.constant() == dim.evaluate({})


@given(ANY, ANY, st.sampled_from(("==", ">=", "<=", ">", "<")), VALUES)
def test_assumptions_hold_as_written(a: Dim, b: Dim, relation: str, values: dict[str, int]) -> None:
    context = Context()
    context.load_dialect(Builtin)
    (fact,) = parse_assumptions(Parser(context, f"({a} {relation} {b})"))
    x, y = a.evaluate(values), b.evaluate(values)
    expected = {"==": x == y, ">=": x >= y, "<=": x <= y, ">": x > y, "<": x < y}[relation]
    assert fact.holds(values) == expected
    (again,) = parse_assumptions(Parser(context, f"({fact})"))
    assert parse_assumptions(SizeReader(f"({fact})")) == (again,)
    assert again == fact


@given(st.lists(AFFINE, max_size=3), VALUES)
def test_assumptions_as_an_affine_set(dims: list[Dim], values: dict[str, int]) -> None:
    facts = tuple(Assumption(d, "==" if i % 2 else ">=") for i, d in enumerate(dims))
    points = AssumptionsAttr(facts).as_affine_set(SYMBOLS)
    at = [values[s] for s in SYMBOLS]
    held = all(
        (_at(c.lhs, at) == _at(c.rhs, at))
        if c.kind.name == "eq"
        else (_at(c.lhs, at) >= _at(c.rhs, at))
        for c in points.constraints
    )
    assert held == all(f.holds(values) for f in facts)


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("M", "M"),
        ("0 * M", "0"),
        ("K_1 + M + 1 + M", "K_1 + 2 * M + 1"),
        ("(M + 1) * (M - 1)", "M * M - 1"),
        ("(8 * M + 3) floordiv 8", "M"),
        ("(8 * M + 3) mod 8", "3"),
        ("M mod 1", "0"),
        ("M ceildiv 4", "(M + 3) floordiv 4"),
        ("-M floordiv 2", "-M + M floordiv 2"),
        ("2 * (M floordiv 2)", "2 * (M floordiv 2)"),
        ("M * (N mod 4)", "M * (N mod 4)"),
        ("1 - M mod 4", "-(M mod 4) + 1"),
        ("(M - 1) floordiv 2 + 1", "(M + 1) floordiv 2"),
        ("(3 * (M floordiv 3)) floordiv 9", "(M floordiv 3) floordiv 3"),
        ("(4 * M + 6) floordiv 8", "(2 * M + 3) floordiv 4"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    assert str(parsed(text)) == canonical
    values = {"M": 7, "N": 6, "K_1": 5}
    assert parsed(text).evaluate(values) == parsed(canonical).evaluate(values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("M floordiv 0", "the right side of floordiv is a positive integer constant"),
        ("M mod N", "the right side of mod is a positive integer constant"),
        ("M ceildiv -2", "the right side of ceildiv is a positive integer constant"),
        ("M + ]", "expected a size: an integer, a symbol or an expression of them"),
    ],
)
def test_what_is_not_a_size(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        parsed(text)


def test_division_by_a_constant_that_is_not_positive() -> None:
    for den in (0, -3):
        with pytest.raises(ValueError, match=f"positive constant, not {den}"):
            M.floordiv(den)
        with pytest.raises(ValueError, match=f"positive constant, not {den}"):
            M.mod(den)


def test_products_of_symbols_are_not_affine() -> None:
    assert (M * N).as_affine(SYMBOLS) is None
    assert (M * N).floordiv(4).as_affine(SYMBOLS) is None
    with pytest.raises(ValueError, match="symbol P is not among M, N, K_1"):
        Dim.sym("P").as_affine(SYMBOLS)


def test_evaluate_names_the_symbol_without_a_value() -> None:
    with pytest.raises(KeyError, match="N"):
        (M + N).evaluate({"M": 1})


def test_assumption_text_has_the_constant_on_the_right() -> None:
    assert str(Assumption(M - 1, ">=")) == "M >= 1"
    assert str(Assumption(K.mod(8), "==")) == "K_1 mod 8 == 0"
    assert str(Assumption(M - N, "==")) == "M - N == 0"


@pytest.mark.parametrize(
    "text",
    [
        "#polyc.dim<(M + 1) floordiv 2>",
        "#polyc.shape<[]>",
        "#polyc.shape<[M, 4 * K_1 + 2, 0]>",
        "#polyc.assumptions<()>",
        "#polyc.assumptions<(K_1 mod 8 == 0, M >= 1)>",
    ],
)
def test_attributes_read_back(text: str) -> None:
    assert str(attribute(text)) == text
