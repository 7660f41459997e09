"""NumPy semantics of the ``tiny`` dialect (S0.6, S6.9).

Expands and permutes are strided views.  A product that only sums read is not stored: the
sum is taken of the factors with the axes along which each repeats left out, so that the
[M, K, N] of a matrix product never exists.  This is an order of evaluation, which a sum
leaves open, and no other meaning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.ir import Operation, SSAValue

from polyc.dialects import tiny
from polyc.dialects.diagnostic import fail
from polyc.dialects.movements import MovementOp
from polyc.dialects.signature import graph_of
from polyc.playback import functions, views
from polyc.playback.functions import Array, round_to
from polyc.playback.signature import bind, sizes


def run(graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """The outputs of ``graph``, each in its stored type.

    ``inputs`` have the signature's shapes at ``symbols`` and its dtypes.  Ops without
    results, such as the index book's, are passed over.  Raises PolycError when an argument
    does not fit.
    """
    block = graph.body.block
    values: dict[SSAValue, Array] = dict(zip(block.args, bind(graph, inputs, symbols), strict=True))
    factors: dict[SSAValue, tuple[Array, Array]] = {}
    left: dict[SSAValue, int] = {v: _readers(v) for op in block.ops for v in op.results}
    for op in block.ops:
        if isinstance(op, tiny.OutputOp):
            return [np.array(values[o], order="C") for o in op.operands]
        if not op.results:
            continue
        if isinstance(op, tiny.BinaryOp) and op.function == "mul" and _only_summed(op):
            factors[op.result] = (values[op.lhs], values[op.rhs])
        elif isinstance(op, tiny.ReduceOp) and op.operand in factors:
            values[op.result] = _sum_of_product(*factors[op.operand], op.axes)
        else:
            values[op.results[0]] = _evaluate(op, [values[o] for o in op.operands], symbols)
        for operand in op.operands:
            if operand in left:
                left[operand] -= 1
                if not left[operand]:
                    values.pop(operand, None)
                    factors.pop(operand, None)
    raise AssertionError("a verified graph ends in tiny.output")


def _readers(value: SSAValue) -> int:
    """How many operands of ops with a value, or of the output, ``value`` is."""
    return sum(
        bool(use.operation.results) or isinstance(use.operation, tiny.OutputOp)
        for use in value.uses
    )


def _only_summed(op: tiny.BinaryOp) -> bool:
    readers = [use.operation for use in op.result.uses if use.operation.results]
    outputs = any(isinstance(use.operation, tiny.OutputOp) for use in op.result.uses)
    return (
        not outputs
        and bool(readers)
        and all(isinstance(r, tiny.ReduceOp) and r.function == "sum" for r in readers)
    )


def _sum_of_product(x: Array, y: Array, axes: tuple[int, ...]) -> Array:
    """``(x * y).sum(axes)`` in f32 for arrays of one shape, without storing the product."""
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
        result = functions.widen(np.asarray(summed))
        if times != 1:
            result = result * np.float32(times)
    where = tuple(slice(None) if i in named else None for i in kept)
    return np.broadcast_to(result[where], [shape[i] for i in kept])


def _evaluate(op: Operation, args: list[Array], symbols: Mapping[str, int]) -> Array:
    match op:
        case tiny.ConstantOp():
            return np.asarray(op.number, np.float32)
        case tiny.CastOp():
            return round_to(args[0], tiny.tensor_of(op.result).element_type)
        case tiny.UnaryOp():
            return functions.unary(op.function, args[0])
        case tiny.BinaryOp():
            return functions.binary(op.function, args[0], args[1])
        case tiny.CompareOp():
            return functions.compare(op.function, args[0], args[1])
        case tiny.SelectOp():
            return np.where(args[0], args[1], args[2])
        case tiny.DimOp():
            return np.asarray(op.size.evaluate(symbols), np.float32)
        case tiny.WindowOp():
            return views.window(args[0], op.axes, sizes(op.size, symbols), op.stride, op.dilation)
        case tiny.MaskOp():
            names = _symbols_of(op)
            where = views.holds(op.condition, args[0].shape, [symbols[s] for s in names])
            return np.where(where, args[0], np.float32(op.number))
        case MovementOp():
            return views.move(op, args[0], symbols)
        case tiny.ReduceOp():
            return functions.reduce(op.function, args[0], op.axes)
        case _:
            fail("UnsupportedProgram", f"{op.name} has no playback in a tiny graph", op)


def _symbols_of(op: Operation) -> tuple[str, ...]:
    graph = graph_of(op)
    return () if graph is None else graph.symbol_names
