"""The kernels of examples/tile: at which sizes they are tested, and what they compute.

One row of ``CASES`` a file.  The unit tests simulate the small shapes, keep them small: a few
tiles, with tails on every axis.  The GPU tests run those and the large ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp as BuiltinModuleOp
from xdsl.ir import Attribute

from polyc.dialects.gpu.module import ModuleOp
from polyc.passes.finish import finish
from polyc.playback.estimate import Estimate, as_estimate
from polyc.playback.functions import round_freely, round_to, widen
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.playback.reference import known
from polyc.test.support.agreeing import type_of
from polyc.test.support.root import ROOT
from polyc.tools.parsing import parse_text
from polyc.tools.registry import make_context

Array = NDArray[Any]
Sizes = Mapping[str, int]
Fill = Callable[[np.random.Generator, Sequence[int]], Array]
Reference = Callable[[Sequence[Array], Sizes, Attribute], Sequence[Array]]

FOLDER = ROOT / "examples" / "tile"


# Inputs --------------------------------------------------------------------------------


def whole(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Integers of -2 to 2: their sums of products are exact in f32, in any order."""
    return rng.integers(-2, 3, shape).astype(np.float32)


def normal(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def half_normal(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Half as large: where weights that are rounded to bf16 nearly cancel, less is lost."""
    return normal(rng, shape) / 2


# References, in f32 on inputs as they are stored, not rounded at the end; with errors on Estimates


def product(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
    """A · B."""
    a, b = inputs
    return [a @ b]


def convolution(stride: int) -> Reference:
    """3x3 taps with padding 1: X [N, H, W, C] and F [K, 9, C] to [pixels, K]."""

    def reference(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
        x, filters = inputs
        padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
        _, height, width, channels = x.shape
        taps: list[Array] = []
        for tap in range(9):
            r, s = divmod(tap, 3)
            rows = padded[:, r : r + height : stride, s : s + width : stride]
            taps.append(rows.reshape(-1, channels))
        return [np.concatenate(taps, 1) @ filters.reshape(len(filters), 9 * channels).T]

    return reference


def attention(causal: bool) -> Reference:
    """softmax(Q · Kᵀ / sqrt(d)) · V a head; causal: query i sees keys up to i + SK - SQ.

    The weights are operands of a tensor core, rounded before they are divided by their sum (S0.6).
    """

    def reference(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
        q, k, v = inputs
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(np.float32(q.shape[2]))
        if causal:
            reach = np.tri(q.shape[1], k.shape[1], k.shape[1] - q.shape[1], np.bool_)
            scores = np.where(reach, scores, np.float32(-np.inf))
        most = np.max(scores, axis=-1, keepdims=True)
        weights = np.exp(scores - np.where(most == -np.inf, np.float32(0), most))
        total = weights.sum(-1, keepdims=True)
        summed = widen(round_freely(weights, element)) @ v
        return [np.where(total > 0, summed / total, np.float32(0))]

    return reference


def softmax(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
    """softmax of the rows of X."""
    (x,) = inputs
    weights = np.exp(x - x.max(1, keepdims=True))
    return [weights / weights.sum(1, keepdims=True)]


def rms_norm(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
    """X / sqrt(mean(X²) + 1e-5) · W."""
    x, w = inputs
    return [x / np.sqrt((x * x).mean(1, keepdims=True) + np.float32(1e-5)) * w]


def layer_norm(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
    """(X - mean) / sqrt(variance + 1e-5) · W + B."""
    x, w, b = inputs
    apart = x - x.mean(1, keepdims=True)
    variance = (apart * apart).mean(1, keepdims=True)
    return [apart / np.sqrt(variance + np.float32(1e-5)) * w + b]


def column_sum(inputs: Sequence[Array], sizes: Sizes, element: Attribute) -> Sequence[Array]:
    """The sums of the columns of X."""
    (x,) = inputs
    return [x.sum(0)]


# The table -----------------------------------------------------------------------------


@dataclass(frozen=True)
class TileCase:
    """One file of examples/tile.

    ``reference`` takes the inputs in f32 and the sizes.  ``elements`` are what f16 in the text
    is replaced by.  ``variant`` names the kernel or sequence, where not the dispatch's choice
    is tested; ``also`` has variants that the small shapes do not reach, each with sizes of its
    own.  ``mutants`` is how many of the kernel's mutants a run of the unit tests tries,
    on the shapes of ``mutant_shapes``, the first small one where it is empty.  ``plays`` says
    whether the tile playback knows all of its ops, ``deterministic`` whether every run gives the
    same bits.
    """

    name: str
    reference: Reference
    small: Sequence[Sizes]
    large: Sequence[Sizes]
    fill: Fill = whole
    elements: Sequence[str] = ("f16", "bf16")
    variant: str | None = None
    also: Sequence[tuple[str, Sizes]] = ()
    mutants: int = 1
    mutant_shapes: Sequence[Sizes] = ()
    plays: bool = True
    deterministic: bool = True

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.mlir"

    def text(self, element: str = "f16") -> str:
        """The file, with its f16 as another element type."""
        found = self.path.read_text(encoding="utf-8")
        return found if element == "f16" else re.sub(r"\bf16\b", element, found)

    def inputs(self, sizes: Sizes, element: str = "f16", seed: int = 0) -> list[Array]:
        """Inputs of the dispatch's types at these sizes."""
        dispatch = parsed(self.name, element).dispatch()
        count = dispatch.num_inputs.value.data
        found: list[Array] = []
        for i, kind in enumerate(list(dispatch.arg_types)[:count]):
            shape = [dim.evaluate(sizes) for dim in kind.dims]
            values = self.fill(np.random.default_rng([seed, i, *shape]), shape)
            found.append(round_to(values, kind.element_type))
        return found

    def expected(self, inputs: Sequence[Array], sizes: Sizes) -> list[Estimate]:
        """The outputs in f32, not rounded to their types, with their errors."""
        element = type_of(inputs[0])
        wide = [x.astype(np.float32) for x in known(inputs)]
        with np.errstate(all="ignore"):
            return [as_estimate(x) for x in self.reference(wide, sizes, element)]


def sizes_of(symbols: str, *shapes: Sequence[int]) -> list[Sizes]:
    """``sizes_of("M N", (1, 2))`` is ``[{"M": 1, "N": 2}]``."""
    return [dict(zip(symbols.split(), shape, strict=True)) for shape in shapes]


CASES: Mapping[str, TileCase] = {
    case.name: case
    for case in [
        *(
            TileCase(
                f"attention_sm90_d{size}{'_causal' if causal else ''}",
                attention(causal),
                small=sizes_of("BH SQ SK", *shapes),
                large=sizes_of("BH SQ SK", (16, 1024, 1024), (3, 1000, 1500), (5, 700, 300)),
                fill=half_normal,
                mutant_shapes=sizes_of("BH SQ SK", (1, 70, 260)),
            )
            for size in (64, 128)
            for causal, shapes in (
                (False, [(3, 200, 300), (1, 7, 1)]),
                (True, [(2, 200, 333), (1, 200, 77)]),
            )
        ),
        TileCase(
            "attention_sm90_d128_causal_persistent",
            attention(causal=True),
            small=sizes_of("BH SQ SK", (5, 200, 333), (2, 300, 77)),
            large=sizes_of("BH SQ SK", (16, 1024, 1024), (3, 1000, 1500), (50, 700, 300)),
            fill=half_normal,
            mutant_shapes=sizes_of("BH SQ SK", (1, 200, 260)),
        ),
        *(
            TileCase(
                f"attention_sm80_d{size}{'_causal' if causal else ''}",
                attention(causal),
                small=sizes_of("BH SQ SK", *shapes),
                large=sizes_of("BH SQ SK", (16, 1024, 1024), (3, 1000, 1500), (5, 700, 300)),
                fill=half_normal,
                mutant_shapes=sizes_of("BH SQ SK", (1, 8, 140)),
            )
            for size in (64, 128)
            for causal, shapes in (
                (False, [(2, 70, 140), (1, 7, 1)]),
                (True, [(1, 136, 150), (1, 130, 55)]),
            )
        ),
        TileCase(
            "conv3x3_sm90",
            convolution(1),
            small=sizes_of("N H W C K", (3, 9, 7, 72, 320), (1, 7, 9, 8, 24)),
            large=sizes_of("N H W C K", (32, 28, 28, 128, 128), (16, 56, 56, 64, 256)),
            mutant_shapes=sizes_of("N H W C K", (1, 7, 9, 8, 24), (3, 9, 7, 72, 136)),
        ),
        TileCase(
            "conv3x3_stride2_sm90",
            convolution(2),
            small=sizes_of("N H W C K", (3, 17, 13, 72, 136), (1, 5, 6, 8, 24)),
            large=sizes_of("N H W C K", (32, 56, 56, 128, 128), (7, 33, 28, 136, 200)),
            mutant_shapes=sizes_of("N H W C K", (1, 5, 6, 8, 24), (3, 17, 13, 72, 136)),
        ),
        TileCase(
            "conv3x3_gather",
            convolution(1),
            small=sizes_of("N H W C K", (3, 5, 7, 40, 136), (1, 7, 9, 38, 24), (1, 4, 5, 35, 9)),
            large=sizes_of("N H W C K", (8, 28, 28, 132, 128), (4, 33, 17, 68, 200)),
            mutant_shapes=sizes_of("N H W C K", (1, 5, 6, 6, 8), (3, 6, 7, 38, 24)),
        ),
        TileCase(
            "gemm_pipelined",
            product,
            small=sizes_of("M N K", (136, 264, 328), (33, 8, 8)),
            large=sizes_of("M N K", (512, 768, 1024), (1000, 520, 4096), (4096, 4096, 4096)),
        ),
        TileCase(
            "gemm_sm90_cooperative",
            product,
            small=sizes_of("M N K", (136, 264, 328), (33, 8, 8)),
            large=sizes_of("M N K", (1000, 520, 4096), (4104, 4104, 136), (4096, 4096, 4096)),
            mutant_shapes=sizes_of("M N K", (264, 8, 264)),
        ),
        TileCase(
            "gemm_sm90_cluster",
            product,
            small=sizes_of("M N K", (136, 264, 328), (33, 8, 8)),
            large=sizes_of("M N K", (1000, 520, 4096), (4104, 4104, 136), (4096, 4096, 4096)),
            mutant_shapes=sizes_of("M N K", (136, 264, 264)),
        ),
        TileCase(
            "gemm_sm90_pingpong",
            product,
            small=sizes_of("M N K", (136, 264, 328), (33, 8, 8)),
            large=sizes_of("M N K", (1000, 520, 4096), (4104, 4104, 136), (4096, 4096, 4096)),
            mutant_shapes=sizes_of("M N K", (200, 8, 264), (392, 8, 8)),
        ),
        TileCase(
            "gemm_sm90_decode",
            product,
            small=sizes_of("M N K", (5, 264, 328), (33, 136, 72), (130, 8, 8)),
            large=sizes_of("M N K", (16, 14336, 4096), (1, 1000, 4096), (128, 14336, 4096)),
        ),
        TileCase(
            "gemm_sm80",
            product,
            small=sizes_of("M N K", (136, 136, 200), (33, 8, 8), (5, 70, 102), (130, 9, 35)),
            large=sizes_of("M N K", (1000, 520, 4096), (2056, 2056, 136), (4096, 4096, 4096)),
            mutants=2,
            mutant_shapes=sizes_of("M N K", (8, 8, 200)),
        ),
        TileCase(
            "gemm_split_k",
            product,
            small=sizes_of("M N K", (5, 72, 2184), (65, 8, 72)),
            large=sizes_of(
                "M N K", (128, 128, 65536), (16, 14336, 4096), (129, 264, 8200), (1, 8, 8)
            ),
            also=[
                ("gemm_split_k_few", {"M": 70, "N": 72, "K": 584}),
                ("gemm_split_k_many", {"M": 3, "N": 136, "K": 2056}),
            ],
            mutants=2,
            mutant_shapes=sizes_of("M N K", (5, 40, 1152)),
        ),
        TileCase(
            "gemm_unaligned",
            product,
            small=sizes_of("M N K", (67, 133, 77), (130, 262, 9), (1, 1, 1)),
            mutant_shapes=sizes_of("M N K", (5, 9, 333), (67, 133, 77)),
            large=sizes_of("M N K", (127, 1001, 333), (4095, 4095, 4095), (64, 64, 64)),
        ),
        TileCase(
            "column_sum",
            column_sum,
            small=sizes_of("M N", (300, 1032), (130, 131), (1, 8)),
            large=sizes_of("M N", (4097, 8200), (1000, 4099), (16384, 4096)),
            mutant_shapes=sizes_of("M N", (130, 136)),
            deterministic=False,
        ),
        *(
            TileCase(
                name,
                reference,
                small=sizes_of("M N", (5, 520), (3, 24), (2, 2056), (2, 4104), (3, 13)),
                large=sizes_of(
                    "M N",
                    (70, 1000),
                    (33, 4096),
                    (33, 8000),
                    (9, 32768),
                    (20, 100000),
                    (9, 1048576),
                    (70, 999),
                ),
                fill=normal,
                also=[(f"{name}_grid", {"M": 5, "N": 5200})],
                mutant_shapes=sizes_of("M N", (2, 1032)),
            )
            for name, reference in (
                ("layer_norm", layer_norm),
                ("rms_norm", rms_norm),
                ("softmax", softmax),
            )
        ),
        TileCase(
            "softmax_two_pass",
            softmax,
            small=sizes_of("M N", (3, 2200), (2, 1031)),
            large=sizes_of("M N", (33, 4096), (9, 32768), (70, 999)),
            fill=normal,
            mutant_shapes=sizes_of("M N", (2, 2056)),
        ),
    ]
}


def _module(name: str, element: str) -> BuiltinModuleOp:
    case = CASES[name]
    return parse_text(make_context(), case.text(element), str(case.path.relative_to(ROOT)))


@cache
def parsed(name: str, element: str = "f16") -> ModuleOp:
    """The module as its author wrote it; not to be changed."""
    return gpu_module_of(_module(name, element))


@cache
def lowered(name: str, element: str = "f16") -> ModuleOp:
    """The module at hardware level; not to be changed."""
    module = _module(name, element)
    finish(module)
    return gpu_module_of(module)
