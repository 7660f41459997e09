"""What is known of a region's sizes when its schedules are chosen (S2.1, S9.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.affine import isl
from polyc.cost.products import STEP
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import MAX_VECTOR_BYTES
from polyc.dialects.region import IndexOp, InsideOp, KernelOp, ReadOp
from polyc.dialects.region.types import MemRefType


def holds_always(fact: Assumption, known: AssumptionsAttr, symbols: Sequence[str]) -> bool:
    """Whether ``known`` implies ``fact``; isl decides where both are affine."""
    if (value := fact.expr.constant()) is not None:
        return value == 0 if fact.kind == "==" else value >= 0
    if any(_says_more(one, fact) for one in known.data):
        return True
    if fact.expr.as_affine(symbols) is None:
        return False
    conclusion = AssumptionsAttr((fact,)).as_affine_set(symbols)
    return isl.implies(known.as_affine_set(symbols), conclusion)


def same_size(kernel: KernelOp, one: Dim, other: Dim) -> bool:
    """Whether two sizes are equal for all symbols that a region's assumptions allow."""
    return holds_always(Assumption(one - other, "=="), kernel.assumptions, kernel.symbol_names)


def _says_more(known: Assumption, fact: Assumption) -> bool:
    """Whether one condition is another one, or a stricter bound of the same expression, which a
    value of it is on either side.
    """
    if known == fact:
        return True
    if known.kind == ">=" and fact.kind == "==":
        return False
    apart = [(fact.expr - known.expr).constant()]
    if known.kind == "==":
        apart.append((fact.expr + known.expr).constant())
    if fact.kind == "==":
        return 0 in apart
    return any(more is not None and more >= 0 for more in apart)


def where_fastest(times: Sequence[Dim]) -> list[tuple[Assumption, ...]]:
    """Where each of several plans runs that are asked in this order: where none behind it is
    faster, by the modelled times of all.
    """
    return [
        tuple(Assumption(other - mine, ">=") for other in times[number:])
        for number, mine in enumerate(times, 1)
    ]


DEPTH = STEP
"""Points of a summed axis that a step of tensor cores has at most; those of any step divide it."""

PIECE = 128
"""Rows or columns of which the pieces of a product's operand begin at multiples: the tile that
kernels for every shape have lies inside of one."""


def ends_cleanly(
    kernel: KernelOp, read: ReadOp, axis: int, size: Dim, first: Dim, depth: int = DEPTH
) -> bool:
    """Whether a product's last step finds nothing beyond ``size`` points of a dimension but zeros.

    A step has ``depth`` points, or as many as divide that.

    The read goes along dimension ``axis`` of its tensor from ``first`` on.  What follows there in
    the tensor is not what is summed: zeros of the other factor would not take it out of the sum
    where it is infinite.
    """
    whole = cast("MemRefType", read.tensor.type).shape[axis]
    steps = Assumption(size.mod(depth), "==")
    return same_size(kernel, whole, first + size) or holds_always(
        steps, kernel.assumptions, kernel.symbol_names
    )


def never_holds(fact: Assumption, known: AssumptionsAttr, symbols: Sequence[str]) -> bool:
    """Whether no sizes satisfy ``fact`` beside ``known``."""
    if (value := fact.expr.constant()) is not None:
        return not (value == 0 if fact.kind == "==" else value >= 0)
    if fact.expr.as_affine(symbols) is None:
        return False
    return isl.is_empty(AssumptionsAttr((*known.data, fact)).as_affine_set(symbols))


def left_open(kernel: KernelOp, facts: Sequence[Assumption]) -> tuple[Assumption, ...] | None:
    """What of ``facts`` the assumptions of a region leave open; None where they exclude one."""
    known, symbols = kernel.assumptions, kernel.symbol_names
    if any(never_holds(fact, known, symbols) for fact in facts):
        return None
    return tuple(fact for fact in facts if not holds_always(fact, known, symbols))


def pointers_promised(kernel: KernelOp, width: int) -> bool:
    """Whether the signature's alignments are enough for accesses of ``width`` elements."""
    return all(
        t.align >= min(width * element_bytes(t.element_type), MAX_VECTOR_BYTES) for t in kernel.seen
    )


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least ``least``."""
    return 1 << max(0, least - 1).bit_length()


def power_within(size: Dim, limit: int) -> int:
    """The least power of two that a known size does not exceed, or ``limit``, a power of two."""
    known = size.constant()
    return limit if known is None else min(limit, power_of_two(known))


def fixed_symbols(kernel: KernelOp) -> dict[str, int]:
    """The symbols of a region that a fact makes a number, as ``M == 16`` does."""
    return fixed_by(kernel.assumptions.data)


def fixed_by(facts: Sequence[Assumption]) -> dict[str, int]:
    """The symbols that a fact makes a number."""
    found: dict[str, int] = {}
    for fact in facts:
        names = fact.expr.symbols()
        if fact.kind == "==" and len(names) == 1:
            size = (Dim.sym(names[0]) - fact.expr, Dim.sym(names[0]) + fact.expr)
            value = next((v for one in size if (v := one.constant()) is not None), None)
            if value is not None:
                found[names[0]] = value
    return found


def exprs_of(op: ReadOp | IndexOp | InsideOp) -> Iterator[AffineExpr]:
    """The expressions of the axes of an op's result that it has."""
    sets = [op.set] if isinstance(op, InsideOp) else []
    if isinstance(op, IndexOp):
        yield op.expr
    if isinstance(op, ReadOp):
        yield from op.map.data.results
        sets += [] if op.guard is None else [op.guard]
    for found in sets:
        for row in found.data.constraints:
            yield from (row.lhs, row.rhs)


def uses(op: ReadOp | IndexOp | InsideOp, expr: AffineExpr, axes: Sequence[str]) -> bool:
    """Whether an expression of the axes of an op's result uses one of ``axes``."""
    labels = op.result.type.labels
    return any(isinstance(e, AffineDimExpr) and labels[e.position] in axes for e in expr.dfs())
