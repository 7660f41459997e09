"""Shape arithmetic: what is known of sizes stays known, with their symbols.

``Shape`` gives the sizes of a value; chains of Gather, Slice, Concat, arithmetic and Reshape on
them are folded here, so that a Reshape that they lead to has its sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import never_negative, product, quotient
from polyc.importers.onnx_ops.items import Array, Item, Sizes, known_sizes
from polyc.importers.onnx_ops.node import Node, dims_of

FOLDED = frozenset(
    (
        *("Abs", "Add", "And", "ArgMax", "ArgMin", "BitShift", "BitwiseAnd", "BitwiseNot"),
        *("BitwiseOr", "BitwiseXor", "Cast", "CastLike", "Ceil", "Clip", "Concat", "Cos"),
        *("CumSum", "Div", "Equal", "Exp", "Flatten", "Floor", "Gather", "GatherElements"),
        *("GatherND", "Greater", "GreaterOrEqual", "Identity", "IsInf", "IsNaN", "Less"),
        *("LessOrEqual", "Log", "Max", "Mean", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow"),
        *("Reciprocal", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Relu"),
        *("Reshape", "Round", "Shape", "Sign", "Sin", "Size", "Slice", "Split", "Sqrt", "Squeeze"),
        *("Sub", "Sum", "Tanh", "Transpose", "Trilu", "Unsqueeze", "Where", "Xor"),
    )
)
"""Ops that give no more elements than they take, or few, and are folded where all is known."""


def folded(node: Node) -> Item | None:
    """The one output of a node on sizes, None where it is no such node."""
    if node.op in ("Shape", "Size"):
        return _shape(node) if node.op == "Shape" else known_sizes(product(node.dims()))
    if not any(isinstance(one, Sizes) for one in node.inputs):
        return None
    if not all(isinstance(one, Sizes | np.ndarray) for one in node.inputs):
        return None
    if (fold := _FOLDS.get(node.op)) is None:
        return None
    return fold(node)


def _shape(node: Node) -> Item:
    dims = list(dims_of(node.item(0)))
    start, end = node.attr("start", 0), node.attr("end")
    return Sizes.of(dims[slice(start, end)])


def _dims(node: Node, index: int) -> Array:
    item = node.item(index)
    if isinstance(item, Sizes):
        return item.dims
    array = cast("Array", item)
    made = np.empty(array.shape, dtype=object)
    made.flat[:] = [Dim.const(int(n)) for n in array.reshape(-1)]
    return made


def _each(function: Callable[[Dim, Dim], Dim | None]) -> Callable[[Node], Item | None]:
    def fold(node: Node) -> Item | None:
        a, b = np.broadcast_arrays(_dims(node, 0), _dims(node, 1))
        found = [function(x, y) for x, y in zip(a.flat, b.flat, strict=True)]
        if any(one is None for one in found):
            return None
        made = np.empty(a.shape, dtype=object)
        made.flat[:] = found
        return known_sizes(made)

    return fold


def _div(node: Node) -> Item | None:
    """The quotient, which is cut towards 0: of sizes that are 0 or more, that rounds down."""

    def one(a: Dim, b: Dim) -> Dim | None:
        by = b.constant()
        if by is not None and by > 0 and never_negative(a, node.builder.inside):
            return a.floordiv(by)
        return quotient(a, b)

    return _each(one)(node)


def _rest(a: Dim, b: Dim) -> Dim | None:
    return a.mod(by) if (by := b.constant()) is not None and by > 0 else None


def _extreme(sign: int) -> Callable[[Dim, Dim], Dim | None]:
    def pick(a: Dim, b: Dim) -> Dim | None:
        difference = (a - b).constant()
        return None if difference is None else a if difference * sign >= 0 else b

    return pick


def _relation(answer: Callable[[int], bool]) -> Callable[[Node], Item | None]:
    def fold(node: Node) -> Item | None:
        a, b = np.broadcast_arrays(_dims(node, 0), _dims(node, 1))
        found = [(x - y).constant() for x, y in zip(a.flat, b.flat, strict=True)]
        if any(one is None for one in found):
            # A size is no number below 0, as the -1 of a shape is.
            below = [y.constant() for y in b.flat]
            if not all(n is not None and n < 0 for n in below):
                return None
            found = [1 if one is None else one for one in found]
        return np.array([answer(cast("int", one)) for one in found]).reshape(a.shape)

    return fold


def _gather(node: Node) -> Item | None:
    if not isinstance(indices := node.item(1), np.ndarray) or indices.dtype.kind not in "iu":
        return None
    dims = _dims(node, 0)
    return known_sizes(np.take(dims, indices.astype(np.int64), node.axis(rank=dims.ndim)))


def _concat(node: Node) -> Item:
    return known_sizes(
        np.concatenate([_dims(node, i) for i in range(len(node.inputs))], node.attr("axis", 0))
    )


def _reshape(node: Node) -> Item | None:
    if not isinstance(shape := node.item(1), np.ndarray):
        return None
    return known_sizes(_dims(node, 0).reshape([int(n) for n in shape]))


def _axes(node: Node) -> list[int] | None:
    if node.has(1):
        return [int(n) for n in node.ints(1)]
    axes: Any = node.attr("axes")
    return None if axes is None else [int(n) for n in axes]


def _squeeze(node: Node) -> Item:
    axes = _axes(node)
    return known_sizes(np.squeeze(_dims(node, 0), None if axes is None else tuple(axes)))


def _unsqueeze(node: Node) -> Item:
    return known_sizes(np.expand_dims(_dims(node, 0), tuple(_axes(node) or ())))


def _slice(node: Node) -> Item | None:
    if not node.has(1) or not all(isinstance(i, np.ndarray) for i in node.inputs[1:]):
        return None
    dims = _dims(node, 0)
    starts, ends = node.ints(1), node.ints(2)
    axes = node.ints(3) if node.has(3) else list(range(len(starts)))
    steps = node.ints(4) if node.has(4) else [1] * len(starts)
    key = [slice(None)] * dims.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = dims.shape[axis]
        stop: int | None = end
        if step < 0 and end < -size:
            stop = None
        key[axis] = slice(start, stop, step)
    return known_sizes(dims[tuple(key)])


def _where(node: Node) -> Item | None:
    if not isinstance(condition := node.item(0), np.ndarray):
        return None
    found = np.broadcast_arrays(condition, _dims(node, 1), _dims(node, 2))
    made = np.empty(found[0].shape, dtype=object)
    made.flat[:] = [x if c else y for c, x, y in zip(*(f.flat for f in found), strict=True)]
    return known_sizes(made)


def _cast(node: Node) -> Item | None:
    return node.item(0) if node.attr("to") == 7 else None


def _product(node: Node) -> Item | None:
    dims = _dims(node, 0)
    axes = _axes(node)
    if axes not in (None, [], [0], [-1]) or dims.ndim > 1:
        return None
    found = product(cast("list[Dim]", list(dims.flat)))
    return known_sizes([found] if node.attr("keepdims", 1) and dims.ndim else found)


def _equal(number: int) -> bool:
    return number == 0


_FOLDS: Mapping[str, Callable[[Node], Item | None]] = {
    "Add": _each(lambda a, b: a + b),
    "Sub": _each(lambda a, b: a - b),
    "Mul": _each(lambda a, b: a * b),
    "Div": _div,
    "Mod": _each(_rest),
    "Max": _each(_extreme(1)),
    "Min": _each(_extreme(-1)),
    "Equal": _relation(_equal),
    "Less": _relation(lambda n: n < 0),
    "Greater": _relation(lambda n: n > 0),
    "Gather": _gather,
    "Concat": _concat,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Slice": _slice,
    "Where": _where,
    "Cast": _cast,
    "Identity": lambda node: node.item(0),
    "ReduceProd": _product,
}
