"""Attention over keys in pages, drawn at random, on the GPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.few_programs import in_pages
from polyc.test.support.gpu_text import parsed
from polyc.test.support.paged_programs import drawn

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")


@pytest.mark.parametrize("number", range(30))
def test_a_plan_gives_what_the_graph_says_twice(number: int, tmp_path: Path) -> None:
    paged = drawn(number)
    job = Program.compile(in_pages(paged, ARCHS[number % 2], tmp_path))
    inputs = paged.inputs(number)
    with np.errstate(all="ignore"):
        wanted = meant(parsed(paged.program.text()), inputs, paged.sizes)
    found: list[Any] = job.run(inputs)
    assert_agree(found, wanted)
    again: list[Any] = job.run(inputs)
    for one, other in zip(found, again, strict=True):
        assert np.asarray(one).tobytes() == np.asarray(other).tobytes()


@pytest.mark.parametrize("number", range(8))
def test_all_variants_agree(build: Build, number: int) -> None:
    """Those for few queries among them, where the cache is long enough."""
    paged = drawn(number)
    job = build(paged.program.text(), ARCHS[number % 2])
    for keys in (100, 1100):
        pages = -(-keys // (paged.program.page or 1))
        sizes = {**paged.sizes, "J": pages, "P": 2 * pages}
        inputs = paged.program.inputs(sizes, number)
        with np.errstate(all="ignore"):
            wanted = meant(parsed(paged.program.text()), inputs, sizes)
        ran: set[str | None] = set()
        for variant in (None, *job.variants):
            try:
                assert_agree(job.run(inputs, variant=variant), wanted)
            except PolycError as error:
                assert error.kind == "NoVariant" and variant is not None
                continue
            ran.add(variant)
        assert len(ran) >= 2
