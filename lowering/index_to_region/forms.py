"""``index-to-region``: how a tiny value is made at a point of a kernel (S6.3, S6.4).

A value at a point asks for its operands at points of theirs.  Movements leave nothing behind
but the composed map.  Under a pad a value may be asked for where its tensor has no element: the
point then carries the guard inside which the value counts, down to the reads, and the fill that
the pad or mask wants outside of it.  A read takes both; anything else is followed by a choice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects.builtin import AffineSetAttr, UnitAttr, i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSet

from polyc.affine import isl
from polyc.dialects import index, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Shape
from polyc.dialects.common.elements import Number, holds
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.region.types import AxisAttr
from polyc.lowering.index_to_region.cost import is_contraction
from polyc.lowering.index_to_region.memory import same_number
from polyc.rewriting.postorder import reached
from polyc.rewriting.region.points import AxisNames, Point, both, composed, moved_set

Key: TypeAlias = tuple[SSAValue, Point]
"""A tiny value, and where it is wanted."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The value made so far inside a set over the point's axes, ``fill`` elsewhere."""

    inside: AffineSet
    fill: Number


@dataclass(frozen=True, slots=True)
class Form:
    """How a value is made at a point: the op on ``operands``, then the ``choices`` in order.

    ``same``: no op, the value is its one operand.  ``number``: no op, the value is a constant.
    ``fresh`` are the axes that a reduction introduces for what it reduces, a gather for what it
    reads at one place of them, and a scatter for its updates.
    """

    operands: tuple[Key, ...] = ()
    choices: tuple[Choice, ...] = ()
    same: bool = False
    number: Number | None = None
    fresh: tuple[AxisAttr, ...] = ()


def entry_of(value: SSAValue, graph: tiny.GraphOp) -> index.ValueOp:
    """The entry of a value.  Raises PolycError of kind ``MissingIndexBook``."""
    entry = index.value_op(value)
    if entry is None:
        raise PolycError(
            "MissingIndexBook",
            f"%{value.name_hint or '?'} has no index.value beside it; run tiny-to-index first",
            value.owner if isinstance(value.owner, Operation) else graph,
        )
    return entry


def extent(value: SSAValue, graph: tiny.GraphOp) -> Shape:
    """The sizes of a value's axes, over which its maps range."""
    return tuple(a.dim for a in entry_of(value, graph).axes)


def why_not_affine(entry: index.ValueOp) -> str:
    """Why a ``non_scop`` value has no maps, as one clause."""
    reason = entry.why_not_affine
    assert reason is not None
    return reason


def not_affine(op: Operation, reason: str) -> PolycError:
    """The refusal of an op that is no affine access and no view of memory either (S4.5)."""
    return PolycError(
        "NonSCoP",
        f"{op.name} is no affine access: {reason}; only a reshape can be a view of what lies in "
        "memory: write the graph without it",
        op,
    )


def equal_casts(graph: tiny.GraphOp) -> dict[SSAValue, SSAValue]:
    """For each cast that another value equals bit for bit, that value.

    A second cast of a value to one type is the first; a value widened and rounded to its own type
    again is itself.  So a value is stored once that is an output and rounded for a product too.
    """
    found: dict[SSAValue, SSAValue] = {}
    first: dict[tuple[SSAValue, Attribute], SSAValue] = {}
    for op in graph.body.block.ops:
        if not isinstance(op, tiny.CastOp):
            continue
        source, kind = found.get(op.operand, op.operand), op.result.type
        before = source.owner
        if isinstance(before, tiny.CastOp) and index.is_widening(source):
            inner = found.get(before.operand, before.operand)
            if inner.type == kind:
                found[op.result] = inner
                continue
        made = first.setdefault((source, kind), op.result)
        if made is not op.result:
            found[op.result] = made
    return found


@dataclass
class Forms:
    """The forms of the values of one kernel; each is worked out once.

    ``same`` are values that another one stands for (``equal_casts``), ``memory`` those that are
    known to be read from there.  ``everywhere`` are the forms that do not depend on the kernel;
    those of all kernels of a graph may share them.
    """

    graph: tiny.GraphOp
    same: Mapping[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    memory: Collection[SSAValue] = ()
    names: AxisNames = field(default_factory=AxisNames)
    known: dict[Key, Form] = field(default_factory=dict[Key, Form])
    everywhere: dict[Key, Form] = field(default_factory=dict[Key, Form])
    wanted: dict[SSAValue, dict[Point, None]] = field(
        default_factory=dict[SSAValue, dict[Point, None]]
    )
    """Where the forms that are known take a value."""

    @property
    def symbols(self) -> int:
        return len(self.graph.symbol_names)

    def form(self, value: SSAValue, point: Point) -> Form:
        """How ``value``, the result of an op, is made at ``point``.

        Raises PolycError of kind ``MissingIndexBook``, ``NonSCoP`` or ``UnsupportedProgram``.
        """
        key = (value, point)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self.everywhere.get(key) or self._form(value, point)
            # These name axes of their kernel, and a mask asks what lies in memory.
            named = tiny.ReduceOp | tiny.SortOp | tiny.GatherOp | tiny.ScatterOp
            if not isinstance(value.owner, named | tiny.MaskOp):
                self.everywhere[key] = found
            for operand, where in found.operands:
                self.wanted.setdefault(operand, {})[where] = None
        return found

    def held(
        self, roots: Iterable[Key], is_read: Callable[[SSAValue], bool]
    ) -> dict[Key, Form | None]:
        """What keys take, themselves included: operands first, None for what is read."""
        found: dict[Key, Form | None] = {}

        def operands(key: Key) -> Sequence[Key]:
            read = isinstance(key[0], BlockArgument) or is_read(key[0])
            found[key] = form = None if read else self.form(*key)
            return () if form is None else form.operands

        return {key: found[key] for key in reached(roots, operands)}

    def identity(self, axes: Sequence[AxisAttr]) -> Point:
        """A value that has these axes, at every one of its points."""
        return Point.of(axes, [AffineDimExpr(i) for i in range(len(axes))], self.symbols)

    def points(self, axes: Sequence[AxisAttr], guard: AffineSet | None = None) -> AffineSet:
        """The points of these axes, inside a guard, for the sizes that the graph assumes."""
        names = self.graph.symbol_names
        rows = index.bounds([a.size for a in axes], names)
        facts = self.graph.assumptions.as_affine_set(names).constraints
        kept = () if guard is None else guard.constraints
        return AffineSet(len(axes), len(names), (*rows, *facts, *kept))

    # One op

    def _form(self, value: SSAValue, point: Point) -> Form:
        op = value.owner
        assert isinstance(op, Operation)
        if point.fill is not None and not _takes_fill(op, point.fill):
            assert point.guard is not None
            inner = self._settled(value, point.unfilled)
            return Form(((value, inner),), (Choice(point.guard, point.fill),), same=True)
        match op:
            case tiny.PadOp() | tiny.MaskOp():
                return self._guarded(op, point)
            case MovementOp():
                return Form((self._operand(op, 0, point, keeps_fill=True),), same=True)
            case tiny.CastOp():
                return Form((self._operand(op, 0, point, keeps_fill=True),))
            case tiny.ReduceOp() | tiny.SortOp():
                return self._reduced(op, point)
            case tiny.GatherOp():
                return self._gathered(op, point)
            case tiny.ScatterOp():
                return self._scattered(op, point)
            case tiny.ScanOp():
                # The operand at the element's own place; a scan sees to those before.
                entry = entry_of(value, self.graph)
                own = point.map.results[sum(entry.counts[: op.axis])]
                into = [*point.map.results, own]
                return Form((self._through(op, 0, point.axes, into, point.guard, None),))
            case tiny.ConstantOp() | tiny.DimOp() | tiny.IotaOp():
                return Form()
            case (
                tiny.UnaryOp()
                | tiny.BitcastOp()
                | tiny.BinaryOp()
                | tiny.CompareOp()
                | tiny.SelectOp()
            ):
                return Form(tuple(self._operand(op, i, point) for i in range(len(op.operands))))
            case _:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{op.name} has no form in a kernel yet; write the graph without it",
                    op,
                )

    def _operand(self, op: Operation, position: int, point: Point, keeps_fill: bool = False) -> Key:
        """Operand ``position`` of ``op``, and where it is read for ``op`` at ``point``.

        The operand has the point's fill outside the guard if ``op`` ``keeps_fill``.
        """
        fill = point.fill if keeps_fill else None
        return self._through(op, position, point.axes, point.map.results, point.guard, fill)

    def _through(
        self,
        op: Operation,
        position: int,
        axes: Sequence[AxisAttr],
        into: Sequence[AffineExpr],
        guard: AffineSet | None,
        fill: Number | None,
    ) -> Key:
        entry = self._affine(op)
        access = entry.pieces.data[0].entries[position]
        if len(entry.pieces) != 1 or not isinstance(access, AffineMap):
            raise PolycError(
                "UnsupportedProgram",
                f"{op.name} reads its operands in {len(entry.pieces)} pieces; only a pad or a mask "
                "does in a kernel",
                op,
            )
        operand = self.same.get(op.operands[position], op.operands[position])
        point = Point.of(axes, composed(access, into), self.symbols, guard, fill)
        return operand, self._settled(operand, point)

    def _settled(self, value: SSAValue, point: Point) -> Point:
        """``point`` without a guard that the value does not need to stay inside its axes."""
        if point.guard is None or point.fill is not None:
            return point
        if not point.map.results:
            return Point.of((), (), self.symbols)
        whole = index.box(extent(value, self.graph), self.graph.symbol_names)
        if isl.image_within(point.map, self.points(point.axes), whole):
            return Point.of(point.axes, point.map.results, self.symbols)
        return point

    def _affine(self, op: Operation) -> index.ValueOp:
        """The entry of an op's value.  Raises PolycError of kind ``NonSCoP`` without maps."""
        entry = entry_of(op.results[0], self.graph)
        if not entry.is_scop:
            raise not_affine(op, why_not_affine(entry))
        return entry

    def _guarded(self, op: tiny.PadOp | tiny.MaskOp, point: Point) -> Form:
        """A pad or a mask: the operand where its piece reads it, the op's fill elsewhere.

        A mask over computed values leaves them as they are everywhere, so that they depend on no
        more axes than before, and chooses.  A pad has to keep its operand inside.
        """
        pieces = self._affine(op).pieces
        reading = [p for p in pieces if isinstance(p.entries[0], AffineMap)]
        if not reading:
            return Form(number=op.number, choices=_outside(point, op.number))
        access, domain = reading[0].entries[0], reading[0].domain
        assert isinstance(access, AffineMap)
        held = self._held(domain, point)
        results = composed(access, point.map.results)
        guard, fill = point.guard, point.fill
        choices: tuple[Choice, ...] = ()
        if held is not None:
            choices = _outside(point, op.number)
            if isinstance(op, tiny.PadOp) or views_memory(op.operand, self.memory):
                guard, fill = both(guard, held), op.number
            else:
                choices = (Choice(held, op.number), *choices)
                fill = None
        inner = Point.of(point.axes, results, self.symbols, guard, fill)
        operand = self.same.get(op.operand, op.operand)
        return Form(((operand, self._settled(operand, inner)),), choices, same=True)

    def _held(self, domain: AffineSetAttr | UnitAttr, point: Point) -> AffineSet | None:
        """A piece's domain over the point's axes, without what these say; None for everywhere."""
        if isinstance(domain, UnitAttr):
            return None
        found = moved_set(domain.data, point.map.results, len(point.axes))
        found = isl.simplify_set(found, self.points(point.axes, point.guard))
        return found if found.constraints else None

    def _reduced(self, op: tiny.ReduceOp | tiny.SortOp, point: Point) -> Form:
        entry = entry_of(op.result, self.graph)
        taken = list(point.labels)
        fresh: list[AxisAttr] = []
        row = isinstance(op, tiny.ReduceOp) and not is_contraction(op.result)
        for number, axis in enumerate(entry.reduced):
            used = self._used_along(op, sum(entry.counts) + number) if row else ()
            inside = sum(later.dim == axis.dim for later in [*entry.reduced][number + 1 :])
            fresh.append(self.names.reduced(axis.dim, taken, row, used, inside))
            taken.append(fresh[-1].label)
        return Form(self._beyond(op, point, fresh), fresh=tuple(fresh))

    def _used_along(self, op: tiny.ReduceOp | tiny.SortOp, place: int) -> Sequence[str]:
        """The axes along which others take what a reduction takes along dimension ``place``."""
        access = self._affine(op).pieces.data[0].entries[0]
        operand = self.same.get(op.operands[0], op.operands[0])
        if not isinstance(access, AffineMap) or AffineDimExpr(place) not in access.results:
            return ()
        at = access.results.index(AffineDimExpr(place))
        found: dict[str, None] = {}
        for point in self.wanted.get(operand, ()):
            expr = point.map.results[at]
            if isinstance(expr, AffineDimExpr):
                found[point.axes[expr.position].label] = None
        return tuple(found)

    def _gathered(self, op: tiny.GatherOp, point: Point) -> Form:
        """A gather's operand is wanted at all places of its axes, of which it reads one."""
        entry = entry_of(op.result, self.graph)
        fresh = [self.names.of_gather(axis.dim) for axis in entry.reduced]
        return Form(self._beyond(op, point, fresh), fresh=tuple(fresh))

    def _scattered(self, op: tiny.ScatterOp, point: Point) -> Form:
        """A scatter's updates and indices are wanted at all places of the axes that these are of.

        Inside of a guard of the point it is what it is; it is computed outside as well.
        """
        entry = entry_of(op.result, self.graph)
        taken = list(point.labels)
        fresh: list[AxisAttr] = []
        for axis in entry.reduced:
            fresh.append(self.names.reduced(axis.dim, taken))
            taken.append(fresh[-1].label)
        return Form(self._beyond(op, point, fresh), fresh=tuple(fresh))

    def _beyond(self, op: Operation, point: Point, fresh: Sequence[AxisAttr]) -> tuple[Key, ...]:
        """The operands of ``op`` at ``point`` and every place of ``fresh`` axes."""
        count = len(point.axes) + len(fresh)
        into = [*point.map.results, *(AffineDimExpr(i) for i in range(len(point.axes), count))]
        guard = point.guard
        if guard is not None:
            guard = AffineSet(count, guard.num_symbols, guard.constraints)
        axes = [*point.axes, *fresh]
        places = range(len(op.operands))
        return tuple(self._through(op, i, axes, into, guard, None) for i in places)


# Fills ---------------------------------------------------------------------------------


def _outside(point: Point, has: Number) -> tuple[Choice, ...]:
    """What gives a value that is ``has`` outside the point's guard the point's fill there."""
    if point.fill is None or point.guard is None or same_number(point.fill, has):
        return ()
    return (Choice(point.guard, point.fill),)


def _takes_fill(op: Operation, fill: Number) -> bool:
    """Whether a value is the fill outside a guard if what it views is."""
    match op:
        case MovementOp():
            return True
        case tiny.ConstantOp():
            return same_number(op.number, fill)
        case tiny.CastOp():
            kinds = [tiny.tensor_of(v).element_type for v in (op.operand, op.result)]
            # A computed condition has no constants to choose from.
            chosen = i1 not in kinds or views_memory(op.operand)
            return chosen and all(holds(kind, fill) for kind in kinds)
        case _:
            return False


def views_memory(value: SSAValue, memory: Collection[SSAValue] = ()) -> bool:
    """Whether a value is read from a tensor, with movements and casts alone between.

    ``memory`` are values that lie in one beside the graph's inputs.
    """
    while value not in memory and isinstance(owner := value.owner, MovementOp | tiny.CastOp):
        value = owner.operands[0]
    return value in memory or isinstance(value, BlockArgument)
