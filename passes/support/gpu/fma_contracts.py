"""The patterns that lower a ``gpu.contract`` of f32, and its steps, to fused multiply-adds of the
threads."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import math as math_ops
from xdsl.dialects import memref
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.compute import FMA_VECTOR, fma_lanes
from polyc.dialects.gpu.tile.steps import LoadOperandsOp, MultiplyOp, operand_registers
from polyc.dialects.gpu.types import vector_of
from polyc.passes.support.gpu.layouts import fma_place
from polyc.passes.support.gpu.mma_steps import WarpPart, registers_of, shared_type
from polyc.passes.support.gpu.tile_contracts import clear_registers
from polyc.passes.support.gpu.tile_fragments import store_registers
from polyc.rewriting.emit import Emit, affine_dim


class LowerFmaContract(RewritePattern):
    """A contract by threads: vectors of 16 bytes of both operands, then one fma for each product.

    A thread takes its lines, rows of the left operand or columns of the right one, as
    ``fma_accumulator`` says.  Of an operand that is stored along k it loads four steps of one line
    at once, of another one four lines of one step, so that nothing is transposed; either way the
    lanes of a warp read whole lines of banks.  Every element is summed along k in ascending order;
    a product is not rounded, its sum is once.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.mma.data != "fma":
            return
        k = op.sizes[2]
        emit = Emit()
        acc = registers_of(emit, op.acc)
        if op.clear is not None:
            clear_registers(emit, acc)
        left, right = _Lines.of(emit, op)
        a, b = left.registers(emit, "a"), right.registers(emit, "b")

        def steps(outer: Emit, step: SSAValue) -> None:
            sides = ((left, a), (right, b))
            first = outer.apply(affine_dim(0) * FMA_VECTOR, [step], hint="k")
            for side, registers in sides:
                if side.k_major:
                    side.load(outer, first, registers)

            def step_of(inner: Emit, along: SSAValue) -> None:
                depth = inner.apply(affine_dim(0) + affine_dim(1), [first, along])
                for side, registers in sides:
                    if not side.k_major:
                        side.load(inner, depth, registers)
                held = _Held(a, left.register), _Held(b, right.register)
                _products(inner, *held, along, acc, (left.count, right.count))

            outer.loop(FMA_VECTOR, step_of, unroll=True, hint="kk")

        emit.loop(k // FMA_VECTOR, steps, unroll=True, hint="step")
        rewriter.replace(op, emit.ops, [None] * len(op.results))


class LowerFmaLoad(RewritePattern):
    """Vectors of 16 bytes of both operands of one k, into the buffer's registers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoadOperandsOp, rewriter: PatternRewriter) -> None:
        if shared_type(op.rhs).element_type != f32:
            return
        emit = Emit()
        depth, buffer = emit.index(op.step.value.data), op.buffer.value.data
        for side, registers in zip(
            _Lines.of(emit, op), (op.lhs_registers, op.rhs_registers), strict=True
        ):
            side.load(emit, depth, registers, buffer * side.count)
        rewriter.replace(op, emit.ops, [])


class LowerFmaMultiply(RewritePattern):
    """One fma for each product of the warp's tile, on the buffer's registers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter) -> None:
        if op.element != f32:
            return
        emit = Emit()
        counts = operand_registers(op.warp_sizes, op.element)
        buffer = op.buffer.value.data
        left, right = (
            _Held(registers, affine_dim(0) + buffer * count)
            for registers, count in zip((op.lhs_registers, op.rhs_registers), counts, strict=True)
        )
        _products(emit, left, right, emit.index(0), registers_of(emit, op.acc), counts)
        rewriter.replace(op, emit.ops, [])


@dataclass(frozen=True)
class _Held:
    """Registers of an operand, and which of them has a line (``d0``) at a step (``d1``)."""

    registers: SSAValue
    place: AffineExpr

    def load(self, emit: Emit, line: SSAValue, along: SSAValue) -> SSAValue:
        at = emit.apply(self.place, [line, along])
        return emit.value(memref.LoadOp.get(self.registers, [at]))


def _products(
    emit: Emit,
    left: _Held,
    right: _Held,
    along: SSAValue,
    acc: SSAValue,
    counts: tuple[int, int],
) -> None:
    """The multiply-adds of all rows and columns of a thread, for one k."""
    rows, columns = counts

    def row(outer: Emit, i: SSAValue) -> None:
        x = left.load(outer, i, along)

        def one(last: Emit, j: SSAValue) -> None:
            y = right.load(last, j, along)
            at = last.apply(affine_dim(0) * columns + affine_dim(1), [i, j])
            total = last.value(memref.LoadOp.get(acc, [at]))
            total = last.value(math_ops.FmaOp(x, y, total))
            last.op(memref.StoreOp.get(total, acc, [at]))

        outer.loop(columns, one, unroll=True, hint="j")

    emit.loop(rows, row, unroll=True, hint="i")


@dataclass(frozen=True)
class _Lines:
    """What a thread has of one operand: ``count`` lines, spread over ``lanes`` lanes of a warp."""

    tile: SSAValue
    slot: SSAValue
    k_major: bool
    lane: SSAValue
    start: SSAValue
    lanes: int
    count: int

    @staticmethod
    def of(emit: Emit, op: tile.ContractOp | LoadOperandsOp) -> tuple[_Lines, _Lines]:
        """Rows of the left operand, and columns of the right one."""
        place = WarpPart.of(emit, op, op.sizes[1], op.warp_sizes)
        lanes = fma_lanes(*op.warp_sizes)
        sides = (
            (op.lhs, op.lhs_slot, op.lhs_k_major, place.row, "lane_row"),
            (op.rhs, op.rhs_slot, op.rhs_k_major, place.column, "lane_column"),
        )
        left, right = (
            _Lines(
                held,
                slot or emit.index(0),
                k_major,
                emit.apply(expr, [place.lane], hint=hint),
                start,
                own,
                size // own,
            )
            for (held, slot, k_major, start, hint), expr, own, size in zip(
                sides, fma_place(affine_dim(0), lanes), lanes, op.warp_sizes, strict=True
            )
        )
        return left, right

    def registers(self, emit: Emit, hint: str) -> SSAValue:
        """Registers for what is loaded at once of all lines."""
        return emit.registers(self.count * (FMA_VECTOR if self.k_major else 1), f32, hint)

    @property
    def register(self) -> AffineExpr:
        """Which of them has a line (``d0``), of four steps (``d1``) where k is contiguous."""
        return affine_dim(0) * FMA_VECTOR + affine_dim(1) if self.k_major else affine_dim(0)

    def load(self, emit: Emit, depth: SSAValue, registers: SSAValue, offset: int = 0) -> None:
        """Load all lines at ``depth`` to registers from ``offset`` on: of it, and of three steps
        more where k is contiguous."""
        vectors = self.count if self.k_major else self.count // FMA_VECTOR
        lane = affine_dim(1) if self.k_major else affine_dim(1) * FMA_VECTOR
        span = self.lanes if self.k_major else self.lanes * FMA_VECTOR

        def vector(inner: Emit, v: SSAValue) -> None:
            expr = affine_dim(0) + lane + affine_dim(2) * span
            line = inner.apply(expr, [self.start, self.lane, v])
            row, column = (line, depth) if self.k_major else (depth, line)
            address = inner.value(tile.ElementAddressOp(self.tile, self.slot, row, column))
            value = inner.value(hw.LoadSharedOp(address, vector_of(f32, FMA_VECTOR)))
            at = inner.apply(affine_dim(0) * FMA_VECTOR + offset, [v])
            store_registers(inner, value, registers, at, FMA_VECTOR)

        emit.loop(vectors, vector, unroll=True, hint="v")


FMA_PATTERNS: list[RewritePattern] = [LowerFmaContract(), LowerFmaLoad(), LowerFmaMultiply()]
"""What threads multiply: whole contracts, and steps of them."""
