"""What an operand is behind movements: disjoint parts, each a map or a fill (S5.1)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects import index
from polyc.dialects.index import MAX_PIECES
from polyc.poly.readings import reading
from polyc.poly.ways import facts_of
from polyc.test.support.book_needs import booked, booked_text, entry_of, named
from polyc.test.support.book_points import holds, points
from polyc.test.support.movement_chains import SIZES, SYMBOLS, Chain
from polyc.test.support.turns import examples

VALUES = [SIZES[s] for s in SYMBOLS]


@settings(max_examples=examples(80), deadline=None)
@given(st.composite(Chain)(True))
def test_parts_give_what_numpy_gives(chain: Chain) -> None:
    """Every point is in one part, which has the element of the source or the fill."""
    booked(chain.graph)
    found = reading(index.start(chain.last), facts_of(chain.last))
    for point in points(entry_of(chain.last).axes.data, SIZES):
        here = [r for r in found.reads if holds(r.domain, point, VALUES)]
        filled = [f for f in found.fills if holds(f.domain, point, VALUES)]
        assert len(here) + len(filled) == 1
        for r in here:
            element = chain.arrays[r.source][tuple(r.map.eval(point, VALUES))]
            assert element == chain.arrays[chain.last][point]
        for f in filled:
            assert f.number == chain.arrays[chain.last][point]
    assert len(found.reads) + len(found.fills) <= MAX_PIECES


def test_a_guard_that_always_holds_is_gone():
    """A pad cut off again leaves one map and no fill."""
    text = """
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  %p = tiny.pad %x low [1] high [1] value 0.0
      : !tiny.tensor<[N], f32> -> !tiny.tensor<[N + 2], f32>
  %s = tiny.slice %p [1:N + 1:1] : !tiny.tensor<[N + 2], f32> -> !tiny.tensor<[N], f32>
  tiny.output %s : !tiny.tensor<[N], f32>
}
"""
    values = named(booked_text(text))
    found = reading(index.start(values["s"]), facts_of(values["s"]))
    assert found.fills == ()
    assert found.single is not None
    assert found.single.source is values["x"]
    whole = reading(index.start(values["p"]), facts_of(values["p"]))
    assert len(whole.fills) == 2


def test_the_assumptions_make_a_guard_always_hold():
    text = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[M, N], f32>) {
  %m = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill 0.0
      : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %m : !tiny.tensor<[M, N], f32>
}
"""
    for assumed, fills in (("", 1), (" assuming (N <= 1)", 0)):
        values = named(booked_text(text.replace("f32>) {", f"f32>){assumed} {{")))
        found = reading(index.start(values["m"]), facts_of(values["m"]))
        assert len(found.fills) == fills
        assert len(found.guards) == 1


def test_a_value_that_is_computed_is_the_source():
    text = """
tiny.graph @f(%x: !tiny.tensor<[N], f16>) -> (y: !tiny.tensor<[N], f32>) {
  %c = tiny.cast %x : !tiny.tensor<[N], f16> -> !tiny.tensor<[N], f32>
  %e = tiny.unary exp %c : !tiny.tensor<[N], f32>
  %m = tiny.mask %e where affine_set<(d0)[s0] : (d0 - 2 >= 0)> fill 1.0
      : !tiny.tensor<[N], f32> -> !tiny.tensor<[N], f32>
  tiny.output %m : !tiny.tensor<[N], f32>
}
"""
    values = named(booked_text(text))
    facts = facts_of(values["m"])
    found = reading(index.start(values["m"]), facts)
    assert [r.source for r in found.reads] == [values["e"]]
    assert [f.number for f in found.fills] == [1.0]
    assert [r.source for r in reading(index.start(values["c"]), facts).reads] == [values["x"]]
    kept = reading(index.start(values["c"]), facts, casts=False)
    assert [r.source for r in kept.reads] == [values["c"]]
