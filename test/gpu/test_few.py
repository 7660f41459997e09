"""Few queries over a cache, drawn at random, on the GPU: forced plans, and the compiler's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.few_programs import drawn
from polyc.test.support.gpu_text import parsed

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")


@pytest.mark.parametrize("number", range(40))
def test_a_plan_gives_what_the_graph_says_twice(number: int, tmp_path: Path) -> None:
    few = drawn(number)
    job = Program.compile(few.planned(ARCHS[number % 2], tmp_path))
    inputs = few.inputs(number)
    with np.errstate(all="ignore"):
        wanted = meant(parsed(few.program.text()), inputs, few.sizes)
    found: list[Any] = job.run(inputs)
    assert_agree(found, wanted)
    again: list[Any] = job.run(inputs)
    for one, other in zip(found, again, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("number", range(12))
def test_all_variants_agree(build: Build, number: int) -> None:
    """Those for few queries among them, where the cache is long enough."""
    few = drawn(number)
    job = build(few.program.text(), ARCHS[number % 2])
    for length in (3, 1025):
        sizes = {**few.sizes, "N": length}
        inputs = few.program.inputs(sizes, number)
        with np.errstate(all="ignore"):
            wanted = meant(parsed(few.program.text()), inputs, sizes)
        ran: set[str | None] = set()
        for variant in (None, *job.variants):
            try:
                assert_agree(job.run(inputs, variant=variant), wanted)
            except PolycError as error:
                assert error.kind == "NoVariant" and variant is not None
                continue
            ran.add(variant)
        assert len(ran) >= 2
