"""Which schedules of a graph's kernels run together (S12.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.dialects.plan import ScheduleOp
from polyc.families.family import Fields
from polyc.lowering.region_to_gpu.sequences import MOST, SAMPLES, merged, together
from polyc.passes.pipeline import STAGES, build
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.test.support.gpu_text import find
from polyc.test.support.model_programs import MODELS
from polyc.test.support.sketch import dim
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

NOTHING = AssumptionsAttr(())


def plan(kernel: str, variant: str, *when: Assumption) -> ScheduleOp:
    fields: Fields = {
        "arch": "sm_80",
        "tensorize": "",
        "mma": "none",
        "loader": "register",
        "tile": [8, 128, 1],
        "stages": 1,
        "warp_tile": [1, 128],
        "vectorize": 1,
        "vectorize_axis": "",
        "bind": {},
        "predicate_tail": [],
        "algo_choice": {"loops": "serial"},
    }
    return ScheduleOp(kernel, variant, fields, when)


def at_most(size: int, symbol: str = "T") -> Assumption:
    return Assumption(Dim.const(size) - dim(symbol), ">=")


def kernel(name: str, **limits: int) -> list[ScheduleOp]:
    """Schedules up to so many T each, and one for all sizes."""
    found = [plan(name, variant, at_most(size)) for variant, size in limits.items()]
    return [*found, plan(name, "any")]


def first(plans: Sequence[ScheduleOp], sizes: Mapping[str, int]) -> int:
    held = (i for i, p in enumerate(plans) if all(f.holds(sizes) for f in p.when.data))
    return next(held)


def ran(plans: Sequence[Sequence[ScheduleOp]], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """What is dispatched: the first of the sequences all of whose conditions hold."""
    for chosen in together(plans, tuple(sizes), NOTHING):
        facts = [f for own, i in zip(plans, chosen, strict=True) for f in own[i].when.data]
        if all(fact.holds(sizes) for fact in facts):
            return chosen
    raise AssertionError("the last sequence takes every size")


def test_kernels_that_change_alike_have_a_sequence_a_name() -> None:
    plans = [kernel("a", few=128), kernel("b", few=128)]
    assert together(plans, ["T"], NOTHING) == {(0, 0): "few", (1, 1): "any"}


def test_kernels_that_change_elsewhere_have_one_for_what_is_between() -> None:
    plans = [kernel("a", few=128), kernel("b", few=2000)]
    found = together(plans, ["T"], NOTHING)
    assert found == {(0, 0): "few", (1, 0): "any_few", (1, 1): "any"}
    assert ran(plans, {"T": 1000}) == (1, 0)


def test_what_the_assumptions_exclude_is_not_sampled() -> None:
    plans = [kernel("a", few=128), kernel("b", few=2000)]
    assert (1, 0) not in together(plans, ["T"], AssumptionsAttr((at_most(128),)))


def test_without_symbols_there_is_nothing_to_sample() -> None:
    plans = [kernel("a"), kernel("b")]
    assert together(plans, [], NOTHING) == {(0, 0): "any"}


def test_a_name_is_taken_once() -> None:
    plans = [
        [plan("a", "x", at_most(16)), plan("a", "x_y", at_most(300)), plan("a", "y")],
        [plan("b", "x", at_most(16)), plan("b", "y", at_most(1000)), plan("b", "z")],
        [plan("c", "x", at_most(64)), plan("c", "y")],
    ]
    names = list(together(plans, ["T"], NOTHING).values())
    assert len(set(names)) == len(names)


def test_samples_add_so_many_sequences_at_most() -> None:
    symbols = [f"S{i}" for i in range(4)]
    plans = [
        [*(plan(s, f"v{n}", at_most(n, s)) for n in SAMPLES[1:-1:2]), plan(s, "any")]
        for s in symbols
    ]
    by_name = len(merged([[p.variant.data for p in own] for own in plans]))
    assert by_name < len(together(plans, symbols, NOTHING)) <= by_name + MOST


@given(
    limits=st.lists(
        st.lists(st.sampled_from((8, 100, 300, 1000, 3000, 10000)), max_size=3, unique=True).map(
            sorted
        ),
        min_size=1,
        max_size=4,
    ),
    size=st.sampled_from(SAMPLES),
)
def test_each_kernel_runs_as_it_would_alone(limits: list[list[int]], size: int) -> None:
    plans = [
        [*(plan(f"k{k}", f"v{i}", at_most(n)) for i, n in enumerate(own)), plan(f"k{k}", "any")]
        for k, own in enumerate(limits)
    ]
    assert ran(plans, {"T": size}) == tuple(first(own, {"T": size}) for own in plans)


def test_an_earlier_choice_comes_before_a_later_one() -> None:
    plans = [kernel("a", few=128, some=600), kernel("b", few=2000), kernel("c", few=5000)]
    order = list(together(plans, ["T"], NOTHING))
    for one, other in pairwise(order):
        assert not all(a >= b for a, b in zip(one, other, strict=True))


def test_between_samples_few_kernels_fall_to_their_last_schedule() -> None:
    """At 600 the best choice was not sampled: all take what is a little slower."""
    one = [plan("a", "x", at_most(600)), plan("a", "y"), plan("a", "any")]
    other = [plan("b", "x", at_most(590)), plan("b", "y"), plan("b", "any")]
    far = [plan("c", "x", at_most(8, "S")), plan("c", "y", at_most(2000, "S")), plan("c", "any")]
    order = list(together([one, other, far], ["T", "S"], NOTHING))
    falls = [sum(i == 2 for i in chosen) for chosen in order]
    assert falls == sorted(falls) and falls[0] == 0


@pytest.mark.parametrize("name", ["lora", "moe_gate"])
def test_products_of_a_model_split_where_each_should(name: str) -> None:
    """A narrow product among wide ones shares its steps at 4096 tokens; the wide ones do not."""
    module = parse_text(make_context(), str(MODELS[name].module(large=True)), "model.mlir")
    plans: dict[str, list[ScheduleOp]] = {}
    for stage in ("tiny", "index", "region", "plan", "tiles"):
        if stage == "tiles":
            for p in find(module, ScheduleOp):
                plans.setdefault(p.region.string_value(), []).append(p.clone())
        for step in STAGES[stage]:
            build(step, "sm_90a").apply(make_context(), module)
    dispatch = gpu_module_of(module).dispatch()
    for size in (1, 128, 1000, 4096):
        sizes = {"T": size}
        wanted = [name for own in plans.values() for name in own[first(own, sizes)].kernel_names]
        variant = next(v for v in dispatch.variants() if all(f.holds(sizes) for f in v.facts.data))
        assert [launch.kernel.string_value() for launch in variant.launches()] == wanted
