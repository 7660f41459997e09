"""``index-to-region``: why a value is stored, or fused with what wants it (S6.6, S7.1, S11.1).

When a value is reached, every point at which a kernel wants it is known.  A reduction is computed
once, and stored where it is wanted at several of them, or where the kernel that wants it sorts,
scans or scatters, and so holds none; what is left is a question of cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.region.types import AxisAttr
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.beside import Beside
from polyc.lowering.index_to_region.forms import extent
from polyc.lowering.index_to_region.kernels import Kernel
from polyc.lowering.index_to_region.scores import ROW
from polyc.poly.same_point import two_points
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import Point
from polyc.rewriting.tiny.split_reductions import outer_axes

FAR = 256
"""Operations and operands that say where a fused value is read, at most."""

REDUCED = "it is reduced, and a kernel that sorts what is made of it reduces nothing"
SCANNED = "a kernel with a scan walks its axis once, and reduces nothing"
SORTED = "a kernel that sorts reduces nothing"
"""Why a reduction is stored that one with a scan or a sort would want, or these."""

SERIAL = "it is reduced, and few blocks would do that in the steps of another reduction"

MANY, SHORT, ENOUGH = 1 << 16, 16, 1 << 10
"""Points of a reduction's operand from which on it is not done in the steps of another one, those
for each point of what is stored, and the results of a kernel that has blocks enough for it."""

COUNTED = 4
"""Ops that make a place, at most, that is never stored."""

FEW = 4
"""Points of a reduction up to which it is a few ops of each element, as windows of 2 by 2 are."""

FIRST = "it is reduced over outer axes first, and then over inner ones, of which few lie together"
LAST = "it is the second step of a reduction, which is done once, and is wanted at several points"
"""Why the first of two steps of a reduction is stored, and the second."""


class Reasons(Beside):
    """Says for a value why it is stored, as a clause of a sentence; None where it is fused."""

    def _why_stored(self, value: SSAValue) -> str | None:
        """Why a value is stored; None where it is fused with what wants it."""
        if isinstance(value.owner, tiny.ScatterOp):
            return self._why_scattered(value)
        if self.work.heads.get(value) and any(k.scatter is not None for k, _ in self.asked[value]):
            return "it is reduced, and a scatter reads it, whose kernel reduces nothing"
        if self._is_first_step(value):
            return FIRST
        if self._is_last_step(value):
            return LAST
        scans = any(kernel.scan is not None for kernel, _ in self.asked.get(value, {}))
        scans &= isinstance(value.owner, tiny.ReduceOp)
        scans |= isinstance(value.owner, tiny.ScanOp)
        if not cost.is_computed(value) or (
            not scans and (value in self.settled or self._only_output(value))
        ):
            return None
        wanted = list(dict.fromkeys((k, p.unfilled) for k, p in self.asked[value]))
        if isinstance(value.owner, tiny.ScanOp):
            return self._why_scanned_apart(value, wanted)
        if isinstance(value.owner, tiny.ReduceOp) and any(k.scan is not None for k, _ in wanted):
            return SCANNED
        heads = self.work.heads[value]
        if value in self.again:
            return None
        if value in self.rows and len({id(k) for k, _ in wanted}) > 1:
            return None if self._beside_end(value) is None else ROW
        if self.fuse == "none":
            return "nothing is fused" if heads or self.uses[value] > 1 else None
        if self.fuse == "cost" and value not in self.whole and self._is_top(value):
            return None
        few = self.fuse == "cost" and self._is_of_few(value, wanted)
        if heads and len(wanted) > 1 and not few:
            kernels = len({id(k) for k, _ in wanted})
            where = f"by {kernels} kernels" if kernels > 1 else f"at {len(wanted)} points"
            return f"it is reduced, which is done once, and is wanted {where}"
        if heads and any(k.forms.names.gathered & set(p.labels) for k, p in wanted):
            return "it is reduced, which is done once, and a gather reads it where its data says"
        if heads and not few and (clash := _clash(*wanted[0])) is not None:
            return f"it is reduced, which is done once, and {clash}"
        if value in self.kept:
            return None
        if self.fuse == "cost" and self._is_for_few_blocks(value, wanted):
            return SERIAL
        if self.fuse == "cost" and self._is_counted(value):
            return None
        delta = self._delta(value, wanted)
        return str(delta) if self.fuse == "cost" and not delta.pays else None

    def _is_counted(self, value: SSAValue) -> bool:
        """Whether a value is integers that a few ops make of where elements stand: a kernel for
        them would take longer than to make them everywhere."""
        if not is_integer(tiny.tensor_of(value).element_type):
            return False
        made = reached([value], self._operands)
        plain = (tiny.ConstantOp, tiny.DimOp, tiny.IotaOp, tiny.BinaryOp, tiny.CastOp, MovementOp)
        if not all(isinstance(one.owner, plain) for one in made):
            return False
        return sum(map(cost.is_computed, made)) <= COUNTED

    def _is_of_few(self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]) -> bool:
        """Whether one kernel wants a value that is reduced of so few points that these are a few
        ops of each element: what it takes to compute it again is a question of cost."""
        if len({id(kernel) for kernel, _ in wanted}) > 1:
            return False
        for head in self.work.heads[value]:
            op = cast(tiny.ReduceOp, head.owner)
            sizes = tiny.tensor_of(op.operand).dims
            points = prod(sizes[axis].constant() or FEW + 1 for axis in op.axes)
            if points > FEW or cost.is_contraction(head):
                return False
        return True

    def _is_for_few_blocks(self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]) -> bool:
        """Whether a value is made of long reductions, and wanted in the steps of another one by a
        kernel of few results: the few blocks of that would do all of the work."""
        inside = any(
            not {axis.label for axis in kernel.iters}.issuperset(point.labels)
            and cost.points(axis.size for axis in kernel.iters) < ENOUGH
            for kernel, point in wanted
        )
        if not inside:
            return False

        def operands(one: SSAValue) -> Sequence[SSAValue]:
            stays = cost.is_contraction(one) or (one is not value and one in self.cuts)
            return () if stays else self._operands(one)

        least = max(MANY, SHORT * cost.points(tiny.tensor_of(value).dims))
        return any(
            cost.points(tiny.tensor_of(one.owner.operand).dims) >= least
            for one in reached([value], operands)
            if isinstance(one.owner, tiny.ReduceOp)
            and one not in self.cuts
            and not cost.is_contraction(one)
        )

    def _is_first_step(self, value: SSAValue) -> bool:
        """Whether a value is reduced over the axes that a reduction of the rest of its axes is done
        over first."""
        op = value.owner
        users = [use.operation for use in value.uses if use.operation.name != "index.value"]
        if not isinstance(op, tiny.ReduceOp) or len(users) != 1:
            return False
        (user,) = users
        if not isinstance(user, tiny.ReduceOp) or user.function != op.function:
            return False
        dims = tiny.tensor_of(op.operand).dims
        left = [axis for axis in range(len(dims)) if axis not in op.axes]
        return outer_axes(dims, sorted((*op.axes, *(left[a] for a in user.axes)))) == op.axes

    def _is_last_step(self, value: SSAValue) -> bool:
        """Whether a value is the second one of such a reduction, and a kernel wants it that would
        compute it again for others of its points."""
        op = value.owner
        if not isinstance(op, tiny.ReduceOp) or not self._is_first_step(op.operand):
            return False
        wanted = self.asked.get(value, {})
        return any(set(p.labels) != {a.label for a in k.iters} for k, p in wanted)

    def _why_scattered(self, value: SSAValue) -> str | None:
        """Why a scatter is stored: what is wanted of it is not one point of one kernel's, or that
        has another one, or reduces.
        """
        wanted = list(dict.fromkeys((k, p.unfilled) for k, p in self.asked[value]))
        if self._is_sorted(value):
            return "it is scattered, and a sort reads it, whose kernel scatters nothing"
        if len(wanted) > 1:
            return f"it is scattered, which is done once, and is wanted at {len(wanted)} points"
        for kernel, point in wanted:
            if kernel.scatter is not None or kernel.scan is not None or kernel.reduces:
                return "it is scattered, by a kernel that reduces nothing and scatters nothing else"
            if kernel.forms.names.gathered & set(point.labels):
                return "it is scattered, and a gather reads it where its data says"
            if (clash := _clash(kernel, point)) is not None:
                return f"it is scattered, which is done once, and {clash}"
            if set(point.labels) != {a.label for a in kernel.iters}:
                return "it is scattered, once for all that repeat it"
        return None

    def _why_apart(self, value: SSAValue) -> str | None:
        """Why a value is stored for a sort: one is a kernel of its own, which reduces nothing."""
        if isinstance(value.owner, tiny.SortOp):
            wanted = dict.fromkeys((k, p.unfilled) for k, p in self.asked.get(value, {}))
            return self._why_sorted_apart(value, list(wanted))
        sorts = self._is_sorted(value)
        return REDUCED if sorts and isinstance(value.owner, tiny.ReduceOp) else None

    def _is_sorted(self, value: SSAValue) -> bool:
        """Whether a kernel that sorts wants a value."""
        return any(kernel.sort is not None for kernel, _ in self.asked.get(value, {}))

    def _why_sorted_apart(
        self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]
    ) -> str | None:
        """Why a sort is stored; None where a kernel that sorts may go on with what it gives."""
        if self._only_output(value):
            return None
        what = "a sort"
        found = self._why_computed_apart(value, wanted, what) if wanted else f"it is {what}"
        if found is not None:
            return found
        ((kernel, point),) = wanted
        if kernel.reduces or self._reduced_beside(kernel, value):
            return SORTED
        sizes, dims = [axis.size for axis in kernel.iters], tiny.tensor_of(value).dims
        at = [place.position for place in point.map.results if isinstance(place, AffineDimExpr)]
        if [sizes[kernel.iters.index(point.axes[i])] for i in at] != list(dims):
            return f"it is {what}, of which a part is wanted"
        return None

    def _why_scanned_apart(
        self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]
    ) -> str | None:
        """Why a scan is stored; None where a kernel that walks its axis may go on with it."""
        if (found := self._why_computed_apart(value, wanted, "a scan")) is not None:
            return found
        ((kernel, _),) = wanted
        return SCANNED if kernel.reduces or self._reduced_beside(kernel, value) else None

    def _why_computed_apart(
        self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]], what: str
    ) -> str | None:
        """Why what is computed once along an axis of its kernel is stored; ``what`` it is."""
        if self.fuse == "none":
            return "nothing is fused"
        if len(wanted) > 1:
            return f"it is {what}, which is computed once, and is wanted at several places"
        ((kernel, point),) = wanted
        if kernel.scan is not None or (kernel.sort is not None and kernel.sort is not value):
            return f"it is {what}, and what wants it holds another one, or a scan or a sort"
        if kernel.scatter is not None:
            return f"it is {what}, and what wants it scatters"
        places = point.map.results
        whole = set(point.axes) == set(kernel.iters) and point.guard is None
        plain = all(isinstance(place, AffineDimExpr) for place in places)
        if not whole or not plain or len(set(places)) != len(kernel.iters):
            return f"it is {what}, which is computed once, and is read in another shape"
        if any(len(root.stored_axes) != len(kernel.iters) for root in kernel.roots):
            return f"it is {what}, and what wants it stores a value over fewer axes"
        return None

    def _reduced_beside(self, kernel: Kernel, scan: SSAValue) -> bool:
        """Whether a kernel that wants a scan would reduce something beside it."""

        def operands(value: SSAValue) -> Sequence[SSAValue]:
            stays = value is scan or value in self.stored or value in self.cuts
            return () if stays else self._operands(value)

        behind = reached([root.value for root in kernel.roots], operands)
        return any(isinstance(v.owner, tiny.ReduceOp) and v not in self.stored for v in behind)

    def _why_far(self, value: SSAValue) -> str | None:
        """Why a value is stored because of where it is read; None where that is said shortly.

        Movements compose, and what divides and multiplies in turn doubles with each of them.
        """
        most = max((point.nodes for _, point in self.asked.get(value, {})), default=0)
        if most <= FAR or not cost.is_small(value):
            return None
        return f"where it is read takes {most} operations and operands to say, and {FAR} are taken"

    def _delta(self, value: SSAValue, wanted: Sequence[tuple[Kernel, Point]]) -> cost.Delta:
        count = 0.0
        for kernel, point in wanted:
            again = self._passes(value, kernel, point)
            for axis in self._missing(value, kernel, point):
                again *= cost.blocks(axis.size)
            count += cost.points(a.size for a in point.axes) * again
        kernels = len({id(k) for k, _ in wanted})
        return cost.fusion_delta(value, self.work, extent(value, self.graph), count, kernels)

    def _missing(self, value: SSAValue, kernel: Kernel, point: Point) -> Iterator[AxisAttr]:
        """The kernel's axes along which every block computes the value again.

        A row that is reduced where it is used lies in one block; a product's is another row.  What
        is sorted lies in one block too, which has all of the result's row.
        """
        own = {
            axis.label
            for head in self.work.heads[value]
            for axis in kernel.forms.form(head, self._at_head(value, head, point)).fresh
            if not cost.is_contraction(head)
        }
        row = [axis for axis in kernel.iters if axis.label in own]
        long = prod((a.size for a in row), start=Dim.const(1))
        if len(row) == len(kernel.iters) and cost.points([long]) > cost.ROW:
            row = []  # the only row there is: one block would do all the work
        if self._are_long([axis.size for axis in kernel.iters if axis not in row], long):
            row = []  # no blocks keep a row, and few would walk along it
        if row and kernel.iters[-1] not in row and self._lies_across(value, kernel):
            row = []  # its block would store a column for a row that is wanted by nothing else
        if kernel.row is not None:
            row.append(kernel.row)
        row += self._scattered_along(kernel)
        for axis in kernel.iters:
            if axis.label not in point.labels and axis not in row:
                yield axis

    def _scattered_along(self, kernel: Kernel) -> list[AxisAttr]:
        """The axes of a kernel along which indices say where its scatter's updates go: each of
        these goes to one place, and is computed for that alone."""
        if kernel.scatter is None:
            return []
        op = cast(tiny.ScatterOp, kernel.scatter.owner)
        found: list[AxisAttr] = []
        for asking, point in self.asked.get(kernel.scatter, {}):
            places = [point.map.results[axis] for axis in op.axes] if asking is kernel else []
            found += [point.axes[p.position] for p in places if isinstance(p, AffineDimExpr)]
        return found

    def _lies_across(self, value: SSAValue, kernel: Kernel) -> bool:
        """Whether a value is reduced along rows of memory that a kernel wants nothing else of."""
        for head in self.work.heads[value]:
            op = cast(tiny.ReduceOp, head.owner)
            wanted = any(other is kernel for other, _ in self.asked.get(op.operand, {}))
            if wanted or op.axes[-1] != tiny.tensor_of(op.operand).rank - 1:
                return False
        return True

    def _at_head(self, value: SSAValue, head: SSAValue, point: Point) -> Point:
        """Where a reduction is wanted that a value is the epilogue of, which may have axes of one
        point beside."""
        here, places = value, list(range(len(point.map.results)))
        while here is not head:
            op = cast(Operation, here.owner)
            if isinstance(op, tiny.ExpandOp):
                places = [places[axis] for axis in op.dims]
            here = next(v for v in self._operands(here) if head in self.work.heads.get(v, ()))
        if here is value or len(places) == len(point.map.results):
            return point
        at = [point.map.results[place] for place in places]
        return Point.of(point.axes, at, len(self.graph.symbol_names), point.guard)

    def _passes(self, value: SSAValue, kernel: Kernel, point: Point) -> int:
        """How often a contraction runs along an axis: twice where a reduction of it comes first."""
        if not any(map(cost.is_contraction, self.work.heads[value])):
            return 1
        rows = kernel.reduces & {a.label for a in kernel.iters} & set(point.labels)
        sizes = [a.size for a in kernel.iters if a.label in rows]
        return 2 if any(cost.blocks(size) > 1 for size in sizes) else 1


def _clash(kernel: Kernel, point: Point) -> str | None:
    """How an element is wanted at two points, as a clause; None where none is."""
    return two_points(point.map, kernel.forms.points(point.axes, point.guard), point.labels)
