"""affine/isl.py: what isl answers through attributes, and canonical expressions."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, Builtin
from xdsl.ir.affine import AffineConstantExpr, AffineExpr, AffineMap, AffineSet
from xdsl.parser import Parser

from polyc.affine import isl


def parse(text: str) -> object:
    ctx = Context()
    ctx.load_dialect(Builtin)
    return Parser(ctx, text).parse_attribute()


def set_of(text: str) -> AffineSet:
    found = parse(f"affine_set<{text}>")
    assert isinstance(found, AffineSetAttr)
    return found.data


def map_of(text: str) -> AffineMap:
    found = parse(f"affine_map<{text}>")
    assert isinstance(found, AffineMapAttr)
    return found.data


BOX = set_of("(d0, d1)[s0, s1] : (d0 >= 0, s0 - d0 - 1 >= 0, d1 >= 0, s1 - d1 - 1 >= 0)")


# Expressions and sets that hypothesis draws ---------------------------------------------

DIMS, SYMBOLS = 2, 1


def added(a: AffineExpr, b: AffineExpr) -> AffineExpr:
    return a + b


def scaled(a: AffineExpr, c: int) -> AffineExpr:
    return a * c


def floored(a: AffineExpr, c: int) -> AffineExpr:
    return a // c


def remainder(a: AffineExpr, c: int) -> AffineExpr:
    return a % c


def raised(a: AffineExpr, c: int) -> AffineExpr:
    return a.ceil_div(c)


def grow(inner: st.SearchStrategy[AffineExpr]) -> st.SearchStrategy[AffineExpr]:
    den = st.integers(1, 6)
    return st.one_of(
        st.builds(added, inner, inner),
        st.builds(scaled, inner, st.integers(-3, 3)),
        st.builds(floored, inner, den),
        st.builds(remainder, inner, den),
        st.builds(raised, inner, den),
    )


EXPRS: st.SearchStrategy[AffineExpr] = st.recursive(
    st.one_of(
        st.builds(AffineExpr.dimension, st.integers(0, DIMS - 1)),
        st.builds(AffineExpr.symbol, st.integers(0, SYMBOLS - 1)),
        st.builds(AffineExpr.constant, st.integers(-5, 5)),
    ),
    grow,
    max_leaves=6,
)
POINTS = [(i, j, s) for i in (-7, 0, 1, 5) for j in (-2, 0, 3, 11) for s in (0, 1, 8)]


@given(EXPRS)
def test_canonical_expr_keeps_the_values(expr: AffineExpr):
    simple = isl.canonical_expr(expr)
    for i, j, s in POINTS:
        assert simple.eval((i, j), (s,)) == expr.eval((i, j), (s,))


@given(EXPRS)
def test_canonical_expr_is_idempotent_and_reads_back(expr: AffineExpr):
    simple = isl.canonical_expr(expr)
    assert isl.canonical_expr(simple) == simple
    assert "mod" not in str(simple) and "ceildiv" not in str(simple)
    assert map_of(f"(d0, d1)[s0] -> ({simple})").results[0] == simple


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("d0 mod 4", "d0 - 4 * (d0 floordiv 4)"),
        ("(2 * d0 + 4) floordiv 6", "(d0 + 2) floordiv 3"),
        ("(2 * d0 + 5) floordiv 6", "(d0 + 2) floordiv 3"),
        ("(4 * d0 + d1) floordiv 4", "d0 + d1 floordiv 4"),
        ("(d0 floordiv 2) floordiv 3", "d0 floordiv 6"),
        ("d0 ceildiv 3", "(d0 + 2) floordiv 3"),
        ("d0 - d0", "0"),
        ("d1 + d0", "d0 + d1"),
    ],
)
def test_canonical_expr_spelling(text: str, wanted: str):
    found = isl.canonical_map(map_of(f"(d0, d1) -> ({text})"))
    assert found == isl.canonical_map(map_of(f"(d0, d1) -> ({wanted})"))
    assert str(found).replace("(", "").replace(")", "").count("floordiv") == wanted.count(
        "floordiv"
    )


def test_a_divisor_is_positive():
    with pytest.raises(ValueError, match="not a positive integer"):
        isl.canonical_map(map_of("(d0) -> (d0 floordiv 0)"))


@given(EXPRS, EXPRS)
def test_isl_and_evaluation_agree_on_equality(a: AffineExpr, b: AffineExpr):
    """``maps_equal`` is true exactly when no point of a bounded domain tells them apart."""
    domain = set_of("(d0, d1)[s0] : (d0 >= 0, 3 - d0 >= 0, d1 >= 0, 3 - d1 >= 0, s0 - 2 == 0)")
    left, right = (AffineMap(2, 1, (e,)) for e in (a, b))
    same = all(a.eval((i, j), (2,)) == b.eval((i, j), (2,)) for i in range(4) for j in range(4))
    assert isl.maps_equal(left, right, domain) == same


@given(EXPRS)
def test_simplify_map_keeps_the_values_on_the_domain(expr: AffineExpr):
    domain = set_of("(d0, d1)[s0] : (d0 >= 0, 3 - d0 >= 0, d1 == 2, s0 - d0 >= 0)")
    map = AffineMap(2, 1, (expr,))
    simple = isl.simplify_map(map, domain)
    assert isl.maps_equal(simple, map, domain)
    for i in range(4):
        for s in range(i, 6):
            assert simple.eval((i, 2), (s,)) == map.eval((i, 2), (s,))


@given(EXPRS, st.integers(0, 1))
def test_map_uses_dim_agrees_with_evaluation(expr: AffineExpr, dim: int):
    domain = set_of("(d0, d1)[s0] : (d0 >= 0, 3 - d0 >= 0, d1 >= 0, 3 - d1 >= 0, s0 - 2 == 0)")

    def at(varied: int, fixed: int) -> int:
        return expr.eval((varied, fixed) if dim == 0 else (fixed, varied), (2,))

    varies = any(len({at(v, f) for v in range(4)}) > 1 for f in range(4))
    assert isl.map_uses_dim(AffineMap(2, 1, (expr,)), dim, domain) == varies


@given(st.lists(EXPRS, max_size=3), st.lists(EXPRS, max_size=2))
def test_simplify_set_agrees_inside_its_context(rows: list[AffineExpr], known: list[AffineExpr]):
    points = set_of(f"(d0, d1)[s0] : ({', '.join(f'{r} >= 0' for r in rows)})")
    context = set_of(f"(d0, d1)[s0] : ({', '.join(f'{r} >= 0' for r in known)})")
    simple = isl.simplify_set(points, context)
    for i, j, s in POINTS:
        if holds(context, (i, j), (s,)):
            assert holds(simple, (i, j), (s,)) == holds(points, (i, j), (s,))


def holds(points: AffineSet, dims: tuple[int, ...], symbols: tuple[int, ...]) -> bool:
    for row in points.constraints:
        value = row.lhs.eval(dims, symbols) - row.rhs.eval(dims, symbols)
        if not {"ge": value >= 0, "le": value <= 0, "eq": value == 0}[row.kind.name]:
            return False
    return True


# Sets -----------------------------------------------------------------------------------


def test_symbols_are_never_negative():
    assert isl.is_empty(set_of("()[s0] : (-s0 - 1 >= 0)"))
    assert not isl.is_empty(set_of("()[s0] : (-s0 >= 0)"))


def test_implies_counts_multiples():
    by8, by4 = set_of("()[s0] : (s0 mod 8 == 0)"), set_of("()[s0] : (s0 mod 4 == 0)")
    assert isl.implies(by8, by4)
    assert not isl.implies(by4, by8)


def test_facts_about_symbols_hold_at_every_point():
    bounded = set_of("(d0, d1)[s0, s1] : (s0 - 3 >= 0)")
    assert isl.implies(set_of("()[s0, s1] : (s0 - 4 >= 0)"), bounded)
    assert not isl.implies(set_of("()[s0, s1] : (s0 - 2 >= 0)"), bounded)


def test_dims_equal():
    h = AffineExpr.symbol(0)
    assert isl.dims_equal((h - 1) // 2 + 1, (h + 1) // 2, 1)
    assert not isl.dims_equal((h - 1) // 2 + 1, h // 2, 1)
    assert not isl.dims_equal(h, AffineConstantExpr(4), 1)
    assert isl.dims_equal(h, AffineConstantExpr(4), 1, set_of("()[s0] : (s0 - 4 == 0)"))
    even = set_of("()[s0] : (s0 mod 2 == 0)")
    assert isl.dims_equal((h + 1) // 2, h // 2, 1, even)


def test_disjoint_equal_and_covers():
    low = set_of("(d0, d1)[s0, s1] : (d0 >= 0, 3 - d0 >= 0)")
    high = set_of("(d0, d1)[s0, s1] : (d0 - 4 >= 0)")
    whole = set_of("(d0, d1)[s0, s1] : (d0 >= 0)")
    assert isl.sets_disjoint(low, high)
    assert not isl.sets_disjoint(low, whole)
    assert isl.covers(whole, (low, high))
    assert not isl.covers(whole, (high,))
    assert not isl.set_equal(low, whole)
    assert isl.set_equal(whole, set_of("(d0, d1)[s0, s1] : (d0 + 1 - 1 >= 0, d0 + 5 >= 0)"))


def test_simplify_set_drops_what_is_known():
    simple = isl.simplify_set(
        set_of("(d0)[s0] : (d0 >= 0, s0 - d0 - 1 >= 0, 2 * s0 - d0 - 1 >= 0)"),
        set_of("(d0)[s0] : (d0 >= 0)"),
    )
    assert len(simple.constraints) == 1
    empty = isl.simplify_set(set_of("(d0)[s0] : (d0 >= 0, -d0 - 1 >= 0)"))
    assert empty == isl.empty_set(1, 1)


def test_simplify_pieces_merges_and_parts():
    pieces = isl.simplify_pieces(
        (
            set_of("(d0)[s0] : (d0 >= 0, 3 - d0 >= 0)"),
            set_of("(d0)[s0] : (d0 - 4 >= 0, 9 - d0 >= 0)"),
            set_of("(d0)[s0] : (d0 - 2 >= 0, 6 - d0 >= 0)"),
        )
    )
    assert len(pieces) == 1
    assert isl.set_equal(pieces[0], set_of("(d0)[s0] : (d0 >= 0, 9 - d0 >= 0)"))


def test_sample_point_is_in_the_set():
    points = set_of("(d0, d1)[s0, s1] : (d0 - 7 >= 0, s0 - 1 - 2 * d0 >= 0, d1 - s1 == 0)")
    found = isl.sample_point(points)
    assert found is not None
    assert holds(points, *found)
    assert min(found[1]) >= 0
    assert isl.sample_point(set_of("(d0) : (d0 >= 0, -d0 - 1 >= 0)")) is None


# Maps -----------------------------------------------------------------------------------


def test_simplify_map_uses_the_domain():
    split = map_of("(d0, d1) -> ((4 * d0 + d1) floordiv 4, (4 * d0 + d1) mod 4)")
    domain = set_of("(d0, d1) : (d0 >= 0, d1 >= 0, 3 - d1 >= 0)")
    assert isl.simplify_map(split, domain) == map_of("(d0, d1) -> (d0, d1)")
    one = set_of("(d0, d1) : (d0 == 0, d1 >= 0)")
    assert isl.simplify_map(map_of("(d0, d1) -> (d0 + d1)"), one) == map_of("(d0, d1) -> (d1)")


def test_image_within():
    target = set_of("(d0)[s0, s1] : (d0 >= 0, s0 - d0 - 1 >= 0)")
    assert isl.image_within(map_of("(d0, d1)[s0, s1] -> (d0)"), BOX, target)
    assert not isl.image_within(map_of("(d0, d1)[s0, s1] -> (d1)"), BOX, target)
    assert isl.image_within(map_of("(d0, d1)[s0, s1] -> (s0 - 1 - d0)"), BOX, target)


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        ("d0 >= 0, d0 - 2 >= 0, s0 - d0 - 1 >= 0", "d0 - 2 >= 0, s0 - d0 - 1 >= 0"),
        ("d0 - 2 >= 0, d0 >= 0, d0 - 2 >= 0", "d0 - 2 >= 0"),
        ("d0 floordiv 2 - 1 >= 0, d0 - 1 >= 0", "d0 floordiv 2 - 1 >= 0, d0 - 1 >= 0"),
        ("d0 >= 0, -1 * d0 + 4 >= 0, d0 == 0", "d0 >= 0, -1 * d0 + 4 >= 0, d0 == 0"),
    ],
)
def test_tightest(rows: str, left: str):
    points = set_of(f"(d0)[s0] : ({rows})")
    kept = AffineSet(1, 1, isl.tightest(points.constraints))
    assert str(kept) == str(set_of(f"(d0)[s0] : ({left})"))
    assert isl.set_equal(kept, points)


def test_all_zero():
    d0, d1 = AffineExpr.dimension(0), AffineExpr.dimension(1)
    line = set_of("(d0, d1) : (d0 >= 0, d1 mod 4 == 0)")
    assert isl.all_zero([], line)
    assert isl.all_zero([d1 % 4, (d0 * 8 + 3) % 8 - 3], line)
    assert not isl.all_zero([d1 % 8], line)
    assert not isl.all_zero([d0 * 8 % 4, (d0 * 8 + 3) % 8], line)


@pytest.mark.parametrize(
    "empty", ["d0 >= 0, -d0 - 1 >= 0", "d0 - 1 >= 0, d0 == 0", "-1 * d0 - 1 >= 0, d0 >= 0"]
)
def test_all_zero_on_no_points(empty: str):
    d0 = AffineExpr.dimension(0)
    assert isl.all_zero([d0 - d0 + 1, d0 + 3], set_of(f"(d0) : ({empty})"))


def test_map_uses_dim_has_that_dim():
    with pytest.raises(IndexError):
        isl.map_uses_dim(map_of("(d0, d1)[s0, s1] -> (d0)"), 2, BOX)


def test_spaces_must_match():
    with pytest.raises(ValueError, match="not over the same"):
        isl.maps_equal(map_of("(d0) -> (d0)"), map_of("(d0) -> (d0)"), BOX)


def test_text_with_names():
    assert isl.set_text(BOX, ["m", "n"], ["M", "N"]) == (
        "[M, N] -> { [m, n] : 0 <= m < M and 0 <= n < N }"
    )
    stride = map_of("(d0, d1)[s0, s1] -> (2 * d0 + d1 - 1, d1 mod 3, s1)")
    assert isl.map_text(stride, ["h", "k"], ["H", "K"], target="X") == (
        "[H, K] -> { [h, k] -> X[2*h + k - 1, k - 3*floor((k)/3), K] }"
    )
    with pytest.raises(ValueError, match="names"):
        isl.set_text(BOX, ["m"], ["M", "N"])


# The context and its limit --------------------------------------------------------------


def test_the_limit_ends_in_an_error_and_the_next_question_works():
    def points(bound: int) -> AffineSet:
        return set_of(f"(d0, d1)[s0] : (d0 >= 0, s0 - 3 * d0 - {bound} >= 0, d1 - 2 * d0 >= 0)")

    with isl.limited(3):
        with pytest.raises(isl.IslLimitExceeded, match="more than 3 isl operations") as caught:
            isl.is_empty(points(11))
        assert caught.value.__context__ is None
    assert not isl.is_empty(points(11))
    assert not isl.is_empty(points(12))


def test_each_thread_has_its_own_context():
    answers: list[bool] = []

    def ask(bound: int) -> None:
        answers.append(isl.is_empty(set_of(f"(d0)[s0] : (d0 - {bound} >= 0, s0 - d0 >= 0)")))

    threads = [threading.Thread(target=ask, args=(b,)) for b in range(100, 108)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [False] * 8
