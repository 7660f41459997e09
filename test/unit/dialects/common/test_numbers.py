"""Numbers in text: every spelling is read or clearly refused, and what is printed reads back."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import AnyFloat, FloatAttr, ModuleOp, bf16, f16, f32
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import ParseError

from polyc.dialects.common.numbers import as_type, number_text
from polyc.rewriting.driver import verify
from polyc.test.support.turns import examples
from polyc.tools.errors import as_polyc_error
from polyc.tools.parsing import parse_text
from polyc.tools.printing import module_text
from polyc.tools.registry import make_context


def frontend(op: str, result: str = "[M, N]") -> str:
    x = "%x: !frontend.tensor<[M, N], f32>"
    return (
        f"frontend.graph @f({x}) -> !frontend.tensor<{result}, f32> {{\n  %0 = {op}\n"
        f"  frontend.output %0 : !frontend.tensor<{result}, f32>\n}}\n"
    )


def tiny(op: str, result: str = "[M, N]") -> str:
    return frontend(op, result).replace("frontend.", "tiny.")


def region(op: str, kind: str = "f32") -> str:
    memref = f"!region.memref<[M], {kind}, align 4>"
    return (
        f"region.kernel @f iters [m: M] ins(%x: {memref}) outs(y: {memref} gmem) {{\n"
        f"{op.replace('MEMREF', memref)}  region.yield %1 : !region.val<[m: M], {kind}>\n}}\n"
    )


def region_constant(kind: str) -> str:
    return region(
        f"  %0 = region.constant NUMBER : !region.val<[], {kind}>\n"
        f"  %1 = region.broadcast_in_dim %0 dims [] : !region.val<[], {kind}> -> "
        f"!region.val<[m: M], {kind}>\n",
        kind,
    )


def region_read(kind: str) -> str:
    return region(
        "  %1 = region.read %x affine_map<(d0)[s0] -> (d0)> where affine_set<(d0)[s0] : (d0 >= 0)> "
        f"else NUMBER : MEMREF -> !region.val<[m: M], {kind}>\n",
        kind,
    )


REDUCED = region(
    "  %0 = region.read %x affine_map<(d0, d1)[s0] -> (d1)> : MEMREF -> "
    "!region.val<[m: M, k: M], f32>\n"
    "  %1 = region.reduce sum %0 over [k] init NUMBER acc f32 : !region.val<[m: M, k: M], f32> -> "
    "!region.val<[m: M], f32>\n"
)
BOOK = """tiny.graph @f(%x: !tiny.tensor<[N], f32>) -> !tiny.tensor<[N + 1], f32> {
  %0 = tiny.pad %x low [0] high [1] value 0.0 : !tiny.tensor<[N], f32> -> !tiny.tensor<[N + 1], f32>
  index.value %0 axes [i0(0): N + 1] pieces [affine_set<(d0)[s0] : (s0 - d0 - 1 >= 0)> from [affine_map<(d0)[s0] -> (d0)>], affine_set<(d0)[s0] : (d0 - s0 >= 0)> from [fill NUMBER]] : !tiny.tensor<[N + 1], f32>
  tiny.output %0 : !tiny.tensor<[N + 1], f32>
}
"""  # noqa: E501
T = "!frontend.tensor<[M, N], f32>"
ATTENTION = """frontend.graph @f(%x: !frontend.tensor<[B, M, N], f16>) -> !frontend.tensor<[B, M, N], f16> {
  %0 = frontend.attention %x, %x, %x scale NUMBER {acc = f32} : (!frontend.tensor<[B, M, N], f16>, !frontend.tensor<[B, M, N], f16>, !frontend.tensor<[B, M, N], f16>) -> !frontend.tensor<[B, M, N], f16>
  frontend.output %0 : !frontend.tensor<[B, M, N], f16>
}
"""  # noqa: E501
PLACES: dict[str, tuple[str, AnyFloat, str]] = {
    "frontend.constant": (
        frontend(
            "frontend.constant NUMBER : !frontend.tensor<[], f32>\n"
            f"  %1 = frontend.expand %0 dims [] : !frontend.tensor<[], f32> -> {T}"
        ).replace("output %0", "output %1"),
        f32,
        "value",
    ),
    "frontend.pad": (
        frontend(
            f"frontend.pad %x low [0, 1] high [0, 0] value NUMBER : {T} -> "
            "!frontend.tensor<[M, N + 1], f32>",
            "[M, N + 1]",
        ),
        f32,
        "value",
    ),
    "frontend.rms_norm": (
        frontend(f"frontend.rms_norm %x axes [1] eps NUMBER : {T} -> {T}"),
        f32,
        "eps",
    ),
    "frontend.layer_norm": (
        frontend(f"frontend.layer_norm %x axes [1] eps NUMBER : {T} -> {T}"),
        f32,
        "eps",
    ),
    "frontend.attention": (ATTENTION, f32, "scale"),
    "tiny.constant": (
        tiny(
            "tiny.constant NUMBER : !tiny.tensor<[], f32>\n"
            "  %1 = tiny.expand %0 dims [] : !tiny.tensor<[], f32> -> !tiny.tensor<[M, N], f32>"
        ).replace("output %0", "output %1"),
        f32,
        "value",
    ),
    "tiny.pad": (
        tiny(
            "tiny.pad %x low [0, 1] high [0, 0] value NUMBER : !tiny.tensor<[M, N], f32> -> "
            "!tiny.tensor<[M, N + 1], f32>",
            "[M, N + 1]",
        ),
        f32,
        "value",
    ),
    "tiny.mask": (
        tiny(
            "tiny.mask %x where affine_set<(d0, d1)[s0, s1] : (d1 - d0 >= 0)> fill NUMBER : "
            "!tiny.tensor<[M, N], f32> -> !tiny.tensor<[M, N], f32>"
        ),
        f32,
        "value",
    ),
    "index.value": (BOOK, f32, ""),
    "region.constant f32": (region_constant("f32"), f32, "value"),
    "region.constant f16": (region_constant("f16"), f16, "value"),
    "region.constant bf16": (region_constant("bf16"), bf16, "value"),
    "region.read f32": (region_read("f32"), f32, "fill"),
    "region.read f16": (region_read("f16"), f16, "fill"),
    "region.reduce": (REDUCED, f32, "init"),
}
"""Every place of ours where the text has a number: a program, the type and the property."""


def parsed(text: str) -> ModuleOp:
    return parse_text(make_context(), text, "x.mlir")


def value_in(module: ModuleOp, place: str) -> float:
    """The number that the op of a place holds."""
    name = place.partition(" ")[0]
    op = next(op for op in reversed(list(module.walk())) if op.name == name)
    if name == "index.value":
        found = re.search(r"fill ([^\]]+)\]", module_text(module))
        assert found is not None
        return FloatAttr(float(found[1]), f32).value.data
    attr: Attribute = op.properties[PLACES[place][2]]
    assert isinstance(attr, FloatAttr)
    return attr.value.data


def bits(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("d", value)


READ: list[tuple[str, float]] = [
    *[("1", 1.0), ("1.", 1.0), ("1.5", 1.5), ("-1.5", -1.5), ("+1.5", 1.5), ("- 1.5", -1.5)],
    *[("1e-05", 1e-05), ("1E4", 1e4), ("1e+4", 1e4), ("-1e-3", -1e-3), ("1.e2", 100.0)],
    *[("1.5E-2", 0.015), ("00.5", 0.5), ("-0", -0.0), ("-0.0", -0.0), ("1e0", 1.0)],
    *[("inf", math.inf), ("+inf", math.inf), ("-inf", -math.inf), ("nan", math.nan)],
    *[("-nan", math.nan)],
]


@pytest.mark.parametrize("place", PLACES)
def test_a_spelling_that_is_read(place: str) -> None:
    template, kind, _ = PLACES[place]
    for text, value in READ:
        module = parsed(template.replace("NUMBER", text))
        rounded = as_type(value, kind)
        assert rounded is not None, text
        assert bits(value_in(module, place)) == bits(rounded), text
        for generic in (False, True):
            shown = module_text(module, generic=generic)
            again = parsed(shown)
            assert module_text(again, generic=generic) == shown, text
            assert bits(value_in(again, place)) == bits(rounded), text


NO_NUMBER = "is no number; write one as 1.5, 1e-05, inf or nan"
REFUSED = [
    (".5", ".5 has no digit before its point; write 0.5"),
    ("-.5e3", ".5e3 has no digit before its point; write 0.5e3"),
    ("1.0f", f"1.0f {NO_NUMBER}"),
    ("1e", f"1e {NO_NUMBER}"),
    ("1e-", f"1e {NO_NUMBER}"),
    ("1.5e", f"1.5e {NO_NUMBER}"),
    ("1e5e5", f"1e5e5 {NO_NUMBER}"),
    ("1_000", f"1_000 {NO_NUMBER}"),
    ("1..2", f"1..2 {NO_NUMBER}"),
    ("0x1.8p3", f"0x1.8p3 {NO_NUMBER}"),
    ("0x1p3", f"0x1p3 {NO_NUMBER}"),
    ("0X10", f"0X10 {NO_NUMBER}"),
    ("0x7F800000", "0x7F800000 is a bit pattern; write the number, inf or nan"),
    ("-0x10", "0x10 is a bit pattern"),
    ("true", "expected a number, inf or nan"),
    ("infinity", "expected a number, inf or nan"),
    ("Infinity", "expected a number, inf or nan"),
    ("INF", "expected a number, inf or nan"),
    ("NaN", "expected a number, inf or nan"),
    ("M", "expected a number, inf or nan"),
    ('"1.0"', "expected a number, inf or nan"),
    ("--1", "expected a number, inf or nan"),
    ("+-1", "expected a number, inf or nan"),
    ("[1.0]", "expected a number, inf or nan"),
    ("1e400", "1e400 is beyond every floating-point type; write inf"),
    ("-1.5e999", "1.5e999 is beyond every floating-point type; write inf"),
    ("9" * 400, "is beyond every floating-point type; write inf"),
    ("3.5e38", "3.5e+38 is beyond the largest "),
    ("-1e39", "-1e+39 is beyond the largest "),
    ("²", "a number is written in the digits 0 to 9"),
    ("٣", "a number is written in the digits 0 to 9"),
]


@pytest.mark.parametrize("place", PLACES)
def test_a_spelling_that_is_refused(place: str) -> None:
    template = PLACES[place][0]
    line = template[: template.index("NUMBER")].count("\n") + 1
    for text, says in REFUSED:
        with pytest.raises(ParseError) as caught:
            parsed(template.replace("NUMBER", text))
        error = as_polyc_error(caught.value)
        assert error.kind == "ParseError" and says in error.message, text
        assert error.place is not None and error.place.line == line, text


@pytest.mark.parametrize(
    ("place", "text", "says"),
    [
        ("region.constant f16", "70000.0", "70000 is beyond the largest f16, 65504; write inf"),
        ("region.read f16", "-1e5", "-100000 is beyond the largest f16, 65504; write inf"),
        ("region.constant bf16", "3.4e38", "3.4e+38 is beyond the largest bf16, 3.3895314e+38; w"),
        ("frontend.constant", "3.41e38", "is beyond the largest f32, 3.4028235e+38; write inf"),
    ],
)
def test_what_a_type_does_not_hold(place: str, text: str, says: str) -> None:
    with pytest.raises(ParseError, match=re.escape(says)):
        parsed(PLACES[place][0].replace("NUMBER", text))


FLOATS: dict[AnyFloat, st.SearchStrategy[float]] = {
    f32: st.floats(width=32),
    f16: st.floats(width=16),
    bf16: st.integers(0, 0xFFFF).map(lambda b: struct.unpack(">f", struct.pack(">I", b << 16))[0]),
}


def round_trip(place: str) -> Callable[[float], None]:
    template, kind, _ = PLACES[place]

    def check(value: float) -> None:
        text = number_text(value, kind)
        assert re.fullmatch(r"-?\d+\.\d+(e[+-]\d+)?|-?inf|nan", text)
        module = parsed(template.replace("NUMBER", text))
        assert bits(value_in(module, place)) == bits(value)
        shown = module_text(module)
        again = parsed(shown)
        assert bits(value_in(again, place)) == bits(value) and module_text(again) == shown
        for other in (repr(value), f"{value:.17g}", f"{value:.17e}"):  # as Python and C print it
            made = parsed(template.replace("NUMBER", other))
            assert bits(value_in(made, place)) == bits(value)

    return check


@pytest.mark.parametrize("place", PLACES)
def test_what_is_printed_reads_back(place: str) -> None:
    # The places are many, and what reads and prints a number is the same in all of them.
    settings(max_examples=examples(15))(given(FLOATS[PLACES[place][1]])(round_trip(place)))()


def test_arith_reads_an_exponent_without_a_point() -> None:
    """Upstream's ops too, as the lexer is of all texts; shapes keep their x."""
    text = (
        '%0 = arith.constant 1e-05 : f32\n"test.op"() {a = memref<4x8xf32>, b = 0xi32} : () -> ()'
    )
    op = parsed(text.replace("0xi32", "tensor<0xi32>")).body.block.first_op
    assert isinstance(op, Operation) and "1.000000e-05" in str(op)
    with pytest.raises(ParseError, match="is beyond every floating-point type"):
        parsed("%0 = arith.constant 1e400 : f32")


def test_the_programs_here_are_right() -> None:
    for place, (template, _, _) in PLACES.items():
        if place != "region.reduce":  # whose start is the sum's neutral one alone
            verify(parsed(template.replace("NUMBER", "0.0")))
