"""``gpu-pipeline-planning``: how each tile travels, and at which stage (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import GlobalType, element_bytes, index_attr
from polyc.passes.support.gpu.guards import acting, statement
from polyc.rewriting.driver import rewrite


def module_of(op: tile.CopyOp | tile.PipelineOp) -> gpu.ModuleOp:
    """The gpu.module around an op."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, gpu.ModuleOp):
        parent = parent.parent_op()
    if parent is None:
        raise PolycError("NoTarget", "a tile program stands in a gpu.module", op)
    return parent


class ChooseLoader(RewritePattern):
    """Say how a copy travels when its author did not.

    TMA needs SM90 and 16-byte rows; cp.async 4-byte rows; registers take anything.  Raises
    PolycError ``MisalignedCopy`` when the author's loader is narrower than the rows allow.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.CopyOp, rewriter: PatternRewriter) -> None:
        if not op.is_load and not op.is_store:
            return
        tensor = op.source.type if op.is_load else op.target.type
        assert isinstance(tensor, GlobalType)
        align = max(tensor.align.data, element_bytes(tensor.element_type))
        if op.loader is not None:
            need = {"tma": 16, "cp_async": 4}.get(op.loader.data, 1)
            if align < need:
                raise PolycError(
                    "MisalignedCopy",
                    f"{op.loader.data} needs rows aligned to {need} bytes and {tensor} "
                    f"promises {align}; use a narrower loader or assume the row length",
                    op,
                )
            return
        wide = ARCHS[module_of(op).arch.data].wgmma and align >= 16
        narrow = "cp_async" if align >= 4 and op.is_load else "register"
        loader = "tma" if wide else narrow
        op.loader = StringAttr(loader)
        rewriter.notify_op_modified(op)


class PlanStages(RewritePattern):
    """Run a pipeline's copies ``stages - 1`` iterations ahead of the ops that read them.

    A guarded op has the stage, and its guard comes along.  Legality: a copy depends on nothing in
    the loop but the position, which a copy's operands show, and its guards on nothing that may
    change (``gpu-bind-ifs``); the ring of ``gpu-multi-version-buffers`` holds as many tiles.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.PipelineOp, rewriter: PatternRewriter) -> None:
        ahead = op.stages.value.data - 1
        changed = False
        for inner in map(statement, acting(op.body.block)):
            if isinstance(inner, tile.CopyOp | tile.ContractOp) and inner.stage is None:
                copy = isinstance(inner, tile.CopyOp) and inner.is_load
                inner.stage = index_attr(0 if copy else ahead)
                changed = True
        if changed:
            rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class GpuPipelinePlanning(ModulePass):
    """Choose loaders and give each op of a pipeline its stage."""

    name = "gpu-pipeline-planning"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [ChooseLoader(), PlanStages()])
