"""``gpu-plan-shared-memory``: offsets of tiles and barriers (T2)."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.gpu.types import (
    SharedType,
    index_attr,
)
from polyc.dialects.gpu.waiting import MBarrierType
from polyc.rewriting.driver import rewrite

MBARRIER_BYTES = 8


class PlaceShared(RewritePattern):
    """Lay a kernel's tiles and barriers one after another, the most aligned ones first.

    Every one lives as long as the kernel.  Raises PolycError ``ResourceExceeded`` when they
    exceed what a CTA of the architecture may have.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: KernelOp, rewriter: PatternRewriter) -> None:
        if op.shared_bytes is not None:
            return
        module = op.parent_op()
        assert isinstance(module, gpu.ModuleOp)
        places: list[tuple[hw.SharedTileOp | hw.MBarrierOp, int, int]] = []
        for inner in op.walk():
            if isinstance(inner, hw.SharedTileOp):
                kind = inner.tile.type
                assert isinstance(kind, SharedType)
                places.append((inner, kind.bytes, kind.alignment))
            elif isinstance(inner, hw.MBarrierOp):
                assert isinstance(inner.barrier.type, MBarrierType)
                size = inner.barrier.type.count.data * MBARRIER_BYTES
                places.append((inner, size, MBARRIER_BYTES))
        places.sort(key=lambda place: -place[2])
        total = 0
        for place, size, alignment in places:
            total = -(-total // alignment) * alignment
            place.offset = index_attr(total)
            rewriter.notify_op_modified(place)
            total += size
        limit = ARCHS[module.arch.data].shared_bytes
        if total > limit:
            parts = " + ".join(str(size) for _, size, _ in places)
            raise PolycError(
                "ResourceExceeded",
                f"kernel @{op.sym_name.data} needs {parts} = {total} bytes of shared memory and "
                f"{module.arch.data} has {limit} a block; use fewer stages or a smaller tile",
                op,
            )
        op.shared_bytes = index_attr(total)
        rewriter.notify_op_modified(op)


@dataclass(frozen=True)
class GpuPlanSharedMemory(ModulePass):
    """Place shared tiles and barriers, and count the bytes."""

    name = "gpu-plan-shared-memory"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [PlaceShared()])
