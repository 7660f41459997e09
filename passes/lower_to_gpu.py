"""``lower-to-gpu``: the whole pipeline, from ``frontend`` to the hardware level of ``gpu``."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from polyc.passes.pipeline import ORDER, build
from polyc.rewriting.driver import verify


@dataclass(frozen=True)
class LowerToGpu(ModulePass):
    """Runs the whole pipeline for ``arch``; ``polyc-opt`` runs its passes one by one."""

    name = "lower-to-gpu"

    arch: str = "sm_90a"
    plan: str | None = None

    def expand(self) -> list[ModulePass]:
        """The passes that this one stands for."""
        return [build(name, self.arch, self.plan) for name in ORDER]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for instance in self.expand():
            instance.apply(ctx, op)
            verify(op)
