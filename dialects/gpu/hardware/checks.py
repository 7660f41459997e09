"""Checks that the ops of the hardware level share, and one that the tile level has too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import (
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    StringAttr,
    VectorType,
    f32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.types import (
    CACHE_HINTS,
    GlobalType,
    TensorMapType,
    element_bytes,
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


def verify_cache_hint(hint: StringAttr) -> None:
    if hint.data not in CACHE_HINTS:
        raise VerifyException(f'a cache hint is {" or ".join(CACHE_HINTS)}, not "{hint.data}"')


def verify_width(what: str, size: int) -> None:
    if size not in (1, 2, 4, 8, 16):
        raise VerifyException(f"{what} moves {size} bytes; it can move 1, 2, 4, 8 or 16")


def verify_indices(tensor: SSAValue, indices: Sequence[SSAValue]) -> None:
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


def verify_posts(words: SSAValue) -> None:
    """Refuse a tensor whose elements are no words that have a number and say that it is there."""
    kind = words.type
    assert isinstance(kind, GlobalType)
    if kind.element_type != i64:
        raise VerifyException(f"posts are words of i64, and {kind} has none; post in one that has")


def verify_posted(element: Attribute) -> None:
    """Refuse what does not fit a word beside the mark that it is there."""
    if element not in (f32, I32):
        raise VerifyException(f"what is posted is an f32 or an i32, not of {element}")


def verify_counter(counters: SSAValue, indices: Sequence[SSAValue]) -> None:
    """A counter that CTAs wait at is an i32 of a tensor."""
    assert isinstance(counters.type, GlobalType)
    if counters.type.element_type != I32:
        raise VerifyException(f"counters are i32, and {counters.type} is not; count in one that is")
    verify_indices(counters, indices)


def verify_global_vector(tensor: SSAValue, value_type: Attribute, promised: int = 0) -> None:
    """Check that elements are the tensor's, and that rows are aligned to a vector of them, or an
    address is ``promised`` to be."""
    assert isinstance(tensor.type, GlobalType)
    if scalar_type(value_type) != tensor.type.element_type:
        raise VerifyException(
            f"elements of {tensor.type} are {tensor.type.element_type}, not "
            f"{scalar_type(value_type)}"
        )
    size = access_bytes(value_type)
    verify_width("a global access", size)
    known = max(tensor.type.align.data, promised, element_bytes(tensor.type.element_type))
    if size > known:
        raise VerifyException(
            f"an access of {size} bytes needs rows aligned to {size}; "
            f"{tensor.type} promises {known}"
        )


def verify_box(map: SSAValue, coordinates: Sequence[SSAValue]) -> None:
    """Check that the first element of a tensor map's box has one coordinate an axis."""
    assert isinstance(map.type, TensorMapType)
    rank = len(map.type.sizes)
    if len(coordinates) != rank:
        raise VerifyException(
            f"a box of rank {rank} starts at {rank} coordinates, not {len(coordinates)}"
        )


def verify_multicast(op: Operation, mask: SSAValue) -> None:
    """Check that a copy to several CTAs stands in a cluster, and that a constant mask names some
    of it."""
    parent = op.parent_op()
    while parent is not None and parent.name != "gpu.kernel":
        parent = parent.parent_op()
    if parent is None:
        return
    cluster = parent.properties.get("cluster")
    size = cast(IntegerAttr, cluster).value.data if cluster is not None else 1
    if size == 1:
        raise VerifyException(
            "a multicast is to the CTAs of a cluster, and the kernel's has one: give it a cluster"
        )
    owner = mask.owner
    if isinstance(owner, Operation) and "value" in owner.properties:
        value = owner.properties["value"]
        if isinstance(value, IntegerAttr) and not 0 < value.value.data < 1 << size:
            raise VerifyException(
                f"a mask of a cluster of {size} CTAs is 1 to {(1 << size) - 1}, not "
                f"{value.value.data}"
            )


def verify_pending(what: str, pending: IntegerAttr) -> None:
    """Check the number of newest asynchronous ``what`` that a wait leaves unfinished."""
    if pending.value.data < 0:
        raise VerifyException(f"{pending.value.data} {what} cannot be pending")


def verify_registers(memref: SSAValue, what: str, element: Attribute) -> None:
    registers = memref.type
    if register_count(registers) is None or (
        cast(MemRefType[Attribute], registers).element_type != element
    ):
        raise VerifyException(f"{what} is a memref of {element} registers, not {registers}")


def verify_operand_element(element: Attribute) -> None:
    if str(element) not in ("f16", "bf16"):
        raise VerifyException(f"tensor-core operands are f16 or bf16, not {element}")


def verify_k_major(element: Attribute, transposed: bool) -> None:
    """Check operands of wgmma in shared memory: of TF32 they are stored along k (PTX ISA)."""
    if str(element) != "f32":
        verify_operand_element(element)
    elif transposed:
        raise VerifyException(
            "wgmma takes operands of f32, as TF32, that are stored along k, and transposes none"
        )
