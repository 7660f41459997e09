"""A program for each row of the legality table, and the check of what the row claims."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    CastOp,
    ConstantOp,
    KernelOp,
    KernelTensor,
    ReadOp,
    ReduceOp,
    UnaryOp,
    YieldOp,
)
from polyc.dialects.region.types import AxisAttr, MemRefType, val_type
from polyc.passes.region.srnf import normalise
from polyc.passes.support.region import legality
from polyc.passes.support.region.legality import Row
from polyc.test.support.region_expressions import agree, play

Array = NDArray[Any]
M, K = AxisAttr.of("m", "M"), AxisAttr.of("k", "K")
DIMS = (AffineDimExpr(0), AffineDimExpr(1))

SPECIAL = [float("inf"), float("-inf"), float("nan"), 0.0, -0.0, 1.0, -1.0]
FINITE = st.floats(-8, 8, width=32)
NEAR = st.integers(0, 7).map(lambda i: 3.0 + i * 2.0**-22)
"""Numbers so near to each other that a function may take them out of order."""
ANY = st.one_of(st.sampled_from(SPECIAL), st.floats(-100, 100, width=32), NEAR)


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
            [KernelTensor(name, kind) for name, kind in zip("xs", self.ins, strict=True)],
            [KernelTensor("y", MemRefType.of(val_type(out).shape, val_type(out).element_type))],
            body=Region(self.block),
            symbols=["M", "K"],
            assumptions=AssumptionsAttr(facts),
        )
        module = ModuleOp([kernel])
        module.verify()
        return module


def run_body(module: ModuleOp, x: Array, s: Array) -> Array:
    """The output of a ``Body``'s kernel."""
    return play(module, [x, s], {"M": x.shape[0], "K": x.shape[1]})[0]


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
            other = body.add(UnaryOp("sqrt", body.s))  # which -0 stays -0 under
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
    # Some matrices hold nothing but near numbers: among others one of those is seldom the largest.
    near = values is ANY and draw(st.booleans())
    x = draw(st.lists(NEAR if near else values, min_size=m * k, max_size=m * k))
    if legality.NONNEGATIVE_OTHER in row.needs:
        values = st.one_of(st.sampled_from([0.0, -0.0]), st.floats(0, 8, width=32))
    elif values is ANY:
        values = st.one_of(st.sampled_from(SPECIAL[:3]), ANY)
    s = draw(st.lists(values, min_size=m, max_size=m))
    dtype = np.float16 if row.function == "cast" else np.float32
    return constant, np.array(x, dtype).reshape(m, k), np.array(s, dtype)


def check(row: Row, case: Case) -> None:
    """Hold a row to its class: it fires, its reduction is left, the values are the same."""
    constant, x, s = case
    module = program(row, constant)
    before = run_body(module, x, s)
    done = normalise(module, [row.change], [row])
    module.verify()
    assert [n.kind for n in done.fired] == [row.change]
    kernel = module.body.block.first_op
    assert isinstance(kernel, KernelOp)
    assert [r.fn.data for r in kernel.body.block.ops if isinstance(r, ReduceOp)] == [row.becomes]
    after = run_body(module, x, s)
    zero_by_zero = (row.function, row.reduce) == ("div", "sum") and not s.all()
    if row.change == "finite-only" and not x.size and not zero_by_zero:
        # What a reduction over nothing gives is no accident of its values.
        assert np.array_equal(before, after, equal_nan=True), (before, after)
    agree(row.change, [before], [after])
    if row.reduce == "sum" and row.change == "exact":
        assert np.array_equal(np.signbit(before), np.signbit(after)), (before, after)


def named(row: Row) -> str:
    varying = "" if row.varying == "only" else f"-{row.varying}"
    return f"{row.function}{varying}-{row.reduce}-{row.change}-{len(row.needs)}"
