"""What cells of recurrent layers are made of.

PyTorch's own composite forms of these ops ask where a tensor lies: on a GPU they are one kernel of
PyTorch's (``_thnn_fused_gru_cell``), which nothing decomposes.  These say the same on any device
(``torch.nn.GRUCell``, ``LSTMCell`` and ``RNNCell`` give the equations).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from polyc.importers.registry import library


def gru_cell(x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None) -> Any:
    """``aten.gru_cell``: the next state [batch, hidden] of input [batch, features]."""
    linear = _linear()
    return fused_gru_cell(linear(x, w_x, b_x), linear(h, w_h, b_h), h)[0]


def lstm_cell(
    x: Any, state: Sequence[Any], w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None
) -> tuple[Any, Any]:
    """``aten.lstm_cell``: the next output and cell state, each [batch, hidden]."""
    linear, (h, c) = _linear(), state
    return fused_lstm_cell(linear(x, w_x, b_x), linear(h, w_h, b_h), c)[:2]


def rnn_cell(
    name: str, x: Any, h: Any, w_x: Any, w_h: Any, b_x: Any = None, b_h: Any = None
) -> Any:
    """``aten.rnn_tanh_cell`` and ``rnn_relu_cell``: ``name`` of both sides' sum."""
    linear = _linear()
    return getattr(linear(x, w_x, b_x) + linear(h, w_h, b_h), name)()


def fused_gru_cell(
    of_x: Any, of_h: Any, h: Any, b_x: Any = None, b_h: Any = None
) -> tuple[Any, Any]:
    """``aten._thnn_fused_gru_cell``: the next state of what the products [batch, 3 hidden] are, in
    the order of the gates r, z and n; and what the derivative would read."""
    torch = library("torch", "torch")
    (r_x, z_x, n_x), (r_h, z_h, n_h) = _gates(of_x, b_x, 3), _gates(of_h, b_h, 3)
    r, z = (r_x + r_h).sigmoid(), (z_x + z_h).sigmoid()
    n = (n_x + r * n_h).tanh()
    return (h - n) * z + n, torch.cat([r, z, n, h, n_h], 1)


def fused_lstm_cell(
    of_x: Any, of_h: Any, c: Any, b_x: Any = None, b_h: Any = None
) -> tuple[Any, Any, Any]:
    """``aten._thnn_fused_lstm_cell``: the next output and cell state of what the products
    [batch, 4 hidden] are, in the order of the gates i, f, g and o; and the gates."""
    torch = library("torch", "torch")
    pairs = zip(_gates(of_x, b_x, 4), _gates(of_h, b_h, 4), strict=True)
    i, f, g, o = (one + other for one, other in pairs)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    after = f * c + i * g
    return o * after.tanh(), after, torch.cat([i, f, g, o], 1)


def in_layers(op: str, how: Callable[..., Any]) -> Callable[..., Any]:
    """A decomposition of ``op`` whose last states, where it is one of ``LAYERS``, have the shape of
    the first ones: that of some versions of PyTorch leaves an axis of 1 in them, also where
    PyTorch asks itself what the op gives."""
    first = LAYERS.get(op)
    if first is None:
        return how

    def shaped(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
        out, *states = how(*args, **kwargs)
        pairs = zip(states, args[first], strict=True)
        return out, *(state.reshape(given.shape) for state, given in pairs)

    return shaped


def _gates(products: Any, bias: Any, count: int) -> Sequence[Any]:
    return (products if bias is None else products + bias).chunk(count, 1)


def _linear() -> Callable[..., Any]:
    return library("torch", "torch").nn.functional.linear


CELLS: Mapping[str, Callable[..., Any]] = {
    "aten.gru_cell.default": gru_cell,
    "aten.lstm_cell.default": lstm_cell,
    "aten.rnn_tanh_cell.default": partial(rnn_cell, "tanh"),
    "aten.rnn_relu_cell.default": partial(rnn_cell, "relu"),
    "aten._thnn_fused_gru_cell.default": fused_gru_cell,
    "aten._thnn_fused_lstm_cell.default": fused_lstm_cell,
}
"""Decompositions by the names of the ops."""

LAYERS: Mapping[str, int] = {"aten.lstm.input": 1, "aten.lstm.data": 2}
"""Which argument has the first states [layers, batch, hidden] of an op of several layers."""
