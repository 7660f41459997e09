"""Programs on their way through the layers, for tests of kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.dim import AssumptionsAttr, Dim
from polyc.dialects.gpu import module as gpu
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.index_to_region.kernels import Fuse
from polyc.passes.pipeline import STAGES, build
from polyc.playback.functions import Array
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import only
from polyc.test.support.split_programs import wanted_of
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


def assert_kernels_agree(module: ModuleOp, arch: str = "sm_90a") -> gpu.ModuleOp:
    """That each variant of a program of known sizes computes, in the simulator and without a fault,
    what its graph means of random inputs; its kernels."""
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, arch, "gpu"))
    assert_variants_agree(built, inputs, wanted)
    return built


def assert_variants_agree(
    built: gpu.ModuleOp, inputs: Sequence[Array], wanted: Sequence[Any]
) -> None:
    """That each variant of kernels of known sizes computes what is wanted, without a fault."""
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted, variant.variant_name)


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
