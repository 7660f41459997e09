"""Kernels of rows on the GPU: every variant of every program, against the FP32 reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import make_inputs, reference
from polyc.runtime.program import Program
from polyc.test.support.gpu_text import only, parsed
from polyc.test.support.row_programs import COLUMNS, PRODUCT_AND_NORM, PROGRAMS, RowProgram

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")

LENGTHS = [1, 7, 8, 77, 264, 1000, 1024, 1025, 1032, 4096, 8191, 8192, 8200, 20001, 40960]
"""Around the tiles of each variant, and several chunks."""


def check(
    program: Program, source: GraphOp, inputs: Sequence[Any], sizes: dict[str, int]
) -> list[str]:
    """Hold every variant that takes the sizes to the reference; those that ran."""
    wanted = reference(source, inputs, sizes)
    ran: list[str] = []
    for variant in program.variants:
        try:
            found = program.run(inputs, symbols=sizes, variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant"
            continue
        for spec, out, want in zip(source.outputs, found, wanted, strict=True):
            mismatch = tolerance_check(np.asarray(out), want, spec.type.element_type)
            assert mismatch is None, (variant, mismatch)
        ran.append(variant)
    return ran


def run(build: Build, program: RowProgram, arch: str, length: int) -> list[str]:
    source, sizes = only(parsed(program.text), GraphOp), program.sizes(length)
    compiled = build(program.text, arch)
    return check(compiled, source, make_inputs(source, sizes), sizes)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_variant_at_every_length(build: Build, arch: str, name: str, length: int) -> None:
    assert run(build, PROGRAMS[name], arch, length)


@pytest.mark.parametrize("length", [1, 7, 320, 1000, 4096, 20001, 50000])
@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("arch", ARCHS)
def test_every_variant_of_columns(build: Build, arch: str, name: str, length: int) -> None:
    assert run(build, COLUMNS[name], arch, length)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("length", [32776, 300000])
def test_more_rows_than_teams(build: Build, arch: str, name: str, length: int) -> None:
    """Teams and blocks have several rows, one after another."""
    assert run(build, RowProgram(PROGRAMS[name].text, {"M": 43}), arch, length)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
@pytest.mark.parametrize("arch", ARCHS)
def test_many_rows(build: Build, arch: str, name: str) -> None:
    """More blocks than run at once, and a last one that is not full; of all that take as many."""
    program = PROGRAMS[name]
    ran = run(build, RowProgram(program.text, {"M": 4099}), arch, 520)
    ways = {"warp", "block_2048", "block_4096", "block", "kept", "chunks", "any"}
    assert {f"{name}_{way}" for way in ways} <= set(ran)


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, 65504.0])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "extremes"])
@pytest.mark.parametrize("arch", ARCHS)
def test_numbers_that_are_apart(build: Build, arch: str, name: str, value: float) -> None:
    """NaN and infinities come out as the reference has them, in every way to hold a row."""
    program, sizes = PROGRAMS[name], PROGRAMS[name].sizes(1000)
    source = only(parsed(program.text), GraphOp)
    (x,) = make_inputs(source, sizes)
    x[1, 500:] = value
    x[2] = value
    x[3, 7] = value
    with np.errstate(all="ignore"):
        assert check(build(program.text, arch), source, [x], sizes)


@pytest.mark.parametrize("sizes", [(96, 200, 256), (33, 65, 77)])
@pytest.mark.parametrize("arch", ARCHS)
def test_a_norm_after_a_product(build: Build, arch: str, sizes: tuple[int, int, int]) -> None:
    """One module of two families: the product of small integers is exact, so the norm is close."""
    source = only(parsed(PRODUCT_AND_NORM), GraphOp)
    named: dict[str, int] = dict(zip("MKN", sizes, strict=True))
    rng = np.random.default_rng(3)
    inputs = [
        rng.integers(-2, 3, x.shape).astype(x.dtype) if i < 2 else x
        for i, x in enumerate(make_inputs(source, named))
    ]
    assert check(build(PRODUCT_AND_NORM, arch), source, inputs, named)
