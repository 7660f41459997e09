"""The tiny dialect as a library, and its playback."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import f16, f32
from xdsl.parser import Parser
from xdsl.utils.exceptions import ParseError

from polyc.dialects import tiny
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.tiny import ConstantOp, ExpandOp, GraphOp, OutputOp, number_text, tensor
from polyc.playback.functions import Array
from polyc.playback.tiny import run
from polyc.playback.views import expand
from polyc.tools.registry import make_context

MATMUL = """
tiny.graph @f(%a: !tiny.tensor<[M, K], f32>, %b: !tiny.tensor<[K, N], f32>) -> !tiny.tensor<[M, N], f32> {
  %ae = tiny.expand %a dims [0, 1] : !tiny.tensor<[M, K], f32> -> !tiny.tensor<[M, K, N], f32>
  %be = tiny.expand %b dims [1, 2] : !tiny.tensor<[K, N], f32> -> !tiny.tensor<[M, K, N], f32>
  %t = tiny.binary mul %ae, %be : !tiny.tensor<[M, K, N], f32>
  %c = tiny.reduce sum %t axes [1] : !tiny.tensor<[M, K, N], f32> -> !tiny.tensor<[M, N], f32>
  tiny.output %c : !tiny.tensor<[M, N], f32>
}
"""  # noqa: E501


def parse(text: str) -> GraphOp:
    op = Parser(make_context(), text).parse_op()
    op.verify()
    return cast(GraphOp, op)


def play(text: str, inputs: Sequence[Array], sizes: Mapping[str, int]) -> Array:
    return run(parse(text), inputs, sizes)[0]


@given(st.floats(width=32, allow_nan=False))
def test_constants_read_back(value: float) -> None:
    op = GraphOp("f", [], [tensor(())])
    op.body.block.add_ops([constant := ConstantOp(value), OutputOp([constant.result])])
    again = parse(str(op))
    read = cast(ConstantOp, again.body.block.first_op).number
    assert np.float32(read) == np.float32(value)
    assert np.signbit(read) == np.signbit(value)
    assert str(again) == str(op)


def test_number_text() -> None:
    assert [number_text(x) for x in (0.0, -0.0, 0.1, 3.0, 1e30, float("-inf"))] == [
        "0.0",
        "-0.0",
        "0.1",
        "3.0",
        "1.0e+30",
        "-inf",
    ]


def test_a_constant_beyond_f32_is_refused() -> None:
    with pytest.raises(ParseError, match="1e\\+39 is beyond the largest f32"):
        parse("tiny.graph @f() -> !tiny.tensor<[], f32> { %0 = tiny.constant -1.0e39 : ")


def test_stretched_axes() -> None:
    graph = GraphOp("f", [tensor((1, "N", 1))], [tensor(("M", "N", 1))])
    op = ExpandOp(graph.body.block.args[0], (0, 1, 2), tensor(("M", "N", 1)))
    graph.body.block.add_ops([op, OutputOp([op.result])])
    graph.verify()
    assert op.stretched() == (0,)
    assert op.dims == (0, 1, 2)


def test_a_graph_takes_stored_types_only() -> None:
    assert tiny.tensor_of(GraphOp("f", [tensor("M", f16)], [tensor("M")]).body.block.args[0])
    with pytest.raises(PolycError, match="input x of @f is float16; the array is float32"):
        text = "tiny.graph @f(%x: !tiny.tensor<[], f16>) -> !tiny.tensor<[], f16> {\n" \
               "tiny.output %x : !tiny.tensor<[], f16>\n}"  # fmt: skip
        play(text, [np.zeros((), np.float32)], {})


# Playback -------------------------------------------------------------------------------


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 3))
def test_a_sum_of_products_is_the_sum_of_the_products(m: int, n: int, k: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    a = random.normal(size=(m, k)).astype(np.float32)
    b = random.normal(size=(k, n)).astype(np.float32)
    product = (a[:, :, None] * b[None, :, :]).sum(axis=1)
    found = play(MATMUL, [a, b], {"M": m, "N": n, "K": k})
    assert found.dtype == np.float32 and found.shape == (m, n)
    np.testing.assert_allclose(found, product, rtol=1e-5, atol=1e-5)


@given(
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.sets(st.integers(0, 2), min_size=1),
    st.lists(st.integers(0, 3), min_size=3, max_size=3),
)
def test_sums_of_products_of_any_views(
    left: list[bool], right: list[bool], reduced: set[int], sizes: list[int]
) -> None:
    """Each operand has some of three axes; those it lacks repeat; some axes are summed."""
    symbols = ("P", "Q", "R")
    axes = sorted(reduced)

    def shape(has: list[bool]) -> str:
        return "[" + ", ".join(s for s, h in zip(symbols, has, strict=True) if h) + "]"

    def dims(has: list[bool]) -> list[int]:
        return [i for i, h in enumerate(has) if h]

    every = [True] * 3
    kept = shape([i not in reduced for i in range(3)])
    whole = f"!tiny.tensor<{shape(every)}, f32>"
    x_type, y_type = f"!tiny.tensor<{shape(left)}, f32>", f"!tiny.tensor<{shape(right)}, f32>"
    text = f"""tiny.graph @f(%x: {x_type}, %y: {y_type}, %s: {whole})
        -> !tiny.tensor<{kept}, f32> {{
      %xe = tiny.expand %x dims {dims(left)} : {x_type} -> {whole}
      %ye = tiny.expand %y dims {dims(right)} : {y_type} -> {whole}
      %t = tiny.binary mul %xe, %ye : {whole}
      %r = tiny.reduce sum %t axes {axes} : {whole} -> !tiny.tensor<{kept}, f32>
      tiny.output %r : !tiny.tensor<{kept}, f32>
    }}"""
    random = np.random.default_rng(0)
    x, y = (
        random.normal(size=[n for n, h in zip(sizes, has, strict=True) if h]).astype(np.float32)
        for has in (left, right)
    )
    expected = (expand(x, dims(left), tuple(sizes)) * expand(y, dims(right), tuple(sizes))).sum(
        axis=tuple(axes)
    )
    values: dict[str, int] = dict(zip(symbols, sizes, strict=True))
    found = play(text, [x, y, np.zeros(sizes, np.float32)], values)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_product_with_another_reader_is_stored() -> None:
    text = """tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> (a: !tiny.tensor<[], f32>, b: !tiny.tensor<[N], f32>) {
      %t = tiny.binary mul %x, %x : !tiny.tensor<[N], f32>
      %s = tiny.reduce sum %t axes [0] : !tiny.tensor<[N], f32> -> !tiny.tensor<[], f32>
      tiny.output %s, %t : !tiny.tensor<[], f32>, !tiny.tensor<[N], f32>
    }"""  # noqa: E501
    total, squares = run(parse(text), [np.array([1, 2, 3], np.float32)], {"N": 3})
    assert total == 14
    np.testing.assert_array_equal(squares, [1, 4, 9])


def test_the_iteration_space_is_never_stored() -> None:
    m, n, k = 512, 768, 320
    a, b = np.ones((m, k), np.float32), np.ones((k, n), np.float32)
    graph = parse(MATMUL)
    tracemalloc.start()
    (found,) = run(graph, [a, b], {"M": m, "N": n, "K": k})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (found == k).all()
    assert peak < 16 * 2**20  # the space has 480 MiB of f32


def test_a_masked_factor_is_summed_part_by_part() -> None:
    """An attention's second product: its masked values are computed part by part."""
    wide, t = "!tiny.tensor<[M, N, E], f32>", "!tiny.tensor<[N, E], f32>"
    text = f"""tiny.graph @f(%p: !tiny.tensor<[M, N], f32>, %v: {t}) -> !tiny.tensor<[M, E], f32> {{
      %ve = tiny.expand %v dims [1, 2] : {t} -> {wide}
      %vm = tiny.mask %ve where affine_set<(d0, d1, d2)[s0, s1, s2] : (d0 - d1 >= 0)> fill 0.0
          : {wide} -> {wide}
      %c = tiny.compare ge %ve, %ve : {wide}
      %vs = tiny.select %c, %vm, %ve : {wide}
      %pe = tiny.expand %p dims [0, 1] : !tiny.tensor<[M, N], f32> -> {wide}
      %t = tiny.binary mul %pe, %vs : {wide}
      %r = tiny.reduce sum %t axes [1] : {wide} -> !tiny.tensor<[M, E], f32>
      tiny.output %r : !tiny.tensor<[M, E], f32>
    }}"""
    plain = text.replace("tiny.output %r", "%k = tiny.reduce max %vs axes [0, 1, 2] : " + wide
                         + " -> !tiny.tensor<[], f32>\n      tiny.output %r")  # fmt: skip
    random = np.random.default_rng(0)
    p = random.normal(size=(256, 256)).astype(np.float32)
    v = random.normal(size=(256, 128)).astype(np.float32)
    sizes = {"M": 256, "N": 256, "E": 128}
    found = play(text, [p, v], sizes)
    np.testing.assert_allclose(found, np.tril(p) @ v, rtol=1e-4, atol=1e-4)
    # With another reader the value is stored; the sums are those of the parts.
    np.testing.assert_allclose(play(plain, [p, v], sizes), found, rtol=1e-5, atol=1e-5)


def test_movements_move() -> None:
    text = """tiny.graph @f(%x: !tiny.tensor<[M, 1], f32>) -> !tiny.tensor<[N, 2, M], f32> {
      %e = tiny.expand %x dims [1, 2] : !tiny.tensor<[M, 1], f32> -> !tiny.tensor<[2, M, N], f32>
      %p = tiny.permute %e perm [2, 0, 1] : !tiny.tensor<[2, M, N], f32> -> !tiny.tensor<[N, 2, M], f32>
      tiny.output %p : !tiny.tensor<[N, 2, M], f32>
    }"""  # noqa: E501
    found = play(text, [np.array([[1], [2], [3]], np.float32)], {"M": 3, "N": 4})
    assert found.shape == (4, 2, 3)
    assert (found == np.array([1, 2, 3])).all()


def test_outputs_are_copies() -> None:
    text = """tiny.graph @f(%x: !tiny.tensor<[M], f32>) -> !tiny.tensor<[M], f32> {
      tiny.output %x : !tiny.tensor<[M], f32>
    }"""
    x = np.zeros(3, np.float32)
    play(text, [x], {"M": 3})[:] = 1
    assert not x.any()


@pytest.mark.parametrize(
    ("sizes", "shapes", "message"),
    [
        ({"M": 2, "K": 3}, [(2, 3), (3, 4)], "@f needs a size for N; its symbols are M, K, N"),
        ({"M": -2, "K": 3, "N": 4}, [(2, 3), (3, 4)], "M=-2 is negative"),
        ({"M": 2, "K": 3, "N": 4}, [(2, 3)], "@f takes 2 inputs, not 1"),
        (
            {"M": 2, "K": 3, "N": 4},
            [(2, 3), (4, 3)],
            "input b of @f is [K, N] = [3, 4]; the array has [4, 3]",
        ),
    ],
)
def test_arguments_that_do_not_fit(
    sizes: dict[str, int], shapes: list[tuple[int, int]], message: str
) -> None:
    with pytest.raises(PolycError) as caught:
        play(MATMUL, [np.zeros(s, np.float32) for s in shapes], sizes)
    assert caught.value.kind == "BadArgument"
    assert message in str(caught.value)


def test_assumptions_are_checked() -> None:
    text = MATMUL.replace("f32> {", "f32> assuming (K mod 8 == 0, K >= 8) {", 1)
    zeros = [np.zeros((1, 4), np.float32), np.zeros((4, 1), np.float32)]
    with pytest.raises(PolycError, match="@f assumes K mod 8 == 0, which K=4 does not satisfy"):
        play(text, zeros, {"M": 1, "N": 1, "K": 4})


def test_element_types_of_functions() -> None:
    assert tensor("M").element_type == f32
