"""Networks of comparisons sort with any number of steps at once, and of elements of a lane."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import i8, i64

from polyc.passes.pipeline import GPU_PASSES
from polyc.passes.support.gpu import tile_sorts
from polyc.passes.support.gpu.sort_networks import largest
from polyc.playback.gpu import simulate
from polyc.test.support.gpu_text import run
from polyc.test.unit.passes.support.gpu.test_tile_sorts import in_memory, numbers


def test_the_largest_number_of_a_type() -> None:
    assert (largest(i8, False), largest(i8, True)) == (127, -1)
    assert largest(i64, False) == 2**63 - 1


@pytest.mark.turns(1)
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("together", [1, 4])
def test_rows_of_several_merges(steps: int, together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merges of 2 to 512 elements, of which the longer ones take one to four steps beyond a warp:
    whole groups of them, and what is left."""
    monkeypatch.setattr(tile_sorts, "STEPS", steps)
    monkeypatch.setattr(tile_sorts, "TOGETHER", together)
    text = run(in_memory(64, "", 512), *GPU_PASSES)
    for count in (1, 32, 33, 65, 200, 257, 511, 512):
        sizes = {"M": 1, "N": count}
        result = simulate(text, [], sizes, "k", schedule="random", seed=count)
        result.check()
        np.testing.assert_array_equal(result.outputs[0][0], np.sort(numbers(count)))
