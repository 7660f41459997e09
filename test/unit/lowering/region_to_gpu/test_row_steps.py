"""Kernels of products whose rows are reduced after them: what they compute and take (S6.4, S9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import SSAValue

from polyc.dialects.frontend import GraphOp
from polyc.dialects.gpu import kernel as gpu
from polyc.dialects.gpu import tile
from polyc.dialects.gpu.module import ModuleOp as GpuModule
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.lowering.region_to_gpu.point import element_of
from polyc.passes.pipeline import build
from polyc.passes.support.plan.estimate import estimate
from polyc.playback.estimate import Estimate
from polyc.playback.gpu.simulate import MULTIPROCESSORS, gpu_module_of, simulate
from polyc.playback.mutation import mutants
from polyc.playback.mutation.verdict import Case, judge
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.follow_programs import PROGRAMS
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.split_programs import run
from polyc.tools.parsing import parse_text
from polyc.tools.play import play
from polyc.tools.registry import make_context

COUNTED = (
    *("ctas", "threads", "global_write_bytes", "shared_read_bytes", "shared_write_bytes"),
    *("peak_shared_bytes", "cp_async_bytes", "tma_loads", "tma_bytes", "mma", "wgmma"),
    *("barriers", "mbarrier_waits"),
)
"""What a plan foretells, and the simulator counts."""

MEETINGS = ("gpu.mbarrier_arrive_cluster", "gpu.named_barrier", "gpu.barrier")

SHALLOW: Mapping[str, int] = {"M": 70, "K": 72, "B": 2}
ODD: Mapping[str, int] = {"M": 33, "K": 39, "B": 1}
DEEP: Mapping[str, int] = {"M": 21, "K": 2056, "B": 1}

ONE = [name for name in PROGRAMS if name != "heads"]


@cache
def graph_of(name: str, n: int) -> ModuleOp:
    return parse_text(make_context(), str(PROGRAMS[name](n)), "follow.mlir")


@cache
def planned(name: str, n: int, arch: str) -> ModuleOp:
    return run(PROGRAMS[name](n), "plan", arch=arch)


@cache
def built(name: str, n: int, arch: str, variant: str) -> GpuModule:
    """The kernels of one variant."""
    return gpu_module_of(run(PROGRAMS[name](n), "gpu", arch=arch, variant=variant))


@cache
def wanted(name: str, n: int, depth: int) -> tuple[dict[str, int], Sequence[Any], list[Estimate]]:
    """Sizes, inputs, and what the program means on them."""
    (given,) = (s for s in (SHALLOW, ODD, DEEP) if s["K"] == depth)
    graph = graph_of(name, n)
    op = only(graph, GraphOp)
    names = [symbol.data for symbol in op.symbols]
    sizes = {name: given[name] for name in names}
    inputs = make_inputs(op, sizes, 4)
    return sizes, inputs, meant(graph, inputs, sizes)


def check(name: str, n: int, arch: str, depth: int, variant: str) -> None:
    """A variant computes what its program means, and counts what its plan foretells."""
    sizes, inputs, right = wanted(name, n, depth)
    kernels = built(name, n, arch, variant)
    result = simulate(kernels, inputs, sizes, f"{name}_{variant}")
    assert [str(f.error()) for f in result.findings] == []
    assert_agree(result.outputs, right, variant)
    plans = planned(name, n, arch)
    plan = next(p for p in find(plans, ScheduleOp) if p.variant.data == variant)
    foretold = estimate(only(plans, KernelOp), plan, sizes, MULTIPROCESSORS).as_dict()
    counted = {field: getattr(result.counters, field) for field in COUNTED}
    assert counted == {field: foretold[field] for field in COUNTED}


EVERY = [
    ("sm_90a", "tma_low", 72),
    ("sm_90a", "tma", 72),
    ("sm_90a", "cp_async", 72),
    ("sm_90a", "scalar", 39),
    ("sm_80", "cp_async16", 72),
    ("sm_80", "scalar", 39),
]
SOME = [("sm_90a", "tma", 72), ("sm_80", "cp_async16", 72)]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "n", "arch", "variant", "depth"),
    [
        (name, n, *kind)
        for name in ONE
        for turn, n in enumerate((40, 200), ONE.index(name))
        for kind in ((EVERY if n == 200 else EVERY[1::2]) if name == "normed" else [SOME[turn % 2]])
        if name != "turned"
    ],
)
def test_kernels_compute_what_they_mean(
    name: str, n: int, arch: str, variant: str, depth: int
) -> None:
    """A warp's rows, those of warps beside each other, and of a cluster's CTAs, all with tails.

    One program takes every variant; each other one both kinds of rows, on an architecture each.
    """
    check(name, n, arch, depth, variant)


@pytest.mark.parametrize(
    ("name", "variant"), [("active", "tma_low_split8"), ("highest", "tma_split2")]
)
def test_the_ctas_of_a_split_reduce_what_they_have_of_a_row(name: str, variant: str) -> None:
    check(name, 40, "sm_90a", 2056, variant)


@pytest.mark.parametrize(("arch", "n"), [("sm_90a", 40), ("sm_80", 200)])
def test_the_column_may_be_the_first_axis(arch: str, n: int) -> None:
    """The rows of a matrix that is stored along the other axis are no vectors."""
    check("turned", n, arch, 39, "scalar")


@pytest.mark.parametrize("name", ONE)
def test_tiles_mean_the_same(name: str) -> None:
    sizes, inputs, right = wanted(name, 40, 72)
    tiles = run(PROGRAMS[name](40), "plan")
    build("region-to-gpu", "sm_90a").apply(make_context(), tiles)
    found = play(tiles, only(graph_of(name, 40), GraphOp).sym_name.data, inputs, sizes)
    assert found is not None
    assert_agree(list(found), right, name)


def test_sums_of_a_cluster_are_the_same_in_every_order() -> None:
    sizes, inputs, _ = wanted("normed", 200, 72)
    kernels = built("normed", 200, "sm_90a", "tma")
    first = simulate(kernels, inputs, sizes, "normed_tma")
    other = simulate(
        kernels, inputs, sizes, "normed_tma", schedule="random", completion="random", seed=3
    )
    assert not other.findings
    assert [a.tobytes() for a in first.outputs] == [a.tobytes() for a in other.outputs]


@pytest.mark.turns(2)
@pytest.mark.parametrize("variant", ["tma_low", "cp_async"])
def test_no_meeting_of_the_exchange_is_there_for_nothing(variant: str) -> None:
    """Without one of them the simulator finds a fault, or another result."""
    sizes, inputs, right = wanted("normed", 200, 72)
    kernels = built("normed", 200, "sm_90a", variant)
    case = Case.of(kernels, f"normed_{variant}", sizes, inputs, right)
    found = [m for m in mutants(kernels) if m.op in MEETINGS][:6]
    assert len(found) >= 3
    survived = [v for v in (judge(m, [case]) for m in found) if v.outcome == "survived"]
    assert not survived, "\n".join(str(v.mutant) for v in survived)


# What is kept from step to step ---------------------------------------------------------


def steps_kept(module: ModuleOp, arch: str = "sm_90a") -> list[tuple[str, ...]]:
    """The elements of each wide fragment that a kernel's maps write, in order."""
    tiles = run(module, "plan", arch=arch)
    build("region-to-gpu", arch).apply(make_context(), tiles)
    kernel = gpu_module_of(tiles).kernels()[-1]
    assert isinstance(kernel, gpu.KernelOp)
    found: list[tuple[str, ...]] = []
    for op in find(kernel, tile.MapOp):
        wide = [v for v in op.outputs if len(getattr(v.type, "sizes", ())) == 2]
        found.append(tuple(str(element_of(v)) for v in wide))
    return found


def normed_of(make: Callable[[Sketch, SSAValue], SSAValue], n: int = 64) -> ModuleOp:
    s = Sketch("kept")
    y = make(s, s.linear(s.input("x", "M", 512), "w", n))
    return s.done(y=s.rms_norm(y, "norm"))


def test_what_costs_is_kept_in_the_place_of_what_it_is_made_of() -> None:
    """GELU is computed once, and no part of it and the product beside each other."""
    found = steps_kept(normed_of(lambda s, y: s.fn("gelu", y)))
    assert found[0] == ("f32", "f32")
    # As it is rounded, where an output is.
    assert steps_kept(PROGRAMS["active"](64))[0] == ("f32", "f16")


def test_what_is_cheap_is_computed_again() -> None:
    """A square of what is held takes no fragment beside."""
    assert steps_kept(normed_of(lambda s, y: s.cast(y, f32)))[0] == ("f32",)


def test_a_residual_is_read_once() -> None:
    """Its sum with the product is kept, and not both."""

    def add(s: Sketch, y: SSAValue) -> SSAValue:
        return s.fn("add", y, s.input("skip", "M", 64))

    assert steps_kept(normed_of(add))[0] == ("f32", "f32")
