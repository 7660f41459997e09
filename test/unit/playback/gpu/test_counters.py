"""What is counted of accesses: wavefronts of shared memory and sectors of global memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polyc.playback.gpu.counters import sectors, wavefronts


@given(
    st.sampled_from([2, 4, 8, 16]),
    st.lists(st.integers(0, 255), min_size=32, max_size=32),
    st.lists(st.booleans(), min_size=32, max_size=32).filter(any),
)
def test_wavefronts_are_the_fullest_bank(width: int, places: list[int], active: list[bool]) -> None:
    lanes = np.nonzero(np.array(active))[0]
    addresses = np.array(places)[lanes] * width
    together = 32 if width <= 4 else 128 // width
    total = 0
    for first in range(0, 32, together):
        banks: dict[int, set[int]] = {}
        for lane, address in zip(lanes.tolist(), addresses.tolist(), strict=True):
            if first <= lane < first + together:
                for word in range(address // 4, (address + width - 1) // 4 + 1):
                    banks.setdefault(word % 32, set()).add(word)
        total += max((len(words) for words in banks.values()), default=0)
    assert wavefronts(addresses, width, lanes) == total


def test_sectors() -> None:
    assert sectors(np.arange(32) * 4) == 4
    assert sectors(np.arange(32) * 32) == 32
    assert sectors(np.zeros(32, np.int64)) == 1
