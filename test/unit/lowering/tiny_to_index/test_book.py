"""The index book against NumPy, and the composition of its maps (S4.6, S4.7)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap

from polyc.affine import isl
from polyc.dialects import index, tiny
from polyc.dialects.common.dim import Assumption, Dim
from polyc.lowering.tiny_to_index import TinyToIndex, index_rules
from polyc.lowering.tiny_to_index.rule import Numbering
from polyc.rewriting.driver import rewrite
from polyc.tools.parsing import parse_text

Array = npt.NDArray[Any]
SIZES: Mapping[str, int] = {"M": 2, "N": 3, "K": 1}
SYMBOLS = tuple(SIZES)


def booked(graph: tiny.GraphOp) -> tiny.GraphOp:
    """The graph, verified, with its book."""
    module = ModuleOp([graph])
    module.verify()
    TinyToIndex().apply(Context(), module)
    module.verify()
    return graph


# Random programs ------------------------------------------------------------------------


class Program:
    """A random tiny graph with the NumPy array of each of its values."""

    def __init__(self, draw: st.DrawFn, movements_only: bool = False) -> None:
        size = st.sampled_from(["M", "N", "K", 1, 2])
        shape = draw(st.lists(size, max_size=3))
        self.draw = draw
        every = tiny.tensor(SYMBOLS)
        self.graph = tiny.GraphOp("f", [every, tiny.tensor(shape)], [tiny.tensor(())])
        self.leaf = self.graph.body.block.args[1]
        self.arrays: dict[SSAValue, Array] = {}
        for arg in self.graph.body.block.args:
            extents = extents_of(arg)
            count = int(np.prod(extents, dtype=int))
            self.arrays[arg] = np.arange(1, count + 1, dtype=np.float64).reshape(extents)
        self.last: SSAValue = self.leaf
        kinds = ["expand", "permute", "reduce"] + ([] if movements_only else ["binary", "cast"])
        for kind in draw(st.lists(st.sampled_from(kinds), max_size=5)):
            getattr(self, kind)()
        rest = tiny.tensor_of(self.last)
        total = self.last
        if rest.rank:
            total = self.add(tiny.ReduceOp("sum", total, list(range(rest.rank))))
            self.arrays[total] = np.asarray(self.arrays[self.last].sum())
        self.graph.body.block.add_op(tiny.OutputOp([total]))

    def add(self, op: Any) -> SSAValue:
        self.graph.body.block.add_op(op)
        return cast(SSAValue, op.result)

    def expand(self) -> None:
        t, array = tiny.tensor_of(self.last), self.arrays[self.last]
        if t.rank > 3:
            return
        rank = t.rank + self.draw(st.integers(0, 2))
        places = sorted(self.draw(st.permutations(range(rank)))[: t.rank])
        sizes = [self.draw(st.sampled_from(["M", "N", "K", 1, 2])) for _ in range(rank)]
        shape = [Dim.of(s) for s in sizes]
        for dim, place in zip(t.dims, places, strict=True):
            if dim.constant() != 1:
                shape[place] = dim
        op = tiny.ExpandOp(self.last, places, tiny.tensor(shape, t.element_type))
        self.last = self.add(op)
        aligned = [1] * rank
        for extent, place in zip(array.shape, places, strict=True):
            aligned[place] = extent
        self.arrays[self.last] = np.broadcast_to(array.reshape(aligned), extents_of(self.last))

    def permute(self) -> None:
        array = self.arrays[self.last]
        perm = self.draw(st.permutations(range(array.ndim)))
        self.last = self.add(tiny.PermuteOp(self.last, perm))
        self.arrays[self.last] = array.transpose(perm)

    def reduce(self) -> None:
        array = self.arrays[self.last]
        if not array.ndim:
            return
        axes = sorted(self.draw(st.sets(st.integers(0, array.ndim - 1), min_size=1)))
        self.last = self.add(tiny.ReduceOp("sum", self.last, axes))
        self.arrays[self.last] = np.asarray(array.sum(axis=tuple(axes)))

    def binary(self) -> None:
        array = self.arrays[self.last]
        self.last = self.add(tiny.BinaryOp("add", self.last, self.last))
        self.arrays[self.last] = array + array

    def cast(self) -> None:
        array = self.arrays[self.last]
        self.last = self.add(tiny.CastOp(self.last, f32))
        self.arrays[self.last] = array


PROGRAMS = st.composite(Program)


def extents_of(value: SSAValue) -> tuple[int, ...]:
    return tuple(d.evaluate(SIZES) for d in tiny.tensor_of(value).dims)


def points(axes: tuple[index.AxisAttr, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(a.dim.evaluate(SIZES)) for a in axes))


def at(array: Array, map: AffineMap, point: tuple[int, ...], symbols: tuple[str, ...]) -> float:
    where = map.eval(point, [SIZES[s] for s in symbols])
    assert all(0 <= c < extent for c, extent in zip(where, array.shape, strict=True)), where
    return float(array[where])


@given(PROGRAMS())
def test_each_entry_reads_what_numpy_reads(program: Program):
    """Every value, point by point, from its operands through the maps of its entry."""
    graph = booked(program.graph)
    for value, entry in index.book(graph).items():
        if not entry.operands_read:
            continue
        (piece,) = entry.pieces
        reduced = tuple(entry.reduced)
        for point in points(entry.axes.data):
            total = 0.0
            for inner in points(reduced):
                for operand, map in zip(entry.operands_read, piece.entries, strict=True):
                    assert isinstance(map, AffineMap)
                    array = program.arrays[operand]
                    total += at(array, map, (*point, *inner), entry.symbol_names)
            assert total == program.arrays[value][point]


@given(PROGRAMS(movements_only=True))
def test_composed_access_reads_what_numpy_reads(program: Program):
    """A chain of movements and sums, from the leaf alone through one composed map."""
    graph = booked(program.graph)
    (found,) = index.reach(program.last, lambda v: v is program.leaf)
    map = index.access(program.last, program.leaf)
    assert isl.maps_equal(map, found.map, found.domain)
    rank = tiny.tensor_of(program.last).rank
    leaf, result = program.arrays[program.leaf], program.arrays[program.last]
    for point in points(found.axes[:rank]):
        total = sum(
            at(leaf, map, (*point, *inner), graph.symbol_names)
            for inner in points(found.axes[rank:])
        )
        assert total == result[point]


@given(PROGRAMS())
def test_the_book_is_deterministic_and_reads_back(program: Program):
    graph = booked(program.graph)
    before = {e.value: str(e) for e in index.book(graph).values()}
    copy = graph.clone()
    for entry in index.book(copy).values():
        entry.detach()
        entry.erase()
    assert [str(e) for e in index.book(booked(copy)).values()] == list(before.values())


# Ids, names and kinds -------------------------------------------------------------------


def test_ids_go_where_axes_go():
    graph = tiny.GraphOp("f", [tiny.tensor(("A", "B", "C"))], [tiny.tensor(("C",))])
    x = graph.body.block.args[0]
    p = tiny.PermuteOp(x, [2, 1, 0])
    r = tiny.ReduceOp("max", p.result, [1, 2])
    graph.body.block.add_ops([p, r, tiny.OutputOp([r.result])])
    entries = index.book(booked(graph))
    assert [a.number for a in entries[p.result].axes] == [2, 1, 0]
    assert [a.number for a in entries[r.result].axes] == [2]
    assert entries[r.result].reduce_axes == (1, 0)
    assert [a.label.data for a in entries[r.result].reduced] == ["b", "a"]


def test_a_reduced_label_is_free():
    assert index.reduced_label(Dim.sym("K"), 0, ()) == "k"
    assert index.reduced_label(Dim.sym("K"), 0, ("k",)) == "r0"
    assert index.reduced_label(Dim.sym("I1"), 1, ()) == "r1"
    assert index.reduced_label(Dim.sym("K") + 1, 2, ()) == "r2"
    assert index.reduced_label(Dim.const(3), 0, ()) == "r0"


def test_a_size_that_multiplies_symbols_has_no_upper_bound():
    area = Dim.sym("M") * Dim.sym("N")
    assert len(index.box([area], ["M", "N"]).constraints) == 1
    graph = tiny.GraphOp("f", [tiny.tensor((area,))], [tiny.tensor((area,))])
    y = tiny.UnaryOp("neg", graph.body.block.args[0])
    graph.body.block.add_ops([y, tiny.OutputOp([y.result])])
    assert len(index.book(booked(graph))) == 2


def test_assumptions_count_in_the_bounds_of_an_access():
    """An identity map between sizes that only an assumption makes equal is inside."""
    half = (Dim.sym("N") + 1).floordiv(2)
    even = Assumption(Dim.sym("N").mod(2), "==")
    types = [tiny.tensor((half,)), tiny.tensor(("N",))]
    graph = tiny.GraphOp("f", types, [tiny.tensor((Dim.sym("N").floordiv(2),))], assumptions=[even])
    y = tiny.UnaryOp("neg", graph.body.block.args[0], tiny.tensor((Dim.sym("N").floordiv(2),)))
    graph.body.block.add_ops([y, tiny.OutputOp([y.result])])
    assert len(index.book(booked(graph))) == 3


# Composition ----------------------------------------------------------------------------

TRANSPOSED = """
tiny.graph @f(%x: !tiny.tensor<[N, N], f16>) -> (y: !tiny.tensor<[N, N], f32>) {
  %a = tiny.cast %x : !tiny.tensor<[N, N], f16> -> !tiny.tensor<[N, N], f32>
  %h = tiny.cast %a : !tiny.tensor<[N, N], f32> -> !tiny.tensor<[N, N], f16>
  %b = tiny.cast %h : !tiny.tensor<[N, N], f16> -> !tiny.tensor<[N, N], f32>
  %t = tiny.permute %b perm [1, 0] : !tiny.tensor<[N, N], f32> -> !tiny.tensor<[N, N], f32>
  %y = tiny.binary add %a, %t : !tiny.tensor<[N, N], f32>
  tiny.output %y : !tiny.tensor<[N, N], f32>
}
"""


def transposed(ctx: Context) -> dict[str | None, SSAValue]:
    module = parse_text(ctx, TRANSPOSED, "f.mlir")
    TinyToIndex().apply(ctx, module)
    (graph,) = module.body.block.ops
    return {v.name_hint: v for v in index.book(graph)}


def test_two_different_ways_are_not_one_access(ctx: Context):
    values = transposed(ctx)
    with pytest.raises(ValueError, match="%y reaches %x by 2 maps; access needs one"):
        index.access(values["y"], values["x"])
    with pytest.raises(ValueError, match="by no maps"):
        index.access(values["x"], values["y"])
    found = list(index.reach(values["y"], lambda v: v is values["x"]))
    assert [str(r.map) for r in found] == ["(d0, d1)[s0] -> (d0, d1)", "(d0, d1)[s0] -> (d1, d0)"]


def test_source_stops_at_rounding(ctx: Context):
    values = transposed(ctx)
    behind = index.source(values["t"])
    assert behind.source is values["h"]
    assert tiny.tensor_of(behind.source).element_type == f16
    assert behind.path == (values["t"], values["b"])
    assert index.source(values["t"], casts=False).source is values["b"]
    assert index.source(values["a"]).source is values["x"]


def test_composition_needs_a_book(ctx: Context):
    module = parse_text(ctx, TRANSPOSED, "f.mlir")
    (graph,) = module.body.block.ops
    assert isinstance(graph, tiny.GraphOp)
    with pytest.raises(ValueError, match="run tiny-to-index"):
        index.source(graph.body.block.args[0])


# The rules as patterns ------------------------------------------------------------------


def test_a_rule_needs_the_entries_of_its_operands(ctx: Context):
    """A rule alone, with no rule for the leaves, says what is missing."""
    from polyc.dialects.common.diagnostic import PolycError
    from polyc.lowering.tiny_to_index import IndexUnary

    module = parse_text(ctx, TRANSPOSED, "f.mlir")
    with pytest.raises(PolycError, match=r"f.mlir:3:\d+: error\[InvalidIR\]: an operand of"):
        rewrite(module, [IndexUnary(Numbering())])


def test_entries_have_the_place_of_their_op(ctx: Context):
    module = parse_text(ctx, TRANSPOSED, "f.mlir")
    assert rewrite(module, index_rules())
    assert not rewrite(module, index_rules())
    (graph,) = module.body.block.ops
    for value, entry in index.book(graph).items():
        owner = value.owner
        if entry.operands_read:
            assert entry.location == cast(Any, owner).location
