"""Single-consumer chains: values that hand on to one reader, one after another (S4.10).

With ``readers = { value → block that reads it }``, a chain is a longest path of blocks of which
each but the last has exactly one reader and is not given out.  What is in a chain may stay in
registers or shared memory from one block to the next; what ends one is stored, or has several
readers.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from polyc.dialects import tiny
from polyc.poly.blocks import Block, Blocks


def chains(blocks: Blocks) -> list[tuple[Block, ...]]:
    """The chains of two blocks or more, in the order of their first blocks."""
    by_value: dict[SSAValue, list[Block]] = {}
    for block in blocks.blocks:
        for source in dict.fromkeys(block.sources):
            by_value.setdefault(source, []).append(block)
    readers = {b.name: [r for r in by_value.get(b.value, ()) if r is not b] for b in blocks.blocks}
    onward = {
        b.name: readers[b.name][0]
        for b in blocks.blocks
        if len(readers[b.name]) == 1 and not _given_out(b)
    }
    # Where several chains meet, the first goes on through the block, the others end before it.
    taken: set[str] = set()
    found: list[tuple[Block, ...]] = []
    for block in blocks.blocks:
        if block.name in taken:
            continue
        chain = [block]
        while (further := onward.get(chain[-1].name)) is not None and further.name not in taken:
            chain.append(further)
        taken |= {b.name for b in chain}
        if len(chain) > 1:
            found.append(tuple(chain))
    return found


def _given_out(block: Block) -> bool:
    return any(isinstance(use.operation, tiny.OutputOp) for use in block.value.uses)
