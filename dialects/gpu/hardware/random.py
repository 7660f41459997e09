"""Hardware level: random numbers, each a function of its place and a seed (S12.6)."""

from __future__ import annotations

from xdsl.dialects.builtin import VectorType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import scalar_type, vector_length
from polyc.dialects.gpu.types import IndexAttr, index_attr, vector_of

WORDS = 4
"""Words of a block."""

COUNTS = (8, 4, 2)
"""Neighbours that one op may have the numbers of, most first."""


@irdl_op_definition
class PhiloxOp(IRDLOperation):
    """The random number at a place, and its neighbour's: ``gpu.philox %place, %seed : i64``.

    Place p has word ``p mod 4`` of block ``p div 4`` of Philox 4x32-10 under the key ``seed``, in
    the low half of the result; the high half is the word of the place with the other last bit.
    Operands have no sign.  (J. K. Salmon and others, *Parallel random numbers: as easy as 1, 2, 3*,
    2011.)

    ``gpu.philox %place, %seed multiple 4 : vector<8xi64>`` has the numbers of as many neighbours,
    which share blocks; the first place is a multiple of 4, 2 or 1.
    """

    name = "gpu.philox"
    place = operand_def(i64)
    seed = operand_def(i64)
    multiple = opt_prop_def(IndexAttr)
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "$place `,` $seed (`multiple` $multiple^)? attr-dict `:` type($result)"

    def __init__(
        self, place: SSAValue, seed: SSAValue, count: int = 1, multiple: int | None = None
    ) -> None:
        """``multiple`` is given where there are ``count`` neighbours."""
        super().__init__(
            operands=[place, seed],
            properties={"multiple": None if multiple is None else index_attr(multiple)},
            result_types=[i64 if count == 1 else vector_of(i64, count)],
        )

    @property
    def count(self) -> int:
        """The neighbours whose numbers the result has."""
        return vector_length(self.result.type)

    def verify_(self) -> None:
        kind, many = self.result.type, isinstance(self.result.type, VectorType)
        if scalar_type(kind) != i64 or (many and self.count not in COUNTS):
            raise VerifyException(f"random numbers are an i64 or a vector of 2, 4 or 8, not {kind}")
        given = None if self.multiple is None else self.multiple.value.data
        if many and given not in (1, 2, WORDS):
            raise VerifyException(
                f"the first place of {kind} is a multiple of 1, 2 or 4, not of {given}; say which, "
                "as in multiple 4"
            )
        if not many and given is not None:
            raise VerifyException(f"multiple {given} is of several neighbours, not of {kind}")
