"""Pooling, and other functions of windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product
from polyc.importers.onnx_ops.items import ABSENT, Item
from polyc.importers.onnx_ops.movements import ONE, padded, reshaped, sliced
from polyc.importers.onnx_ops.node import Node
from polyc.importers.onnx_ops.products import windows_of
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace import windows as W
from polyc.trace.values import Value


def _parts(node: Node, x: Value) -> Any:
    kernel = [int(k) for k in node.attr("kernel_shape")]
    if x.ndim != len(kernel) + 2:
        node.unsaid(f"windows along {len(kernel)} axes of {x!r}")
    stride, padding, dilation = windows_of(node, x, kernel)
    return kernel, stride, padding, dilation


@converter("onnx", "MaxPool")
def max_pool(node: Node) -> tuple[Item, Item]:
    """The largest of each window, and where it stands."""
    x = node.value()
    kernel, stride, padding, dilation = _parts(node, x)
    ceil = bool(node.attr("ceil_mode", 0))
    how = (kernel, stride, padding, dilation)
    if not node.wants(1):
        return W.max_pool(x, *how, ceil_mode=ceil), ABSENT
    found, places = W.max_pool_with_indices(x, *how, ceil_mode=ceil, whole=True)
    if node.attr("storage_order", 0):
        # Column-major: the axes of the image are counted the other way round.
        dims = x.kind.dims[2:]
        plane = product(dims).constant()
        if plane is None:
            node.unsaid("places by columns in a plane of sizes that a call chooses")
        block, inside = places // plane, places % plane
        at, stride_ = F.full((), 0, "i64"), 1
        left = inside
        turned: list[Value] = []
        for d in reversed([d.constant() or 1 for d in dims]):
            turned.append(left % d)
            left = left // d
        for axis, d in zip(reversed(turned), [d.constant() or 1 for d in dims], strict=True):
            at = at + axis * stride_
            stride_ *= d
        places = block * plane + at
    return found, places


@converter("onnx", "AveragePool")
def average_pool(node: Node) -> Value:
    """The mean of each window."""
    x = node.value()
    kernel, stride, padding, dilation = _parts(node, x)
    counted = bool(node.attr("count_include_pad", 0))
    how = (kernel, stride, padding, dilation)
    ceil = bool(node.attr("ceil_mode", 0))
    return W.avg_pool(x, *how, ceil_mode=ceil, count_include_pad=counted)


@converter("onnx", "LpPool")
def lp_pool(node: Node) -> Value:
    """The norm of each window."""
    x = node.value()
    kernel, stride, padding, dilation = _parts(node, x)
    ceil = bool(node.attr("ceil_mode", 0))
    return W.lp_pool(x, float(node.attr("p", 2)), kernel, stride, padding, dilation, ceil_mode=ceil)


def _image(x: Value) -> list[int]:
    return list(range(2, x.ndim))


@converter("onnx", "GlobalAveragePool")
def global_average(node: Node) -> Value:
    """The mean of the image."""
    x = node.value()
    return x.mean(_image(x), True)


@converter("onnx", "GlobalMaxPool")
def global_max(node: Node) -> Value:
    """The largest of the image."""
    x = node.value()
    return x.max(_image(x), True)


@converter("onnx", "GlobalLpPool")
def global_lp(node: Node) -> Value:
    """The norm of the image."""
    x, p = node.value(), float(node.attr("p", 2))
    if p in (1, 2):
        return F.norm(x, _image(x), True, ord=int(p))
    return (abs(x) ** p).sum(_image(x), True) ** (1 / p)


@converter("onnx", "LRN")
def local_response(node: Node) -> Value:
    """Over what neighbouring channels sum up to."""
    x, size = node.value(), int(node.attr("size"))
    alpha, beta = float(node.attr("alpha", 1e-4)), float(node.attr("beta", 0.75))
    squares = x * x
    before = (size - 1) // 2
    low, high = [Dim.const(0)] * x.ndim, [Dim.const(0)] * x.ndim
    low[1], high[1] = Dim.const(before), Dim.const(size - 1 - before)
    wide = padded(squares, low, high, 0.0)
    total: Value | None = None
    channels = x.kind.dims[1]
    for i in range(size):
        part = sliced(wide, 1, i, channels + i)
        total = part if total is None else total + part
    assert total is not None
    return x / (total * (alpha / size) + float(node.attr("bias", 1.0))) ** beta


@converter("onnx", "MaxUnpool")
def max_unpool(node: Node) -> Value:
    """Elements where the largest of windows stood, 0 elsewhere."""
    x, places = node.value(0), node.value(1)
    kernel = list(node.attr("kernel_shape"))
    count = len(kernel)
    stride = list(node.attr("strides", [1] * count))
    pads = list(node.attr("pads", [0] * (2 * count)))
    natural = [
        (d - 1) * s + k - pads[i] - pads[count + i]
        for i, (d, s, k) in enumerate(zip(x.kind.dims[2:], stride, kernel, strict=True))
    ]
    own = [*x.kind.dims[:2], *natural]
    zeros = node.constants.full([product(own)], 0.0, x.dtype)
    found = reshaped(G.scatter(zeros, places.reshape(-1), x.reshape(-1)), own)
    if node.has(2):  # what it says more than the windows is room at the end
        declared = None if node.is_known(2) else node.declared()
        wanted = node.sizes(2, "its output's shape") if declared is None else list(declared)
        more = [w - d for w, d in zip(wanted, own, strict=True)]
        found = padded(found, [Dim.const(0)] * x.ndim, more, 0.0)
    return found


@converter("onnx", "Col2Im")
def col2im(node: Node) -> Value:
    """Windows put together to an image, what they share summed."""
    x = node.value()
    image, block = node.ints(1, "the image's shape"), node.ints(2, "the window's shape")
    count = len(image)
    stride = list(node.attr("strides", [1] * count))
    dilation = list(node.attr("dilations", [1] * count))
    pads = list(node.attr("pads", [0] * (2 * count)))
    n, rows = x.kind.dims[:2]
    taps = int(np.prod(block))
    channels = rows.floordiv(taps)
    windows = [
        (image[i] + pads[i] + pads[count + i] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1
        for i in range(count)
    ]
    sizes = [image[i] + pads[i] + pads[count + i] for i in range(count)]
    apart = reshaped(x, [n, channels, Dim.const(taps), *(Dim.const(w) for w in windows)])
    total: Value | None = None
    for tap, at in enumerate(np.ndindex(*block)):
        part = sliced(apart, 2, tap, tap + 1).squeeze(2)
        low, high = [Dim.const(0)] * part.ndim, [Dim.const(0)] * part.ndim
        for i in range(count):
            part = _spread(part, 2 + i, stride[i])
            start = at[i] * dilation[i]
            low[2 + i] = Dim.const(start)
            high[2 + i] = Dim.const(sizes[i] - start - ((windows[i] - 1) * stride[i] + 1))
        wide = padded(part, low, high, 0.0)
        total = wide if total is None else total + wide
    assert total is not None
    for i in range(count):
        total = sliced(total, 2 + i, pads[i], pads[i] + image[i])
    return total


def _spread(x: Value, axis: int, by: int) -> Value:
    """Zeros between the elements of an axis, ``by`` - 1 of them."""
    if by == 1:
        return x
    dims = list(x.kind.dims)
    apart = reshaped(x, [*dims[: axis + 1], ONE, *dims[axis + 1 :]])
    low, high = [Dim.const(0)] * apart.ndim, [Dim.const(0)] * apart.ndim
    high[axis + 1] = Dim.const(by - 1)
    wide = padded(apart, low, high, 0.0)
    joined = reshaped(wide, [*dims[:axis], dims[axis] * by, *dims[axis + 1 :]])
    return sliced(joined, axis, 0, dims[axis] * by - (by - 1))
