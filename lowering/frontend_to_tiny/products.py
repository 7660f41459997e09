"""``frontend-to-tiny``: gemm and conv2d as sums of products (S3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import divided
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace

TILE = 8
"""Filters of a group from which on tensor cores compute a convolution in groups, and channels that
are one vector."""


GROUP = 16
"""Filters and channels of a group are multiples of it where an implicit GEMM has tiles inside."""

WIDEST = 64
"""Elements of a window's line, up to which lines of few channels are stored as channels."""


@dataclass(frozen=True)
class Geometry:
    """How windows walk over an image: of rows, then of columns."""

    stride: Sequence[int]
    dilation: Sequence[int]
    padding: Sequence[int]
    """Rows above and below, columns left and right."""


class LowerGemm(RewritePattern):
    """``frontend.gemm`` → ``reduce(sum, mul(expand a, expand b))`` over [..., M, K, N] (S3.2).

    Legal when both operands are lowered.  A transposed operand is permuted first.  An
    operand that is computed, not loaded, is rounded to the operand type (S0.6).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.GemmOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all((op.a, op.b))
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        element = frontend.tensor_of(op.a).element_type
        a, b = (build.rounded(v, element) for v in operands)
        rank_a, rank_b = tiny.tensor_of(a).rank, tiny.tensor_of(b).rank
        if op.transpose_a is not None:
            a = build.permute(a, (*range(rank_a - 2), rank_a - 1, rank_a - 2))
        if op.transpose_b is not None:
            b = build.permute(b, (*range(rank_b - 2), rank_b - 1, rank_b - 2))
        *batch, m, n = frontend.tensor_of(op.result).dims
        space = (*batch, m, tiny.tensor_of(a).dims[-1], n)
        at = len(batch)
        left = (*range(at - rank_a + 2, at), at, at + 1)
        right = (*range(at - rank_b + 2, at), at + 1, at + 2)
        factors = build.expand(a, left, space), build.expand(b, right, space)
        replace(op, build.contract(*factors, (at + 1,), op.precision), rewriter)


class LowerConv2d(RewritePattern):
    """``frontend.conv2d`` → pad, window, and the sum of products over [R, S, C] (S3.2, S4.9).

    Legal when both operands are lowered.  The image is read as [N, H, W, C] and the filter as
    [F, R, S, C] in both layouts, and the products' space is that of the result with [R, S, C]
    after it; groups split F and C, by a reshape, with their own axis before F.  Windows that
    lie side by side, as those of patches, are a reshape, and the lines of those of few channels
    are channels.  A computed operand is rounded to the operand type (S0.6).
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: frontend.Conv2dOp, rewriter: PatternRewriter, /) -> None:
        operands = lowered_all((op.image, op.weight))
        if operands is None:
            return
        build = Builder.before(op, rewriter)
        first = op.layout == "nchw"
        if first:
            operands = [build.permute(v, (0, 2, 3, 1)) for v in operands]
        element = frontend.tensor_of(op.image).element_type
        geometry = Geometry(op.stride, op.dilation, op.padding)
        lines = _lines(op, build, *operands)
        if lines is not None:
            (top, bottom), *operands = op.padding[:2], *lines
            geometry = Geometry((op.stride[0], 1), (op.dilation[0], 1), (top, bottom, 0, 0))
        else:
            operands = _even(op, build, operands)
        x, w = (build.rounded(v, element) for v in operands)
        shape = frontend.tensor_of(op.result).dims
        pixels = shape[2:] if first else shape[1:3]
        value = _in_groups(op, build, x, w, pixels)
        if value is None:
            taps = tiny.tensor_of(w).dims[1:3]
            image = _patches(op, build, x, taps, pixels)
            if image is None:
                windows = _windows(build, x, taps, geometry)
                image = build.permute(windows, (0, 1, 2, 4, 5, 3))
            n, f, c = tiny.tensor_of(x).dims[0], *(tiny.tensor_of(w).dims[i] for i in (0, 3))
            kept, image_axes, filters = (
                ((n, f, *pixels), (0, 2, 3), 1) if first else ((n, *pixels, f), (0, 1, 2), 3)
            )
            left = build.expand(image, (*image_axes, 4, 5, 6), (*kept, *taps, c))
            right = build.expand(w, (filters, 4, 5, 6), (*kept, *taps, c))
            value = build.contract(left, right, (4, 5, 6), op.precision)
        replace(op, value, rewriter)


def _lines(
    op: frontend.Conv2dOp, build: Builder, x: SSAValue, w: SSAValue
) -> tuple[SSAValue, SSAValue] | None:
    """Image and filter of few channels, in which each line of a window is one pixel's channels.

    An image [N, H, W, C] becomes [N, H, Wo, S C] with zeros up to whole steps of tensor cores, and
    a filter [F, R, S, C] becomes [F, R, 1, S C].  Exact: the same products are summed, and 0 · 0.
    A copy of 16 bytes takes a line's neighbours then, where it takes one tap of a pixel before, of
    which most is filled up.  None where channels are many, and where a window has one column or
    lies beside the next.
    """
    f, rows, columns, c = tiny.tensor_of(w).dims
    count, width = c.constant(), columns.constant()
    if op.groups.constant() != 1 or count is None or width in (None, 1):
        return None
    if not 0 < count < GROUP or count * width > WIDEST or _lies_beside(op, w):
        return None
    n, height, *_ = tiny.tensor_of(x).dims
    # A line has its elements in the order that memory has them in.
    channels_first = op.layout == "nchw"
    (left, right), x = op.padding[2:], build.cast(x, f32)
    if left or right:
        x = build.add(tiny.PadOp(x, [0, 0, left, 0], [0, 0, right, 0], 0.0))
    x = build.add(tiny.WindowOp(x, (2,), (columns,), op.stride[1:], op.dilation[1:]))
    across = tiny.tensor_of(x).dims[2]
    if not channels_first:
        x = build.permute(x, (0, 1, 2, 4, 3))
    else:
        w = build.permute(w, (0, 1, 3, 2))
    line, missing = c * columns, -(count * width) % GROUP
    x = build.reshape(x, (n, height, across, line))
    w = build.reshape(w, (f, rows, Dim.const(1), line))
    if missing:
        room = [0, 0, 0, missing]
        x = build.add(tiny.PadOp(x, [0] * 4, room, 0.0))
        w = build.add(tiny.PadOp(build.cast(w, f32), [0] * 4, room, 0.0))
    return x, w


def _lies_beside(op: frontend.Conv2dOp, w: SSAValue) -> bool:
    """Whether windows of a filter [F, R, S, C] are as high as their step, with no room around."""
    return tiny.tensor_of(w).dims[1].constant() == op.stride[0] and not any(op.padding)


def _even(
    op: frontend.Conv2dOp, build: Builder, operands: Sequence[SSAValue]
) -> Sequence[SSAValue]:
    """Image and filter, channels last, with channels of zeros up to a whole vector.

    Exact: each adds 0 · 0.  An odd number, as the three of a model's first image, then lies in
    memory as copies of 16 bytes take it, where none of 4 would.  Operands of f32, and windows side
    by side, which make rows of all that they hold, are left as they are.
    """
    element = frontend.tensor_of(op.image).element_type
    count = tiny.tensor_of(operands[1]).dims[3].constant() or 0
    even = element == f32 or count % 2 == 0 or op.groups.constant() != 1
    if even or _lies_beside(op, operands[1]):
        return operands
    missing = -count % TILE
    return [
        build.add(tiny.PadOp(build.cast(v, f32), [0] * 4, [0, 0, 0, missing], 0.0))
        for v in operands
    ]


def _in_groups(
    op: frontend.Conv2dOp, build: Builder, x: SSAValue, w: SSAValue, pixels: Sequence[Dim]
) -> SSAValue | None:
    """The convolution of an image [N, H, W, C] in groups; None where there is one."""
    g = op.groups
    if g.constant() == 1:
        return None
    n, height, width, _ = tiny.tensor_of(x).dims
    f, *taps, inner = tiny.tensor_of(w).dims
    each = divided(f, g, op)
    assert each is not None  # the verifier has seen that it comes out even
    element = frontend.tensor_of(op.image).element_type
    if each.constant() == inner.constant() == 1:
        filters = build.rounded(build.reshape(w, (f, *taps)), element)
        return _depthwise(op, build, x, filters, pixels)
    x = build.reshape(x, (n, height, width, g, inner))
    w = build.rounded(build.reshape(w, (g, each, *taps, inner)), element)
    windows = _windows(build, x, taps, Geometry(op.stride, op.dilation, op.padding))
    inside = all((size.constant() or 1) % GROUP == 0 for size in (each, inner))
    first = op.layout == "nchw"
    if first and not inside:
        windows = build.permute(windows, (0, 3, 1, 2, 5, 6, 4))
        space = (n, g, each, *pixels, *taps, inner)
        left, right = (0, 1, 3, 4, 5, 6, 7), (1, 2, 5, 6, 7)
    else:
        windows = build.permute(windows, (0, 1, 2, 3, 5, 6, 4))
        space = (n, *pixels, g, each, *taps, inner)
        left, right = (0, 1, 2, 3, 5, 6, 7), (3, 4, 5, 6, 7)
    if (each.constant() or TILE) >= TILE and not inside:
        # No family reads these windows: they are stored, in the type of products.
        windows = build.rounded(windows, element)
    factors = build.expand(windows, left, space), build.expand(w, right, space)
    made = build.contract(*factors, (5, 6, 7), op.precision)
    if first and inside:
        # A tile has filters of one group, which lie side by side pixel by pixel.
        return build.permute(build.reshape(made, (n, *pixels, f)), (0, 3, 1, 2))
    return build.reshape(made, frontend.tensor_of(op.result).dims)


def _depthwise(
    op: frontend.Conv2dOp, build: Builder, x: SSAValue, w: SSAValue, pixels: Sequence[Dim]
) -> SSAValue:
    """The convolution of an image [N, H, W, C] with one filter [C, R, S] a channel."""
    n, *_, c = tiny.tensor_of(x).dims
    _, *taps = tiny.tensor_of(w).dims
    windows = _windows(build, x, taps, Geometry(op.stride, op.dilation, op.padding))
    space, channel = (n, *pixels, c, *taps), 3
    if op.layout == "nchw":
        windows = build.permute(windows, (0, 3, 1, 2, 4, 5))
        space, channel = (n, c, *pixels, *taps), 1
    filters = build.expand(w, (channel, 4, 5), space)
    return build.contract(windows, filters, (4, 5), op.precision)


def _patches(
    op: frontend.Conv2dOp, build: Builder, x: SSAValue, taps: Sequence[Dim], pixels: Sequence[Dim]
) -> SSAValue | None:
    """An image [N, H, W, C] in windows that lie side by side, [N, Ho, Wo, R, S, C]: a reshape.

    None where they overlap, leave gaps or do not come out even, and for windows of one pixel.
    """
    n, height, width, c = tiny.tensor_of(x).dims
    size = tuple(tap.constant() for tap in taps)
    beside = size == tuple(op.stride) and set(op.dilation) == {1} and not any(op.padding)
    whole = (pixels[0] * taps[0], pixels[1] * taps[1]) == (height, width)
    if size == (1, 1) or not beside or not whole:
        return None
    parts = build.reshape(x, (n, pixels[0], taps[0], pixels[1], taps[1], c))
    element = frontend.tensor_of(op.image).element_type
    return build.rounded(build.permute(parts, (0, 1, 3, 2, 4, 5)), element)


def _windows(build: Builder, x: SSAValue, taps: Sequence[Dim], geometry: Geometry) -> SSAValue:
    """The image [N, H, W, ...] padded with zeros, its windows over rows and columns."""
    if any(geometry.padding):
        low, high = ([0] * tiny.tensor_of(x).rank for _ in range(2))
        low[1:3], high[1:3] = geometry.padding[::2], geometry.padding[1::2]
        x = build.add(tiny.PadOp(x, low, high, 0.0))
    return build.add(tiny.WindowOp(x, (1, 2), taps, geometry.stride, geometry.dilation))
