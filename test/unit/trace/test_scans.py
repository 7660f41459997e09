"""Scans over values give what NumPy gives, and what is wrong with one is said at its line."""

# pyright: basic

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.test.support.tracing import played, text

X = np.random.default_rng(3).standard_normal((3, 4, 5)).astype(np.float32)

NUMPY = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
}


@pytest.mark.parametrize("name", list(NUMPY))
def test_scans_are_numpys(name: str) -> None:
    function, joined = getattr(polyc, name), NUMPY[name]
    for axis in (0, 1, -1):
        wanted = joined.accumulate(X, axis)
        np.testing.assert_allclose(played(lambda x, a=axis: function(x, a), X), wanted, rtol=1e-4)
        back = np.flip(joined.accumulate(np.flip(X, axis), axis), axis)
        found = played(lambda x, a=axis: function(x, a, reverse=True), X)
        np.testing.assert_allclose(found, back, rtol=1e-4)
    later = played(lambda x: function(x, exclusive=True), X)
    np.testing.assert_allclose(later[..., 1:], joined.accumulate(X, -1)[..., :-1], rtol=1e-4)
    first = {"cumsum": 0.0, "cumprod": 1.0, "cummax": -np.inf, "cummin": np.inf}[name]
    assert (later[..., 0] == first).all()


def test_what_is_recorded() -> None:
    found = text(lambda x: polyc.cummax(x, -2, reverse=True), Tensor["M", "K", "i32"])
    assert "frontend.scan max %a axis 0 reverse : !frontend.tensor<[M, K], i32>" in found


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda x: polyc.cumsum(x, 2), r"axis 2 is none of \[M, K\], which has 2"),
        (
            lambda x: polyc.cumsum(x, axis=cast(Any, None)),
            "cumsum goes along one axis, a whole number, not",
        ),
        (lambda x: polyc.cumprod(x, True), "cumprod goes along one axis, a whole number, not True"),
        (lambda x: polyc.cummin(x.sum()), "a scan goes along an axis, and a scalar has none"),
        (lambda x: polyc.cumsum(x > 0), "a scan computes with numbers, not i1"),
        (lambda x: polyc.cumsum(cast(Any, 1.0)), "1.0"),
    ],
)
def test_what_is_refused_points_at_its_line(made: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(PolycError, match=message) as caught:
        text(made, Tensor["M", "K", "f32"])
    assert caught.value.place is not None
    assert caught.value.place.file == __file__
