"""Poly-View and the index book as JSON, with the specification's field names (S5, S13.1)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import islpy
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from polyc.affine import isl
from polyc.dialects import tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.tiny_to_index import TinyToIndex
from polyc.poly.blocks import find_contraction
from polyc.poly.contraction import ContractionPattern
from polyc.poly.indexbook import indexbook_json
from polyc.poly.view import poly_view_json
from polyc.tools.parsing import parse_text

GEMM = """
tiny.graph @gemm(%A: !tiny.tensor<[M, K], f16>, %B: !tiny.tensor<[K, N], f16>)
    -> (C: !tiny.tensor<[M, N], f32>) {
  %a = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
  %b = tiny.cast %B : !tiny.tensor<[K, N], f16> -> !tiny.tensor<[K, N], f32>
  %ae = tiny.expand %a dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
  %be = tiny.expand %b dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
  %T = tiny.binary mul %ae, %be : !tiny.tensor<[M, K, N], f32>
  %C0 = tiny.reduce sum %T axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %C0 : !tiny.tensor<[M, N], f32>
}
"""


def booked(ctx: Context, text: str) -> tiny.GraphOp:
    module = parse_text(ctx, text, "f.mlir")
    TinyToIndex().apply(ctx, module)
    module.verify()
    (graph,) = module.body.block.ops
    assert isinstance(graph, tiny.GraphOp)
    return graph


def book_of(ctx: Context, text: str) -> Any:
    return indexbook_json(booked(ctx, text))["index_book"]


def view_of(ctx: Context, text: str) -> Any:
    return poly_view_json(booked(ctx, text))["poly_view"]


def test_the_specification_s_gemm_book(ctx: Context):
    """Section 4.5, with the ids kept as S4.4 says."""
    book = book_of(ctx, GEMM)
    assert book["T"] == {
        "axes": [
            {"id": 6, "name": "i0", "size": "M", "kind": "iter"},
            {"id": 7, "name": "i1", "size": "K", "kind": "iter"},
            {"id": 8, "name": "i2", "size": "N", "kind": "iter"},
        ],
        "domain": {"constraints": [["0<=i0", "i0<M"], ["0<=i1", "i1<K"], ["0<=i2", "i2<N"]]},
        "inputs": [
            {"value_id": "A", "map": ["i0", "i1"], "through": ["ae", "a"]},
            {"value_id": "B", "map": ["i1", "i2"], "through": ["be", "b"]},
        ],
    }
    assert book["C0"]["axes"] == [
        {"id": 6, "name": "i0", "size": "M", "kind": "iter"},
        {"id": 8, "name": "i1", "size": "N", "kind": "iter"},
    ]
    assert book["C0"]["inputs"] == [{"value_id": "T", "map": ["i0", "k", "i1"]}]
    assert book["C0"]["reduce_axes"] == [7]
    assert book["A"]["inputs"] == []


def test_the_specification_s_gemm_view(ctx: Context):
    """Section 5, with the symbols before each set as isl writes them."""
    view = view_of(ctx, GEMM)
    (block,) = view["blocks"]
    assert block["name"] == "C0"
    assert block["kind"] == "contraction_pattern"
    assert block["domain"] == {"set": "[M, K, N] -> { [m, n] : 0 <= m < M and 0 <= n < N }"}
    assert block["accesses"] == [
        {"tensor": "A", "map": "[M, K, N] -> { [m, n, k] -> A[m, k] }"},
        {"tensor": "B", "map": "[M, K, N] -> { [m, n, k] -> B[k, n] }"},
        {"tensor": "C0", "map": "[M, K, N] -> { [m, n] -> C0[m, n] }"},
    ]
    assert block["attrs"] == {
        "pattern": "matmul",
        "lhs_idx": ["m", "k"],
        "rhs_idx": ["k", "n"],
        "out_idx": ["m", "n"],
        "reduce_idx": ["k"],
        "batch": [],
        "affine_offsets": {},
    }
    assert view["edges"] == []


def test_the_example(ctx: Context, example_module: ModuleOp):
    FrontendToTiny().apply(ctx, example_module)
    TinyToIndex().apply(ctx, example_module)
    (graph,) = example_module.body.block.ops
    view: Any = poly_view_json(graph)["poly_view"]
    kinds = [b["kind"] for b in view["blocks"]]
    assert kinds == ["contraction_pattern", "elementwise", "elementwise", "elementwise"]
    names = [b["name"] for b in view["blocks"]]
    assert [(e["from"], e["to"]) for e in view["edges"]] == list(pairwise(names))
    text = json.dumps([poly_view_json(graph), indexbook_json(graph)])
    assert text == json.dumps([poly_view_json(graph), indexbook_json(graph)])
    assert "bias[n]" in text


def test_every_set_and_map_reads_back_in_isl(ctx: Context):
    for block in view_of(ctx, GEMM)["blocks"]:
        islpy.Set(block["domain"]["set"])
        islpy.Set(block["iteration_domain"]["set"])
        for access in block["accesses"]:
            islpy.PwMultiAff(access["map"])


TRANSPOSED = """
tiny.graph @nt(%A: !tiny.tensor<[M, K], f16>, %B: !tiny.tensor<[N, K], f16>)
    -> (C: !tiny.tensor<[N, M], f32>) {
  %a = tiny.cast %A : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
  %e = tiny.unary exp %a : !tiny.tensor<[M, K], f32>
  %h = tiny.cast %e : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K], f16>
  %p = tiny.cast %h : !tiny.tensor<[M, K], f16> -> !tiny.tensor<[M, K], f32>
  %pe = tiny.expand %p dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
  %bt = tiny.permute %B perm [1, 0] : !tiny.tensor<[N, K], f16> -> !tiny.tensor<[K, N], f16>
  %b = tiny.cast %bt : !tiny.tensor<[K, N], f16> -> !tiny.tensor<[K, N], f32>
  %be = tiny.expand %b dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
  %t = tiny.binary mul %pe, %be : !tiny.tensor<[M, K, N], f32>
  %tt = tiny.permute %t perm [2, 1, 0]
      : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[N, K, M], f32>
  %c = tiny.reduce sum %tt axes [1] : !tiny.tensor<[N, K, M], f32> -> !tiny.tensor<[N, M], f32>
  tiny.output %c : !tiny.tensor<[N, M], f32>
}
"""


def test_movements_casts_and_a_computed_operand(ctx: Context):
    """The operand that was rounded is the rounded value; a permuted product is found."""
    view = view_of(ctx, TRANSPOSED)
    (block,) = [b for b in view["blocks"] if b["kind"] == "contraction_pattern"]
    assert [a["tensor"] for a in block["accesses"]] == ["h", "B", "c"]
    attrs = block["attrs"]
    assert (attrs["lhs_idx"], attrs["rhs_idx"]) == (["m", "k"], ["n", "k"])
    assert attrs["out_idx"] == ["n", "m"]
    assert {"from": "h", "to": "c", "tensor": "h"} in view["edges"]
    assert "t" not in [b["name"] for b in view["blocks"]]


def refused(ctx: Context, product: str, rest: str = "") -> Any:
    text = f"""
tiny.graph @f(%A: !tiny.tensor<[M, K], f32>, %v: !tiny.tensor<[M], f32>)
    -> (y: !tiny.tensor<[M], f32>) {{
  %ve = tiny.expand %v dims [0] : !tiny.tensor<[M], f32> -> !tiny.tensor<[M, K], f32>
  %t = tiny.binary {product} : !tiny.tensor<[M, K], f32>
  %y = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M], f32>
  tiny.output %y : !tiny.tensor<[M], f32>
}}"""
    return view_of(ctx, text)


def test_a_product_that_is_no_contraction_says_why(ctx: Context):
    view = refused(ctx, "mul %A, %ve")
    assert [b["kind"] for b in view["blocks"]] == ["elementwise", "reduce"]
    assert view["blocks"][1]["attrs"] == {
        "pattern": None,
        "refused": "only one operand reads the reduced axis k",
    }


def test_a_sum_of_something_else_is_a_plain_reduction(ctx: Context):
    view = refused(ctx, "add %A, %ve")
    assert [b["kind"] for b in view["blocks"]] == ["elementwise", "reduce"]
    assert "attrs" not in view["blocks"][1]


def test_find_contraction(ctx: Context):
    graph = booked(ctx, GEMM)
    values = {v.name_hint: v for op in graph.body.block.ops for v in op.results}
    found = find_contraction(values["C0"])
    assert found is not None
    assert isinstance(found.pattern, ContractionPattern)
    assert found.product is values["T"]
    assert found.lhs.single is not None
    assert found.lhs.single.source is graph.body.block.args[0]
    assert find_contraction(values["T"]) is None
    assert find_contraction(graph.body.block.args[0]) is None


def test_a_product_with_another_reader_stays_a_block(ctx: Context):
    text = GEMM.replace(
        "tiny.output %C0 :",
        "%C1 = tiny.reduce max %T axes [1] : "
        "!tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>\n  tiny.output %C0 :",
    )
    names = {b["name"]: b["kind"] for b in view_of(ctx, text)["blocks"]}
    assert names == {"T": "elementwise", "C0": "contraction_pattern", "C1": "reduce"}


def test_names(ctx: Context):
    """A symbol that an axis would be named after, unnamed values, constants as sizes."""
    text = """
tiny.graph @f(%x: !tiny.tensor<[M, m, 3], f32>) -> (y: !tiny.tensor<[M, m], f32>) {
  %0 = tiny.unary neg %x : !tiny.tensor<[M, m, 3], f32>
  %1 = tiny.reduce max %0 axes [2] : !tiny.tensor<[M, m, 3], f32> -> !tiny.tensor<[M, m], f32>
  tiny.output %1 : !tiny.tensor<[M, m], f32>
}"""
    graph = booked(ctx, text)
    book: Any = indexbook_json(graph)["index_book"]
    assert list(book) == ["x", "v0", "v1"]
    assert book["x"]["axes"][2]["size"] == 3
    view: Any = poly_view_json(graph)["poly_view"]
    assert [a["name"] for a in view["blocks"][1]["axes"]] == ["i0", "i1", "r0"]


PIECES = """
tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (y: !tiny.tensor<[N], f32>) {
  index.value %x axes [i0(0): N] box : !tiny.tensor<[N], f32>
  %y = tiny.unary neg %x : !tiny.tensor<[N], f32>
  index.value %y axes [i0(0): N] pieces [
      affine_set<(d0)[s0] : (d0 - 4 >= 0)> from [affine_map<(d0)[s0] -> (d0 - 4)>],
      affine_set<(d0)[s0] : (-d0 + 3 >= 0)> from [fill 0.0]] : !tiny.tensor<[N], f32>
  %z = tiny.unary neg %y : !tiny.tensor<[N], f32>
  index.value %z axes [i0(1): N] non_scop : !tiny.tensor<[N], f32>
  tiny.output %z : !tiny.tensor<[N], f32>
}
"""


def test_pieces_and_boundaries(ctx: Context):
    graph = booked(ctx, PIECES)
    book: Any = indexbook_json(graph)["index_book"]
    assert book["y"]["domain"]["pieces"] == [
        {
            "constraints": [["0<=i0", "i0<N"], ["0<=i0 - 4"]],
            "inputs": [{"value_id": "x", "map": ["i0 - 4"]}],
        },
        {
            "constraints": [["0<=i0", "i0<N"], ["0<=-i0 + 3"]],
            "inputs": [{"value_id": "x", "fill": 0.0}],
        },
    ]
    assert book["z"]["flags"] == {"non_scop": True}
    view: Any = poly_view_json(graph)["poly_view"]
    (block,) = view["blocks"]
    assert block["domain"]["pieces"] == [
        "[N] -> { [n] : 4 <= n < N }",
        "[N] -> { [n] : 0 <= n <= 3 and n < N }",
    ]
    assert block["accesses"][0]["pieces"][0]["map"] == "[N] -> { [n] -> x[n - 4] }"
    assert block["accesses"][0]["pieces"][1]["fill"] == 0.0
    assert [b["value"] for b in view["boundaries"]] == ["z"]
    assert view["boundaries"][0]["kind"] == "NonSCoP"


def test_without_a_book_there_is_one_sentence(ctx: Context):
    module = parse_text(ctx, GEMM, "f.mlir")
    (graph,) = module.body.block.ops
    for dump in (indexbook_json, poly_view_json):
        with pytest.raises(PolycError, match=r"f.mlir:2:1: error\[MissingIndexBook\]: .*first"):
            dump(graph)


def test_axes_beside_a_value_say_of_what_kind_they_are(ctx: Context):
    x, u, i = (f"!tiny.tensor<[{n}], {t}>" for n, t in (("V", "f32"), ("N", "f32"), ("N", "i64")))
    written = book_of(
        ctx,
        f"""tiny.graph @f(%x: {x}, %u: {u}, %i: {i}) -> {x} {{
          %y = tiny.scatter add %x, %u at [%i] axes [0] : ({x}, {u}, {i}) -> {x}
          tiny.output %y : {x}
        }}""",
    )["y"]
    assert [(a["size"], a["kind"]) for a in written["scattered"]] == [("N", "scatter")]
    assert written["scatter_axes"] == [a["id"] for a in written["scattered"]]
    assert "reduced" not in written and "gathered" not in written


def test_the_operation_limit_is_a_diagnostic(ctx: Context):
    text = GEMM.replace("K", "Kx").replace("M", "Mx")
    graph = booked(ctx, text)
    with isl.limited(3), pytest.raises(PolycError, match="PolyhedralLimit"):
        poly_view_json(graph)


def lowered_view(ctx: Context, text: str) -> Any:
    module = parse_text(ctx, text, "f.mlir")
    FrontendToTiny().apply(ctx, module)
    TinyToIndex().apply(ctx, module)
    (graph,) = module.body.block.ops
    json.dumps(view := poly_view_json(graph), allow_nan=False)
    return view["poly_view"]


def contractions(view: Any) -> list[Any]:
    return [b for b in view["blocks"] if b["kind"] == "contraction_pattern"]


def conv(layout: str, x: str, w: str, y: str, stride: int, pad: int, dilation: int, groups: int):
    return f"""
frontend.graph @conv(%X: !frontend.tensor<[{x}], f16>, %W: !frontend.tensor<[{w}], f16>)
    -> (Y: !frontend.tensor<[{y}], f16>) {{
  %0 = frontend.conv2d {layout} %X, %W stride [{stride}, {stride}]
      padding [{pad}, {pad}, {pad}, {pad}] dilation [{dilation}, {dilation}]
      groups {groups} {{acc = f32}}
      : (!frontend.tensor<[{x}], f16>, !frontend.tensor<[{w}], f16>) -> !frontend.tensor<[{y}], f16>
  frontend.output %0 : !frontend.tensor<[{y}], f16>
}}
"""


@pytest.mark.parametrize(
    ("text", "lhs", "reduce", "batch", "steps"),
    [
        (
            conv("nhwc", "N, H, W, C", "F, 3, 3, C", "N, H, W, F", 1, 1, 1, 1),
            ["n", "h + r0 - 1", "w + r1 - 1", "c"],
            ["r0", "r1", "c"],
            [],
            [(1, 1), (1, 1)],
        ),
        (
            conv("nchw", "2, 16, 9, 9", "4, 16, 3, 3", "2, 4, 4, 4", 2, 0, 1, 1),
            ["i0", "r2", "2*i2 + r0", "2*i3 + r1"],
            ["r0", "r1", "r2"],
            [],
            [(2, 1), (2, 1)],
        ),
        (
            conv("nchw", "2, 16, 9, 9", "4, 16, 3, 3", "2, 4, 5, 5", 1, 0, 2, 1),
            ["i0", "r2", "i2 + 2*r0", "i3 + 2*r1"],
            ["r0", "r1", "r2"],
            [],
            [(1, 2), (1, 2)],
        ),
        (
            conv("nhwc", "N, H, W, C", "F, 1, 1, C", "N, H, W, F", 1, 0, 1, 1),
            ["n", "h + r0", "w + r1", "c"],
            ["r0", "r1", "c"],
            [],
            [(1, 1), (1, 1)],
        ),
        (
            conv("nchw", "2, 8, 9, 9", "6, 4, 3, 3", "2, 6, 9, 9", 1, 1, 1, 2),
            ["i0", "4*i1 + r2", "i3 + r0 - 1", "i4 + r1 - 1"],
            ["r0", "r1", "r2"],
            ["i1"],
            [(1, 1), (1, 1)],
        ),
    ],
    ids=["3x3", "strided", "dilated", "1x1", "grouped"],
)
def test_convolutions(
    ctx: Context,
    text: str,
    lhs: list[str],
    reduce: list[str],
    batch: list[str],
    steps: list[tuple[int, int]],
):
    (block,) = contractions(lowered_view(ctx, text))
    attrs = block["attrs"]
    assert attrs["pattern"] == "conv"
    assert (attrs["lhs_idx"], attrs["reduce_idx"], attrs["batch"]) == (lhs, reduce, batch)
    assert [(w["stride"], w["dilation"]) for w in attrs["windows"]] == steps


def test_a_padded_image_is_read_in_pieces(ctx: Context):
    text = conv("nhwc", "N, H, W, C", "F, 3, 3, C", "N, H, W, F", 1, 1, 1, 1)
    (block,) = contractions(lowered_view(ctx, text))
    image = block["accesses"][0]
    assert image["tensor"] == "X"
    assert image["pieces"][0]["on"].endswith(": -h < r0 <= H - h and -w < r1 <= W - w }")
    assert image["pieces"][0]["map"].endswith("-> X[n, h + r0 - 1, w + r1 - 1, c] }")
    assert {p["fill"] for p in image["pieces"][1:]} == {0.0}


def test_both_contractions_of_attention(ctx: Context, root: Path):
    view = lowered_view(ctx, (root / "examples" / "causal_attention.mlir").read_text())
    scores, values = contractions(view)
    assert scores["attrs"]["lhs_idx"] == ["b", "h", "m", "r0"]
    assert scores["attrs"]["rhs_idx"] == ["b", "h", "n", "r0"]
    assert values["attrs"]["lhs_idx"] == ["b", "h", "m", "n"]
    assert values["attrs"]["rhs_idx"] == ["b", "h", "n", "i3"]
    assert (values["attrs"]["batch"], values["attrs"]["reduce_idx"]) == (["b", "h"], ["n"])
    masked = values["accesses"][1]
    assert masked["tensor"] == "V"
    assert [p["on"].split(":")[1] for p in masked["pieces"]] == [" n <= m }", " n > m }"]


def test_a_movement_that_is_given_out_is_a_block(ctx: Context):
    text = """
tiny.graph @f(%x: !tiny.tensor<[M, N], f32>) -> (y: !tiny.tensor<[N, M], f32>) {
  %y = tiny.permute %x perm [1, 0] : !tiny.tensor<[M, N], f32> -> !tiny.tensor<[N, M], f32>
  tiny.output %y : !tiny.tensor<[N, M], f32>
}"""
    (block,) = view_of(ctx, text)["blocks"]
    assert block["kind"] == "movement"
    assert block["accesses"][0]["map"] == "[M, N] -> { [n, m] -> x[m, n] }"
