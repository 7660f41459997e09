"""Which axes tiles of windows run along, and how many threads and outputs each has."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute

from polyc.bench.windows import CASES
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.recognise import Loops, find_loops, type_of
from polyc.families.loops.windows import find_window, ranked
from polyc.passes.finish import finish
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback.gpu.simulate import simulate
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import lowered
from polyc.tools.parsing import parse_text
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def planned(case: str, kind: Attribute) -> tuple[Loops, ScheduleOp]:
    """The loops of a case, and its first plan."""
    module = parse_text(make_context(), CASES[case].text(str(kind)), "x.mlir")
    module = lowered(module, "sm_90a", "plan")
    return find_loops(only(module, KernelOp)), find(module, ScheduleOp)[0]


@pytest.mark.parametrize("kind", [f16, f32], ids=str)
@pytest.mark.parametrize("case", ["max_halves_last", "nearest_odd"])
def test_tiles_go_on_as_memory_does(case: str, kind: Attribute) -> None:
    """Their rows are of the axis outside of the columns, of windows that share nothing and of
    lines whose places are all their own; those have whole warps of columns."""
    loops, plan = planned(case, kind)
    (space,) = loops.spaces
    (value,) = loops.values
    labels = type_of(value).labels
    assert (space.row, space.column) == (labels[-2], labels[-1])
    assert plan.tile_sizes[1] == 128


def test_rows_are_of_an_axis_that_no_place_depends_on_where_places_are_data() -> None:
    """As the channels of an image that is sampled: a thread finds a place once for its rows."""
    loops, plan = planned("nearest_grid", f16)
    (space,) = loops.spaces
    assert space.sizes[-2].constant() == 64, "channels"
    assert plan.tile_sizes[0] > plan.tile_sizes[1]


@pytest.mark.parametrize("kind", [f16, f32], ids=str)
def test_threads_of_pools_leave_nobody_idle(kind: Attribute) -> None:
    """Of 56 outputs a row, two a thread, and whole vectors of channels."""
    _, plan = planned("max_last", kind)
    assert plan.variant.data == "window_2"
    rows, columns, _ = plan.tile_sizes
    assert 56 % rows == 0
    assert plan.threads() == rows // 2 * columns // plan.integer("vectorize")


def test_neighbours_that_share_little_of_a_mean_have_a_vector_each() -> None:
    """A sixth of the reads; of windows one apart they share more."""
    loops, plan = planned("avg_last", f16)
    window = find_window(loops)
    assert window is not None
    assert not ranked(window, 8, "sm_90a")
    assert plan.variant.data == "vector"
    near = CASES["avg_last"].text("f16").replace("stride [2, 2]", "stride [1, 1]")
    near = near.replace("56, 56", "112, 112")
    module = lowered(parse_text(make_context(), near, "x.mlir"), "sm_90a", "plan")
    assert find(module, ScheduleOp)[0].variant.data.startswith("window_")


def test_threads_that_are_no_power_of_two_compute_what_is_meant() -> None:
    """With a NaN, which a maximum keeps."""
    text = CASES["max_last"].text("f16").replace("[64, ", "[2, ")
    module = parse_text(make_context(), text, "x.mlir")
    x = np.random.default_rng(1).normal(size=(2, 112, 112, 64)).astype(np.float16)
    x[0, 3, 3, :2] = np.nan
    expected = meant(module, [x], {})
    for name in ABOVE_GPU:
        run_pass(make_context(), build(name, "sm_90a"), module)
    finish(module)
    kernels = only(module, gpu.ModuleOp)
    threads = [op.threads.value.data for op in find(kernels, GpuKernelOp)]
    assert all(count & (count - 1) for count in threads)
    result = simulate(kernels, [x], {})
    result.check()
    assert_agree(result.outputs, expected, "threads")
