"""``region-to-gpu``: windows that slide along a tile's rows or lines, read into registers ahead.

A thread has all that the windows of its outputs read, and goes through their points one after
another with it; what does not slide it reads a point at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentLayoutAttr, FragmentType
from polyc.dialects.region import ReadOp
from polyc.families.loops.lines import Lines
from polyc.families.loops.recognise import axes_in, type_of
from polyc.families.loops.windows import Sliding, Window, WindowTile, held_value
from polyc.lowering.region_to_gpu.loop_base import LoopBase, Sum
from polyc.lowering.region_to_gpu.loop_scope import (
    AxisPlace,
    Scope,
    WindowPoint,
    placed,
    projection,
)
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Held, Wanted
from polyc.rewriting.emit import Emit


def slide(
    builder: LoopBase, scope: Scope, window: Window, tile_of: WindowTile, acc: SSAValue
) -> None:
    """The points of a window one after another, with what it reads in registers ahead."""
    (row, column), emit = (window.space.row, window.space.column), scope.emit
    assert row is not None and column is not None
    first = scope.inside(emit, window.label, AxisPlace(None, emit.index(0)))
    for one in window.sliding:
        sizes, layout = tile_of.window(one, window.taps)
        value, held = held_value(one.read), _ahead(emit, one.read, sizes, layout)
        places = {**first.places, row: AxisPlace(None, first.places[row].start)}
        hold(builder, Scope(emit, places), value, held, {one.read: one.result})
        builder.shared[value] = Held(held, (ROW, COLUMN))
    slid = {held_value(one.read): one for one in window.sliding}
    whole = dict(builder.shared)
    for tap in range(window.taps):
        here = scope.inside(emit, window.label, AxisPlace(None, emit.index(tap)))
        for read in window.still:
            hold_still(builder, here, read, (False, column in read.result.type.labels))
        for value, one in slid.items():
            at = ROW * one.step + tap * one.dilation
            builder.shared[value] = Held(whole[value].fragment, (at, COLUMN))
        builder.step(here, [Sum(window.reduce, acc)], {})
    builder.shared.clear()


def slide_along(builder: LoopBase, scope: Scope, lines: Lines, acc: SSAValue) -> None:
    """The same of windows that slide along lines: what they read is there in whole vectors."""
    tile_of, column, emit = builder.line_tile, lines.space.column, scope.emit
    assert tile_of is not None and column is not None
    places = {**scope.places, column: AxisPlace(None, scope.places[column].start)}
    wide: dict[SSAValue, tuple[Sliding, SSAValue]] = {}
    for one in lines.sliding:
        sizes, layout = tile_of.window(one, lines.taps)
        value, held = held_value(one.read), _ahead(emit, one.read, sizes, layout)
        before, at = tile_of.before(one), Scope(emit, places)
        hold(builder, at, value, held, {one.read: one.result}, COLUMN, before, lines.label)
        wide[value] = one, held
    for tap in range(lines.taps):
        here = scope.inside(emit, lines.label, AxisPlace(None, emit.index(tap)))
        for read in lines.still:
            hold_still(builder, here, read, (True, False))
        for value, (one, held) in wide.items():
            at = COLUMN * one.step + (tap * one.dilation + tile_of.before(one))
            builder.shared[value] = Held(held, (ROW, at))
        builder.step(here, [Sum(lines.reduce, acc)], {})
    builder.shared.clear()


def hold(
    builder: LoopBase,
    scope: Scope,
    value: SSAValue,
    held: SSAValue,
    slid: Mapping[Operation, int],
    along: AffineExpr = ROW,
    before: int = 0,
    first: str | None = None,
) -> None:
    """Bring a value at the places of a scope, and the ``first`` point of an axis, into a
    fragment, by a map over it."""
    origin: list[SSAValue] = []
    used = axes_in([value])
    axes = {
        a: AffineExpr.constant(0) if a == first else placed(scope.places[a], origin) for a in used
    }
    kind = cast("FragmentType", held.type).element_type
    own = Block(arg_types=[kind])
    point = WindowPoint(builder.frame, own, axes, origin, slid, along, before)
    owner = value.owner
    assert isinstance(owner, Operation)
    scope.emit.op(point.write(held, [Wanted(value, held, (ROW, COLUMN))], owner))


def hold_still(builder: LoopBase, scope: Scope, read: ReadOp, along: tuple[bool, bool]) -> None:
    """Bring what a window reads at one of its points, and that does not slide, into a fragment."""
    value = held_value(read)
    element = type_of(value).element_type
    held = builder.fragment(scope, along, read.tensor.name_hint, element)
    hold(builder, scope, value, held, {})
    builder.shared[value] = Held(held, projection(along).results)


def _ahead(emit: Emit, read: ReadOp, sizes: Sequence[int], layout: FragmentLayoutAttr) -> SSAValue:
    """A fragment for all that a window reads of a tensor."""
    element = without_sign(type_of(held_value(read)).element_type)
    kind = FragmentType.of(sizes, element, layout)
    return emit.value(tile.FragmentOp(kind), read.tensor.name_hint)
