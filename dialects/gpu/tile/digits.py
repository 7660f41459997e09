"""Tile level: rows of any length sorted digit by digit, by blocks that have a tile each (T3).

Of a digit ``gpu.count_digit`` counts how many elements of a tile have each value,
``gpu.sum_counts`` says how many have it in the tiles before, and ``gpu.move_by_digit`` writes the
elements of a tile where they go: behind all that have a lower value in their row, and those of the
tiles before and of its own that have the same.  ``gpu.sort_by_digit`` says where they go instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from xdsl.dialects.builtin import IndexType, UnitAttr, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    base,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.deciding import Bits
from polyc.dialects.common.elements import width
from polyc.dialects.gpu.tile.sorting import need_integers
from polyc.dialects.gpu.types import GlobalType, IndexAttr, IntsAttr, SharedType, index_attr

MOST_BITS = 8
"""Bits of a digit at most."""

COUNTED = 32
"""Values that are counted at least, as lanes of a warp have one each."""

TOGETHER = 8
"""Values whose counts a block sums up."""


def values_of(bits: Bits) -> int:
    """How many counts there are of a digit: one of each value, and of a warp's lanes."""
    return max(COUNTED, 1 << bits[1] - bits[0])


class DigitOp(IRDLOperation):
    """An op on the first ``count`` elements of a shared row and some of their bits, a digit: as a
    number with a sign, or ``unsigned``; its values are counted from the least."""

    row = operand_def(base(SharedType))
    count = operand_def(IndexType)
    by = prop_def(IntsAttr)
    unsigned = opt_prop_def(UnitAttr)

    @property
    def bits(self) -> Bits:
        """The first bit of the digit, and the one behind its last."""
        first, end = self.by.data
        return first, end

    def verify_digit(self) -> None:
        what, kind = self.name.split(".")[1], cast("SharedType", self.row.type)
        need_integers(f"a {what}", self.row)
        if len(kind.sizes) != 2 or kind.sizes[0] != 1:
            raise VerifyException(f"a {what} is of the one row of a shared tile, not of {kind}")
        said, bits = self.by.data, width(kind.element_type)
        if len(said) != 2 or not 0 <= said[0] < said[1] <= min(bits, said[0] + MOST_BITS):
            raise VerifyException(
                f"a digit is 1 to {MOST_BITS} bits of the {bits} of {kind.element_type}, not "
                f"{' to '.join(map(str, said))}"
            )


def counted(counts: SSAValue) -> int:
    """How many values are counted: the last axis of what counts them."""
    dims = cast("GlobalType", counts.type).dims
    return (dims[-1].constant() if dims else None) or 0


def _need_counts(what: str, counts: SSAValue, at: Sequence[SSAValue], values: int) -> None:
    kind, known = cast("GlobalType", counts.type), counted(counts)
    if kind.element_type != i32 or known < values or known % COUNTED or known > 1 << MOST_BITS:
        raise VerifyException(
            f"{what} are i32, of {values} to {1 << MOST_BITS} values, a multiple of {COUNTED}, "
            f"along the last axis, not {kind}"
        )
    if len(at) != len(kind.dims) - 1:
        raise VerifyException(
            f"{what} of {kind} are at {len(kind.dims) - 1} coordinates, not {len(at)}"
        )


@irdl_op_definition
class CountDigitOp(DigitOp):
    """How many elements of a tile have each value of a digit, ``gpu.count_digit %row count %n by
    <32, 40> to %counts[%r, %tile]``.  All threads of the block take part, and meet."""

    name = "gpu.count_digit"
    counts = operand_def(base(GlobalType))
    at = var_operand_def(IndexType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$row `count` $count `by` $by (`unsigned` $unsigned^)? `to` $counts `[` $at `]` attr-dict "
        "`:` type($row) `,` type($counts)"
    )

    def __init__(
        self,
        row: SSAValue,
        count: SSAValue,
        bits: Bits,
        counts: SSAValue,
        at: Sequence[SSAValue],
        *,
        unsigned: bool = False,
    ) -> None:
        super().__init__(
            operands=[counts, list(at), row, count],
            properties={"by": IntsAttr(bits), "unsigned": UnitAttr() if unsigned else None},
        )

    def verify_(self) -> None:
        self.verify_digit()
        _need_counts("the counts of a digit", self.counts, self.at, values_of(self.bits))


@irdl_op_definition
class SumCountsOp(IRDLOperation):
    """Of a row's counts, [tiles, values], those of eight values from ``first`` on: each becomes the
    sum of those of the tiles before it, and ``totals`` has the sum of all ``tiles``.

    ``gpu.sum_counts %counts[%r] first %v of %tiles to %totals``.  All threads of the block, of
    which there are a multiple of eight, take part, and meet.
    """

    name = "gpu.sum_counts"
    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    counts = operand_def(base(GlobalType))
    at = var_operand_def(IndexType)
    first = operand_def(IndexType)
    tiles = operand_def(IndexType)
    totals = operand_def(base(GlobalType))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$counts `[` $at `]` `first` $first `of` $tiles `to` $totals attr-dict `:` type($counts) "
        "`,` type($totals)"
    )

    def __init__(
        self,
        counts: SSAValue,
        at: Sequence[SSAValue],
        first: SSAValue,
        tiles: SSAValue,
        totals: SSAValue,
    ) -> None:
        super().__init__(operands=[counts, list(at), first, tiles, totals])

    def verify_(self) -> None:
        _need_counts("sums of counts", self.totals, self.at, COUNTED)
        tile = [*self.at, self.tiles]
        _need_counts("counts that are summed", self.counts, tile, COUNTED)
        if counted(self.counts) != counted(self.totals):
            raise VerifyException(
                f"{counted(self.counts)} values are counted, and {counted(self.totals)} summed up"
            )


class DigitPlaces(NamedTuple):
    """What says where the elements of a tile go: how many each of a row's tiles has of
    each value, how many the row has, its coordinates, and which of its tiles it is."""

    counts: SSAValue
    totals: SSAValue
    at: Sequence[SSAValue]
    tile: SSAValue


class PlacingOp(DigitOp):
    """An op on a digit that knows where the elements of a tile go."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    counts = operand_def(base(GlobalType))
    totals = operand_def(base(GlobalType))
    at = var_operand_def(IndexType)
    tile = operand_def(IndexType)

    def __init__(
        self,
        row: SSAValue,
        count: SSAValue,
        bits: Bits,
        places: DigitPlaces,
        to: Sequence[SSAValue | Sequence[SSAValue]],
        *,
        unsigned: bool,
        axis: int | None = None,
    ) -> None:
        properties: dict[str, Attribute | None] = {
            "by": IntsAttr(bits),
            "unsigned": UnitAttr() if unsigned else None,
        }
        if axis is not None:
            properties["axis"] = index_attr(axis)
        super().__init__(operands=[*to, *places, row, count], properties=properties)

    def verify_digit(self) -> None:
        super().verify_digit()
        values = values_of(self.bits)
        _need_counts("sums of counts", self.totals, self.at, values)
        _need_counts("counts of tiles", self.counts, [*self.at, self.tile], values)


@irdl_op_definition
class MoveByDigitOp(PlacingOp):
    """Write the elements of a tile where a digit says: behind as many of their row as have a lower
    value, of which ``totals`` says how many have each, as many of the tiles before as have the same
    value, which ``counts`` says, and those before them in the tile.

    ``gpu.move_by_digit %row count %n by <32, 40> from %counts, %totals[%r] tile %t to
    %target[%r]``; ``axis`` is the one along which the target's row lies, where it is not the last.
    The row is not the same after.  All threads of the block take part, and meet.
    """

    name = "gpu.move_by_digit"
    target = operand_def(base(GlobalType))
    target_at = var_operand_def(IndexType)
    axis = opt_prop_def(IndexAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$row `count` $count `by` $by (`unsigned` $unsigned^)? `from` $counts `,` $totals `[` $at "
        "`]` `tile` $tile `to` $target `[` $target_at `]` (`axis` $axis^)? attr-dict `:` "
        "type($row) `,` type($counts) `,` type($totals) `,` type($target)"
    )

    def __init__(
        self,
        row: SSAValue,
        count: SSAValue,
        bits: Bits,
        places: DigitPlaces,
        target: SSAValue,
        target_at: Sequence[SSAValue],
        *,
        axis: int | None = None,
        unsigned: bool = False,
    ) -> None:
        to = (target, list(target_at))
        super().__init__(row, count, bits, places, to, unsigned=unsigned, axis=axis)

    @property
    def along(self) -> int:
        """The axis that a row of the target lies along."""
        return len(self.target_at) if self.axis is None else self.axis.value.data

    def verify_(self) -> None:
        self.verify_digit()
        row, target = cast("SharedType", self.row.type), cast("GlobalType", self.target.type)
        if target.element_type != row.element_type:
            raise VerifyException(f"elements of {row} do not move to {target}")
        if len(self.target_at) != len(target.dims) - 1 or not 0 <= self.along < len(target.dims):
            raise VerifyException(
                f"a row of {target} is at {len(target.dims) - 1} coordinates along an axis of it, "
                f"not at {len(self.target_at)} along {self.along}"
            )


@irdl_op_definition
class SortByDigitOp(PlacingOp):
    """Sort the elements of a tile by a digit, in their row, and say how far from there each goes.

    ``gpu.sort_by_digit %row count %n by <32, 40> from %counts, %totals[%r] tile %t to %bases``: an
    element with a value of the digit goes to its place in the row and what ``bases``, a shared row
    of i32, has at that value, where ``gpu.move_by_digit`` would write it.  All threads of the
    block take part, and meet.
    """

    name = "gpu.sort_by_digit"
    bases = operand_def(base(SharedType))
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$row `count` $count `by` $by (`unsigned` $unsigned^)? `from` $counts `,` $totals `[` $at "
        "`]` `tile` $tile `to` $bases attr-dict `:` type($row) `,` type($counts) `,` type($totals) "
        "`,` type($bases)"
    )

    def __init__(
        self,
        row: SSAValue,
        count: SSAValue,
        bits: Bits,
        places: DigitPlaces,
        bases: SSAValue,
        *,
        unsigned: bool = False,
    ) -> None:
        super().__init__(row, count, bits, places, [bases], unsigned=unsigned)

    def verify_(self) -> None:
        self.verify_digit()
        kind = cast("SharedType", self.bases.type)
        if kind.element_type != i32 or list(kind.sizes) != [1, counted(self.counts)]:
            raise VerifyException(
                f"how far elements go is a shared row of {counted(self.counts)} i32, not {kind}"
            )
