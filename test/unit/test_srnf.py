"""SRNF (S6.5): every row of the legality table on random values, and every pattern."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.printer import Printer

from polyc.dialects.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    ConstantOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    UnaryOp,
    YieldOp,
    kernel_of,
)
from polyc.dialects.region_types import AxisAttr, MemRefType, val_type
from polyc.passes import legality, region_facts
from polyc.passes.legality import CLASSES, TABLE, Row, register
from polyc.passes.region_srnf import RegionSrnf, normalise, refusals
from polyc.playback.region import run

Array = NDArray[Any]
M, K = AxisAttr.of("m", "M"), AxisAttr.of("k", "K")
DIMS = (AffineDimExpr(0), AffineDimExpr(1))

SPECIAL = [float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1.0, -1.0]
FINITE = st.floats(-8, 8, width=32)
ANY = st.one_of(st.sampled_from(SPECIAL), st.floats(-100, 100, width=32))


class Body:
    """The body of a kernel under construction; inputs ``x [M, K]`` and ``s [M]``."""

    def __init__(self, element: Any = f32) -> None:
        self.ins = [MemRefType.of(["M", "K"], element), MemRefType.of(["M"], element)]
        self.block = Block(arg_types=self.ins)
        x, s = self.block.args
        self.x = self.add(ReadOp(x, AffineMap(2, 2, DIMS), [M, K]))
        self.s = self.add(ReadOp(s, AffineMap(1, 2, DIMS[:1]), [M]))

    def add(self, op: Operation) -> SSAValue:
        self.block.add_op(op)
        return op.results[0]

    def repeat(self, value: SSAValue) -> SSAValue:
        """A scalar or a value over m, over [m, k]."""
        dims = list(range(len(val_type(value).axes)))
        return self.add(BroadcastInDimOp(value, dims, [M, K]))

    def finish(self, out: SSAValue, nonempty: bool = False) -> ModuleOp:
        self.block.add_op(YieldOp([out]))
        facts = (Assumption(Dim.sym("K") - 1, ">="),) if nonempty else ()
        kernel = KernelOp(
            "f",
            val_type(out).axes,
            self.ins,
            [MemRefType.of(val_type(out).shape, val_type(out).element_type)],
            ["x", "s"],
            ["y"],
            body=Region(self.block),
            symbols=["M", "K"],
            assumptions=AssumptionsAttr(facts),
        )
        module = ModuleOp([kernel])
        module.verify()
        return module


def play(module: ModuleOp, x: Array, s: Array) -> Array:
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    return run(kernel, [x, s], {"M": x.shape[0], "K": x.shape[1]})[0]


def text(module: ModuleOp) -> str:
    out = io.StringIO()
    Printer(out).print_op(module)
    return out.getvalue()


def program(row: Row, constant: float | None) -> ModuleOp:
    """``row.reduce(row.function(x))`` as the row's needs ask for it."""
    body = Body(f16 if row.function == "cast" else f32)
    x = body.x
    if legality.NONNEGATIVE in row.needs:
        x = body.add(UnaryOp("abs", x))
    if row.function == "cast":
        value = body.add(CastOp(x, f32))
    elif row.varying == "only":
        value = body.add(UnaryOp(row.function, x))
    else:
        if constant is not None:
            other = body.add(ConstantOp(constant, f32))
        elif legality.NONNEGATIVE_OTHER in row.needs:
            other = body.add(UnaryOp("abs", body.s))
        else:
            other = body.s
        pair = [x, body.repeat(other)]
        value = body.add(BinaryOp(row.function, *(pair if row.varying == "lhs" else pair[::-1])))
    out = body.add(ReduceOp(row.reduce, value, ["k"], acc=f32))
    return body.finish(out, nonempty=legality.NONEMPTY in row.needs)


CONSTANTS = {
    legality.FINITE: st.floats(-50, 50, width=32),
    legality.POSITIVE: st.floats(2**-20, 50, width=32),
    legality.NEGATIVE: st.floats(-50, -(2**-20), width=32),
    legality.NUMBER: st.one_of(st.sampled_from(SPECIAL[:2]), st.floats(-50, 50, width=32)),
}


Case = tuple[float | None, Array, Array]
"""The constant of the program, if it has one, and its inputs."""


@st.composite
def cases(draw: st.DrawFn, row: Row) -> Case:
    constant = next((draw(CONSTANTS[n]) for n in row.needs if n in CONSTANTS), None)
    least = 1 if legality.NONEMPTY in row.needs else 0
    m, k = draw(st.integers(1, 3)), draw(st.integers(least, 5))
    values = FINITE if row.change == "finite-only" else ANY
    x = draw(st.lists(values, min_size=m * k, max_size=m * k))
    s = draw(st.lists(values, min_size=m, max_size=m))
    dtype = np.float16 if row.function == "cast" else np.float32
    return constant, np.array(x, dtype).reshape(m, k), np.array(s, dtype)


def agree(row: Row, before: Array, after: Array) -> None:
    """The claim of the row's class."""
    if row.change == "exact":
        assert np.array_equal(before, after, equal_nan=True), (before, after)
    elif row.change == "reassociating":
        assert np.allclose(before, after, rtol=1e-5, atol=1e-4, equal_nan=True), (before, after)
    else:
        finite = np.isfinite(before) & np.isfinite(after)
        assert np.allclose(before[finite], after[finite], rtol=1e-4, atol=1e-3), (before, after)


def check(row: Row, case: Case) -> None:
    constant, x, s = case
    module = program(row, constant)
    before = play(module, x, s)
    done = normalise(module, [row.change], [row])
    module.verify()
    assert [n.kind for n in done.fired] == [row.change]
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    assert [r.fn.data for r in kernel.body.block.ops if isinstance(r, ReduceOp)] == [row.becomes]
    agree(row, before, play(module, x, s))


def named(row: Row) -> str:
    varying = "" if row.varying == "only" else f"-{row.varying}"
    return f"{row.function}{varying}-{row.reduce}-{row.change}-{len(row.needs)}"


@pytest.mark.parametrize("row", TABLE, ids=named)
def test_row_holds_its_class_on_random_values(row: Row) -> None:
    @settings(max_examples=40, deadline=None, derandomize=True, database=None)
    @given(cases(row))
    def holds(case: Case) -> None:
        check(row, case)

    holds()


WRONG = [
    Row("exp", "only", "sum", "sum", "reassociating"),
    Row("abs", "only", "max", "max", "exact"),
    # Without its needs: an empty max of exp is 0, a root of a negative number is NaN.
    Row("exp", "only", "max", "max", "reassociating"),
    Row("sqrt", "only", "max", "max", "exact", (legality.NONEMPTY,)),
    Row("mul", "lhs", "max", "max", "exact", (legality.NEGATIVE,)),
    Row("mul", "lhs", "max", "max", "exact", (legality.FINITE,)),
    Row("mul", "lhs", "max", "max", "finite-only", (legality.NONEMPTY,)),
    Row("mul", "lhs", "sum", "sum", "reassociating"),
    Row("add", "lhs", "max", "max", "exact"),
    Row("add", "lhs", "sum", "sum", "finite-only"),
    Row("max", "lhs", "max", "max", "exact", (legality.NUMBER,)),
    Row("neg", "only", "max", "max", "exact"),
]


@pytest.mark.parametrize("row", WRONG, ids=named)
def test_random_values_find_a_wrong_row(row: Row) -> None:
    @settings(
        max_examples=300, deadline=None, derandomize=True, database=None, phases=[Phase.generate]
    )
    @given(cases(row))
    def holds(case: Case) -> None:
        check(row, case)

    with pytest.raises((AssertionError, BaseExceptionGroup)):
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


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
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
    before = play(module, array, s)
    done = normalise(module)
    assert [n.kind for n in done.fired] == [legality.JOIN[fn]]
    after = play(module, array, s)
    if fn == "sum":
        assert np.allclose(before, after, rtol=1e-5, atol=1e-3, equal_nan=True)
    else:
        assert np.array_equal(before, after, equal_nan=True)


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(s=st.lists(ANY, min_size=3, max_size=3), fn=st.sampled_from(["exp", "neg", "reciprocal"]))
def test_move_invariant_out_is_exact(s: list[float], fn: str) -> None:
    body = Body()
    once = body.add(UnaryOp(fn, body.repeat(body.s)))
    both = body.add(BinaryOp("add", once, body.repeat(body.add(ConstantOp(1.0, f32)))))
    module = body.finish(body.add(BinaryOp("mul", body.x, both)))
    x, scale = np.arange(12, dtype=np.float32).reshape(3, 4), np.array(s, np.float32)
    before = play(module, x, scale)
    done = normalise(module)
    module.verify()
    assert len(done.fired) == 2
    functions = [op for op in module.walk() if isinstance(op, UnaryOp)]
    assert [op.result.type.labels for op in functions] == [("m",)]
    assert np.array_equal(before, play(module, x, scale), equal_nan=True)


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
