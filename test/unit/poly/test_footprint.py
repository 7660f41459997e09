"""Footprints, least buffers, halos and tails against enumeration (S4.10, S7.1)."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineSet

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.common.dim import Assumption, AssumptionsAttr, Dim
from polyc.poly.footprint import Buffer, Footprint, footprint, least_buffer
from polyc.poly.halo import Halo, halo
from polyc.poly.tails import Tail, tail
from polyc.poly.ways import Blocked
from polyc.test.support.book_needs import Sizes, booked, booked_text, entry_of, named, needed
from polyc.test.support.book_points import Point, points
from polyc.test.support.movement_chains import SIZES, Chain
from polyc.test.support.turns import examples
from polyc.test.unit.poly.test_compute_at import SOFTMAX, STENCIL, TURNED

CONV = """
tiny.graph @conv(%x: !tiny.tensor<[H, C], f16>)
    -> (y: !tiny.tensor<[(H + 1) floordiv 2], f32>) {
  %s = tiny.cast %x : !tiny.tensor<[H, C], f16> -> !tiny.tensor<[H, C], f32>
  %p = tiny.pad %s low [1, 0] high [1, 0] value 0.0
      : !tiny.tensor<[H, C], f32> -> !tiny.tensor<[H + 2, C], f32>
  %v = tiny.window %p axes [0] size [3] stride [2] dilation [1]
      : !tiny.tensor<[H + 2, C], f32> -> !tiny.tensor<[(H + 1) floordiv 2, C, 3], f32>
  %y = tiny.reduce sum %v axes [1, 2]
      : !tiny.tensor<[(H + 1) floordiv 2, C, 3], f32> -> !tiny.tensor<[(H + 1) floordiv 2], f32>
  tiny.output %y : !tiny.tensor<[(H + 1) floordiv 2], f32>
}
"""


def values(text: str) -> dict[str, SSAValue]:
    return named(booked_text(text))


def live(
    producer: SSAValue, consumer: SSAValue, tiles: dict[int, int], sizes: Sizes
) -> dict[Point, set[Point]]:
    """For each tile, the elements of the producer that its points need."""
    found: dict[Point, set[Point]] = {}
    for point in points(entry_of(consumer).all_axes, sizes):
        tile = tuple(point[a] // t for a, t in tiles.items())
        elements = needed(consumer, point, producer, sizes, whole=False)
        found.setdefault(tile, set()).update(elements)
    return found


def extents(elements: set[Point]) -> list[int]:
    return [max(c) - min(c) + 1 for c in zip(*elements, strict=True)] if elements else []


BESIDE = STENCIL.replace(
    "tiny.output %y",
    "%z = tiny.binary add %s, %y : !tiny.tensor<[N], f32>\n  tiny.output %z",
)
"""The stencil and the value itself: two ways, the narrow one first."""
STRIDED = """
tiny.graph @f(%x: !tiny.tensor<[2 * N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  %s = tiny.slice %x [0:2 * N:2] : !tiny.tensor<[2 * N], f32> -> !tiny.tensor<[N], f32>
  %y = tiny.unary neg %s : !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}
"""

CASES: list[tuple[str, str, str, dict[int, int], Sizes, list[str]]] = [
    (SOFTMAX, "s", "e", {0: 4}, {"M": 9, "N": 7}, ["4", "N"]),
    (SOFTMAX, "s", "e", {1: 4}, {"M": 9, "N": 7}, ["M", "N"]),
    (SOFTMAX, "m", "e", {0: 4, 1: 2}, {"M": 9, "N": 7}, ["4"]),
    (STENCIL, "s", "y", {0: 4}, {"N": 30}, ["6"]),
    (STENCIL, "s", "y", {}, {"N": 9}, ["N"]),
    (BESIDE, "s", "z", {0: 4}, {"N": 30}, ["6"]),
    (STRIDED, "x", "y", {0: 4}, {"N": 15}, ["7"]),
    (TURNED, "s", "y", {0: 2, 1: 2}, {"N": 9}, ["N", "N"]),
    (CONV, "s", "y", {0: 4}, {"H": 40, "C": 3}, ["9", "C"]),
    (CONV, "s", "y", {0: 4, 1: 2}, {"H": 40, "C": 5}, ["9", "2"]),
    (CONV, "x", "y", {0: 1, 1: 2}, {"H": 40, "C": 5}, ["3", "2"]),
]


@pytest.mark.parametrize(("text", "producer", "consumer", "tiles", "sizes", "want"), CASES)
def test_known_footprints(
    text: str, producer: str, consumer: str, tiles: dict[int, int], sizes: Sizes, want: list[str]
):
    """The text's expectation, and that a tile really needs that much at some sizes."""
    found = values(text)
    sizes = {"M": 3, "N": 3, **sizes}
    box = footprint(found[producer], found[consumer], tiles)
    assert isinstance(box, Footprint)
    assert [str(e) for e in box.extents] == want
    instances = live(found[producer], found[consumer], tiles, sizes).values()
    most = [max(e) for e in zip(*(extents(i) for i in instances if i), strict=True)]
    assert most == [e.evaluate(sizes) for e in box.extents]


def test_a_symbolic_product_counts_by_its_factors():
    """[M, N] merged to [M * N] and split again is the same space."""
    text = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M * N], f32>) {
  %s = tiny.unary exp %x : !tiny.tensor<[M, N], f32>
  %r = tiny.reshape %s : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M * N], f32>
  %y = tiny.unary neg %r : !tiny.tensor<[M * N], f32>
  tiny.output %y : !tiny.tensor<[M * N], f32>
}
"""
    found = values(text)
    box = footprint(found["s"], found["y"], {0: 4})
    assert isinstance(box, Footprint)
    assert [str(e) for e in box.extents] == ["4", "N"]
    merged = footprint(found["r"], found["y"], {0: 4, 1: 8})
    assert isinstance(merged, Footprint)
    assert [str(e) for e in merged.extents] == ["4", "8"]
    edges = halo(found["s"], found["y"], {0: 4, 1: 8})
    assert isinstance(edges, Halo)
    assert edges.bytes == Dim.const(0)


@settings(max_examples=examples(60), deadline=None)
@given(st.composite(Chain)(True, ("sum",)), st.data())
def test_no_tile_needs_more(chain: Chain, data: st.DataObject) -> None:
    booked(chain.graph)
    consumer, producer = chain.last, chain.graph.body.block.args[1]
    axes = entry_of(consumer).all_axes
    assume(axes and consumer is not producer)
    axis = data.draw(st.integers(0, len(axes) - 1))
    tiles = {axis: data.draw(st.integers(1, 3))}
    box = footprint(producer, consumer, tiles)
    assert isinstance(box, Footprint)
    for elements in live(producer, consumer, tiles, SIZES).values():
        for extent, most in zip(extents(elements), box.extents, strict=False):
            assert extent <= most.evaluate(SIZES)


@pytest.mark.parametrize(
    ("text", "producer", "consumer", "tiles", "want"),
    [
        (SOFTMAX, "d", "e", {0: 4, 1: 4}, Buffer("reg", 1, Dim.const(64))),
        (SOFTMAX, "m", "e", {0: 4, 1: 4}, Buffer("smem_ring", 3, Dim.const(16))),
        (SOFTMAX, "s", "e", {0: 4}, Buffer("gmem", 1, Dim.sym("N") * 16)),
        (STENCIL, "s", "y", {0: 64}, Buffer("smem_ring", 3, Dim.const(264))),
        (STENCIL, "s", "y", {0: 20000}, Buffer("smem_ring", 2, Dim.const(80008))),
        (STENCIL, "s", "y", {0: 70000}, Buffer("gmem", 1, Dim.const(280008))),
    ],
)
def test_least_buffers(
    text: str, producer: str, consumer: str, tiles: dict[int, int], want: Buffer
):
    found = values(text)
    assert least_buffer(found[producer], found[consumer], tiles, ARCHS["sm_80"]) == want


# Halos ---------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [1, 2, 4, 5])
@pytest.mark.parametrize(
    ("text", "step", "low", "high"), [(STENCIL, 1, 1, 1), (CONV, 2, 1, 0)], ids=["3", "3/2"]
)
def test_known_halos(text: str, step: int, low: int, high: int, tile: int):
    """What an inner tile reads outside of its own stretch, by enumeration."""
    found = values(text)
    sizes = {"N": 40, "H": 40, "C": 1}
    result = halo(found["s"], found["y"], {0: tile})
    assert isinstance(result, Halo)
    assert result.along(0) == (low, high)
    side = result.sides[0]
    assert side.own == Dim.const(step * tile)
    inner = 3
    elements = live(found["s"], found["y"], {0: tile}, sizes)[(inner,)]
    rows = [e[0] for e in elements]
    first = inner * tile * step
    assert (first - min(rows), max(rows) - (first + step * tile - 1)) == (low, high)


def test_the_bytes_of_a_halo():
    found = values(CONV)
    result = halo(found["s"], found["y"], {0: 8, 1: 4})
    assert isinstance(result, Halo)
    assert result.bytes == Dim.const((17 - 16) * 4 * 4)
    whole = halo(found["x"], found["y"], {0: 8})
    assert isinstance(whole, Halo)
    assert whole.bytes == Dim.sym("C") * 2


def test_a_shift_is_no_halo():
    text = """
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N - 5], f32>) assuming (N >= 5) {
  %s = tiny.slice %x [5:N:1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[N - 5], f32>
  %y = tiny.unary neg %s : !tiny.tensor<[N - 5], f32>
  tiny.output %y : !tiny.tensor<[N - 5], f32>
}
"""
    found = values(text)
    result = halo(found["x"], found["y"], {0: 4})
    assert isinstance(result, Halo)
    assert result.along(0) == (0, 0)
    assert result.bytes == Dim.const(0)
    box = footprint(found["x"], found["y"], {})
    assert isinstance(box, Footprint)
    assert [str(e) for e in box.extents] == ["N - 5"]


def test_the_widest_way_counts():
    found = values(BESIDE)
    result = halo(found["s"], found["z"], {0: 4})
    assert isinstance(result, Halo)
    assert result.along(0) == (1, 1)


def test_what_no_tile_reads_is_no_halo():
    """Of every second element a tile reads one less than its stretch."""
    found = values(STRIDED)
    result = halo(found["x"], found["y"], {0: 4})
    assert isinstance(result, Halo)
    assert result.along(0) == (0, 0)
    assert result.bytes == Dim.const(0)


def test_no_halo_where_axes_differ():
    found = values(TURNED)
    result = halo(found["s"], found["y"], {0: 4, 1: 4})
    assert result == Blocked("dimension 0 of the producer is read along different axes")


def test_what_is_whole_has_no_halo():
    found = values(SOFTMAX)
    result = halo(found["s"], found["e"], {0: 4})
    assert isinstance(result, Halo)
    assert [s.axis for s in result.sides] == [0, None]
    assert result.bytes == Dim.const(0)


# Tails ---------------------------------------------------------------------------------


def facts(*found: Assumption) -> AffineSet:
    return AssumptionsAttr(found).as_affine_set(("M", "K"))


@pytest.mark.parametrize(
    ("size", "tile", "assumed", "tailed"),
    [
        (Dim.const(128), 64, (), False),
        (Dim.const(100), 64, (), True),
        (Dim.sym("K"), 64, (), True),
        (Dim.sym("K") * 64, 64, (), False),
        (Dim.sym("K"), 8, (Assumption(Dim.sym("K").mod(8), "=="),), False),
        (Dim.sym("K"), 16, (Assumption(Dim.sym("K").mod(8), "=="),), True),
        (Dim.sym("K") + 8, 8, (Assumption(Dim.sym("K").mod(16), "=="),), False),
        (Dim.sym("M") * Dim.sym("K") * 8, 8, (), False),
        (Dim.sym("M") * Dim.sym("K"), 8, (), True),
    ],
)
def test_tails(size: Dim, tile: int, assumed: tuple[Assumption, ...], tailed: bool):
    found = tail(size, tile, ("M", "K"), facts(*assumed))
    assert (found is not None) == tailed
    if found is not None and found.symbols is not None:
        at: dict[str, int] = dict(zip(["M", "K"], found.symbols, strict=True))
        assert size.evaluate(at) % tile != 0
        assert all(f.holds(at) for f in assumed)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 8), st.integers(1, 9))
def test_tails_against_all_values(step: int, known: int, plus: int, tile: int):
    """``step * K + plus`` with ``K mod known = 0``: a tail for some K below 200, or for none."""
    size = Dim.sym("K") * step + plus
    assumed = facts(Assumption(Dim.sym("K").mod(known), "==")) if known > 1 else facts()
    some = any((step * k + plus) % tile for k in range(0, 200, known))
    found = tail(size, tile, ("M", "K"), assumed)
    assert (found is not None) == some
    assert found is None or isinstance(found, Tail)
