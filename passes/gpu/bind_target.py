"""``gpu-bind-target``: hold every kernel against the architecture of its module (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.target import Limits, TargetAttr
from polyc.rewriting.driver import rewrite


class BindTarget(RewritePattern):
    """Attach the limits of the module's architecture as its ``target``.

    Legality: what the kernels ask for by name (a loader, an mma, roles) must exist there.
    Raises PolycError ``UnknownArch`` or ``NotOnArch``.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: gpu.ModuleOp, rewriter: PatternRewriter) -> None:
        if op.target is not None:
            return
        arch = ARCHS.get(op.arch.data)
        if arch is None:
            raise PolycError("UnknownArch", f'"{op.arch.data}" is none of {", ".join(ARCHS)}', op)
        for inner in op.walk():
            wanted: str | None = None
            if isinstance(inner, tile.ContractOp) and inner.mma.data == "wgmma":
                wanted = "wgmma"
            elif isinstance(inner, tile.CopyOp) and inner.loader and inner.loader.data == "tma":
                wanted = "tma"
            elif isinstance(inner, tile.RolesOp):
                wanted = "warpgroup roles"
            if wanted is not None and not arch.wgmma:
                raise PolycError(
                    "NotOnArch",
                    f"{wanted} needs sm_90a and the module is for {arch.name}; "
                    "choose mma.sync with cp_async or register loaders",
                    inner,
                )
        op.target = TargetAttr(Limits.of(arch))
        rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class GpuBindTarget(ModulePass):
    """Check what kernels use against their architecture and note its limits."""

    name = "gpu-bind-target"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [BindTarget()])
