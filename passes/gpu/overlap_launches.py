"""``gpu-overlap-launches``: a launch comes onto the chip while the one ahead of it ends (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.gpu import module as gpu
from polyc.rewriting.driver import rewrite


class OverlapLaunches(RewritePattern):
    """Mark a module's launches as ``overlapped`` where its architecture has that.

    Legality: the kernel waits, before it touches global memory, until the launch ahead of it in
    the stream is done and seen, whoever made that one, so that the order of all accesses stays as
    it was.  What is gained is the time to launch CTAs and to set up their barriers.  A cooperative
    launch, whose CTAs must all find room at once, is left as it is.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.ModuleOp, rewriter: PatternRewriter) -> None:
        if not ARCHS[op.arch.data].overlapped or not op.has_dispatch():
            return
        for launch in op.dispatch().launches():
            if launch.overlapped is None and launch.cooperative is None:
                launch.overlapped = UnitAttr()
                rewriter.notify_op_modified(launch)


@dataclass(frozen=True)
class GpuOverlapLaunches(ModulePass):
    """Let launches overlap the end of what is ahead of them."""

    name = "gpu-overlap-launches"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [OverlapLaunches()])
