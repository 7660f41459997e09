"""What products of f32 on tensor cores have copied: operands stored along k, in numbers of TF32."""

from __future__ import annotations

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.precision import F32X3, TF32

ELEMENT_BYTES = 4

VECTOR = 16 // ELEMENT_BYTES
"""Elements of 16 bytes, of which the copy engine takes rows."""

ROW = 128 // ELEMENT_BYTES
"""Elements of a row of a shared tile's panel; rows of copies are whole ones of these."""

COPY_TILE = (16, 256)
"""The tile that a CTA copies of an operand that is stored along k already."""

TURN_TILE = (64, 64)
"""The same of one that is not: a CTA turns it in shared memory."""

COPY_THREADS = 256

PARTS = {TF32: 1, F32X3: 2}
"""Numbers of TF32 that one of f32 is copied to: itself, or a high and a low one."""

SEGMENTS = {TF32: 1, F32X3: 3}
"""Products of TF32 that one of f32 is: high by high, and each factor's high part by the other's low
one."""

STEPS = {TF32: 2, F32X3: 6}
"""How often one of f32 counts where a product of 16 bits counts once, in time of tensor cores."""


def rows(length: Dim) -> Dim:
    """The length of one part of a copy's row that was so long, in elements."""
    return length.ceildiv(ROW) * ROW
