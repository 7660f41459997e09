"""``region-to-gpu``: region values at one point of a tile, as the scalar body of a ``gpu.map``.

Products, convolutions, rows and loops write their maps by it: whatever way a kernel reduces, what
it computes element by element it asks of a ``Point``, which takes values that fragments hold there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, bf16, f16, f32, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSet,
    AffineSymExpr,
)

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.elements import Number, is_integer, number_of, without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import ErfcOp, FmodOp, LoadGlobalOp
from polyc.dialects.gpu.scalars import near_quotient, sigmoid
from polyc.dialects.gpu.types import FragmentType, GlobalType
from polyc.dialects.region import (
    BinaryOp,
    BitcastOp,
    BroadcastInDimOp,
    CastOp,
    CompareOp,
    ConstantOp,
    DimOp,
    GatherOp,
    IndexOp,
    InsideOp,
    ReadOp,
    ReduceOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
)
from polyc.dialects.region.activations import is_tanh_of_softplus
from polyc.dialects.region.types import ValType
from polyc.families.facts import holds_always
from polyc.lowering.region_to_gpu import integers
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit
from polyc.rewriting.region.compose import guards_bounds

BINARY: Mapping[str, Callable[[SSAValue, SSAValue], Operation]] = {
    "add": arith.AddfOp,
    "sub": arith.SubfOp,
    "mul": arith.MulfOp,
    "div": arith.DivfOp,
    "max": arith.MaximumfOp,
    "min": arith.MinimumfOp,
    "pow": math.PowFOp,
    "atan2": math.Atan2Op,
    "fmod": FmodOp,
}
"""Scalar op of each binary function; max and min propagate NaN (S0.6)."""

UNARY: Mapping[str, Callable[[SSAValue], Operation]] = {
    "abs": math.AbsFOp,
    "acos": math.AcosOp,
    "acosh": math.AcoshOp,
    "asin": math.AsinOp,
    "asinh": math.AsinhOp,
    "atan": math.AtanOp,
    "atanh": math.AtanhOp,
    "cbrt": math.CbrtOp,
    "ceil": math.CeilOp,
    "cos": math.CosOp,
    "cosh": math.CoshOp,
    "erf": math.ErfOp,
    "erfc": ErfcOp,
    "exp": math.ExpOp,
    "exp2": math.Exp2Op,
    "expm1": math.ExpM1Op,
    "floor": math.FloorOp,
    "log": math.LogOp,
    "log10": math.Log10Op,
    "log1p": math.Log1pOp,
    "log2": math.Log2Op,
    "neg": arith.NegfOp,
    "round": math.RoundEvenOp,
    "rsqrt": math.RsqrtOp,
    "sin": math.SinOp,
    "sinh": math.SinhOp,
    "sqrt": math.SqrtOp,
    "tan": math.TanOp,
    "tanh": math.TanhOp,
    "trunc": math.TruncOp,
}
"""Scalar op of each unary function that is one op."""

COMPARE: Mapping[str, str] = {
    "eq": "oeq",
    "ne": "une",
    "lt": "olt",
    "le": "ole",
    "gt": "ogt",
    "ge": "oge",
}
"""Ordered comparisons: a NaN compares false, and ``ne`` true."""


Making: TypeAlias = Generator[SSAValue, SSAValue, SSAValue]
"""How an op's scalar is made: it asks for region values one by one, and is sent their scalars."""


ROW, COLUMN = AffineExpr.dimension(0), AffineExpr.dimension(1)
"""The dimensions of a tile."""

Indices: TypeAlias = tuple[AffineExpr, ...]
"""A place in a fragment or tensor, in a map's dimensions and origins."""


@dataclass(frozen=True)
class Held:
    """A fragment that holds a region value, and where in it the value of a point is."""

    fragment: SSAValue
    place: Indices


@dataclass(frozen=True)
class Wanted:
    """A region value that a map writes to ``place`` of a fragment or tensor.

    ``then`` makes what is written of the value's scalar; without it that is cast to the target.
    """

    value: SSAValue
    target: SSAValue
    place: Indices
    then: Callable[[Point, SSAValue], SSAValue] | None = None


def held_nowhere(_: SSAValue) -> Held | None:
    """What finds region values in fragments, where there are none."""
    return None


def element_of(value: SSAValue) -> Attribute:
    """The element type of a region value, a fragment or a tensor."""
    return cast("ValType | FragmentType | GlobalType", value.type).element_type


MakePoint: TypeAlias = Callable[
    [
        Frame,
        Block,
        Mapping[SSAValue, SSAValue],
        Mapping[str, AffineExpr],
        int,
        Sequence[SSAValue],
        Callable[[SSAValue], Held | None],
    ],
    "Point",
]
"""Makes a point; the arguments are those of ``Point``."""


def is_there_and_back(op: CastOp) -> bool:
    """Whether a cast takes a narrower float, which another one made f32, to what it was: exact."""
    inner = op.operand.owner
    if not isinstance(inner, CastOp) or inner.result.type.element_type != f32:
        return False
    own = op.result.type.element_type
    return own in (f16, bf16) and element_of(inner.operand) == own


class Point:
    """The scalars of region values at one point of a tile.

    ``frame``   the kernel that the map is in
    ``block``   the body of the map; its first argument is the tile's own element
    ``known``   region values that have a scalar already
    ``axes``    where each axis of the region is, in the map's dimensions and origins
    ``rank``    how many dimensions the tile has
    ``origin``  the map's origins; sizes that reads move by are added to them
    ``held``    finds the fragment that holds a region value, where one does

    Values are made when they are asked for.  ``inputs`` and ``input_maps`` are what they read, in
    the order of the block's further arguments; they are whole when all values are made.
    """

    def __init__(
        self,
        frame: Frame,
        block: Block,
        known: Mapping[SSAValue, SSAValue],
        axes: Mapping[str, AffineExpr],
        rank: int,
        origin: Sequence[SSAValue],
        held: Callable[[SSAValue], Held | None] = held_nowhere,
    ) -> None:
        self.frame = frame
        self.block = block
        self.axes = axes
        self.rank = rank
        self.origin = list(origin)
        self.held = held
        self.emit = Emit()
        self.inputs: list[SSAValue] = []
        self._values: dict[SSAValue, SSAValue] = dict(known)
        self._found: list[SSAValue] = []
        """The places that indices say, which stand for dimensions behind the tile's."""
        self._places: list[tuple[AffineExpr, ...]] = []
        self.where: SSAValue | None = None
        """Which elements at places that are data are read; None of all."""

    @property
    def input_maps(self) -> list[AffineMap]:
        """The map of each input."""
        return [self.map(place) for place in self._places]

    def map(self, place: Sequence[AffineExpr]) -> AffineMap:
        """A map of the tile's dimensions and the origins."""
        return AffineMap(self.rank, len(self.origin), tuple(place))

    def known(self, value: SSAValue) -> SSAValue | None:
        """The scalar of a region value, where there is one without making it from others."""
        if value not in self._values and (found := self.held(value)) is not None:
            self.inputs.append(found.fragment)
            self._places.append(found.place)
            arg = self.block.insert_arg(element_of(found.fragment), len(self.block.args))
            self.take(value, arg)
        return self._values.get(value)

    def take(self, value: SSAValue, scalar: SSAValue) -> None:
        """Let ``scalar``, an argument of the block, be a value's."""
        owner = value.owner
        scalar.name_hint = value.name_hint or (owner.label if isinstance(owner, ReduceOp) else None)
        self._values[value] = self.cast(scalar, element_of(value))

    def write(self, space: SSAValue, wanted: Sequence[Wanted], at: Operation) -> tile.MapOp:
        """The map over ``space`` that writes what is wanted, with the location of ``at``."""
        results: list[SSAValue] = []
        for want in wanted:
            scalar = self.scalar(want.value)
            if want.then is not None:
                scalar = want.then(self, scalar)
            results.append(self.cast(scalar, element_of(want.target)))
        self.block.add_ops([*self.emit.ops, tile.YieldOp(results)])
        maps = [*self.input_maps, *(self.map(want.place) for want in wanted)]
        targets = [want.target for want in wanted]
        new = tile.MapOp(space, self.origin, self.inputs, targets, maps, Region(self.block))
        return located(new, at)

    def scalar(self, value: SSAValue) -> SSAValue:
        """The scalar of a region value, made with what it needs when it is asked for first.

        A loop with a stack of its own: a kernel's values are deeper than Python's calls may be.
        """
        if (found := self.known(value)) is not None:
            return found
        stack = [(value, self._start(value))]
        sent: SSAValue | None = None
        while True:
            here, making = stack[-1]
            op = here.owner
            assert isinstance(op, Operation)
            before = len(self.emit.ops)
            asked: SSAValue | None = None
            try:
                asked = next(making) if sent is None else making.send(sent)
            except StopIteration as done:
                sent = cast(SSAValue, done.value)
            for new in self.emit.ops[before:]:
                located(new, op)
            if asked is not None:
                sent = self.known(asked)
                if sent is None:
                    stack.append((asked, self._start(asked)))
                continue
            assert sent is not None
            if here.name_hint is not None and sent.name_hint is None:
                sent.name_hint = here.name_hint
            self._values[here] = sent
            stack.pop()
            if not stack:
                return sent

    def _start(self, value: SSAValue) -> Making:
        op = value.owner
        assert isinstance(op, Operation)
        return self.make(op)

    def make(self, op: Operation) -> Making:
        """Make the scalar of an op's result; yields the values that this takes."""
        match op:
            case ReadOp():
                return self.read(op)
            case ConstantOp():
                return self.number(number_of(op.value), op.result.type.element_type)
            case DimOp():
                return self.dim(op.size, op.result.type.element_type)
            case IndexOp():
                place = self.place(op.expr, op.result.type.labels, op)
                return integers.from_index(
                    self.emit, self.index(place), op.result.type.element_type
                )
            case InsideOp():
                return self.inside(op.set.data, op.result.type.labels, op)
            case BroadcastInDimOp() | TransposeOp():
                return (yield op.operand)
            case GatherOp():
                return (yield from self.gather(op))
            case CastOp():
                source, target = element_of(op.operand), op.result.type.element_type
                inner = op.operand.owner
                if isinstance(inner, CastOp) and is_there_and_back(op):
                    return (yield inner.operand)
                return self.converted((yield op.operand), source, target)
            case BitcastOp():
                value = yield op.operand
                return self.emit.value(arith.BitcastOp(value, op.result.type.element_type))
            case UnaryOp() if integers.is_whole(element_of(op.operand)):
                value = yield op.operand
                return integers.unary(self.emit, op.fn.data, value, element_of(op.operand))
            case BinaryOp() if integers.is_whole(element_of(op.lhs)):
                lhs = yield op.lhs
                rhs = yield op.rhs
                return integers.binary(self.emit, op.fn.data, lhs, rhs, element_of(op.lhs))
            case CompareOp() if integers.is_whole(element_of(op.lhs)):
                lhs = yield op.lhs
                rhs = yield op.rhs
                return integers.compare(self.emit, op.fn.data, lhs, rhs, element_of(op.lhs))
            case UnaryOp():
                # All arithmetic is in f32 (S0.6).
                found = self.unary(op.fn.data, self.cast((yield op.operand), f32))
                return self.cast(found, op.result.type.element_type)
            case BinaryOp() if is_tanh_of_softplus(op):
                lhs = self.cast((yield op.lhs), f32)
                rhs = self.cast((yield op.rhs), f32)
                inverse, last = near_quotient(lhs, rhs, self.number(1.0, f32))
                self.emit.op(inverse)
                return self.cast(self.emit.value(last), op.result.type.element_type)
            case BinaryOp():
                lhs = self.cast((yield op.lhs), f32)
                rhs = self.cast((yield op.rhs), f32)
                found = self.binary(op.fn.data, lhs, rhs)
                return self.cast(found, op.result.type.element_type)
            case CompareOp():
                lhs = self.cast((yield op.lhs), f32)
                rhs = self.cast((yield op.rhs), f32)
                return self.emit.value(arith.CmpfOp(lhs, rhs, COMPARE[op.fn.data]))
            case SelectOp():
                condition = yield op.condition
                then = yield op.if_true
                other = yield op.if_false
                return self.emit.value(arith.SelectOp(condition, then, other))
            case _:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{op.name} does not run at one point of the output tile; "
                    "make its result an output of a graph of its own",
                    op,
                )

    def read(self, op: ReadOp) -> SSAValue:
        """A tensor read at the point, as an input of the map; its fill where the guard fails.

        Raises PolycError where an axis of the read has no place at the point.
        """
        tensor, place = self.source(op)
        kind = without_sign(op.result.type.element_type)
        if self.is_data(place):
            at = [self.index(e) for e in place]
            asked = self.asked_where(tensor, at)
            arg = self.emit.value(LoadGlobalOp(tensor, at, kind, asked), op.tensor.name_hint)
        else:
            arg = self.element(op, tensor, place)
            arg.name_hint = op.tensor.name_hint
        if op.guard is None or op.fill is None:
            return arg
        if op.fill.value.data == 0 and guards_bounds(self.frame.kernel, op):
            return arg  # What is outside of a tensor a map sees as 0.
        fill = self.number(number_of(op.fill), op.result.type.element_type)
        return self.emit.value(arith.SelectOp(self.guarded(op, place), arg, fill))

    def guarded(self, op: ReadOp, place: Sequence[AffineExpr]) -> SSAValue:
        """Whether a read's guard holds at the point, which reads ``place``."""
        assert op.guard is not None
        return self.inside(op.guard.data, op.result.type.labels, op)

    def element(self, op: ReadOp, tensor: SSAValue, place: Sequence[AffineExpr]) -> SSAValue:
        """What is read at a place that is no data."""
        return self.input(tensor, place)

    def input(self, tensor: SSAValue, place: Sequence[AffineExpr]) -> SSAValue:
        """What a tensor or a fragment has at a place, as an input of the map."""
        self._places.append(tuple(place))
        self.inputs.append(tensor)
        return self.block.insert_arg(without_sign(element_of(tensor)), len(self.block.args))

    def place_at(self, value: SSAValue) -> AffineExpr:
        """An index that the map computes, as what stands for it in places."""
        self._found.append(value)
        return AffineExpr.dimension(self.rank + len(self._found) - 1)

    def asked_where(self, tensor: SSAValue, at: Sequence[SSAValue]) -> SSAValue | None:
        """Whether an element at a place that is data is read: inside, of those that are wanted.

        None where all are wanted, and ``gpu-legalize-access`` guards them.
        """
        return None if self.where is None else self.within(self.where, tensor, at)

    def within(self, found: SSAValue, tensor: SSAValue, at: Sequence[SSAValue]) -> SSAValue:
        """Whether a condition holds and an element is inside of its tensor."""
        assert isinstance(tensor.type, GlobalType)
        for index, size in zip(at, tensor.type.dims, strict=True):
            inside = self.emit.compare("ult", index, self.frame.size(size))
            found = self.emit.both(found, inside)
        return found

    def source(self, op: ReadOp) -> tuple[SSAValue, tuple[AffineExpr, ...]]:
        """The kernel's argument that a read is from, and where in it the point reads."""
        labels = op.result.type.labels
        place = tuple(self.place(e, labels, op) for e in op.map.data.results)
        return self.frame.argument(op.tensor), place

    def gather(self, op: GatherOp) -> Making:
        """An operand at the places that indices say, which its axes have from here on.

        An index is compared in its own type, so that none wraps into the tensor; what is read is
        inside of it whatever the index is.
        """
        inside: SSAValue | None = None
        axes = dict(self.axes)
        for label, index in zip(op.labels, op.indices, strict=True):
            axis = cast(ValType, op.operand.type).axis(label)
            assert axis is not None
            value = yield index
            here, place = self.nearest(axis.size, value, element_of(index), op.number)
            if here is not None:
                inside = self.emit.both(inside, here)
            axes[label] = self.place_at(place)
        self.axes = axes
        found = yield op.operand
        if inside is None:
            return found
        kind = op.result.type.element_type
        other = self.cast(self.number(op.number or 0, kind), kind)
        return self.emit.value(arith.SelectOp(inside, found, other))

    def nearest(
        self, size: Dim, value: SSAValue, element: Attribute, number: Number | None
    ) -> tuple[SSAValue | None, SSAValue]:
        """Where along an axis of ``size`` points a gather reads, by an index.

        That is some point of the axis.  First whether the index's own is there, else the gather
        gives its ``number``, or 0 without one; None where that is known.
        """
        if integers.width(element) < 32:
            value = integers.resized(self.emit, value, element, i32)
            element = i32
        whole = self.dim(size, element)
        inside: SSAValue | None = None
        if number is not None:
            inside, place = integers.place_inside(self.emit, value, whole, element)
        else:
            place = integers.nearest(self.emit, value, whole, element)
            kernel = self.frame.kernel
            has_places = Assumption(size - 1, ">=")
            if not holds_always(has_places, kernel.assumptions, kernel.symbol_names):
                zero = integers.number(self.emit, 0, element)
                inside = integers.compare(self.emit, "gt", whole, zero, element)
        return inside, self.emit.value(arith.IndexCastOp(place, IndexType()))

    def wide(self, value: SSAValue) -> SSAValue:
        """The scalar of a region value of integers, in 64 bits; unsigned beyond is negative."""
        return integers.resized(self.emit, self.scalar(value), element_of(value), i64)

    def is_data(self, place: Sequence[AffineExpr]) -> bool:
        """Whether a place depends on what indices say."""
        parts = (e for expr in place for e in expr.dfs())
        return any(isinstance(e, AffineDimExpr) and e.position >= self.rank for e in parts)

    def place(self, expr: AffineExpr, labels: Sequence[str], at: Operation) -> AffineExpr:
        """An expression of axes ``labels`` and the region's symbols, in the map's own terms."""
        dims: list[AffineExpr] = [AffineExpr.constant(0)] * len(labels)
        for i in {e.position for e in expr.dfs() if isinstance(e, AffineDimExpr)}:
            if labels[i] not in self.axes:
                raise PolycError(
                    "UnsupportedProgram",
                    f"{at.name} runs over {labels[i]}, which is no axis of the tile here",
                    at,
                )
            dims[i] = self.axes[labels[i]]
        used = {e.position for e in expr.dfs() if isinstance(e, AffineSymExpr)}
        symbols = [
            self._origin_of(value) if i in used else AffineExpr.constant(0)
            for i, value in enumerate(self.frame.symbols.values())
        ]
        return expr.replace_dims_and_symbols(dims, symbols)

    def _origin_of(self, value: SSAValue) -> AffineExpr:
        if value not in self.origin:
            self.origin.append(value)
        return AffineExpr.symbol(self.origin.index(value))

    def inside(self, points: AffineSet, labels: Sequence[str], at: Operation) -> SSAValue:
        """Whether the point is in a set over axes ``labels``."""
        found: SSAValue | None = None
        zero = self.emit.index(0)
        for row in points.constraints:
            value = self.index(self.place(row.lhs - row.rhs, labels, at))
            holds = "eq" if row.kind == AffineConstraintKind.eq else "sge"
            if row.kind == AffineConstraintKind.le:
                holds = "sle"
            found = self.emit.both(found, self.emit.compare(holds, value, zero))
        if found is None:
            return self.emit.value(arith.ConstantOp.from_int_and_width(1, 1))
        return found

    def index(self, place: AffineExpr) -> SSAValue:
        """The value of an expression of the tile's dimensions and the origins."""
        every = {e.position for e in place.dfs() if isinstance(e, AffineDimExpr)}
        used = {i for i in every if i < self.rank}
        indices = {i: self.emit.value(tile.TileIndexOp(i)) for i in sorted(used)}
        anywhere = next(iter(self.origin), self.frame.block.args[0])
        dims = [indices.get(i, anywhere) for i in range(self.rank)]
        return self.emit.apply(place, [*dims, *self._found], self.origin)

    def dim(self, size: Dim, element: Attribute) -> SSAValue:
        """A size as f32 or an integer, computed outside of the map."""
        outer = self.frame.emit
        if is_integer(element):
            return integers.from_index(outer, self.frame.size(size), element)
        whole = outer.value(arith.IndexCastOp(self.frame.size(size), i32))
        return outer.value(arith.SIToFPOp(whole, f32))

    def number(self, value: Number, kind: Attribute) -> SSAValue:
        """A constant; 0 or 1 of a condition."""
        if integers.is_whole(kind):
            return integers.number(self.emit, int(value), kind)
        return self.emit.value(arith.ConstantOp(FloatAttr(value, cast(AnyFloat, kind))))

    def converted(self, value: SSAValue, source: Attribute, target: Attribute) -> SSAValue:
        """A scalar of a region's type in another one: rounded, cut to an integer or wrapped."""
        if is_integer(source) and is_integer(target):
            return integers.resized(self.emit, value, source, target)
        if is_integer(source):
            return self.cast(integers.to_real(self.emit, value, source), target)
        if is_integer(target):
            return integers.from_real(self.emit, self.cast(value, f32), target)
        return self.cast(value, target)

    def cast(self, value: SSAValue, target: Attribute) -> SSAValue:
        """A scalar in another type: rounded, or 1 or 0 of a condition, or whether it is not 0.

        An integer is where it was computed, in a type that may be wider than the one it is of.
        """
        source, target = value.type, without_sign(target)
        if source == target:
            return value
        if is_integer(source) and is_integer(target):
            return integers.resized(self.emit, value, source, target)
        if source == i1:
            return self.cast(self.emit.value(arith.UIToFPOp(value, f32)), target)
        if target == i1:
            wide = self.cast(value, f32)
            return self.emit.value(arith.CmpfOp(wide, self.number(0.0, f32), "une"))
        if target == f32:
            return self.emit.value(arith.ExtFOp(value, f32))
        if source == f32:
            return self.emit.value(arith.TruncFOp(value, cast(AnyFloat, target)))
        return self.cast(self.cast(value, f32), target)

    def binary(self, fn: str, lhs: SSAValue, rhs: SSAValue) -> SSAValue:
        """A binary function of two f32."""
        return self.emit.value(BINARY[fn](lhs, rhs))

    def unary(self, fn: str, value: SSAValue) -> SSAValue:
        if fn in UNARY:
            return self.emit.value(UNARY[fn](value))
        one = self.emit.value(arith.ConstantOp(FloatAttr(1.0, f32)))
        if fn == "reciprocal":
            return self.emit.value(arith.DivfOp(one, value))
        if fn == "sign":
            return self._sign(value, one)
        assert fn == "sigmoid", fn
        *ops, last = sigmoid(value, one)
        for op in ops:
            self.emit.op(op)
        return self.emit.value(last)

    def _sign(self, value: SSAValue, one: SSAValue) -> SSAValue:
        """1 above 0, -1 below, and what is neither as it is: a zero with its sign, and NaN."""
        zero, minus = self.number(0.0, f32), self.number(-1.0, f32)
        below = self.emit.value(arith.CmpfOp(value, zero, COMPARE["lt"]))
        other = self.emit.value(arith.SelectOp(below, minus, value))
        above = self.emit.value(arith.CmpfOp(value, zero, COMPARE["gt"]))
        return self.emit.value(arith.SelectOp(above, one, other))
