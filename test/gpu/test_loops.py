"""Regions as loops on the GPU, and random programs of every family, against the frontend."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from polyc.bench.conv_networks import Case
from polyc.dialects.frontend import GraphOp
from polyc.playback.reference import make_inputs
from polyc.runtime.program import Program
from polyc.test.fuzz.random_programs import drawn
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.each_variant import results
from polyc.test.support.gpu_text import only
from polyc.test.support.loop_programs import PROGRAMS
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")
LARGE: Mapping[str, Sequence[Mapping[str, int]]] = {
    "a chain": [{"M": 1000, "N": 1000}, {"M": 33, "N": 4097}],
    "a chain of halves": [{"M": 1000, "N": 1000}],
    "a softmax over columns": [{"M": 700, "N": 1001}],
    "a mean over everything": [{"M": 300, "N": 1025}],
    "a product of f32": [{"M": 129, "N": 300, "K": 77}],
}
"""More than a few blocks."""


def compare(program: Program, module: Any, sizes: Mapping[str, int]) -> int:
    """Run every variant that takes the sizes; returns how many did."""
    graph = only(module, GraphOp)
    inputs = make_inputs(graph, sizes, 5)
    wanted = meant(module, inputs, sizes)
    ran = 0
    for variant, found in results(program, inputs, sizes):
        assert_agree(found, wanted, variant)
        ran += 1
    return ran


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_variant_of_a_program_of_loops(build: Build, name: str, arch: str) -> None:
    module = PROGRAMS[name].module()
    program = build(str(module), arch)
    for sizes in (*PROGRAMS[name].sizes, *LARGE.get(name, ())):
        assert compare(program, module, sizes) >= 2


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("number", range(12))
def test_a_random_program(build: Build, number: int, arch: str) -> None:
    """What any program of the language computes on the GPU is what its graph says."""
    program = drawn(random.Random(f"gpu {number}"))
    assert compare(build(str(program.module), arch), program.module, program.sizes) >= 2


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("taps", "stride", "groups"), [(3, 1, 120), (5, 2, 120), (7, 1, 120)])
def test_windows_that_slide(build: Build, taps: int, stride: int, groups: int, arch: str) -> None:
    case = Case(32, 120, 28, 120, taps, stride, groups)
    module = parse_text(make_context(), case.text(), "conv.mlir")
    program = build(case.text(), arch)
    assert any("window" in name for name in program.kernels)
    compare(program, module, {})


def windows(op: str, image: str, result: str, element: str) -> str:
    """A pool or a resize of an image."""
    x, y = (f"!frontend.tensor<[{dims}], {element}>" for dims in (image, result))
    return (
        f"frontend.graph @windows(%x: {x}) -> (y: {y}) {{\n"
        f"  %0 = frontend.{op} : {x} -> {y}\n  frontend.output %0 : {y}\n}}"
    )


HALF = "axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1]"
WINDOWS = {
    "maximum": (f"pool max %x {HALF}", "32, 64, 30, 48", "32, 64, 15, 24"),
    "minimum": (f"pool min %x {HALF}", "32, 64, 30, 48", "32, 64, 15, 24"),
    "places": (f"arg_pool max %x {HALF}", "32, 64, 30, 48", "32, 64, 15, 24"),
    "twice": ("resize nearest %x axes [2, 3] half_pixel floor", "32, 64, 20, 48", "32, 64, 40, 96"),
    "half as large again": (
        "resize nearest %x axes [2, 3] half_pixel floor",
        "32, 64, 20, 48",
        "32, 64, 30, 72",
    ),
    "linear": ("resize linear %x axes [2, 3] half_pixel", "2, 64, 20, 48", "2, 64, 40, 96"),
    "linear, odd": ("resize linear %x axes [2, 3] half_pixel", "2, 64, 20, 50", "2, 64, 30, 75"),
    "linear, smaller": (
        "resize linear %x axes [2, 3] half_pixel",
        "2, 64, 40, 96",
        "2, 64, 20, 48",
    ),
    "cubic": ("resize cubic %x axes [2, 3] half_pixel", "2, 64, 20, 48", "2, 64, 40, 96"),
    "corners": ("resize linear %x axes [2, 3] align_corners", "2, 64, 20, 48", "2, 64, 33, 80"),
    "adaptive": ("adaptive_pool mean %x axes [2, 3]", "32, 64, 15, 15", "32, 64, 7, 7"),
    "large windows": (
        "pool max %x axes [2, 3] size [9, 9] stride [1, 1] padding [4, 4, 4, 4] dilation [1, 1]",
        "4, 16, 20, 24",
        "4, 16, 20, 24",
    ),
    "three channels": (
        "pool mean %x axes [1, 2] size [3, 2] stride [2, 1] padding [1, 1, 0, 1] dilation [1, 1]",
        "16, 65, 67, 3",
        "16, 33, 67, 3",
    ),
    "channels last": (
        "resize linear %x axes [1, 2] half_pixel",
        "2, 20, 48, 64",
        "2, 40, 96, 64",
    ),
}


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("element", ["f16", "f32"])
@pytest.mark.parametrize("name", WINDOWS)
def test_windows_and_resizes(build: Build, name: str, element: str, arch: str) -> None:
    op, image, result = WINDOWS[name]
    text = windows(op, image, result, element)
    if name == "places":
        text = text.replace(f"[{result}], {element}", f"[{result}], i64")
    module = parse_text(make_context(), text, "windows.mlir")
    assert compare(build(text, arch), module, {}) >= 1
