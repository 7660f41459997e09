"""Dimensions of a tensor that axes count in digits, as one dimension of each digit.

Heads that lie inside of rows, ``[B, T, H * D]`` read at ``h * D + d``, are ``[B, T, H, D]`` read at
``(h, d)``: the same memory, of which each axis has a dimension and a step of its own.  Packed
projections are read so too, at ``h * D + d + 2 * H * D`` as at ``(h + 2 * H, d)``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)

from polyc.affine.expressions import (
    Atom,
    Floor,
    Linear,
    canonical_expr,
    decided,
    expr_of,
    linear_of,
    reach,
)
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import quotient
from polyc.dialects.region import IndexOp, InsideOp, KernelOp, ReadOp, ReduceOp, ReduceTogetherOp
from polyc.dialects.region.together import StateOp
from polyc.dialects.region.types import AxisAttr, MemRefType, ValType, val_type
from polyc.rewriting.region.other_shapes import OverOthers, in_other_shapes
from polyc.rewriting.region.points import moved_set
from polyc.rewriting.region.products import POINTWISE


@dataclass(frozen=True)
class Digits:
    """A dimension of a tensor as several: ``steps`` from a point of each to the next one, outermost
    first, the last of 1."""

    steps: tuple[int, ...]
    sizes: tuple[Dim, ...]


def axes_apart(kernel: KernelOp) -> KernelOp:
    """The region over one axis for each digit of an axis that reads take apart: a copy that stands
    nowhere, or itself where there are none.

    A batch of sequences and heads, merged, that is read at ``(n floordiv 16, n mod 16)`` has axes
    of both, and so have heads of queries of which four share keys, at ``h floordiv 4``.  The
    divisors of an axis have to divide each other, and the largest one the axis; each op computes
    at its point alone, or reduces.  Exact: each element is what it was, and lies where it lay; a
    sum's order is as free as it was.
    """
    if not all(isinstance(op, APART) for op in kernel.body.walk()):
        return kernel
    while parts := _divided_axes(kernel):
        kernel = _Apart(kernel, parts).built()
    return kernel


def _divided_axes(kernel: KernelOp) -> dict[str, Digits]:
    """The axes that reads divide by numbers, in digits, as far as these part them."""
    sizes = {a.label: a.size for op in kernel.body.block.ops for a in _axes_of(op)}
    divisors: dict[str, set[int]] = {}
    for op in kernel.body.block.ops:
        if isinstance(op, ReadOp):
            own = val_type(op.result)
            extents = [axis.size.constant() for axis in own.axes]
            for expr in op.map.data.results:
                for atom, _ in linear_of(expr).terms:
                    if isinstance(atom, Floor) and (found := _divided(atom, extents)) is not None:
                        divisors.setdefault(own.labels[found[0]], set()).add(found[1])
    found = {label: _digits(sizes[label], {*dens, 1}) for label, dens in divisors.items()}
    return {label: digits for label, digits in found.items() if digits is not None}


APART = (*POINTWISE, ReduceOp, ReduceTogetherOp, StateOp)
"""Ops that compute at each point by itself, or reduce."""


def _axes_of(op: Operation) -> Iterator[AxisAttr]:
    for result in op.results:
        if isinstance(result.type, ValType):
            yield from result.type.axes


def _divided(floor: Floor, extents: Sequence[int | None]) -> tuple[int, int] | None:
    """The axis that a quotient takes apart, and by which number, where axes have so many points;
    None for another one.

    ``(64 * n + d) floordiv 1024`` divides ``n`` by 16, where ``d`` is less than 64.
    """
    if not floor.num.terms:
        return None
    atom, step = max(floor.num.terms, key=lambda term: term[1])
    if isinstance(atom, Floor) or atom[0] != "d" or step < 1 or floor.den % step:
        return None
    rest = [term for term in floor.num.terms if term[0] != atom]
    ends = reach(Linear.of(rest, floor.num.constant), extents)
    if ends is None or ends[0] < 0 or ends[1] >= step:
        return None
    return atom[1], floor.den // step


def _digits(size: Dim, steps: Collection[int]) -> Digits | None:
    """A size in digits of these steps, of which 1 is one; None where they do not part it."""
    order = tuple(sorted(steps, reverse=True))
    if len(order) < 2 or any(outer % inner for outer, inner in pairwise(order)):
        return None
    outermost = quotient(size, Dim.const(order[0]))
    if outermost is None:
        return None
    inner = (Dim.const(outer // inner) for outer, inner in pairwise(order))
    return Digits(order, (outermost, *inner))


class _Apart(OverOthers):
    """Builds the region with some axes in digits."""

    def __init__(self, kernel: KernelOp, parts: Mapping[str, Digits]) -> None:
        super().__init__(kernel)
        self.digits = parts
        taken = {axis.label for op in kernel.body.block.ops for axis in _axes_of(op)}
        self.axes: dict[str, list[AxisAttr]] = {}
        for label, digits in parts.items():
            self.axes[label] = []
            for number, size in enumerate(digits.sizes):
                name = f"{label}_{number}"
                while name in taken:
                    name += "_"
                taken.add(name)
                self.axes[label].append(AxisAttr.of(name, size))

    def over(self, axes: Iterable[AxisAttr]) -> list[AxisAttr]:
        return [part for axis in axes for part in self.axes.get(axis.label, [axis])]

    def built(self) -> KernelOp:
        kernel = self.kernel
        outs: list[Attribute] = []
        for value, out in zip(kernel.yield_op.values, kernel.outs, strict=True):
            shape: list[Dim] = []
            for label, size in zip(val_type(value).labels, out.shape, strict=True):
                shape += self.digits[label].sizes if label in self.digits else [size]
            outs.append(MemRefType.of(shape, out.element_type, out.align, out.noalias))
        return self.region([arg.type for arg in kernel.ins], outs)

    def where(self, axes: Sequence[AxisAttr]) -> list[AffineExpr]:
        """What each of some axes is of the axes here."""
        places = {axis.label: AffineDimExpr(i) for i, axis in enumerate(self.over(axes))}
        found: list[AffineExpr] = []
        for axis in axes:
            if axis.label in places:
                found.append(places[axis.label])
                continue
            total: AffineExpr = AffineConstantExpr(0)
            for part, step in zip(
                self.axes[axis.label], self.digits[axis.label].steps, strict=True
            ):
                total = total + places[part.label] * step
            found.append(total)
        return found

    def placed(self, op: Operation) -> Mapping[str, Attribute]:
        if not isinstance(op, IndexOp | InsideOp):
            return {}
        axes = op.result.type.axes.data
        if isinstance(op, InsideOp):
            return {
                "set": AffineSetAttr(moved_set(op.set.data, self.where(axes), len(self.over(axes))))
            }
        return {"map": AffineMapAttr(self.moved(op.map.data, axes))}

    def moved(self, access: AffineMap, axes: Sequence[AxisAttr]) -> AffineMap:
        """A map of axes as one of the axes here, whose quotients are digits."""
        own, into = self.over(axes), self.where(axes)
        symbols = [AffineSymExpr(i) for i in range(access.num_symbols)]
        sizes = [axis.size.constant() for axis in own]
        results = (
            canonical_expr(decided(expr.replace_dims_and_symbols(into, symbols), sizes))
            for expr in access.results
        )
        return AffineMap(len(own), access.num_symbols, tuple(results))

    def read(self, op: ReadOp, tensor: SSAValue) -> ReadOp:
        axes = val_type(op.result).axes.data
        own, into = self.over(axes), self.where(axes)
        guard = None if op.guard is None else moved_set(op.guard.data, into, len(own))
        fill = None if op.fill is None else op.fill.value.data
        return ReadOp(tensor, self.moved(op.map.data, axes), own, guard, fill)


def digits_apart(kernel: KernelOp) -> KernelOp:
    """The region that sees every dimension which its reads count in digits as one of each: a copy
    that stands nowhere, or itself where there are none.

    All reads of a tensor have to agree: the steps along the dimension divide each other, the
    largest one divides the dimension, and what each read has of a digit but for the outermost stays
    inside of it, for all points.  A dimension that is read otherwise stays one.  Exact: it is
    another view of the same memory.
    """
    shapes: dict[SSAValue, list[Digits | None]] = {}
    for arg in kernel.ins:
        reads = [use.operation for use in arg.uses]
        if not reads or not all(isinstance(op, ReadOp) for op in reads):
            continue
        found = [
            _digits_of(cast("list[ReadOp]", reads), at, size)
            for at, size in enumerate(cast(MemRefType, arg.type).shape)
        ]
        if any(found):
            shapes[arg] = found
    if not shapes:
        return kernel

    def places(op: ReadOp) -> list[AffineExpr]:
        found: list[AffineExpr] = []
        for digits, expr in zip(shapes[op.tensor], op.map.data.results, strict=True):
            parts = None if digits is None else _parted(linear_of(expr), digits.steps)
            found += [expr] if parts is None else map(expr_of, parts)
        return found

    sizes = {
        tensor: [None if digits is None else digits.sizes for digits in found]
        for tensor, found in shapes.items()
    }
    return in_other_shapes(kernel, sizes, places)


def _digits_of(reads: Sequence[ReadOp], at: int, size: Dim) -> Digits | None:
    """The digits in which all reads count dimension ``at``; None where it stays one."""
    places = [linear_of(op.map.data.results[at]) for op in reads]
    steps = {step for place in places for atom, step in place.terms if not _is_symbol(atom)}
    if not steps or min(steps) < 1:
        return None
    found = _digits(size, steps | {1})
    if found is None:
        return None
    spans = [_span_inside(op, place, found) for op, place in zip(reads, places, strict=True)]
    if None in spans:
        return None
    # Queries, keys and values that follow each other in a head are parts of one length of it.
    starts, lengths = zip(*(span for span in spans if span is not None), strict=True)
    points = lengths[0]
    if set(lengths) == {points} and points > 1 and not any(start % points for start in starts):
        found = _digits(size, {*found.steps, points}) or found
    return found


def _is_symbol(atom: Atom) -> bool:
    return isinstance(atom, tuple) and atom[0] == "s"


def _parted(place: Linear, steps: Sequence[int]) -> list[Linear] | None:
    """What a place has of each digit; None where a symbol counts by less than a digit's step."""
    terms: list[list[tuple[Atom, int]]] = [[] for _ in steps]
    for atom, step in place.terms:
        number = next((i for i, one in enumerate(steps) if step % one == 0), None)
        if number is None or (number and _is_symbol(atom)):
            return None
        terms[number].append((atom, step // steps[number]))
    left, constants = place.constant, list[int]()
    for step in steps:
        constants.append(left // step)
        left %= step
    return [Linear.of(own, constant) for own, constant in zip(terms, constants, strict=True)]


def _span_inside(op: ReadOp, place: Linear, digits: Digits) -> tuple[int, int] | None:
    """Where on the innermost digit a read begins, and how many points of it it goes along; None
    where what it has of any digit but the outermost is not known to be less than that's size."""
    parts = _parted(place, digits.steps)
    if parts is None:
        return None
    extents = [axis.size.constant() for axis in val_type(op.result).axes]
    span = (0, 1)
    for part, size in zip(parts[1:], digits.sizes[1:], strict=True):
        ends = reach(part, extents)
        if ends is None or ends[0] < 0 or ends[1] >= (size.constant() or 0):
            return None
        span = ends[0], ends[1] - ends[0] + 1
    return span
