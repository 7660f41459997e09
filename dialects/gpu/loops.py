"""What an upstream loop says in a kernel: that it is to be unrolled whole."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation
from xdsl.utils.exceptions import VerifyException

UNROLL = "unroll"
"""Attribute, without a value, of an ``scf.for`` that is to be unrolled whole."""


def is_unrolled(op: Operation) -> bool:
    """Whether an op is a loop that is to be unrolled whole."""
    return UNROLL in op.attributes


def mark_unrolled(op: scf.ForOp) -> None:
    """Say that a loop is to be unrolled whole."""
    op.attributes[UNROLL] = UnitAttr()


def verify_unrolled(kernel: Operation) -> None:
    """Check that what is to be unrolled in a kernel are loops, and that nothing more is said."""
    for op in kernel.walk():
        found = op.attributes.get(UNROLL)
        if found is None:
            continue
        if not isinstance(op, scf.ForOp):
            raise VerifyException(f"{op.name} is no scf.for, which alone may be unrolled")
        if not isinstance(found, UnitAttr):
            raise VerifyException(
                f"a loop is unrolled whole, {{{UNROLL}}} without a value, not by {found}"
            )
