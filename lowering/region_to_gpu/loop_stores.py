"""``region-to-gpu``: results of a tile of loops that are turned on their way to memory.

Threads compute in vectors along what lies together in the tensors that they read; a tile of results
goes through shared memory, and from there in the lines of the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from polyc.dialects.gpu import tile
from polyc.dialects.gpu.types import FragmentType, GlobalType, element_bytes
from polyc.families.loops.turned_stores import TurnedStore
from polyc.lowering.region_to_gpu.loop_base import LoopBase
from polyc.lowering.region_to_gpu.loop_scope import Scope
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Wanted, element_of
from polyc.passes.support.gpu.free_layouts import row_layout
from polyc.rewriting.driver import located


def store_turned(
    builder: LoopBase, scope: Scope, found: TurnedStore, values: Sequence[SSAValue]
) -> None:
    """Compute a tile of the outputs, and store it turned."""
    end, emit = builder.kernel.yield_op, scope.emit
    held = [
        builder.fragment(scope, (True, True), "out", element_of(target))
        for target in builder.frame.outputs
    ]

    def wanted(_: Mapping[str, AffineExpr]) -> list[Wanted]:
        return [Wanted(v, into, (ROW, COLUMN)) for v, into in zip(values, held, strict=True)]

    builder.map(scope, held[0], found.order, wanted, end, values)
    start = len(emit.ops)
    for number, fragment in enumerate(held):
        _turn(builder, scope, found, number, fragment)
    for op in emit.ops[start:]:
        located(op, end)


def _turn(
    builder: LoopBase, scope: Scope, found: TurnedStore, number: int, fragment: SSAValue
) -> None:
    """Bring a tile of an output to shared memory, and from there to the output along its lines."""
    emit, (rows, columns) = scope.emit, builder.tile
    kind, shared = element_of(fragment), builder.turned_tiles[number]
    emit.op(tile.CopyOp(tile.CopyEnd(fragment), tile.CopyEnd(shared), tile.CopyView((0, 0))))
    vector = found.stored(builder.plan.integer("vectorize"))
    layout, _ = row_layout(columns, rows, vector, element_bytes(kind), builder.plan.threads())
    space = emit.value(tile.FragmentOp(FragmentType.of([columns, rows], kind, layout)))
    whole = builder.frame.outputs[number].type
    assert isinstance(whole, GlobalType)
    target = builder.frame.view(len(builder.kernel.arg_names) + number, found.dims(whole.dims))
    places = scope.places
    starts = [*(places[a].start for a in found.outside), places[found.rows[0][0]].start]
    origin = list(dict.fromkeys(starts))
    at = [AffineExpr.symbol(origin.index(one)) for one in starts]
    along = [e + ROW if a == found.column else e for a, e in zip(found.outside, at, strict=False)]
    block = Block(arg_types=[kind, kind])
    block.args[1].name_hint = "turned"
    block.add_op(tile.YieldOp([block.args[1]]))
    maps = [
        AffineMap(2, len(origin), (COLUMN, ROW)),
        AffineMap(2, len(origin), (*along, at[-1] + COLUMN)),
    ]
    emit.op(tile.MapOp(space, origin, [shared], [target], maps, Region(block)))
