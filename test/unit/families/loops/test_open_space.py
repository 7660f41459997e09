"""Reductions of open sizes: which tile runs where, by the model of time (S11.1, S12.4)."""

from __future__ import annotations

from functools import cache
from math import exp, log, prod
from random import Random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.cost.device import device_of
from polyc.cost.reductions import reduction_of, spread, times_of, together
from polyc.cost.time import chosen, modelled, modelled_of, seconds_of
from polyc.cost.values import Values
from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import module as gpu
from polyc.dialects.region import KernelOp
from polyc.families.loops.open_space import PARTS, spread_all
from polyc.families.loops.partial_sums import find_shared
from polyc.families.loops.recognise import Loops, find_loops
from polyc.families.loops.schedules import schedules
from polyc.families.loops.shared_space import tiles
from polyc.passes.pipeline import ABOVE_GPU, build
from polyc.playback import tile
from polyc.playback.agreement import tolerance_check
from polyc.playback.reference import make_inputs, reference
from polyc.test.support.gpu_text import only, parsed
from polyc.tools.registry import make_context

TEXT = """
frontend.graph @sums(%X: !frontend.tensor<[SHAPE], f16>) -> (Y: !frontend.tensor<[KEPT], f16>) {
  %y = frontend.reduce sum %X axes [AXES] : !frontend.tensor<[SHAPE], f16> ->
       !frontend.tensor<[KEPT], f16>
  frontend.output %y : !frontend.tensor<[KEPT], f16>
}
"""
FORMS = {
    "columns": ("M, N", "N", "0"),
    "a middle axis": ("M, 96, N", "M, N", "1"),
    "channels": ("M, 24, N", "24", "0, 2"),
}
"""Shapes, what is kept of them, and the axes that are summed."""


def text_of(form: str) -> str:
    shape, kept, axes = FORMS[form]
    return TEXT.replace("SHAPE", shape).replace("KEPT", kept).replace("AXES", axes)


@cache
def built(form: str, *borders: str) -> ModuleOp:
    """A form behind some borders, which tests read."""
    module = parsed(text_of(form))
    for border in borders:
        build(border, "sm_90a").apply(make_context(), module)
    return module


def loops_of(form: str) -> Loops:
    return find_loops(only(built(form, *ABOVE_GPU[: ABOVE_GPU.index("plan-select")]), KernelOp))


def drawn(form: str, count: int) -> list[dict[str, int]]:
    """Random sizes, of 1 to 64 million elements, a third of them odd."""
    draw, apart = Random(form), prod(int(n) for n in FORMS[form][0].split(", ") if n.isdigit())
    found: list[dict[str, int]] = []
    for _ in range(count):
        length = round(exp(draw.uniform(log(8), log(1 << 18))))
        length = length | 1 if draw.random() < 0.3 else -(-length // 8) * 8
        elements = exp(draw.uniform(log(1 << 20), log(1 << 26)))
        found.append({"M": max(1, round(elements / length / apart)), "N": length})
    return found


@pytest.mark.parametrize("form", FORMS)
def test_every_size_has_a_tile_near_the_fastest(form: str) -> None:
    """By the model, at random sizes: none takes ten times as long, and all a third more."""
    loops = loops_of(form)
    plans, shared = schedules(loops, "sm_90a"), find_shared(loops)
    assert shared is not None and not plans[-1].when.data
    assert sum(plan.integer("vectorize") > 1 for plan in plans) <= 2 * PARTS
    lost: list[float] = []
    for sizes in drawn(form, 40):
        problem = reduction_of(Values(loops.kernel, sizes), shared.space.column)
        plan, device = chosen(plans, sizes), device_of("sm_90a")
        assert problem is not None and plan is not None
        space = list(tiles(problem, 8 if sizes["N"] % 8 == 0 else 1, "sm_90a"))
        if space:
            least = float(times_of(problem, together(space), device).min())
            lost.append(modelled(loops.kernel, plan, sizes).seconds * 1e9 / least)
    assert len(lost) > 30
    assert max(lost) < 10
    assert exp(sum(map(log, lost)) / len(lost)) < 1.34


@pytest.mark.parametrize("form", FORMS)
def test_what_is_asked_of_many_is_what_each_one_has(form: str) -> None:
    """The seconds of plans without their parts, and the parts of tiles that blocks share."""
    loops, device = loops_of(form), device_of("sm_90a")
    plans, shared = schedules(loops, "sm_90a"), find_shared(loops)
    assert shared is not None
    blocks = 0
    for sizes in drawn(form, 8):
        values = Values(loops.kernel, sizes)
        for plan in plans:
            assert seconds_of(values, plan, device) == modelled_of(values, plan, device).seconds
        problem = reduction_of(values, shared.space.column)
        assert problem is not None
        space = list(tiles(problem, 1, "sm_90a"))
        space += [one._replace(parts=1, blocks=count) for one in space for count in (7, 528)]
        many = spread_all(problem, together(space))
        assert many.parts.tolist() == [spread(problem, one).parts for one in space]
        blocks += len(space)
    assert blocks > 100


def test_parts_are_by_bounds_on_sizes() -> None:
    """Few columns of many rows have another tile than few rows of many; no name is there twice."""
    plans = schedules(loops_of("columns"), "sm_90a")
    names = [plan.variant.data for plan in plans]
    assert len(set(names)) == len(names)
    deep, flat = (chosen(plans, {"M": m, "N": n}) for m, n in ((1 << 20, 16), (64, 1 << 18)))
    assert deep is not None and flat is not None
    assert deep.stores_sums and not flat.stores_sums
    assert deep.tile_sizes[0] > flat.tile_sizes[0]


def test_known_sizes_have_one_tile() -> None:
    """Where nothing is open there is nothing to part: the fastest one is taken."""
    module = parsed(text_of("columns").replace("M, N", "4096, 256").replace("[N]", "[256]"))
    for border in ABOVE_GPU[: ABOVE_GPU.index("plan-select")]:
        build(border, "sm_90a").apply(make_context(), module)
    assert len(schedules(find_loops(only(module, KernelOp)), "sm_90a")) == 1


@pytest.mark.parametrize("sizes", [{"M": 300, "N": 40}, {"M": 37, "N": 136}, {"M": 35, "N": 21}])
@pytest.mark.parametrize("form", FORMS)
def test_what_takes_a_size_computes_the_sums(form: str, sizes: dict[str, int]) -> None:
    graph = only(parsed(text_of(form)), GraphOp)
    kernels = only(built(form, *ABOVE_GPU), gpu.ModuleOp)
    inputs = make_inputs(graph, sizes)
    (wanted,) = reference(graph, inputs, sizes)
    takers = [
        variant.variant_name
        for variant in kernels.dispatch().variants()
        if all(fact.holds(sizes) for fact in variant.facts.data)
    ]
    assert takers
    for name in takers:
        (found,) = tile.run(kernels, inputs, sizes, name)
        element = graph.outputs[0].type.element_type
        assert tolerance_check(np.asarray(found), wanted, element) is None, name
