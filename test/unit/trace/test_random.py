"""Random numbers over values are those of the dialect, and wrong arguments are said."""

# pyright: basic

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.playback.philox import pair
from polyc.test.support.tracing import played, text

SEED = np.asarray(3, np.int64)
WORDS = pair(np.arange(8, dtype=np.uint64), np.asarray(3, np.uint64)).astype(np.uint32)


def test_a_seed_is_a_number_or_a_value() -> None:
    for function in (
        lambda s: polyc.random.bits((2, 4), seed=s),
        lambda s: polyc.random.bits((2, 4), seed=3, offset=s - s),
    ):
        np.testing.assert_array_equal(played(function, SEED), WORDS.reshape(2, 4))
    found = played(lambda s: polyc.random.bits((4,), seed=s, offset=4), SEED)
    np.testing.assert_array_equal(found, WORDS[4:])


def test_distributions_are_those_of_the_dialect() -> None:
    found = played(lambda s: polyc.random.uniform((8,), seed=s), SEED)
    np.testing.assert_array_equal(found, (WORDS >> 8).astype(np.float32) / 2**24)
    found = played(lambda s: polyc.random.bernoulli((8,), 0.5, seed=s), SEED)
    np.testing.assert_array_equal(found, WORDS < 2**31)
    x = np.arange(8, dtype=np.float32)
    found = played(lambda x: polyc.dropout(x, 0.5, seed=3), x)
    np.testing.assert_array_equal(found, np.where(WORDS < 2**31, 2 * x, 0))
    found = text(lambda x: polyc.random.normal(x.shape, "f16", seed=-1), Tensor["M", 4, "f16"])
    assert "frontend.random normal" in found
    assert "frontend.constant 18446744073709551615" in found


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda x: polyc.dropout(x, 2.0, seed=0), "the p of dropout is a chance from 0 to 1, not"),
        (
            lambda x: polyc.dropout(x, cast(Any, "a"), seed=0),
            "the p of dropout is a number, not 'a'",
        ),
        (
            lambda x: polyc.dropout(x, 0.1, seed=cast(Any, 0.5)),
            "a seed is a whole number or a value of rank",
        ),
        (lambda x: polyc.dropout(x, 0.1, seed=2**64), "a seed is from -9223372036854775808 to"),
        (lambda x: polyc.dropout(x, 0.1, seed=x), "the seed of frontend.dropout is an integer"),
        (lambda x: polyc.random.uniform((3,), "i32", seed=0), "uniform numbers are f16 or bf16"),
    ],
)
def test_wrong_arguments_are_said(function: object, said: str) -> None:
    with pytest.raises(PolycError, match=said):
        text(function, Tensor[4, "f32"])  # type: ignore[arg-type]


def test_random_is_offered_as_a_module() -> None:
    assert "random" in dir(polyc)
    assert polyc.random.dropout is polyc.dropout
