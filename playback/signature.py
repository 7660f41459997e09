"""Arguments of a graph at playback: are these arrays and sizes what its signature takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polyc.dialects.common.diagnostic import fail
from polyc.dialects.common.dim import Shape, shape_text
from polyc.dialects.common.signature import SignatureOp, SizedTensorType
from polyc.playback.functions import Array, as_array, dtype_of


def sizes(shape: Shape, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """The shape as integers.  Raises PolycError where a size comes out negative."""
    found = tuple(d.evaluate(symbols) for d in shape)
    if any(n < 0 for n in found):
        values = ", ".join(f"{k}={v}" for k, v in symbols.items())
        fail(
            "BadArgument",
            f"shape {shape_text(shape)} is {list(found)} at {values}; sizes are 0 or more",
        )
    return found


def check_symbols(graph: SignatureOp, symbols: Mapping[str, int]) -> None:
    """Check that every symbol of ``graph`` has a size and that its assumptions hold.

    Raises PolycError of kind ``BadArgument``.
    """
    name = graph.sym_name.data
    missing = [s for s in graph.symbol_names if s not in symbols]
    if missing:
        fail(
            "BadArgument",
            f"@{name} needs a size for {', '.join(missing)}; its symbols are "
            f"{', '.join(graph.symbol_names)}",
            graph,
        )
    for symbol in graph.symbol_names:
        if symbols[symbol] < 0:
            fail("BadArgument", f"{symbol}={symbols[symbol]} is negative; sizes are 0 or more")
    for fact in graph.facts:
        if not fact.holds(symbols):
            values = ", ".join(f"{s}={symbols[s]}" for s in fact.expr.symbols())
            fail(
                "BadArgument",
                f"@{name} assumes {fact}, which {values} does not satisfy; choose other sizes "
                "or drop the assumption",
                graph,
            )


def bind(graph: SignatureOp, inputs: Sequence[Array], symbols: Mapping[str, int]) -> list[Array]:
    """``inputs`` as arrays, after checking number, shapes, types and ``check_symbols``."""
    check_symbols(graph, symbols)
    specs = graph.inputs
    name = graph.sym_name.data
    if len(inputs) != len(specs):
        fail("BadArgument", f"@{name} takes {len(specs)} inputs, not {len(inputs)}", graph)
    for spec, array in zip(specs, inputs, strict=True):
        expected = sizes(spec.type.dims, symbols)
        if array.shape != expected:
            fail(
                "BadArgument",
                f"input {spec.name} of @{name} is {shape_text(spec.type.dims)} = "
                f"{list(expected)}; the array has {list(array.shape)}",
                graph,
            )
        dtype = dtype_of(spec.type.element_type)
        if array.dtype != dtype:
            fail(
                "BadArgument",
                f"input {spec.name} of @{name} is {dtype}; the array is {array.dtype}",
                graph,
            )
    return [as_array(a) for a in inputs]


def value_sizes(type: SizedTensorType, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """The shape of a value of ``type``, as integers."""
    return sizes(type.dims, symbols)
