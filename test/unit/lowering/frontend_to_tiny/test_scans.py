"""A scan's elements are reductions of what is before them, at every layer with values."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.common.elements import FLOATS, INTEGERS, computed
from polyc.dialects.common.scans import SCANS
from polyc.dialects.index import value_op
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import frontend as above
from polyc.playback import functions, index
from polyc.playback import tiny as below
from polyc.playback.functions import DTYPES, Array
from polyc.rewriting.driver import verify
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context


def scanned(kind: Attribute, fn: str, rank: int, axis: int, way: tuple[bool, bool]) -> ModuleOp:
    s = Sketch("f", kind)
    x = s.input("x", *"MNK"[:rank])
    return s.done(y=s.add(frontend.ScanOp(fn, x, axis, reverse=way[0], exclusive=way[1])))


def by_reductions(x: Array, fn: str, axis: int, way: tuple[bool, bool]) -> Array:
    """Each element as the reduction of what it has."""
    reverse, exclusive = way
    x = np.moveaxis(x, axis, 0)
    parts: list[Array] = []
    for i in range(len(x)):
        part = x[i + exclusive :] if reverse else x[: i + 1 - exclusive]
        parts.append(functions.reduce(fn, functions.widen(part), (0,)))
    found = np.stack(parts) if parts else functions.widen(x)
    return np.moveaxis(found, 0, axis)


@settings(max_examples=examples(60))
@given(
    kind=st.sampled_from((*FLOATS, *INTEGERS)),
    fn=st.sampled_from(SCANS),
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=3),
    axis=st.integers(0, 2),
    way=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**32 - 1),
)
def test_an_element_is_the_reduction_of_what_is_before_it(
    kind: Attribute, fn: str, shape: list[int], axis: int, way: tuple[bool, bool], seed: int
) -> None:
    axis %= len(shape)
    rng, dtype = np.random.default_rng(seed), DTYPES[kind]
    if kind in INTEGERS:
        x = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    else:
        special = np.array([0.5, 1.0, -2.0, 3.0, np.inf, -np.inf, np.nan], np.float32)
        x = rng.choice(special, shape, p=[0.3, 0.3, 0.2, 0.14, 0.02, 0.02, 0.02]).astype(dtype)
    module = scanned(kind, fn, len(shape), axis, way)
    sizes = dict(zip("MNK", shape, strict=False))
    wanted = functions.round_to(by_reductions(x, fn, axis, way), kind)
    (found,) = above.run(only(module, frontend.GraphOp), [x], sizes)
    assert_same(found, wanted)
    FrontendToTiny().apply(make_context(), module)
    TinyToIndex().apply(make_context(), module)
    verify(module)
    graph = only(module, tiny.GraphOp)
    scan = only(graph, tiny.ScanOp)
    assert tiny.tensor_of(scan.result).element_type == computed(kind)
    for player in (below, index):
        assert_same(player.run(graph, [x], sizes)[0], wanted)


def assert_same(found: Array, wanted: Array) -> None:
    """Equal elements, where NaN is one of them: NumPy knows that of its own types alone."""
    if found.dtype.kind not in "iu":
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(found, wanted)


def test_a_scan_reads_the_places_up_to_its_own() -> None:
    """The points of its map's dimensions are a triangle."""
    for way, text in (
        ((False, False), "(d1 + (d2 * -1)) >= 0"),
        ((True, False), "((d1 * -1) + d2) >= 0"),
        ((False, True), "((d1 + (d2 * -1)) + -1) >= 0"),
        ((True, True), "(((d1 * -1) + d2) + -1) >= 0"),
    ):
        module = scanned(f32, "sum", 2, 1, way)
        FrontendToTiny().apply(make_context(), module)
        TinyToIndex().apply(make_context(), module)
        entry = value_op(only(module, tiny.ScanOp).result)
        assert entry is not None
        rows = [str(row) for row in entry.iteration_domain(entry.pieces.data[0]).constraints]
        assert text in rows, rows
