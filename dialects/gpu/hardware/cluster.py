"""Hardware level: clusters of CTAs and each other's shared memory (SM90).

A *cluster address* is an i32 in the window that covers the shared memory of all CTAs of the
cluster, as the PTX ISA's ``.shared::cluster`` operands take it.

Source: PTX ISA sections 9.7.9 (mapa, ld, st) and 9.7.13 (barrier.cluster, mbarrier).
"""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType, UnitAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure

from polyc.dialects.gpu.hardware.checks import I32, access_bytes, verify_width
from polyc.dialects.gpu.waiting import MBarrierType


@irdl_op_definition
class ClusterRankOp(IRDLOperation):
    """Index of the CTA in its cluster (``%cluster_ctarank``)."""

    name = "gpu.cluster_rank"
    result = result_def(IndexType)
    traits = traits_def(Pure())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__(result_types=[IndexType()])


@irdl_op_definition
class ClusterBarrierOp(IRDLOperation):
    """All threads of the cluster meet; shared accesses before it are seen after it.

    A CTA that a peer may still reach must not end: such kernels end with one.
    """

    name = "gpu.cluster_barrier"
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


@irdl_op_definition
class MapSharedOp(IRDLOperation):
    """The cluster address at which CTA ``rank`` has what is at ``address`` here (``mapa``)."""

    name = "gpu.map_shared"
    address = operand_def(I32)
    rank = operand_def(IndexType)
    result = result_def(I32)
    traits = traits_def(Pure())
    assembly_format = "$address `,` $rank attr-dict"

    def __init__(self, address: SSAValue, rank: SSAValue) -> None:
        super().__init__(operands=[address, rank], result_types=[i32])


@irdl_op_definition
class LoadClusterOp(IRDLOperation):
    """Load a scalar or vector at a cluster address, aligned to its own size."""

    name = "gpu.load_cluster"
    address = operand_def(I32)
    result = result_def()
    traits = traits_def(MemoryReadEffect())
    assembly_format = "$address attr-dict `:` type($result)"

    def __init__(self, address: SSAValue, result_type: Attribute) -> None:
        super().__init__(operands=[address], result_types=[result_type])

    def verify_(self) -> None:
        verify_width("a shared access", access_bytes(self.result.type))


@irdl_op_definition
class StoreClusterOp(IRDLOperation):
    """Store a scalar or vector at a cluster address, aligned to its own size."""

    name = "gpu.store_cluster"
    value = operand_def()
    address = operand_def(I32)
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$value `,` $address attr-dict `:` type($value)"

    def __init__(self, value: SSAValue, address: SSAValue) -> None:
        super().__init__(operands=[value, address])

    def verify_(self) -> None:
        verify_width("a shared access", access_bytes(self.value.type))


@irdl_op_definition
class MBarrierArriveClusterOp(IRDLOperation):
    """Arrive once at barrier ``index`` of the CTA ``rank`` of the cluster.

    It releases what the thread did before to threads of the cluster that wait there.  With
    ``reads`` it does that for what was read only, which needs no fence over the cluster: enough
    to give back a tile that others fill, and much cheaper in a loop.
    """

    name = "gpu.mbarrier_arrive_cluster"
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    rank = operand_def(IndexType)
    reads = opt_prop_def(UnitAttr)
    assembly_format = (
        "$barrier `[` $index `]` `rank` $rank (`reads` $reads^)? attr-dict `:` type($barrier)"
    )

    def __init__(
        self, barrier: SSAValue, index: SSAValue, rank: SSAValue, reads: bool = False
    ) -> None:
        super().__init__(
            operands=[barrier, index, rank], properties={"reads": UnitAttr() if reads else None}
        )
