"""``region-to-gpu``: updates that atomics combine, as numbers of 32 or 64 bits (S9, T3).

What extremes and sums of integers come to has no order.  One kernel ahead takes a thread an update,
and leaves for each place, in a workspace of zeros, the sum of its updates or the largest of numbers
without a sign that stand for them in their order, or against it where the least is wanted.  A NaN
is the largest.  Nothing but the least that a type has stands for 0, which changes no extreme.
Sums of real numbers that are integers, so few that f32 has each sum, are sums of integers.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType, f32, i32, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects.common.elements import bounds, is_unsigned, width
from polyc.lowering.region_to_gpu import integers
from polyc.rewriting.emit import Emit


@dataclass(frozen=True)
class Key:
    """How an ``element`` is a number of ``kind``, for a scatter's function ``fn``; of ``narrow``
    sums of 64 bits 32 have what updates make together."""

    fn: str
    element: Attribute
    narrow: bool = False

    @property
    def kind(self) -> IntegerType:
        """The type of the numbers: i64 of elements of 64 bits but narrow sums, i32 of others."""
        wide = self.element != f32 and width(self.element) > 32 and not self.narrow
        return i64 if wide else i32

    def of(self, emit: Emit, value: SSAValue) -> SSAValue:
        """The number that stands for an update."""
        if self.element != f32:
            found = integers.resized(emit, value, self.element, self.kind)
            if self.fn == "add":
                return found
            return self._turned(emit, self._raised(emit, found))
        if self.fn == "add":
            return emit.value(arith.FPToSIOp(value, i32))
        bits = emit.value(arith.BitcastOp(value, i32))
        below = self._inverted(emit, bits)
        negative = emit.compare("slt", bits, emit.int32(0))
        found = emit.value(arith.SelectOp(negative, below, self._raised(emit, bits)))
        found = self._turned(emit, found)
        nan = emit.value(arith.CmpfOp(value, value, "une"))
        return emit.value(arith.SelectOp(nan, emit.int32(-1), found))

    def back(self, emit: Emit, key: SSAValue) -> SSAValue:
        """The update that a number stands for."""
        if self.element != f32:
            found = key
            if self.fn != "add":
                found = self._raised(emit, self._turned(emit, key))
            return integers.resized(emit, found, self.kind, self.element)
        if self.fn == "add":
            return emit.value(arith.SIToFPOp(key, f32))
        whole = self._turned(emit, key)
        positive = emit.compare("slt", whole, emit.int32(0))
        lifted = emit.value(arith.XOrIOp(whole, emit.int32(bounds(i32)[0])))
        found = emit.value(arith.SelectOp(positive, lifted, self._inverted(emit, whole)))
        # All bits stand for NaN, and turned they would be another number.
        nan = emit.compare("eq", key, emit.int32(-1))
        found = emit.value(arith.SelectOp(nan, emit.int32(bounds(i32)[1]), found))
        return emit.value(arith.BitcastOp(found, f32))

    def _raised(self, emit: Emit, value: SSAValue) -> SSAValue:
        """A number with a sign as one without that is ordered as it is, and back."""
        if is_unsigned(self.element):
            return value
        least = integers.number(emit, bounds(self.kind)[0], self.kind)
        return emit.value(arith.XOrIOp(value, least))

    def _turned(self, emit: Emit, value: SSAValue) -> SSAValue:
        """The order turned around, where the least is wanted."""
        return self._inverted(emit, value) if self.fn == "min" else value

    def _inverted(self, emit: Emit, value: SSAValue) -> SSAValue:
        return emit.value(arith.XOrIOp(value, integers.number(emit, -1, self.kind)))
