"""Activations, those with attributes among them."""

from __future__ import annotations

from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value


@converter("onnx", "Elu")
def elu(node: Node) -> Value:
    """``alpha * (exp(x) - 1)`` below 0."""
    x, alpha = node.value(), float(node.attr("alpha", 1.0))
    return F.elu(x) if alpha == 1 else F.where(x > 0.0, x, F.expm1(x) * alpha)


@converter("onnx", "Celu")
def celu(node: Node) -> Value:
    """``alpha * (exp(x / alpha) - 1)`` below 0."""
    x, alpha = node.value(), float(node.attr("alpha", 1.0))
    return F.where(x > 0.0, x, F.expm1(x / alpha) * alpha)


@converter("onnx", "Selu")
def selu(node: Node) -> Value:
    """``gamma`` times an ``alpha`` one."""
    x = node.value()
    alpha = float(node.attr("alpha", 1.67326319217681884765625))
    gamma = float(node.attr("gamma", 1.05070102214813232421875))
    return F.where(x > 0.0, x, F.expm1(x) * alpha) * gamma


@converter("onnx", "LeakyRelu")
def leaky_relu(node: Node) -> Value:
    """``alpha * x`` below 0."""
    x = node.value()
    return F.where(x < 0.0, x * float(node.attr("alpha", 0.01)), x)


@converter("onnx", "PRelu")
def prelu(node: Node) -> Value:
    """``slope * x`` below 0."""
    x, slope = node.value(0), node.value(1)
    return F.where(x < 0, x * slope, x)


@converter("onnx", "ThresholdedRelu")
def thresholded_relu(node: Node) -> Value:
    """0 up to ``alpha``."""
    x = node.value()
    return F.where(x > float(node.attr("alpha", 1.0)), x, 0.0)


@converter("onnx", "HardSigmoid")
def hard_sigmoid(node: Node) -> Value:
    """``alpha * x + beta`` between 0 and 1."""
    x = node.value()
    line = x * float(node.attr("alpha", 0.2)) + float(node.attr("beta", 0.5))
    return F.minimum(F.maximum(line, 0.0), 1.0)


@converter("onnx", "Gelu")
def gelu(node: Node) -> Value:
    """By erf, or by tanh."""
    name: bytes = node.attr("approximate", b"none")
    return F.gelu(node.value(), name.decode())


@converter("onnx", "Swish")
def swish(node: Node) -> Value:
    """``x * sigmoid(alpha * x)``."""
    x, alpha = node.value(), float(node.attr("alpha", 1.0))
    return F.silu(x) if alpha == 1 else x * F.sigmoid(x * alpha)


@converter("onnx", "Shrink")
def shrink(node: Node) -> Value:
    """Nearer to 0 by ``bias`` beyond ``lambd``, 0 between."""
    x = node.value()
    if x.dtype not in ("f16", "bf16", "f32"):
        node.unsaid(f"shrink of {x.dtype} rounds in its type")
    bias, edge = float(node.attr("bias", 0.0)), float(node.attr("lambd", 0.5))
    return F.where(x < -edge, x + bias, F.where(x > edge, x - bias, 0.0))


@converter("onnx", "Softmax")
def softmax(node: Node) -> Value:
    """Along one axis."""
    return F.softmax(node.value(), node.axis(default=-1))


@converter("onnx", "LogSoftmax")
def log_softmax(node: Node) -> Value:
    """Its logarithm."""
    return F.log_softmax(node.value(), node.axis(default=-1))


@converter("onnx", "Hardmax")
def hardmax(node: Node) -> Value:
    """1 at the first largest element along an axis, 0 elsewhere."""
    x, axis = node.value(), node.axis(default=-1)
    places = F.iota(x.shape, axis)
    return (F.argmax(x, axis, True) == places).cast(x.dtype)


@converter("onnx", "ai.onnx.ml::Binarizer")
def binarizer(node: Node) -> Value:
    """1 above a threshold, 0 elsewhere."""
    x = node.value()
    return (x > float(node.attr("threshold", 0.0))).cast(x.dtype)
