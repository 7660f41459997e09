"""Poolings over values give what NumPy gives window by window."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.tracing import played, text

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((2, 3, 6, 8)).astype(np.float32)


def windows(x: Any, taps: int, step: int) -> Any:
    found = np.lib.stride_tricks.sliding_window_view(x, (taps, taps), (2, 3))
    return found[:, :, ::step, ::step]


def test_windows_are_as_long_as_their_step_unless_that_is_said() -> None:
    np.testing.assert_array_equal(
        played(lambda x: polyc.max_pool(x, 2), X), windows(X, 2, 2).max((-2, -1))
    )
    np.testing.assert_allclose(
        played(lambda x: polyc.avg_pool(x, (3, 3), 1), X),
        windows(X, 3, 1).mean((-2, -1)),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        played(lambda x: polyc.lp_pool(x, 2, 2, 1), X),
        np.sqrt((windows(X, 2, 1) ** 2).sum((-2, -1))),
        rtol=1e-5,
    )
    for p in (1, 3, 2.5):
        pool = partial(polyc.lp_pool, p=p, kernel=2, stride=1)
        np.testing.assert_allclose(
            played(lambda x: pool(x), X),  # noqa: B023
            (np.abs(windows(X, 2, 1)) ** p).sum((-2, -1)) ** (1 / p),
            rtol=1e-5,
        )
    np.testing.assert_allclose(
        played(lambda x: polyc.sum_pool(x, 2), X),
        windows(X, 2, 2).sum((-2, -1)),
        rtol=1e-4,
        atol=1e-5,
    )


def test_axes_follow_the_layout() -> None:
    image = Tensor["N", "H", "W", 8, "f16"]
    found = text(lambda x: polyc.max_pool(x, 3, 2, 1, layout="nhwc"), image)
    assert "pool max %a axes [1, 2] size [3, 3] stride [2, 2] padding [1, 1, 1, 1]" in found
    found = text(
        lambda x: polyc.avg_pool(x, 3, layout="nwc", padding=(1, 0)), Tensor["W", 8, "f16"]
    )
    assert "pool mean %a axes [0] size [3] stride [3] padding [1, 0] dilation [1] count" in found
    volume = Tensor["N", 8, "D", "H", "W", "f16"]
    found = text(lambda x: polyc.max_pool(x, (1, 2, 2), ceil_mode=True), volume)
    assert "axes [2, 3, 4] size [1, 2, 2] stride [1, 2, 2]" in found and "ceil_mode" in found


def test_maxima_and_their_places() -> None:
    dims = X.shape
    flat = X.reshape(*dims[:2], -1)
    best = played(lambda x: polyc.max_pool_with_indices(x, 2)[0], X)
    np.testing.assert_array_equal(best, windows(X, 2, 2).max((-2, -1)))
    where = played(lambda x: polyc.max_pool_with_indices(x, 2)[1], X)
    assert where.dtype == np.int64
    taken = np.take_along_axis(flat, where.reshape(*dims[:2], -1), -1).reshape(where.shape)
    np.testing.assert_array_equal(taken, best)
    whole = played(lambda x: polyc.max_pool_with_indices(x, 2, whole=True, dtype="i32")[1], X)
    assert whole.dtype == np.int32
    np.testing.assert_array_equal(X.reshape(-1)[whole], best)
    with pytest.raises(polyc.PolycError, match='places are "i64" or "i32"'):
        text(lambda x: polyc.max_pool_with_indices(x, 2, dtype="f32")[1], Tensor["N", 4, 4, "f16"])


def adapted(x: Any, counts: tuple[int, int], fn: Callable[[Any], Any]) -> Any:
    """PyTorch's windows: from ``floor(i * n / count)`` up to ``ceil((i + 1) * n / count)``."""
    found = np.zeros((*x.shape[:2], *counts), np.float32)
    for i, j in np.ndindex(*counts):
        (a, b), (c, d) = (
            (k * n // m, -(-(k + 1) * n // m))
            for k, n, m in zip((i, j), x.shape[2:], counts, strict=True)
        )
        found[:, :, i, j] = fn(x[:, :, a:b, c:d].reshape(*x.shape[:2], -1))
    return found


@pytest.mark.parametrize("counts", [(1, 1), (3, 4), (6, 8), (4, 6), (5, 3), (7, 2)])
def test_adaptive_windows_are_those_of_torch(counts: tuple[int, int]) -> None:
    mean = played(lambda x: polyc.adaptive_avg_pool(x, counts), X, fixed=True)
    np.testing.assert_allclose(mean, adapted(X, counts, lambda w: w.mean(-1)), rtol=2e-5, atol=1e-6)
    largest = played(lambda x: polyc.adaptive_max_pool(x, counts), X, fixed=True)
    np.testing.assert_array_equal(largest, adapted(X, counts, lambda w: w.max(-1)))


def test_adaptive_windows_of_any_size_that_divide_it() -> None:
    image = Tensor["N", "C", "H", "W", "f16"]
    found = text(lambda x: polyc.adaptive_avg_pool(x, 1), image)
    assert "reduce mean" in found and "[N, C, 1, 1]" in found
    found = text(lambda x: polyc.adaptive_max_pool(x, (4, 1)), image, assume="H mod 4 == 0")
    assert "reduce max %0 axes [3, 5]" in found


def test_convolutions_along_one_axis_and_three() -> None:
    image, weight = Tensor["N", 8, "W", "f16"], Tensor["F", 8, 3, "f16"]
    found = text(
        lambda x, w, b: polyc.conv1d(x, w, b, padding=1), image, weight, Tensor["F", "f16"]
    )
    assert "conv1d ncw %a, %b stride [1] padding [1, 1] dilation [1] groups 1" in found
    assert "-> !frontend.tensor<[F, 1], f16>" in found
    image, weight = Tensor["N", "D", "H", "W", 8, "f16"], Tensor["F", 3, 1, 2, 8, "f16"]
    found = text(
        lambda x, w: polyc.conv3d(x, w, padding=(1, 1, 0, 0, 0, 0), layout="ndhwc"), image, weight
    )
    assert "conv3d ndhwc %a, %b stride [1, 1, 1] padding [1, 1, 0, 0, 0, 0]" in found


def test_transposed_convolutions() -> None:
    image, weight = Tensor["N", 8, "H", "W", "f16"], Tensor[8, "F", 3, 3, "f16"]
    found = text(
        lambda x, w, b: polyc.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        image,
        weight,
        Tensor["F", "f16"],
    )
    assert "stride [2, 2] padding [1, 1, 1, 1] output_padding [1, 1]" in found
    assert "[N, F, 2 * H, 2 * W]" in found and "[F, 1, 1]" in found
    line = lambda x, w: polyc.conv_transpose1d(x, w, stride=2)  # noqa: E731
    assert "[N, F, 2 * W]" in text(line, Tensor["N", 8, "W", "f16"], Tensor[8, "F", 2, "f16"])
    whole = lambda x, w: polyc.conv_transpose3d(x, w, layout="ndhwc")  # noqa: E731
    volume, weight = Tensor["N", "D", "H", "W", 8, "f16"], Tensor[8, 1, 1, 1, "F", "f16"]
    assert "conv_transpose3d ndhwc" in text(whole, volume, weight)


def test_grid_samples() -> None:
    """The grid of the elements' own places gives the elements."""
    rows, columns = (np.linspace(-1, 1, n, dtype=np.float32) for n in X.shape[2:])
    own = np.stack(np.meshgrid(columns, rows), -1)
    grid = np.broadcast_to(own, (X.shape[0], *own.shape)).copy()
    for mode in ("nearest", "linear", "cubic"):
        sample = partial(polyc.grid_sample, mode=mode, align_corners=True)
        found = played(lambda x, g: sample(x, g), X, grid, fixed=True)  # noqa: B023
        np.testing.assert_allclose(found, X, rtol=1e-4, atol=1e-4)
    image, places = Tensor["N", 8, "H", "W", "f16"], Tensor["N", "P", "Q", 2, "f32"]
    assert "grid_sample linear %a, %b zeros :" in text(polyc.grid_sample, image, places)
    with pytest.raises(polyc.PolycError, match="mirror is no padding of"):
        text(lambda x, g: polyc.grid_sample(x, g, padding="mirror"), image, places)
    with pytest.raises(polyc.PolycError, match="grid_sample takes real numbers, not"):
        text(polyc.grid_sample, image, Tensor["N", "P", "Q", 2, "i32"])


def test_there_is_no_antialias() -> None:
    with pytest.raises(polyc.PolycError, match="resize has no antialias: it takes the same few"):
        text(lambda x: polyc.resize(x, scale=2, antialias=True), Tensor["N", 4, 4, "f16"])


def test_resizes() -> None:
    np.testing.assert_array_equal(
        played(lambda x: polyc.resize(x, scale=2), X), X.repeat(2, 2).repeat(2, 3)
    )
    image = Tensor["N", "H", "W", 8, "f16"]
    found = text(lambda x: polyc.resize(x, scale=(2, 3), layout="nhwc"), image)
    assert "resize nearest %a axes [1, 2] half_pixel round_prefer_floor" in found
    assert "[N, 2 * H, 3 * W, 8]" in found


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: polyc.max_pool(x, 2, layout="nchwc"), "nchwc is no layout of max_pool"),
        (lambda x: polyc.max_pool(x, (2, 2), layout="ncw"), "has 2 sizes, and layout ncw has 1"),
        (lambda x: polyc.max_pool(x, (2,) * 5), "along 5 axes takes a tensor with one axis more"),
        (lambda x: polyc.max_pool(x, 2, padding=(1, 2, 3)), "is one number, 2, or 4, before and"),
        (lambda x: polyc.max_pool(x, 2, stride=(1, 2, 3)), "stride of max_pool is one number or 2"),
        (lambda x: polyc.max_pool(x, x.shape[2]), "says its stride, a number"),
        (lambda x: polyc.conv1d(x, x), "conv1d takes an image of rank 3"),
        (lambda x: polyc.conv_transpose2d(x, x, layout="ncw"), "ncw is not a layout of conv_tran"),
        (lambda x: polyc.resize(x, 4, scale=2), "takes a size or a scale, one of them"),
        (lambda x: polyc.resize(x, scale=2, mode="bicubic"), "bicubic is no mode of frontend"),
        (lambda x: polyc.resize(x, 7), "goes on by what no number is"),
        (lambda x: polyc.lp_pool(x, 0, 2), "p of lp_pool is a finite number above 0, not 0"),
        (lambda x: polyc.adaptive_avg_pool(x, 7), "does not come in 7 equal windows"),
        (lambda x: polyc.adaptive_avg_pool(x[:, :, :8, :8], 0), "has no window"),
        (
            lambda x: polyc.max_pool(x[:, :, :2, :2], 5),
            "windows that span 5 along axis 2, which is",
        ),
    ],
)
def test_what_is_refused_points_at_its_line(made: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(PolycError, match=message) as caught:
        text(made, Tensor["N", "C", "H", "W", "f32"], assume="H >= 200, W >= 200")
    assert caught.value.place is not None
    assert caught.value.place.file == __file__
