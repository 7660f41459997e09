"""NumPy semantics of the ``region`` dialect (S0.6, S6.9).

Broadcasts and transposes are strided views.  A product that only sums read is not stored:
where both factors have every summed axis, the sum is a matrix product of the factors, so
the [m, k, n] of a contraction never exists.  This is an order of evaluation, which a sum
leaves open, and no other meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects.builtin import StringAttr, f32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineConstraintKind,
    AffineDimExpr,
    AffineExpr,
    AffineSet,
    AffineSymExpr,
)

from polyc.dialects import region
from polyc.dialects.common.diagnostic import fail
from polyc.dialects.common.dim import shape_text
from polyc.dialects.common.elements import is_integer, number_of
from polyc.dialects.common.precision import coarser
from polyc.dialects.region.scope import KernelScope
from polyc.dialects.region.types import MemRefType, ValType
from polyc.playback import functions, gathers, scatters
from polyc.playback.estimate import products_of
from polyc.playback.functions import Array, dtype_of, round_to, widen
from polyc.playback.region.together import CHUNK, reduce_together
from polyc.playback.signature import sizes


def run(
    kernel: region.KernelOp,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    chunk: int = CHUNK,
    points: Mapping[str, Array] | None = None,
) -> list[Array]:
    """The outputs of ``kernel``, each in its stored type.

    ``inputs`` have the shapes of the signature at ``symbols`` and its dtypes; ``chunk`` is how
    many points a ``region.reduce_together`` takes at a time.  With ``points``, which has for some
    of the axes of ``free_axes`` the coordinates that are asked for, in rising order, only the
    elements there are computed, and the outputs are these, over their axes.  Raises PolycError of
    kind ``BadArgument`` when an argument does not fit, and of kind ``UnguardedAccess`` when a read
    leaves its tensor.
    """
    count = len(kernel.ins)
    held, seen = kernel.tensors, kernel.seen
    bound = bind(kernel, kernel.sym_name.data, kernel.arg_names, held[:count], inputs, symbols)
    views = [
        array.reshape(sizes(kind.shape, symbols))
        for array, kind in zip(bound, seen[:count], strict=True)
    ]
    made = _Player(kernel, symbols, chunk, points=points).block(kernel.body.block, views)
    if points is not None:
        return [functions.row_major(value) for value in made]
    return [
        functions.row_major(value).reshape(sizes(kind.shape, symbols))
        for value, kind in zip(made, held[count:], strict=True)
    ]


def free_axes(kernel: region.KernelOp) -> tuple[str, ...]:
    """The outputs' axes that nothing is reduced over: an element needs its own point of each."""
    reduced = {
        label
        for op in kernel.walk()
        if isinstance(op, region.ReduceOp | region.ReduceTogetherOp)
        for label in op.labels
    }
    outputs = (cast(ValType, value.type).labels for value in kernel.yield_op.values)
    return tuple(dict.fromkeys(a for labels in outputs for a in labels if a not in reduced))


def bind(
    scope: KernelScope,
    name: str,
    labels: Iterable[StringAttr],
    types: Sequence[MemRefType],
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
) -> list[Array]:
    """``inputs`` in row-major order, after checking sizes, assumptions, shapes and types.

    Raises PolycError of kind ``BadArgument``.
    """
    missing = [s for s in scope.symbol_names if s not in symbols]
    if missing:
        fail("BadArgument", f"@{name} needs a size for {', '.join(missing)}", scope)
    for fact in scope.assumptions.data:
        if not fact.holds(symbols):
            given = ", ".join(f"{s}={symbols[s]}" for s in fact.expr.symbols())
            fail("BadArgument", f"@{name} assumes {fact}, which {given} does not satisfy", scope)
    if len(inputs) != len(types):
        fail("BadArgument", f"@{name} takes {len(types)} inputs, not {len(inputs)}", scope)
    bound: list[Array] = []
    for memref, label, array in zip(types, labels, inputs, strict=True):
        expected, dtype = sizes(memref.shape, symbols), dtype_of(memref.element_type)
        if array.shape != expected or array.dtype != dtype:
            fail(
                "BadArgument",
                f"input {label.data} of @{name} is {dtype} {shape_text(memref.shape)} = "
                f"{list(expected)}; the array is {array.dtype} {list(array.shape)}",
                scope,
            )
        bound.append(functions.row_major(array))
    return bound


class _Player:
    """The values computed so far."""

    def __init__(
        self,
        kernel: region.KernelOp,
        symbols: Mapping[str, int],
        chunk: int,
        extents: Mapping[str, int] | None = None,
        points: Mapping[str, Array] | None = None,
    ) -> None:
        self.kernel, self.symbols, self.chunk = kernel, symbols, chunk
        self.points = points or {}
        """Axes of which only some points are there, and these."""
        self.extents = {**{a: len(at) for a, at in self.points.items()}, **(extents or {})}
        """Axes of which only a part is there, and how many points."""
        self.values: dict[SSAValue, Array] = {}
        self.factors: dict[SSAValue, tuple[Array, Array]] = {}

    def block(self, block: Block, arguments: Sequence[Array]) -> list[Array]:
        """What the block's terminator takes."""
        self.values.update(zip(block.args, arguments, strict=True))
        left: dict[SSAValue, int] = {
            v: sum(1 for _ in v.uses) for op in block.ops for v in op.results
        }
        for op in block.ops:
            if op is block.last_op:
                return [self.values[v] for v in op.operands]
            self.step(op)
            for operand in op.operands:
                if operand in left:
                    left[operand] -= 1
                    if not left[operand]:
                        self.drop(operand)
        raise AssertionError("a verified block ends in a terminator")

    def drop(self, value: SSAValue) -> None:
        """Forget a value that nothing reads any more."""
        self.values.pop(value, None)
        self.factors.pop(value, None)

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        kind = cast(ValType, value.type)
        whole = sizes(kind.shape, self.symbols)
        return tuple(self.extents.get(a, n) for a, n in zip(kind.labels, whole, strict=True))

    def step(self, op: Operation) -> None:
        """Compute the results of ``op``."""
        if isinstance(op, region.ReduceTogetherOp):
            states = reduce_together(
                op, [self.values[v] for v in op.values], self._part, self.chunk
            )
            self.values.update(zip(op.states, states, strict=True))
            return
        result = op.results[0]
        if isinstance(op, region.BinaryOp) and self._is_contracted(op):
            self.factors[result] = (self.values[op.lhs], self.values[op.rhs])
            return
        element = cast(ValType, result.type).element_type
        self.values[result] = round_to(self._evaluate(op), element)

    def _part(
        self, block: Block, arguments: Sequence[Array], extents: Mapping[str, int]
    ) -> list[Array]:
        """Play a block of its own, with fewer points of some axes."""
        part = _Player(self.kernel, self.symbols, self.chunk, extents, self.points)
        return part.block(block, arguments)

    def _is_contracted(self, op: region.BinaryOp) -> bool:
        """Whether ``op`` is an f32 product that only sums over axes of both factors read."""
        uses = list(op.result.uses)
        if op.fn.data != "mul" or not uses or op.result.type.element_type != f32:
            return False
        labels = op.result.type.labels
        moving = [
            {a for a, repeats in zip(labels, _repeats(self.values[o]), strict=True) if not repeats}
            for o in op.operands
        ]
        return all(
            isinstance(u.operation, region.ReduceOp)
            and u.operation.fn.data == "sum"
            and u.operation.accumulator == f32
            and all(label in m for label in u.operation.labels for m in moving)
            for u in uses
        )

    def _evaluate(self, op: Operation) -> Array:
        match op:
            case region.ReadOp():
                return self._read(op)
            case region.ConstantOp():
                return functions.number(op.number, op.result.type.element_type)
            case region.DimOp():
                return functions.size(op.size.evaluate(self.symbols), op.result.type.element_type)
            case region.IndexOp():
                names = [self.symbols[s] for s in self.kernel.symbol_names]
                found = np.asarray(evaluate(op.expr, self._grid(op.result), names))
                return self._whole(round_to(found, op.result.type.element_type), op.result)
            case region.InsideOp():
                return self._whole(self._inside(op.set.data, self._grid(op.result)), op.result)
            case region.UnaryOp():
                return functions.unary(op.fn.data, _computed(self.values[op.operand]))
            case region.BinaryOp():
                x, y = (_computed(self.values[o]) for o in op.operands)
                return functions.binary(op.fn.data, x, y)
            case region.CompareOp():
                x, y = (_computed(self.values[o]) for o in op.operands)
                return functions.compare(op.fn.data, x, y)
            case region.SelectOp():
                condition, x, y = (self.values[o] for o in op.operands)
                return np.where(condition, x, y)
            case region.BitcastOp():
                return functions.bitcast(_computed(self.values[op.operand]))
            case region.CastOp():
                return self.values[op.operand]
            case region.BroadcastInDimOp():
                return self._broadcast(op)
            case region.TransposeOp():
                return np.transpose(self.values[op.operand], op.permutation)
            case region.GatherOp():
                return self._at_data(op)
            case region.ScatterOp():
                return self._scattered(op)
            case region.ReduceOp():
                return self._reduce(op)
            case region.SortOp():
                axis = cast(ValType, op.operand.type).labels.index(op.over)
                count = self.shape(op.result)[axis]
                return functions.sort(self.values[op.operand], axis, count, op.said)
            case region.ScanOp():
                return functions.scan(
                    op.fn.data,
                    self._whole(self.values[op.operand], op.operand),
                    op.result.type.labels.index(op.label),
                    reverse=op.is_reverse,
                    exclusive=op.is_exclusive,
                )
            case _:
                fail("UnsupportedProgram", f"{op.name} has no playback in a kernel", op)

    def _broadcast(self, op: region.BroadcastInDimOp) -> Array:
        positions = op.positions
        order = sorted(range(len(positions)), key=positions.__getitem__)
        array = np.transpose(self.values[op.operand], order)
        shape = self.shape(op.result)
        where = tuple(slice(None) if i in positions else None for i in range(len(shape)))
        return np.broadcast_to(array[where], shape)

    # Reads

    def _read(self, op: region.ReadOp) -> Array:
        array = self.values[op.tensor]
        map = op.map.data
        shape = self.shape(op.result)
        dims = [e.position for e in map.results if isinstance(e, AffineDimExpr)]
        if (
            op.guard is None
            and len(dims) == len(map.results) == len(shape)
            and len(set(dims)) == len(dims)
            and all(array.shape[i] == shape[d] for i, d in enumerate(dims))
        ):
            return np.transpose(array, np.argsort(dims)) if dims else array
        return self._whole(self._gather(op, array), op.result)

    def _grid(self, value: SSAValue) -> Sequence[Array]:
        """The coordinates along each axis of a value, which broadcast to its points."""
        labels, shape = cast(ValType, value.type).labels, self.shape(value)
        axes = (self.points.get(a, np.arange(n)) for a, n in zip(labels, shape, strict=True))
        return np.ix_(*axes) if labels else ()

    def _whole(self, array: Array, value: SSAValue) -> Array:
        return np.broadcast_to(array, self.shape(value))

    def _inside(self, points: AffineSet, grid: Sequence[Array]) -> Array:
        """Which points of a grid are in a set; along an axis that it does not name, one for all."""
        names = [self.symbols[s] for s in self.kernel.symbol_names]
        inside: Array = np.ones((1,) * len(grid), np.bool_)
        for row in points.constraints:
            lhs, rhs = evaluate(row.lhs, grid, names), evaluate(row.rhs, grid, names)
            match row.kind:
                case AffineConstraintKind.eq:
                    holds = np.equal(lhs, rhs)
                case AffineConstraintKind.ge:
                    holds = np.greater_equal(lhs, rhs)
                case _:
                    holds = np.less_equal(lhs, rhs)
            inside = inside & holds
        return inside

    def _gather(self, op: region.ReadOp, array: Array) -> Array:
        """What a read finds, which broadcasts to its points; of no points it reads nothing."""
        if 0 in (shape := self.shape(op.result)):
            return np.zeros(shape, array.dtype)
        grid = self._grid(op.result)
        names = [self.symbols[s] for s in self.kernel.symbol_names]
        inside: Array = np.ones((1,) * len(grid), np.bool_)
        if op.guard is not None:
            inside = self._inside(op.guard.data, grid)
        coordinates: list[Array] = []
        for position, (expr, extent) in enumerate(
            zip(op.map.data.results, array.shape, strict=True)
        ):
            at = evaluate(expr, grid, names)
            outside = (at < 0) | (at >= extent)
            if outside.any():
                if (wrong := inside & outside).any():
                    first = int(np.broadcast_to(at, wrong.shape)[wrong][0])
                    fail(
                        "UnguardedAccess",
                        f"coordinate {position} of the read, {expr}, is {first} in a "
                        f"tensor of {extent} there",
                        op,
                    )
                at = np.where(outside, 0, at)
            coordinates.append(at)
        if op.fill is None:
            return array[tuple(coordinates)]
        fill = functions.number(number_of(op.fill), op.fill.type).astype(array.dtype)
        if not array.size:
            return np.asarray(fill)
        return np.where(inside, array[tuple(coordinates)], fill)

    def _at_data(self, op: region.GatherOp) -> Array:
        """A gather: its operand at the indices' places, and along its other axes at the points."""
        source, shape = self.values[op.operand], self.shape(op.result)
        labels = op.result.type.labels
        if 0 in shape:
            return np.zeros(shape, source.dtype)

        def spread(index: SSAValue) -> Array:
            own = cast(ValType, index.type).labels
            order = sorted(range(len(own)), key=lambda i: labels.index(own[i]))
            array = np.transpose(self.values[index], order)
            return array[tuple(slice(None) if label in own else None for label in labels)]

        grid = dict(zip(labels, np.indices(shape, sparse=True), strict=True))
        grid |= {a: spread(i) for a, i in zip(op.labels, op.indices, strict=True)}
        own = cast(ValType, op.operand.type).labels
        axes = [own.index(label) for label in op.labels]
        places = [grid[label] for label in own]
        found = gathers.gather(source, places, axes, op.number, op.result.type.element_type)
        return self._whole(found, op.result)

    def _scattered(self, op: region.ScatterOp) -> Array:
        """A scatter: a place that one axis of the result counts is found along it, and a point of
        the updates is compared with all of any other."""
        labels, over = op.result.type.labels, op.labels
        sizes = dict(zip(labels, self.shape(op.result), strict=True))
        for value in op.operands:
            kind = cast(ValType, value.type)
            sizes |= dict(zip(kind.labels, self.shape(value), strict=True))

        def spread(value: SSAValue, wanted: Sequence[str]) -> Array:
            own = cast(ValType, value.type).labels
            order = sorted(range(len(own)), key=lambda i: wanted.index(own[i]))
            array = np.transpose(self.values[value], order)
            array = array[tuple(slice(None) if label in own else None for label in wanted)]
            return np.broadcast_to(array, [sizes[label] for label in wanted])

        before = spread(op.operand, labels)
        counted = [cast(ValType, place.type).labels for place in op.places]
        single = all(len(own) == 1 for own in counted) and len(set(counted)) == len(counted)
        moving = (op.updates, *op.indices)
        used = {label for value in moving for label in cast(ValType, value.type).labels}
        if single and used.isdisjoint(own[0] for own in counted):
            found = [own[0] for own in counted]
            rest = [label for label in labels if label not in found]
            every = [*over, *rest]
            updates = spread(op.updates, every)
            at: dict[str, Array] = dict(
                zip(every, np.indices(updates.shape, sparse=True), strict=True)
            )
            for label, (index, place) in zip(found, op.pairs, strict=True):
                at[label] = scatters.place_of(spread(index, every), self.values[place])
            return scatters.scatter(op.fn.data, before, updates, [at[label] for label in labels])
        every = [*over, *labels]
        whole = [sizes[label] for label in every]
        equal: Array = np.ones(whole, np.bool_)
        for index, place in op.pairs:
            equal = equal & (spread(index, every) == spread(place, every))
        grid = list(np.indices(whole, sparse=True))[len(over) :]
        nowhere = [np.where(equal, place, -1) for place in grid]
        return scatters.scatter(op.fn.data, before, spread(op.updates, every), nowhere)

    # Reductions

    def _reduce(self, op: region.ReduceOp) -> Array:
        labels = cast(ValType, op.operand.type).labels
        axes = tuple(labels.index(label) for label in op.labels)
        fn, element = op.fn.data, op.accumulator
        with products_of(coarser(op.precision)):
            if op.operand in self.factors:
                return sum_of_products(*self.factors[op.operand], axes)
            array = self.values[op.operand]
            if fn == "sum" and element != f32 and not is_integer(element):
                return narrow_sum(array, axes, element)
            return functions.reduce(fn, widen(array), axes)


def evaluate(expr: AffineExpr, dims: Sequence[Array], symbols: Sequence[int]) -> Array:
    """A quasi-affine expression at arrays of dimension values."""
    match expr:
        case AffineConstantExpr(value):
            return np.asarray(value)
        case AffineDimExpr(position):
            return dims[position]
        case AffineSymExpr(position):
            return np.asarray(symbols[position])
        case AffineBinaryOpExpr(kind, lhs, rhs):
            a, b = evaluate(lhs, dims, symbols), evaluate(rhs, dims, symbols)
            match kind:
                case AffineBinaryOpKind.Add:
                    return a + b
                case AffineBinaryOpKind.Mul:
                    return a * b
                case AffineBinaryOpKind.FloorDiv:
                    return a // b
                case AffineBinaryOpKind.CeilDiv:
                    return -(-a // b)
                case _:
                    return a % b
        case _:
            raise ValueError(f"{expr} is not an affine expression")


def _computed(array: Array) -> Array:
    """Operands of a function: conditions as they are, real numbers in f32."""
    return array if array.dtype == np.bool_ else widen(array)


def _repeats(array: Array) -> list[bool]:
    """For each axis, whether the array is a view that repeats along it."""
    return [n != 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True)]


def sum_of_products(x: Array, y: Array, axes: tuple[int, ...]) -> Array:
    """``(x * y).sum(axes)`` in f32 by one matrix product, for views of one shape.

    Neither factor repeats along ``axes``.  Kept axes along which neither repeats are
    batches; those along which one repeats are rows or columns.
    """
    shape = x.shape
    kept = [i for i in range(x.ndim) if i not in axes]
    if 0 in shape:
        return np.zeros([shape[i] for i in kept], np.float32)
    in_x, in_y = ([not r for r in _repeats(a)] for a in (x, y))
    rows = [i for i in kept if in_x[i] and not in_y[i]]
    columns = [i for i in kept if in_y[i] and not in_x[i]]
    batch = [i for i in kept if in_x[i] and in_y[i]]

    def flat(array: Array, parts: Sequence[Sequence[int]]) -> Array:
        used = [i for part in parts for i in part]
        array = array[tuple(slice(None) if i in used else 0 for i in range(array.ndim))]
        order = sorted(used)
        array = np.transpose(array, [order.index(i) for i in used])
        return array.reshape([prod(shape[i] for i in part) for part in parts])

    with np.errstate(all="ignore"):
        product = np.matmul(flat(x, (batch, rows, axes)), flat(y, (batch, axes, columns)))
    computed = [*batch, *rows, *columns]
    result = product.reshape([shape[i] for i in computed])
    result = np.transpose(result, [computed.index(i) for i in kept if i in computed])
    where = tuple(slice(None) if i in computed else None for i in kept)
    return np.broadcast_to(result[where], [shape[i] for i in kept])


def narrow_sum(array: Array, axes: tuple[int, ...], element_type: Attribute) -> Array:
    """The sum in an accumulator of ``element_type``, rounded after each addition."""
    kept = [i for i in range(array.ndim) if i not in axes]
    terms = np.transpose(widen(array), [*axes, *kept])
    terms = terms.reshape(prod(terms.shape[: len(axes)]), *terms.shape[len(axes) :])
    total: Array = np.zeros(terms.shape[1:], np.float32)
    with np.errstate(all="ignore"):
        for term in terms:
            total = widen(round_to(total + term, element_type))
    return total
