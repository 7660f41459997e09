"""What the loader ``phased`` copies: the operand of the rows, in phases of k (S8.1).

Rows of 196 elements do not all begin at a multiple of 16 bytes, as the copy engine's do, but two of
them together are such a row.  So the operand of the columns is seen as rows of so many, of which
the first halves are even points of k, and the second ones odd points: phases.  A step goes over one
phase, and the other operand is copied with the points of k in that order.
"""

from __future__ import annotations

from math import gcd

from polyc.dialects.common.dim import Dim
from polyc.dialects.plan.padded import PANEL, panels
from polyc.dialects.plan.resources import OPERAND_BYTES

VECTOR = 16 // OPERAND_BYTES
"""Elements of 16 bytes, at whose multiples the copy engine's rows begin."""

COPY_ROWS, COPY_COLUMNS = 16, PANEL
"""The tile of the copy that a CTA has: rows, and points of a phase."""

COPY_THREADS = 128


def phases(row: int) -> int:
    """How many rows of ``row`` elements are one that begins at a multiple of 16 bytes."""
    return VECTOR // gcd(row, VECTOR)


def phase(depth: Dim, count: int) -> Dim:
    """The points that each of ``count`` phases of ``depth`` points has in the copy: whole panels,
    of which the last ends in zeros."""
    return panels(depth.ceildiv(count))
