"""Tile level: one step over k of a contract of warps, cut into its loads and its products.

A contract loads the operands of 16 of k, with ``fma`` of one, from shared memory into registers and
multiplies them, step by step.  Apart, the loads of one step may run while another one is multiplied
(``gpu-double-buffer-fragments``), and an author may order them by hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import AffineMapAttr, IndexType, MemRefType, UnitAttr, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import verify_operand_element, verify_registers
from polyc.dialects.gpu.tile.compute import (
    LHS_KM,
    LHS_MK,
    RHS_KN,
    RHS_NK,
    fma_lanes,
)
from polyc.dialects.gpu.types import (
    FragmentType,
    IndexAttr,
    IntsAttr,
    SharedType,
    index_attr,
    register_count,
)

STEP = 16
"""What one mma.sync takes of k."""


def step_of(element: Attribute) -> int:
    """What one step takes of k: of f32, which threads multiply, one."""
    return 1 if element == f32 else STEP


def operand_registers(warp_tile: tuple[int, int], element: Attribute) -> tuple[int, int]:
    """32-bit registers of a thread for one step of both operands of a warp's tile.

    Four for 16 rows of the left operand, two for 8 columns of the right one (m16n8k16); of f32 one
    for each row and column that a thread has.
    """
    rows, columns = warp_tile
    if element == f32:
        high, wide = fma_lanes(rows, columns)
        return rows // high, columns // wide
    return rows // 16 * 4, columns // 8 * 2


def buffer_type(element: Attribute) -> Attribute:
    """The registers of operands: of f32 as they are, of 16 bits two in a word."""
    return f32 if element == f32 else i32


@irdl_op_definition
class LoadOperandsOp(IRDLOperation):
    """Load 16 of k of both operands of a contract from shared tiles into registers; of f32 one.

    Of the tiles' k extent it takes elements ``16 step`` to ``16 step + 15``, of f32 ``step``; each
    warp takes the rows and columns of its own ``warp_tile``.  The registers are arrays of i32, of
    f32 for these, that hold one or more buffers, each as long as the warp's tile needs
    (``operand_registers``); ``buffer`` is the one that is written.  Maps and slots are those of
    ``gpu.contract``; operands of f32 are stored ``[k, m]`` and ``[k, n]``, so that a thread loads
    four rows or columns of one k at once.  With ``right`` only the right operand is loaded, as the
    registers of the left one have what another contract of the same step has loaded.
    """

    name = "gpu.load_operands"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    lhs = operand_def(base(SharedType))
    lhs_slot = opt_operand_def(IndexType)
    rhs = operand_def(base(SharedType))
    rhs_slot = opt_operand_def(IndexType)
    lhs_registers = operand_def(base(MemRefType))
    rhs_registers = operand_def(base(MemRefType))
    lhs_map = prop_def(AffineMapAttr)
    rhs_map = prop_def(AffineMapAttr)
    step = prop_def(IndexAttr)
    buffer = prop_def(IndexAttr)
    warp_tile = prop_def(IntsAttr)
    right = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "(`right` $right^)? `step` $step $lhs (`slot` $lhs_slot^)? $lhs_map `,` $rhs "
        "(`slot` $rhs_slot^)? $rhs_map "
        "`to` `buffer` $buffer $lhs_registers `,` $rhs_registers `warp_tile` $warp_tile attr-dict "
        "`:` type($lhs) `,` type($rhs) `,` type($lhs_registers) `,` type($rhs_registers)"
    )

    def __init__(
        self,
        step: int,
        lhs: SSAValue,
        lhs_map: AffineMap,
        rhs: SSAValue,
        rhs_map: AffineMap,
        buffer: int,
        lhs_registers: SSAValue,
        rhs_registers: SSAValue,
        warp_tile: Sequence[int],
        lhs_slot: SSAValue | None = None,
        rhs_slot: SSAValue | None = None,
        right: bool = False,
    ) -> None:
        super().__init__(
            operands=[lhs, lhs_slot, rhs, rhs_slot, lhs_registers, rhs_registers],
            properties={
                "lhs_map": AffineMapAttr(lhs_map),
                "rhs_map": AffineMapAttr(rhs_map),
                "step": index_attr(step),
                "buffer": index_attr(buffer),
                "warp_tile": IntsAttr(tuple(warp_tile)),
                "right": UnitAttr() if right else None,
            },
        )

    @property
    def warp_sizes(self) -> tuple[int, int]:
        m, n = self.warp_tile.data
        return m, n

    @property
    def lhs_k_major(self) -> bool:
        """True where the left tile is stored ``[m, k]``, k contiguous."""
        return self.lhs_map.data == LHS_MK

    @property
    def rhs_k_major(self) -> bool:
        """True where the right tile is stored ``[n, k]``, k contiguous."""
        return self.rhs_map.data == RHS_NK

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The tiles' (m, n, k)."""
        assert isinstance(self.lhs.type, SharedType) and isinstance(self.rhs.type, SharedType)
        m, k = self.lhs.type.sizes if self.lhs_k_major else self.lhs.type.sizes[::-1]
        n = self.rhs.type.sizes[0] if self.rhs_k_major else self.rhs.type.sizes[1]
        return m, n, k

    def verify_(self) -> None:
        lhs, rhs = self.lhs.type, self.rhs.type
        assert isinstance(lhs, SharedType) and isinstance(rhs, SharedType)
        if self.lhs_map.data not in (LHS_MK, LHS_KM) or self.rhs_map.data not in (RHS_KN, RHS_NK):
            raise VerifyException(
                "the maps take (m, n, k) to (m, k) or (k, m) on the left and to (k, n) or (n, k) "
                f"on the right, not {self.lhs_map.data} and {self.rhs_map.data}"
            )
        if len(lhs.sizes) != 2 or len(rhs.sizes) != 2:
            raise VerifyException(f"{lhs} and {rhs} are not two matrices")
        m, n, k = self.sizes
        rhs_k = rhs.sizes[1] if self.rhs_k_major else rhs.sizes[0]
        if rhs_k != k:
            raise VerifyException(f"the operands have {k} and {rhs_k} of k")
        if lhs.element_type != rhs.element_type:
            raise VerifyException(
                f"the operands are of one type, not {lhs.element_type} and {rhs.element_type}"
            )
        element = lhs.element_type
        _verify_element(element)
        if element == f32 and (self.lhs_k_major or self.rhs_k_major):
            raise VerifyException(
                "steps of f32 load neighbouring rows and columns of one k; store the operands "
                "[k, m] and [k, n]"
            )
        _verify_warp_tile(self.warp_tile, m, n, element)
        if element == f32 and self.right is not None:
            raise VerifyException("steps of f32 load both operands; drop right")
        step, steps = self.step.value.data, k // step_of(element)
        if not 0 <= step < steps:
            raise VerifyException(f"{k} of k are steps 0 to {steps - 1}, not {step}")
        _verify_buffer(
            self.buffer, self.warp_sizes, self.lhs_registers, self.rhs_registers, element
        )


@irdl_op_definition
class MultiplyOp(IRDLOperation):
    """``acc += a · b`` for the step of k whose operands ``gpu.load_operands`` left in ``buffer``.

    Together, for every step of the tile's k, the two are a ``gpu.contract`` with ``mma.sync``, or
    with ``fma``; ``element`` is the operands' type, f16 or bf16, or f32.
    """

    name = "gpu.multiply"
    lhs_registers = operand_def(base(MemRefType))
    rhs_registers = operand_def(base(MemRefType))
    acc = operand_def(base(FragmentType))
    buffer = prop_def(IndexAttr)
    warp_tile = prop_def(IntsAttr)
    element = prop_def(AnyAttr())
    assembly_format = (
        "`buffer` $buffer $lhs_registers `,` $rhs_registers `into` $acc `warp_tile` $warp_tile "
        "`element` $element attr-dict "
        "`:` type($lhs_registers) `,` type($rhs_registers) `,` type($acc)"
    )

    def __init__(
        self,
        buffer: int,
        lhs_registers: SSAValue,
        rhs_registers: SSAValue,
        acc: SSAValue,
        warp_tile: Sequence[int],
        element: Attribute,
    ) -> None:
        super().__init__(
            operands=[lhs_registers, rhs_registers, acc],
            properties={
                "buffer": index_attr(buffer),
                "warp_tile": IntsAttr(tuple(warp_tile)),
                "element": element,
            },
        )

    @property
    def warp_sizes(self) -> tuple[int, int]:
        m, n = self.warp_tile.data
        return m, n

    def verify_(self) -> None:
        acc = self.acc.type
        assert isinstance(acc, FragmentType)
        _verify_element(self.element)
        if str(acc.element_type) != "f32" or len(acc.sizes) != 2:
            raise VerifyException(f"the accumulator is a matrix of f32, not {acc}")
        m, n = acc.sizes
        _verify_warp_tile(self.warp_tile, m, n, self.element)
        _verify_buffer(
            self.buffer, self.warp_sizes, self.lhs_registers, self.rhs_registers, self.element
        )


def _verify_element(element: Attribute) -> None:
    if element != f32:
        verify_operand_element(element)


def _verify_warp_tile(warp_tile: IntsAttr, m: int, n: int, element: Attribute) -> None:
    sizes = warp_tile.data
    unit = 1 if element == f32 else 16
    if len(sizes) != 2 or min(sizes) < unit or any(s % unit for s in sizes):
        raise VerifyException(
            f"a warp_tile is [rows, columns], both multiples of {unit}, not {list(sizes)}"
        )
    if element == f32:
        try:
            fma_lanes(*sizes)
        except ValueError as error:
            raise VerifyException(str(error)) from None
    if m % sizes[0] or n % sizes[1]:
        raise VerifyException(f"a tile of {m}x{n} does not split into warp tiles of {list(sizes)}")


def _verify_buffer(
    buffer: IndexAttr,
    warp_tile: tuple[int, int],
    lhs: SSAValue,
    rhs: SSAValue,
    element: Attribute,
) -> None:
    number, kind = buffer.value.data, buffer_type(element)
    for registers, needed, side in zip(
        (lhs, rhs), operand_registers(warp_tile, element), ("left", "right"), strict=True
    ):
        verify_registers(registers, f"the {side} operand's buffers", kind)
        held = register_count(registers.type)
        if number < 0 or held is None or (number + 1) * needed > held:
            raise VerifyException(
                f"buffer {number} of {needed} registers is outside the {side} operand's {held}"
            )
