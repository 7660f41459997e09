"""Patterns that lower one step over k of an ``mma.sync`` contract (PTX ISA, ldmatrix and mma).

``gpu.contract`` is these two for every step, and takes them from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import MemRefType, UnrealizedConversionCastOp, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.steps import LoadOperandsOp, MultiplyOp, operand_registers
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
    register_memref,
)
from polyc.passes.support.gpu.scope import thread_in_scope
from polyc.rewriting.emit import Emit, affine_dim

K_STEP = 16
"""The k extent of one instruction on 16-bit operands."""


def registers_of(emit: Emit, fragment: SSAValue) -> SSAValue:
    """A fragment as one thread's registers; ``LowerFragment`` removes the cast."""
    kind = fragment.type
    assert isinstance(kind, FragmentType)
    if not isinstance(kind.layout, FragmentLayoutAttr):
        raise PolycError("NoLayout", f"{kind} has no layout; run gpu-layout-inference")
    return emit.value(UnrealizedConversionCastOp.get([fragment], [registers_type(fragment)]))


def is_packed(fragment: SSAValue) -> bool:
    """Whether a fragment's registers are words of two elements, as wgmma takes them."""
    return isinstance(fragment.owner, tile.FragmentOp) and fragment.owner.packed is not None


def registers_type(fragment: SSAValue) -> MemRefType[Attribute]:
    """The registers that a thread holds of a fragment that has a layout."""
    kind = fragment.type
    assert isinstance(kind, FragmentType) and isinstance(kind.layout, FragmentLayoutAttr)
    count = kind.layout.registers.data
    return (
        register_memref(count // 2, i32)
        if is_packed(fragment)
        else register_memref(count, kind.element_type)
    )


def shared_type(value: SSAValue) -> SharedType:
    assert isinstance(value.type, SharedType)
    return value.type


@dataclass(frozen=True)
class WarpPart:
    """Where a warp's part of a tile is, and which lane asks."""

    lane: SSAValue
    row: SSAValue
    column: SSAValue

    @staticmethod
    def of(emit: Emit, op: Operation, n: int, warp_tile: tuple[int, int]) -> WarpPart:
        """Warps tile the output in row-major order, as ``mma_sync_accumulator`` says."""
        wm, wn = warp_tile
        across = n // wn
        thread = thread_in_scope(emit, op)
        lane = emit.apply(affine_dim(0) % 32, [thread], hint="lane")
        warp = emit.value(hw.WarpUniformOp(emit.apply(affine_dim(0) // 32, [thread])), "warp")
        return WarpPart(
            lane,
            emit.apply(affine_dim(0) // across * wm, [warp], hint="warp_row"),
            emit.apply(affine_dim(0) % across * wn, [warp], hint="warp_column"),
        )


def lane_element(k_major: bool, lhs: bool) -> tuple[AffineExpr, AffineExpr]:
    """``(line, depth)`` of the row that lane ``d1`` addresses, in a 16x16 block.

    ldmatrix gives lane ``l`` row ``l mod 8`` of block ``l floordiv 8``.  ``line`` runs over m or n,
    ``depth`` over k.  The four 8x8 blocks must arrive in the order in which the instruction
    wants them: for a, the second block is 8 rows of m further; for b, 8 of k.
    """
    lane = affine_dim(1)
    in_block, second, fourth = lane % 8, lane // 8 % 2 * 8, lane // 16 * 8
    line, depth = (second, fourth) if lhs else (fourth, second)
    return (line + in_block, depth) if k_major else (line, depth + in_block)


def load_operand(
    emit: Emit,
    operand: SSAValue,
    slot: SSAValue,
    place: WarpPart,
    step: SSAValue,
    registers: SSAValue,
    blocks: int,
    *,
    lhs: bool,
    k_major: bool,
    offset: int = 0,
) -> None:
    """Load ``blocks`` blocks of 16x16 of one operand, step ``step`` of k, by ldmatrix.

    Four registers a block from ``offset`` on.  ``transpose`` absorbs an operand whose contiguous
    axis is not k.
    """

    def block(body: Emit, i: SSAValue) -> None:
        at = body.apply(affine_dim(0) + affine_dim(1) * 16, [place.row if lhs else place.column, i])
        target = body.apply(affine_dim(0) * 4 + offset, [i])
        line, depth = lane_element(k_major, lhs)
        outer = body.apply(affine_dim(0) + line, [at, place.lane])
        along = body.apply(affine_dim(0) * K_STEP + depth, [step, place.lane])
        row, column = (outer, along) if k_major else (along, outer)
        address = body.value(tile.ElementAddressOp(operand, slot, row, column))
        # Rows of a block run over m (left) or, for ldmatrix to feed b, over n.
        body.op(hw.LdmatrixOp(address, registers, target, transpose=not k_major))

    emit.loop(blocks, block, unroll=True, hint="i" if lhs else "j")


def multiply_step(
    emit: Emit,
    a: SSAValue,
    b: SSAValue,
    acc: SSAValue,
    warp_tile: tuple[int, int],
    element: Attribute,
    a_offset: int = 0,
    b_offset: int = 0,
    a_stride: int = 4,
) -> None:
    """The m16n8k16 products of one step.

    ``a_stride`` is how many registers of ``a`` one row of blocks is from the next.

    Rows of blocks come in pairs, the first from left to right and the second back, so that
    neighbouring instructions share an operand in the register file's reuse cache.
    """
    blocks_m, blocks_n = warp_tile[0] // 16, warp_tile[1] // 8
    row, column = affine_dim(0), affine_dim(1)

    def products(body: Emit, i: SSAValue, line: AffineExpr, back: bool) -> None:
        def one(last: Emit, j: SSAValue) -> None:
            across = column * -1 + (blocks_n - 1) if back else column
            last.op(
                hw.MmaSyncOp(
                    a,
                    last.apply(line * a_stride + a_offset, [i]),
                    b,
                    last.apply(across * 2 + b_offset, [i, j]),
                    acc,
                    last.apply(line * (4 * blocks_n) + across * 4, [i, j]),
                    element,
                )
            )

        body.loop(blocks_n, one, unroll=True, hint="j")

    def pair(body: Emit, i: SSAValue) -> None:
        products(body, i, row * 2, False)
        products(body, i, row * 2 + 1, True)

    if blocks_m > 1:
        emit.loop(blocks_m // 2, pair, unroll=True, hint="i")
    if blocks_m % 2:
        zero = emit.index(0)
        products(emit, zero, row + (blocks_m - 1), False)


class LowerLoadOperands(RewritePattern):
    """ldmatrix for every 16x16 block of both operands' step, into the buffer's registers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: LoadOperandsOp, rewriter: PatternRewriter) -> None:
        element = shared_type(op.rhs).element_type
        if element == f32:
            return
        emit = Emit()
        wm, wn = op.warp_sizes
        place = WarpPart.of(emit, op, op.sizes[1], (wm, wn))
        zero, step = emit.index(0), emit.index(op.step.value.data)
        buffer = op.buffer.value.data
        of_a, of_b = operand_registers((wm, wn), element)
        if op.right is None:
            load_operand(
                emit,
                op.lhs,
                op.lhs_slot or zero,
                place,
                step,
                op.lhs_registers,
                wm // 16,
                lhs=True,
                k_major=op.lhs_k_major,
                offset=buffer * of_a,
            )
        load_operand(
            emit,
            op.rhs,
            op.rhs_slot or zero,
            place,
            step,
            op.rhs_registers,
            wn // 16,
            lhs=False,
            k_major=op.rhs_k_major,
            offset=buffer * of_b,
        )
        rewriter.replace(op, emit.ops, [])


class LowerMultiply(RewritePattern):
    """mma.sync for every 16x8 block of the warp's tile, on the buffer's registers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter) -> None:
        if op.element == f32:
            return
        emit = Emit()
        buffer = op.buffer.value.data
        of_a, of_b = operand_registers(op.warp_sizes, op.element)
        multiply_step(
            emit,
            op.lhs_registers,
            op.rhs_registers,
            registers_of(emit, op.acc),
            op.warp_sizes,
            op.element,
            buffer * of_a,
            buffer * of_b,
        )
        rewriter.replace(op, emit.ops, [])
