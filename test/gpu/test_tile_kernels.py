"""The kernels of examples/tile on the GPU: small shapes and large ones, every element type.

The table and the references are those of the unit tests.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from polyc.playback.agreement import tolerance_check
from polyc.playback.functions import DTYPES
from polyc.runtime import driver
from polyc.runtime.program import Program
from polyc.test.support.tile_cases import CASES, Sizes, lowered


@cache
def program(name: str, element: str) -> Program:
    return Program.compile(lowered(name, element))


def shape_id(sizes: Sizes) -> str:
    return "x".join(str(value) for value in sizes.values())


EACH = [
    pytest.param(
        case.name,
        element,
        variant,
        sizes,
        id=f"{size}-{case.name}-{element}-{shape_id(sizes)}" + ("-also" if shapes is None else ""),
    )
    for case in CASES.values()
    for element in case.elements
    for size, shapes in (("small", case.small), ("large", case.large), ("small", None))
    for variant, sizes in (case.also if shapes is None else [(case.variant, s) for s in shapes])
]


@pytest.mark.parametrize(("name", "element", "variant", "sizes"), EACH)
def test_kernel(name: str, element: str, variant: str | None, sizes: Sizes) -> None:
    case, job = CASES[name], program(name, element)
    if not driver.device().runs(job.arch) and job.arch.endswith("a"):
        pytest.skip(f"{driver.device().name} does not run {job.arch}")
    inputs = case.inputs(sizes, element)
    outputs = job.run(inputs, symbols=sizes, variant=variant)
    types = {str(kind): kind for kind in DTYPES}
    kinds = [types[name] for name in job.signature.elements[job.num_inputs :]]
    for kind, found, right in zip(kinds, outputs, case.expected(inputs, sizes), strict=True):
        mismatch = tolerance_check(np.asarray(found), right, kind)
        assert mismatch is None, str(mismatch)


@pytest.mark.parametrize("name", CASES)
def test_runs_repeat(name: str) -> None:
    """The same bits again: nothing depends on which CTA is first."""
    case, job = CASES[name], program(name, "f16")
    if not driver.device().runs(job.arch) and job.arch.endswith("a"):
        pytest.skip(f"{driver.device().name} does not run {job.arch}")
    if not case.deterministic:
        pytest.skip("the kernel adds in any order")
    sizes = case.small[0]
    inputs = case.inputs(sizes)
    first = job.run(inputs, symbols=sizes, variant=case.variant)
    for _ in range(3):
        again = job.run(inputs, symbols=sizes, variant=case.variant)
        assert all(np.array_equal(a, b, True) for a, b in zip(first, again, strict=True))  # pyright: ignore[reportArgumentType]
