"""Products whose rows are those of all matrices of a batch, though outputs have them last (S8, S9).

``C[b, m, n] = sum over k of A[m, k] * B[b, n, k]``, as a filter of one tap computes an image in
NCHW of one with its channels last: where n is no multiple of a tile, tiles that lie in one matrix
are filled badly.  Rows n of all matrices b follow each other in B, so that a tile takes them as the
rows of one matrix, and m as its columns; what it stores is turned on its way.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import cast

from xdsl.ir import BlockArgument

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES, OPERAND_BYTES, ScheduleOp
from polyc.dialects.plan.fields import MERGED_ROWS, Value
from polyc.dialects.region import IndexOp, InsideOp, ReadOp
from polyc.families import ranking
from polyc.families.facts import exprs_of, uses
from polyc.families.family import bad_plan, refuse_choice
from polyc.families.matmul import tensor_float
from polyc.families.matmul.problems import is_crowded, problem_of, reads_of
from polyc.families.matmul.recognise import MERGED, Contraction, MatrixOperand
from polyc.families.matmul.variants import MatmulVariant
from polyc.families.space import Tiling

VECTOR = MAX_VECTOR_BYTES // OPERAND_BYTES
"""Elements of 16 bytes, of which TMA takes rows."""


def why_not(gemm: Contraction) -> str | None:
    """Why the rows of a product's matrices are not those of one; None where they are."""
    if gemm.beside or gemm.follow or gemm.is_exact or gemm.lhs.factor.is_computed:
        return "it is more than one product of two operands of 16 bits that are read"
    if len(gemm.batch) != 1 or gemm.outputs != ((*gemm.batch, gemm.m, gemm.n),):
        return f"its output is not one matrix [{gemm.m}, {gemm.n}] for each point of one batch"
    if element_bytes(gemm.kernel.outs.data[0].element_type) != OPERAND_BYTES:
        return "its output is not of 16 bits"
    axes = (*gemm.batch, gemm.m, gemm.n, gemm.k)
    if any(gemm.size(axis).constant() is None for axis in axes):
        return "its sizes are not known"
    rows, columns = gemm.rhs, gemm.lhs
    if rows.axes != (*gemm.batch, gemm.n, gemm.k) or not _is_whole(gemm, rows):
        return f"{rows.name} is not all of a tensor [{gemm.batch[0]}, {gemm.n}, {gemm.k}]"
    if columns.pieces or gemm.batch[0] in columns.axes:
        return f"{columns.name} is another one in each matrix, or lies in several tensors"
    sizes = (*rows.contiguous, *columns.contiguous, columns.first[-1])
    if any(size.mod(VECTOR) != Dim.const(0) for size in sizes):
        return f"rows of {rows.name} and {columns.name} are no multiples of {VECTOR}"
    for op in gemm.kernel.body.block.ops:
        if op in gemm.reads or not isinstance(op, ReadOp | IndexOp | InsideOp):
            continue
        if any(uses(op, expr, (*gemm.batch, gemm.n)) for expr in exprs_of(op)):
            return f"its epilogue reads or counts along {gemm.batch[0]} or {gemm.n}"
    return None


def _is_whole(gemm: Contraction, side: MatrixOperand) -> bool:
    """Whether an operand is all of a tensor."""
    if side.pieces or not isinstance(side.read.tensor, BlockArgument):
        return False
    shape = gemm.kernel.seen[side.read.tensor.index].shape
    return all(
        axis is not None and first == Dim.const(0) and gemm.size(axis) == size
        for axis, first, size in zip(side.axes, side.first, shape, strict=True)
    )


def merged(gemm: Contraction) -> Contraction:
    """A product as kernels see it whose rows are those of all matrices."""
    zero = (Dim.const(0), Dim.const(0))
    rows = replace(gemm.rhs, axes=(MERGED, gemm.k), first=zero, along=(0, 1))
    return replace(
        gemm,
        lhs=rows,
        rhs=gemm.lhs,
        batch=(),
        m=MERGED,
        n=gemm.m,
        merges=(*gemm.batch, gemm.n),
    )


def dims(gemm: Contraction) -> Shape:
    """The operand of a ``merged`` product's rows as one matrix."""
    return (gemm.size(gemm.m), gemm.size(gemm.k))


def number(gemm: Contraction) -> int:
    """The place of its tensor in the signature."""
    return cast("BlockArgument", gemm.lhs.read.tensor).index


def line(gemm: Contraction) -> Dim:
    """The rows of one matrix of a ``merged`` product, which are neighbours in its output."""
    return gemm.size(gemm.merges[-1])


def form_of(gemm: Contraction) -> ranking.Form:
    """What there is of a ``merged`` product beside its sizes: tiles go through shared memory."""
    return ranking.Form(
        is_crowded(gemm, "sm_90a"),
        loose=True,
        alone=True,
        reads=any(op not in gemm.reads for op in reads_of(gemm)),
        sums=False,
    )


def ranked(gemm: Contraction, arch: str) -> list[tuple[int, Tiling]]:
    """The plans of a product whose rows may be merged, with their times in ns, the fastest first;
    none of others."""
    if not ARCHS[arch].wgmma or why_not(gemm) is not None:
        return []
    seen = merged(gemm)
    batch, m, n, k = (size or 1 for size in ranking.known_sizes(problem_of(seen)))
    return ranking.ranked((batch, m, n, k), arch, form_of(seen))


def variant_of(gemm: Contraction, plan: Tiling) -> MatmulVariant:
    """The variant of a plan of the space whose rows are those of all matrices."""
    way: Value = {"matmul": MERGED_ROWS}
    width = gcd(VECTOR, gemm.size(gemm.n).constant() or 1)
    fields = {**plan.fields(), "algo_choice": way, "vectorize": width}
    return MatmulVariant(plan.named("merged"), 1, fields, where=())


def alignments(gemm: Contraction, others: list[int]) -> list[int]:
    """How aligned every tensor's address must be, in bytes; ``others`` as the epilogue has them."""
    found = list(others)
    for side in gemm.sides:
        found[tensor_float.number_of(side)] = MAX_VECTOR_BYTES
    return found


def check(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a user's schedule that merges rows which are not those of one matrix."""
    name = f"way of matmul ({MERGED_ROWS})"
    if (why := why_not(gemm)) is not None:
        refuse_choice(plan, name, why, '"tiled"')
    if plan.loader.data != "tma" or plan.mma.data != "wgmma":
        why = f"is of operands that tma brings to wgmma, not {plan.loader.data} to {plan.mma.data}"
        refuse_choice(plan, name, why, '"tiled"')
    width = gcd(VECTOR, gemm.size(gemm.n).constant() or 1)
    if plan.integer("vectorize") > width:
        raise bad_plan(
            plan,
            f"stores {plan.integer('vectorize')} elements at once, and a matrix has "
            f"{gemm.size(gemm.n)} rows; store {width}",
        )
