"""Loops that turn tensors in shared memory: neighbours of memory on both sides are a warp's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i1, i64
from xdsl.ir import SSAValue

from polyc.dialects import frontend
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import GraphOp, tensor
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu import kernel as gpu_kernel
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
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

NCP = ("N", "C", "P")


def turn(g: Graph, value: SSAValue, *order: int) -> SSAValue:
    return g.add(frontend.PermuteOp(value, order))


def _mixed(g: Graph) -> list[SSAValue]:
    """What is turned beside what is not, and numbers of a column."""
    x, y, bias = g.ins
    return [g.fn("add", g.fn("mul", g.fn("silu", turn(g, x, 0, 2, 1)), y), bias)]


def _padded(g: Graph) -> list[SSAValue]:
    """A slice of what is padded and turned: guards on both axes, and the fill is no 0."""
    low, high = [0, 1, 2], [0, 1, 1]
    padded = turn(g, g.add(frontend.PadOp(g.ins[0], low, high, 1.5)), 0, 2, 1)
    n, c, p = (Dim.sym(s) for s in NCP)
    start = [Dim.const(0), Dim.const(1), Dim.const(0)]
    return [g.add(frontend.SliceOp(padded, start, [n, p + 3, c + 1], [1, 1, 1]))]


def _apart(g: Graph) -> list[SSAValue]:
    """Every second pixel, as a strided filter of one tap reads them, channels inside."""
    pixels = g.add(frontend.SliceOp(g.ins[0], [Dim.const(0)] * 4, [2, 40, 5, 13], [1, 1, 2, 2]))
    return [turn(g, pixels, 0, 2, 3, 1)]


def _three(g: Graph) -> list[SSAValue]:
    first, *rest = (turn(g, x, 0, 2, 1) for x in g.ins)
    for one in rest:
        first = g.fn("add", first, one)
    return [first]


def _chosen(g: Graph) -> list[SSAValue]:
    flags, x = g.ins
    return [g.add(frontend.SelectOp(turn(g, flags, 0, 2, 1), x, g.fn("neg", x)))]


PROGRAMS: Mapping[str, Program] = {
    "a matrix": Program(
        [(("M", "N"), f16)],
        lambda g: [turn(g, g.ins[0], 1, 0)],
        ({"M": 72, "N": 136}, {"M": 70, "N": 65}, {"M": 1, "N": 3}, {"M": 0, "N": 5}),
    ),
    "a matrix of f32": Program(
        [(("M", "N"), f32)],
        lambda g: [turn(g, g.ins[0], 1, 0)],
        ({"M": 36, "N": 68}, {"M": 35, "N": 33}),
    ),
    "channels to the end": Program(
        [(("N", "C", "H", "W"), bf16)],
        lambda g: [turn(g, g.ins[0], 0, 2, 3, 1)],
        ({"N": 2, "C": 24, "H": 2, "W": 72}, {"N": 1, "C": 5, "H": 3, "W": 7}),
    ),
    "the outermost inside": Program(
        [(("P", "C", "N"), f16)],
        lambda g: [turn(g, g.ins[0], 2, 1, 0)],
        ({"P": 16, "C": 3, "N": 72}, {"P": 70, "C": 2, "N": 3}),
    ),
    "beside what is not turned": Program(
        [(NCP, f16), (("N", "P", "C"), f16), (("C",), f32)],
        _mixed,
        ({"N": 2, "C": 24, "P": 72}, {"N": 1, "C": 9, "P": 67}),
    ),
    "two of unlike widths": Program(
        [(NCP, f16), (NCP, f32)],
        lambda g: [g.fn("add", *(turn(g, x, 0, 2, 1) for x in g.ins))],
        ({"N": 1, "C": 24, "P": 72}, {"N": 2, "C": 3, "P": 65}),
    ),
    "three, of which two are turned in shared memory": Program(
        [(NCP, f16)] * 3,
        _three,
        ({"N": 1, "C": 8, "P": 72},),
    ),
    "padded": Program(
        [(NCP, f16)], _padded, ({"N": 1, "C": 63, "P": 30}, {"N": 2, "C": 1, "P": 1})
    ),
    "conditions": Program(
        [(NCP, i1), (("N", "P", "C"), f16)],
        _chosen,
        ({"N": 1, "C": 24, "P": 72}, {"N": 2, "C": 5, "P": 9}),
    ),
    "taps of a filter": Program(
        [(("F", 40, 3, 3), f16)],
        lambda g: [turn(g, g.ins[0], 0, 2, 3, 1)],
        ({"F": 3}, {"F": 0}),
    ),
    "short lines": Program([((2, 72, 5), bf16)], lambda g: [turn(g, g.ins[0], 0, 2, 1)], ({},)),
    "every second pixel": Program([((2, 40, 9, 26), f16)], _apart, ({},)),
    "known sizes": Program([((2, 20, 100), f16)], lambda g: [turn(g, g.ins[0], 0, 2, 1)], ({},)),
}


def planned(program: Program, arch: str = "sm_90a") -> ModuleOp:
    module = program.regions()
    for name in ("region-merge-axes", "plan-select", "region-expand-together"):
        run_pass(make_context(), build(name, arch), module)
    return module


def lowered(program: Program, arch: str = "sm_90a") -> ModuleOp:
    module = planned(program, arch)
    run_pass(make_context(), build("region-to-gpu", arch), module)
    return module


def cached(module: ModuleOp) -> list[list[str]]:
    """What each schedule of loops keeps in shared memory."""
    plans = [op for op in module.ops if isinstance(op, ScheduleOp)]
    return [plan.cached for plan in plans if plan.pattern == "loops"]


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_threads_compute_the_graph(name: str) -> None:
    """In the tiles and in the simulator, with its schedules in which all is late or random."""
    program = PROGRAMS[name]
    assert all(map(bool, cached(planned(program)))), "nothing is turned"
    module = lowered(program)
    done = lowered(program)
    finish(done)
    for number, sizes in enumerate(program.sizes):
        source = program.module()
        inputs = make_inputs(only(source, GraphOp), sizes, 3)
        expected = meant(source, inputs, sizes)
        for variant in only(module, gpu.ModuleOp).dispatch().variants():
            if all(fact.holds(sizes) for fact in variant.facts.data):
                found = tiles.run(only(module, gpu.ModuleOp), inputs, sizes, variant.variant_name)
                assert_agree(found, expected)
        order = ("round-robin", "random")[number % 2]
        result = simulate(only(done, gpu.ModuleOp), inputs, sizes, schedule=order, seed=number)
        result.check()
        assert_agree(result.outputs, expected)


@pytest.mark.turns(3)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_kernels_compile_without_spills(name: str, arch: str) -> None:
    module = lowered(PROGRAMS[name], arch)
    finish(module)
    result = nvrtc.compile_cuda(cuda_source(only(module, gpu.ModuleOp)), arch)
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack) == (0, 0), kernel


@pytest.mark.parametrize("name", ["a matrix", "a matrix of f32"])
def test_accesses_are_whole_and_no_banks_meet(name: str) -> None:
    """Whole tiles take no sector twice, and shared memory answers each access at once."""
    program = PROGRAMS[name]
    module = lowered(program)
    finish(module)
    sizes = {"M": 128, "N": 256}
    inputs = make_inputs(only(program.module(), GraphOp), sizes, 3)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    result.check()
    counters = result.counters
    assert 32 * counters.global_read_sectors == counters.global_read_bytes == inputs[0].nbytes
    assert 32 * counters.global_write_sectors == counters.global_write_bytes == inputs[0].nbytes
    for access in counters.shared.values():
        assert access.wavefronts == access.ideal, access.op
    kernel = find(module, gpu_kernel.KernelOp)[0]
    widths = {
        hw.vector_length(op.value.type if isinstance(op, hw.StoreGlobalOp) else op.result.type)
        * (inputs[0].itemsize)
        for op in kernel.walk()
        if isinstance(op, hw.StoreGlobalOp | hw.LoadGlobalOp)
    }
    assert widths == {16}


def _sum_of_turned(g: Graph) -> list[SSAValue]:
    return [g.reduce("sum", turn(g, g.ins[0], 0, 2, 1), 1)]


def _of_gathered(g: Graph) -> list[SSAValue]:
    matrices, places = g.ins
    return [turn(g, g.add(frontend.GatherOp(matrices, places, 0)), 0, 2, 1)]


GATHERED = Program([((9, 40, 72), f32), (("N",), i64)], _of_gathered, ({"N": 5},))

NOT_TURNED: Mapping[str, Program] = {
    "an innermost axis that stays": Program(
        [(NCP, f16)], lambda g: [turn(g, g.ins[0], 1, 0, 2)], ()
    ),
    "a reduction": Program([(NCP, f16)], _sum_of_turned, ()),
    "matrices that are gathered": GATHERED,
    "a column of numbers": Program(
        [(("M", "N"), f16), (("M",), f16)],
        lambda g: [
            g.fn(
                "mul",
                g.ins[0],
                g.add(frontend.ExpandOp(g.ins[1], [0], tensor(("M", "N"), f16))),
            )
        ],
        (),
    ),
}


def test_known_sizes_take_the_vectors_that_divide_them() -> None:
    """Lines of 100 and of 20 halves: 8 bytes at once, in boxes, as the shorter are no lines."""
    plans = [op for op in planned(PROGRAMS["known sizes"]).ops if isinstance(op, ScheduleOp)]
    assert [(p.variant.data, p.integer("vectorize")) for p in plans] == [("boxes", 4)]


@pytest.mark.parametrize("name", NOT_TURNED)
def test_what_is_not_turned(name: str) -> None:
    assert not any(cached(planned(NOT_TURNED[name])))


def test_matrices_that_are_gathered() -> None:
    """Which one a tile reads, no axis of the tile says."""
    (sizes,) = GATHERED.sizes
    source, module = GATHERED.module(), lowered(GATHERED)
    inputs = make_inputs(only(source, GraphOp), sizes, 3)
    finish(module)
    result = simulate(only(module, gpu.ModuleOp), inputs, sizes)
    result.check()
    assert_agree(result.outputs, meant(source, inputs, sizes))


def with_cache(module: ModuleOp, names: list[str]) -> ModuleOp:
    """The module with other tensors in shared memory."""
    for op in list(module.ops):
        if isinstance(op, ScheduleOp):
            fields = op.fields()
            entry = {"where": "smem", "at": "n.i", "pingpong": False}
            fields["cache"] = [{"tensor": name, **entry} for name in names]
            new = ScheduleOp(op.region, op.variant.data, fields, op.when.data)
            module.body.block.insert_op_before(new, op)
            op.detach()
    return module


def test_the_plan_says_what_is_turned() -> None:
    module = with_cache(planned(PROGRAMS["a matrix"]), [])
    run_pass(make_context(), build("region-to-gpu", "sm_90a"), module)
    assert not find(module, hw.SharedTileOp)
    finish(module)
    x = np.arange(70 * 33, dtype=np.float16).reshape(70, 33)
    result = simulate(only(module, gpu.ModuleOp), [x], {"M": 70, "N": 33})
    result.check()
    assert np.array_equal(result.outputs[0], x.T)


def test_a_tile_whose_rows_are_no_vectors_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text('{"variant": "vector", "tile": [4, 256, 1], "warp_tile": [1, 128]}')
    module = PROGRAMS["a matrix"].regions()
    with pytest.raises(PolycError, match="turns tiles of 4 rows, no multiple of its vectors of 8"):
        run_pass(make_context(), build("plan-select", "sm_90a", str(path)), module)


def test_a_plan_that_turns_something_else_is_refused() -> None:
    module = with_cache(planned(PROGRAMS["a matrix"]), ["nobody"])
    with pytest.raises(PolycError, match="keeps nobody in shared memory, where loops turn only"):
        run_pass(make_context(), build("region-to-gpu", "sm_90a"), module)
