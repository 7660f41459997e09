"""Poly-View: the domains and accesses of a graph, and its contractions, as JSON (S5, S13.1).

An analysis of the index book with the field names of the specification's section 5: it reads
and rewrites nothing.  ``polyc.poly.blocks`` says what is a block.  Movements and widening casts
are composed away, so an access names the value behind them, in pieces where a pad or a mask
has fills.  Every set and map is coalesced, simplified in its context (isl's gist) and free of
redundant constraints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineSet

from polyc.affine import isl
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.index import Reach, bounds, start
from polyc.poly.blocks import Block, Blocks, blocks_of
from polyc.poly.contraction import ContractionPattern, Coordinate, Operand, Refusal, Window
from polyc.poly.indexbook import Json
from polyc.poly.names import number_json, size_json
from polyc.poly.readings import Filled, Reading


def poly_view_json(graph: Operation) -> Json:
    """The Poly-View of a graph as JSON with the field names of the specification's 5.

    Raises PolycError when the graph has no book, or isl gives up.
    """
    try:
        return {"poly_view": view_json(blocks_of(graph))}
    except isl.IslLimitExceeded as error:
        raise PolycError(
            "PolyhedralLimit", f"{error}; use smaller domains or simpler maps", graph
        ) from error


def view_json(found: Blocks) -> Json:
    """Blocks, the edges between them, and boundaries.  Raises ``IslLimitExceeded``."""
    made = {b.value for b in found.blocks}
    edges = [
        {"from": found.names[v], "to": b.name, "tensor": found.names[v]}
        for b in found.blocks
        for v in b.sources
        if v in made and v is not b.value
    ]
    view: Json = {"blocks": [_block(b, found.names) for b in found.blocks], "edges": edges}
    if found.boundaries:
        view["boundaries"] = [
            {"value": b.name, "kind": "NonSCoP", "note": f"a region ends here: {b.reason}"}
            for b in found.boundaries
        ]
    return view


def _block(block: Block, names: Mapping[SSAValue, str]) -> Json:
    entry, dims, symbols = block.entry, block.dims, block.symbols
    out: Json = {
        "name": block.name,
        "kind": block.kind,
        "op": op_text(block.value),
        "axes": [
            {"name": n, "index": a.label.data, "id": a.number, "size": size_json(a.dim)}
            for n, a in zip(dims, entry.all_axes, strict=True)
        ],
        "domain": _domain(block),
    }
    if entry.reduced.data:
        out["iteration_domain"] = {"set": isl.set_text(entry.iteration_domain(), dims, symbols)}
    accesses = [_reading(block, one, names) for one in block.readings]
    accesses = [a for one in accesses for a in one]
    written = start(block.value)
    accesses.append(
        {"tensor": block.name, "map": _map_text(written, dims[: block.rank], symbols, names)}
    )
    out["accesses"] = [a for i, a in enumerate(accesses) if a not in accesses[:i]]
    if block.contraction is not None:
        out["attrs"] = pattern_json(block.contraction.pattern, block.rank, symbols)
    return out


def op_text(value: SSAValue) -> str:
    """The op that makes a value and its function: ``tiny.reduce sum``."""
    owner = cast(Operation, value.owner)
    return f"{owner.name} {getattr(owner, 'function', '')}".strip()


def _domain(block: Block) -> Json:
    entry, dims, symbols = block.entry, block.dims[: block.rank], block.symbols
    if len(entry.pieces) == 1 or block.kind == "movement":
        return {"set": isl.set_text(entry.domain(), dims, symbols)}
    return {"pieces": [isl.set_text(entry.domain(p), dims, symbols) for p in entry.pieces]}


def _map_text(
    reach: Reach, dims: tuple[str, ...], symbols: tuple[str, ...], names: Mapping[SSAValue, str]
) -> str:
    simple = isl.simplify_map(reach.map, reach.domain)
    return isl.map_text(simple, dims, symbols, target=names[reach.source])


def _reading(block: Block, found: Reading, names: Mapping[SSAValue, str]) -> list[Json]:
    """The accesses of one operand: a map, or for each tensor its pieces and the fills."""
    dims, symbols = block.dims, block.symbols
    if not found.fills and found.single is not None:
        reach = found.single
        return [{"tensor": names[reach.source], "map": _map_text(reach, dims, symbols, names)}]
    rows = bounds([a.dim for a in block.entry.all_axes], symbols)
    box = AffineSet(len(dims), len(symbols), rows)

    def where(part: Reach | Filled) -> str:
        simple = isl.simplify_set(part.domain, box)
        return isl.set_text(simple, dims, symbols)

    fills: list[Json] = [{"on": where(f), "fill": number_json(f.number)} for f in found.fills]
    out: list[Json] = []
    for source in dict.fromkeys(r.source for r in found.reads):
        pieces: list[Json] = [
            {"on": where(r), "map": _map_text(r, dims, symbols, names)}
            for r in found.reads
            if r.source is source
        ]
        out.append({"tensor": names[source], "pieces": [*pieces, *fills]})
    return out


# Contractions --------------------------------------------------------------------------


def pattern_json(
    pattern: ContractionPattern | Refusal, rank: int, symbols: tuple[str, ...]
) -> Json:
    """A contraction's axes by role, or why it is none; ``rank`` counts the output axes."""
    if isinstance(pattern, Refusal):
        return {"pattern": None, "refused": pattern.reason}
    names = pattern.names

    def read(operand: Operand) -> list[str]:
        return [_coordinate_text(c, names, symbols) for c in operand.coordinates]

    offsets: Json = {}
    windowed = {(w.side, w.coordinate) for w in pattern.windows}
    for side, operand in (("lhs", pattern.lhs), ("rhs", pattern.rhs)):
        moved: Json = {}
        for i, c in enumerate(operand.coordinates):
            if (side, i) in windowed:
                moved[names[c.terms[0][0]]] = _coordinate_text(c, names, symbols)
            elif c.axis is not None and not _zero(c.offset):
                moved[names[c.axis]] = isl.expr_text(c.offset, names, symbols)
        if moved:
            offsets[side] = moved
    out: Json = {
        "pattern": pattern.kind,
        "lhs_idx": read(pattern.lhs),
        "rhs_idx": read(pattern.rhs),
        "out_idx": list(names[:rank]),
        "reduce_idx": [names[a] for a in pattern.reduce],
        "batch": [names[a] for a in pattern.batch],
        "affine_offsets": offsets,
    }
    if pattern.windows:
        out["windows"] = [_window(w, names, symbols) for w in pattern.windows]
    return out


def _coordinate_text(c: Coordinate, names: tuple[str, ...], symbols: tuple[str, ...]) -> str:
    """``m`` for an axis, whatever its offset; the whole expression for any other."""
    if c.axis is not None:
        return names[c.axis]
    total: AffineExpr = c.offset
    for axis, step in c.terms:
        total = total + AffineDimExpr(axis) * step
    return isl.expr_text(total, names, symbols)


def _window(window: Window, names: tuple[str, ...], symbols: tuple[str, ...]) -> Json:
    return {
        "side": window.side,
        "coordinate": window.coordinate,
        "axis": names[window.axis],
        "stride": window.stride,
        "tap": None if window.tap is None else names[window.tap],
        "dilation": window.dilation,
        "offset": isl.expr_text(window.offset, names, symbols),
    }


def _zero(expr: AffineExpr) -> bool:
    return isinstance(expr, AffineConstantExpr) and expr.value == 0
