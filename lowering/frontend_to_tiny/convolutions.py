"""``frontend-to-tiny``: convolutions as sums of products over windows (S3.2, S4.9)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace as replaced
from math import prod
from typing import cast

from xdsl.dialects.builtin import f32
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)

from polyc.cost.tensor_cores import few_products
from polyc.dialects import frontend, tiny
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.precision import TF32
from polyc.dialects.common.sizes import divided
from polyc.lowering.frontend_to_tiny.builder import Builder, lowered_all, replace
from polyc.lowering.frontend_to_tiny.convolution_parts import GROUP, TILE, Convolution, Geometry
from polyc.lowering.frontend_to_tiny.few_filters import is_of_few_products, tap_by_tap

EVEN = 32
"""Filters and channels of a group, with zeros behind them, are multiples of it, as plans of the
space have them: filled up so 48 of each, whose tiles were of 16, took 0.42 of the time (32 images
of 96 channels at 28 x 28, an H100), and 112 took 0.22."""

MOST_ZEROS = 0.5
"""Of what has tiles without zeros too, at most: 16 of each took 1.1 times as long with as many."""

FARTHEST = 8
"""Pixels from a window to the next one that a copy of tiles of them goes at most."""

MOST_POINTS = 256
"""Points of a window, up to which those of few channels are a product's depth."""

ROWS, MOST_MORE = 256, 1.5
"""Filters of a tile, for each of which windows are taken again; and how many elements threads take
for each that a copy of the image would write, at most: in four convolutions of an H100 1 took 0.5
to 0.7 of the copies' time, 2.3 took 1.2 and 4.5 took 1.5."""

WIDEST = 64
"""Elements of a window's line, up to which lines of few channels are stored as channels."""

LONGEST = 128
"""Pixels from the first tap of a window to its last one that such a copy goes at most."""

TIMES, MOST_IN_COLUMNS, MANY = 16, 1 << 27, 1 << 20
"""How many times the image windows that lie in memory one after another are, or their elements at
most, and the size that is taken for one that is not known."""


class LowerConv(RewritePattern):
    """``frontend.conv2d`` and its like → pad, window, and sums of products (S3.2, S4.9).

    Legal when both operands are lowered.  Along one axis it is a convolution of images of one row.
    Along three the taps along the depth are channels: each plane of the result is one of an image
    whose pixels have those of as many planes as there are taps.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(
        self,
        op: frontend.Conv1dOp | frontend.Conv2dOp | frontend.Conv3dOp,
        rewriter: PatternRewriter,
        /,
    ) -> None:
        operands = lowered_all((op.image, op.weight))
        if operands is None:
            return
        build, first = Builder.before(op, rewriter), op.channels_first
        if first:
            order = (0, *range(2, op.COUNT + 2), 1)
            operands = [build.permute(v, order) for v in operands]
        conv = Convolution(
            op,
            first,
            op.stride,
            op.padding,
            op.dilation,
            op.groups,
            frontend.tensor_of(op.image).element_type,
            op.precision,
            frontend.tensor_of(op.result).dims,
        )
        replace(op, over_axes(conv, build, *operands), rewriter)


def over_axes(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    """The convolution of an image [N, …, C] with filters [F, …, C / groups], over up to three axes.

    ``conv`` has a stride, a dilation, and two numbers of padding for each of them.
    """
    over = {1: _in_one_row, 2: _over_pixels, 3: _plane_by_plane}[len(conv.stride)]
    return (_pixel_by_pixel if _is_of_pixels(conv, w) else over)(conv, build, x, w)


def _is_of_pixels(conv: Convolution, w: SSAValue) -> bool:
    """Whether windows along one axis or three are a pixel each, and each pixel has one: a product
    that needs no image.  Along two it is one as any convolution is."""
    taps = (size.constant() for size in tiny.tensor_of(w).dims[1:-1])
    plain = set(conv.stride) == {1} and not any(conv.padding) and conv.groups.constant() == 1
    return len(conv.stride) != 2 and plain and all(size == 1 for size in taps)


def _pixel_by_pixel(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    """The convolution of an image [N, …, C] with filters [F, 1, …, C], as the product of each
    pixel with them."""
    n, *pixels, c = tiny.tensor_of(x).dims
    f = tiny.tensor_of(w).dims[0]
    w = build.rounded(build.reshape(w, (f, c)), conv.element)
    if conv.first:  # A matrix of filters times one of each image, as it lies.
        x = build.permute(x, (0, len(pixels) + 1, *range(1, len(pixels) + 1)))
        kept, over = (n, f, c, *pixels), 2
        image = build.expand(build.rounded(x, conv.element), (0, *range(2, len(kept))), kept)
        operands = build.expand(w, (1, 2), kept), image
    else:
        kept, over = (n, *pixels, f, c), len(pixels) + 2
        image = build.expand(build.rounded(x, conv.element), (*range(over - 1), over), kept)
        operands = image, build.expand(w, (over - 1, over), kept)
    return build.contract(*operands, (over,), conv.precision)


def _in_one_row(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    """The convolution of an image [N, W, C] with filters [F, S, C]."""
    one = Dim.const(1)

    def tall(v: SSAValue) -> SSAValue:
        first, *rest = tiny.tensor_of(v).dims
        return build.reshape(v, (first, one, *rest))

    at = 2 if conv.first else 1
    flat = replaced(
        conv,
        stride=(1, *conv.stride),
        padding=(0, 0, *conv.padding),
        dilation=(1, *conv.dilation),
        shape=(*conv.shape[:at], one, *conv.shape[at:]),
    )
    return build.reshape(_over_pixels(flat, build, tall(x), tall(w)), conv.shape)


def _plane_by_plane(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    """The convolution of an image [N, D, H, W, C] with filters [F, T, R, S, C / groups].

    The image becomes [N * Do, H, W, groups * T * C / groups], which is stored in the type of
    products: what planes have in common is there T times.
    """
    n, depth, high, wide, c = tiny.tensor_of(x).dims
    f, taps, *window, inner = tiny.tensor_of(w).dims
    planes = conv.shape[2 if conv.first else 1]
    (step, *stride), (spread, *dilation) = conv.stride, conv.dilation
    before, after, *padding = conv.padding
    alone = taps.constant() == 1 and not before and not after
    if alone:
        if step > 1:
            zeros, whole = [Dim.const(0)] * 5, (n, depth, high, wide, c)
            x = build.add(tiny.SliceOp(x, zeros, whole, [1, step, 1, 1, 1]))
    else:
        if before or after:
            low, high_ends = [0, before, 0, 0, 0], [0, after, 0, 0, 0]
            x = build.add(tiny.PadOp(build.cast(x, f32), low, high_ends, 0.0))
        x = build.add(tiny.WindowOp(x, (1,), (taps,), (step,), (spread,)))
        parts = (n, planes, high, wide, conv.groups, inner, taps)
        x = build.permute(build.reshape(x, parts), (0, 1, 2, 3, 4, 6, 5))
    w = build.permute(build.rounded(w, conv.element), (0, 2, 3, 1, 4))
    x = build.reshape(x, (n * planes, high, wide, conv.groups * taps * inner))
    w = build.reshape(w, (f, *window, taps * inner))
    # What is computed is rounded once it lies so: before it is moved, it would be stored twice.
    narrow = build.narrowed(x, conv.element) if alone else build.cast(x, conv.element)
    x = build.cast(narrow, f32)
    pixels = conv.shape[3:] if conv.first else conv.shape[2:4]
    # Groups that no tile takes are computed by threads, along the lines of what they store.
    first = conv.first and _is_for_threads(conv, f, taps * inner)
    flat = replaced(
        conv,
        first=first,
        stride=stride,
        padding=padding,
        dilation=dilation,
        shape=(n * planes, f, *pixels) if first else (n * planes, *pixels, f),
        apart=(n, planes) if conv.alone and conv.first and not first and planes.constant() else (),
    )
    made = _over_pixels(flat, build, x, w)
    if tiny.tensor_of(made).dims == conv.shape:
        return made
    if first:
        return build.permute(build.reshape(made, (n, planes, f, *pixels)), (0, 2, 1, 3, 4))
    made = build.reshape(made, (n, planes, *pixels, f))
    return build.permute(made, (0, 4, 1, 2, 3)) if conv.first else made


def _is_for_threads(conv: Convolution, filters: Dim, inner: Dim) -> bool:
    """Whether a convolution is in groups of several filters, and neither tiles of tensor cores lie
    inside of them nor are their windows stored for a product."""
    each = divided(filters, conv.groups, conv.at)
    assert each is not None  # the verifier has seen that it comes out even
    if conv.groups.constant() == 1 or each.constant() == 1:
        return False
    inside = all((size.constant() or 1) % GROUP == 0 for size in (each, inner))
    return not inside and (conv.element == f32 or (each.constant() or TILE) < TILE)


def _over_pixels(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    """The convolution of an image [N, H, W, C] with filters [F, R, S, C].

    The products' space is that of the result with [R, S, C] after it; groups split F and C, by a
    reshape, with their own axis before F.  Windows that lie side by side, as those of patches, are
    a reshape, and the lines of those of few channels are channels.  A computed operand is rounded
    to the operand type (S0.6).
    """
    geometry = Geometry(conv.stride, conv.dilation, conv.padding)
    if (whole := _whole_windows(conv, build, x, w)) is not None:
        return whole
    few, beside = is_of_few_products(conv, w), _lies_beside(conv, w)
    if not few and (summed := tap_by_tap(conv, build, x, w)) is not None:
        return summed
    lines = None if few else _lines(conv, build, x, w)
    if lines is not None:
        top, bottom = conv.padding[:2]
        x, w = lines
        geometry = Geometry((conv.stride[0], 1), (conv.dilation[0], 1), (top, bottom, 0, 0))
    columns = None if few or beside else _in_columns(conv, build, x, w, geometry)
    if columns is not None:
        x, w = columns
        geometry = Geometry((1, 1), (1, 1), (0, 0, 0, 0))
    elif not few and lines is None:
        x, w = _even(conv, build, (x, w))
    x, w = (build.rounded(v, conv.element) for v in (x, w))
    pixels = _pixels(conv)
    value = _in_groups(conv, build, x, w, pixels)
    if value is not None:
        return value
    taps = tiny.tensor_of(w).dims[1:3]
    image = _patches(conv, build, x, taps, pixels)
    if image is None:
        windows = _windows(build, x, taps, geometry)
        image = build.permute(windows, (0, 1, 2, 4, 5, 3))
        summed = (*taps, tiny.tensor_of(w).dims[3])
    elif conv.first:
        # Lines of a patch lie in the image as they are summed, and the filter as it is given.
        image = build.rounded(build.permute(image, (0, 1, 2, 5, 3, 4)), conv.element)
        w = build.rounded(build.permute(w, (0, 3, 1, 2)), conv.element)
        summed = tiny.tensor_of(w).dims[1:]
    else:
        summed = (*taps, tiny.tensor_of(w).dims[3])
    (n, *inside), f = tiny.tensor_of(image).dims, tiny.tensor_of(w).dims[0]
    if conv.apart:
        image = build.reshape(image, (*conv.apart, *inside))
        n, *planes = conv.apart
        kept, filters = (n, f, *planes, *pixels), 1
    elif conv.first:
        kept, filters = (n, f, *pixels), 1
    else:
        kept, filters = (n, *pixels, f), 3
    own = [axis for axis in range(len(kept)) if axis != filters]
    over = tuple(range(len(kept), len(kept) + len(summed)))
    left = build.expand(image, (*own, *over), (*kept, *summed))
    right = build.expand(w, (filters, *over), (*kept, *summed))
    return build.contract(left, right, over, conv.precision)


def _whole_windows(conv: Convolution, build: Builder, x: SSAValue, w: SSAValue) -> SSAValue | None:
    """The convolution of an image of few planes, as a product of whole windows.

    An image [N, H, W, C] of which channels are planes becomes [N, P, Q, C R S] with zeros up to
    whole steps of tensor cores, and a filter [F, R, S, C] becomes [F, C R S].  Exact: the same
    products are summed, and 0 · 0.  Threads take such windows from where the planes lie.  None
    where channels are many or sizes are not known, and for windows of one pixel.
    """
    n, height, width, c = tiny.tensor_of(x).dims
    f, *taps, _ = tiny.tensor_of(w).dims
    sizes = [size.constant() for size in (n, height, width, c, *taps)]
    known = [size for size in sizes if size is not None]
    if not conv.first or conv.groups.constant() != 1 or len(known) < len(sizes):
        return None
    points = prod(known[3:])
    if conv.element == f32 or known[3] >= GROUP or prod(known[4:]) == 1 or points > MOST_POINTS:
        return None
    if (f.constant() or 0) < TILE or (known[3] == 1 and 1 in known[4:]):
        return None  # Few rows of tiles, or a line of taps, whose points are no windows of planes.
    if points * -(-(f.constant() or 0) // ROWS) > MOST_MORE * _copied(conv, known[3:]):
        return None
    pixels = _pixels(conv)
    geometry = Geometry(conv.stride, conv.dilation, conv.padding)
    # In the type of products all of it is movement: it may be stored, where no kernel takes it so.
    windows = _windows(build, build.narrowed(x, conv.element), taps, geometry)
    image = build.reshape(windows, (n, *pixels, Dim.const(points)))
    filters = build.permute(build.rounded(w, conv.element), (0, 3, 1, 2))
    filters = build.reshape(filters, (f, Dim.const(points)))
    if missing := -points % GROUP:
        image = build.add(tiny.PadOp(image, [0] * 4, [0, 0, 0, missing], 0.0))
        filters = build.add(tiny.PadOp(build.cast(filters, f32), [0, 0], [0, missing], 0.0))
        filters = build.cast(build.cast(filters, conv.element), f32)
    space = (n, f, *pixels, Dim.const(points + missing))
    left = build.expand(build.cast(image, f32), (0, 2, 3, 4), space)
    right = build.expand(filters, (1, 4), space)
    return build.contract(left, right, (4,), conv.precision)


def _copied(conv: Convolution, sizes: Sequence[int]) -> int:
    """What a copy of an image writes for each pixel of the result, of so many channels and taps:
    windows side by side, lines of windows, or channels up to a whole vector."""
    channels, _, columns = sizes
    (down, across), line = conv.stride, channels * columns
    if tuple(sizes[1:]) == (down, across) and not any(conv.padding):
        return prod(sizes)
    if columns > 1 and line <= WIDEST:
        return down * -(-line // GROUP) * GROUP
    return down * across * -(-channels // TILE) * TILE


def _lines(
    conv: Convolution, build: Builder, x: SSAValue, w: SSAValue
) -> tuple[SSAValue, SSAValue] | None:
    """Image and filter of few channels, in which each line of a window is one pixel's channels.

    An image [N, H, W, C] becomes [N, H, Wo, S C] with zeros up to whole steps of tensor cores, and
    a filter [F, R, S, C] becomes [F, R, 1, S C].  Exact: the same products are summed, and 0 · 0.
    A copy of 16 bytes takes a line's neighbours then, where it takes one tap of a pixel before, of
    which most is filled up.  None where channels are many, where a window has one column or
    lies beside the next, and where lines are long and channels up to a whole vector take less time.
    """
    f, rows, columns, c = tiny.tensor_of(w).dims
    count, width = c.constant(), columns.constant()
    if conv.groups.constant() != 1 or count is None or width in (None, 1):
        return None
    if not 0 < count < GROUP or _lies_beside(conv, w):
        return None
    if count * width > WIDEST and not _lines_pay(conv, w):
        return None
    n, height, *_ = tiny.tensor_of(x).dims
    # A line has its elements in the order that memory has them in.
    channels_first = conv.first
    (left, right), x = conv.padding[2:], build.cast(x, f32)
    if left or right:
        x = build.add(tiny.PadOp(x, [0, 0, left, 0], [0, 0, right, 0], 0.0))
    x = build.add(tiny.WindowOp(x, (2,), (columns,), conv.stride[1:], conv.dilation[1:]))
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


def _lines_pay(conv: Convolution, w: SSAValue) -> bool:
    """Whether lines of windows as channels write less for each pixel of the result than pixels with
    some taps as channels: a transform of 512 taps, of which the next begins 160 samples on, writes
    each sample 3.2 times so.  Channels that are whole vectors are no more than given.
    """
    count, columns = (tiny.tensor_of(w).dims[axis].constant() or 0 for axis in (3, 2))
    whole = TILE // 2 if conv.element == f32 else TILE
    return count % whole != 0 and count * columns <= conv.stride[1] * GROUP


def _in_columns(
    conv: Convolution, build: Builder, x: SSAValue, w: SSAValue, geometry: Geometry
) -> tuple[SSAValue, SSAValue] | None:
    """Image and filter of windows that no copy of tiles of pixels goes along, as rows of a matrix.

    An image [N, H, W, C] becomes [N, Ho, Wo, R S C] with zeros up to whole steps of tensor cores,
    and a filter [F, R, S, C] becomes [F, 1, 1, R S C].  Exact: the same products are summed, and
    0 · 0.  None where windows begin near each other and are not long, and where this would be much
    more than the image.
    """
    f, *taps, c = tiny.tensor_of(w).dims
    missing = _missing_in_columns(conv, x, w, geometry)
    if missing is None:
        return None
    x = build.cast(x, f32)
    for side in (1, 0):
        axis, tap = 1 + side, taps[side]
        before, after = geometry.padding[2 * side : 2 * side + 2]
        if before or after:
            low, high = ([0] * 4 for _ in range(2))
            low[axis], high[axis] = before, after
            x = build.add(tiny.PadOp(x, low, high, 0.0))
        steps = (geometry.stride[side],), (geometry.dilation[side],)
        x = build.add(tiny.WindowOp(x, (axis,), (tap,), *steps))
        x = build.permute(x, (0, 1, 2, 4, 3))
        *outer, _, _ = tiny.tensor_of(x).dims
        inner = tiny.tensor_of(x).dims[3] * tiny.tensor_of(x).dims[4]
        x = build.reshape(x, (*outer, inner))
    one = Dim.const(1)
    w = build.reshape(w, (f, one, one, taps[0] * taps[1] * c))
    if missing:
        room = [0, 0, 0, missing]
        x = build.add(tiny.PadOp(x, [0] * 4, room, 0.0))
        w = build.add(tiny.PadOp(build.cast(w, f32), [0] * 4, room, 0.0))
    return x, w


def _missing_in_columns(
    conv: Convolution, x: SSAValue, w: SSAValue, geometry: Geometry
) -> int | None:
    """The zeros behind the points of a window that is stored for its product; None for another."""
    sizes = [size.constant() for size in tiny.tensor_of(w).dims]
    if conv.groups.constant() != 1 or None in sizes:
        return None
    _, rows, columns, c = cast("list[int]", sizes)
    spans = [(tap - 1) * by for tap, by in zip((rows, columns), geometry.dilation, strict=True)]
    if max(geometry.stride) <= FARTHEST and max(spans) <= LONGEST:
        return None
    points = rows * columns * c
    missing = -points % GROUP
    pixels = [size.constant() for size in (tiny.tensor_of(x).dims[0], *_pixels(conv))]
    many = prod(size or MANY for size in pixels) * (points + missing)
    room = rows * columns <= TIMES * prod(geometry.stride) or many <= MOST_IN_COLUMNS
    return missing if room else None


def _pixels(conv: Convolution) -> Sequence[Dim]:
    return conv.shape[2:] if conv.first else conv.shape[1:3]


def _lies_beside(conv: Convolution, w: SSAValue) -> bool:
    """Whether windows of a filter [F, R, S, C] are as large as their step, with no room around."""
    taps = [size.constant() for size in tiny.tensor_of(w).dims[1:3]]
    return taps == list(conv.stride) and set(conv.dilation) == {1} and not any(conv.padding)


def _even(conv: Convolution, build: Builder, operands: Sequence[SSAValue]) -> Sequence[SSAValue]:
    """Image and filter, channels last, with channels of zeros up to a whole vector.

    Exact: each adds 0 · 0.  An odd number, as the three of a model's first image, then lies in
    memory as copies of 16 bytes take it, where none of 4 would.  An image with its channels first
    is copied for its windows anyway, and one of f32 is multiplied as TF32 then, where the precision
    permits that, one of a tap too.  Other operands of f32, and windows side by side, which make
    rows of all that they hold, are left as they are.
    """
    w = tiny.tensor_of(operands[1])
    count, taps = w.dims[3].constant() or 0, [size.constant() for size in w.dims[1:3]]
    rounded = conv.precision is not None and conv.precision.data == TF32
    whole = TILE // 2 if conv.element == f32 else TILE
    needs = whole if rounded or (conv.first and taps != [1, 1]) else 2
    even = (conv.element == f32 and not rounded) or count % needs == 0
    beside = _lies_beside(conv, operands[1]) and not (rounded and taps == [1, 1])
    if even or conv.groups.constant() != 1 or beside:
        return operands
    missing = -count % whole
    return [
        build.add(tiny.PadOp(build.cast(v, f32), [0] * 4, [0, 0, 0, missing], 0.0))
        for v in operands
    ]


def _in_groups(
    conv: Convolution, build: Builder, x: SSAValue, w: SSAValue, pixels: Sequence[Dim]
) -> SSAValue | None:
    """The convolution of an image [N, H, W, C] in groups; None where there is one."""
    g = conv.groups
    if g.constant() == 1:
        return None
    n, height, width, _ = tiny.tensor_of(x).dims
    f, *taps, inner = tiny.tensor_of(w).dims
    each = divided(f, g, conv.at)
    assert each is not None  # the verifier has seen that it comes out even
    element = conv.element
    if each.constant() == inner.constant() == 1:
        filters = build.rounded(build.reshape(w, (f, *taps)), element)
        return _depthwise(conv, build, x, filters, pixels)
    x = build.reshape(x, (n, height, width, g, inner))
    w = build.rounded(build.reshape(w, (g, each, *taps, inner)), element)
    if (even := _even_groups(conv, build, x, w, pixels)) is not None:
        return even
    windows = _windows(build, x, taps, Geometry(conv.stride, conv.dilation, conv.padding))
    inside = all((size.constant() or 1) % GROUP == 0 for size in (each, inner))
    first = conv.first
    if first and not inside:
        windows = build.permute(windows, (0, 3, 1, 2, 5, 6, 4))
        space = (n, g, each, *pixels, *taps, inner)
        left, right = (0, 1, 3, 4, 5, 6, 7), (1, 2, 5, 6, 7)
    else:
        windows = build.permute(windows, (0, 1, 2, 3, 5, 6, 4))
        space = (n, *pixels, g, each, *taps, inner)
        left, right = (0, 1, 2, 3, 5, 6, 7), (3, 4, 5, 6, 7)
    sizes = [size.constant() for size in (each, *taps, inner)]
    known = [size for size in sizes if size is not None]
    every = len(known) == len(sizes)
    few = first and every and few_products(known[0], prod(known[1:]), in_groups=True)
    if (each.constant() or TILE) >= TILE and not inside and not few:
        # No family reads these windows: they are stored, in the type of products.
        windows = build.rounded(windows, element)
    factors = build.expand(windows, left, space), build.expand(w, right, space)
    made = build.contract(*factors, (5, 6, 7), conv.precision)
    if first and inside:
        # A tile has filters of one group, which lie side by side pixel by pixel.
        return build.permute(build.reshape(made, (n, *pixels, f)), (0, 3, 1, 2))
    return build.reshape(made, conv.shape)


def _even_groups(
    conv: Convolution, build: Builder, x: SSAValue, w: SSAValue, pixels: Sequence[Dim]
) -> SSAValue | None:
    """The convolution of an image [N, H, W, G, C] with filters [G, F, R, S, C], with zeros behind
    the channels and the filters of each group up to multiples of ``EVEN``.

    An implicit GEMM has tiles inside of such groups.  Without, windows would be stored, R S times
    the image, or tiles be as narrow as divides a group's filters.  Exact: 0 · 0 is summed too, and
    what filters of zeros give is left out.  None where groups are multiples already, or of
    ``GROUP`` and zeros would be many, where they are smaller than one, of one tap, which a product
    of each group takes as it lies, and of f32 that is exact.
    """
    n, height, width, g, inner = tiny.tensor_of(x).dims
    _, each, *taps, _ = tiny.tensor_of(w).dims
    sizes = [size.constant() for size in (g, each, *taps, inner)]
    known = [size for size in sizes if size is not None]
    rounded = conv.precision is not None and conv.precision.data == TF32
    if len(known) < len(sizes) or prod(known[2:4]) == 1 or (conv.element == f32 and not rounded):
        return None
    behind, after = _zeros(known[1], conv.element == f32), _zeros(known[4], False)
    if not (behind or after) or min(known[1], known[4]) < GROUP:
        return None
    x = build.add(tiny.PadOp(build.narrowed(x, conv.element), [0] * 5, [0, 0, 0, 0, after], 0.0))
    w = build.add(tiny.PadOp(build.cast(w, conv.element), [0] * 5, [0, behind, 0, 0, after], 0.0))
    wide, deep = Dim.const(known[1] + behind), Dim.const(known[4] + after)
    x = build.cast(build.reshape(x, (n, height, width, g * deep)), f32)
    w = build.cast(build.reshape(w, (g * wide, *taps, deep)), f32)
    filters = g * wide
    shape = (n, filters, *pixels) if conv.first else (n, *pixels, filters)
    made = _in_groups(replaced(conv, shape=shape), build, x, w, pixels)
    assert made is not None
    if conv.first:
        whole = build.reshape(made, (n, g, wide, *pixels))
        return build.reshape(build.slice(whole, (n, g, each, *pixels)), conv.shape)
    whole = build.reshape(made, (n, *pixels, g, wide))
    return build.reshape(build.slice(whole, (n, *pixels, g, each)), conv.shape)


def _zeros(size: int, always: bool) -> int:
    """The zeros behind so many filters or channels of a group: none where these have tiles, and
    zeros would be many, unless they ``always`` have them."""
    behind = -size % EVEN
    return 0 if size % GROUP == 0 and behind > MOST_ZEROS * size and not always else behind


def _depthwise(
    conv: Convolution, build: Builder, x: SSAValue, w: SSAValue, pixels: Sequence[Dim]
) -> SSAValue:
    """The convolution of an image [N, H, W, C] with one filter [C, R, S] a channel."""
    n, *_, c = tiny.tensor_of(x).dims
    _, *taps = tiny.tensor_of(w).dims
    windows = _windows(build, x, taps, Geometry(conv.stride, conv.dilation, conv.padding))
    space, channel = (n, *pixels, c, *taps), 3
    if conv.first:
        windows = build.permute(windows, (0, 3, 1, 2, 4, 5))
        space, channel = (n, c, *pixels, *taps), 1
    filters = build.expand(w, (channel, 4, 5), space)
    return build.contract(windows, filters, (4, 5), conv.precision)


def _patches(
    conv: Convolution, build: Builder, x: SSAValue, taps: Sequence[Dim], pixels: Sequence[Dim]
) -> SSAValue | None:
    """An image [N, H, W, C] in windows that lie side by side, [N, Ho, Wo, R, S, C]: a reshape.

    What no window covers is left out, of known sizes.  None where they overlap or leave gaps, for
    windows of one pixel, and for many channels: tiles of pixels are taken from the image then,
    where it lies with its channels inside, and a copy of it so is one of lines, where one of
    windows goes from pixel to pixel.
    """
    n, height, width, c = tiny.tensor_of(x).dims
    channels = c.constant() or 0
    if channels >= GROUP and channels % TILE == 0 and max(conv.stride) <= FARTHEST:
        return None
    size = tuple(tap.constant() for tap in taps)
    beside = size == tuple(conv.stride) and set(conv.dilation) == {1} and not any(conv.padding)
    if size == (1, 1) or not beside:
        return None
    covered = (pixels[0] * taps[0], pixels[1] * taps[1])
    if covered != (height, width):
        if any(size.constant() is None for size in (*covered, height, width)):
            return None
        x = build.slice(x, (n, *covered, c))
    parts = build.reshape(x, (n, pixels[0], taps[0], pixels[1], taps[1], c))
    element = conv.element
    return build.rounded(build.permute(parts, (0, 1, 3, 2, 4, 5)), element)


def _windows(build: Builder, x: SSAValue, taps: Sequence[Dim], geometry: Geometry) -> SSAValue:
    """The image [N, H, W, ...] padded with zeros, its windows over rows and columns."""
    if any(geometry.padding):
        low, high = ([0] * tiny.tensor_of(x).rank for _ in range(2))
        low[1:3], high[1:3] = geometry.padding[::2], geometry.padding[1::2]
        x = build.add(tiny.PadOp(x, low, high, 0.0))
    return build.add(tiny.WindowOp(x, (1, 2), taps, geometry.stride, geometry.dilation))
