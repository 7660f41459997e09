"""How long a product of f32 takes whose tiles threads multiply by themselves (S11.1).

The formula is that of ``cost/products.py``, with other times: a step lasts as long as its
multiply-adds and the loads of what they multiply take on a multiprocessor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from polyc.cost.products import Terms, Tiles, longest
from polyc.dialects.gpu.tile.compute import FMA_VECTOR, fma_lanes

KILO, F32_BYTES = 1024, 4

PEAK = 4.4
"""Nanoseconds of 1024 multiply-adds of a multiprocessor by its data sheet: 128 at 1.8 GHz."""

WARPS = 8
"""Of a block that has a multiprocessor to itself and keeps it busy."""


@dataclass(frozen=True, slots=True)
class ExactRates:
    """What one multiprocessor does, in ns.

    ``products``  1024 multiply-adds
    ``loads``     1024 loads of a warp's lanes, of 16 bytes each, beside them
    ``alone``     the part of both that is added where a block is alone and has half of ``WARPS``
    ``start``     of a kernel
    ``fill``      until the first step of a block is there
    ``element``   of a tile, from sums to memory, 1024 of them
    ``draw``      bytes that a multiprocessor draws from L2
    ``latency``   of a stage's copies, from its being free until it is full
    ``second``    of a second kernel, which adds sums
    ``sums``      bytes that all of them store and add
    """

    products: float = 4.2
    loads: float = 750.0
    alone: float = 0.15
    start: float = 1000
    fill: float = 1200
    element: float = 60
    draw: float = 40
    latency: float = 900
    second: float = 2000
    sums: float = 1477


H100_EXACT = ExactRates()


def step_ns(plan: Tiles, warp: tuple[int, int], rates: ExactRates) -> float:
    """A step of a block's tile on a multiprocessor that is busy with it, in warps of so many rows
    and columns: what it multiplies, or brings."""
    high, wide = (size // lanes for size, lanes in zip(warp, fma_lanes(*warp), strict=True))
    products = plan.rows * plan.columns * plan.depth
    loads = products / (32 * high * wide) * (high + wide) / FMA_VECTOR
    drawn = (plan.rows + plan.columns) * plan.depth * F32_BYTES / rates.draw
    return longest((products * rates.products + loads * rates.loads) / KILO, drawn)


def slower(plan: Tiles, warp: tuple[int, int], rates: ExactRates = H100_EXACT) -> float:
    """How much longer a step takes than its multiply-adds would alone, where each lane of a
    multiprocessor has one in a cycle."""
    products = plan.rows * plan.columns * plan.depth
    return step_ns(plan, warp, rates) / (products * PEAK / KILO)


@cache
def exact_terms(
    plan: Tiles, warp: tuple[int, int], chip: int, rates: ExactRates = H100_EXACT
) -> Terms:
    """The factors of a plan's formula."""
    kilo = plan.rows * plan.columns / KILO
    warps = plan.rows * plan.columns // (warp[0] * warp[1])
    work, waits = step_ns(plan, warp, rates), rates.latency / max(1, plan.stages - 1)
    own, turn = longest(work * (1 + rates.alone * max(0, WARPS / warps - 1)), waits), 0.0
    if plan.at_once > 1:
        one = own
        own = (longest(work * plan.at_once, waits) - one) / (plan.at_once - 1)
        turn = one - own
    return Terms(
        round(rates.start + (rates.second if plan.summed else 0)),
        round(rates.fill),
        round(kilo * rates.element),
        round(own),
        round(turn),
        chip * plan.at_once,
        round(rates.sums) if plan.summed else 0,
    )
