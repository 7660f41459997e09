"""Losses: the negative log likelihood, and the cross entropy over a softmax."""

from __future__ import annotations

from polyc.importers.onnx_ops.items import ABSENT, Item
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace.values import Value


def _loss(node: Node, scores: Value, labels: Value, weight: Value | None) -> Value:
    ignored = node.attr("ignore_index")
    labels = labels.cast("i64")
    taken = labels
    kept: Value | None = None
    if ignored is not None:
        kept = labels != int(ignored)
        taken = F.where(kept, labels, 0)
    found = -G.take_along_axis(scores, taken.unsqueeze(1), 1).squeeze(1)
    share = None if weight is None else G.take(weight, taken)
    if kept is not None:
        ones = kept.cast(scores.dtype)
        share = ones if share is None else F.where(kept, share, 0.0)
        found = F.where(kept, found, 0.0)
    if share is not None:
        found = found * share
    match node.attr("reduction", b"mean"):
        case b"none":
            return found
        case b"sum":
            return found.sum()
        case _:
            return found.mean() if share is None else found.sum() / share.sum()


@converter("onnx", "NegativeLogLikelihoodLoss")
def likelihood(node: Node) -> Value:
    """Of logarithms of probabilities."""
    return _loss(node, node.value(0), node.value(1), node.optional(2))


@converter("onnx", "SoftmaxCrossEntropyLoss")
def cross_entropy(node: Node) -> tuple[Item, Item]:
    """Of scores; the logarithms of their softmax are a second output."""
    logs = F.log_softmax(node.value(0), 1)
    found = _loss(node, logs, node.value(1), node.optional(2))
    return found, logs if node.wants(1) else ABSENT
