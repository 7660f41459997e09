"""The plans that an attention may have on tensor cores fed by TMA (S8, S9, S11.1).

A plan is a tile of queries, the keys of a step, the warpgroups that share them, how many CTAs share
a multiprocessor, and whether these go on to other tiles.  Which there are follows from registers
and shared memory: a thread holds its part of the scores, of the weights and of the output.  Nothing
here knows an attention's sizes: the model of time ranks the plans for these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from polyc.cost.attention import Tiles
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.plan.attention import ELEMENT_BYTES
from polyc.dialects.plan.resources import (
    RESERVED,
    SHARED_ALIGN,
    WGMMA_LEFT,
    WGMMA_OWN,
    register_split,
    registers_at_launch,
)
from polyc.families.family import Fields

GROUP_ROWS = 64
"""Queries of a warpgroup."""

STAGES = 2
"""Of the rings of K and V."""

KEYS = (64, 128)
"""Keys of a step; of the most CTAs on a multiprocessor half as many as the least."""

BETWEEN = {(1, 3, 96): 32}
"""Consumers, CTAs of a multiprocessor and other keys of a step, where twice as many have no room,
with the registers of a thread as ``SHAPES`` has them.  Neither pairs of tiles nor bounds of keys on
both sides leave these; where all queries see all keys, high tiles are faster."""

PRODUCER = {(1, 2): 40, (2, 1): 40, (3, 1): 32}
"""Registers of the thread that starts copies, by consumers and CTAs of a multiprocessor; else 24.
One that counts its tiles' keys spills of 24 where they go by position."""

MOST_AT_ONCE = 4
"""CTAs that share a multiprocessor."""

SHAPES = {(1, 2): 88, (1, 3): 56, (1, 4): 40, (2, 1): 60, (3, 1): 80}
"""Consumer warpgroups of a CTA and CTAs of a multiprocessor, with the registers of a consumer's
thread beside scores, weights and output, as it takes of the widest tiles that do not spill."""


class Tiling(Tiles):
    """A plan of the space, by its name and its fields."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of its variant."""
        found = f"tma_{self.rows}x{self.keys}"
        return found if self.at_once == 1 else f"{found}_by{self.at_once}"

    def fields(self) -> Fields:
        """Its fields of a plan, without the features."""
        return {
            "mma": "wgmma",
            "loader": "tma",
            "stages": STAGES,
            "vectorize": 8,
            "warp_tile": [GROUP_ROWS],
            "tile": [self.rows, self.keys],
            "consumers": self.consumers,
            "registers": registers_of(self.consumers, self.at_once),
        }


def registers_of(consumers: int, at_once: int) -> list[int]:
    """Registers of a producer's and of a consumer's thread, where so many CTAs share them all."""
    own = PRODUCER.get((consumers, at_once), 24)
    return register_split(ARCHS["sm_90a"].registers // at_once, consumers, own)


def has_registers(plan: Tiling, width: int) -> bool:
    """Whether a consumer's thread has registers for its scores, weights and output.

    It has them for each wgmma at launch already: ptxas makes code for these.
    """
    shape = plan.consumers, plan.at_once
    own = BETWEEN.get((*shape, plan.keys), SHAPES.get(shape))
    if own is None:
        return False
    room = ARCHS["sm_90a"].registers // plan.at_once
    begun = min(255, registers_at_launch(room, plan.consumers))
    if max(plan.keys // 2, width // 2 + WGMMA_LEFT) + WGMMA_OWN > begun:
        return False
    _, registers = registers_of(plan.consumers, plan.at_once)
    return plan.keys // 2 + plan.keys // 4 + width // 2 + own <= registers


def paired(plan: Tiling, width: int, most: int) -> Tiling | None:
    """The plan whose CTAs take pairs of such tiles, if threads have registers for that loop.

    ``most`` CTAs share a multiprocessor.
    """
    between = (plan.consumers, plan.at_once, plan.keys) in BETWEEN
    if plan.at_once > most or between or not has_registers(plan, width):
        return None
    return replace(plan, persistent=True)


def space(
    depth: int, width: int, arch: str, persistent: bool, between: bool = False
) -> Iterator[Tiling]:
    """The plans for heads of so many features of K and V, whose CTAs go on to other tiles or not.

    Those go on whose tiles see the same keys: a next tile's queries are loaded ahead, and its end
    is as far away.  Others take the hardware's own order, most keys first, or pairs (``paired``).
    ``between`` says whether threads have registers for those of ``BETWEEN``.
    """
    chip = ARCHS[arch]
    for consumers, at_once in SHAPES:
        room = (chip.shared_bytes + RESERVED) // at_once - RESERVED - 2 * SHARED_ALIGN
        rows = GROUP_ROWS * consumers
        more = [keys for *shape, keys in BETWEEN if shape == [consumers, at_once] and between]
        for keys in (*KEYS, *more) if at_once < MOST_AT_ONCE else (KEYS[0] // 2,):
            plan = Tiling(rows, keys, consumers, at_once, persistent)
            tiles = rows * depth + STAGES * keys * (depth + width)
            if has_registers(plan, width) and tiles * ELEMENT_BYTES <= room:
                yield plan
