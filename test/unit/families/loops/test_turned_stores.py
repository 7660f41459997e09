"""Outputs turned on their way to memory: what lies channels last, in vectors, stored in NCHW."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.region import KernelOp
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.schedules import schedules
from polyc.families.loops.tiles import warp_tile_of
from polyc.families.loops.turned_stores import find_turned_store, tile_of, vector_of, warps_of
from polyc.lowering.region_to_gpu.loops import LoopsLowering
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Size, Sketch
from polyc.test.support.split_programs import wanted_of, written
from polyc.test.unit.families.loops.test_lines import lowered


def pooled(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """Windows with room around, a bias of channels and a function, channels first."""
    s = Sketch("f", element)
    x, bias = s.input("x", *shape), s.input("bias", shape[-1])
    op = frontend.PoolOp("max", x, [1, 2], [3, 2], stride=[2, 2], padding=[1, 1, 0, 0])
    return s.done(y=s.permute(s.fn("exp", s.fn("add", s.add(op), bias)), 0, 3, 1, 2))


def phases(s: Sketch, *shape: Size) -> SSAValue:
    """An image of which every second row and column lies in a tensor of its own."""
    n, h, w, c = shape
    assert isinstance(h, int) and isinstance(w, int)
    parts = [s.reshape(s.input(name, *shape), n, h, 1, w, 1, c) for name in "pqrs"]
    above, below = s.concat(4, *parts[:2]), s.concat(4, *parts[2:])
    return s.reshape(s.concat(2, above, below), n, 2 * h, 2 * w, c)


def joined(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """The phases of an image side by side."""
    s = Sketch("f", element)
    return s.done(y=s.permute(s.fn("relu", phases(s, *shape)), 0, 3, 1, 2))


def cropped(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """The phases without the last row and column, as a transposed convolution leaves them."""
    _, h, w, _ = shape
    assert isinstance(h, int) and isinstance(w, int)
    s = Sketch("f", element)
    whole = s.cut(s.cut(phases(s, *shape), 1, 0, 2 * h - 1), 2, 0, 2 * w - 1)
    return s.done(y=s.permute(whole, 0, 3, 1, 2))


def pooled_phases(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """The mean of windows that have a pixel of each phase."""
    s = Sketch("f", element)
    whole = s.fn("add", phases(s, *shape), s.input("bias", shape[-1]))
    op = frontend.PoolOp("mean", whole, [1, 2], [2, 2], stride=[2, 2])
    return s.done(y=s.permute(s.add(op), 0, 3, 1, 2))


def both(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """Two outputs of three dimensions, of two windows; one is a condition."""
    s = Sketch("f", element)
    x = s.input("x", *shape)
    ends = [
        s.add(frontend.PoolOp(kind, x, [1, 2, 3], [2, 2, 2], stride=[2, 2, 2]))
        for kind in ("max", "mean")
    ]
    high, low = (s.permute(end, 0, 4, 1, 2, 3) for end in ends)
    above = s.add(frontend.CompareOp("gt", high, s.fn("neg", low)))
    return s.done(y=s.fn("sub", high, low), z=above)


MADE = {
    "pooled": pooled,
    "joined": joined,
    "cropped": cropped,
    "pooled_phases": pooled_phases,
    "both": both,
}
SMALL = {
    "pooled": (2, 9, 11, 8),
    "joined": (2, 3, 5, 8),
    "cropped": (2, 3, 5, 8),
    "pooled_phases": (2, 4, 5, 8),
    "both": (2, 4, 6, 6, 8),
}
LARGE = {
    "pooled": (64, 126, 126, 96),
    "joined": (32, 47, 55, 128),
    "cropped": (32, 47, 55, 128),
    "pooled_phases": (64, 47, 55, 64),
    "both": (16, 16, 32, 34, 64),
}


def region_of(module: ModuleOp) -> KernelOp:
    return only(lowered(module, "region"), KernelOp)


@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_what_lies_channels_last_is_stored_turned(what: str, element: Attribute) -> None:
    kernel = region_of(MADE[what](*LARGE[what], element=element))
    found = find_turned_store(find_loops(kernel))
    (plan,) = schedules(find_loops(kernel), "sm_90a")
    assert found is not None and plan.turns_outputs
    assert plan.variant.data == "turned" and plan.integer("vectorize") > 1
    assert plan.tile_sizes[:2] == tile_of(found)


def test_a_block_has_points_of_whole_images() -> None:
    """Rows and columns of an image are one axis, whatever their numbers are."""
    loops = find_loops(region_of(pooled(64, 125, 126, 96)))
    (plan,) = schedules(loops, "sm_90a")
    (grid,) = LoopsLowering(loops).grids(plan)
    assert [axis.size.constant() for axis in grid.axes] == [64, 63 * 63, 96]
    assert grid.tile == [1, *plan.tile_sizes[:2]]


def test_short_images_are_not() -> None:
    """Of four points a line would have no sector."""
    assert find_turned_store(find_loops(region_of(pooled(64, 3, 4, 96, element=f16)))) is None


def test_odd_channels_are_read_one_by_one_and_fill_their_tiles() -> None:
    kernel = region_of(pooled(64, 126, 126, 75))
    found = find_turned_store(find_loops(kernel))
    (plan,) = schedules(find_loops(kernel), "sm_90a")
    assert found is not None and plan.turns_outputs and plan.integer("vectorize") == 1
    # Of 75 channels tiles of 32 would have 21 empty, and those of 16 have 5.
    assert tile_of(found)[1] == 16


@pytest.mark.parametrize(
    ("made", "shape", "tile"),
    [
        (joined, (32, 47, 56, 128), (32, 64)),  # Whole sectors, and columns for two lines of them.
        (joined, (32, 47, 56, 32), (128, 32)),
        (cropped, (32, 47, 56, 128), (128, 32)),  # A line begins anywhere in a sector.
        (joined, (32, 2, 8, 96), (32, 32)),  # Few points.
    ],
)
def test_a_thread_has_several_vectors_of_what_is_plain(
    made: Callable[..., ModuleOp], shape: tuple[int, ...], tile: tuple[int, int]
) -> None:
    loops = find_loops(region_of(made(*shape)))
    found = find_turned_store(loops)
    assert found is not None and found.is_plain
    assert tile_of(found) == tile


def test_lines_that_are_no_whole_vectors_are_stored_turned() -> None:
    """One tensor of channels last, whose lines in NCHW are odd: loads are vectors still."""
    s = Sketch("f", f32)
    y = s.permute(s.input("x", 64, 129, 129, 128), 0, 3, 1, 2)
    (plan,) = schedules(find_loops(region_of(s.done(y=y))), "sm_90a")
    assert plan.turns_outputs and plan.integer("vectorize") == 4
    # Whole vectors, and no whole sectors.
    s = Sketch("f", f32)
    y = s.permute(s.input("x", 64, 130, 130, 128), 0, 3, 1, 2)
    (plan,) = schedules(find_loops(region_of(s.done(y=y))), "sm_90a")
    assert plan.turns_outputs and plan.tile_sizes[:2] == (128, 32)
    s = Sketch("f", f32)
    y = s.permute(s.input("x", 64, 128, 128, 128), 0, 3, 1, 2)
    (even, *_) = schedules(find_loops(region_of(s.done(y=y))), "sm_90a")
    assert not even.turns_outputs and even.integer("vectorize") == 4


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_four_blocks_find_room_and_none_spills(arch: str) -> None:
    for made, shape in ((joined, (32, 47, 56, 128)), (cropped, (32, 47, 56, 128))):
        program = Program.compile(lowered(made(*shape), "gpu", arch=arch))
        for info in program.kernels.values():
            assert info.registers <= 64 and not info.spill_bytes


def test_what_lies_as_its_outputs_do_is_not() -> None:
    s = Sketch("f", f32)
    op = frontend.PoolOp("max", s.input("x", 8, 64, 32, 32), [2, 3], [2, 2], stride=[2, 2])
    assert find_turned_store(find_loops(region_of(s.done(y=s.add(op))))) is None
    # Rows that threads part, and tensors that lie in both ways.
    s = Sketch("f", f32)
    x, z = s.input("x", 8, 32, 32, 64), s.input("z", 8, 64, 32, 32)
    assert (
        find_turned_store(find_loops(region_of(s.done(y=s.fn("add", s.permute(x, 0, 3, 1, 2), z)))))
        is None
    )


def test_one_tensor_is_turned_as_it_is_read() -> None:
    """What the model was measured with stays: nothing is reduced, and one tensor has a tile."""
    s = Sketch("f", f32)
    x = s.input("x", 8, 128, 128, 64)
    kernel = region_of(s.done(y=s.permute(s.fn("exp", x), 0, 3, 1, 2)))
    assert not any(plan.turns_outputs for plan in schedules(find_loops(kernel), "sm_90a"))


def planned(module: ModuleOp, folder: Path, last: str, **fields: Any) -> ModuleOp:
    """A module whose one region stores its outputs turned, in vectors of its channels."""
    region = region_of(module)
    found = find_turned_store(find_loops(region))
    plan: dict[str, Any] = {"region": region.sym_name.data, "algo_choice": {"loops": "turned"}}
    if found is not None:
        tile, vector = tile_of(found), vector_of(found)
        warps = warp_tile_of(tile, warps_of(tile, vector))
        plan |= {"tile": [*tile, 1], "warp_tile": warps, "vectorize": vector}
    return lowered(module, last, written(folder, {**plan, **fields}))


@pytest.mark.turns(3)
@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("element", [f32, f16], ids=str)
@pytest.mark.parametrize("channels", [16, 40, 17], ids=str)
def test_kernels_compute_what_the_graph_means(
    what: str, element: Attribute, channels: int, tmp_path: Path
) -> None:
    module = MADE[what](*SMALL[what][:-1], channels, element=element)
    assert_meant(module, tmp_path, {})


def assert_meant(module: ModuleOp, folder: Path, sizes: dict[str, int]) -> None:
    inputs, wanted = wanted_of(module, sizes)
    built = gpu_module_of(planned(module, folder, "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, sizes, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


def test_images_and_rows_may_be_of_any_number(tmp_path: Path) -> None:
    assert_meant(pooled("N", "H", 10, 24, element=f16), tmp_path, {"N": 2, "H": 13})


def test_what_few_points_read_is_loaded_by_these_alone(tmp_path: Path) -> None:
    """Of the phases of an image each is loaded under the condition of its rows and columns; in
    windows that have a pixel of each, at the point that has it."""
    module = planned(joined(2, 12, 20, 32), tmp_path, "gpu")
    kernel, *_ = find(module, gpu.KernelOp)
    loads = [op for op in kernel.walk() if isinstance(op, hw.LoadGlobalOp)]
    assert len(loads) == 4 and all(op.fill is not None for op in loads)
    assert len({op.predicate for op in loads}) == 4
    kernel, *_ = find(planned(pooled_phases(2, 12, 20, 32), tmp_path, "gpu"), gpu.KernelOp)
    loads = [op for op in kernel.walk() if isinstance(op, hw.LoadGlobalOp)]
    assert sum(op.tensor.name_hint in tuple("pqrs") for op in loads) == 4


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("what", MADE)
def test_kernels_compile_without_a_spill(arch: str, what: str) -> None:
    for element in (f32, f16):
        program = Program.compile(
            lowered(MADE[what](*LARGE[what], element=element), "gpu", None, arch)
        )
        assert any("turned" in name for name in program.kernels)
        assert all(info.spill_bytes == 0 for info in program.kernels.values())


def test_what_a_plan_may_not_say_is_refused(tmp_path: Path) -> None:
    module = pooled(*SMALL["pooled"])
    for fields, message in (
        ({"split_k": 2}, "tiles that are turned do not have"),
        ({"tile": [32, 8, 2]}, "has a tile of depth 2"),
        ({"warp_tile": [3, 8]}, "warp"),
    ):
        with pytest.raises(PolycError, match=message):
            planned(module, tmp_path, "plan", **fields)
    s = Sketch("f", f32)
    plain = s.done(y=s.fn("exp", s.input("x", 8, 16, 32)))
    with pytest.raises(PolycError, match="turns what it stores"):
        planned(plain, tmp_path, "plan")
