"""If, Loop and Scan, and sequences: what is decided while a model is imported.

A branch or a number of turns that is known is written out.  Where the condition of an If is data,
both branches are computed and one is chosen, as long as they give tensors of one shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.importers.onnx_ops.items import ABSENT, LOST, Item, Unsaid
from polyc.importers.onnx_ops.movements import sliced
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value

MOST_TURNS = 1024
"""Turns of a loop that are written out, at most."""


@converter("onnx", "If")
def branch(node: Node) -> tuple[Item, ...]:
    """One of two graphs."""
    then, other = node.attr("then_branch"), node.attr("else_branch")
    condition = node.item(0)
    if isinstance(condition, np.ndarray):
        return tuple(node.subgraph(then if bool(condition.reshape(-1)[0]) else other, []))
    when = node.value(0).reshape(())
    first, second = node.subgraph(then, []), node.subgraph(other, [])
    return tuple(_chosen(node, when, a, b) for a, b in zip(first, second, strict=True))


def _chosen(node: Node, when: Value, a: Item, b: Item) -> Item:
    if a is LOST or b is LOST:
        return LOST
    if isinstance(a, list) or isinstance(b, list):
        if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
            node.unsaid("the branches of an If by data give unlike sequences", when)
        return [_chosen(node, when, x, y) for x, y in zip(a, b, strict=True)]
    if a is ABSENT or b is ABSENT:
        if a is b:
            return a
        node.unsaid("the branches of an If by data do not both give a tensor", when)
    x, y = node.constants.value(a), node.constants.value(b)
    if x.kind != y.kind:
        node.unsaid(f"the branches of an If by data give {x!r} and {y!r}", when)
    wide = Value(x.builder, x.builder.expand(when.ssa, list(x.kind.dims)))
    if x.dtype == "i1":
        return (wide & x) | (~wide & y)
    return F.where(wide, x, y)


@converter("onnx", "Loop")
def loop(node: Node) -> tuple[Item, ...]:
    """A known number of turns, written out."""
    body = node.attr("body")
    most = MOST_TURNS + 1
    if node.has(0):
        most = int(node.number(0, "how many turns it takes"))
    going: Item = node.item(1) if node.has(1) else np.array(True)
    state = node.inputs[2:]
    count = len(state)
    gathered: list[list[Item]] = [[] for _ in range(len(body.output) - 1 - count)]
    turn = 0
    while turn < most:
        if going is LOST:
            return (LOST,) * len(node.outputs)
        if not isinstance(going, np.ndarray):
            raise Unsaid("whether it goes on is data", going)
        if not bool(going.reshape(-1)[0]):
            break
        if turn >= MOST_TURNS:
            node.unsaid(f"a loop of more than {MOST_TURNS} turns")
        found = node.subgraph(body, [np.array(turn, dtype=np.int64), going, *state])
        going, state = found[0], found[1 : 1 + count]
        if not node.has(1) and not node.has(0):
            pass
        for kept, one in zip(gathered, found[1 + count :], strict=True):
            kept.append(one)
        turn += 1
    return (*state, *(stacked(node, kept) for kept in gathered))


def stacked(node: Node, parts: list[Item], axis: int = 0) -> Item:
    """Tensors along a new axis."""
    if any(p is LOST for p in parts):
        return LOST
    if not parts:
        node.unsaid("a loop without a turn gives a tensor of unknown sizes")
    if all(isinstance(p, np.ndarray) for p in parts):
        return np.stack([p for p in parts if isinstance(p, np.ndarray)], axis)
    return F.stack([node.constants.value(p) for p in parts], axis)


@converter("onnx", "Scan")
def scan(node: Node) -> tuple[Item, ...]:
    """A turn for each element along an axis, written out."""
    body, count = node.attr("body"), int(node.attr("num_scan_inputs"))
    inputs = list(node.inputs)
    batched = node.version < 9
    if batched:
        inputs = inputs[1:]
    states, sources = inputs[: len(inputs) - count], inputs[len(inputs) - count :]
    if batched:
        return _batched(node, body, states, sources)
    axes = list(node.attr("scan_input_axes", [0] * count))
    backwards = list(node.attr("scan_input_directions", [0] * count))
    made = len(body.output) - len(states)
    out_axes = list(node.attr("scan_output_axes", [0] * made))
    out_backwards = list(node.attr("scan_output_directions", [0] * made))
    state, gathered = _scanned(node, body, states, sources, axes, backwards)
    outputs = [
        stacked(node, kept[::-1] if back else kept, axis)
        for kept, axis, back in zip(gathered, out_axes, out_backwards, strict=True)
    ]
    return (*state, *outputs)


def _scanned(
    node: Node,
    body: Any,
    states: list[Item],
    sources: list[Item],
    axes: list[int],
    backwards: list[int],
) -> tuple[list[Item], list[list[Item]]]:
    values = [node.constants.value(s) for s in sources]
    axes = [node.placed(a, v.ndim) for a, v in zip(axes, values, strict=True)]
    length = values[0].kind.dims[axes[0]].constant()
    if length is None:
        node.unsaid(f"a Scan along {values[0].kind.dims[axes[0]]}, which a call chooses")
    if length > MOST_TURNS:
        node.unsaid(f"a Scan of {length} turns; up to {MOST_TURNS} are written out")
    state = states
    gathered: list[list[Item]] = [[] for _ in range(len(body.output) - len(states))]
    for turn in range(length):
        parts: list[Item] = []
        for value, axis, back in zip(values, axes, backwards, strict=True):
            at = length - 1 - turn if back else turn
            parts.append(sliced(value, axis, at, at + 1).squeeze(axis))
        found = node.subgraph(body, [*state, *parts])
        state = found[: len(states)]
        for kept, one in zip(gathered, found[len(states) :], strict=True):
            kept.append(one)
    return state, gathered


def _batched(node: Node, body: Any, states: list[Item], sources: list[Item]) -> tuple[Item, ...]:
    """Scan as it was before operator set 9: a batch, each element of which is scanned."""
    if node.has(0):
        node.unsaid("a Scan of operator set 8 with lengths")
    backwards = list(node.attr("directions", [0] * len(sources)))
    values = [node.constants.value(i) for i in (*states, *sources)]
    batch = values[0].kind.dims[0].constant()
    if batch is None or batch > MOST_TURNS:
        node.unsaid("a Scan of operator set 8 over a batch that a call chooses")
    columns: list[list[Item]] = [[] for _ in range(len(body.output))]
    for b in range(batch):
        parts: list[Item] = [v[b] for v in values]
        first, rest = parts[: len(states)], parts[len(states) :]
        state, gathered = _scanned(node, body, first, rest, [0] * len(rest), backwards)
        for column, one in zip(
            columns, [*state, *(stacked(node, k) for k in gathered)], strict=True
        ):
            column.append(one)
    return tuple(stacked(node, column) for column in columns)


# Sequences and optionals ---------------------------------------------------------------------


def _sequence(node: Node, index: int = 0) -> list[Item]:
    item = node.item(index)
    if not isinstance(item, list):
        node.unsaid("a sequence is no value of a graph")
    return item


def _position(node: Node, index: int, length: int) -> int:
    at = int(node.number(index, "a position in a sequence"))
    if not -length <= at < max(length, 1) and at != length:
        node.unsaid(f"position {at} is none of {length}")
    return at + length if at < 0 else at


@converter("onnx", "SequenceEmpty")
def sequence_empty(node: Node) -> tuple[Item, ...]:
    """A sequence of nothing."""
    return ([],)


@converter("onnx", "SequenceConstruct")
def sequence_construct(node: Node) -> tuple[Item, ...]:
    """A sequence of tensors."""
    return (list(node.inputs),)


@converter("onnx", "SequenceInsert")
def sequence_insert(node: Node) -> tuple[Item, ...]:
    """One more, at the end unless it is said."""
    found = list(_sequence(node))
    at = _position(node, 2, len(found)) if node.has(2) else len(found)
    found.insert(at, node.item(1))
    return (found,)


@converter("onnx", "SequenceErase")
def sequence_erase(node: Node) -> tuple[Item, ...]:
    """One less."""
    found = list(_sequence(node))
    del found[_position(node, 1, len(found)) if node.has(1) else len(found) - 1]
    return (found,)


@converter("onnx", "SequenceAt")
def sequence_at(node: Node) -> Item:
    """One of them."""
    found = _sequence(node)
    return found[_position(node, 1, len(found))]


@converter("onnx", "SequenceLength")
def sequence_length(node: Node) -> Item:
    """How many there are."""
    return np.array(len(_sequence(node)), dtype=np.int64)


@converter("onnx", "ConcatFromSequence")
def concat_sequence(node: Node) -> Item:
    """All of them along an axis, one that there is or a new one."""
    found, axis = _sequence(node), int(node.attr("axis"))
    if node.attr("new_axis", 0):
        return stacked(node, found, axis)
    if all(isinstance(f, np.ndarray) for f in found):
        return np.concatenate([f for f in found if isinstance(f, np.ndarray)], axis)
    values = [node.constants.value(f) for f in found]
    return F.concat(values, node.placed(axis, values[0].ndim))


@converter("onnx", "SplitToSequence")
def split_sequence(node: Node) -> tuple[Item, ...]:
    """Parts of an axis, one by one unless their sizes are said."""
    x, axis = node.value(0), node.axis()
    size = x.kind.dims[axis].constant()
    if size is None:
        node.unsaid("a split of a size that a call chooses into a sequence")
    alone = not node.has(1)
    if alone:
        widths = [1] * size
    else:
        given = node.known(1, "its sizes")
        widths = [int(n) for n in given.reshape(-1)]
        if given.ndim == 0:
            each = widths[0]
            widths = [min(each, size - at) for at in range(0, size, each)]
    parts: list[Item] = []
    at = 0
    for width in widths:
        part = sliced(x, axis, at, at + width)
        parts.append(part if not alone or node.attr("keepdims", 1) else part.squeeze(axis))
        at += width
    return (parts,)


@converter("onnx", "Optional")
def optional(node: Node) -> Item:
    """Something, or nothing."""
    return node.item(0)


@converter("onnx", "OptionalHasElement")
def has_element(node: Node) -> Item:
    """Whether there is something."""
    return np.array(node.item(0) is not ABSENT)


@converter("onnx", "OptionalGetElement")
def get_element(node: Node) -> tuple[Item, ...]:
    """What there is."""
    if node.item(0) is ABSENT:
        node.unsaid("it takes what an empty optional has not")
    return (node.item(0),)


@converter("onnx", "Compress")
def compress(node: Node) -> Value:
    """The elements at which a condition holds, which says the result's size."""
    x = node.value(0)
    held = [i for i, c in enumerate(node.known(1, "its condition").reshape(-1)) if c]
    axis = node.attr("axis")
    from polyc.importers.onnx_ops.movements import taken

    if axis is None:
        return taken(x.reshape(-1), 0, tuple(held))
    return taken(x, node.placed(int(axis), x.ndim), tuple(held))
