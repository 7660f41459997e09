"""Windows as loops: which axes a tile has, vectors of channels, filters turned (S8, S9.3)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects.builtin import ModuleOp, f32

from polyc.dialects import frontend
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, ReadOp
from polyc.families.loops.recognise import find_loops, spaces_of
from polyc.lowering.index_to_region.contractions import TURNED
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.playback.reference import make_inputs
from polyc.rewriting.region.compose import guards_bounds
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import only
from polyc.test.support.loop_programs import without_least_points
from polyc.test.support.sketch import Sketch
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context


def depthwise(
    image: Sequence[int | str],
    taps: int = 3,
    stride: int = 1,
    padding: int = 1,
    layout: str = "nhwc",
) -> ModuleOp:
    s = Sketch("depthwise")
    x = s.input("x", *image)
    channels = image[3 if layout == "nhwc" else 1]
    shape = (channels, taps, taps, 1) if layout == "nhwc" else (channels, 1, taps, taps)
    w = s.input("w", *shape)
    op = frontend.Conv2dOp(
        x,
        w,
        layout=layout,
        stride=(stride, stride),
        padding=[padding] * 4,
        dilation=(1, 1),
        groups=int(channels),
    )
    return s.done(y=s.fn("relu", s.add(op)))


def lowered(module: ModuleOp, until: str, arch: str = "sm_90a") -> ModuleOp:
    found = parse_text(make_context(), str(module), "graph.mlir")
    for stage in ("tiny", "index", "region", "plan", "tiles", "gpu"):
        for name in STAGES[stage]:
            build(name, arch).apply(make_context(), found)
        if stage == until:
            break
        without_least_points(found)
    return found


def kernels(module: ModuleOp) -> list[KernelOp]:
    return [op for op in module.walk() if isinstance(op, KernelOp)]


def test_a_filter_is_turned_so_that_channels_lie_together() -> None:
    copy, main = kernels(lowered(depthwise(("B", 56, 56, 128)), "region"))
    assert [d for d in map(str, copy.outs.data[0].shape) if d != "1"] == ["9", "128"]
    assert find_loops(main).kernel is main


def test_the_reason_for_a_turned_filter_is_said() -> None:
    module = lowered(depthwise(("B", 56, 56, 128)), "region")
    assert TURNED in str(module)


def test_weights_of_f32_are_read_as_they_lie() -> None:
    """Threads multiply tiles of either order: no copy has neighbours beside each other."""
    s = Sketch("dense", f32)
    x = s.input("x", 512, 64)
    few, many = (s.linear(v, n, 96) for v, n in ((s.cut(x, 0, 0, 32), "few"), (x, "many")))
    assert len(kernels(lowered(s.done(y=many, z=few), "region"))) == 2


@pytest.mark.parametrize(
    "module",
    [
        depthwise((1, 128, 56, 56), layout="nchw"),  # pixels lie together, as the image's do
        depthwise((1, 4, 4, 65536)),  # the filter has as many elements as the product
    ],
    ids=["channels first", "a large filter"],
)
def test_other_filters_lie_as_they_are(module: ModuleOp) -> None:
    assert len(kernels(lowered(module, "region"))) == 1


def test_tiles_run_along_what_windows_slide_along() -> None:
    *_, main = kernels(lowered(depthwise(("B", 56, 56, 128)), "region"))
    (space,) = spaces_of(find_loops(main).expanded)
    pixels, channels = (axis.label for axis in main.iters.data[2:])
    assert (space.row, space.column) == (pixels, channels)


def test_three_taps_are_not_parted_by_a_warp() -> None:
    """A lane would have none: the row of pixels stays the tile's columns."""
    (main,) = kernels(lowered(depthwise((1, 128, 56, 56), layout="nchw"), "region"))
    (space,) = spaces_of(find_loops(main).expanded)
    assert (space.row, space.column) == tuple(axis.label for axis in main.iters.data[2:])


def test_a_long_sum_is_parted_by_a_warp() -> None:
    s = Sketch("sums")
    x = s.input("x", "B", 7, 4096)
    (main,) = kernels(lowered(s.done(y=s.reduce("sum", x, 0, 2)), "region"))
    (space,) = spaces_of(find_loops(main).expanded)
    assert space.column is None


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_a_guard_that_says_what_is_inside_is_known(padding: int) -> None:
    *_, main = kernels(lowered(depthwise(("B", 8, 8, 1024), padding=padding), "region"))
    reads = [op for op in main.walk() if isinstance(op, ReadOp)]
    assert any(read.guard is not None for read in reads) == (padding > 0)
    assert all(guards_bounds(main, read) for read in reads)


def test_a_guard_inside_of_the_tensor_is_kept() -> None:
    s = Sketch("middle")
    x = s.input("x", "M", 8)
    inner = s.cut(x, 1, 2, 6)
    module = s.done(y=s.concat(1, inner, inner))
    (main,) = kernels(lowered(module, "region"))
    guarded = [op for op in main.walk() if isinstance(op, ReadOp) and op.guard is not None]
    assert guarded and not any(guards_bounds(main, read) for read in guarded)


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("image", "taps", "stride", "padding", "layout"),
    [
        (("B", 9, 10, 16), 3, 1, 1, "nhwc"),
        (("B", 9, 10, 16), 3, 2, 1, "nhwc"),
        (("B", 11, 9, 8), 5, 1, 2, "nhwc"),
        (("B", 9, 10, 12), 3, 1, 0, "nhwc"),
        (("B", 6, 9, 16), 3, 1, 1, "nchw"),
    ],
)
def test_windows_compute_what_the_graph_means(
    image: Sequence[int | str], taps: int, stride: int, padding: int, layout: str
) -> None:
    module = depthwise(image, taps, stride, padding, layout)
    frontend_module = parse_text(make_context(), str(module), "graph.mlir")
    sizes = {"B": 2}
    inputs = make_inputs(only(frontend_module, frontend.GraphOp), sizes, 4)
    wanted = meant(frontend_module, inputs, sizes)
    built = gpu_module_of(lowered(module, "gpu"))
    for variant in built.dispatch().variants():
        if all(fact.holds(sizes) for fact in variant.facts.data):
            result = simulate(built, inputs, sizes, variant.variant_name)
            result.check()
            assert_agree(result.outputs, wanted)


def test_accesses_of_channels_are_vectors() -> None:
    module = lowered(depthwise(("B", 56, 56, 128)), "plan")
    last = kernels(module)[-1].sym_name.data
    plans = [op for op in module.walk() if isinstance(op, ScheduleOp)]
    of_last = [p.integer("vectorize") for p in plans if p.region.string_value() == last]
    assert of_last[0] == 8
