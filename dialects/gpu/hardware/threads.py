"""Hardware level: who runs, where its data lies, and how it packs registers."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I1,
    IndexType,
    VectorType,
    i1,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryAllocEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import (
    I32,
    scalar_type,
    vector_length,
)
from polyc.dialects.gpu.types import (
    IndexAttr,
    SharedType,
    index_attr,
    vector_of,
)
from polyc.dialects.gpu.waiting import MBarrierType


@irdl_op_definition
class ThreadIdOp(IRDLOperation):
    """Linear index of the thread in its CTA (``%tid.x``)."""

    name = "gpu.thread_id"
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class BlockIdOp(IRDLOperation):
    """Linear index of the CTA in the grid (``%ctaid.x``)."""

    name = "gpu.block_id"
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class GridSizeOp(IRDLOperation):
    """How many CTAs the launch has (``%nctaid.x``)."""

    name = "gpu.grid_size"
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class WarpUniformOp(IRDLOperation):
    """The same value, stated to be equal in all lanes of a warp (a shuffle from lane 0).

    It lets the compiler keep role and warp indices in uniform registers.
    """

    name = "gpu.warp_uniform"
    value = operand_def(IndexType)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict"

    def __init__(self, value: SSAValue | Operation) -> None:
        super().__init__(operands=[value], result_types=[IndexType()])


@irdl_op_definition
class OpaqueOp(IRDLOperation):
    """The same value, as one that the compiler of CUDA knows nothing of.

    It computes anew what follows from it, where it would else keep what it computed before: in a
    branch that is seldom taken, behind a loop that needs the registers.
    """

    name = "gpu.opaque"
    value = operand_def(IndexType)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$value attr-dict"

    def __init__(self, value: SSAValue | Operation) -> None:
        super().__init__(operands=[value], result_types=[IndexType()])


@irdl_op_definition
class ElectOp(IRDLOperation):
    """True in exactly one lane of the converged warp (``elect.sync``; SM90)."""

    name = "gpu.elect"
    result = result_def(I1)
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[i1])


@irdl_op_definition
class SharedTileOp(IRDLOperation):
    """A shared tile (or a ring of them) at byte ``offset`` of the CTA's dynamic shared memory.

    The offset is absent until ``gpu-plan-shared-memory`` places it.  Two of these are two
    places, however alike they read.
    """

    name = "gpu.shared_tile"
    offset = opt_prop_def(IndexAttr)
    tile = result_def(base(SharedType))
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "(`at` $offset^)? attr-dict `:` type($tile)"

    def __init__(self, tile_type: SharedType, offset: int | None = None) -> None:
        super().__init__(
            properties={"offset": None if offset is None else index_attr(offset)},
            result_types=[tile_type],
        )


@irdl_op_definition
class MBarrierOp(IRDLOperation):
    """An array of mbarriers at byte ``offset`` of the CTA's dynamic shared memory.

    Two of these are two arrays, however alike they read.
    """

    name = "gpu.mbarrier"
    offset = opt_prop_def(IndexAttr)
    barrier = result_def(base(MBarrierType))
    traits = traits_def(MemoryAllocEffect())
    assembly_format = "(`at` $offset^)? attr-dict `:` type($barrier)"

    def __init__(self, count: int, offset: int | None = None) -> None:
        super().__init__(
            properties={"offset": None if offset is None else index_attr(offset)},
            result_types=[MBarrierType.of(count)],
        )


@irdl_op_definition
class SharedAddressOp(IRDLOperation):
    """Shared address of slot ``slot`` of a tile's ring."""

    name = "gpu.shared_address"
    tile = operand_def(base(SharedType))
    slot = operand_def(IndexType)
    result = result_def(I32)
    traits = traits_def(Pure())
    assembly_format = "$tile `[` $slot `]` attr-dict `:` type($tile)"

    def __init__(self, tile: SSAValue | Operation, slot: SSAValue | Operation) -> None:
        super().__init__(operands=[tile, slot], result_types=[i32])


@irdl_op_definition
class PackOp(IRDLOperation):
    """A vector from scalars, element 0 in the lowest bits."""

    name = "gpu.pack"
    values = var_operand_def()
    result = result_def(base(VectorType))
    traits = traits_def(Pure())
    assembly_format = "$values attr-dict `:` type($values) `->` type($result)"

    def __init__(self, values: Sequence[SSAValue], result_type: Attribute | None = None) -> None:
        vector = result_type or vector_of(values[0].type, len(values))
        super().__init__(operands=[list(values)], result_types=[vector])

    def verify_(self) -> None:
        vector = self.result.type
        if vector_length(vector) != len(self.values) or any(
            v.type != scalar_type(vector) for v in self.values
        ):
            given = ", ".join(str(v.type) for v in self.values)
            raise VerifyException(f"({given}) does not pack into {vector}")


@irdl_op_definition
class UnpackOp(IRDLOperation):
    """Element ``index`` of a vector."""

    name = "gpu.unpack"
    vector = operand_def(base(VectorType))
    index = prop_def(IndexAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$vector `element` $index attr-dict `:` type($vector) `->` type($result)"

    def __init__(self, vector: SSAValue, index: int) -> None:
        super().__init__(
            operands=[vector],
            properties={"index": index_attr(index)},
            result_types=[scalar_type(vector.type)],
        )

    def verify_(self) -> None:
        vector = self.vector.type
        count = vector_length(vector)
        if not 0 <= self.index.value.data < count or self.result.type != scalar_type(vector):
            raise VerifyException(
                f"element {self.index.value.data} of {vector} is not a {self.result.type}"
            )
