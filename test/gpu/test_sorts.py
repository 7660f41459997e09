"""Sorts, the least of rows and places of extremes on the GPU, each of their ways, by NumPy's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i8, i32, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import ui8, ui64
from polyc.dialects.frontend import GraphOp
from polyc.playback.reference import make_inputs
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.each_variant import results
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Size, Sketch

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")


def ordered(
    element: Attribute, shape: tuple[Size, ...], axis: int, first: int | None, descending: bool
) -> ModuleOp:
    s = Sketch("f", element)
    size = None if first is None else Dim.const(first)
    op = frontend.SortOp(s.input("x", *shape), axis, size, descending=descending)
    s.add(op)
    return s.done(values=op.values, places=op.places)


def extremes(element: Attribute, shape: tuple[Size, ...], axis: int) -> ModuleOp:
    s = Sketch("f", element)
    x = s.input("x", *shape)
    most = s.add(frontend.ArgReduceOp("max", x, axis))
    least = s.add(frontend.ArgReduceOp("min", x, axis, last=True, element=i32))
    return s.done(most=most, least=least)


def compare(build: Build, module: ModuleOp, sizes: dict[str, int], arch: str) -> int:
    """Run every variant that takes the sizes, on several draws; returns how many ran."""
    program, ran = build(str(module), arch), 0
    for seed, draw in enumerate(("uniform", "rows", "special")):
        inputs = make_inputs(only(module, GraphOp), sizes, seed, draw)
        wanted = meant(module, inputs, sizes)
        for variant, found in results(program, inputs, sizes):
            assert_agree(found, wanted, f"{variant} {draw}")
            ran += 1
    return ran


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("sizes", [(700, 200), (33, 1000), (5, 4096), (3, 16384), (2, 20011)])
@pytest.mark.parametrize("element", [f16, f32], ids=str)
def test_a_sort_of_rows(
    build: Build, element: Attribute, sizes: tuple[int, int], arch: str
) -> None:
    module = ordered(element, ("M", "N"), 1, None, sizes[0] % 2 == 0)
    assert compare(build, module, {"M": sizes[0], "N": sizes[1]}, arch) >= 3


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("first", [1, 8, 64, 1000])
@pytest.mark.parametrize("columns", [1024, 5001, 32768])
def test_the_largest_of_rows(build: Build, first: int, columns: int, arch: str) -> None:
    for element in (f16, bf16, f32, i32):
        module = ordered(element, (150, columns), 1, first, True)
        assert compare(build, module, {}, arch) >= 3


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", [i8, ui8, i64, ui64], ids=str)
def test_integers(build: Build, element: Attribute, arch: str) -> None:
    for axis, first in ((1, None), (0, 5), (1, 40)):
        module = ordered(element, (120, 300), axis, first, first == 5)
        assert compare(build, module, {}, arch) >= 3
    assert compare(build, extremes(element, ("M", "N"), 1), {"M": 300, "N": 3000}, arch) >= 3


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("rows", "columns"), [(4096, 4096), (3, 70000), (1, 1 << 20), (5000, 33), (70, 1)]
)
@pytest.mark.parametrize("element", [f16, f32], ids=str)
def test_places_of_extremes(
    build: Build, element: Attribute, rows: int, columns: int, arch: str
) -> None:
    for axis in (0, 1):
        module = extremes(element, ("M", "N"), axis)
        assert compare(build, module, {"M": rows, "N": columns}, arch) >= 3
