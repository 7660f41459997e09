"""Playback of the index book: its maps, domains and fills, against points and the tiny ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, ModuleOp
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineMap

from polyc.dialects import index, tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.playback import index as index_playback
from polyc.playback import tiny as tiny_playback
from polyc.playback.reference import make_inputs
from polyc.test.support import book_points
from polyc.test.support.movement_chains import SIZES, Chain
from polyc.test.support.turns import examples
from polyc.tools.check import small_sizes
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = npt.NDArray[Any]
EXAMPLES = sorted(Path("examples").glob("*.mlir"))


def booked(text: str) -> tiny.GraphOp:
    """The graph of a text at the frontend or tiny layer, with its book."""
    ctx = make_context()
    module = parse_text(ctx, text, "f.mlir")
    FrontendToTiny().apply(ctx, module)
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    assert isinstance(graph, tiny.GraphOp)
    return graph


# What it computes -----------------------------------------------------------------------


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_are_what_the_tiny_ops_compute(path: Path) -> None:
    graph = booked(path.read_text())
    sizes = small_sizes(graph)
    inputs = make_inputs(graph, sizes)
    found = index_playback.run(graph, inputs, sizes)
    for x, y in zip(found, tiny_playback.run(graph, inputs, sizes), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x.astype(np.float64), y.astype(np.float64), 1e-3, 1e-4)


@settings(max_examples=examples(60), deadline=None)
@given(st.composite(Chain)())
def test_chains_are_what_their_points_say(chain: Chain) -> None:
    """Every value of a chain of movements, whole and point by point."""
    module = ModuleOp([chain.graph])
    TinyToIndex().apply(Context(), module)
    inputs = [chain.arrays[a].astype(np.float32) for a in chain.graph.body.block.args]
    slow = book_points.values(chain.graph, inputs, SIZES)
    for value, array in index_playback.every_value(chain.graph, inputs, SIZES):
        np.testing.assert_array_equal(array, slow[value])
    (output,) = index_playback.run(chain.graph, inputs, SIZES)
    np.testing.assert_array_equal(output, chain.arrays[chain.last])


SMALL = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>, %w: !tiny.tensor<[N], f32>)
    -> (y: !tiny.tensor<[N], f32>, z: !tiny.tensor<[M, N], f32>) {
  %e = tiny.expand %w dims [1] : !tiny.tensor<[N], f32> -> !tiny.tensor<[M, N], f32>
  %p = tiny.binary mul %x, %e : !tiny.tensor<[M, N], f32>
  %y = tiny.reduce sum %p axes [0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N], f32>
  %m = tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill 2.0
      : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %y, %m : !tiny.tensor<[N], f32>, !tiny.tensor<[M, N], f32>
}
"""


@pytest.mark.parametrize(("m", "n"), [(3, 4), (0, 2), (2, 0), (0, 0), (1, 1)])
def test_empty_and_single_sizes(m: int, n: int) -> None:
    graph = booked(SMALL)
    sizes = {"M": m, "N": n}
    inputs = make_inputs(graph, sizes)
    y, z = index_playback.run(graph, inputs, sizes)
    x, w = inputs
    np.testing.assert_allclose(y, (x * w).sum(0), rtol=1e-6)
    np.testing.assert_array_equal(z, np.where(np.tri(m, n, dtype=bool), x, 2))


def test_a_product_is_never_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A matrix product of a size whose [M, K, N] would not fit anywhere."""
    text = Path("examples/gemm_bias_relu.mlir").read_text()
    graph, sizes = booked(text), {"M": 3000, "K": 40, "N": 3000}
    inputs = [np.zeros(s, np.float16) for s in ((3000, 40), (40, 3000), (3000,))]
    (found,) = index_playback.run(graph, inputs, sizes)
    assert found.shape == (3000, 3000)


def test_a_masked_factor_is_summed_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = booked(Path("examples/causal_attention.mlir").read_text())
    sizes = {"B": 2, "H": 3, "M": 4, "N": 5}
    inputs = make_inputs(graph, sizes)
    (whole,) = index_playback.run(graph, inputs, sizes)
    monkeypatch.setattr(index_playback, "PART", 100)
    (parts,) = index_playback.run(graph, inputs, sizes)
    np.testing.assert_allclose(parts.astype(np.float32), whole.astype(np.float32), rtol=2e-3)


def test_a_boundary_is_played_by_its_op() -> None:
    """A leaf of M * N elements, seen as [M, N], has no affine map."""
    graph = booked("""
tiny.graph @f(%x: !tiny.tensor<[M * N], f32>, %s: !tiny.tensor<[M, N], f32>)
    -> (y: !tiny.tensor<[M, N], f32>) {
  %y = tiny.reshape %x : !tiny.tensor<[M * N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
""")
    sizes = {"M": 2, "N": 3}
    inputs = make_inputs(graph, sizes)
    (found,) = index_playback.run(graph, inputs, sizes)
    np.testing.assert_array_equal(found, inputs[0].reshape(2, 3))


# What it refuses ------------------------------------------------------------------------


def changed(graph: tiny.GraphOp, name: str, piece: index.PieceAttr) -> None:
    """Put ``piece`` in the place of the only one of the value ``name``."""
    entry = named(graph, name)
    entry.pieces = ArrayAttr([piece])


def named(graph: tiny.GraphOp, name: str) -> index.ValueOp:
    (found,) = [e for v, e in index.book(graph).items() if v.name_hint == name]
    return found


def refused(graph: tiny.GraphOp) -> PolycError:
    sizes = {"M": 3, "N": 4}
    with pytest.raises(PolycError) as caught:
        index_playback.run(graph, make_inputs(graph, sizes), sizes)
    return caught.value


def test_a_map_that_leaves_its_operand_is_refused() -> None:
    graph = booked(SMALL)
    beyond = AffineMap(2, 2, (AffineDimExpr(1) + 1,))
    changed(graph, "e", index.PieceAttr.of([beyond]))
    error = refused(graph)
    assert error.kind == "UnguardedAccess"
    assert "%w is read at 4 along axis i0, which has 4 elements" in error.message
    assert error.place is not None and error.place.line == 4


def test_a_negative_coordinate_does_not_count_from_the_end() -> None:
    graph = booked(SMALL)
    changed(graph, "e", index.PieceAttr.of([AffineMap(2, 2, (AffineDimExpr(1) - 1,))]))
    assert "%w is read at -1 along axis i0" in refused(graph).message


@pytest.mark.parametrize(("keep", "what"), [([0], "no piece"), ([0, 1, 1], "two pieces")])
def test_pieces_that_are_no_partition_are_refused(keep: list[int], what: str) -> None:
    graph = booked(SMALL)
    entry = named(graph, "m")
    pieces = entry.pieces.data
    entry.pieces = ArrayAttr([pieces[i] for i in keep])
    error = refused(graph)
    assert error.kind == "InvalidIR" and f"a point of %m is in {what}" in error.message


def test_a_value_without_an_entry_is_refused() -> None:
    graph = booked(SMALL)
    named(graph, "p").detach()
    graph_without = refused(graph)
    assert "%p has no index.value; run tiny-to-index" in graph_without.message


def test_another_map_gives_other_numbers() -> None:
    """The op says transpose; the playback does what the book says."""
    graph = booked("""
tiny.graph @f(%x: !tiny.tensor<[3, 3], f32>) -> (y: !tiny.tensor<[3, 3], f32>) {
  %y = tiny.permute %x perm [1, 0] : !tiny.tensor<[3, 3], f32> -> !tiny.tensor<[3, 3], f32>
  tiny.output %y : !tiny.tensor<[3, 3], f32>
}
""")
    x = make_inputs(graph, {})
    np.testing.assert_array_equal(index_playback.run(graph, x, {})[0], x[0].T)
    map = AffineMap(2, 0, (AffineConstantExpr(2), AffineDimExpr(1)))
    entry = named(graph, "y")
    entry.pieces = ArrayAttr(
        [index.PieceAttr(entry.pieces.data[0].domain, ArrayAttr([AffineMapAttr(map)]))]
    )
    np.testing.assert_array_equal(index_playback.run(graph, x, {})[0], np.tile(x[0][2], (3, 1)))


def test_where_there_is_no_point_nothing_is_read_outside() -> None:
    """A value that repeats along M * N is read at 0 there, also where that has no element."""
    graph = booked("""
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>, %w: !tiny.tensor<[M * N], f32>)
    -> (y: !tiny.tensor<[M, N], f32>) {
  %c = tiny.constant 2.0 : !tiny.tensor<[], f32>
  %e = tiny.expand %c dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M * N], f32>
  %m = tiny.reshape %x : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M * N], f32>
  %p = tiny.binary mul %m, %e : !tiny.tensor<[M * N], f32>
  %y = tiny.reshape %p : !tiny.tensor<[M * N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %y : !tiny.tensor<[M, N], f32>
}
""")
    for sizes in ({"M": 0, "N": 3}, {"M": 2, "N": 0}, {"M": 2, "N": 3}):
        inputs = make_inputs(graph, sizes)
        (found,) = index_playback.run(graph, inputs, sizes)
        np.testing.assert_array_equal(found, 2 * inputs[0])


def test_a_factor_is_held_until_its_sum() -> None:
    """Another reader stands between the product, which is not stored, and the sum."""
    graph = booked("""
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>)
    -> (y: !tiny.tensor<[M], f32>, z: !tiny.tensor<[M, N], f32>) {
  %a = tiny.unary exp %x : !tiny.tensor<[M, N], f32>
  %p = tiny.binary mul %a, %a : !tiny.tensor<[M, N], f32>
  %z = tiny.unary neg %a : !tiny.tensor<[M, N], f32>
  %y = tiny.reduce sum %p axes [1] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[M], f32>
  tiny.output %y, %z : !tiny.tensor<[M], f32>, !tiny.tensor<[M, N], f32>
}
""")
    sizes = {"M": 2, "N": 3}
    inputs = make_inputs(graph, sizes)
    y, z = index_playback.run(graph, inputs, sizes)
    np.testing.assert_allclose(y, (np.exp(inputs[0]) ** 2).sum(1), rtol=1e-6)
    np.testing.assert_array_equal(z, -np.exp(inputs[0]))
