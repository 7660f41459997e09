"""RNN, GRU and LSTM: their turns are written out, so that they have a known number of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from polyc.importers.onnx_ops.control import MOST_TURNS
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value

Function = Callable[[Value], Value]


def _activation(name: str, alpha: float | None, beta: float | None) -> Function | None:
    def affine(x: Value) -> Value:
        return x * (1.0 if alpha is None else alpha) + (0.0 if beta is None else beta)

    def hard_sigmoid(x: Value) -> Value:
        line = x * (0.2 if alpha is None else alpha) + (0.5 if beta is None else beta)
        return F.minimum(F.maximum(line, 0.0), 1.0)

    def leaky(x: Value) -> Value:
        return F.where(x < 0.0, x * (0.01 if alpha is None else alpha), x)

    def elu(x: Value) -> Value:
        return F.where(x > 0.0, x, F.expm1(x) * (1.0 if alpha is None else alpha))

    def scaled_tanh(x: Value) -> Value:
        return F.tanh(x * (1.0 if beta is None else beta)) * (1.0 if alpha is None else alpha)

    def thresholded(x: Value) -> Value:
        return F.where(x > (1.0 if alpha is None else alpha), x, 0.0)

    known: dict[str, Function] = {
        "affine": affine,
        "elu": elu,
        "hardsigmoid": hard_sigmoid,
        "leakyrelu": leaky,
        "relu": F.relu,
        "scaledtanh": scaled_tanh,
        "sigmoid": F.sigmoid,
        "softplus": F.softplus,
        "softsign": F.softsign,
        "tanh": F.tanh,
        "thresholdedrelu": thresholded,
    }
    return known.get(name.lower())


@dataclass
class _Cell:
    """One direction of a layer: its weights, and how a turn goes."""

    w: Value
    r: Value
    bias: tuple[Value, Value] | None
    peepholes: Value | None
    functions: Sequence[Function]
    clip: float | None
    hidden: int
    before: bool

    def gate(self, x: Value) -> Value:
        """A gate's sum, brought between the bounds that there are."""
        if self.clip is None:
            return x
        return F.minimum(F.maximum(x, -self.clip), self.clip)

    def part(self, x: Value, index: int) -> Value:
        """A gate's columns."""
        return x[:, index * self.hidden : (index + 1) * self.hidden]


Turn = Callable[[_Cell, Value, Sequence[Value]], Sequence[Value]]


def _rnn(cell: _Cell, x: Value, state: Sequence[Value]) -> Sequence[Value]:
    total = x + state[0] @ cell.r.T
    if cell.bias is not None:
        total = total + cell.bias[1]
    return [cell.functions[0](cell.gate(total))]


def _gru(cell: _Cell, x: Value, state: Sequence[Value]) -> Sequence[Value]:
    h, n = state[0], cell.hidden
    f, g = cell.functions
    both = h @ cell.r[: 2 * n].T
    own = cell.bias[1] if cell.bias is not None else None
    if own is not None:
        both = both + own[: 2 * n]
    z = f(cell.gate(cell.part(x, 0) + cell.part(both, 0)))
    r = f(cell.gate(cell.part(x, 1) + cell.part(both, 1)))
    last = cell.r[2 * n :].T
    if cell.before:
        hidden = h @ last
        hidden = r * (hidden if own is None else hidden + own[2 * n :])
    else:
        hidden = (r * h) @ last
        hidden = hidden if own is None else hidden + own[2 * n :]
    new = g(cell.gate(cell.part(x, 2) + hidden))
    return [(1.0 - z) * new + z * h]


def _lstm(coupled: bool, cell: _Cell, x: Value, state: Sequence[Value]) -> Sequence[Value]:
    h, c = state
    f, g, k = cell.functions
    total = x + h @ cell.r.T
    if cell.bias is not None:
        total = total + cell.bias[1]
    parts = [cell.part(total, i) for i in range(4)]  # input, output, forget, cell
    peep: list[Value | None] = [None] * 3
    if cell.peepholes is not None:
        n = cell.hidden
        peep = [cell.peepholes[i * n : (i + 1) * n] for i in range(3)]

    def seen(index: int, of: Value) -> Value:
        one = peep[index]
        return parts[index] if one is None else parts[index] + one * of

    i = f(cell.gate(seen(0, c)))
    forget = 1.0 - i if coupled else f(cell.gate(seen(2, c)))
    new = forget * c + i * g(cell.gate(parts[3]))
    o = f(cell.gate(seen(1, new)))
    return [o * k(new), new]


def _layer(
    node: Node, turn: Turn, gates: int, defaults: Sequence[str], states: int
) -> tuple[Value, ...]:
    x, w, r = node.value(0), node.value(1), node.value(2)
    batch_first = bool(node.attr("layout", 0))
    x = x.permute(1, 0, 2) if batch_first else x
    length, hidden = x.kind.dims[0].constant(), r.kind.dims[2].constant()
    if length is None or hidden is None or length > MOST_TURNS:
        node.unsaid(
            f"a recurrence of {x.kind.dims[0]} turns; up to {MOST_TURNS}, of a known "
            "number, are written out"
        )
    direction: bytes = node.attr("direction", b"forward")
    count = 2 if direction == b"bidirectional" else 1
    names = [n.decode() for n in node.attr("activations", [])] or list(defaults) * count
    alphas = list(node.attr("activation_alpha", []))
    betas = list(node.attr("activation_beta", []))
    functions: list[Function] = []
    for i, name in enumerate(names):
        one = _activation(
            name, alphas[i] if i < len(alphas) else None, betas[i] if i < len(betas) else None
        )
        if one is None:
            node.unsaid(f"{name} is no activation that it knows")
        functions.append(one)
    each = len(defaults)
    bias, lengths = node.optional(3), node.optional(4)
    starts = [node.optional(5 + i) for i in range(states)]
    peepholes = node.optional(7) if states == 2 else None
    clip = node.attr("clip")
    every: list[list[Value]] = []
    ends: list[list[Value]] = []
    for d in range(count):
        own = None
        if bias is not None:
            own = bias[d, : gates * hidden], bias[d, gates * hidden :]
        cell = _Cell(
            w[d],
            r[d],
            own,
            None if peepholes is None else peepholes[d],
            functions[d * each : (d + 1) * each],
            None if clip is None else float(clip),
            hidden,
            bool(node.attr("linear_before_reset", 0)),
        )
        zeros = node.constants.full([x.kind.dims[1], r.kind.dims[2]], 0.0, x.dtype)
        first = [zeros if s is None else (s[:, d] if batch_first else s[d]) for s in starts]
        back = direction == b"reverse" or d == 1
        found, last = _turns(cell, turn, x, first, lengths, length, back)
        every.append(found)
        ends.append(last)
    y = F.stack([F.stack(one, 0) for one in every], 1)  # [turns, directions, batch, hidden]
    finals = [F.stack([end[i] for end in ends], 0) for i in range(states)]
    if batch_first:
        y = y.permute(2, 0, 1, 3)
        finals = [f.permute(1, 0, 2) for f in finals]
    return (y, *finals)


def _turns(
    cell: _Cell,
    turn: Turn,
    x: Value,
    state: Sequence[Value],
    lengths: Value | None,
    length: int,
    back: bool,
) -> tuple[list[Value], list[Value]]:
    """What each turn gives, in the order of the turns of ``x``, and the last state.

    A sequence that is over keeps its state, and gives 0.  Backwards it begins at its own end.
    """
    outputs: dict[int, Value] = {}
    for step in range(length):
        at = length - 1 - step if back else step
        inputs = x[at] @ cell.w.T
        if cell.bias is not None:
            inputs = inputs + cell.bias[0]
        new = list(turn(cell, inputs, state))
        if lengths is not None:
            going = (lengths > at).unsqueeze(1).expand(*new[0].shape)
            outputs[at] = F.where(going, new[0], 0.0)
            new = [F.where(going, n, s) for n, s in zip(new, state, strict=True)]
        else:
            outputs[at] = new[0]
        state = new
    return [outputs[i] for i in range(length)], list(state)


@converter("onnx", "RNN")
def rnn(node: Node) -> tuple[Value, ...]:
    """The plain one."""
    return _layer(node, _rnn, 1, ["Tanh"], 1)


@converter("onnx", "GRU")
def gru(node: Node) -> tuple[Value, ...]:
    """Gated recurrent units."""
    return _layer(node, _gru, 3, ["Sigmoid", "Tanh"], 1)


@converter("onnx", "LSTM")
def lstm(node: Node) -> tuple[Value, ...]:
    """Long short-term memory."""
    turn = partial(_lstm, bool(node.attr("input_forget", 0)))
    return _layer(node, turn, 4, ["Sigmoid", "Tanh", "Tanh"], 2)
