"""Philox 4x32-10, a random number generator that is a function of a counter and a key (S12.6).

J. K. Salmon, M. A. Moraes, R. O. Dror and D. E. Shaw, *Parallel random numbers: as easy as 1, 2,
3*, 2011.  A block is four words of 32 bits; docs/semantics.md says which place has which.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from polyc.playback.estimate import Estimate, of_integers

Array: TypeAlias = NDArray[Any]

ROUNDS = 10
FACTORS = (0xD2511F53, 0xCD9E8D57)
"""What the first and the third word of a counter are multiplied by."""

STEPS = (0x9E3779B9, 0xBB67AE85)
"""By how much the words of the key go on from round to round."""

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def block(counter: Sequence[Array], key: Sequence[Array]) -> tuple[Array, ...]:
    """The four words of the block of a counter of four words under a key of two.

    Words are numbers below 2**32 in ui64; counter and key broadcast.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    with np.errstate(over="ignore"):
        for _ in range(ROUNDS):
            first, third = np.uint64(FACTORS[0]) * c0, np.uint64(FACTORS[1]) * c2
            c0, c1 = (third >> _HALF) ^ c1 ^ k0, third & _LOW
            c2, c3 = (first >> _HALF) ^ c3 ^ k1, first & _LOW
            k0, k1 = (k0 + np.uint64(STEPS[0])) & _LOW, (k1 + np.uint64(STEPS[1])) & _LOW
    return c0, c1, c2, c3


def _pair(place: Array, seed: Array) -> Array:
    number, zero = place >> np.uint64(2), np.uint64(0)
    counter = (number & _LOW, number >> _HALF, np.asarray(zero), np.asarray(zero))
    words = block(counter, (seed & _LOW, seed >> _HALF))
    back = (place & np.uint64(2)) != 0
    even, odd = np.where(back, words[2], words[0]), np.where(back, words[3], words[1])
    own, other = even | (odd << _HALF), odd | (even << _HALF)
    return np.asarray(np.where((place & np.uint64(1)) == 0, own, other))


def pair(place: Array, seed: Array) -> Array:
    """For each place, its word in the low half of a ui64 and its neighbour's in the high one.

    Place p has word ``p mod 4`` of block ``p div 4``, whose counter is that number in its two low
    words; the neighbour is the place with the other last bit.
    """
    if isinstance(place, Estimate) or isinstance(seed, Estimate):
        return cast(Array, of_integers(_pair, place, seed))
    return _pair(np.asarray(place), np.asarray(seed))
