"""The builder: what it folds, what it leaves out, where its ops stand."""

# pyright: basic

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr, f16, f32
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import frontend
from polyc.dialects.common.diagnostic import place_of
from polyc.dialects.common.dim import Dim
from polyc.dialects.frontend import tensor
from polyc.tools.printing import module_text
from polyc.trace.builder import Builder, shape_of

M, K = Dim.sym("M"), Dim.sym("K")


def made() -> Builder:
    return Builder("f", {"x": tensor(["M", "K"], f16), "w": tensor(["N", "K"], f16)})


def test_numbers_fold_and_neutral_ones_go():
    build = made()
    x = build.inputs[0]
    two = build.elementwise("add", build.constant(1.5), build.constant(0.5))
    assert build.number(two) == 2.0
    one = build.constant(1.0, f16)
    assert build.elementwise("mul", x, one) is x and build.elementwise("mul", one, x) is x
    assert build.elementwise("add", x, build.constant(-0.0, f16)) is x
    # x + 0 makes 0 of -0, and exp is a library's to round.
    assert build.elementwise("add", x, build.constant(0.0, f16)) is not x
    assert build.number(build.elementwise("exp", one)) is None
    # A constant of another type is not the same op's, and the dialect refuses it.
    with pytest.raises(VerifyException, match="one element type"):
        build.elementwise("mul", x, build.constant(1.0, f32))


def test_movements_that_move_nothing_go():
    build = made()
    x = build.inputs[0]
    assert build.reshape(x, (M, K)) is x and build.reshape(x, (Dim.const(-1), K)) is x
    assert build.permute(build.permute(x, [1, 0]), [1, 0]) is x
    assert build.expand(x, (M, K)) is x
    assert build.slice(x, [Dim.const(0)] * 2, [M, K], [1, 1]) is x
    assert build.pad(x, [Dim.const(0)] * 2, [Dim.const(0)] * 2, 1.0) is x
    assert build.concat([x], 0) is x
    assert build.cast(x, f16) is not x, "a cast rounds, also to the type that there is"


def test_a_product_reads_through_a_transpose():
    build = made()
    x, w = build.inputs
    found = build.gemm(x, build.permute(w, [1, 0]))
    op = found.owner
    assert isinstance(op, frontend.GemmOp) and op.b is w and op.transpose_b is not None
    text = module_text(build.finish([found]))
    assert "permute" not in text and "(out: !frontend.tensor<[M, N], f16>)" in text


def test_an_op_that_is_refused_leaves_the_graph_as_it_was():
    build = made()
    x, w = build.inputs
    with pytest.raises(VerifyException, match="cannot broadcast"):
        build.elementwise("add", x, w)
    assert len(list(build.graph.body.block.ops)) == 1  # what ends the block
    assert shape_of(build.elementwise("neg", x)) == (M, K)


def test_an_importer_says_where_its_ops_stand():
    at = FileLineColLoc(StringAttr("model.onnx"), IntAttr(3), IntAttr(1))
    build = Builder("f", {"x": tensor(["M"], f16)}, at=lambda: at)
    found = build.elementwise("exp", build.inputs[0])
    assert isinstance(found.owner, frontend.ElementwiseOp)
    assert str(place_of(found.owner)) == "model.onnx:3:1"


def test_names_of_outputs():
    build = Builder("f", {"out": tensor(["M"], f16)})
    assert "(C: " in module_text(build.finish([build.elementwise("exp", build.inputs[0])]))
    build = Builder("f", {"x": tensor(["M"], f16)})
    assert "(y: " in module_text(build.finish({"y": build.elementwise("exp", build.inputs[0])}))
