"""Philox 4x32-10 against its published vectors, and against a computation in Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.playback.estimate import Estimate
from polyc.playback.functions import binary
from polyc.playback.philox import block, pair

ONES, ZERO = 0xFFFFFFFF, 0
VECTORS = [
    ([ZERO] * 4, [ZERO] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([ONES] * 4, [ONES] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
"""The known answers that Random123 is published with: counter, key and block."""


def words(numbers: list[int]) -> list[Any]:
    return [np.asarray(n, np.uint64) for n in numbers]


@pytest.mark.parametrize(("counter", "key", "wanted"), VECTORS)
def test_blocks_are_the_published_ones(
    counter: list[int], key: list[int], wanted: list[int]
) -> None:
    assert [int(word) for word in block(words(counter), words(key))] == wanted


def plain(place: int, seed: int) -> int:
    """The pair of a place in Python's integers, a round as the paper writes it."""
    c = [place // 4 % 2**32, place // 4 // 2**32, 0, 0]
    k = [seed % 2**32, seed // 2**32]
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 2**32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 2**32)
        c = [high1 ^ c[1] ^ k[0], low1, high0 ^ c[3] ^ k[1], low0]
        k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
    return c[place % 4] + c[place % 4 ^ 1] * 2**32


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_a_place_has_its_word_and_its_neighbour_s(place: int, seed: int) -> None:
    found = pair(np.asarray(place, np.uint64), np.asarray(seed, np.uint64))
    assert found.dtype == np.uint64
    assert int(found) == plain(place, seed)


def test_what_is_made_of_an_unknown_place_is_unknown() -> None:
    places, error = np.arange(3, dtype=np.uint64), np.array([0.0, np.inf, 0.0])
    seed = Estimate(np.asarray(5, np.uint64))
    known: Any = binary("philox", Estimate(places), seed)  # pyright: ignore
    assert known.exact
    assert known.value.tolist() == [plain(p, 5) for p in range(3)]
    doubtful: Any = binary("philox", Estimate(places, error), seed)  # pyright: ignore
    assert np.isinf(doubtful.error).tolist() == [False, True, False]
