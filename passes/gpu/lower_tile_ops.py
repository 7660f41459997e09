"""``gpu-lower-tile-ops``: copies, contracts, fills and maps as hardware ops (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from polyc.passes.support.gpu.fma_contracts import FMA_PATTERNS
from polyc.passes.support.gpu.im2col import IM2COL_PATTERNS
from polyc.passes.support.gpu.loose_stores import LowerLooseStore
from polyc.passes.support.gpu.mma_steps import LowerLoadOperands, LowerMultiply
from polyc.passes.support.gpu.multicast_rows import LowerSharedRows
from polyc.passes.support.gpu.planes import LowerPlanes
from polyc.passes.support.gpu.posts import LowerAwaitPosts, LowerPost
from polyc.passes.support.gpu.tile_contracts import (
    LowerAwaitReady,
    LowerFragment,
    LowerMmaSyncContract,
    LowerWgmmaContract,
    PackLeftOperand,
)
from polyc.passes.support.gpu.tile_copies import (
    LowerCpAsyncCopy,
    LowerRegisterCopy,
    LowerRegisterStore,
    LowerTmaCopy,
)
from polyc.passes.support.gpu.tile_digits import DIGIT_PATTERNS
from polyc.passes.support.gpu.tile_exchange import LowerReduceAcross
from polyc.passes.support.gpu.tile_fragments import FRAGMENT_PATTERNS
from polyc.passes.support.gpu.tile_maps import LowerFill, LowerMap
from polyc.passes.support.gpu.tile_reduce import LowerReduce
from polyc.passes.support.gpu.tile_scan import LowerScan
from polyc.passes.support.gpu.tile_scatter import LowerReduceScatter
from polyc.passes.support.gpu.tile_sorts import SORT_PATTERNS
from polyc.passes.support.gpu.tile_stores import STORE_PATTERNS
from polyc.passes.support.gpu.tile_votes import LowerAny
from polyc.rewriting.driver import rewrite


@dataclass(frozen=True)
class GpuLowerTileOps(ModulePass):
    """Lower what works on tiles; afterwards fragments are registers of one thread."""

    name = "gpu-lower-tile-ops"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [PackLeftOperand()])
        # TMA rounds what TF32 alone is read of: ahead of the contracts, which say so.
        rewrite(op, [*IM2COL_PATTERNS, LowerPlanes(), LowerSharedRows(), LowerTmaCopy()])
        rewrite(
            op,
            [
                LowerCpAsyncCopy(),
                LowerRegisterCopy(),
                LowerLooseStore(),
                LowerRegisterStore(),
                LowerWgmmaContract(),
                LowerMmaSyncContract(),
                *FMA_PATTERNS,
                LowerLoadOperands(),
                LowerMultiply(),
                *STORE_PATTERNS,
                *FRAGMENT_PATTERNS,
                LowerReduceAcross(),
                LowerReduceScatter(),
                LowerScan(),
                LowerPost(),
                LowerAwaitPosts(),
                LowerFill(),
                LowerMap(),
                LowerReduce(),
                LowerAny(),
                *SORT_PATTERNS,
                *DIGIT_PATTERNS,
                LowerAwaitReady(),
            ],
        )
        rewrite(op, [LowerFragment()])
