"""Windows that slide in a thread's registers: what is shared, and what is refused (S8, S9.3)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.binding import BindAttr
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.windows import find_window, ranked, shared_reads, tile_from, tiles
from polyc.lowering.index_to_region import IndexToRegion
from polyc.lowering.region_to_gpu.loops import LoopsLowering
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of, written
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

TILE = {"tile": [8, 32, 1], "warp_tile": [8, 32], "vectorize": 8}


def grouped(
    image: tuple[int, int, int, int],
    taps: int = 3,
    stride: int = 1,
    dilation: int = 1,
    padding: int = 1,
    groups: int = 0,
    filters: int = 0,
    rows: int = 0,
) -> ModuleOp:
    """A convolution in groups, depthwise where nothing else is said, with work after it.

    ``rows`` are the taps of a column, if another number than those of a row.
    """
    s = Sketch("sliding")
    channels = image[3]
    groups, filters = groups or channels, filters or channels
    w = s.input("w", filters, rows or taps, taps, channels // groups)
    op = frontend.Conv2dOp(
        s.input("x", *image),
        w,
        layout="nhwc",
        stride=(stride, stride),
        padding=[padding] * 4,
        dilation=(dilation, dilation),
        groups=groups,
    )
    return s.done(y=s.fn("relu", s.add(op)))


def lowered(module: ModuleOp, last: str, plan: str | None = None, arch: str = "sm_90a") -> ModuleOp:
    found = parse_text(make_context(), str(module), "graph.mlir")
    for stage in STAGES:
        for name in STAGES[stage]:
            # The cost stores the windows of the smallest images.
            legal = IndexToRegion(fuse="legal") if name == "index-to-region" else None
            (legal or build(name, arch, plan)).apply(make_context(), found)
        if stage == last:
            break
    return found


def main_of(module: ModuleOp) -> KernelOp:
    *_, last = [op for op in module.walk() if isinstance(op, KernelOp)]
    return last


def planned(
    module: ModuleOp, folder: Path, last: str, arch: str = "sm_90a", **fields: Any
) -> ModuleOp:
    """The program whose last region slides windows."""
    region = main_of(lowered(module, "region")).sym_name.data
    *_, chosen = [op for op in lowered(module, "plan").walk() if isinstance(op, ScheduleOp)]
    # Of few points all axes are one, which has the one schedule that there is.
    variant = "flat" if chosen.variant.data == "flat" else "scalar"
    plan = {"region": region, "variant": variant, "algo_choice": {"loops": "windows"}}
    return lowered(module, last, written(folder, {**plan, **TILE, **fields}), arch)


def _window(built: Any) -> str:
    (found,) = [v.variant_name for v in built.dispatch().variants()]
    return found


def cases() -> list[dict[str, Any]]:
    """Some of a grid of parameters."""
    draw = random.Random(16)
    found: list[dict[str, Any]] = []
    for stride, dilation, multiplier in ((1, 1, 1), (2, 1, 1), (1, 2, 2), (2, 2, 1)):
        channels = draw.choice((8, 24))
        found.append(
            {
                "image": (draw.randint(1, 2), draw.randint(4, 5), draw.randint(7, 11), channels),
                "taps": draw.choice((3, 4)) if dilation == 1 else 3,
                "stride": stride,
                "dilation": dilation,
                "padding": draw.choice((1, 2)),
                "groups": channels,
                "filters": channels * multiplier,
            }
        )
    return found


@pytest.mark.turns(1)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_windows_compute_what_the_graph_means(case: dict[str, Any], tmp_path: Path) -> None:
    module = grouped(**case)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(planned(module, tmp_path, "gpu"))
    result = simulate(built, inputs, {}, _window(built))
    result.check()
    assert_agree(result.outputs, wanted)


def test_what_neighbours_share_is_read_once(tmp_path: Path) -> None:
    module = planned(grouped((2, 32, 32, 32), 5, padding=2), tmp_path, "tiles")
    maps = [op for op in module.walk() if isinstance(op, tile.MapOp)]
    held = [op.space.type for op in maps if op.space in op.outputs and op.input_maps[0].num_symbols]
    # A thread's eight rows of a vector read 8 + 5 - 1; the tile has one thread above each other.
    assert any(getattr(kind, "sizes", ()) == (12, 32) for kind in held)


def test_what_does_not_slide_is_read_at_each_point(tmp_path: Path) -> None:
    taps = 5
    module = planned(grouped((2, 32, 32, 32), taps, padding=2), tmp_path, "plan")
    region = main_of(module)
    (plan,) = [op for op in module.walk() if isinstance(op, ScheduleOp) and op.slides_windows]
    lowering = LoopsLowering(find_loops(region))
    builder = lowering.builder(plan, lowering.grids(plan))
    kernel = builder.build([BindAttr.tensor(index) for index in range(3)])
    read = [
        op.inputs[0]
        for op in kernel.walk()
        if isinstance(op, tile.MapOp) and len(op.inputs) == 1 and op.space in op.outputs
    ]
    # Along one axis of the window the image is there; the filter has a vector at each point.
    assert sorted(read.count(one) for one in set(read)) == [1, taps]


def test_a_large_one_is_planned_to_slide() -> None:
    found = lowered(grouped((32, 56, 56, 96), 7, padding=3), "plan")
    plans = [op for op in found.walk() if isinstance(op, ScheduleOp)]
    assert plans[-1].slides_windows and plans[-1].variant.data.startswith("window_")


def test_all_tiles_are_ones_that_a_plan_may_have() -> None:
    """Channels that no wide vector divides, as 702, have tiles of few rows and many columns."""
    window = find_window(find_loops(main_of(lowered(grouped((4, 14, 14, 702)), "region"))))
    assert window is not None
    for vector in (2, 4, 8):
        found = list(tiles(window, vector))
        assert found
        for one in found:
            assert tile_from((one.rows, one.columns), one.threads, vector) == one
    plans = list(lowered(grouped((4, 14, 14, 702)), "plan").walk())
    assert any(isinstance(op, ScheduleOp) and op.variant.data == "window_4" for op in plans)


def test_tiles_are_ranked_by_what_they_read() -> None:
    window = find_window(find_loops(main_of(lowered(grouped((32, 56, 56, 96)), "region"))))
    assert window is not None
    slid, still = shared_reads(window, 4)
    assert (slid, still) == (6 / 12, 1 / 4)
    best = ranked(window, 8, "sm_90a")[0]
    # 96 channels are three tiles of 32, and no thread is left over along them.
    assert best.columns == 32 and best.outputs >= 4


@pytest.mark.parametrize(
    "module",
    [
        grouped((1, 8, 16, 32), taps=1, padding=0),  # nothing slides
        grouped((8, 64, 64, 64), taps=3, stride=4),  # windows have nothing in common
        grouped((4, 30, 32, 64), taps=33, padding=16, rows=1),  # too long to be unrolled
        grouped((1, 8, 16, 32), groups=8),  # a group's channels lie beside its filters
    ],
    ids=["one tap", "apart", "long", "groups"],
)
def test_what_does_not_slide_is_refused(module: ModuleOp, tmp_path: Path) -> None:
    assert find_window(find_loops(main_of(lowered(module, "region")))) is None
    with pytest.raises(PolycError, match="slides windows where no reduction"):
        planned(module, tmp_path, "plan")


def test_a_tile_that_threads_do_not_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PolycError, match="windows slide by"):
        planned(grouped((1, 8, 16, 32)), tmp_path, "plan", warp_tile=[8, 32], tile=[8, 64, 1])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile_without_a_spill(arch: str) -> None:
    program = Program.compile(lowered(grouped((32, 56, 56, 96), 7, padding=3), "gpu", None, arch))
    assert any("window" in name for name in program.kernels)
    assert all(info.spill_bytes == 0 for info in program.kernels.values())
