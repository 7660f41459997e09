"""Attention of many heads and masks is as near as an evaluation in its type, thread by thread.

Few of the cases of ``test/gpu/test_attention_accuracy.py``, at lengths of one tile or two.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from polyc.passes.finish import finish
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support import attention_accuracy as accuracy
from polyc.test.support.attention_accuracy import HEADS, MASKS, Case, Wanted
from polyc.test.support.attention_programs import TO_REGION, passed
from polyc.test.support.pairwise import covering, pairs_of

WINDOW = (40, 9)
LENGTHS = (1, 3, 17, 65, 97)
TO_KERNELS = ("plan-select", "region-expand-together", "region-to-gpu")
"""Without those for few queries, which take longer caches."""

SAMPLE = 8
"""Of so many cases one is simulated."""

SIMULATED = [
    (case, ("sm_80", "sm_90a")[i % 2])
    for i, case in enumerate(accuracy.cases(7, LENGTHS, WINDOW)[::SAMPLE])
]


@pytest.mark.turns(3)
@pytest.mark.parametrize(("case", "arch"), SIMULATED, ids=lambda x: str(x))
def test_a_simulated_kernel_is_as_near_as_its_type_allows(case: Case, arch: str) -> None:
    module = passed(case.text, *TO_REGION, *TO_KERNELS, arch=arch, sizes=case.sizes)
    finish(module)
    inputs = case.inputs()
    result = simulate(gpu_module_of(module), inputs, case.sizes)
    assert not result.findings, "\n".join(map(str, result.findings))
    (found,) = result.outputs
    Wanted.of(case, inputs).check(found)


def test_every_two_choices_meet_in_a_case() -> None:
    found = accuracy.cases(5)
    met = {pair for case in found for pair in pairs_of(accuracy.chosen_of(case))}
    columns = (HEADS, MASKS, *(accuracy.RATIOS, accuracy.ELEMENTS), *[accuracy.LENGTHS] * 2)
    every = {
        (i, x, j, y)
        for i, one in enumerate(columns)
        for j, other in enumerate(columns)
        if i < j
        for x, y in product(one, other)
    }
    assert met == every
    assert len(accuracy.programs_of(found)) == len(HEADS) * len(MASKS)
    assert found == accuracy.cases(5) and found != accuracy.cases(6)


def test_rows_that_cover_are_rows_that_are_given() -> None:
    rows = [(a, b, c) for a, b, c in product(range(3), "xyz", range(3)) if (a, b) != (0, "x")]
    found = covering(rows, 1)
    assert set(found) <= set(rows) and len(found) < len(rows) / 2
    assert {p for row in found for p in pairs_of(row)} == {p for row in rows for p in pairs_of(row)}


def biased(case: Case, found: NDArray[np.float16], what: str) -> NDArray[np.float16]:
    """An output as a mistake would make it."""
    match what:
        case "one element":
            found[0, -1, 0] += np.float16(0.01)
        case "every element":
            found *= np.float16(1.002)
        case "a key is lost":
            q, k, v = case.inputs()
            found[:] = accuracy.evaluated(case, [q, k[:, 1:], v[:, 1:]])
        case _:
            found[0, 0, 0] = np.nan
    return found


@pytest.mark.parametrize("what", ["one element", "every element", "a key is lost", "no number"])
def test_a_mistake_is_farther_off(what: str) -> None:
    case = Case((64, 64), "none", 4, "f16", 97, 239)
    inputs = case.inputs()
    found, wanted = accuracy.evaluated(case, inputs), Wanted.of(case, inputs)
    wanted.check(found)
    with pytest.raises(AssertionError, match=r"off by|not finite"):
        wanted.check(biased(case, found, what))
