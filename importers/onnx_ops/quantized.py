"""Integers that stand for real numbers: quantizing, and products of quantized tensors."""

from __future__ import annotations

from polyc.dialects.common.elements import bounds
from polyc.importers.onnx_ops import elements
from polyc.importers.onnx_ops.arithmetic import FLOATS, narrowed
from polyc.importers.onnx_ops.items import Emulated, Item
from polyc.importers.onnx_ops.movements import ONE, expanded, reshaped
from polyc.importers.onnx_ops.node import Node
from polyc.importers.onnx_ops.products import matmul, whole_convolution
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.elements import ELEMENTS
from polyc.trace.sizes import dim_of
from polyc.trace.values import Value

UINT8 = 2
"""The type of a quantization that says none."""


def _beside(node: Node, one: Value, x: Value) -> Value:
    """A scale or a zero point as it stands beside ``x``: one for all, an axis's, or a block's."""
    if one.ndim == 0:
        return one
    block = int(node.attr("block_size", 0))
    axis = int(node.attr("axis", 1))
    if block:
        at = node.placed(axis, x.ndim)
        dims = list(one.kind.dims)
        apart = reshaped(one, [*dims[: at + 1], ONE, *dims[at + 1 :]])
        wide = expanded(apart, [*dims[: at + 1], dim_of(block), *dims[at + 1 :]])
        joined = reshaped(wide, [*dims[:at], dims[at] * block, *dims[at + 1 :]])
        before = (slice(None),) * at
        return joined[(*before, slice(0, x.shape[at]))]
    if one.shape == (1,):
        return one.reshape(())
    if one.ndim != 1:
        node.unsaid(f"a scale of {one!r} beside {x!r} without blocks")
    shape = [ONE] * x.ndim
    shape[node.placed(axis, x.ndim)] = one.kind.dims[0]
    return reshaped(one, shape)


def saturated(x: Value, element: str) -> Value:
    """Real numbers that are whole, as integers, the ends of the type beyond it."""
    low, high = bounds(ELEMENTS[element])
    return F.minimum(F.maximum(x, float(low)), float(high)).cast(element)


@converter("onnx", "QuantizeLinear")
def quantize(node: Node) -> Item:
    """``round(x / scale) + zero``, brought into the type; of a small float it is a cast."""
    x = node.value(0).cast("f32")
    scale = _beside(node, node.value(1), x).cast("f32")
    to = node.number_of_element(2) if node.has(2) else int(node.attr("output_dtype", 0)) or UINT8
    found = x / scale
    small = elements.SMALL.get(to) if node.constants.emulate else None
    if small is not None and not small.whole:
        if node.has(2):  # the zero point of a float is 0
            found = found + _beside(node, node.wide(2), x)
        return Emulated(narrowed(found, small, bool(node.attr("saturate", 1))), to)
    found = F.round(found)
    if node.has(2):
        found = found + _beside(node, node.wide(2), x).cast("f32")
    if small is not None:
        low = -(2 ** (small.bits - 1)) if small.signed else 0
        high = low + 2**small.bits - 1
        found = F.minimum(F.maximum(found, float(low)), float(high))
        return Emulated(found.cast(small.stored), to)
    element = node.constants.element(to)
    if element in FLOATS:
        node.unsaid(f"a quantization to {element}")
    return saturated(found, element)


@converter("onnx", "DequantizeLinear")
def dequantize(node: Node) -> Value:
    """``(x - zero) * scale``."""
    x, scale = node.wide(0), node.value(1)
    between = "f32" if x.dtype in FLOATS else "i32"
    number = x.cast(between)
    if node.has(2):
        number = number - _beside(node, node.wide(2), x).cast(between)
    to = int(node.attr("output_dtype", 0))
    element = node.constants.element(to) if to else scale.dtype
    found = number.cast("f32") * _beside(node, scale, x).cast("f32")
    return found.cast(element)


def _less(x: Value, zero: Value, axis: int) -> Value:
    return x.cast("i32") - _along(zero.cast("i32"), x, axis)


def _along(one: Value, x: Value, axis: int) -> Value:
    if one.ndim == 0 or one.shape == (1,):
        return one.reshape(())
    if one.ndim == 1:
        shape = [ONE] * x.ndim
        shape[axis] = one.kind.dims[0]
        return reshaped(one, shape)
    return one


@converter("onnx", "QLinearMatMul")
def matmul_quantized(node: Node) -> Value:
    """A product of integers, brought to the scale of the result."""
    a, b = node.value(0), node.value(3)
    row, column = a.ndim - 2, b.ndim - 1
    found = matmul(_less(a, node.value(2), row), _less(b, node.value(5), column))
    scale = _along(node.value(1).cast("f32"), a, row) * _along(node.value(4).cast("f32"), b, column)
    return _scaled(node, found, scale / node.value(6).cast("f32").reshape(()), 7)


@converter("onnx", "QLinearConv")
def conv_quantized(node: Node) -> Value:
    """A convolution of integers, brought to the scale of the result."""
    x, w = node.value(0), node.value(3)
    found = whole_convolution(node, _less(x, node.value(2), 1), _less(w, node.value(5), 0))
    if node.has(8):
        found = found + node.value(8).reshape(-1, *[1] * (x.ndim - 2))
    filters = _along(node.value(4).cast("f32"), found, 1)
    scale = node.value(1).cast("f32").reshape(()) * filters
    return _scaled(node, found, scale / node.value(6).cast("f32").reshape(()), 7)


def _scaled(node: Node, found: Value, scale: Value, zero: int) -> Value:
    point = node.value(zero)
    whole = F.round(found.cast("f32") * scale)
    return saturated(whole + point.cast("f32").reshape(()), point.dtype)
