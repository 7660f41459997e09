"""Batches of products and merged axes on the GPU: every variant, both architectures' kernels.

Inputs are small integers, so that every sum is exact and the output equals the regions' bit for
bit.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from polyc.runtime.program import Program
from polyc.test.support.each_variant import results
from polyc.test.support.gemm_programs import Product, inputs_of, one_tap, regions
from polyc.tools.play import play

Build = Callable[[str, str], Program]
ARCHS = ("sm_80", "sm_90a")

TEXTS = {
    "both": Product(("B", "M", "K"), ("B", "K", "N"), ("B", "M", "N")).text,
    "rows of two axes": Product(
        ("B", "M", "K"), ("K", "N"), ("B", "M", "N"), more=((("N",), "add"),)
    ).text,
    "lhs shared": Product(("M", "K"), ("B", "K", "N"), ("B", "M", "N")).text,
    "two axes": Product(
        ("B", "H", "M", "K"), ("B", "H", "N", "K"), ("B", "H", "M", "N"), ("transpose_b",)
    ).text,
    "an axis each": Product(("B", 1, "M", "K"), ("H", "K", "N"), ("B", "H", "M", "N")).text,
    "two tensors read": Product(
        ("B", "M", "K"),
        ("B", "K", "N"),
        ("B", "M", "N"),
        more=((("B", "M", "N"), "add"), (("B", "M", 1), "max")),
    ).text,
    "planes of one tap": one_tap("BKHN", ("M", "K", 1, 1), "BMHN", "nchw"),
}
SIZES = [
    {"B": 3, "H": 2, "M": 136, "N": 264, "K": 72},
    {"B": 2, "H": 8, "M": 520, "N": 512, "K": 256},
    {"B": 5, "H": 3, "M": 10, "N": 6, "K": 34},
    {"B": 2, "H": 1, "M": 129, "N": 131, "K": 33},
]


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s.values())))
@pytest.mark.parametrize("name", TEXTS)
def test_every_variant_of_a_batch(
    build: Build, name: str, sizes: dict[str, int], arch: str
) -> None:
    text = TEXTS[name]
    program = build(text, arch)
    own = {s: n for s, n in sizes.items() if re.search(rf"\b{s}\b", text)}
    module = regions(text)
    inputs = inputs_of(module, own)
    wanted = play(module, "g", inputs, own)
    assert wanted is not None
    ran = 0
    for _, (found,) in results(program, inputs):
        np.testing.assert_array_equal(np.asarray(found), wanted[0])
        ran += 1
    assert ran >= 2
