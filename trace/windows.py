"""Functions of windows over traced values: ``polyc.conv2d``, ``polyc.max_pool``, ….

Where nothing else is said, the axes that windows move along are the last ones, [N, C, H, W] say;
``layout`` names them in another order, one of ``LAYOUTS``.  What an op means on NaN, infinities and
at borders is in docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import divided
from polyc.dialects.frontend import tensor_of
from polyc.dialects.frontend.resizing import NO_ANTIALIAS
from polyc.trace.elements import places_type
from polyc.trace.sizes import SizeLike, dim_of
from polyc.trace.source import public, refuse
from polyc.trace.values import Value, same_type, value_of

LAYOUTS = {"ncw": 1, "nwc": 1, "nchw": 2, "nhwc": 2, "ncdhw": 3, "ndhwc": 3}
"""How many axes windows move along in each layout."""

Sizes = SizeLike | Sequence[SizeLike]
Numbers = int | Sequence[int]


def axes_of(what: str, x: Value, named: int | None, layout: str | None) -> list[int]:
    """The axes of ``x`` that windows move along, ``named`` of them where a size says how many."""
    if layout is not None and layout not in LAYOUTS:
        refuse("BadArgument", f"{layout} is no layout of {what}; there are {', '.join(LAYOUTS)}")
    count = LAYOUTS[layout] if layout is not None else named or x.ndim - 2
    if named not in (None, count):
        refuse("BadArgument", f"{what} has {named} sizes, and layout {layout} has {count} axes")
    if not 0 < count < x.ndim:
        refuse(
            "RankMismatch",
            f"{what} along {count} axes takes a tensor with one axis more, or two, not {x!r}",
        )
    first = x.ndim - count - (layout is not None and layout.endswith("c"))
    if first < 0:
        refuse("RankMismatch", f"{what} in layout {layout} takes an axis of channels; {x!r} has no")
    return list(range(first, first + count))


def numbers_of(what: str, given: Numbers, count: int, name: str) -> list[int]:
    """One number for each axis."""
    found = [given] * count if isinstance(given, int) else list(given)
    if len(found) != count:
        refuse(
            "BadArgument",
            f"{name} of {what} is one number or {count}, one for each axis, not {given}",
        )
    return found


def rooms_of(what: str, given: Numbers, count: int) -> list[int]:
    """Places before and after each axis."""
    found = [given] * count if isinstance(given, int) else list(given)
    if len(found) == count:
        return [place for place in found for _ in range(2)]
    if len(found) != 2 * count:
        refuse(
            "BadArgument",
            f"padding of {what} is one number, {count}, or {2 * count}, before and after each "
            f"axis, not {given}",
        )
    return found


def _along(what: str, x: Value, sizes: Sizes, layout: str | None) -> tuple[list[int], list[Dim]]:
    """The axes that windows move along, and a size for each: one for all, or one for each."""
    if isinstance(sizes, Sequence) and not isinstance(sizes, str):
        found = [dim_of(size) for size in sizes]
        return axes_of(what, x, len(found), layout), found
    axes = axes_of(what, x, None, layout)
    return axes, [dim_of(sizes)] * len(axes)


@dataclass(frozen=True)
class _Windows:
    """The windows of a pooling along axes of a value."""

    of: Value
    axes: list[int]
    size: list[Dim]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    ceil_mode: bool

    @staticmethod
    def named(
        what: str,
        x: Value,
        kernel: Sizes,
        stride: Numbers | None,
        padding: Numbers,
        dilation: Numbers,
        ceil_mode: bool,
        layout: str | None,
    ) -> _Windows:
        one = value_of(x)
        axes, sizes = _along(what, one, kernel, layout)
        if stride is None:
            known = [size.constant() for size in sizes]
            steps = [k for k in known if k is not None]
            if len(steps) < len(axes):
                refuse("BadArgument", f"{what} with a window of {kernel} says its stride, a number")
        else:
            steps = numbers_of(what, stride, len(axes), "stride")
        ends = rooms_of(what, padding, len(axes))
        spreads = numbers_of(what, dilation, len(axes), "dilation")
        return _Windows(one, axes, sizes, steps, ends, spreads, ceil_mode)

    def pool(self, fn: str, counted: bool = False) -> Value:
        """A function of each window."""
        made = self.of.builder.pool(
            fn,
            self.of.ssa,
            self.axes,
            self.size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            count_include_pad=counted,
        )
        return Value(self.of.builder, made)

    def places(self, fn: str, whole: bool, element: Attribute) -> Value:
        """Where the extreme of each window is."""
        made = self.of.builder.arg_pool(
            fn,
            self.of.ssa,
            self.axes,
            self.size,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            ceil_mode=self.ceil_mode,
            whole=whole,
            element=element,
        )
        return Value(self.of.builder, made)


@public
def max_pool(
    x: Value,
    kernel: Sizes,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    *,
    ceil_mode: bool = False,
    layout: str | None = None,
) -> Value:
    """The largest element of each window along one, two or three axes; NaN where one is NaN.

    ``kernel``, ``stride`` (as large unless given), ``padding`` and ``dilation`` are one number or
    one for each axis, ``padding`` also two, before and after it.  With ``ceil_mode`` the last
    window may reach beyond the padding.
    """
    parts = x, kernel, stride, padding, dilation, ceil_mode, layout
    return _Windows.named("max_pool", *parts).pool("max")


@public
def max_pool_with_indices(
    x: Value,
    kernel: Sizes,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    *,
    ceil_mode: bool = False,
    layout: str | None = None,
    whole: bool = False,
    dtype: str = "i64",
) -> tuple[Value, Value]:
    """``max_pool``, and where the largest element of each window stands, the first of equal ones.

    A place is counted in the plane of the axes that windows move along, as PyTorch's, or, with
    ``whole``, in all of ``x``, as ONNX's; a window of padding alone has the place -1.
    """
    what = "max_pool_with_indices"
    windows = _Windows.named(what, x, kernel, stride, padding, dilation, ceil_mode, layout)
    return windows.pool("max"), windows.places("max", whole, places_type(dtype))


@public
def avg_pool(
    x: Value,
    kernel: Sizes,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    *,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str | None = None,
) -> Value:
    """The mean of each window; zeros of the padding count unless ``count_include_pad`` is False."""
    parts = x, kernel, stride, padding, dilation, ceil_mode, layout
    return _Windows.named("avg_pool", *parts).pool("mean", count_include_pad)


def _need_power(p: object) -> None:
    if not isinstance(p, int | float) or isinstance(p, bool) or not 0 < p < inf:
        refuse("BadArgument", f"p of lp_pool is a finite number above 0, not {p!r}")


@public
def lp_pool(
    x: Value,
    p: float,
    kernel: Sizes,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    *,
    ceil_mode: bool = False,
    layout: str | None = None,
) -> Value:
    """The root ``p`` of the sum of absolute values to the power ``p`` of each window.

    With 1 and 2 it is an op of its own; with another number above 0 it is composed of these powers.
    """
    _need_power(p)
    parts = kernel, stride, padding, dilation, ceil_mode, layout
    if p in (1, 2):
        return _Windows.named("lp_pool", x, *parts).pool(f"l{int(p)}")
    one = value_of(x)
    powers = Value(one.builder, one.builder.elementwise("abs", one.ssa)) ** p
    return _Windows.named("lp_pool", powers, *parts).pool("sum") ** (1 / p)


@public
def sum_pool(
    x: Value,
    kernel: Sizes,
    stride: Numbers | None = None,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    *,
    ceil_mode: bool = False,
    layout: str | None = None,
) -> Value:
    """The sum of each window."""
    parts = x, kernel, stride, padding, dilation, ceil_mode, layout
    return _Windows.named("sum_pool", *parts).pool("sum")


# Convolutions -------------------------------------------------------------------------------


def _conv(
    count: int,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: SizeLike,
    layout: str | None,
    precision: str | None,
) -> Value:
    image, filters, what = value_of(x), value_of(weight), f"a conv{count}d"
    same_type(what[2:], image, filters)
    named = frontend.LAYOUTS_OF[count][0] if layout is None else layout
    made = image.builder.conv(
        image.ssa,
        filters.ssa,
        count,
        layout=named,
        stride=numbers_of(what, stride, count, "stride"),
        padding=rooms_of(what, padding, count),
        dilation=numbers_of(what, dilation, count, "dilation"),
        groups=dim_of(groups),
        precision=precision,
    )
    return _biased(what, Value(image.builder, made), bias, named, count)


def _biased(what: str, made: Value, bias: Value | None, layout: str, count: int) -> Value:
    if bias is None:
        return made
    added = value_of(bias)
    if added.ndim != 1:
        refuse("RankMismatch", f"the bias of {what} is [F], a number a filter, not {added!r}")
    return made + (added if layout.endswith("c") else added.reshape(-1, *[1] * count))


@public
def conv1d(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: SizeLike = 1,
    layout: str = "ncw",
    precision: str | None = None,
) -> Value:
    """A convolution along one axis: [N, C, W] and [F, C / groups, S], or in ``nwc``."""
    parts = x, weight, bias, stride, padding, dilation, groups, layout, precision
    return _conv(1, *parts)


@public
def conv2d(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: SizeLike = 1,
    layout: str = "nchw",
    precision: str | None = None,
) -> Value:
    """A convolution over two axes: [N, C, H, W] and [F, C / groups, R, S], or in ``nhwc``.

    ``padding`` is one number, two (H and W), or four (before and after H, before and after W);
    ``bias`` is [F]; ``precision`` is as of ``matmul``.
    """
    parts = x, weight, bias, stride, padding, dilation, groups, layout, precision
    return _conv(2, *parts)


@public
def conv3d(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: SizeLike = 1,
    layout: str = "ncdhw",
    precision: str | None = None,
) -> Value:
    """A convolution over three axes: [N, C, D, H, W] and [F, C / groups, T, R, S], or ``ndhwc``."""
    parts = x, weight, bias, stride, padding, dilation, groups, layout, precision
    return _conv(3, *parts)


def _transposed(
    count: int,
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    dilation: Numbers,
    groups: SizeLike,
    layout: str | None,
    precision: str | None,
) -> Value:
    image, filters, what = value_of(x), value_of(weight), f"a conv_transpose{count}d"
    same_type(what[2:], image, filters)
    named = frontend.LAYOUTS_OF[count][0] if layout is None else layout
    made = image.builder.conv_transpose(
        image.ssa,
        filters.ssa,
        count,
        layout=named,
        stride=numbers_of(what, stride, count, "stride"),
        padding=rooms_of(what, padding, count),
        output_padding=numbers_of(what, output_padding, count, "output_padding"),
        dilation=numbers_of(what, dilation, count, "dilation"),
        groups=dim_of(groups),
        precision=precision,
    )
    return _biased(what, Value(image.builder, made), bias, named, count)


@public
def conv_transpose1d(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: SizeLike = 1,
    layout: str = "ncw",
    precision: str | None = None,
) -> Value:
    """A transposed convolution along one axis: [N, C, W] and [C, F / groups, S], or in ``nwc``."""
    how = stride, padding, output_padding, dilation, groups, layout, precision
    return _transposed(1, x, weight, bias, *how)


@public
def conv_transpose2d(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: SizeLike = 1,
    layout: str = "nchw",
    precision: str | None = None,
) -> Value:
    """A transposed convolution over two axes: [N, C, H, W] and [C, F / groups, R, S], or ``nhwc``.

    ``padding`` is what is cut off, as of a convolution; ``output_padding`` makes the result longer.
    """
    how = stride, padding, output_padding, dilation, groups, layout, precision
    return _transposed(2, x, weight, bias, *how)


@public
def conv_transpose3d(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    *,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: SizeLike = 1,
    layout: str = "ncdhw",
    precision: str | None = None,
) -> Value:
    """A transposed convolution over three axes: [N, C, D, H, W] and [C, F / groups, T, R, S]."""
    how = stride, padding, output_padding, dilation, groups, layout, precision
    return _transposed(3, x, weight, bias, *how)


# As many windows as there shall be -----------------------------------------------------------


@public
def adaptive_avg_pool(x: Value, output: Sizes, *, layout: str | None = None) -> Value:
    """Means of ``output`` windows along each axis, from ``i * size // output`` up to
    ``ceil((i + 1) * size / output)``; with an output of 1 the global mean, sizes kept."""
    return _adaptive("adaptive_avg_pool", "mean", x, output, layout)


@public
def adaptive_max_pool(x: Value, output: Sizes, *, layout: str | None = None) -> Value:
    """The largest elements of ``output`` windows along each axis, as of ``adaptive_avg_pool``."""
    return _adaptive("adaptive_max_pool", "max", x, output, layout)


def _adaptive(what: str, fn: str, x: Value, output: Sizes, layout: str | None) -> Value:
    one = value_of(x)
    axes, wanted = _along(what, one, output, layout)
    build, dims = one.builder, one.kind.dims
    if axes and all(count.constant() == 1 for count in wanted):
        return Value(build, build.reduce(fn, one.ssa, sorted(axes), keepdims=True))
    counts = dict(zip(axes, wanted, strict=True))
    unlike = [
        axis
        for axis in axes
        if counts[axis] != dims[axis] and divided(dims[axis], counts[axis], build.inside) is None
    ]
    value = one.ssa
    if unlike:
        for axis in unlike:
            _need_known(what, dims[axis], counts[axis])
        # With them go all axes of known sizes: that is one reduction.
        several = {axis: counts[axis].constant() or 0 for axis in sorted(axes)}
        several = {a: n for a, n in several.items() if dims[a].constant() and n}
        several = {a: n for a, n in several.items() if counts[a] != dims[a]}
        value = build.adaptive_pool(fn, value, list(several), list(several.values()))
    # Windows that are alike lie side by side: a reshape, and one reduction for all such axes.
    apart: list[Dim] = []
    gone: list[int] = []
    for axis, size in enumerate(tensor_of(value).dims):
        each = divided(size, counts.get(axis, size), build.inside)
        if each is None or counts.get(axis, size) == size:
            apart.append(size)
        else:
            apart += [counts[axis], each]
            gone.append(len(apart) - 1)
    if gone:
        value = build.reduce(fn, build.reshape(value, apart), gone)
    return Value(build, value)


def _need_known(what: str, size: Dim, count: Dim) -> None:
    """Refuse windows that are unlike of an axis whose size or number of windows is open, or 0."""
    windows = count.constant()
    if size.constant() is None or windows is None:
        refuse(
            "ShapeMismatch",
            f"{what} from {size} to {count} does not come in {count} equal windows for all sizes; "
            f"assume that {size} mod {count} == 0, or give numbers for both",
        )
    if windows < 1:
        refuse("BadArgument", f"{what} to {windows} has no window; give 1 or more")


# Other sizes -----------------------------------------------------------------------------------


@public
def resize(
    x: Value,
    size: Sizes | None = None,
    *,
    scale: Numbers | None = None,
    mode: str = "nearest",
    coordinates: str = "half_pixel",
    rounding: str | None = None,
    coefficient: float | None = None,
    exclude_outside: bool = False,
    antialias: bool = False,
    layout: str | None = None,
) -> Value:
    """The elements at the places of a grid of ``size``, or of ``scale`` times as many.

    ``mode`` is ``nearest``, ``linear`` or ``cubic``.  ``coordinates`` and ``rounding``, which is of
    the nearest, are ONNX's; PyTorch's ``nearest`` is ``asymmetric`` and ``floor``, and its
    ``bilinear`` and ``bicubic`` are ``linear`` and ``cubic`` along two axes, ``half_pixel``.
    ``coefficient``, -0.75 unless given, and ``exclude_outside`` are of the cubic weights; there is
    no ``antialias``.
    """
    one = value_of(x)
    if antialias:
        refuse("UnsupportedProgram", f"resize {NO_ANTIALIAS}")
    if (size is None) == (scale is None):
        refuse("BadArgument", "resize takes a size or a scale, one of them")
    axes, wanted = _along("resize", one, size if size is not None else scale or 1, layout)
    if size is None:
        wanted = [one.kind.dims[axis] * by for axis, by in zip(axes, wanted, strict=True)]
    made = one.builder.resize(
        one.ssa,
        axes,
        wanted,
        mode=mode,
        coordinates=coordinates,
        rounding=rounding,
        coefficient=coefficient,
        exclude_outside=exclude_outside,
    )
    return Value(one.builder, made)


@public
def grid_sample(
    x: Value,
    grid: Value,
    *,
    mode: str = "linear",
    padding: str = "zeros",
    align_corners: bool = False,
) -> Value:
    """What lies in ``x``, [N, C, H, W], at the coordinates of ``grid``, [N, P, Q, 2]: [N, C, P, Q].

    Coordinates are from -1 to 1, that of W first; so along one axis or three too.  ``mode`` is
    ``nearest``, ``linear`` or ``cubic``, ``padding`` is ``zeros``, ``border`` or ``reflection``, as
    PyTorch and ONNX have them.
    """
    one, places = value_of(x), value_of(grid)
    for value in (one, places):
        if value.dtype not in ("f16", "bf16", "f32"):
            refuse("TypeMismatch", f"grid_sample takes real numbers, not {value!r}; cast it")
    made = one.builder.grid_sample(
        one.ssa, places.ssa, mode=mode, padding=padding, align_corners=align_corners
    )
    return Value(one.builder, made)
