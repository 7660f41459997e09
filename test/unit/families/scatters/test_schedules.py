"""Schedules of scatters: which ways there are by sizes, and which of a user's are refused."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.fields import Value, record_of
from polyc.dialects.region import KernelOp
from polyc.families.scatters.recognise import Scatters
from polyc.families.scatters.schedules import MANY, MOST, SCATTERS, SEVERAL, SOME, schedules
from polyc.test.support.sketch import Size
from polyc.test.unit.families.scatters.test_recognise import EACH, ROWS, TUPLES, region


def rows(*shape: Size, count: Size = "N", element: Attribute = f32, fn: str = "add") -> Scatters:
    """A scatter of so many rows of a table."""
    return region(ROWS, shape, (count,), (count, *shape[1:]), element=element, fn=fn)


def names(found: Scatters) -> list[str]:
    return [plan.variant.data for plan in schedules(found, "sm_90a")]


def ways(found: Scatters) -> set[object]:
    return {record_of(plan.algo_choice)["scatters"] for plan in schedules(found, "sm_90a")}


def test_open_sizes_have_every_way_and_the_last_takes_all() -> None:
    plans = schedules(rows("V", "D"), "sm_90a")
    assert [p.variant.data for p in plans] == [
        *("listed_vector", "pooled_vector", "vector"),
        *("listed", "pooled", "scalar"),
    ]
    asked = [[str(fact) for fact in p.when.data] for p in plans]
    whole, many = "D mod 4 == 0", f"N >= {MANY}"
    several = [f"N >= {SEVERAL}", f"-V >= -{MOST}", f"-N >= -{MOST}"]
    assert asked == [[whole, *several], [whole, many], [whole], several, [many], []]


def test_of_set_the_last_one_of_each_place_is_found_ahead() -> None:
    plans = schedules(rows("V", 64, fn="set"), "sm_90a")
    assert [p.variant.data for p in plans] == ["last_vector", "pooled_vector", "vector"]
    assert str(plans[0].when.data[0]) == f"N >= {SOME}"


def test_known_sizes_have_the_fastest_way() -> None:
    assert names(rows(1 << 18, 128, count=1 << 16)) == ["listed_vector"]
    assert names(rows(1 << 18, 129, count=1 << 16)) == ["listed"]
    assert names(rows(1 << 18, 128, count=1 << 16, fn="set")) == ["last_vector"]
    assert names(rows(4096, 1024, count=MANY)) == ["pooled_vector"]
    assert names(rows(4096, 1023, count=MANY)) == ["pooled"]
    assert names(rows(64, 64, count=3)) == ["vector"]
    assert names(rows(64, 63, count=3)) == ["scalar"]
    assert names(rows("V", 64)) == ["listed_vector", "pooled_vector", "vector"]


def test_lines_have_no_vectors() -> None:
    assert names(region(ROWS, ("V",), ("N",), ("N",))) == ["listed", "pooled", "scalar"]
    each = region(EACH, ("A", "V"), ("A", "N"), ("A", "N"), 1)
    assert names(each) == ["listed", "pooled", "scalar"]


def test_only_updates_that_fall_to_a_row_are_pooled() -> None:
    assert ways(rows("V", "D")) == {"listed", "pooled", "serial"}
    assert ways(rows("V", "D", fn="set")) == {"last", "pooled", "serial"}
    assert ways(region(EACH, ("V", "D"), ("N", "D"), ("N", "D"))) == {"listed", "serial"}
    assert ways(region(TUPLES, ("V", "D"), (5000, 2), (5000,))) == {"listed", "serial"}


def test_places_of_too_many_updates_are_not_counted() -> None:
    """A place, and a list, is counted in 32 bits, and a search adds two of them."""
    assert "listed" not in ways(rows(MOST + 1, "D"))
    assert "listed" not in ways(rows("V", "D", count=MOST + 1))
    assert "last" not in ways(region(TUPLES, (1 << 20, 1 << 20), ("N", 2), ("N",), fn="set"))


@pytest.mark.parametrize(
    ("found", "tiles", "vector"),
    [
        (rows("V", 64), [[16, 64, 1], [128, 64, 1], [16, 64, 1]], 4),
        (rows("V", 64, element=f16), [[32, 64, 1], [128, 64, 1], [32, 64, 1]], 8),
        (rows("V", 4096), [[1, 1024, 1], [16, 512, 1], [8, 128, 1]], 4),
        (rows("V", 4095), [[4, 256, 1], [16, 512, 1], [16, 32, 1]], 1),
        (rows(5, 64, count=9), [[8, 64, 1]], 4),
        (region(ROWS, ("V",), ("N",), ("N",)), [[256, 1, 1], [2048, 1, 1], [512, 1, 1]], 1),
        (
            region(ROWS, ("V", 1), ("N",), ("N", 1)),
            [[1024, 1, 1], [2048, 1, 1], [512, 1, 1]],
            1,
        ),
    ],
)
def test_tiles_suit_the_sizes(found: Scatters, tiles: list[list[int]], vector: int) -> None:
    plans = schedules(found, "sm_80")
    assert [list(plan.tile_sizes) for plan in plans] == tiles
    assert {plan.integer("vectorize") for plan in plans} == {vector}


KERNELS: list[Scatters] = [
    rows("V", "D"),
    rows(3, 5, count=MANY, fn="max"),
    rows("V", "D", element=f16),
    rows("V", 1),
    region(ROWS, ("V",), ("N",), ("N",)),
    region(ROWS, ("A", "V", "D"), ("N",), ("A", "N", "D"), 1),
    region(EACH, ("A", "V"), ("A", "N"), ("A", "N"), 1),
    region(TUPLES, ("A", "V", "D"), ("N", 2), ("N", "D")),
    region(EACH, ("V", "D"), ("N", "D"), ("N", "D"), fn="set"),
    region(TUPLES, ("V", "D"), ("N", 2), ("N",), fn="set"),
]


@pytest.mark.parametrize("number", range(len(KERNELS)))
def test_what_is_proposed_is_taken(number: int) -> None:
    kernel: KernelOp = KERNELS[number].kernel
    for arch in ("sm_80", "sm_90a"):
        plans = SCATTERS.schedules(kernel, arch)
        assert not plans[-1].when.data
        for plan in plans:
            SCATTERS.check(kernel, plan)
            assert plan.threads() % 32 == 0


BELOW = "threads that do not lie in rows below each other, by vectors of 4, in a tile of"


@pytest.mark.parametrize(
    ("variant", "fields", "why"),
    [
        ("vector", {"tile": [8, 2, 1]}, "has tiles of 2 columns, no multiple of its vectors of 4"),
        ("scalar", {"tile": [16, 32, 2]}, "has a tile of depth 2, and updates go one by one"),
        (
            "scalar",
            {"tile": [3, 30, 1], "warp_tile": [1, 30]},
            "has 96 threads that do not share a tile of 3x30 evenly",
        ),
        (
            "pooled",
            {"tile": [3, 64, 1], "warp_tile": [1, 64]},
            "has 96 threads that do not share 2048 updates",
        ),
        # Threads that are more than a row's vectors, in no whole rows; and with less than a vector.
        ("pooled_vector", {"tile": [6, 96, 1], "warp_tile": [6, 48]}, f"64 {BELOW} 6x96"),
        ("pooled_vector", {"tile": [4, 64, 1], "warp_tile": [2, 16]}, f"256 {BELOW} 4x64"),
        ("scalar", {"cluster": [2, 1]}, "asks for a cluster that scatters do not have"),
        ("scalar", {"split_k": 2}, "asks for a split_k that scatters do not have"),
        ("scalar", {"group": 4}, "group"),
    ],
)
def test_what_a_user_may_not_ask(variant: str, fields: dict[str, Value], why: str) -> None:
    kernel = rows("V", "D").kernel
    plan = next(p for p in SCATTERS.schedules(kernel, "sm_90a") if p.variant.data == variant)
    with pytest.raises(PolycError) as refused:
        changed = ScheduleOp("f", "mine", {**plan.fields(), **fields}, ())
        SCATTERS.check(kernel, SCATTERS.completed(kernel, changed, fields))
    assert why in refused.value.message


@pytest.mark.parametrize(
    ("found", "way", "why"),
    [
        (
            region(TUPLES, ("V", "D"), ("N", 2), ("N",)),
            "pooled",
            "pools updates that fall to a row each, and these do not",
        ),
        (
            region(TUPLES, ("V", "D"), ("N", 2), ("N",)),
            "last",
            "takes the last update of each place, and these add all",
        ),
        (rows("V", "D", fn="set"), "listed", "updates of each place, of which the last one stays"),
        (rows("V", "D"), "last", "takes the last update of each place, and these add all"),
    ],
)
def test_a_way_that_does_not_find_the_updates_is_refused(
    found: Scatters, way: str, why: str
) -> None:
    kernel = found.kernel
    plan = SCATTERS.schedules(kernel, "sm_90a")[-1]
    other: dict[str, Value] = {"algo_choice": {"scatters": way}}
    with pytest.raises(PolycError, match=why):
        SCATTERS.check(kernel, ScheduleOp("f", "mine", {**plan.fields(), **other}, ()))
