"""Annotations: sizes and types in the ways that people write them."""

# pyright: basic

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from polyc import PolycError, Tensor
from polyc.trace.annotations import element_name


def test_sizes_and_types():
    assert str(Tensor["M", 2, "2 * K", "f16"]) == "[M, 2, 2 * K] of f16"
    assert str(Tensor["M"]) == "[M] of any type" and element_name("half") == "f16"
    assert str(Tensor["f32"]) == "[] of f32"
    assert Tensor["M", np.float16] == Tensor["M", "float16"] == Tensor["M", "f16"]
    kind: Any = Tensor["M", np.dtype("float32")]
    assert kind.element == "f32"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (("M", "f64"), "'f64' is no element type"),
        (("f16", "M"), "stands last"),
        (("M", np.float64), "no element type"),
        ((-1, "f16"), "sizes are 0 or more"),
        (("M", 1.5, "f16"), "1.5 is no size"),
    ],
)
def test_what_is_none(items: Any, message: str):
    with pytest.raises(PolycError, match=message) as caught:
        Tensor[items]
    assert caught.value.place is not None and caught.value.place.file == __file__
