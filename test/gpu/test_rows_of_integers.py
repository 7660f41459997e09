"""Rows of integers on the GPU, by every variant, to the bit what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import f32, i1, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import ui8, ui32, ui64
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.each_variant import results
from polyc.test.support.sketch import Sketch
from polyc.test.unit.lowering.region_to_gpu.test_rows_of_integers import chained, reduced
from polyc.test.unit.lowering.region_to_gpu.test_scans import numbers

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")
SHAPES = ((5, 40), (3, 1000), (2, 8192), (2, 16000), (3, 72000), (1, 1029))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", [i8, ui8, i32, ui32, i64, ui64], ids=str)
def test_every_variant(build: Build, kind: Attribute, arch: str) -> None:
    modules = [reduced(fn, kind, "M", "N") for fn in ("sum", "max")]
    modules += [] if kind == ui64 else [chained(kind, "M", "N")]
    for module in modules:
        program, ran = build(str(module), arch), set[str | None]()
        for high, wide in SHAPES:
            x, sizes = numbers(kind, (high, wide)), {"M": high, "N": wide}
            wanted = meant(module, [x], sizes)
            for variant, found in results(program, [x], sizes):
                assert_agree(found, wanted, f"{variant} {high}x{wide}")
                ran.add(variant)
        assert len(ran) > 1


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("fn", ["any", "all"])
def test_conditions(build: Build, fn: str, arch: str) -> None:
    s = Sketch("f", f32)
    x = s.input("x", "M", "N", element=i1)
    module = s.done(y=s.add(frontend.ReduceOp(fn, x, [1])))
    program = build(str(module), arch)
    for high, wide in SHAPES:
        given = np.full((high + 2, wide), fn == "all", np.bool_)
        given[0, wide - 1], given[1] = fn != "all", fn != "all"
        sizes = {"M": high + 2, "N": wide}
        wanted = meant(module, [given], sizes)
        for variant, found in results(program, [given], sizes):
            assert_agree(found, wanted, f"{variant} {high}x{wide}")
