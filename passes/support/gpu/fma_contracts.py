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
from polyc.dialects.gpu.types import FragmentType, vector_of
from polyc.passes.support.gpu.layouts import fma_lane, fma_place
from polyc.passes.support.gpu.mma_steps import WarpPart, registers_of, shared_type
from polyc.passes.support.gpu.tile_contracts import clear_registers
from polyc.passes.support.gpu.tile_fragments import store_registers
from polyc.rewriting.emit import Emit, affine_dim

UNROLLED = 4
"""Steps of four k whose code is written out where there are many."""

DEEP = 2 * UNROLLED * FMA_VECTOR
"""The k of which there are many steps, or a multiple: a head's features."""


class LowerFmaContract(RewritePattern):
    """A contract by threads: vectors of 16 bytes of both operands, then one fma for each product.

    A thread takes its lines, rows of the left operand or columns of the right one, as
    ``fma_accumulator`` says.  Of an operand that is stored along k it loads four steps of one line
    at once, of another one four lines of one step, so that nothing is transposed; either way the
    lanes of a warp read whole lines of banks.  Every element is summed along k in ascending order;
    a product is not rounded, its sum is once.

    A left operand in registers lies as an accumulator whose columns are k: of each k one lane of
    those that share rows has them, and hands them to the others.
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
        if isinstance(op.lhs.type, FragmentType):
            self.from_registers(emit, op, acc)
            rewriter.replace(op, emit.ops, [None] * len(op.results))
            return
        if op.lhs_k_major and op.rhs_k_major and k % DEEP == 0:
            self.deep(emit, op, acc)
            rewriter.replace(op, emit.ops, [None] * len(op.results))
            return
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

    @staticmethod
    def deep(emit: Emit, op: tile.ContractOp, acc: SSAValue) -> None:
        """Both operands along k, of which there is much: a few steps are written out, and of the
        right one a line is loaded at a time, which leaves registers for the sums of attention."""
        left, right = _Lines.of(emit, op)
        a, b = left.registers(emit, "a"), emit.registers(FMA_VECTOR, f32, "b")

        def group(outer: Emit, first: SSAValue) -> None:
            def step(inner: Emit, number: SSAValue) -> None:
                depth = inner.apply((affine_dim(0) + affine_dim(1)) * FMA_VECTOR, [first, number])
                left.load(inner, depth, a)

                def column(last: Emit, j: SSAValue) -> None:
                    right.load_vector(last, depth, b, j)

                    def along(at: Emit, kk: SSAValue) -> None:
                        held = _Held(a, left.register), _Held(b, affine_dim(1))
                        _products(at, *held, kk, acc, (left.count, right.count), j)

                    last.loop(FMA_VECTOR, along, unroll=True, hint="kk")

                inner.loop(right.count, column, unroll=True, hint="j")

            outer.loop(UNROLLED, step, unroll=True, hint="step")

        emit.loop(op.sizes[2] // FMA_VECTOR, group, step=UNROLLED, hint="steps")

    @staticmethod
    def from_registers(emit: Emit, op: tile.ContractOp, acc: SSAValue) -> None:
        """The left operand of each k from the lane that holds it, and the right one from shared
        memory, where its lines lie."""
        rows, columns = op.warp_sizes
        k = op.sizes[2]
        high, wide = lanes = fma_lanes(rows, columns)
        weights = registers_of(emit, op.lhs)
        right, lane = _Lines.right_of(emit, op)
        count = rows // high
        a, b = emit.registers(count, f32, "a"), emit.registers(FMA_VECTOR, f32, "b")
        lane_row, _ = fma_place(affine_dim(0), lanes)
        own = emit.apply(lane_row, [lane], hint="lane_row")

        def step(inner: Emit, depth: SSAValue) -> None:
            holder = fma_lane(affine_dim(0), affine_dim(1) % wide, lanes)
            source = inner.apply(holder, [own, depth], hint="holder")

            def row(outer: Emit, i: SSAValue) -> None:
                place = affine_dim(0) * (k // wide) + affine_dim(1) // wide
                mine = outer.value(memref.LoadOp.get(weights, [outer.apply(place, [i, depth])]))
                got = outer.value(hw.ShuffleOp("index", mine, source))
                outer.op(memref.StoreOp.get(got, a, [i]))

            inner.loop(count, row, unroll=True, hint="i")

            def vector(outer: Emit, v: SSAValue) -> None:
                right.load_vector(outer, depth, b, v)

                def column(last: Emit, j: SSAValue) -> None:
                    held = _Held(a, affine_dim(0)), _Held(b, affine_dim(1))
                    number = last.apply(affine_dim(0) * FMA_VECTOR + affine_dim(1), [v, j])
                    _products(last, *held, j, acc, (count, right.count), number)

                outer.loop(FMA_VECTOR, column, unroll=True, hint="j")

            inner.loop(right.count // FMA_VECTOR, vector, unroll=True, hint="v")

        emit.loop(k, step, unroll=True, hint="kk")


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
    column: SSAValue | None = None,
) -> None:
    """The multiply-adds of all rows and columns of a thread, or one ``column``, for one k."""
    rows, columns = counts

    def row(outer: Emit, i: SSAValue) -> None:
        x = left.load(outer, i, along)

        def one(last: Emit, j: SSAValue) -> None:
            y = right.load(last, j, along)
            at = last.apply(affine_dim(0) * columns + affine_dim(1), [i, j])
            total = last.value(memref.LoadOp.get(acc, [at]))
            total = last.value(math_ops.FmaOp(x, y, total))
            last.op(memref.StoreOp.get(total, acc, [at]))

        if column is None:
            outer.loop(columns, one, unroll=True, hint="j")
        else:
            one(outer, column)

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
        return _Lines._side(emit, op, place, 0), _Lines._side(emit, op, place, 1)

    @staticmethod
    def right_of(emit: Emit, op: tile.ContractOp) -> tuple[_Lines, SSAValue]:
        """Columns of the right operand alone, and the number of the lane."""
        place = WarpPart.of(emit, op, op.sizes[1], op.warp_sizes)
        return _Lines._side(emit, op, place, 1), place.lane

    @staticmethod
    def _side(
        emit: Emit, op: tile.ContractOp | LoadOperandsOp, place: WarpPart, number: int
    ) -> _Lines:
        lanes = fma_lanes(*op.warp_sizes)
        held, slot, k_major, start, hint = (
            (op.lhs, op.lhs_slot, op.lhs_k_major, place.row, "lane_row"),
            (op.rhs, op.rhs_slot, op.rhs_k_major, place.column, "lane_column"),
        )[number]
        expr, own = fma_place(affine_dim(0), lanes)[number], lanes[number]
        return _Lines(
            held,
            slot or emit.index(0),
            k_major,
            emit.apply(expr, [place.lane], hint=hint),
            start,
            own,
            op.warp_sizes[number] // own,
        )

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

        def vector(inner: Emit, v: SSAValue) -> None:
            at = inner.apply(affine_dim(0) * FMA_VECTOR + offset, [v])
            self.load_vector(inner, depth, registers, v, at)

        emit.loop(vectors, vector, unroll=True, hint="v")

    def load_vector(
        self,
        emit: Emit,
        depth: SSAValue,
        registers: SSAValue,
        number: SSAValue,
        at: SSAValue | None = None,
    ) -> None:
        """Load one vector at ``depth``, to registers from ``at`` on, or the first: four steps of
        the line of this number where k is contiguous, else four lines."""
        lane = affine_dim(1) if self.k_major else affine_dim(1) * FMA_VECTOR
        span = self.lanes if self.k_major else self.lanes * FMA_VECTOR
        expr = affine_dim(0) + lane + affine_dim(2) * span
        line = emit.apply(expr, [self.start, self.lane, number])
        row, column = (line, depth) if self.k_major else (depth, line)
        address = emit.value(tile.ElementAddressOp(self.tile, self.slot, row, column))
        value = emit.value(hw.LoadSharedOp(address, vector_of(f32, FMA_VECTOR)))
        store_registers(emit, value, registers, at or emit.index(0), FMA_VECTOR)


FMA_PATTERNS: list[RewritePattern] = [LowerFmaContract(), LowerFmaLoad(), LowerFmaMultiply()]
"""What threads multiply: whole contracts, and steps of them."""
