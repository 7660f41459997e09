"""KernelBench's problems by the model of time: floors, rows, and how they are held to races."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from polyc.bench import kernelbench_modelled as modelled
from polyc.cost.device import H100
from polyc.test.support.kernelbench import Problem

torch: Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install polyc[torch]"
)

LAYER = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = nn.Linear(features, features, bias=False)

    def forward(self, x, times):
        return torch.softmax(self.linear(x) * times, dim=1)

def get_inputs():
    return [torch.rand(512, 1024), 2.0]

def get_init_inputs():
    return [1024]
"""


def problem(folder: Path, text: str) -> Problem:
    path = folder / "7_Layer.py"
    path.write_text(text)
    return Problem(2, 7, path)


def test_a_row_has_a_floor_and_the_times_of_its_kernels(tmp_path: Path) -> None:
    row = modelled.row_of(problem(tmp_path, LAYER))
    assert row["case"] == "level2/7_Layer" and "why" not in row
    assert row["flops"] == 2 * 512 * 1024 * 1024
    assert row["bytes"] == 4 * (512 * 1024 * 2 + 1024 * 1024)
    least = max(row["bytes"] / H100.memory, row["flops"] / modelled.TENSOR)
    assert row["floor_us"] == pytest.approx(least * 1e6, abs=0.01)
    assert row["us"] == pytest.approx(sum(one["us"] for one in row["kernels"]), abs=0.02)
    assert [one["family"] for one in row["kernels"]].count("matmul") == 1
    assert row["over_floor"] > 1 and row["in_loops"] == 0
    assert "level2/7_Layer" in modelled.line(row) and "2 kernels" in modelled.line(row)


def test_what_cannot_be_said_is_a_row_with_the_reason(tmp_path: Path) -> None:
    row = modelled.row_of(problem(tmp_path, LAYER.replace("torch.softmax", "torch.nothing")))
    assert "has no attribute 'nothing'" in row["why"]
    assert row["why"] in modelled.line(row)


def test_races_are_joined_and_the_order_is_held_to_them(tmp_path: Path) -> None:
    """The latest race of a problem counts; what is far from its floor and slow is found."""
    for stamp, ours in (("1", 9.0), ("2", 4.0)):
        row = {"case": "level1/1_A", "us": {"polyc": ours}, "over_compile": 2.0 / ours}
        path = tmp_path / f"kernelbench-sm_90-{stamp}.json"
        path.write_text(json.dumps({"rows": [row]}))
    races = modelled.raced(tmp_path)
    assert races["level1/1_A"]["us"] == {"polyc": 4.0}
    rows: list[dict[str, Any]] = [
        {"case": f"level1/{name}", "us": 2.0, "over_floor": far}
        for name, far in (("1_A", 5.0), ("2_B", 1.0), ("3_C", 1.1), ("4_D", 1.2))
    ]
    for other in ("2_B", "3_C", "4_D"):
        races[f"level1/{other}"] = {"us": {"polyc": 2.0}, "over_compile": 1.0}
    modelled.joined(rows, races)
    assert rows[0]["raced_us"] == 4.0 and rows[0]["raced_over_compile"] == 0.5
    first, order, found = modelled.calibration(rows)
    assert "4 problems, geometric mean 1.19" in first and "all in 1.00 to 2.00" in first
    assert "1 of 1 slow ones" in found and "rank correlation" in order
    assert list(modelled.calibration(rows[:1])) == ["no two problems were raced"]


def test_ranks_are_places_in_order() -> None:
    assert modelled.ranks([3.0, 1.0, 2.0]) == [2.0, 0.0, 1.0]
