"""The pattern that lowers a ``gpu.contract`` of f32 to fused multiply-adds of the threads."""

from __future__ import annotations

from xdsl.dialects import math as math_ops
from xdsl.dialects import memref
from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import vector_of
from polyc.passes.support.gpu.layouts import FMA_LANES, FMA_VECTOR
from polyc.passes.support.gpu.mma_steps import WarpPart, registers_of
from polyc.passes.support.gpu.tile_contracts import clear_registers
from polyc.passes.support.gpu.tile_fragments import store_registers
from polyc.rewriting.emit import Emit, affine_dim


class LowerFmaContract(RewritePattern):
    """A contract by threads: vectors of 16 bytes of both operands, then one fma for each product.

    A thread takes its lines, rows of the left operand or columns of the right one, as
    ``fma_accumulator`` says.  Of an operand that is stored along k it loads four steps of one line
    at once, of another one four lines of one step, so that nothing is transposed; either way the
    lanes of a warp read whole lines of banks of a swizzled tile.  Every element is summed along k
    in ascending order; a product is not rounded, its sum is once.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.mma.data != "fma":
            return
        _, n, k = op.sizes
        emit = Emit()
        acc = registers_of(emit, op.acc)
        if op.clear is not None:
            clear_registers(emit, acc)
        place = WarpPart.of(emit, op, n, op.warp_sizes)
        high, wide = FMA_LANES
        left = _Lines(
            op.lhs,
            op.lhs_slot or emit.index(0),
            op.lhs_k_major,
            emit.apply(affine_dim(0) // wide, [place.lane], hint="lane_row"),
            place.row,
            high,
            op.warp_sizes[0] // high,
        )
        right = _Lines(
            op.rhs,
            op.rhs_slot or emit.index(0),
            op.rhs_k_major,
            emit.apply(affine_dim(0) % wide, [place.lane], hint="lane_column"),
            place.column,
            wide,
            op.warp_sizes[1] // wide,
        )
        a, b = left.registers(emit, "a"), right.registers(emit, "b")

        def products(body: Emit, along: SSAValue) -> None:
            def row(outer: Emit, i: SSAValue) -> None:
                x = outer.value(memref.LoadOp.get(a, [left.register(outer, i, along)]))

                def one(last: Emit, j: SSAValue) -> None:
                    y = last.value(memref.LoadOp.get(b, [right.register(last, j, along)]))
                    at = last.apply(affine_dim(0) * right.count + affine_dim(1), [i, j])
                    total = last.value(memref.LoadOp.get(acc, [at]))
                    total = last.value(math_ops.FmaOp(x, y, total))
                    last.op(memref.StoreOp.get(total, acc, [at]))

                outer.loop(right.count, one, unroll=True, hint="j")

            body.loop(left.count, row, unroll=True, hint="i")

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
                products(inner, along)

            outer.loop(FMA_VECTOR, step_of, unroll=True, hint="kk")

        emit.loop(k // FMA_VECTOR, steps, unroll=True, hint="step")
        rewriter.replace(op, emit.ops, [None] * len(op.results))


class _Lines:
    """What a thread has of one operand: ``count`` lines, spread over ``lanes`` lanes of a warp."""

    def __init__(
        self,
        tile_: SSAValue,
        slot: SSAValue,
        k_major: bool,
        lane: SSAValue,
        start: SSAValue,
        lanes: int,
        count: int,
    ) -> None:
        self.tile, self.slot, self.k_major = tile_, slot, k_major
        self.lane, self.start = lane, start
        self.lanes, self.count = lanes, count

    def registers(self, emit: Emit, hint: str) -> SSAValue:
        """Registers for what is loaded at once of all lines."""
        return emit.registers(self.count * (FMA_VECTOR if self.k_major else 1), f32, hint)

    def register(self, emit: Emit, line: SSAValue, along: SSAValue) -> SSAValue:
        """Which of them has a line at step ``along`` of four."""
        if self.k_major:
            return emit.apply(affine_dim(0) * FMA_VECTOR + affine_dim(1), [line, along])
        return line

    def load(self, emit: Emit, depth: SSAValue, registers: SSAValue) -> None:
        """Load all lines at ``depth``: of it and of three steps more where k is contiguous."""
        vectors = self.count if self.k_major else self.count // FMA_VECTOR
        lane = affine_dim(1) if self.k_major else affine_dim(1) * FMA_VECTOR
        span = self.lanes if self.k_major else self.lanes * FMA_VECTOR

        def vector(inner: Emit, v: SSAValue) -> None:
            expr = affine_dim(0) + lane + affine_dim(2) * span
            line = inner.apply(expr, [self.start, self.lane, v])
            row, column = (line, depth) if self.k_major else (depth, line)
            address = inner.value(tile.ElementAddressOp(self.tile, self.slot, row, column))
            value = inner.value(hw.LoadSharedOp(address, vector_of(f32, FMA_VECTOR)))
            at = inner.apply(affine_dim(0) * FMA_VECTOR, [v])
            store_registers(inner, value, registers, at, FMA_VECTOR)

        emit.loop(vectors, vector, unroll=True, hint="v")
