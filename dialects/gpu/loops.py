"""What an upstream loop says in a kernel: that it is to be unrolled whole, or not at all."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

UNROLL = "unroll"
"""Attribute, without a value, of an ``scf.for`` that is to be unrolled whole."""

ROLLED = "rolled"
"""Attribute, without a value, of one that the compiler is to leave as it is."""


def is_unrolled(op: Operation) -> bool:
    """Whether an op is a loop that is to be unrolled whole."""
    return UNROLL in op.attributes


def mark_unrolled(op: scf.ForOp) -> None:
    """Say that a loop is to be unrolled whole."""
    op.attributes[UNROLL] = UnitAttr()


def is_rolled(op: Operation) -> bool:
    """Whether an op is a loop that the compiler is to leave as it is."""
    return ROLLED in op.attributes


def mark_rolled(op: scf.ForOp) -> None:
    """Say that a loop is to be left as it is."""
    op.attributes[ROLLED] = UnitAttr()


def verify_unrolled(kernel: Operation) -> None:
    """Check that what is to be unrolled in a kernel, or not to be, are loops, and that nothing more
    is said."""
    for op in kernel.walk():
        for word, done in ((UNROLL, "unrolled whole"), (ROLLED, "left as it is")):
            found = op.attributes.get(word)
            if found is None:
                continue
            if not isinstance(op, scf.ForOp):
                raise VerifyException(f"{op.name} is no scf.for, which alone may be {done}")
            if not isinstance(found, UnitAttr):
                raise VerifyException(
                    f"a loop is {done}, {{{word}}} without a value, not by {found}"
                )
        if is_unrolled(op) and is_rolled(op):
            raise VerifyException("a loop is unrolled whole, or left as it is, not both")
