"""What a program should compute (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyc.dialects import frontend
from polyc.dialects.common.signature import SignatureOp
from polyc.playback import draws
from polyc.playback.estimate import Estimate, as_estimate
from polyc.playback.frontend import evaluate
from polyc.playback.functions import Array, posing
from polyc.playback.signature import check_symbols, sizes
from polyc.rewriting.frontend.parameters import lifted


def reference(
    graph: frontend.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> list[Estimate]:
    """The outputs of ``graph`` in f32, not rounded to their stored types, with their errors.

    Sums of gemm, conv2d, attention, reduce and the norms are accumulated in f64 and
    rounded once to f32; all else is f32.
    """
    found = evaluate(graph, known(inputs), symbols, exact_sums=True)
    return [as_estimate(x) for x in found]


def known(inputs: Sequence[Array]) -> list[Array]:
    """Inputs that are exact, for a playback whose errors are asked for."""
    return [posing(Estimate(x)) for x in inputs]


def make_inputs(
    graph: SignatureOp, symbols: Mapping[str, int], seed: int = 0, draw: str = "uniform"
) -> list[Array]:
    """Random values for every input and parameter, as stored, of the kind ``draw``.

    ``playback/draws.py`` has the kinds.  What is ``special`` is so in one input, by the seed, so
    that its NaN do not meet everywhere.  The same seed gives the same arrays; each input has a
    stream of its own.  Works for a graph of any layer that has a signature.
    """
    check_symbols(graph, symbols)
    if isinstance(graph, frontend.GraphOp):
        graph = lifted(graph)
    arrays: list[Array] = []
    for position, spec in enumerate(graph.inputs):
        plain = draw == "special" and position != seed % len(graph.inputs)
        shape, element = sizes(spec.type.dims, symbols), spec.type.element_type
        arrays.append(draws.draw("uniform" if plain else draw, [seed, position], shape, element))
    return arrays
