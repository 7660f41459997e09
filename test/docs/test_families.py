"""docs/families/README.md has every family, in the order of asking; what it shows is so."""

from __future__ import annotations

import re

import pytest

from polyc.dialects.plan.fields import ALGORITHMS
from polyc.families.loops.tiles import PARTED
from polyc.families.registry import FAMILIES
from polyc.families.rows.schedules import SHORTEST
from polyc.families.rows.variants import VARIANTS, WARP
from polyc.families.scatters.schedules import (
    ALONE,
    BROAD,
    ELEMENTS,
    HIGH,
    MANY,
    MOST,
    POOLED,
    SEVERAL,
    SOME,
)
from polyc.lowering.region_to_gpu.scatter_lists import CHUNK, FIRST, GROUP, LONG, PART
from polyc.test.support.doc_pages import blocks, check_shown
from polyc.test.support.root import ROOT

DOC = (ROOT / "docs" / "families" / "README.md").read_text()
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \| .* \|$", re.MULTILINE)


def rows() -> dict[str, list[str]]:
    """Each family of the first table, with the ways in which it computes."""
    table = DOC[: DOC.index("\n## ")]
    return {name: re.findall(r"`(\w+)`", ways) for name, ways in ROW.findall(table)}


def test_the_families_stand_in_the_order_in_which_they_are_asked() -> None:
    assert list(rows()) == [family.name for family in FAMILIES]
    for family in FAMILIES:
        for room in ("families", "lowering/region_to_gpu"):
            assert list((ROOT / room).glob(f"{family.name}*")), f"{room} has no {family.name}"


def test_a_family_computes_in_ways_that_a_plan_can_name() -> None:
    for name, ways in rows().items():
        assert ways and set(ways) <= set(ALGORITHMS[name]), name


def test_the_last_family_is_the_one_that_takes_every_region() -> None:
    assert (
        FAMILIES[-1].name == "loops"
        and "| `loops` | `serial` | every region without a sort, scatter or scan |" in DOC
    )


def test_a_tile_whose_rows_part_a_reduction_is_as_wide_as_the_rule_says() -> None:
    assert f"the tile is {PARTED} columns wide and has no row" in DOC


def test_the_variants_of_rows_are_those_of_the_rule() -> None:
    table = DOC[DOC.index("\n## Rows") : DOC.index("\n## Sorts")]
    shown = re.findall(r"^\| `(\w+)` \|(.*)\|$", table, re.MULTILINE)
    assert [name for name, _ in shown] == [variant.name for variant in VARIANTS]
    for (_, row), variant in zip(shown, VARIANTS, strict=True):
        assert str(variant.columns) in row and ("vectors of 8" in row) == (variant.vector == 8)
        assert variant.rows == 4 or f"{WARP * variant.warps_a_row} threads" in row
    assert f"fewer than {SHORTEST} elements" in table


def test_scatters_find_their_updates_as_the_page_says() -> None:
    text = DOC[DOC.index("\n## Scatters") : DOC.index("\n## Scans")].replace("\n", " ")
    assert MOST == 1 << 29 and "Lists are made of 2²⁹ updates" in text
    for said in (
        f"From {MANY} updates on",
        f"looks at {POOLED} indices at a time",
        f"{HIGH} rows high or more, up to {BROAD} columns wide",
        f"has {ELEMENTS} elements at most, or {ALONE} rows of one column",
        f"with a thread an update, from {SEVERAL} updates on",
        f"the first {FIRST} of a list stand at its place",
        f"a *group* of {GROUP} beside each other, linked to the next {GROUP}",
        f"as `listed`, from {SOME} updates on",
        f"a list of more than {LONG} updates is *long*",
        f"sort such updates, {CHUNK} that follow each other at a time",
        f"parts of {PART} updates of a list",
    ):
        assert " ".join(text.split()).count(said) == 1, said
    shown = re.findall(r"\| `(\w+)` \| `(\w+)` \| (?:`set` of )?(\d+)?", text)
    assert shown == [
        ("last_vector", "last", str(SOME)),
        ("atomic_vector", "atomic", str(SOME)),
        ("listed_vector", "listed", str(SEVERAL)),
        ("pooled_vector", "pooled", str(MANY)),
        ("vector", "serial", ""),
        ("scalar", "serial", ""),
    ]


@pytest.mark.parametrize(("command", "shown"), blocks(DOC, "shows"))
def test_shown_output_is_what_the_command_prints(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    shown: str,
) -> None:
    monkeypatch.chdir(ROOT)
    check_shown(command, shown, capsys)
