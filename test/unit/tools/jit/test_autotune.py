"""``@polyc.autotune``: a race a key, by a timer that is given."""

# pyright: basic, reportInvalidTypeForm=false, reportInvalidTypeArguments=false
# pyright: reportArgumentType=false

from typing import Any

import numpy as np
import pytest

import polyc
from polyc import PolycError, Tensor
from polyc.tools.jit.autotune import Autotuned

TIMED: list[tuple[str, int]] = []


def timer(program: Any, inputs: Any) -> float:
    text = program.ir("frontend")
    by = 2 if "constant 2.0" in text else 3
    TIMED.append((f"by {by}", len(inputs[0])))
    return by if len(inputs[0]) < 8 else -by


@polyc.autotune([{"by": 2.0}, {"by": 3.0}], key=["M"], timer=timer)
@polyc.jit(device="cpu")
def scaled(x: Tensor["M", "K", "f32"], *, by):
    return x * by


def ones(m: int, k: int = 2) -> Any:
    return np.ones((m, k), np.float32)


def test_a_race_for_each_key():
    assert isinstance(scaled, Autotuned)
    assert scaled(ones(4))[0, 0] == 2 and scaled(ones(8))[0, 0] == 3
    scaled(ones(4, 7))
    assert TIMED == [("by 2", 4), ("by 3", 4), ("by 2", 8), ("by 3", 8)]
    assert scaled.times == {(4,): [2, 3], (8,): [-2, -3]}
    assert scaled.best(ones(8)) == {"by": 3.0}


def test_a_playback_takes_the_first():
    @polyc.autotune([{"by": 5.0}, {"by": 3.0}])
    @polyc.jit(device="cpu")
    def f(x: Tensor["M", "f32"], *, by):
        return x * by

    assert f(np.ones(2, np.float32))[0] == 5


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (lambda: scaled(ones(4), by=2.0), "by of scaled is chosen by autotune"),
        (lambda: polyc.autotune([])(scaled.function), "has no config"),
        (lambda: polyc.autotune([{}])(len), "stands above @polyc"),
        (
            lambda: polyc.autotune([{"by": 1.0}], key=["Q"])(scaled.function)(ones(2)),
            "key names Q; the sizes of scaled are M, K",
        ),
    ],
)
def test_what_is_refused(asked: Any, message: str):
    with pytest.raises(PolycError, match=message):
        asked()
