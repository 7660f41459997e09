"""``index-to-region``: which kernel stores a value beside its own (S11.1).

A kernel that has a row at hand, or finds two reductions while it reads once, stores what another
kernel would read all of it again for: what an attention's rows have one of, a mean beside a
variance, a maximum beside the sum of exponentials below it, a sum beside its terms.  And one that
computes elements from others stores these: the states of a recurrence whose steps are all there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

from xdsl.ir import BlockArgument, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects import tiny
from polyc.dialects.common.dim import Shape
from polyc.lowering.index_to_region.composition import Composition
from polyc.lowering.index_to_region.cost import is_computed, is_contraction, points
from polyc.lowering.index_to_region.forms import extent
from polyc.lowering.index_to_region.kernels import Kernel, Root
from polyc.lowering.index_to_region.outputs import is_about, is_below
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import Point

APART = (tiny.ScanOp, tiny.SortOp, tiny.ScatterOp, tiny.GatherOp)
"""What a kernel computes beside nothing else, and what indices say."""

MOST_ROOTS = 48
"""Values that a kernel stores at most of those that it computes on its way."""

MOST_BESIDE = 6
"""Values that one kernel reduces beside each other at most."""

LEAST, MOST_ROW = 8, 4096
"""Points of what is reduced from which on it is read but once for several, and of a row that blocks
keep at most."""

SHORT = 16
"""How many times less what is reduced beside something else is, that does not count."""


@dataclass(frozen=True)
class _Reduced:
    """What is reduced over ``axes`` of ``sizes``, the tensors that have ``whole`` of these, and
    whether it is made of ``inner`` reductions."""

    sizes: Shape
    axes: tuple[int, ...]
    whole: frozenset[SSAValue]
    inner: bool

    @property
    def are_kept(self) -> bool:
        """Whether it is rows that blocks keep."""
        length = self.sizes[-1].constant()
        return self.axes == (len(self.sizes) - 1,) and length is not None and length <= MOST_ROW

    def goes_with(self, other: _Reduced) -> bool:
        """Whether another one is of the same tensor, over the same axes, and both are found while
        that is read once."""
        if (self.sizes, self.axes) != (other.sizes, other.axes) or not self.whole & other.whole:
            return False
        once = self.are_kept or not (self.inner or other.inner)
        return once and points(self.sizes[axis] for axis in self.axes) >= LEAST


class Beside(Composition):
    """Finds for a value that is stored the kernel that makes it beside what that stores."""

    def _beside_end(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The attention that stores what its rows have one of, and where it wants that.

        None where that is at several places, or at one that is no point of axes of its kernel, and
        where the attention reads what others make of it.
        """
        holder = self.holders.get(self.rows[value]) if value in self.rows else None
        points = [point for kernel, point in self.asked.get(value, {}) if kernel is holder]
        if holder is None or len(points) != 1 or value in self.whole:
            return None
        if any(self._needs(read, value) for read in holder.reads):
            return None
        root, sizes = Root(value, points[0]), extent(value, self.graph)
        axes = root.stored_axes
        plain = all(i in root.axes or size.constant() == 1 for i, size in enumerate(sizes))
        inside = set(points[0].axes) <= set(holder.iters) and len(set(axes)) == len(axes)
        return (holder, points[0]) if plain and inside and points[0].guard is None else None

    def _beside_squares(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel between others that sums squares about a value, as a variance about a mean, or
        exponentials below it, as a softmax below its maximum, and where it wants that; None where
        there is none, or it has other axes.

        It finds both while it reads once.  Sums along rows are a block's, which keeps these.
        """
        if self.fuse != "cost" or value in self.whole:
            return None
        for kernel, point in self.asked.get(value, {}):
            if kernel not in self.between or len(kernel.roots) != 1:
                continue
            end = kernel.roots[0].value
            squares = is_about(end, value, self.same) or is_below(end, value, self.same)
            if squares is None or not self._finds_both(squares):
                continue
            wanted = [p for k, p in self.asked[value] if k is kernel]
            root = Root(value, point)
            axes = list(root.stored_axes)
            whole = axes == list(kernel.iters) and point.guard is None
            if whole and len(wanted) == 1 and self._order(value) is None:
                return kernel, point
        return None

    def _beside_next(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel that computes elements, and reads a value at the same point of each, which it
        stores on its way then; None where there is none.

        It makes no product, and nothing that it reads is made of the value; one that was too much
        is parted where the value is.
        """
        plain = value not in self.whole and value not in self.rows and value not in self.turned
        if self.fuse != "cost" or not plain or self.work.heads.get(value):
            return None
        if self.cuts.get(value) is not None or self._order(value) is not None:
            return None
        if isinstance(value.owner, APART) or not is_computed(value):
            return None
        for kernel, point in self.asked.get(value, {}):
            if kernel not in self.between or len(kernel.roots) >= MOST_ROOTS or kernel.reduces:
                continue
            made = kernel.scan or kernel.sort or kernel.scatter
            if made is not None or any(self.work.heads.get(root.value) for root in kernel.roots):
                continue
            if sum(one is kernel for one, _ in self.asked[value]) > 1 or point.guard is not None:
                continue
            whole = list(Root(value, point).stored_axes) == list(kernel.iters)
            # Of one that it reads a part of it has that part alone.
            whole &= [axis.size for axis in kernel.iters] == list(extent(value, self.graph))
            if whole and not self._reads_made_of(kernel, value):
                return kernel, point
        return None

    def _reads_made_of(self, kernel: Kernel, value: SSAValue) -> bool:
        """Whether something that a kernel reads from memory is made of a value; what it asks for
        of kernels beside a part is known as read last."""
        first, leaves = self._places[value], () if self.part is None else self.part.leaves
        read = [one for one in leaves if any(k is kernel for k, _ in self.asked.get(one, {}))]

        def operands(one: SSAValue) -> Sequence[SSAValue]:
            return self._operands(one) if self._places.get(one, first + 1) > first else ()

        return value in reached([*kernel.reads, *read], operands)

    @cached_property
    def _places(self) -> dict[SSAValue, int]:
        """The places in the program of what is composed here."""
        return {value: n for n, op in enumerate(self.ops) for value in op.results}

    def _finds_both(self, op: tiny.ReduceOp) -> bool:
        """Whether a reduction, and one that it needs, are found while elements are read once.

        A block that keeps a row has both of it, and stores a maximum and the sum of exponentials
        below it; of rows that are too long for that the two are found together.
        """
        *others, row = tiny.tensor_of(op.operand).dims
        powers = isinstance(op.operand.owner, tiny.UnaryOp) and op.operand.owner.function == "exp"
        return op.axes != (len(others),) or powers or self._are_long(others, row)

    def _is_top(self, value: SSAValue) -> bool:
        """Whether a value is the maximum below which the one kernel that wants it sums
        exponentials, and which it wants beside these."""
        kernels = {kernel for kernel, _ in self.asked.get(value, {})}
        roots = [root for kernel in kernels for root in kernel.roots]
        if len(kernels) != 1 or len(roots) != 1:
            return False
        powers = is_below(roots[0].value, value, self.same)
        return powers is not None and self._finds_both(powers)

    def _beside_reduced(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel between others that reduces what a value is reduced of, over the same axes, as
        a mean, a deviation and a maximum of the same are, and where that has it; None for none.

        Both are found while elements are read once.  A kernel that needs the value, at the same
        point alone, has a row at hand: another kernel would read all of them again.
        """
        if self.fuse != "cost" or value in self.whole or self._order(value) is not None:
            return None
        own = None if value in self.rows else self._reduced_of(value)
        if own is None:
            return None
        for kernel in self.between:
            if len(kernel.roots) >= MOST_BESIDE or kernel.row is not None:
                continue
            if kernel.scatter is not None or kernel.scan is not None:
                continue
            if [axis.size for axis in kernel.iters] != list(extent(value, self.graph)):
                continue
            others = [self._reduced_of(root.value) for root in kernel.roots]
            if not all(other is not None and own.goes_with(other) for other in others):
                continue
            places = [AffineDimExpr(i) for i in range(len(kernel.iters))]
            point = Point.of(kernel.iters, places, kernel.forms.symbols)
            asked = [p for k, p in self.asked.get(value, {}) if k is kernel]
            if asked and not own.are_kept:
                continue
            if any(p != point for p in (*asked, *(root.point for root in kernel.roots))):
                continue
            if not self._reads_made_of(kernel, value):
                return kernel, point
        return None

    def _reduced_of(self, value: SSAValue) -> _Reduced | None:
        """What a value is reduced of; None where it is made of no such reduction, or of others.

        What is less than that by far, as the number of elements that a mask leaves, does not count.
        """
        heads = [cast(tiny.ReduceOp, head.owner) for head in self.work.heads.get(value, ())]
        if not heads or any(is_contraction(head.result) for head in heads):
            return None
        counts = {head: points(tiny.tensor_of(head.operand).dims) for head in heads}
        most = max(counts.values())
        heads = [head for head in heads if counts[head] * SHORT > most]
        if not heads:  # Of no points.
            return None
        found: set[tuple[Shape, tuple[int, ...]]] = set()
        whole, inner = set[SSAValue](), False
        for head in heads:
            sizes = tiny.tensor_of(head.operand).dims
            found.add((sizes, head.axes))
            behind = self._behind(head.operand)
            inner |= any(isinstance(v.owner, tiny.ReduceOp) for v in behind if v not in self.cuts)
            read = (v for v in behind if v in self.cuts or isinstance(v, BlockArgument))
            whole |= {v for v in read if tiny.tensor_of(v).dims == sizes}
        sizes, axes = found.pop()
        left = tuple(size for axis, size in enumerate(sizes) if axis not in axes)
        if found or not whole or left != tuple(extent(value, self.graph)):
            return None
        return _Reduced(sizes, axes, frozenset(whole), inner)

    def _behind(self, value: SSAValue) -> Collection[SSAValue]:
        """What a value is made of, down to what lies in memory."""

        def operands(one: SSAValue) -> Sequence[SSAValue]:
            return () if one in self.cuts else self._operands(one)

        return reached([value], operands)

    def _beside_terms(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel that stores the terms of a sum along rows, and where it has that of each row;
        None where they are not stored.

        It has a row at hand, where another kernel would read it again: of a softmax whose weights a
        product reads, and whose sums its output is divided by.
        """
        op = value.owner
        if self.fuse != "cost" or value in self.whole or not isinstance(op, tiny.ReduceOp):
            return None
        sizes = extent(op.operand, self.graph)
        if op.axes != (len(sizes) - 1,) or self._order(value) is not None:
            return None
        for terms in self.cuts:
            # A view of what lies in memory is stored by no kernel.
            plain = self._order(terms) is None and terms not in self.whole
            plain &= terms not in self.views and terms not in self.reshaped
            if not plain or self._rounded(terms) is not op.operand or self._needs(terms, value):
                continue
            if terms not in self.stored and terms not in self.early:
                self.early[terms] = kernel, point = self._kernel_of(terms)
                self.asked.setdefault(terms, {})[(kernel, point)] = None
            kernel, point = self.early.get(terms) or self._own(terms)
            if len(kernel.roots) != 1 or [a.size for a in kernel.iters] != list(sizes):
                continue
            return kernel, Point.of(kernel.iters, point.map.results[:-1], kernel.forms.symbols)
        return None
