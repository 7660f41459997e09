"""Converters of ATen's pools: extremes and means of windows, and the places of the largest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from polyc.importers.aten.support import numbers, rank_of
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import windows
from polyc.trace.sizes import SizeLike
from polyc.trace.values import Value


def _steps(
    kernel: Sequence[int], stride: Any, padding: Any, dilation: Any
) -> tuple[list[Any], list[Any], list[Any]]:
    """Strides, padding and dilation along each axis; windows lie side by side where no stride is
    given."""
    count = len(kernel)
    return numbers(stride or kernel, count), numbers(padding, count), numbers(dilation, count)


@converter("torch", "aten.max_pool1d", "aten.max_pool2d", "aten.max_pool3d")
def max_pool(
    x: Value,
    kernel: Sequence[int],
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> Value:
    steps = _steps(kernel, stride, padding, dilation)
    return windows.max_pool(x, kernel, *steps, ceil_mode=ceil_mode)


@converter(
    "torch",
    *("aten.max_pool2d_with_indices", "aten.max_pool3d_with_indices"),
    "aten.max_pool1d_with_indices",
)
def max_pool_with_indices(
    x: Value,
    kernel: Sequence[int],
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> tuple[Value, Value]:
    steps = _steps(kernel, stride, padding, dilation)
    return windows.max_pool_with_indices(x, kernel, *steps, ceil_mode=ceil_mode)


@converter("torch", "aten.avg_pool1d", "aten.avg_pool2d", "aten.avg_pool3d")
def avg_pool(
    x: Value,
    kernel: Sequence[int],
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    count = len(kernel)
    steps, rooms = numbers(stride or kernel, count), numbers(padding, count)
    if divisor_override is not None:
        made = windows.sum_pool(x, kernel, steps, rooms, ceil_mode=ceil_mode)
        return made / float(divisor_override)
    return windows.avg_pool(
        x, kernel, steps, rooms, ceil_mode=ceil_mode, count_include_pad=count_include_pad
    )


@converter(
    "torch",
    *("aten.adaptive_avg_pool1d", "aten.adaptive_avg_pool2d", "aten.adaptive_avg_pool3d"),
    *("aten._adaptive_avg_pool2d", "aten._adaptive_avg_pool3d"),
)
def adaptive_avg_pool(x: Value, output: Any) -> Value:
    return windows.adaptive_avg_pool(x, list(output))


@converter(
    "torch",
    *("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d"),
)
def adaptive_max_pool(x: Value, output: Any) -> tuple[Value, Value]:
    """The largest elements of windows, and the first place in the planes that has each."""
    sizes = list(output)
    found = windows.adaptive_max_pool(x, sizes)
    count_, lead = len(sizes), x.ndim - len(sizes)
    planes = x.shape[lead:]
    # Beside each other: the outputs' axes, then the planes'.
    inner = x.reshape(*x.shape[:lead], *[1] * count_, *planes)
    outer = found.reshape(*found.shape, *[1] * count_)
    here = inner == outer
    if rank_of(x.dtype) == 2:
        here = here | (f.isnan(inner) & f.isnan(outer))
    places: Value | None = None
    for axis, (whole, parts) in enumerate(zip(planes, sizes, strict=True)):
        at = f.iota((parts, whole), 1)
        first = f.iota((parts, whole), 0) * whole
        within = (at * parts < first + whole) & ((at + 1) * parts > first)
        shape: list[SizeLike] = [1] * (2 * count_)
        shape[axis], shape[count_ + axis] = parts, whole
        here = here & within.reshape(*shape)
        along: list[SizeLike] = [1] * count_
        along[axis] = whole
        own = f.iota(along, axis)
        places = own if places is None else places * whole + own
    assert places is not None
    beyond = f.full((1,), 2**62, "i64")
    return found, f.min(f.where(here, places, beyond), list(range(lead + count_, here.ndim)))
