"""Differential checks: one input through every layer, compared with the FP32 reference.

The outputs of a module are played back on NumPy at the layer that it is at (rule 6 of
the design, S6.9); a disagreement names the layer and the first element that differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, Operation

from polyc.dialects.diagnostic import PolycError
from polyc.tools.pipeline import graphs

if TYPE_CHECKING:
    from polyc.dialects.signature import SignatureOp

Arrays = Sequence[Any]
"""NumPy arrays; NumPy itself is imported only where something is computed."""


def play(module: ModuleOp, name: str, inputs: Arrays, symbols: Mapping[str, int]) -> Arrays | None:
    """The outputs of the program ``name`` at the layer that ``module`` is at.

    None below the region layer, where there is no playback.
    """
    for op in module.ops:
        sym_name = op.properties.get("sym_name")
        if sym_name is None or getattr(sym_name, "data", None) != name:
            continue
        if (outputs := _play_op(op, inputs, symbols)) is not None:
            return outputs
    return None


def _play_op(op: Operation, inputs: Arrays, symbols: Mapping[str, int]) -> Arrays | None:
    match op.name:
        case "frontend.graph":
            from polyc.dialects.frontend import GraphOp
            from polyc.playback import frontend

            assert isinstance(op, GraphOp)
            return frontend.run(op, list(inputs), symbols)
        case "tiny.graph":
            from polyc.dialects.tiny import GraphOp as TinyGraphOp
            from polyc.playback import tiny

            assert isinstance(op, TinyGraphOp)
            return tiny.run(op, list(inputs), symbols)
        case "region.kernel":
            from polyc.dialects.region import KernelOp
            from polyc.playback import region

            assert isinstance(op, KernelOp)
            return region.run(op, list(inputs), symbols)
        case _:
            return None


@dataclass
class Expected:
    """What a program computes on one random input, to compare layers with.

    ``outputs`` are the reference's, in f32 and not rounded where the program is a
    frontend graph; a program that starts lower is its own reference.
    """

    name: str
    symbols: Mapping[str, int]
    inputs: Arrays
    outputs: Arrays
    types: Sequence[Attribute]
    names: Sequence[str]

    @staticmethod
    def of(graph: SignatureOp, symbols: Mapping[str, int], seed: int = 0) -> Expected:
        from polyc.dialects.frontend import GraphOp
        from polyc.playback.reference import make_inputs, reference

        inputs = make_inputs(graph, symbols, seed)
        if isinstance(graph, GraphOp):
            outputs: Arrays | None = reference(graph, inputs, symbols)
        else:
            outputs = _play_op(graph, inputs, symbols)
        assert outputs is not None
        specs = graph.outputs
        return Expected(
            graph.sym_name.data,
            symbols,
            inputs,
            outputs,
            [spec.type.element_type for spec in specs],
            [spec.name for spec in specs],
        )

    def compare(self, layer: str, outputs: Arrays) -> float:
        """The largest absolute error of ``outputs``.

        Raises PolycError of kind ``Disagreement`` that names the layer, the output and
        its first element that is beyond the tolerance of S0.6.
        """
        import numpy as np

        from polyc.playback.reference import tolerance_check

        largest = 0.0
        rows = zip(self.names, self.types, outputs, self.outputs, strict=True)
        for name, kind, actual, expected in rows:
            mismatch = tolerance_check(actual, expected, kind)
            if mismatch is not None:
                raise PolycError(
                    "Disagreement",
                    f"{layer} differs from the FP32 reference of @{self.name} at "
                    f"{sizes_text(self.symbols)}: output {name}, {mismatch}",
                )
            if actual.size:
                with np.errstate(all="ignore"):
                    error = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
                largest = max(largest, float(np.nanmax(np.where(np.isfinite(error), error, 0.0))))
        return largest

    def check(self, module: ModuleOp, layer: str) -> float | None:
        """Play ``module`` back and compare; None where its layer has no playback."""
        outputs = play(module, self.name, self.inputs, self.symbols)
        return None if outputs is None else self.compare(layer, outputs)


def sizes_text(symbols: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in symbols.items()) or "its constant sizes"


SMALL = (3, 5, 4, 7, 2, 8, 16, 1, 32, 64, 128)
"""Sizes that a check tries first: small, unequal, then powers of two for assumptions."""


def small_sizes(graph: SignatureOp) -> dict[str, int]:
    """Small sizes, unlike where they can be, that satisfy the graph's assumptions.

    Raises PolycError of kind ``NoSizes`` when none of the tried ones do.
    """
    symbols = graph.symbol_names
    for values in _candidates(len(symbols)):
        sizes = dict(zip(symbols, values, strict=True))
        if all(fact.holds(sizes) for fact in graph.facts):
            return sizes
    facts = ", ".join(map(str, graph.facts))
    raise PolycError("NoSizes", f"no small sizes satisfy {facts} of @{graph.sym_name.data}", graph)


def _candidates(count: int) -> Iterator[tuple[int, ...]]:
    yield tuple(SMALL[i % 4] for i in range(count))
    if count <= 4:
        yield from product(SMALL, repeat=count)
    else:
        for size in SMALL:
            yield (size,) * count


class EachPass:
    """Compares after every pass; ``of_module`` takes small random inputs (``--check-each``)."""

    def __init__(self, *expected: Expected) -> None:
        self.expected = expected

    @staticmethod
    def of_module(module: ModuleOp, seed: int = 0) -> EachPass:
        return EachPass(*(Expected.of(g, small_sizes(g), seed) for g in graphs(module)))

    def after(self, module: ModuleOp, name: str) -> None:
        """Compare; raises PolycError that names the pass ``name``."""
        for expected in self.expected:
            expected.check(module, f"the module after {name}")
