"""All points as one axis: small images fill tiles, and kernels compute what graphs mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Attribute

from polyc.cost.loops import TORN, loops_work
from polyc.cost.values import Values
from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.families.loops.flat import find_flat
from polyc.families.loops.recognise import find_loops
from polyc.families.loops.schedules import schedules
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.runtime.program import Program
from polyc.test.support.agreeing import assert_agree
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch, dim
from polyc.test.support.split_programs import wanted_of, written
from polyc.test.unit.families.loops.test_lines import Size, lowered
from polyc.tuning.candidates import laid


def adaptive(*shape: Size, element: Attribute = f32) -> ModuleOp:
    s = Sketch("f", element)
    op = frontend.AdaptivePoolOp("mean", s.input("x", *shape), [2, 3], [7, 7])
    return s.done(y=s.fn("relu", s.add(op)))


def pool(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """Windows of channels last, of which there are three."""
    s = Sketch("f", element)
    op = frontend.PoolOp(
        "max", s.input("x", *shape), [1, 2], [3, 2], stride=[2, 1], padding=[1, 1, 0, 0]
    )
    return s.done(y=s.add(op))


def moved(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """Pixels of small images shuffled into channels, with room around."""
    s = Sketch("f", element)
    n, c, h, w = shape
    assert isinstance(h, int) and isinstance(w, int)
    x = s.add(frontend.ReshapeOp(s.input("x", *shape), [*map(dim, (n, c, h // 2, 2, w // 3, 3))]))
    x = s.add(frontend.PermuteOp(x, [0, 3, 5, 1, 2, 4]))
    return s.done(y=s.fn("exp", x))


def butterfly(*shape: Size, element: Attribute = f32) -> ModuleOp:
    """Three steps of sums of halves of lines, each with factors of its own: loops sum in loops."""
    s = Sketch("f", element)
    n, d = shape
    assert isinstance(d, int)
    x = s.input("x", n, d)
    for name, half in (("t", 2), ("u", 4), ("v", 8)):
        parts = d // half // 2
        y = s.fn("mul", s.input(name, parts, 2, 2, half), s.reshape(x, n, parts, 1, 2, half))
        x = s.reshape(s.reduce("sum", y, 3), n, d)
    return s.done(y=x)


MADE = {"adaptive": adaptive, "pool": pool, "moved": moved, "butterfly": butterfly}
SMALL: dict[str, tuple[int, ...]] = {
    "adaptive": (2, 3, 9, 11),
    "pool": (2, 6, 5, 3),
    "moved": (3, 5, 4, 6),
    "butterfly": (5, 48),
}
LARGE: dict[str, tuple[int, ...]] = {
    "adaptive": (64, 256, 13, 13),
    "pool": (64, 33, 35, 3),
    "moved": (512, 64, 14, 6),
    "butterfly": (4096, 256),
}


@pytest.mark.parametrize("what", ["adaptive", "pool", "butterfly"])
def test_small_images_are_one_axis(what: str) -> None:
    """Where a tile would have more of threads that are idle, or blocks that end as they begin."""
    kernel, *_ = find(lowered(MADE[what](*LARGE[what], element=f16), "region"), KernelOp)
    (plan,) = schedules(find_loops(kernel), "sm_90a")
    assert plan.is_flat and plan.variant.data == "flat" and plan.tile_sizes[0] == 1


def test_open_sizes_and_long_lines_are_not() -> None:
    kernel = only(lowered(adaptive("N", 256, 13, 13), "region"), KernelOp)
    assert find_flat(find_loops(kernel)) is None
    kernel = only(lowered(pool(8, 224, 224, 64, element=f16), "region"), KernelOp)
    assert not any(plan.is_flat for plan in schedules(find_loops(kernel), "sm_90a"))


def test_joined_lines_that_are_no_whole_sectors_are_not_torn() -> None:
    """As every second point of a tensor is another's: pieces of lines would begin within sectors,
    and all points as one axis have none."""
    s = Sketch("f", f32)
    x, y = (s.reshape(s.input(name, 16, 64, 131073), 16, 64, 131073, 1) for name in "xy")
    both = s.reshape(s.concat(3, x, y), 16, 64, 262146)
    module = s.done(z=s.cut(both, 2, 1, 262146))
    loops = find_loops(only(lowered(module, "region"), KernelOp))
    (plan,) = schedules(loops, "sm_90a")
    assert plan.is_flat
    # Two tensors are read in pieces of every second point, and the outputs stored in them.
    narrow, wide = torn(loops.kernel, 32, 32), torn(loops.kernel, 8, 128)
    assert narrow == 16 * 64 * 8193 * 5 * TORN and wide == 16 * 64 * 2049 * 5 * TORN


def torn(kernel: KernelOp, rows: int, columns: int) -> float:
    """Bytes that memory moves more, where threads compute by tiles of lines."""
    fields: dict[str, object] = {
        "tile": [rows, columns, 1],
        "warp_tile": [rows // 8, columns],
        "algo_choice": {"loops": "serial"},
    }
    return loops_work(Values(kernel, {}), laid(kernel, "sm_90a", fields, (), "own"), 6).again


def planned(module: ModuleOp, folder: Path, last: str, **fields: Any) -> ModuleOp:
    """A module whose first region has all points as one axis."""
    region = find(lowered(module, "region"), KernelOp)[0].sym_name.data
    plan = {
        "region": region,
        "algo_choice": {"loops": "flat"},
        "tile": [1, 64, 1],
        "warp_tile": [1, 32],
        "vectorize": 1,
    }
    return lowered(module, last, written(folder, {**plan, **fields}))


@pytest.mark.turns(1)
@pytest.mark.parametrize("what", MADE)
@pytest.mark.parametrize("element", [f32, f16], ids=str)
def test_kernels_compute_what_the_graph_means(
    what: str, element: Attribute, tmp_path: Path
) -> None:
    module = MADE[what](*SMALL[what], element=element)
    inputs, wanted = wanted_of(module, {})
    built = gpu_module_of(planned(module, tmp_path, "gpu"))
    for variant in built.dispatch().variants():
        result = simulate(built, inputs, {}, variant.variant_name)
        result.check()
        assert_agree(result.outputs, wanted)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile_without_a_spill(arch: str) -> None:
    for what, made in MADE.items():
        program = Program.compile(lowered(made(*LARGE[what], element=f16), "gpu", None, arch))
        assert all(info.spill_bytes == 0 for info in program.kernels.values())


def test_what_a_plan_may_not_say_is_refused(tmp_path: Path) -> None:
    module = adaptive(*SMALL["adaptive"])
    for fields, message in (
        ({"tile": [2, 64, 1], "warp_tile": [1, 64]}, "all points are one row"),
        ({"split_k": 2}, "tiles of all points do not have"),
    ):
        with pytest.raises(PolycError, match=message):
            planned(module, tmp_path, "plan", **fields)
    with pytest.raises(PolycError, match="unlike axes or open sizes"):
        planned(adaptive("N", 3, 9, 11), tmp_path, "plan")


@pytest.mark.parametrize(("inner", "outer", "short"), [(2, 4, True), (4, 8, False), (8, 16, False)])
def test_long_sums_of_maxima_are_no_threads(inner: int, outer: int, short: bool) -> None:
    """Threads wait for each point of a chain of loops, which the model of time does not say."""
    s = Sketch("f", f16)
    x = s.input("x", 64, inner, outer, 40)
    y = s.fn("exp", s.reduce("sum", s.reduce("max", x, 1), 1))
    loops = find_loops(only(lowered(s.done(y=y), "region"), KernelOp))
    assert (find_flat(loops) is not None) == short
    assert short or not any(plan.is_flat for plan in schedules(loops, "sm_90a"))
