"""The tile level of the gpu dialect: what a kernel author thinks in (T3).

A kernel moves tiles between global memory, shared tiles (``gpu.shared_tile``) and
fragments, multiplies them and maps scalars over them.  Fragments are mutable.  What an
author leaves out (layouts, stages, roles, barriers, waits, predicates) the passes of
``docs/passes/gpu-passes.md`` fill in; each of these also has an op here, so that it can be said.
"""

from __future__ import annotations

from xdsl.ir import Operation

from polyc.dialects.gpu.tile.cluster import ReduceScatterOp
from polyc.dialects.gpu.tile.compute import (
    LHS_KM,
    LHS_MK,
    MMA_KINDS,
    REDUCTIONS,
    RHS_KN,
    RHS_NK,
    AwaitOp,
    ContractOp,
    ContractSide,
    MapOp,
    ReduceOp,
    TileIndexOp,
)
from polyc.dialects.gpu.tile.copy import (
    LOADERS,
    CopyEnd,
    CopyOp,
    CopySignal,
    CopyTravel,
    CopyView,
)
from polyc.dialects.gpu.tile.data import (
    AtomicOp,
    ElementAddressOp,
    FillOp,
    FragmentOp,
)
from polyc.dialects.gpu.tile.digits import (
    CountDigitOp,
    DigitOp,
    DigitPlaces,
    MoveByDigitOp,
    SortByDigitOp,
    SumCountsOp,
)
from polyc.dialects.gpu.tile.flow import (
    OrderBarrierOp,
    OrderEnterOp,
    OrderLeaveOp,
    PipelineOp,
    RingAcquireOp,
    RingOp,
    RingReleaseOp,
    RingWaitOp,
    RolesOp,
    YieldOp,
)
from polyc.dialects.gpu.tile.grid import GridSignalOp, GridWaitOp
from polyc.dialects.gpu.tile.posts import AwaitPostsOp, PostOp
from polyc.dialects.gpu.tile.scan import ScanOp
from polyc.dialects.gpu.tile.schedule import (
    RASTERS,
    TileCoordinatesOp,
    TileLoopOp,
)
from polyc.dialects.gpu.tile.sorting import KeepLeastOp, KeepNoneOp, KeptOp, PoolOp, SortOp
from polyc.dialects.gpu.tile.steps import LoadOperandsOp, MultiplyOp
from polyc.dialects.gpu.tile.votes import AnyOp

TILE_OPS: list[type[Operation]] = [
    TileCoordinatesOp,
    TileLoopOp,
    FragmentOp,
    FillOp,
    CopyOp,
    AtomicOp,
    ContractOp,
    LoadOperandsOp,
    MultiplyOp,
    AwaitOp,
    YieldOp,
    MapOp,
    TileIndexOp,
    ReduceOp,
    ReduceScatterOp,
    ScanOp,
    AnyOp,
    SortOp,
    KeepNoneOp,
    KeepLeastOp,
    KeptOp,
    CountDigitOp,
    SumCountsOp,
    MoveByDigitOp,
    SortByDigitOp,
    PipelineOp,
    RingOp,
    RingAcquireOp,
    RingWaitOp,
    RingReleaseOp,
    OrderBarrierOp,
    OrderEnterOp,
    OrderLeaveOp,
    GridSignalOp,
    GridWaitOp,
    PostOp,
    AwaitPostsOp,
    RolesOp,
    ElementAddressOp,
]

__all__ = [
    "LHS_KM",
    "LHS_MK",
    "LOADERS",
    "MMA_KINDS",
    "RASTERS",
    "REDUCTIONS",
    "RHS_KN",
    "RHS_NK",
    "TILE_OPS",
    "AnyOp",
    "AtomicOp",
    "AwaitOp",
    "AwaitPostsOp",
    "ContractOp",
    "ContractSide",
    "CopyEnd",
    "CopyOp",
    "CopySignal",
    "CopyTravel",
    "CopyView",
    "CountDigitOp",
    "DigitOp",
    "DigitPlaces",
    "ElementAddressOp",
    "FillOp",
    "FragmentOp",
    "GridSignalOp",
    "GridWaitOp",
    "KeepLeastOp",
    "KeepNoneOp",
    "KeptOp",
    "LoadOperandsOp",
    "MapOp",
    "MoveByDigitOp",
    "MultiplyOp",
    "OrderBarrierOp",
    "OrderEnterOp",
    "OrderLeaveOp",
    "PipelineOp",
    "PoolOp",
    "PostOp",
    "ReduceOp",
    "ReduceScatterOp",
    "RingAcquireOp",
    "RingOp",
    "RingReleaseOp",
    "RingWaitOp",
    "RolesOp",
    "ScanOp",
    "SortByDigitOp",
    "SortOp",
    "SumCountsOp",
    "TileCoordinatesOp",
    "TileIndexOp",
    "TileLoopOp",
    "YieldOp",
]
