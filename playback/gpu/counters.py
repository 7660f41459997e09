"""What a simulated run counts, exactly.  No cache is modelled: bytes are what was asked for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Operation

Array = NDArray[Any]

SECTOR = 32
"""Bytes that global memory moves at least."""

BANKS = 32
"""Banks of shared memory, four bytes wide."""


@dataclass
class SharedAccess:
    """Accesses of shared memory by one op.

    ``ideal`` counts the wavefronts that the bytes need at least, ``wavefronts`` those that
    they take; the difference is bank conflicts.
    """

    op: Operation
    instructions: int = 0
    bytes: int = 0
    ideal: int = 0
    wavefronts: int = 0

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal


@dataclass
class Counters:
    """Sums over all CTAs of a launch; an instruction is one of a warp."""

    ctas: int = 0
    threads: int = 0
    thread_ops: int = 0
    global_read_bytes: int = 0
    global_write_bytes: int = 0
    global_read_sectors: int = 0
    global_write_sectors: int = 0
    shared_read_bytes: int = 0
    shared_write_bytes: int = 0
    cp_async_bytes: int = 0
    tma_loads: int = 0
    tma_bytes: int = 0
    tma_stores: int = 0
    mma: int = 0
    wgmma: int = 0
    wgmma_shared_bytes: int = 0
    barriers: int = 0
    mbarrier_waits: int = 0
    mbarrier_arrivals: int = 0
    peak_shared_bytes: int = 0
    switches: int = 0
    shared: dict[int, SharedAccess] = field(default_factory=dict[int, SharedAccess])

    @property
    def bank_conflicts(self) -> int:
        """Wavefronts of shared accesses beyond those that their bytes need."""
        return sum(access.conflicts for access in self.shared.values())

    def access(self, op: Operation) -> SharedAccess:
        found = self.shared.get(id(op))
        if found is None:
            found = self.shared[id(op)] = SharedAccess(op)
        return found

    def as_dict(self) -> dict[str, object]:
        """The counters as JSON data; accesses of shared memory one by one."""
        data: dict[str, object] = {
            name: value for name, value in vars(self).items() if isinstance(value, int)
        }
        data["bank_conflicts"] = self.bank_conflicts
        data["shared"] = [
            {
                "op": access.op.name,
                "instructions": access.instructions,
                "bytes": access.bytes,
                "wavefronts": access.wavefronts,
                "conflicts": access.conflicts,
            }
            for access in self.shared.values()
        ]
        return data


_WAVES: dict[tuple[int, bytes, bytes], int] = {}


def wavefronts(addresses: Array, width: int, lanes: Array) -> int:
    """Wavefronts of one access of ``width`` bytes by ``lanes`` at shared byte ``addresses``.

    A warp's access of 4 bytes or less is one request; of 8 bytes two, half a warp each; of 16
    bytes four.  A request takes as many wavefronts as the fullest bank has different words.
    """
    if not addresses.size:
        return 0
    relative = addresses - (int(addresses.min()) & ~127)
    key = (width, relative.tobytes(), b"" if lanes.size == 32 else lanes.tobytes())
    known = _WAVES.get(key)
    if known is None:
        request = lanes // (32 if width <= 4 else 128 // width)
        words = np.arange(max(1, width // 4))
        known = 0
        for number in np.unique(request):
            first = relative[request == number] >> 2
            touched = np.unique(first[:, None] + words)
            known += int(np.bincount(touched % BANKS, minlength=BANKS).max())
        if len(_WAVES) > 1 << 16:
            _WAVES.clear()
        _WAVES[key] = known
    return known


def sectors(addresses: Array) -> int:
    """Different 32-byte sectors that aligned accesses of at most that size touch."""
    return len(set((addresses >> 5).tolist()))
