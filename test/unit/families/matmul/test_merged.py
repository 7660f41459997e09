"""Products whose rows are those of all matrices, though outputs have them last in each."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu import hardware as hw
from polyc.dialects.gpu.kernel import KernelOp
from polyc.dialects.plan.fields import MERGED_ROWS, TURNED_STORE
from polyc.dialects.region import KernelOp as RegionOp
from polyc.families.family import Fields, fitted
from polyc.families.matmul import merged
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import measured, schedule_fields, schedules
from polyc.families.space import Tiling
from polyc.lowering.gpu_to_cuda import cuda_units
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.playback import tile
from polyc.playback.gpu import simulate
from polyc.playback.gpu.simulate import gpu_module_of
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, inputs_of, regions
from polyc.test.support.gpu_text import only
from polyc.tools.play import play
from polyc.tools.registry import make_context

ARCH = "sm_90a"


def product(pixels: int, k: int, m: int, batch: int, bias: bool = False) -> Product:
    """Filters by the pixels of images, whose channels are last."""
    more = (((m, 1), "add"),) if bias else ()
    return Product((m, k), (batch, pixels, k), (batch, m, pixels), ("transpose_b",), more)


def built(text: str, plan: Tiling, way: str = MERGED_ROWS) -> ModuleOp:
    module = regions(text)
    region = only(module, RegionOp)
    gemm = find_contraction(region)
    variant = merged.variant_of(gemm, plan, way)
    fields = schedule_fields(gemm, ARCH, variant)
    block = region.parent_block()
    assert block is not None
    block.insert_op_after(fitted(region.sym_name.data, variant.name, fields, ()), region)
    build("region-to-gpu", ARCH).apply(make_context(), module)
    return module


CASES: dict[str, tuple[Product, Tiling] | tuple[Product, Tiling, str]] = {
    "images of 14 by 14": (product(196, 40, 72, 2, bias=True), Tiling(128, 96, 4)),
    "images of 7 by 7": (product(49, 72, 40, 4), Tiling(64, 64, 4, at_once=2)),
    "whole panels, by TMA": (product(64, 72, 136, 3), Tiling(128, 128, 4, persistent=True)),
    "vectors, by threads": (product(24, 64, 64, 5), Tiling(128, 64, 4, persistent=True)),
    "parts in a cluster": (product(36, 200, 64, 3), Tiling(64, 64, 4, parts=2)),
    "one matrix of a batch, along pixels": (
        Product((24, 40), (3, 40, 72), (3, 24, 72), more=(((24, 1), "add"),)),
        Tiling(128, 32, 4, persistent=True),
        TURNED_STORE,
    ),
    "one matrix of a batch, along k": (
        product(88, 72, 40, 2),
        Tiling(64, 64, 4, at_once=2),
        TURNED_STORE,
    ),
    "one matrix": (
        Product((24, 40), (40, 200), (24, 200)),
        Tiling(192, 32, 4, persistent=True, depth=32),
        TURNED_STORE,
    ),
}


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", CASES)
def test_the_kernels_agree_with_the_region(name: str) -> None:
    """In tiles and in threads, without a race; and they spill nothing."""
    own, plan, *way = CASES[name]
    module = regions(own.text)
    inputs = inputs_of(module, {})
    wanted = play(module, "g", inputs, {})
    assert wanted is not None
    found = gpu_module_of(built(own.text, plan, *way))
    kernel = only(found, KernelOp).sym_name.data
    np.testing.assert_array_equal(tile.run(found, inputs, {}, kernel)[0], wanted[0])
    threads = finished(found)
    ran = simulate(threads, inputs, {}, kernel, schedule="random", completion="random")
    ran.check()
    np.testing.assert_array_equal(ran.outputs[0], wanted[0])
    turned = [op.transpose is not None for op in threads.walk() if isinstance(op, hw.StmatrixOp)]
    assert turned and all(turned)
    for result in nvrtc.compile_each(cuda_units(threads), ARCH):
        spilled = {name: info.spill_bytes for name, info in result.kernels.items()}
        assert set(spilled.values()) <= {0}, (spilled, nvrtc.version())


@pytest.mark.parametrize(
    ("own", "why"),
    [
        (Product((40, 64), (3, 64, 48), (3, 40, 48)), "is not all of a tensor [i0, i2, r0]"),
        (replace(product(49, 64, 40, 3), out="f32"), "not of 16 bits"),
        (product(49, 60, 40, 3), "no multiples of 8"),
        (replace(product(49, 64, 40, 3), more=(((3, 40, 49), "add"),)), "along i0 or i2"),
        (Product((3, 40, 64), (3, 49, 64), (3, 40, 49), ("transpose_b",)), "another one in each"),
        (Product((40, 64), ("B", 49, 64), ("B", 40, 49), ("transpose_b",)), "are not known"),
    ],
    ids=["along pixels", "f32", "rows in no vectors", "a residual", "of each matrix", "open"],
)
def test_what_it_is_not_for(own: Product, why: str) -> None:
    gemm = find_contraction(only(regions(own.text), RegionOp))
    assert why in (merged.why_not(gemm) or ""), merged.why_not(gemm)
    assert not merged.ranked(gemm, ARCH)
    with pytest.raises(PolycError, match=r"way of matmul .merged_rows.*use .tiled"):
        merged.check(gemm, fitted("g", "own", merged_fields(), ()))


def merged_fields() -> Fields:
    gemm = find_contraction(only(regions(product(49, 64, 40, 3).text), RegionOp))
    return schedule_fields(gemm, ARCH, merged.variant_of(gemm, Tiling(64, 64, 4)))


def test_a_plan_stores_no_more_at_once_than_follow_each_other() -> None:
    gemm = find_contraction(only(regions(product(49, 64, 40, 3).text), RegionOp))
    wide = fitted("g", "own", {**merged_fields(), "vectorize": 8}, ())
    with pytest.raises(PolycError, match="stores 8 elements at once, and a matrix has 49 rows"):
        merged.check(gemm, wide)


def test_the_model_chooses_it_where_matrices_fill_tiles_badly() -> None:
    """49 rows of each take tiles of 64, those of 32 matrices whole ones of 128."""
    gemm = find_contraction(only(regions(product(49, 768, 3072, 32).text), RegionOp))
    (plan, *_) = schedules(gemm, ARCH)
    assert plan.merges_rows and plan.variant.data.startswith("merged_")
    seen = merged.merged(gemm)
    assert (seen.size(seen.m), seen.n, seen.batch) == (Dim.const(32 * 49), gemm.m, ())
    large = find_contraction(only(regions(product(4096, 320, 1024, 2).text), RegionOp))
    assert not any(plan.merges_rows for plan in schedules(large, ARCH))
    few = find_contraction(
        only(regions(Product((16, 16), (32, 16, 12544), (32, 16, 12544)).text), RegionOp)
    )
    assert not any(plan.turns_stores for plan in schedules(few, ARCH))
    assert any(plan.turns_stores for plan in measured(few, ARCH))
