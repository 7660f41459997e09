"""Programs of rows: what is reduced along the last axis, with sizes that have tails.

The tests play them at the tile level and simulate them; those in test/gpu run them.
"""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from polyc.test.support.root import ROOT

EXAMPLES = ROOT / "examples"


@dataclass(frozen=True)
class RowProgram:
    """A graph of one region, the row's symbol, and the sizes of the other ones."""

    text: str
    others: Mapping[str, int]
    row: str = "N"

    def sizes(self, length: int) -> dict[str, int]:
        """The sizes with a row of ``length``."""
        return {**self.others, self.row: length}


def graph(
    signature: str, result: str, body: Sequence[str], outputs: str, assuming: str = ""
) -> str:
    """A frontend graph; ``[M, N] f16`` stands for a tensor's type."""
    lines = "\n  ".join([*body, f"frontend.output {outputs}"])
    text = f"frontend.graph @rows({signature}) -> ({result}){assuming} {{\n  {lines}\n}}\n"
    return text.replace("T<", "!frontend.tensor<")


def example(name: str) -> str:
    """The text of an example."""
    return (EXAMPLES / f"{name}.mlir").read_text(encoding="utf-8")


MN = "T<[M, N], f16>"
MEAN = (
    "%s = frontend.elementwise mul %X, %X : (T<[M, N], f32>, T<[M, N], f32>) -> T<[M, N], f32>",
    "%r = frontend.reduce mean %s axes [1] : T<[M, N], f32> -> T<[M], f32>",
    "%y = frontend.elementwise sqrt %r : T<[M], f32>",
)

PROGRAMS: Mapping[str, RowProgram] = {
    "softmax": RowProgram(example("softmax"), {"M": 5}),
    "layer_norm": RowProgram(example("layer_norm"), {"M": 5}),
    "rms_norm": RowProgram(example("rms_norm"), {"M": 3}),
    "log_softmax": RowProgram(
        graph(
            "%X: T<[M, N], f32>",
            "Y: T<[M, N], bf16>",
            [
                "%0 = frontend.log_softmax %X axes [1] : T<[M, N], f32>",
                "%y = frontend.cast %0 : T<[M, N], f32> -> T<[M, N], bf16>",
            ],
            "%y : T<[M, N], bf16>",
        ),
        {"M": 6},
    ),
    "root_mean_square": RowProgram(
        graph("%X: T<[M, N], f32>", "Y: T<[M], f32>", MEAN, "%y : T<[M], f32>"), {"M": 5}
    ),
    "extremes": RowProgram(
        graph(
            f"%X: {MN}",
            "L: T<[M], f16>, H: T<[M], f16>",
            [
                f"%e = frontend.elementwise exp %X : {MN}",
                f"%l = frontend.reduce min %e axes [1] : {MN} -> T<[M], f16>",
                f"%h = frontend.reduce max %e axes [1] : {MN} -> T<[M], f16>",
            ],
            "%l, %h : T<[M], f16>, T<[M], f16>",
        ),
        {"M": 5},
    ),
    "residual": RowProgram(
        graph(
            f"%X: {MN}, %R: T<[M, N], f32>, %g: T<[N], f16>, %s: T<[M, 1], f16>",
            "Y: T<[M, N], f16>",
            [
                f"%0 = frontend.elementwise mul %X, %s : ({MN}, T<[M, 1], f16>) -> {MN}",
                f"%r = frontend.cast %R : T<[M, N], f32> -> {MN}",
                f"%1 = frontend.elementwise add %0, %r : ({MN}, {MN}) -> {MN}",
                f"%y = frontend.rms_norm %1 weight %g axes [1] eps 1.0e-6 : ({MN}, T<[N], f16>) -> {MN}",
            ],
            f"%y : {MN}",
        ),
        {"M": 5},
    ),
    "masked_heads": RowProgram(
        graph(
            "%X: T<[B, H, M, N], f16>, %mask: T<[B, 1, 1, N], f16>, %t: T<[H, 1, 1], f16>",
            "Y: T<[B, H, M, N], f16>",
            [
                "%0 = frontend.elementwise mul %X, %t : (T<[B, H, M, N], f16>, T<[H, 1, 1], f16>) -> T<[B, H, M, N], f16>",
                "%1 = frontend.elementwise add %0, %mask : (T<[B, H, M, N], f16>, T<[B, 1, 1, N], f16>) -> T<[B, H, M, N], f16>",
                "%y = frontend.softmax %1 axes [3] : T<[B, H, M, N], f16>",
            ],
            "%y : T<[B, H, M, N], f16>",
        ),
        {"B": 2, "H": 3, "M": 5},
    ),
    "one_row": RowProgram(
        graph(
            "%X: T<[N], f16>",
            "Y: T<[N], f16>",
            ["%y = frontend.softmax %X axes [0] : T<[N], f16>"],
            "%y : T<[N], f16>",
        ),
        {},
    ),
    "padded_sum": RowProgram(
        graph(
            "%X: T<[M, N], f16>",
            "Y: T<[M], f32>",
            [
                "%0 = frontend.pad %X low [0, 3] high [0, 5] value 0.5 : T<[M, N], f16> -> T<[M, N + 8], f16>",
                "%1 = frontend.cast %0 : T<[M, N + 8], f16> -> T<[M, N + 8], f32>",
                "%y = frontend.reduce sum %1 axes [1] : T<[M, N + 8], f32> -> T<[M], f32>",
            ],
            "%y : T<[M], f32>",
        ),
        {"M": 5},
    ),
    "parts_of_a_sum": RowProgram(
        graph(
            f"%X: {MN}, %b: T<[N], f32>",
            "Y: T<[M, N], f32>, S: T<[M], f32>",
            [
                f"%x = frontend.cast %X : {MN} -> T<[M, N], f32>",
                "%0 = frontend.elementwise add %x, %b : (T<[M, N], f32>, T<[N], f32>) -> T<[M, N], f32>",
                "%e = frontend.elementwise exp %0 : T<[M, N], f32>",
                "%s = frontend.reduce sum %e axes [1] : T<[M, N], f32> -> T<[M], f32>",
                "%t = frontend.expand %s dims [0] : T<[M], f32> -> T<[M, N], f32>",
                "%y = frontend.elementwise div %e, %t : (T<[M, N], f32>, T<[M, N], f32>) -> T<[M, N], f32>",
            ],
            "%y, %s : T<[M, N], f32>, T<[M], f32>",
        ),
        {"M": 5},
    ),
    "sliced": RowProgram(
        graph(
            "%X: T<[M + 3, N + 24], f16>",
            "Y: T<[M, N], f16>",
            [
                "%0 = frontend.slice %X [2:M + 2, 16:N + 16] : T<[M + 3, N + 24], f16> -> T<[M, N], f16>",
                "%y = frontend.softmax %0 axes [1] : T<[M, N], f16>",
            ],
            "%y : T<[M, N], f16>",
        ),
        {"M": 6},
    ),
    "constant_rows": RowProgram(
        graph(
            "%X: T<[M, N], f16>, %v: T<[M], f32>",
            "Y: T<[M, N], f32>, S: T<[M], f32>",
            [
                "%x = frontend.cast %X : T<[M, N], f16> -> T<[M, N], f32>",
                "%s = frontend.reduce max %x axes [1] : T<[M, N], f32> -> T<[M], f32>",
                "%t = frontend.elementwise add %s, %v : (T<[M], f32>, T<[M], f32>) -> T<[M], f32>",
                "%e = frontend.expand %t dims [0] : T<[M], f32> -> T<[M, N], f32>",
            ],
            "%e, %t : T<[M, N], f32>, T<[M], f32>",
        ),
        {"M": 5},
    ),
}

PRODUCT_AND_NORM = graph(
    "%A: T<[M, K], f16>, %B: T<[K, N], f16>, %w: T<[N], f16>, %b: T<[N], f16>",
    f"Y: {MN}",
    [
        f"%0 = frontend.gemm %A, %B {{acc = f32}} : (T<[M, K], f16>, T<[K, N], f16>) -> {MN}",
        f"%y = frontend.layer_norm %0 weight %w bias %b axes [1] eps 1.0e-05 : ({MN}, T<[N], f16>, T<[N], f16>) -> {MN}",
    ],
    f"%y : {MN}",
)
"""A product of matrices, and LayerNorm of its rows: two kernels of two families."""

COLUMNS = {
    "softmax": RowProgram(
        graph(
            "%X: T<[M, N], f16>",
            "Y: T<[M, N], f16>",
            ["%y = frontend.softmax %X axes [0] : T<[M, N], f16>"],
            "%y : T<[M, N], f16>",
        ),
        {"N": 72},
        "M",
    ),
    "middle_norm": RowProgram(
        graph(
            "%X: T<[B, M, N], f16>, %s: T<[M, 1], f16>",
            "Y: T<[B, M, N], bf16>",
            [
                "%0 = frontend.elementwise mul %X, %s : (T<[B, M, N], f16>, T<[M, 1], f16>) -> T<[B, M, N], f16>",
                "%1 = frontend.layer_norm %0 axes [1] eps 1.0e-5 : (T<[B, M, N], f16>) -> T<[B, M, N], f16>",
                "%y = frontend.cast %1 : T<[B, M, N], f16> -> T<[B, M, N], bf16>",
            ],
            "%y : T<[B, M, N], bf16>",
        ),
        {"N": 40, "B": 3},
        "M",
    ),
    "residual": RowProgram(
        graph(
            "%X: T<[M, N], f16>, %R: T<[M, N], f32>, %g: T<[N], f32>",
            "Y: T<[M, N], f32>",
            [
                "%0 = frontend.cast %X : T<[M, N], f16> -> T<[M, N], f32>",
                "%1 = frontend.elementwise add %0, %R : (T<[M, N], f32>, T<[M, N], f32>) -> T<[M, N], f32>",
                "%2 = frontend.elementwise mul %1, %g : (T<[M, N], f32>, T<[N], f32>) -> T<[M, N], f32>",
                "%y = frontend.log_softmax %2 axes [0] : T<[M, N], f32>",
            ],
            "%y : T<[M, N], f32>",
        ),
        {"N": 36},
        "M",
    ),
}
"""Rows that lie side by side, of open lengths."""
