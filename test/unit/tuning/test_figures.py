"""The figures of a chip in a file, and what is refused of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from polyc.cost.device import H100, H200, device_of, modelled_on
from polyc.dialects.common.diagnostic import PolycError
from polyc.tuning.chip import Chip
from polyc.tuning.figures import Figures, figures_of

OWN = Figures("sm_90a", replace(H200, memory=4.0e12), Chip("NVIDIA H200", 132, 1980), ["memory"])


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "h200.json"
    path.write_text(OWN.as_text())
    found = figures_of(str(path), "sm_90a")
    assert found == replace(OWN, device=replace(OWN.device, name="NVIDIA H200"))
    with modelled_on("sm_90a", found.device):
        assert device_of("sm_90a").memory == 4.0e12 and device_of("sm_80").memory == 1.6e12
    assert device_of("sm_90a") is H200
    assert figures_of("H100", "sm_90a").device is H100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": 7}, "with format 1"),
        ({"arch": "sm_99"}, "is no architecture"),
        ({"device": {"name": 3}}, "names no device"),
        ({"figures": {"memory": 1.0}}, "has no multiprocessors"),
        ({"figures": {"speed": 1.0}}, "has a figure 'speed'"),
        ({"figures": {"memory": 0}}, "a number above 0"),
    ],
)
def test_what_is_broken_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    path = tmp_path / "h200.json"
    path.write_text(json.dumps({**json.loads(OWN.as_text()), **change}))
    with pytest.raises(PolycError, match="BadDevice") as caught:
        figures_of(str(path), "sm_90a")
    assert said in caught.value.message


def test_figures_of_another_architecture_are_refused() -> None:
    with pytest.raises(PolycError, match="BadDevice"):
        figures_of("A100", "sm_90a")
