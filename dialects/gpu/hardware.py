"""The hardware level of the gpu dialect: one op, one thing that an SM does.

Ops run as the threads of a CTA run them, beside ``scf``, ``arith``, ``math``,
``affine.apply`` and ``memref`` on registers.  Conventions:

* ``index`` is a 32-bit integer of one thread; linear offsets into global memory are i64.
* A shared *address* is an i32 byte address in the CTA's shared window, as the PTX ISA's
  ``.shared`` operands take it.
* Global access names either one coordinate per axis (``index``), or, once
  ``gpu-linearize-access`` ran, one linear element offset (i64).
* Register operands (``memref`` in ``#gpu<space register>``) are read and written in place.
* A group of 16-bit values that an instruction takes as a 32-bit register is an i32.

Sources: PTX ISA sections 9.7.9 (data movement, ``ldmatrix`` in 9.7.15), 9.7.13
(mbarrier), 9.7.15 (mma), 9.7.16 (wgmma); requirements S9.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    I1,
    IndexType,
    IntegerType,
    MemRefType,
    StringAttr,
    UnitAttr,
    VectorType,
    f32,
    i1,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
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
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.types import (
    GlobalType,
    IndexAttr,
    MBarrierType,
    SharedType,
    TensorMapType,
    element_bytes,
    index_attr,
    register_count,
)

I32 = IntegerType(32)
I64 = IntegerType(64)


def scalar_type(value_type: Attribute) -> Attribute:
    """The element type of a vector, or the type itself."""
    if isinstance(value_type, VectorType):
        return cast(VectorType[Attribute], value_type).element_type
    return value_type


def vector_length(value_type: Attribute) -> int:
    """Elements of a one-dimensional vector type; 1 for a scalar."""
    if isinstance(value_type, VectorType):
        shape = cast(VectorType[Attribute], value_type).get_shape()
        if len(shape) != 1:
            raise VerifyException(
                f"a thread's vectors have one axis, {value_type} has {len(shape)}"
            )
        return shape[0]
    return 1


def access_bytes(value_type: Attribute) -> int:
    """Bytes that one access of this scalar or vector type moves."""
    return vector_length(value_type) * element_bytes(scalar_type(value_type))


def _verify_width(what: str, size: int) -> None:
    if size not in (1, 2, 4, 8, 16):
        raise VerifyException(f"{what} moves {size} bytes; it can move 1, 2, 4, 8 or 16")


def _verify_indices(tensor: SSAValue, indices: Sequence[SSAValue]) -> None:
    if not isinstance(tensor.type, GlobalType):
        return
    rank = len(tensor.type.dims)
    if len(indices) == 1 and indices[0].type == i64:
        return
    if len(indices) != rank or any(not isinstance(i.type, IndexType) for i in indices):
        given = ", ".join(str(i.type) for i in indices)
        raise VerifyException(
            f"a tensor of rank {rank} is accessed at {rank} coordinates of type index, or at "
            f"one i64 offset, not at ({given})"
        )


def _verify_global_vector(tensor: SSAValue, value_type: Attribute) -> None:
    assert isinstance(tensor.type, GlobalType)
    if scalar_type(value_type) != tensor.type.element_type:
        raise VerifyException(
            f"elements of {tensor.type} are {tensor.type.element_type}, not "
            f"{scalar_type(value_type)}"
        )
    size = access_bytes(value_type)
    _verify_width("a global access", size)
    known = max(tensor.type.align.data, element_bytes(tensor.type.element_type))
    if size > known:
        raise VerifyException(
            f"an access of {size} bytes needs rows aligned to {size}; "
            f"{tensor.type} promises {known}"
        )


def _verify_registers(memref: SSAValue, what: str, element: Attribute) -> None:
    registers = memref.type
    if register_count(registers) is None or (
        cast(MemRefType[Attribute], registers).element_type != element
    ):
        raise VerifyException(f"{what} is a memref of {element} registers, not {registers}")


# Who and where -------------------------------------------------------------------------


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


# Registers and packing -----------------------------------------------------------------


@irdl_op_definition
class PackOp(IRDLOperation):
    """A vector from scalars, element 0 in the lowest bits."""

    name = "gpu.pack"
    values = var_operand_def()
    result = result_def(base(VectorType))
    traits = traits_def(Pure())
    assembly_format = "$values attr-dict `:` type($values) `->` type($result)"

    def __init__(self, values: Sequence[SSAValue], result_type: Attribute | None = None) -> None:
        vector = result_type or VectorType(values[0].type, [len(values)])
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


# Global memory -------------------------------------------------------------------------


@irdl_op_definition
class LoadGlobalOp(IRDLOperation):
    """Load one element or a vector of consecutive elements.

    Where ``predicate`` is given and false nothing is read and the result is zero.
    A tensor that the kernel never stores to is read as read-only data (``ld.global.nc``).
    """

    name = "gpu.load_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = (
        "$tensor `[` $indices `:` type($indices) `]` (`if` $predicate^)? attr-dict "
        "`:` type($tensor) `->` type($result)"
    )

    def __init__(
        self,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        result_type: Attribute,
        predicate: SSAValue | None = None,
    ) -> None:
        super().__init__(operands=[tensor, list(indices), predicate], result_types=[result_type])

    def verify_(self) -> None:
        _verify_indices(self.tensor, self.indices)
        _verify_global_vector(self.tensor, self.result.type)


@irdl_op_definition
class StoreGlobalOp(IRDLOperation):
    """Store one element or a vector of consecutive elements, if ``predicate`` holds."""

    name = "gpu.store_global"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    value = operand_def()
    tensor = operand_def(base(GlobalType))
    indices = var_operand_def()
    predicate = opt_operand_def(I1)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$value `,` $tensor `[` $indices `:` type($indices) `]` (`if` $predicate^)? attr-dict "
        "`:` type($value) `,` type($tensor)"
    )

    def __init__(
        self,
        value: SSAValue,
        tensor: SSAValue,
        indices: Sequence[SSAValue],
        predicate: SSAValue | None = None,
    ) -> None:
        super().__init__(operands=[value, tensor, list(indices), predicate])

    def verify_(self) -> None:
        _verify_indices(self.tensor, self.indices)
        _verify_global_vector(self.tensor, self.value.type)


# Shared memory -------------------------------------------------------------------------


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
        _verify_width("a shared access", access_bytes(self.result.type))


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
        _verify_width("a shared access", access_bytes(self.value.type))


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
        _verify_indices(self.tensor, self.indices)
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
        if self.pending.value.data < 0:
            raise VerifyException(f"{self.pending.value.data} groups cannot be pending")


# Barriers and fences -------------------------------------------------------------------


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the CTA meet; shared and global writes before it are seen after it."""

    name = "gpu.barrier"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class NamedBarrierOp(IRDLOperation):
    """``threads`` threads meet at hardware barrier ``id`` (1 to 15; 0 is gpu.barrier's)."""

    name = "gpu.named_barrier"
    id = prop_def(IndexAttr)
    threads = prop_def(IndexAttr)
    assembly_format = "$id `threads` $threads attr-dict"

    def __init__(self, id: int, threads: int) -> None:
        super().__init__(properties={"id": index_attr(id), "threads": index_attr(threads)})

    def verify_(self) -> None:
        if not 1 <= self.id.value.data <= 15:
            raise VerifyException(f"a named barrier is 1 to 15, not {self.id.value.data}")
        if self.threads.value.data % 32 or not 32 <= self.threads.value.data <= 1024:
            raise VerifyException(
                f"{self.threads.value.data} threads do not meet at a barrier: "
                "whole warps, 32 to 1024"
            )


@irdl_op_definition
class MBarrierInitOp(IRDLOperation):
    """Make barrier ``index`` ready for phases of ``count`` arrivals."""

    name = "gpu.mbarrier_init"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    count = prop_def(IndexAttr)
    assembly_format = "$barrier `[` $index `]` `count` $count attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, index: SSAValue, count: int) -> None:
        super().__init__(operands=[barrier, index], properties={"count": index_attr(count)})

    def verify_(self) -> None:
        if not 1 <= self.count.value.data < 1 << 20:
            raise VerifyException(f"an mbarrier counts 1 to 2^20 - 1, not {self.count.value.data}")


@irdl_op_definition
class MBarrierExpectOp(IRDLOperation):
    """Arrive once, and add ``bytes`` to what the phase's asynchronous copies must deliver."""

    name = "gpu.mbarrier_expect"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    bytes = prop_def(IndexAttr)
    assembly_format = "$barrier `[` $index `]` `bytes` $bytes attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, index: SSAValue, bytes: int) -> None:
        super().__init__(operands=[barrier, index], properties={"bytes": index_attr(bytes)})

    def verify_(self) -> None:
        if not 0 <= self.bytes.value.data < 1 << 20:
            raise VerifyException(
                f"an mbarrier expects 0 to 2^20 - 1 bytes, not {self.bytes.value.data}"
            )


@irdl_op_definition
class MBarrierArriveOp(IRDLOperation):
    """Arrive once at barrier ``index``."""

    name = "gpu.mbarrier_arrive"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    assembly_format = "$barrier `[` $index `]` attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, index: SSAValue) -> None:
        super().__init__(operands=[barrier, index])


@irdl_op_definition
class MBarrierWaitOp(IRDLOperation):
    """Block until the phase of parity ``parity`` (0 or 1) of barrier ``index`` has completed."""

    name = "gpu.mbarrier_wait"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    parity = operand_def(IndexType)
    assembly_format = "$barrier `[` $index `]` `parity` $parity attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, index: SSAValue, parity: SSAValue) -> None:
        super().__init__(operands=[barrier, index, parity])


@irdl_op_definition
class FenceMBarrierInitOp(IRDLOperation):
    """Make mbarrier initialisations visible to the async proxy and the cluster."""

    name = "gpu.fence_mbarrier_init"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class FenceProxyAsyncOp(IRDLOperation):
    """Order this thread's shared accesses before later ones through the async proxy."""

    name = "gpu.fence_proxy_async"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class SetMaxRegistersOp(IRDLOperation):
    """Change the warpgroup's registers a thread (``setmaxnreg``; 24 to 256 in steps of 8)."""

    name = "gpu.set_max_registers"
    direction = prop_def(StringAttr)
    count = prop_def(IndexAttr)
    assembly_format = "$direction $count attr-dict"

    def __init__(self, direction: str, count: int) -> None:
        super().__init__(
            properties={"direction": StringAttr(direction), "count": index_attr(count)}
        )

    def verify_(self) -> None:
        if self.direction.data not in ("increase", "decrease"):
            raise VerifyException(
                f'registers "increase" or "decrease", not "{self.direction.data}"'
            )
        if self.count.value.data % 8 or not 24 <= self.count.value.data <= 256:
            raise VerifyException(
                f"setmaxnreg takes 24 to 256 in steps of 8, not {self.count.value.data}"
            )


# TMA -----------------------------------------------------------------------------------


@irdl_op_definition
class PrefetchTensorMapOp(IRDLOperation):
    """Bring a tensor map into the descriptor cache."""

    name = "gpu.prefetch_tensor_map"
    map = operand_def(base(TensorMapType))
    assembly_format = "$map attr-dict `:` type($map)"

    def __init__(self, map: SSAValue) -> None:
        super().__init__(operands=[map])


@irdl_op_definition
class TmaLoadOp(IRDLOperation):
    """Copy one box to ``address``; its bytes complete on barrier ``index`` of ``barrier``.

    ``coordinates`` are the box's first element in the tensor's own axis order; elements
    outside the tensor arrive as zeros, and count as bytes all the same.
    """

    name = "gpu.tma_load"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    map = operand_def(base(TensorMapType))
    coordinates = var_operand_def(IndexType)
    address = operand_def(I32)
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$map `[` $coordinates `]` `to` $address `,` $barrier `[` $index `]` attr-dict "
        "`:` type($map) `,` type($barrier)"
    )

    def __init__(
        self,
        map: SSAValue,
        coordinates: Sequence[SSAValue],
        address: SSAValue,
        barrier: SSAValue,
        index: SSAValue,
    ) -> None:
        super().__init__(operands=[map, list(coordinates), address, barrier, index])

    def verify_(self) -> None:
        assert isinstance(self.map.type, TensorMapType)
        rank = len(self.map.type.sizes)
        if len(self.coordinates) != rank:
            raise VerifyException(
                f"a box of rank {rank} starts at {rank} coordinates, not {len(self.coordinates)}"
            )


# Tensor cores --------------------------------------------------------------------------


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
        _verify_registers(self.registers, "the destination of ldmatrix", i32)


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
        _verify_registers(self.a, "operand a of mma", i32)
        _verify_registers(self.b, "operand b of mma", i32)
        _verify_registers(self.acc, "the accumulator of mma", f32)
        _verify_operand_element(self.element)


def _verify_operand_element(element: Attribute) -> None:
    if str(element) not in ("f16", "bf16"):
        raise VerifyException(f"tensor-core operands are f16 or bf16, not {element}")


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

    ``a`` and ``b`` are descriptors advanced by ``a_offset`` and ``b_offset`` bytes; ``acc`` is
    N/2 f32 registers a thread, from register ``0``.  ``transpose_a`` and ``transpose_b`` say
    that the operand is stored M-major or N-major.
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
    assembly_format = (
        "`n` $n $a `plus` $a_offset (`transpose_a` $transpose_a^)? `,` $b `plus` $b_offset "
        "(`transpose_b` $transpose_b^)? `,` $acc `element` $element attr-dict `:` type($acc)"
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
            },
        )

    def verify_(self) -> None:
        n = self.n.value.data
        if n % 8 or not 8 <= n <= 256:
            raise VerifyException(f"wgmma's N is 8 to 256 in steps of 8, not {n}")
        _verify_registers(self.acc, "the accumulator of wgmma", f32)
        if register_count(self.acc.type) != n // 2:
            raise VerifyException(
                f"m64n{n}k16 accumulates in {n // 2} registers a thread, not {self.acc.type}"
            )
        for offset in (self.a_offset.value.data, self.b_offset.value.data):
            if offset % 16 or offset < 0:
                raise VerifyException(f"a descriptor advances by multiples of 16, not {offset}")
        _verify_operand_element(self.element)


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
        _verify_registers(self.registers, "what a register fence settles", f32)


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


HARDWARE_OPS: list[type[Operation]] = [
    ThreadIdOp,
    BlockIdOp,
    WarpUniformOp,
    ElectOp,
    SharedTileOp,
    MBarrierOp,
    SharedAddressOp,
    PackOp,
    UnpackOp,
    LoadGlobalOp,
    StoreGlobalOp,
    LoadSharedOp,
    StoreSharedOp,
    CpAsyncOp,
    CpAsyncCommitOp,
    CpAsyncWaitOp,
    BarrierOp,
    NamedBarrierOp,
    MBarrierInitOp,
    MBarrierExpectOp,
    MBarrierArriveOp,
    MBarrierWaitOp,
    FenceMBarrierInitOp,
    FenceProxyAsyncOp,
    SetMaxRegistersOp,
    PrefetchTensorMapOp,
    TmaLoadOp,
    LdmatrixOp,
    MmaSyncOp,
    WgmmaDescriptorOp,
    WgmmaOp,
    WgmmaFenceOp,
    RegisterFenceOp,
    WgmmaCommitOp,
    WgmmaWaitOp,
]
