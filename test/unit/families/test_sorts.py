"""Sorts: which schedules they have, what these ask of sizes, and which of a user's are refused."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32

from polyc.cost.time import modelled
from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp, SortOp
from polyc.families.sorts.recognise import find_sorts
from polyc.families.sorts.schedules import SORTS
from polyc.passes.pipeline import build
from polyc.test.support.gpu_text import find
from polyc.test.support.sketch import Size, Sketch
from polyc.tools.pipeline import run_pass
from polyc.tools.registry import make_context


def region_of(*shape: Size, first: int | None = None, element: object = f32) -> KernelOp:
    """The region that sorts rows."""
    s = Sketch("f", element)  # pyright: ignore[reportArgumentType]
    size = None if first is None else Dim.const(first)
    op = frontend.SortOp(s.input("x", *shape), len(shape) - 1, size)
    s.add(op)
    module = s.done(values=op.values, places=op.places)
    for name in ("frontend-to-tiny", "tiny-to-index", "index-to-region"):
        run_pass(make_context(), build(name, "sm_90a"), module)
    return next(k for k in find(module, KernelOp) if any(isinstance(o, SortOp) for o in k.walk()))


def names(kernel: KernelOp) -> list[str]:
    return [plan.variant.data for plan in SORTS.schedules(kernel, "sm_90a")]


def test_rows_that_fit_are_sorted_in_shared_memory() -> None:
    assert names(region_of("M", 256)) == ["shared_256_vector"]
    assert names(region_of("M", 500)) == ["shared_512_vector"]
    assert names(region_of("M", 500, element=f16)) == ["digits_512_vector"]
    assert names(region_of("M", 1000)) == ["digits_1024_vector"]
    assert names(region_of("M", 999)) == ["digits_1024"]
    assert names(region_of("M", 1100)) == ["digits_1280_vector"]
    assert names(region_of("M", 16384)) == ["digits_16384_vector"]
    assert names(region_of("M", 16388)) == ["passes_vector"]


def test_tiles_of_longer_rows_are_smaller_where_there_are_few() -> None:
    """16 rows of 65536 are 208 tiles of 5120, and a chip has room for 264 of these at once."""
    for rows, length, tile in ((16, 65536, 2560), (32, 65536, 5120), (1, 1 << 22, 5120)):
        (plan,) = SORTS.schedules(region_of(rows, length), "sm_90a")
        assert plan.tile_sizes[1] == tile and plan.threads() == 320


def test_rows_of_open_sizes_have_a_kernel_for_each_length_and_one_for_all() -> None:
    kernel = region_of("M", "N")
    found = SORTS.schedules(kernel, "sm_90a")
    lengths = [256, 1024, 4096, 16384]
    ways = [f"{'digits' if n > 256 else 'shared'}_{n}" for n in lengths]
    # One way in passes is enough, as one pass alone would read vectors.
    assert [p.variant.data for p in found] == [*(f"{w}_vector" for w in ways), *ways, "passes"]
    assert not found[-1].when.data and found[0].integer("vectorize") == 4
    assert found[-1].integer("stages") == 4 and found[-1].kernel_names[::11] == [
        "f_passes_counts_0",
        "f_passes",
    ]
    assert [str(fact) for fact in found[0].when.data] == ["N mod 4 == 0", "-N >= -256"]


def test_the_least_of_a_row_of_any_length_go_to_a_pool() -> None:
    assert names(region_of("M", 32768, first=8, element=f16)) == ["pool_vector"]
    assert names(region_of("M", 33, first=8)) == ["pool"]
    (plan,) = SORTS.schedules(region_of("M", 32768, first=1024), "sm_80")
    assert plan.threads() == 256 and plan.tile_sizes[1] == 2048


def test_a_region_that_sorts_is_no_other() -> None:
    kernel = region_of("M", "N")
    found = find_sorts(kernel)
    assert (found.row.label, found.least, found.unsigned) == ("r0", None, False)
    s = Sketch("f", f32)
    module = s.done(y=s.fn("exp", s.input("x", "N")))
    for name in ("frontend-to-tiny", "tiny-to-index", "index-to-region"):
        run_pass(make_context(), build(name, "sm_90a"), module)
    with pytest.raises(PolycError, match="is no sort of rows: it sorts nothing"):
        find_sorts(find(module, KernelOp)[0])


def changed(kernel: KernelOp, **fields: object) -> ScheduleOp:
    plan = SORTS.schedules(kernel, "sm_90a")[0]
    every = {**plan.fields(), **fields}
    return ScheduleOp(plan.region, plan.variant.data, every, plan.when.data)  # pyright: ignore


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tile": [2, 1024, 1]}, "has a tile of 2x1024x1; a block sorts one row"),
        ({"warp_tile": [1, 32]}, "take vectors of 4 of a tile of 1024, which they do not share"),
        ({"algo_choice": {"sorts": "pool"}}, "is pool for this sort"),
        (
            {"tile": [1, 512, 1], "warp_tile": [1, 256]},
            "sorts a row of 1000 in a tile of 512; add",
        ),
        (
            {"tile": [1, 65536, 1], "warp_tile": [1, 2048]},
            "has 65536 elements of 8 bytes in shared memory",
        ),
        ({"algo_choice": {"sorts": "memory"}}, "is memory for a sort of which more is made"),
        ({"algo_choice": {"sorts": "passes"}}, "is passes for a sort of which more is made"),
        ({"algo_choice": {"sorts": "passes_mapped"}}, "asks for a stages that this sort does not"),
        ({"persistent": True}, "asks for a persistent that kernels that sort do not have"),
        ({"raster": "column"}, "asks for a raster that kernels that sort do not have"),
    ],
)
def test_what_a_user_may_not_ask(fields: dict[str, object], why: str) -> None:
    kernel = region_of("M", 1000)
    with pytest.raises(PolycError) as refused:
        SORTS.check(kernel, changed(kernel, **fields))
    assert why in refused.value.message


def test_what_is_proposed_is_taken() -> None:
    for kernel in (region_of("M", "N"), region_of("M", 5000), region_of("M", 9000, first=3)):
        for plan in SORTS.schedules(kernel, "sm_80"):
            SORTS.check(kernel, plan)


def test_longer_rows_take_longer_and_most_in_memory() -> None:
    kernel = region_of("M", "N")
    plans = {p.variant.data: p for p in SORTS.schedules(kernel, "sm_90a")}

    def time(variant: str, rows: int, length: int) -> float:
        return modelled(kernel, plans[variant], {"M": rows, "N": length}).seconds

    assert time("digits_1024", 4096, 1000) < time("digits_4096", 4096, 4000)
    assert time("digits_4096", 4096, 4000) < time("passes", 4096, 4000)
    assert time("passes", 1, 1 << 24) > 9 * time("passes", 1, 1 << 20)
