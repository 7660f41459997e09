"""What the loader ``flat`` takes as one: rows of an operand that lie one after another (S8.1)."""

from __future__ import annotations

from math import gcd

from polyc.dialects.plan.checks import MAX_VECTOR_BYTES
from polyc.dialects.plan.resources import OPERAND_BYTES

VECTOR = MAX_VECTOR_BYTES // OPERAND_BYTES
"""Elements of 16 bytes, of which TMA takes rows."""

LINE = 64
"""Elements of a line of the matrix at most: a line of the L2 cache."""

BOX_ROWS = 256
"""Rows of a box that TMA copies at most (CUDA driver API, cuTensorMapEncodeTiled)."""

GROUP_ROWS, MOST_ROWS = 64, 256
"""Rows of a warpgroup, and of a tile at most."""


def chunk(length: int, k: int, depth: int) -> int | None:
    """How long lines are of the matrix that ``k`` rows of so many elements are, of which steps of
    ``depth`` have whole ones; None where there are none of 16 bytes.
    """
    found = gcd(LINE, length * k, length * depth)
    return found if found % VECTOR == 0 else None


def rows(length: int) -> int:
    """Rows of a tile that has lines of so many elements."""
    return -(-length // GROUP_ROWS) * GROUP_ROWS
