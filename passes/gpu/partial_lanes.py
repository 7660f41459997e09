"""``gpu-partial-lanes``: a row's running sum is kept by lanes, and joined once (T2).

The threads that hold a row of an accumulator would exchange their parts of its sum in every step of
a loop.  A sum that a step only multiplies and adds to can stay in parts until it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import FloatAttr, ModuleOp, NoneAttr
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint, Rewriter

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType
from polyc.passes.support.gpu.scope import in_loop
from polyc.passes.support.gpu.tile_effects import writes
from polyc.rewriting.driver import located, rewrite

LANES = 4
"""Threads that share a row of a tensor-core accumulator."""

BY_ROW = AffineMap.from_callable(lambda i, j: (i,))
BY_LANE = AffineMap.from_callable(lambda i, j: (i, j // 2 % LANES))
"""A row of an accumulator by the threads that hold it: neighbouring columns go in pairs."""


class KeepLanes(RewritePattern):
    """Reduce an accumulator's rows to a part for each lane, where a running sum takes them.

    The reduction's result is read by one kind of op: a map that multiplies a running sum by what
    depends on neither, and adds the result.  Both get an axis of lanes; ops that read the running
    sum otherwise read the sum of its lanes, which is made in front of the first of them.

    Legality: sums change their order, as they do with a layout; a factor of infinity or NaN meets
    each part as it would their sum.  All that sets the running sum are such maps and fills with 0;
    the rows are of a contract's accumulator, each in one warp; those that read the running sum
    stand in one block, with nothing between them that sets it.  Refused, and left as they are:
    other reductions, sums outside of loops, and fragments with a layout of the author's.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tile.ReduceOp, rewriter: PatternRewriter) -> None:
        if op.kind.data != "sum" or op.by.data != BY_ROW or op.accumulate or op.cluster:
            return
        running = Running.of(op)
        if running is None:
            return
        if running.readers:
            kind = running.sums.type
            assert isinstance(kind, FragmentType)
            total = tile.FragmentOp(kind)
            total.fragment.name_hint = "total"
            owner = running.sums.owner
            assert isinstance(owner, Operation)
            rewriter.insert(located(total, owner), InsertPoint.after(owner))
            first = running.readers[0]
            joined = tile.ReduceOp("sum", running.sums, BY_ROW, total.fragment)
            for reader in running.readers:
                for number, value in enumerate(reader.operands):
                    if value is running.sums:
                        reader.operands[number] = total.fragment
            rewriter.insert(located(joined, first), InsertPoint.before(first))
        for reduce in running.reductions:
            new = tile.ReduceOp("sum", reduce.source, BY_LANE, reduce.target)
            rewriter.replace(reduce, located(new, reduce))
        for value in (running.part, running.sums):
            kind = value.type
            assert isinstance(kind, FragmentType)
            wide = FragmentType.of((*kind.sizes, LANES), kind.element_type)
            rewriter.replace_value_with_new_type(value, wide)
        for step in running.steps:
            spread(step)


@dataclass(frozen=True)
class Running:
    """A running sum, and the ops on it and on what is added to it."""

    part: SSAValue
    sums: SSAValue
    reductions: Sequence[tile.ReduceOp]
    steps: Sequence[tile.MapOp]
    readers: Sequence[Operation]

    @staticmethod
    def of(op: tile.ReduceOp) -> Running | None:
        """The running sum that a reduction's result is added to, and nothing else."""
        part = op.target
        users = [use.operation for use in part.uses]
        steps = [user for user in users if isinstance(user, tile.MapOp)]
        reductions = [user for user in users if isinstance(user, tile.ReduceOp)]
        if not steps or len(steps) + len(reductions) < len(users) or not plain(part):
            return None
        if not all(is_step(step, part) for step in steps):
            return None
        (*_, sums) = {step.space for step in steps}
        alike = all(
            reduce.target is part
            and reduce.kind == op.kind
            and reduce.by == op.by
            and reduce.accumulate is None
            and reduce.cluster is None
            and in_whole_warps(reduce.source)
            for reduce in reductions
        )
        if not alike or any(step.space is not sums for step in steps) or not plain(sums):
            return None
        others = {use.operation for use in sums.uses} - set(steps)
        fills = [other for other in others if isinstance(other, tile.FillOp)]
        readers = others - set(fills)
        if not all(is_zero(fill.value) for fill in fills) or not all(map(in_loop, steps)):
            return None
        if any(sums in writes(reader) for reader in readers):
            return None
        block = next(iter(readers)).parent_block() if readers else None
        if any(reader.parent_block() is not block for reader in readers):
            return None
        ordered = [o for o in block.ops if o in readers] if block is not None else []
        if ordered:
            between = ordered[0]
            while between is not ordered[-1]:
                if any(sums in writes(inner) for inner in between.walk()):
                    return None
                between = between.next_op
                assert between is not None
        return Running(part, sums, reductions, steps, ordered)


def plain(value: SSAValue) -> bool:
    """Whether a value is a fragment of rank 1 whose layout is open."""
    kind = value.type
    return (
        isinstance(value.owner, tile.FragmentOp)
        and isinstance(kind, FragmentType)
        and len(kind.sizes) == 1
        and isinstance(kind.layout, NoneAttr)
    )


def in_whole_warps(source: SSAValue) -> bool:
    """Whether a fragment is a contract's accumulator of which each warp has whole rows."""
    kind = source.type
    assert isinstance(kind, FragmentType)
    contracts = [
        use.operation
        for use in source.uses
        if isinstance(use.operation, tile.ContractOp) and use.operation.acc is source
    ]
    return bool(contracts) and all(c.warp_sizes[1] == kind.sizes[1] for c in contracts)


def is_step(op: tile.MapOp, part: SSAValue) -> bool:
    """Whether a map is ``sums = sums * factor + part`` by the row, the factor of neither."""
    body = op.body.block
    if list(op.outputs) != [op.space] or list(op.inputs).count(part) != 1 or op.space is part:
        return False
    if any(
        len(m.results) != 1 or m != AffineMap.identity(1) for m in (x.data for x in op.maps.data)
    ):
        return False
    if not all(isinstance(v.type, FragmentType) for v in op.inputs) or op.space in op.inputs:
        return False
    added = body.args[1 + list(op.inputs).index(part)]
    last = body.last_op
    assert isinstance(last, tile.YieldOp)
    (value,) = last.values
    old = body.args[0]
    match value.owner:
        case math_ops.FmaOp(a=a, b=b, c=c) if c is added:
            factor = b if a is old else a if b is old else None
        case arith.AddfOp(lhs=lhs, rhs=rhs) if added in (lhs, rhs):
            other = rhs if lhs is added else lhs
            product = other.owner
            if other is old:
                return alone(old) and alone(added)
            if not isinstance(product, arith.MulfOp) or old not in product.operands:
                return False
            factor = product.rhs if product.lhs is old else product.lhs
        case _:
            return False
    return factor is not None and factor is not old and alone(old) and alone(added)


def alone(arg: BlockArgument) -> bool:
    """Whether one op uses a value, once."""
    return arg.uses.get_length() == 1


def is_zero(value: SSAValue) -> bool:
    owner = value.owner
    return (
        isinstance(owner, arith.ConstantOp)
        and isinstance(owner.value, FloatAttr)
        and owner.value.value.data == 0
    )


def spread(op: tile.MapOp) -> None:
    """Give a step the axis of lanes: what has one is read in it, what has none by the row."""
    lanes = AffineMap.identity(2)
    maps = [
        lanes if isinstance(v.type, FragmentType) and len(v.type.sizes) == 2 else BY_ROW
        for v in (*op.inputs, *op.outputs)
    ]
    body = op.detach_region(op.body)
    new = tile.MapOp(op.space, op.origin, op.inputs, op.outputs, maps, body, op.cache)
    new.attributes.update(op.attributes)
    Rewriter.replace_op(op, located(new, op))


@dataclass(frozen=True)
class GpuPartialLanes(ModulePass):
    """Keep running sums of rows by lanes."""

    name = "gpu-partial-lanes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [KeepLanes()])
