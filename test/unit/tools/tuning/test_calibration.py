"""Figures through the model, of a chip that is as the model says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from polyc.cost.device import H100, H200
from polyc.cost.time import modelled
from polyc.dialects.common.diagnostic import PolycError
from polyc.dialects.plan import ScheduleOp
from polyc.dialects.region import KernelOp
from polyc.runtime import driver
from polyc.tools.steps import quiet
from polyc.tools.tuning import calibration
from polyc.tools.tuning.calibration import (
    Run,
    calibrated,
    figure_lines,
    fitted,
    seen,
    shipped_for,
)
from polyc.tuning.candidates import candidates


def test_shipped_figures_are_of_the_chip_that_the_driver_names() -> None:
    assert shipped_for("sm_90a", "NVIDIA H100 80GB HBM3") is H100
    assert shipped_for("sm_90a", "NVIDIA GH200 480GB") is H200
    assert shipped_for("sm_90a", "NVIDIA H800") is H200


OWN = {
    **{"memory": 3.1e12, "operations": 25e12, "cache": 8e12, "latency": 0.6e-6, "near": 0.3e-6},
    **{"launch": 1.7e-6, "tensor_peak": 8e14, "fill": 1.5e-6, "tensor_flops": 6.5e14},
}
"""The figures of a chip that is as the model says."""


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_of_a_chip_that_is_as_the_model_says_its_own_figures_are_found(
    arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = driver.Device(
        0, "NVIDIA H200", (9, 0), 132, 232448, 60 << 20, "13.0", 1980, 2048, 65536, 233472
    )
    monkeypatch.setattr(driver, "device", lambda index=0: gpu)
    own = OWN if arch == "sm_90a" else {**OWN, "tensor_peak": 3.3e14, "tensor_flops": 2.5e14}
    there = replace(shipped_for(arch, gpu.name), cache_bytes=0.8 * (60 << 20), **own)
    if arch == "sm_90a":
        there = replace(there, mma_sync=0.4)
    built: list[str] = []

    def seconds(
        self: object,
        job: object,
        region: KernelOp,
        plan: ScheduleOp,
        sizes: dict[str, int],
        held: bool,
        hot: bool,
    ) -> float:
        built.append(plan.variant.data)
        if "exp" in str(region):
            raise PolycError("CompilerFailed", "no")
        return modelled(region, plan, sizes, seen(there, held)).seconds

    monkeypatch.setattr(calibration._Kernels, "seconds", seconds)  # pyright: ignore[reportPrivateUsage]
    found, beside = calibrated(arch, quiet())
    wrong = {
        name: (getattr(found.device, name), getattr(there, name))
        for name in found.measured
        if getattr(found.device, name) != pytest.approx(getattr(there, name), rel=2e-2)
    }
    assert not wrong
    assert set(found.measured) == {*OWN, *(["mma_sync"] if arch == "sm_90a" else [])}
    assert found.device.cache_bytes == 0.8 * (60 << 20) and beside == {}
    lines = figure_lines(found, {"exponentials": there.operations / 2})
    assert any("memory" in line and "as shipped" not in line for line in lines)
    assert any("sums" in line and "as shipped" in line for line in lines)
    assert "in the time of 2 operations" in lines[-1]


def test_a_time_that_no_figure_near_the_shipped_one_gives_is_none() -> None:
    bench = calibration._Kernels("sm_90a")  # pyright: ignore[reportPrivateUsage]
    _, region = bench.job(calibration._graph("N", "N", ["neg"]))  # pyright: ignore[reportPrivateUsage]
    plan = candidates(region, "sm_90a", {"N": 1 << 24}, 1)[0].plan
    run = Run(region, plan, {"N": 1 << 24}, False, 0.0)
    assert fitted(H200, "memory", replace(run, seconds=1.0)) is None
    assert fitted(H200, "tensor_flops", replace(run, seconds=1e-4)) is None
    half = replace(run, seconds=2 * run.modelled(H200))
    assert H200.memory / 3 < (fitted(H200, "memory", half) or 0.0) < H200.memory / 2
