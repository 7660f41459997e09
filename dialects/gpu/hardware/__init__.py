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

from xdsl.ir import Operation

from polyc.dialects.gpu.hardware.checks import access_bytes, scalar_type, vector_length
from polyc.dialects.gpu.hardware.cluster import (
    ClusterBarrierOp,
    ClusterRankOp,
    LoadClusterOp,
    MapSharedOp,
    MBarrierArriveClusterOp,
    StoreClusterOp,
)
from polyc.dialects.gpu.hardware.exchange import AtomicGlobalOp, AtomicSharedOp, ShuffleOp
from polyc.dialects.gpu.hardware.grid import SignalGlobalOp, WaitGlobalOp
from polyc.dialects.gpu.hardware.im2col import TmaLoadIm2colOp
from polyc.dialects.gpu.hardware.memory import (
    BulkCommitOp,
    BulkWaitOp,
    CpAsyncCommitOp,
    CpAsyncOp,
    CpAsyncWaitOp,
    LoadGlobalOp,
    LoadSharedOp,
    PrefetchTensorMapOp,
    StoreGlobalOp,
    StoreSharedOp,
    TmaLoadOp,
    TmaStoreOp,
)
from polyc.dialects.gpu.hardware.sync import (
    BarrierOp,
    FenceMBarrierInitOp,
    FenceProxyAsyncOp,
    MBarrierAnnounceOp,
    MBarrierArriveOp,
    MBarrierExpectOp,
    MBarrierInitOp,
    MBarrierWaitOp,
    NamedBarrierArriveOp,
    NamedBarrierOp,
    SetMaxRegistersOp,
)
from polyc.dialects.gpu.hardware.tensor_cores import (
    LdmatrixOp,
    MmaSyncOp,
    RegisterFenceOp,
    StmatrixOp,
    WgmmaCommitOp,
    WgmmaDescriptorOp,
    WgmmaFenceOp,
    WgmmaOp,
    WgmmaRegistersOp,
    WgmmaWaitOp,
)
from polyc.dialects.gpu.hardware.threads import (
    BlockIdOp,
    ElectOp,
    GridSizeOp,
    MBarrierOp,
    PackOp,
    SharedAddressOp,
    SharedTileOp,
    ThreadIdOp,
    UnpackOp,
    WarpUniformOp,
)

HARDWARE_OPS: list[type[Operation]] = [
    ThreadIdOp,
    BlockIdOp,
    GridSizeOp,
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
    NamedBarrierArriveOp,
    MBarrierInitOp,
    MBarrierExpectOp,
    MBarrierAnnounceOp,
    MBarrierArriveOp,
    MBarrierWaitOp,
    FenceMBarrierInitOp,
    FenceProxyAsyncOp,
    SetMaxRegistersOp,
    PrefetchTensorMapOp,
    TmaLoadOp,
    TmaLoadIm2colOp,
    LdmatrixOp,
    MmaSyncOp,
    WgmmaDescriptorOp,
    WgmmaOp,
    WgmmaRegistersOp,
    WgmmaFenceOp,
    RegisterFenceOp,
    WgmmaCommitOp,
    WgmmaWaitOp,
    ShuffleOp,
    AtomicGlobalOp,
    AtomicSharedOp,
    SignalGlobalOp,
    WaitGlobalOp,
    TmaStoreOp,
    BulkCommitOp,
    BulkWaitOp,
    StmatrixOp,
    ClusterRankOp,
    ClusterBarrierOp,
    MapSharedOp,
    LoadClusterOp,
    StoreClusterOp,
    MBarrierArriveClusterOp,
]

__all__ = [
    "HARDWARE_OPS",
    "AtomicGlobalOp",
    "AtomicSharedOp",
    "BarrierOp",
    "BlockIdOp",
    "BulkCommitOp",
    "BulkWaitOp",
    "ClusterBarrierOp",
    "ClusterRankOp",
    "CpAsyncCommitOp",
    "CpAsyncOp",
    "CpAsyncWaitOp",
    "ElectOp",
    "FenceMBarrierInitOp",
    "FenceProxyAsyncOp",
    "GridSizeOp",
    "LdmatrixOp",
    "LoadClusterOp",
    "LoadGlobalOp",
    "LoadSharedOp",
    "MBarrierAnnounceOp",
    "MBarrierArriveClusterOp",
    "MBarrierArriveOp",
    "MBarrierExpectOp",
    "MBarrierInitOp",
    "MBarrierOp",
    "MBarrierWaitOp",
    "MapSharedOp",
    "MmaSyncOp",
    "NamedBarrierArriveOp",
    "NamedBarrierOp",
    "PackOp",
    "PrefetchTensorMapOp",
    "RegisterFenceOp",
    "SetMaxRegistersOp",
    "SharedAddressOp",
    "SharedTileOp",
    "ShuffleOp",
    "SignalGlobalOp",
    "StmatrixOp",
    "StoreClusterOp",
    "StoreGlobalOp",
    "StoreSharedOp",
    "ThreadIdOp",
    "TmaLoadIm2colOp",
    "TmaLoadOp",
    "TmaStoreOp",
    "UnpackOp",
    "WaitGlobalOp",
    "WarpUniformOp",
    "WgmmaCommitOp",
    "WgmmaDescriptorOp",
    "WgmmaFenceOp",
    "WgmmaOp",
    "WgmmaRegistersOp",
    "WgmmaWaitOp",
    "access_bytes",
    "scalar_type",
    "vector_length",
]
