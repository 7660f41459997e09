"""Which axes of a sum of products are batch, rows, columns and reduction (S5.2)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr, Builtin
from xdsl.ir.affine import AffineConstantExpr, AffineDimExpr, AffineExpr, AffineMap, AffineSet
from xdsl.parser import Parser

from polyc.affine import isl
from polyc.dialects.common.dim import Dim
from polyc.dialects.index import box
from polyc.poly.contraction import ContractionPattern, Refusal, classify


def map_of(text: str) -> AffineMap:
    ctx = Context()
    ctx.load_dialect(Builtin)
    found = Parser(ctx, f"affine_map<{text}>").parse_attribute()
    assert isinstance(found, AffineMapAttr)
    return found.data


def set_of(text: str) -> AffineSet:
    ctx = Context()
    ctx.load_dialect(Builtin)
    found = Parser(ctx, f"affine_set<{text}>").parse_attribute()
    assert isinstance(found, AffineSetAttr)
    return found.data


def classified(
    out: str, reduced: str, lhs: str, rhs: str, sizes: str | None = None
) -> ContractionPattern | Refusal:
    """Axes are letters; every axis has a symbol of its own unless ``sizes`` says digits."""
    names = out + reduced
    extents = [Dim.const(int(s)) if s.isdigit() else Dim.sym(s) for s in sizes or names.upper()]
    symbols = sorted({s for d in extents for s in d.symbols()})
    dims = ", ".join(f"d{i}" for i in range(len(names)))
    syms = ", ".join(f"s{i}" for i in range(len(symbols)))

    def read(text: str) -> AffineMap:
        for i, name in enumerate(names):
            text = text.replace(name, f"d{i}")
        return map_of(f"({dims})[{syms}] -> ({text})")

    return classify(tuple(out), tuple(reduced), read(lhs), read(rhs), box(extents, symbols))


def pattern(found: ContractionPattern | Refusal) -> ContractionPattern:
    assert isinstance(found, ContractionPattern), found
    return found


def test_matmul():
    found = pattern(classified("mn", "k", "m, k", "k, n"))
    assert found.kind == "matmul"
    assert (found.batch, found.lhs_axes, found.rhs_axes, found.reduce) == ((), (0,), (1,), (2,))
    assert (found.lhs.axes, found.rhs.axes) == ((0, 2), (2, 1))
    assert found.lhs.plain and found.rhs.plain
    assert [found.role(a) for a in range(3)] == ["lhs", "rhs", "reduce"]


def test_transposed_operands_show_in_their_order():
    found = pattern(classified("mn", "k", "k, m", "n, k"))
    assert (found.lhs.axes, found.rhs.axes) == ((2, 0), (1, 2))


def test_the_roles_follow_the_operands_not_the_output():
    found = pattern(classified("nm", "k", "m, k", "k, n"))
    assert (found.lhs_axes, found.rhs_axes) == ((1,), (0,))


def test_batched_with_several_reduced_axes():
    found = pattern(classified("bhmn", "kc", "b, h, m, k, c", "b, h, n, c, k"))
    assert found.batch == (0, 1)
    assert found.reduce == (4, 5)
    assert [found.role(a) for a in range(6)] == ["batch", "batch", "lhs", "rhs", *["reduce"] * 2]


def test_shared_batch_of_one_operand_is_a_row_axis():
    """B[k, n] used by every b: then b is an axis of the lhs alone."""
    found = pattern(classified("bmn", "k", "b, m, k", "k, n"))
    assert (found.batch, found.lhs_axes) == ((), (0, 1))


def test_matrix_times_vector_has_no_columns():
    found = pattern(classified("m", "k", "m, k", "k"))
    assert found.rhs_axes == ()


def test_offsets():
    found = pattern(classified("mn", "k", "m + 3, k", "k + s0, n, 5"))
    assert found.lhs.offsets == (AffineConstantExpr(3), AffineConstantExpr(0))
    assert found.rhs.axes == (2, 1, None)
    assert str(found.rhs.offsets[0]) == "s0"
    assert found.rhs.offsets[2] == AffineConstantExpr(5)
    assert not found.lhs.plain and not found.rhs.plain


def test_a_size_of_one_hides_no_matrix_product():
    found = pattern(classified("mn", "k", "m, k", "k, n", sizes="1N1"))
    assert (found.lhs_axes, found.rhs_axes, found.reduce) == ((0,), (1,), (2,))


def test_spelling_does_not_decide():
    """``(4m + n) floordiv 4`` with n < 4 is m; ``n - n`` is not n."""
    found = pattern(classified("mn", "k", "(4 * m + n) floordiv 4, k", "k, n", sizes="M4K"))
    assert found.lhs.axes == (0, 2)
    assert found.lhs.plain


def test_a_window_makes_a_convolution():
    found = pattern(classified("nhf", "rc", "n, 2 * h + 3 * r - 1, c", "f, r, c"))
    assert found.kind == "conv"
    assert (found.lhs_axes, found.rhs_axes, found.reduce) == ((0, 1), (2,), (3, 4))
    (window,) = found.windows
    assert (window.side, window.coordinate) == ("lhs", 1)
    assert (window.axis, window.stride, window.tap, window.dilation) == (1, 2, 3, 3)
    assert window.offset == AffineConstantExpr(-1)
    assert not found.lhs.plain and found.rhs.plain


def test_a_stride_alone_is_a_convolution_with_one_tap():
    found = pattern(classified("nhf", "c", "n, 2 * h, c", "f, c"))
    assert found.kind == "conv"
    assert [(w.axis, w.stride, w.tap) for w in found.windows] == [(1, 2, None)]


def test_a_window_of_the_right_operand():
    found = pattern(classified("fh", "r", "f, r", "h + r"))
    assert [(w.side, w.axis, w.tap) for w in found.windows] == [("rhs", 1, 2)]


def test_groups_split_a_dimension_without_a_window():
    """Channel 4 * g + c of the image, filter 2 * g + f of the weights."""
    found = pattern(classified("gmf", "c", "4 * g + c, m", "2 * g + f, c", sizes="GM24"))
    assert found.kind == "matmul"
    assert found.batch == (0,)
    assert found.lhs.coordinates[0].terms == ((0, 4), (3, 1))
    assert found.rhs.coordinates[0].terms == ((0, 2), (2, 1))


def test_a_split_that_counts_a_point_twice_is_refused():
    found = classified("gmf", "c", "3 * g + c, m", "2 * g + f, c", sizes="GM24")
    assert found == Refusal("coordinate 0 of the lhs mixes the axes g and c")


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (("mn", "", "m, n", "n"), "no axis is reduced"),
        (("m", "k", "m, k", "m, k"), "both operands are read along the same axes"),
        (("mn", "k", "m, k", "n"), "only one operand reads the reduced axis k"),
        (("mn", "k", "m", "n"), "neither operand reads the reduced axis k"),
        (("mnp", "k", "m, k", "k, n"), "neither operand reads the output axis p"),
        (("hgn", "k", "h + g, k", "k, n"), "coordinate 0 of the lhs mixes the axes h and g"),
        (("hn", "kr", "h + 2 * k + r", "k, r, n"), "coordinate 0 of the lhs mixes the axes h"),
        (("hn", "k", "(h + k) floordiv 2", "k, n"), "coordinate 0 of the lhs mixes the axes h"),
        (("hn", "k", "4 - h, k", "k, n"), "coordinate 0 of the lhs runs backwards along h"),
        (("mn", "k", "m, k", "2 * k, n"), "coordinate 0 of the rhs steps along k by not 1"),
        (("mn", "k", "m, k", "k floordiv 2, n"), "steps along k by not 1"),
        (("mn", "k", "m, m, k", "k, n"), "the lhs reads the axis m twice, on a diagonal"),
    ],
)
def test_refusals_say_why(case: tuple[str, str, str, str], reason: str):
    found = classified(*case)
    assert isinstance(found, Refusal)
    assert reason in found.reason


def test_dimensions_must_match():
    with pytest.raises(ValueError, match="2 dimensions for axes"):
        classify(("m",), (), map_of("(d0, d1) -> (d0)"), map_of("(d0) -> (d0)"), box([], []))


@given(st.permutations(range(4)), st.permutations(range(3)), st.permutations(range(3)))
def test_roles_do_not_depend_on_the_order_of_axes(
    dims: list[int], lhs_order: list[int], rhs_order: list[int]
):
    """Batch, m, n, k in any order of dimensions and coordinates; outputs stay first."""
    labels = "bmnk"
    order = [labels[d] for d in dims if labels[d] != "k"] + ["k"]
    sizes = [Dim.sym(name.upper()) for name in order]
    symbols = ["B", "M", "N", "K"]

    def read(names: list[str]) -> AffineMap:
        results: tuple[AffineExpr, ...] = tuple(AffineDimExpr(order.index(n)) for n in names)
        return AffineMap(4, 4, results)

    found = classify(
        tuple(order[:3]),
        ("k",),
        read(["bmk"[i] for i in lhs_order]),
        read(["bnk"[i] for i in rhs_order]),
        box(sizes, symbols),
    )
    roles = {order[a]: pattern(found).role(a) for a in range(4)}
    assert roles == {"b": "batch", "m": "lhs", "n": "rhs", "k": "reduce"}


@given(st.data())
def test_a_pattern_computes_the_same_sum(data: st.DataObject):
    """Whatever is recognised: operand coordinates are their terms + offset at every point."""
    coordinate = st.sampled_from(["d0", "d1", "d2", "d0 + 1", "d2 + 2", "d0 + d2", "2 * d1", "3"])
    domain = set_of("(d0, d1, d2)[] : (d0 >= 0, 1 - d0 >= 0, d1 == 1, d2 >= 0, 2 - d2 >= 0)")
    maps = [
        map_of(f"(d0, d1, d2) -> ({', '.join(data.draw(st.lists(coordinate, max_size=3)))})")
        for _ in range(2)
    ]
    found = classify(("m", "n"), ("k",), maps[0], maps[1], domain)
    if isinstance(found, Refusal):
        return
    for map, operand in zip(maps, (found.lhs, found.rhs), strict=True):
        for point in itertools.product(range(2), [1], range(3)):
            read = tuple(
                sum(step * point[axis] for axis, step in c.terms) + c.offset.eval(point, ())
                for c in operand.coordinates
            )
            assert read == map.eval(point, ())
    parted = (*found.batch, *found.lhs_axes, *found.rhs_axes, *found.reduce)
    assert sorted(parted) == [0, 1, 2]


def test_the_limit_reaches_the_caller():
    with isl.limited(3), pytest.raises(isl.IslLimitExceeded):
        classified("mn", "k", "m, k + 77", "k, n + 78")
