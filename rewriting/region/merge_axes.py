"""Axes of a region that lie next to each other everywhere, as one axis.

``[n, h, w]`` of a tensor ``[N, H, W, C]`` is one axis of ``N * H * W`` points wherever no tensor
tells the three apart.  The region that sees its tensors so is the same computation: a product with
``[F, C]`` is one of two matrices then, and a batch of several axes has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from polyc.affine.expressions import Floor, linear_of, uses_dim
from polyc.dialects.common.dim import Dim
from polyc.dialects.region import (
    BinaryOp,
    BroadcastInDimOp,
    GatherOp,
    IndexOp,
    InsideOp,
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    ScanOp,
    SortOp,
    TransposeOp,
)
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.rewriting.driver import located
from polyc.rewriting.region.other_shapes import in_other_shapes, over_axes
from polyc.rewriting.region.points import moved_set

Pair = tuple[str, str]
"""An axis and the one that lies right inside it."""


def merged(kernel: KernelOp) -> KernelOp:
    """The region over the fewest axes: a copy that stands nowhere, or itself where none merge.

    Two axes merge where every read that has one of them has both, the second right inside the
    first (as neighbouring dimensions, of which the inner one is walked whole, or as one dimension
    that the two count), and no guard goes by them; where the outputs have them so; and where every
    value has both or neither.  An axis that a scan or an index goes along merges with none, and
    stays.  A summed axis of one point beside others is left out, and one of the outputs along which
    nothing is summed or sorted.
    A dimension that several axes count is one of each of them where that lets the last one merge
    with the next dimension's: groups of channels with the pixels of each.  So it is where axes
    merged and no products are summed.
    Exact: each element is what it was, and lies where it lay.
    """
    found = _merged(kernel)
    apart = with_digits_apart(found)
    again = found if apart is found else _merged(apart)
    return again if again is not apart or (found is not kernel and _only_sums(found)) else found


def _merged(kernel: KernelOp) -> KernelOp:
    if any(op.regions and not _is_together(op) for op in kernel.body.block.ops):
        return kernel
    points = _points(kernel)
    reads = [_Reading.of(op, points) for op in kernel.body.block.ops if isinstance(op, ReadOp)]
    forbidden = {pair for pair in _mergeable(kernel, reads) if not points.isdisjoint(pair)}
    while True:
        groups = _chains(_mergeable(kernel, reads) - forbidden)
        if not groups and not points:
            return kernel
        uneven = _uneven(reads, groups)
        if uneven is None:
            return _merged(_Merge(kernel, reads, groups, points).built())
        if not uneven:
            return kernel
        forbidden |= uneven


def with_digits_apart(kernel: KernelOp) -> KernelOp:
    """The region that sees a dimension which several axes count as one dimension of each: a copy
    that stands nowhere, or itself where there are none.

    All reads of the tensor count it so, whole.  A line that small windows part stays one: a thread
    that has neighbours along it brings their windows in vectors.  Exact: it is another view of the
    same memory.
    """
    points, windows = _points(kernel), _in_windows(kernel)
    shapes: dict[SSAValue, list[list[str]]] = {}
    for arg in kernel.ins:
        ops = [use.operation for use in arg.uses]
        if not ops or not all(isinstance(op, ReadOp) for op in ops):
            continue
        reads = [_Reading.of(op, points) for op in ops if isinstance(op, ReadOp)]
        counts = reads[0].counts
        if any(one.counts != counts or not all(one.whole) for one in reads):
            continue
        several = [list(labels or ()) for labels in counts]
        if several and [label in windows for label in several[-1][-2:]] == [False, True]:
            several[-1] = []
        if any(len(labels) > 1 for labels in several):
            shapes[arg] = several
    if not shapes:
        return kernel
    sizes = {a.label: a.size for t in _types(kernel) for a in t.axes}
    dims: dict[SSAValue, list[list[Dim] | None]] = {
        tensor: [[sizes[label] for label in labels] or None for labels in several]
        for tensor, several in shapes.items()
    }

    def places(op: ReadOp) -> list[AffineExpr]:
        labels = val_type(op.result).labels
        found: list[AffineExpr] = []
        for counted, expr in zip(shapes[op.tensor], op.map.data.results, strict=True):
            digits = [AffineDimExpr(labels.index(label)) for label in counted]
            found += digits if len(counted) > 1 else [expr]
        return found

    return in_other_shapes(kernel, dims, places)


SHORT_TAPS, WINDOW = 16, 256
"""Points of a window at most along a line, and all those, for which it stays a window where the
next one begins behind it: longer ones are rows."""


def _in_windows(kernel: KernelOp) -> set[str]:
    """The short axes that are reduced over windows of a few points, of which nothing is made but
    what they reduce to: a norm's rows are no windows."""
    found: set[str] = set()
    made = {axis.label for axis in kernel.iters.data}
    for op in kernel.body.walk():
        if isinstance(op, ReduceOp):
            axes = val_type(op.operand).axes
            sizes = {a.label: a.size.constant() or WINDOW + 1 for a in axes}
            if prod(sizes[label] for label in op.labels) <= WINDOW:
                found.update(label for label in op.labels if sizes[label] <= SHORT_TAPS)
    return found - made


def without_points(kernel: KernelOp) -> KernelOp:
    """The region without summed axes of one point beside others: a copy that stands nowhere, or
    itself where there are none."""
    points = _points(kernel)
    if not points or any(op.regions and not _is_together(op) for op in kernel.body.block.ops):
        return kernel
    reads = [_Reading.of(op, points) for op in kernel.body.block.ops if isinstance(op, ReadOp)]
    return _Merge(kernel, reads, [], points).built()


def without_unread(kernel: KernelOp) -> KernelOp:
    """The region without output axes of one point that nothing is read or counted along, as of one
    sequence: a copy that stands nowhere, or itself where there are none."""
    ops = list(kernel.body.block.ops)
    if any(op.regions and not _is_together(op) for op in ops):
        return kernel
    counts = (ReadOp, IndexOp, InsideOp)
    used = {a for op in ops if isinstance(op, counts) for a in val_type(op.result).labels}
    points = {axis.label for axis in kernel.iters if axis.size == Dim.const(1)} - used
    if not points or len(points) == len(kernel.iters):
        return kernel
    reads = [_Reading.of(op, points) for op in ops if isinstance(op, ReadOp)]
    if _uneven(reads, []) is not None:
        return kernel
    return _Merge(kernel, reads, [], points).built()


def without_ones(kernel: KernelOp) -> KernelOp:
    """The region that sees no dimension of one point of what it reads: a copy that stands nowhere,
    or itself where it has regions that are no reductions."""
    ops = list(kernel.body.block.ops)
    if any(op.regions and not _is_together(op) for op in ops):
        return kernel
    reads = [_Reading.of(op, set()) for op in ops if isinstance(op, ReadOp)]
    return kernel if _uneven(reads, []) is not None else _Merge(kernel, reads, [], set()).built()


def _is_together(op: Operation) -> bool:
    """Whether an op is a reduction of several values whose parts read no tensor."""
    inner = (part for region in op.regions for part in region.walk())
    return isinstance(op, ReduceTogetherOp) and not any(isinstance(part, ReadOp) for part in inner)


def _points(kernel: KernelOp) -> set[str]:
    """The axes of one point that are summed together with others, and are no outputs' too, and
    those of the outputs: but for the outermost where it may be a side of a product or the only row
    of sums, and for the first of outputs that have no others.
    """
    found: set[str] = set()
    summed: list[list[str]] = []
    kept: set[str] = set()
    one = Dim.const(1)
    summing = ReduceOp | ReduceTogetherOp | SortOp
    sums = any(isinstance(op, summing) for op in kernel.body.block.ops)
    for op in kernel.body.block.ops:
        if isinstance(op, ReduceOp):
            axes = [a for a in val_type(op.operand).axes if a.label in op.labels]
            single = [a.label for a in axes if a.size == one]
            found.update(single if len(single) < len(axes) else single[1:])
            summed.append([a.label for a in axes])
            kept |= {*val_type(op.result).labels}
    # What one sum may leave out may be all that another one is over.
    for labels in summed:
        if found.issuperset(labels):
            found.discard(labels[0])
    outer = {axis.label for axis in kernel.iters}
    found -= outer
    single = [axis.label for axis in kernel.iters if axis.size == one]
    if sums:
        walked = {label for labels in summed for label in labels}
        # A product has a side of one point: the outermost axis stays, and so does that of one row.
        # What is summed along another one, and is no product, is only put along it afterwards.
        outermost = {axis.label for axis in kernel.iters.data[:1]}
        if kept & outer and not sums_products(kernel):
            outermost &= kept
        sorts = any(isinstance(op, SortOp) for op in kernel.body.block.ops)
        single = [a for a in single if a not in walked | outermost and not sorts]
    found.update(single[len(single) == len(outer) :])
    for op in kernel.body.block.ops:
        if isinstance(op, IndexOp | InsideOp):
            found.difference_update(val_type(op.result).labels)
        if isinstance(op, ReduceTogetherOp):
            found.difference_update(op.labels)
        if isinstance(op, ScanOp):
            found.discard(op.label)
    return found


def _only_sums(kernel: KernelOp) -> bool:
    """Whether a region reduces, and sums no products."""
    return any(isinstance(op, ReduceOp) for op in kernel.walk()) and not sums_products(kernel)


def sums_products(kernel: KernelOp) -> bool:
    """Whether a region sums products of two values."""
    return any(
        isinstance(op, ReduceOp)
        and isinstance(product := op.operand.owner, BinaryOp)
        and product.fn.data == "mul"
        and product.lhs is not product.rhs
        for op in kernel.body.walk()
    )


# What lies where -----------------------------------------------------------------------


@dataclass(frozen=True)
class _Reading:
    """A read, with the axes that count each dimension of its tensor, outermost first.

    ``counts`` is None for a dimension that is walked in another way.
    """

    op: ReadOp
    counts: tuple[tuple[str, ...] | None, ...]
    whole: tuple[bool, ...]
    """Whether the axes of a dimension count all of it."""

    @staticmethod
    def of(op: ReadOp, points: set[str]) -> _Reading:
        """``points`` are axes of one point, which is at 0."""
        axes = val_type(op.result).axes.data
        shape = cast(MemRefType, op.tensor.type).shape
        counts = tuple(_counting(expr, axes, points) for expr in op.map.data.results)
        sizes = {axis.label: axis.size for axis in axes}
        whole = tuple(
            found is not None and prod((sizes[a] for a in found), start=Dim.const(1)) == size
            for found, size in zip(counts, shape, strict=True)
        )
        return _Reading(op, counts, whole)

    def pairs(self) -> set[Pair]:
        """The axes of which the second lies right inside the first."""
        found: set[Pair] = set()
        before: str | None = None
        for counts, whole in zip(self.counts, self.whole, strict=True):
            if not whole or counts is None:
                before = None
            elif counts and before is not None:
                found.add((before, counts[0]))
            if counts:
                found.update(pairwise(counts))
                # What is left of two that count one dimension would step by the next one's size.
                before = counts[-1] if len(counts) == 1 else None
        apart = self.apart()
        return {(a, b) for a, b in found if a not in apart and b not in apart}

    def apart(self) -> set[str]:
        """The axes by which a guard or another coordinate goes, too."""
        labels = val_type(self.op.result).labels
        exprs = [
            expr
            for expr, counts in zip(self.op.map.data.results, self.counts, strict=True)
            if counts is None
        ]
        if self.op.guard is not None:
            for row in self.op.guard.data.constraints:
                exprs += [row.lhs, row.rhs]
        counted = [label for counts in self.counts for label in counts or ()]
        twice = {label for label in counted if counted.count(label) > 1}
        return twice | {
            label for i, label in enumerate(labels) if any(uses_dim(expr, i) for expr in exprs)
        }

    def joined(self, groups: Mapping[str, str]) -> list[list[int]]:
        """The dimensions that are one where the axes of a group are, each with its own."""
        parts: list[list[int]] = []
        before: list[int] = []
        last: str | None = None
        for i, (counts, whole) in enumerate(zip(self.counts, self.whole, strict=True)):
            if counts == () and whole:
                # A dimension of one point goes with its neighbour.
                (parts[-1] if parts else before).append(i)
            elif counts and last is not None and groups.get(counts[0]) == last:
                parts[-1].append(i)
                last = groups.get(counts[-1])
            else:
                parts.append([*before, i])
                before, last = [], groups.get(counts[-1]) if counts else None
        return [*parts, before] if before else parts


def _counting(
    expr: AffineExpr, axes: Sequence[AxisAttr], points: set[str]
) -> tuple[str, ...] | None:
    """The axes whose digits make up a coordinate, outermost first; None for any other form."""
    linear = linear_of(expr)
    if linear.constant:
        return None
    terms: list[tuple[int, AxisAttr]] = []
    for atom, step in linear.terms:
        if isinstance(atom, Floor) or atom[0] != "d":
            return None
        if axes[atom[1]].label not in points:
            terms.append((step, axes[atom[1]]))
    terms.sort(key=lambda term: term[0], reverse=True)
    inside: int | None = 1
    for step, axis in reversed(terms):
        if step != inside:
            return None
        size = axis.size.constant()
        inside = None if size is None else size * step
    return tuple(axis.label for _, axis in terms)


def _mergeable(kernel: KernelOp, reads: Sequence[_Reading]) -> set[Pair]:
    """The pairs that every part of the region has as one, or not at all."""
    parts: list[tuple[Iterable[str], set[Pair]]] = [
        (val_type(reading.op.result).labels, reading.pairs()) for reading in reads
    ]
    for value in kernel.yield_op.values:
        labels = val_type(value).labels
        parts.append((labels, set(pairwise(labels))))
    found = set[Pair]().union(*(pairs for _, pairs in parts))
    for op in kernel.body.walk():
        if isinstance(op, IndexOp | InsideOp):
            parts.append((val_type(op.result).labels, set()))
        else:
            if isinstance(op, ScanOp):
                parts.append(([op.label], set()))
            if isinstance(op, GatherOp):
                parts.append((op.labels, set()))
            # A value, or a reduction over what it lacks, has both or neither.
            labels = [val_type(v).labels for v in op.results if isinstance(v.type, ValType)]
            for own in labels:
                found = {(a, b) for a, b in found if (a in own) == (b in own)}
    return {
        (a, b)
        for a, b in found
        if all((a, b) in pairs or (a not in own and b not in own) for own, pairs in parts)
    }


def _chains(pairs: set[Pair]) -> list[tuple[str, ...]]:
    """The pairs one after another, as groups of axes, outermost first."""
    after = dict(pairs)
    inner = set(after.values())
    groups: list[tuple[str, ...]] = []
    for start in after:
        if start in inner:
            continue
        group = [start]
        while group[-1] in after:
            group.append(after[group[-1]])
        groups.append(tuple(group))
    return sorted(groups)


def _uneven(reads: Sequence[_Reading], groups: Sequence[tuple[str, ...]]) -> set[Pair] | None:
    """The pairs by which two reads of one tensor see it in different shapes; None where none do."""
    names = {axis: group[0] for group in groups for axis in group}
    seen: dict[SSAValue, tuple[_Reading, list[list[int]]]] = {}
    for reading in reads:
        parts = reading.joined(names)
        other, theirs = seen.setdefault(reading.op.tensor, (reading, parts))
        if parts != theirs:
            own = {label for r in (reading, other) for label in val_type(r.op.result).labels}
            return {pair for group in groups if own & set(group) for pair in pairwise(group)}
    return None


# The region anew -----------------------------------------------------------------------


class _Merge:
    """Builds the region over the merged axes."""

    def __init__(
        self,
        kernel: KernelOp,
        reads: Sequence[_Reading],
        groups: Sequence[tuple[str, ...]],
        points: set[str],
    ) -> None:
        self.kernel, self.points = kernel, points
        self.readings = {reading.op: reading for reading in reads}
        self.group = {axis: group[0] for group in groups for axis in group}
        sizes = {a.label: a.size for t in _types(kernel) for a in t.axes}
        taken = set(sizes)
        self.axes: dict[str, AxisAttr] = {}
        for group in groups:
            label = "".join(group)
            while label in taken:
                label += "_"
            taken.add(label)
            size = prod((sizes[axis] for axis in group), start=Dim.const(1))
            self.axes[group[0]] = AxisAttr.of(label, size)

    def built(self) -> KernelOp:
        kernel = self.kernel
        shapes: dict[SSAValue, MemRefType] = {
            reading.op.tensor: self.tensor(reading) for reading in self.readings.values()
        }
        ins = [shapes.get(arg, cast(MemRefType, arg.type)) for arg in kernel.ins]
        block = self.block(kernel.body.block, ins)
        outs = [
            self.output(val_type(value).labels, out)
            for value, out in zip(kernel.yield_op.values, kernel.outs, strict=True)
        ]
        return over_axes(kernel, self.over(kernel.iters), ins, outs, block)

    def block(self, old: Block, kinds: Sequence[Attribute]) -> Block:
        """A block of the region, or of a reduction in it, with arguments of these types."""
        block = Block(arg_types=kinds)
        values: dict[SSAValue, SSAValue] = dict(zip(old.args, block.args, strict=True))
        for before, new in zip(old.args, block.args, strict=True):
            new.location, new.name_hint = before.location, before.name_hint
        for op in old.ops:
            new = located(self.op(op, values), op)
            block.add_op(new)
            for old_value, value in zip(op.results, new.results, strict=True):
                value.name_hint = old_value.name_hint
                values[old_value] = value
        return block

    def inner(self, region: Region) -> Region:
        """A region of a reduction, whose arguments are values."""
        kinds = [self.kind(arg) for arg in region.block.args]
        return Region(self.block(region.block, kinds))

    def kind(self, value: SSAValue) -> ValType:
        """The type of a value here."""
        return ValType.of(self.over(val_type(value).axes), val_type(value).element_type)

    def over(self, axes: Iterable[AxisAttr]) -> list[AxisAttr]:
        """Axes with every group as one, where its first axis was."""
        found: list[AxisAttr] = []
        for axis in axes:
            group = self.group.get(axis.label)
            if group is None and axis.label not in self.points:
                found.append(axis)
            elif group is not None and group == axis.label:
                found.append(self.axes[group])
        return found

    def name(self, label: str) -> str | None:
        """The name of an axis here; None where another one stands for it, or none does."""
        if label in self.points:
            return None
        group = self.group.get(label)
        if group is None:
            return label
        return self.axes[group].label if group == label else None

    def tensor(self, reading: _Reading) -> MemRefType:
        kind = cast(MemRefType, reading.op.tensor.type)
        parts = reading.joined(self.group)
        shape = [prod((kind.shape[i] for i in part), start=Dim.const(1)) for part in parts]
        return MemRefType.of(shape, kind.element_type, kind.align, kind.noalias)

    def output(self, labels: Sequence[str], kind: MemRefType) -> MemRefType:
        shape: list[Dim] = []
        for label, size in zip(labels, kind.shape, strict=True):
            if label in self.points:
                continue
            if self.name(label) is None:
                shape[-1] = shape[-1] * size
            else:
                shape.append(size)
        return MemRefType.of(shape, kind.element_type, kind.align, kind.noalias)

    def op(self, op: Operation, values: Mapping[SSAValue, SSAValue]) -> Operation:
        operands = [values[operand] for operand in op.operands]
        if isinstance(op, ReadOp):
            return self.read(op, operands[0])
        kinds: list[Attribute] = [self.kind(r) for r in op.results]
        properties = dict(op.properties)
        match op:
            case BroadcastInDimOp():
                labels = [a.label for a in self.over(op.result.type.axes)]
                places = [labels.index(label) for label in val_type(operands[0]).labels]
                properties["dims"] = DenseArrayBase.from_list(i64, places)
            case TransposeOp():
                have = val_type(operands[0]).labels
                order = [have.index(a.label) for a in self.over(op.result.type.axes)]
                properties["perm"] = DenseArrayBase.from_list(i64, order)
            case ScanOp():
                properties["along"] = StringAttr(str(self.name(op.label)))
            case ReduceOp() | ReduceTogetherOp():
                names = (self.name(label) for label in op.labels)
                properties["axes"] = ArrayAttr(StringAttr(n) for n in names if n is not None)
            case _:
                pass
        return type(op).create(
            operands=operands,
            result_types=kinds,
            properties=properties,
            attributes=dict(op.attributes),
            regions=[self.inner(region) for region in op.regions],
        )

    def read(self, op: ReadOp, tensor: SSAValue) -> ReadOp:
        reading = self.readings[op]
        axes = val_type(op.result).axes.data
        own = self.over(axes)
        places = {axis.label: i for i, axis in enumerate(own)}
        dims: list[AffineExpr] = []
        for axis in axes:
            name = self.name(axis.label)
            dims.append(AffineConstantExpr(0) if name is None else AffineDimExpr(places[name]))
        symbols = [AffineSymExpr(i) for i in range(op.map.data.num_symbols)]
        results: list[AffineExpr] = []
        for part in reading.joined(self.group):
            other = [i for i in part if reading.counts[i] is None]
            if other:
                expr = op.map.data.results[other[0]]
                results.append(expr.replace_dims_and_symbols(dims, symbols))
            else:
                labels = [label for i in part for label in reading.counts[i] or ()]
                results.append(self.digits(labels, own))
        guard = None if op.guard is None else moved_set(op.guard.data, dims, len(own))
        fill = None if op.fill is None else op.fill.value.data
        access = AffineMap(len(own), op.map.data.num_symbols, tuple(results))
        return ReadOp(tensor, access, own, guard, fill)

    def digits(self, labels: Sequence[str], axes: Sequence[AxisAttr]) -> AffineExpr:
        """The coordinate that axes count, outermost first."""
        names = [name for label in labels if (name := self.name(label)) is not None]
        places = {axis.label: i for i, axis in enumerate(axes)}
        found: AffineExpr = AffineConstantExpr(0)
        step = 1
        for name in reversed(names):
            term = AffineDimExpr(places[name])
            found = term * step + found if step > 1 else term
            step *= axes[places[name]].size.constant() or 1
        return found


def _types(kernel: KernelOp) -> Iterable[ValType]:
    """The types of a region's values."""
    for op in kernel.body.block.ops:
        for result in op.results:
            if isinstance(result.type, ValType):
                yield result.type
