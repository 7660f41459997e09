"""``region-to-gpu``: reads that a tile of a loops' kernel brings before its outputs are computed.

Tensors that lie along the rows are turned through shared memory; what is resampled along lines
comes into registers as whole vectors.
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, Region, SSAValue

from polyc.dialects.common.elements import without_sign
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import LoadGlobalOp
from polyc.dialects.gpu.types import FragmentType, element_bytes
from polyc.dialects.region import CastOp, ReadOp
from polyc.families.loops.recognise import line_of
from polyc.families.loops.resampled import Brought, Resampled
from polyc.families.loops.resampled_rows import ResampledRows
from polyc.lowering.region_to_gpu.loop_base import LoopBase
from polyc.lowering.region_to_gpu.loop_scope import AtHand, AxisPlace, Scope, placed, placed_all
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point, element_of, is_there_and_back
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.driver import located


def turn(builder: LoopBase, scope: Scope, read: ReadOp, shared: SSAValue) -> None:
    """Bring a tile of what is read into shared memory: neighbours of its rows by neighbours,
    which have one element each where these lie apart."""
    kind, (rows, columns) = without_sign(element_of(read.result)), builder.tile
    vector = builder.plan.integer("vectorize") if line_of(read)[1] == 1 else 1
    size = element_bytes(kind)
    layout, _ = row_layout(columns, rows, vector, size, builder.plan.threads())
    held = scope.emit.value(tile.FragmentOp(FragmentType.of((columns, rows), kind, layout)))
    places: dict[str, AxisPlace] = {}
    for label in read.result.type.labels:
        place = scope.places[label]
        along = None if place.along is None else 1 - place.along
        places[label] = AxisPlace(along, place.start)
    axes, origin = placed_all(places)
    point = Point(builder.frame, Block(arg_types=[kind]), {}, axes, 2, origin)
    tensor, place = point.source(read)
    element = point.block.insert_arg(kind, 1)
    element.name_hint = read.tensor.name_hint
    point.block.add_op(tile.YieldOp([element]))
    maps = [point.map(place), point.map((ROW, COLUMN))]
    body = Region(point.block)
    load = tile.MapOp(held, point.origin, [tensor], [held], maps, body)
    store = tile.CopyOp(tile.CopyEnd(held), tile.CopyEnd(shared), tile.CopyView((0, 0)))
    for op in (load, store):
        scope.emit.op(located(op, read))


def bring(builder: LoopBase, scope: Scope, resampled: Resampled) -> None:
    """Bring what is resampled into registers: whole vectors of lines, for all reads of one
    tensor's; what lies outside of it is 0."""
    tile_of, column = builder.line_tile, str(resampled.space.column)
    assert tile_of is not None
    for one in resampled.resamples:
        brought, read = Brought.of(one, tile_of), one.reads[0]
        kind, labels = without_sign(element_of(read.result)), read.result.type.labels
        wide = f32 if all(map(_is_widened, one.reads)) else kind
        held_kind = FragmentType.of(brought.sizes(tile_of), wide, brought.layout(tile_of))
        held = scope.emit.value(tile.FragmentOp(held_kind), read.tensor.name_hint)
        axes, origin = placed_all({label: scope.places[label] for label in labels})
        point = Point(builder.frame, Block(arg_types=[wide]), {}, axes, 2, origin)
        tensor, place = point.source(read)
        # A tile's columns are so many periods that what is read goes on by whole elements.
        start = placed(AxisPlace(None, scope.places[column].start), origin)
        step = start * one.moves(tile_of.outputs) // tile_of.outputs
        if one.moves(tile_of.outputs) == tile_of.outputs:
            step = start
        element = point.block.insert_arg(kind, 1)
        element.name_hint = read.tensor.name_hint
        found = point.cast(element, wide)
        point.block.add_ops([*point.emit.ops, tile.YieldOp([found])])
        maps = [
            point.map((*place[:-1], COLUMN + step + brought.first)),
            point.map((ROW, COLUMN)),
        ]
        load = tile.MapOp(held, point.origin, [tensor], [held], maps, Region(point.block))
        scope.emit.op(located(load, read))
        for each, where in zip(one.reads, one.places, strict=True):
            places = [(ROW, brought.find(e, COLUMN)) for e in where.every]
            builder.at_hand[each] = AtHand(held, tuple(places), where.ends, column)


def bring_rows(builder: LoopBase, scope: Scope, resampled: ResampledRows) -> None:
    """Bring what is resampled along the rows of a tile into registers: a vector of each row of the
    tensor that a thread's rows need, of its ends where that would be outside."""
    tile_of, row = builder.window_tile, resampled.row
    assert tile_of is not None
    for one in resampled.reads:
        read, first = one.reads[0], one.resample.reach(tile_of.outputs)[0]
        kind, labels = without_sign(element_of(read.result)), read.result.type.labels
        wide = f32 if all(map(_is_widened, one.reads)) else kind
        sizes, layout = one.window(tile_of)
        held_kind = FragmentType.of(sizes, wide, layout)
        held = scope.emit.value(tile.FragmentOp(held_kind), read.tensor.name_hint)
        axes, origin = placed_all({label: scope.places[label] for label in labels})
        point = Point(builder.frame, Block(arg_types=[wide]), {}, axes, 2, origin)
        tensor, place = point.source(read)
        # A tile's rows are so many periods that what is read goes on by whole elements.
        start = placed(AxisPlace(None, scope.places[row].start), origin)
        moves = one.resample.moves(tile_of.outputs)
        step = start if moves == tile_of.outputs else start * moves // tile_of.outputs
        indices = [point.index(e) for e in place]
        at = point.index(ROW + step + first)
        emit = point.emit
        at = emit.value(arith.MaxSIOp(at, emit.index(0)))
        indices[one.number] = emit.value(arith.MinSIOp(at, emit.index(one.last)))
        element = emit.value(LoadGlobalOp(tensor, indices, kind), read.tensor.name_hint)
        found = point.cast(element, wide)
        point.block.add_ops([*emit.ops, tile.YieldOp([found])])
        maps = [point.map((ROW, COLUMN))]
        load = tile.MapOp(held, point.origin, [], [held], maps, Region(point.block))
        scope.emit.op(located(load, read))
        for each, where in zip(one.reads, one.resample.places, strict=True):
            found_at = where.inner.replace_dims_and_symbols([ROW], []) - first
            builder.at_hand[each] = AtHand(held, ((found_at, COLUMN),), (), row)


def _is_widened(read: ReadOp) -> bool:
    """Whether all that is made of a read is made of it as f32, and it is not chosen from a fill."""
    casts = [use.operation for use in read.result.uses]
    if read.guard is not None or not all(isinstance(op, CastOp) for op in casts):
        return False
    for op in casts:
        assert isinstance(op, CastOp)
        back = [u.operation for u in op.result.uses]
        if op.result.type.element_type != f32:
            return False
        if all(isinstance(b, CastOp) and is_there_and_back(b) for b in back):
            return False
    return True
