"""What is stored between kernels: legality by isl, cost, and the two points that say no."""

# ruff: noqa: E501

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import AffineMapAttr, AffineSetAttr
from xdsl.ir import Attribute
from xdsl.parser import Parser

from polyc.dialects import tiny
from polyc.dialects.common.dim import Dim
from polyc.lowering.index_to_region import cost
from polyc.lowering.index_to_region.forms import equal_casts
from polyc.lowering.index_to_region.fusion import Composer
from polyc.lowering.index_to_region.kernels import Fuse, Kernels
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.poly.same_point import two_points
from polyc.rewriting.region.points import AxisNames
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

X, R = "!tiny.tensor<[M, N], f32>", "!tiny.tensor<[M], f32>"


def graph_of(body: str, out: str = X, inputs: str = f"%x: {X}") -> tiny.GraphOp:
    ctx = make_context()
    text = f"tiny.graph @f({inputs}) -> (y: {out}) {{\n{body}\n tiny.output %y : {out}\n}}"
    module = parse_text(ctx, text, "f.mlir")
    module.verify()
    TinyToIndex().apply(ctx, module)
    graph = module.body.block.first_op
    assert isinstance(graph, tiny.GraphOp)
    return graph


def stored(graph: tiny.GraphOp, fuse: Fuse = "cost") -> dict[str | None, str]:
    """The values that are stored, by name, and why."""
    found: Kernels = Composer(graph, fuse).run()
    return {value.name_hint: s.reason for value, s in found.stored.items()}


# Same point ------------------------------------------------------------------------------


def attribute(text: str) -> Attribute:
    return Parser(make_context(), text).parse_attribute()


@pytest.mark.parametrize(
    ("access", "domain", "clash"),
    [
        ("(d0, d1)[s0] -> (d1, d0)", "(d0, d1)[s0] : (d0 >= 0)", False),
        ("(d0)[s0] -> (d0 * 3 + 1)", "(d0)[s0] : (d0 >= 0)", False),
        ("(d0, d1)[s0] -> (d0 * 2 + d1)", "(d0, d1)[s0] : (d1 >= 0, 1 - d1 >= 0)", False),
        ("(d0, d1)[s0] -> (d0 * 2 + d1)", "(d0, d1)[s0] : (d1 >= 0, 2 - d1 >= 0)", True),
        ("(d0, d1)[s0] -> (d0)", "(d0, d1)[s0] : (d1 >= 0, s0 - d1 >= 0)", True),
        ("(d0, d1)[s0] -> (d0)", "(d0, d1)[s0] : (d1 == 0)", False),
        ("(d0)[s0] -> (d0 floordiv 2)", "(d0)[s0] : (d0 >= 0, s0 - d0 >= 0)", True),
    ],
)
def test_two_points_are_found_where_there_are(access: str, domain: str, clash: bool) -> None:
    map, points = attribute(f"affine_map<{access}>"), attribute(f"affine_set<{domain}>")
    assert isinstance(map, AffineMapAttr) and isinstance(points, AffineSetAttr)
    names = [f"x{i}" for i in range(map.data.num_dims)]
    found = two_points(map.data, points.data, names)
    assert (found is not None) == clash
    if found is not None:
        first, second = (part.split("]")[0] for part in found.split("at [")[1:])
        assert first != second and "x0 = " in first


# Legality --------------------------------------------------------------------------------


def test_a_row_statistic_is_fused_with_its_row() -> None:
    graph = graph_of(f"""%r = tiny.reduce sum %x axes [1] : {X} -> {R}
  %e = tiny.expand %r dims [0] : {R} -> {X}
  %y = tiny.binary div %x, %e : {X}""")
    assert stored(graph) == {} and stored(graph, "legal") == {}
    assert stored(graph, "none") == {"r": "nothing is fused"}


def test_the_epilogue_is_stored_with_its_reduction() -> None:
    body = f"""%r = tiny.reduce sum %x axes [1] : {X} -> {R}
  %s = tiny.unary sqrt %r : {R}
  %a = tiny.expand %s dims [0] : {R} -> !tiny.tensor<[M, M], f32>
  %b = tiny.expand %s dims [1] : {R} -> !tiny.tensor<[M, M], f32>
  %y = tiny.binary sub %a, %b : !tiny.tensor<[M, M], f32>"""
    graph = graph_of(body, "!tiny.tensor<[M, M], f32>")
    wanted = {"s": "it is reduced, which is done once, and is wanted at 2 points"}
    assert stored(graph) == wanted and stored(graph, "legal") == wanted


def test_overlapping_windows_of_a_sum_refuse_and_separate_ones_do_not() -> None:
    body = f"""%r = tiny.reduce sum %x axes [1] : {X} -> {R}
  %w = tiny.window %r axes [0] size [2] stride [STEP] dilation [1] : {R} -> W
  %y = tiny.reduce max %w axes [1] : W -> OUT"""
    sizes = {"1": "M - 1", "2": "(M - 2) floordiv 2 + 1"}
    found: dict[str, dict[str | None, str]] = {}
    for step, count in sizes.items():
        text = body.replace("STEP", step).replace("OUT", f"!tiny.tensor<[{count}], f32>")
        text = text.replace(" W", f" !tiny.tensor<[{count}, 2], f32>")
        graph = graph_of(text, f"!tiny.tensor<[{count}], f32>")
        found[step] = stored(graph, "legal")
    assert found["2"] == {}
    assert list(found["1"]) == ["r"] and "is wanted at [" in found["1"]["r"]


def test_a_value_that_is_rounded_twice_is_stored_once() -> None:
    """An output of f16 that a product reads too: one cast stands for all of them."""
    half = R.replace("f32", "f16")
    graph = graph_of(
        f"""%r = tiny.reduce sum %x axes [1] : {X} -> {R}
  %h = tiny.cast %r : {R} -> {half}
  %w = tiny.cast %h : {half} -> {R}
  %again = tiny.cast %w : {R} -> {half}
  %other = tiny.cast %r : {R} -> {half}
  %narrow = tiny.cast %r : {R} -> {R.replace("f32", "bf16")}
  %y = tiny.cast %other : {half} -> {R}""",
        R,
    )
    found = {a.name_hint: b.name_hint for a, b in equal_casts(graph).items()}
    assert found == {"again": "h", "other": "h", "y": "w"}


# Cost ------------------------------------------------------------------------------------


def test_an_elementwise_value_is_computed_again_rather_than_stored() -> None:
    graph = graph_of(
        """%e = tiny.unary exp %x : S
  %t = tiny.permute %e perm [1, 0] : S -> S
  %y = tiny.binary add %e, %t : S""".replace("S", "!tiny.tensor<[M, M], f32>"),
        "!tiny.tensor<[M, M], f32>",
        "%x: !tiny.tensor<[M, M], f32>",
    )
    assert stored(graph) == {} and list(stored(graph, "none")) == ["e"]


def test_a_statistic_of_the_whole_is_stored() -> None:
    graph = graph_of(f"""%r = tiny.reduce max %x axes [0, 1] : {X} -> !tiny.tensor<[], f32>
  %e = tiny.expand %r dims [] : !tiny.tensor<[], f32> -> {X}
  %y = tiny.binary sub %x, %e : {X}""")
    assert list(stored(graph)) == ["r"] and stored(graph, "legal") == {}


def test_the_delta_counts_writes_reads_and_repeats() -> None:
    assert cost.Delta(8.0, 8.0, 2).pays and not cost.Delta(8.0, 8.1, 2).pays
    graph = graph_of(f"%y = tiny.unary exp %x : {X}")
    value = graph.body.block.first_op
    while not isinstance(value, tiny.UnaryOp):
        assert value is not None
        value = value.next_op
    work = cost.Work.of(graph, {value.result: 1})
    own = [Dim.const(8), Dim.const(4)]
    delta = cost.fusion_delta(value.result, work, own, 96, 2)
    assert (delta.saved, delta.times) == (12, 3)
    assert delta.again == pytest.approx(2 * 1 / cost.FLOPS_A_BYTE)
    assert "3 times" in str(delta) and "moves 12" in str(delta)


def test_products_are_contractions_and_rows_are_not() -> None:
    product = graph_of(
        """%a = tiny.expand %x dims [0, 1] : !tiny.tensor<[M, N], f32> -> T
  %b = tiny.expand %w dims [1, 2] : !tiny.tensor<[N, K], f32> -> T
  %p = tiny.binary mul %a, %b : T
  %y = tiny.reduce sum %p axes [1] : T -> !tiny.tensor<[M, K], f32>""".replace(
            " T", " !tiny.tensor<[M, N, K], f32>"
        ),
        "!tiny.tensor<[M, K], f32>",
        f"%x: {X}, %w: !tiny.tensor<[N, K], f32>",
    )
    row = graph_of(
        f"""%a = tiny.expand %w dims [1] : !tiny.tensor<[N], f32> -> {X}
  %p = tiny.binary mul %x, %a : {X}
  %y = tiny.reduce sum %p axes [1] : {X} -> {R}""",
        R,
        f"%x: {X}, %w: !tiny.tensor<[N], f32>",
    )
    for graph, wanted in ((product, True), (row, False)):
        sums = [op for op in graph.body.block.ops if isinstance(op, tiny.ReduceOp)]
        assert [cost.is_contraction(op.result) for op in sums] == [wanted]


def test_rows_times_a_vector_are_no_contraction_but_as_scores() -> None:
    """Where the one column lies as the first operand's rows do, and not across these."""

    def product(given: str, order: str, end: str, result: str) -> tiny.GraphOp:
        text = f"""%o = tiny.permute %x perm [{order}] : {given} -> R
  %r = tiny.expand %o dims [0, 1] : R -> T
  %v = tiny.expand %w dims [1, 2] : !tiny.tensor<[4, 1], f32> -> T
  %p = tiny.binary mul %r, %v : T
  %s = tiny.reduce sum %p axes [1] : T -> S
  %y = tiny.{end} : S -> {result}"""
        for name, shape in (("T", "8, 4, 1"), ("S", "8, 1"), ("R", "8, 4")):
            text = text.replace(f" {name}", f" !tiny.tensor<[{shape}], f32>")
        return graph_of(text, result, f"%x: {given}, %w: !tiny.tensor<[4, 1], f32>")

    lies, crosses = ("!tiny.tensor<[8, 4], f32>", "0, 1"), ("!tiny.tensor<[4, 8], f32>", "1, 0")
    same = ("permute %s perm [0, 1]", "!tiny.tensor<[8, 1], f32>")
    rows, across = product(*lies, *same), product(*crosses, *same)
    scores = product(*lies, "reduce max %s axes [0]", "!tiny.tensor<[1], f32>")
    for graph, wanted in ((rows, False), (across, True), (scores, True)):
        sums = [op for op in graph.body.block.ops if isinstance(op, tiny.ReduceOp)]
        assert cost.is_contraction(sums[0].result) is wanted


# Names -----------------------------------------------------------------------------------


def test_axes_are_named_by_their_symbols_and_a_name_is_one_size() -> None:
    names = AxisNames()
    m, n = Dim.sym("M"), Dim.sym("N")
    assert [a.label for a in names.iters([m, n, m, Dim.const(3), Dim.sym("I0")])] == [
        "m",
        "n",
        "i2",
        "i3",
        "i4",
    ]
    assert names.reduced(n, ["m"]).label == "n"
    assert names.reduced(n, ["m", "n"]).label == "r0"
    assert names.reduced(n, ["m", "n"]).label == "r0"
    assert names.reduced(Dim.const(3), ["m"]).label == "r1"
    assert names.reduced(Dim.const(3), ["m"], row=True).label == "i3"
    assert names.reduced(Dim.const(3), ["m", "i3"], row=True).label == "r1"
    assert names.reduced(m, ["m"], row=True).label == "i2"


@pytest.mark.parametrize("turned", [False, True])
def test_a_reduced_row_is_stored_where_it_is_repeated_as_a_column(turned: bool) -> None:
    """The output has a row's elements far from each other then, and needs nothing else of it."""
    kept, shape = (1, "[4096, 512]") if turned else (0, "[512, 4096]")
    out = f"!tiny.tensor<{shape}, f32>"
    graph = graph_of(
        f"""  %r = tiny.reduce min %x axes [1] : !tiny.tensor<[512, 4096], f32> -> !tiny.tensor<[512], f32>
  %e = tiny.expand %r dims [{kept}] : !tiny.tensor<[512], f32> -> {out}
  %b = tiny.expand %c dims [{1 - kept}] : !tiny.tensor<[4096], f32> -> {out}
  %y = tiny.binary add %e, %b : {out}""",
        out,
        "%x: !tiny.tensor<[512, 4096], f32>, %c: !tiny.tensor<[4096], f32>",
    )
    assert list(stored(graph)) == (["r"] if turned else [])
