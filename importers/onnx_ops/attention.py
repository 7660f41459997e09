"""Attention, whole where the dialect has it; what else ONNX's op gives is its function's to say."""

from __future__ import annotations

from typing import Any

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import quotient
from polyc.dialects.frontend import broadcast
from polyc.importers.onnx_ops.items import ABSENT
from polyc.importers.onnx_ops.movements import reshaped
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace.sizes import size_of
from polyc.trace.values import Value

Q, K, V, MASK, PAST_KEY, PAST_VALUE, NONPAD = range(7)
"""The inputs."""


def _heads(node: Node, x: Value, count: int) -> Value:
    """[B, S, H * D] as [B, H, S, D]; four axes stay."""
    if x.ndim == 4:
        return x
    batch, length, width = x.kind.dims
    each = quotient(width, Dim.const(count)) if count else None
    if each is None:
        node.unsaid(f"{width} features are not {count} heads")
    return reshaped(x, [batch, length, Dim.const(count), each]).permute(0, 2, 1, 3)


@converter("onnx", "Attention")
def attention(node: Node) -> Any:
    """Scaled dot products, with a cache, masks and windows."""
    if node.wants(3):
        return NotImplemented  # the scores themselves
    flat = node.rank(Q) == 3
    count = int(node.attr("kv_num_heads", 0))
    q = _heads(node, node.value(Q), int(node.attr("q_num_heads", 0)))
    k, v = (_heads(node, node.value(i), count) for i in (K, V))
    if not q.dtype == k.dtype == v.dtype:
        return NotImplemented
    past = Dim.const(0)
    if node.has(PAST_KEY):
        before = node.value(PAST_KEY)
        past = before.kind.dims[2]
        k = F.concat([before, k], 2)
        v = F.concat([node.value(PAST_VALUE), v], 2)
    queries, keys = q.kind.dims[2], k.kind.dims[2]
    masks: list[Value] = []
    if node.has(MASK):
        mask = node.value(MASK)
        wanted = (q.kind.dims[0], q.kind.dims[1], queries, keys)
        # A shorter one is filled up.
        if broadcast((mask.kind.dims, wanted), node.builder.inside) != wanted:
            return NotImplemented
        masks.append(mask if mask.dtype in ("i1", "f32", q.dtype) else mask.cast("f32"))
    causal = bool(node.attr("is_causal", 0))
    left, right = int(node.attr("left_window_size", -1)), int(node.attr("right_window_size", -1))
    how: dict[str, Any] = {}
    if node.has(NONPAD):
        shape = [size_of(queries), size_of(keys)]
        there = node.value(NONPAD).cast("i64").reshape(-1, 1, 1, 1)
        key = F.iota([1, 1, *shape], 3)
        masks.append(key < there)
        at = F.iota([1, 1, *shape], 2) + there - _count(node, queries)
        if causal:
            masks.append(key <= at)
        if left >= 0:
            masks.append(key >= at - left)
        if right >= 0:
            masks.append(key <= at + right)
    else:
        how["causal"], how["offset"] = causal, size_of(past) if past.constant() != 0 else None
        if left >= 0 or right >= 0:
            far = size_of(keys + queries + past)
            how["window"] = (left if left >= 0 else far, right if right >= 0 else far)
    scale, cap = node.attr("scale"), float(node.attr("softcap", 0.0))
    found = F.attention(
        *(q, k, v),
        masks,
        scale=None if scale is None else float(scale),
        cap=cap if cap else None,
        **how,
    )
    if flat:
        batch, heads, length, width = found.kind.dims
        found = reshaped(found.permute(0, 2, 1, 3), [batch, length, heads * width])
    return (
        found,
        k if node.wants(1) else ABSENT,
        v if node.wants(2) else ABSENT,
    )


def _count(node: Node, size: Dim) -> Any:
    known = size.constant()
    if known is not None:
        return known
    from polyc.dialects import frontend

    return Value(node.builder, node.builder.add(frontend.DimOp(size)))
