"""The space of tiles for reductions of known sizes: plans are right, and the first is taken."""

from __future__ import annotations

import random

import pytest
from xdsl.dialects.builtin import f16

from polyc.cost.device import device_of
from polyc.cost.reductions import (
    Reduction,
    SharedTile,
    nanoseconds,
    reduction_of,
    spread,
    tiles_of,
)
from polyc.cost.time import modelled
from polyc.cost.values import Values
from polyc.dialects.common.arch import ARCHS
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.loops.partial_sums import find_shared
from polyc.families.loops.recognise import Loops, find_loops
from polyc.families.loops.schedules import LOOPS, fastest, others, shared_schedule
from polyc.families.loops.shared_space import WAVES, open_tiles, ranked, tiles
from polyc.families.structure import MOST_PARTS
from polyc.passes.finish import finish
from polyc.passes.pipeline import build
from polyc.playback.gpu.simulate import simulate
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.loop_programs import Program
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context

PROGRAMS = {
    "columns": Program([((130, 72), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ({},)),
    "odd columns": Program([((77, 37), f16)], lambda g: [g.reduce("max", g.ins[0], 0)], ({},)),
    "a middle axis": Program([((2, 65, 40), f16)], lambda g: [g.reduce("sum", g.ins[0], 1)], ({},)),
    "channels": Program([((3, 5, 136), f16)], lambda g: [g.reduce("mean", g.ins[0], 0, 2)], ({},)),
    "all": Program([((31, 264), f16)], lambda g: [g.reduce("sum", g.ins[0], 0, 1)], ({},)),
}


def loops_of(program: Program, arch: str = "sm_90a") -> Loops:
    """A program's region, as schedules are asked for."""
    module = program.regions()
    run_pass(make_context(), build("region-merge-axes", arch), module)
    return find_loops(only(module, KernelOp))


def space_of(loops: Loops, vector: int, arch: str) -> list[tuple[float, SharedTile]]:
    shared = find_shared(loops)
    assert shared is not None
    return ranked(shared, vector, arch)


def built(program: Program, plan: ScheduleOp, arch: str) -> gpu.ModuleOp:
    """A program's kernels under a plan, at the hardware level."""
    module = program.regions()
    run_pass(make_context(), build("region-merge-axes", arch), module)
    kernel = only(module, KernelOp)
    block = kernel.parent_block()
    assert block is not None
    block.insert_op_after(plan.clone(), kernel)
    for name in ("region-expand-together", "region-to-gpu"):
        run_pass(make_context(), build(name, arch), module)
    finish(module)
    return only(module, gpu.ModuleOp)


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_of_the_space_are_right_and_have_the_blocks_that_the_model_counts(
    name: str, arch: str
) -> None:
    """In the simulator, races included, for some that are drawn of the small ones."""
    program = PROGRAMS[name]
    loops = loops_of(program, arch)
    problem = reduction_of(Values(loops.kernel, {}), loops.spaces[0].column)
    assert problem is not None
    vector = 1 if name == "odd columns" else 8
    few = [tile for _, tile in space_of(loops, vector, arch) if tile.threads <= 256]
    few = [tile for tile in few if tiles_of(problem, tile) * tile.parts <= 12]
    source = program.module()
    inputs = make_inputs(only(source, GraphOp), {}, 3)
    expected = meant(source, inputs, {})
    for number, tile in enumerate(random.Random(name).sample(few, 2)):
        plan = shared_schedule(loops, arch, tile)
        LOOPS.check(loops.kernel, plan)
        result = simulate(built(program, plan, arch), inputs, {}, schedule="random", seed=number)
        result.check()
        assert_agree(result.outputs, expected)
        second = 0
        if plan.stores_sums:
            second = result.counters.ctas - tiles_of(problem, tile) * tile.parts
            assert 0 < second <= problem.outer * problem.kept
        assert result.counters.ctas == tiles_of(problem, tile) * tile.parts + second


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_all_plans_of_the_space_are_within_the_limits(name: str, arch: str) -> None:
    loops = loops_of(PROGRAMS[name], arch)
    found = others(loops, arch)
    assert found and [ns for ns, _ in found] == sorted(ns for ns, _ in found)
    assert len({tile for _, tile in found}) == len(found)
    for _, tile in random.Random(name).sample(found, min(30, len(found))):
        plan = shared_schedule(loops, arch, tile)
        LOOPS.check(loops.kernel, plan)
        assert plan.threads() <= 1024 and plan.integer("split_k") <= MOST_PARTS
        assert plan.stores_sums or plan.integer("split_k") <= ARCHS[arch].cluster


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_by_the_model_is_what_is_proposed(name: str) -> None:
    loops = loops_of(PROGRAMS[name])
    (least, first), *rest = others(loops, "sm_90a")
    plan = fastest(loops, "sm_90a")[0]
    assert plan.fields() == shared_schedule(loops, "sm_90a", first).fields()
    assert plan.fields() == LOOPS.schedules(loops.kernel, "sm_90a")[0].fields()
    assert modelled(loops.kernel, plan, {}).seconds * 1e9 == pytest.approx(least)
    for ns, tile in rest[:5]:
        other = shared_schedule(loops, "sm_90a", tile)
        assert modelled(loops.kernel, other, {}).seconds * 1e9 == pytest.approx(ns)
        assert ns >= least


def test_what_reads_by_elements_is_there_where_addresses_may_be_odd() -> None:
    loops = loops_of(PROGRAMS["columns"])
    assert [plan.integer("vectorize") for plan in fastest(loops, "sm_90a")] in ([8], [8, 1])


def test_open_sizes_and_others_have_no_space() -> None:
    opened = Program([(("R", "C"), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ())
    plain = Program([((64, 64), f16)], lambda g: [g.fn("neg", g.ins[0])], ())
    for program in (opened, plain):
        loops = loops_of(program)
        assert not others(loops, "sm_90a") and not fastest(loops, "sm_90a")


def test_a_chip_is_filled_by_parts_where_results_are_few() -> None:
    """Of 64 MB with 64 columns, blocks of which each has some fill the chip about once or more."""
    program = Program([((1 << 19, 64), f16)], lambda g: [g.reduce("sum", g.ins[0], 0)], ({},))
    loops = loops_of(program)
    plan = fastest(loops, "sm_90a")[0]
    assert plan.stores_sums and 100 <= plan.integer("split_k") <= MOST_PARTS
    (kernel,) = find(loops.kernel.parent_op() or loops.kernel, KernelOp)
    problem = reduction_of(Values(kernel, {}), loops.spaces[0].column)
    assert problem is not None
    alone = SharedTile(128, 64, 256, 8, 1, stored=False)
    assert nanoseconds(problem, alone, device_of("sm_90a")) > 20 * 1e9 * (
        modelled(kernel, plan, {}).seconds
    )


# Of open sizes -------------------------------------------------------------------------------


def one_by_one(problem: Reduction, vector: int, arch: str) -> list[SharedTile]:
    """The tiles of a kernel that is made before sizes are known, from those of known sizes."""
    every = list(tiles(problem, vector, arch))
    found = [tile for tile in every if tile.parts == 1 or not tile.stored]
    shapes = dict.fromkeys(tile[:4] for tile in every if tile.parts > 1 and tile.stored)
    for shape in shapes:
        for waves in WAVES:
            blocks = min(ARCHS[arch].multiprocessors * waves, MOST_PARTS)
            tile = SharedTile(*shape, blocks=blocks)
            if tiles_of(problem, tile) * 2 <= blocks:
                found.append(spread(problem, tile))
    return found


def drawn(draw: random.Random) -> Reduction:
    def size() -> int:
        return draw.choice((1, draw.randint(2, 70), *(round(2 ** draw.uniform(6, 21)),) * 4))

    beside, moments = draw.random() < 0.5, draw.random() < 0.3
    kept = draw.choice((1, size()))
    second = 1 if beside or kept > 1 else draw.choice((1, size()))
    others = draw.choice((1, 1, draw.randint(2, 50)))
    return Reduction(size(), kept, beside, size(), second, others, moments=moments)


@pytest.mark.parametrize("arch", ARCHS)
def test_tiles_of_open_sizes_are_found_together(arch: str) -> None:
    """In the order in which they are found one by one, with what each has of a problem."""
    draw, counts = random.Random(2), list[int]()
    for _ in range(60):
        problem, vector = drawn(draw), draw.choice((1, 4, 8))
        found, wanted = open_tiles(problem, vector, arch), one_by_one(problem, vector, arch)
        listed = [] if found is None else list(zip(*(one.tolist() for one in found), strict=True))
        assert listed == wanted, problem
        counts.append(len(wanted))
    assert sum(map(bool, counts)) > 40
