"""The chunk of a ``region.reduce_together`` among the other ops of its kernel.

One chunk of all points is one of the ways of parting them, so that the chunk's values over whole
axes are the op's own (S6.5).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from polyc.dialects.region import KernelOp, ReduceOp, ReduceTogetherOp
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
