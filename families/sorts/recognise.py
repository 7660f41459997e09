"""A region that sorts: what is sorted, along which axis, and how much of it is wanted.

What it sorts is computed element by element as it is read, and what it stores element by element of
what is sorted.  It reduces nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from polyc.dialects.common.deciding import Bits
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.elements import is_unsigned, without_sign
from polyc.dialects.region import (
    AxisAttr,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    ScanOp,
    SortOp,
)
from polyc.dialects.region.orders import neighbour_of
from polyc.dialects.region.types import MemRefType, ValType
from polyc.dialects.tiny.sorting import MOST


@dataclass(frozen=True)
class Sorts:
    """A region whose outputs are made of the rows of ``sort``, or of the least of each."""

    kernel: KernelOp
    sort: SortOp

    @property
    def row(self) -> AxisAttr:
        """The axis that is sorted."""
        axis = cast(ValType, self.sort.operand.type).axis(self.sort.over)
        assert axis is not None
        return axis

    @property
    def result(self) -> AxisAttr:
        """The axis along which the result lies."""
        axis = self.sort.result.type.axis(self.sort.into)
        assert axis is not None
        return axis

    @property
    def outer(self) -> list[AxisAttr]:
        """The axes that have a row at each point."""
        return [axis for axis in self.sort.result.type.axes if axis.label != self.sort.into]

    @property
    def least(self) -> int | None:
        """How many of a row are wanted, where these are fewer than all and can be kept."""
        number = self.result.size.constant()
        if number is None or number > MOST or self.result.size == self.row.size:
            return None
        return number

    @property
    def is_plain(self) -> bool:
        """Whether the result is what is sorted, and nothing is made of it."""
        return list(self.kernel.yield_op.values) == [self.sort.result]

    @property
    def element(self) -> Attribute:
        """The type of what is sorted, without a sign."""
        return without_sign(self.sort.result.type.element_type)

    @property
    def size(self) -> int:
        """Its bytes."""
        return cast("IntegerType", self.element).width.data // 8

    @property
    def unsigned(self) -> bool:
        """Whether what is sorted has no sign."""
        return is_unsigned(self.sort.result.type.element_type)

    @property
    def bits(self) -> Bits:
        """The bits that decide the order."""
        return self.sort.bits

    @property
    def reads(self) -> list[ReadOp]:
        """What is read along the row."""
        return [
            op
            for op in self.kernel.body.block.ops
            if isinstance(op, ReadOp) and op.result.type.axis(self.row.label) is not None
        ]

    @property
    def is_beside(self) -> bool:
        """Whether neighbours of a row are neighbours in memory, in all that is read along it."""
        return all(neighbour_of(op) == self.row.label for op in self.reads)

    @property
    def tensors(self) -> list[MemRefType]:
        """The tensors of these reads."""
        return [cast(MemRefType, op.tensor.type) for op in self.reads]


def find_sorts(kernel: KernelOp) -> Sorts:
    """The sort of a region.  Raises PolycError ``UnsupportedProgram`` with the reason."""
    found = [op for op in kernel.walk() if isinstance(op, SortOp)]
    if not found:
        raise _unsupported(kernel, "it sorts nothing")
    sort = found[0]
    if len(found) > 1:
        raise _unsupported(kernel, f"it has {len(found)} sorts")
    if any(isinstance(op, ReduceOp | ReduceTogetherOp | ScanOp) for op in kernel.walk()):
        raise _unsupported(kernel, "it reduces or scans beside its sort")
    own = set(sort.result.type.labels)
    for value in kernel.yield_op.values:
        if (labels := set(cast(ValType, value.type).labels)) != own:
            raise _unsupported(
                kernel, f"it stores a value over {sorted(labels)}, and sorts over {sorted(own)}"
            )
    return Sorts(kernel, sort)


def _unsupported(kernel: KernelOp, why: str) -> PolycError:
    return PolycError(
        "UnsupportedProgram",
        f"region @{kernel.sym_name.data} is no sort of rows: {why}; a kernel that sorts computes "
        "what it sorts and what it stores element by element",
        kernel,
    )
