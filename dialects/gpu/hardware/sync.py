"""Hardware level: barriers, mbarriers, fences and register budgets.

Source: PTX ISA sections 9.7.13 (barriers and mbarrier), 9.7.19 (setmaxnreg).
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    IndexType,
    StringAttr,
    UnitAttr,
    i1,
)
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
)
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.types import (
    IndexAttr,
    index_attr,
)
from polyc.dialects.gpu.waiting import MBarrierType


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """All threads of the CTA meet; shared and global writes before it are seen after it."""

    name = "gpu.barrier"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class NamedBarrierOp(IRDLOperation):
    """``threads`` threads meet at hardware barrier ``id`` (1 to 15; 0 is gpu.barrier's).

    With ``offset`` they meet at barrier ``id + offset``: groups that run the same code have one
    each.  All threads that meet give the same offset.  A barrier that only ``paces`` is one
    without which the kernel computes the same, only slower: nobody's data relies on it.
    """

    name = "gpu.named_barrier"
    id = prop_def(IndexAttr)
    offset = opt_operand_def(IndexType)
    threads = prop_def(IndexAttr)
    paces = opt_prop_def(UnitAttr)
    assembly_format = "$id (`plus` $offset^)? `threads` $threads (`paces` $paces^)? attr-dict"

    def __init__(
        self, id: int, threads: int, offset: SSAValue | None = None, *, paces: bool = False
    ) -> None:
        super().__init__(
            operands=[offset],
            properties={
                "id": index_attr(id),
                "threads": index_attr(threads),
                "paces": UnitAttr() if paces else None,
            },
        )

    def verify_(self) -> None:
        _verify_named(self.id.value.data, self.threads.value.data)


@irdl_op_definition
class NamedBarrierArriveOp(IRDLOperation):
    """Arrive at hardware barrier ``id`` (plus ``offset``), and go on (``bar.arrive``).

    ``threads`` counts those that arrive and those that wait there by ``gpu.named_barrier``, who
    then see what the arriving ones wrote before.
    """

    name = "gpu.named_barrier_arrive"
    id = prop_def(IndexAttr)
    offset = opt_operand_def(IndexType)
    threads = prop_def(IndexAttr)
    assembly_format = "$id (`plus` $offset^)? `threads` $threads attr-dict"

    def __init__(self, id: int, threads: int, offset: SSAValue | None = None) -> None:
        super().__init__(
            operands=[offset],
            properties={"id": index_attr(id), "threads": index_attr(threads)},
        )

    def verify_(self) -> None:
        _verify_named(self.id.value.data, self.threads.value.data)


@irdl_op_definition
class BarrierAnyOp(IRDLOperation):
    """``threads`` threads meet at hardware barrier ``id``, and learn whether any has ``condition``.

    Number 0 is the CTA's own; ``offset`` is ``gpu.named_barrier``'s.  All get the same result, and
    see each other's writes (``bar.red.or``).  All that meet there in one go do it by this op.
    """

    name = "gpu.barrier_any"
    condition = operand_def(i1)
    id = prop_def(IndexAttr)
    offset = opt_operand_def(IndexType)
    threads = prop_def(IndexAttr)
    result = result_def(i1)
    assembly_format = "$condition `at` $id (`plus` $offset^)? `threads` $threads attr-dict"

    def __init__(
        self, condition: SSAValue, id: int, threads: int, offset: SSAValue | None = None
    ) -> None:
        super().__init__(
            operands=[condition, offset],
            properties={"id": index_attr(id), "threads": index_attr(threads)},
            result_types=[i1],
        )

    def verify_(self) -> None:
        if self.id.value.data == 0 and self.offset is not None:
            raise VerifyException("barrier 0 is the CTA's own, and nothing is added to it")
        _verify_named(self.id.value.data or 1, self.threads.value.data)


def _verify_named(id: int, threads: int) -> None:
    if not 1 <= id <= 15:
        raise VerifyException(f"a named barrier is 1 to 15, not {id}")
    if threads % 32 or not 32 <= threads <= 1024:
        raise VerifyException(
            f"{threads} threads do not meet at a barrier: whole warps, 32 to 1024"
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
        _verify_bytes(self.bytes.value.data)


@irdl_op_definition
class MBarrierAnnounceOp(IRDLOperation):
    """Add ``bytes`` to what the phase's asynchronous copies must deliver; nobody arrives.

    The phase lasts until somebody does: whoever announces the bytes of copies that run under
    conditions arrives after the last of them.
    """

    name = "gpu.mbarrier_announce"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    bytes = prop_def(IndexAttr)
    assembly_format = "$barrier `[` $index `]` `bytes` $bytes attr-dict `:` type($barrier)"

    def __init__(self, barrier: SSAValue, index: SSAValue, bytes: int) -> None:
        super().__init__(operands=[barrier, index], properties={"bytes": index_attr(bytes)})

    def verify_(self) -> None:
        _verify_bytes(self.bytes.value.data)


def _verify_bytes(count: int) -> None:
    if not 0 <= count < 1 << 20:
        raise VerifyException(f"an mbarrier expects 0 to 2^20 - 1 bytes, not {count}")


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
    """Block until the phase of parity ``parity`` (0 or 1) of barrier ``index`` has completed.

    What threads of the CTA did before they arrived is seen then; with ``cluster``, what those of
    other CTAs did too.
    """

    name = "gpu.mbarrier_wait"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    parity = operand_def(IndexType)
    cluster = opt_prop_def(UnitAttr)
    assembly_format = (
        "$barrier `[` $index `]` `parity` $parity (`cluster` $cluster^)? attr-dict `:` "
        "type($barrier)"
    )

    def __init__(
        self, barrier: SSAValue, index: SSAValue, parity: SSAValue, cluster: bool = False
    ) -> None:
        super().__init__(
            operands=[barrier, index, parity],
            properties={"cluster": UnitAttr() if cluster else None},
        )


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
