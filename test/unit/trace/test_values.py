"""Values: operators, indices, types, and what Python asks of them in vain."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from polyc import PolycError, Tensor
from polyc.test.support.tracing import played, text

RANDOM = np.random.default_rng(5)
X = RANDOM.standard_normal((4, 6)).astype(np.float32)
Y = RANDOM.standard_normal((4, 6)).astype(np.float32)
CUBE = RANDOM.standard_normal((3, 4, 6)).astype(np.float32)


@pytest.mark.parametrize(
    "both",
    [
        lambda x, y: x + y * 2 - 1,
        lambda x, y: 2 - x,
        lambda x, y: 1 / (x * x + 1.0),
        lambda x, y: -abs(x) / y,
        lambda x, y: abs(x) ** 0.5 + 2.0**y,
        lambda x, y: x @ y.T,
        lambda x, y: x[1:3, ::2],
        lambda x, y: x[-1] + y[..., 2:, 0][1],
        lambda x, y: x[:, None, 3] * 2,
        lambda x, y: x[:-1] - x[1:],
        lambda x, y: (x >= y) & (x < 1.0),
        lambda x, y: (x == y) | (x != 0) & ~(y <= 0),
        lambda x, y: x.sum(0) + y.mean(axis=0) + x.max(0) - y.min(0),
    ],
)
def test_operators_are_those_of_numpy(both: Callable[[Any, Any], Any]):
    got, expected = played(both, X, Y, fixed=True), both(X, Y)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_indices_reckon_with_sizes():
    def ends(x: Any) -> Any:
        m, k = x.shape
        return x[0 : m - 1] + x[1:] + x[1:m, :k]

    np.testing.assert_allclose(played(ends, X), X[:-1] + 2 * X[1:], rtol=1e-6)


def test_products_by_vectors_and_batches():
    v = X[0]
    np.testing.assert_allclose(played(lambda a, b: a @ b, X, v), X @ v, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(played(lambda a, b: b @ a.T, X, v), v @ X.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(played(lambda a: a @ a, v), v @ v, rtol=1e-5, atol=1e-6)
    got = played(lambda a, b: a @ b.T, CUBE, X)
    np.testing.assert_allclose(got, CUBE @ X.T, rtol=1e-5, atol=1e-6)


def test_shapes_calculate():
    def flat(x: Any) -> Any:
        b, m, k = x.shape
        assert x.ndim == 3 and x.dtype == "f16" and len(x[:, :, 0:0].permute(2, 0, 1)) == 0
        return x.reshape(b * m, k).unsqueeze(0).squeeze(0).expand(2, -1, -1)

    found = text(flat, Tensor["B", "M", "K", "f16"])
    assert "reshape %a : !frontend.tensor<[B, M, K], f16> -> !frontend.tensor<[B * M, K]" in found
    assert "expand" in found and "<[2, B * M, K], f16>" in found
    assert "slice" not in found, "what nothing reads is left out"


@pytest.mark.parametrize(
    ("made", "kind", "message"),
    [
        (lambda x: x if x.sum() > 0 else -x, "UnknownValue", "use polyc.where"),
        (lambda x: list(x), "BadArgument", "not walked"),
        (lambda x: float(x), "UnknownValue", "not known while a graph is traced"),
        (lambda x: x + np.ones(3, np.float32), "BroadcastMismatch", "\\[M, K\\] and \\[3\\]"),
        (lambda x: np.ones(3, np.float32) + x, "BroadcastMismatch", "\\[3\\] and \\[M, K\\]"),
        (lambda x: x + "1", "BadArgument", "is a str, not a value"),
        (lambda x: x / x.shape[0], "BadArgument", "the size M is no value"),
        (lambda x: x + x.cast("f16"), "TypeMismatch", 'x.cast\\("f32"\\)'),
        (lambda x: x & x, "TypeMismatch", "are of conditions"),
        (lambda x: x[0, 0, 0], "RankMismatch", "3 indices"),
        (lambda x: x[::-1], "BadArgument", "steps by -1"),
        (lambda x: x[:3], "UnguardedAccess", "ends beyond axis 0"),
        (lambda x: x @ x, "InvalidIR", "gemm contracts sizes K and M"),
        (lambda x: x.squeeze(0), "ShapeMismatch", "has not the size 1"),
        (lambda x: len(x), "UnknownSize", "shape\\[0\\] is the size"),
        (lambda x: x.reshape(3, -1), "BadArgument", "does not divide"),
    ],
)
def test_what_is_refused_points_at_its_line(made: Callable[[Any], Any], kind: str, message: str):
    with pytest.raises(PolycError, match=message) as caught:
        text(made, Tensor["M", "K", "f32"])
    assert caught.value.kind == kind
    assert caught.value.place is not None
    assert caught.value.place.file == __file__


def test_a_value_of_another_trace():
    kept: list[Any] = []
    text(lambda x: kept.append(x) or x * 2.0, Tensor["M", "f16"])
    with pytest.raises(PolycError, match="belongs to another trace"):
        text(lambda x: x + kept[0], Tensor["M", "f16"])
