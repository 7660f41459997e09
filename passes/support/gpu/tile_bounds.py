"""Coordinates that stay inside of a tensor because their tile does (S9.2)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp
from polyc.passes.support.gpu.index_forms import (
    Forms,
    Row,
    at_least,
    equal,
    possible,
    value_of,
)
from polyc.passes.support.gpu.signs import never_negative
from polyc.passes.support.gpu.symbols import constant_of, is_size


def inside_tile(index: SSAValue, dim: Dim, kernel: KernelOp) -> bool:
    """Whether a coordinate on an axis of ``dim`` points is one of a tile that is whole there.

    It is a place of a loop over tiles and less than a tile's size more, the loop goes over ``dim``
    points, and tiles divide these; or all that it is made of is in a range of known numbers, and no
    point of these is outside, as of what is read where an image is made larger.  Nothing is said of
    clusters, whose last tiles may be outside.
    """
    if kernel.cluster is not None:
        return False
    forms = Forms()
    return all(
        _inside(forms, form.expr, form.rows, dim, kernel)
        or _never_outside(forms, form.expr, form.rows, dim, kernel)
        for form in forms.of(index)
    )


def _never_outside(
    forms: Forms, expr: AffineExpr, rows: tuple[Row, ...], dim: Dim, kernel: KernelOp
) -> bool:
    """Whether a coordinate is on an axis of a known number of points wherever its tile is."""
    size, known = dim.constant(), [*rows]
    if size is None:
        return False
    for position in expr.used_dims():
        place, leaf = AffineDimExpr(position), forms.leaves[position]
        bounds = [*_range(place, leaf, kernel), *_places(place, leaf)]
        if len(bounds) < 2 and not rows:
            return False  # It has no end.
        known += bounds
    outside = at_least(expr, size), at_least(-expr, 1)
    return not any(possible((*known, row)) for row in outside)


def _places(place: AffineExpr, leaf: Hashable) -> Iterator[Row]:
    """What is known of the place of a tile along an axis of a known number of points."""
    value = value_of(leaf)
    loop = None if value is None or not isinstance(value.owner, Block) else value.owner.parent_op()
    if value is None or not isinstance(loop, tile.TileLoopOp) or value not in loop.coordinates:
        return
    axis = list(loop.coordinates).index(value)
    step, points = loop.tile.data[axis], constant_of(loop.sizes[axis])
    if points is not None and points > 0:
        yield at_least(place)
        yield at_least(-place, -((points - 1) // step * step))
        if step > 1:
            yield equal(place, place // step * step)


def _inside(
    forms: Forms, expr: AffineExpr, rows: tuple[Row, ...], dim: Dim, kernel: KernelOp
) -> bool:
    places = [AffineDimExpr(position) for position in sorted(expr.used_dims())]
    for place in places:
        size = _tile_at(forms.leaves[place.position], dim, kernel)
        if size is None:
            continue
        known = [*rows]
        for other in places:
            known += _range(other, forms.leaves[other.position], kernel)
        offset = expr - place
        if not possible((*known, at_least(offset, size))) and not possible(
            (*known, at_least(-offset, 1))
        ):
            return True
    return False


def _tile_at(leaf: Hashable, dim: Dim, kernel: KernelOp) -> int | None:
    """The size of the tiles whose place a leaf is, where these divide ``dim``."""
    value = value_of(leaf)
    loop = None if value is None or not isinstance(value.owner, Block) else value.owner.parent_op()
    if value is None or not isinstance(loop, tile.TileLoopOp) or value not in loop.coordinates:
        return None
    axis = list(loop.coordinates).index(value)
    size = loop.tile.data[axis]
    if not is_size(loop.sizes[axis], dim, kernel):
        return None
    rest = dim.mod(size)
    if rest.constant() == 0:
        return size
    module = kernel.parent_op()
    known = module.assumptions.data if isinstance(module, gpu.ModuleOp) else ()
    return size if Assumption(rest, "==") in known else None


def _range(place: AffineExpr, leaf: Hashable, kernel: KernelOp) -> Iterator[Row]:
    """What is known of a leaf: threads and loops of known bounds."""
    if leaf == hw.ThreadIdOp.name:
        yield at_least(place)
        yield at_least(-place, 1 - kernel.threads.value.data)
        return
    value = value_of(leaf)
    if value is None:
        return
    if never_negative(value):
        yield at_least(place)
    loop = value.owner.parent_op() if isinstance(value.owner, Block) else None
    if isinstance(loop, scf.ForOp) and value is loop.body.block.args[0]:
        low, high = constant_of(loop.lb), constant_of(loop.ub)
        if low is not None and high is not None:
            yield at_least(place, low)
            yield at_least(-place, 1 - high)
