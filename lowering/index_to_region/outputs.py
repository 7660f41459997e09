"""``index-to-region``: where outputs of a graph lie, beside others or as views of what is stored.

An output that is smaller than another one is stored by its kernel, over some of its axes.  One that
is a stored value in another order, as heads merged into rows are, is that value, stored so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.region.types import AxisAttr


@dataclass(frozen=True)
class Turned:
    """A value whose axes, stored in an order, the outermost first, are an output row by row."""

    source: SSAValue
    order: tuple[int, ...]


def turned_from(
    graph: tiny.GraphOp, value: SSAValue, same: Mapping[SSAValue, SSAValue]
) -> Turned | None:
    """What an output is, permuted and then perhaps reshaped; None where it is neither.

    Nothing else reads that or what is in between, as far as an output needs it; ``same`` are equal
    values.  Exact: the elements are the same ones.
    """
    if not isinstance(value.owner, tiny.ReshapeOp | tiny.PermuteOp):
        return None
    here, read = value, _count_reads(graph, same)
    while isinstance(op := here.owner, tiny.ReshapeOp):
        here = same.get(op.operand, op.operand)
        if read.get(here) != 1:
            return None
    order = tuple(range(tiny.tensor_of(here).rank))
    while isinstance(op := here.owner, tiny.PermuteOp):
        order = tuple(op.perm[axis] for axis in order)
        here = same.get(op.operand, op.operand)
        if read.get(here) != 1:
            return None
    return Turned(here, order)


def is_about(
    end: SSAValue, mean: SSAValue, same: Mapping[SSAValue, SSAValue]
) -> tiny.ReduceOp | None:
    """The sum of squared distances from ``mean`` that ``end`` is made of by ops of its own shape,
    where what is squared is what ``mean`` is made of a sum of; None where there is none."""
    squares = _reduction_of(end, same)
    if squares is None:
        return None
    product = _plain(squares.operand, same).owner
    if not isinstance(product, tiny.BinaryOp) or product.function != "mul":
        return None
    distance, other = (_plain(v, same) for v in product.operands)
    taken = distance.owner
    if other is not distance or not isinstance(taken, tiny.BinaryOp) or taken.function != "sub":
        return None
    own, about = (_plain(v, same) for v in taken.operands)
    total = _reduction_of(mean, same)
    if about is not _plain(mean, same) or total is None or total.axes != squares.axes:
        return None
    return squares if _plain(total.operand, same) is own else None


def is_below(
    end: SSAValue, top: SSAValue, same: Mapping[SSAValue, SSAValue]
) -> tiny.ReduceOp | None:
    """The sum of exponentials below the maximum ``top`` that ``end`` is made of, by ops of its own
    shape and of ``top`` perhaps, where what grows is what that is the maximum of; None where there
    is none."""
    largest = top.owner
    if not isinstance(largest, tiny.ReduceOp) or largest.function != "max":
        return None
    found = {op for op in _reductions_of(end, same) if op is not largest}
    powers = found.pop() if len(found) == 1 else None
    if powers is None or powers.function != "sum" or powers.axes != largest.axes:
        return None
    grown = _plain(powers.operand, same).owner
    if not isinstance(grown, tiny.UnaryOp) or grown.function != "exp":
        return None
    taken = _plain(grown.operand, same).owner
    if not isinstance(taken, tiny.BinaryOp) or taken.function != "sub":
        return None
    own, about = (_plain(v, same) for v in taken.operands)
    return powers if about is top and own is _plain(largest.operand, same) else None


def _plain(value: SSAValue, same: Mapping[SSAValue, SSAValue]) -> SSAValue:
    """A value before it was repeated, or given axes of one point."""
    value = same.get(value, value)
    while isinstance(op := value.owner, tiny.ExpandOp | tiny.ReshapeOp):
        value = same.get(op.operand, op.operand)
    return value


def _reduction_of(value: SSAValue, same: Mapping[SSAValue, SSAValue]) -> tiny.ReduceOp | None:
    """The one sum that a value is made of by functions of elements and constants."""
    found = _reductions_of(value, same)
    return found[0] if len(found) == 1 and found[0].function == "sum" else None


def _reductions_of(value: SSAValue, same: Mapping[SSAValue, SSAValue]) -> list[tiny.ReduceOp]:
    """The reductions that a value is made of by functions of elements and constants; none where it
    is made of something else too."""
    found: dict[tiny.ReduceOp, None] = {}
    work, seen = [value], set[SSAValue]()
    while work:
        here = _plain(work.pop(), same)
        op = here.owner
        if here in seen or isinstance(op, tiny.ConstantOp | tiny.DimOp):
            continue
        seen.add(here)
        if isinstance(op, tiny.ReduceOp):
            found[op] = None
        elif isinstance(op, tiny.FunctionOp | tiny.CastOp):
            work += op.operands
        else:
            return []
    return list(found)


def _count_reads(graph: tiny.GraphOp, same: Mapping[SSAValue, SSAValue]) -> dict[SSAValue, int]:
    """How many ops that an output needs read each value; equal casts read nothing."""
    found: dict[SSAValue, int] = {}
    for op in reversed(list(graph.body.block.ops)):
        needed = isinstance(op, tiny.OutputOp) or any(v in found for v in op.results)
        if needed and not any(v in same for v in op.results):
            for operand in dict.fromkeys(same.get(o, o) for o in op.operands):
                found[operand] = found.get(operand, 0) + 1
    return found


def embedded(sizes: Sequence[Dim], iters: Sequence[AxisAttr]) -> Sequence[AffineExpr] | None:
    """Where a smaller output lies among a kernel's axes; None where it has another axis.

    Axes of its sizes are taken in the kernel's order where they stand so, else each the first that
    is left.  An axis of one point that the kernel does not have, as a reduction leaves it, is at 0.
    """
    return _in_order(sizes, iters) or _in_any_order(sizes, iters)


def _in_order(sizes: Sequence[Dim], iters: Sequence[AxisAttr]) -> Sequence[AffineExpr] | None:
    found: list[AffineExpr] = []
    left = iter(range(len(iters)))
    for size in sizes:
        axis = next((i for i in left if iters[i].size == size), None)
        if axis is None:
            return None
        found.append(AffineDimExpr(axis))
    return tuple(found)


def _in_any_order(sizes: Sequence[Dim], iters: Sequence[AxisAttr]) -> Sequence[AffineExpr] | None:
    wide = [size for size in sizes if size.constant() != 1]
    if len(wide) >= len(iters):
        return None  # as large as the kernel, and turned: it would be written across its rows
    found: list[AffineExpr] = []
    left = list(range(len(iters)))
    for size in sizes:
        axis = next((i for i in left if iters[i].size == size), None)
        if axis is not None:
            left.remove(axis)
            found.append(AffineDimExpr(axis))
        elif size.constant() == 1:
            found.append(AffineExpr.constant(0))
        else:
            return None
    return tuple(found)
