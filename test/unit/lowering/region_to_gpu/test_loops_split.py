"""Loops whose reductions the blocks of a cluster share: columns that are few and long."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback import tile as tiles
from polyc.playback.gpu.simulate import simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.loop_programs import Graph, Program
from polyc.test.support.split_programs import leave_only
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

IMAGE = ("N", "H", "W", "C")


def _product(g: Graph) -> list[SSAValue]:
    """Of two tensors, one of which repeats, with work after the sum."""
    x, y, bias = g.ins
    return [g.fn("silu", g.fn("add", g.reduce("sum", g.fn("mul", x, y), 0), bias))]


def _padded(g: Graph) -> list[SSAValue]:
    """Rows of a fill below the others: what is read lies under a guard."""
    return [g.reduce("sum", g.add(frontend.PadOp(g.ins[0], [3, 0], [70, 0], 0.5)), 0)]


PROGRAMS: Mapping[str, Program] = {
    "a mean of pixels": Program(
        [(IMAGE, f16)],
        lambda g: [g.fn("relu", g.reduce("mean", g.ins[0], 1, 2))],
        ({"N": 1, "H": 71, "W": 61, "C": 40}, {"N": 1, "H": 4096, "W": 1, "C": 8}),
    ),
    "a maximum beside a sum": Program(
        [(("R", "C"), f32)],
        lambda g: [g.reduce("max", g.ins[0], 0), g.reduce("sum", g.ins[0], 0)],
        ({"R": 4200, "C": 36},),
    ),
    "of two tensors": Program(
        [(("R", "C"), bf16), (("R", 1), bf16), (("C",), bf16)], _product, ({"R": 4300, "C": 72},)
    ),
    "under a guard": Program([(("R", "C"), f16)], _padded, ({"R": 4111, "C": 16},)),
}


def planned(program: Program, arch: str = "sm_90a", plan: str | None = None) -> ModuleOp:
    module = program.regions()
    for name in ("region-merge-axes", "plan-select", "region-expand-together"):
        run_pass(make_context(), build(name, arch, plan), module)
    return module


def split(module: ModuleOp) -> list[str]:
    """The variants whose clusters share reductions."""
    return [p.variant.data for p in find(module, ScheduleOp) if p.cluster_blocks > 1]


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_blocks_of_a_cluster_compute_the_graph(name: str) -> None:
    """In the tiles and in the simulator, with tails and without; nothing spills."""
    program = PROGRAMS[name]
    module = planned(program)
    variant = "vector_split8"
    assert variant in split(module)
    leave_only(module, variant)
    run_pass(make_context(), build("region-to-gpu", "sm_90a"), module)
    kernels = only(module, gpu.ModuleOp)
    done = module.clone()
    finish(done)
    for number, sizes in enumerate(program.sizes):
        source = program.module()
        inputs = make_inputs(only(source, GraphOp), sizes, 3)
        expected = meant(source, inputs, sizes)
        assert_agree(tiles.run(kernels, inputs, sizes, f"f_{variant}"), expected)
        threads, full = only(done, gpu.ModuleOp), f"f_{variant}"
        result = simulate(threads, inputs, sizes, full, schedule="random", seed=number)
        result.check()
        assert result.grid % 8 == 0
        assert_agree(result.outputs, expected)
    built = nvrtc.compile_cuda(cuda_source(only(done, gpu.ModuleOp)), "sm_90a")
    assert not built.warnings()
    assert all((info.spill_bytes, info.stack) == (0, 0) for info in built.kernels.values())


def test_few_tiles_of_long_columns_are_split() -> None:
    """At most a tile for two multiprocessors, and two steps a block; Ampere has no clusters."""
    program = PROGRAMS["a mean of pixels"]
    plans = {plan.variant.data: plan for plan in find(planned(program), ScheduleOp)}
    plan = plans["vector_split8"]
    assert plan.cluster_blocks == 8
    facts = [str(fact) for fact in plan.when.data]
    assert facts == ["C mod 8 == 0", "-((C + 31) floordiv 32) * N >= -66", "H * W >= 4096"]
    assert not split(planned(program, "sm_80"))


def _nested(g: Graph) -> list[SSAValue]:
    """A sum of what a maximum is taken from."""
    (x,) = g.ins
    most = g.add(frontend.ReduceOp("max", x, [0], keepdims=True))
    return [g.reduce("sum", g.fn("exp", g.fn("sub", x, most)), 0)]


def test_a_thread_has_several_vectors_of_a_column() -> None:
    """Their loads do not wait for each other; columns of few rows have no more than they need."""

    def rows(size: int | str) -> int:
        sums = Program([(("N", size, 64), f16)], lambda g: [g.reduce("sum", g.ins[0], 1)], ())
        return find(planned(sums), ScheduleOp)[-2].tile_sizes[0]

    assert [rows(size) for size in ("R", 3136, 100, 49, 7)] == [256, 256, 128, 64, 64]


NOT_SPLIT: Mapping[str, Program] = {
    "one reduction of another": Program([(("R", "C"), f16)], _nested, ()),
    "short columns": Program([((4000, "C"), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ()),
    "many tiles": Program([(("R", 16384), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ()),
    "nothing reduced": Program([(("R", "C"), f16)], lambda g: [g.fn("neg", g.ins[0])], ()),
}


@pytest.mark.parametrize("name", NOT_SPLIT)
def test_other_reductions_are_one_blocks(name: str) -> None:
    assert not split(planned(NOT_SPLIT[name]))


def asked(program: Program, tmp_path: Path, arch: str = "sm_90a", **fields: object) -> ModuleOp:
    """A program under a plan of the user's own, at the tile level."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(fields), encoding="utf-8")
    module = planned(program, arch, str(path))
    run_pass(make_context(), build("region-to-gpu", arch), module)
    return module


def test_a_plan_may_ask_for_other_clusters(tmp_path: Path) -> None:
    program = PROGRAMS["a mean of pixels"]
    module = asked(program, tmp_path, variant="vector_split8", split_k=4)
    launches = only(module, gpu.ModuleOp).dispatch().launches()
    (launch,) = [one for one in launches if one.kernel.string_value().endswith("vector_split8")]
    n, c = Dim.sym("N"), Dim.sym("C")
    assert list(launch.grid.data) == [n, (c + 31).floordiv(32) * 4]


@pytest.mark.turns(2)
@pytest.mark.parametrize(
    ("variant", "tile", "warp_tile", "sizes"),
    [
        ("vector_few", [1, 256, 1], [1, 256], {"R": 5, "C": 264}),
        ("vector_wide", [16, 128, 1], [16, 128], {"R": 37, "C": 136}),
    ],
)
@pytest.mark.parametrize("function", ["max", "sum"])
def test_short_columns_and_many_of_them(
    variant: str,
    tile: list[int],
    warp_tile: list[int],
    sizes: dict[str, int],
    function: str,
    tmp_path: Path,
) -> None:
    """A thread has a short column alone, or several vectors of a long one's points, with tails."""
    program = Program([(("R", "C"), f16)], lambda g: [g.reduce(function, g.ins[0], 0)], ())
    fields = {"tile": tile, "warp_tile": warp_tile, "when": ["C mod 8 == 0"]}
    module = asked(program, tmp_path, "sm_90a", variant=variant, **fields)
    done = module.clone()
    finish(done)
    source = program.module()
    inputs = make_inputs(only(source, GraphOp), sizes, 3)
    expected = meant(source, inputs, sizes)
    name = f"f_{variant}"
    assert_agree(tiles.run(only(module, gpu.ModuleOp), inputs, sizes, name), expected)
    result = simulate(only(done, gpu.ModuleOp), inputs, sizes, name, schedule="random", seed=1)
    result.check()
    assert_agree(result.outputs, expected)


@pytest.mark.parametrize(
    ("name", "arch", "kind", "reason"),
    [
        ("one reduction of another", "sm_90a", "UnsupportedPlan", "do not part alike; use 1"),
        ("short columns", "sm_80", "ResourceExceeded", "of as many blocks, sm_80 allows 1"),
    ],
)
def test_a_plan_that_cannot_share_is_refused(
    tmp_path: Path, name: str, arch: str, kind: str, reason: str
) -> None:
    with pytest.raises(PolycError) as caught:
        asked(NOT_SPLIT[name], tmp_path, arch, variant="scalar", split_k=8)
    assert caught.value.kind == kind and reason in caught.value.message
