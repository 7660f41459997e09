"""Products whose rows are the last axis of their output, of all matrices of a batch or of one (S8).

``C[b, m, n] = sum over k of A[m, k] * B[b, n, k]``, as a filter of one tap computes an image in
NCHW of one with its channels last: where n is no multiple of a tile, tiles that lie in one matrix
are filled badly.  Rows n of all matrices b follow each other in B, so that a tile takes them as the
rows of one matrix, and m as its columns; what it stores is turned on its way.  So may the rows of
one matrix be, where m are few, and would leave most of a warpgroup's 64 rows empty.
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
from polyc.dialects.plan.fields import MERGED_ROWS, TURNED_STORE, Value
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

NAMES = {MERGED_ROWS: "merged", TURNED_STORE: "turned"}
"""What names of variants begin with."""


def why_not(gemm: Contraction, way: str = MERGED_ROWS) -> str | None:
    """Why rows of a product's tiles are not the last axis of its output, in one matrix, or with
    ``merged_rows`` in all of them as one; None where they are."""
    if gemm.beside or gemm.follow or gemm.is_exact or gemm.lhs.factor.is_computed:
        return "it is more than one product of two operands of 16 bits that are read"
    if gemm.outputs != ((*gemm.batch, gemm.m, gemm.n),):
        return f"its output is not one tensor that ends in [{gemm.m}, {gemm.n}]"
    if element_bytes(gemm.kernel.outs.data[0].element_type) != OPERAND_BYTES:
        return "its output is not of 16 bits"
    axes = (*gemm.batch, gemm.m, gemm.n, gemm.k)
    if any(gemm.size(axis).constant() is None for axis in axes):
        return "its sizes are not known"
    rows, columns = gemm.rhs, gemm.lhs
    if rows.pieces or columns.pieces:
        return "an operand lies in several tensors"
    sizes = (*rows.contiguous, *columns.contiguous, rows.first[-1], columns.first[-1])
    if any(size.mod(VECTOR) != Dim.const(0) for size in sizes):
        return f"rows of {rows.name} and {columns.name} are no multiples of {VECTOR}"
    if way == MERGED_ROWS:
        if len(gemm.batch) != 1:
            return f"it has {len(gemm.batch)} axes of a batch, of which rows of one are merged"
        if rows.axes != (*gemm.batch, gemm.n, gemm.k) or not _is_whole(gemm, rows):
            return f"{rows.name} is not all of a tensor [{gemm.batch[0]}, {gemm.n}, {gemm.k}]"
        if gemm.batch[0] in columns.axes:
            return f"{columns.name} is another one in each matrix"
    own = (*gemm.batch, gemm.n) if way == MERGED_ROWS else (gemm.n,)
    for op in gemm.kernel.body.block.ops:
        if op in gemm.reads or not isinstance(op, ReadOp | IndexOp | InsideOp):
            continue
        if any(uses(op, expr, own) for expr in exprs_of(op)):
            return f"its epilogue reads or counts along {' or '.join(own)}"
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
    found = replace(exchanged(gemm), lhs=rows, batch=(), m=MERGED)
    return replace(found, merges=(*gemm.batch, gemm.n))


def exchanged(gemm: Contraction) -> Contraction:
    """A product as kernels see it whose rows are the last axis of its output."""
    return replace(gemm, lhs=gemm.rhs, rhs=gemm.lhs, m=gemm.n, n=gemm.m)


def seen(gemm: Contraction, way: str) -> Contraction:
    """A product as the kernels of a way see it."""
    return merged(gemm) if way == MERGED_ROWS else exchanged(gemm)


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
    """What there is beside its sizes of a product as its kernels see it: tiles go through shared
    memory."""
    return ranking.Form(
        is_crowded(gemm, "sm_90a"),
        loose=True,
        alone=True,
        reads=any(op not in gemm.reads for op in reads_of(gemm)),
        sums=False,
    )


def ranked(gemm: Contraction, arch: str, way: str = MERGED_ROWS) -> list[tuple[int, Tiling]]:
    """The plans of a way with their times in ns, the fastest first; none where it is not for the
    product."""
    if not ARCHS[arch].wgmma or why_not(gemm, way) is not None:
        return []
    own = seen(gemm, way)
    batch, m, n, k = (size or 1 for size in ranking.known_sizes(problem_of(own)))
    return ranking.ranked((batch, m, n, k), arch, form_of(own))


def variant_of(gemm: Contraction, plan: Tiling, way: str = MERGED_ROWS) -> MatmulVariant:
    """The variant of a plan of the space whose rows are the last axis of the output."""
    chosen: Value = {"matmul": way}
    width = gcd(VECTOR, gemm.size(gemm.n).constant() or 1)
    fields = {**plan.fields(), "algo_choice": chosen, "vectorize": width}
    return MatmulVariant(plan.named(NAMES[way]), 1, fields, where=())


def alignments(gemm: Contraction, others: list[int]) -> list[int]:
    """How aligned every tensor's address must be, in bytes; ``others`` as the epilogue has them."""
    found = list(others)
    for side in gemm.sides:
        found[tensor_float.number_of(side)] = MAX_VECTOR_BYTES
    return found


def check(gemm: Contraction, plan: ScheduleOp) -> None:
    """Refuse a user's schedule whose rows are not the last axis of the output, or do not merge."""
    way = MERGED_ROWS if plan.merges_rows else TURNED_STORE
    name = f"way of matmul ({way})"
    if (why := why_not(gemm, way)) is not None:
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
