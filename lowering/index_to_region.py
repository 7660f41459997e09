"""``index-to-region``: a tiny graph and its index book as one kernel of pure values (S6.6).

The lowering walks from the outputs to the leaves.  On the way it carries the axes of the
kernel and the composed map from them to the value at hand, so movements leave nothing
behind but that map.  A value is computed over the axes that it depends on and no others;
before an elementwise op its operands are brought to common axes by
``region.broadcast_in_dim`` or ``region.transpose`` (S6.3).  A value that is used several
times at the same index is computed once (S6.6).

Under a pad a value may be asked for where its tensor has no element.  The point then carries
the guard inside which the value counts, down to the reads, and the fill that the pad or mask
wants outside of it: a read takes both, anything else is followed by a ``region.select`` (S6.4).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AffineSetAttr,
    AnyFloat,
    FloatAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    f32,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
)
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import index, region, tiny
from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import Dim, shape_text
from polyc.dialects.movements import MovementOp
from polyc.dialects.region_types import AxisAttr, MemRefType, ValType
from polyc.dialects.signature import TensorSpec, same_shape
from polyc.passes.driver import located, rewrite
from polyc.poly import isl

DEFAULT_ALIGN = 16
"""Bytes that a tensor's address is a multiple of when the signature says nothing.

It is what allocators give and what the widest access needs; the launch checks it.
"""


def _behind_views(value: SSAValue) -> SSAValue:
    """The value behind movements and casts."""
    owner = value.owner
    while isinstance(owner, MovementOp | tiny.CastOp):
        value = owner.operands[0]
        owner = value.owner
    return value


# Lowering ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """Where a tiny value is wanted: ``map`` takes the kernel axes to its own axes.

    The map or the guard uses every axis, and the axes stand in the order in which they first
    do.  Outside ``guard`` (None is everywhere) nothing counts, unless ``fill`` says what is there.
    """

    axes: tuple[AxisAttr, ...]
    map: AffineMap
    guard: AffineSet | None = None
    fill: float | None = None

    @staticmethod
    def of(
        axes: Sequence[AxisAttr],
        results: Sequence[AffineExpr],
        symbols: int,
        guard: AffineSet | None = None,
        fill: float | None = None,
    ) -> Point:
        """The point with the unused axes left out and the rest in order of use."""
        rows = () if guard is None else guard.constraints
        order: list[int] = []
        for expr in (*results, *(side for row in rows for side in (row.lhs, row.rhs))):
            for found in expr.dfs():
                if isinstance(found, AffineDimExpr) and found.position not in order:
                    order.append(found.position)
        place = {old: new for new, old in enumerate(order)}
        renamed: list[AffineExpr] = [
            AffineDimExpr(place[i]) if i in place else AffineConstantExpr(0)
            for i in range(len(axes))
        ]
        moved = tuple(e.replace_dims_and_symbols(renamed, ()) for e in results)
        return Point(
            tuple(axes[i] for i in order),
            AffineMap(len(order), symbols, moved),
            None if guard is None else moved_set(guard, renamed, len(order)),
            fill,
        )


def moved_set(points: AffineSet, into: Sequence[AffineExpr], dims: int) -> AffineSet:
    """The set of points over ``dims`` dimensions whose image under ``into`` is in ``points``."""
    rows = tuple(
        AffineConstraintExpr(
            row.kind,
            isl.canonical_expr((row.lhs - row.rhs).replace_dims_and_symbols(into, ())),
            AffineConstantExpr(0),
            canonicalize=False,
        )
        for row in points.constraints
    )
    return AffineSet(dims, points.num_symbols, rows)


Lowering: TypeAlias = Generator[tuple[SSAValue, Point], SSAValue, SSAValue]
"""A lowering in progress: it asks for a value at a point and is sent the result."""


@dataclass
class _Kernel:
    """One graph on its way to a kernel."""

    graph: tiny.GraphOp
    block: Block
    tensors: Mapping[SSAValue, SSAValue]
    made: dict[tuple[SSAValue, Point], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, Point], SSAValue]
    )
    reduced_at: dict[SSAValue, Point] = field(default_factory=dict[SSAValue, Point])
    numbered: dict[str, Dim] = field(default_factory=dict[str, Dim])
    reductions: int = 0
    asking: Operation | None = None

    @property
    def symbols(self) -> int:
        return len(self.graph.symbol_names)

    def add(self, op: Operation, like: Operation, hint: str | None = None) -> SSAValue:
        """Put ``op`` at the end, where ``like`` is in the source; its result."""
        self.block.add_op(located(op, like))
        op.results[0].name_hint = hint
        return op.results[0]

    # Axes

    def iter_axes(self, sizes: Sequence[Dim]) -> tuple[AxisAttr, ...]:
        """The axes of the output space: a symbol in lower case where it is free, else i<n>."""
        axes: list[AxisAttr] = []
        for i, size in enumerate(sizes):
            label = _plain_label(size)
            if label is None or any(a.label == label for a in axes):
                label = f"i{i}"
                self.numbered[label] = size
            axes.append(AxisAttr.of(label, size))
        return tuple(axes)

    def reduced_axis(self, size: Dim, taken: Iterable[str]) -> AxisAttr:
        """An axis to reduce over: the symbol in lower case where it is free, else r<n>."""
        taken = set(taken)
        label = _plain_label(size)
        if label is None or label in taken:
            number = 0
            while (label := f"r{number}") in taken or self.numbered.get(label, size) != size:
                number += 1
            self.numbered[label] = size
        return AxisAttr.of(label, size)

    def spread(self, value: SSAValue, axes: Sequence[AxisAttr], like: Operation) -> SSAValue:
        """``value`` over ``axes``, which contain its own."""
        have = cast(ValType, value.type).labels
        want = tuple(a.label for a in axes)
        if have == want:
            return value
        if len(have) == len(want):
            return self.add(region.TransposeOp(value, [have.index(w) for w in want]), like)
        return self.add(region.BroadcastInDimOp(value, [want.index(h) for h in have], axes), like)

    # Values

    def value(self, wanted: SSAValue, point: Point) -> SSAValue:
        """``wanted`` at ``point``; its axes are those of the point or fewer, in any order.

        A loop with a stack of its own: graphs are deeper than Python's.
        """
        stack: list[tuple[tuple[SSAValue, Point], Lowering]] = []
        key, result = (wanted, point), None
        while True:
            result = self.made.get(key)
            if result is None:
                if stack:
                    self.asking = cast(Operation, stack[-1][0][0].owner)
                stack.append((key, self._lower(*key)))
            while stack:
                done, running = stack[-1]
                try:
                    key = running.send(cast(SSAValue, result))
                except StopIteration as stop:
                    result = cast(SSAValue, stop.value)
                    self.made[done] = result
                    stack.pop()
                    continue
                break
            if not stack:
                return cast(SSAValue, result)

    def _operand(
        self, op: Operation, position: int, point: Point, keeps_fill: bool = False
    ) -> tuple[SSAValue, Point]:
        """Operand ``position`` of ``op``, and where it is read for ``op`` at ``point``.

        The operand has the point's fill outside the guard if ``op`` ``keeps_fill``.
        """
        fill = point.fill if keeps_fill else None
        inner = self._through(op, position, point.axes, point.map.results, point.guard, fill)
        return op.operands[position], inner

    def _through(
        self,
        op: Operation,
        position: int,
        axes: Sequence[AxisAttr],
        into: Sequence[AffineExpr],
        guard: AffineSet | None = None,
        fill: float | None = None,
    ) -> Point:
        entry = self._scop(op)
        piece = entry.pieces.data[0]
        access = piece.entries[position]
        if len(entry.pieces) != 1 or not isinstance(access, AffineMap):
            raise PolycError(
                "UnsupportedProgram",
                f"{op.name} reads its operands in {len(entry.pieces)} pieces; only a pad or a mask "
                "does in a kernel",
                op,
            )
        return Point.of(axes, self._composed(access, into), self.symbols, guard, fill)

    @staticmethod
    def _composed(access: AffineMap, into: Sequence[AffineExpr]) -> tuple[AffineExpr, ...]:
        return tuple(
            isl.canonical_expr(e.replace_dims_and_symbols(into, ())) for e in access.results
        )

    def _scop(self, op: Operation) -> index.ValueOp:
        """The entry of an op's value; raises PolycError where it has no maps."""
        entry = self._entry(op.results[0])
        if not entry.is_scop:
            reason = entry.attributes.get("reason")
            why = reason.data if isinstance(reason, StringAttr) else "it reads where its data says"
            raise PolycError(
                "NonSCoP",
                f"{op.name} is the border of a kernel: {why}; several kernels for one graph are "
                "not there yet: give what is before it as a graph of its own",
                op,
            )
        return entry

    def _entry(self, value: SSAValue) -> index.ValueOp:
        entry = index.value_op(value)
        if entry is None:
            raise PolycError(
                "MissingIndexBook",
                f"%{value.name_hint or '?'} has no index.value beside it; run tiny-to-index first",
                value.owner if isinstance(value.owner, Operation) else self.graph,
            )
        return entry

    def _lower(self, value: SSAValue, point: Point) -> Lowering:
        op = value.owner
        if isinstance(op, Block):
            return self._read(value, point)
            yield
        if point.fill is not None and not self._takes_fill(op, point.fill):
            inner = yield value, replace(point, fill=None)
            return self._selected(op, point, point.guard, inner, point.fill)
        match op:
            case tiny.PadOp() | tiny.MaskOp():
                return (yield from self._guarded(op, point))
            case MovementOp():
                return (yield self._operand(op, 0, point, keeps_fill=True))
            case tiny.ConstantOp():
                return self.add(region.ConstantOp(op.number, f32), op, value.name_hint)
            case tiny.DimOp():
                return self.add(region.DimOp(op.size), op, value.name_hint)
            case tiny.ReduceOp():
                return (yield from self._reduce(op, point))
            case tiny.UnaryOp():
                operand = yield self._operand(op, 0, point)
                made: Operation = region.UnaryOp(op.function, operand)
            case tiny.CastOp():
                operand = yield self._operand(op, 0, point, keeps_fill=True)
                made = region.CastOp(operand, tiny.tensor_of(value).element_type)
            case tiny.BinaryOp() | tiny.CompareOp() | tiny.SelectOp():
                operands: list[SSAValue] = []
                for i in range(len(op.operands)):
                    operands.append((yield self._operand(op, i, point)))
                made = self._joined(op, operands, point)
            case _:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{op.name} has no form in a kernel yet; write the graph without it",
                    op,
                )
        return self.add(made, op, value.name_hint)

    # Guards

    @staticmethod
    def _takes_fill(op: Operation, fill: float) -> bool:
        """Whether a value is the fill outside a guard if what it views is."""
        match op:
            case MovementOp():
                return True
            case tiny.ConstantOp():
                return op.number == fill
            case tiny.CastOp():
                kinds = (tiny.tensor_of(v).element_type for v in (op.operand, op.result))
                return all(_holds(kind, fill) for kind in kinds)
            case _:
                return False

    def _guarded(self, op: tiny.PadOp | tiny.MaskOp, point: Point) -> Lowering:
        """A pad or a mask: the operand where its piece reads it, the op's fill elsewhere.

        A mask over computed values leaves them as they are everywhere, so that they depend on no
        more axes than before, and selects.  A pad has to keep its operand inside.
        """
        reading = [p for p in self._scop(op).pieces if isinstance(p.entries[0], AffineMap)]
        if not reading:
            value = self.add(region.ConstantOp(op.number, _element(op.result)), op)
            return self._filled(op, point, value, op.number)
        access, domain = reading[0].entries[0], reading[0].domain
        assert isinstance(access, AffineMap)
        held = self._held(domain, point)
        results = self._composed(access, point.map.results)
        if held is None:
            inner = Point.of(point.axes, results, self.symbols, point.guard, point.fill)
            return (yield op.operand, inner)
        if isinstance(op, tiny.PadOp) or _views_leaf(op.operand):
            both = _both(point.guard, held)
            value = yield op.operand, Point.of(point.axes, results, self.symbols, both, op.number)
        else:
            inner = Point.of(point.axes, results, self.symbols, point.guard)
            value = yield op.operand, inner
            value = self._selected(op, point, held, value, op.number)
        return self._filled(op, point, value, op.number)

    def _filled(self, op: Operation, point: Point, value: SSAValue, has: float) -> SSAValue:
        """``value``, which is ``has`` outside the point's guard, with the point's fill there."""
        if point.fill is None or _same_number(point.fill, has):
            return value
        return self._selected(op, point, point.guard, value, point.fill)

    def _held(self, domain: AffineSetAttr | UnitAttr, point: Point) -> AffineSet | None:
        """A piece's domain over the point's axes, without what these say; None for everywhere."""
        if isinstance(domain, UnitAttr):
            return None
        dims = len(point.axes)
        found = moved_set(domain.data, point.map.results, dims)
        found = isl.simplify_set(found, self._known(point.axes, point.guard))
        return found if found.constraints else None

    def _known(self, axes: Sequence[AxisAttr], guard: AffineSet | None) -> AffineSet:
        """The points of these axes, inside a guard, for the sizes that the graph assumes."""
        names = self.graph.symbol_names
        rows = index.bounds([a.size for a in axes], names)
        facts = self.graph.assumptions.as_affine_set(names).constraints
        kept = () if guard is None else guard.constraints
        return AffineSet(len(axes), len(names), (*rows, *facts, *kept))

    def _selected(
        self,
        op: Operation,
        point: Point,
        inside: AffineSet | None,
        value: SSAValue,
        fill: float,
    ) -> SSAValue:
        """``value`` inside a set over the point's axes, ``fill`` elsewhere."""
        assert inside is not None
        kind = cast(ValType, value.type)
        tested = Point.of(point.axes, (), self.symbols, inside)
        assert tested.guard is not None
        condition = self.add(region.InsideOp(tested.guard, tested.axes), op)
        labels = {*kind.labels, *(a.label for a in tested.axes)}
        axes = [a for a in point.axes if a.label in labels]
        other = self.add(region.ConstantOp(fill, cast(AnyFloat, kind.element_type)), op)
        values = [self.spread(v, axes, op) for v in (condition, value, other)]
        return self.add(region.SelectOp(*values), op)

    def _read(self, tensor: SSAValue, point: Point) -> SSAValue:
        guard, fill = point.guard, point.fill
        if guard is not None and fill is None:
            if self._stays_inside(tensor, point):
                point = Point.of(point.axes, point.map.results, self.symbols)
                guard = None
            else:
                fill = 0.0
        if guard is not None:
            guard = isl.simplify_set(guard, self._known(point.axes, None))
            if not guard.constraints:
                guard = fill = None
        read = region.ReadOp(self.tensors[tensor], point.map, point.axes, guard, fill)
        return self.add(read, self.asking or self.graph)

    def _stays_inside(self, tensor: SSAValue, point: Point) -> bool:
        """Whether the read is inside its tensor without the guard."""
        target = index.box(tiny.tensor_of(tensor).dims, self.graph.symbol_names)
        return isl.image_within(point.map, self._known(point.axes, None), target)

    # Several operands

    def _joined(self, op: Operation, operands: Sequence[SSAValue], point: Point) -> Operation:
        """An elementwise op over the axes that any operand has."""
        types = [cast(ValType, o.type) for o in operands]
        axes: Sequence[AxisAttr] = types[0].axes.data
        if any(t.axes != types[0].axes for t in types):
            labels = {label for t in types for label in t.labels}
            axes = [a for a in point.axes if a.label in labels]
        values = [self.spread(o, axes, op) for o in operands]
        match op:
            case tiny.BinaryOp():
                return region.BinaryOp(op.function, *values)
            case tiny.CompareOp():
                return region.CompareOp(op.function, *values)
            case _:
                return region.SelectOp(*values)

    def _reduce(self, op: tiny.ReduceOp, point: Point) -> Lowering:
        if (before := self.reduced_at.setdefault(op.result, point)) != point:
            raise PolycError(
                "UnsupportedProgram",
                f"the {op.function} is used at two indices, over {region.axes_text(before.axes)} "
                f"and over {region.axes_text(point.axes)}, and a kernel computes a reduction "
                "once; give it as an output of a graph of its own",
                op,
            )
        entry = self._entry(op.result)
        # The operand's axes in its own order, each reduced one where it stands there.
        taken = [a.label for a in point.axes]
        axes: list[AxisAttr] = list(point.axes)
        fresh: list[AxisAttr] = []
        for axis in entry.reduced:
            fresh.append(self.reduced_axis(axis.dim, [*taken, *(a.label for a in fresh)]))
        into = [
            *point.map.results,
            *(AffineDimExpr(len(axes) + i) for i in range(len(fresh))),
        ]
        guard = point.guard
        if guard is not None:
            guard = AffineSet(len(axes) + len(fresh), guard.num_symbols, guard.constraints)
        inner = self._through(op, 0, [*axes, *fresh], into, guard)
        body = yield op.operand, inner
        have = cast(ValType, body.type)
        missing = [a for a in fresh if have.axis(a.label) is None]
        if missing:
            # The operand repeats along a reduced axis: the sum counts each of its points.
            wanted = [a for a in inner.axes if have.axis(a.label) or a in missing]
            wanted += [a for a in missing if a not in wanted]
            body = self.spread(body, wanted, op)
        label = "acc" if self.reductions == 0 else f"acc{self.reductions}"
        self.reductions += 1
        made = region.ReduceOp(
            op.function, body, [a.label for a in fresh], acc=cast(AnyFloat, f32), label=label
        )
        return self.add(made, op, label)


def _element(value: SSAValue) -> AnyFloat:
    return cast(AnyFloat, tiny.tensor_of(value).element_type)


def _holds(element: Attribute, number: float) -> bool:
    """Whether a type holds a number exactly."""
    try:
        held = FloatAttr(number, cast(AnyFloat, element)).value.data
    except OverflowError:
        return False
    return _same_number(held, number)


def _same_number(a: float, b: float) -> bool:
    return a == b or (a != a and b != b)


def _both(a: AffineSet | None, b: AffineSet) -> AffineSet:
    if a is None:
        return b
    return AffineSet(b.num_dims, b.num_symbols, (*a.constraints, *b.constraints))


def _views_leaf(value: SSAValue) -> bool:
    """Whether a value is read from a tensor, with movements and casts alone between."""
    return isinstance(_behind_views(value), BlockArgument)


def _plain_label(size: Dim) -> str | None:
    """The lower-case name of a size that is one symbol; None for any other."""
    text = str(size)
    if size.constant() is not None or (text,) != size.symbols():
        return None
    label = text.lower()
    return None if label[:1] in ("i", "r") and label[1:].isdigit() else label


def _memref(spec: TensorSpec) -> MemRefType:
    align = DEFAULT_ALIGN if spec.align is None else spec.align
    return MemRefType.of(spec.type.dims, spec.type.element_type, align, spec.noalias)


class LowerTinyGraph(RewritePattern):
    """``tiny.graph`` with its index book → ``region.kernel`` (S6.6).

    Legal when every output has the same shape, every access is affine and each reduction is
    wanted at one index; otherwise PolycError says which part is not there.  Exact: each value
    is computed by the same operations as before.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: tiny.GraphOp, rewriter: PatternRewriter, /) -> None:
        rewriter.replace(op, lower_graph(op), [])


def lower_graph(graph: tiny.GraphOp) -> region.KernelOp:
    """The kernel of a tiny graph; the graph stays as it is.

    Raises PolycError of kind ``UnsupportedProgram``, ``NonSCoP`` or ``MissingIndexBook``.
    """
    outputs = graph.outputs
    for other in outputs[1:]:
        if not same_shape(outputs[0].type.dims, other.type.dims, graph):
            raise PolycError(
                "UnsupportedProgram",
                f"outputs {outputs[0].name} {shape_text(outputs[0].type.dims)} and {other.name} "
                f"{shape_text(other.type.dims)} have different shapes, and a kernel has one "
                "output space; write a graph for each",
                graph,
            )
    ins = [_memref(spec) for spec in graph.inputs]
    block = Block(arg_types=ins)
    tensors = dict(zip(graph.body.block.args, block.args, strict=True))
    for tensor, argument in tensors.items():
        argument.location = tensor.location
    state = _Kernel(graph, block, cast("dict[SSAValue, SSAValue]", tensors))
    iters = state.iter_axes(outputs[0].type.dims)
    terminator = graph.body.block.last_op
    assert isinstance(terminator, tiny.OutputOp)
    identity = [AffineDimExpr(i) for i in range(len(iters))]
    point = Point.of(iters, identity, state.symbols)
    values = [state.value(v, point) for v in terminator.args]
    values = [state.spread(v, iters, terminator) for v in values]
    block.add_op(located(region.YieldOp(values), terminator))
    kernel = region.KernelOp(
        graph.sym_name.data,
        iters,
        ins,
        [_memref(spec) for spec in outputs],
        [spec.name for spec in graph.inputs],
        [spec.name for spec in outputs],
        body=Region(block),
        symbols=graph.symbol_names,
        assumptions=graph.assumptions,
        arg_attrs=graph.arg_attrs.data,
        res_attrs=graph.res_attrs.data,
    )
    kernel.attributes |= graph.attributes
    kernel.location = graph.location
    return kernel


@dataclass(frozen=True)
class IndexToRegion(ModulePass):
    """Every ``tiny.graph`` as a ``region.kernel``; the index book is used up (S6.6)."""

    name = "index-to-region"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [LowerTinyGraph()])
