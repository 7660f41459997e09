"""``frontend-to-tiny``: products of batches whose batch is several axes of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.rewriter import InsertPoint

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.frontend.types import TensorType, tensor, tensor_of
from polyc.rewriting.driver import located
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.building import erase_unused

POINTWISE = (frontend.ElementwiseOp, frontend.CastOp, frontend.CompareOp, frontend.SelectOp)
"""Ops of which each element is made of those at its place."""


class KeepBatchApart(RewritePattern):
    """``reshape(f(reshape(x) @ reshape(y)))`` → ``f(x @ y)``, for a batch that is merged and split.

    Attention by ``bmm`` has ``[B, H, M, D]`` as ``[B * H, M, D]``, and its result comes out as
    ``[B, H, M, D]``, whose heads go into rows again.  What the product is stored as then has the
    axes of who reads it.  Legal where the reshape splits the first axis alone, and all between is
    products, elementwise ops, softmaxes and reductions of other axes, of tensors that are merged in
    the same way or are the same for all of the batch; what else reads a value between splits it so
    too.

    Exact: every element is computed as before.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.ReshapeOp, rewriter: PatternRewriter, /) -> None:
        batch = _split_of(op)
        if batch is None:
            return
        inside = _merged(op.operand, batch)
        if inside is None:
            return
        if not any(isinstance(one, frontend.GemmOp) for one in inside.values()):
            return
        others: list[frontend.ReshapeOp] = []
        for value in inside:
            for use in value.uses:
                user = use.operation
                if user.results and user.results[0] in inside:
                    continue
                if not isinstance(user, frontend.ReshapeOp) or _split_of(user) != batch:
                    return
                others.append(user)
        made: dict[SSAValue, SSAValue] = {}
        for value, one in inside.items():
            made[value] = _again(value, one, batch, made, rewriter)
        ends = {user.operand.owner for user in others}
        for user in others:
            rewriter.replace(user, [], [made[user.operand]])
        for end in ends:
            if isinstance(end, Operation) and end.parent is not None:
                erase_unused(end, rewriter)


def _split_of(op: frontend.ReshapeOp) -> Shape | None:
    """The two axes or more that a reshape makes of the first one, the others being as they were."""
    before, after = tensor_of(op.operand).dims, tensor_of(op.result).dims
    count = len(after) - len(before) + 1
    if count < 2 or len(before) < 2 or after[count:] != before[1:]:
        return None
    return after[:count]


def _merged(value: SSAValue, batch: Shape) -> dict[SSAValue, Operation] | None:
    """What a value is made of with tensors whose first axis is ``batch`` merged, operands first;
    None where it is made of others."""
    made: dict[SSAValue, Sequence[SSAValue]] = {}
    work = [value]
    while work:
        if (one := work.pop()) in made:
            continue
        given = _of_merged(one, batch)
        if given is None:
            return None
        made[one] = given
        work += given
    return {one: cast(Operation, one.owner) for one in reached([value], made.__getitem__)}


def _of_merged(value: SSAValue, batch: Shape) -> Sequence[SSAValue] | None:
    """The operands of a value that have its batch: none of one that is merged itself; None where
    the axes of a batch cannot stay apart."""
    op = value.owner
    match op:
        case frontend.ReshapeOp():
            dims = tensor_of(value).dims
            return () if tensor_of(op.operand).dims == (*batch, *dims[1:]) else None
        case frontend.GemmOp():
            if any(tensor_of(x).rank != 3 for x in (op.a, op.b, op.result)):
                return None
            given: Sequence[SSAValue] = (op.a, op.b)
        case frontend.PermuteOp():
            if op.perm[0] != 0:
                return None
            given = (op.operand,)
        case frontend.SoftmaxOp() | frontend.LogSoftmaxOp() | frontend.ReduceOp():
            kept = tensor_of(op.result).rank == tensor_of(op.operand).rank
            if 0 in op.axes or not kept:
                return None
            given = (op.operand,)
        case _ if isinstance(op, POINTWISE):
            given = op.operands
        case _:
            return None
    first, rank = tensor_of(value).dims[0], tensor_of(value).rank
    wide = [x for x in given if tensor_of(x).rank == rank and tensor_of(x).dims[0] == first]
    if not wide or (isinstance(op, frontend.GemmOp) and len(wide) < 2):
        return None
    return wide


def _again(
    value: SSAValue,
    op: Operation,
    batch: Shape,
    made: dict[SSAValue, SSAValue],
    rewriter: PatternRewriter,
) -> SSAValue:
    """The same value with the axes of the batch apart, where it was made: other readers of it than
    the one that was met may stand before that."""
    if isinstance(op, frontend.ReshapeOp):
        return op.operand
    more = len(batch) - 1
    kind = tensor_of(value)
    shape = tensor((*batch, *kind.dims[1:]), kind.element_type)

    def given(x: SSAValue) -> SSAValue:
        if x in made:
            return made[x]
        own: TensorType = tensor_of(x)
        if own.rank < kind.rank:
            return x
        ones = [Dim.const(1)] * len(batch)
        wide = located(frontend.ReshapeOp(x, [*ones, *own.dims[1:]]), op)
        rewriter.insert(wide, InsertPoint.before(op))
        return wide.result

    one: Operation
    match op:
        case frontend.PermuteOp():
            perm = [*range(more), *(axis + more for axis in op.perm)]
            one = frontend.PermuteOp(given(op.operand), perm)
        case frontend.SoftmaxOp() | frontend.LogSoftmaxOp():
            one = type(op)(given(op.operand), [axis + more for axis in op.axes])
        case frontend.ReduceOp():
            axes = [axis + more for axis in op.axes]
            one = frontend.ReduceOp(op.function, given(op.operand), axes, keepdims=True)
        case _:
            one = op.create(
                operands=[given(x) for x in op.operands],
                result_types=[shape],
                properties=op.properties.copy(),
                attributes=op.attributes.copy(),
            )
    rewriter.insert(located(one, op), InsertPoint.before(op))
    one.results[0].name_hint = value.name_hint
    return one.results[0]
