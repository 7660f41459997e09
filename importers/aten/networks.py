"""Converters of ATen's layers: convolutions, attention, norms, other sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from polyc.importers.aten.movements import parts_of
from polyc.importers.aten.reductions import variance
from polyc.importers.aten.support import numbers, rank_of, refuse, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace import windows
from polyc.trace.sizes import SizeLike, dim_of
from polyc.trace.values import Value

# Convolutions --------------------------------------------------------------------------------

_CONVS = {1: windows.conv1d, 2: windows.conv2d, 3: windows.conv3d}
_TRANSPOSED = {
    1: windows.conv_transpose1d,
    2: windows.conv_transpose2d,
    3: windows.conv_transpose3d,
}


def _conv(
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: int,
) -> Value:
    count = weight.ndim - 2
    batched = x if x.ndim == weight.ndim else x.unsqueeze(0)
    made = _CONVS[count](
        batched,
        weight,
        bias,
        stride=numbers(stride, count),
        padding=padding,
        dilation=numbers(dilation, count),
        groups=groups,
    )
    return made if batched is x else made.squeeze(0)


@converter(
    "torch",
    *("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default"),
    *("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding"),
)
def conv(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Value:
    count = weight.ndim - 2
    if padding == "valid":
        rooms = [0] * count
    elif padding == "same":
        rooms: list[int] = []
        for size, spread in zip(weight.shape[2:], numbers(dilation, count), strict=True):
            whole = (size - 1) * spread
            if not isinstance(whole, int):
                raise refuse(f"padding 'same' of a filter of {size} is not known")
            rooms += [whole // 2, whole - whole // 2]
    else:
        rooms = numbers(padding, count)
    return _conv(x, weight, bias, stride, rooms, dilation, groups)


@converter("torch", "aten.convolution")
def convolution(
    x: Value,
    weight: Value,
    bias: Value | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Value:
    if transposed:
        return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return _conv(x, weight, bias, stride, numbers(padding, weight.ndim - 2), dilation, groups)


@converter(
    "torch",
    *("aten.conv_transpose1d", "aten.conv_transpose2d", "aten.conv_transpose3d"),
)
def conv_transpose(
    x: Value,
    weight: Value,
    bias: Value | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Value:
    count = weight.ndim - 2
    batched = x if x.ndim == weight.ndim else x.unsqueeze(0)
    made = _TRANSPOSED[count](
        batched,
        weight,
        bias,
        stride=numbers(stride, count),
        padding=numbers(padding, count),
        output_padding=numbers(output_padding, count),
        dilation=numbers(dilation, count),
        groups=groups,
    )
    return made if batched is x else made.squeeze(0)


# Attention -----------------------------------------------------------------------------------


def _attention(
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    lse: bool = False,
) -> Any:
    if dropout_p:
        raise refuse("attention with dropout is random; export the model in eval mode")
    if mask is not None and mask.dtype != "i1":
        mask = to(mask, q.dtype)
    return f.attention(
        q, k, v, mask, scale=None if scale is None else float(scale), causal=is_causal, lse=lse
    )


@converter("torch", "aten.scaled_dot_product_attention")
def scaled_dot_product_attention(
    q: Value,
    k: Value,
    v: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    if q.ndim == 2:
        a, b, c = (one.unsqueeze(0) for one in (q, k, v))
        made: Value = _attention(a, b, c, attn_mask, dropout_p, is_causal, scale)
        return made.squeeze(0)
    return _attention(q, k, v, attn_mask, dropout_p, is_causal, scale)


@converter("torch", "aten._scaled_dot_product_flash_attention_for_cpu")
def flash_attention_for_cpu(
    q: Value,
    k: Value,
    v: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    return _attention(q, k, v, attn_mask, dropout_p, is_causal, scale, lse=True)


@converter("torch", "aten._scaled_dot_product_flash_attention")
def flash_attention(
    q: Value,
    k: Value,
    v: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    if return_debug_mask:
        raise refuse("return_debug_mask is not known")
    return (*_attention(q, k, v, None, dropout_p, is_causal, scale, lse=True), *[None] * 7)


@converter("torch", "aten._scaled_dot_product_efficient_attention")
def efficient_attention(
    q: Value,
    k: Value,
    v: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    found = _attention(q, k, v, attn_bias, dropout_p, is_causal, scale)
    return found, None, None, None


@converter("torch", "aten._scaled_dot_product_cudnn_attention")
def cudnn_attention(
    q: Value,
    k: Value,
    v: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Any, ...]:
    return (_attention(q, k, v, attn_bias, dropout_p, is_causal, scale), *[None] * 8)


# Norms ---------------------------------------------------------------------------------------


@converter("torch", "aten.layer_norm")
def layer_norm(
    x: Value,
    normalized_shape: Sequence[SizeLike],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    return f.layer_norm(x, weight, bias, axis=axes, eps=float(eps))


@converter("torch", "aten.native_layer_norm")
def native_layer_norm(
    x: Value,
    normalized_shape: Sequence[SizeLike],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    one = to(x, "f32")
    spread = f.rsqrt(variance(one, axes, True, 0) + float(eps))
    return layer_norm(x, normalized_shape, weight, bias, eps), f.mean(one, axes, True), spread


@converter("torch", "aten.rms_norm")
def rms_norm(
    x: Value,
    normalized_shape: Sequence[SizeLike],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    axes = list(range(x.ndim - len(normalized_shape), x.ndim))
    least = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": 2.0**-23}[x.dtype]
    return f.rms_norm(x, weight, axis=axes, eps=least if eps is None else float(eps))


@converter("torch", "aten._fused_rms_norm")
def fused_rms_norm(
    x: Value, normalized_shape: Sequence[SizeLike], weight: Value | None, eps: float | None
) -> tuple[Value, None]:
    return rms_norm(x, normalized_shape, weight, eps), None


def _by_channel(x: Value, like: Value) -> Value:
    """A number a channel, beside the axes of ``like``."""
    return x.reshape(-1, *[1] * (like.ndim - 2))


@converter("torch", "aten.group_norm")
def group_norm(
    x: Value,
    groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    n, channels, *rest = x.shape
    apart = x.reshape(n, groups, parts_of(x, channels, groups), *rest)
    made = f.layer_norm(apart, axis=list(range(2, apart.ndim)), eps=float(eps)).reshape(*x.shape)
    made = made if weight is None else made * _by_channel(weight, x)
    return made if bias is None else made + _by_channel(bias, x)


@converter("torch", "aten.native_group_norm")
def native_group_norm(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    n: SizeLike,
    channels: SizeLike,
    spatial: SizeLike,
    groups: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    apart = to(x, "f32").reshape(n, groups, -1)
    spread = f.rsqrt(variance(apart, [2], False, 0) + float(eps))
    return group_norm(x, groups, weight, bias, eps), f.mean(apart, 2), spread


@converter("torch", "aten.instance_norm")
def instance_norm(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise refuse("an instance_norm without its input's statistics has kept ones")
        return _normed(x, weight, bias, running_mean, running_var, eps)
    made = f.layer_norm(x, axis=list(range(2, x.ndim)), eps=float(eps))
    made = made if weight is None else made * _by_channel(weight, x)
    return made if bias is None else made + _by_channel(bias, x)


def _normed(
    x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value, eps: float
) -> Value:
    """A norm by kept statistics, as one product and one sum: parameters are folded at load."""
    spread = f.rsqrt(var + float(eps))
    scale = spread if weight is None else spread * to(weight, spread.dtype)
    shift = -mean * scale
    shift = shift if bias is None else shift + to(bias, shift.dtype)
    one = to(x, scale.dtype)
    return to(one * _by_channel(scale, x) + _by_channel(shift, x), x.dtype)


@converter("torch", "aten._native_batch_norm_legit_no_training", "aten._batch_norm_no_update")
def batch_norm_no_training(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Any, ...]:
    return _normed(x, weight, bias, running_mean, running_var, eps), None, None, None


@converter("torch", "aten._native_batch_norm_legit.no_stats")
def batch_norm_no_stats(
    x: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    """By the statistics of the input itself, which an instance norm has of a batch of 1."""
    axes = [axis for axis in range(x.ndim) if axis != 1]
    one = to(x, "f32")
    mean, var = f.mean(one, axes), variance(one, axes, False, 0)
    return _normed(x, weight, bias, mean, var, eps), mean, f.rsqrt(var + float(eps))


# Other sizes ---------------------------------------------------------------------------------


def resized(
    x: Value, output: Any, factors: Any, mode: str, coordinates: str, rounding: str | None = None
) -> Value:
    """Another grid of the last axes.  PyTorch's own scales are the sizes' quotients here: it is
    refused where they would not be."""
    sizes = list(x.shape[2:])
    known: list[float | None] = [None] * len(sizes)
    if factors is not None:
        known = [float(one) for one in numbers(factors, len(sizes))]
    if output is None:
        output = [_multiple(one, by) for one, by in zip(sizes, known, strict=True)]
    for one, wanted, by in zip(sizes, cast("list[SizeLike]", output), known, strict=True):
        if by is not None and not _is_multiple(one, wanted, by):
            raise refuse(
                f"a resize of {one} to {wanted} by {by} takes another scale than the sizes' "
                "quotient; give a size, or recompute_scale_factor=True"
            )
    return windows.resize(x, output, mode=mode, coordinates=coordinates, rounding=rounding)


def _multiple(size: SizeLike, by: float | None) -> SizeLike:
    """The size that a scale makes of another, rounded down."""
    if by is not None and by.is_integer():
        return size * int(by)
    if by is None or not isinstance(size, int):
        raise refuse(f"a resize of {size} by {by} has no known size")
    return int(size * by)


def _is_multiple(size: SizeLike, wanted: SizeLike, by: float) -> bool:
    if isinstance(size, int):
        return size * by == wanted
    return by.is_integer() and dim_of(size * int(by)) == dim_of(wanted)


def upsampling_factors(given: Sequence[float | None]) -> list[float] | None:
    known = [one for one in given if one is not None]
    return known if known and len(known) == len(given) else None


@converter(
    "torch",
    *("aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec"),
)
def upsample_nearest_vec(x: Value, output: Any, factors: Any) -> Value:
    return resized(x, output, factors, "nearest", "asymmetric", "floor")


@converter(
    "torch",
    "aten.upsample_nearest1d.default",
    "aten.upsample_nearest2d.default",
    "aten.upsample_nearest3d.default",
)
def upsample_nearest(x: Value, output: Any, *factors: float | None) -> Value:
    return resized(x, output, upsampling_factors(factors), "nearest", "asymmetric", "floor")


def _coordinates(align_corners: bool) -> str:
    return "align_corners" if align_corners else "half_pixel"


@converter(
    "torch",
    "aten.upsample_linear1d.vec",
    "aten.upsample_bilinear2d.vec",
    "aten.upsample_trilinear3d.vec",
)
def upsample_linear_vec(x: Value, output: Any, align_corners: bool, factors: Any) -> Value:
    return resized(x, output, factors, "linear", _coordinates(align_corners))


@converter("torch", "aten.upsample_bicubic2d.vec")
def upsample_bicubic_vec(x: Value, output: Any, align_corners: bool, factors: Any) -> Value:
    return resized(x, output, factors, "cubic", _coordinates(align_corners))


_GRID_MODES = ("linear", "nearest", "cubic")
_GRID_PADDINGS = ("zeros", "border", "reflection")


@converter("torch", "aten.grid_sampler", "aten.grid_sampler_2d", "aten.grid_sampler_3d")
def grid_sampler(
    x: Value, grid: Value, interpolation: int, padding: int, align_corners: bool
) -> Value:
    return windows.grid_sample(
        x,
        to(grid, x.dtype) if rank_of(grid.dtype) == 2 else grid,
        mode=_GRID_MODES[interpolation],
        padding=_GRID_PADDINGS[padding],
        align_corners=align_corners,
    )


# Whole layers --------------------------------------------------------------------------------


@converter("torch", "aten._transformer_encoder_layer_fwd")
def transformer_encoder_layer(
    x: Value,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Value,
    qkv_bias: Value,
    proj_weight: Value,
    proj_bias: Value,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Value,
    norm_bias_1: Value,
    norm_weight_2: Value,
    norm_bias_2: Value,
    ffn_weight_1: Value,
    ffn_bias_1: Value,
    ffn_weight_2: Value,
    ffn_bias_2: Value,
    mask: Value | None = None,
    mask_type: int | None = None,
) -> Value:
    """What PyTorch makes of ``TransformerEncoderLayer`` in eval mode, [B, L, E]."""
    if mask is not None:
        raise refuse("a mask of PyTorch's fused encoder layer is not known")

    def attended(one: Value) -> Value:
        batch, length, _ = one.shape
        whole = f.linear(one, qkv_weight, qkv_bias)
        apart = whole.reshape(batch, length, 3, num_heads, embed_dim // num_heads)
        q, k, v = (apart[:, :, i].transpose(1, 2) for i in range(3))
        heads = f.attention(q, k, v).transpose(1, 2).reshape(batch, length, embed_dim)
        return f.linear(heads, proj_weight, proj_bias)

    def fed(one: Value) -> Value:
        wide = f.linear(one, ffn_weight_1, ffn_bias_1)
        return f.linear(f.gelu(wide) if use_gelu else f.relu(wide), ffn_weight_2, ffn_bias_2)

    def first(one: Value) -> Value:
        return f.layer_norm(one, norm_weight_1, norm_bias_1, eps=float(eps))

    def second(one: Value) -> Value:
        return f.layer_norm(one, norm_weight_2, norm_bias_2, eps=float(eps))

    if norm_first:
        one = x + attended(first(x))
        return one + fed(second(one))
    one = first(x + attended(x))
    return second(one + fed(one))
