"""Products whose columns lie in rows that begin anywhere: k in phases, and what is copied."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.common.dim import Dim
from polyc.dialects.gpu.kernel import KernelOp as GpuKernelOp
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.plan.phased import phase, phases
from polyc.dialects.region import KernelOp
from polyc.families.matmul.phased import find_phases, is_worth
from polyc.families.matmul.recognise import find_contraction
from polyc.lowering.gpu_to_cuda import cuda_source
from polyc.lowering.region_to_gpu.phased import Phased
from polyc.passes.finish import finished
from polyc.passes.pipeline import build
from polyc.playback.gpu.simulate import simulate
from polyc.runtime import nvrtc
from polyc.test.support.gemm_programs import Product, inputs_of, regions, tiles
from polyc.test.support.gpu_text import find, only
from polyc.tools.play import play
from polyc.tools.registry import make_context

Sizes = tuple[str | int, str | int, str | int, str | int]


def product(sizes: Sizes, constant: bool = False, more: bool = False) -> str:
    """Weights [M, K] by images [B, K, N], and a number of each row and image."""
    b, m, k, n = sizes
    beside: Any = (((m, 1), "add"), ((b, m, n), "max")) if more else ()
    text = Product((m, k), (b, k, n), (b, m, n), more=beside).text
    weights = f"%A: !frontend.tensor<[{m}, {k}], f16>"
    assert weights in text
    return text.replace(weights, f'{weights} {{storage = "const_pool"}}') if constant else text


def planned(text: str) -> list[ScheduleOp]:
    module = regions(text)
    build("plan-select", "sm_90a").apply(make_context(), module)
    return find(module, ScheduleOp)


def test_rows_are_one_where_they_begin_at_16_bytes_together() -> None:
    assert [phases(row) for row in (8, 12, 196, 98, 49, 1, 64)] == [1, 2, 2, 4, 8, 8, 1]
    assert [phase(Dim.const(k), 8).constant() for k in (512, 520, 160)] == [64, 128, 64]


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        (("B", "M", 256, 196), 2),
        ((3, 64, 520, 49), 8),
        (("B", 64, 24, 98), 4),
        # Rows that TMA takes, or no whole number of phases, or sizes that are open.
        ((2, 64, 256, 784), None),
        ((2, 64, 36, 49), None),
        ((2, 64, "K", 49), None),
        ((2, 64, 64, "N"), None),
    ],
)
def test_phases_are_of_known_rows_that_begin_anywhere(sizes: Sizes, count: int | None) -> None:
    found = find_phases(find_contraction(only(regions(product(sizes)), KernelOp)))
    assert (None if found is None else found.count) == count


@pytest.mark.parametrize(
    ("sizes", "constant", "loader"),
    [
        ((32, 256, 1024, 196), False, "phased"),
        # The images are smaller than the weights, but these may be constants.
        ((1, 2048, 512, 49), False, "padded"),
        ((1, 2048, 512, 49), True, "phased"),
        # A few steps are not worth a launch, if that runs every time.
        ((2, 64, 96, 196), False, "cp_async"),
        ((2, 64, 96, 196), True, "phased"),
        (("B", 64, 256, 196), False, "phased"),
        (("B", 512, 256, 196), False, "padded"),
        ((32, 256, 1024, 784), True, "tma"),
    ],
)
def test_what_is_copied_is_the_smaller_operand(sizes: Sizes, constant: bool, loader: str) -> None:
    assert planned(product(sizes, constant))[0].loader.data == loader


def test_a_copy_of_constants_takes_no_time() -> None:
    """The model leaves it out of a plan's time, and of what speaks for a plan."""
    sizes: Sizes = (32, 256, 1024, 196)
    module = regions(product(sizes))
    kernel = only(module, KernelOp)
    gemm = find_contraction(kernel)
    found = find_phases(gemm)
    assert found is not None and is_worth(gemm, found)
    (plan, *_) = planned(product(sizes))
    constant = only(regions(product(sizes, constant=True)), KernelOp)
    each, once = (modelled(one, plan, {}) for one in (kernel, constant))
    assert each.launch > once.launch and each.tensor == once.tensor


def test_a_copy_has_a_row_of_all_phases_and_one_kernel_for_all_schedules() -> None:
    gemm = find_contraction(only(regions(product(("B", "M", 520, 49))), KernelOp))
    found = find_phases(gemm)
    assert found is not None
    copy = Phased.of(gemm, found)
    assert (copy.name, copy.space.name, copy.space.shared) == ("g_phased_A", "g_phased_A", True)
    assert [str(size) for size in copy.kind.dims] == ["M", "1024"]
    (plan, *_) = planned(product(("B", 64, 520, 49)))
    launch = copy.launch(plan.when, [2, 16, 2])
    assert [str(size) for size in launch.grid.data] == ["(M + 15) floordiv 16", "8", "2"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"tile": [128, 128, 48], "consumers": 2}, "steps of 48, and they are whole panels of 64"),
        ({"mma": "mma.sync", "warp_tile": [32, 64], "consumers": 1}, "feeds wgmma with 16 bits"),
    ],
)
def test_a_plan_keeps_to_what_phases_are(fields: Mapping[str, Any], why: str) -> None:
    text = product((32, 256, 1024, 196))
    alone = {"cluster": [1, 1], "multicast": False, "warp_tile": [64, 128], "stages": 4}
    given = {"loader": "phased", "vectorize": 4, **alone, **fields}
    with pytest.raises(PolycError, match=why):
        _select(text, given)


def test_a_plan_of_phases_needs_a_product_that_has_them() -> None:
    with pytest.raises(PolycError, match=r"loader \(phased\).*begin at no multiple of 16 bytes"):
        _select(product((32, 256, 1024, 784)), {"loader": "phased"})


def _select(text: str, fields: Mapping[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(fields, file)
        file.flush()
        build("plan-select", "sm_90a", file.name).apply(make_context(), regions(text))


KERNELS: Mapping[str, Sizes] = {
    "two phases": (2, 72, 48, 100),
    "four": ("B", 40, 24, 14),
    "eight": (3, 64, 136, 49),
}


@pytest.mark.turns(3)
@pytest.mark.parametrize("name", KERNELS)
def test_the_kernels_agree_with_the_region(name: str) -> None:
    """In the simulator, without a race; columns beyond a row are the next one's, and NaN there."""
    sizes, given = KERNELS[name], {"B": 2} if "B" in KERNELS[name] else {}
    text = product(sizes, constant=True, more=True)
    module = regions(text)
    gpu = finished(tiles(module, "sm_90a"))
    names = [kernel.sym_name.data for kernel in find(gpu, GpuKernelOp)]
    assert "g_phased_A" in names
    inputs = inputs_of(module, given)
    (variant, *_) = gpu.dispatch().variants()
    found = simulate(gpu, inputs, given, variant.variant_name, "random", seed=1)
    found.check()
    wanted = play(module, "g", inputs, given)
    assert wanted is not None
    np.testing.assert_array_equal(np.asarray(found.outputs[0]), np.asarray(wanted[0]))
    result = nvrtc.compile_cuda(cuda_source(gpu), "sm_90a")
    assert not result.warnings()
    for kernel, info in result.kernels.items():
        assert (info.spill_bytes, info.stack) == (0, 0), kernel
