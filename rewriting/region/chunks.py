"""The chunk of a ``region.reduce_together`` among the other ops of its kernel.

One chunk of all points is one of the ways of parting them, so that the chunk's values over whole
axes are the op's own (S6.5).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    ConstantOp,
    KernelOp,
    ReduceOp,
    ReduceTogetherOp,
    SelectOp,
)
from polyc.dialects.region.together import StateOp
from polyc.rewriting.driver import located


@dataclass(frozen=True)
class Chunk:
    """The states of ``op``'s chunk over all points, as values in the kernel's own block.

    ``reductions`` are those of the chunk, in order.
    """

    op: ReduceTogetherOp
    states: tuple[SSAValue, ...]
    reductions: tuple[ReduceOp, ...]


def rescales(op: ReduceTogetherOp) -> bool:
    """Whether the states of ``op`` are a maximum and sums, which two chunks have together by the
    larger maximum and what each side's sums come to below it.

    A chunk's sums stand alone then, scaled down to any larger maximum: those of many are the plain
    sums of that.  Sums of zeros come to zero.
    """
    _, chunk = chunk_ops(op)
    if [one.fn.data for one in chunk.reductions] != ["max", *["sum"] * (len(op.states) - 1)]:
        return False
    if chunk.states != tuple(one.result for one in chunk.reductions):
        return False
    block, count = op.combine.block, len(op.states)
    args, last = block.args, block.last_op
    assert isinstance(last, StateOp)
    if not _is_binary(last.values[0], "max", args[0], args[count]):
        return False
    for i, value in enumerate(last.values[1:], 1):
        found = value.owner
        if not isinstance(found, BinaryOp) or found.fn.data != "add":
            return False
        if not all(map(_is_scaled, found.operands, (args[i], args[count + i]))):
            return False
    return True


def _is_binary(value: SSAValue, fn: str, *operands: SSAValue) -> bool:
    op = value.owner
    return isinstance(op, BinaryOp) and op.fn.data == fn and tuple(op.operands) == operands


def _is_scaled(value: SSAValue, part: SSAValue) -> bool:
    """Whether a value is a sum of one side, or a multiple of that or of zero."""
    op = value.owner
    if value is part:
        return True
    if isinstance(op, SelectOp):
        return all(_is_scaled(v, part) or _is_zero(v) for v in op.operands[1:])
    return isinstance(op, BinaryOp) and op.fn.data == "mul" and _is_scaled(op.operands[0], part)


def _is_zero(value: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, BroadcastInDimOp):
        return _is_zero(op.operand)
    return isinstance(op, ConstantOp) and op.number == 0


def chunk_ops(op: ReduceTogetherOp) -> tuple[list[Operation], Chunk]:
    """Copies of the ops of a chunk over what ``op`` reduces, to stand in front of it."""
    values: dict[SSAValue, SSAValue] = dict(zip(op.chunk.block.args, op.values, strict=True))
    copies: list[Operation] = []
    for inner in op.chunk.block.ops:
        if isinstance(inner, StateOp):
            states = tuple(values[v] for v in inner.values)
            reductions = tuple(o for o in copies if isinstance(o, ReduceOp))
            return copies, Chunk(op, states, reductions)
        copies.append(located(inner.clone(value_mapper=values), inner))
    raise AssertionError("a verified chunk ends with region.state")


def expand(op: ReduceTogetherOp) -> None:
    """Put the reductions of the chunk in the place of ``op``."""
    copies, chunk = chunk_ops(op)
    block = op.parent
    assert block is not None
    block.insert_ops_before(copies, op)
    for total, state in zip(op.states, chunk.states, strict=True):
        total.replace_all_uses_with(state)
    op.detach()
    op.erase()


def copy_of(kernel: KernelOp) -> KernelOp:
    """A copy that stands nowhere, each op with the location of the one that it is a copy of."""
    copy = kernel.clone()
    for old, new in zip(kernel.walk(), copy.walk(), strict=True):
        new.location = old.location
    return copy


def together(kernel: KernelOp) -> list[ReduceTogetherOp]:
    """The reductions of several states, in the order of the text."""
    return [op for op in kernel.body.block.ops if isinstance(op, ReduceTogetherOp)]


def expanded(kernel: KernelOp) -> KernelOp:
    """``kernel`` with each ``region.reduce_together`` as the reductions of its ``chunk``.

    A kernel without such an op is given back; of another one this is a changed copy.
    """
    if not together(kernel):
        return kernel
    copy = copy_of(kernel)
    for op in together(copy):
        expand(op)
    return copy
