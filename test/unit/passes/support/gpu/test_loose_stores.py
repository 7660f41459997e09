"""Rows that begin at any element are stored by pairs: when, and that all elements come there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.gpu import hardware as hw
from polyc.passes.pipeline import STAGES
from polyc.playback.gpu.simulate import gpu_module_of, simulate
from polyc.test.support.gpu_text import find, run
from polyc.test.support.turns import examples

PASSES = STAGES["gpu"]
LOWERED = ("gpu-bind-target", "gpu-assumptions", "gpu-layout-inference", "gpu-lower-tile-ops")


def stored(columns: int, element: str = "f16", fact: str = "N >= 0", align: int = 2) -> str:
    """Tiles of 16 rows go through shared memory, by threads, at any addresses."""
    tensor, shared = (
        f"!gpu.global<[B, M, N], {element}>",
        f"!gpu.shared<[16, {columns}], {element}>",
    )
    return f"""
gpu.module @m arch "sm_90a" symbols [B, M, N] assuming ({fact}) {{
  gpu.kernel @k(%A: {tensor} = tensor 0, %C: {tensor} = tensor 1, %B: index = symbol B,
      %M: index = symbol M, %N: index = symbol N) threads 64 {{
    %b, %i, %j = gpu.tile_coordinates[%B, %M, %N] tile <1, 16, {columns}> raster "row" 1
    %c = gpu.shared_tile : {shared}
    gpu.copy %A[%b, %i, %j] to %c loader "register" : {tensor}, {shared}
    gpu.copy %c to %C[%b, %i, %j] loader "register" : {shared}, {tensor}
    gpu.return
  }}
  gpu.dispatch (A: {tensor}) -> (C: {tensor}) {{
    gpu.launch @k align [{align}, {align}] grid [B, M ceildiv 16, N ceildiv {columns}]
  }}
}}"""


def widths(module: ModuleOp) -> list[int]:
    """Elements of the stores, in the order of the text."""
    return [hw.vector_length(op.value.type) for op in find(module, hw.StoreGlobalOp)]


@pytest.mark.parametrize(
    ("element", "fact", "align", "wanted"),
    [
        ("f16", "N >= 0", 2, [2, 1, 1]),
        ("bf16", "N >= 0", 16, [2, 1, 1]),
        # Rows of whole pairs at their addresses are stored as wide as they are aligned.
        ("f16", "N mod 2 == 0", 4, [2]),
        ("f16", "N mod 8 == 0", 16, [8]),
        ("f32", "N >= 0", 4, [1]),
    ],
)
def test_pairs_are_for_rows_of_16_bits_that_begin_anywhere(
    element: str, fact: str, align: int, wanted: list[int]
) -> None:
    module = run(stored(32, element, fact, align), *LOWERED)
    assert widths(module) == wanted
    aligned = [op.promised for op in find(module, hw.StoreGlobalOp)]
    assert aligned == ([4, 0, 0] if len(wanted) > 1 else [0])


@settings(max_examples=examples(12))
@given(
    columns=st.sampled_from([8, 24, 32, 64]),
    sizes=st.tuples(*(st.integers(1, most) for most in (3, 37, 140))),
    address=st.sampled_from([2, 4, 16]),
)
def test_every_element_comes_there_once(
    columns: int, sizes: tuple[int, int, int], address: int
) -> None:
    module = run(stored(columns), *PASSES)
    a = np.random.default_rng(0).integers(-999, 1000, sizes).astype(np.float16)
    named = dict(zip("BMN", sizes, strict=True))
    found = simulate(
        gpu_module_of(module), [a], named, schedule="random", seed=1, alignment=address
    )
    found.check()
    np.testing.assert_array_equal(found.outputs[0], a)
