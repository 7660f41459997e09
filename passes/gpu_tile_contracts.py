"""Patterns that lower ``gpu.contract`` to tensor-core instructions (PTX ISA, mma and wgmma)."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import UnrealizedConversionCastOp, i32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
    element_bytes,
    register_memref,
)
from polyc.passes.emit import Emit, affine_dim

K_STEP = 16
"""The k extent of one instruction on 16-bit operands."""

ROWS_PER_ATOM = 8
"""Rows of a core matrix; the stride offset of a descriptor steps from one to the next."""


def registers_of(emit: Emit, fragment: SSAValue) -> SSAValue:
    """A fragment as one thread's registers; ``LowerFragment`` removes the cast."""
    kind = fragment.type
    assert isinstance(kind, FragmentType)
    if not isinstance(kind.layout, FragmentLayoutAttr):
        raise PolycError("NoLayout", f"{kind} has no layout; run gpu-layout-inference")
    memref = register_memref(kind.layout.registers.data, kind.element_type)
    return emit.value(UnrealizedConversionCastOp.get([fragment], [memref]))


def _shared(value: SSAValue) -> SharedType:
    assert isinstance(value.type, SharedType)
    return value.type


class LowerWgmmaContract(RewritePattern):
    """A contract by warpgroups: one wgmma for every 16 of k, on descriptors (S9.1).

    A k-major operand advances by 32 bytes in a panel's row, an m- or n-major one by 16 rows of
    its panel.  Warpgroup ``w`` takes rows ``64 w`` and up of the left tile.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.mma.data != "wgmma":
            return
        lhs, rhs = _shared(op.lhs), _shared(op.rhs)
        _, n, k = op.sizes
        emit = Emit()
        acc = registers_of(emit, op.acc)
        thread = emit.value(hw.ThreadIdOp(), "thread")
        group = emit.value(
            hw.WarpUniformOp(emit.apply(affine_dim(0) // 128, [thread])), "warpgroup"
        )
        zero = emit.index(0)
        a_start = emit.value(hw.SharedAddressOp(op.lhs, op.lhs_slot or zero))
        offset = emit.apply(affine_dim(0) * self.group_bytes(lhs, op.lhs_k_major), [group])
        a_address = emit.value(arith.AddiOp(a_start, emit.value(arith.IndexCastOp(offset, i32))))
        b_address = emit.value(hw.SharedAddressOp(op.rhs, op.rhs_slot or zero))
        a = emit.value(self.descriptor(a_address, lhs, op.lhs_k_major), "a")
        b = emit.value(self.descriptor(b_address, rhs, op.rhs_k_major), "b")
        for step in range(k // K_STEP):
            emit.op(
                hw.WgmmaOp(
                    a,
                    b,
                    acc,
                    n,
                    lhs.element_type,
                    self.k_bytes(lhs, op.lhs_k_major, step),
                    self.k_bytes(rhs, op.rhs_k_major, step),
                    transpose_a=not op.lhs_k_major,
                    transpose_b=not op.rhs_k_major,
                )
            )
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def descriptor(address: SSAValue, kind: SharedType, k_major: bool) -> hw.WgmmaDescriptorOp:
        span = kind.swizzle_bytes or 0
        # Only an operand that is wider than a panel steps by the leading offset.
        leading = 16 if k_major else kind.panel_bytes
        return hw.WgmmaDescriptorOp(address, leading, ROWS_PER_ATOM * span, span)

    @staticmethod
    def k_bytes(kind: SharedType, k_major: bool, step: int) -> int:
        """Bytes from the tile's start to the ``step``-th 16 of k."""
        span = kind.swizzle_bytes or 0
        if not k_major:
            return step * K_STEP * span
        linear = step * K_STEP * element_bytes(kind.element_type)
        return linear // span * kind.panel_bytes + linear % span

    @staticmethod
    def group_bytes(kind: SharedType, k_major: bool) -> int:
        """Bytes from one warpgroup's 64 rows of the left tile to the next one's."""
        span = kind.swizzle_bytes or 0
        if k_major:
            return 64 * span
        return 64 // kind.panel_columns * kind.panel_bytes


class LowerMmaSyncContract(RewritePattern):
    """A contract by warps: ldmatrix both operands, then m16n8k16, for every 16 of k (S9.1).

    ldmatrix gives lane ``l`` row ``l mod 8`` of block ``l floordiv 8``; ``transpose`` absorbs an
    operand whose contiguous axis is not k.  Warps tile the output in row-major order, as
    ``mma_sync_accumulator`` says.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.mma.data != "mma.sync":
            return
        element = _shared(op.lhs).element_type
        _, n, k = op.sizes
        wm, wn = op.warp_sizes
        blocks_m, blocks_n, across = wm // 16, wn // 8, n // wn
        emit = Emit()
        acc = registers_of(emit, op.acc)
        thread = emit.value(hw.ThreadIdOp(), "thread")
        lane = emit.apply(affine_dim(0) % 32, [thread], hint="lane")
        warp = emit.value(hw.WarpUniformOp(emit.apply(affine_dim(0) // 32, [thread])), "warp")
        zero = emit.index(0)
        a = emit.registers(4 * blocks_m, i32, "a")
        b = emit.registers(2 * blocks_n, i32, "b")
        first_row = emit.apply(affine_dim(0) // across * wm, [warp], hint="warp_row")
        first_column = emit.apply(affine_dim(0) % across * wn, [warp], hint="warp_column")

        def load(
            inner: Emit,
            operand: SSAValue,
            slot: SSAValue | None,
            k_major: bool,
            lhs: bool,
            at: SSAValue,
            kk: SSAValue,
            target: SSAValue,
            offset: SSAValue,
        ) -> None:
            line, depth = self.lane_element(k_major, lhs)
            outer = inner.apply(affine_dim(0) + line, [at, lane])
            along = inner.apply(affine_dim(0) * K_STEP + depth, [kk, lane])
            row, column = (outer, along) if k_major else (along, outer)
            address = inner.value(tile.ElementAddressOp(operand, slot or zero, row, column))
            # Rows of a block run over m (left) or, for ldmatrix to feed b, over n.
            inner.op(hw.LdmatrixOp(address, target, offset, transpose=not k_major))

        def step(inner: Emit, kk: SSAValue) -> None:
            def load_a(body: Emit, i: SSAValue) -> None:
                at = body.apply(affine_dim(0) + affine_dim(1) * 16, [first_row, i])
                offset = body.apply(affine_dim(0) * 4, [i])
                load(body, op.lhs, op.lhs_slot, op.lhs_k_major, True, at, kk, a, offset)

            def load_b(body: Emit, j: SSAValue) -> None:
                at = body.apply(affine_dim(0) + affine_dim(1) * 16, [first_column, j])
                offset = body.apply(affine_dim(0) * 4, [j])
                load(body, op.rhs, op.rhs_slot, op.rhs_k_major, False, at, kk, b, offset)

            def multiply(body: Emit, i: SSAValue) -> None:
                def column(last: Emit, j: SSAValue) -> None:
                    last.op(
                        hw.MmaSyncOp(
                            a,
                            last.apply(affine_dim(0) * 4, [i]),
                            b,
                            last.apply(affine_dim(0) * 2, [j]),
                            acc,
                            last.apply(affine_dim(0) * (4 * blocks_n) + affine_dim(1) * 4, [i, j]),
                            element,
                        )
                    )

                body.loop(blocks_n, column, unroll=True, hint="j")

            inner.loop(blocks_m, load_a, unroll=True, hint="i")
            inner.loop(blocks_n // 2, load_b, unroll=True, hint="j")
            inner.loop(blocks_m, multiply, unroll=True, hint="i")

        emit.loop(k // K_STEP, step, unroll=True, hint="kk")
        rewriter.replace(op, emit.ops, [])

    @staticmethod
    def lane_element(k_major: bool, lhs: bool) -> tuple[AffineExpr, AffineExpr]:
        """``(line, depth)`` of the row that lane ``d1`` addresses, in a 16x16 block.

        ``line`` runs over m or n, ``depth`` over k.  The four 8x8 blocks must arrive in the
        order in which the instruction wants them: for a, the second block is 8 rows of m
        further; for b, 8 of k.
        """
        lane = affine_dim(1)
        in_block, second, fourth = lane % 8, lane // 8 % 2 * 8, lane // 16 * 8
        if k_major:
            line, depth = (second, fourth) if lhs else (fourth, second)
            return line + in_block, depth
        line, depth = (second, fourth) if lhs else (fourth, second)
        return line, depth + in_block


class LowerFragment(RewritePattern):
    """A fragment becomes the registers of one thread.

    Legality: nothing but casts of ``registers_of`` uses it any more.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.FragmentOp, rewriter: PatternRewriter) -> None:
        kind = op.fragment.type
        assert isinstance(kind, FragmentType)
        if not isinstance(kind.layout, FragmentLayoutAttr):
            raise PolycError(
                "NoLayout",
                f"{kind} has no layout; use it in a contract or annotate it",
                op,
            )
        emit = Emit()
        memref = emit.registers(
            kind.layout.registers.data, kind.element_type, op.fragment.name_hint
        )
        for use in list(op.fragment.uses):
            if not isinstance(use.operation, UnrealizedConversionCastOp):
                raise PolycError(
                    "NotLowered", f"{use.operation.name} still uses a fragment", use.operation
                )
            rewriter.replace(use.operation, [], [memref])
        rewriter.replace(op, emit.ops, [None])
