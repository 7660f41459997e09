"""Why not: the condition that kept a block from tensor cores, a fusion or TMA (S14.1).

``tensor_core``  a sum of products is a contraction pattern of two operands of one 16-bit type.
``fusion``       what a block reads may be computed at its tiles (``polyc.poly.compute_at``).
``tma``          a copy engine reads an operand whose rows start at multiples of 16 bytes, with
                 zeros outside (PTX ISA, "Tensors", and ``cuTensorMapEncodeTiled``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import BlockArgument, SSAValue

from polyc.dialects.common import sizes
from polyc.dialects.common.signature import SignatureOp
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.tiny import tensor_of
from polyc.poly.blocks import Block, Blocks
from polyc.poly.contraction import Refusal
from polyc.poly.edges import Edge
from polyc.poly.readings import Reading
from polyc.poly.tails import tail
from polyc.poly.ways import facts_of

What = Literal["tensor_core", "fusion", "tma"]

TMA_ALIGN = 16
"""Bytes that the address and every stride but the innermost are multiples of."""

TMA_RANK = 5
"""Most dimensions of a tensor map."""


@dataclass(frozen=True, slots=True)
class WhyNot:
    """One refusal: of what, in which block, for which operand, and the sentence.

    ``block`` is None where no block is a candidate.
    """

    what: What
    block: Block | None
    operand: str | None
    reason: str


def tensor_core(block: Block, blocks: Blocks) -> Iterator[WhyNot]:
    """Why a sum of products does not go to tensor cores; nothing for any other block."""
    found = block.contraction
    if found is None:
        return
    if isinstance(found.pattern, Refusal):
        yield WhyNot("tensor_core", block, None, f"not a contraction, as {found.pattern.reason}")
        return
    kinds = {v: tensor_of(v).element_type for v in block.sources}
    for value, kind in kinds.items():
        if not isinstance(kind, Float16Type | BFloat16Type):
            name = blocks.names[value]
            reason = f"{name} holds {kind}; tensor cores take f16 or bf16"
            yield WhyNot("tensor_core", block, name, reason)
    if len(set(kinds.values())) > 1:
        held = " and ".join(dict.fromkeys(map(str, kinds.values())))
        reason = f"the operands hold {held}; store both in one type"
        yield WhyNot("tensor_core", block, None, reason)


def no_candidate(blocks: Blocks) -> Iterator[WhyNot]:
    """That nothing in the graph is a sum of products."""
    if all(b.contraction is None for b in blocks.blocks):
        yield WhyNot("tensor_core", None, None, "no value is a sum of products")


def fusion(edges: Sequence[Edge], blocks: Blocks) -> Iterator[WhyNot]:
    """Why what a block reads is not computed at its tiles.  Raises ``IslLimitExceeded``."""
    for edge in edges:
        legal = edge.at_tiles
        if edge.computed and not legal.ok:
            name = blocks.names[edge.value]
            where = "" if legal.axis is None else f" inside tiles of {edge.block.dims[legal.axis]}"
            reason = f"{name} is not computed{where}, as {legal.reason}"
            yield WhyNot("fusion", edge.block, name, reason)


def tma(block: Block, blocks: Blocks) -> Iterator[WhyNot]:
    """Why operands of a contraction are not read by TMA.  Raises ``IslLimitExceeded``."""
    if block.pattern is None:
        return
    for one in block.readings:
        reach = one.single
        if reach is not None:
            name = blocks.names[reach.source]
            for reason in _not_by_tma(block, one, reach.source, name):
                yield WhyNot("tma", block, name, reason)


def _not_by_tma(block: Block, read: Reading, source: SSAValue, name: str) -> Iterator[str]:
    kind = tensor_of(source)
    size = element_bytes(kind.element_type)
    if not isinstance(source, BlockArgument):
        yield f"{name} is computed, and is not in global memory unless a kernel stores it there"
        return
    if len(kind.dims) > TMA_RANK:
        yield f"{name} has {len(kind.dims)} dimensions, and a tensor map has at most {TMA_RANK}"
    outside = sorted({f.number for f in read.fills if f.number != 0.0})
    if outside:
        yield f"{name} is {outside[0]} outside of a guard, and TMA fills zeros"
    align = _align(source)
    if align is not None and align % TMA_ALIGN:
        yield f"{name} is aligned to {align} bytes, and TMA needs {TMA_ALIGN}"
    yield from _stride(block, source, name, size)


def _stride(block: Block, source: SSAValue, name: str, size: int) -> Iterator[str]:
    """The first stride, from the innermost, that is no multiple of 16 bytes."""
    dims = tensor_of(source).dims
    facts = facts_of(block.value)
    for position in range(len(dims) - 2, -1, -1):
        stride = sizes.product(dims[position + 1 :]) * size
        found = tail(stride, TMA_ALIGN, block.symbols, facts)
        if found is None:
            return
        at = ""
        if found.symbols is not None and stride.symbols():
            given = dict(zip(block.symbols, found.symbols, strict=True))
            values = ", ".join(f"{s} = {given[s]}" for s in stride.symbols())
            at = f"; with {values} it is {stride.evaluate(given)}"
        yield (
            f"the stride of dimension {position} of {name} is {stride} bytes, and TMA needs a "
            f"multiple of {TMA_ALIGN}{at}"
        )
        return


def _align(source: BlockArgument) -> int | None:
    graph = source.owner.parent_op()
    return graph.inputs[source.index].align if isinstance(graph, SignatureOp) else None
