"""Converters of ATen's losses, and of the distances that some of them compare."""

from __future__ import annotations

import math
from collections.abc import Sequence

from polyc.importers.aten.pointwise import xlogy
from polyc.importers.aten.reductions import vector_norm
from polyc.importers.aten.support import (
    alike,
    as_value,
    rank_of,
    refuse,
    size,
    to,
)
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers
from polyc.trace.sizes import SizeLike
from polyc.trace.values import Value

NONE, MEAN, SUM = 0, 1, 2
"""How ATen says that a loss is reduced."""


def _reduced(x: Value, reduction: int) -> Value:
    axes = list(range(x.ndim))
    if reduction == NONE or not axes:
        return x
    return f.mean(x, axes) if reduction == MEAN else f.sum(x, axes)


def _positive(x: Value) -> Value:
    """What of a value is above 0; NaN stays."""
    return f.maximum(x, as_value(0.0, x.dtype))


@converter("torch", "aten.broadcast_tensors")
def broadcast_tensors(tensors: Sequence[Value]) -> list[Value]:
    rank = max((one.ndim for one in tensors), default=0)
    shape: list[SizeLike] = []
    for axis in range(-rank, 0):
        sizes = [one.shape[axis] for one in tensors if one.ndim >= -axis]
        wide = [one for one in sizes if not isinstance(one, int) or one != 1]
        shape.append(wide[0] if wide else 1)
    return [one.expand(*shape) if rank else one for one in tensors]


# Differences ------------------------------------------------------------------------------------


@converter("torch", "aten.mse_loss")
def mse_loss(x: Value, target: Value, reduction: int = MEAN) -> Value:
    a, b = alike(x, target)
    away = a - b
    return _reduced(away * away, reduction)


@converter("torch", "aten.l1_loss")
def l1_loss(x: Value, target: Value, reduction: int = MEAN) -> Value:
    a, b = alike(x, target)
    return _reduced(f.abs(a - b), reduction)


def _huber(x: Value, target: Value, knee: float, scale: float, reduction: int) -> Value:
    """Squares up to a knee, and lines behind it, all ``scale`` times."""
    a, b = alike(x, target)
    away = f.abs(a - b)
    square = away * away * (0.5 * scale)
    lines = (away - 0.5 * knee) * (knee * scale)
    return _reduced(f.where(away < knee, square, lines), reduction)


@converter("torch", "aten.smooth_l1_loss")
def smooth_l1_loss(x: Value, target: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    if beta == 0:
        return l1_loss(x, target, reduction)
    return _huber(x, target, float(beta), 1 / float(beta), reduction)


@converter("torch", "aten.huber_loss")
def huber_loss(x: Value, target: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    return _huber(x, target, float(delta), 1.0, reduction)


# Of classes -------------------------------------------------------------------------------------


def _picked(
    logs: Value, shift: Value | None, target: Value, weight: Value | None, reduction: int, left: int
) -> Value:
    """The negative of ``logs - shift`` at each target along the axis of the classes."""
    axis = 0 if logs.ndim == 1 else 1
    target = to(target, "i64")
    kept = target != left
    place = f.where(kept, target, as_value(0, "i64"))
    found = -gathers.take_along_axis(logs, place.unsqueeze(axis), axis).squeeze(axis)
    if shift is not None:
        found = found + shift.squeeze(axis)
    zero = as_value(0.0, found.dtype)
    share = f.where(kept, as_value(1.0, found.dtype), zero)
    if weight is not None:
        share = f.where(kept, to(gathers.take(weight, place, 0), found.dtype), zero)
        found = found * share
    found = f.where(kept, found, zero)
    if reduction != MEAN:
        return _reduced(found, reduction)
    axes = list(range(found.ndim))
    return f.sum(found, axes) / f.sum(share, axes) if axes else found / share


@converter("torch", "aten.nll_loss_nd", "aten.nll_loss", "aten.nll_loss2d")
def nll_loss(
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Value:
    return _picked(x, None, target, weight, reduction, ignore_index)


@converter("torch", "aten.nll_loss_forward", "aten.nll_loss2d_forward")
def nll_loss_forward(
    x: Value, target: Value, weight: Value | None, reduction: int, ignore_index: int
) -> tuple[Value, None]:
    return nll_loss(x, target, weight, reduction, ignore_index), None


@converter("torch", "aten.cross_entropy_loss")
def cross_entropy_loss(
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """Of scores: no logarithm of a softmax is stored where one a row is wanted."""
    axis = 0 if x.ndim == 1 else 1
    top = f.max(x, [axis], True)
    away = x - top
    total = f.log(f.sum(f.exp(away), [axis], True))
    if rank_of(target.dtype) == 2:
        return _of_shares(away - total, target, weight, reduction, label_smoothing)
    if not label_smoothing:
        return _picked(away, total, target, weight, reduction, ignore_index)
    nll = _picked(away, total, target, weight, NONE, ignore_index)
    if weight is not None:
        logs = f.sum((away - total) * _by_class(weight, x), [axis])
    else:
        # What is below the maximum is added up beside its exponentials, and waits for no total.
        many = as_value(size(x, axis), x.dtype)
        logs = f.sum(away, [axis]) - f.sum(total, [axis]) * many
    kept = to(target, "i64") != ignore_index
    zero = as_value(0.0, x.dtype)
    classes = as_value(size(x, axis), x.dtype)
    part = as_value(label_smoothing, x.dtype) / classes
    found = nll * (1 - label_smoothing) - f.where(kept, logs, zero) * part
    if reduction != MEAN:
        return _reduced(found, reduction)
    share = f.where(kept, as_value(1.0, x.dtype), zero)
    if weight is not None:
        place = f.where(kept, to(target, "i64"), as_value(0, "i64"))
        share = f.where(kept, to(gathers.take(weight, place, 0), x.dtype), zero)
    axes = list(range(found.ndim))
    return f.sum(found, axes) / f.sum(share, axes) if axes else found / share


def _by_class(weight: Value, like: Value) -> Value:
    return weight if like.ndim == 1 else weight.reshape(-1, *[1] * (like.ndim - 2))


def _of_shares(
    logs: Value, target: Value, weight: Value | None, reduction: int, smoothing: float
) -> Value:
    """The cross entropy of logarithms and of each class's share."""
    axis = 0 if logs.ndim == 1 else 1
    classes = as_value(size(logs, axis), logs.dtype)
    shares = to(target, logs.dtype)
    if smoothing:
        shares = shares * (1 - smoothing) + as_value(smoothing, logs.dtype) / classes
    found = -(logs * shares)
    if weight is not None:
        found = found * _by_class(weight, logs)
    found = f.sum(found, [axis])
    if reduction != MEAN or not found.ndim:
        return _reduced(found, reduction)
    return f.mean(found, list(range(found.ndim)))


@converter("torch", "aten.kl_div")
def kl_div(x: Value, target: Value, reduction: int = MEAN, *, log_target: bool = False) -> Value:
    a, b = alike(x, target)
    found = f.exp(b) * (b - a) if log_target else xlogy(b, b) - b * a
    return _reduced(found, reduction)


@converter("torch", "aten.binary_cross_entropy")
def binary_cross_entropy(
    x: Value, target: Value, weight: Value | None = None, reduction: int = MEAN
) -> Value:
    """Logarithms are not below -100, as PyTorch has it."""
    least = as_value(-100.0, x.dtype)
    ones = f.maximum(f.log(x), least)
    zeros = f.maximum(f.log1p(-x), least)
    found = (target - 1) * zeros - target * ones
    return _reduced(found if weight is None else found * weight, reduction)


@converter("torch", "aten.binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(
    x: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    found = (1 - target) * x
    share = f.log_sigmoid(x)
    found = found - (share if pos_weight is None else ((pos_weight - 1) * target + 1) * share)
    return _reduced(found if weight is None else found * weight, reduction)


@converter("torch", "aten.soft_margin_loss")
def soft_margin_loss(x: Value, target: Value, reduction: int = MEAN) -> Value:
    a, b = alike(x, target)
    return _reduced(f.log1p(f.exp(-b * a)), reduction)


@converter("torch", "aten.poisson_nll_loss")
def poisson_nll_loss(
    x: Value, target: Value, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    a, b = alike(x, target)
    found = f.exp(a) - b * a if log_input else a - b * f.log(a + float(eps))
    if full:
        stirling = b * f.log(b) - b + 0.5 * f.log(b * (2 * math.pi))
        found = found + f.where(b <= 1, as_value(0.0, b.dtype), stirling)
    return _reduced(found, reduction)


# Of pairs ---------------------------------------------------------------------------------------


@converter("torch", "aten.margin_ranking_loss")
def margin_ranking_loss(
    x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = MEAN
) -> Value:
    a, b = alike(x, y)
    return _reduced(_positive(-to(target, a.dtype) * (a - b) + float(margin)), reduction)


@converter("torch", "aten.hinge_embedding_loss")
def hinge_embedding_loss(
    x: Value, target: Value, margin: float = 1.0, reduction: int = MEAN
) -> Value:
    zero = as_value(0.0, x.dtype)
    unlike = f.where(target == 1, zero, _positive(float(margin) - x))
    return _reduced(unlike + f.where(target == -1, zero, x), reduction)


@converter("torch", "aten.cosine_embedding_loss")
def cosine_embedding_loss(
    x: Value, y: Value, target: Value, margin: float = 0.0, reduction: int = MEAN
) -> Value:
    a, b = alike(x, y)
    least = 1e-12

    def summed(one: Value) -> Value:
        return f.sum(one, [one.ndim - 1])

    lengths = f.sqrt((summed(a * a) + least) * (summed(b * b) + least))
    cosine = summed(a * b) / lengths
    zero = as_value(0.0, cosine.dtype)
    alike_ = f.where(target == 1, 1 - cosine, zero)
    unlike = f.where(target == -1, _positive(cosine - float(margin)), zero)
    return _reduced(alike_ + unlike, reduction)


@converter("torch", "aten.cosine_similarity")
def cosine_similarity(x: Value, y: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    a, b = alike(x, y)
    least = as_value(eps, a.dtype)

    def length(one: Value) -> Value:
        return f.maximum(vector_norm(one, 2, [dim], True), least)

    return f.sum((a / length(a)) * (b / length(b)), [dim % max(a.ndim, b.ndim)])


@converter("torch", "aten.pairwise_distance")
def pairwise_distance(
    x: Value, y: Value, p: float = 2, eps: float = 1e-6, keepdim: bool = False
) -> Value:
    a, b = alike(x, y)
    return vector_norm(a - b + float(eps), p, [-1], keepdim)


@converter("torch", "aten.triplet_margin_loss")
def triplet_margin_loss(
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = MEAN,
) -> Value:
    if not anchor.ndim == positive.ndim == negative.ndim:
        raise refuse("a triplet's tensors have as many axes as each other")
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = f.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced(_positive(near - far + float(margin)), reduction)
