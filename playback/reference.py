"""What a program should compute, and how near is near enough (S0.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import f32, i1
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.signature import SignatureOp
from polyc.playback.frontend import evaluate
from polyc.playback.functions import Array, round_to, ulp
from polyc.playback.signature import check_symbols, sizes

RTOL = 1e-3
ATOL = 1e-3


def reference(
    graph: frontend.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> list[Array]:
    """The outputs of ``graph`` in f32, not rounded to their stored types.

    Sums of gemm, conv2d, attention, reduce and the norms are accumulated in f64 and
    rounded once to f32; all else is f32.
    """
    return evaluate(graph, inputs, symbols, exact_sums=True)


def make_inputs(graph: SignatureOp, symbols: Mapping[str, int], seed: int = 0) -> list[Array]:
    """Uniform values in [-1, 1) for every input, rounded to the stored types; i1 by its sign.

    The same seed gives the same arrays; each input has a stream of its own.  Works for a
    graph of any layer that has a signature.
    """
    check_symbols(graph, symbols)
    arrays: list[Array] = []
    for position, spec in enumerate(graph.inputs):
        random = np.random.default_rng([seed, position])
        shape = sizes(spec.type.dims, symbols)
        values = random.uniform(-1.0, 1.0, shape).astype(np.float32)
        element = spec.type.element_type
        arrays.append(values < 0 if element == i1 else round_to(values, element))
    return arrays


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first element that differs, and how many do."""

    index: tuple[int, ...]
    actual: float
    expected: float
    tolerance: float
    count: int
    total: int

    def __str__(self) -> str:
        return (
            f"element {list(self.index)} is {self.actual:.9g}, expected {self.expected:.9g} "
            f"within {self.tolerance:.3g}; {self.count} of {self.total} elements differ"
        )


class ShapeMismatch(ValueError):
    """Arrays of unlike shapes were compared."""


def tolerance_check(
    actual: Array, expected: Array, element_type: Attribute, slack: Array | float = 0.0
) -> Mismatch | None:
    """None when ``actual`` agrees with the f32 reference ``expected``, else what differs.

    They agree within rtol = atol = 1e-3 plus one ulp of ``element_type``, the output's, and
    ``slack``: what roundings that S0.6 asks for inside may change, such as those of operands.
    NaN agrees with NaN only; an infinity with the same infinity, or with a finite value
    that lies so near the largest of the type that the tolerance reaches beyond it.
    Conditions, of type i1, agree where they are equal.  Raises ShapeMismatch.
    """
    element_type = f32 if element_type == i1 else element_type
    if actual.shape != expected.shape:
        raise ShapeMismatch(f"shape {list(actual.shape)}, expected {list(expected.shape)}")
    with np.errstate(all="ignore"):
        a, e = actual.astype(np.float64), expected.astype(np.float64)
        finite = np.isfinite(e)
        near = np.where(finite, e, 0.0)
        tolerance = ATOL + RTOL * np.abs(near) + ulp(near, element_type) + slack
        within = np.abs(a - e) <= tolerance
        # Where an end of the interval rounds to an infinity, that infinity agrees.
        low = round_to(near - tolerance, element_type).astype(np.float64)
        high = round_to(near + tolerance, element_type).astype(np.float64)
        overflow = np.isinf(a) & ((a == low) | (a == high))
        same = (a == e) | (np.isnan(a) & np.isnan(e))
        agree = (finite & (within | overflow)) | (~finite & same)
    differing = np.flatnonzero(~agree)
    if not differing.size:
        return None
    first = int(differing[0])
    index = tuple(int(i) for i in np.unravel_index(first, actual.shape))
    return Mismatch(
        index,
        float(a[index]),
        float(e[index]),
        float(tolerance[index]) if finite[index] else 0.0,
        int(differing.size),
        int(actual.size),
    )
