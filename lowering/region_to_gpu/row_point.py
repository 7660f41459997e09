"""``region-to-gpu``: region values at one point of a row, or of what loops compute.

Rows come at the speed of memory where a thread has some 25 instructions an element, so that what
costs ten is made in three.
"""

from __future__ import annotations

import math

from xdsl.dialects import arith
from xdsl.dialects import math as math_ops
from xdsl.dialects.builtin import FloatAttr, f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects.gpu.scalars import APPROXIMATE
from polyc.dialects.region import BinaryOp, KernelOp, UnaryOp
from polyc.lowering.region_to_gpu.point import Making, Point
from polyc.passes.region.invert_divisors import stores_halves


class RowPoint(Point):
    """The scalars of region values at one point of a row, or of a tile of loops.

    An exponential of a difference is the device's own, of base 2, where all that the kernel stores
    has 16 bits: the difference is rounded, by which the exponential is off as much as by the
    rounding of what is scaled to base 2; and that is a part of 2**17, where what is stored is
    rounded to 2**12 (docs/semantics.md, *Agreement*).
    """

    def make(self, op: Operation) -> Making:
        if isinstance(op, UnaryOp) and is_short(op):
            return self.power(op)
        return super().make(op)

    def power(self, op: UnaryOp) -> Making:
        """``exp`` as ``exp2`` of a multiple."""
        of = self.cast((yield op.operand), f32)
        unit = self.emit.value(arith.ConstantOp(FloatAttr(math.log2(math.e), f32)))
        scaled = self.emit.value(arith.MulfOp(of, unit))
        found = self.emit.value(math_ops.Exp2Op(scaled, APPROXIMATE))
        return self.cast(found, op.result.type.element_type)


def is_short(op: UnaryOp) -> bool:
    """Whether an op is an exponential that one instruction of the device is near enough to."""
    if op.fn.data != "exp" or not _is_difference(op.operand):
        return False
    around = op.parent_op()
    while around is not None and not isinstance(around, KernelOp):
        around = around.parent_op()
    return around is not None and stores_halves(around)


def _is_difference(value: SSAValue) -> bool:
    owner = value.owner
    return isinstance(owner, BinaryOp) and owner.fn.data in ("add", "sub")
