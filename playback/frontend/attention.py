"""NumPy semantics of ``frontend.attention``: a softmax over the allowed keys (S0.6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.precision import coarser
from polyc.playback.estimate import products_of
from polyc.playback.functions import Array, as_array, round_freely, round_to, widen


def attention(
    op: frontend.AttentionOp, args: Sequence[Array], symbols: Mapping[str, int], exact: bool
) -> list[Array]:
    """The results of ``op`` on f32 operands; sums are in f64 where ``exact``."""
    element = frontend.tensor_of(op.q).element_type
    kind = np.float64 if exact else np.float32

    def rounded(x: Array, to: Callable[[Array, Attribute], Array] = round_to) -> Array:
        return (x if element == f32 else widen(to(x, element))).astype(kind, copy=False)

    q, k, v = (rounded(a) for a in args[:3])
    group = q.shape[-3] // k.shape[-3] if k.shape[-3] else 1
    k, v = np.repeat(k, group, -3), np.repeat(v, group, -3)
    features = q.shape[-1]
    scale = np.float32(1) / np.sqrt(np.float32(features)) if op.scale is None else op.scale
    with products_of(coarser(op.precision)):
        scores = widen(np.matmul(q, np.swapaxes(k, -1, -2)))
    if op.cap is None:
        scores = scores * np.float32(scale)
    else:
        scores = np.tanh(scores * np.float32(float(scale) / op.cap)) * np.float32(op.cap)
    allowed = np.broadcast_to(_near(op, scores.shape, symbols), scores.shape)
    for mask in args[3:]:
        if mask.dtype == np.bool_:
            allowed = allowed & mask
        else:
            allowed = allowed & (mask != -np.inf)
            scores = scores + mask
    scores = np.where(allowed, scores, np.float32(-np.inf))
    largest = np.max(scores, axis=-1, keepdims=True, initial=np.float32(-np.inf))
    largest = np.where(largest == -np.inf, np.float32(0), largest)
    powers = np.exp(scores - largest)
    total = widen(as_array(np.sum(powers, axis=-1, keepdims=True, dtype=kind)))
    with products_of(coarser(op.precision)):
        summed = widen(_contributions(rounded(powers, round_freely), v, allowed))
    result = np.where(total == 0, np.float32(0), summed / total)
    if op.lse is None:
        return [result]
    return [result, np.squeeze(largest + np.log(total), -1)]


def _near(op: frontend.AttentionOp, shape: tuple[int, ...], symbols: Mapping[str, int]) -> Array:
    """Where the positions allow a key: booleans over [M, N]."""
    left, right = op.span
    query = np.arange(shape[-2])[:, None] + op.offset.evaluate(symbols)
    key = np.arange(shape[-1])[None, :]
    result = np.ones((shape[-2], shape[-1]), np.bool_)
    if right is not None:
        result &= key <= query + right.evaluate(symbols)
    if left is not None:
        result &= key >= query - left.evaluate(symbols)
    return result


def _contributions(weights: Array, v: Array, allowed: Array) -> Array:
    """The sums of ``weights * v`` over the allowed keys; others count nothing, NaN included."""
    finite = np.isfinite(v)
    if finite.all():
        return np.matmul(weights, v)
    plain = np.matmul(weights, np.where(finite, v, 0).astype(v.dtype))
    # What is not finite comes key by key, and only where the key is allowed.
    for key in np.flatnonzero(~finite.all(axis=(*range(v.ndim - 2), -1))):
        value = np.where(finite[..., key, :], 0, v[..., key, :])[..., None, :]
        product = weights[..., :, key, None] * value
        odd = ~finite[..., key, None, :] & allowed[..., :, key, None]
        plain = plain + np.where(odd, product, 0)
    return plain
