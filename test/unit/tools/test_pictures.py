"""Pictures show what the types say, and are well-formed SVG."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from xdsl.dialects.builtin import f16, f32

from polyc.dialects.gpu.types import SharedType
from polyc.tools.pictures import (
    Event,
    bank_group,
    column_conflicts,
    layout_svg,
    timeline_svg,
)

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("span", [32, 64, 128])
def test_the_swizzle_spreads_eight_rows_over_the_banks(span: int) -> None:
    kind = SharedType.of([16, span // 2], f16, span)
    assert column_conflicts(kind) == 1
    assert {bank_group(kind, row, 0) for row in range(8)} == set(range(8))


def test_plain_rows_of_128_bytes_fall_on_one_bank() -> None:
    assert column_conflicts(SharedType.of([16, 64], f16, 0)) == 8


def test_offsets_are_a_permutation_of_the_tile() -> None:
    kind = SharedType.of([16, 128], f16, 128)
    found = {kind.offset(row, column) for row in range(16) for column in range(128)}
    assert found == set(range(0, kind.slot_bytes, 2))


def test_layout_has_a_cell_a_chunk_and_says_where_it_is() -> None:
    kind = SharedType.of([8, 64], f16, 128)
    picture = ElementTree.fromstring(layout_svg(kind, "A & B"))
    titles = [t.text for t in picture.iter(f"{SVG}title")]
    assert len(titles) == 8 * 8
    assert "[1, 0] at byte 144" in titles
    assert any(t.text == "A & B" for t in picture.iter(f"{SVG}text"))


@pytest.mark.parametrize("kind", [SharedType.of([4], f32, 0), SharedType.of([8, 8], f32)])
def test_a_tile_without_a_layout_is_refused(kind: SharedType) -> None:
    with pytest.raises(ValueError, match="no matrix tile"):
        layout_svg(kind)


def test_timeline_has_a_bar_an_event() -> None:
    events = [
        Event("producer", 0, 4, "copy A", 0),
        Event("consumer 0", 4, 9, "wait full", 0),
        Event("consumer 0", 9, 20, "mma", 0),
    ]
    picture = ElementTree.fromstring(timeline_svg(events, "ring"))
    titles = [t.text or "" for t in picture.iter(f"{SVG}title")]
    assert sum("steps" in t for t in titles) == 3
    assert timeline_svg(events) == timeline_svg(events)
    assert timeline_svg([]).startswith("<svg")
