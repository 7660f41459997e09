"""Equal ops are merged and unused ones dropped, in one walk each.

Upstream has both as ``cse`` and ``dce``, whose rules these follow; they ask for an op's effects
and hash it several times.
"""

from __future__ import annotations

from typing import TypeAlias

from xdsl.ir import Block, Operation, Region
from xdsl.traits import IsolatedFromAbove

from polyc.rewriting.effects import Effect, effect_of, is_unused

Key: TypeAlias = tuple[object, ...]
"""What two equal ops share: kind, operands, attributes, result types; of reads the place too."""


def merge_equal(scope: Region) -> None:
    """Replace each op by an equal one that every way to it has passed, and drop unused ones.

    Exact.  The results of an op without effects depend on its operands and attributes alone; of an
    op that reads, on what has been written before too, so that it is merged with one in the same
    block when nothing between them writes.
    """
    for block in scope.blocks:
        _merge_in_block(block, {})


def _merge_in_block(block: Block, known: dict[Key, Operation]) -> None:
    """``known`` has what stands before ``block`` in those around it, and is left as it was."""
    own: list[Key] = []
    writes = 0
    for op in list(block.ops):
        if op.regions:
            inner = {} if op.has_trait(IsolatedFromAbove) else known
            for region in op.regions:
                # Which of several blocks comes before another is not asked.
                if len(region.blocks) == 1:
                    _merge_in_block(region.block, inner)
        if is_unused(op):
            _erase(op)
            continue
        effect = effect_of(op)
        if effect is Effect.WRITES:
            writes += 1
        if op.regions or effect > Effect.READS or not op.results:
            continue
        place = (block, writes) if effect is Effect.READS else ()
        key = _key(op, place)
        before = known.setdefault(key, op)
        if before is op:
            own.append(key)
            continue
        for old, new in zip(op.results, before.results, strict=True):
            old.replace_all_uses_with(new)
        _erase(op)
    for key in own:
        del known[key]


def _key(op: Operation, place: tuple[object, ...]) -> Key:
    return (
        type(op),
        tuple(op.operands),
        frozenset(op.properties.items()),
        frozenset(op.attributes.items()),
        op.result_types,
        *place,
    )


def drop_unused(scope: Region) -> None:
    """Erase what nothing uses and only reads, users before what they used."""
    for block in scope.blocks:
        for op in reversed(list(block.ops)):
            if is_unused(op):
                _erase(op)
                continue
            for region in op.regions:
                drop_unused(region)


def _erase(op: Operation) -> None:
    op.detach()
    op.erase()
