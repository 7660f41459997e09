"""Hardware level: ldmatrix, mma.sync and wgmma.

Source: PTX ISA sections 9.7.15 (mma) and 9.7.16 (wgmma).
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    IndexType,
    MemRefType,
    UnitAttr,
    f32,
    i32,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import (
    I32,
    I64,
    verify_k_major,
    verify_operand_element,
    verify_registers,
)
from polyc.dialects.gpu.types import (
    IndexAttr,
    index_attr,
    register_count,
)


@irdl_op_definition
class LdmatrixOp(IRDLOperation):
    """Load four 8x8 blocks of 16-bit elements into ``registers[offset .. offset + 3]``.

    Lane ``l`` gives the address of row ``l mod 8`` of block ``l / 8``; with ``transpose``
    each block arrives transposed.
    """

    name = "gpu.ldmatrix"
    address = operand_def(I32)
    registers = operand_def(base(MemRefType))
    offset = operand_def(IndexType)
    transpose = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "(`transpose` $transpose^)? $address `to` $registers `[` $offset `]` attr-dict "
        "`:` type($registers)"
    )

    def __init__(
        self, address: SSAValue, registers: SSAValue, offset: SSAValue, transpose: bool = False
    ) -> None:
        super().__init__(
            operands=[address, registers, offset],
            properties={"transpose": UnitAttr() if transpose else None},
        )

    def verify_(self) -> None:
        verify_registers(self.registers, "the destination of ldmatrix", i32)


@irdl_op_definition
class StmatrixOp(IRDLOperation):
    """Store four 8x8 blocks of 16-bit elements from ``registers[offset .. offset + 3]`` (SM90).

    The inverse of ``gpu.ldmatrix``: lane ``l`` gives the address of row ``l mod 8`` of block
    ``l / 8``; with ``transpose`` each block is stored transposed.
    """

    name = "gpu.stmatrix"
    registers = operand_def(base(MemRefType))
    offset = operand_def(IndexType)
    address = operand_def(I32)
    transpose = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "(`transpose` $transpose^)? $registers `[` $offset `]` `to` $address attr-dict "
        "`:` type($registers)"
    )

    def __init__(
        self, registers: SSAValue, offset: SSAValue, address: SSAValue, transpose: bool = False
    ) -> None:
        super().__init__(
            operands=[registers, offset, address],
            properties={"transpose": UnitAttr() if transpose else None},
        )

    def verify_(self) -> None:
        verify_registers(self.registers, "the source of stmatrix", i32)


@irdl_op_definition
class MmaSyncOp(IRDLOperation):
    """``acc += a · b`` for m16n8k16 by one warp (``mma.sync``; row-major a, column-major b).

    ``a`` is four i32 registers from ``a_offset``, ``b`` two from ``b_offset``, ``acc`` four
    f32 from ``acc_offset``; ``element`` is the operands' type, f16 or bf16.
    """

    name = "gpu.mma_sync"
    a = operand_def(base(MemRefType))
    a_offset = operand_def(IndexType)
    b = operand_def(base(MemRefType))
    b_offset = operand_def(IndexType)
    acc = operand_def(base(MemRefType))
    acc_offset = operand_def(IndexType)
    element = prop_def(AnyAttr())
    assembly_format = (
        "$a `[` $a_offset `]` `,` $b `[` $b_offset `]` `,` $acc `[` $acc_offset `]` "
        "`element` $element attr-dict `:` type($a) `,` type($b) `,` type($acc)"
    )

    def __init__(
        self,
        a: SSAValue,
        a_offset: SSAValue,
        b: SSAValue,
        b_offset: SSAValue,
        acc: SSAValue,
        acc_offset: SSAValue,
        element: Attribute,
    ) -> None:
        super().__init__(
            operands=[a, a_offset, b, b_offset, acc, acc_offset], properties={"element": element}
        )

    def verify_(self) -> None:
        verify_registers(self.a, "operand a of mma", i32)
        verify_registers(self.b, "operand b of mma", i32)
        verify_registers(self.acc, "the accumulator of mma", f32)
        verify_operand_element(self.element)


@irdl_op_definition
class WgmmaDescriptorOp(IRDLOperation):
    """The 64-bit matrix descriptor of a shared operand that starts at ``address``.

    ``leading`` and ``stride`` are the byte offsets that the PTX ISA calls leading and stride
    dimension byte offset; ``swizzle`` is the pattern's span in bytes.
    """

    name = "gpu.wgmma_descriptor"
    address = operand_def(I32)
    leading = prop_def(IndexAttr)
    stride = prop_def(IndexAttr)
    swizzle = prop_def(IndexAttr)
    result = result_def(I64)
    traits = traits_def(Pure())
    assembly_format = "$address `leading` $leading `stride` $stride `swizzle` $swizzle attr-dict"

    def __init__(self, address: SSAValue, leading: int, stride: int, swizzle: int) -> None:
        super().__init__(
            operands=[address],
            properties={
                "leading": index_attr(leading),
                "stride": index_attr(stride),
                "swizzle": index_attr(swizzle),
            },
            result_types=[i64],
        )

    def verify_(self) -> None:
        for what, value in (
            ("leading", self.leading.value.data),
            ("stride", self.stride.value.data),
        ):
            if value % 16 or not 0 <= value < 1 << 18:
                raise VerifyException(
                    f"the {what} offset is a multiple of 16 below 2^18, not {value}"
                )
        if self.swizzle.value.data not in (0, 32, 64, 128):
            raise VerifyException(
                f"a swizzle is 0, 32, 64 or 128 bytes, not {self.swizzle.value.data}"
            )


@irdl_op_definition
class WgmmaOp(IRDLOperation):
    """``acc += a · b`` for m64nNk16 by one warpgroup, asynchronously (``wgmma.mma_async``).

    Of ``element`` f32 it is m64nNk8 of TF32: of each number the sign, the exponent and the upper
    10 bits of the mantissa count, and both operands are stored along k.

    ``a`` and ``b`` are descriptors advanced by ``a_offset`` and ``b_offset`` bytes; ``acc`` is
    N/2 f32 registers a thread, from register ``0``.  ``transpose_a`` and ``transpose_b`` say
    that the operand is stored M-major or N-major.  With ``clear`` it is ``acc = a · b``: what the
    registers held does not count (scale-d of 0).
    """

    name = "gpu.wgmma"
    a = operand_def(I64)
    b = operand_def(I64)
    acc = operand_def(base(MemRefType))
    a_offset = prop_def(IndexAttr)
    b_offset = prop_def(IndexAttr)
    n = prop_def(IndexAttr)
    element = prop_def(AnyAttr())
    transpose_a = opt_prop_def(UnitAttr)
    transpose_b = opt_prop_def(UnitAttr)
    clear = opt_prop_def(UnitAttr)
    assembly_format = (
        "`n` $n $a `plus` $a_offset (`transpose_a` $transpose_a^)? `,` $b `plus` $b_offset "
        "(`transpose_b` $transpose_b^)? `,` $acc (`clear` $clear^)? `element` $element attr-dict "
        "`:` type($acc)"
    )

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue,
        n: int,
        element: Attribute,
        a_offset: int = 0,
        b_offset: int = 0,
        transpose_a: bool = False,
        transpose_b: bool = False,
        clear: bool = False,
    ) -> None:
        super().__init__(
            operands=[a, b, acc],
            properties={
                "n": index_attr(n),
                "a_offset": index_attr(a_offset),
                "b_offset": index_attr(b_offset),
                "element": element,
                "transpose_a": UnitAttr() if transpose_a else None,
                "transpose_b": UnitAttr() if transpose_b else None,
                "clear": UnitAttr() if clear else None,
            },
        )

    def verify_(self) -> None:
        _verify_wgmma(self.n.value.data, self.acc)
        for offset in (self.a_offset.value.data, self.b_offset.value.data):
            if offset % 16 or offset < 0:
                raise VerifyException(f"a descriptor advances by multiples of 16, not {offset}")
        transposed = self.transpose_a is not None or self.transpose_b is not None
        verify_k_major(self.element, transposed)


def _verify_wgmma(n: int, acc: SSAValue) -> None:
    if n % 8 or not 8 <= n <= 256:
        raise VerifyException(f"wgmma's N is 8 to 256 in steps of 8, not {n}")
    verify_registers(acc, "the accumulator of wgmma", f32)
    if register_count(acc.type) != n // 2:
        raise VerifyException(
            f"m64n{n}k16 accumulates in {n // 2} registers a thread, not {acc.type}"
        )


@irdl_op_definition
class WgmmaRegistersOp(IRDLOperation):
    """``gpu.wgmma`` with the left operand in registers (PTX ISA 9.7.16.5.1).

    ``a`` is i32 registers, of which four from ``a_register`` on hold the thread's 64 x 16 part as
    pairs of k, the lower one in the lower half: row ``lane / 4`` of the warp's 16 rows at k of
    ``2 (lane mod 4)``, the row 8 further, and both again 8 of k further.  They must not change
    until the wait for the instruction.

    Of ``element`` f32 it is m64nNk8 of TF32, and ``a`` is f32 registers of one number each: row
    ``lane / 4`` at k of ``lane mod 4``, the row 8 further, and both again 4 of k further.
    """

    name = "gpu.wgmma_registers"
    a = operand_def(base(MemRefType))
    b = operand_def(I64)
    acc = operand_def(base(MemRefType))
    a_register = prop_def(IndexAttr)
    b_offset = prop_def(IndexAttr)
    n = prop_def(IndexAttr)
    element = prop_def(AnyAttr())
    transpose_b = opt_prop_def(UnitAttr)
    clear = opt_prop_def(UnitAttr)
    assembly_format = (
        "`n` $n $a `from` $a_register `,` $b `plus` $b_offset (`transpose_b` $transpose_b^)? `,` "
        "$acc (`clear` $clear^)? `element` $element attr-dict `:` type($a) `,` type($acc)"
    )

    def __init__(
        self,
        a: SSAValue,
        b: SSAValue,
        acc: SSAValue,
        n: int,
        element: Attribute,
        a_register: int = 0,
        b_offset: int = 0,
        transpose_b: bool = False,
        clear: bool = False,
    ) -> None:
        super().__init__(
            operands=[a, b, acc],
            properties={
                "n": index_attr(n),
                "a_register": index_attr(a_register),
                "b_offset": index_attr(b_offset),
                "element": element,
                "transpose_b": UnitAttr() if transpose_b else None,
                "clear": UnitAttr() if clear else None,
            },
        )

    def verify_(self) -> None:
        _verify_wgmma(self.n.value.data, self.acc)
        held = f32 if self.element == f32 else i32
        verify_registers(self.a, "the left operand of wgmma", held)
        count, first = register_count(self.a.type) or 0, self.a_register.value.data
        if first < 0 or first + 4 > count:
            raise VerifyException(f"wgmma takes 4 registers from {first} on, and there are {count}")
        offset = self.b_offset.value.data
        if offset % 16 or offset < 0:
            raise VerifyException(f"a descriptor advances by multiples of 16, not {offset}")
        verify_k_major(self.element, self.transpose_b is not None)


@irdl_op_definition
class WgmmaFenceOp(IRDLOperation):
    """Order the warpgroup's register accesses before its next wgmma (``wgmma.fence``)."""

    name = "gpu.wgmma_fence"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class RegisterFenceOp(IRDLOperation):
    """Registers hold what the program says at this point.

    wgmma writes accumulators behind the compiler's back; this keeps it from moving their
    reads and writes across.  It costs no instruction, but inside a pipeline of wgmma it makes
    ptxas serialise them (its message C7515).
    """

    name = "gpu.register_fence"
    registers = operand_def(base(MemRefType))
    assembly_format = "$registers attr-dict `:` type($registers)"

    def __init__(self, registers: SSAValue) -> None:
        super().__init__(operands=[registers])

    def verify_(self) -> None:
        verify_registers(self.registers, "what a register fence settles", f32)


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """Close the warpgroup's current group of wgmma."""

    name = "gpu.wgmma_commit"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Wait until at most ``pending`` of the newest wgmma groups are unfinished."""

    name = "gpu.wgmma_wait"
    pending = prop_def(IndexAttr)
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": index_attr(pending)})

    def verify_(self) -> None:
        if not 0 <= self.pending.value.data <= 7:
            raise VerifyException(f"wgmma waits for 0 to 7 groups, not {self.pending.value.data}")
