"""Figures from slopes, with times of the test's own; the kernels are built for both chips."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from polyc.cost.device import H100, H200
from polyc.dialects.common.diagnostic import PolycError
from polyc.runtime import driver
from polyc.tools.steps import quiet
from polyc.tools.tuning import calibration
from polyc.tools.tuning.calibration import calibrated, figure_lines, shipped_for, slope
from polyc.tuning.candidates import laid
from polyc.tuning.regions import facts


def test_a_slope_is_the_rate_without_what_both_do() -> None:
    assert slope((10.0, 3.0), (30.0, 7.0)) == (5.0, 1.0)
    assert slope((10.0, 3.0), (30.0, 3.0))[0] == 0.0


def test_shipped_figures_are_of_the_chip_that_the_driver_names() -> None:
    assert shipped_for("sm_90a", "NVIDIA H100 80GB HBM3") is H100
    assert shipped_for("sm_90a", "NVIDIA GH200 480GB") is H200
    assert shipped_for("sm_90a", "NVIDIA H800") is H200


@pytest.mark.parametrize("arch", ["sm_90a", "sm_80"])
def test_all_figures_are_measured_and_a_failure_keeps_the_shipped_one(
    arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = driver.Device(
        0, "NVIDIA H200", (9, 0), 132, 232448, 60 << 20, "13.0", 1980, 2048, 65536, 233472
    )
    monkeypatch.setattr(driver, "device", lambda index=0: gpu)

    def seconds(
        self: Any,
        text: str,
        sizes: dict[str, int],
        fields: Mapping[str, object] | None = None,
        rotate: bool = True,
    ) -> float:
        if fields is not None:
            laid(self.job(text)[1], arch, fields, facts(sizes), "given")
        elif text.count("elementwise") < 2:
            self.job(text)
        if "exp" in text:
            raise PolycError("CompilerFailed", "no")
        flops = 2.0 * sizes["M"] * sizes["N"] * sizes["K"] if "K" in sizes else 0.0
        work = sizes.get("N", 0) * (text.count("elementwise mul") or 1)
        return 3e-6 + (flops / 5e14 if flops else work / 1e12)

    monkeypatch.setattr(calibration._Kernels, "seconds", seconds)  # pyright: ignore[reportPrivateUsage]
    found, beside = calibrated(arch, quiet())
    shipped = shipped_for(arch, "NVIDIA H200")
    assert found.device.tensor_flops == 5e14 and found.device.memory == 8e12
    assert found.device.operations == 1e12 and found.device.cache_bytes == 0.8 * (60 << 20)
    assert found.device.fill == pytest.approx(3e-6 - found.device.launch, rel=1e-3)
    assert found.device.sums == shipped.sums and "sums" not in found.measured
    assert beside == {}
    assert ("mma_sync" in found.measured) == (arch == "sm_90a")
    lines = figure_lines(found, {"exponentials": 5e11})
    assert any("memory" in line and "as shipped" not in line for line in lines)
    assert any("sums" in line and "as shipped" in line for line in lines)
    assert "in the time of 2 operations" in lines[-1]
