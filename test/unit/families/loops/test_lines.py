"""Windows that slide along lines: what is shared, and what is refused (S8, S9.3)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import Float16Type, Float32Type, ModuleOp, f16, f32

from polyc.cost.time import modelled
from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu.types import element_bytes
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.lines import (
    Lines,
    LineTile,
    best,
    find_lines,
    is_held,
    tile_from,
    tiles,
    time_of,
    touched,
)
from polyc.families.loops.recognise import find_loops
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import wanted_of, written
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Size = int | str


def depthwise(
    image: tuple[Size, int, Size, Size],
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


@pytest.mark.turns(1)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_windows_compute_what_the_graph_means(case: dict[str, Any], tmp_path: Path) -> None:
    module = depthwise(**case)
    inputs, wanted = wanted_of(module, {})
    lines = lines_of(module)
    assert lines is not None
    every = list(tiles(lines))
    for number, own in enumerate((every[0], random.Random(str(case)).choice(every[1:]))):
        folder = tmp_path / str(number)
        folder.mkdir()
        built = gpu_module_of(planned(module, folder, "gpu", own))
        (variant,) = built.dispatch().variants()
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


def test_lines_of_any_number_of_images_are_shared_by_a_tile() -> None:
    """Where images are open, what lies beyond the last line is not read nor written."""
    module = depthwise(("N", 3, 5, 10))
    plans = find(lowered(module, "plan"), ScheduleOp)
    (plan,) = [p for p in plans if p.slides_lines]
    # Ten pixels a line are five pairs, or one thread's; a tile has lines of several images.
    assert plan.variant.data == "line_10" and plan.tile_sizes[0] > 3 * 5
    assert not plan.when.data
    built = gpu_module_of(lowered(module, "gpu"))
    name = next(v.variant_name for v in built.dispatch().variants() if "line" in v.variant_name)
    for images in (1, 18):
        inputs, wanted = wanted_of(module, {"N": images})
        result = simulate(built, inputs, {"N": images}, name, schedule="random")
        result.check()
        assert_agree(result.outputs, wanted)


def test_what_neighbours_share_is_read_once_and_in_vectors(tmp_path: Path) -> None:
    lines = lines_of(depthwise((1, 8, 16, 64), 5, padding=2))
    assert lines is not None and (lines.taps, lines.steps) == (5, 5)
    own, (image,) = LineTile(32, 64, 8), lines.sliding
    # Two pixels before a thread's first one, the whole vector of which lies before its own.
    assert (own.vector(image), own.before(image), own.span(image, 5)) == (8, 6, 24)
    half = LineTile(32, 64, 4)
    assert (half.vector(image), half.before(image), half.span(image, 5)) == (4, 2, 12)
    text = "".join(
        cuda_units(
            gpu_module_of(planned(depthwise((1, 8, 16, 64), 5, padding=2), tmp_path, "gpu", own))
        )
    )
    assert "load_global_nc_f16x8" in text and "store_global_f16x8" in text


def test_tiles_are_chosen_by_what_they_take() -> None:
    many, few = (lines_of(depthwise((n, 96, 14, 14))) for n in (640, 1))
    assert many is not None and few is not None
    # Many lines go whole to a thread each, and of few of them a thread has a pixel or two.
    assert [t.outputs for t in tiles(many)] == [14, 8, 7, 4, 2, 1]
    found = [best(lines, "sm_90a") for lines in (many, few)]
    whole, part = (tile.outputs for tile in found if tile is not None)
    assert whole == 14 and part <= 2
    longer = lines_of(depthwise((640, 96, 14, 14), 7, padding=3))
    assert longer is not None
    own = LineTile(256, 14, 14)
    assert time_of(longer, own, "sm_90a") > time_of(many, own, "sm_90a")


def test_pieces_that_a_warp_reaches_at_once() -> None:
    whole, part = LineTile(8, 64, 2), LineTile(256, 2, 2)
    # Neighbours of a line are neighbours in memory; 32 lines of which each has two points are not.
    assert touched(4, 32, whole, 64) == 4 and touched(4, 32, part, 78) == 32
    assert touched(64, 32, whole, 64) == touched(64, 32, part, 2) == 32
    assert touched(4, 32, part, 2) == touched(4, 32, part, None) == 4
    assert touched(0.5, 32, LineTile(8, 64, 2), None) == 1


def test_beside_places_of_64_bits_a_thread_has_fewer_points() -> None:
    """Its vectors are stored between its neighbours', each in a sector of its own."""
    lines = lines_of(depthwise((64, 64, 112, 112), stride=2))
    assert lines is not None

    def outputs(lines: Lines, sizes: list[int]) -> int:
        return min(tiles(lines), key=lambda t: time_of(lines, t, "sm_90a", sizes)).outputs

    assert outputs(lines, [2, 8]) < outputs(lines, [2])


Float = Float16Type | Float32Type


def pooled(
    shape: tuple[int, ...],
    element: Float,
    size: int,
    step: int,
    *,
    places: bool = False,
) -> ModuleOp:
    """The maximum of windows of each side, with its place for ``places``."""
    s = Sketch("pool")
    x, sides = s.input("x", *shape, element=element), list(range(2, len(shape)))
    how: dict[str, Any] = {"stride": [step] * len(sides)}
    how |= {"padding": [size // 2 if size % 2 or step == 1 else 0] * 2 * len(sides)}
    args = "max", x, sides, [size] * len(sides)
    outputs = {"y": s.add(frontend.PoolOp(*args, **how))}
    if places:
        outputs["at"] = s.add(frontend.ArgPoolOp(*args, **how))
    return s.done(**outputs)


STEM, HALVES_OF = ((64, 64, 112, 112), 3), ((8, 128, 128, 128), 2)


@pytest.mark.parametrize(
    ("pool", "element", "times"),
    [
        (STEM, f32, {2: 120.5, 4: 132.3, 1: 133.5}),
        (HALVES_OF, f16, {2: 26.8, 1: 28.2, 4: 32.6}),
    ],
    ids=["stem, f32", "halves, f16"],
)
def test_tiles_of_places_are_in_the_order_of_their_times(
    pool: tuple[tuple[int, ...], int], element: Float, times: dict[int, float]
) -> None:
    """Microseconds of an H100, by the points of a thread."""
    shape, size = pool
    lines = lines_of(pooled(shape, element, size, 2, places=True))
    assert lines is not None
    sizes = [element_bytes(element), 8]
    found = {t.outputs: time_of(lines, t, "sm_90a", sizes) for t in tiles(lines)}
    assert sorted(times, key=lambda n: found[n]) == sorted(times, key=lambda n: times[n])
    assert min(found, key=lambda n: found[n]) == min(times, key=lambda n: times[n])


@pytest.mark.parametrize("size", [2, 8])
def test_lines_of_odd_length_are_stored_by_few_points_of_a_thread(size: int) -> None:
    """Each of many stores of a thread has a part of a sector, unless L2 waits for all of them."""
    chosen: list[LineTile] = []
    for images in (64, 2):
        lines = lines_of(pooled((images, 64, 32768), f32, size, 1))
        assert lines is not None and lines.line.constant() == 32769
        assert is_held(lines, [4], "sm_90a") == (images == 2)
        times = {tile: time_of(lines, tile, "sm_90a", [4]) for tile in tiles(lines)}
        chosen.append(min(times, key=lambda tile: times[tile]))
    many, few = chosen
    assert many.outputs <= 2 <= few.outputs
    # Windows along a line alone share nothing with those of other lines.
    assert many.rows == 1 and many.threads == 256


def test_a_block_may_have_one_line(tmp_path: Path) -> None:
    module = pooled((2, 3, 600), f32, 8, 1)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(planned(module, tmp_path, "gpu", LineTile(1, 512, 2)))
    (variant,) = built.dispatch().variants()
    result = simulate(built, inputs, {}, variant.variant_name)
    result.check()
    assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("shape", "size", "step"), [((64, 64, 32768), 8, 1), ((16, 64, 128, 128), 2, 2)]
)
def test_pools_compile_without_a_spill(
    shape: tuple[int, ...], size: int, step: int, arch: str
) -> None:
    program = Program.compile(lowered(pooled(shape, f32, size, step), "gpu", None, arch))
    assert all("line" in name for name in program.kernels)
    assert all(info.spill_bytes == 0 for info in program.kernels.values())


def test_windows_that_part_a_line_slide_along_it() -> None:
    """Halves of an image: a thread brings both elements of each of its windows in vectors."""
    lines = lines_of(pooled((8, 64, 64, 64), f16, 2, 2))
    assert lines is not None and (lines.taps, lines.steps) == (2, 2)
    assert LineTile(64, 32, 8).vector(lines.sliding[0]) == 8


def test_a_convolution_of_each_channel_stays_where_it_lies() -> None:
    """The partition asks the model of time: copies to channels last and back take more."""
    found = lowered(depthwise((32, 64, 56, 56)), "plan")
    (plan,) = (p for p in find(found, ScheduleOp))
    assert plan.slides_lines and len(find(found, KernelOp)) == 1
    whole = modelled(only(found, KernelOp), plan, {})
    assert whole.seconds < 2.5 * whole.memory


@pytest.mark.parametrize(
    "module",
    [
        depthwise((2, 8, 16, 32), taps=1, padding=0),  # nothing slides
        depthwise((2, 8, 64, 64), taps=3, stride=4),  # windows have nothing in common
        depthwise((2, 8, "H", 32)),  # the number of a channel's lines is open
        depthwise((2, 0, 8, 32)),  # there are none
    ],
    ids=["one tap", "apart", "open", "empty"],
)
def test_what_does_not_slide_along_lines_is_refused(module: ModuleOp, tmp_path: Path) -> None:
    assert lines_of(module) is None
    with pytest.raises(PolycError, match="where no reduction of known size slides along those"):
        planned(module, tmp_path, "plan", LineTile(32, 64, 8), vectorize=1)


def test_lines_of_an_open_length_have_no_plan() -> None:
    lines = lines_of(depthwise((2, 8, 16, "W")))
    assert lines is not None and best(lines, "sm_90a") is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"warp_tile": [16, 32]}, "windows slide along lines by 8x64 a warp"),
        ({"tile": [32, 48, 1], "warp_tile": [32, 16]}, "by points of one line a thread a warp"),
        ({"split_k": 2}, "asks for a split_k"),
    ],
)
def test_plans_that_lines_do_not_have_are_refused(
    fields: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError, match=why):
        planned(depthwise((2, 8, 16, 64)), tmp_path, "plan", LineTile(32, 64, 8), **fields)


def test_threads_that_share_no_lines_evenly_have_no_tile() -> None:
    assert tile_from((32, 64), 256) == LineTile(32, 64, 8)
    assert tile_from((32, 56), 224) is None  # seven threads a line
    assert tile_from((3, 64), 24) is None and tile_from((32, 64), 100) is None


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("image", [(32, 96, 56, 56), (32, 64, 7, 7)])
def test_kernels_compile_without_a_spill(image: tuple[int, int, int, int], arch: str) -> None:
    program = Program.compile(lowered(depthwise(image, 7, padding=3), "gpu", None, arch))
    assert any("line" in name for name in program.kernels)
    assert all(info.spill_bytes == 0 for info in program.kernels.values())


@pytest.mark.parametrize("element", ["i8", "f32"])
def test_other_reductions_and_types_slide_too(element: str) -> None:
    """The largest of windows, as of pooling where nothing lies outside."""
    x, y = (f"!frontend.tensor<[2, 3, {n}], {element}>" for n in ("9, 16", "7, 14"))
    text = f"""frontend.graph @pool(%x: {x}) -> (y: {y}) {{
  %0 = frontend.pool max %x axes [2, 3] size [3, 3] stride [1, 1] padding [0, 0, 0, 0]
      dilation [1, 1] : {x} -> {y}
  frontend.output %0 : {y}
}}"""
    module = parse_text(make_context(), text, "pool.mlir")
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "gpu"))
    (variant,) = built.dispatch().variants()
    assert "line" in variant.variant_name
    result = simulate(built, inputs, {}, variant.variant_name)
    result.check()
    assert_agree(result.outputs, wanted)


@pytest.mark.turns(1)
@pytest.mark.parametrize("element", ["i8", "f16", "f32", "bf16"])
@pytest.mark.parametrize("fn", ["max", "min"])
def test_what_is_outside_of_an_extreme_comes_with_the_load(fn: str, element: str) -> None:
    """No element is chosen: a vector is inside, or each of it is the number that is outside."""
    x, y = (f"!frontend.tensor<[2, 3, {n}], {element}>" for n in ("9, 16", "5, 8"))
    text = f"""frontend.graph @pool(%x: {x}) -> (y: {y}) {{
  %0 = frontend.pool {fn} %x axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1]
      dilation [1, 1] : {x} -> {y}
  frontend.output %0 : {y}
}}"""
    module = parse_text(make_context(), text, "pool.mlir")
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(lowered(module, "gpu"))
    (variant,) = built.dispatch().variants()
    assert "line" in variant.variant_name
    assert "_if_else(" in "".join(cuda_units(built))
    result = simulate(built, inputs, {}, variant.variant_name)
    result.check()
    assert_agree(result.outputs, wanted)


HALVES = "axes [2, 3] size [3, 3] stride [2, 2] padding [1, 1, 1, 1] dilation [1, 1]"


@pytest.mark.turns(1)
@pytest.mark.parametrize("fn", ["max", "min"])
@pytest.mark.parametrize("first", ["pool", "arg_pool"])
def test_an_extreme_and_its_place_are_of_one_reduction(fn: str, first: str) -> None:
    """The element is taken out of the key that its place is in, and both are stored at once."""
    x, y, z = (f"!frontend.tensor<[{n}], {e}>" for n, e in WITH_PLACES)
    ops = [f"%0 = frontend.pool {fn} %x {HALVES} : {x} -> {y}"]
    ops.append(f"%1 = frontend.arg_pool {fn} %x {HALVES} : {x} -> {z}")
    both = "\n  ".join(ops if first == "pool" else ops[::-1])
    text = f"""frontend.graph @pool(%x: {x}) -> (y: {y}, z: {z}) {{
  {both}
  frontend.output %0, %1 : {y}, {z}
}}"""
    module = parse_text(make_context(), text, "pool.mlir")
    lines = lines_of(module)
    assert lines is not None and len(lines.every) == 1
    _agrees(module, ends=True)


def test_two_reductions_are_one_kernel() -> None:
    """Several reductions slide one after another, and what both are of is stored once."""
    x, y, _ = (f"!frontend.tensor<[{n}], {e}>" for n, e in WITH_PLACES)
    text = f"""frontend.graph @pool(%x: {x}) -> (y: {y}, z: {y}) {{
  %0 = frontend.pool max %x {HALVES} : {x} -> {y}
  %1 = frontend.pool min %x {HALVES} : {x} -> {y}
  frontend.output %0, %1 : {y}, {y}
}}"""
    module = parse_text(make_context(), text, "pool.mlir")
    lines = lines_of(module)
    assert lines is not None and len(lines.every) == 2
    _agrees(module, ends=False)


def _agrees(module: ModuleOp, ends: bool) -> None:
    """That the kernel computes what the graph means, of NaN and equal elements too."""
    inputs, _ = wanted_of(module, {})
    inputs[0][0, 0, :3, :4] = np.nan
    inputs[0][1, 2, 4:, 8:] = 1.0
    if ends:
        inputs[0][0, 1, 4, 4:8] = (np.inf, -np.inf, -0.0, 0.0)
    wanted = meant(module, inputs, {})
    built = gpu_module_of(lowered(module, "gpu"))
    (variant,) = built.dispatch().variants()
    assert "line" in variant.variant_name
    result = simulate(built, inputs, {}, variant.variant_name)
    result.check()
    assert_agree(result.outputs, wanted)


WITH_PLACES = (("2, 3, 9, 16", "f16"), ("2, 3, 5, 8", "f16"), ("2, 3, 5, 8", "i64"))
