"""Products of operands whose rows the copy engine does not take: they are copied first (S8, S9).

Threads that load rows of odd length, an element or two at a time, keep tensor cores waiting.  A
launch ahead of the product copies such an operand to rows of whole panels, which costs reading and
writing it once, and the product then runs as any other does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, prod

from xdsl.ir import BlockArgument

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, ScheduleOp
from polyc.dialects.plan.padded import PANEL
from polyc.families.facts import holds_always, same_size
from polyc.families.matmul.recognise import Contraction
from polyc.families.matmul.split import tiles_of

VECTOR = 8
"""Elements of 16 bytes, of which TMA takes rows."""

LEAST_ODD, LEAST_EVEN = 128, 256
"""Points of k, in all waves of tiles, from where on copies are worth their time: where threads
would load single elements, some 30 ns a point, and where they would load pairs."""


def numbers(gemm: Contraction) -> list[int]:
    """The tensors of the signature that the operands are read from."""
    tensors = (tensor for side in gemm.sides for tensor in side.tensors)
    return list(dict.fromkeys(t.index for t in tensors if isinstance(t, BlockArgument)))


def row(gemm: Contraction, number: int) -> Dim:
    """The length of a row of a tensor of the signature."""
    return gemm.kernel.seen[number].shape[-1]


def copied(gemm: Contraction, plan: ScheduleOp) -> list[int]:
    """The tensors that a schedule's kernel reads copies of: whose rows may be no whole panels."""
    if plan.loader.data != "padded":
        return []
    return [number for number in numbers(gemm) if not _has_panels(gemm, number)]


def _has_panels(gemm: Contraction, number: int) -> bool:
    fact = Assumption(row(gemm, number).mod(PANEL), "==")
    return holds_always(fact, gemm.kernel.assumptions, gemm.kernel.symbol_names)


def alignments(gemm: Contraction, plan: ScheduleOp, others: Sequence[int]) -> list[int]:
    """How aligned every tensor's address must be, in bytes; ``others`` as the epilogue has them.

    Operands are copied from any address, or brought by the copy engine from their own.
    """
    copies, found = copied(gemm, plan), list(others)
    for number in numbers(gemm):
        size = element_bytes(gemm.kernel.seen[number].element_type)
        found[number] = size if number in copies else MAX_VECTOR_BYTES
    return found


def stored_vectors(gemm: Contraction) -> int:
    """Elements that a kernel may store at once: whole vectors where all rows are known to be, and
    as many as all rows are multiples of where their lengths are known."""
    kernel = gemm.kernel
    others = [t for i, t in enumerate(kernel.seen) if i not in numbers(gemm) and t.shape]
    lengths = [kind.shape[-1].constant() for kind in others]
    known = [length for length in lengths if length is not None]
    if len(known) == len(lengths):
        return gcd(VECTOR, *known)
    whole = all(
        holds_always(
            Assumption(kind.shape[-1].mod(VECTOR), "=="), kernel.assumptions, kernel.symbol_names
        )
        for kind in others
    )
    return VECTOR if whole else 1


def facts(gemm: Contraction, rows: int, columns: int, arch: str) -> list[Assumption] | None:
    """For which sizes copies are worth their time; None where for none.

    They are not where other kernels take the operands as they are, or where little of a tensor is
    multiplied, all of which would be copied.
    """
    kernel = gemm.kernel
    outs = (
        out.shape[-1] for out, axes in zip(kernel.outs, gemm.outputs, strict=True) if gemm.n in axes
    )
    lengths = list(dict.fromkeys((*(row(gemm, n) for n in numbers(gemm)), *outs)))
    open_ones = [
        size
        for size in lengths
        if not holds_always(
            Assumption(size.mod(VECTOR), "=="), kernel.assumptions, kernel.symbol_names
        )
    ]
    if not open_ones or not _are_whole(gemm):
        return None
    tiles = prod(tiles_of(gemm, rows, columns), start=Dim.const(1))
    points = tiles.ceildiv(ARCHS[arch].multiprocessors) * gemm.size(gemm.k)
    even = prod((-size.mod(2) + 1 for size in open_ones), start=Dim.const(1))
    least = even * (LEAST_EVEN - LEAST_ODD) + LEAST_ODD
    return [Assumption(points - least, ">=")]


def _are_whole(gemm: Contraction) -> bool:
    """Whether the product goes over all of each operand's tensor, if a copy of it is read.

    One whose rows are whole panels is brought from where it lies.
    """
    for side in gemm.sides:
        if not isinstance(side.read.tensor, BlockArgument):
            return False
        if not side.pieces and _has_panels(gemm, side.read.tensor.index):
            continue
        if side.pieces:
            return False
        shape = gemm.kernel.seen[side.read.tensor.index].shape
        for axis, first, size in zip(side.axes, side.first, shape, strict=True):
            if axis is None or first != Dim.const(0):
                return False
            if not same_size(gemm.kernel, _extent(gemm, axis), size):
                return False
    return True


def _extent(gemm: Contraction, axis: str) -> Dim:
    """The points of an axis of any of the products."""
    inner = {part.k for part in gemm.parts}
    return gemm.size(gemm.k if axis in inner else axis)
