"""Converters of ATen's ops that cut images into patches and put them together, and of PyTorch's
other nearest resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.importers.aten.networks import resized, upsampling_factors
from polyc.importers.aten.support import numbers, refuse
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import gathers
from polyc.trace.values import Value


def _sides(x: Value, what: str, rank: int) -> list[int]:
    """The last two sizes of an image, or of what patches make, which are to be numbers."""
    found = [size for size in x.shape[x.ndim - rank :] if isinstance(size, int)]
    if len(found) < rank:
        raise refuse(f"{what} of an image of open sizes; give numbers for these")
    return found


@converter("torch", "aten.im2col")
def im2col(
    x: Value,
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """Each patch as a column: ``torch.nn.functional.unfold``."""
    batched = x if x.ndim == 4 else x.reshape(1, *x.shape)
    n, c, *_ = batched.shape
    sides = _sides(batched, "unfold", 2)
    how = [numbers(one, 2) for one in (kernel, dilation, padding, stride)]
    room = [(0, 0), (0, 0), *((p, p) for p in how[2])]
    found = f.pad(batched, room) if any(how[2]) else batched
    counts: list[int] = []
    for i, (taps, spread, pad, step) in enumerate(zip(*how, strict=True)):
        count = (sides[i] + 2 * pad - spread * (taps - 1) - 1) // step + 1
        if count < 1:
            raise refuse(f"unfold of {sides[i]} by patches of {taps} has none that fits")
        counts.append(count)
        places = f.iota((taps, count), 0) * spread + f.iota((taps, count), 1) * step
        # The axis becomes two: the taps of a patch, and the patches.
        found = gathers.take(found, places, 2 + 2 * i)
    found = found.permute(0, 1, 2, 4, 3, 5)
    found = found.reshape(n, c * how[0][0] * how[0][1], counts[0] * counts[1])
    return found if x.ndim == 4 else found.reshape(*found.shape[1:])


@converter("torch", "aten.col2im")
def col2im(
    x: Value,
    output: Sequence[int],
    kernel: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Value:
    """The sum of the patches at each pixel: ``torch.nn.functional.fold``."""
    batched = x if x.ndim == 3 else x.reshape(1, *x.shape)
    n, rows, _ = batched.shape
    sizes, (high, wide), spread, pad, step = (
        numbers(one, 2) for one in (output, kernel, dilation, padding, stride)
    )
    if not isinstance(rows, int) or rows % (high * wide):
        raise refuse(f"fold of {rows} rows, which are no patches of {high}x{wide}")
    each = rows // (high * wide)
    counts = [
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, p, d, k, s in zip(sizes, pad, spread, (high, wide), step, strict=True)
    ]
    found = batched.reshape(n, each, high, wide, *counts).permute(0, 1, 2, 4, 3, 5)
    whole = [k == s and d == 1 for k, s, d in zip((high, wide), step, spread, strict=True)]
    if all(whole):
        # Patches that lie side by side are the image, but for what is cut off or not reached.
        found = found.permute(0, 1, 3, 2, 5, 4).reshape(n, each, counts[0] * high, counts[1] * wide)
        ends = [
            (0, max(0, size + 2 * p - count * k))
            for size, p, count, k in zip(sizes, pad, counts, (high, wide), strict=True)
        ]
        found = f.pad(found, [(0, 0), (0, 0), *ends]) if any(b for _, b in ends) else found
        rows_, columns = (slice(p, p + size) for size, p in zip(sizes, pad, strict=True))
        found = found[(slice(None), slice(None), rows_, columns)]
    else:
        found = _added(found, 2, sizes[0], spread[0], pad[0], step[0])
        found = _added(found, 3, sizes[1], spread[1], pad[1], step[1])
    return found if x.ndim == 3 else found.reshape(*found.shape[1:])


def _added(x: Value, axis: int, size: int, spread: int, pad: int, step: int) -> Value:
    """Taps and patches, two axes, as the pixels of one, of which each has the sum of those that lie
    there.

    Taps that lie in the same step of their patch are a piece of as many pixels as a step has, of
    every patch: patch by patch such pieces lie side by side, and are moved by whole steps.
    """
    taps, count = (int(one) for one in x.shape[axis : axis + 2])
    wide = -(-(spread * (taps - 1) + 1) // step)
    if spread > 1:
        # Between two taps lie as many pixels without one.
        apart = x.unsqueeze(axis + 1)
        room = [(0, spread - 1) if i == axis + 1 else (0, 0) for i in range(apart.ndim)]
        merged = (*x.shape[:axis], taps * spread, *x.shape[axis + 1 :])
        x, taps = f.pad(apart, room).reshape(*merged), taps * spread
    if taps < wide * step:
        x = f.pad(x, [(0, wide * step - taps) if i == axis else (0, 0) for i in range(x.ndim)])
    elif taps > wide * step:
        x = x[(slice(None),) * axis + (slice(0, wide * step),)]
    before, after = x.shape[:axis], x.shape[axis + 2 :]
    pieces = x.reshape(*before, wide, step, count, *after)
    pieces = pieces.permute(*range(axis + 1), axis + 2, axis + 1, *range(axis + 3, pieces.ndim))
    pieces = pieces.reshape(*before, wide, count * step, *after)
    whole = (count + wide) * step
    found: Value | None = None
    for place in range(wide):
        piece = pieces[(slice(None),) * axis + (place,)]
        room = [(0, 0)] * piece.ndim
        room[axis] = (place * step, whole - (count + place) * step)
        piece = f.pad(piece, room)
        found = piece if found is None else found + piece
    assert found is not None
    if whole < pad + size:
        found = f.pad(
            found, [(0, pad + size - whole) if i == axis else (0, 0) for i in range(found.ndim)]
        )
    return found[(slice(None),) * axis + (slice(pad, pad + size),)]


_EXACT = ("nearest", "half_pixel", "round_prefer_ceil")


@converter("torch", *(f"aten._upsample_nearest_exact{n}d.vec" for n in (1, 2, 3)))
def upsample_nearest_exact_vec(x: Value, output: Any, factors: Any) -> Value:
    return resized(x, output, factors, *_EXACT)


@converter("torch", *(f"aten._upsample_nearest_exact{n}d.default" for n in (1, 2, 3)))
def upsample_nearest_exact(x: Value, output: Any, *factors: float | None) -> Value:
    return resized(x, output, upsampling_factors(factors), *_EXACT)
