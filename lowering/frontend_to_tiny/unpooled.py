"""``frontend-to-tiny``: a scatter to where extremes of windows stand is a choice of each point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim, Shape
from polyc.dialects.common.elements import bounds, is_integer
from polyc.dialects.common.sizes import product
from polyc.dialects.frontend.types import tensor, tensor_of
from polyc.rewriting.driver import located
from polyc.rewriting.region.building import erase_unused

_Add = Callable[[Operation], SSAValue]

Scatter = frontend.ScatterOp | frontend.ScatterElementsOp | frontend.ScatterNdOp


class ChooseAtPlaces(RewritePattern):
    """A scatter to the places of ``frontend.arg_pool`` → a choice, at each point, by the place of
    its own window.

    As max-unpooling is, and what a pool's gradient adds.  Legal where windows are apart, of a
    dilation of 1, none is of nothing but padding, and what is scattered to has the plane that the
    places are of: one index says where each update goes in all of a tensor, in which an update has
    the leading axes of its window, or in the plane itself.  The scatter puts its updates there, or
    adds them.

    Exact: each point is in one window at most, and has one update at most.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: Scatter, rewriter: PatternRewriter, /) -> None:
        if op.function not in ("set", "add"):
            return
        pool = _pool_of(op)
        windows = None if pool is None else _Windows.of(pool)
        if windows is None or not windows.is_whole(op):
            return
        kind = tensor_of(op.operand)

        def add(new: Operation) -> SSAValue:
            rewriter.insert(located(new, op))
            return new.results[0]

        places = windows.pool.result
        if places.has_one_use() or windows.pool.whole is not None:
            # Where the pool's own stands, whose extremes it is found with.
            new = located(windows.places(), windows.pool)
            rewriter.insert(new, InsertPoint.before(windows.pool))
            places = new.result
        here = windows.here(add, tensor_of(places).element_type)
        chosen = add(frontend.CompareOp("eq", windows.spread(add, places, -1), here))
        before, update = (
            given if tensor_of(given).dims == dims else add(frontend.ReshapeOp(given, dims))
            for given, dims in (
                (_unfolded(op.operand, windows.shape), windows.shape),
                (_unfolded(op.updates, windows.outer), windows.outer),
            )
        )
        update = windows.spread(add, update, 0)
        if op.function == "add":
            update = add(frontend.ElementwiseOp("add", [before, update]))
        result = add(frontend.SelectOp(chosen, update, before))
        indices = op.indices.owner
        rewriter.replace(op, located(frontend.ReshapeOp(result, kind.dims), op))
        # What is made of places that nothing reads would have them found twice.
        if isinstance(indices, Operation):
            erase_unused(indices, rewriter)


@dataclass(frozen=True)
class _Windows:
    """Windows that have no element in common, in a plane of the innermost axes, of known sizes."""

    pool: frontend.ArgPoolOp
    lead: Shape
    plane: tuple[int, ...]
    counts: tuple[int, ...]
    """Windows along each axis of the plane."""
    steps: tuple[int, ...]
    before: tuple[int, ...]
    """Padding in front."""

    @staticmethod
    def of(pool: frontend.ArgPoolOp) -> _Windows | None:
        dims, found = tensor_of(pool.operand).dims, tensor_of(pool.result).dims
        first = len(dims) - len(pool.axes)
        if tuple(pool.axes) != tuple(range(first, len(dims))) or set(pool.dilation) != {1}:
            return None
        plane = [size.constant() for size in dims[first:]]
        counts = [size.constant() for size in found[first:]]
        sizes = [size.constant() for size in pool.size]
        known = [[n for n in some if n] for some in (plane, counts, sizes)]
        if any(len(some) < len(pool.axes) for some in known):
            return None
        before = pool.padding[::2]
        for size, count, length, step, pad in zip(
            known[2], known[1], known[0], pool.stride, before, strict=True
        ):
            if step < size or pad >= size or (count - 1) * step - pad >= length:
                return None
        if prod(known[0]) > bounds(i32)[1]:
            return None
        lead = tuple(dims[:first])
        return _Windows(pool, lead, tuple(known[0]), tuple(known[1]), pool.stride, before)

    @property
    def shape(self) -> Shape:
        """Of what the places are of."""
        return (*self.lead, *map(Dim.const, self.plane))

    @property
    def outer(self) -> Shape:
        """Of the places."""
        return (*self.lead, *map(Dim.const, self.counts))

    def places(self) -> frontend.ArgPoolOp:
        """The places in the plane, in 32 bits."""
        own = self.pool
        return frontend.ArgPoolOp(
            own.fn.data,
            own.operand,
            own.axes,
            own.size,
            stride=own.stride,
            padding=own.padding,
            dilation=own.dilation,
            ceil_mode=own.ceil_mode is not None,
            element=i32,
        )

    def here(self, add: _Add, kind: Attribute) -> SSAValue:
        """Where each point of the plane is."""
        total: SSAValue | None = None
        for axis, size in enumerate(self.plane):
            dims = [size if i == axis else 1 for i in range(len(self.plane))]
            one = add(frontend.IotaOp(tensor(dims, kind), axis))
            if (inside := prod(self.plane[axis + 1 :])) > 1:
                by = add(frontend.ConstantOp(inside, tensor((), kind)))
                one = add(frontend.ElementwiseOp("mul", [one, by]))
            total = one if total is None else add(frontend.ElementwiseOp("add", [total, one]))
        assert total is not None
        return total

    def spread(self, add: _Add, value: SSAValue, nothing: int) -> SSAValue:
        """What windows have, at all points of their own; ``nothing`` behind the last window."""
        element, first = tensor_of(value).element_type, len(self.lead)
        wide: list[Dim] = [*self.lead]
        at = list(range(first))
        for count, step in zip(self.counts, self.steps, strict=True):
            at.append(len(wide))
            wide += [Dim.const(count), Dim.const(step)]
        value = add(frontend.ExpandOp(value, at, tensor(wide, element)))
        joined = [n * step for n, step in zip(self.counts, self.steps, strict=True)]
        value = add(frontend.ReshapeOp(value, [*self.lead, *map(Dim.const, joined)]))
        zeros = [Dim.const(0)] * first
        around = list(zip(joined, self.before, self.plane, strict=True))
        ends = [min(n, pad + size) for n, pad, size in around]
        low = [*zeros, *map(Dim.const, self.before)]
        high = [*self.lead, *map(Dim.const, ends)]
        value = add(frontend.SliceOp(value, low, high, [1] * len(high)))
        room = [max(0, pad + size - n) for n, pad, size in around]
        if any(room):
            none = [Dim.const(0)] * len(high)
            value = add(frontend.PadOp(value, none, [*zeros, *map(Dim.const, room)], nothing))
        return value

    def is_whole(self, op: Scatter) -> bool:
        """Whether a scatter's operand has the elements that the places are of, and its indices say
        where in all of them, or in each plane, the window's own place is."""
        dims, whole = tensor_of(op.operand).dims, product(self.shape)
        in_planes = isinstance(op, frontend.ScatterElementsOp)
        if in_planes:
            plane = Dim.const(prod(self.plane))
            if tuple(dims) != (*self.lead, plane) or op.number != len(dims) - 1:
                return False
        elif len(dims) != 1 or dims[0] != whole or op.number != 0:
            return False
        found = _sum_of(_unfolded(op.indices))
        if found is None or found.pool is not self.pool or found.number != 0:
            return False
        of_all = self.pool.whole is not None
        if in_planes or of_all:
            return not found.counts and not (in_planes and of_all)
        steps = ((axis, product(self.shape[axis + 1 :])) for axis in range(len(self.lead)))
        return found.counts == {a: by for a, by in steps if self.lead[a] != Dim.const(1)}


def _pool_of(op: Scatter) -> frontend.ArgPoolOp | None:
    """The windows whose places a scatter's indices are made of."""
    found = _sum_of(_unfolded(op.indices))
    return None if found is None else found.pool


def _unfolded(value: SSAValue, dims: Shape | None = None) -> SSAValue:
    """What a value is a view of in another shape: the first that has some ``dims``, or the last."""
    while isinstance(op := value.owner, frontend.ReshapeOp) and tensor_of(value).dims != dims:
        value = op.operand
    return value


@dataclass(frozen=True)
class _Sum:
    """Places of windows, if any, and how far an index goes with a point of each other axis."""

    pool: frontend.ArgPoolOp | None
    counts: dict[int, Dim]
    number: int = 0


def _sum_of(value: SSAValue) -> _Sum | None:
    """Indices as a sum of places and of multiples of where they stand, the axes counted from those
    of the value; None for others."""
    kind, op = tensor_of(value), value.owner
    if not is_integer(kind.element_type):
        return None
    match op:
        case frontend.ArgPoolOp():
            return _Sum(op, {})
        case frontend.IotaOp():
            return _Sum(None, {} if kind.dims[op.axis] == Dim.const(1) else {op.axis: Dim.const(1)})
        case frontend.ConstantOp():
            return _Sum(None, {}, int(op.number))
        case frontend.ElementwiseOp() if op.function in ("add", "mul"):
            found = [_sum_of(arg) for arg in op.args]
            ranks = [tensor_of(arg).rank for arg in op.args]
            sides = [
                _shifted(one, len(kind.dims) - rank)
                for one, rank in zip(found, ranks, strict=True)
                if one is not None
            ]
            if len(sides) < 2:
                return None
            return _added(*sides) if op.function == "add" else _times(*sides)
        case frontend.ExpandOp():
            found = _sum_of(op.operand)
            if found is None or found.pool is not None:
                return None
            return _Sum(None, {op.dims[a]: by for a, by in found.counts.items()}, found.number)
        case frontend.CastOp():
            inner = tensor_of(op.operand).element_type
            if not is_integer(inner):
                return None
            least, most = bounds(kind.element_type)
            wide = least <= bounds(inner)[0] and bounds(inner)[1] <= most
            return _sum_of(op.operand) if wide else None
        case frontend.ReshapeOp():
            return _apart(op)
        case _:
            return None


def _shifted(one: _Sum, by: int) -> _Sum:
    return _Sum(one.pool, {axis + by: count for axis, count in one.counts.items()}, one.number)


def _added(one: _Sum, other: _Sum) -> _Sum | None:
    if one.pool is not None and other.pool is not None:
        return None
    counts = dict(one.counts)
    for axis, by in other.counts.items():
        counts[axis] = counts.get(axis, Dim.const(0)) + by
    return _Sum(one.pool or other.pool, counts, one.number + other.number)


def _times(one: _Sum, other: _Sum) -> _Sum | None:
    for part, by in ((one, other), (other, one)):
        if by.pool is None and not by.counts and part.pool is None:
            counts = {axis: count * by.number for axis, count in part.counts.items()}
            return _Sum(None, counts, part.number * by.number)
    return None


def _apart(op: frontend.ReshapeOp) -> _Sum | None:
    """What counts along one axis, of which there are several: each goes as far as those inside."""
    found = _sum_of(op.operand)
    if found is None or found.pool is not None or tensor_of(op.operand).rank != 1:
        return None
    counts: dict[int, Dim] = {}
    by, dims = found.counts.get(0, Dim.const(0)), tensor_of(op.result).dims
    for axis, size in enumerate(dims):
        if size != Dim.const(1):
            counts[axis] = by * product(dims[axis + 1 :])
    return _Sum(None, counts, found.number)
