"""What an op does to memory, from the effect traits that upstream defines."""

from __future__ import annotations

from enum import IntEnum
from functools import cache

from xdsl.dialects import arith
from xdsl.ir import Operation
from xdsl.traits import (
    AlwaysSpeculatable,
    IsTerminator,
    MemoryAllocEffect,
    MemoryEffect,
    MemoryReadEffect,
    NoMemoryEffect,
    RecursiveMemoryEffect,
    SymbolOpInterface,
)


class Effect(IntEnum):
    """The strongest thing that an op does, weakest first."""

    NONE = 0
    READS = 1
    ALLOCATES = 2
    WRITES = 3
    """Writes or frees memory, waits for other threads, or says nothing of its effects."""


_BY_TRAIT = {
    NoMemoryEffect: Effect.NONE,
    MemoryReadEffect: Effect.READS,
    MemoryAllocEffect: Effect.ALLOCATES,
}


_UNSTATED: dict[type[Operation], Effect] = dict.fromkeys(
    (arith.RemUIOp, arith.ExtSIOp), Effect.NONE
)
"""Ops of which upstream says nothing."""


@cache
def _own_effect(kind: type[Operation]) -> Effect | None:
    """What ops of a kind do, or None where that is what the ops in their regions do."""
    if kind in _UNSTATED:
        return _UNSTATED[kind]
    found = [type(trait) for trait in kind.traits.traits if isinstance(trait, MemoryEffect)]
    if found == [RecursiveMemoryEffect]:
        return None
    return max(
        (
            next((_BY_TRAIT[base] for base in trait.__mro__ if base in _BY_TRAIT), Effect.WRITES)
            for trait in found
        ),
        default=Effect.WRITES,
    )


def effect_of(op: Operation) -> Effect:
    """What ``op`` does to memory, with the ops in its regions where it says that they count."""
    own = _own_effect(type(op))
    if own is not None:
        return own
    strongest = Effect.NONE
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                strongest = max(strongest, effect_of(inner))
                if strongest is Effect.WRITES:
                    return strongest
    return strongest


@cache
def _ends_or_names(kind: type[Operation]) -> bool:
    return kind.has_trait(IsTerminator) or kind.has_trait(SymbolOpInterface)


def is_unused(op: Operation) -> bool:
    """Whether nothing would be missed without ``op``: no result is used, and it only reads."""
    for result in op.results:
        if result.first_use is not None:
            return False
    return not _ends_or_names(type(op)) and effect_of(op) <= Effect.READS


@cache
def is_movable(kind: type[Operation]) -> bool:
    """Whether ops of a kind may run earlier than they do, and where they might not have run."""
    return (
        kind.has_trait(NoMemoryEffect)
        and kind.has_trait(AlwaysSpeculatable)
        and not kind.has_trait(IsTerminator)
    )
