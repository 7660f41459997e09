"""Products of one row, or of one column, as rows (S8, S9.3).

One row of A times B is, for each column of B, the sum of that column times the row: each element
of B is read once and multiplied once.  Where columns lie along k they are rows of a tensor, and the
family of rows sums them, a block or a warp each, at the speed of memory.  Tensor cores have tiles
of 64 rows, of which 63 are empty then, and take as long to begin and to end as a small product
lasts: one row times 4096 columns of 4096 takes 12.0 us as rows and 15.0 on tensor cores, 14336
columns 38 and 44, 1024 columns 4.2 and 5.8 (H100, f16).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.facts import left_open, pointers_promised
from polyc.families.family import fitted, or_refusal
from polyc.families.matmul.recognise import Contraction, find_contraction
from polyc.families.rows.recognise import Rows, find_rows
from polyc.families.rows.schedules import held_whole, made

OPEN = ("block", "chunks")
"""The variants of rows of open lengths, of those that the family has: each is a kernel more."""


def with_single_rows(kernel: KernelOp, arch: str, plans: Sequence[ScheduleOp]) -> list[ScheduleOp]:
    """The schedules of a product, ``plans``, behind those of its one row, or one column.

    There are none of these where what is multiplied with it does not lie along k, where rows of the
    product are reduced, or where not every multiprocessor has a tile of rows.
    """
    single: list[ScheduleOp] = []
    for plan in single_rows(kernel, arch):
        single.append(plan)
        if not plan.when.data and pointers_promised(kernel, plan.widest):
            return single
    return [*single, *plans]


def single_rows(kernel: KernelOp, arch: str) -> Iterator[ScheduleOp]:
    """Those of its one row, or one column; none for what is no product."""
    rows = or_refusal(lambda: find_rows(kernel))
    gemm = or_refusal(lambda: find_contraction(kernel))
    if not isinstance(rows, Rows) or not isinstance(gemm, Contraction) or gemm.follow:
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
            fills = Assumption(tiles - ARCHS[arch].multiprocessors, ">=")
            when = left_open(kernel, [alone, fills, *plan.when.data])
            if when is not None:
                name = f"one_{axis}_{plan.variant.data}"
                yield fitted(kernel.sym_name.data, name, plan.fields(), when)


def _ways(rows: Rows, arch: str) -> list[ScheduleOp]:
    """How the family of rows has them, each whole where their length is known and not too large."""
    found = or_refusal(lambda: made(rows, arch))
    if not isinstance(found, list):
        return []
    if rows.length.constant() is None:
        return [plan for plan in found if plan.variant.data in OPEN]
    return [*held_whole(rows, arch, found[0].integer("vectorize")), *found]
