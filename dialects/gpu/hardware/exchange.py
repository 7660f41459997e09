"""Hardware level: values between lanes, and atomic updates of memory.

Source: PTX ISA sections 9.7.9 (shfl), 9.7.13 (vote) and 9.7.14 (atom, red).
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I1, IndexType, StringAttr, UnitAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import I32, verify_global_vector, verify_indices
from polyc.dialects.gpu.types import GlobalType, IndexAttr, index_attr

SHUFFLES = ("xor", "up", "down", "index")
"""How a lane names the lane that it reads from."""

ATOMICS = ("add", "max", "min", "umax")
"""Read-modify-write functions; on f32 only add, on i64 add and umax, in global memory."""


@irdl_op_definition
class ShuffleOp(IRDLOperation):
    """The value that another lane of the warp holds (``shfl.sync`` over all 32 lanes).

    ``lane`` is an XOR mask (``xor``), a distance (``up``, ``down``) or a lane (``index``).  Where
    ``up`` or ``down`` leaves the warp, a lane gets its own value.  All lanes must take part.
    """

    name = "gpu.shuffle"
    kind = prop_def(StringAttr)
    value = operand_def()
    lane = operand_def(IndexType)
    result = result_def()
    assembly_format = "$kind $value `,` $lane attr-dict `:` type($value) `->` type($result)"

    def __init__(self, kind: str, value: SSAValue, lane: SSAValue) -> None:
        super().__init__(
            operands=[value, lane],
            properties={"kind": StringAttr(kind)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        if self.kind.data not in SHUFFLES:
            raise VerifyException(f'a shuffle is {", ".join(SHUFFLES)}, not "{self.kind.data}"')
        if str(self.value.type) not in ("f32", "i32", "i64") or self.result.type != self.value.type:
            raise VerifyException(
                f"a shuffle moves one f32, i32 or i64, not {self.value.type} to {self.result.type}"
            )


@irdl_op_definition
class MatchLanesOp(IRDLOperation):
    """Which lanes of the warp hold the same low ``bits`` bits of an i32 as this one (``vote``).

    ``%rank, %count, %first = gpu.match_lanes %x bits 8``: how many of them are lanes below this
    one, how many there are, and which is the first, i32.  All lanes must take part.
    """

    name = "gpu.match_lanes"
    value = operand_def(I32)
    bits = prop_def(IndexAttr)
    rank = result_def(I32)
    count = result_def(I32)
    first = result_def(I32)
    assembly_format = "$value `bits` $bits attr-dict"

    def __init__(self, value: SSAValue, bits: int) -> None:
        super().__init__(
            operands=[value],
            properties={"bits": index_attr(bits)},
            result_types=[i32, i32, i32],
        )

    def verify_(self) -> None:
        if not 1 <= (bits := self.bits.value.data) <= 32:
            raise VerifyException(f"lanes match in 1 to 32 bits, not in {bits}")


def _verify_atomic(function: str, element: str, shared: bool = False) -> None:
    if function not in ATOMICS:
        raise VerifyException(f'an atomic is {", ".join(ATOMICS)}, not "{function}"')
    if element == "i64":
        if shared or function not in ("add", "umax"):
            where = "shared" if shared else "global"
            raise VerifyException(
                f"atomic {function} of {where} memory does not work on i64; add and umax do, of "
                "global memory"
            )
        return
    if element not in ("f32", "i32") or (element == "f32" and function != "add"):
        raise VerifyException(f"atomic {function} works on i32 (add also on f32), not {element}")


@irdl_op_definition
class AtomicGlobalOp(IRDLOperation):
    """Update one element of a tensor atomically, with no order between updates (``red``).

    ``umax`` is the maximum as numbers without a sign.
    """

    name = "gpu.atomic_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    function = prop_def(StringAttr)
    value = operand_def()
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$function $value `,` $tensor `[` $indices `:` type($indices) `]` (`if` $predicate^)? "
        "attr-dict `:` type($value) `,` type($tensor)"
    )

    def __init__(
        self,
        function: str,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        predicate: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[value, tensor, list(indices), predicate],
            properties={"function": StringAttr(function)},
        )

    def verify_(self) -> None:
        _verify_atomic(self.function.data, str(self.value.type))
        verify_indices(self.tensor, self.indices)
        verify_global_vector(self.tensor, self.value.type)


@irdl_op_definition
class ExchangeGlobalOp(IRDLOperation):
    """Set one i32 of a tensor atomically, and give what was there (``atom.exch``).

    With ``add`` the value is added to it (``atom.add``).  The order of the threads that set one
    element is not defined; without ``add`` the first of them may find what nobody has set.  Where
    ``predicate`` is given and false nothing is set and the result is zero.
    """

    name = "gpu.exchange_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    value = operand_def(I32)
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    add = opt_prop_def(UnitAttr)
    result = result_def(I32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "(`add` $add^)? $value `,` $tensor `[` $indices `:` type($indices) `]` (`if` $predicate^)? "
        "attr-dict `:` type($tensor)"
    )

    def __init__(
        self,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        predicate: SSAValue | None = None,
        *,
        add: bool = False,
    ) -> None:
        super().__init__(
            operands=[value, tensor, list(indices), predicate],
            properties={"add": UnitAttr() if add else None},
            result_types=[value.type],
        )

    @property
    def adds(self) -> bool:
        """Whether the value is added to what is there."""
        return self.add is not None

    def verify_(self) -> None:
        verify_indices(self.tensor, self.indices)
        verify_global_vector(self.tensor, self.value.type)


@irdl_op_definition
class FetchAddSharedOp(IRDLOperation):
    """Add to the i32 at a shared address atomically, and give what was there (``atom.shared.add``).

    The order of the threads that add is not defined.
    """

    name = "gpu.fetch_add_shared"
    value = operand_def(I32)
    address = operand_def(I32)
    result = result_def(I32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$value `,` $address attr-dict `:` type($result)"

    def __init__(self, value: SSAValue, address: SSAValue) -> None:
        super().__init__(operands=[value, address], result_types=[value.type])


@irdl_op_definition
class AtomicSharedOp(IRDLOperation):
    """Update the 4 bytes at a shared address atomically (``red.shared``)."""

    name = "gpu.atomic_shared"
    function = prop_def(StringAttr)
    value = operand_def()
    address = operand_def(I32)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$function $value `,` $address attr-dict `:` type($value)"

    def __init__(self, function: str, value: SSAValue, address: SSAValue) -> None:
        super().__init__(operands=[value, address], properties={"function": StringAttr(function)})

    def verify_(self) -> None:
        _verify_atomic(self.function.data, str(self.value.type), shared=True)
