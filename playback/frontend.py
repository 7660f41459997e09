"""NumPy semantics of the ``frontend`` dialect (S0.6, S6.9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from polyc.dialects import frontend
from polyc.dialects.diagnostic import fail
from polyc.playback import functions
from polyc.playback.functions import Array, round_to, widen
from polyc.playback.signature import bind


def run(
    graph: frontend.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> list[Array]:
    """The outputs of ``graph``, each in its stored type.

    ``inputs`` have the signature's shapes at ``symbols`` and its dtypes (bf16 is that of
    ``ml_dtypes``).  Values are f32 from the first load and rounded at casts, gemm operands
    and outputs.  Raises PolycError when an argument does not fit.
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

    With ``exact_sums`` a gemm is accumulated in f64 and rounded once to f32.
    """
    values: dict[SSAValue, Array] = {
        arg: widen(array)
        for arg, array in zip(graph.body.block.args, bind(graph, inputs, symbols), strict=True)
    }
    for op in graph.body.block.ops:
        args = [values[o] for o in op.operands]
        match op:
            case frontend.GemmOp():
                values[op.result] = _gemm(op, args[0], args[1], exact_sums)
            case frontend.ElementwiseOp():
                fn = op.function
                values[op.result] = (
                    functions.unary(fn, *args) if len(args) == 1 else functions.binary(fn, *args)
                )
            case frontend.CastOp():
                element = frontend.tensor_of(op.result).element_type
                values[op.result] = widen(round_to(args[0], element))
            case frontend.OutputOp():
                return args
            case _:
                _unknown(op)
    raise AssertionError("a verified graph ends in frontend.output")


def _gemm(op: frontend.GemmOp, a: Array, b: Array, exact: bool) -> Array:
    element = frontend.tensor_of(op.a).element_type
    if element != f32:
        a, b = widen(round_to(a, element)), widen(round_to(b, element))
    if exact:
        a, b = a.astype(np.float64), b.astype(np.float64)
    if op.transpose_a is not None:
        a = a.T
    if op.transpose_b is not None:
        b = b.T
    with np.errstate(all="ignore"):
        return widen(np.matmul(a, b))


def _unknown(op: Operation) -> None:
    if op.results:
        fail("UnsupportedProgram", f"{op.name} has no playback in a frontend graph", op)
