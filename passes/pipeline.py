"""The order of the pipeline, from ``frontend`` to the hardware level of ``gpu``.

It is written here and nowhere else; ``docs/passes/gpu-passes.md`` is the table of the gpu
dialect's part.  A pass lies in the folder of its dialect, in a file of its name, and is imported
when it is asked for, so that knowing the names costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, cast

from xdsl.passes import ModulePass

from polyc.dialects.common.diagnostic import PolycError

GPU_PASSES: tuple[str, ...] = (
    "gpu-share-kernels",
    "gpu-bind-target",
    "gpu-overlap-launches",
    "gpu-assumptions",
    "gpu-inline-lets",
    "gpu-bind-ifs",
    "gpu-pipeline-planning",
    "gpu-cache-hints",
    "gpu-share-reads",
    "gpu-prefetch-reads",
    "gpu-partial-lanes",
    "gpu-multi-version-buffers",
    "gpu-warp-specialize",
    "gpu-skew",
    "gpu-turns",
    "gpu-known-conditions",
    "gpu-split-steps",
    "gpu-layout-inference",
    "gpu-inject-pipeline",
    "gpu-double-buffer-fragments",
    "gpu-inject-tma-barriers",
    "gpu-resolve-tokens",
    "gpu-check-rings",
    "gpu-lower-barriers",
    "gpu-store-waits",
    "gpu-insert-barriers",
    "gpu-lower-tile-ops",
    "gpu-wgmma-sync",
    "gpu-legalize-access",
    "gpu-vectorize",
    "gpu-coalesce-stores",
    "gpu-lower-coordinates",
    "gpu-set-max-registers",
    "gpu-lower-roles",
    "gpu-linearize-access",
    "gpu-lower-shared-layout",
    "gpu-hoist-invariants",
    "gpu-roll-maps",
    "gpu-load-ahead",
    "gpu-group-functions",
    "gpu-merge-ifs",
    "gpu-plan-shared-memory",
)
"""From the tile level of ``gpu`` to the hardware level."""

STAGES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "tiny": (
            "frontend-to-tiny",
            "tiny-drop-value-masks",
            "tiny-split-reductions",
            "tiny-split-gates",
            "tiny-gather-first",
            "tiny-keep-groups",
        ),
        "index": ("tiny-to-index",),
        "region": (
            "index-to-region",
            "region-srnf",
            "region-inline-deferred",
            "region-postpone-division",
            "region-streaming-softmax",
            "region-fold-indices",
            "region-merge-axes",
        ),
        "plan": ("plan-select", "region-expand-together", "region-invert-divisors"),
        "tiles": ("region-to-gpu",),
        "gpu": GPU_PASSES,
    }
)
"""The passes of the pipeline, by the layer that they end in."""

ASIDE = (
    "frontend-check-indices",
    "tiny-canonicalize-movements",
    "tiny-split-constants",
    "region-drop-guards",
    "region-distribute",
    "region-im2col",
    "lower-to-gpu",
)
"""Passes that users ask for and that the pipeline does not run."""

ORDER = tuple(name for names in STAGES.values() for name in names)
"""All passes of the pipeline."""

ABOVE_GPU = ORDER[: ORDER.index(GPU_PASSES[0])]
"""The borders, and the passes of the dialects above ``gpu``."""

_BORDERS = ("frontend-to-tiny", "tiny-to-index", "index-to-region", "region-to-gpu")


def module_of(name: str) -> str:
    """The module of a pass of ours: ``gpu-vectorize`` is in ``polyc.passes.gpu.vectorize``."""
    file = name.replace("-", "_")
    if name in _BORDERS:
        return f"polyc.lowering.{file}"
    if name == "lower-to-gpu":
        return f"polyc.passes.{file}"
    dialect, _, rest = file.partition("_")
    return f"polyc.passes.{dialect}.{rest}"


def import_pass(name: str, module: str | None = None) -> type[ModulePass]:
    """The pass ``name`` in its module, or in the one that is given.

    Raises PolycError of kind ``NotAvailable`` when it is not there.
    """
    module = module or module_of(name)
    try:
        loaded = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not (module + ".").startswith(error.name + "."):
            raise
        raise PolycError(
            "NotAvailable", f"pass {name} is not available: there is no module {module}"
        ) from error
    for value in vars(loaded).values():
        if (
            isinstance(value, type)
            and issubclass(value, ModulePass)
            and getattr(value, "name", None) == name
        ):
            return value
    raise PolycError("NotAvailable", f"module {module} has no pass named {name}")


def build(name: str, arch: str, plan: str | None = None) -> ModulePass:
    """The pass ``name`` of the pipeline, for ``sm_80`` or ``sm_90a``.

    ``plan`` names a JSON file with fields of a schedule, for ``plan-select``.
    """
    # The class is found at run time, so its options are not known to the checker.
    cls = cast(Any, import_pass(name))
    return cls(arch=arch, plan=plan) if name == "plan-select" else cls()
