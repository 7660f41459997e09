"""Regions as loops: every program has kernels, and they compute what the graph does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import module as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.family import Fields
from polyc.families.loops.schedules import LOOPS
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.sequences import merged
from polyc.passes.finish import finish
from polyc.passes.pipeline import ORDER, build
from polyc.passes.plan import select as plan_select
from polyc.playback import tile as tiles
from polyc.playback.estimate import Estimate
from polyc.playback.gpu.simulate import simulate
from polyc.playback.reference import make_inputs
from polyc.runtime import nvrtc
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import assert_refused, find, only, parsed, printed, run
from polyc.test.support.loop_programs import PROGRAMS, Graph, Program, without_least_points
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

Arrays = Sequence[Any]
ARCHS = ("sm_80", "sm_90a")


@pytest.fixture(autouse=True)
def no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, and products of f32, are here for loops, which take every region."""
    others = [family for family in plan_select.FAMILIES if family.name not in ("rows", "matmul")]
    monkeypatch.setattr(plan_select, "FAMILIES", tuple(others))


def planned(module: ModuleOp, arch: str = "sm_80") -> ModuleOp:
    for name in ("plan-select", "region-expand-together"):
        run_pass(make_context(), build(name, arch), module)
    return module


def lowered(program: Program, arch: str = "sm_80") -> ModuleOp:
    module = planned(program.regions(), arch)
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]
    assert {p.pattern for p in plans} == {"loops"}
    without_least_points(module)
    run_pass(make_context(), build("region-to-gpu", arch), module)
    return module


def wanted(program: Program, sizes: Mapping[str, int]) -> tuple[Arrays, list[Estimate]]:
    """Inputs, and what the frontend makes of them."""
    module = program.module()
    inputs = make_inputs(only(module, GraphOp), sizes, 3)
    return inputs, meant(module, inputs, sizes)


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tiles_of_every_variant_compute_the_graph(name: str) -> None:
    program = PROGRAMS[name]
    module = only(lowered(program), gpu.ModuleOp)
    ran: set[str] = set()
    for sizes in program.sizes:
        inputs, expected = wanted(program, sizes)
        for variant in module.dispatch().variants():
            if all(fact.holds(sizes) for fact in variant.facts.data):
                assert_agree(tiles.run(module, inputs, sizes, variant.variant_name), expected)
                ran.add(variant.variant_name)
    assert len(ran) == len(module.dispatch().variants())


SMALL: Mapping[str, Mapping[str, int]] = {
    name: min(p.sizes, key=lambda s: int(np.prod([max(v, 1) for v in s.values()] or [1])))
    for name, p in PROGRAMS.items()
}
"""Of each program the sizes with the fewest points."""


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_threads_compute_the_graph_and_touch_nothing_else(name: str) -> None:
    """Both architectures' kernels have the same loops; they differ in what the printer makes."""
    module = lowered(PROGRAMS[name])
    finish(module)
    inputs, expected = wanted(PROGRAMS[name], SMALL[name])
    result = simulate(module, inputs, SMALL[name])
    result.check()
    assert_agree(result.outputs, expected)


COMPILED = (
    "a chain of halves",
    "movements",
    "a softmax over columns",
    "a mean over everything",
    "a product of f32",
    "a convolution in groups",
    "an attention of f32",
    "conditions",
)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", COMPILED)
def test_kernels_compile_without_spills(
    name: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLYC_CACHE", "0")
    module = lowered(PROGRAMS[name], arch)
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack) == (0, 0), kernel


# How the work is spread ------------------------------------------------------------------------


def test_a_chain_moves_vectors_where_rows_are_whole_ones() -> None:
    module = lowered(PROGRAMS["a chain of halves"])
    launches = only(module, gpu.DispatchOp).launches()
    assert [str(fact) for fact in launches[0].when.data] == ["N mod 8 == 0"]
    assert [list(x.align.data) for x in launches] == [[16, 16, 16], [2, 2, 2]]
    finish(module)
    widths = [
        {
            hw.vector_length(op.value.type if isinstance(op, hw.StoreGlobalOp) else op.result.type)
            for op in kernel.walk()
            if isinstance(op, hw.StoreGlobalOp | hw.LoadGlobalOp)
        }
        for kernel in find(module, GpuKernelOp)
    ]
    assert widths == [{8}, {1}]


def test_what_is_wider_in_memory_comes_in_several_vectors() -> None:
    """A column's number of f32 beside halves: two loads of four beside one of eight."""

    def shifted(g: Graph) -> list[SSAValue]:
        x, shift = g.ins
        return [g.add(frontend.CastOp(g.fn("sub", g.add(frontend.CastOp(x, f32)), shift), f16))]

    module = lowered(Program([(("M", "N"), f16), (("N",), f32)], shifted, ()))
    finish(module)
    loads = [op for op in find(module, hw.LoadGlobalOp) if hw.vector_length(op.result.type) > 1]
    assert [hw.vector_length(op.result.type) for op in loads] == [8, 4, 4]


def test_a_known_size_bounds_the_tile() -> None:
    module = lowered(PROGRAMS["a chain with known rows of 3"])
    assert {op.tile.data for op in find(module, tile.TileLoopOp)} == {(1, 256, 4)}


def test_threads_part_the_points_of_a_reduction_whose_result_lacks_their_axis() -> None:
    """Of a column's maximum rows of threads have a part each, which are then joined.

    A thread has several columns where they are a vector, and of several vectors below each other
    one of results.  Variants whose parts go through memory come first.
    """
    module = lowered(PROGRAMS["a maximum over leading axes"])
    reduces = find(module, tile.ReduceOp)
    ways = {(bool(r.accumulate), str(r.by.data).partition(" mod ")[0]) for r in reduces}
    assert ways == {(False, "(d0, d1) -> (0, d1)"), (True, "(d0, d1) -> ((d0")}
    names = [k.sym_name.data for k in find(module, gpu.KernelOp)]
    left = ["f_vector_few", "f_vector_wide", "f_vector", "f_scalar"]
    assert [name for name in names if name in left] == left


@pytest.mark.parametrize("weights", ["49, 1", "64, 49, 1", "49, 4096"])
def test_a_number_of_each_step_leaves_threads_their_vectors(weights: str) -> None:
    """Columns times a weight of each point that is summed: rows of threads part the points.

    Each batch may have weights of its own, as where a mask keeps some of its rows.
    """
    x, w = "!frontend.tensor<[64, 49, 4096], f16>", f"!frontend.tensor<[{weights}], f16>"
    y = "!frontend.tensor<[64, 4096], f16>"
    module = parsed(
        f"frontend.graph @f(%x: {x}, %w: {w}) -> (Y: {y}) {{\n"
        f"  %0 = frontend.elementwise mul %x, %w : ({x}, {w}) -> {x}\n"
        f"  %1 = frontend.reduce sum %0 axes [1] : {x} -> {y}\n  frontend.output %1 : {y}\n}}\n"
    )
    for name in ORDER[: ORDER.index("plan-select") + 1]:
        build(name, "sm_90a").apply(make_context(), module)
    first, *_ = find(module, ScheduleOp)
    assert first.pattern == "loops" and first.integer("vectorize") == 8


def test_what_a_loop_does_not_change_is_reduced_before_it() -> None:
    """The sum of a softmax needs the maximum, which its own loop does not change."""
    text = printed(lowered(PROGRAMS["a softmax over columns"]))
    maximum, total, out = (m.start() for m in re.finditer(r"scf\.for", text))
    assert maximum < text.index("gpu.reduce max") < total < text.index("gpu.reduce sum") < out


def test_neighbours_in_memory_are_neighbours_of_a_tile() -> None:
    """Both factors of A Bᵀ lie along what is summed: a warp has a part each of a row's products."""
    module = lowered(PROGRAMS["a batch of products of f32"])
    *_, last = find(module, GpuKernelOp)
    (loop,) = find(last, tile.TileLoopOp)
    assert loop.tile.data == (1, 1, 8, 1)
    (reduce,) = find(last, tile.ReduceOp)
    assert str(reduce.by.data) == "(d0, d1) -> (d0, 0)"


def test_a_block_walks_the_axes_that_its_outputs_are_reduced_over() -> None:
    """So that a column's statistics are reduced once, and not in every tile of the column."""
    module = lowered(PROGRAMS["a softmax over columns"])
    (launch,) = only(module, gpu.DispatchOp).launches()
    assert str(launch.grid.data[0]) == "(N + 127) floordiv 128"
    (plan,) = find(planned(PROGRAMS["a softmax over columns"].regions()), ScheduleOp)
    assert list(plan.bind.data) == ["n.o"]


def test_outputs_of_other_axes_have_loops_of_their_own() -> None:
    module = lowered(PROGRAMS["several outputs"])
    assert [op.tile.data for op in find(module, tile.TileLoopOp)] == [(8, 1), (8, 1)]
    (launch,) = only(module, gpu.DispatchOp).launches()
    assert launch.grid.data[0].evaluate({"M": 9, "N": 0}) == 2 + 2


NARROW = """
region.kernel @f iters [m: M] ins(%X: !region.memref<[M, N], f16, align 16>)
    outs(Y: !region.memref<[M], f16, align 16> gmem) {
  %x = region.read %X affine_map<(d0, d1)[s0, s1] -> (d0, d1)>
      : !region.memref<[M, N], f16, align 16> -> !region.val<[m: M, n: N], f16>
  %y = region.binary add %x, %x : !region.val<[m: M, n: N], f16>
  %s = region.reduce sum %y over [n] init 0.0 acc f16
      : !region.val<[m: M, n: N], f16> -> !region.val<[m: M], f16>
  region.yield %s : !region.val<[m: M], f16>
}
"""


def test_a_sum_in_f16_is_rounded_at_every_step() -> None:
    """1024 + 1024 is 2048, to which f16 adds no 1; parts of it would come out at 2050."""
    x = np.full((3, 3), 0.5, np.float16)
    x[:, 0] = 1024
    for module in (parsed(NARROW), run(planned(parsed(NARROW)), "region-to-gpu")):
        found = play(module, "f", [x], {"M": 3, "N": 3})
        assert found is not None
        assert found[0].tolist() == [2048.0] * 3


def test_kernels_of_one_graph_have_their_variants_side_by_side() -> None:
    """Each variant of one kernel with what the others have beside it; the last takes all sizes."""
    assert merged([["tma", "cp_async", "scalar"], ["vector", "scalar"]]) == [
        "tma",
        "cp_async",
        "vector",
        "scalar",
    ]
    assert merged([["scalar"], ["vector", "scalar"]]) == ["vector", "scalar"]
    assert merged([["a", "b"], ["c"]]) == ["a", "b", "c"]


# Plans of a user -------------------------------------------------------------------------------


def test_a_smaller_tile_computes_the_same() -> None:
    program = PROGRAMS["a softmax over columns"]
    text = printed(planned(program.regions()))
    text = text.replace("tile = [8, 128, 1]", "tile = [4, 32, 1]")
    text = text.replace("warp_tile = [1, 128]", "warp_tile = [2, 32]")
    module = run(parsed(text), "region-to-gpu")
    assert only(module, GpuKernelOp).threads.value.data == 64
    sizes = {"M": 9, "N": 33}
    inputs, expected = wanted(program, sizes)
    assert_agree(tiles.run(only(module, gpu.ModuleOp), inputs, sizes), expected)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"tile": [8, 4, 1], "warp_tile": [8, 4], "vectorize": 8},
            "has tiles of 4 columns, no multiple of its vectors of 8",
        ),
        ({"tile": [8, 128, 4]}, "has a tile of depth 4, and loops go step by step; make it 1"),
    ],
)
def test_a_tile_that_loops_do_not_walk_is_refused(changed: Fields, message: str) -> None:
    module = planned(PROGRAMS["a chain of halves"].regions())
    chosen = find(module, ScheduleOp)[1]
    plan = ScheduleOp(chosen.region, "mine", {**chosen.fields(), **changed})
    with pytest.raises(PolycError) as caught:
        LOOPS.check(only(module, KernelOp), plan)
    assert caught.value.kind == "BadPlan"
    assert caught.value.message == f"plan 'mine' {message}"


@pytest.mark.parametrize(
    ("said", "asked", "message"),
    [
        ("cluster = [1, 1]", "cluster = [2, 1]", "a cluster that loops do not have; use [1, 1]"),
        (
            'raster = "row"',
            'raster = "hilbert"',
            'a raster that only persistent kernels have; use "row" or "column" or "grouped"',
        ),
    ],
)
def test_a_choice_that_loops_do_not_have_is_refused(said: str, asked: str, message: str) -> None:
    text = printed(planned(PROGRAMS["a chain"].regions(), "sm_90a")).replace(said, asked, 1)
    assert_refused(
        text,
        "UnsupportedPlan",
        f"plan 'vector' asks for {message}",
        "plan.schedule",
        "region-to-gpu",
    )
