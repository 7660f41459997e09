"""Reading and writing at indices."""

from __future__ import annotations

import numpy as np

from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace.values import Value

REDUCTIONS = {b"none": "set", b"add": "add", b"mul": "mul", b"max": "max", b"min": "min"}


@converter("onnx", "Gather")
def gather(node: Node) -> Value:
    """Elements at indices along an axis."""
    x, axis = node.value(0), node.axis()
    item = node.item(1)
    if isinstance(item, np.ndarray) and item.ndim == 0 and x.kind.dims[axis].constant() is not None:
        before = (slice(None),) * axis
        return x[(*before, int(item))]
    return G.take(x, node.value(1), axis)


@converter("onnx", "GatherElements")
def gather_elements(node: Node) -> Value:
    """An index for each element."""
    return G.take_along_axis(node.value(0), node.value(1), node.axis())


@converter("onnx", "GatherND")
def gather_nd(node: Node) -> Value:
    """Tuples of indices."""
    return G.gather_nd(node.value(0), node.value(1), int(node.attr("batch_dims", 0)))


@converter("onnx", "ScatterElements", "Scatter")
def scatter_elements(node: Node) -> Value:
    """An update for each index."""
    how = REDUCTIONS[node.attr("reduction", b"none")]
    x, index, updates = node.value(0), node.value(1), node.value(2)
    return G.scatter_along_axis(x, index, updates, node.axis(), reduce=how)


@converter("onnx", "ScatterND")
def scatter_nd(node: Node) -> Value:
    """An update for each tuple of indices."""
    how = REDUCTIONS[node.attr("reduction", b"none")]
    return G.scatter_nd(node.value(0), node.value(1), node.value(2), reduce=how)


@converter("onnx", "TensorScatter")
def tensor_scatter(node: Node) -> Value:
    """Updates of a cache, from where each sequence stands on; ``circular`` begins again."""
    cache, update = node.value(0), node.value(1)
    axis = node.placed(int(node.attr("axis", -2)), cache.ndim)
    at = F.iota(update.shape, axis)
    if node.has(2):
        first = node.value(2).cast("i64")
        at = at + first.reshape(-1, *[1] * (cache.ndim - 1))
    if node.attr("mode", b"linear") == b"circular":
        at = at % cache.shape[axis]  # pyright: ignore[reportOperatorIssue]
    return G.scatter_along_axis(cache, at, update, axis)


@converter("onnx", "ai.onnx.ml::ArrayFeatureExtractor")
def array_feature(node: Node) -> Value:
    """Columns at indices."""
    x, index = node.value(0), node.value(1).reshape(-1)
    found = G.take(x, index, x.ndim - 1)
    return found.reshape(1, -1) if x.ndim == 1 else found
