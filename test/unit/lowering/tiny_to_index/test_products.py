"""Axes that are products of symbols: tuples of factors in the book (S4.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import index, tiny
from polyc.dialects.common.dim import Dim
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.lowering.tiny_to_index.reshape import common_factors
from polyc.playback import index as index_playback
from polyc.playback.reference import make_inputs
from polyc.test.support import book_points
from polyc.test.support.movement_chains import SIZES, Chain, sizes_of
from polyc.test.support.turns import examples
from polyc.tools.parsing import parse_text

M, N, K = (Dim.sym(s) for s in "MNK")


def booked(body: str, ctx: Context, inputs: str = "%x: !tiny.tensor<[M, N, K], f32>") -> Any:
    """The entries by name of a graph whose values are reduced to a scalar at the end."""
    module = parse_text(ctx, f"tiny.graph @f({inputs}) -> (out: {T('')}) {{\n{body}\n}}\n", "f")
    module.verify()
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    return {v.name_hint: e for v, e in index.book(graph).items()}


def T(shape: str) -> str:
    return f"!tiny.tensor<[{shape}], f32>"


def reshapes(*shapes: str) -> str:
    """A chain of reshapes from %x [M, N, K], of values %0, %1, …, and its sum."""
    lines: list[str] = []
    before, name = "M, N, K", "x"
    for i, shape in enumerate(shapes):
        lines.append(f"%v{i} = tiny.reshape %{name} : {T(before)} -> {T(shape)}")
        before, name = shape, f"v{i}"
    axes = list(range(before.count(",") + 1))
    lines.append(f"%s = tiny.reduce sum %{name} axes {axes} : {T(before)} -> {T('')}")
    return "\n".join([*lines, f"tiny.output %s : {T('')}"])


def dims(entry: index.ValueOp) -> list[list[str]]:
    return [[str(a.dim) for a in axes] for axes in entry.by_dimension]


def the_map(entry: index.ValueOp) -> str:
    (piece,) = entry.pieces
    (found,) = piece.entries
    assert isinstance(found, AffineMap)
    return ", ".join(map(str, found.results))


# What reshapes give ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shapes", "axes", "maps"),
    [
        (("M * N, K",), [["M", "N"], ["K"]], "d0, d1, d2"),
        (("M * N * K",), [["M", "N", "K"]], "d0, d1, d2"),
        (("M * N * K", "M, N * K"), [["M"], ["N", "K"]], "d0, d1, d2"),
        (("M * N, K", "M, N, K"), [["M"], ["N"], ["K"]], "d0, d1, d2"),
        (("M, 1, N * K", "M * N, K"), [["M", "N"], ["K"]], "d0, 0, d1, d2"),
    ],
)
def test_merging_and_splitting_again_cancels(
    shapes: tuple[str, ...], axes: list[list[str]], maps: str, ctx: Context
) -> None:
    entries = booked(reshapes(*shapes), ctx)
    last = entries[f"v{len(shapes) - 1}"]
    assert dims(last) == axes and the_map(last) == maps
    # Factors that stay whole are the axes that the leaf had.
    assert [a.number for a in last.axes] == [a.number for a in entries["x"].axes]


def test_what_stands_inside_a_number_is_split_off(ctx: Context) -> None:
    """[M, N, 8] -> [M * N * 8] keeps N * 8 as one axis, which floordiv takes apart."""
    body = f"""%a = tiny.reshape %x : {T("M, N, 8")} -> {T("8 * M * N")}
%b = tiny.reshape %a : {T("8 * M * N")} -> {T("M, 2, 4 * N")}
%s = tiny.reduce sum %a axes [0] : {T("8 * M * N")} -> {T("")}
tiny.output %s : {T("")}"""
    entries = booked(body, ctx, f"%x: {T('M, N, 8')}")
    assert dims(entries["a"]) == [["M", "8 * N"]]
    assert the_map(entries["a"]) == "d0, (d1 floordiv 8), (d1 + ((d1 floordiv 8) * -8))"
    assert not entries["b"].is_scop


@pytest.mark.parametrize(
    "shapes", [("N, M, K",), ("M * N, K", "N, M, K"), ("K, M * N",), ("M * N, K", "N, M * K")]
)
def test_other_boundaries_are_no_factors(shapes: tuple[str, ...], ctx: Context) -> None:
    entries = booked(reshapes(*shapes), ctx)
    last = entries[f"v{len(shapes) - 1}"]
    assert not last.is_scop and "divides by a symbol" in str(last.reason)


def test_common_factors_take_numbers_apart() -> None:
    at = tiny.GraphOp("f", [tiny.tensor(("M", "N", "K"))], [tiny.tensor(())])
    found = common_factors((M, N * 6), (M * N, Dim.const(2), Dim.const(3)), at)
    assert found is not None
    assert [(str(f.size), f.old, f.stride, f.new) for f in found] == [
        ("M", 0, 1, 0),
        ("N", 1, 6, 0),
        ("2", 1, 3, 1),
        ("3", 1, 1, 2),
    ]
    assert common_factors((M, N), (N, M), at) is None
    assert common_factors((M * 4,), (M, Dim.const(3)), at) is None


# What other ops make of tuples ----------------------------------------------------------

MERGED = f"%m = tiny.reshape %x : {T('M, N, K')} -> {T('M * N, K')}\n"
CLOSED = f"tiny.output %s : {T('')}"


def summed(name: str, shape: str) -> str:
    axes = list(range(shape.count(",") + 1))
    return f"%s = tiny.reduce sum %{name} axes {axes} : {T(shape)} -> {T('')}\n{CLOSED}"


@pytest.mark.parametrize(
    ("op", "shape", "axes", "maps"),
    [
        ("tiny.unary neg %m", "M * N, K", [["M", "N"], ["K"]], "d0, d1, d2"),
        ("tiny.permute %m perm [1, 0]", "K, M * N", [["K"], ["M", "N"]], "d1, d2, d0"),
        ("tiny.expand %m dims [1, 2]", "2, M * N, K", [["2"], ["M", "N"], ["K"]], "d1, d2, d3"),
        ("tiny.reduce sum %m axes [0]", "K", [["K"]], "d1, d2, d0"),
        ("tiny.reduce sum %m axes [1]", "M * N", [["M", "N"]], "d0, d1, d2"),
        ("tiny.slice %m [0:M * N, 1:K:2]", "M * N, K floordiv 2", None, "d0, d1, ((d2 * 2) + 1)"),
        ("tiny.window %m axes [1] size [1] stride [2] dilation [1]",
         "M * N, (K - 1) floordiv 2 + 1, 1", None, "d0, d1, ((d2 * 2) + d3)"),
    ],
)  # fmt: skip
def test_rules_take_a_tuple_with_them(
    op: str, shape: str, axes: list[list[str]] | None, maps: str, ctx: Context
) -> None:
    tail = f" : {T('M * N, K')}" + ("" if "neg" in op else f" -> {T(shape)}")
    entry = booked(f"{MERGED}%y = {op}{tail}\n{summed('y', shape)}", ctx)["y"]
    assert entry.is_scop and the_map(entry) == maps
    assert axes is None or dims(entry) == axes


def test_pads_and_masks_beside_a_tuple(ctx: Context) -> None:
    body = f"""{MERGED}%p = tiny.pad %m low [0, 1] high [0, 0] value 0.0
    : {T("M * N, K")} -> {T("M * N, K + 1")}
%y = tiny.mask %p where affine_set<(d0, d1)[s0, s1, s2] : (d1 - 2 >= 0)> fill 3.0
    : {T("M * N, K + 1")} -> {T("M * N, K + 1")}
{summed("y", "M * N, K + 1")}"""
    entries = booked(body, ctx)
    for name in "py":
        inside, outside = entries[name].pieces
        assert "d2" in str(inside.domain) and outside.entries in ((0.0,), (3.0,))


@pytest.mark.parametrize(
    ("op", "shape", "reason"),
    [
        ("tiny.slice %m [0:M, 0:K]", "M, K", "the slice cuts axis 0, which is the product M x N"),
        ("tiny.pad %m low [1, 0] high [0, 0] value 0.0", "M * N + 1, K",
         "the pad extends axis 0, which is the product M x N"),
        ("tiny.window %m axes [0] size [2] stride [1] dilation [1]", "M * N - 1, K, 2",
         "the window moves along axis 0, which is the product M x N"),
        ("tiny.mask %m where affine_set<(d0, d1)[s0, s1, s2] : (d0 - d1 >= 0)> fill 0.0",
         "M * N, K", "the condition of the mask is on axis 0, which is the product M x N"),
    ],
)  # fmt: skip
def test_what_cuts_a_tuple_is_a_boundary(op: str, shape: str, reason: str, ctx: Context) -> None:
    body = f"{MERGED}%y = {op} : {T('M * N, K')} -> {T(shape)}\n{summed('y', shape)}"
    module = parse_text(
        ctx,
        f"tiny.graph @f(%x: {T('M, N, K')}) -> (out: {T('')}) assuming (N >= 2, M >= 2) "
        f"{{\n{body}\n}}\n",
        "f",
    )
    TinyToIndex().apply(ctx, module)
    (graph,) = module.body.block.ops
    entries = index.book(graph)
    (entry,) = [e for v, e in entries.items() if v.name_hint == "y"]
    if "mask" in op:
        # The mask keeps coordinates: it reads its operand as one axis, as it lies in memory.
        assert entry.is_scop and entry.is_plain
        entry = entries[entry.operands_read[0]]
    assert not entry.is_scop and reason in str(entry.reason)


def test_operands_meet_in_a_tuple(ctx: Context) -> None:
    """One that repeats is read at 0; one that is a single axis is viewed with the factors."""
    body = f"""{MERGED}%w = tiny.expand %b dims [1] : {T("K")} -> {T("M * N, K")}
%y = tiny.binary mul %m, %w : {T("M * N, K")}
%l = tiny.expand %a dims [0] : {T("M * N")} -> {T("M * N, K")}
%z = tiny.binary add %y, %l : {T("M * N, K")}
{summed("z", "M * N, K")}"""
    inputs = f"%x: {T('M, N, K')}, %b: {T('K')}, %a: {T('M * N')}"
    entries = booked(body, ctx, inputs)
    (piece,) = entries["y"].pieces
    assert [str(m) for m in piece.entries] == [
        "(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)",
        "(d0, d1, d2)[s0, s1, s2] -> (0, d2)",
    ]
    (piece,) = entries["z"].pieces
    assert [str(m) for m in piece.entries] == ["(d0, d1, d2)[s0, s1, s2] -> (d0, d1, d2)"] * 2
    _, back = entries["z"].operands_read
    assert isinstance(back.owner, tiny.ReshapeOp)
    view = index.value_op(back.owner.operand)
    assert view is not None and "divides by a symbol" in str(view.reason)


def test_the_text_reads_back(ctx: Context) -> None:
    entry = booked(reshapes("M * N, K"), ctx)["v0"]
    text = str(entry.parent_op())
    assert "axes [(i0(0): M, i1(1): N), i2(2): K]" in text
    again = parse_text(ctx, text, "g")
    again.verify()
    assert str(again.body.block.first_op) == text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("(i0(0): M, i1(1): N), i2(2): K", "(i0(0): M, i1(1): K), i2(2): K", "has size K \\* M"),
        ("(i0(0): M, i1(1): N), i2(2): K", "i0(0): M, i1(1): N, i2(2): K", "3 axes for"),
        ("-> (d0, d1, d2)>", "-> (d0, d1)>", "has 2 results"),
    ],
)
def test_invalid_tuples(old: str, new: str, message: str, ctx: Context) -> None:
    entry = booked(reshapes("M * N, K"), ctx)["v0"]
    text = str(entry.parent_op())
    assert old in text
    with pytest.raises(VerifyException, match=message):
        parse_text(ctx, text.replace(old, new), "g").verify()


# Random chains --------------------------------------------------------------------------


class Products(Chain):
    """A chain that merges any neighbours too, and splits what it merged."""

    def merge(self) -> None:
        shape = list(self.shape)
        if len(shape) < 2:
            return
        i = self.draw(st.integers(0, len(shape) - 2))
        self.parts = (shape[i] * shape[i + 1], shape[i], shape[i + 1])
        shape[i : i + 2] = [self.parts[0]]
        self.to(shape)

    def part(self) -> None:
        whole, *parts = getattr(self, "parts", (None,))
        shape = list(self.shape)
        if whole in shape:
            i = shape.index(whole)
            shape[i : i + 1] = parts
            self.to(shape)

    def to(self, shape: list[Dim]) -> None:
        op = tiny.ReshapeOp(self.last, shape)
        self.step(op, self.arrays[self.last].reshape(sizes_of(tuple(shape))))


@st.composite
def products(draw: st.DrawFn) -> Products:
    return Products(draw, more=("merge", "merge", "part", "part"))


@settings(max_examples=examples(60), deadline=None)
@given(products())
def test_random_chains_with_products(chain: Products) -> None:
    """The playback, and where every entry has maps each point, is what NumPy has."""
    module = ModuleOp([chain.graph])
    module.verify()
    TinyToIndex().apply(Context(), module)
    module.verify()
    inputs = [chain.arrays[a].astype(np.float32) for a in chain.graph.body.block.args]
    every: dict[SSAValue, Any] = {}
    for value, array in index_playback.every_value(chain.graph, inputs, SIZES):
        np.testing.assert_array_equal(array, chain.arrays[value])
        every[value] = array
    if all(e.is_scop for e in index.book(chain.graph).values()):
        for value, array in book_points.values(chain.graph, inputs, SIZES).items():
            assert array.size == chain.arrays[value].size
            np.testing.assert_array_equal(array.ravel(), chain.arrays[value].ravel())


def test_a_projection_over_a_batch_is_one_contraction(ctx: Context) -> None:
    """[B, S, D] as [B * S, D], times [D, N], back to [B, S, N]: no boundary anywhere."""
    body = f"""%m = tiny.reshape %x : {T("M, N, K")} -> {T("M * N, K")}
%a = tiny.expand %m dims [0, 1] : {T("M * N, K")} -> {T("M * N, K, 7")}
%b = tiny.expand %w dims [1, 2] : {T("K, 7")} -> {T("M * N, K, 7")}
%p = tiny.binary mul %a, %b : {T("M * N, K, 7")}
%c = tiny.reduce sum %p axes [1] : {T("M * N, K, 7")} -> {T("M * N, 7")}
%y = tiny.reshape %c : {T("M * N, 7")} -> {T("M, N, 7")}
{summed("y", "M, N, 7")}"""
    entries = booked(body, ctx, f"%x: {T('M, N, K')}, %w: {T('K, 7')}")
    assert all(e.is_scop for e in entries.values()) and entries["y"].is_plain
    graph = entries["y"].parent_op()
    sizes = {"M": 2, "N": 3, "K": 4}
    x, w = make_inputs(graph, sizes)
    (found,) = index_playback.run(graph, [x, w], sizes)
    np.testing.assert_allclose(found, (x @ w).sum(), rtol=1e-5)


def test_views_of_memory_are_put_in_once(ctx: Context) -> None:
    """The pass on its own result changes nothing, where it had to add reshapes too."""
    body = f"""%m = tiny.reshape %x : {T("M, N")} -> {T("M * N")}
%z = tiny.binary add %m, %a : {T("M * N")}
{summed("z", "M * N")}"""
    graph = booked(body, ctx, f"%x: {T('M, N')}, %a: {T('M * N')}")["z"].parent_op()
    before = str(graph)
    assert before.count("tiny.reshape") == 3
    TinyToIndex().apply(ctx, graph.parent_op())
    assert str(graph) == before
