"""Which waits a ring of shared tiles needs, from the dependences between its iterations (S7.1).

Iteration ``i`` copies a tile into slot ``i mod stages`` and reads it there:

    true = { copy(i) → read(i) }          the tile has to be there
    anti = { read(i) → copy(i + stages) }  and must not be overwritten before it is read

On SM80 the copies are groups of ``cp.async``, issued ``stages - 1`` iterations ahead: a thread
waits until its groups but the youngest ``pending`` are complete, and one block barrier an
iteration serves both dependences.  On SM90 each slot has two mbarriers: ``full`` completes when
the TMA's bytes have landed, ``empty`` when every consumer has read.
"""

from __future__ import annotations

from dataclasses import dataclass

from polyc.dialects.common.arch import Arch
from polyc.dialects.common.dim import Dim


@dataclass(frozen=True, slots=True)
class CommitWait:
    """SM80: groups of cp.async.

    ``ahead`` is how many iterations a copy is issued before its read, ``pending`` how many
    groups may still fly when the read begins.
    """

    stages: int
    ahead: int
    pending: int


@dataclass(frozen=True, slots=True)
class MBarriers:
    """SM90: a full and an empty mbarrier a slot.

    ``expect_bytes`` is what a full barrier waits for; a phase's parity is the bit
    ``i div stages mod 2``, and a copy waits for the empty barrier from iteration ``stages`` on.
    """

    stages: int
    full: int
    empty: int
    expect_bytes: Dim


def barrier_hint(arch: Arch, stages: int, tile_bytes: Dim) -> CommitWait | MBarriers:
    """The waits of a ring of ``stages`` slots, each of ``tile_bytes`` for all operands.

    Raises ValueError below 2 stages, where nothing overlaps.
    """
    if stages < 2:
        raise ValueError(f"a ring has 2 stages or more, not {stages}")
    if arch.tma:
        return MBarriers(stages, stages, stages, tile_bytes)
    # Before read(i) the groups 0 … i + stages - 2 are issued, and group i has to be complete.
    return CommitWait(stages, stages - 1, stages - 2)
