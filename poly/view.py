"""Poly-View: the domains and accesses of a graph, and its contractions (S5).

An analysis of the index book: it reads, rewrites nothing, and prints as JSON with the
specification's field names (S13.1).  ``indexbook_json`` is the book itself (spec 4.5),
``poly_view_json`` the view (spec 5).

Values that are no movement, no widening cast and no leaf are blocks.  Movements and
widening casts are composed away, so an access names the value behind them.  A value
without affine access is no block but a boundary (S5.1), with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import (
    AffineConstantExpr,
    AffineConstraintExpr,
    AffineConstraintKind,
    AffineExpr,
    AffineMap,
)

from polyc.dialects import tiny
from polyc.dialects.diagnostic import PolycError
from polyc.dialects.dim import Dim
from polyc.dialects.index import (
    AxisAttr,
    PieceAttr,
    Reach,
    ValueOp,
    book,
    is_movement,
    is_widening,
    source,
    start,
    step,
    value_op,
)
from polyc.dialects.signature import SignatureOp
from polyc.poly import isl
from polyc.poly.contraction import ContractionPattern, Operand, Refusal, classify

Json = dict[str, object]


# Names ---------------------------------------------------------------------------------


def value_names(graph: Operation) -> dict[SSAValue, str]:
    """A name for each value in the book: its SSA name, else v0, v1, … in order.

    Inputs have the names of the signature.  A name that is taken gets a number.
    """
    names: dict[SSAValue, str] = {}
    taken: set[str] = set()
    given: dict[SSAValue, str] = {}
    if isinstance(graph, SignatureOp):
        args = graph.body.block.args
        given = {a: n.data for a, n in zip(args, graph.arg_names, strict=True)}
        taken = set(given.values())
    count = 0
    for value in book(graph):
        name = given.get(value)
        if name is None:
            hint = value.name_hint
            if hint is None:
                while f"v{count}" in taken:
                    count += 1
                name = f"v{count}"
            else:
                name, number = hint, 0
                while name in taken:
                    number += 1
                    name = f"{hint}_{number}"
            taken.add(name)
        names[value] = name
    return names


def axis_names(
    axes: Sequence[AxisAttr], symbols: Sequence[str], reduced_from: int | None = None
) -> tuple[str, ...]:
    """Readable names of axes, as the region layer gives them.

    The symbol of the size in lower case when it is alone and free (``M`` → ``m``), else
    ``i<n>``, and ``r<n>`` from ``reduced_from`` on.
    """
    split = len(axes) if reduced_from is None else reduced_from
    names: list[str] = []
    for i, axis in enumerate(axes):
        text = str(axis.dim)
        plain = axis.dim.constant() is None and (text,) == axis.dim.symbols()
        name = text.lower()
        if not plain or name in names or name in symbols or name in _ISL_WORDS:
            name = f"i{i}" if i < split else f"r{i - split}"
        names.append(name)
    return tuple(names)


_ISL_WORDS = frozenset(
    "and or not exists implies mod floor ceil floord ceild min max true false rat".split()  # noqa: SIM905
)


def _size(dim: Dim) -> int | str:
    value = dim.constant()
    return str(dim) if value is None else value


# The index book ------------------------------------------------------------------------


def indexbook_json(graph: Operation) -> Json:
    """The book of a graph as JSON with the field names of the specification's 4.5.

    An input is the value behind movements and widening casts (4.3, invariant 7), with
    its map composed; ``through`` lists what was passed.  Raises PolycError when the
    graph has no book.
    """
    entries = _entries(graph)
    names = value_names(graph)
    return {"index_book": {names[v]: _entry_json(e, names) for v, e in entries.items()}}


def _entries(graph: Operation) -> dict[SSAValue, ValueOp]:
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
                "size": _size(axis.dim),
                "kind": axis.kind.data,
            }
            for axis in entry.axes
        ]
    }
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
        out["reduce_axes"] = list(entry.reduce_axes)
        out["reduced"] = [
            {"id": a.number, "name": a.label.data, "size": _size(a.dim), "kind": "reduce"}
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
            out.append({"value_id": names[operand], "fill": how})
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


# The view ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Contraction:
    """A ``reduce(sum)`` over a ``mul``, with how it reaches the product's operands.

    ``lhs`` and ``rhs`` take the dimensions (the sum's axes, then the reduced ones) to
    the values behind movements and widening casts; ``product`` is the mul's value.
    """

    value: SSAValue
    product: SSAValue
    lhs: Reach
    rhs: Reach
    pattern: ContractionPattern | Refusal


def find_contraction(value: SSAValue) -> Contraction | None:
    """The contraction that ends at ``value``, or None when it is no sum of products.

    The product may be behind movements; its operands behind movements and widening
    casts, and may themselves be computed (S5.2).
    """
    reduce = value.owner
    if not isinstance(reduce, tiny.ReduceOp) or reduce.function != "sum":
        return None
    first = step(start(value), 0)
    if first is None:
        return None
    product = source(reduce.operand, casts=False, from_=first)
    mul = product.source.owner
    if not isinstance(mul, tiny.BinaryOp) or mul.function != "mul":
        return None
    sides: list[Reach] = []
    for i in range(2):
        further = step(product, i)
        if further is None:
            return None
        sides.append(source(mul.operands[i], from_=further))
    lhs, rhs = sides
    rank = tiny.tensor_of(value).rank
    entry = value_op(value)
    assert entry is not None
    names = axis_names(lhs.axes, entry.symbol_names, rank)
    pattern = classify(names[:rank], names[rank:], lhs.map, rhs.map, lhs.domain)
    return Contraction(value, product.source, lhs, rhs, pattern)


def poly_view_json(graph: Operation) -> Json:
    """The Poly-View of a graph as JSON with the field names of the specification's 5.

    Raises PolycError when the graph has no book, or isl gives up.
    """
    entries = _entries(graph)
    names = value_names(graph)
    try:
        blocks, boundaries = _blocks(entries, names)
    except isl.IslLimitExceeded as error:
        raise PolycError(
            "PolyhedralLimit", f"{error}; use smaller domains or simpler maps", graph
        ) from error
    made = {str(b["name"]) for b in blocks}
    edges: list[Json] = []
    for block in blocks:
        reads = cast(list[Json], block["accesses"])
        for tensor in dict.fromkeys(str(a["tensor"]) for a in reads):
            if tensor in made and tensor != block["name"]:
                edges.append({"from": tensor, "to": block["name"], "tensor": tensor})
    view: Json = {"blocks": blocks, "edges": edges}
    if boundaries:
        view["boundaries"] = boundaries
    return {"poly_view": view}


def _blocks(
    entries: dict[SSAValue, ValueOp], names: dict[SSAValue, str]
) -> tuple[list[Json], list[Json]]:
    found = {v: c for v in entries if (c := find_contraction(v)) is not None}
    inside = {
        c.product
        for c in found.values()
        if isinstance(c.pattern, ContractionPattern) and _only_used_in(c)
    }
    blocks: list[Json] = []
    boundaries: list[Json] = []
    for value, entry in entries.items():
        owner = value.owner
        if not entry.is_scop:
            boundaries.append(
                {
                    "value": names[value],
                    "kind": "NonSCoP",
                    "note": "the access depends on data; a region ends here",
                }
            )
        elif len(entry.pieces) == 1 and (is_movement(value) or is_widening(value)):
            continue
        elif isinstance(owner, Operation) and owner.operands and value not in inside:
            blocks.append(_block(entry, names, found.get(value)))
    return blocks, boundaries


def _only_used_in(contraction: Contraction) -> bool:
    """Whether the product goes nowhere but into the contraction's sum."""
    pending = [contraction.product]
    while pending:
        for use in pending.pop().uses:
            op = use.operation
            if isinstance(op, ValueOp):
                continue
            if isinstance(op, tiny.ExpandOp | tiny.PermuteOp):
                pending.append(op.result)
            elif op is not contraction.value.owner:
                return False
    return True


def _block(entry: ValueOp, names: dict[SSAValue, str], contraction: Contraction | None) -> Json:
    symbols = entry.symbol_names
    rank = len(entry.axes)
    dims = axis_names(entry.all_axes, symbols, rank)
    reads: list[Reach] = []
    if contraction is not None and isinstance(contraction.pattern, ContractionPattern):
        kind = "contraction_pattern"
        reads = [contraction.lhs, contraction.rhs]
    else:
        kind = "reduce" if isinstance(entry.value.owner, tiny.ReduceOp) else "elementwise"
        for i, operand in enumerate(entry.operands_read):
            if (first := step(start(entry.value), i)) is not None:
                reads.append(source(operand, from_=first))
    block: Json = {
        "name": names[entry.value],
        "kind": kind,
        "op": _op_text(entry.value),
        "axes": [
            {"name": n, "index": a.label.data, "id": a.number, "size": _size(a.dim)}
            for n, a in zip(dims, entry.all_axes, strict=True)
        ],
        "domain": _domain_json(entry, dims[:rank]),
    }
    if entry.reduced.data:
        block["iteration_domain"] = {"set": isl.set_text(entry.iteration_domain(), dims, symbols)}
    written = start(entry.value)
    accesses: list[Json] = [_access_json(r, dims, symbols, names) for r in reads]
    accesses += _piecewise_json(entry, dims, names)
    accesses.append(_access_json(written, dims[:rank], symbols, names))
    block["accesses"] = accesses
    if contraction is not None:
        block["attrs"] = _attrs_json(contraction.pattern, rank, symbols)
    return block


def _op_text(value: SSAValue) -> str:
    owner = value.owner
    assert isinstance(owner, Operation)
    function = getattr(owner, "function", "")
    return f"{owner.name} {function}".strip()


def _domain_json(entry: ValueOp, dims: Sequence[str]) -> Json:
    symbols = entry.symbol_names
    if len(entry.pieces) == 1:
        return {"set": isl.set_text(entry.domain(), dims, symbols)}
    return {"pieces": [isl.set_text(entry.domain(p), dims, symbols) for p in entry.pieces]}


def _access_json(
    reach: Reach, dims: Sequence[str], symbols: Sequence[str], names: dict[SSAValue, str]
) -> Json:
    simple = isl.simplify_map(reach.map, reach.domain)
    name = names[reach.source]
    return {"tensor": name, "map": isl.map_text(simple, dims, symbols, target=name)}


def _piecewise_json(entry: ValueOp, dims: Sequence[str], names: dict[SSAValue, str]) -> list[Json]:
    """Accesses of a value whose operands are read differently in parts of its domain."""
    if len(entry.pieces) == 1:
        return []
    symbols = entry.symbol_names
    out: list[Json] = []
    for i, operand in enumerate(entry.operands_read):
        parts: list[Json] = []
        for piece in entry.pieces:
            how = piece.entries[i]
            part: Json = {"on": isl.set_text(entry.domain(piece), dims[: len(entry.axes)], symbols)}
            if isinstance(how, AffineMap):
                simple = isl.simplify_map(how, entry.iteration_domain(piece))
                part["map"] = isl.map_text(simple, dims, symbols, target=names[operand])
            else:
                part["fill"] = how
            parts.append(part)
        out.append({"tensor": names[operand], "pieces": parts})
    return out


def _attrs_json(pattern: ContractionPattern | Refusal, rank: int, symbols: Sequence[str]) -> Json:
    if isinstance(pattern, Refusal):
        return {"pattern": None, "refused": pattern.reason}
    names = pattern.names

    def read(operand: Operand) -> list[str]:
        return [
            isl.expr_text(o, names, symbols) if a is None else names[a]
            for a, o in zip(operand.axes, operand.offsets, strict=True)
        ]

    offsets: Json = {}
    for side, operand in (("lhs", pattern.lhs), ("rhs", pattern.rhs)):
        moved = {
            names[a]: isl.expr_text(o, names, symbols)
            for a, o in zip(operand.axes, operand.offsets, strict=True)
            if a is not None and not _zero(o)
        }
        if moved:
            offsets[side] = moved
    return {
        "pattern": pattern.kind,
        "lhs_idx": read(pattern.lhs),
        "rhs_idx": read(pattern.rhs),
        "out_idx": list(names[:rank]),
        "reduce_idx": [names[a] for a in pattern.reduce],
        "batch": [names[a] for a in pattern.batch],
        "affine_offsets": offsets,
    }


def _zero(expr: AffineExpr) -> bool:
    return isinstance(expr, AffineConstantExpr) and expr.value == 0
