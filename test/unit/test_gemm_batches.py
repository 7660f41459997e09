"""Batches of matrix products: which region is one, and that every variant's tiles agree with it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.passes.finish import finished
from polyc.playback.gpu import simulate
from polyc.test.unit.gemm_programs import (
    Product,
    assert_tiles_agree,
    inputs_of,
    regions,
    runnable,
    tiles,
)
from polyc.tools.play import play

ARCHS = ("sm_80", "sm_90a")

BATCHES = {
    "both": Product(("B", "M", "K"), ("B", "K", "N"), ("B", "M", "N")),
    "rhs shared": Product(
        ("B", "M", "K"), ("K", "N"), ("B", "M", "N"), more=((("N",), "add"),), out="f32"
    ),
    "lhs shared": Product(
        ("M", "K"), ("B", "K", "N"), ("B", "M", "N"), more=((("B", 1, "N"), "add"),)
    ),
    "two axes": Product(
        ("B", "H", "M", "K"), ("B", "H", "N", "K"), ("B", "H", "M", "N"), ("transpose_b",)
    ),
    "an axis each": Product(("B", 1, "M", "K"), ("H", "K", "N"), ("B", "H", "M", "N")),
    "residual": Product(
        ("B", "K", "M"),
        ("B", "K", "N"),
        ("B", "M", "N"),
        ("transpose_a",),
        ((("B", "M", "N"), "add"), (("B", "M", 1), "max")),
    ),
}

SIZES = [
    {"B": 2, "H": 3, "M": 40, "N": 136, "K": 72},
    {"B": 3, "H": 2, "M": 10, "N": 6, "K": 34},
    {"B": 2, "H": 1, "M": 5, "N": 7, "K": 3},
]
"""Sizes for variants that read 16 bytes at once, 4 bytes, and single elements."""


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("product", BATCHES.values(), ids=BATCHES)
def test_every_variant_agrees_with_the_region(product: Product, arch: str) -> None:
    used = {s for shape in (product.a, product.b) for s in shape if isinstance(s, str)}
    ran = [
        assert_tiles_agree(product.text, arch, {k: v for k, v in sizes.items() if k in used})
        for sizes in SIZES
    ]
    assert [len(names) for names in ran] == [3, 2, 1]


@st.composite
def products(draw: st.DrawFn) -> tuple[Product, dict[str, int]]:
    """A product whose operands each have any of up to three axes of a batch."""
    names = ("B", "H", "G")[: draw(st.integers(0, 3))]
    sides = [[name if draw(st.booleans()) else 1 for name in names] for _ in "ab"]
    for i, name in enumerate(names):
        if all(side[i] == 1 for side in sides):
            sides[draw(st.integers(0, 1))][i] = name
    flags = tuple(f for f in ("transpose_a", "transpose_b") if draw(st.booleans()))
    a = ("K", "M") if "transpose_a" in flags else ("M", "K")
    b = ("N", "K") if "transpose_b" in flags else ("K", "N")
    c = (*names, "M", "N")
    more: list[tuple[tuple[str | int, ...], str]] = []
    for fn in draw(st.lists(st.sampled_from(["add", "max", "mul"]), max_size=2)):
        more.append((tuple(axis if draw(st.booleans()) else 1 for axis in c), fn))
    out = draw(st.sampled_from(["f16", "f32"]))
    step = draw(st.sampled_from([1, 2, 8]))
    sizes = {name: draw(st.integers(1, 3)) for name in names}
    sizes |= {name: step * draw(st.integers(1, 160 // step)) for name in "MNK"}
    return Product((*sides[0], *a), (*sides[1], *b), c, flags, tuple(more), out), sizes


@settings(max_examples=25, deadline=None)
@given(products(), st.sampled_from(ARCHS))
def test_any_batch_agrees_with_the_region(case: tuple[Product, dict[str, int]], arch: str) -> None:
    product, sizes = case
    assert assert_tiles_agree(product.text, arch, sizes)


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", ["both", "rhs shared", "an axis each"])
def test_batches_on_the_simulator(name: str, arch: str) -> None:
    """No findings of the hardware's rules, and the region's values."""
    product = BATCHES[name]
    module = regions(product.text)
    kernels = finished(tiles(module, arch))
    used = {s for shape in (product.a, product.b) for s in shape if isinstance(s, str)}
    for sizes in (
        {"B": 2, "H": 2, "M": 24, "N": 40, "K": 40},
        {"B": 2, "H": 1, "M": 5, "N": 3, "K": 9},
    ):
        sizes = {k: v for k, v in sizes.items() if k in used}
        inputs = inputs_of(module, sizes)
        wanted = play(module, "g", inputs, sizes)
        assert wanted is not None
        for variant in runnable(kernels, sizes):
            result = simulate(kernels, inputs, sizes, variant)
            result.check()
            assert (result.outputs[0] == wanted[0]).all()
