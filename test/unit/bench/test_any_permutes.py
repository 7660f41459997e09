"""Random permutes: the graphs mean what they say, and none is far from a copy by the model."""

from __future__ import annotations

import numpy as np
import pytest

from polyc.bench.any_permutes import Permutes, Problem, problems, text_of
from polyc.dialects.frontend import GraphOp
from polyc.playback.reference import reference
from polyc.test.support.gpu_text import only, parsed

FAR = 4
"""Times that a copy takes."""


def test_graphs_turn_what_they_say() -> None:
    problem = Problem((3, 4, 5), (2, 0, 1), "f32")
    assert Permutes().parse(problem.said) == problem
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    (found,) = reference(only(parsed(text_of(problem)), GraphOp), [x], {})
    np.testing.assert_array_equal(np.asarray(found.value), x.transpose(2, 0, 1))


def test_problems_are_the_same_again() -> None:
    found = problems(3, 40)
    assert found == problems(3, 40) != problems(4, 40)
    with pytest.raises(ValueError, match="is no order"):
        Permutes().parse("4x5:0,0:f16")


@pytest.mark.parametrize("seed", range(2))
def test_none_is_far_from_a_copy_by_the_model(seed: int) -> None:
    race = Permutes()
    slow = {}
    for problem in problems(seed, 40):
        us, copy, names = race.modelled(problem)
        if us > FAR * copy:
            slow[problem.said] = us, copy, names
    assert not slow
