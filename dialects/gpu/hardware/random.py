"""Hardware level: random numbers, each a function of its place and a seed (S12.6)."""

from __future__ import annotations

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class PhiloxOp(IRDLOperation):
    """The random number at a place, and its neighbour's: ``gpu.philox %place, %seed : i64``.

    Place p has word ``p mod 4`` of block ``p div 4`` of Philox 4x32-10 under the key ``seed``, in
    the low half of the result; the high half is the word of the place with the other last bit.
    Operands have no sign.  (J. K. Salmon and others, *Parallel random numbers: as easy as 1, 2, 3*,
    2011.)
    """

    name = "gpu.philox"
    place = operand_def(i64)
    seed = operand_def(i64)
    result = result_def(i64)
    traits = traits_def(Pure())
    assembly_format = "$place `,` $seed attr-dict `:` type($result)"

    def __init__(self, place: SSAValue, seed: SSAValue) -> None:
        super().__init__(operands=[place, seed], result_types=[i64])
