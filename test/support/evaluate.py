"""Runs the scalar code of a kernel on NumPy, all threads of a CTA at once.

It knows ``arith``, ``affine.apply``, ``scf``, registers and the ops that say who a thread is.
Every other op becomes an ``Event``: which threads ran it, with which operands.  What such an
op results in, the test says by a handler.  ``index`` is checked to stay in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import affine, arith, memref, scf
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import (
    BFloat16Type,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    VectorType,
    i1,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import ReturnOp
from polyc.dialects.gpu.types import SharedType

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Event:
    """One op with an effect, as the threads in ``active`` ran it."""

    op: Operation
    operands: tuple[Array, ...]
    """An array over threads for each operand; a vector has a row an element, and a token
    that stands for no number is zeros."""
    active: NDArray[np.bool_]

    def __getitem__(self, operand: SSAValue) -> Array:
        """The values of ``operand`` in the active threads."""
        return self.operands[list(self.op.operands).index(operand)][..., self.active]


Handler = Callable[[Event], Sequence[Array]]

PREDICATES: Mapping[str, Callable[[Array, Array], Array]] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "slt": np.less,
    "sle": np.less_equal,
    "sgt": np.greater,
    "sge": np.greater_equal,
    "ult": lambda a, b: np.less(a.astype(np.int64).view(np.uint64), np.asarray(b, np.uint64)),
}

BINARY: Mapping[type[Operation], Callable[[Array, Array], Array]] = {
    arith.AddiOp: np.add,
    arith.SubiOp: np.subtract,
    arith.MuliOp: np.multiply,
    arith.DivUIOp: np.floor_divide,
    arith.RemUIOp: np.remainder,
    arith.MinUIOp: np.minimum,
    arith.XOrIOp: np.bitwise_xor,
    arith.AndIOp: np.bitwise_and,
    arith.AddfOp: np.add,
    arith.MulfOp: np.multiply,
    arith.MaximumfOp: np.maximum,
}


def affine_value(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[Array] = ()) -> Array:
    """``expr`` at these values, elementwise."""
    match expr:
        case AffineConstantExpr(value):
            return np.asarray(value)
        case AffineDimExpr(position):
            return dims[position]
        case AffineSymExpr(position):
            return symbols[position]
        case AffineBinaryOpExpr(kind, left, right):
            a, b = affine_value(left, dims, symbols), affine_value(right, dims, symbols)
            match kind:
                case AffineBinaryOpKind.Add:
                    return a + b
                case AffineBinaryOpKind.Mul:
                    return a * b
                case AffineBinaryOpKind.Mod:
                    return a % b
                case AffineBinaryOpKind.FloorDiv:
                    return a // b
                case AffineBinaryOpKind.CeilDiv:
                    return -(-a // b)
        case _:
            raise AssertionError(expr)


def element_of(kind: Attribute) -> Attribute:
    """The type of a vector's elements, or the type itself."""
    return cast(VectorType[Attribute], kind).element_type if isinstance(kind, VectorType) else kind


def dtype(kind: Attribute) -> np.dtype[Any]:
    """How a scalar is held; bf16 as f32, which holds its values."""
    if kind == i1:
        return np.dtype(np.bool_)
    if isinstance(kind, IndexType | IntegerType):
        return np.dtype(np.int64)
    return np.dtype({"f16": np.float16, "f64": np.float64}.get(str(kind), np.float32))


@dataclass
class Machine:
    """A CTA of ``threads`` threads, block number ``block`` (one a thread, to ask for many).

    ``values`` holds what each SSA value is in each thread; put a kernel's arguments there.
    """

    threads: int = 1
    block: int | Array = 0
    handlers: Mapping[type[Operation], Handler] = field(
        default_factory=dict[type[Operation], Handler]
    )
    values: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    events: list[Event] = field(default_factory=list[Event])

    def set(self, value: SSAValue, number: object) -> None:
        """Give ``value`` a number, or one a thread."""
        array = np.asarray(number)
        if isinstance(value.type, IndexType):
            beyond = array[(array < -(2**31)) | (array >= 2**31)]
            assert not beyond.size, f"{value} of type index overflows: {beyond}"
        self.values[value] = array

    def get(self, value: SSAValue) -> Array:
        """``value`` in every thread."""
        found = self.values.get(value, np.asarray(0))
        if isinstance(value.type, VectorType | MemRefType):
            return found
        return np.broadcast_to(found, (self.threads,))

    def run(self, ops: Iterable[Operation], active: NDArray[np.bool_] | None = None) -> Machine:
        """Run ``ops`` in the threads of ``active``; returns the machine."""
        mask = np.ones(self.threads, np.bool_) if active is None else active
        if mask.any():
            for op in ops:
                self.step(op, mask)
        return self

    def step(self, op: Operation, active: NDArray[np.bool_]) -> None:
        operands = [self.get(v) for v in op.operands if not isinstance(v.type, MemRefType)]
        match op:
            case scf.YieldOp() | tile.YieldOp() | ReturnOp():
                return
            case scf.ForOp():
                low, high, step = (self.uniform(v) for v in (op.lb, op.ub, op.step))
                for i in range(low, high, step):
                    self.set(op.body.block.args[0], i)
                    self.run(op.body.block.ops, active)
                return
            case scf.IfOp():
                condition = self.get(op.cond).astype(np.bool_)
                self.run(op.true_region.block.ops, active & condition)
                if op.false_region.blocks:
                    self.run(op.false_region.block.ops, active & ~condition)
                return
            case memref.AllocaOp():
                kind = op.memref.type
                shape = (kind.get_shape()[0], self.threads)
                self.values[op.memref] = np.zeros(shape, dtype(kind.element_type))
                return
            case memref.StoreOp():
                registers = self.values[op.memref]
                at = np.nonzero(active)[0]
                registers[self.get(op.indices[0])[at], at] = self.get(op.value)[at]
                return
            case memref.LoadOp():
                registers = self.values[op.memref]
                at = np.arange(self.threads)
                self.set(op.res, registers[self.get(op.indices[0]), at])
                return
            case _:
                pass
        result = self.scalar(op, operands)
        if result is not None:
            self.set(op.results[0], result)
            return
        event = Event(op, tuple(self.get(v) for v in op.operands), active)
        self.events.append(event)
        if op.results:
            handler = self.handlers.get(type(op))
            assert handler is not None, f"no handler for {op.name}"
            for value, number in zip(op.results, handler(event), strict=True):
                self.set(value, number)
        elif (handler := self.handlers.get(type(op))) is not None:
            handler(event)

    def uniform(self, value: SSAValue) -> int:
        numbers = {int(x) for x in self.get(value)}
        assert len(numbers) == 1, f"{value} differs between threads: {sorted(numbers)}"
        return numbers.pop()

    def scalar(self, op: Operation, operands: Sequence[Array]) -> Array | None:
        """The result of an op without effects, or None for another op."""
        if (function := BINARY.get(type(op))) is not None:
            return function(*operands)
        match op:
            case arith.ConstantOp():
                attr = cast(Attribute, op.value)
                assert isinstance(attr, IntegerAttr | FloatAttr), op
                return np.asarray(cast(Any, attr).value.data, dtype(op.result.type))
            case arith.CmpiOp():
                names = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult")
                return PREDICATES[names[cast(Any, op.predicate).value.data]](*operands)
            case arith.SelectOp():
                return np.where(*operands)
            case arith.IndexCastOp():
                return operands[0].astype(np.int64)
            case arith.ExtFOp() | arith.TruncFOp() if not isinstance(
                op.results[0].type, BFloat16Type
            ):
                return operands[0].astype(dtype(element_of(op.results[0].type)))
            case math_ops.FmaOp():
                x, y, z = (value.astype(np.float64) for value in operands)
                return (x * y + z).astype(np.float32)
            case hw.PackOp():
                return np.stack(operands)
            case hw.UnpackOp():
                return operands[0][op.index.value.data]
            case affine.ApplyOp():
                mapped = op.map.data
                dims, symbols = operands[: mapped.num_dims], operands[mapped.num_dims :]
                return affine_value(mapped.results[0], dims, symbols)
            case hw.ThreadIdOp():
                return np.arange(self.threads)
            case hw.BlockIdOp():
                return np.asarray(self.block)
            case hw.WarpUniformOp():
                warps = operands[0].reshape(-1, min(32, self.threads))
                assert (warps == warps[:, :1]).all(), "a warp-uniform value differs in a warp"
                return operands[0]
            case hw.OpaqueOp():
                return operands[0]
            case hw.SharedTileOp() if op.tile in self.values:
                return self.values[op.tile]
            case hw.SharedTileOp() | hw.MBarrierOp():
                return np.asarray(op.offset.value.data if op.offset else 0)
            case hw.SharedAddressOp():
                kind = op.tile.type
                assert isinstance(kind, SharedType)
                return operands[0] + operands[1] * kind.slot_bytes
            case _:
                return None
