"""The rows of a region: reductions along one innermost axis, and what is computed of them (S8).

A region of rows reduces only along one axis, the row, which is the last axis of every tensor that
it reads along it: LayerNorm, RMSNorm, softmax, sums and maxima of rows.  Where the row is another
axis, of few points, as a softmax's over channels, the rows are turned: they lie side by side.
Other regions are refused with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.affine.expressions import Floor, Linear, linear_of
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, without_sign
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.region import GatherOp, KernelOp, ReadOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.scope import behind
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, axes_text


@dataclass(frozen=True)
class Rows:
    """A region whose reductions all run along the axis ``row``.

    ``outer`` are the other axes, outermost first: each of their points has a row of its own.
    """

    kernel: KernelOp
    outer: tuple[AxisAttr, ...]
    row: AxisAttr
    turned: bool = False
    """Whether the last of ``outer``, and not the row, is the last axis of what is read."""
    covered: bool = True
    """Whether something is read over all axes.  Else each row is made of what others are made of
    too, as one of a product of matrices is."""

    @property
    def column(self) -> AxisAttr:
        """The axis along which neighbours in memory lie."""
        return self.outer[-1] if self.turned else self.row

    @property
    def length(self) -> Dim:
        """The elements of a row."""
        return self.row.size

    def refused(self, why: str, at: Operation) -> PolycError:
        """Why the region is left to another family, as ``UnsupportedProgram``."""
        return _unsupported(self.kernel, why, at)

    @property
    def reductions(self) -> list[ReduceOp | ReduceTogetherOp]:
        """The reductions in the order of the text, those inside of others left out."""
        ops = self.kernel.body.block.ops
        return [op for op in ops if isinstance(op, ReduceOp | ReduceTogetherOp)]

    @property
    def is_short(self) -> bool:
        """Whether a row's points are known, and as few as a block has in registers of rows that lie
        side by side."""
        count = self.length.constant()
        return count is not None and count <= TURNED

    @property
    def is_quick(self) -> bool:
        """Whether a row takes one block about as long as it takes memory to answer: a few are
        faster so than by tensor cores, which have more to begin and to end."""
        count = self.length.constant()
        return count is not None and count <= QUICK

    @property
    def reads(self) -> list[ReadOp]:
        """The reads along the row, but for those of what indices say the place of."""
        ops = self.kernel.body.block.ops
        reads = [op for op in ops if isinstance(op, ReadOp) and self.has_row(op.result)]
        return [op for op in reads if not self.at_indices(op)]

    @property
    def whole(self) -> list[ReadOp]:
        """Those over all axes: each row has its own."""
        known = {self.row.label, *(axis.label for axis in self.outer)}
        return [op for op in self.reads if set(op.result.type.labels) == known]

    @property
    def across(self) -> int:
        """Bytes of the narrowest element of results that have the row, and in memory the last of
        ``outer`` innermost; 0 where there are none."""
        beside = [axis.label for axis in self.outer[-1:]]
        values = zip(self.kernel.yield_op.values, self.kernel.outs, strict=True)
        found = [
            element_bytes(without_sign(out.element_type))
            for value, out in values
            if self.has_row(value) and [*cast(ValType, value.type).labels[-1:]] == beside
        ]
        return 0 if self.turned else min(found, default=0)

    @property
    def has_ones(self) -> bool:
        """Whether a tensor has dimensions of one point behind the row."""
        shapes = [cast(MemRefType, op.tensor.type).shape for op in self.reads]
        return any(len(s) > 1 and s[-1] == Dim.const(1) for s in shapes) and not self.turned

    @property
    def are_lines(self) -> bool:
        """Whether all rows begin where a line of a tensor does, or at a place of its own."""
        row = AffineExpr.dimension(len(self.outer))
        return all(_plain(self.coordinates(op)[-1], row) for op in self.whole)

    @property
    def gathers(self) -> list[GatherOp]:
        """What is read along the row at indices, which each row has one of."""
        ops = self.kernel.body.block.ops
        return [op for op in ops if isinstance(op, GatherOp) and self.has_row(op.result)]

    def at_indices(self, read: ReadOp) -> bool:
        """Whether a read has axes of which indices say the place."""
        known = {self.row.label, *(axis.label for axis in self.outer)}
        return not known.issuperset(read.result.type.labels)

    @property
    def walks_again(self) -> bool:
        """Whether a row is needed once more after a reduction of it."""
        return self.chained or any(self.has_row(value) for value in self.kernel.yield_op.values)

    @property
    def chained(self) -> bool:
        """Whether a reduction needs another one's result, as a variance does."""
        return any(_follows(op) for op in self.reductions)

    @cached_property
    def kept(self) -> list[ReadOp]:
        """The reads that a block can keep in shared memory: each row has its own.

        It begins where a row of the tensor does, as cp.async copies whole vectors alone.  Rows that
        lie side by side are kept as they lie, points of several below each other.
        """
        if self.turned:
            return [op for op in self.whole if self._lies_upright(op)]
        first = AffineExpr.dimension(len(self.outer))
        return [op for op in self.whole if self.copied(op, 1) and self.coordinates(op)[-1] == first]

    @property
    def alike(self) -> list[ReadOp]:
        """The reads along the row of which all rows have the same, as a norm's weights."""
        found = [op for op in self.reads if op.result.type.labels == (self.row.label,)]
        return [op for op in found if isinstance(op.result.type.element_type, AnyFloat)]

    def _lies_upright(self, read: ReadOp) -> bool:
        """Whether points of neighbouring rows are a tile of a tensor's last two axes."""
        row, last = AffineExpr.dimension(len(self.outer)), len(self.outer) - 1
        found = self.coordinates(read)
        if read.guard is not None or len(found) < 2 or found[-1] != AffineExpr.dimension(last):
            return False
        before = any(_names(c, p) for c in found[:-2] for p in (last, last + 1))
        return _plain(found[-2], row) and not _names(found[-2], last) and not before

    def has_row(self, value: SSAValue) -> bool:
        """Whether a value has the row's axis; a tensor has none."""
        return isinstance(value.type, ValType) and self.row.label in value.type.labels

    def copied(self, read: ReadOp, rows: int) -> bool:
        """Whether a tile of ``rows`` rows of a read is a tile of the tensor.

        It is one of the tensor's last two axes, and no guard stands between.  Where it has several
        rows, these lie one below the other.
        """
        if self.at_indices(read):
            return False
        coordinates = self.coordinates(read)
        if (
            self.turned
            or read.guard is not None
            or not self.has_row(read.result)
            or len(coordinates) < 2
        ):
            return False
        if not _plain(coordinates[-1], AffineExpr.dimension(len(self.outer))):
            return False
        if rows == 1:
            return True
        inner = AffineExpr.dimension(len(self.outer) - 1)
        steps = [dict(linear_of(c).terms).get(("d", len(self.outer) - 1)) for c in coordinates]
        return steps[:-2] == [None] * (len(steps) - 2) and _plain(coordinates[-2], inner)

    def coordinates(self, read: ReadOp) -> list[AffineExpr]:
        """A read's coordinates in the outer axes and, last, the row; symbols are the kernel's."""
        order = [*(axis.label for axis in self.outer), self.row.label]
        places = [order.index(label) for label in read.result.type.labels]
        dims = [AffineExpr.dimension(p) for p in places]
        symbols = [AffineExpr.symbol(i) for i in range(read.map.data.num_symbols)]
        return [e.replace_dims_and_symbols(dims, symbols) for e in read.map.data.results]


def find_rows(kernel: KernelOp) -> Rows:
    """The rows of a region, ``covered`` or not; raises PolycError ``UnsupportedProgram`` with the
    reason."""
    _check_integers(kernel)
    row = _row_axis(kernel)
    outer = tuple(axis for axis in kernel.iters if axis.label != row.label)
    rows = Rows(kernel, outer, row)
    known = {row.label, *(axis.label for axis in outer)}
    gathers = [op for op in kernel.body.block.ops if isinstance(op, GatherOp)]
    there = known.union(*(op.labels for op in gathers))
    for op in gathers:
        _check_gather(rows, op)
    for op in kernel.body.block.ops:
        for value in op.results:
            strange = [a for a in cast(ValType, value.type).axes if a.label not in there]
            if strange:
                why = f"{op.name} runs over {axes_text(strange)} beside the row {row}"
                raise _unsupported(kernel, why, op)
    try:
        for read in rows.reads:
            _check_read(rows, read)
    except PolycError:
        rows = replace(rows, turned=True)
        if gathers or not _lie_beside(rows, known):
            raise
    whole = (op.result.type.labels for op in (*rows.reads, *rows.gathers))
    rows = replace(rows, covered=any(set(labels) == known for labels in whole))
    for value, name in zip(kernel.yield_op.values, kernel.res_names, strict=True):
        labels = cast(ValType, value.type).labels
        if not labels or not known - {row.label} <= set(labels):
            why = f"its output {name.data} is no number or row for each of {axes_text(outer)}"
            raise _unsupported(kernel, why, kernel)
    return rows


def _unsupported(kernel: KernelOp, why: str, at: Operation) -> PolycError:
    """The refusal at the op whose condition does not hold."""
    return PolycError(
        "UnsupportedProgram",
        f"region @{kernel.sym_name.data} is not one of rows: {why}; rows take reductions along "
        "one axis that is the last one of what they read",
        at,
    ).located(kernel)


def _check_gather(rows: Rows, op: GatherOp) -> None:
    """Refuse indices that differ along the row, and rows that do not lie along a tensor's lines."""
    if any(rows.has_row(index) for index in op.indices):
        why = f"its indices differ along {rows.row.label}"
        raise _unsupported(rows.kernel, why, op)
    for read in behind([op.operand]):
        if isinstance(read, ReadOp) and rows.has_row(read.result):
            position, results = read.result.type.labels.index(rows.row.label), read.map.data.results
            walked = _plain(results[-1], AffineExpr.dimension(position))
            if not walked or any(_names(r, position) for r in results[:-1]):
                raise _unsupported(rows.kernel, _across(rows, read), read)


def _check_integers(kernel: KernelOp) -> None:
    """Refuse integers that threads do not bring together, or together with others."""
    for op in kernel.body.walk():
        kinds = [v.type.element_type for v in op.results if isinstance(v.type, ValType)]
        if isinstance(op, ReduceTogetherOp) and any(map(is_integer, kinds)):
            raise _unsupported(kernel, f"{op.name} makes integers", op)
        if isinstance(op, ReduceOp) and is_integer(op.accumulator) and not op.is_shared:
            why = f"threads do not share its {op.fn.data} of {op.accumulator}"
            raise _unsupported(kernel, why, op)


def _row_axis(kernel: KernelOp) -> AxisAttr:
    """The axis along which all reductions of a region run."""
    found: AxisAttr | None = None
    for op in kernel.body.walk():
        if not isinstance(op, ReduceOp | ReduceTogetherOp):
            continue
        if len(op.labels) != 1 or (found is not None and op.labels != (found.label,)):
            before = "" if found is None else f" and over [{found.label}]"
            why = f"it reduces over [{', '.join(op.labels)}]{before}"
            raise _unsupported(kernel, why, op)
        if isinstance(op, ReduceOp) and not (is_integer(op.accumulator) or op.is_shared):
            raise _unsupported(kernel, f"it sums in {op.accumulator}", op)
        axes = [cast(ValType, v.type).axis(op.labels[0]) for v in op.operands]
        found = next(axis for axis in axes if axis is not None)
    if found is None:
        raise _unsupported(kernel, "it reduces nothing", kernel)
    return found


def _check_read(rows: Rows, read: ReadOp) -> None:
    """Refuse a read along the row whose last coordinate alone does not walk it, one by one; a row
    whose results lie across may begin where its place says, as a phase of pixels does."""
    coordinates = rows.coordinates(read)
    position = len(rows.outer)
    for size in reversed(cast("MemRefType", read.tensor.type).shape):
        if size != Dim.const(1) or len(coordinates) == 1:
            break
        coordinates.pop()  # Of one point, as what repeats along pixels: the row lies before it.
    row = AffineExpr.dimension(position)
    walked = bool(coordinates) and _plain(coordinates[-1], row)
    walked |= bool(coordinates and rows.across) and _begins(coordinates[-1], position)
    if not walked or any(_names(c, position) for c in coordinates[:-1]):
        raise _unsupported(rows.kernel, _across(rows, read), read)


def _across(rows: Rows, read: ReadOp) -> str:
    return f"it reads a tensor at {read.map.data}, where {rows.row.label} is not the last axis"


QUICK = 8192
"""Points of a row that a block reads in some 0.3 us, beside the 1 us until the first is there."""

TURNED = 1024
"""Points of turned rows at most: as many as leave a block a sector of memory of each point."""

NEIGHBOURS = 256
"""Rows that lie side by side and are only reduced, from which on a block of them reads whole lines:
variances of 256 points took 1.3 times a copy where 3136 lay so, and of 56 points 2.9 times where 56
did, which loops read twice in less."""


def _lie_beside(rows: Rows, known: set[str]) -> bool:
    """Whether points of whole rows lie side by side, and are made to rows that do too: few known
    ones, or any number of tiles that blocks keep.

    What is only reduced is left to loops, whose threads part the points, but for a few points of
    many neighbours of which one reduction needs another one's result, as a variance does.
    """
    if not rows.outer or rows.length.constant() in (0, 1):
        return False
    wide_reads = (op for op in rows.reads if set(op.result.type.labels) == known)
    if not rows.is_short and not all(op in rows.kept for op in wide_reads):
        return False
    last = AffineExpr.dimension(len(rows.outer) - 1)
    for read in rows.reads:
        coordinates = rows.coordinates(read)
        if set(read.result.type.labels) == known and not _plain(coordinates[-1], last):
            return False
    values = [cast(ValType, v.type).labels for v in rows.kernel.yield_op.values]
    wide = [labels for labels in values if rows.row.label in labels]
    few = (
        rows.is_short and rows.chained and (rows.column.size.constant() or NEIGHBOURS) >= NEIGHBOURS
    )
    return (few or bool(wide)) and all(labels[-1] == rows.column.label for labels in wide)


def _follows(op: Operation) -> bool:
    """Whether a reduction is made of another one's result."""
    work, seen = [*op.operands], set[SSAValue]()
    while work:
        value = work.pop()
        if value in seen or not isinstance(owner := value.owner, Operation):
            continue
        seen.add(value)
        if isinstance(owner, ReduceOp | ReduceTogetherOp):
            return True
        work += owner.operands
    return False


def _plain(coordinate: AffineExpr, axis: AffineExpr) -> bool:
    """Whether a coordinate is an axis, or one moved by what is the same everywhere."""
    rest = linear_of(coordinate - axis)
    return all(isinstance(atom, tuple) and atom[0] == "s" for atom, _ in rest.terms)


def _begins(coordinate: AffineExpr, position: int) -> bool:
    """Whether a coordinate is an axis, from a place on that the others say."""

    def holds(linear: Linear) -> bool:
        atoms = (atom for atom, _ in linear.terms)
        return any(holds(a.num) if isinstance(a, Floor) else a == ("d", position) for a in atoms)

    return not holds(linear_of(coordinate - AffineExpr.dimension(position)))


def _names(expr: AffineExpr, position: int) -> bool:
    return any(e == AffineExpr.dimension(position) for e in expr.dfs())


def row_lengths(rows: Rows) -> list[Dim]:
    """The size of the axis of neighbours, the row's as a rule, and those in memory of all that is
    read and written along it, each once; not of what is written across it."""
    known = {rows.row.label, *(axis.label for axis in rows.outer)}
    reads = [op for op in rows.reads if not rows.turned or set(op.result.type.labels) == known]
    reads += [
        op
        for op in behind([gather.operand for gather in rows.gathers])
        if isinstance(op, ReadOp) and rows.has_row(op.result)
    ]
    tensors = [cast(MemRefType, read.tensor.type) for read in reads]
    values = zip(rows.kernel.yield_op.values, rows.kernel.outs, strict=True)
    along = rows.column.label
    tensors += [kind for value, kind in values if along in cast(ValType, value.type).labels[-1:]]
    return list(dict.fromkeys([rows.column.size, *map(_line_of, tensors)]))


def _line_of(tensor: MemRefType) -> Dim:
    """The size of the last axis of a tensor that has several points, or of its last one."""
    return next((n for n in reversed(tensor.shape) if n != Dim.const(1)), tensor.shape[-1])
