"""The index book evaluated one point at a time: the slow reference of ``playback/index.py``.

It shares nothing with the playback but the functions of elements: maps and conditions are
evaluated on integers, and a reduction adds one element after another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import AffineSetAttr
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap, AffineSet

from polyc.dialects import index, tiny
from polyc.dialects.common.movements import MovementOp
from polyc.playback import functions
from polyc.playback.tiny import evaluate

Array = npt.NDArray[Any]
Point = tuple[int, ...]


def points(axes: Sequence[index.AxisAttr], symbols: Mapping[str, int]) -> Iterator[Point]:
    return itertools.product(*(range(a.dim.evaluate(symbols)) for a in axes))


def holds(condition: AffineSet, at: Point, symbols: Sequence[int]) -> bool:
    differences = [(row, (row.lhs - row.rhs).eval(at, symbols)) for row in condition.constraints]
    return all(d == 0 if row.kind.value == "==" else d >= 0 for row, d in differences)


def read(
    piece: index.PieceAttr, operands: Sequence[Array], at: Point, symbols: Sequence[int]
) -> list[Any]:
    """What each operand gives at a point of the maps' dimensions."""
    found: list[Any] = []
    for entry, array in zip(piece.entries, operands, strict=True):
        if isinstance(entry, AffineMap):
            where = entry.eval(at, symbols)
            assert all(0 <= c < n for c, n in zip(where, array.shape, strict=True)), where
            found.append(array[tuple(where)])
        else:
            found.append(array.dtype.type(entry))
    return found


def value(entry: index.ValueOp, operands: Sequence[Array], symbols: Mapping[str, int]) -> Array:
    """The value of ``entry`` from its operands, over its axes."""
    op = entry.value.owner
    assert isinstance(op, Operation) and entry.is_scop
    names = [symbols[s] for s in entry.symbol_names]
    result = np.empty([a.dim.evaluate(symbols) for a in entry.axes], object)
    for at in points(entry.axes.data, symbols):
        (piece,) = [
            p
            for p in entry.pieces
            if not isinstance(p.domain, AffineSetAttr) or holds(p.domain.data, at, names)
        ]
        if isinstance(op, tiny.ReduceOp):
            total = np.float32(functions.IDENTITY[op.function])
            for inner in points(entry.reduced.data, symbols):
                (element,) = read(piece, operands, (*at, *inner), names)
                fn = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op.function]
                total = fn(total, element)
            result[at] = total
            continue
        args = read(piece, operands, at, names)
        made = (
            args[0]
            if isinstance(op, MovementOp)
            else evaluate(op, list(map(np.asarray, args)), symbols)
        )
        result[at] = np.asarray(made)[()]
    return result.astype(functions.dtype_of(tiny.tensor_of(entry.value).element_type))


def values(
    graph: tiny.GraphOp, inputs: Sequence[Array], symbols: Mapping[str, int]
) -> dict[SSAValue, Array]:
    """Every value of a graph whose entries all have maps."""
    found: dict[SSAValue, Array] = dict(zip(graph.body.block.args, inputs, strict=True))
    with np.errstate(all="ignore"):
        for v, entry in index.book(graph).items():
            if v not in found:
                found[v] = value(entry, [found[o] for o in entry.operands_read], symbols)
    return found
