"""Hardware level: the TMA copy of a convolution's pixels (PTX ISA, "im2col mode")."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.gpu.hardware.checks import I32
from polyc.dialects.gpu.im2col import Im2colMapType
from polyc.dialects.gpu.waiting import MBarrierType


@irdl_op_definition
class TmaLoadIm2colOp(IRDLOperation):
    """Copy the pixels of one tap to ``address``; they complete on barrier ``index``.

    ``coordinates`` are image, row, column and channel: the first channel, and where the filter's
    base stands for the first pixel, which is in the map's bounding box (so with padding 1 the
    first pixel of an image is at -1, -1).  ``offsets`` are the tap's distance from the base in
    rows and columns, 0 to 255.  The copy takes the map's number of pixels, every stride-th along a
    row of the bounding box, then the box's next row, then the next image; a pixel outside its
    image, past the last image, and a channel outside the tensor arrive as zeros and count as
    bytes.
    """

    name = "gpu.tma_load_im2col"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    map = operand_def(base(Im2colMapType))
    coordinates = var_operand_def(IndexType)
    offsets = var_operand_def(IndexType)
    address = operand_def(I32)
    barrier = operand_def(base(MBarrierType))
    index = operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$map `[` $coordinates `]` `offsets` `[` $offsets `]` `to` $address `,` "
        "$barrier `[` $index `]` attr-dict `:` type($map) `,` type($barrier)"
    )

    def __init__(
        self,
        map: SSAValue,
        coordinates: Sequence[SSAValue],
        offsets: Sequence[SSAValue],
        address: SSAValue,
        barrier: SSAValue,
        index: SSAValue,
    ) -> None:
        super().__init__(operands=[map, list(coordinates), list(offsets), address, barrier, index])

    def verify_(self) -> None:
        if len(self.coordinates) != 4 or len(self.offsets) != 2:
            raise VerifyException(
                "an im2col copy is at 4 coordinates (image, row, column, channel) and 2 offsets "
                f"(row, column), not at {len(self.coordinates)} and {len(self.offsets)}"
            )
