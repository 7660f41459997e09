"""Lines that are resampled: what a thread brings, where it finds it, and what is refused (S8)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.lines import LineTile
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.resampled import (
    Brought,
    Resampled,
    best,
    find_resampled,
    tiles,
    time_of,
)
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.lowered import assert_variants_agree
from polyc.test.support.sketch import Sketch, dim
from polyc.test.support.split_programs import wanted_of, written
from polyc.test.unit.families.loops.test_lines import Size, lowered


def resized(
    image: tuple[Size, int, Size, Size],
    to: tuple[Size, Size],
    mode: str = "nearest",
    element: Attribute = f16,
    coordinates: str = "half_pixel",
) -> ModuleOp:
    """An image as it lies in NCHW, resized, with work after it and a second operand."""
    s = Sketch("resized", element)
    x = s.input("x", *image)
    sizes = [dim(size) for size in to]
    op = frontend.ResizeOp(x, [2, 3], sizes, mode=mode, coordinates=coordinates)
    skip = s.input("skip", image[0], image[1], *to)
    return s.done(y=s.fn("add", s.add(op), skip))


def sliced(step: int, wide: int = 32) -> ModuleOp:
    """The sum of two pixels of each ``step`` of a line."""
    s = Sketch("sliced")
    x = s.input("x", 2, 3, 4, wide)
    parts = [
        s.add(frontend.SliceOp(x, [0, 0, 0, at], [2, 3, 4, wide - step + 1 + at], [1, 1, 1, step]))
        for at in (0, step - 1)
    ]
    return s.done(y=s.fn("add", *parts))


def interleaved(wide: int, element: Attribute = f16) -> ModuleOp:
    """Neighbours of a line turned against each other by an angle for each pair."""
    s = Sketch("interleaved", element)
    x = s.input("x", 2, 3, wide)
    cos, sin = s.input("cos", 3, wide // 2), s.input("sin", 3, wide // 2)
    sizes, steps = [2, 3, wide], [1, 1, 2]
    a, b = (s.add(frontend.SliceOp(x, [0, 0, at], sizes, steps)) for at in (0, 1))
    turned = (
        s.fn("sub", s.fn("mul", a, cos), s.fn("mul", b, sin)),
        s.fn("add", s.fn("mul", a, sin), s.fn("mul", b, cos)),
    )
    pairs = s.concat(3, *(s.reshape(one, 2, 3, wide // 2, 1) for one in turned))
    return s.done(y=s.reshape(pairs, 2, 3, wide))


def resampled_of(module: ModuleOp) -> Resampled | None:
    return find_resampled(find_loops(only(lowered(module, "region"), KernelOp)))


def planned(
    module: ModuleOp, folder: Path, last: str, own: LineTile, arch: str = "sm_90a", **fields: Any
) -> ModuleOp:
    """The program whose region resamples lines, by a tile of so many points a thread."""
    region = only(lowered(module, "region"), KernelOp).sym_name.data
    plan = {
        "region": region,
        "algo_choice": {"loops": "resampled"},
        "tile": [own.rows, own.columns, 1],
        "warp_tile": own.warp_tile,
        "vectorize": 1,
    }
    return lowered(module, last, written(folder, {**plan, **fields}), arch)


MODULES = {
    "twice": resized((2, 3, 4, 16), (8, 32)),
    "thrice": resized((1, 3, 4, 8), (12, 24)),
    "half as large again": resized((1, 2, 4, 16), (6, 24)),
    "odd": resized((1, 2, 5, 7), (7, 11), "linear"),
    "linear": resized((1, 3, 5, 16), (10, 32), "linear"),
    "linear in bf16": resized((1, 3, 5, 16), (10, 32), "linear", bf16),
    "between": resized((1, 2, 4, 8), (6, 12), "linear", f32),
    "corners": resized((1, 2, 3, 5), (5, 9), "linear", f32, "align_corners"),
    "smaller": resized((1, 2, 8, 32), (4, 16), "linear"),
    "a third": resized((1, 2, 6, 36), (2, 12), "linear", f32),
    "every second": sliced(2),
    "ends of four": sliced(4),
    "interleaved": interleaved(32),
    "interleaved in f32": interleaved(12, f32),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", MODULES)
def test_what_is_resampled_is_what_the_graph_means(name: str, tmp_path: Path) -> None:
    module = MODULES[name]
    inputs, wanted = wanted_of(module, {})
    found = resampled_of(module)
    assert found is not None
    every = list(tiles(found))
    draw = random.Random(name)
    for number, own in enumerate({every[0], draw.choice(every), every[-1]}):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert_variants_agree(gpu_module_of(planned(module, folder, "gpu", own)), inputs, wanted)


def test_an_infinity_and_a_number_that_is_none_stay_where_they_are(tmp_path: Path) -> None:
    """What a thread brings beside, or of an end, has no part in its other points."""
    module = resized((1, 1, 2, 16), (4, 32), "linear", f32)
    inputs, _ = wanted_of(module, {})
    x = next(a for a in inputs if a.shape == (1, 1, 2, 16))
    x[0, 0, 0, 5], x[0, 0, 1, 15] = np.inf, np.nan
    found = resampled_of(module)
    assert found is not None
    own = next(tile for tile in tiles(found) if tile.outputs == 8)
    built = gpu_module_of(planned(module, tmp_path, "gpu", own))
    variant = built.dispatch().variants()[0]
    result = simulate(built, inputs, {}, variant.variant_name)
    result.check()
    (y,) = result.outputs
    # Pixels 9 to 12 of a line are between 4 and 6, and the last three between 14 and 15 or behind.
    lines = [[i for i, v in enumerate(line) if not np.isfinite(v)] for line in y[0, 0]]
    assert lines[0] == [9, 10, 11, 12] and lines[3] == [29, 30, 31]


@pytest.mark.parametrize("element", [f16, f32])
def test_neighbours_that_are_interleaved_are_read_and_stored_in_vectors(element: Attribute) -> None:
    """A thread has several pairs, and finds 0, 0, 2, 2, 4, 4 and so on in its registers."""
    found = resampled_of(interleaved(128, element))
    assert found is not None
    own = {tile.outputs for tile in tiles(found)}
    assert own >= {2, 4, 8}
    (x,) = (one for one in found.resamples if len(one.places) == 2)
    brought = Brought.of(x, next(tile for tile in tiles(found) if tile.outputs == 8))
    assert (brought.span, brought.beside) == (8, 8)
    assert brought.vector == (8 if element == f16 else 4)


def test_lines_of_any_number_of_images_are_shared_by_a_tile() -> None:
    module = resized(("N", 3, 5, 10), (10, 20))
    plans = find(lowered(module, "plan"), ScheduleOp)
    (plan,) = [p for p in plans if p.resamples_lines]
    assert not plan.when.data
    built = gpu_module_of(lowered(module, "gpu"))
    name = next(
        v.variant_name for v in built.dispatch().variants() if "resampled" in v.variant_name
    )
    for images in (1, 7):
        inputs, wanted = wanted_of(module, {"N": images})
        result = simulate(built, inputs, {"N": images}, name, schedule="random")
        result.check()
        assert_agree(result.outputs, wanted)


def test_what_neighbours_read_comes_once_and_in_vectors(tmp_path: Path) -> None:
    module = resized((32, 64, 16, 64), (32, 128), "linear")
    found = resampled_of(module)
    assert found is not None
    # Two lines of the image, above and below, and the other operand; an element serves two points.
    assert len(found.resamples) == 3 and found.period == 2 and not found.others
    own = next(tile for tile in tiles(found) if tile.outputs == 8)
    image = next(one for one in found.resamples if len(one.reads) > 1)
    # From the vector with the element before a thread's own four on to that with the one behind.
    assert Brought.of(image, own) == Brought(first=-4, span=12, beside=4, vector=4)
    built = gpu_module_of(planned(module, tmp_path, "gpu", own, vectorize=8))
    text = "".join(cuda_units(built))
    assert "load_global_nc_f16x4" in text and "store_global_f16x8" in text
    assert "load_global_nc_f16_if" not in text and "load_global_nc_f16(" not in text


def test_a_line_may_have_one_point() -> None:
    """What it is brought for is several elements all the same, in a vector wider than the tile."""
    module = resized((2, 2, 4, 4), (1, 1), "cubic", f32)
    inputs, wanted = wanted_of(module, {})
    assert_variants_agree(gpu_module_of(lowered(module, "gpu")), inputs, wanted)


def test_tiles_are_chosen_by_what_they_take() -> None:
    module = resized((8, 64, 64, 64), (128, 128))
    found = resampled_of(module)
    assert found is not None
    loops = find_loops(only(lowered(module, "region"), KernelOp))
    chosen = best(loops, found, "sm_90a")
    assert chosen is not None and chosen.outputs % 8 == 0  # Whole vectors are stored.
    times: dict[int, float] = {}
    for tile in tiles(found):
        taken = time_of(found, tile, 8, [2], "sm_90a")
        times[tile.outputs] = min(times.get(tile.outputs, taken), taken)
    assert times[chosen.outputs] == min(times.values()) and times[2] > times[8]


def test_a_linear_resize_is_one_kernel_of_four_reads() -> None:
    """The partition asks the model of time: rows between are not stored."""
    s = Sketch("twice")
    op = frontend.ResizeOp(s.input("x", 2, 320, 64, 64), [2, 3], [128, 128], mode="linear")
    found = lowered(s.done(y=s.add(op)), "plan")
    (plan,) = find(found, ScheduleOp)
    assert plan.resamples_lines
    assert len(find(found, KernelOp)) == 1


@pytest.mark.parametrize(
    "module",
    [
        resized((1, 2, 4, 90), (4, 128)),  # 64 neighbours have 45 elements
        resized((1, 2, 4, "W"), (4, "W")),  # element by element
        sliced(9, 36),  # most of what lies together is nobody's
    ],
    ids=["long period", "plain", "far"],
)
def test_what_is_not_resampled_is_refused(module: ModuleOp, tmp_path: Path) -> None:
    found = resampled_of(module)
    assert found is None or not list(tiles(found))
    with pytest.raises(PolycError, match=r"resamples lines, where nothing is read|repeats"):
        planned(module, tmp_path, "plan", LineTile(32, 64, 8))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"warp_tile": [16, 32]}, "threads resample lines by 8x64 a warp"),
        ({"tile": [32, 72, 1], "warp_tile": [4, 72]}, "repeats after 2"),
        ({"split_k": 2}, "asks for a split_k"),
    ],
)
def test_plans_that_resampled_lines_do_not_have_are_refused(
    fields: dict[str, Any], why: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError, match=why):
        planned(MODULES["twice"], tmp_path, "plan", LineTile(32, 64, 8), **fields)


@pytest.mark.turns(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", ["thrice", "linear", "linear in bf16", "corners", "ends of four"])
def test_kernels_compile_without_a_spill(name: str, arch: str, tmp_path: Path) -> None:
    module = MODULES[name]
    found = resampled_of(module)
    assert found is not None
    own = list(tiles(found))[-1]
    program = Program.compile(planned(module, tmp_path, "gpu", own, arch))
    assert program.kernels
    assert all(info.spill_bytes == 0 for info in program.kernels.values())
