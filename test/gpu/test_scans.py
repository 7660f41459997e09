"""Scans on the GPU: every variant against the FP32 reference, and again to the bit."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import make_inputs
from polyc.runtime.program import Program
from polyc.test.support.agreeing import meant
from polyc.test.support.gpu_text import only, parsed

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")
WAYS = ("", "reverse", "exclusive", "reverse exclusive")
LENGTHS = [1, 7, 31, 96, 200, 1000, 1024, 4096, 5000, 20001, 1 << 17]
"""Around the tiles of each variant, and several tiles."""


def text(element: str, fn: str, axis: int, words: str) -> str:
    kind = f"!frontend.tensor<[M, N], {element}>"
    return f"""frontend.graph @scan(%x: {kind}) -> (Y: {kind}) {{
  %y = frontend.scan {fn} %x axis {axis} {words} : {kind}
  frontend.output %y : {kind}
}}"""


def check(
    build: Build, source: str, arch: str, sizes: dict[str, int], draw: str = "uniform"
) -> list[str]:
    """Hold every variant that takes the sizes to the reference, twice; those that ran."""
    module = parsed(source)
    graph = only(module, GraphOp)
    inputs = make_inputs(graph, sizes, draw=draw)
    (wanted,) = meant(module, inputs, sizes)
    compiled, ran = build(source, arch), list[str]()
    for variant in compiled.variants:
        try:
            (found,) = compiled.run(inputs, symbols=sizes, variant=variant)
        except PolycError as error:
            assert error.kind == "NoVariant"
            continue
        kind = graph.outputs[0].type.element_type
        mismatch = tolerance_check(np.asarray(found), wanted, kind)
        assert mismatch is None, (variant, mismatch)
        (again,) = compiled.run(inputs, symbols=sizes, variant=variant)
        assert np.asarray(found).tobytes() == np.asarray(again).tobytes(), variant
        ran.append(variant)
    return ran


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(("element", "fn"), [("f32", "sum"), ("f16", "sum"), ("bf16", "max")])
@pytest.mark.parametrize("arch", ARCHS)
def test_lines_of_every_length(build: Build, arch: str, element: str, fn: str, length: int) -> None:
    words = WAYS[LENGTHS.index(length) % 4]
    rows = max(1, min(300, (1 << 19) // length))
    assert check(build, text(element, fn, 1, words), arch, {"M": rows, "N": length})


@pytest.mark.parametrize("words", WAYS)
@pytest.mark.parametrize("shape", [(1, 33), (257, 1000), (3, 1 << 15)])
def test_columns(build: Build, shape: tuple[int, int], words: str) -> None:
    sizes = {"M": shape[0], "N": shape[1]}
    assert check(build, text("f32", "sum", 0, words), "sm_90a", sizes)


@pytest.mark.parametrize(
    ("element", "fn"), list(product(("i8", "i32", "i64", "ui32"), ("sum", "prod", "max", "min")))
)
def test_integers_are_exact(build: Build, element: str, fn: str) -> None:
    for axis in (0, 1):
        assert check(build, text(element, fn, axis, ""), "sm_90a", {"M": 65, "N": 3000})


@pytest.mark.parametrize("element", ["i8", "i32", "ui8"])
@pytest.mark.parametrize("fn", ["sum", "prod", "max", "min"])
@pytest.mark.parametrize("arch", ARCHS)
def test_chains_of_integers_are_exact(build: Build, arch: str, fn: str, element: str) -> None:
    """Numbers of a whole type: what tiles post is below 0, and beyond what an f32 has exactly."""
    for number, (axis, length) in enumerate(product((0, 1), (70000, 60001))):
        shape = (3, length) if axis else (length, 12 - length % 2)
        sizes = dict(zip("MN", shape, strict=True))
        ran = check(build, text(element, fn, axis, WAYS[number]), arch, sizes, "large")
        assert any("chain" in name for name in ran)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("element", "axis", "shape"),
    [
        ("f16", 1, (2, 9 * 8192 + 24)),
        ("f32", 1, (3, 35 * 1024 + 1)),
        ("i32", 1, (2, 9 * 4096 + 4)),
        ("f16", 0, (1000, 132)),
        ("i8", 0, (1100, 9)),
    ],
)
def test_small_chains(
    build: Build, arch: str, element: str, axis: int, shape: tuple[int, int]
) -> None:
    """And teams of the same lines, which compute-sanitizer runs too."""
    words = WAYS[shape[0] % 4]
    sizes = dict(zip("MN", shape, strict=True))
    ran = check(build, text(element, "sum", axis, words), arch, sizes)
    assert any("chain" in name for name in ran)
    if axis and shape[1] % 4 == 0:
        assert any("team" in name for name in ran)


def test_long_lines_and_few(build: Build) -> None:
    assert check(build, text("f32", "sum", 1, ""), "sm_90a", {"M": 3, "N": 1 << 20})


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("words", WAYS)
def test_lines_of_many_groups(build: Build, arch: str, words: str) -> None:
    """Of 2049 tiles, which are more than groups of groups have: and of single elements."""
    ran = check(build, text("f16", "sum", 1, words), arch, {"M": 2, "N": (1 << 24) + 8})
    assert any("chain" in name for name in ran)
    check(build, text("i32", "sum", 1, words), arch, {"M": 3, "N": (1 << 19) + 5})


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("shape", [(5000, 300), (40000, 4), (30000, 33), (1 << 18, 17), (9000, 8)])
@pytest.mark.parametrize(("element", "fn"), [("f32", "sum"), ("f16", "max"), ("i32", "prod")])
def test_few_columns_and_long(
    build: Build, arch: str, element: str, fn: str, shape: tuple[int, int]
) -> None:
    words = WAYS[shape[1] % 4]
    ran = check(build, text(element, fn, 0, words), arch, {"M": shape[0], "N": shape[1]})
    assert any("chain" in name for name in ran)
