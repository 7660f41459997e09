"""Attention of many heads, masks and lengths is as near as an evaluation in its type, on the GPU.

``test/support/attention_accuracy.py`` says what is compared.  Any two of heads, masks, ratios of
heads, types and lengths meet in some case; a program serves all lengths.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

import pytest

from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support import attention_accuracy as accuracy
from polyc.test.support.attention_accuracy import Case, Wanted

Build = Callable[[str, str], Program]
CASES = accuracy.cases(seed=5)
TEST = "test_attention_is_as_near_as_its_type_allows"
ALONE = 4
"""Programs that are compiled one after another; more are compiled side by side first."""


@pytest.fixture(scope="module")
def arch(request: pytest.FixtureRequest) -> str:
    """The newest architecture that the GPU runs, with the programs of all cases in the cache."""
    found = "sm_90a" if driver.device().runs("sm_90a") else "sm_80"
    asked = [item for item in request.session.items if item.path == request.path]
    names = {item.name for item in asked}
    texts = accuracy.programs_of(case for case in CASES if f"{TEST}[{case}]" in names)
    if len(texts) > ALONE:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            list(pool.map(partial(accuracy.warm, arch=found), texts))
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_attention_is_as_near_as_its_type_allows(build: Build, arch: str, case: Case) -> None:
    inputs = case.inputs()
    made = accuracy.run(build(case.text, arch), case, inputs)
    assert len(made) > 1  # the variant that was chosen, by its name too
    wanted = Wanted.of(case, inputs)
    for variant, found in made.items():
        wanted.check(found, variant)
