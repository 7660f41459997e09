"""NumPy semantics of ``frontend``'s random numbers and dropout (S12.6)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from polyc.dialects import frontend
from polyc.dialects.frontend.random import UNIFORM_BITS, chances
from polyc.playback import functions, philox
from polyc.playback.functions import Array
from polyc.playback.signature import value_sizes

TURN = np.float32(2 * math.pi)
"""A full turn."""


def _words(
    shape: tuple[int, ...], seed: Array, offset: Array, neighbours: bool = False
) -> tuple[Array, Array]:
    """The random word of each element of a tensor, in ui32, and the place that it has.

    With ``neighbours`` the word of the place that differs in its last bit.
    """
    count = np.arange(math.prod(shape), dtype=np.uint64).reshape(shape)
    places = np.add(count, offset.astype(np.uint64))
    asked = np.bitwise_xor(places, np.uint64(1)) if neighbours else places
    return philox.pair(asked, seed.astype(np.uint64)).astype(np.uint32), places


def random(op: frontend.RandomOp, args: list[Array], symbols: Mapping[str, int]) -> Array:
    """The numbers of a ``frontend.random``, from its seed and offset."""
    kind = frontend.tensor_of(op.result)
    shape = value_sizes(kind, symbols)
    seed, offset = args
    words, places = _words(shape, seed, offset)
    match op.distribution:
        case "bits":
            return words
        case "bernoulli":
            assert op.p is not None
            return _below(words, op.p)
        case "uniform":
            return from_bits(words, UNIFORM_BITS[kind.element_type])
        case _:
            return _normal(words, _words(shape, seed, offset, neighbours=True)[0], places)


def dropout(op: frontend.DropoutOp, args: list[Array], symbols: Mapping[str, int]) -> Array:
    """What a ``frontend.dropout`` keeps, scaled, and 0 elsewhere."""
    words, _ = _words(value_sizes(frontend.tensor_of(op.result), symbols), args[1], args[2])
    kept = np.multiply(args[0], np.float32(op.scale))
    return np.where(_below(words, 1 - op.p), kept, np.float32(0))


def _below(words: Array, p: float) -> Array:
    return functions.as_array(np.less(words.astype(np.uint64), np.uint64(chances(p))))


def from_bits(words: Array, bits: int) -> Array:
    """Numbers of 0 to 1, without 1, of the highest ``bits`` of words."""
    high = np.right_shift(words, np.uint32(32 - bits))
    return np.multiply(high.astype(np.float32), np.float32(2.0**-bits))


def _normal(words: Array, others: Array, places: Array) -> Array:
    """Box and Muller's method: the first of two neighbours says how far, the second where to."""
    even = np.equal(np.bitwise_and(places, np.uint64(1)), np.uint64(0))
    first, second = np.where(even, words, others), np.where(even, others, words)
    far = np.maximum(first, np.uint32(1)).astype(np.float32) * np.float32(2.0**-32)
    radius = np.sqrt(np.log(far) * np.float32(-2))
    angle = from_bits(second, 24) * TURN
    return radius * np.where(even, functions.cos(angle), functions.sin(angle))
