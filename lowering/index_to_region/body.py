"""``index-to-region``: the body of one kernel, from the forms of its values (S6.3, S6.6).

A value is computed over the axes that it depends on and no others; before an elementwise op its
operands are brought to common axes by ``region.broadcast_in_dim`` or ``region.transpose``.  A
value that is used several times at the same point is computed once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import f32, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from polyc.affine import isl
from polyc.affine.expressions import decided, uses_dim
from polyc.dialects import region, tiny
from polyc.dialects.common.elements import FLOATS, holds
from polyc.dialects.region.types import MemRefType, ValType
from polyc.lowering.index_to_region.forms import Form, Forms, Key, entry_of
from polyc.rewriting.region.points import Point
from polyc.rewriting.region.values import Values


class Body:
    """The values of a kernel made so far, at the end of ``block``.

    ``tensors`` are the tiny values that lie in memory, with the kernel's arguments for them, and
    ``orders`` the axes of some of these as memory holds them, the outermost first.
    """

    def __init__(
        self,
        forms: Forms,
        block: Block,
        tensors: Mapping[SSAValue, SSAValue],
        orders: Mapping[SSAValue, tuple[int, ...]],
    ) -> None:
        self.forms = forms
        self.values = Values(block)
        self.tensors = tensors
        self.orders = orders
        self.made: dict[Key, SSAValue] = {}
        self.reductions = 0

    def value(self, wanted: SSAValue, point: Point) -> SSAValue:
        """``wanted`` at ``point``; its axes are those of the point or fewer, in any order.

        A loop with a stack of its own: graphs are deeper than Python's.
        """
        stack: list[Key] = [(wanted, point)]
        while stack:
            key = stack[-1]
            if key in self.made:
                stack.pop()
                continue
            if key[0] in self.tensors:
                asking = stack[-2][0].owner if len(stack) > 1 else self.forms.graph
                self.made[key] = self._read(*key, cast(Operation, asking))
                stack.pop()
                continue
            form = self.forms.form(*key)
            missing = next((k for k in form.operands if k not in self.made), None)
            if missing is not None:
                stack.append(missing)
                continue
            self.made[key] = self._make(key, form)
            stack.pop()
        return self.made[(wanted, point)]

    def _make(self, key: Key, form: Form) -> SSAValue:
        value, point = key
        op = value.owner
        assert isinstance(op, Operation)
        operands = [self.made[k] for k in form.operands]
        if form.same:
            made = operands[0]
        elif form.number is not None:
            element = tiny.tensor_of(value).element_type
            made = self.values.add(region.ConstantOp(form.number, element), op)
        elif isinstance(op, tiny.ReduceOp):
            made = self._reduce(op, form, operands[0])
        elif isinstance(op, tiny.GatherOp):
            made = self._gather(op, form, point, operands)
        elif isinstance(op, tiny.ScatterOp):
            made = self._scatter(op, form, point, operands)
        elif isinstance(op, tiny.SortOp):
            made = self._sort(op, form, point, operands[0])
        elif isinstance(op, tiny.ScanOp):
            made = self._scan(op, operands[0], point)
        else:
            made = self.values.add(self._computed(op, operands, point), op, value.name_hint)
        for choice in form.choices:
            tested = Point.of(point.axes, (), self.forms.symbols, choice.inside)
            assert tested.guard is not None
            made = self.values.chosen(tested.guard, tested.axes, made, choice.fill, point.axes, op)
        return made

    def _computed(self, op: Operation, operands: Sequence[SSAValue], point: Point) -> Operation:
        match op:
            case tiny.ConstantOp():
                return region.ConstantOp(op.number, tiny.tensor_of(op.result).element_type)
            case tiny.DimOp():
                return region.DimOp(op.size, tiny.tensor_of(op.result).element_type)
            case tiny.IotaOp():
                return region.IndexOp(point.map, point.axes, tiny.tensor_of(op.result).element_type)
            case tiny.UnaryOp():
                return region.UnaryOp(op.function, operands[0])
            case tiny.BitcastOp():
                return region.BitcastOp(operands[0], tiny.tensor_of(op.result).element_type)
            case tiny.CastOp():
                return region.CastOp(operands[0], tiny.tensor_of(op.result).element_type)
            case _:
                return self._joined(op, operands, point)

    def _joined(self, op: Operation, operands: Sequence[SSAValue], point: Point) -> Operation:
        """An elementwise op over the axes that any operand has."""
        values = self.values.aligned(operands, point.axes, op)
        match op:
            case tiny.BinaryOp():
                return region.BinaryOp(op.function, *values)
            case tiny.CompareOp():
                return region.CompareOp(op.function, *values)
            case _:
                return region.SelectOp(*values)

    def _reduce(self, op: tiny.ReduceOp, form: Form, body: SSAValue) -> SSAValue:
        have = cast(ValType, body.type)
        missing = [a for a in form.fresh if have.axis(a.label) is None]
        if missing:
            # The operand repeats along a reduced axis: the sum counts each of its points.
            asked = form.operands[0][1].axes
            wanted = [a for a in asked if have.axis(a.label) or a in missing]
            wanted += [a for a in missing if a not in wanted]
            body = self.values.spread(body, wanted, op)
        label = "acc" if self.reductions == 0 else f"acc{self.reductions}"
        self.reductions += 1
        made = region.ReduceOp(
            op.function,
            body,
            [a.label for a in form.fresh],
            acc=f32 if cast(ValType, body.type).element_type in FLOATS else None,
            label=label,
            precision=op.precision,
        )
        return self.values.add(made, op, label)

    def _gather(
        self, op: tiny.GatherOp, form: Form, point: Point, operands: Sequence[SSAValue]
    ) -> SSAValue:
        body, *indices = operands
        have = cast(ValType, body.type)
        missing = [a for a in form.fresh if have.axis(a.label) is None]
        if missing:
            # The operand repeats along the axis, which may have no place for an index all the same.
            body = self.values.spread(body, [*have.axes, *missing], op)
        labels = {label for v in operands for label in cast(ValType, v.type).labels}
        axes = [a for a in point.axes if a.label in labels]
        along = [a.label for a in form.fresh]
        made = region.GatherOp(body, indices, along, axes, op.number)
        return self.values.add(made, op, op.result.name_hint)

    def _scatter(
        self, op: tiny.ScatterOp, form: Form, point: Point, operands: Sequence[SSAValue]
    ) -> SSAValue:
        before, updates, *indices = operands
        pairs: list[tuple[SSAValue, SSAValue]] = []
        for axis, index in zip(op.axes, indices, strict=True):
            at = Point.of(point.axes, [point.map.results[axis]], self.forms.symbols)
            pairs.append((index, self.values.add(region.IndexOp(at.map, at.axes, i64), op)))
        over = {a.label for a in form.fresh}
        has = {label for v in operands[1:] for label in cast(ValType, v.type).labels}
        missing = [a for a in form.fresh if a.label not in has]
        if missing:
            # Nothing differs along the axis, and each of its points is an update all the same.
            axes = [*cast(ValType, updates.type).axes, *missing]
            updates = self.values.spread(updates, axes, op)
        every = [before, updates, *(v for pair in pairs for v in pair)]
        labels = {label for v in every for label in cast(ValType, v.type).labels} - over
        axes = [a for a in point.axes if a.label in labels]
        along = [a.label for a in form.fresh]
        made = region.ScatterOp(op.function, before, updates, pairs, along, axes)
        return self.values.add(made, op, op.result.name_hint)

    def _sort(self, op: tiny.SortOp, form: Form, point: Point, body: SSAValue) -> SSAValue:
        """A sort, which a kernel stores: its point has an axis for each of the value's."""
        (over,) = form.fresh
        place = cast(AffineDimExpr, point.map.results[op.axis]).position
        wanted = [over if i == place else a for i, a in enumerate(point.axes)]
        body = self.values.spread(body, wanted, op)
        return self.values.add(region.SortOp(body, over.label, point.axes[place], op.said), op)

    def _scan(self, op: tiny.ScanOp, body: SSAValue, point: Point) -> SSAValue:
        """A scan along the point's axis at which it has the element's own place."""
        entry = entry_of(op.result, self.forms.graph)
        place = point.map.results[sum(entry.counts[: op.axis])]
        assert isinstance(place, AffineDimExpr)  # what composes kernels sees to it
        label = point.axes[place.position].label
        have = cast(ValType, body.type)
        if have.axis(label) is None:
            wanted = [a for a in point.axes if have.axis(a.label) is not None or a.label == label]
            body = self.values.spread(body, wanted, op)
        made = region.ScanOp(
            op.function, body, label, reverse=op.is_reverse, exclusive=op.is_exclusive
        )
        return self.values.add(made, op, op.result.name_hint)

    def _read(self, tensor: SSAValue, point: Point, asking: Operation) -> SSAValue:
        memref = cast(MemRefType, self.tensors[tensor].type)
        element, wanted = memref.element_type, tiny.tensor_of(tensor).element_type
        if any(size.constant() == 0 for size in memref.shape):
            return self.values.add(self._nothing(wanted), asking)
        guard, fill = point.guard, point.fill
        if guard is not None and fill is None:
            # Outside the guard nothing counts, and the read may not go there.
            fill = 0.0
        if guard is not None:
            guard = isl.simplify_set(guard, self.forms.points(point.axes))
            if not guard.constraints:
                guard = fill = None
        chosen = None
        if (
            element != wanted
            and guard is not None
            and fill is not None
            and not holds(element, fill)
        ):
            # What lies there is widened, and has no such number.
            fill, chosen = 0.0, fill
        at = point.map
        if tensor in self.orders:
            results = [at.results[axis] for axis in self.orders[tensor]]
            at = AffineMap(at.num_dims, at.num_symbols, tuple(results))
        sizes = [axis.size.constant() for axis in point.axes]
        simple = tuple(decided(expr, sizes) for expr in at.results)
        if all(any(uses_dim(e, i) for e in simple) for i in range(at.num_dims)):
            at = AffineMap(at.num_dims, at.num_symbols, simple)
        read = region.ReadOp(self.tensors[tensor], at, point.axes, guard, fill)
        made = self.values.add(read, asking)
        if element != wanted:
            made = self.values.add(region.CastOp(made, wanted), asking)
        if chosen is not None and guard is not None:
            made = self.values.chosen(guard, point.axes, made, chosen, point.axes, asking)
        return made

    def _nothing(self, element: Attribute) -> Operation:
        """What stands for an element of a tensor that has none, which no point asks for."""
        if element != i1:
            return region.ConstantOp(0, element)
        return region.InsideOp(isl.empty_set(0, self.forms.symbols), ())
