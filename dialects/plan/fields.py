"""The fields of a ``plan.schedule``: their kinds, attributes and text.

A field's value is known in three forms: plain values as JSON has them, the typed
attribute that the op holds, and the text of the assembly format.  This file converts
between them; ``dialects/plan/__init__.py`` says what the values mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from polyc.dialects.common.precision import F32X3, TF32

Scalar = bool | int | str
Record = dict[str, Scalar]
Value = bool | int | str | list[int] | list[str] | Record | list[Record]
"""What a field holds outside the IR: plain values, as JSON has them."""

# Values to attributes and back ------------------------------------------------------------


# Plans are many, and say the same: equal attributes are one object.

_BOOLS = BoolAttr.from_bool(False), BoolAttr.from_bool(True)


def _scalar_attr(value: Scalar) -> Attribute:
    if isinstance(value, bool):
        return _BOOLS[value]
    return _int_attr(value) if isinstance(value, int) else _text_attr(value)


@lru_cache(maxsize=1024)
def _int_attr(value: int) -> IntegerAttr[IntegerType]:
    return IntegerAttr(value, i64)


@lru_cache(maxsize=4096)
def _text_attr(value: str) -> StringAttr:
    return StringAttr(value)


@lru_cache(maxsize=4096)
def _ints_attr(values: tuple[int, ...]) -> DenseArrayBase[IntegerType]:
    return DenseArrayBase.from_list(i64, values)


@lru_cache(maxsize=4096)
def ints_of(attr: DenseArrayBase[IntegerType]) -> tuple[int, ...]:
    """The integers of a field that lists some."""
    return tuple(int(v) for v in attr.get_values())


def _scalar_of(attr: Attribute) -> Scalar:
    match attr:
        case IntegerAttr():
            return attr.value.data if attr.type == i64 else bool(attr.value.data)
        case StringAttr(data=text):
            return text
        case _:
            raise VerifyException(
                f"a plan's record holds booleans, 64-bit integers and strings, not {attr}"
            )


def _record_attr(value: Mapping[str, Scalar]) -> DictionaryAttr:
    for key, item in value.items():
        if not isinstance(item, (bool, int, str)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{key!r} is {item!r}, not a boolean, an integer or a string")
    return DictionaryAttr({k: _scalar_attr(v) for k, v in value.items()})


def record_of(attr: DictionaryAttr) -> Record:
    """The plain values of a record; raises VerifyException when it holds others."""
    return {k: _scalar_of(v) for k, v in attr.data.items()}


def to_attr(value: Value, kind: str) -> Attribute:
    """The attribute of a field's plain value; raises ValueError when it is of another kind."""
    match kind, value:
        case "bool", bool():
            return _BOOLS[value]
        case "int", int() if not isinstance(value, bool):
            return _int_attr(value)
        case "str", str():
            return _text_attr(value)
        case "ints", list() if all(type(v) is int for v in value):
            return _ints_attr(tuple(cast("list[int]", value)))
        case "strs", list() if all(isinstance(v, str) for v in value):
            return ArrayAttr([_text_attr(cast("str", v)) for v in value])
        case "record", dict():
            return _record_attr(value)
        case "records", list() if all(isinstance(v, dict) for v in value):
            return ArrayAttr([_record_attr(v) for v in cast("list[Record]", value)])
        case _:
            raise ValueError(f"expected {_KIND_TEXT[kind]}, got {value!r}")


_KIND_TEXT = {
    "bool": "true or false",
    "int": "an integer",
    "str": "a string",
    "ints": "a list of integers",
    "strs": "a list of strings",
    "record": "an object of booleans, integers and strings",
    "records": "a list of objects of booleans, integers and strings",
}


def from_attr(attr: Attribute) -> Value:
    """The plain value of a field's attribute."""
    match attr:
        case DenseArrayBase():
            return list(ints_of(cast("DenseArrayBase[IntegerType]", attr)))
        case ArrayAttr():
            items = attr.data
            if all(isinstance(item, DictionaryAttr) for item in items) and items:
                return [record_of(cast("DictionaryAttr", item)) for item in items]
            return [cast("StringAttr", item).data for item in items]
        case DictionaryAttr():
            return record_of(attr)
        case _:
            return _scalar_of(attr)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a schedule: its name, its kind, and its value when it is left out."""

    name: str
    kind: str
    default: Value | None = None
    """None: the field must be given."""


FIELDS: tuple[Field, ...] = (
    Field("arch", "str"),
    Field("tensorize", "str"),
    Field("mma", "str"),
    Field("loader", "str"),
    Field("tile", "ints"),
    Field("stages", "int"),
    Field("warp_tile", "ints"),
    Field("fragment_buffers", "int", 1),
    Field("consumers", "int", 1),
    Field("pingpong", "bool", False),
    Field("registers", "ints", []),
    Field("cluster", "ints", [1, 1]),
    Field("multicast", "bool", False),
    Field("raster", "str", "row"),
    Field("group", "int", 1),
    Field("split_k", "int", 1),
    Field("persistent", "bool", False),
    Field("vectorize", "int", 1),
    Field("vectorize_axis", "str", ""),
    Field("bind", "record", {}),
    Field("cache", "records", []),
    Field("predicate_tail", "strs", []),
    Field("epilogue", "strs", []),
    Field("layout_hints", "record", {}),
    Field("algo_choice", "record", {}),
    Field("local_edges", "records", []),
    Field("notes", "strs", []),
)
"""The fields in the order in which the text prints them."""

RESTATED = (
    "vectorize_axis",
    "bind",
    "cache",
    "predicate_tail",
    "epilogue",
    "layout_hints",
    "local_edges",
)
"""The fields that say of a region under a plan what the region and the plan's other fields make so.

They are for whoever reads a plan.  One that says otherwise is refused (S8.1).
"""

BY_NAME = {f.name: f for f in FIELDS}


def no_field(name: str) -> str:
    """The sentence for a field that a schedule does not have."""
    known = ", ".join(f.name for f in FIELDS)
    return f"a schedule has no field {name!r}; its fields are {known}"


MERGED_ROWS = "merged_rows"
"""The way of a product whose rows are those of all matrices of a batch, or of a convolution whose
rows are pixels of all images, though the output has its columns first in each: what a block stores
is turned on its way."""

TURNED_STORE = "turned_store"
"""The way of a product whose rows are the last axis of its output, and whose columns are the one
before: what a block stores is turned on its way."""

SPREAD_SUMS = "spread_sums"
"""The way of loops whose parts are as many as blocks are there for each tile: ``split_k`` blocks in
all share the tiles, however many these are when the kernel runs."""

SUMMED = "partial_sums"
"""The way whose parts are added by a second kernel, as their sums go through memory."""

IN_PARTS: Mapping[str, str] = {TF32: "tf32_partial_sums", F32X3: "f32x3_partial_sums"}
"""The same of f32 on tensor cores, by precision."""

PRECISION_OF: Mapping[str, str] = {
    **{way: precision for precision, way in IN_PARTS.items()},
    **{precision: precision for precision in IN_PARTS},
}
"""What a product's precision has to permit for each way of f32 on tensor cores."""


ALGORITHMS: Mapping[str, tuple[str, ...]] = {
    "matmul": (
        *("tiled", SUMMED, "implicit_gemm", MERGED_ROWS, TURNED_STORE),
        *PRECISION_OF,
    ),
    "conv": ("implicit_gemm", SUMMED, "im2col", MERGED_ROWS, TF32, IN_PARTS[TF32]),
    "attention": ("streaming_softmax", "streaming_softmax_2pass", "shared_keys"),
    "rows": ("resident", "kept", "streaming"),
    "scatters": ("serial", "pooled", "listed", "last", "atomic"),
    "scans": ("serial", "rows", "chains", "teams"),
    "loops": (
        "serial",
        "flat",
        "turned",
        "partial_sums",
        SPREAD_SUMS,
        "windows",
        "lines",
        "resampled",
        "resampled_rows",
        "boxes",
    ),
    "sorts": ("shared", "digits", "pool", "passes", "passes_mapped", "memory"),
}
"""``algo_choice``: the patterns, and the ways in which a kernel can compute each."""


def check_kind(attr: Attribute, field: Field) -> None:
    """Raises VerifyException when a property is of another type than its field.

    Text in generic form can hold any attribute.
    """
    if not _is_of_kind(attr, field.kind):
        raise VerifyException(f"{field.name} is {attr}; it is {_KIND_TEXT[field.kind]}")


@lru_cache(maxsize=16_384)
def _is_of_kind(attr: Attribute, kind: str) -> bool:
    try:
        return to_attr(from_attr(attr), kind) == attr
    except (ValueError, AttributeError):
        return False


# Text of the fields -----------------------------------------------------------------------


def _parse_scalar(parser: Parser) -> Scalar:
    if (flag := parser.parse_optional_boolean()) is not None:
        return flag
    if (text := parser.parse_optional_str_literal()) is not None:
        return text
    return parser.parse_integer(allow_boolean=False)


def _parse_record(parser: Parser) -> Record:
    def entry() -> tuple[str, Scalar]:
        key = parser.parse_str_literal()
        parser.parse_punctuation("=")
        return key, _parse_scalar(parser)

    start = parser.pos
    entries = parser.parse_comma_separated_list(parser.Delimiter.BRACES, entry)
    for number, (key, _) in enumerate(entries):
        if key in (other for other, _ in entries[:number]):
            parser.raise_error(f"the entry {key!r} is given twice", start)
    return dict(entries)


def _parse_list(parser: Parser, item: Callable[[], object]) -> list[object]:
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, item)


def parse_entry(parser: Parser) -> tuple[str, Value]:
    """Parse ``field = value``."""
    start = parser.pos
    name = parser.parse_identifier("a field of the schedule")
    if name not in BY_NAME:
        parser.raise_error(no_field(name), start)
    parser.parse_punctuation("=")
    match BY_NAME[name].kind:
        case "ints":
            return name, cast(
                "list[int]",
                _parse_list(parser, lambda: parser.parse_integer(allow_boolean=False)),
            )
        case "strs":
            return name, cast("list[str]", _parse_list(parser, parser.parse_str_literal))
        case "record":
            return name, _parse_record(parser)
        case "records":
            return name, cast("list[Record]", _parse_list(parser, lambda: _parse_record(parser)))
        case _:
            return name, _parse_scalar(parser)


def print_value(printer: Printer, value: Value | Scalar) -> None:
    """Print what ``parse_entry`` reads as the value."""
    match value:
        case bool():
            printer.print_string("true" if value else "false")
        case int():
            printer.print_string(str(value))
        case str():
            printer.print_string_literal(value)
        case list():
            with printer.in_square_brackets():
                printer.print_list(
                    cast("list[Scalar | Record]", value), lambda v: print_value(printer, v)
                )
        case dict():
            with printer.in_braces():
                printer.print_list(value.items(), lambda item: _print_pair(printer, *item))


def _print_pair(printer: Printer, key: str, value: Scalar) -> None:
    printer.print_string_literal(key)
    printer.print_string(" = ")
    print_value(printer, value)
