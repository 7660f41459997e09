"""DeformConv: a convolution over two axes whose taps each element of the result moves."""

from __future__ import annotations

import numpy as np

from polyc.dialects.common.dim import Dim
from polyc.importers.onnx_ops.items import Array
from polyc.importers.onnx_ops.movements import reshaped
from polyc.importers.onnx_ops.node import Node
from polyc.importers.onnx_ops.products import windows_of
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace.sizes import size_of
from polyc.trace.values import Value


@converter("onnx", "DeformConv")
def deform_conv(node: Node) -> Value:
    """Each tap lies between four elements, weighed by how near they are; outside is 0."""
    x, w, offset = node.value(0), node.value(1), node.value(2)
    kernel = [d.constant() for d in w.kind.dims[2:]]
    if x.ndim != 4 or None in kernel:
        node.unsaid("a DeformConv other than over two axes, with a known window")
    rows, columns = (k or 0 for k in kernel)
    stride, rooms, dilation = windows_of(node, x, [rows, columns])
    groups, parts = int(node.attr("group", 1)), int(node.attr("offset_group", 1))
    taps = rows * columns
    batch, channels, height, width = x.kind.dims
    out = offset.kind.dims[2:]
    shape = [batch, Dim.const(parts), Dim.const(taps)]
    apart = reshaped(offset, [*shape, Dim.const(2), *out])
    places: list[Value] = []
    for axis in (0, 1):
        which = np.indices((rows, columns))[axis].reshape(-1) * dilation[axis]
        start = _tensor(node, which.astype(np.float32) - rooms[2 * axis]).reshape(-1, 1, 1)
        along = F.iota([1, *(size_of(d) for d in out)], 1 + axis).cast("f32")
        places.append(apart[:, :, :, axis].cast("f32") + (along * float(stride[axis]) + start))
    # [batch, part, row, column, channels of the part]
    each = channels.floordiv(parts)
    image = reshaped(x, [batch, Dim.const(parts), each, height, width]).permute(0, 1, 3, 4, 2)
    sampled: Value | None = None
    for down in (0, 1):
        for right in (0, 1):
            term = _corner(image, places, (height, width), (down, right))
            sampled = term if sampled is None else sampled + term
    assert sampled is not None
    if node.has(4):
        mask = reshaped(node.value(4), [*shape, *out])
        sampled = sampled * mask.cast("f32").unsqueeze(5)
    # As a product of matrices: [batch, group, pixel, channel and tap].
    pixels = out[0] * out[1]
    matrix = sampled.permute(0, 3, 4, 1, 5, 2)
    inner = channels.floordiv(groups) * taps
    matrix = reshaped(matrix, [batch, pixels, Dim.const(groups), inner]).permute(0, 2, 1, 3)
    filters = w.kind.dims[0]
    weights = reshaped(w, [Dim.const(groups), filters.floordiv(groups), inner])
    found = F.matmul(matrix.cast(w.dtype), weights.T)
    found = reshaped(found.permute(0, 1, 3, 2), [batch, filters, *out])
    return found + node.value(3).reshape(-1, 1, 1) if node.has(3) else found


def _tensor(node: Node, array: Array) -> Value:
    return node.constants.value(array.astype(np.float32))


def _corner(
    image: Value, places: list[Value], sizes: tuple[Dim, Dim], corner: tuple[int, int]
) -> Value:
    """The elements at one corner of each place, by their weights."""
    index: list[Value] = []
    weight: Value | None = None
    for place, size, after in zip(places, sizes, corner, strict=True):
        first = F.floor(place)
        part = place - first
        at = first.cast("i64") + after
        end = _size(image, size)
        share = F.where((at >= 0) & (at < end), part if after else 1.0 - part, 0.0)
        index.append(F.minimum(F.maximum(at, 0), end - 1).unsqueeze(5))
        weight = share if weight is None else weight * share
    assert weight is not None
    found = G.gather_nd(image, F.concat(index, 5), 2)
    return found.cast("f32") * weight.unsqueeze(5)


def _size(like: Value, size: Dim) -> Value:
    from polyc.dialects import frontend

    return Value(like.builder, like.builder.add(frontend.DimOp(size)))
