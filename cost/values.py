"""The values of a region as the model of time counts them: what they depend on, and their work.

A ``region.reduce_together`` counts as the reductions of its chunk: ``Values`` looks through it.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from math import prod
from typing import cast

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import AffineConstraintKind, AffineDimExpr, AffineSet

from polyc.affine.expressions import Floor, linear_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.types import element_bytes
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
    KernelOp,
    ReadOp,
    ReduceOp,
    ReduceTogetherOp,
    ScanOp,
    ScatterOp,
    SelectOp,
    TransposeOp,
    UnaryOp,
)
from polyc.dialects.region.moments import Moments, moments_of
from polyc.dialects.region.together import StateOp
from polyc.dialects.region.types import ValType, val_type

SLOW: Mapping[str, float] = {
    "exp": 8,
    "exp2": 8,
    "log": 10,
    "log2": 10,
    "log10": 12,
    "log1p": 24,
    "expm1": 24,
    "cbrt": 20,
    "sin": 24,
    "cos": 24,
    "tan": 30,
    "asin": 26,
    "acos": 28,
    "atan": 24,
    "sinh": 28,
    "cosh": 18,
    "asinh": 44,
    "acosh": 44,
    "atanh": 40,
    "atan2": 50,
    "fmod": 40,
    "sign": 4,
    **dict.fromkeys(("floor", "ceil", "round", "trunc"), 8),
    "rsqrt": 8,
    "sqrt": 10,
    "reciprocal": 8,
    "div": 8,
    "sigmoid": 12,
    "tanh": 12,
    "erf": 18,
    "erfc": 40,
    "pow": 24,
    "philox": 60,
}
"""Instructions of a thread in the time that a function takes: a special function unit gives one
result for eight lanes, and some functions are several instructions more."""

MOVES = (BroadcastInDimOp, TransposeOp)
"""What costs nothing: other names of a value."""


PLACE = 6
"""Instructions of an index that is compared with its axis."""


def size_in_bytes(kind: Attribute) -> int:
    """The bytes of a stored element; a condition is one."""
    return 1 if kind == i1 else element_bytes(kind)


def operations(op: Operation) -> float:
    """The instructions of a thread that one element of an op takes; loads are counted apart."""
    match op:
        case UnaryOp() | BinaryOp():
            return SLOW.get(op.fn.data, 1)
        case CompareOp() | SelectOp() | CastOp() | BitcastOp() | ReduceOp() | ScanOp():
            return 1
        case InsideOp():
            return len(op.set.data.constraints)
        case IndexOp():
            return 1
        case GatherOp():
            return PLACE * len(op.labels)
        case _:
            return 0


class Values:
    """The values of one kernel, which does not change, at certain sizes."""

    def __init__(self, kernel: KernelOp, sizes: Mapping[str, int]) -> None:
        self.kernel, self.sizes = kernel, sizes
        # What does not depend on the sizes, which those of other sizes share (``at``).
        self._inside: dict[SSAValue, SSAValue] = {}
        self._own: dict[SSAValue, frozenset[str]] = {}
        self._operands: dict[Operation, list[SSAValue]] = {}
        self._behind: dict[tuple[bool, *tuple[SSAValue, ...]], list[Operation]] = {}
        self._moments: list[Moments | None] = []
        self._indices: dict[str, SSAValue] = {}
        self._sizes: dict[str, Dim] = {a.label: a.size for a in kernel.iters}
        for op in kernel.walk():
            if isinstance(op, GatherOp):
                self._indices |= dict(zip(op.labels, op.indices, strict=True))
            for value in op.results:
                if isinstance(value.type, ValType):
                    for axis in value.type.axes:
                        self._sizes.setdefault(axis.label, axis.size)
            if isinstance(op, ReduceTogetherOp):
                chunk = op.chunk.block
                self._inside |= dict(zip(chunk.args, op.values, strict=True))
                end = cast(StateOp, chunk.last_op)
                self._inside |= dict(zip(op.states, end.values, strict=True))
        self.outputs = [self.real(v) for v in kernel.yield_op.values]
        """What the kernel stores."""
        self.reached = [*self.behind(self.outputs, into=True)]
        """The ops that outputs are made by."""
        self.extents = self._extents()
        """The number of points of each axis."""
        self.answers: dict[Hashable, object] = {}
        """What is asked again at these sizes."""

    def at(self, sizes: Mapping[str, int]) -> Values:
        """The same kernel's at other sizes."""
        other = copy(self)
        other.sizes = sizes
        other.extents = other._extents()
        other.answers = {}
        return other

    def _extents(self) -> dict[str, int]:
        return {label: size.evaluate(self.sizes) for label, size in self._sizes.items()}

    def real(self, value: SSAValue) -> SSAValue:
        """A value of the kernel or a chunk itself, where it stands for another."""
        while value in self._inside:
            value = self._inside[value]
        return value

    def operands(self, op: Operation) -> list[SSAValue]:
        """The values that an op takes."""
        if (found := self._operands.get(op)) is None:
            found = [self.real(v) for v in op.operands if isinstance(v.type, ValType)]
            self._operands[op] = found
        return found

    def moments(self) -> Moments | None:
        """The moments that all outputs together are made of."""
        if not self._moments:
            self._moments.append(moments_of(self.kernel.yield_op.values))
        return self._moments[0]

    def points(self, labels: Collection[str]) -> float:
        """The number of points of some axes."""
        return float(prod(self.extents[label] for label in labels))

    def index_along(self, label: str) -> SSAValue | None:
        """The index that says where along an axis a gather reads; None of other axes."""
        return self._indices.get(label)

    def walked(self, labels: Iterable[str]) -> frozenset[str]:
        """The axes by whose points some are gone through: of one that indices are along, theirs."""
        found: frozenset[str] = frozenset()
        for label in labels:
            index = self._indices.get(label)
            found |= {label} if index is None else self.walked(self.own(index))
        return found

    def behind(self, values: Sequence[SSAValue], into: bool = False) -> Iterator[Operation]:
        """The ops that make values, without those behind reductions, but for ``into``."""
        key = into, *values
        if (found := self._behind.get(key)) is None:
            found = self._behind[key] = list(self._walk(values, into))
        return iter(found)

    def _walk(self, values: Sequence[SSAValue], into: bool) -> Iterator[Operation]:
        seen: set[SSAValue] = set()
        left = [self.real(v) for v in values]
        while left:
            value = left.pop()
            if value in seen or isinstance(value, BlockArgument):
                continue
            seen.add(value)
            op = cast(Operation, value.owner)
            yield op
            if into or not isinstance(op, ReduceOp):
                left += reversed(self.operands(op))

    def own(self, value: SSAValue) -> frozenset[str]:
        """The axes that a value differs along, whatever it was broadcast to."""
        value = self.real(value)
        if value not in self._own:
            order = [op for op in self.behind([value], into=True) if op.results[0] not in self._own]
            for op in reversed(order):
                self._fill(op)
        return self._own[value]

    def _fill(self, op: Operation) -> None:
        """The own axes of an op and, first, of all that it needs."""
        left = [op]
        while left:
            here = left[-1]
            result = here.results[0]
            missing = [v for v in self.operands(here) if v not in self._own]
            if missing:
                left += [cast(Operation, v.owner) for v in missing]
                continue
            left.pop()
            self._own[result] = self._axes(here)

    def _axes(self, op: Operation) -> frozenset[str]:
        match op:
            case ReadOp():
                return frozenset(read_labels(op))
            case IndexOp() | InsideOp():
                return frozenset(op.result.type.labels)
            case ReduceOp():
                return self._own[self.real(op.operand)] - set(op.labels)
            case ScatterOp():
                found = frozenset[str]().union(*(self._own[v] for v in self.operands(op)))
                return found - set(op.labels)
            case GatherOp():
                found = frozenset[str]().union(*(self._own[v] for v in self.operands(op)))
                return found - set(op.labels)
            case ConstantOp() | DimOp():
                return frozenset()
            case _:
                found: frozenset[str] = frozenset()
                return found.union(*(self._own[v] for v in self.operands(op)))

    def factors(self, reduce: ReduceOp) -> tuple[SSAValue, SSAValue] | None:
        """The factors of a sum of products that run over unlike axes, or None.

        This is what tensor cores compute: each element of a factor is used several times, or a
        group of it is, as the channels of an image that is read in groups.
        """
        product = self.real(reduce.operand).owner
        while isinstance(product, MOVES):
            product = self.real(product.operand).owner
        if reduce.fn.data != "sum" or not isinstance(product, BinaryOp):
            return None
        lhs, rhs = self.operands(product)
        left, right = self.own(lhs), self.own(rhs)
        both = product.fn.data == "mul" and set(reduce.labels) <= left & right
        return (lhs, rhs) if both and left != right else None

    def contractions(self) -> list[ReduceOp]:
        """The sums of products."""
        found = (op for op in self.reached if isinstance(op, ReduceOp))
        return [op for op in found if self.factors(op) is not None]

    def multiply_adds(self, reduce: ReduceOp) -> float:
        """The products that a reduction sums, in all."""
        return self.points(self.own(reduce.operand))

    def visible(self, reduce: ReduceOp, tile: Mapping[str, int]) -> float:
        """The share of a contraction's tiles in which a mask by position leaves anything.

        It is that of the scores, where everything that they are chosen for but by ``inside`` is a
        constant: a kernel of attention goes past the keys that no query of a tile sees.
        """
        share = 1.0
        for op in self.reached:
            if isinstance(op, SelectOp) and self._masks(op, reduce):
                condition = self.real(op.condition)
                while isinstance(condition.owner, MOVES):
                    condition = self.real(condition.owner.operand)
                inside = condition.owner
                if isinstance(inside, InsideOp):
                    share = min(share, self._share(inside, tile))
        return share

    def _masks(self, op: SelectOp, reduce: ReduceOp) -> bool:
        """Whether a choice is between what a reduction gives and a constant."""
        other = [*self.behind([op.if_false], into=True)]
        if not all(isinstance(o, ConstantOp | BroadcastInDimOp) for o in other):
            return False
        return any(o is reduce for o in self.behind([op.if_true]))

    def _share(self, op: InsideOp, tile: Mapping[str, int]) -> float:
        """The share of tiles of which some corner is in a set, of 32 along each axis at most."""
        labels = op.result.type.labels
        places: list[list[tuple[int, int]]] = [[]]
        for label in labels:
            size, step = self.extents[label], tile.get(label, 1)
            count = max(1, -(-size // step))
            taken = sorted({i * count // 32 for i in range(32)} if count > 32 else range(count))
            ends = [(i * step, max(0, min(size, (i + 1) * step) - 1)) for i in taken]
            places = [[*p, end] for p in places for end in ends]
        seen = 0
        for place in places:
            corners: list[list[int]] = [[]]
            for low, high in place:
                corners = [[*c, at] for c in corners for at in {low, high}]
            seen += any(self._holds(op.set.data, corner) for corner in corners)
        return seen / max(1, len(places))

    def _holds(self, points: AffineSet, place: Sequence[int]) -> bool:
        symbols = [self.sizes[name] for name in self.kernel.symbol_names]
        for row in points.constraints:
            value = (row.lhs - row.rhs).eval(list(place), symbols)
            if row.kind == AffineConstraintKind.eq and value:
                return False
            if value < 0 if row.kind == AffineConstraintKind.ge else value > 0:
                return False
        return True


def read_labels(op: ReadOp) -> list[str]:
    """The axes that a read walks its tensor by."""
    used = {
        e.position
        for result in op.map.data.results
        for e in result.dfs()
        if isinstance(e, AffineDimExpr)
    }
    return [label for i, label in enumerate(op.result.type.labels) if i in used]


def innermost(op: ReadOp) -> set[str]:
    """The axes whose neighbours a read finds side by side in memory.

    Of ``32 * d0 + d1`` it is d1, which stands alone in the sum.
    """
    results = op.map.data.results
    if not results:
        return set()
    labels = op.result.type.labels
    return {
        labels[term[1]]
        for term, factor in linear_of(results[-1]).terms
        if not isinstance(term, Floor) and term[0] == "d" and factor == 1
    }


def spacing(op: ReadOp, label: str) -> int | None:
    """By how many elements a read's neighbours along an axis lie apart in a line of memory; None
    where the axis goes from line to line, or in another way, as by indices."""
    results, labels = op.map.data.results, op.result.type.labels
    terms = linear_of(results[-1]).terms if results and label in labels else ()
    found = (abs(factor) for term, factor in terms if term == ("d", labels.index(label)))
    return next(found, None)


def line_step(op: ReadOp) -> int:
    """How many elements of a line of memory there are for each that a read has of it."""
    results = op.map.data.results
    terms = linear_of(results[-1]).terms if results else ()
    return min((abs(factor) for _, factor in terms), default=1)


def result_labels(op: Operation) -> tuple[str, ...]:
    """The axes of what an op gives."""
    return val_type(op.results[0]).labels
