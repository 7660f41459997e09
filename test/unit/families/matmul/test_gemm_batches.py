"""Batches of matrix products: which region is one, and that every variant's tiles agree with it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.region import KernelOp
from polyc.families.matmul.recognise import find_contraction
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.passes.finish import finished
from polyc.playback.gpu import simulate
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import (
    Product,
    assert_tiles_agree,
    inputs_of,
    one_tap,
    regions,
    runnable,
    sum_of_products,
    tensor,
    tiles,
)
from polyc.test.support.plans import leave_widest
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.play import play
from polyc.tools.printing import module_text

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
    {"B": 2, "H": 8, "M": 24, "N": 136, "K": 40},
    {"B": 3, "H": 2, "M": 10, "N": 6, "K": 34},
    {"B": 2, "H": 1, "M": 5, "N": 7, "K": 3},
]
"""Sizes for variants that read 16 bytes at once, 4 bytes, and single elements."""

MERGED = {
    "pixels of one tap": one_tap("BHMK", ("N", 1, 1, "K"), "BHMN", "nhwc"),
    "planes of one tap": one_tap("BKHN", ("M", "K", 1, 1), "BMHN", "nchw"),
    "rows of two axes": sum_of_products("bhk", "kn", "bhn", "k"),
    "columns of two axes": sum_of_products("mk", "khn", "mhn", "k"),
    "a sum over two axes": sum_of_products("mhk", "hkn", "mn", "hk"),
    "two axes everywhere": sum_of_products("bmhk", "hkn", "bmn", "hk"),
}
"""Axes that are one in the kernel."""

SCATTERED = {
    "rows of two axes apart": sum_of_products("bkh", "kn", "bnh", "k"),
    "columns of two axes apart": sum_of_products("mk", "bkn", "mbn", "k"),
    "a batch inside": sum_of_products("mbk", "nbk", "bmn", "k"),
    "columns before rows": sum_of_products("bmk", "bkn", "bmn", "k", "bnm"),
    "a batch last in the output": sum_of_products("bmk", "bnk", "bmn", "k", "mnb"),
}
"""Axes that follow one another in other ways than rows, columns and batches do."""


EVERY = {name: product.text for name, product in BATCHES.items()} | MERGED | SCATTERED


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("text", "arch"),
    # In turn: which axes a tile lies in is the same for each.
    [(text, ARCHS[i % 2]) for i, text in enumerate(EVERY.values())],
    ids=list(EVERY),
)
def test_every_variant_agrees_with_the_region(text: str, arch: str) -> None:
    ran = [assert_tiles_agree(text, arch, named_in(text, sizes)) for sizes in SIZES]
    assert len(ran[0]) >= 2 and ran[2] == ["g_scalar"]


def named_in(text: str, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of the symbols that a text has."""
    return {name: size for name, size in sizes.items() if re.search(rf"\b{name}\b", text)}


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


@settings(max_examples=examples(15), deadline=None)
@given(products(), st.sampled_from(ARCHS))
def test_any_batch_agrees_with_the_region(case: tuple[Product, dict[str, int]], arch: str) -> None:
    product, sizes = case
    assert assert_tiles_agree(product.text, arch, sizes)


@settings(max_examples=examples(15), deadline=None)
@given(st.data(), st.sampled_from(ARCHS))
def test_axes_in_any_order_agree_or_are_refused(data: st.DataObject, arch: str) -> None:
    """Factors and outputs stored in any order: rows along an axis of the batch are refused."""
    draw = data.draw
    more = "bh"[: draw(st.integers(0, 2))]
    a, b = "mk", "kn"
    for axis in more:
        where = draw(st.sampled_from(["both", "lhs", "rhs"]))
        a, b = a + axis * (where != "rhs"), b + axis * (where != "lhs")
    a, b = ("".join(draw(st.permutations(x))) for x in (a, b))
    out, stored = ("".join(draw(st.permutations("mn" + more))) for _ in "cs")
    step = draw(st.sampled_from([1, 2, 8]))
    sizes = {axis.upper(): step * draw(st.integers(1, 40 // step)) for axis in "mnk" + more}
    text = sum_of_products(a, b, out, "k", stored)
    shared = set(a) & set(b) - {"k"}
    if {a[-1], b[-1]} & shared:
        (kernel,) = regions(text).ops
        assert isinstance(kernel, KernelOp)
        with pytest.raises(PolycError, match="a tile's rows lie along an axis of the product"):
            find_contraction(kernel)
    else:
        assert assert_tiles_agree(text, arch, sizes)


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("text", "arch"),
    [
        (BATCHES["both"].text, "sm_80"),
        (BATCHES["both"].text, "sm_90a"),
        (BATCHES["rhs shared"].text, "sm_90a"),
        (BATCHES["an axis each"].text, "sm_80"),
        (MERGED["planes of one tap"], "sm_90a"),
        (SCATTERED["a batch inside"], "sm_80"),
        (SCATTERED["a batch inside"], "sm_90a"),
    ],
    ids=["both", "both", "rhs shared", "an axis each", "planes", "inside", "inside"],
)
def test_batches_on_the_simulator(text: str, arch: str) -> None:
    """No findings of the hardware's rules, and the region's values."""
    module = regions(text)
    kernels = finished(tiles(module, arch))
    for small in (
        {"B": 2, "H": 2, "M": 24, "N": 40, "K": 40},
        {"B": 2, "H": 1, "M": 5, "N": 3, "K": 9},
    ):
        sizes = named_in(text, small)
        inputs = inputs_of(module, sizes)
        wanted = play(module, "g", inputs, sizes)
        assert wanted is not None
        for variant in runnable(kernels, sizes):
            result = simulate(kernels, inputs, sizes, variant)
            result.check()
            np.testing.assert_array_equal(result.outputs[0], wanted[0])


REFUSED = {
    "two sums apart": (
        sum_of_products("hmk", "hnk", "mn", "hk"),
        "it sums over [h, k], which are no one axis in both A and B; store them next to each other",
    ),
    "a vector and matrices": (
        sum_of_products("bk", "bkn", "bn", "k"),
        "A has no axis that the other factor lacks, so that nothing of it is used twice",
    ),
    "rows along the batch": (
        sum_of_products("mkb", "bkn", "bmn", "k"),
        "it reads rows of A along b, and a tile's rows lie along an axis of the product; store A "
        "with that dimension before the others",
    ),
}


@pytest.mark.parametrize(("text", "why"), REFUSED.values(), ids=REFUSED)
def test_products_that_have_no_tiles_are_refused(text: str, why: str) -> None:
    (kernel,) = regions(text).ops
    assert isinstance(kernel, KernelOp)
    with pytest.raises(PolycError) as caught:
        find_contraction(kernel)
    assert caught.value.kind == "UnsupportedProgram" and why in caught.value.message


@pytest.mark.turns(2)
@pytest.mark.parametrize(("name", "arch"), [("two axes", "sm_90a"), ("residual", "sm_80")])
def test_kernels_of_batches_spill_nothing(name: str, arch: str) -> None:
    kernels = tiles(regions(BATCHES[name].text), arch, leave=leave_widest)
    result = nvrtc.compile_cuda(cuda_source(finished(kernels)), arch)
    assert not result.warnings() and "serialized" not in result.log
    for variant, info in result.kernels.items():
        assert (info.spill_bytes, info.stack) == (0, 0), variant


def test_several_outputs_and_a_transposed_one() -> None:
    """What the epilogue has on its way is stored too; an output may lie in another order."""
    half, full = tensor("MN"), tensor("MN", "f32")
    head = f"frontend.graph @g(%A: {tensor('MK')}, %B: {tensor('KN')})"
    gemm = (
        f"%0 = frontend.gemm %A, %B {{acc = f32}} : ({tensor('MK')}, {tensor('KN')}) -> {full}\n"
        f"  %1 = frontend.elementwise relu %0 : {full}\n"
        f"  %2 = frontend.cast %1 : {full} -> {half}\n"
    )
    two = (
        f"{head} -> (Y: {half}, P: {full}) {{\n  {gemm}"
        f"  frontend.output %2, %0 : {half}, {full}\n}}"
    )
    turned = tensor("NM")
    across = (
        f"{head} -> (Y: {turned}) {{\n  {gemm}"
        f"  %3 = frontend.permute %2 perm [1, 0] : {half} -> {turned}\n"
        f"  frontend.output %3 : {turned}\n}}"
    )
    for text in (two, across):
        for arch in ARCHS:
            for sizes in ({"M": 40, "N": 136, "K": 24}, {"M": 9, "N": 5, "K": 7}):
                assert assert_tiles_agree(text, arch, sizes)


def rows_turned(batch: int, rows: int) -> str:
    """``nn.MultiheadAttention``'s first product: positions come before sequences, as it wants them,
    of what has them behind."""
    s = Sketch("g")
    x = s.permute(s.input("x", batch, rows, 40), 1, 0, 2)
    return module_text(s.done(y=s.linear(x, "w", 64, bias=True)))


@pytest.mark.parametrize(
    ("batch", "rows", "tiled"), [(8, 40, 40), (40, 8, 40), (40, 64, 40), (6, 9, 6), (31, 32, 32)]
)
def test_tiles_have_rows_along_an_axis_that_fills_them(batch: int, rows: int, tiled: int) -> None:
    """The latest in the output, but for one that does not fill half of a tile."""
    (kernel,) = regions(rows_turned(batch, rows)).ops
    assert isinstance(kernel, KernelOp)
    found = find_contraction(kernel)
    assert found.size(found.m).constant() == tiled


@pytest.mark.turns(2)
@pytest.mark.parametrize("arch", ARCHS)
def test_rows_that_are_turned_agree_and_spill_nothing(arch: str) -> None:
    text = rows_turned(3, 72)
    assert assert_tiles_agree(text, arch, {})
    result = nvrtc.compile_cuda(cuda_source(finished(tiles(regions(text), arch))), arch)
    assert all((info.spill_bytes, info.stack) == (0, 0) for info in result.kernels.values())
