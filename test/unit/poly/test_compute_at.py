"""Compute-at legality, against every pair of points of small instances (S7.1)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import SSAValue

from polyc.poly.compute_at import Clash, ComputeAt, compute_at, legal_axes
from polyc.test.support.book_needs import Sizes, booked, booked_text, entry_of, named, needed
from polyc.test.support.book_points import points
from polyc.test.support.movement_chains import SIZES, Chain
from polyc.test.support.turns import examples

SOFTMAX = """
tiny.graph @softmax(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M, N], f32>) {
  %s = tiny.unary neg %x : !tiny.tensor<[M, N], f32>
  %m = tiny.reduce max %s axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
  %me = tiny.expand %m dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
  %d = tiny.binary sub %s, %me : !tiny.tensor<[M, N], f32>
  %e = tiny.unary exp %d : !tiny.tensor<[M, N], f32>
  tiny.output %e : !tiny.tensor<[M, N], f32>
}
"""
STENCIL = """
tiny.graph @stencil(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  %s = tiny.unary exp %x : !tiny.tensor<[N], f32>
  %p = tiny.pad %s low [1] high [1] value 0.0
      : !tiny.tensor<[N], f32> -> !tiny.tensor<[N + 2], f32>
  %w = tiny.window %p axes [0] size [3] stride [1] dilation [1]
      : !tiny.tensor<[N + 2], f32> -> !tiny.tensor<[N, 3], f32>
  %y = tiny.reduce sum %w axes [1] : !tiny.tensor<[N, 3], f32> -> !tiny.tensor<[N], f32>
  tiny.output %y : !tiny.tensor<[N], f32>
}
"""
TURNED = """
tiny.graph @turned(%x: !tiny.tensor<[N, N], f32>) -> (y: !tiny.tensor<[N, N], f32>) {
  %s = tiny.unary exp %x : !tiny.tensor<[N, N], f32>
  %t = tiny.permute %s perm [1, 0] : !tiny.tensor<[N, N], f32> -> !tiny.tensor<[N, N], f32>
  %y = tiny.binary add %s, %t : !tiny.tensor<[N, N], f32>
  tiny.output %y : !tiny.tensor<[N, N], f32>
}
"""


POOLED = """
tiny.graph @pooled(%x: !tiny.tensor<[2 * M], f32>) -> (y: !tiny.tensor<[M, N], f32>) {
  %s = tiny.unary exp %x : !tiny.tensor<[2 * M], f32>
  %w = tiny.window %s axes [0] size [2] stride [2] dilation [1]
      : !tiny.tensor<[2 * M], f32> -> !tiny.tensor<[M, 2], f32>
  %m = tiny.reduce max %w axes [1] : !tiny.tensor<[M, 2], f32> -> !tiny.tensor<[M], f32>
  %y = tiny.expand %m dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
"""


def values(text: str) -> dict[str, SSAValue]:
    return named(booked_text(text))


def clashes(
    producer: SSAValue, consumer: SSAValue, axis: int, tile: int, apart: int, sizes: Sizes
) -> bool:
    """Whether two points of different tiles, so far apart, need one element; by enumeration."""
    users: dict[tuple[int, ...], list[int]] = {}
    for point in points(entry_of(consumer).all_axes, sizes):
        for element in needed(consumer, point, producer, sizes, whole=False):
            users.setdefault(element, []).append(point[axis])
    return any(
        q - p >= apart and q // tile > p // tile
        for found in users.values()
        for p, q in itertools.product({*found}, repeat=2)
    )


def check_clash(clash: Clash, producer: SSAValue, consumer: SSAValue, tiles: tuple[int, int]):
    """The counterexample is one: both points are there, apart, and need the element."""
    axis, tile = tiles
    entry = entry_of(consumer)
    sizes = dict(zip(entry.symbol_names, clash.symbols, strict=True))
    for point in (clash.first, clash.second):
        for at, name in zip(point, entry.all_axes, strict=True):
            assert 0 <= at < name.dim.evaluate(sizes)
        if all(n <= 40 for n in clash.symbols):
            assert clash.element in needed(consumer, point, producer, sizes, whole=False)
    assert clash.second[axis] // tile > clash.first[axis] // tile


def check(
    found: ComputeAt, producer: SSAValue, consumer: SSAValue, axis: int, tile: int, sizes: Sizes
) -> None:
    if clashes(producer, consumer, axis, tile, tile, sizes):
        assert not found.ok
    if clashes(producer, consumer, axis, tile, 1, sizes):
        assert not found.exact
    if found.clash is not None:
        assert found.axis == axis
        check_clash(found.clash, producer, consumer, (axis, tile))
    assert (found.clash is None) == found.exact == (not found.reason)


@pytest.mark.parametrize(
    ("text", "producer", "consumer", "tiles", "ok", "exact"),
    [
        (SOFTMAX, "s", "e", {0: 1}, True, True),
        (SOFTMAX, "s", "e", {0: 8}, True, True),
        (SOFTMAX, "s", "e", {0: 1, 1: 1}, False, False),
        (SOFTMAX, "s", "m", {0: 1, 1: 4}, True, True),
        (SOFTMAX, "m", "e", {1: 1}, False, False),
        (SOFTMAX, "d", "e", {0: 1, 1: 1}, True, True),
        (STENCIL, "s", "y", {0: 8}, True, False),
        (STENCIL, "s", "y", {0: 3}, True, False),
        (STENCIL, "s", "y", {0: 2}, False, False),
        (STENCIL, "s", "y", {0: 1}, False, False),
        (POOLED, "s", "y", {0: 1}, True, True),
        (POOLED, "s", "y", {0: 1, 1: 1}, False, False),
        (TURNED, "s", "y", {0: 8}, False, False),
        (TURNED, "s", "y", {}, True, True),
    ],
)
def test_known_cases(
    text: str, producer: str, consumer: str, tiles: dict[int, int], ok: bool, exact: bool
):
    found = values(text)
    legal = compute_at(found[producer], found[consumer], tiles)
    assert (legal.ok, legal.exact) == (ok, exact)
    for axis, tile in tiles.items():
        alone = compute_at(found[producer], found[consumer], {axis: tile})
        for n in (1, 5):
            check(alone, found[producer], found[consumer], axis, tile, {"M": 2, "N": n})


def test_the_reason_has_the_points():
    found = values(SOFTMAX)
    legal = compute_at(found["s"], found["e"], {0: 1, 1: 1})
    assert legal.axis == 1
    clash = legal.clash
    assert clash is not None
    assert clash.first[1] != clash.second[1]
    n = clash.symbols[1]
    assert legal.reason == (
        f"element {list(clash.element)} of s is needed at n = {clash.first[1]} and at "
        f"n = {clash.second[1]} when M = {clash.symbols[0]}, N = {n}"
    )


def test_axes_are_legal_one_by_one():
    found = values(SOFTMAX)
    assert legal_axes(found["s"], found["e"]) == (0,)
    assert legal_axes(found["d"], found["e"]) == (0, 1)
    assert legal_axes(found["m"], found["d"]) == (0,)
    assert legal_axes(found["e"], found["s"]) == ()


def test_a_producer_that_is_not_upstream():
    found = values(SOFTMAX)
    legal = compute_at(found["e"], found["s"], {0: 1})
    assert not legal.ok
    assert legal.reason == "the consumer is not computed from the producer"


def test_a_value_that_is_not_affine_on_the_way():
    text = """
tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> (y: !tiny.tensor<[A, B], f32>) assuming (A >= 1) {
  %s = tiny.unary exp %x : !tiny.tensor<[M], f32>
  %p = tiny.pad %s low [M * M] high [0] value 0.0
      : !tiny.tensor<[M], f32> -> !tiny.tensor<[M * M + M], f32>
  %n = tiny.unary neg %p : !tiny.tensor<[M * M + M], f32>
  tiny.output %n : !tiny.tensor<[M * M + M], f32>
}
""".replace("[A, B]", "[M * M + M]").replace(" assuming (A >= 1)", "")
    found = values(text)
    legal = compute_at(found["s"], found["n"], {0: 1})
    assert not legal.ok
    assert "%p between them is not affine: the pad of axis 0 has a border at" in legal.reason


def test_assumptions_are_used():
    """With one column, rows and columns of the sum are the same elements."""
    text = TURNED.replace("f32>) {", "f32>) assuming (N <= 1) {")
    found = values(text)
    assert compute_at(found["s"], found["y"], {0: 1}).exact


def test_bad_tiles():
    found = values(SOFTMAX)
    with pytest.raises(IndexError, match="the consumer has 2 axes, and 2 is not one of them"):
        compute_at(found["s"], found["e"], {2: 1})
    with pytest.raises(ValueError, match="the tile of axis 0 is 0"):
        compute_at(found["s"], found["e"], {0: 0})


@settings(max_examples=examples(60), deadline=None)
@given(st.composite(Chain)(True, ("sum",)), st.data())
def test_random_chains(chain: Chain, data: st.DataObject) -> None:
    booked(chain.graph)
    consumer, producer = chain.last, chain.graph.body.block.args[1]
    axes = entry_of(consumer).all_axes
    if not axes or consumer is producer:
        return
    axis = data.draw(st.integers(0, len(axes) - 1))
    tile = data.draw(st.integers(1, 3))
    found = compute_at(producer, consumer, {axis: tile})
    check(found, producer, consumer, axis, tile, SIZES)
