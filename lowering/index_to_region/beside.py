"""``index-to-region``: which kernel stores a value beside its own (S11.1).

A kernel that has a row at hand, or finds two reductions while it reads once, stores what another
kernel would read all of it again for: what an attention's rows have one of, a mean beside a
variance, a maximum beside the sum of exponentials below it, a sum beside its terms.  And one that
computes elements from others stores these: the states of a recurrence whose steps are all there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import cast

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import value_op
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.composition import Composition
from polyc.lowering.index_to_region.forms import extent
from polyc.lowering.index_to_region.kernels import Kernel, Root
from polyc.lowering.index_to_region.outputs import is_about, is_below
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import Point

APART = (tiny.ScanOp, tiny.SortOp, tiny.ScatterOp, tiny.GatherOp)
"""What a kernel computes beside nothing else, and what indices say."""

LEAST_ROW, MOST_ROW = 32, 4096
"""Elements of a row that a block keeps while it reduces it in several ways."""

MOST_OF_ROWS = 6
"""Values that such a block has of each row at most."""

MOST_ROOTS = 48
"""Values that a kernel stores at most of those that it computes on its way."""


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
        if isinstance(value.owner, APART) or not cost.is_computed(value):
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
            if whole and not self._reads_made_of(kernel, value):
                return kernel, point
        return None

    def _beside_rows(self, value: SSAValue) -> tuple[Kernel, Point] | None:
        """The kernel that reduces rows of the same tensor, and where it has the value of a row;
        None where there is none.

        A block that keeps a row reduces all of it at hand: a mean, a variance and a maximum.  The
        kernel asks for the value of its own row, or not at all.
        """
        if self.fuse != "cost" or value in self.whole or value in self.rows or value in self.turned:
            return None
        rows = self._rows_of(value)
        if rows is None or self.cuts.get(value) is not None or self._order(value) is not None:
            return None
        sizes = extent(value, self.graph)
        for kernel in self.between:
            few = len(kernel.roots) < MOST_OF_ROWS and kernel not in self.holders.values()
            if not few or [axis.size for axis in kernel.iters] != list(sizes):
                continue
            alike = [self._rows_of(root.value) for root in kernel.roots]
            if any(other is None or rows.isdisjoint(other) for other in alike):
                continue
            places = [AffineDimExpr(axis) for axis in range(len(sizes))]
            point = Point.of(kernel.iters, places, kernel.forms.symbols)
            wanted = [p for k, p in self.asked.get(value, {}) if k is kernel]
            if any(p != point for p in wanted) or self._reads_made_of(kernel, value):
                continue
            return kernel, point
        return None

    def _rows_of(self, value: SSAValue) -> frozenset[SSAValue] | None:
        """What lies in memory, or is computed, of the rows that a value's reductions are of; None
        where they are no rows of one known length that a block keeps, one for each element."""
        heads, sizes = self.work.heads.get(value, ()), extent(value, self.graph)
        found: set[SSAValue] = set()
        for head in heads:
            op = cast(tiny.ReduceOp, head.owner)
            dims = tiny.tensor_of(op.operand).dims
            row = dims[-1].constant()
            if op.axes != (len(dims) - 1,) or list(dims[:-1]) != list(sizes):
                return None
            if cost.is_contraction(head) or row is None or not LEAST_ROW <= row <= MOST_ROW:
                return None

            def operands(one: SSAValue, dims: tuple[Dim, ...] = dims) -> Sequence[SSAValue]:
                alike = tiny.tensor_of(one).dims == dims
                return self._operands(one) if alike and cost.is_computed(one) else ()

            behind = reached([op.operand], operands)
            found.update(v for v in behind if tiny.tensor_of(v).dims == dims)
        return frozenset(v for v in found if not self._repeats(v)) or None

    def _repeats(self, value: SSAValue) -> bool:
        """Whether a value has fewer elements than points."""
        entry = value_op(value)
        return entry is None or any(axis.repeats for axis in entry.axes)

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
