"""A symbol where only a number may stand is refused by a sentence of its own, at its place."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import ParseError

from polyc.tools.errors import as_polyc_error
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

F, T = "!frontend.tensor<[M, K], f16>", "!tiny.tensor<[M, K], f32>"
IMAGE = "!frontend.tensor<[N, C, H, W], f16>"
CONV = (
    "frontend.conv2d nchw %x, %w stride [1, 1] padding [0, 0, 0, 0] dilation [1, 1] groups 1 "
    f"{{acc = f32}} : ({IMAGE}, !frontend.tensor<[F, C, 3, 3], f16>) -> {IMAGE}"
)
WINDOW = "tiny.window %x axes [1] size [3] stride [1] dilation [1] : " + f"{T} -> {T}"


def refused(text: str) -> tuple[str, str, int, int]:
    """Kind, sentence, line and column."""
    with pytest.raises(ParseError) as caught:
        parse_text(make_context(), text, "x.mlir")
    error = as_polyc_error(caught.value)
    assert error.place is not None
    return error.kind, error.message, error.place.line, error.place.column


STEPS = ["S", "K", "M + 1", "2 * M", "M floordiv 2", "-M", "(M)"]


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("result", ["[M, K]", "[M, K floordiv M]", "[M, K ceildiv S]"])
@pytest.mark.parametrize("dialect", ["frontend", "tiny"])
def test_a_symbolic_step(dialect: str, step: str, result: str) -> None:
    """Also where the result's size divides by the step, which no size may."""
    kind = f"!{dialect}.tensor<[M, K], f32>"
    text = (
        f"{dialect}.graph @f(%x: {kind}) -> {kind} {{\n  %0 = {dialect}.slice %x [0:M, 1:K:{step}]"
    )
    text += f" : {kind} -> !{dialect}.tensor<{result}, f32>\n"
    found = refused(text)
    assert found[0] == "NonSCoP"
    assert found[1].startswith("slice steps by ") and found[1].endswith(
        " along axis 1, and a symbolic step is not affine; give an integer"
    )
    assert found[2:] == (2, text.split("\n")[1].index(f":{step}]") + 2)


@pytest.mark.parametrize("size", ["K floordiv M", "K ceildiv M", "K mod M", "K floordiv (M + 1)"])
def test_a_size_that_a_symbol_divides(size: str) -> None:
    kind, message, *_ = refused(
        f"frontend.graph @f(%x: !frontend.tensor<[{size}], f16>) -> () {{}}"
    )
    assert kind == "NonSCoP" and "is not affine" in message
    assert "the right side of" in message and "is a positive integer constant" in message


AFFINE = ": a symbolic one is not affine"


@pytest.mark.parametrize(
    ("op", "number", "says"),
    [
        (CONV, "stride [1, {}]", f"a stride of a conv2d is a number{AFFINE}"),
        (CONV, "dilation [{}, 1]", f"a dilation of a conv2d is a number{AFFINE}"),
        (CONV, "padding [0, 0, {}, 0]", "a padding of a conv2d is a number"),
        (WINDOW, "stride [{}]", f"a stride of a window is a number{AFFINE}"),
        (WINDOW, "dilation [{}]", f"a dilation of a window is a number{AFFINE}"),
        (WINDOW, "axes [{}]", "an axis of a window is a number"),
        (f"frontend.permute %x perm [1, 0] : {F} -> {F}", "perm [{}, 0]", "an axis of a permute"),
        (f"frontend.expand %x dims [0, 1] : {F} -> {F}", "dims [0, {}]", "an axis of an expand"),
        (f"frontend.reduce sum %x axes [1] : {F} -> {F}", "axes [{}]", "an axis of a reduction"),
        (f"frontend.softmax %x axes [1] : {F} -> {F}", "axes [{}]", "an axis of a reduction"),
        (f"frontend.rms_norm %x axes [1] eps 0.0 : {F} -> {F}", "axes [{}]", "an axis of a reduct"),
        (f"frontend.concat %x axis 1 : ({F}) -> {F}", "axis {}", "the axis of a concat"),
        (f"tiny.permute %x perm [1, 0] : {T} -> {T}", "perm [{}, 0]", "an axis of a permute"),
        (f"tiny.reduce sum %x axes [1] : {T} -> {T}", "axes [{}]", "an axis of a reduce"),
        (
            "region.broadcast_in_dim %x dims [0] : !region.val<[m: M], f32> -> "
            "!region.val<[m: M, n: N], f32>",
            "dims [{}]",
            "the position of an axis is a number",
        ),
    ],
)
@pytest.mark.parametrize("symbol", ["M", "M + 1", "2 * M", "K floordiv 2"])
def test_a_symbol_for_a_number(op: str, number: str, says: str, symbol: str) -> None:
    word = number.partition(" ")[0]
    before, _, after = op.partition(f"{word} ")
    rest = after.partition("]")[2] if "[" in number else after[1:]
    text = '%x, %w = "test.op"() : () -> (f32, f32)\n'
    line = f"%0 = {before}{number.format(symbol)}{rest}"
    kind, message, *place = refused(text + line)
    assert kind == "NotConstant"
    assert " is symbolic, and " in message and says in message
    assert message.endswith(AFFINE) == (word in ("stride", "dilation"))
    assert place == [2, line.index(number.format(symbol)) + number.index("{") + 1]


@pytest.mark.parametrize("text", ["1.5", '"a"', "%x", ""])
def test_what_is_no_size_at_all(text: str) -> None:
    kind, message, *_ = refused(
        f'%x = "test.op"() : () -> f32\n%0 = frontend.permute %x perm [{text}, 0] : {F} -> {F}'
    )
    assert kind == "ParseError" and message
