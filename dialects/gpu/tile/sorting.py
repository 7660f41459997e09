"""Tile level: sorts of a row by all threads of a block, and the least of what goes by (T3).

``gpu.sort`` sorts where the row lies, in a shared tile or in memory.  Of a row of any length
``gpu.keep_least`` brings a tile at a time to a *pool* in shared memory, which has room for what is
kept and for what may be; ``gpu.kept`` sorts what is left.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IndexType, UnitAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
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
from polyc.dialects.gpu.types import (
    FragmentType,
    GlobalType,
    IndexAttr,
    IntsAttr,
    SharedType,
    index_attr,
)


def need_integers(what: str, value: SSAValue) -> None:
    assert isinstance(value.type, SharedType | GlobalType | FragmentType)
    element = value.type.element_type
    if str(element) not in ("i8", "i16", "i32", "i64"):
        raise VerifyException(f"{what} is of integers, not of {value.type}")


@irdl_op_definition
class SortOp(IRDLOperation):
    """Sort the first ``count`` elements of a row in place, the least first.

    ``gpu.sort %tile[] count %n`` is of the one row of a shared tile, ``gpu.sort %tensor[%m] count
    %n`` of a tensor's row at these coordinates, in memory, along its last axis or the one that
    ``axis`` says.  ``unsigned``: the integers have no sign.  With ``by <32, 64>`` it is the order
    of the bits from 32 up to 64 alone, as a number with the sign that the integers have, and what
    is alike there keeps its order: a shared tile is sorted so digit by digit, each thread having as
    many elements as any.  All threads of the block take part, and meet before and after.
    """

    name = "gpu.sort"
    row = operand_def(base(SharedType) | base(GlobalType))
    at = var_operand_def(IndexType)
    count = operand_def(IndexType)
    axis = opt_prop_def(IndexAttr)
    by = opt_prop_def(IntsAttr)
    unsigned = opt_prop_def(UnitAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$row `[` $at `]` (`axis` $axis^)? `count` $count (`by` $by^)? "
        "(`unsigned` $unsigned^)? attr-dict `:` type($row)"
    )

    def __init__(
        self,
        row: SSAValue,
        at: Sequence[SSAValue],
        count: SSAValue,
        *,
        axis: int | None = None,
        by: Bits | None = None,
        unsigned: bool = False,
    ) -> None:
        super().__init__(
            operands=[row, list(at), count],
            properties={
                "axis": None if axis is None else index_attr(axis),
                "by": None if by is None else IntsAttr(by),
                "unsigned": UnitAttr() if unsigned else None,
            },
        )

    @property
    def along(self) -> int:
        """The axis that a row lies along: the last one, or that which is said."""
        return len(self.at) if self.axis is None else self.axis.value.data

    def verify_(self) -> None:
        need_integers("a sort", self.row)
        kind = self.row.type
        assert isinstance(kind, SharedType | GlobalType)
        if self.by is not None:
            said, bits = self.by.data, width(kind.element_type)
            if len(said) != 2 or not 0 <= said[0] < said[1] <= bits:
                raise VerifyException(
                    f"a sort by the bits {' to '.join(map(str, said))} is of none of "
                    f"{kind.element_type}, which has 0 to {bits}"
                )
            if isinstance(kind, GlobalType):
                raise VerifyException(f"a sort by bits is of a shared tile, not of {kind}")
        if isinstance(kind, SharedType):
            if self.at or self.axis or len(kind.sizes) != 2 or kind.sizes[0] != 1:
                raise VerifyException(
                    f"a sort is of the one row of a shared tile, not at {len(self.at)} coordinates "
                    f"of {kind}"
                )
            return
        assert isinstance(kind, GlobalType)
        if len(self.at) != len(kind.dims) - 1:
            raise VerifyException(
                f"a row of {kind} is at {len(kind.dims) - 1} coordinates, not {len(self.at)}"
            )
        if not 0 <= self.along < len(kind.dims):
            raise VerifyException(f"a row lies along an axis of {kind}, not along {self.along}")


class PoolOp(IRDLOperation):
    """A pool and how many elements it holds: a shared tile of one row, whose last element is the
    bound that what comes in has to be below, and one of a single i32."""

    pool = operand_def(base(SharedType))
    held = operand_def(base(SharedType))
    unsigned = opt_prop_def(UnitAttr)

    @property
    def room(self) -> int:
        """Elements that a pool has room for."""
        assert isinstance(self.pool.type, SharedType)
        return self.pool.type.sizes[1] - 1

    def verify_(self) -> None:
        what = self.name.split(".")[1]
        need_integers(f"the pool of a {what}", self.pool)
        pool, held = self.pool.type, self.held.type
        assert isinstance(pool, SharedType) and isinstance(held, SharedType)
        if len(pool.sizes) != 2 or pool.sizes[0] != 1 or pool.sizes[1] < 2:
            raise VerifyException(f"a pool is one row of two elements or more, not {pool}")
        if held.sizes != (1, 1) or held.element_type != i32:
            raise VerifyException(f"a pool counts its elements in a tile of one i32, not {held}")


@irdl_op_definition
class KeepNoneOp(PoolOp):
    """A pool that holds nothing.  Its threads meet before its next use."""

    name = "gpu.keep_none"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = (
        "$pool `,` $held (`unsigned` $unsigned^)? attr-dict `:` type($pool) `,` type($held)"
    )

    def __init__(self, pool: SSAValue, held: SSAValue, *, unsigned: bool = False) -> None:
        super().__init__(
            operands=[pool, held], properties={"unsigned": UnitAttr() if unsigned else None}
        )


@irdl_op_definition
class KeepLeastOp(PoolOp):
    """Bring the elements of a fragment to a pool that keeps the ``keep`` least.

    What is not below the pool's bound is left out.  Where the pool holds more elements than
    ``above``, or than leave room for all of the fragment, it is sorted first, all but the least are
    dropped, and the last one left is the bound.  The largest number of the type never comes in.
    All threads of the block take part, and meet.
    """

    name = "gpu.keep_least"
    fragment = operand_def(base(FragmentType))
    keep = prop_def(IndexAttr)
    above = opt_prop_def(IndexAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$fragment `into` $pool `,` $held `keep` $keep (`above` $above^)? "
        "(`unsigned` $unsigned^)? attr-dict `:` type($fragment) `,` type($pool) `,` type($held)"
    )

    def __init__(
        self,
        fragment: SSAValue,
        pool: SSAValue,
        held: SSAValue,
        keep: int,
        *,
        above: int | None = None,
        unsigned: bool = False,
    ) -> None:
        super().__init__(
            operands=[fragment, pool, held],
            properties={
                "keep": index_attr(keep),
                "above": None if above is None else index_attr(above),
                "unsigned": UnitAttr() if unsigned else None,
            },
        )

    @property
    def elements(self) -> int:
        """Elements of the fragment."""
        assert isinstance(self.fragment.type, FragmentType)
        rows, columns = self.fragment.type.sizes
        return rows * columns

    @property
    def most(self) -> int:
        """Elements that the pool may hold before it is sorted."""
        room = self.room - self.elements
        return room if self.above is None else min(room, self.above.value.data)

    def verify_(self) -> None:
        super().verify_()
        kind, pool = self.fragment.type, self.pool.type
        assert isinstance(kind, FragmentType) and isinstance(pool, SharedType)
        if kind.element_type != pool.element_type or len(kind.sizes) != 2:
            raise VerifyException(f"a pool of {pool} takes no {kind}")
        keep = self.keep.value.data
        if keep < 1 or keep + self.elements > self.room:
            raise VerifyException(
                f"a pool with room for {self.room} keeps 1 to {self.room - self.elements} beside a "
                f"fragment of {self.elements}, not {keep}"
            )
        if self.most < keep:
            raise VerifyException(
                f"a pool that keeps {keep} is sorted above {self.most} elements; let it hold more"
            )


@irdl_op_definition
class KeptOp(PoolOp):
    """Sort a pool: its first elements, as many as are kept, are the least of all that came to it.

    Where fewer than ``fill`` are held, the largest number of the type stands up to there.  All
    threads of the block take part, and meet before and after.
    """

    name = "gpu.kept"
    fill = prop_def(IndexAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = (
        "$pool `,` $held `fill` $fill (`unsigned` $unsigned^)? attr-dict `:` type($pool) `,` "
        "type($held)"
    )

    def __init__(
        self, pool: SSAValue, held: SSAValue, fill: int, *, unsigned: bool = False
    ) -> None:
        super().__init__(
            operands=[pool, held],
            properties={
                "fill": index_attr(fill),
                "unsigned": UnitAttr() if unsigned else None,
            },
        )

    def verify_(self) -> None:
        super().verify_()
        if not 0 <= (fill := self.fill.value.data) <= self.room:
            raise VerifyException(f"a pool with room for {self.room} is not filled up to {fill}")
