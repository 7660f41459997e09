"""Programs on their way through the layers, for tests of kernels."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.gpu import module as gpu
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse
from polyc.passes.pipeline import STAGES, build
from polyc.test.support.gpu_text import only
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def lowered(
    module: ModuleOp,
    arch: str,
    last: str,
    fuse: Fuse = "cost",
    leave: Callable[[ModuleOp], None] | None = None,
) -> ModuleOp:
    """A program after the stage ``last``; with ``legal`` all that may be is in one kernel.

    ``leave`` takes schedules away that a test is not about.
    """
    found, ctx = module.clone(), make_context()
    for stage, names in STAGES.items():
        for name in names:
            fused = name == "index-to-region"
            run_pass(ctx, IndexToRegion(fuse=fuse) if fused else build(name, arch), found)
            if name == "plan-select" and leave is not None:
                leave(found)
        if stage == last:
            break
    return found


def sizes_of(module: ModuleOp, sizes: dict[str, int]) -> dict[str, int]:
    """The sizes of the symbols that a program has."""
    symbols = only(module, frontend.GraphOp).symbol_names
    return {name: size for name, size in sizes.items() if name in symbols}


def unbounded(kernels: gpu.ModuleOp) -> gpu.ModuleOp:
    """Kernels for few tiles too, for which they would be too large."""
    for launch in kernels.dispatch().launches():
        facts = [f for f in launch.when.data if f.kind == "==" or f.expr == Dim.sym("K") - 1]
        launch.properties["when"] = AssumptionsAttr(tuple(facts))
    return kernels
