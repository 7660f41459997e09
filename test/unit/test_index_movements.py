"""The index book of movements that change coordinates, evaluated point by point (S4.7)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AffineSetAttr, ModuleOp
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineMap, AffineSet

from polyc.dialects import index, tiny
from polyc.dialects.dim import Assumption, Dim
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.poly import isl
from polyc.tools.parsing import parse_text

Array = npt.NDArray[Any]
SYMBOLS = ("M", "N")
SIZES: Mapping[str, int] = {"M": 5, "N": 3}
FACTS = (Assumption(Dim.sym("M") - 3, ">="), Assumption(Dim.sym("N") - 3, ">="))
"""What makes every slice and window of the tests legal."""


def sizes_of(shape: tuple[Dim, ...]) -> tuple[int, ...]:
    return tuple(d.evaluate(SIZES) for d in shape)


class Chain:
    """A random chain of movements with the NumPy array of every value."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        shape = draw(st.lists(st.sampled_from(["M", "N", 4, 6, 1]), min_size=1, max_size=3))
        every = tiny.tensor(SYMBOLS)
        self.graph = tiny.GraphOp(
            "f", [every, tiny.tensor(shape)], [tiny.tensor(())], assumptions=FACTS
        )
        leaf = self.graph.body.block.args[1]
        self.arrays: dict[SSAValue, Array] = {}
        for arg in self.graph.body.block.args:
            extents = sizes_of(tiny.tensor_of(arg).dims)
            count = int(np.prod(extents, dtype=int))
            self.arrays[arg] = np.arange(1, count + 1, dtype=np.float64).reshape(extents)
        self.last: SSAValue = leaf
        kinds = ["slice", "pad", "window", "mask", "reshape", "expand", "permute"]
        for kind in draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)):
            if self.arrays[self.last].size <= 4000:
                getattr(self, kind)()
        rank = tiny.tensor_of(self.last).rank
        self.graph.body.block.add_op(total := tiny.ReduceOp("sum", self.last, list(range(rank))))
        self.graph.body.block.add_op(tiny.OutputOp([total.result]))

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tiny.tensor_of(self.last).dims

    def step(self, op: Any, array: Array) -> None:
        self.graph.body.block.add_op(op)
        self.last = cast(SSAValue, op.result)
        self.arrays[self.last] = array
        assert array.shape == sizes_of(self.shape)

    def slice(self) -> None:
        low: list[Dim] = []
        high: list[Dim] = []
        steps: list[int] = []
        where: list[Any] = []
        for size in self.shape:
            extent, constant = size.evaluate(SIZES), size.constant()
            room = constant if constant is not None else 3 if size in map(Dim.sym, SYMBOLS) else 0
            start = self.draw(st.integers(0, min(1, max(0, room - 1))))
            short = self.draw(st.integers(0, min(1, max(0, room - start - 1))))
            steps.append(self.draw(st.integers(1, 2)))
            low.append(Dim.const(start))
            high.append(size - short)
            where.append(np.s_[start : extent - short : steps[-1]])
        op = tiny.SliceOp(self.last, low, high, steps)
        self.step(op, self.arrays[self.last][tuple(where)])

    def pad(self) -> None:
        rank = len(self.shape)
        low = [self.draw(st.sampled_from([0, 0, 1, 2])) for _ in range(rank)]
        high = [self.draw(st.sampled_from([0, 0, 1])) for _ in range(rank)]
        number = self.draw(st.sampled_from([0.0, -1.0]))
        array = np.pad(
            self.arrays[self.last], list(zip(low, high, strict=True)), constant_values=number
        )
        self.step(tiny.PadOp(self.last, low, high, number), array)

    def window(self) -> None:
        named = [*map(Dim.sym, SYMBOLS)]
        wide = [i for i, d in enumerate(self.shape) if d in named or (d.constant() or 0) >= 3]
        if not wide or len(self.shape) > 3:
            return
        axis = self.draw(st.sampled_from(wide))
        stride = self.draw(st.integers(1, 2))
        size, dilation = self.draw(st.sampled_from([(2, 1), (3, 1), (2, 2)]))
        view = np.lib.stride_tricks.sliding_window_view(
            self.arrays[self.last], dilation * (size - 1) + 1, axis=axis
        )
        where = [slice(None)] * view.ndim
        where[axis], where[-1] = slice(None, None, stride), slice(None, None, dilation)
        op = tiny.WindowOp(self.last, [axis], [size], [stride], [dilation])
        self.step(op, view[tuple(where)])

    def mask(self) -> None:
        rank = len(self.shape)
        texts = ["d0 - 1 >= 0", "d0 == 1", "d0 - 2 >= 0, 3 - d0 >= 0", "d0 - d1 >= 0"]
        rows = self.draw(st.sampled_from(texts if rank > 1 else texts[:3]))
        dims = ", ".join(f"d{i}" for i in range(rank))
        condition = set_of(f"affine_set<({dims})[s0, s1] : ({rows})>")
        grid = cast(Any, list(np.indices(self.arrays[self.last].shape)))
        holds = np.ones(self.arrays[self.last].shape, np.bool_)
        for row in condition.constraints:
            value = np.asarray(row.lhs.eval(grid, [0, 0])) - np.asarray(row.rhs.eval(grid, [0, 0]))
            holds &= value == 0 if row.kind.value == "==" else value >= 0
        number = self.draw(st.sampled_from([-2.0, 7.0]))
        op = tiny.MaskOp(self.last, condition, number)
        self.step(op, np.where(holds, self.arrays[self.last], number))

    def reshape(self) -> None:
        """Merge two neighbouring axes of which the inner is constant, or split a constant one."""
        shape = list(self.shape)
        merges = [i for i in range(len(shape) - 1) if shape[i + 1].constant() not in (None, 0)]
        splits = [i for i, d in enumerate(shape) if d.constant() in (4, 6, 12, 24)]
        choices = [("merge", i) for i in merges] + [("split", i) for i in splits] + [("one", 0)]
        what, i = self.draw(st.sampled_from(choices))
        if what == "merge":
            shape[i : i + 2] = [shape[i] * shape[i + 1]]
        elif what == "split":
            value = shape[i].constant() or 0
            shape[i : i + 1] = [Dim.const(value // 2), Dim.const(2)]
        else:
            shape.insert(self.draw(st.integers(0, len(shape))), Dim.const(1))
        op = tiny.ReshapeOp(self.last, shape)
        self.step(op, self.arrays[self.last].reshape(sizes_of(tuple(shape))))

    def expand(self) -> None:
        if len(self.shape) > 3:
            return
        at = self.draw(st.integers(0, len(self.shape)))
        shape = list(self.shape)
        shape.insert(at, self.draw(st.sampled_from([Dim.sym("N"), Dim.const(2)])))
        places = [i for i in range(len(shape)) if i != at]
        array = np.broadcast_to(np.expand_dims(self.arrays[self.last], at), sizes_of(tuple(shape)))
        kind = tiny.tensor_of(self.last).element_type
        self.step(tiny.ExpandOp(self.last, places, tiny.tensor(shape, kind)), array)

    def permute(self) -> None:
        perm = self.draw(st.permutations(range(len(self.shape))))
        self.step(tiny.PermuteOp(self.last, perm), self.arrays[self.last].transpose(perm))


CHAINS = st.composite(Chain)


def set_of(text: str) -> AffineSet:
    from xdsl.parser import Parser

    from polyc.tools.registry import make_context

    found = Parser(make_context(), text).parse_attribute()
    assert isinstance(found, AffineSetAttr)
    return found.data


def booked(graph: tiny.GraphOp) -> tiny.GraphOp:
    module = ModuleOp([graph])
    module.verify()
    TinyToIndex().apply(Context(), module)
    module.verify()
    return graph


def points(extents: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*map(range, extents))


def holds(points: AffineSet, at: tuple[int, ...]) -> bool:
    symbols = [SIZES[s] for s in SYMBOLS]
    return all(
        (row.lhs - row.rhs).eval(at, symbols) == 0
        if row.kind.value == "=="
        else (row.lhs - row.rhs).eval(at, symbols) >= 0
        for row in points.constraints
    )


@settings(max_examples=80, deadline=None)
@given(CHAINS())
def test_each_piece_reads_what_numpy_reads(chain: Chain) -> None:
    """Every point is in one piece, which reads the operand's element or holds the fill."""
    for value, entry in index.book(booked(chain.graph)).items():
        if not isinstance(value.owner, tiny.ReduceOp) and entry.operands_read:
            assert entry.is_scop
            (operand,) = entry.operands_read
            source, result = chain.arrays[operand], chain.arrays[value]
            for point in points(result.shape):
                (piece,) = [
                    p
                    for p in entry.pieces
                    if not isinstance(p.domain, AffineSetAttr) or holds(p.domain.data, point)
                ]
                (found,) = piece.entries
                if isinstance(found, AffineMap):
                    where = found.eval(point, [SIZES[s] for s in SYMBOLS])
                    assert all(0 <= c < n for c, n in zip(where, source.shape, strict=True))
                    assert source[tuple(where)] == result[point]
                else:
                    assert found == result[point]


# How small the entries stay -------------------------------------------------------------

PIECES = [
    ("tiny.pad %x low [1, 0] high [0, 0] value 0.0", "[M + 1, N]", 2),
    ("tiny.pad %x low [1, 0] high [1, 0] value 0.0", "[M + 2, N]", 3),
    ("tiny.pad %x low [1, 1] high [1, 1] value 0.0", "[M + 2, N + 2]", 5),
    ("tiny.pad %x low [0, 0] high [0, 0] value 0.0", "[M, N]", 1),
    ("tiny.pad %x low [N, 0] high [0, 0] value 0.0", "[M + N, N]", 2),
    ("tiny.slice %x [1:M, 0:N:2]", "[M - 1, (N + 1) floordiv 2]", 1),
    (
        "tiny.window %x axes [0] size [3] stride [2] dilation [1]",
        "[(M - 3) floordiv 2 + 1, N, 3]",
        1,
    ),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0)> fill -inf", "[M, N]", 2),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 == 0)> fill 0.0", "[M, N]", 2),
    (
        "tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 - d1 >= 0, d1 - d0 + 4 >= 0)> "
        "fill -inf",
        "[M, N]",
        3,
    ),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 >= 0)> fill 0.0", "[M, N]", 1),
    ("tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d0 * -1 - 1 >= 0)> fill 0.0", "[M, N]", 1),
]
"""A movement, the shape that it gives, and how many pieces its entry has; by hand."""


def entry_of(op: str, shape: str, ctx: Context, source: str = "[M, N]") -> index.ValueOp:
    text = f"""
tiny.graph @f(%x: !tiny.tensor<{source}, f32>, %s: !tiny.tensor<[M, N, K], f32>)
    -> (y: !tiny.tensor<{shape}, f32>) assuming (M >= 3, N >= 3) {{
  %y = {op} : !tiny.tensor<{source}, f32> -> !tiny.tensor<{shape}, f32>
  tiny.output %y : !tiny.tensor<{shape}, f32>
}}
"""
    if "[s0, s1]" in text:
        text = text.replace("[M, N, K]", "[M, N]")
    module = parse_text(ctx, text, "f.mlir")
    module.verify()
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    (found,) = [e for v, e in index.book(graph).items() if v.name_hint == "y"]
    return found


@pytest.mark.parametrize(("op", "shape", "count"), PIECES)
def test_pieces(op: str, shape: str, count: int, ctx: Context) -> None:
    assert len(entry_of(op, shape, ctx).pieces) == count


def test_conv_rows_are_in_unpadded_coordinates(ctx: Context) -> None:
    """S4.9: row = s * ho + d * kh - p, through a pad and a window."""
    text = """
tiny.graph @f(%x: !tiny.tensor<[H], f32>) -> (y: !tiny.tensor<[(H - 1) floordiv 2 + 1, 3], f32>)
    assuming (H >= 3) {
  %p = tiny.pad %x low [1] high [1] value 0.0 : !tiny.tensor<[H], f32> -> !tiny.tensor<[H + 2], f32>
  %y = tiny.window %p axes [0] size [3] stride [2] dilation [1]
      : !tiny.tensor<[H + 2], f32> -> !tiny.tensor<[(H - 1) floordiv 2 + 1, 3], f32>
  tiny.output %y : !tiny.tensor<[(H - 1) floordiv 2 + 1, 3], f32>
}
"""
    module = parse_text(ctx, text, "f.mlir")
    module.verify()
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    entries = {v.name_hint: e for v, e in index.book(graph).items()}
    inside = entries["p"].pieces.data[0]
    assert [str(m) for m in inside.entries] == ["(d0)[s0] -> ((d0 + -1))"]
    (piece,) = entries["y"].pieces
    assert [str(m) for m in piece.entries] == ["(d0, d1)[s0] -> (((d0 * 2) + d1))"]


@pytest.mark.parametrize(
    ("source", "shape", "map"),
    [
        ("[M, 8]", "[8 * M]", "(d0 floordiv 8), (d0 + ((d0 floordiv 8) * -8))"),
        ("[8 * M]", "[M, 8]", "((d0 * 8) + d1)"),
        ("[M, 12]", "[M, 3, 4]", "d0, ((d1 * 4) + d2)"),
        ("[M, 1, N]", "[M, N]", "d0, 0, d1"),
    ],
)
def test_reshape_maps(source: str, shape: str, map: str, ctx: Context) -> None:
    entry = entry_of("tiny.reshape %x", shape, ctx, source)
    (piece,) = entry.pieces
    (found,) = piece.entries
    assert isinstance(found, AffineMap)
    dims = ", ".join(f"d{i}" for i in range(found.num_dims))
    assert str(found).replace(" ", "") == f"({dims})[s0, s1, s2] -> ({map})".replace(" ", "")


@pytest.mark.parametrize(
    ("op", "source", "shape", "reason"),
    [
        ("tiny.reshape %x", "[M, N]", "[M * N]", "a reshape of M x N to M * N divides by a symbol"),
        ("tiny.reshape %x", "[M * N]", "[M, N]", "a reshape of M * N to M x N divides by a symbol"),
        (
            "tiny.pad %x low [0] high [1] value 0.0",
            "[M * N]",
            "[M * N + 1]",
            "the pad of axis 0 has a border at M * N, which multiplies symbols",
        ),
    ],
)
def test_what_is_not_affine_is_a_boundary(
    op: str, source: str, shape: str, reason: str, ctx: Context
) -> None:
    entry = entry_of(op, shape, ctx, source)
    assert not entry.is_scop and reason in str(entry.attributes["reason"])


def test_fill_pieces_and_read_pieces_cover_the_box(ctx: Context) -> None:
    entry = entry_of("tiny.pad %x low [1, 1] high [1, 1] value 0.0", "[M + 2, N + 2]", ctx)
    domains = tuple(entry.domain(p) for p in entry.pieces)
    assert isl.covers(entry.domain(), domains)
