"""Hardware level: global and shared memory, cp.async and TMA.

Sources: PTX ISA sections 9.7.9 (data movement), S9.1, S9.3.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    I1,
    FloatAttr,
    IndexType,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import Attribute, SSAValue
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
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu.hardware.checks import (
    I32,
    access_bytes,
    verify_box,
    verify_cache_hint,
    verify_global_vector,
    verify_indices,
    verify_multicast,
    verify_pending,
    verify_width,
)
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.types import (
    GlobalType,
    IndexAttr,
    TensorMapType,
    element_bytes,
    index_attr,
)
from polyc.dialects.gpu.waiting import MBarrierType


@irdl_op_definition
class LoadGlobalOp(IRDLOperation):
    """Load one element or a vector of consecutive elements.

    Where ``predicate`` is given and false nothing is read and the result is ``fill``, a number of
    the tensor's element type in each element; zero without one.  A tensor that the kernel never
    stores to is read as read-only data (``ld.global.nc``).  ``cache`` is a hint for the L2 cache
    (``CACHE_HINTS``).
    """

    name = "gpu.load_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    fill = opt_prop_def(base(FloatAttr) | base(IntegerAttr))
    cache = opt_prop_def(StringAttr)
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$tensor `[` $indices `:` type($indices) `]` (`if` $predicate^)? (`else` $fill^)? "
        "(`cache` $cache^)? attr-dict `:` type($tensor) `->` type($result)"
    )

    def __init__(
        self,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        result_type: Attribute,
        predicate: SSAValue | None = None,
        fill: Attribute | None = None,
        cache: StringAttr | None = None,
    ) -> None:
        super().__init__(
            operands=[tensor, list(indices), predicate],
            result_types=[result_type],
            properties={"fill": fill, "cache": cache},
        )

    def verify_(self) -> None:
        verify_indices(self.tensor, self.indices)
        verify_global_vector(self.tensor, self.result.type)
        if self.cache is not None:
            verify_cache_hint(self.cache)
        if self.fill is not None:
            assert isinstance(self.tensor.type, GlobalType)
            element = without_sign(self.tensor.type.element_type)
            if self.fill.type != element or element == i1:
                raise VerifyException(
                    f"what a load has where it reads nothing is {self.fill.type}; the elements of "
                    f"{self.tensor.type} are {element}, of which a number that is no condition"
                )


@irdl_op_definition
class StoreGlobalOp(IRDLOperation):
    """Store one element or a vector of consecutive elements, if ``predicate`` holds.

    ``aligned`` is the author's word that the address is a multiple of so many bytes, where the
    tensor's rows are not.
    """

    name = "gpu.store_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    value = operand_def()
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    aligned = opt_prop_def(IndexAttr)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $tensor `[` $indices `:` type($indices) `]` (`if` $predicate^)? "
        "(`aligned` $aligned^)? attr-dict `:` type($value) `,` type($tensor)"
    )

    def __init__(
        self,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        predicate: SSAValue | None = None,
        aligned: int | None = None,
    ) -> None:
        super().__init__(
            operands=[value, tensor, list(indices), predicate],
            properties={"aligned": None if aligned is None else index_attr(aligned)},
        )

    def verify_(self) -> None:
        verify_indices(self.tensor, self.indices)
        verify_global_vector(self.tensor, self.value.type, self.promised)

    @property
    def promised(self) -> int:
        """Bytes that the author says the address is a multiple of; 0 where nothing is said."""
        return 0 if self.aligned is None else self.aligned.value.data


@irdl_op_definition
class AddressRemainderOp(IRDLOperation):
    """How many bytes a tensor's first element lies behind a multiple of ``of``, a power of two."""

    name = "gpu.address_remainder"
    tensor = operand_def(base(GlobalType))
    of = prop_def(IndexAttr)
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "$tensor `of` $of attr-dict `:` type($tensor)"

    def __init__(self, tensor: SSAValue, of: int) -> None:
        super().__init__(
            operands=[tensor], properties={"of": index_attr(of)}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        if (of := self.of.value.data) < 1 or of & (of - 1):
            raise VerifyException(f"an address is a multiple of powers of two, not of {of}")


@irdl_op_definition
class LoadSharedOp(IRDLOperation):
    """Load a scalar or vector at a shared address, aligned to its own size."""

    name = "gpu.load_shared"
    address = operand_def(I32)
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$address attr-dict `:` type($result)"

    def __init__(self, address: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[address], result_types=[result_type])

    def verify_(self) -> None:
        verify_width("a shared access", access_bytes(self.result.type))


@irdl_op_definition
class StoreSharedOp(IRDLOperation):
    """Store a scalar or vector at a shared address, aligned to its own size."""

    name = "gpu.store_shared"
    value = operand_def()
    address = operand_def(I32)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $address attr-dict `:` type($value)"

    def __init__(self, value: SSAValue, address: SSAValue) -> None:
        super().__init__(operands=[value, address])

    def verify_(self) -> None:
        verify_width("a shared access", access_bytes(self.value.type))


@irdl_op_definition
class CpAsyncOp(IRDLOperation):
    """Asynchronous copy of ``bytes`` (4, 8, 16) from global to shared memory (SM80).

    Where ``predicate`` is false the destination is filled with zeros and nothing is read.
    """

    name = "gpu.cp_async"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    address = operand_def(I32)
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    bytes = prop_def(IndexAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$address `,` $tensor `[` $indices `:` type($indices) `]` `bytes` $bytes "
        "(`if` $predicate^)? attr-dict `:` type($tensor)"
    )

    def __init__(
        self,
        address: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        bytes: int,
        predicate: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[address, tensor, list(indices), predicate],
            properties={"bytes": index_attr(bytes)},
        )

    def verify_(self) -> None:
        verify_indices(self.tensor, self.indices)
        assert isinstance(self.tensor.type, GlobalType)
        known = max(self.tensor.type.align.data, element_bytes(self.tensor.type.element_type))
        size = self.bytes.value.data
        if size not in (4, 8, 16):
            raise VerifyException(f"cp.async copies 4, 8 or 16 bytes, not {size}")
        if size > known:
            raise VerifyException(
                f"cp.async of {size} bytes needs rows aligned to {size}; {self.tensor.type} "
                f"promises {known}: use a narrower copy or the register loader"
            )


@irdl_op_definition
class CpAsyncCommitOp(IRDLOperation):
    """Close the thread's current cp.async group."""

    name = "gpu.cp_async_commit"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class CpAsyncWaitOp(IRDLOperation):
    """Wait until at most ``pending`` of the thread's newest groups are unfinished."""

    name = "gpu.cp_async_wait"
    pending = prop_def(IndexAttr)
    assembly_format = "$pending attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": index_attr(pending)})

    def verify_(self) -> None:
        verify_pending("groups", self.pending)


@irdl_op_definition
class PrefetchTensorMapOp(IRDLOperation):
    """Bring a tensor map into the descriptor cache."""

    name = "gpu.prefetch_tensor_map"
    map = operand_def(base(TensorMapType) | base(Im2colMapType))
    assembly_format = "$map attr-dict `:` type($map)"

    def __init__(self, map: SSAValue) -> None:
        super().__init__(operands=[map])


@irdl_op_definition
class TmaLoadOp(IRDLOperation):
    """Copy one box to ``address``; its bytes complete on barrier ``index`` of ``barrier``.

    ``coordinates`` are the box's first element in the tensor's own axis order; elements
    outside the tensor arrive as zeros, and count as bytes all the same.

    With ``multicast`` the box goes to every CTA of the cluster whose bit is set in the mask (an
    i32, bit ``r`` is CTA ``r``): to the same shared address there, and its bytes complete on
    the barrier at the same place there.  Each of these CTAs must expect them.  ``cache`` is a hint
    for the L2 cache (``CACHE_HINTS``).
    """

    name = "gpu.tma_load"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    map = operand_def(base(TensorMapType))
    coordinates = var_operand_def(IndexType)
    address = operand_def(I32)
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    mask = opt_operand_def(I32)
    cache = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$map `[` $coordinates `]` `to` $address `,` $barrier `[` $index `]` "
        "(`multicast` $mask^)? (`cache` $cache^)? attr-dict `:` type($map) `,` type($barrier)"
    )

    def __init__(
        self,
        map: SSAValue,
        coordinates: Sequence[SSAValue],
        address: SSAValue,
        barrier: SSAValue,
        index: SSAValue,
        mask: SSAValue | None = None,
        cache: str | None = None,
    ) -> None:
        super().__init__(
            operands=[map, list(coordinates), address, barrier, index, mask],
            properties={"cache": None if cache is None else StringAttr(cache)},
        )

    def verify_(self) -> None:
        verify_box(self.map, self.coordinates)
        if self.mask is not None:
            verify_multicast(self, self.mask)
        if self.cache is not None:
            verify_cache_hint(self.cache)


@irdl_op_definition
class TmaStoreOp(IRDLOperation):
    """Copy one box from ``address`` to the tensor, asynchronously, in the thread's bulk group.

    ``coordinates`` are as for ``gpu.tma_load``; elements outside the tensor are not written.
    What the box reads must have been made visible to the async proxy.
    """

    name = "gpu.tma_store"
    address = operand_def(I32)
    map = operand_def(base(TensorMapType))
    coordinates = var_operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$address `to` $map `[` $coordinates `]` attr-dict `:` type($map)"

    def __init__(self, address: SSAValue, map: SSAValue, coordinates: Sequence[SSAValue]) -> None:
        super().__init__(operands=[address, map, list(coordinates)])

    def verify_(self) -> None:
        verify_box(self.map, self.coordinates)


@irdl_op_definition
class BulkCommitOp(IRDLOperation):
    """Close the thread's current group of bulk stores."""

    name = "gpu.bulk_commit"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class BulkWaitOp(IRDLOperation):
    """Wait until at most ``pending`` of the thread's newest bulk groups are unfinished.

    With ``read`` it waits only until they have read their shared memory, which may then be
    overwritten; without it, until their writes are done.
    """

    name = "gpu.bulk_wait"
    pending = prop_def(IndexAttr)
    read = opt_prop_def(UnitAttr)
    assembly_format = "(`read` $read^)? $pending attr-dict"

    def __init__(self, pending: int, read: bool = False) -> None:
        super().__init__(
            properties={
                "pending": index_attr(pending),
                "read": UnitAttr() if read else None,
            }
        )

    def verify_(self) -> None:
        verify_pending("groups", self.pending)
