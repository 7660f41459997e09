"""Dependences against every pair of instances of small statements (S7.1)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSet, AffineSymExpr

from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import box
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.poly.blocks import blocks_of
from polyc.poly.dependences import (
    Access,
    Statement,
    dependences,
    parallel_axes,
    reduction_axes,
    statements_of,
)
from polyc.test.support.book_needs import booked_text
from polyc.test.support.book_points import holds
from polyc.test.support.turns import examples
from polyc.test.unit.poly.test_compute_at import SOFTMAX
from polyc.tools.parsing import parse_text

N = 4
ANY = AffineSet(0, 1, ())
Point = tuple[int, ...]


def instances(domain: AffineSet) -> Iterator[Point]:
    for at in itertools.product(range(-2, N + 3), repeat=domain.num_dims):
        if holds(domain, at, [N]):
            yield at


def touched(access: Access, at: Point) -> Point | None:
    if not holds(access.domain, at, [N]):
        return None
    return tuple(access.map.eval(at, [N]))


def brute(
    statements: list[Statement],
) -> set[tuple[str, int, int, str, Point, Point]]:
    """(kind, source, sink, tensor, p, q) for every pair of instances in order."""
    found: set[tuple[str, int, int, str, Point, Point]] = set()
    for (i, s), (j, t) in itertools.product(enumerate(statements), repeat=2):
        if i > j:
            continue
        for p, q in itertools.product(instances(s.domain), instances(t.domain)):
            if i == j and not p < q:
                continue
            for kind, firsts, seconds in (
                ("true", s.writes, t.reads),
                ("anti", s.reads, t.writes),
                ("output", s.writes, t.writes),
            ):
                for a, b in itertools.product(firsts, seconds):
                    element = touched(a, p) if a.tensor == b.tensor else None
                    if element is not None and element == touched(b, q):
                        found.add((kind, i, j, a.tensor, p, q))
    return found


def isl_pairs(statements: list[Statement]) -> set[tuple[str, int, int, str, Point, Point]]:
    names = {s.name: i for i, s in enumerate(statements)}
    found: set[tuple[str, int, int, str, Point, Point]] = set()
    for d in dependences(statements, ANY):
        i, j = names[d.source], names[d.sink]
        for p, q in itertools.product(
            instances(statements[i].domain), instances(statements[j].domain)
        ):
            for number, piece in enumerate(d.relation):
                if holds(piece, (*p, *q), [N]):
                    found.add((d.kind, i, j, d.tensor, p, q))
                    if i == j:
                        axis = d.carried[number]
                        assert p[:axis] == q[:axis] and p[axis] < q[axis]
    return found


@st.composite
def accesses(draw: st.DrawFn, domain: AffineSet, ranks: dict[str, int]) -> Access:
    dims = domain.num_dims
    tensor = draw(st.sampled_from(sorted(ranks)))
    terms: list[AffineExpr] = [AffineDimExpr(i) for i in range(dims)]

    def coordinate() -> AffineExpr:
        a, b = draw(st.sampled_from(terms)), draw(st.sampled_from(terms))
        shift = draw(st.integers(-1, 1))
        choices: list[AffineExpr] = [a + shift, a + b, a * 2 + shift, AffineSymExpr(0) - a, a // 2]
        return draw(st.sampled_from(choices))

    results = tuple(coordinate() for _ in range(ranks[tensor]))
    where = domain
    if draw(st.booleans()):
        row = constraint_of(linear_of(draw(st.sampled_from(terms)) - 1), False)
        where = AffineSet(dims, 1, (*domain.constraints, row))
    return Access(tensor, AffineMap(dims, 1, results), where)


@st.composite
def programs(draw: st.DrawFn) -> list[Statement]:
    ranks = {"a": 1, "b": 2}
    found: list[Statement] = []
    for number in range(draw(st.integers(1, 2))):
        dims = draw(st.integers(1, 2))
        sizes = [draw(st.sampled_from([Dim.sym("N"), Dim.const(3)])) for _ in range(dims)]
        domain = box(sizes, ["N"])
        reads = draw(st.lists(accesses(domain, ranks), min_size=0, max_size=2))
        writes = draw(st.lists(accesses(domain, ranks), min_size=1, max_size=1))
        names = tuple(f"i{i}" for i in range(dims))
        found.append(Statement(f"s{number}", names, domain, tuple(reads), tuple(writes)))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(programs())
def test_random_statements(statements: list[Statement]) -> None:
    assert isl_pairs(statements) == brute(statements)


@settings(max_examples=examples(40), deadline=None)
@given(programs())
def test_parallel_axes_of_random_statements(statements: list[Statement]) -> None:
    """An axis that is not parallel for these sizes is not called parallel."""
    found = dependences(statements, ANY)
    pairs = brute(statements)
    for i, statement in enumerate(statements):
        for axis in parallel_axes(statement, found):
            assert all(p[axis] == q[axis] for _, a, b, _, p, q in pairs if a == b == i)


def matmul(accumulates: bool) -> Statement:
    domain = box([Dim.sym("N")] * 3, ["N"])
    m, n, k = (AffineDimExpr(i) for i in range(3))

    def at(tensor: str, *results: AffineExpr) -> Access:
        return Access(tensor, AffineMap(3, 1, results), domain)

    c = at("C", m, n)
    reads = (at("A", m, k), at("B", k, n), c)
    return Statement("s", ("m", "n", "k"), domain, reads, (c,), "C" if accumulates else None)


def test_the_accumulator_orders_the_reduced_axis():
    statement = matmul(True)
    found = dependences([statement], ANY)
    assert [(d.kind, d.tensor, d.carried, d.reduction) for d in found] == [
        ("true", "C", (2,), True),
        ("anti", "C", (2,), True),
        ("output", "C", (2,), True),
    ]
    assert parallel_axes(statement, found) == (0, 1)
    assert reduction_axes(statement, found) == (2,)


def test_without_an_associative_op_the_axis_is_serial():
    statement = matmul(False)
    found = dependences([statement], ANY)
    assert parallel_axes(statement, found) == (0, 1)
    assert reduction_axes(statement, found) == ()


def test_a_reduction_that_also_scans_is_serial():
    """What is not the accumulator's own order stays."""
    statement = matmul(True)
    m, n, k = (AffineDimExpr(i) for i in range(3))
    domain = statement.domain
    later = AffineSet(3, 1, (*domain.constraints, constraint_of(linear_of(k - 1), False)))
    scanned = Statement(
        "s",
        statement.dims,
        domain,
        (*statement.reads, Access("t", AffineMap(3, 1, (m, n, k - 1)), later)),
        (*statement.writes, Access("t", AffineMap(3, 1, (m, n, k)), domain)),
        "C",
    )
    found = dependences([scanned], ANY)
    assert parallel_axes(scanned, found) == (0, 1)
    assert reduction_axes(scanned, found) == ()


def test_a_scan_is_serial():
    i = AffineDimExpr(0)
    domain = box([Dim.sym("N")], ["N"])
    later = AffineSet(1, 1, (*domain.constraints, constraint_of(linear_of(i - 1), False)))
    scan = Statement(
        "scan",
        ("i",),
        domain,
        (Access("a", AffineMap(1, 1, (i - 1,)), later),),
        (Access("a", AffineMap(1, 1, (i,)), domain),),
    )
    found = dependences([scan], ANY)
    assert [d.kind for d in found] == ["true"]
    assert parallel_axes(scan, found) == ()
    one_point = constraint_of(linear_of(AffineSymExpr(0) * -1 + 1), False)
    assert dependences([scan], AffineSet(0, 1, (one_point,))) == []


Expected = list[tuple[Literal["true", "anti", "output"], str, str]]


def test_a_graph():
    blocks = blocks_of(booked_text(SOFTMAX))
    statements = statements_of(blocks)
    assert [s.name for s in statements] == ["s", "m", "d", "e"]
    found = dependences(statements, AffineSet(0, 2, ()))
    between: Expected = [(d.kind, d.source, d.sink) for d in found if d.source != d.sink]
    assert between == [
        ("true", "s", "m"),
        ("true", "s", "d"),
        ("true", "m", "d"),
        ("true", "d", "e"),
    ]
    inside = [(d.kind, d.source) for d in found if d.source == d.sink]
    assert inside == [("true", "m"), ("anti", "m"), ("output", "m")]
    axes = {s.name: (parallel_axes(s, found), reduction_axes(s, found)) for s in statements}
    assert axes == {"s": ((0, 1), ()), "m": ((0,), (1,)), "d": ((0, 1), ()), "e": ((0, 1), ())}


@pytest.mark.parametrize(
    ("name", "block", "parallel", "reduced"),
    [
        ("gemm_bias_relu", 0, "mn", "k"),
        ("conv_silu", 0, "nhwf", ["r0", "r1", "c"]),
        ("layer_norm", 0, "m", "n"),
    ],
)
def test_examples(
    ctx: Context, root: Path, name: str, block: int, parallel: str, reduced: str | list[str]
):
    module = parse_text(ctx, (root / "examples" / f"{name}.mlir").read_text(), name)
    FrontendToTiny().apply(ctx, module)
    TinyToIndex().apply(ctx, module)
    (graph,) = module.body.block.ops
    statements = statements_of(blocks_of(graph))
    found = dependences(statements, AffineSet(0, statements[0].domain.num_symbols, ()))
    chosen = statements[block]
    assert [chosen.dims[a] for a in parallel_axes(chosen, found)] == list(parallel)
    assert [chosen.dims[a] for a in reduction_axes(chosen, found)] == list(reduced)


GATHERED = """
tiny.graph @g(%x: !tiny.tensor<[V, D], f32>, %i: !tiny.tensor<[N, D], i64>)
    -> (y: !tiny.tensor<[N, D], f32>) {
  %e = tiny.unary exp %x : !tiny.tensor<[V, D], f32>
  %g = tiny.gather %e at [%i] axes [0] clamp
      : (!tiny.tensor<[V, D], f32>, !tiny.tensor<[N, D], i64>) -> !tiny.tensor<[N, D], f32>
  %y = tiny.unary neg %g : !tiny.tensor<[N, D], f32>
  tiny.output %y : !tiny.tensor<[N, D], f32>
}
"""


def test_a_gather_reads_any_place_and_reduces_nothing() -> None:
    blocks = blocks_of(booked_text(GATHERED))
    assert [b.kind for b in blocks.blocks] == ["elementwise", "gather", "elementwise"]
    statements = statements_of(blocks)
    gather = statements[1]
    assert gather.dims == ("n", "d", "v") and gather.at_data == (2,)
    assert gather.accumulates is None
    found = dependences(statements, ANY)
    assert [(d.kind, d.source, d.sink) for d in found] == [("true", "e", "g"), ("true", "g", "y")]
    assert parallel_axes(gather, found) == (0, 1)
    assert reduction_axes(gather, found) == ()
    # Every element of a column may be the one that is read.
    (piece,) = found[0].relation
    assert all(holds(piece, (v, 0, 2, 0, v), [3, 1, 4]) for v in range(3))
    assert not holds(piece, (1, 0, 2, 0, 2), [3, 1, 4])
