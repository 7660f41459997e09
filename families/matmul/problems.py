"""What the model of time asks of a product beside a plan: its sizes, operands and epilogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from xdsl.dialects.builtin import i1

from polyc.cost.products import SHARED_RATES, Stored
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import OPERAND_BYTES
from polyc.dialects.region import ReadOp
from polyc.dialects.region.types import val_type
from polyc.families import ranking
from polyc.families.facts import holds_always
from polyc.families.matmul import padded
from polyc.families.matmul.recognise import Contraction, MatrixOperand


def is_crowded(gemm: Contraction, arch: str) -> bool:
    """Whether an epilogue reads two tensors or more that move with the rows, as residuals do.

    Where warps load the operands into registers too, one of 32 bits counts as two.  An operand that
    is computed counts as one, two numbers that each row has one of as one where there are no more,
    and conditions beside these alone as none.
    """
    epilogue = [op for op in reads_of(gemm) if op not in gemm.reads]
    by_rows = [op for op in epilogue if val_type(op.result).axis(gemm.m) is not None]
    if ARCHS[arch].wgmma and not gemm.lhs.factor.is_computed and _are_of_rows(gemm, by_rows):
        return False
    wide = 1 if ARCHS[arch].wgmma else 2
    bits = (element_bytes(op.result.type.element_type) for op in by_rows)
    held = sum(wide if size > OPERAND_BYTES else 1 for size in bits)
    return held + gemm.lhs.factor.is_computed > 1


def reads_of(gemm: Contraction) -> list[ReadOp]:
    """What a product's region reads."""
    return [op for op in gemm.kernel.body.block.ops if isinstance(op, ReadOp)]


def _are_of_rows(gemm: Contraction, reads: Sequence[ReadOp]) -> bool:
    """Whether reads are of two numbers of each row at most, and of one tensor of conditions."""
    large = [op for op in reads if val_type(op.result).axis(gemm.n) is not None]
    kinds = [op.result.type.element_type for op in large]
    return len(reads) - len(large) <= 2 and len(large) <= 1 and all(k == i1 for k in kinds)


def problem_of(gemm: Contraction, copied: bool = False) -> ranking.Problem:
    """What of a product plans are ranked for, of operands as they are or ``copied``."""
    batch = prod(map(gemm.size, gemm.batch), start=Dim.const(1))
    sizes = (batch, gemm.size(gemm.m), gemm.size(gemm.n), gemm.size(gemm.k))
    rows = dict.fromkeys(size for side in gemm.sides for size in side.contiguous)
    lines = () if copied else tuple(size for size in rows if _may_be_uneven(gemm, size))
    return ranking.Problem(gemm.kernel, sizes, lines=lines)


def _may_be_uneven(gemm: Contraction, size: Dim) -> bool:
    """Whether an open size of an operand's rows may be no multiple of a line's."""
    if size.constant() is not None:
        return False
    whole, kernel = Assumption(size.mod(ranking.LINE), "=="), gemm.kernel
    return not holds_always(whole, kernel.assumptions, kernel.symbol_names)


def compared_form(gemm: Contraction, arch: str, copied: bool) -> ranking.Form:
    """The same where its times are compared with those of other kinds of kernels, whose formula
    knows each multiprocessor by itself."""
    return replace(form_of(gemm, arch, copied), known=None)


def form_of(gemm: Contraction, arch: str, copied: bool) -> ranking.Form:
    """What there is of a product beside its sizes, of operands as they are or ``copied``."""

    def uneven(side: MatrixOperand) -> bool:
        rows = (size.constant() for size in side.contiguous)
        return not copied and any(size is not None and size % ranking.LINE for size in rows)

    cut = {piece.axis for side in gemm.sides for piece in side.pieces}
    return ranking.Form(
        is_crowded(gemm, arch),
        loose=copied and padded.stored_vectors(gemm) < padded.VECTOR,
        stored=Stored(
            uneven(gemm.lhs),
            any(uneven(part.rhs) for part in gemm.parts),
            along=gemm.rhs.tile_axes[-1] == gemm.n,
        ),
        products=len(gemm.parts),
        cut=(gemm.m in cut, gemm.n in cut),
        joined=bool(cut),
        reads=any(op not in gemm.reads for op in reads_of(gemm)),
        known=SHARED_RATES,
    )
