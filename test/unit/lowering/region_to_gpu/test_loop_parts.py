"""Loops whose reductions any number of blocks share: the parts go through memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import SSAValue

from polyc.cost.time import chosen
from polyc.dialects import frontend
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.partial_sums import find_shared
from polyc.families.loops.recognise import Space, find_loops
from polyc.families.structure import MOST_PARTS
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.loop_parts import Part
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback import tile as tiles
from polyc.playback.gpu.simulate import simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.loop_programs import Graph, Program
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

PARTS = {"algo_choice": {"loops": "partial_sums"}}


@dataclass(frozen=True)
class Case:
    """A program, the sizes that it is run at, and a plan that shares its reductions."""

    program: Program
    plan: Mapping[str, object]
    arch: str = "sm_90a"
    variant: str = "scalar"


def _both(g: Graph) -> list[SSAValue]:
    """Two reductions of the same points, and work with a tensor after them."""
    x, y, bias = g.ins
    most = g.reduce("max", x, 0)
    return [g.fn("add", g.fn("add", most, g.reduce("sum", g.fn("mul", x, y), 0)), bias)]


def _padded(g: Graph) -> list[SSAValue]:
    """Rows of a fill below the others: what is read lies under a guard."""
    return [g.reduce("max", g.add(frontend.PadOp(g.ins[0], [3, 0], [7, 0], -2.0)), 0)]


def _variance(*axes: int) -> Callable[[Graph], list[SSAValue]]:
    """The mean of squared distances from the mean."""

    def made(g: Graph) -> list[SSAValue]:
        x = g.ins[0]
        far = g.fn("sub", x, g.add(frontend.ReduceOp("mean", x, axes, keepdims=True)))
        return [g.reduce("mean", g.fn("mul", far, far), *axes)]

    return made


def _normed(g: Graph) -> list[SSAValue]:
    """A mean, and one over the root of the squares about it, which is rounded."""
    x = g.ins[0]
    mean = g.reduce("mean", x, 0)
    far = g.fn("sub", x, mean)
    square = g.reduce("sum", g.fn("mul", far, far), 0)
    return [g.fn("rsqrt", square), mean]


def _logsumexp(g: Graph) -> list[SSAValue]:
    """The logarithm of the sum of exponentials below the maximum, and that, of columns."""
    x = g.ins[0]
    top = g.reduce("max", x, 0)
    powers = g.reduce("sum", g.fn("exp", g.fn("sub", x, top)), 0)
    return [g.fn("add", g.fn("log", powers), top)]


def small(rows: int, columns: int, vector: int, parts: int, **more: object) -> dict[str, object]:
    """A plan with a block of as many threads as its tile has vectors."""
    warps = max(1, rows * columns // vector // 32)
    down = min(rows, warps)
    warp = [rows // down, columns * down // warps]
    tile = {"tile": [rows, columns, 1], "warp_tile": warp, "vectorize": vector}
    return {**tile, "split_k": parts, **PARTS, **more}


CASES: Mapping[str, Case] = {
    "columns": Case(
        Program(
            [(("R", "C"), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ({"R": 77, "C": 72},)
        ),
        small(8, 64, 8, 3, when=["C mod 8 == 0"]),
    ),
    "columns one by one": Case(
        Program(
            [(("R", "C"), f32)], lambda g: [g.reduce("mean", g.ins[0], 0)], ({"R": 50, "C": 37},)
        ),
        small(4, 32, 1, 5),
        "sm_80",
    ),
    "two reductions": Case(
        Program(
            [(("R", "C"), bf16), (("R", "C"), bf16), (("C",), bf16)], _both, ({"R": 45, "C": 40},)
        ),
        small(8, 32, 4, 2, when=["C mod 4 == 0"]),
    ),
    "under a guard": Case(
        Program([(("R", "C"), f16)], _padded, ({"R": 30, "C": 16},)),
        small(8, 16, 2, 3, when=["C mod 2 == 0"]),
    ),
    "a middle axis": Case(
        Program(
            [(("B", "R", "C"), f16)],
            lambda g: [g.reduce("min", g.ins[0], 1)],
            ({"B": 2, "R": 33, "C": 24},),
        ),
        small(8, 16, 2, 3, when=["C mod 2 == 0"]),
    ),
    "a whole tensor": Case(
        Program(
            [(("R", "C"), f16)], lambda g: [g.reduce("sum", g.ins[0], 0, 1)], ({"R": 31, "C": 40},)
        ),
        small(1, 256, 8, 4, when=["(R * C) mod 8 == 0"]),
        "sm_80",
    ),
    "several vectors a thread": Case(
        Program(
            [(("R", "C"), f16)], lambda g: [g.reduce("min", g.ins[0], 0, 1)], ({"R": 31, "C": 40},)
        ),
        small(1, 512, 8, 2, warp_tile=[1, 512], when=["(R * C) mod 8 == 0"]),
    ),
    "images' channels": Case(
        Program(
            [(("N", "C", "H", "W"), f16)],
            lambda g: [g.reduce("mean", g.ins[0], 0, 2, 3)],
            ({"N": 3, "C": 5, "H": 7, "W": 8},),
        ),
        small(4, 32, 4, 3, when=["(H * W) mod 4 == 0"]),
    ),
    "three axes apart": Case(
        Program(
            [(("A", "B", "C", "D", "E"), f32)],
            lambda g: [g.reduce("max", g.ins[0], 0, 2, 4)],
            ({"A": 2, "B": 3, "C": 3, "D": 2, "E": 9},),
        ),
        small(2, 16, 1, 4),
    ),
    "groups of channels that lie last": Case(
        Program(
            [(("B", "P", 3, 16), f32)],
            lambda g: [g.reduce("sum", g.ins[0], 1, 3)],
            ({"B": 2, "P": 37}, {"B": 1, "P": 3}),
        ),
        small(32, 16, 4, 3),
    ),
    "moments of groups of channels that lie last": Case(
        Program([(("B", "P", 3, 16), f32)], _variance(1, 3), ({"B": 2, "P": 37}, {"B": 1, "P": 3})),
        small(32, 16, 4, 3),
    ),
    "moments, and the mean beside": Case(
        Program([(("R", "C"), f16)], _normed, ({"R": 77, "C": 72}, {"R": 5, "C": 64})),
        small(8, 64, 8, 3, when=["C mod 8 == 0"]),
    ),
    "moments of columns": Case(
        Program([(("R", "C"), f16)], _variance(0), ({"R": 77, "C": 72}, {"R": 5, "C": 64})),
        small(8, 64, 8, 3, when=["C mod 8 == 0"]),
    ),
    "moments of columns, several vectors a thread": Case(
        Program([(("R", "C"), f16)], _variance(0), ({"R": 150, "C": 64},)),
        small(16, 32, 8, 2, warp_tile=[16, 32], when=["C mod 8 == 0"]),
    ),
    "moments of columns in whole steps": Case(
        Program([((Dim.sym("R") * 16, 64), f16)], _variance(0), ({"R": 6},)),
        small(16, 32, 8, 2, warp_tile=[16, 32]),
    ),
    "moments of columns one by one": Case(
        Program([(("R", "C"), f32)], _variance(0), ({"R": 50, "C": 37},)),
        small(4, 32, 1, 5),
        "sm_80",
    ),
    "moments of channels": Case(
        Program(
            [(("N", "C", "H", "W"), f16)], _variance(0, 2, 3), ({"N": 3, "C": 5, "H": 7, "W": 8},)
        ),
        small(1, 32, 8, 3, when=["(H * W) mod 8 == 0"]),
    ),
    "moments of a whole tensor": Case(
        Program([(("R", "C"), f16)], _variance(0, 1), ({"R": 31, "C": 40},)),
        small(1, 512, 8, 2, warp_tile=[1, 512], when=["(R * C) mod 8 == 0"]),
    ),
    "a maximum and the powers below it": Case(
        Program([(("R", "C"), f16)], _logsumexp, ({"R": 77, "C": 72}, {"R": 5, "C": 64})),
        small(8, 64, 8, 3, when=["C mod 8 == 0"]),
    ),
    "powers of columns, several vectors a thread": Case(
        Program([(("R", "C"), f16)], _logsumexp, ({"R": 150, "C": 64},)),
        small(16, 32, 8, 2, warp_tile=[16, 32], when=["C mod 8 == 0"]),
    ),
    "powers of columns one by one": Case(
        Program([(("R", "C"), f32)], _logsumexp, ({"R": 50, "C": 37},)),
        small(4, 32, 1, 5),
        "sm_80",
    ),
    "more parts than steps": Case(
        Program([(("R", "C"), f32)], lambda g: [g.reduce("max", g.ins[0], 0)], ({"R": 9, "C": 8},)),
        small(4, 8, 1, 33),
    ),
}


SPREAD = {"algo_choice": {"loops": "spread_sums"}}


def spread(case: Case) -> Case:
    """The same by blocks that share all tiles, of which there are a few more than parts."""
    module = case.program.regions()
    run_pass(make_context(), build("region-merge-axes", case.arch), module)
    shared = find_shared(find_loops(only(module, KernelOp)))
    assert shared is not None
    rows, columns, _ = cast("list[int]", case.plan["tile"])
    tiles = shared.tiles(rows, columns)
    blocks = 2 + 3 * max(tiles.evaluate(sizes) for sizes in case.program.sizes)
    enough = Assumption(Dim.const(blocks) - tiles, ">=")
    when = [*cast("list[str]", case.plan.get("when", [])), str(enough)]
    given = {} if tiles.constant() is not None else {"when": when}
    return replace(case, plan={**case.plan, **SPREAD, "split_k": blocks, **given})


def built(case: Case, tmp_path: Path) -> ModuleOp:
    """The program under its plan, at the tile level."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({"variant": case.variant, **case.plan}), encoding="utf-8")
    module = case.program.regions()
    for name in ("region-merge-axes", "plan-select", "region-expand-together"):
        run_pass(make_context(), build(name, case.arch, str(path)), module)
    for plan in find(module, ScheduleOp):
        if plan.variant.data != case.variant:
            plan.detach()
    run_pass(make_context(), build("region-to-gpu", case.arch), module)
    return module


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_parts_make_what_the_graph_says(name: str, tmp_path: Path) -> None:
    """In the tiles and in the simulator, with tails; nothing spills."""
    check(CASES[name], tmp_path)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", CASES)
def test_blocks_that_share_all_tiles_make_it_too(name: str, tmp_path: Path) -> None:
    """The same of parts that are counted when the kernel runs, with blocks that are left over."""
    check(spread(CASES[name]), tmp_path)


@pytest.mark.parametrize("sizes", [{"R": 0, "C": 72}, {"R": 5, "C": 0}, {"R": 1, "C": 8}])
def test_blocks_share_no_points_and_no_tiles(sizes: dict[str, int], tmp_path: Path) -> None:
    """No division is by zero where there is nothing to share."""
    check(replace_sizes(spread(CASES["columns"]), sizes), tmp_path)


def replace_sizes(case: Case, *sizes: Mapping[str, int]) -> Case:
    return replace(case, program=replace(case.program, sizes=sizes))


def check(case: Case, tmp_path: Path) -> None:
    """A program under its plan, against the graph."""
    module = built(case, tmp_path)
    kernels = only(module, gpu.ModuleOp)
    variant = f"f_{case.variant}"
    done = module.clone()
    finish(done)
    for number, sizes in enumerate(case.program.sizes):
        source = case.program.module()
        inputs = make_inputs(only(source, GraphOp), sizes, 3)
        expected = meant(source, inputs, sizes)
        assert_agree(tiles.run(kernels, inputs, sizes, variant), expected)
        hardware = only(done, gpu.ModuleOp)
        result = simulate(hardware, inputs, sizes, schedule="random", seed=number)
        result.check()
        assert_agree(result.outputs, expected)
    compiled = nvrtc.compile_cuda(cuda_source(only(done, gpu.ModuleOp)), case.arch)
    assert not compiled.warnings()
    assert all((info.spill_bytes, info.stack) == (0, 0) for info in compiled.kernels.values())


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_moments_of_what_is_not_finite(value: float, tmp_path: Path) -> None:
    """The squares about an infinite mean are no number; what other columns have stays."""
    module = built(CASES["moments, and the mean beside"], tmp_path)
    program, sizes = CASES["moments, and the mean beside"].program, {"R": 77, "C": 72}
    source = program.module()
    (x,) = make_inputs(only(source, GraphOp), sizes, 3)
    x[5, 3] = x[70, 9] = value
    with np.errstate(all="ignore"):
        expected = meant(source, [x], sizes)
        found = tiles.run(only(module, gpu.ModuleOp), [x], sizes, "f_scalar")
    assert_agree(found, expected)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 65504.0])
def test_powers_of_what_is_apart(value: float, tmp_path: Path) -> None:
    """One point, all of a thread's, all of a block's, and a whole column of -inf: no number."""
    case = CASES["a maximum and the powers below it"]
    module, sizes = built(case, tmp_path), {"R": 77, "C": 72}
    source = case.program.module()
    (x,) = make_inputs(only(source, GraphOp), sizes, 3)
    x[5, 3] = value
    x[0::8, 9] = x[:, 10] = x[8:16, 11] = x[1:, 12] = value
    with np.errstate(all="ignore"):
        expected = meant(source, [x], sizes)
        found = tiles.run(only(module, gpu.ModuleOp), [x], sizes, "f_scalar")
    assert_agree(found, expected)


def test_squares_about_a_far_mean(tmp_path: Path) -> None:
    """The mean is a thousand times the deviation, and no digits of the squares go."""
    case = CASES["moments of columns one by one"]
    module, sizes = built(case, tmp_path), {"R": 50, "C": 37}
    x = np.random.default_rng(1).standard_normal((50, 37)).astype(np.float32) + 1000
    (found,) = tiles.run(only(module, gpu.ModuleOp), [x], sizes, "f_scalar")
    wanted = x.astype(np.float64).var(0)
    assert np.abs(np.asarray(found) / wanted - 1).max() < 1e-5


def test_threads_that_combine_read_neighbours() -> None:
    """Parts of a column lie apart, those of a row side by side; a warp has a line of either."""
    n = Dim.sym("N")
    one = Dim.const(1)
    column = Part(Space((0,), (), None, "n", (one, n), frozenset()), 64)
    row = Part(Space((0,), (), "n", None, (n, one), frozenset()), 64)
    assert column.tile == (64, 32) and list(column.kind(f32).dims) == [Dim.const(64), n]
    assert row.tile == (8, 64) and list(row.kind(f32).dims) == [n, Dim.const(64)]
    assert Part(column.space, 512).tile == (64, 32)
    assert Part(Space((0,), (), None, None, (one, one), frozenset()), 3).tile == (1, 32)


COLUMNS = Program([(("R", "C"), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ())


def scheduled(program: Program, arch: str = "sm_90a") -> list[ScheduleOp]:
    """The schedules of a program, in order of dispatch."""
    module = program.regions()
    for name in ("region-merge-axes", "plan-select"):
        run_pass(make_context(), build(name, arch), module)
    return find(module, ScheduleOp)


def stored(program: Program, arch: str = "sm_90a") -> list[ScheduleOp]:
    """Those that store parts."""
    return [plan for plan in scheduled(program, arch) if plan.stores_sums]


def test_few_results_of_many_points_are_shared() -> None:
    """Few columns, of many rows, by as many blocks as there are, which says when it runs."""
    found = stored(COLUMNS)
    assert found and all(plan.spreads_sums for plan in found)
    for plan in found:
        blocks, columns = plan.integer("split_k"), plan.tile_sizes[1]
        facts = [str(fact) for fact in plan.when.data]
        assert f"-((C + {columns - 1}) floordiv {columns}) >= -{blocks}" in facts
    few = chosen(scheduled(COLUMNS), {"R": 1 << 20, "C": 16})
    assert few is not None and few.stores_sums and few.tile_sizes[1] <= 32
    whole = Program([((4096, 4096), f16)], lambda g: [g.reduce("max", g.ins[0], 0, 1)], ())
    (only_one,) = stored(whole)
    assert only_one.tile_sizes[0] == 1 and not only_one.when.data
    assert 132 // 2 <= only_one.integer("split_k") <= 512


def test_known_sizes_are_shared_by_elements_too() -> None:
    """Where the longest axis is not the innermost one, nothing is read by vectors, and the model
    compares parts with a single block all the same.  Blocks that read elements are as many as find
    room."""
    means = Program([((36709, 64, 8), f16)], lambda g: [g.reduce("sum", g.ins[0], 0, 2)], ())
    odd = Program([((247754, 241), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ())
    for program, beside in ((means, 1), (odd, 4)):
        (plan,) = stored(program)
        assert plan.integer("vectorize") == 1 and not plan.when.data
        parts, chip = plan.integer("split_k"), ARCHS["sm_90a"].multiprocessors
        assert parts <= MOST_PARTS and chip // 2 < parts * beside


def _nested(g: Graph) -> list[SSAValue]:
    most = g.add(frontend.ReduceOp("max", g.ins[0], [0], keepdims=True))
    return [g.reduce("sum", g.fn("sqrt", g.fn("sub", g.ins[0], most)), 0)]


NOT_SHARED: Mapping[str, Program] = {
    "one reduction of another": Program([(("R", "C"), f16)], _nested, ()),
    "an output along what is reduced": Program(
        [(("R", "C"), f16)], lambda g: [g.add(frontend.SoftmaxOp(g.ins[0], [0]))], ()
    ),
    "nothing reduced": Program([(("R", "C"), f16)], lambda g: [g.fn("neg", g.ins[0])], ()),
    "few points": Program([((64, 64), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ()),
}


@pytest.mark.parametrize("name", NOT_SHARED)
def test_other_reductions_are_left_whole(name: str) -> None:
    assert not stored(NOT_SHARED[name])


@pytest.mark.parametrize(
    ("program", "fields", "reason"),
    [
        (NOT_SHARED["one reduction of another"], {"split_k": 4}, "does not have alike"),
        (COLUMNS, {"split_k": 1}, "are whole; use split_k above 1"),
        (COLUMNS, {"split_k": 2000}, "into 2000 parts; use 1024 or less"),
        (COLUMNS, {"split_k": 4, "persistent": True}, "a persistent kernel does not have"),
        (COLUMNS, {"split_k": 4, "tile": [1, 32, 1], "warp_tile": [1, 32]}, "has one of the rows"),
        (COLUMNS, {"split_k": 64, **SPREAD}, "tiles, which may be more; say so in when, as in"),
        (COLUMNS, {"split_k": 1, **SPREAD}, "are whole; use split_k above 1"),
    ],
)
def test_a_plan_of_parts_that_there_are_not_is_refused(
    program: Program, fields: Mapping[str, object], reason: str, tmp_path: Path
) -> None:
    with pytest.raises(PolycError) as caught:
        built(Case(program, {**PARTS, **fields}), tmp_path)
    assert reason in caught.value.message
