"""What a value needs of another one, followed through the index book point by point."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from polyc.dialects import index, tiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.test.support.book_points import Point, holds, points
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Sizes = Mapping[str, int]


def booked(graph: tiny.GraphOp) -> tiny.GraphOp:
    """The graph with its index book, verified."""
    module = ModuleOp([graph])
    module.verify()
    TinyToIndex().apply(Context(), module)
    module.verify()
    return graph


def booked_text(text: str) -> tiny.GraphOp:
    """The one tiny graph of a text, with its index book."""
    module = parse_text(make_context(), text, "f.mlir")
    TinyToIndex().apply(Context(), module)
    module.verify()
    (graph,) = module.body.block.ops
    assert isinstance(graph, tiny.GraphOp)
    return graph


def named(graph: tiny.GraphOp) -> dict[str, SSAValue]:
    """The values of a graph by their names in the text."""
    found = [*graph.body.block.args, *(r for op in graph.body.block.ops for r in op.results)]
    return {v.name_hint: v for v in found if v.name_hint is not None}


def entry_of(value: SSAValue) -> index.ValueOp:
    entry = index.value_op(value)
    assert entry is not None
    return entry


def needed(
    value: SSAValue, at: Point, wanted: SSAValue, sizes: Sizes, whole: bool = True
) -> frozenset[Point]:
    """The elements of ``wanted`` that element ``at`` of ``value`` is computed from.

    Without ``whole`` the reduced axes of ``value`` are not run over: ``at`` ends with them.
    """
    if value is wanted:
        return frozenset([at])
    entry = entry_of(value)
    symbols = [sizes[s] for s in entry.symbol_names]
    rank = len(entry.axes)
    inner = points(entry.reduced.data, sizes) if whole else [at[rank:]]
    found: set[Point] = set()
    (piece,) = [
        p
        for p in entry.pieces
        if not isinstance(p.domain, AffineSetAttr) or holds(p.domain.data, at[:rank], symbols)
    ]
    for rest in inner:
        for operand, how in zip(entry.operands_read, piece.entries, strict=True):
            if isinstance(how, AffineMap):
                element = tuple(how.eval([*at[:rank], *rest], symbols))
                found |= needed(operand, element, wanted, sizes)
    return frozenset(found)
