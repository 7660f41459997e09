"""NumPy semantics of the ``frontend`` dialect (S0.6, S6.9).

Each op is computed as its definition says, not as ``frontend-to-tiny`` composes it, so
that the two check each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute, Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import fail
from polyc.dialects.common.elements import is_integer
from polyc.dialects.common.movements import MovementOp
from polyc.dialects.common.precision import coarser
from polyc.dialects.frontend.scaled import scaled_load
from polyc.dialects.frontend.storable import keeps, rounds, storable
from polyc.dialects.frontend.weights import (
    are_multiplied,
    are_summed,
    are_unbounded,
    are_weights,
    rounded_weights,
)
from polyc.playback import functions, views
from polyc.playback.estimate import Estimate, products_of
from polyc.playback.frontend.attention import attention
from polyc.playback.frontend.convolutions import convolution
from polyc.playback.frontend.gathers import gathered
from polyc.playback.frontend.pooling import adaptive_pool, arg_pool, pool
from polyc.playback.frontend.random import dropout, random
from polyc.playback.frontend.resizing import resize
from polyc.playback.frontend.sampling import grid_sample
from polyc.playback.frontend.scatters import scattered
from polyc.playback.frontend.selection import arg_reduce, sort
from polyc.playback.frontend.transposed import transposed_convolution
from polyc.playback.functions import Array, round_freely, round_to, widen
from polyc.playback.signature import bind, value_sizes
from polyc.rewriting.frontend.parameters import lifted


def run(
    graph: frontend.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> list[Array]:
    """The outputs of ``graph``, each in its stored type.

    ``inputs`` have the signature's shapes at ``symbols`` and its dtypes (bf16 is that of
    ``ml_dtypes``); what ops name of a parameter file follows them, in the order of these ops.
    Real numbers are f32 from the first load and rounded at casts, at operands of gemm,
    convolutions and attention, and at outputs.  Raises PolycError when an argument
    does not fit.
    """
    values = evaluate(graph, inputs, symbols)
    return [
        round_to(v, spec.type.element_type) for v, spec in zip(values, graph.outputs, strict=True)
    ]


def evaluate(
    graph: frontend.GraphOp,
    inputs: Sequence[Array],
    symbols: Mapping[str, int],
    *,
    exact_sums: bool = False,
) -> list[Array]:
    """The outputs in f32, before they are rounded to their stored types.

    With ``exact_sums`` the sums of gemm, convolutions, attention, reduce and pool are accumulated
    in f64 and rounded once to f32.  On arrays with errors, those of a value that may be stored in
    its own type are what its readers may see; those that round it to that type see no other.
    """
    graph = lifted(graph)
    values: dict[SSAValue, Array] = {
        arg: value_of(array)
        for arg, array in zip(graph.body.block.args, bind(graph, inputs, symbols), strict=True)
    }
    play = _Player(symbols, exact_sums)
    known = any(isinstance(array, Estimate) for array in values.values())
    own = storable(graph) if known else {}
    stored: dict[SSAValue, Array] = {}
    for op in graph.body.block.ops:
        args = [
            values[o] if o not in stored or rounds(op, i, own[o]) else stored[o]
            for i, o in enumerate(op.operands)
        ]
        if isinstance(op, frontend.OutputOp):
            return args
        if keeps(op) and (source := op.operands[0]) in stored:
            own[op.results[0]] = own[source]
            (stored[op.results[0]],) = play.results(op, args)
            args = [values[source]]
        for result, array in zip(op.results, play.results(op, args), strict=True):
            values[result] = array
            if result in own and result not in stored:
                stored[result] = functions.as_stored(array, own[result])
    raise AssertionError("a verified graph ends in frontend.output")


def value_of(array: Array) -> Array:
    """A stored array as it is inside a graph: f32, integers or booleans."""
    return array if array.dtype == np.bool_ else widen(array)


_LARGE = 2.0**100
"""Exponentials that nothing bounds may be beyond f32, or their sum, from here on."""


@dataclass(frozen=True)
class _Player:
    symbols: Mapping[str, int]
    exact: bool

    def results(self, op: Operation, args: list[Array]) -> Sequence[Array]:
        """The results of one op."""
        with np.errstate(all="ignore"):
            if isinstance(op, frontend.SortOp):
                return sort(op, args[0], self.symbols)
            if isinstance(op, frontend.AttentionOp):
                return attention(op, args, self.symbols, self.exact)
            # Of rank 0, NumPy's arithmetic gives scalars.
            return [functions.as_array(self.result(op, args))]

    def result(self, op: Operation, args: list[Array]) -> Array:
        match op:
            case frontend.GemmOp():
                with products_of(coarser(op.precision)):
                    return self._gemm(op, args[0], args[1])
            case frontend.ConvOp():
                image, weight = self._operands(op, (op.image, op.weight), *args)
                with products_of(coarser(op.precision)):
                    return convolution(op, image, weight, self.symbols)
            case frontend.ConvTransposeOp():
                image, weight = self._operands(op, (op.image, op.weight), *args)
                with products_of(coarser(op.precision)):
                    return transposed_convolution(op, image, weight, self.symbols)
            case frontend.ElementwiseOp():
                fn = op.function
                if len(args) == 1:
                    found = functions.unary(fn, *args)
                else:
                    found = functions.binary(fn, *args)
                if are_unbounded(op):
                    found = functions.known_below(found, _LARGE)
                return found
            case frontend.CompareOp():
                return functions.compare(op.function, args[0], args[1])
            case frontend.ClassifyOp():
                return functions.classify(op.function, args[0])
            case frontend.SelectOp():
                return np.where(args[0], args[1], args[2])
            case frontend.CastOp():
                return converted(args[0], frontend.tensor_of(op.result).element_type, _rounder(op))
            case frontend.ConstantOp():
                return functions.number(op.number, frontend.tensor_of(op.result).element_type)
            case frontend.DimOp():
                kind = frontend.tensor_of(op.result).element_type
                return functions.size(op.size.evaluate(self.symbols), kind)
            case frontend.IotaOp():
                kind = frontend.tensor_of(op.result)
                shape = value_sizes(kind, self.symbols)
                found = functions.iota(shape[op.axis], kind.element_type)
                return views.expand(found, (op.axis,), shape)
            case frontend.RandomOp():
                return random(op, args, self.symbols)
            case frontend.DropoutOp():
                return dropout(op, args, self.symbols)
            case frontend.ReduceOp():
                return self._reduce(op.function, args[0], op.axes, op.keepdims is not None)
            case frontend.ArgReduceOp():
                return arg_reduce(op, args[0])
            case frontend.ScanOp():
                kind = np.float64 if self.exact else np.float32
                return functions.scan(
                    op.function,
                    args[0],
                    op.axis,
                    reverse=op.is_reverse,
                    exclusive=op.is_exclusive,
                    kind=kind,
                )
            case frontend.ResizeOp():
                return resize(op, args[0], self.symbols)
            case frontend.GridSampleOp():
                return grid_sample(op, *args)
            case frontend.GatherBase():
                return gathered(op, *args)
            case frontend.ScatterBase():
                return scattered(op, *args)
            case frontend.PoolOp():
                return pool(op, args[0], self.symbols, self.exact)
            case frontend.AdaptivePoolOp():
                return adaptive_pool(op, args[0], self.exact)
            case frontend.ArgPoolOp():
                return arg_pool(op, args[0], self.symbols)
            case frontend.SoftmaxOp() | frontend.LogSoftmaxOp():
                return self._softmax(args[0], op.axes, isinstance(op, frontend.LogSoftmaxOp))
            case frontend.LayerNormOp() | frontend.RmsNormOp():
                return self._norm(op, args)
            case frontend.ConcatOp():
                return np.concatenate(args, op.axis)
            case MovementOp():
                return views.move(op, args[0], self.symbols)
            case _:
                fail("UnsupportedProgram", f"{op.name} has no playback in a frontend graph", op)

    def _operands(self, op: Operation, of: Sequence[SSAValue], *arrays: Array) -> list[Array]:
        """Operands of a contraction: rounded to their type, in the type of the sum."""
        element = frontend.tensor_of(of[0]).element_type
        if element != f32:
            arrays = tuple(
                widen(_rounding_of(op, value)(a, element))
                for value, a in zip(of, arrays, strict=True)
            )
        return [a.astype(np.float64) for a in arrays] if self.exact else list(arrays)

    def _gemm(self, op: frontend.GemmOp, x: Array, y: Array) -> Array:
        if (weights := rounded_weights(op)) is not None:
            if weights.place == 0:
                x = functions.perhaps_rounded(x, weights.element)
            else:
                y = functions.perhaps_rounded(y, weights.element)
        a, b = self._operands(op, (op.a, op.b), x, y)
        if op.transpose_a is not None:
            a = np.swapaxes(a, -1, -2)
        if op.transpose_b is not None:
            b = np.swapaxes(b, -1, -2)
        return widen(np.matmul(a, b))

    def _sum(self, x: Array, axes: tuple[int, ...]) -> Array:
        kind = np.float64 if self.exact else np.float32
        return widen(np.expand_dims(functions.sum_over(x, axes, kind), axes))

    def _mean(self, x: Array, axes: tuple[int, ...]) -> Array:
        count = np.prod([x.shape[a] for a in axes], dtype=np.int64)
        return self._sum(x, axes) / np.float32(count)

    def _reduce(self, fn: str, x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
        match fn:
            case "mean":
                result = self._mean(x, axes)
            case "sum" if x.dtype.kind not in "iu":
                result = self._sum(x, axes)
            case _:
                result = np.expand_dims(functions.reduce(fn, x, axes), axes)
        return result if keepdims else np.squeeze(result, axes)

    def _softmax(self, x: Array, axes: tuple[int, ...], logs: bool) -> Array:
        shifted = x - np.max(x, axis=axes, keepdims=True, initial=np.float32(-np.inf))
        powers = np.exp(shifted)
        total = self._sum(powers, axes)
        return shifted - np.log(total) if logs else powers / total

    def _norm(self, op: frontend.LayerNormOp | frontend.RmsNormOp, args: list[Array]) -> Array:
        x = args[0]
        if isinstance(op, frontend.LayerNormOp):
            x = x - self._mean(x, op.axes)
        result = x * (np.float32(1) / np.sqrt(self._mean(x * x, op.axes) + np.float32(op.eps)))
        others = [i for i in range(x.ndim) if i not in op.axes]
        rest = [np.expand_dims(a, others) for a in args[1:]]
        if op.weight is not None:
            result = result * rest.pop(0)
        if rest:
            result = result + rest.pop(0)
        return result


def converted(
    x: Array, element: Attribute, rounder: Callable[[Array, Attribute], Array] = round_to
) -> Array:
    """``x`` after a cast that the user wrote, as it is inside a graph."""
    if element == i1:
        return x if x.dtype == np.bool_ else x != x.dtype.type(0)
    if not is_integer(element):
        x = round_to(x, f32)
    return widen(rounder(x, element))


def _rounding_of(op: Operation, operand: SSAValue) -> Callable[[Array, Attribute], Array]:
    """How a product rounds an operand: at any scale, or perhaps not at all, or as it is."""
    if isinstance(op, frontend.GemmOp) and scaled_load(operand) is not None:
        return functions.as_stored
    return round_freely if are_weights(operand) else round_to


def _rounder(op: frontend.CastOp) -> Callable[[Array, Attribute], Array]:
    """How a cast rounds: weights of a product may be divided later, or summed unrounded."""
    used = are_multiplied(op.result) or (are_summed(op.result) and are_multiplied(op.operand))
    free = used and are_weights(op.operand)
    return round_freely if free else round_to
