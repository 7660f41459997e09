"""Steps of optimizers, of the domain ``ai.onnx.preview.training``."""

from __future__ import annotations

from collections.abc import Callable

from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value

DOMAIN = "ai.onnx.preview.training"

Step = Callable[[Node, Value, Value, list[Value]], list[Value]]
"""Of a rate, a count of steps, and a tensor with its gradient and state: the new ones."""


def _optimizer(name: str, states: int, step: Step) -> None:
    @converter("onnx", f"{DOMAIN}::{name}")
    def say(node: Node) -> tuple[Value, ...]:
        rate, turn = node.value(0), node.value(1)
        each = 2 + states
        count = (len(node.inputs) - 2) // each
        results: list[list[Value]] = []
        for i in range(count):
            parts = [node.value(2 + k * count + i) for k in range(each)]
            # What the norm of the weights adds to the gradient.
            parts[1] = parts[0] * float(node.attr("norm_coefficient", 0.0)) + parts[1]
            results.append(step(node, rate, turn.cast(rate.dtype), parts))
        return tuple(results[i][k] for k in range(1 + states) for i in range(count))

    say.__name__ = name


def _adagrad(node: Node, rate: Value, turn: Value, parts: list[Value]) -> list[Value]:
    x, g, h = parts
    rate = rate / (1.0 + turn * float(node.attr("decay_factor", 0.0)))
    squares = h + g * g
    return [x - rate * g / (F.sqrt(squares) + float(node.attr("epsilon", 1e-6))), squares]


def _momentum(node: Node, rate: Value, turn: Value, parts: list[Value]) -> list[Value]:
    x, g, v = parts
    alpha, beta = float(node.attr("alpha")), float(node.attr("beta"))
    new = v * alpha + F.where(turn > 0.0, g * beta, g)
    if node.attr("mode") == b"nesterov":
        return [x - rate * (g + new * alpha), new]
    return [x - rate * new, new]


def _adam(node: Node, rate: Value, turn: Value, parts: list[Value]) -> list[Value]:
    x, g, v, h = parts
    alpha, beta = float(node.attr("alpha", 0.9)), float(node.attr("beta", 0.999))
    new = v * alpha + g * (1 - alpha)
    squares = h * beta + g * g * (1 - beta)
    corrected = rate * F.sqrt(1.0 - F.pow(beta, turn)) / (1.0 - F.pow(alpha, turn))
    rate = F.where(turn > 0.0, corrected, rate)
    found = x - rate * new / (F.sqrt(squares) + float(node.attr("epsilon", 1e-6)))
    return [found * (1 - float(node.attr("norm_coefficient_post", 0.0))), new, squares]


_optimizer("Adagrad", 1, _adagrad)
_optimizer("Momentum", 1, _momentum)
_optimizer("Adam", 2, _adam)
