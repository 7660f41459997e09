"""``index-to-region``: whether a kernel to be has a family that runs its products on tensor cores.

The families' own rules are asked, on the region as the passes before ``plan-select`` will have made
it, so that partition and plans cannot disagree (S11.1).
"""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.families.registry import FAMILIES
from polyc.passes.region.merge_axes import MergeAxes
from polyc.passes.region.postpone_division import postpone
from polyc.passes.region.srnf import normalise
from polyc.passes.region.streaming_softmax import stream
from polyc.rewriting.driver import rewrite
from polyc.rewriting.notes import unsaid


def contracts(kernel: KernelOp) -> bool:
    """Whether a region, which stands nowhere and is changed, runs on tensor cores everywhere."""
    module = ModuleOp([kernel])
    with unsaid():
        normalise(module)
        postpone(module)
        stream(module)
        rewrite(module, [MergeAxes()])
        found = next(op for op in module.ops if isinstance(op, KernelOp))
        return all(_taken(found, arch) for arch in ARCHS)


def _taken(kernel: KernelOp, arch: str) -> bool:
    """Whether a family of products has a schedule for the region on an architecture."""
    for family in FAMILIES:
        if family.contracts:
            found = family.attempt(kernel, arch)
            if not isinstance(found, PolycError):
                return any(plan.mma.data != "none" for plan in found)
    return False
