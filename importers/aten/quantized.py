"""Converters of quantization: numbers by a scale and a zero point, and back.

Quantized models of PyTorch (``torchao``'s export, fake quantization in training) say each step so;
what stands between is computed in real numbers.
"""

from __future__ import annotations

from typing import Any

from polyc.importers.aten.support import as_value, axis_of, to
from polyc.importers.registry import converter
from polyc.trace import functions as f
from polyc.trace.values import Value


def _along(x: Value, axis: int, given: Any) -> Any:
    """Scales or zero points of an axis, beside those of ``x``."""
    shape = [1] * x.ndim
    shape[axis_of(x, axis)] = -1
    return given.reshape(*shape)


def _steps(x: Value, scale: Any, zero_point: Any, low: int, high: int) -> tuple[Value, Value]:
    """The whole numbers of a quantization as f32, held within their bounds, and where they were
    within these."""
    one = to(x, "f32")
    by = f.reciprocal(to(scale, "f32")) if isinstance(scale, Value) else 1.0 / float(scale)
    at = to(zero_point, "f32") if isinstance(zero_point, Value) else float(zero_point)
    found = f.round(one * by) + at
    return f.minimum(f.maximum(found, float(low)), float(high)), (found >= low) & (found <= high)


def _back(steps: Value, scale: Any, zero_point: Any) -> Value:
    at = to(zero_point, "f32") if isinstance(zero_point, Value) else float(zero_point)
    return (steps - at) * as_value(scale, "f32")


# In training, where a number is what its quantization says ---------------------------------------


@converter("torch", "aten.fake_quantize_per_tensor_affine")
def fake_quantize(x: Value, scale: Any, zero_point: Any, low: int, high: int) -> Value:
    return fake_quantize_masked(x, scale, zero_point, low, high)[0]


@converter("torch", "aten.fake_quantize_per_tensor_affine_cachemask")
def fake_quantize_masked(
    x: Value, scale: Any, zero_point: Any, low: int, high: int
) -> tuple[Value, Value]:
    steps, inside = _steps(x, scale, zero_point, low, high)
    return to(_back(steps, scale, zero_point), x.dtype), inside


@converter("torch", "aten.fake_quantize_per_channel_affine")
def fake_quantize_channels(
    x: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int
) -> Value:
    return fake_quantize_channels_masked(x, scale, zero_point, axis, low, high)[0]


@converter("torch", "aten.fake_quantize_per_channel_affine_cachemask")
def fake_quantize_channels_masked(
    x: Value, scale: Value, zero_point: Value, axis: int, low: int, high: int
) -> tuple[Value, Value]:
    wide, at = _along(x, axis, scale), _along(x, axis, zero_point)
    return fake_quantize_masked(x, wide, at, low, high)


# In exported models, where the whole numbers are tensors ------------------------------------------

_QUANTIZED = "quantized_decomposed"


@converter("torch", f"{_QUANTIZED}.quantize_per_tensor")
def quantize(x: Value, scale: Any, zero_point: Any, low: int, high: int, dtype: str) -> Value:
    return to(_steps(x, scale, zero_point, low, high)[0], dtype)


@converter("torch", f"{_QUANTIZED}.dequantize_per_tensor")
def dequantize(
    x: Value,
    scale: Any,
    zero_point: Any,
    low: int,
    high: int,
    dtype: str,
    *,
    out_dtype: str | None = None,
) -> Value:
    return to(_back(to(x, "f32"), scale, zero_point), out_dtype or "f32")


@converter("torch", f"{_QUANTIZED}.quantize_per_channel")
def quantize_channels(
    x: Value, scales: Value, zero_points: Value, axis: int, low: int, high: int, dtype: str
) -> Value:
    wide, at = _along(x, axis, scales), _along(x, axis, zero_points)
    return quantize(x, wide, at, low, high, dtype)


@converter("torch", f"{_QUANTIZED}.dequantize_per_channel")
def dequantize_channels(
    x: Value,
    scales: Value,
    zero_points: Value | None,
    axis: int,
    low: int,
    high: int,
    dtype: str,
    *,
    out_dtype: str | None = None,
) -> Value:
    at = 0 if zero_points is None else _along(x, axis, zero_points)
    return dequantize(x, _along(x, axis, scales), at, low, high, dtype, out_dtype=out_dtype)
