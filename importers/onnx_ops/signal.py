"""Signals: Fourier transforms of known length, which are products with matrices of sines and
cosines, and bands of what they give."""

from __future__ import annotations

import numpy as np

from polyc.dialects.common.dim import Dim
from polyc.importers.onnx_ops import elements
from polyc.importers.onnx_ops.items import Array
from polyc.importers.onnx_ops.movements import padded, sliced
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace.values import Value

LONGEST = 2048
"""Elements of a transform, at most: its matrix has that many squared."""


def _times(x: Value, matrix: Array) -> Value:
    return F.matmul(x, Value(x.builder, x.builder.tensor(matrix.astype(np.float32))))


def _transform(
    node: Node, real: Value, imaginary: Value | None, length: int, bins: int, inverse: bool
) -> tuple[Value, Value]:
    """Along the last axis of [..., length]: the parts of ``bins`` sums, real and imaginary."""
    if length > LONGEST:
        node.unsaid(f"a transform of {length}; up to {LONGEST} are written out")
    turns = np.outer(np.arange(length), np.arange(bins)) % max(length, 1)
    angle = 2 * np.pi * turns / max(length, 1) * (1 if inverse else -1)
    scale = 1 / length if inverse else 1.0
    c, s = np.cos(angle) * scale, np.sin(angle) * scale
    a, b = _times(real, c), _times(real, s)
    if imaginary is not None:
        a, b = a - _times(imaginary, s), b + _times(imaginary, c)
    return a, b


def _halves(x: Value) -> tuple[Value, Value | None]:
    """The real and the imaginary part of [..., 1] or [..., 2]."""
    last = x.ndim - 1
    if x.shape[last] == 1:
        return x.squeeze(last), None
    return x[..., 0], x[..., 1]


def _sized(x: Value, length: int) -> Value:
    """The last axis cut off or filled with zeros."""
    last = x.ndim - 1
    have = x.kind.dims[last].constant() or 0
    if have > length:
        return sliced(x, last, 0, length)
    zero = [Dim.const(0)] * x.ndim
    more = [*zero[:-1], Dim.const(length - have)]
    return padded(x, zero, more, 0.0)


@converter("onnx", "DFT")
def dft(node: Node) -> Value:
    """Along one axis of [..., 1] (real) or [..., 2] (complex) numbers."""
    x = node.value(0)
    if node.version < 20:
        axis = int(node.attr("axis", 1))
    else:
        axis = int(node.number(2, "its axis")) if node.has(2) else -2
    at = node.placed(axis, x.ndim)
    inverse, half = bool(node.attr("inverse", 0)), bool(node.attr("onesided", 0))
    have = x.kind.dims[at].constant()
    if have is None:
        node.unsaid(f"a transform along {x.kind.dims[at]}, which a call chooses")
    order = [i for i in range(x.ndim) if i not in (at, x.ndim - 1)] + [at]
    real, imaginary = (None if v is None else v.permute(order) for v in _halves(x))
    assert real is not None
    back = [order.index(i) for i in range(x.ndim - 1)]
    if inverse and half:
        length = int(node.number(1, "its length")) if node.has(1) else 2 * (have - 1)
        found = [_from_half(node, real, imaginary, length)]
    else:
        length = int(node.number(1, "its length")) if node.has(1) else have
        real = _sized(real, length)
        imaginary = None if imaginary is None else _sized(imaginary, length)
        bins = length // 2 + 1 if half else length
        found = list(_transform(node, real, imaginary, length, bins, inverse))
    return F.stack([f.permute(back) for f in found], x.ndim - 1)


def _from_half(node: Node, real: Value, imaginary: Value | None, length: int) -> Value:
    """Real numbers of the half of their transform that says all of it."""
    if length > LONGEST:
        node.unsaid(f"a transform of {length}; up to {LONGEST} are written out")
    bins = length // 2 + 1
    real = _sized(real, bins)
    angle = 2 * np.pi * np.outer(np.arange(bins), np.arange(length)) / max(length, 1)
    twice = np.full((bins, 1), 2.0)
    twice[0] = 1.0
    if length % 2 == 0:
        twice[-1] = 1.0
    found = _times(real, twice * np.cos(angle) / length)
    if imaginary is not None:
        found = found - _times(_sized(imaginary, bins), twice * np.sin(angle) / length)
    return found


@converter("onnx", "STFT")
def stft(node: Node) -> Value:
    """Transforms of windows of a signal, [batch, length, 1 or 2]."""
    x, step = node.value(0), int(node.number(1, "its step"))
    size = x.kind.dims[1].constant()
    window = node.optional(2)
    if node.has(3):
        length = int(node.number(3, "the length of a frame"))
    elif window is not None:
        length = window.kind.dims[0].constant() or 0
    else:
        length = size or 0
    if size is None or not length or step < 1:
        node.unsaid("a transform of windows of sizes that a call chooses")
    frames = (size - length) // step + 1
    places = (np.arange(frames)[:, None] * step + np.arange(length)).astype(np.int64)
    index = Value(x.builder, x.builder.tensor(places))
    half = bool(node.attr("onesided", 1))
    parts: list[Value | None] = []
    for part in _halves(x):
        framed = None if part is None else G.take(part, index, 1)
        if framed is not None and window is not None:
            framed = framed * window
        parts.append(framed)
    real, imaginary = parts
    assert real is not None
    bins = length // 2 + 1 if half else length
    return F.stack(list(_transform(node, real, imaginary, length, bins, False)), 3)


@converter("onnx", "MelWeightMatrix")
def mel_weight_matrix(node: Node) -> Value:
    """The matrix from a spectrum to bands that are equally wide by ear: triangles between whole
    bins, each band's from the middle of the one below to that of the one above."""
    names = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
    bands, length, rate, low, high = (node.number(i, name) for i, name in enumerate(names))
    bands, bins = int(bands), int(length) // 2 + 1
    if not 0 < bands <= LONGEST or not 0 < bins <= LONGEST or rate <= 0:
        node.unsaid(f"{bands} bands of {bins} bins at {rate} per second; up to {LONGEST} are made")
    if not 0 <= low < high:
        node.unsaid(f"bands from {low} to {high} Hz; the lower edge is below the upper one")
    first, last = (2595 * np.log10(1 + edge / 700) for edge in (low, high))
    pitches = first + np.arange(bands + 2) * (last - first) / (bands + 2)
    hertz = 700 * (10 ** (pitches / 2595) - 1)
    ends = ((length + 1) * hertz // rate).astype(np.int64)
    if ends.min() < 0 or ends.max() >= bins:
        node.unsaid(f"a band ends at bin {ends.max()} of {bins}; the rate is too low for {high} Hz")
    at = np.arange(bins)[:, None]
    left, middle, right = ends[:-2], ends[1:-1], ends[2:]
    rise = np.where(middle > left, (at - left) / np.maximum(middle - left, 1), 1.0)
    fall = (right - at) / np.maximum(right - middle, 1)
    made = np.where((at >= left) & (at <= middle) & ((middle > left) | (at == middle)), rise, 0.0)
    made = np.where((at >= middle) & (at < right), fall, made)
    element = node.constants.element(int(node.attr("output_datatype", elements.FLOAT)))
    return F.constant(made.astype(np.float32)).cast(element)
