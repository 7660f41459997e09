"""Rows and small products of known sizes that loops take faster, by the model of time (S8, S11.1).

A kernel of rows has a block, or a cluster, for each row or for several: few and long ones leave
most of the chip idle, where blocks anywhere can share what is only reduced, as loops have it.  Of
many small products, as of rotations with their points, a tile of tensor cores holds one each, of
which most is empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import or_refusal
from polyc.families.loops.recognise import type_of
from polyc.families.loops.schedules import LOOPS
from polyc.families.matmul.recognise import find_contraction
from polyc.families.rows.recognise import find_rows

SURE = 0.8
"""The share of the time of rows that loops take at most where they are taken instead."""

SMALL = 1024
"""Multiplications of one product of a batch up to which loops are asked about."""

CLEARLY = 0.5
"""The share of the time of small products on tensor cores at which loops are taken instead."""


def small_products_instead(
    kernel: KernelOp, arch: str, tiles: Sequence[ScheduleOp]
) -> list[ScheduleOp] | None:
    """The schedules of loops for a batch of small products, where these are clearly faster by the
    model of time, or None."""
    if kernel.symbol_names:
        return None
    found = or_refusal(lambda: find_contraction(kernel))
    if isinstance(found, PolycError) or not found.batch:
        return None
    axes = {axis.label: axis.size for axis in type_of(found.reduce.operand).axes}
    each = [axes[label].constant() for label in (found.m, found.n, found.k) if label in axes]
    if None in each or prod(n for n in each if n is not None) > SMALL:
        return None
    loops = LOOPS.attempt(kernel, arch)
    if isinstance(loops, PolycError):
        return None
    theirs, ours = (modelled(kernel, plans[0], {}).seconds for plans in (tiles, loops))
    return loops if ours < CLEARLY * theirs else None


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
