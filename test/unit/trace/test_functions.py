"""Functions over values give what NumPy's of the same name give, at sizes that are symbols."""

# pyright: basic

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.tracing import played, text

RANDOM = np.random.default_rng(3)


def f32(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


X, Y, ROW = f32(5, 6), f32(5, 6), f32(6)


def softmax(x: Any, axis: int = -1) -> Any:
    found = np.exp(x - x.max(axis, keepdims=True))
    return found / found.sum(axis, keepdims=True)


UNARY: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "abs": (polyc.abs, np.abs),
    "exp": (polyc.exp, np.exp),
    "log": (lambda x: polyc.log(polyc.abs(x)), lambda x: np.log(np.abs(x))),
    "reciprocal": (polyc.reciprocal, lambda x: 1 / x),
    "relu": (polyc.relu, lambda x: np.maximum(x, 0)),
    "sqrt": (lambda x: polyc.sqrt(x * x), np.abs),
    "rsqrt": (lambda x: polyc.rsqrt(x**2), lambda x: 1 / np.abs(x)),
    "sigmoid": (polyc.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (polyc.silu, lambda x: x / (1 + np.exp(-x))),
    "tanh": (polyc.tanh, np.tanh),
    "gelu": (
        lambda x: polyc.gelu(x) - 0.5 * x * (1 + polyc.erf(x * 0.5**0.5)),
        lambda x: 0 * x,
    ),
    "gelu_tanh": (
        lambda x: polyc.gelu(x, approximate="tanh"),
        lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
    "var": (lambda x: polyc.var(x, 1), lambda x: x.var(1)),
    "mean": (lambda x: polyc.mean(x, (0, 1)), lambda x: x.mean()),
    "max": (lambda x: polyc.max(x, 0, keepdims=True), lambda x: x.max(0, keepdims=True)),
    "min": (lambda x: polyc.min(x, -1), lambda x: x.min(1)),
    "sum": (polyc.sum, np.sum),
    "softmax": (lambda x: polyc.softmax(x, 0), lambda x: softmax(x, 0)),
    "log_softmax": (polyc.log_softmax, lambda x: np.log(softmax(x))),
    "logsumexp": (polyc.logsumexp, lambda x: np.log(np.exp(x).sum(-1))),
    "transpose": (lambda x: polyc.transpose(x) + 0.0, lambda x: x.T),
    "permute": (lambda x: polyc.permute(x, 1, 0) + 0.0, lambda x: x.T),
    "pad": (lambda x: polyc.pad(x, [(1, 0), (0, 2)]), lambda x: np.pad(x, [(1, 0), (0, 2)])),
    "reshape": (lambda x: polyc.reshape(x, -1) * 2, lambda x: x.reshape(-1) * 2),
    "expand": (lambda x: polyc.expand(x, 3, -1, -1), lambda x: np.broadcast_to(x, (3, 5, 6))),
    "rms_norm": (
        lambda x: polyc.rms_norm(x, eps=1e-3),
        lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3),
    ),
}


@pytest.mark.parametrize("name", UNARY)
def test_of_one_tensor(name: str):
    ours, numpys = UNARY[name]
    np.testing.assert_allclose(played(ours, X), numpys(X), rtol=2e-5, atol=2e-6)


def test_functions_of_elements_are_numpys():
    """All in one graph: what NumPy has, under its name or Python's."""
    x, y = X[:, :3], Y[:, :3]
    ours = {
        "acos": lambda x, y: polyc.acos(polyc.tanh(x)),
        "acosh": lambda x, y: polyc.acosh(polyc.abs(x) + 1.0),
        "asin": lambda x, y: polyc.asin(polyc.tanh(x)),
        "atan2": lambda x, y: polyc.atan2(y, x),
        "atanh": lambda x, y: polyc.atanh(polyc.tanh(x)),
        "fmod": polyc.fmod,
        "log10": lambda x, y: polyc.log10(polyc.abs(x)),
        "log1p": lambda x, y: polyc.log1p(polyc.abs(x)),
        "log2": lambda x, y: polyc.log2(polyc.abs(x)),
        "mod": lambda x, y: polyc.mod(x, y) + x % 0.5 + 1.0 % y,
        "round": lambda x, y: round(x) + math.floor(x) + math.ceil(x) + math.trunc(x),
    }
    numpys = {
        "acos": np.arccos(np.tanh(x)),
        "acosh": np.arccosh(np.abs(x) + 1),
        "asin": np.arcsin(np.tanh(x)),
        "atan2": np.arctan2(y, x),
        "atanh": x,
        "fmod": np.fmod(x, y),
        "log10": np.log10(np.abs(x)),
        "log1p": np.log1p(np.abs(x)),
        "log2": np.log2(np.abs(x)),
        "mod": x % y + x % np.float32(0.5) + np.float32(1) % y,
        "round": np.rint(x) + np.floor(x) + np.ceil(x) + np.trunc(x),
        "elu": np.where(x > 0, x, np.expm1(x)),
        "hard_sigmoid": np.clip(x + 3, 0, 6) / 6,
        "hard_swish": x * np.clip(x + 3, 0, 6) / 6,
        "log_sigmoid": -np.log1p(np.exp(-x)),
        "mish": x * np.tanh(np.log1p(np.exp(x))),
        "relu6": np.clip(x, 0, 6),
        "selu": 1.05070098 * np.where(x > 0, x, 1.67326324 * np.expm1(x)),
        "softplus": np.log1p(np.exp(x)),
        "softsign": x / (1 + np.abs(x)),
        **{
            name: getattr(np, {"asinh": "arcsinh", "atan": "arctan"}.get(name, name))(x)
            for name in (
                *("asinh", "atan", "cbrt", "ceil", "cos", "cosh", "exp2", "expm1"),
                *("floor", "sign", "sin", "sinh", "tan", "trunc"),
            )
        },
    }

    def each(x: Any, y: Any) -> Any:
        return tuple(
            ours[name](x, y) if name in ours else getattr(polyc, name)(x) for name in numpys
        )

    for name, found in zip(numpys, played(each, x, y), strict=True):
        np.testing.assert_allclose(found, numpys[name], rtol=2e-5, atol=3e-6, err_msg=name)


def test_conditions_of_numbers_and_what_is_reduced_to_one():
    x = X.copy()
    x[0, 0], x[1, 1], x[2] = np.nan, np.inf, -np.inf

    def ours(x: Any, y: Any) -> Any:
        return (
            polyc.isnan(x),
            polyc.isinf(x),
            polyc.isfinite(x),
            polyc.any(polyc.isnan(x), 1),
            polyc.all(polyc.isfinite(x), (0, 1), keepdims=True),
            (y > -9.0).all(0),
            polyc.prod(y, -1),
            y.prod(),
            polyc.norm(y, 1),
            polyc.norm(y, 0, keepdims=True, ord=1),
            polyc.logsumexp(x),
        )

    with np.errstate(all="ignore"):
        expected = (
            np.isnan(x),
            np.isinf(x),
            np.isfinite(x),
            np.isnan(x).any(1),
            np.isfinite(x).all(keepdims=True),
            (Y > -9).all(0),
            Y.prod(-1),
            Y.prod(),
            np.sqrt((Y * Y).sum(1)),
            np.abs(Y).sum(0, keepdims=True),
            np.log(np.exp(x).sum(-1)),
        )
    for got, wanted in zip(played(ours, x, Y), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)
    with pytest.raises(PolycError, match="any is of conditions, i1"):
        text(lambda x: polyc.any(x), Tensor["M", "f32"])
    with pytest.raises(PolycError, match="ord is 1 or 2, not 3"):
        text(lambda x: polyc.norm(x, ord=3), Tensor["M", "f32"])


def test_places_of_extremes_and_orders():
    x = np.round(X * 2)
    order = np.argsort(x, 1, kind="stable")
    last = x.shape[1] - 1
    turned = np.flip(last - np.argsort(np.flip(x, 1), 1, kind="stable"), 1)

    def ours(x: Any) -> Any:
        return (
            polyc.argmax(x, 1),
            polyc.argmin(x, 0, keepdims=True),
            polyc.argmax(x),
            polyc.argmin(x, keepdims=True, dtype="i32"),
            polyc.argmax(x, -1, select_last_index=True),
            *polyc.sort(x),
            polyc.argsort(x, descending=True, dtype="i32"),
            *polyc.topk(x, 2),
            *polyc.topk(x, 1, 0, largest=False),
        )

    expected = (
        np.argmax(x, 1),
        np.argmin(x, 0, keepdims=True),
        np.argmax(x),
        np.argmin(x).reshape(1, 1).astype(np.int32),
        last - np.argmax(np.flip(x, 1), 1),
        np.take_along_axis(x, order, 1),
        order,
        turned.astype(np.int32),
        np.take_along_axis(x, turned[:, :2], 1),
        turned[:, :2],
        np.sort(x, 0)[:1],
        np.argmin(x, 0, keepdims=True),
    )
    for got, wanted in zip(played(ours, x, fixed=True), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
        assert np.asarray(got).dtype == wanted.dtype


def test_what_places_and_orders_refuse():
    with pytest.raises(PolycError, match='places are "i64" or "i32", not \'f32\''):
        text(lambda x: polyc.argmax(x, dtype="f32"), Tensor["M", "f32"])
    with pytest.raises(PolycError, match="topk gives k elements, 0 or more, not -1"):
        text(lambda x: polyc.topk(x, -1)[0], Tensor["M", "f32"])
    with pytest.raises(PolycError, match="a sort gives 3 elements of M, which may be fewer"):
        text(lambda x: polyc.topk(x, 3)[0], Tensor["M", "f32"])
    with pytest.raises(PolycError, match="asks for a place among no elements"):
        text(lambda x: polyc.argmax(x, 1), Tensor["M", 0, "f32"])


def test_products_say_how_precise_they_are():
    a, b = Tensor["M", "K", "f32"], Tensor["K", 8, "f32"]
    found = text(lambda a, b: polyc.matmul(a, b, precision="tf32"), a, b)
    assert 'precision = "tf32"' in found
    heads = Tensor[2, 8, 16, "f32"]
    found = text(lambda q: polyc.attention(q, q, q, precision="f32x3"), heads)
    assert 'frontend.attention %a, %a, %a {acc = f32, precision = "f32x3"}' in found
    with pytest.raises(PolycError, match="tf8 is no precision; there are f32, tf32, f32x3"):
        text(lambda a: polyc.matmul(a, a, precision="tf8"), Tensor[8, 8, "f32"])


def test_of_two_tensors():
    def ours(x: Any, y: Any, row: Any) -> Any:
        return (
            polyc.maximum(x, row),
            polyc.minimum(1.0, y),
            polyc.pow(polyc.abs(x), y),
            polyc.where((x > y) | ~(y < 0.5), x, -1.0),
            polyc.concat([x, y], 1),
            polyc.stack([x, y], 1),
            polyc.layer_norm(x, row, row, eps=1e-5),
            polyc.linear(x, y, None),
            polyc.matmul(x, row),
            polyc.cast(x > 0, "f32"),
            x + polyc.full((), 2.0),
        )

    mean, var = X.mean(-1, keepdims=True), X.var(-1, keepdims=True)
    expected = (
        np.maximum(X, ROW),
        np.minimum(1, Y),
        np.abs(X) ** Y,
        np.where((X > Y) | ~(Y < 0.5), X, -1),
        np.concatenate([X, Y], 1),
        np.stack([X, Y], 1),
        (X - mean) / np.sqrt(var + 1e-5) * ROW + ROW,
        X @ Y.T,
        X @ ROW,
        (X > 0).astype(np.float32),
        X + 2,
    )
    for got, wanted in zip(played(ours, X, Y, ROW), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6)


def test_split_divides_what_is_assumed_to_be_even():
    found = text(lambda x: polyc.split(x, 2)[1], Tensor["M", "K", "f16"], assume="K mod 2 == 0")
    assert "frontend.slice %a [0:M, K floordiv 2:2 * (K floordiv 2)]" in found
    with pytest.raises(PolycError, match="does not come in 2 equal parts"):
        text(lambda x: polyc.split(x, 2)[0], Tensor["M", "K", "f16"])


def test_conv2d_and_attention_take_pythons_short_forms():
    image, weight = Tensor["N", 8, "H", "W", "f16"], Tensor["F", 8, 3, 3, "f16"]
    found = text(
        lambda x, w, b: polyc.conv2d(x, w, b, stride=2, padding=(1, 0)),
        image,
        weight,
        Tensor["F", "f16"],
    )
    assert "conv2d nchw %a, %b stride [2, 2] padding [1, 1, 0, 0] dilation [1, 1]" in found
    assert "[F, 1, 1]" in found
    head, keys = Tensor["B", 8, "M", 64, "f16"], Tensor["B", 2, "N", 64, "f16"]

    def attend(q: Any, k: Any, v: Any) -> Any:
        offset = k.shape[2] - q.shape[2]
        return polyc.attention(q, k, v, causal=True, window=(127, 0), offset=offset, lse=True)

    found = text(attend, head, keys, keys)
    assert "causal window [127, 0] offset -M + N" in found
    assert "out0: !frontend.tensor<[B, 8, M, 64], f16>, out1: !frontend.tensor<[B, 8, M]" in found


def test_attention_is_softmax_of_products():
    q, k, v = f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8)
    expected = softmax(q @ k.transpose(0, 2, 1) / np.sqrt(8)) @ v
    got = played(lambda q, k, v: polyc.attention(q, k, v), q, k, v)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: polyc.maximum(1.0, 2.0), "of values of the graph"),
        (
            lambda x: polyc.exp(np.ones(3)),  # pyright: ignore
            "'float64' is no element type",
        ),
        (lambda x: polyc.where(x, 1.0, x), "a condition is i1"),
        (lambda x: polyc.gelu(x, approximate="fast"), "approximate is"),
        (lambda x: polyc.concat([]), "give at least one"),
        (lambda x: polyc.softmax(x, 5), "axis 5 is none of"),
        (lambda x: polyc.pad(x, [(1, 0)]), "pad has 1 pairs"),
        (lambda x: polyc.pad(x, [1, 2]), "1 is no pair"),
        (lambda x: polyc.conv2d(x, x, padding=(1, 2, 3)), "padding of a conv2d"),
        (lambda x: polyc.reshape(x, -1, -1), "leaves 2 sizes open"),
        (lambda x: x.cast("f64"), "no element type"),
        (lambda x: round(x, 2), "scale x for digits"),
    ],
)
def test_what_is_refused_points_at_its_line(made: Callable[[Any], Any], message: str):
    with pytest.raises(PolycError, match=message) as caught:
        text(made, Tensor["M", "K", "f32"])
    assert caught.value.place is not None
    assert caught.value.place.file == __file__


def test_outside_of_a_trace():
    with pytest.raises(PolycError, match=r"NotTracing.*call it in a function under"):
        polyc.full((2,), 1.0)
