"""Patterns that lower ``gpu.contract`` to tensor-core instructions (PTX ISA, mma and wgmma)."""

from __future__ import annotations

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import UnitAttr, UnrealizedConversionCastOp, i32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.tile.steps import operand_registers
from polyc.dialects.gpu.types import (
    FragmentLayoutAttr,
    FragmentType,
    SharedType,
    element_bytes,
    register_count,
    vector_of,
)
from polyc.passes.support.gpu.mma_steps import (
    K_STEP,
    WarpPart,
    is_packed,
    load_operand,
    multiply_step,
    registers_of,
    registers_type,
    shared_type,
)
from polyc.passes.support.gpu.scope import thread_in_scope
from polyc.rewriting.emit import Emit, affine_dim

ROWS_PER_ATOM = 8
"""Rows of a core matrix; the stride offset of a descriptor steps from one to the next."""


STEP_BYTES = 32
"""Bytes of a row of an operand that is stored along k, of one wgmma."""


def words_of(emit: Emit, fragment: SSAValue) -> SSAValue:
    """Registers of 32 bits with two neighbouring 16-bit registers of a fragment each."""
    registers = registers_of(emit, fragment)
    if is_packed(fragment):
        return registers
    assert isinstance(fragment.type, FragmentType)
    element, count = fragment.type.element_type, register_count(registers.type) or 0
    words = emit.registers(count // 2, i32, fragment.name_hint)

    def pack(inner: Emit, r: SSAValue) -> None:
        pair = [
            inner.value(memref.LoadOp.get(registers, [inner.apply(affine_dim(0) * 2 + lane, [r])]))
            for lane in (0, 1)
        ]
        packed = inner.value(hw.PackOp(pair))
        assert packed.type == vector_of(element, 2)
        word = inner.value(vector.BitcastOp(packed, vector_of(i32, 1)))
        inner.op(memref.StoreOp.get(inner.value(hw.UnpackOp(word, 0)), words, [r]))

    emit.loop(count // 2, pack, unroll=True, hint="r")
    return words


class PackLeftOperand(RewritePattern):
    """Keep a contract's left fragment as the words that the instruction takes.

    Its elements are rounded to it two at once, and only half as many registers live until the
    contract.  Legality: contracts and maps that write it are all that uses the fragment.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        owner, kind = op.lhs.owner, op.lhs.type
        if not isinstance(kind, FragmentType) or not isinstance(owner, tile.FragmentOp):
            return
        if op.is_tf32:
            return
        if not isinstance(kind.layout, FragmentLayoutAttr) or kind.layout.registers.data % 2:
            return
        for use in op.lhs.uses:
            user = use.operation
            writes = isinstance(user, tile.MapOp) and op.lhs not in (user.space, *user.inputs)
            if not writes and not isinstance(user, tile.ContractOp):
                return
        owner.packed = UnitAttr()


class LowerAwaitReady(RewritePattern):
    """What an await makes ready is registers."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.AwaitOp, rewriter: PatternRewriter) -> None:
        if not any(isinstance(v.type, FragmentType) for v in op.ready):
            return
        emit = Emit()
        ready = [registers_of(emit, v) for v in op.ready]
        emit.op(tile.AwaitOp(op.depth, ready=ready))
        rewriter.replace(op, emit.ops, [])


class LowerWgmmaContract(RewritePattern):
    """A contract by warpgroups: one wgmma for every 16 of k, of f32 8, on descriptors (S9.1).

    A k-major operand advances by 32 bytes in a panel's row, an m- or n-major one by 16 rows of
    its panel.  Warpgroup ``w`` of the op's scope takes rows ``64 w`` and up of the left tile.  A
    fragment on the left is in the accumulator's layout, whose pairs of columns are the
    instruction's registers as they are.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.mma.data != "wgmma":
            return
        if isinstance(op.lhs.type, FragmentType):
            self.from_registers(op, rewriter)
            return
        lhs, rhs = shared_type(op.lhs), shared_type(op.rhs)
        m, n, k = op.sizes
        emit = Emit()
        acc = registers_of(emit, op.acc)
        zero = emit.index(0)
        a_address = emit.value(hw.SharedAddressOp(op.lhs, op.lhs_slot or zero))
        if m > 64:
            thread = thread_in_scope(emit, op)
            group = emit.value(
                hw.WarpUniformOp(emit.apply(affine_dim(0) // 128, [thread])), "warpgroup"
            )
            offset = emit.apply(affine_dim(0) * self.group_bytes(lhs, op.lhs_k_major), [group])
            below = emit.value(arith.IndexCastOp(offset, i32))
            a_address = emit.value(arith.AddiOp(a_address, below))
        b_address = emit.value(hw.SharedAddressOp(op.rhs, op.rhs_slot or zero))
        a = emit.value(self.descriptor(a_address, lhs, op.lhs_k_major), "a")
        b = emit.value(self.descriptor(b_address, rhs, op.rhs_k_major), "b")
        for step in range(k * element_bytes(lhs.element_type) // STEP_BYTES):
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
                    clear=step == 0 and op.clear is not None,
                )
            )
        rewriter.replace(op, emit.ops, [None] * len(op.results))

    def from_registers(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        """Pairs of the left fragment's registers are words, of f32 single ones; four of them are an
        operand."""
        rhs = shared_type(op.rhs)
        _, n, k = op.sizes
        emit = Emit()
        acc = registers_of(emit, op.acc)
        words = registers_of(emit, op.lhs) if op.is_tf32 else words_of(emit, op.lhs)
        b_address = emit.value(hw.SharedAddressOp(op.rhs, op.rhs_slot or emit.index(0)))
        b = emit.value(self.descriptor(b_address, rhs, op.rhs_k_major), "b")
        for step in range(k * element_bytes(rhs.element_type) // STEP_BYTES):
            emit.op(
                hw.WgmmaRegistersOp(
                    words,
                    b,
                    acc,
                    n,
                    rhs.element_type,
                    4 * step,
                    self.k_bytes(rhs, op.rhs_k_major, step),
                    transpose_b=not op.rhs_k_major,
                    clear=step == 0 and op.clear is not None,
                )
            )
        rewriter.replace(op, emit.ops, [None] * len(op.results))

    @staticmethod
    def descriptor(address: SSAValue, kind: SharedType, k_major: bool) -> hw.WgmmaDescriptorOp:
        span = kind.swizzle_bytes or 0
        # Only an operand that is wider than a panel steps by the leading offset.
        leading = 16 if k_major else kind.panel_bytes
        return hw.WgmmaDescriptorOp(address, leading, ROWS_PER_ATOM * span, span)

    @staticmethod
    def k_bytes(kind: SharedType, k_major: bool, step: int) -> int:
        """Bytes from the tile's start to the ``step``-th 16 of k, of f32 8."""
        span = kind.swizzle_bytes or 0
        if not k_major:
            return step * K_STEP * span
        linear = step * STEP_BYTES
        return linear // span * kind.panel_bytes + linear % span

    @staticmethod
    def group_bytes(kind: SharedType, k_major: bool) -> int:
        """Bytes from one warpgroup's 64 rows of the left tile to the next one's."""
        span = kind.swizzle_bytes or 0
        if k_major:
            return 64 * span
        return 64 // kind.panel_columns * kind.panel_bytes


def clear_registers(emit: Emit, registers: SSAValue) -> None:
    """Set a thread's accumulators to 0."""
    zero = emit.zero_f32()
    emit.loop(
        register_count(registers.type) or 0,
        lambda body, r: body.ops.append(memref.StoreOp.get(zero, registers, [r])),
        unroll=True,
        hint="r",
    )


def sharing(op: tile.ContractOp) -> list[tile.ContractOp]:
    """A contract and those that follow it at once with the same left tile and as many buffers.

    They are of warps that have the same rows and as many columns, and are nobody's to await.
    """
    found = [op]
    following = op.next_op
    while isinstance(following, tile.ContractOp) and not op.results and not following.results:
        same = (following.lhs, following.lhs_slot) == (op.lhs, op.lhs_slot)
        alike = [
            (one.mma, one.lhs_map, one.warp_tile, one.sizes, one.buffers) for one in (op, following)
        ]
        if not same or alike[0] != alike[1] or following.acc in [one.acc for one in found]:
            break
        found.append(following)
        following = following.next_op
    return found


class LowerMmaSyncContract(RewritePattern):
    """A contract by warps: ldmatrix both operands, then m16n8k16, for every 16 of k (S9.1).

    A left operand may be a fragment in the accumulator's layout.  One buffer of registers takes
    every step's operands; ``gpu-double-buffer-fragments`` is for
    contracts that should load ahead.  Contracts that follow one another and have the left operand
    of a shared tile alike load it once (``sharing``).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        if op.mma.data != "mma.sync":
            return
        if isinstance(op.lhs.type, FragmentType):
            self.from_registers(op, rewriter)
            return
        element = shared_type(op.lhs).element_type
        _, n, k = op.sizes
        wm, wn = op.warp_sizes
        emit = Emit()
        group = sharing(op)
        accs = [registers_of(emit, one.acc) for one in group]
        for one, acc in zip(group, accs, strict=True):
            if one.clear is not None:
                clear_registers(emit, acc)
        place = WarpPart.of(emit, op, n, (wm, wn))
        zero = emit.index(0)
        of_a, of_b = operand_registers((wm, wn), element)
        a = emit.registers(of_a, i32, "a")
        b = emit.registers(of_b, i32, "b")

        def step(inner: Emit, kk: SSAValue) -> None:
            slot, left = op.lhs_slot or zero, op.lhs_k_major
            load_operand(inner, op.lhs, slot, place, kk, a, wm // 16, lhs=True, k_major=left)
            for one, acc in zip(group, accs, strict=True):
                slot, right = one.rhs_slot or zero, one.rhs_k_major
                load_operand(inner, one.rhs, slot, place, kk, b, wn // 16, lhs=False, k_major=right)
                multiply_step(inner, a, b, acc, (wm, wn), element)

        emit.loop(k // K_STEP, step, unroll=True, hint="kk")
        rewriter.replace(op, emit.ops, [None] * len(op.results))
        for one in group[1:]:
            rewriter.erase(one)

    @staticmethod
    def from_registers(op: tile.ContractOp, rewriter: PatternRewriter) -> None:
        """The left fragment's pairs of registers are the operand's words as they are.

        An accumulator has two words, eight rows apart, for eight columns; the operand of a step
        over k is those of sixteen columns.
        """
        element = shared_type(op.rhs).element_type
        _, n, k = op.sizes
        wm, wn = op.warp_sizes
        emit = Emit()
        acc = registers_of(emit, op.acc)
        if op.clear is not None:
            clear_registers(emit, acc)
        words = words_of(emit, op.lhs)
        place = WarpPart.of(emit, op, n, (wm, wn))
        b = emit.registers(operand_registers((wm, wn), element)[1], i32, "b")
        slot = op.rhs_slot or emit.index(0)
        for step in range(k // K_STEP):
            load_operand(
                emit,
                op.rhs,
                slot,
                place,
                emit.index(step),
                b,
                wn // 16,
                lhs=False,
                k_major=op.rhs_k_major,
            )
            multiply_step(
                emit, words, b, acc, (wm, wn), element, a_offset=4 * step, a_stride=k // 4
            )
        rewriter.replace(op, emit.ops, [None] * len(op.results))


class LowerFragment(RewritePattern):
    """A fragment becomes the registers of one thread; one that only spread a map is gone.

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
        if op.fragment.first_use is None:
            rewriter.erase(op)
            return
        emit = Emit()
        held = registers_type(op.fragment)
        memref = emit.registers(held.get_shape()[0], held.element_type, op.fragment.name_hint)
        for use in list(op.fragment.uses):
            if not isinstance(use.operation, UnrealizedConversionCastOp):
                raise PolycError(
                    "NotLowered", f"{use.operation.name} still uses a fragment", use.operation
                )
            rewriter.replace(use.operation, [], [memref])
        rewriter.replace(op, emit.ops, [None])
