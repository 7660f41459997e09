"""Windows that slide along lines: what shares them, what it reads, and what is refused (S8, S9.3)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.region import KernelOp
from polyc.families.loops.lines import Lines, LineTile, find_lines, tiles
from polyc.families.loops.recognise import find_loops
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of, written
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Size = int | str


def depthwise(
    image: tuple[Size, Size, Size, Size],
    taps: int = 3,
    stride: int = 1,
    dilation: int = 1,
    padding: int = 1,
) -> ModuleOp:
    """A convolution of each channel by itself, as it lies in NCHW, with work after it."""
    s = Sketch("lines")
    w = s.input("w", image[1], 1, taps, taps)
    op = frontend.Conv2dOp(
        s.input("x", *image),
        w,
        layout="nchw",
        stride=(stride, stride),
        padding=[padding] * 4,
        dilation=(dilation, dilation),
        groups=image[1],
    )
    return s.done(y=s.fn("relu", s.add(op)))


def lowered(module: ModuleOp, last: str, plan: str | None = None, arch: str = "sm_90a") -> ModuleOp:
    found = parse_text(make_context(), str(module), "graph.mlir")
    for stage in STAGES:
        for name in STAGES[stage]:
            build(name, arch, plan).apply(make_context(), found)
        if stage == last:
            break
    return found


def lines_of(module: ModuleOp) -> Lines | None:
    return find_lines(find_loops(only(lowered(module, "region"), KernelOp)))


def planned(
    module: ModuleOp, folder: Path, last: str, own: LineTile, arch: str = "sm_90a", **fields: Any
) -> ModuleOp:
    """The program whose region slides windows along lines, by a tile of so many points a thread."""
    region = only(lowered(module, "region"), KernelOp).sym_name.data
    plan = {
        "region": region,
        "variant": "scalar",
        "algo_choice": {"loops": "lines"},
        "tile": [own.rows, own.columns, 1],
        "warp_tile": own.warp_tile,
    }
    return lowered(module, last, written(folder, {**plan, **fields}), arch)


def cases() -> list[dict[str, Any]]:
    """Some of a grid of parameters: lines of vectors and of none, steps, and what lies apart."""
    draw = random.Random(18)
    found: list[dict[str, Any]] = []
    for wide, stride, dilation in ((16, 1, 1), (12, 2, 1), (14, 1, 2), (7, 1, 1), (9, 2, 2)):
        found.append(
            {
                "image": (draw.randint(1, 2), draw.randint(2, 4), draw.randint(5, 8), wide),
                "taps": draw.choice((2, 3, 5)) if dilation == 1 else 3,
                "stride": stride,
                "dilation": dilation,
                "padding": draw.choice((1, 2)),
            }
        )
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_windows_compute_what_the_graph_means(case: dict[str, Any], tmp_path: Path) -> None:
    module = depthwise(**case)
    inputs, wanted = wanted_of(module, {})
    lines = lines_of(module)
    assert lines is not None
    for number, own in enumerate(tiles(lines)):
        folder = tmp_path / str(number)
        folder.mkdir()
        built = gpu_module_of(planned(module, folder, "gpu", own))
        (variant,) = built.dispatch().variants()
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)
