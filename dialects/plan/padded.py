"""What the loader ``padded`` copies: rows of operands to rows of whole panels (S8.1)."""

from __future__ import annotations

from polyc.dialects.common.dim import Dim
from polyc.dialects.plan.resources import OPERAND_BYTES

PANEL = 128 // OPERAND_BYTES
"""Elements of a row of a shared tile's panel: a line of the L2 cache, which box rows then are."""

COPY_ROWS, COPY_COLUMNS = 16, 256
"""The tile of a tensor that a CTA copies."""

COPY_THREADS = 256


def panels(length: Dim) -> Dim:
    """The length of a row that was so long, in elements."""
    return length.ceildiv(PANEL) * PANEL
