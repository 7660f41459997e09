"""Kinds of random inputs: each has what it is for (S0.6)."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import bf16, f16, f32, i1
from xdsl.ir import Attribute

from polyc.playback.draws import DRAWS, draw
from polyc.playback.functions import MIN_EXPONENT, dtype_of
from polyc.tools.commands.inputs import KINDS


@pytest.mark.parametrize("element", [f16, bf16, f32])
@pytest.mark.parametrize("kind", DRAWS)
def test_a_draw_is_of_its_type_and_its_seed(kind: str, element: Attribute) -> None:
    first, again, other = (draw(kind, [s], (8, 64), element) for s in (1, 1, 2))
    assert first.dtype == dtype_of(element) and first.shape == (8, 64)
    assert first.tobytes() == again.tobytes() != other.tobytes()
    for shape in ((), (0,), (3, 0), (1, 1)):
        found = draw(kind, [0], shape, element)
        assert isinstance(found, np.ndarray) and found.shape == shape
    assert draw(kind, [0], (4, 4), i1).dtype == np.bool_


@pytest.mark.parametrize("element", [f16, bf16, f32])
def test_each_kind_has_what_it_is_for(element: Attribute) -> None:
    found = {kind: draw(kind, [3], (64, 256), element).astype(np.float64) for kind in DRAWS}
    assert np.abs(found["uniform"]).max() <= 1
    # Differences of logits that no exponential of f32 holds.
    assert (np.ptp(found["large"], axis=1) > 100).all()
    sizes = np.abs(found["mixed"])
    assert sizes.min() < 2.0**-11 and sizes.max() > 2.0**3 and (found["mixed"] < 0).any()
    constant = (found["rows"] == found["rows"][:, :1]).all(axis=1)
    assert 16 < constant.sum() < 48 and (found["rows"] == 0).all(axis=1).any()
    least = 2.0 ** MIN_EXPONENT[element]
    assert 0.3 < (np.abs(found["tiny"]) < least).mean() < 0.7
    for value in (np.inf, -np.inf):
        assert (found["special"] == value).any()
    assert np.isnan(found["special"]).any() and (found["special"] == 0).any()
    assert np.isfinite(found["special"]).mean() > 0.99


def test_the_tools_name_the_kinds_without_numpy() -> None:
    assert list(KINDS) == list(DRAWS)
