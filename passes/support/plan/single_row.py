"""Products of one row, or of one column, as rows (S8, S9.3).

One row of A times B is, for each column of B, the sum of that column times the row: each element
of B is read once and multiplied once.  Where columns lie along k they are rows of a tensor, and the
family of rows sums them, a block or a warp each, at the speed of memory.  Tensor cores have tiles
of 64 rows, of which 63 are empty then, and take as long to begin and to end as a small product
lasts: one row times 4096 columns of 4096 takes 12.0 us as rows and 15.0 on tensor cores, 14336
columns 38 and 44, 1024 columns 4.2 and 5.8 (H100, f16).

Where columns lie along n a thread has neighbouring ones, and walks down them: that is a sum of
columns, of the family of loops, whose blocks share the points of k.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.facts import left_open, pointers_promised
from polyc.families.family import Family, fitted, or_refusal
from polyc.families.loops.partial_sums import find_shared
from polyc.families.loops.recognise import Loops, find_loops
from polyc.families.loops.schedules import LOOPS
from polyc.families.matmul.recognise import Contraction, find_contraction
from polyc.families.matmul.schedules import GEMM
from polyc.families.rows.recognise import Rows, find_rows
from polyc.families.rows.schedules import ROWS, held_whole, made
from polyc.passes.support.plan.worth import worth

OPEN = ("block", "chunks")
"""The variants of rows of open lengths, of those that the family has: each is a kernel more."""


def with_single_rows(kernel: KernelOp, arch: str, plans: Sequence[ScheduleOp]) -> list[ScheduleOp]:
    """The schedules of a product, ``plans``, behind those of its one row, or one column.

    There are none of these where rows of the product are reduced, or where not every multiprocessor
    has a tile of rows that are long, or of open length.
    """
    single: list[ScheduleOp] = []
    for plan in single_rows(kernel, arch):
        single.append(plan)
        if not plan.when.data and pointers_promised(kernel, plan.widest):
            return single
    return [*single, *plans]


def single_rows(kernel: KernelOp, arch: str) -> Iterator[ScheduleOp]:
    """Those of its one row, or one column; none for what is no product."""
    gemm = or_refusal(lambda: find_contraction(kernel))
    if not isinstance(gemm, Contraction) or gemm.follow:
        return
    rows = or_refusal(lambda: find_rows(kernel))
    if not isinstance(rows, Rows):
        yield from _columns(gemm, arch)
        return
    for axis in (gemm.m, gemm.n):
        alone = Assumption(gemm.size(axis) - 1, "==")
        for plan in _ways(rows, arch):
            height, last = plan.tile_sizes[0], rows.outer[-1].label
            if height > 1 and last == axis:
                continue  # A tile's rows are neighbours along that axis.
            sizes = {one.label: one.size for one in rows.outer if one.label != axis}
            if last in sizes:
                sizes[last] = sizes[last].ceildiv(height)
            tiles = prod(sizes.values(), start=Dim.const(1))
            chip = 1 if rows.is_quick else ARCHS[arch].multiprocessors
            fills = Assumption(tiles - chip, ">=")
            when = left_open(kernel, [alone, fills, *plan.when.data])
            if when is not None:
                name = f"one_{axis}_{plan.variant.data}"
                yield fitted(kernel.sym_name.data, name, plan.fields(), when)
        if gemm.size(axis).constant() == 1:
            return  # It is always alone: what the other axis has is no other way.


def _columns(gemm: Contraction, arch: str) -> Iterator[ScheduleOp]:
    """Those of one row, or one column, known to be alone, of columns that lie along the other axis.

    None where their elements come one by one, or less than half of a chip has a part of them.
    """
    kernel = gemm.kernel
    alone = next((a for a in (gemm.m, gemm.n) if gemm.size(a).constant() == 1), None)
    loops = None if alone is None else or_refusal(lambda: find_loops(kernel))
    shared = find_shared(loops) if isinstance(loops, Loops) else None
    if shared is None or shared.along != 0 or shared.walked is None:
        return
    found = LOOPS.attempt(kernel, arch)
    for plan in () if isinstance(found, PolycError) else worth(kernel, found):
        rows, columns, _ = plan.tile_sizes
        if plan.integer("vectorize") == 1 or rows == 1:
            continue
        blocks = shared.space.sizes[-1].ceildiv(columns) * plan.integer("split_k")
        fills = Assumption(blocks * 2 - ARCHS[arch].multiprocessors, ">=")
        when = left_open(kernel, [fills, *plan.when.data])
        if when is not None:
            name = f"one_{alone}_{plan.variant.data}"
            yield fitted(kernel.sym_name.data, name, plan.fields(), when)


def family_of(kernel: KernelOp, plan: ScheduleOp) -> Family[Any]:
    """The family of a schedule of a product: its own, or that of its one row."""
    for family in (ROWS, LOOPS):
        if plan.pattern == family.name:
            single = single_rows(kernel, plan.arch.data)
            if any(one.pattern == plan.pattern for one in single):
                return family
    return GEMM


def _ways(rows: Rows, arch: str) -> list[ScheduleOp]:
    """How the family of rows has them, each whole where their length is known and not too large."""
    found = or_refusal(lambda: made(rows, arch))
    if not isinstance(found, list):
        return []
    if rows.length.constant() is None:
        return [plan for plan in found if plan.variant.data in OPEN]
    return [*held_whole(rows, arch, found[0].integer("vectorize")), *found]
