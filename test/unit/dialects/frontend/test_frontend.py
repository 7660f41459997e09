"""The frontend dialect as a library: types, signatures, size equality, construction."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects import test as made_up
from xdsl.dialects.builtin import IntegerAttr, StringAttr, bf16, f16, f32, f64, i64
from xdsl.ir import Operation, SSAValue
from xdsl.parser import Parser
from xdsl.utils.exceptions import VerifyException

from polyc.dialects import frontend
from polyc.dialects.common.dim import Assumption, Dim
from polyc.dialects.common.signature import TensorSpec, default_output_names, sizes_equal
from polyc.dialects.frontend import CastOp, ElementwiseOp, GemmOp, GraphOp, OutputOp, tensor
from polyc.tools.registry import make_context

M, N, K = (Dim.sym(s) for s in "MNK")


def graph(*, assumptions: tuple[Assumption, ...] = ()) -> GraphOp:
    op = GraphOp(
        "f",
        [tensor("MK", f16), tensor("KN", f16), tensor("N", f16)],
        [tensor("MN", f16)],
        arg_names=["A", "B", "bias"],
        arg_attrs=[{}, {"align": IntegerAttr(16, i64)}, {"role": StringAttr("param")}],
        assumptions=assumptions,
    )
    block = op.body.block
    gemm = GemmOp(block.args[0], block.args[1])
    block.add_op(gemm)
    block.add_op(add := ElementwiseOp("add", [gemm.result, block.args[2]]))
    block.add_op(relu := ElementwiseOp("relu", [add.result]))
    block.add_op(OutputOp([relu.result]))
    return op


def test_a_graph_is_built_and_reads_back() -> None:
    op = graph(assumptions=(Assumption(K.mod(8), "=="),))
    op.verify()
    assert op.symbol_names == ("M", "K", "N")
    text = str(op)
    assert "assuming (K mod 8 == 0)" in text
    again = Parser(make_context(), text).parse_op()
    again.verify()
    assert str(again) == text
    assert again.is_structurally_equivalent(op)


def test_specs_fill_in_defaults() -> None:
    op = graph()
    a, b, bias = op.inputs
    assert a == TensorSpec("A", tensor("MK", f16), "data", "immutable", None, None, True)
    assert b.align == 16
    assert bias.role == "param"
    assert [spec.name for spec in op.outputs] == ["C"]


def test_result_types_are_inferred() -> None:
    op = graph()
    block = op.body.block
    gemm = GemmOp(block.args[1], block.args[0], transpose_a=True, transpose_b=True)
    assert gemm.result.type == tensor("NM", f16)
    add = ElementwiseOp("add", [block.args[2], block.args[1]])
    assert add.result.type == tensor("KN", f16)
    assert CastOp(block.args[0], bf16).result.type == tensor("MK", bf16)


def test_default_output_names_avoid_those_taken() -> None:
    assert default_output_names(1) == ("C",)
    assert default_output_names(2) == ("out0", "out1")
    assert default_output_names(1, ["C", "out0"]) == ("out1",)


def test_types_that_cannot_be() -> None:
    with pytest.raises(VerifyException, match="size -2 of axis 0"):
        tensor((-2,), f16)
    with pytest.raises(VerifyException, match=r"is not an element type of frontend\.tensor"):
        tensor("M", f64)


@pytest.mark.parametrize(
    ("a", "b", "facts", "equal"),
    [
        (M, M, (), True),
        (M, N, (), False),
        (M, M + 1, (), False),
        (M * N, N * M, (), True),
        (M * N, M, (), False),
        (M.floordiv(8) * 8, M, (), False),
        (M.floordiv(8) * 8, M, (Assumption(M.mod(8), "=="),), True),
        (M.floordiv(8) * 8, M, (Assumption(M.mod(16), "=="),), True),
        (M.floordiv(8) * 8, M, (Assumption(M.mod(4), "=="),), False),
        (M.ceildiv(4), (M + 3).floordiv(4), (), True),
        (M.floordiv(2).floordiv(3), M.floordiv(6), (), True),
        (M, N, (Assumption(M - N, "=="),), True),
        (M, Dim.const(4), (Assumption(M - 4, ">="), Assumption(-M + 4, ">=")), True),
        (M, Dim.const(0), (Assumption(-M, ">="),), True),
        (M, Dim.const(1), (Assumption(M - 1, ">="),), False),
    ],
)
def test_size_equality_is_isls(a: Dim, b: Dim, facts: tuple[Assumption, ...], equal: bool) -> None:
    assert sizes_equal(a, b, ("M", "N"), facts) is equal
    assert sizes_equal(b, a, ("M", "N"), facts) is equal


@pytest.mark.parametrize(
    ("shapes", "result"),
    [
        (("MN", "N"), "MN"),
        (("N", "MN"), "MN"),
        (("", "MN"), "MN"),
        (((1, "N"), ("M", 1)), "MN"),
        (((1,), (1,)), (1,)),
        (("MN", "M"), None),
        ((("M", 0), ("M", 1)), ("M", 0)),
        ((("M", 2), ("M", 3)), None),
    ],
)
def test_broadcast_is_right_aligned(
    shapes: tuple[tuple[str | int, ...], ...], result: tuple[str | int, ...] | None
) -> None:
    found = frontend.broadcast([tensor(s, f32).dims for s in shapes], graph())
    assert found == (None if result is None else tensor(result, f32).dims)


def test_argument_names_survive_values_of_the_same_stem() -> None:
    text = """builtin.module {
  frontend.graph @f(%x_1: !frontend.tensor<[M], f32>, %x: !frontend.tensor<[M], f32>) -> (C: !frontend.tensor<[M], f32>) {
    %x_2 = frontend.elementwise neg %x_1 : !frontend.tensor<[M], f32>
    %x_3 = frontend.elementwise add %x_2, %x : (!frontend.tensor<[M], f32>, !frontend.tensor<[M], f32>) -> !frontend.tensor<[M], f32>
    frontend.output %x_3 : !frontend.tensor<[M], f32>
  }
}"""  # noqa: E501
    module = Parser(make_context(), text).parse_module()
    module.verify()
    assert str(module) == text


# Arguments that fit no result ---------------------------------------------------------------------


def value(*dims: int) -> SSAValue:
    """A tensor of f16 that comes from nowhere."""
    return made_up.TestOp(result_types=[tensor([Dim.of(d) for d in dims], f16)]).results[0]


def conv(
    *image: int,
    layout: str = "nchw",
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0, 0, 0),
    dilation: Sequence[int] = (1, 1),
) -> Operation:
    return frontend.Conv2dOp(
        value(*image),
        value(8, 8, 3, 3),
        layout=layout,
        stride=stride,
        padding=padding,
        dilation=dilation,
    )


UNFIT: dict[str, tuple[Operation, str]] = {
    "one stride": (conv(1, 8, 9, 9, stride=(1,)), "has 1 numbers of stride; give 2"),
    "a stride of 0": (conv(1, 8, 9, 9, stride=(0, 1)), "stride 0 of a conv2d is too small"),
    "two paddings": (conv(1, 8, 9, 9, padding=(1, 1)), "has 2 numbers of padding; give 4"),
    "one dilation": (conv(1, 8, 9, 9, dilation=(1,)), "has 1 numbers of dilation; give 2"),
    "an image of rank 3": (conv(8, 9, 9), "takes an image of rank 4, not"),
    "a layout": (conv(1, 8, 9, 9, layout="cnhw"), "cnhw is not a layout of conv2d"),
    "a vector": (GemmOp(value(8), value(8, 8)), "operand a is .* of rank 1, give 2 axes or more"),
    "no operand": (ElementwiseOp("add", []), "add takes 2 operands, not 0"),
    "nothing to join": (frontend.ConcatOp([], 0), "concat has no operand; give at least one"),
    "no such axis": (frontend.ConcatOp([value(8, 4)] * 2, 2), "axis 2 of a concat is not an axis"),
    "unlike ranks": (frontend.ConcatOp([value(8, 4), value(8)], 1), "operand 1 is \\[8\\]"),
    "other axes": (frontend.PermuteOp(value(8, 4), [0, 2]), "is not an order of the 2 axes"),
    "a step of 0": (frontend.SliceOp(value(8), [0], [8], [0]), "steps by 0 along axis 0; give"),
    "one start": (frontend.SliceOp(value(8, 4), [0], [8]), "has 1 starts for an operand of rank 2"),
}


@pytest.mark.parametrize(("op", "message"), UNFIT.values(), ids=UNFIT)
def test_an_op_that_fits_no_result_says_why(op: Operation, message: str) -> None:
    """A constructor infers no shape then, and leaves the sentence to the verifier."""
    with pytest.raises(VerifyException, match=message):
        op.verify()
