"""``region-to-gpu``: a region of rows that are streamed as one list of ops.

What ``region.reduce_together`` does with a part of the row stands in its chunk.  Here it stands
among the region's other ops, so that one walk over these finds what a kernel computes of a tile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.ir import Operation

from polyc.dialects.region import KernelOp, ReduceOp, ReduceTogetherOp
from polyc.rewriting.region.chunks import Chunk, chunk_ops, copy_of, together


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


def flattened(kernel: KernelOp) -> Flat:
    """The ops of each chunk in front of its reduction, on the reduction's operands."""
    copy = copy_of(kernel)
    chunks: list[Chunk] = []
    for op in together(copy):
        copies, chunk = chunk_ops(op)
        copy.body.block.insert_ops_before(copies, op)
        chunks.append(chunk)
    return Flat(copy, tuple(chunks))
