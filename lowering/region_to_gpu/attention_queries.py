"""``region-to-gpu``: a tile of queries that an attention's kernel computes (S6.10, T3).

Threads read what the queries are made of, reduce it along the features where a norm does, and
write the tile to shared memory as tensor cores read it: once for all keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd

from xdsl.dialects import arith
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from polyc.dialects.common.dim import Assumption
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.hardware import OpaqueOp
from polyc.dialects.gpu.types import FragmentType
from polyc.dialects.region import ReadOp, ReduceOp
from polyc.dialects.region.types import ValType
from polyc.families.attention.queries import ComputedQueries
from polyc.families.facts import holds_always
from polyc.lowering.region_to_gpu.attention_parts import Parts, QueryTile
from polyc.lowering.region_to_gpu.frame import Frame
from polyc.lowering.region_to_gpu.point import COLUMN, ROW, Point, Wanted, element_of
from polyc.lowering.region_to_gpu.row_maps import RowMaps, Span, Tile
from polyc.lowering.region_to_gpu.row_steps import RowSteps, costs
from polyc.rewriting.driver import located
from polyc.rewriting.emit import Emit, affine_dim

VECTOR = 8
"""Neighbouring features that are inside of a head or beyond it together."""

HELD = 32
"""Elements of a tile that a thread makes at once: half as many where a norm keeps what it read."""


class FeatureMaps(RowMaps):
    """Maps over a tile whose columns several axes walk: the features, as each reduction has them.

    Fragments are the kernel's own, whatever scope computes.
    """

    def __init__(self, frame: Frame, emit: Emit, span: Span, along: Sequence[str]) -> None:
        super().__init__(frame, emit, span)
        self.along = along

    def has_row(self, value: SSAValue) -> bool:
        kind = value.type
        return isinstance(kind, ValType) and any(label in self.along for label in kind.labels)

    def fragment(self, sizes: Sequence[int], element: Attribute, hint: str | None) -> SSAValue:
        kind = FragmentType.of(sizes, element)
        return self.frame.emit.value(tile.FragmentOp(kind), hint)

    def axes(self, over: Tile | None) -> tuple[dict[str, AffineExpr], list[SSAValue]]:
        places, origin = super().axes(over)
        if over is not None:
            places |= dict.fromkeys(self.along, places[self.span.axis])
        return places, origin


def compute_queries(
    parts: Parts, queries: ComputedQueries, emit: Emit, at: QueryTile, target: SSAValue
) -> None:
    """Make a tile of queries in registers, some rows at a time, and put it to shared memory.

    Features beyond the head, and queries that are none, are 0, as they would be if they were read.
    """
    depth = parts.attention.tile_features[0]
    most = max(1, HELD // (2 if queries.reductions else 1) * parts.threads // depth)
    rows = gcd(parts.queries, 1 << (most.bit_length() - 1))
    for first in range(0, parts.queries, rows):
        # Addresses are not kept from part to part: these are registers that threads lack.
        row = at.row if rows == parts.queries else emit.value(OpaqueOp(at.row))
        row = emit.apply(affine_dim(0) + first, [row]) if first else row
        made = _rows(parts, queries, emit, QueryTile(at.batch, row), rows)
        view = tile.CopyView() if rows == parts.queries else tile.CopyView(window=(first, 0))
        moved = tile.CopyOp(tile.CopyEnd(made), tile.CopyEnd(target), view)
        emit.op(located(moved, queries.operations[-1]))


def _rows(parts: Parts, queries: ComputedQueries, emit: Emit, at: QueryTile, rows: int) -> SSAValue:
    """A fragment of so many queries from a first one on."""
    span = _span(parts, queries, emit, at, rows)
    maps = FeatureMaps(parts.frame, emit, span, queries.along)
    over, steps = Tile(), RowSteps(maps, [])
    roots = [*(op.operand for op in queries.reductions), queries.value]
    for read in _read_again(queries):
        held = maps.wide(element_of(read[0].result), read[0].tensor.name_hint)
        maps.over_tile(over, held, [Wanted(read[0].result, held, (ROW, COLUMN))])
        over.held |= dict.fromkeys((op.result for op in read), held)
    for number, op in enumerate(queries.reductions):
        found = maps.narrow(op.label)
        steps.reduce(over, op, roots[number + 1 :], found, more=False)
        maps.statistics[op.result] = found
    made = maps.wide(queries.element, "queries")
    there = _inside(parts, queries, maps, over)
    maps.over_tile(over, made, [Wanted(queries.value, made, (ROW, COLUMN), there)])
    return made


def _span(parts: Parts, queries: ComputedQueries, emit: Emit, at: QueryTile, rows: int) -> Span:
    """The tile in the space of the queries."""
    attention = parts.attention
    places = parts.places()
    depth = attention.tile_features[0]
    length = emit.index(attention.depth) if depth != attention.depth else None
    sizes = (rows, depth)
    origin = [*at.batch, at.row]
    return Span(sizes, queries.feature, COLUMN, places, origin, length, VECTOR)


def _read_again(queries: ComputedQueries) -> list[list[ReadOp]]:
    """Reads of the same elements that several steps make, by axes of other names.

    Those without a guard that a reduction, and what follows it, both need.
    """
    if not queries.reductions:
        return []
    groups: dict[object, list[ReadOp]] = {}
    for op in queries.reads:
        labels = op.result.type.labels
        if op.guard is None and any(label in queries.along for label in labels):
            axes = tuple(queries.feature if x in queries.along else x for x in labels)
            groups.setdefault((op.tensor, op.map.data, axes), []).append(op)
    return [
        group
        for group in groups.values()
        if len(group) > 1 or group[0].result.uses.get_length() > 1
    ]


def _inside(
    parts: Parts, queries: ComputedQueries, maps: FeatureMaps, over: Tile
) -> Callable[[Point, SSAValue], SSAValue] | None:
    """What makes 0 of what is no feature of a head, or of no query; None where nothing is so.

    Without a norm or another function of more than an instruction, what is read as 0 stays finite,
    and a row of no query is never looked at.
    """
    attention, kernel = parts.attention, parts.attention.kernel
    features = maps.inside(over, maps.number(0.0))
    whole = Assumption(attention.size(attention.m).mod(parts.queries), "==")
    stays = not any(
        isinstance(op, ReduceOp) or (not isinstance(op, ReadOp) and costs(op.results[0]))
        for op in queries.operations
    )
    if stays or holds_always(whole, kernel.assumptions, kernel.symbol_names):
        return features
    row = maps.span.places[attention.m]

    def there(point: Point, scalar: SSAValue) -> SSAValue:
        scalar = point.cast(scalar, f32) if features is None else features(point, scalar)
        seen = point.emit.compare("slt", point.index(row), parts.size_m)
        return point.emit.value(arith.SelectOp(seen, scalar, maps.number(0.0)))

    return there
