"""What the patterns over a kernel's values share: building, moving over axes, erasing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.traits import Pure

from polyc.dialects import region
from polyc.dialects.region.types import AxisAttr, ValType

Elementwise: TypeAlias = (
    region.UnaryOp
    | region.BinaryOp
    | region.CompareOp
    | region.SelectOp
    | region.CastOp
    | region.BitcastOp
)
"""The ops whose result at a point depends on their operands at that point alone."""


def type_of(value: SSAValue) -> ValType:
    """The type of a kernel's value."""
    return cast(ValType, value.type)


def spread(value: SSAValue, axes: Sequence[AxisAttr], rewriter: PatternRewriter) -> SSAValue:
    """``value`` over ``axes``, which contain its own, in front of the matched op."""
    have, want = type_of(value).labels, tuple(a.label for a in axes)
    if have == want:
        return value
    op: Operation
    if len(have) == len(want):
        op = region.TransposeOp(value, [have.index(w) for w in want])
    else:
        op = region.BroadcastInDimOp(value, [want.index(h) for h in have], axes)
    rewriter.insert(op)
    return op.results[0]


def rebuilt(op: Operation, operands: Sequence[SSAValue]) -> Operation:
    """The elementwise ``op`` on other operands, over their axes."""
    match op:
        case region.UnaryOp():
            return region.UnaryOp(op.fn.data, operands[0])
        case region.BinaryOp():
            return region.BinaryOp(op.fn.data, operands[0], operands[1])
        case region.CompareOp():
            return region.CompareOp(op.fn.data, operands[0], operands[1])
        case region.SelectOp():
            return region.SelectOp(operands[0], operands[1], operands[2])
        case region.BitcastOp():
            return region.BitcastOp(operands[0], op.result.type.element_type)
        case region.CastOp():
            return region.CastOp(operands[0], op.result.type.element_type)
        case _:
            raise ValueError(f"{op.name} is not elementwise")


def erase_unused(op: Operation, rewriter: PatternRewriter) -> None:
    """Erase ``op`` if it is there, pure and unused, then what only it used."""
    work = [op]
    while work:
        op = work.pop()
        if op.parent is None or any(r.first_use for r in op.results) or not op.has_trait(Pure):
            continue
        owners = [o.owner for o in op.operands if isinstance(o.owner, Operation)]
        rewriter.erase(op)
        work += reversed(dict.fromkeys(owners))


# Views of views ------------------------------------------------------------------------


class ComposeBroadcasts(RewritePattern):
    """A broadcast of a broadcast or of a transpose → one broadcast; one of nothing → none.

    Legal always, and exact: no element changes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.BroadcastInDimOp, rewriter: PatternRewriter, /) -> None:
        inner = op.operand.owner
        if op.operand.type == op.result.type and op.positions == tuple(range(len(op.positions))):
            rewriter.replace(op, [], [op.operand])
            return
        match inner:
            case region.BroadcastInDimOp():
                places = [op.positions[p] for p in inner.positions]
            case region.TransposeOp():
                back = {p: i for i, p in enumerate(inner.permutation)}
                places = [op.positions[back[p]] for p in range(len(back))]
            case _:
                return
        rewriter.replace(op, region.BroadcastInDimOp(inner.operand, places, op.result.type.axes))
        erase_unused(inner, rewriter)


class ComposeTransposes(RewritePattern):
    """A transpose of a transpose or of a broadcast → one view; one of nothing → none.

    Legal always, and exact: no element changes.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: region.TransposeOp, rewriter: PatternRewriter, /) -> None:
        inner, perm = op.operand.owner, op.permutation
        if perm == tuple(range(len(perm))):
            rewriter.replace(op, [], [op.operand])
            return
        match inner:
            case region.TransposeOp():
                view: Operation = region.TransposeOp(
                    inner.operand, [inner.permutation[p] for p in perm]
                )
            case region.BroadcastInDimOp():
                places = [perm.index(p) for p in inner.positions]
                view = region.BroadcastInDimOp(inner.operand, places, op.result.type.axes)
            case _:
                return
        rewriter.replace(op, view)
        erase_unused(inner, rewriter)
