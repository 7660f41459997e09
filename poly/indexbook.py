"""The index book of a graph as JSON, with the field names of the specification's 4.5 (S13.1)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineConstraintExpr, AffineConstraintKind, AffineMap

from polyc.affine import isl
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.index import PieceAttr, ValueOp, book, source, start, step
from polyc.poly.names import number_json, size_json, value_names

Json = dict[str, object]

INNER = {"reduce": "reduced", "gather": "gathered", "scatter": "scattered"}
"""The field of the axes beside a value's, by their kind."""


def indexbook_json(graph: Operation) -> Json:
    """The book of a graph as JSON with the field names of the specification's 4.5.

    An input is the value behind movements and widening casts (4.3, invariant 7), with
    its map composed; ``through`` lists what was passed.  Raises PolycError when the
    graph has no book.
    """
    entries = book_entries(graph)
    names = value_names(graph)
    return {"index_book": {names[v]: _entry_json(e, names) for v, e in entries.items()}}


def book_entries(graph: Operation) -> dict[SSAValue, ValueOp]:
    """The book of a graph by value; PolycError ``MissingIndexBook`` when it has none."""
    entries = book(graph)
    if not entries and any(block.ops for region in graph.regions for block in region.blocks):
        raise PolycError(
            "MissingIndexBook", "the graph has no index book; run tiny-to-index first", graph
        )
    return entries


def _entry_json(entry: ValueOp, names: dict[SSAValue, str]) -> Json:
    out: Json = {
        "axes": [
            {
                "id": axis.number,
                "name": axis.label.data,
                "size": size_json(axis.dim),
                "kind": axis.kind.data,
            }
            for axis in entry.axes
        ]
    }
    if not entry.is_plain:
        out["tuples"] = [[a.label.data for a in axes] for axes in entry.by_dimension]
    pieces = entry.pieces.data
    if len(pieces) == 1 and pieces[0].is_box:
        out["domain"] = {"constraints": _box_rows(entry)}
        out["inputs"] = _inputs_json(entry, pieces[0], names)
    elif pieces:
        out["domain"] = {
            "pieces": [
                {
                    "constraints": [*_box_rows(entry), *_piece_rows(entry, piece)],
                    "inputs": _inputs_json(entry, piece, names),
                }
                for piece in pieces
            ]
        }
    else:
        out["domain"] = {"constraints": _box_rows(entry)}
        out["inputs"] = []
    if entry.reduced.data:
        kind = entry.reduced.data[0].kind.data
        out[f"{kind}_axes"] = list(entry.reduce_axes)
        out[INNER[kind]] = [
            {"id": a.number, "name": a.label.data, "size": size_json(a.dim), "kind": kind}
            for a in entry.reduced
        ]
    if not entry.is_scop:
        out["flags"] = {"non_scop": True}
    return out


def _box_rows(entry: ValueOp) -> list[list[str]]:
    return [[f"0<={a.label.data}", f"{a.label.data}<{a.dim.wrapped()}"] for a in entry.axes]


def _piece_rows(entry: ValueOp, piece: PieceAttr) -> list[list[str]]:
    if piece.is_box:
        return []
    labels = [a.label.data for a in entry.axes]
    domain = isl.canonical_set(entry.domain(piece))
    inside = isl.canonical_set(entry.domain())
    return [
        [_row_text(row, labels, entry.symbol_names)]
        for row in domain.constraints
        if row not in inside.constraints
    ]


def _row_text(row: AffineConstraintExpr, dims: Sequence[str], symbols: Sequence[str]) -> str:
    text = isl.expr_text(row.lhs, dims, symbols)
    return f"{text}=0" if row.kind is AffineConstraintKind.eq else f"0<={text}"


def _inputs_json(entry: ValueOp, piece: PieceAttr, names: dict[SSAValue, str]) -> list[Json]:
    out: list[Json] = []
    labels = [a.label.data for a in entry.all_axes]
    for i, (operand, how) in enumerate(zip(entry.operands_read, piece.entries, strict=True)):
        if not isinstance(how, AffineMap):
            out.append({"value_id": names[operand], "fill": number_json(how)})
            continue
        if len(entry.pieces) == 1 and (first := step(start(entry.value), i)) is not None:
            behind = source(operand, from_=first)
            operand, how = behind.source, behind.map
            passed = [names[v] for v in behind.path[1:]]
        else:
            passed = []
        item: Json = {
            "value_id": names[operand],
            "map": [isl.expr_text(e, labels, entry.symbol_names) for e in how.results],
        }
        if passed:
            item["through"] = passed
        out.append(item)
    return out
