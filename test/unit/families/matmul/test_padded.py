"""Products of rows of any length: when operands are copied first, and what the kernels give."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.padded import copied
from polyc.families.matmul.recognise import find_contraction
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import (
    Product,
    assert_tiles_agree,
    inputs_of,
    regions,
    tiles,
)
from polyc.test.support.gpu_text import find, only
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCHS = ("sm_80", "sm_90a")

PRODUCTS = {
    "nn": Product(("M", "K"), ("K", "N"), ("M", "N")),
    "nt": Product(("M", "K"), ("N", "K"), ("M", "N"), ("transpose_b",), out="f32"),
    "tn": Product(("K", "M"), ("K", "N"), ("M", "N"), ("transpose_a",), ((("M", "N"), "add"),)),
    "batch": Product(("B", "M", "K"), ("K", "N"), ("B", "M", "N"), more=((("N",), "max"),)),
}

SIZES = ({"B": 2, "M": 5, "N": 71, "K": 133}, {"B": 2, "M": 131, "N": 64, "K": 258})
"""Rows of odd length; and rows of whole panels beside others, of which the first are not copied."""


@cache
def plans(m: str | int, n: str | int, k: str | int, arch: str = "sm_90a") -> list[ScheduleOp]:
    module = regions(Product((m, k), (k, n), (m, n)).text)
    build("plan-select", arch).apply(make_context(), module)
    return find(module, ScheduleOp)


@pytest.mark.parametrize(
    ("sizes", "tile"),
    [
        ((49, 905, 99), (32, 64, 32)),
        ((1025, 1025, 65), (32, 64, 32)),
        ((2049, 2049, 31), (64, 64, 32)),
        ((16385, 65, 65), (64, 64, 32)),
        (("M", 65, 65), (64, 64, 32)),
    ],
)
def test_few_tiles_of_single_elements_are_small(
    sizes: tuple[str | int, int, int], tile: tuple[int, int, int]
) -> None:
    """Where they are many, or nobody knows how many, larger ones read less."""
    plan = plans(*sizes)[-1]
    assert (plan.loader.data, plan.tile_sizes) == ("register", tile)
    assert plan.integer("stages") == (4 if tile[0] == 32 else 2)


def test_small_tiles_of_single_elements_compute_the_product() -> None:
    product = Product((37, 45), (45, 71), (37, 71), more=(((71,), "add"),))
    module = regions(product.text)
    build("plan-select", "sm_90a").apply(make_context(), module)
    (plan,) = find(module, ScheduleOp)
    assert plan.tile_sizes == (32, 64, 32)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    build("region-to-gpu", "sm_90a").apply(make_context(), module)
    kernels = finished(gpu_module_of(module))
    found = simulate(kernels, inputs, {}, schedule="random")
    found.check()
    np.testing.assert_allclose(
        np.float32(found.outputs[0]), np.float32(wanted[0]), rtol=2**-9, atol=2**-6
    )
    for result in nvrtc.compile_each(list(cuda_units(kernels)), "sm_90a"):
        assert {info.spill_bytes for info in result.kernels.values()} == {0}


@pytest.mark.parametrize(
    ("sizes", "loader"),
    [
        ((4095, 4095, 4095), "padded"),
        ((4097, 4104, 4100), "padded"),
        ((2048, 2048, 2044), "padded"),
        ((17, 4096, 4095), "padded"),
        ((129, 127, 129), "padded"),
        # A few steps over k are not worth two launches, pairs of elements less than single ones.
        ((129, 127, 65), "register"),
        ((254, 254, 254), "cp_async"),
        ((256, 256, 258), "padded"),
        ((4096, 4096, 4096), "tma"),
        ((1000, 1000, 1000), "tma"),
    ],
)
def test_operands_are_copied_where_that_is_worth_its_time(
    sizes: tuple[int, int, int], loader: str
) -> None:
    symbols = dict(zip("MNK", sizes, strict=True))
    found = (p for p in plans("M", "N", "K") if all(f.holds(symbols) for f in p.when.data))
    assert next(found).loader.data == loader


@pytest.mark.parametrize("arch", ARCHS)
def test_few_tiles_of_deep_sums_are_copied_and_parted(arch: str) -> None:
    """One plan has both, by the model of time; what it runs is in test_partial_sums."""
    (plan,) = plans(40, 64, 8191, arch)
    assert plan.loader.data == "padded" and plan.stores_sums
    kernels = tiles(regions(Product((40, 8191), (8191, 64), (40, 64)).text), arch)
    (variant,) = kernels.dispatch().variants()
    *_, first, second = (op.kernel_name for op in variant.launches())
    assert [first, second] == plan.kernel_names
    # The rows of the second operand are a whole panel.
    assert [op.fills_name for op in variant.launches() if op.fills] == ["g_padded_A"]


@pytest.mark.parametrize("arch", ARCHS)
def test_rows_of_whole_vectors_are_not_copied(arch: str) -> None:
    names = [p.variant.data for p in plans("M", 512, 256, arch)]
    assert names and "padded" not in names


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("promised", "others"), [(16, False), (2, True)])
def test_other_kernels_follow_where_addresses_are_not_promised(
    promised: int, others: bool, arch: str
) -> None:
    """What is not copied is brought by 16 bytes, from addresses that are multiples of that."""
    text = Product((1024, 1001), (1001, 1024), (1024, 1024)).text
    wanted = "!frontend.tensor<[1001, 1024], f16>"
    first, _, rest = text.partition(f"%B: {wanted}")
    module = regions(f"{first}%B: {wanted} {{align = {promised}}}{rest}")
    kernels = tiles(module, arch)
    names = [v.variant_name for v in kernels.dispatch().variants()]
    assert names[0].startswith("g_padded") and ("g_scalar" in names) == others


@pytest.mark.parametrize("arch", ARCHS)
def test_only_rows_that_may_be_no_whole_panels_are_copied(arch: str) -> None:
    module = regions(Product(("M", "K"), ("K", 512), ("M", 512)).text)
    build("plan-select", arch).apply(make_context(), module)
    gemm = find_contraction(only(module, KernelOp))
    found = {p.variant.data: p for p in find(module, ScheduleOp)}
    assert copied(gemm, found["padded"]) == [0] and copied(gemm, found["scalar"]) == []
    # Rows of the output are whole vectors then.
    assert found["padded"].integer("vectorize") == 8
    (variant,) = (
        v
        for v in tiles(regions(Product(("M", "K"), ("K", 512), ("M", 512)).text), arch)
        .dispatch()
        .variants()
        if v.variant_name == "g_padded"
    )
    assert list(variant.alignments) == [2, 16, 16]


@pytest.mark.turns(3)
@pytest.mark.parametrize(
    ("name", "arch"), [(name, ARCHS[i % 2]) for i, name in enumerate((*PRODUCTS, "nn"), 1)]
)
def test_the_kernels_agree_with_the_region(name: str, arch: str) -> None:
    """In tiles and in threads, at odd addresses too, without a race."""
    text = PRODUCTS[name].text
    module = regions(text)
    kernels = finished(tiles(module, arch))
    for given in SIZES:
        sizes = {k: v for k, v in given.items() if k in text}
        assert "g_padded" in assert_tiles_agree(text, arch, sizes)
        inputs = inputs_of(module, sizes)
        wanted = play(module, "g", inputs, sizes)
        assert wanted is not None
        found = simulate(kernels, inputs, sizes, "g_padded", schedule="random", alignment=4)
        found.check()
        np.testing.assert_array_equal(found.outputs[0], wanted[0])


def test_a_tensor_whose_rows_are_whole_panels_is_read_in_place() -> None:
    module = regions(PRODUCTS["nn"].text)
    kernels = finished(tiles(module, "sm_90a"))
    sizes = {"M": 3, "N": 64, "K": 258}
    inputs = inputs_of(module, sizes)
    names: dict[int, list[str]] = {}
    for alignment in (256, 2):
        found = simulate(kernels, inputs, sizes, "g_padded", alignment=alignment)
        found.check()
        names[alignment] = [name for name, _ in found.launches]
    assert names[256] == ["g_padded_A", "g_padded"]
    assert names[2] == ["g_padded_A", "g_padded_B", "g_padded"]


@pytest.mark.parametrize("arch", ARCHS)
def test_they_spill_nothing(arch: str) -> None:
    text = PRODUCTS["batch"].text
    kernels = finished(tiles(regions(text), arch))
    units = [unit for unit in cuda_units(kernels) if "_padded" in unit]
    assert units
    for result in nvrtc.compile_each(units, arch):
        found = {name: info.spill_bytes for name, info in result.kernels.items()}
        assert set(found.values()) == {0}, (found, nvrtc.version())


def test_other_regions_refuse_the_loader(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"variant": "tma", "loader": "padded"}', "utf-8")
    text = Path(__file__).parents[4] / "examples" / "conv_silu.mlir"
    with pytest.raises(PolycError) as refused:
        from polyc.tools.pipeline import Compilation

        job = Compilation.of_file(text, "sm_90a")
        job.plan = str(plan)
        job.run()
    assert "the padded loader copies the operands of a product of matrices" in str(refused.value)
