"""Products whose columns lie in rows that begin anywhere: k goes in phases (S8, S9).

An image of 14 by 14 pixels in NCHW has rows of 196 elements, of which TMA takes two as one row.
What is multiplied lies where it is then, and the other operand, as weights are, is copied with its
points of k in another order (``dialects/plan/phased.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import BlockArgument

from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.phased import phase, phases
from polyc.dialects.region import KernelOp
from polyc.families.matmul.recognise import Contraction


@dataclass(frozen=True)
class Phases:
    """How a product goes over k: ``count`` phases of ``depth`` points each, zeros behind them.

    ``rows`` and ``columns`` are the numbers, in the signature, of the tensors of both operands.
    """

    count: int
    depth: int
    rows: int
    columns: int

    @property
    def all(self) -> Dim:
        """The points of all phases."""
        return Dim.const(self.count * self.depth)


def find_phases(gemm: Contraction) -> Phases | None:
    """How a product may go over k in phases, or None.

    It is one product of 16 bits alone, of a matrix [m, k] by tensors [..., k, n] whose last two
    dimensions it goes over whole, with known k and n; rows of n elements begin anywhere, and as
    many of them as begin at a multiple of 16 bytes together part k.
    """
    left, right = gemm.lhs, gemm.rhs
    if gemm.beside or gemm.follow or gemm.is_exact or left.factor.is_computed:
        return None
    if left.pieces or right.pieces or left.axes != (gemm.m, gemm.k):
        return None
    if right.axes[-2:] != (gemm.k, gemm.n) or any(f != Dim.const(0) for f in right.first):
        return None
    tensors = (left.read.tensor, right.read.tensor)
    if not all(isinstance(t, BlockArgument) for t in tensors):
        return None
    rows, columns = (t.index for t in tensors if isinstance(t, BlockArgument))
    shapes = [gemm.kernel.seen[number].shape for number in (rows, columns)]
    k, n = (gemm.size(axis).constant() for axis in (gemm.k, gemm.n))
    if not k or not n or rows == columns:
        return None
    if shapes[0][-1].constant() != k or [s.constant() for s in shapes[1][-2:]] != [k, n]:
        return None
    count = phases(n)
    deep = phase(Dim.const(k), count).constant()
    if count == 1 or k % count or deep is None:
        return None
    return Phases(count, deep, rows, columns)


def is_worth(gemm: Contraction, found: Phases) -> bool:
    """Whether a copy of the rows' operand costs less than one of the columns': it is made once, or
    smaller than what one matrix of the other has, or all of them where their number is known."""
    if gemm.kernel.inputs[found.rows].is_constant:
        return True
    own, other = (
        [size.constant() for size in gemm.kernel.seen[number].shape]
        for number in (found.rows, found.columns)
    )
    copied, read = 1.0, 1.0
    for size in own:
        if size is None:
            return False
        copied *= size
    for size in other:
        read *= size or 1
    return copied <= read


def alignments(found: Phases, kernel: KernelOp, others: Sequence[int]) -> list[int]:
    """How aligned every tensor's address must be, in bytes; ``others`` as the epilogue has them."""
    aligned = list(others)
    aligned[found.rows] = element_bytes(kernel.seen[found.rows].element_type)
    aligned[found.columns] = MAX_VECTOR_BYTES
    return aligned


def planned(gemm: Contraction, plan: ScheduleOp) -> Phases | None:
    """The phases of a schedule; None where it has none."""
    return find_phases(gemm) if plan.loader.data == "phased" else None
