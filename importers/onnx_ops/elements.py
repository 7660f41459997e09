"""Element types: ONNX's numbers for them, NumPy's, and those of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

FLOAT, DOUBLE, STRING, BOOL, INT64, FLOAT16, BFLOAT16 = 1, 11, 8, 9, 7, 10, 16
"""Members of ``onnx.TensorProto.DataType``."""

NAMES: Mapping[int, str] = {
    FLOAT: "f32",
    2: "ui8",
    3: "i8",
    4: "ui16",
    5: "i16",
    6: "i32",
    INT64: "i64",
    BOOL: "i1",
    FLOAT16: "f16",
    12: "ui32",
    13: "ui64",
    BFLOAT16: "bf16",
}
"""The element types that graphs have."""

NUMBERS: Mapping[str, int] = {name: number for number, name in NAMES.items()}


@dataclass(frozen=True)
class Small:
    """A type of fewer than 16 bits that graphs have not, as ``stored`` holds its numbers.

    Integers have ``bits``; real numbers ``bits`` of mantissa, a least normal exponent, a largest
    number, and infinities or none.
    """

    stored: str
    bits: int
    signed: bool = True
    least: int = 0
    largest: float = 0.0
    infinite: bool = False
    negative_zero: bool = True
    has_nan: bool = True

    @property
    def whole(self) -> bool:
        """Whether it holds integers."""
        return self.stored != "f32"


SMALL: Mapping[int, Small] = {
    17: Small("f32", 3, least=-6, largest=448.0),
    18: Small("f32", 3, least=-7, largest=240.0, negative_zero=False),
    19: Small("f32", 2, least=-14, largest=57344.0, infinite=True),
    20: Small("f32", 2, least=-15, largest=57344.0, negative_zero=False),
    21: Small("ui8", 4, signed=False),
    22: Small("i8", 4),
    23: Small("f32", 1, least=0, largest=6.0, has_nan=False),
    25: Small("ui8", 2, signed=False),
    26: Small("i8", 2),
}
"""The types whose numbers are emulated exactly where the caller asks for it: f8, f4 and integers of
two and four bits."""

EMULATED: Mapping[int, str] = {DOUBLE: "f32", **{n: one.stored for n, one in SMALL.items()}}
"""Types that graphs have not, and what stands for them where the caller asks for it."""

WORDS: Mapping[int, str] = {
    **NAMES,
    DOUBLE: "f64",
    STRING: "string",
    14: "complex64",
    15: "complex128",
    17: "float8e4m3fn",
    18: "float8e4m3fnuz",
    19: "float8e5m2",
    20: "float8e5m2fnuz",
    21: "uint4",
    22: "int4",
    23: "float4e2m1",
    24: "float8e8m0",
    25: "uint2",
    26: "int2",
}
"""What diagnostics call them."""

DTYPES: Mapping[str, Any] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i1": np.dtype(np.bool_),
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
}
"""NumPy's types of those that graphs have."""


def word(number: int) -> str:
    """What a diagnostic calls an element type of ONNX."""
    return WORDS.get(number, f"element type {number}")


def number_of_dtype(dtype: Any) -> int:
    """ONNX's number of a NumPy type."""
    if dtype == np.float64:
        return DOUBLE
    if dtype.kind in "OUS":
        return STRING
    name = next((n for n, d in DTYPES.items() if d == dtype), None)
    if name is not None:
        return NUMBERS[name]
    others = {
        "complex64": 14,
        "complex128": 15,
        "float8_e4m3fn": 17,
        "float8_e4m3fnuz": 18,
        "float8_e5m2": 19,
        "float8_e5m2fnuz": 20,
        "uint4": 21,
        "int4": 22,
        "float4_e2m1fn": 23,
        "float8_e8m0fnu": 24,
        "uint2": 25,
        "int2": 26,
    }
    return others.get(dtype.name, 0)
