"""The passes of the gpu dialect in their order; ``docs/gpu-passes.md`` is their table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

GPU_PASSES: Mapping[str, str] = MappingProxyType(
    {
        name: f"polyc.passes.{name.replace('-', '_')}"
        for name in (
            "gpu-bind-target",
            "gpu-overlap-launches",
            "gpu-assumptions",
            "gpu-inline-lets",
            "gpu-bind-ifs",
            "gpu-pipeline-planning",
            "gpu-cache-hints",
            "gpu-layout-inference",
            "gpu-multi-version-buffers",
            "gpu-warp-specialize",
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
            "gpu-merge-ifs",
            "gpu-plan-shared-memory",
        )
    }
)
"""Name to module, in pipeline order."""
