"""A region with a scan: what is walked in order, and what is computed around each element.

It has one scan and no reduction.  What is scanned is computed element by element, of any reads;
so are the outputs, which all have the same axes, of the scan's results and of more reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import KernelOp, ReadOp, ReduceOp, ReduceTogetherOp, ScanOp
from polyc.dialects.region.types import ValType


@dataclass(frozen=True)
class Scans:
    """A region with one scan.

    ``outer``, ``row`` and ``column`` are the axes that it does not go along, in the outputs' order:
    a tile runs along the last two, as far as there are any.
    """

    kernel: KernelOp
    scan: ScanOp
    outer: tuple[str, ...]
    row: str | None
    column: str | None

    @property
    def along(self) -> str:
        """The axis that the scan goes along."""
        return self.scan.label

    @property
    def values(self) -> list[SSAValue]:
        """The outputs."""
        return list(self.kernel.yield_op.values)

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The axes that the scan does not go along, and None where there is no row or column."""
        return (*self.outer, self.row, self.column)

    @property
    def reads(self) -> list[ReadOp]:
        """What is read of tensors."""
        return [op for op in self.kernel.body.block.ops if isinstance(op, ReadOp)]

    def size(self, label: str | None) -> Dim:
        """The size of an axis; 1 of None."""
        if label is None:
            return Dim.const(1)
        kind = cast("ValType", self.values[0].type)
        return next(axis.size for axis in kind.axes if axis.label == label)

    @property
    def is_of_rows(self) -> bool:
        """Whether the scan goes along the innermost axis of all outputs."""
        kinds = [cast("ValType", value.type) for value in self.values]
        return all(kind.labels[-1] == self.along for kind in kinds)


def find_scans(kernel: KernelOp) -> Scans:
    """The parts of a region with a scan.

    Raises PolycError ``UnsupportedProgram`` where it has none, or is not made so.
    """
    found: list[ScanOp] = []
    for op in kernel.walk():
        if isinstance(op, ScanOp):
            found.append(op)
    if not found:
        raise refusal(kernel, "it has no scan")
    if len(found) > 1:
        raise refusal(kernel, f"it has {len(found)} scans, and a kernel walks one axis once")
    (scan,) = found
    for op in kernel.walk():
        if isinstance(op, ReduceOp | ReduceTogetherOp):
            raise refusal(kernel, "it reduces beside its scan")
    kinds = [cast("ValType", value.type) for value in kernel.yield_op.values]
    first = kinds[0]
    if any(set(kind.labels) != set(first.labels) for kind in kinds):
        raise refusal(kernel, "its outputs are over unlike axes")
    if scan.label not in first.labels:
        raise refusal(kernel, f"its outputs do not have the axis {scan.label} of its scan")
    others = [label for label in first.labels if label != scan.label]
    column = others.pop() if others else None
    row = others.pop() if others else None
    return Scans(kernel, scan, tuple(others), row, column)


def refusal(kernel: KernelOp, why: str) -> PolycError:
    """The refusal of a region that is none of this family's."""
    name = kernel.sym_name.data
    return PolycError("UnsupportedProgram", f"region @{name} does not run as a scan: {why}", kernel)


def has_scan(kernel: KernelOp) -> bool:
    """Whether a region has a scan."""
    return any(isinstance(op, ScanOp) for op in kernel.walk())


def scanned_reads(scans: Scans) -> list[ReadOp]:
    """The reads that what is scanned is computed of."""
    found: list[ReadOp] = []
    work: list[SSAValue] = [scans.scan.operand]
    while work:
        owner = work.pop().owner
        if isinstance(owner, ReadOp):
            if owner not in found:
                found.append(owner)
        elif isinstance(owner, Operation):
            work.extend(owner.operands)
    return found


def ringed_reads(scans: Scans) -> list[ReadOp]:
    """Of these the ones that have all that a tile runs along: tiles of a tensor's last two axes, as
    they lie in memory.  None where another has all of that and is no such tile."""
    tile = [scans.along] if scans.is_of_rows else [scans.along, scans.column]
    found: list[ReadOp] = []
    for read in scanned_reads(scans):
        labels = read.result.type.labels
        own = [labels.index(label) for label in tile if label in labels]
        if len(own) < len(tile):
            continue
        places = read.map.data.results
        last = tuple(map(AffineExpr.dimension, own))
        lone = all(dims_of(c).isdisjoint(own) for c in places[: -len(tile)])
        if read.guard is not None or places[-len(tile) :] != last or not lone:
            return []
        found.append(read)
    return found


def dims_of(expression: AffineExpr) -> set[int]:
    """The dimensions that an expression names."""
    return {one.position for one in expression.dfs() if isinstance(one, AffineDimExpr)}
