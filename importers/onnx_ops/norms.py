"""Norms, whole where the dialect has them."""

from __future__ import annotations

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product, quotient
from polyc.importers.onnx_ops.items import Item
from polyc.importers.onnx_ops.movements import reshaped
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.values import Value


def _channels(x: Value, like: Value) -> Value:
    """A number a channel, beside [N, C, ...]."""
    return x.reshape(-1, *[1] * (like.ndim - 2)) if like.ndim > 1 else x


@converter("onnx", "BatchNormalization")
def batch_norm(node: Node) -> tuple[Item, ...]:
    """By running statistics, or by those of the batch while training."""
    x, scale, bias = node.value(0), node.value(1), node.value(2)
    mean, var = node.value(3), node.value(4)
    eps = float(node.attr("epsilon", 1e-5))
    outputs: list[Item] = []
    if node.attr("training_mode", 0):
        keep = float(node.attr("momentum", 0.9))
        axes = [a for a in range(x.ndim) if a != 1]
        now = F.mean(x, axes), F.var(x, axes)
        outputs = [
            mean * keep + now[0].cast(mean.dtype) * (1 - keep),
            var * keep + now[1].cast(var.dtype) * (1 - keep),
        ]
        mean, var = now
    dtype = x.dtype
    factor = scale.cast(dtype) / F.sqrt(var.cast(dtype) + eps)
    shift = bias.cast(dtype) - mean.cast(dtype) * factor
    if node.attr("training_mode", 0):
        found = (x - _channels(mean.cast(dtype), x)) * _channels(factor, x)
        return (found + _channels(bias.cast(dtype), x), *outputs)
    return (x * _channels(factor, x) + _channels(shift, x),)


@converter("onnx", "InstanceNormalization")
def instance_norm(node: Node) -> Value:
    """Each image by itself."""
    x = node.value(0)
    axes = list(range(2, x.ndim))
    found = F.layer_norm(x, axis=axes, eps=float(node.attr("epsilon", 1e-5)))
    return found * _channels(node.value(1), x) + _channels(node.value(2), x)


@converter("onnx", "GroupNormalization")
def group_norm(node: Node) -> Value:
    """Groups of channels by themselves."""
    x, scale, bias = node.value(0), node.value(1), node.value(2)
    groups, eps = int(node.attr("num_groups")), float(node.attr("epsilon", 1e-5))
    dims = x.kind.dims
    each = quotient(dims[1], Dim.const(groups))
    if each is None:
        node.unsaid(f"{dims[1]} channels do not come in {groups} groups")
    apart = reshaped(x, [dims[0], Dim.const(groups), each * product(dims[2:])])
    found = reshaped(F.layer_norm(apart, axis=2, eps=eps), dims)
    if node.version < 21:  # a number a group
        scale, bias = (_each(v, groups, each) for v in (scale, bias))
    return found * _channels(scale, x) + _channels(bias, x)


def _each(x: Value, groups: int, each: Dim) -> Value:
    wide = reshaped(x, [Dim.const(groups), Dim.const(1)])
    build = x.builder
    wide = Value(build, build.expand(wide.ssa, [Dim.const(groups), each]))
    return reshaped(wide, [each * groups])


@converter("onnx", "LayerNormalization")
def layer_norm(node: Node) -> tuple[Item, ...]:
    """Along the last axes, from ``axis`` on."""
    x = node.value(0)
    first = node.axis(default=-1)
    axes, eps = list(range(first, x.ndim)), float(node.attr("epsilon", 1e-5))
    weight, bias = node.optional(1), node.optional(2)
    if not node.wants(1) and not node.wants(2):
        whole = [w for w in (weight, bias) if w is not None]
        if all(w.kind.dims == x.kind.dims[first:] for w in whole):
            return (F.layer_norm(x, weight, bias, axis=axes, eps=eps),)
    wide = x.cast("f32") if node.attr("stash_type", 1) == 1 else x
    mean = wide.mean(axes, True)
    away = wide - mean
    inverse = F.rsqrt((away * away).mean(axes, True) + eps)
    found = (away * inverse).cast(x.dtype)
    found = found if weight is None else found * weight
    found = found if bias is None else found + bias
    return found, mean, inverse


@converter("onnx", "RMSNormalization")
def rms_norm(node: Node) -> Value:
    """Along the last axes, from ``axis`` on."""
    x, weight = node.value(0), node.value(1)
    first = node.axis(default=-1)
    axes, eps = list(range(first, x.ndim)), float(node.attr("epsilon", 1e-5))
    if weight.dtype == x.dtype and weight.kind.dims == x.kind.dims[first:]:
        return F.rms_norm(x, weight, axis=axes, eps=eps)
    found = F.rms_norm(x.cast("f32"), axis=axes, eps=eps)
    return found.cast(weight.dtype) * weight
