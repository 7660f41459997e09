"""SRNF (S6.5): every row of the legality table on random values, and every pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f16, f32

from polyc.dialects.region import BinaryOp, ConstantOp, ReduceOp, UnaryOp, kernel_of
from polyc.dialects.tiny import UNARY_FUNCTIONS
from polyc.passes.region.srnf import RegionSrnf, normalise, refusals
from polyc.passes.support.region import facts as region_facts
from polyc.passes.support.region import legality
from polyc.passes.support.region.legality import TABLE, Row, register
from polyc.playback import functions
from polyc.rewriting.changes import CLASSES
from polyc.test.support.legality_programs import (
    ANY,
    Body,
    Case,
    cases,
    check,
    named,
    program,
    run_body,
)
from polyc.test.support.region_expressions import shaken, text
from polyc.test.support.turns import examples


@pytest.mark.turns(3)
@pytest.mark.parametrize("row", TABLE, ids=named)
def test_row_holds_its_class_on_random_values(row: Row) -> None:
    @settings(max_examples=examples(12), deadline=None, derandomize=True, database=None)
    @given(cases(row))
    def holds(case: Case) -> None:
        check(row, case)

    with shaken():
        holds()


# The preconditions, one by one ----------------------------------------------------------


def reduced(module: ModuleOp) -> ReduceOp:
    return next(op for op in module.walk() if isinstance(op, ReduceOp))


def fires(module: ModuleOp, classes: Sequence[str] = CLASSES) -> bool:
    return bool(normalise(module, classes).fired)


@pytest.mark.parametrize("row", [r for r in TABLE if r.needs], ids=named)
def test_row_refuses_without_its_needs(row: Row) -> None:
    # A row that asks for the same and whose program is built without what it needs.
    bare = program(replace(row, needs=()), None)
    assert not normalise(bare, [row.change], [row]).fired
    notes = refusals(bare, [row.change], [row])
    assert [n.kind for n in notes] == ["NonAssociativeTransform"]
    assert "needs" in notes[0].text


def test_class_that_is_not_allowed_refuses() -> None:
    module = program(Row("neg", "only", "sum", "sum", "reassociating"), None)
    assert not fires(module, ["exact"])
    assert "is reassociating, and only exact may fire" in refusals(module, ["exact"])[0].text
    assert fires(module, ["exact", "reassociating"])


def test_finite_only_is_off_by_default() -> None:
    assert not fires(
        program(Row("mul", "lhs", "sum", "sum", "finite-only"), None), RegionSrnf().classes
    )


def test_accumulator_of_another_type_refuses() -> None:
    body = Body(f16)
    value = body.add(UnaryOp("neg", body.x))
    module = body.finish(body.add(ReduceOp("max", value, ["k"], acc=f32)))
    assert not fires(module)
    assert "accumulator" in refusals(module, CLASSES)[0].text


@pytest.mark.parametrize("fn", ["exp", "abs", "sqrt", "sigmoid"])
def test_nonnegative_by_function(fn: str) -> None:
    body = Body()
    assert not region_facts.nonnegative(body.x)
    assert region_facts.nonnegative(body.add(UnaryOp(fn, body.x)))


def test_what_is_never_negative_is_so_at_every_number() -> None:
    """Each function of the language, of any numbers and of those above 0."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, 1, 200), rng.uniform(-90, 90, 200), [0.0, -0.0, np.inf]])
    x = x.astype(np.float32)
    for fn in UNARY_FUNCTIONS:
        body = Body()
        if region_facts.nonnegative(body.add(UnaryOp(fn, body.x))):
            assert not (functions.unary(fn, x) < 0).any(), fn
        size = body.add(UnaryOp("abs", body.x))
        if region_facts.nonnegative(body.add(UnaryOp(fn, size))):
            assert not (functions.unary(fn, np.abs(x)) < 0).any(), fn
    body = Body()
    assert not region_facts.nonnegative(body.add(UnaryOp("sin", body.add(UnaryOp("abs", body.x)))))


def test_nonnegative_by_operands() -> None:
    body = Body()
    x = body.x
    square = body.add(BinaryOp("mul", x, x))
    two = body.repeat(body.add(ConstantOp(2.0, f32)))
    minus = body.repeat(body.add(ConstantOp(-2.0, f32)))
    assert region_facts.nonnegative(square)
    assert region_facts.nonnegative(body.add(BinaryOp("max", x, two)))
    assert not region_facts.nonnegative(body.add(BinaryOp("max", x, minus)))
    assert not region_facts.nonnegative(body.add(BinaryOp("min", x, two)))
    assert region_facts.nonnegative(body.add(BinaryOp("add", square, two)))
    assert not region_facts.nonnegative(body.add(BinaryOp("sub", square, two)))
    assert not region_facts.nonnegative(body.add(UnaryOp("reciprocal", square)))
    # An empty max of what is not negative is -inf.
    assert not region_facts.nonnegative(body.add(ReduceOp("max", square, ["k"])))
    assert region_facts.nonnegative(body.add(ReduceOp("sum", square, ["k"])))


def test_never_empty_is_proved_from_assumptions() -> None:
    for nonempty in (False, True):
        body = Body()
        module = body.finish(body.add(ReduceOp("max", body.x, ["k"])), nonempty)
        reduce = reduced(module)
        assert region_facts.never_empty(reduce, kernel_of(reduce)) is nonempty


# The other patterns ---------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)
@given(
    fn=st.sampled_from(["sum", "max", "min"]),
    x=st.lists(ANY, min_size=12, max_size=12),
    empty=st.booleans(),
)
def test_join_holds_its_class_on_random_values(fn: str, x: list[float], empty: bool) -> None:
    body = Body()
    inner = body.add(ReduceOp(fn, body.x, ["k"]))
    module = body.finish(body.add(ReduceOp(fn, inner, ["m"])))
    array = np.array(x, np.float32).reshape(3, 4)[:, : 0 if empty else 4]
    s = np.zeros(3, np.float32)
    before = run_body(module, array, s)
    done = normalise(module)
    assert [n.kind for n in done.fired] == [legality.JOIN[fn]]
    after = run_body(module, array, s)
    if fn == "sum":
        assert np.allclose(before, after, rtol=1e-5, atol=1e-3, equal_nan=True)
    else:
        assert np.array_equal(before, after, equal_nan=True)


def test_products_join_and_no_function_moves_out_of_one() -> None:
    body = Body()
    inner = body.add(ReduceOp("prod", body.x, ["k"]))
    module = body.finish(body.add(ReduceOp("prod", inner, ["m"])))
    x = np.random.default_rng(1).uniform(-1.5, 1.5, (3, 4)).astype(np.float32)
    before = run_body(module, x, np.zeros(3, np.float32))
    assert [n.kind for n in normalise(module).fired] == ["reassociating"]
    assert np.allclose(before, run_body(module, x, np.zeros(3, np.float32)), rtol=1e-5)
    for fn in ("neg", "exp", "floor"):
        moving = program(Row(fn, "only", "prod", "prod", "reassociating"), None)
        assert not fires(moving)
        assert "has no row" in refusals(moving, CLASSES)[0].text


@settings(max_examples=examples(40), deadline=None, derandomize=True, database=None)
@given(s=st.lists(ANY, min_size=3, max_size=3), fn=st.sampled_from(["exp", "neg", "reciprocal"]))
def test_move_invariant_out_is_exact(s: list[float], fn: str) -> None:
    body = Body()
    once = body.add(UnaryOp(fn, body.repeat(body.s)))
    both = body.add(BinaryOp("add", once, body.repeat(body.add(ConstantOp(1.0, f32)))))
    module = body.finish(body.add(BinaryOp("mul", body.x, both)))
    x, scale = np.arange(12, dtype=np.float32).reshape(3, 4), np.array(s, np.float32)
    before = run_body(module, x, scale)
    done = normalise(module)
    module.verify()
    assert len(done.fired) == 2
    functions = [op for op in module.walk() if isinstance(op, UnaryOp)]
    assert [op.result.type.labels for op in functions] == [("m",)]
    assert np.array_equal(before, run_body(module, x, scale), equal_nan=True)


def test_move_invariant_out_refuses_a_varying_operand() -> None:
    body = Body()
    module = body.finish(body.add(BinaryOp("mul", body.x, body.repeat(body.s))))
    before = text(module)
    assert not normalise(module).fired
    assert text(module) == before


def test_normal_form_is_idempotent() -> None:
    body = Body()
    value = body.add(UnaryOp("neg", body.x))
    value = body.add(BinaryOp("mul", value, body.repeat(body.add(ConstantOp(3.0, f32)))))
    value = body.add(BinaryOp("add", value, body.repeat(body.add(UnaryOp("exp", body.s)))))
    inner = body.add(ReduceOp("max", value, ["k"]))
    module = body.finish(body.add(ReduceOp("max", inner, ["m"])))
    assert normalise(module, CLASSES).fired
    once = text(module)
    again = normalise(module, CLASSES)
    assert not again.fired
    assert text(module) == once


# Rows from outside ----------------------------------------------------------------------


def is_exponential(c: legality.Candidate) -> bool:
    owner = c.varying.owner
    return isinstance(owner, UnaryOp) and owner.fn.data == "exp"


def test_third_party_row_fires_after_registration() -> None:
    body = Body()
    value = body.add(UnaryOp("reciprocal", body.add(UnaryOp("exp", body.x))))
    module = body.finish(body.add(ReduceOp("max", value, ["k"])), nonempty=True)
    assert not fires(module.clone())
    # Of an exponential, since 1 / -0 is -inf and would be out of order.
    need = legality.Need("an exponential", is_exponential)
    row = Row("reciprocal", "only", "max", "min", "exact", (need, legality.NONEMPTY))
    register(row, row)
    try:
        assert TABLE.count(row) == 1
        assert fires(module)
    finally:
        TABLE.remove(row)
