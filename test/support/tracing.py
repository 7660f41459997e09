"""A function over values, traced and played back on arrays of NumPy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from polyc.dialects.frontend import GraphOp
from polyc.playback import frontend
from polyc.tools.printing import module_text
from polyc.trace.annotations import Tensor, TensorAnnotation, read_assumptions
from polyc.trace.tracing import Traced, traced

ELEMENTS = {
    **{"float16": "f16", "float32": "f32", "bool": "i1"},
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"ui{n}" for n in (8, 16, 32, 64)},
}


def trace(function: Callable[..., Any], *kinds: Any, assume: str = "") -> Traced:
    """The graph of a function of these tensors, which are called a, b, c, …."""
    named = {chr(ord("a") + i): kind for i, kind in enumerate(kinds)}

    def arguments(values: Mapping[str, Any]) -> tuple[Sequence[Any], Mapping[str, Any]]:
        return list(values.values()), {}

    return traced(function, named, arguments, name="f", facts=read_assumptions(assume))


def text(function: Callable[..., Any], *kinds: Any, assume: str = "") -> str:
    """The text of the ops that a function records."""
    return module_text(trace(function, *kinds, assume=assume).module)


def played(function: Callable[..., Any], *arrays: Any, fixed: bool = False) -> Any:
    """What a function gives on arrays, whose sizes are symbols of the trace where they differ.

    Sizes of the same number are one symbol; a size of 1 stays a number, as only it stretches, and
    all do where they are ``fixed``.
    """
    kinds: list[TensorAnnotation] = []
    symbols: dict[str, int] = {}
    for array in arrays:
        sizes: list[object] = [n if n == 1 or fixed else f"S{n}" for n in array.shape]
        symbols |= {f"S{n}": n for n in array.shape if n != 1 and not fixed}
        kinds.append(cast("Any", Tensor)[(*sizes, ELEMENTS[array.dtype.name])])
    found = trace(function, *kinds)
    graph = found.module.body.block.first_op
    assert isinstance(graph, GraphOp)
    with np.errstate(all="ignore"):
        outputs = frontend.run(graph, list(arrays), symbols)
    return outputs[0] if found.shape == "one" else outputs
