"""Products that store sums of parts: which tiles and parts are proposed, and for which sizes."""

from __future__ import annotations

import pytest

from polyc.dialects.common.arch import ARCHS
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.families.matmul.partial_sums import LEAST_STEPS, Parts, facts, parted
from polyc.families.matmul.recognise import find_contraction
from polyc.families.matmul.schedules import schedules
from polyc.families.matmul.split import tiles_of
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Size
from polyc.test.support.split_programs import gated, plain, run


def found(m: Size, n: Size, k: Size, arch: str) -> list[Parts]:
    gemm = find_contraction(only(run(plain(m, n, k), "region"), KernelOp))
    return parted(gemm, arch)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(128, 128, 65536), (256, 256, 16384), (1, 4096, 14336), (100, 1000, 2048)]
)
def test_known_sizes_fill_the_chip_once(m: int, n: int, k: int, arch: str) -> None:
    """No part has fewer steps than fill a ring, nor more than one step fewer than another."""
    gemm = find_contraction(only(run(plain(m, n, k), "region"), KernelOp))
    ways = parted(gemm, arch)
    assert ways and len(set(ways)) == len(ways)
    for way in ways:
        rows, columns = (size.constant() or 0 for size in tiles_of(gemm, way.rows, way.columns))
        assert rows * columns * way.parts <= ARCHS[arch].multiprocessors
        steps = -(-k // 64)
        most = -(-steps // way.parts)
        assert most >= LEAST_STEPS and most * (way.parts - 1) < steps


@pytest.mark.parametrize(
    ("m", "n", "k"), [(4096, 4096, 4096), (128, 128, 512), (1024, 1024, 1024), (64, 64, 64)]
)
def test_many_tiles_or_few_steps_have_none(m: int, n: int, k: int) -> None:
    assert found(m, n, k, "sm_90a") == []


def test_open_sizes_have_one_way() -> None:
    assert found("M", "N", "K", "sm_90a") == [Parts(64, 64, 32)]
    assert found("M", "N", "K", "sm_80") == [Parts(128, 128, 8)]
    # As many parts as the chip has room for of the tiles that are there at least.
    assert found("M", 4096, 14336, "sm_80") == [Parts(128, 128, 3)]
    assert found("M", 14336, 4096, "sm_80") == []


@pytest.mark.parametrize(
    ("sizes", "holds"),
    [
        ((128, 128, 16384), True),
        ((64, 256, 65536), True),
        ((64, 320, 65536), False),
        ((128, 128, 16320), False),
    ],
)
def test_conditions_are_few_tiles_and_deep_sums(sizes: tuple[int, int, int], holds: bool) -> None:
    gemm = find_contraction(only(run(plain(), "region"), KernelOp))
    given = dict(zip("MNK", sizes, strict=True))
    asked = facts(gemm, Parts(64, 64, 32), "sm_90a")
    assert all(fact.holds(given) for fact in asked) == holds


@pytest.mark.parametrize(("k", "loader"), [(8192, "tma"), (8190, "padded"), (8191, "padded")])
def test_the_space_brings_by_tma_what_sizes_allow(k: int, loader: str) -> None:
    """As it is, or from copies: one plan, which the model of time has ahead."""
    gemm = find_contraction(only(run(plain(40, 64, k), "region"), KernelOp))
    (plan,) = (plan for plan in schedules(gemm, "sm_90a") if plan.stores_sums)
    assert plan.loader.data == loader and not plan.flag("persistent")
    assert plan.kernel_names == [plan.kernel_name, f"{plan.kernel_name}_sum"]


@pytest.mark.parametrize("k", [8192, 8190, 8191])
def test_the_widest_loads_that_sizes_allow(k: int) -> None:
    gemm = find_contraction(only(run(plain(40, 64, k), "region"), KernelOp))
    ways = [plan for plan in schedules(gemm, "sm_80") if plan.stores_sums]
    copying = [plan for plan in ways if plan.loader.data == "padded"]
    widths = {plan.integer("vectorize") for plan in ways if plan not in copying}
    assert widths == {{8192: 8, 8190: 2, 8191: 1}[k]}
    # Copies bring wider ones to as many tiles and parts, where these are not the widest.
    assert len(copying) == (0 if k == 8192 else len(ways) // 2)
    for plan in ways:
        assert plan.shared_bytes() <= plan.target.shared_bytes and not plan.flag("persistent")
        assert plan.kernel_names == [plan.kernel_name, f"{plan.kernel_name}_sum"]


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_two_products_share_the_columns_of_a_tile(arch: str) -> None:
    gemm = find_contraction(only(run(gated(), "region"), KernelOp))
    found = [one for one in schedules(gemm, arch) if one.stores_sums]
    assert found and all(isinstance(plan, ScheduleOp) for plan in found)
    for plan in found:
        assert plan.tile_sizes[1] in (64, 128) and plan.integer("fragment_buffers") == 1
        assert plan.products == 2 and plan.accumulator_registers() <= 128
