"""Products of an operand whose rows the copy engine cannot begin at: it takes them as one (S8, S9).

A row of an operand ``[k, n]`` begins where no tensor map may where it is no multiple of 16 bytes,
as the 196 pixels of an image of 14 by 14 are.  Rows lie one after another, though: all those of a
step are one run of memory, which the engine brings as a matrix of its own.  Threads take them from
there to registers, row by row, from which wgmma multiplies its rows: so the pixels are the rows of
the tile, which has all of them, and what was the operand of the rows is that of the columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

from xdsl.ir import BlockArgument

from polyc.dialects.common.dim import Assumption, Dim, Shape
from polyc.dialects.plan import OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.flat import BOX_ROWS, MOST_ROWS, VECTOR, chunk
from polyc.families.facts import holds_always, same_size
from polyc.families.matmul.recognise import Contraction, MatrixOperand

STORED = 1300
"""Bytes of the output that kernels store in a ns (an H100), beside what the model has: neighbours
in a row of it lie in other threads."""

SHARED_ALIGN = 128
"""Of what TMA writes to shared memory, in bytes."""


@dataclass(frozen=True)
class Flat:
    """How rows of an operand are taken as one: ``length`` elements each, in lines of ``chunk`` of
    the matrix that the copy engine sees.
    """

    gemm: Contraction
    """As the kernel sees it: the operand is that of the rows."""
    length: int
    chunk: int

    @property
    def number(self) -> int:
        """The place of its tensor in the signature."""
        return cast("BlockArgument", self.gemm.lhs.read.tensor).index

    @property
    def dims(self) -> Shape:
        """The sizes of the matrix, for each of the dimensions outside of k."""
        *outer, k, length = self.gemm.kernel.seen[self.number].shape
        return (*outer, (k * length).floordiv(self.chunk), Dim.const(self.chunk))

    def tile(self, depth: int) -> tuple[int, int]:
        """What a step takes of it."""
        return depth * self.length // self.chunk, self.chunk


def oriented(gemm: Contraction) -> Contraction:
    """A product with its sides exchanged."""
    return replace(gemm, lhs=gemm.rhs, rhs=gemm.lhs, m=gemm.n, n=gemm.m)


def flat_of(gemm: Contraction, depth: int) -> Flat | None:
    """How steps of ``depth`` take the operand of a product's columns; None where they do not.

    It lies along the columns, whose number is known, no multiple of 16 bytes, and as many as a tile
    has rows at most; it is all of a tensor, and the other operand lies along k, in rows of
    multiples of 16 bytes.
    """
    k, length = gemm.size(gemm.k).constant(), loose_rows(gemm)
    if not k or length is None or length > MOST_ROWS:
        return None
    wide = chunk(length, k, depth)
    # A box lands at a multiple of 128 bytes, whichever slot of the ring it is for.
    aligned = depth * length * OPERAND_BYTES % SHARED_ALIGN == 0
    if wide is None or not aligned or depth * length // wide > BOX_ROWS:
        return None
    return Flat(oriented(gemm), length, wide)


def loose_rows(gemm: Contraction) -> int | None:
    """How long rows of the operand of a product's columns are, where no tensor map begins at them;
    None where one does, or where something else keeps the copy engine from bringing the other.

    It lies along the columns, whose number is known and no multiple of 16 bytes, and is all of a
    tensor; the other operand lies along k, in rows of multiples of 16 bytes.
    """
    length = gemm.size(gemm.n).constant()
    alone = not (gemm.beside or gemm.follow or gemm.is_exact or gemm.lhs.factor.is_computed)
    if not alone or not length or length % VECTOR == 0:
        return None
    rows, others = gemm.rhs, gemm.lhs
    last = (len(rows.axes) - 2, len(rows.axes) - 1)
    if rows.tile_axes != (gemm.k, gemm.n) or rows.along != last or not _is_whole(gemm, rows):
        return None
    if others.tile_axes != (gemm.m, gemm.k) or others.pieces:
        return None
    known, symbols = gemm.kernel.assumptions, gemm.kernel.symbol_names
    ends = (*others.contiguous, others.first[-1])
    whole = all(holds_always(Assumption(s.mod(VECTOR), "=="), known, symbols) for s in ends)
    return length if whole else None


def planned(gemm: Contraction, plan: ScheduleOp) -> Flat | None:
    """How a schedule's kernel takes the rows of a product that is ``oriented``; None where it does
    not."""
    return flat_of(oriented(gemm), plan.tile_sizes[2]) if plan.loader.data == "flat" else None


def _is_whole(gemm: Contraction, side: MatrixOperand) -> bool:
    """Whether an operand is all of a tensor."""
    tensor = side.read.tensor
    if side.pieces or not isinstance(tensor, BlockArgument):
        return False
    shape = gemm.kernel.seen[tensor.index].shape
    return all(
        axis is not None and first == Dim.const(0) and same_size(gemm.kernel, gemm.size(axis), size)
        for axis, first, size in zip(side.axes, side.first, shape, strict=True)
    )
