"""``region-to-gpu``: a region of rows as one list of ops, with its reductions as they are run.

What ``region.reduce_together`` does with a part of the row stands in its chunk.  Here it stands
among the region's other ops, so that one walk over these finds what a kernel computes of a tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from polyc.dialects.region import KernelOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.together import StateOp
from polyc.rewriting.equal_ops import merge_equal


@dataclass(frozen=True)
class Chunk:
    """The states of a part of a row: the values of ``op``'s chunk, in the kernel's own block.

    ``reductions`` are those of the chunk, in order.
    """

    op: ReduceTogetherOp
    states: tuple[SSAValue, ...]
    reductions: tuple[ReduceOp, ...]


@dataclass(frozen=True)
class Flat:
    """A copy of a region's kernel that holds the ops of its chunks too."""

    kernel: KernelOp
    chunks: tuple[Chunk, ...]

    def levels(self) -> Mapping[Operation, int]:
        """How many reductions of whole rows stand one after another up to each op, with itself."""
        inner = {op for chunk in self.chunks for op in chunk.reductions}
        found: dict[Operation, int] = {}
        for op in self.kernel.body.block.ops:
            before = [found[v.owner] for v in op.operands if isinstance(v.owner, Operation)]
            whole = isinstance(op, ReduceOp | ReduceTogetherOp) and op not in inner
            found[op] = max(before, default=0) + whole
        return found


def flattened(kernel: KernelOp, whole: bool) -> Flat:
    """The ops of each chunk in front of its reduction, on the reduction's operands.

    With ``whole`` the chunk is the row: its states are the reduction's results, and the reduction
    is gone.  Equal ops are one.
    """
    copy = kernel.clone()
    for old, new in zip(kernel.walk(), copy.walk(), strict=True):
        new.location = old.location
    chunks: list[Chunk] = []
    for op in list(copy.body.block.ops):
        if isinstance(op, ReduceTogetherOp):
            chunk = _inlined(op)
            if whole:
                for total, state in zip(op.states, chunk.states, strict=True):
                    total.replace_all_uses_with(state)
                op.detach()
                op.erase()
            else:
                chunks.append(chunk)
    if whole:
        merge_equal(copy.body)
    return Flat(copy, tuple(chunks))


def _inlined(op: ReduceTogetherOp) -> Chunk:
    """Put copies of the chunk's ops in front of the reduction."""
    block = op.parent
    assert block is not None
    values: dict[SSAValue, SSAValue] = dict(zip(op.chunk.block.args, op.values, strict=True))
    reductions: list[ReduceOp] = []
    for inner in op.chunk.block.ops:
        if isinstance(inner, StateOp):
            states = tuple(values[v] for v in inner.values)
            return Chunk(op, states, tuple(reductions))
        copy = inner.clone(value_mapper=values)
        copy.location = inner.location
        block.insert_op_before(copy, op)
        if isinstance(copy, ReduceOp):
            reductions.append(copy)
    raise AssertionError("a chunk ends with region.state")
