"""What a plan expects of the reductions that follow a product in its kernel.

A warp that has its rows whole reduces them by shuffles alone.  Warps beside each other leave what
they have of a row in shared memory, and the CTAs of a cluster send it to each other.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.resources import MBARRIER_BYTES, SUM_BYTES
from polyc.families.follow import steps_of
from polyc.families.matmul.recognise import Contraction

ROWS_HELD = 8
"""Rows of an accumulator of which a thread of a warp holds one: two of each 16."""


@dataclass(frozen=True)
class Followed:
    """Of one CTA, in the words of the simulator's counters; ``meetings`` are those of a cluster."""

    shared_read_bytes: int = 0
    shared_write_bytes: int = 0
    peak_shared_bytes: int = 0
    barriers: int = 0
    meetings: int = 0

    @staticmethod
    def of(gemm: Contraction, plan: ScheduleOp) -> Followed:
        """Of a product under a plan."""
        steps = steps_of(gemm.follow)
        rows, columns, _ = plan.tile_sizes
        high, wide = plan.warp_tile_sizes
        grouped = plan.mma.data == "wgmma"
        warps = plan.threads() // plan.target.warp
        if grouped:
            warps, high = 4 * plan.integer("consumers"), high // 4
        held = plan.target.warp * high // ROWS_HELD
        beside, together = columns // wide, plan.integer("split_k") * plan.integers("cluster")[1]
        across = beside if together == 1 else together
        if across == 1 or not steps:
            return Followed()
        sent = steps * rows * across * SUM_BYTES
        return Followed(
            shared_read_bytes=steps * warps * held * across * SUM_BYTES,
            shared_write_bytes=sent,
            peak_shared_bytes=sent + (steps * MBARRIER_BYTES if grouped else 0),
            barriers=0 if grouped else steps * warps,
            meetings=steps if grouped else 0,
        )
