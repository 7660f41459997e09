"""``gpu-inject-pipeline``: prologue, steady state and tail of a pipeline in one stream (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import tile
from polyc.passes.support.gpu.pipeline_parts import (
    check_stages,
    check_threads,
    clone_iteration,
    copies_of,
    iterations,
    split,
)
from polyc.passes.support.gpu.symbols import enclosing_kernel
from polyc.rewriting.driver import rewrite
from polyc.rewriting.emit import Emit, affine_dim


class InjectPipeline(RewritePattern):
    """Run a pipeline whose copies the computing threads issue themselves.

    The prologue issues the copies of the first ``stages - 1`` iterations.  Each iteration
    waits until its own tiles have arrived, meets the other threads (which have then also
    finished reading the slot that is overwritten next), issues the copies ``stages - 1``
    ahead, and computes.  One cp.async group is closed an iteration, also an empty one, so
    that the number of groups in flight is known, whatever guards let through.

    Legality: the copies are ``cp_async`` or ``register`` and the contracts ``mma.sync``; tiles are
    rings of at least ``stages`` slots (``gpu-multi-version-buffers``), at least 2.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        loading, computing = split(op)
        loaders = {copy.loader.data for copy in copies_of(op) if copy.loader}
        if "tma" in loaders:
            raise PolycError(
                "NoRoles",
                "a pipeline of TMA copies runs on roles (gpu-warp-specialize), which take wgmma "
                "contracts; choose cp_async or register copies for mma.sync",
                op,
            )
        if any(isinstance(o, tile.ContractOp) and o.mma.data == "wgmma" for o in op.body.walk()):
            raise PolycError(
                "NoRoles",
                "wgmma reads tiles that TMA brought (gpu-warp-specialize), since it does not see "
                "what threads wrote; choose tma copies, or mma.sync contracts",
                op,
            )
        check_stages(op)
        check_threads(op, enclosing_kernel(op).threads.value.data)
        stages = op.stages.value.data
        asynchronous = "cp_async" in loaders
        emit = Emit()
        count = iterations(op, emit)

        def issue(inner: Emit, iteration: SSAValue) -> None:
            guard = inner.compare("slt", iteration, count)
            inner.when(guard, lambda then: clone_iteration(op, loading, iteration, then))
            if asynchronous:
                inner.op(hw.CpAsyncCommitOp())

        def step(inner: Emit, iteration: SSAValue) -> None:
            if asynchronous:
                inner.op(hw.CpAsyncWaitOp(stages - 2))
            inner.op(hw.BarrierOp())
            ahead = inner.apply(affine_dim(0) + (stages - 1), [iteration], hint="ahead")
            issue(inner, ahead)
            clone_iteration(op, computing, iteration, inner)

        emit.loop(stages - 1, issue, unroll=True, hint="i")
        emit.loop(count, step, hint="i")
        rewriter.replace(op, emit.ops, [])


@dataclass(frozen=True)
class GpuInjectPipeline(ModulePass):
    """Write out the pipelines that did not become roles."""

    name = "gpu-inject-pipeline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [InjectPipeline()])
