"""Rows of known sizes that loops take faster, by the model of time (S8, S11.1).

A kernel of rows has a block, or a cluster, for each row or for several: few and long ones leave
most of the chip idle, where blocks anywhere can share what is only reduced, as loops have it.
"""

from __future__ import annotations

from collections.abc import Sequence

from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.schedules import LOOPS
from polyc.families.rows.recognise import find_rows

SURE = 0.8
"""The share of the time of rows that loops take at most where they are taken instead."""


def loops_instead(
    kernel: KernelOp, arch: str, rows: Sequence[ScheduleOp]
) -> list[ScheduleOp] | None:
    """The schedules of loops for a region of rows, where these are faster for sure, or None.

    What the first schedule of either takes is compared: it runs wherever addresses allow.  Of rows
    side by side that are only reduced, which either may have, the faster one is taken.
    """
    if kernel.symbol_names:
        return None
    loops = LOOPS.attempt(kernel, arch)
    if isinstance(loops, PolycError):
        return None
    theirs, ours = (modelled(kernel, plans[0], {}).seconds for plans in (rows, loops))
    found = find_rows(kernel)
    either = found.turned and not any(map(found.has_row, kernel.yield_op.values))
    return loops if ours < (1.0 if either else SURE) * theirs else None
