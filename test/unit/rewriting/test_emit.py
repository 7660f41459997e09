"""The short spellings of scalar code: what is emitted, and what is already there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest
from xdsl.dialects import affine, arith, scf
from xdsl.dialects import test as xdsl_test
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.rewriting.emit import INDEX, Emit
from polyc.tile.indices import read_dim

d0, d1, s0 = AffineExpr.dimension(0), AffineExpr.dimension(1), AffineExpr.symbol(0)


@pytest.fixture
def values() -> tuple[SSAValue, ...]:
    return tuple(xdsl_test.TestOp(result_types=[INDEX] * 3).results)


def names(emit: Emit) -> list[str]:
    return [op.name for op in emit.ops]


def test_apply_of_what_is_one_operand(values: tuple[SSAValue, ...]) -> None:
    emit, (x, y, n) = Emit(), values
    assert emit.apply(d1, [x, y]) is y
    assert emit.apply((d0 * 8 + d1 - d1) // 8, [x, y]) is x
    assert emit.apply(s0 + d0 - d0, [x], [n]) is n
    assert not emit.ops


def test_apply_of_a_constant(values: tuple[SSAValue, ...]) -> None:
    emit = Emit()
    emit.apply((d0 * 8 + 3) % 8, [values[0]])
    (constant,) = emit.ops
    assert isinstance(constant, arith.ConstantOp) and "3" in str(constant.value)


def test_apply_takes_the_operands_that_it_names(values: tuple[SSAValue, ...]) -> None:
    emit, (x, y, n) = Emit(), values
    emit.apply(d1 // 4 + s0, [x, y], [x, n][:1])
    (op,) = emit.ops
    assert isinstance(op, affine.ApplyOp)
    assert list(op.mapOperands) == [y, x]
    assert str(op.map.data) == "(d0)[s0] -> (((d0 floordiv 4) + s0))"


def number(value: SSAValue, given: Mapping[SSAValue, int]) -> int:
    """What the scalar code that makes ``value`` computes."""
    if value in given:
        return given[value]
    op = value.owner
    assert isinstance(op, Operation)
    operands = [number(o, given) for o in op.operands]
    match op:
        case arith.ConstantOp():
            return cast("IntegerAttr[IndexType]", op.value).value.data
        case arith.MuliOp():
            return operands[0] * operands[1]
        case arith.AddiOp():
            return operands[0] + operands[1]
        case affine.ApplyOp():
            made = op.map.data
            return made.eval(operands[: made.num_dims], operands[made.num_dims :])[0]
        case _:
            raise AssertionError(op.name)


@pytest.mark.parametrize(
    "text",
    [
        "M * N",
        "(M * N + 5) floordiv 4",
        "(M * N) mod 3 * K",
        "((M + 1) floordiv 2) * ((N - 9) floordiv 2) * K - 2 * M",
        "(((M + 1) floordiv 2) * N + 7) floordiv 8",
        "(((M * N) floordiv 3) * K - 40) mod 7 + M",
    ],
)
def test_a_size_that_is_not_affine(values: tuple[SSAValue, ...], text: str) -> None:
    """Products of symbols stand below divisions, and divisions below products."""
    dim, symbols = read_dim(text), ("M", "N", "K")
    for sizes in ((1, 1, 1), (5, 3, 7), (64, 10, 2)):
        given = dict(zip(values, sizes, strict=True))
        wanted = dim.evaluate(dict(zip(symbols, sizes, strict=True)))
        assert number(Emit().dim(dim, symbols, values), given) == wanted


def test_a_constant_is_made_once_for_what_stands_below_it() -> None:
    emit = Emit()
    zero = emit.index(0)
    assert emit.index(0) is zero
    emit.loop(
        8,
        lambda body, _: body.ops.append(xdsl_test.TestOp(operands=[body.index(8), body.index(2)])),
    )
    assert names(emit) == ["arith.constant"] * 3 + ["scf.for"]  # 0, 8 and 1
    (loop,) = (op for op in emit.ops if isinstance(op, scf.ForOp))
    assert loop.lb is zero
    assert [op.name for op in loop.body.block.ops] == ["arith.constant", "test.op", "scf.yield"]


def test_a_constant_in_a_loop_is_not_one_after_it() -> None:
    emit = Emit()
    emit.loop(8, lambda body, _: body.ops.append(xdsl_test.TestOp(operands=[body.index(5)])))
    before = len(emit.ops)
    emit.index(5)
    assert len(emit.ops) == before + 1
