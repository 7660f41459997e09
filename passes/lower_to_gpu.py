"""``lower-to-gpu``: every border and pass from ``frontend`` to the hardware level of ``gpu``.

The order of the pipeline is written here and nowhere else.  Modules are imported when a
pass is asked for, so that knowing the names costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from polyc.dialects.diagnostic import PolycError
from polyc.passes.driver import verify

BORDERS: Mapping[str, str] = {
    "frontend-to-tiny": "polyc.lowering.frontend_to_tiny",
    "tiny-to-index": "polyc.lowering.tiny_to_index",
    "index-to-region": "polyc.lowering.index_to_region",
    "region-srnf": "polyc.passes.region_srnf",
    "region-inline-deferred": "polyc.passes.region_inline_deferred",
    "region-streaming-softmax": "polyc.passes.region_streaming_softmax",
    "plan-select": "polyc.passes.plan_select",
    "region-to-gpu": "polyc.lowering.region_to_gpu",
}
"""The borders and the passes above ``gpu`` in pipeline order, with their modules."""


def gpu_passes() -> dict[str, str]:
    """The passes of the gpu dialect in pipeline order, name to ``module:Class``."""
    try:
        table = import_module("polyc.passes.gpu_pipeline")
    except ModuleNotFoundError as error:
        if error.name != "polyc.passes.gpu_pipeline":
            raise
        return {}
    return dict(cast(Mapping[str, str], table.GPU_PASSES))


def import_pass(name: str, reference: str) -> type[ModulePass]:
    """The pass ``name`` in ``module`` or ``module:Class``; PolycError when it is not there."""
    module, _, attribute = reference.partition(":")
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        raise PolycError(
            "NotAvailable", f"pass {name} is not available: there is no module {module}"
        ) from error
    for value in [getattr(loaded, attribute, None)] if attribute else vars(loaded).values():
        if (
            isinstance(value, type)
            and issubclass(value, ModulePass)
            and getattr(value, "name", None) == name
        ):
            return value
    raise PolycError("NotAvailable", f"module {module} has no pass named {name}")


def names() -> list[str]:
    """All passes of the pipeline in order."""
    return [*BORDERS, *gpu_passes()]


def build(name: str, arch: str, plan: str | None = None) -> ModulePass:
    """The pass ``name`` of the pipeline, for ``sm_80`` or ``sm_90a``.

    ``plan`` names a JSON file with fields of a schedule, for ``plan-select``.
    """
    # The class is found at run time, so its options are not known to the checker.
    cls = cast(Any, import_pass(name, {**BORDERS, **gpu_passes()}[name]))
    return cls(arch=arch, plan=plan) if name == "plan-select" else cls()


@dataclass(frozen=True)
class LowerToGpu(ModulePass):
    """Runs the whole pipeline for ``arch``; ``polyc-opt`` runs its passes one by one."""

    name = "lower-to-gpu"

    arch: str = "sm_90a"
    plan: str | None = None

    def expand(self) -> list[ModulePass]:
        """The passes that this one stands for."""
        return [build(name, self.arch, self.plan) for name in names()]

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for instance in self.expand():
            instance.apply(ctx, op)
            verify(op)
