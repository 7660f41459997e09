"""Bank conflicts of a shared tile, and the swizzle or padding that avoids them (S7.1).

Shared memory has 32 banks of four bytes.  A warp's access is served in requests: all lanes for
elements of up to 4 bytes, half of them for 8, a quarter for 16.  With the relation

    bank = { lane → floor(address(lane) / 4) mod 32 }

a request takes as many turns as the fullest bank has different words (CUDA C++ Programming
Guide, "Shared Memory").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Pattern = Literal["ldmatrix", "row", "column"]
"""``ldmatrix``: 16 bytes of each of 8 rows, by four groups of 8 lanes side by side.  ``row``:
lanes beside each other along a row.  ``column``: lanes below each other, an element each."""

BANKS = 32
CHUNK = 16
"""Bytes that a swizzle keeps together, and the widest access."""
LINE = 128
"""Bytes of one line of the swizzle pattern: every bank once."""


@dataclass(frozen=True, slots=True)
class BankHint:
    """The turns that a request takes, at most, and what would make it one.

    ``swizzle`` is the span in bytes of the hardware's swizzle, ``pitch`` a padded row pitch in
    bytes; None where nothing is to be done, or nothing of the kind helps.
    """

    turns: int
    swizzle: int | None
    pitch: int | None


def bank_hint(pitch: int, element_bytes: int, pattern: Pattern) -> BankHint:
    """The conflicts of a tile with rows of ``pitch`` bytes that is read by ``pattern``.

    Raises ValueError where the pitch is no multiple of the element.
    """
    if pitch <= 0 or pitch % element_bytes:
        raise ValueError(f"a pitch of {pitch} bytes does not hold elements of {element_bytes}")
    found = turns(lanes(pitch, element_bytes, pattern), _width(element_bytes, pattern))
    if found == 1:
        return BankHint(1, None, None)
    width = _width(element_bytes, pattern)
    swizzle = next(
        (
            span
            for span in (128, 64, 32)
            if pitch % span == 0
            and turns([swizzled(a, span) for a in lanes(span, element_bytes, pattern)], width) == 1
        ),
        None,
    )
    step = max(4, width)
    padded = next(
        (
            p
            for p in range(pitch - pitch % step + step, pitch + LINE + 1, step)
            if turns(lanes(p, element_bytes, pattern), width) == 1
        ),
        None,
    )
    return BankHint(found, swizzle, padded)


def lanes(pitch: int, element_bytes: int, pattern: Pattern) -> list[int]:
    """The byte at which each lane of a warp reads; a row starts every ``pitch`` bytes."""
    match pattern:
        case "ldmatrix":
            inside = max(1, pitch // CHUNK)
            return [lane % 8 * pitch + lane // 8 % inside * CHUNK for lane in range(32)]
        case "row":
            return [lane * element_bytes for lane in range(32)]
        case "column":
            return [lane * pitch for lane in range(32)]


def _width(element_bytes: int, pattern: Pattern) -> int:
    return CHUNK if pattern == "ldmatrix" else element_bytes


def swizzled(address: int, span: int) -> int:
    """The hardware's swizzle of a span: address bits from 4 up XOR bits from 7 up."""
    return address ^ (address // LINE % (span // CHUNK) * CHUNK)


def turns(addresses: Sequence[int], width: int) -> int:
    """The turns of the slowest request of an access of ``width`` bytes a lane."""
    together = 32 if width <= 4 else LINE // width
    words = max(1, width // 4)
    most = 0
    for first in range(0, len(addresses), together):
        request = addresses[first : first + together]
        touched = {a // 4 + w for a in request for w in range(words)}
        most = max(most, *Counter(word % BANKS for word in touched).values())
    return most
