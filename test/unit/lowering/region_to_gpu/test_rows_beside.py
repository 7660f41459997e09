"""Rows that lie side by side: softmax and norms along an axis that is not the last one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from polyc.bench.any_axes import parse_problem, text_of
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.families.rows.schedules import down_of
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.gpu_text import find, only, parsed
from polyc.test.support.row_plans import mismatch
from polyc.tools.registry import make_context


def text(points: int, body: str, inputs: str = "", kind: str = "f16", out: str = "f16") -> str:
    """A graph of ``X``, points along the middle axis; T and U are its type and the output's."""
    x, y = (f"!frontend.tensor<[B, {points}, N], {k}>" for k in (kind, out))
    return (
        f"frontend.graph @g(%X: {x}{inputs}) -> (Y: {y}) {{\n{body}\n"
        f"  frontend.output %y : {y}\n}}\n".replace("T", x).replace("U", y)
    )


SOFTMAX = "  %y = frontend.softmax %X axes [1] : T"
NORM = "  %y = frontend.layer_norm %X axes [1] eps 1.0e-05 : (T) -> T"
LOG = "  %l = frontend.log_softmax %X axes [1] : T\n  %y = frontend.cast %l : T -> U"
SCALED = (
    "  %t = frontend.elementwise mul %X, %g : (T, !frontend.tensor<[N], f16>) -> T\n"
    "  %n = frontend.layer_norm %t axes [1] eps 1.0e-05 : (T) -> T\n"
    "  %y = frontend.elementwise add %n, %R : (T, T) -> T"
)
PROGRAMS = {
    "softmax": text(512, SOFTMAX),
    "softmax of a thousand": text(1000, SOFTMAX),
    "norm": text(100, NORM),
    "log": text(77, LOG, kind="f32", out="bf16"),
    "scaled": text(
        256, SCALED, ", %g: !frontend.tensor<[N], f16>, %R: !frontend.tensor<[B, 256, N], f16>"
    ),
    "of eight": text(8, SOFTMAX),
    "of twelve": text(12, NORM),
    "of thirty-two": text(32, SOFTMAX),
    "of thirty": text(30, LOG, kind="f32", out="f32"),
}
SIZES = {"softmax": (2, 40), "softmax of a thousand": (1, 24), "of eight": (2, 1048)}


@cache
def programs(name: str, arch: str = "sm_90a") -> tuple[gpu.ModuleOp, gpu.ModuleOp]:
    """A program at the tile level, and as threads."""
    module = parsed(PROGRAMS[name])
    for border in ABOVE_GPU:
        build(border, arch).apply(make_context(), module)
    found = only(module, gpu.ModuleOp)
    done = module.clone()
    finish(done)
    return found, only(done, gpu.ModuleOp)


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_rows_side_by_side_compute_the_graph(name: str) -> None:
    """In the tiles and in the simulator: tails of the rows and beside them; nothing spills."""
    found, threads = programs(name)
    source = only(parsed(PROGRAMS[name]), GraphOp)
    b, n = SIZES.get(name, (2, 56))
    long = name in ("softmax", "softmax of a thousand")
    variants = [v.variant_name for v in found.dispatch().variants()]
    assert [v.removeprefix("g_") for v in variants][-2:] == ["beside", "beside_any"]
    assert [v.removeprefix("g_") for v in variants][:-2] == (["panel_once"] if long else [])
    for number, full in enumerate(variants):
        width = 33 if full.endswith("any") else n
        sizes = {"B": b, "N": width}
        inputs = make_inputs(source, sizes)
        assert mismatch(source, sizes, inputs, tile.run(found, inputs, sizes, full)) is None
        result = simulate(threads, inputs, sizes, full, schedule="random", seed=number)
        result.check()
        assert mismatch(source, sizes, inputs, result.outputs) is None
    compiled = nvrtc.compile_cuda(cuda_source(threads), "sm_90a")
    assert not compiled.warnings()
    assert all((info.spill_bytes, info.stack) == (0, 0) for info in compiled.kernels.values())


@pytest.mark.parametrize("value", [-np.inf, np.inf, np.nan, 65504.0])
def test_numbers_that_are_apart(value: float) -> None:
    """In all of a row, and in some of its points."""
    found, _ = programs("softmax")
    source = only(parsed(PROGRAMS["softmax"]), GraphOp)
    sizes = {"B": 1, "N": 16}
    (x,) = make_inputs(source, sizes)
    x[0, :, 3] = value
    x[0, 100:300, 7] = value
    with np.errstate(all="ignore"):
        assert mismatch(source, sizes, [x], tile.run(found, [x], sizes, "g_beside")) is None


def schedules(program: str) -> list[ScheduleOp]:
    module = parsed(program)
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select") + 1]:
        build(border, "sm_90a").apply(make_context(), module)
    return find(module, ScheduleOp)


def test_tiles_hold_whole_rows() -> None:
    """A sector of memory of each of 512 points; more of fewer, which threads have alone."""
    counts = (8, 12, 32, 40, 64, 512, 1000)
    plans = {n: schedules(text(n, SOFTMAX))[-2] for n in counts}
    assert {n: plan.tile_sizes[:2] for n, plan in plans.items()} == {
        8: (1024, 8),
        12: (512, 12),
        32: (256, 32),
        40: (128, 48),
        64: (128, 64),
        512: (16, 512),
        1000: (16, 1024),
    }
    alone = [n for n, plan in plans.items() if down_of(plan) == 1]
    assert alone == [8, 12, 32]


@pytest.mark.parametrize(
    "program",
    [text(1025, SOFTMAX), text(512, SOFTMAX).replace("512", "M")],
    ids=["too many points", "points not known"],
)
def test_others_are_kept_in_panels(program: str) -> None:
    found = schedules(program)
    assert {plan.pattern for plan in found} == {"rows"}
    assert all("panel" in plan.variant.data for plan in found)


def test_what_is_only_reduced_is_left_to_loops() -> None:
    program = text(512, "  %y = frontend.reduce sum %X axes [1] : T -> U")
    for old, new in (
        ("-> (Y: !frontend.tensor<[B, 512, N], f16>", "-> (Y: !frontend.tensor<[B, N], f16>"),
        (
            "output %y : !frontend.tensor<[B, 512, N], f16>",
            "output %y : !frontend.tensor<[B, N], f16>",
        ),
        ("-> !frontend.tensor<[B, 512, N], f16>\n", "-> !frontend.tensor<[B, N], f16>\n"),
    ):
        program = program.replace(old, new)
    assert {plan.pattern for plan in schedules(program)} == {"loops"}


@pytest.mark.parametrize(
    "problem", ["variance:3x56x264:1:f16", "logsumexp:3x56x264:1:f16", "softmax:2x3x40:1:f16"]
)
def test_few_points_that_are_needed_twice_are_rows(problem: str) -> None:
    """A variance and a logsumexp read them once; rows of three points are rows too."""
    source = text_of(parse_problem(problem))
    module = parsed(source)
    for border in ABOVE_GPU:
        build(border, "sm_90a").apply(make_context(), module)
    threads = only(module, gpu.ModuleOp)
    graph = only(parsed(source), GraphOp)
    inputs = make_inputs(graph, {})
    finish(module)
    (kernel,) = threads.kernels()
    assert "beside" in kernel.sym_name.data or "panel" in kernel.sym_name.data
    result = simulate(threads, inputs, {}, seed=1)
    result.check()
    assert mismatch(graph, {}, inputs, result.outputs) is None


@pytest.mark.parametrize("problem", ["variance:3x56x255:1:f16", "logsumexp:3x56x40:1:f16"])
def test_few_neighbours_that_are_only_reduced_are_left_to_loops(problem: str) -> None:
    """A block's points of one row then lie too far apart to read whole lines."""
    assert {plan.pattern for plan in schedules(text_of(parse_problem(problem)))} == {"loops"}
