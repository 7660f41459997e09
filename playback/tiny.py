"""NumPy semantics of the ``tiny`` dialect (S0.6, S6.9).

Expands and permutes are strided views.  A product that only sums read is not stored: the
sum is taken of the factors with the axes along which each repeats left out, so that the
[M, K, N] of a matrix product never exists.  This is an order of evaluation, which a sum
leaves open, and no other meaning.  A mask or a select that only such a product reads is
not stored either: the sum is taken part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.common.diagnostic import fail
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.precision import coarser
from polyc.dialects.common.signature import graph_of
from polyc.playback import functions, gathers, scatters, views
from polyc.playback.estimate import Estimate, products_of
from polyc.playback.functions import Array, round_to
from polyc.playback.signature import bind, sizes


def run(graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """The outputs of ``graph``, each in its stored type.

    ``inputs`` have the signature's shapes at ``symbols`` and its dtypes.  Ops without
    results, such as the index book's, are passed over.  On arrays with errors, those of a value of
    an ``own`` type are what its readers may see, but for a cast to that type.  Raises PolycError
    when an argument does not fit.
    """
    block = graph.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, bind(graph, inputs, symbols), strict=True))
    asked = asked_for(graph)
    stored: dict[SSAValue, Stored] = {}

    def seen(value: SSAValue, op: Operation) -> Array:
        found = stored.get(value)
        return values[value] if found is None or found.is_rounded_by(op) else found.array

    parts: dict[SSAValue, Parts] = {}
    factors: dict[SSAValue, tuple[Factor, Factor]] = {}
    left: dict[SSAValue, int] = {v: readers(v) for op in block.ops for v in op.results}
    for op in block.ops:
        if isinstance(op, tiny.OutputOp):
            return [functions.row_major(values[o]) for o in op.operands]
        if not op.results:
            continue
        if isinstance(op, tiny.BinaryOp) and op.result in asked:
            lhs, rhs = (parts[v] if v in parts else seen(v, op) for v in (op.lhs, op.rhs))
            factors[op.result] = (lhs, rhs)
        elif isinstance(op, tiny.MaskOp | tiny.SelectOp) and op.result in asked:
            found = [parts[v] if v in parts else seen(v, op) for v in op.operands]
            parts[op.result] = _in_parts(op, found, symbols)
        elif isinstance(op, tiny.ReduceOp) and op.operand in factors:
            with products_of(coarser(op.precision)):
                values[op.result] = sum_of_product(*factors[op.operand], op.axes)
        else:
            result, moves = op.results[0], isinstance(op, MovementOp)
            if moves and op.operands[0] in stored:
                array, own = stored[op.operands[0]].array, stored[op.operands[0]].own
                stored[result] = Stored(evaluate(op, [array], symbols), own)
            args = [values[o] if moves else seen(o, op) for o in op.operands]
            values[result] = evaluate(op, args, symbols)
        own = op.properties.get("own")
        if own is not None and isinstance(array := values.get(op.results[0]), Estimate):
            stored[op.results[0]] = Stored(functions.as_stored(array, own), own)
        for operand in op.operands:
            if operand in left:
                left[operand] -= 1
                if not left[operand]:
                    values.pop(operand, None)
                    stored.pop(operand, None)
                    factors.pop(operand, None)
                    parts.pop(operand, None)
    raise AssertionError("a verified graph ends in tiny.output")


@dataclass(frozen=True)
class Stored:
    """An array with errors as it may be read where it has been stored in its ``own`` type."""

    array: Array
    own: Attribute

    def is_rounded_by(self, op: Operation) -> bool:
        """Whether what ``op`` reads it rounds to that type in any case."""
        return isinstance(op, tiny.CastOp) and tiny.tensor_of(op.result).element_type == self.own


def readers(value: SSAValue) -> int:
    """How many operands of ops with a value, or of the output, ``value`` is."""
    return sum(
        bool(use.operation.results) or isinstance(use.operation, tiny.OutputOp)
        for use in value.uses
    )


def only_summed(op: tiny.BinaryOp) -> bool:
    """Whether all that reads the result is sums."""
    readers = [use.operation for use in op.result.uses if use.operation.results]
    outputs = any(isinstance(use.operation, tiny.OutputOp) for use in op.result.uses)
    return (
        not outputs
        and bool(readers)
        and all(isinstance(r, tiny.ReduceOp) and r.function == "sum" for r in readers)
    )


IN_A_ROW = 16
"""Masks and selects, each of the one before, that are evaluated together at most."""


def asked_for(graph: tiny.GraphOp) -> set[SSAValue]:
    """The values that are evaluated where a sum asks for them, and not held.

    They are products that sums alone read, and masks and selects that are read by such values
    alone.
    """
    behind: dict[Operation, int] = {}
    for op in reversed(list(graph.body.block.ops)):
        if isinstance(op, tiny.BinaryOp) and op.function == "mul" and only_summed(op):
            if tiny.tensor_of(op.result).element_type != f32:
                continue
            behind[op] = 0
        elif isinstance(op, tiny.MaskOp | tiny.SelectOp):
            readers = [use.operation for use in op.result.uses]
            readers = [r for r in readers if r.results or isinstance(r, tiny.OutputOp)]
            most = max((behind.get(r, IN_A_ROW) for r in readers), default=IN_A_ROW)
            if most < IN_A_ROW and tiny.tensor_of(op.result).element_type == f32:
                behind[op] = most + 1
    return {op.results[0] for op in behind}


@dataclass(frozen=True)
class Parts:
    """A value that is computed a box at a time."""

    shape: tuple[int, ...]
    at: Callable[[tuple[slice, ...]], Array]


Factor = Array | Parts


def _at(factor: Factor, where: tuple[slice, ...]) -> Array:
    return factor.at(where) if isinstance(factor, Parts) else factor[where]


def _in_parts(
    op: tiny.MaskOp | tiny.SelectOp, args: Sequence[Factor], symbols: Mapping[str, int]
) -> Parts:
    if isinstance(op, tiny.SelectOp):

        def chosen(where: tuple[slice, ...]) -> Array:
            return np.where(*(_at(a, where) for a in args))

        return Parts(args[0].shape, chosen)

    def masked(where: tuple[slice, ...]) -> Array:
        return _mask(op, _at(args[0], where), where, symbols)

    return Parts(args[0].shape, masked)


def _mask(
    op: tiny.MaskOp, array: Array, where: tuple[slice, ...], symbols: Mapping[str, int]
) -> Array:
    """The part ``where`` of a mask, from that part of its operand."""
    graph = graph_of(op)
    names = () if graph is None else graph.symbol_names
    inside = views.holds(op.condition, where, [symbols[s] for s in names])
    return np.where(
        inside, array, functions.number(op.number, tiny.tensor_of(op.result).element_type)
    )


PART = 1 << 22
"""Elements of a product that are summed at once where a factor is computed in parts."""


def _sum_in_parts(x: Factor, y: Factor, axes: tuple[int, ...]) -> Array:
    """``(x * y).sum(axes)``, the leading axes that stay in steps of 1 where that is large."""
    shape = x.shape
    kept = [i for i in range(len(shape)) if i not in axes]
    if 0 in shape:
        return np.zeros([shape[i] for i in kept], np.float32)
    lead = 0
    while lead < len(shape) and lead not in axes and np.prod(shape[lead:], dtype=np.int64) > PART:
        lead += 1
    parts: list[Array] = []
    for index in np.ndindex(*shape[:lead]):
        where = (*(slice(i, i + 1) for i in index), *views.whole(shape[lead:]))
        part = sum_of_product(_at(x, where), _at(y, where), axes)
        parts.append(part[(*(0,) * lead, None)])
    return np.concatenate(parts).reshape([shape[i] for i in kept])


def sum_of_product(x: Factor, y: Factor, axes: tuple[int, ...]) -> Array:
    """``(x * y).sum(axes)`` in f32 for values of one shape, without storing the product."""
    if isinstance(x, Parts) or isinstance(y, Parts):
        return _sum_in_parts(x, y, axes)
    shape = x.shape
    kept = [i for i in range(x.ndim) if i not in axes]
    if 0 in shape:
        return np.zeros([shape[i] for i in kept], np.float32)
    arrays: list[Array] = []
    labels: list[list[int]] = []
    for array in (x, y):
        repeats = [n > 1 and s == 0 for n, s in zip(shape, array.strides, strict=True)]
        arrays.append(array[tuple(0 if r else slice(None) for r in repeats)])
        labels.append([i for i, r in enumerate(repeats) if not r])
    named = {*labels[0], *labels[1]}
    with np.errstate(all="ignore"):
        summed = np.einsum(
            arrays[0],
            labels[0],
            arrays[1],
            labels[1],
            [i for i in kept if i in named],
            optimize=True,
        )
        # An axis along which both repeat: it multiplies a sum, and is repeated in a result.
        times = int(np.prod([shape[i] for i in axes if i not in named], dtype=np.int64))
        result = functions.widen(functions.as_array(summed))
        if times != 1:
            result = result * np.float32(times)
    where = tuple(slice(None) if i in named else None for i in kept)
    return np.broadcast_to(result[where], [shape[i] for i in kept])


def evaluate(op: Operation, args: Sequence[Array], symbols: Mapping[str, int]) -> Array:
    """The result of one op on whole operands; NumPy broadcasts those of elementwise ops."""
    match op:
        case tiny.ConstantOp():
            return functions.number(op.number, tiny.tensor_of(op.result).element_type)
        case tiny.CastOp():
            return round_to(args[0], tiny.tensor_of(op.result).element_type)
        case tiny.BitcastOp():
            return functions.bitcast(args[0])
        case tiny.UnaryOp():
            return functions.unary(op.function, args[0])
        case tiny.BinaryOp():
            return functions.binary(op.function, args[0], args[1])
        case tiny.CompareOp():
            return functions.compare(op.function, args[0], args[1])
        case tiny.SelectOp():
            return np.where(args[0], args[1], args[2])
        case tiny.DimOp():
            return functions.size(op.size.evaluate(symbols), tiny.tensor_of(op.result).element_type)
        case tiny.IotaOp():
            kind = tiny.tensor_of(op.result)
            return functions.iota(sizes(kind.dims, symbols)[0], kind.element_type)
        case tiny.WindowOp():
            return views.window(args[0], op.axes, sizes(op.size, symbols), op.stride, op.dilation)
        case tiny.SampleOp():
            count = sizes(tiny.tensor_of(op.result).dims, symbols)[op.axis]
            places = np.array(op.places(args[0].shape[op.axis], count), int)
            return args[0][(*(slice(None) for _ in range(op.axis)), places)]
        case tiny.MaskOp():
            return _mask(op, args[0], views.whole(args[0].shape), symbols)
        case MovementOp():
            return views.move(op, args[0], symbols)
        case tiny.GatherOp():
            element = tiny.tensor_of(op.result).element_type
            return gathers.whole(args[0], args[1:], op.axes, op.number, element)
        case tiny.ScatterOp():
            return scatters.whole(op.function, args[0], args[1], args[2:], op.axes)
        case tiny.SortOp():
            (count,) = sizes((tiny.tensor_of(op.result).dims[op.axis],), symbols)
            return functions.sort(args[0], op.axis, count, op.said)
        case tiny.ScanOp():
            return functions.scan(
                op.function, args[0], op.axis, reverse=op.is_reverse, exclusive=op.is_exclusive
            )
        case tiny.ReduceOp():
            with products_of(coarser(op.precision)):
                return functions.reduce(op.function, args[0], op.axes)
        case _:
            fail("UnsupportedProgram", f"{op.name} has no playback in a tiny graph", op)
