"""Random inputs of several kinds: each shows mistakes that the others hide (S0.6).

Numbers in [-1, 1) alone never overflow an exponential, so that a softmax that subtracts the least
of a row in place of the largest looks right on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute

from polyc.dialects.common.elements import bounds, is_integer
from polyc.playback.functions import MIN_EXPONENT, Array, dtype_of, round_to

Draw = Callable[[np.random.Generator, tuple[int, ...], int], Array]
"""Values of a shape, in f32; the last argument is the least exponent of a normal number."""


def _uniform(random: np.random.Generator, shape: tuple[int, ...], least: int) -> Array:
    return np.asarray(random.uniform(-1.0, 1.0, shape), np.float32)


def _large(random: np.random.Generator, shape: tuple[int, ...], least: int) -> Array:
    """Up to 8, and one in 16 of 128 to 256: differences that no exponential can hold.

    Few are that large, so that sums of products of them stay below f16's largest number.
    """
    found = np.float32(8) * _uniform(random, shape, least)
    far = np.sign(found) * random.uniform(128.0, 256.0, shape)
    return np.where(random.uniform(0, 1, shape) < 1 / 16, far, found).astype(np.float32)


def _mixed(random: np.random.Generator, shape: tuple[int, ...], least: int) -> Array:
    """Magnitudes from 2⁻¹² to 2⁴, evenly in their exponents, so that terms of a sum cancel."""
    powers = np.exp2(random.uniform(-12.0, 4.0, shape))
    return (np.sign(random.uniform(-1.0, 1.0, shape)) * powers).astype(np.float32)


def _rows(random: np.random.Generator, shape: tuple[int, ...], least: int) -> Array:
    """One number along the last axis, in about half of the rows; one of many rows is zeros."""
    found = _uniform(random, shape, least)
    if not shape:
        return found
    lead = (*shape[:-1], 1)
    constant = np.float32(8) * _uniform(random, lead, least)
    constant[random.uniform(0, 1, lead) < 0.1] = 0
    return np.where(random.uniform(0, 1, lead) < 0.5, constant, found).astype(np.float32)


def _tiny(random: np.random.Generator, shape: tuple[int, ...], least: int) -> Array:
    """Around the least normal number of the type, most of them subnormal."""
    return np.ldexp(_uniform(random, shape, least), least + 1).astype(np.float32)


def _special(random: np.random.Generator, shape: tuple[int, ...], least: int) -> Array:
    """In [-1, 1), with a few infinities, NaN and zeros of both signs."""
    found = _uniform(random, shape, least)
    flat = found.reshape(-1)
    for value in (0.0, -0.0, *random.permutation([np.inf, -np.inf, np.nan])[: 1 + flat.size // 64]):
        if flat.size:
            flat[int(random.integers(flat.size))] = value
    return found


DRAWS: dict[str, Draw] = {
    "uniform": _uniform,
    "large": _large,
    "mixed": _mixed,
    "rows": _rows,
    "tiny": _tiny,
    "special": _special,
}
"""The kinds of inputs; a check runs on each of them."""


def _integers(
    random: np.random.Generator, kind: str, shape: tuple[int, ...], element: Attribute
) -> Array:
    dtype, (least, most) = dtype_of(element), bounds(element)
    few = {"uniform": 8, "large": most, "mixed": 100, "tiny": 1}.get(kind, 16)
    found = random.integers(max(least, -few), min(most, few), shape, dtype, endpoint=True)
    if kind == "special":
        ends = np.asarray([least, most, 0, 1], dtype)
        found = np.where(random.uniform(0, 1, shape) < 0.25, random.choice(ends, shape), found)
    if kind == "rows" and shape:
        found = np.broadcast_to(found[..., :1], shape).copy() if found.size else found
    return np.asarray(found, dtype)


def draw(kind: str, seed: Sequence[int], shape: tuple[int, ...], element: Attribute) -> Array:
    """Values of ``kind`` rounded to ``element``; conditions (i1) hold where they are negative.

    Integers are small ones, and with ``special`` some of the least and the most of their type.

    The same seed gives the same array.  Raises KeyError for a kind that is not in ``DRAWS``.
    """
    if is_integer(element):
        return _integers(np.random.default_rng(seed), kind, shape, element)
    least = MIN_EXPONENT.get(element, 0)
    values = np.asarray(DRAWS[kind](np.random.default_rng(seed), shape, least))
    return np.asarray(values < 0) if element == i1 else round_to(values, element)
