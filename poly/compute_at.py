"""Compute-at legality: may a producer be computed inside the tiles of its consumer? (S7.1)

The consumer's points are cut into tiles along some of its axes, ``floor(axis / tile)``.  The
relation asked about is

    clash = { (p, q) : p and q are consumer points that need the same element of the producer,
                       and lie in different tiles }

over every way from the consumer to the producer.  No clash: each element is needed by one
tile, the producer can be computed there, and nothing is computed twice (``exact``).  Clashes
that are all nearer than the tile along each axis are a halo: neighbours compute a border of
bounded width again.  Any other clash refuses, with the two points as a counterexample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSet

from polyc.affine import isl
from polyc.affine.expressions import constraint_of, linear_of
from polyc.dialects.index import Reach, moved_row
from polyc.dialects.index.attrs import at_least_zero
from polyc.poly.names import axis_names, value_name
from polyc.poly.ways import Blocked, entry_of, facts_of, ways


@dataclass(frozen=True, slots=True)
class Clash:
    """An element of the producer that two consumer points in different tiles need.

    ``first`` and ``second`` are points of the consumer's axes and reduced axes; ``symbols``
    are values in the order of the signature.
    """

    element: tuple[int, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]
    symbols: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Whether a producer may be computed at a tile of its consumer, and why not.

    ``ok`` holds where every clash is nearer than the tile, ``exact`` where there is none.
    ``axis`` is the consumer's axis that refuses, or has the halo; ``clash`` its counterexample.
    """

    ok: bool
    exact: bool
    reason: str = ""
    axis: int | None = None
    clash: Clash | None = None


def compute_at(
    producer: SSAValue,
    consumer: SSAValue,
    tiles: Mapping[int, int],
    reads: Sequence[Reach] | None = None,
    names: Mapping[SSAValue, str] | None = None,
) -> ComputeAt:
    """Whether ``producer`` may be computed inside each tile of ``consumer``.

    Both are tiny values with an index book.  ``tiles`` maps a position among the consumer's
    axes and then its reduced axes to the tile's size in points; an axis that it does not name
    lies whole in every tile.  ``reads`` are the ways that count, all of them without it: a
    value that lies in memory is read again by each of its readers.  ``names`` are those of the
    graph's values, where they are known.

    Raises ``IslLimitExceeded``, IndexError on a position that is not there and ValueError on a
    tile below 1.
    """
    axes = entry_of(consumer).all_axes
    own = len(axes)
    for axis, tile in tiles.items():
        if not 0 <= axis < len(axes):
            raise IndexError(f"the consumer has {len(axes)} axes, and {axis} is not one of them")
        if tile < 1:
            raise ValueError(f"the tile of axis {axis} is {tile}; it is 1 or more")
    found = ways(consumer, producer) if reads is None else reads
    if isinstance(found, Blocked):
        return ComputeAt(False, False, found.reason)
    facts = facts_of(consumer)
    halo = ComputeAt(True, True)
    for axis, tile in tiles.items():
        if _walked_alone(found, axis):
            continue
        if (clash := _clash(found, facts, axis, tile, tile, own)) is not None:
            why = _sentence(producer, consumer, axis, clash, names)
            return ComputeAt(False, False, why, axis, clash)
        near = _clash(found, facts, axis, tile, 1, own) if tile > 1 and halo.exact else None
        if near is not None:
            why = _sentence(producer, consumer, axis, near, names)
            halo = ComputeAt(True, False, why, axis, near)
    return halo


def legal_axes(
    producer: SSAValue,
    consumer: SSAValue,
    reads: Sequence[Reach] | None = None,
    names: Mapping[SSAValue, str] | None = None,
) -> tuple[int, ...]:
    """The axes of ``consumer`` at each point of which ``producer`` is computed once.

    A set of axes is legal exactly when each of them is.  One of which data says the place is none:
    it is not gone along.  Empty where the two are not connected by affine accesses.  ``reads`` and
    ``names`` as for ``compute_at``.  Raises ``IslLimitExceeded``.
    """
    entry = entry_of(consumer)
    every = range(len(entry.axes if entry.gathers else entry.all_axes))
    return tuple(a for a in every if compute_at(producer, consumer, {a: 1}, reads, names).exact)


def _clash(
    found: Sequence[Reach], facts: AffineSet, axis: int, tile: int, apart: int, own: int
) -> Clash | None:
    """Points of different tiles of ``axis``, ``apart`` points or more, that need one element."""
    for a, b in product(found, repeat=2):
        first, second = AffineDimExpr(axis), AffineDimExpr(len(a.axes) + axis)
        rows = [second - first - apart]
        if tile > 1:
            rows.append(second // tile - first // tile - 1)
        if (sample := isl.sample_point(one_element(a, b, facts, rows))) is not None:
            dims, symbols = sample
            p, q = dims[: len(a.axes)], dims[len(a.axes) :]
            element = tuple(a.map.eval(list(p), list(symbols)))
            return Clash(element, p[:own], q[:own], symbols)
    return None


def _walked_alone(found: Sequence[Reach], axis: int) -> bool:
    """Whether one coordinate is the axis itself in every way: one element, one point of it."""
    if not found:
        return False
    walk = AffineDimExpr(axis)
    rank = range(len(found[0].map.results))
    return any(all(way.map.results[i] == walk for way in found) for i in rank)


def one_element(a: Reach, b: Reach, facts: AffineSet, more: Sequence[AffineExpr]) -> AffineSet:
    """The pairs of points at which two ways read the same element.

    Dimensions are those of ``a``, then those of ``b``; each expression of ``more`` is 0 or
    above.  ``facts`` are over the symbols alone.
    """
    split, dims = len(a.axes), len(a.axes) + len(b.axes)
    shifted = [AffineDimExpr(split + i) for i in range(len(b.axes))]
    rows = [*facts.constraints, *a.domain.constraints]
    rows += [moved_row(r, shifted) for r in b.domain.constraints]
    for mine, other in zip(a.map.results, b.map.results, strict=True):
        rows.append(
            constraint_of(
                linear_of(mine - other.replace_dims_and_symbols(shifted, ())), equality=True
            )
        )
    rows += [at_least_zero(isl.canonical_expr(e)) for e in more]
    return AffineSet(dims, a.map.num_symbols, tuple(rows))


def _sentence(
    producer: SSAValue,
    consumer: SSAValue,
    axis: int,
    clash: Clash,
    names: Mapping[SSAValue, str] | None,
) -> str:
    entry = entry_of(consumer)
    symbols = entry.symbol_names
    name = axis_names(entry.all_axes, symbols, len(entry.axes))[axis]
    made = value_name(producer) if names is None else names[producer]
    sizes = ", ".join(f"{n} = {v}" for n, v in zip(symbols, clash.symbols, strict=True))
    return (
        f"element {list(clash.element)} of {made} is needed at "
        f"{name} = {clash.first[axis]} and at {name} = {clash.second[axis]}"
        + (f" when {sizes}" if sizes else "")
    )
