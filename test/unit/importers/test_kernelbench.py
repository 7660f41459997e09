"""The board of KernelBench: what is on tensor cores stays there, and what becomes so is told.

It needs a checkout, which ``POLYC_KERNELBENCH`` names; its files are executed.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from polyc.test.support import kernelbench
from polyc.test.support.root import ROOT

torch: Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install polyc[torch]"
)

BOARD = ROOT / "bench" / "results" / "kernelbench.json"

SAMPLE = 8
"""One of so many problems is asked again; all of them take minutes."""

LAYERS = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, features, size):
        super().__init__()
        self.linear = nn.Linear(features, features)
        self.norm = nn.LayerNorm(features)
        self.size = size

    def forward(self, x):
        return self.norm(torch.relu(self.linear(x)) * self.size)

batch_size = 512
features = 1024 * 2

def get_inputs():
    return [torch.rand(batch_size, features)]

def get_init_inputs():
    return [features, 3]
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder like KernelBench's, with two problems: one that is said, and one that is not."""
    folder = tmp_path / "KernelBench" / "level2"
    folder.mkdir(parents=True)
    (folder / "2_Gemm_LayerNorm.py").write_text(LAYERS)
    (folder / "10_Eigenvalues.py").write_text(
        LAYERS.replace("self.norm(", "torch.linalg.eigvals(").replace("* self.size", "@ x.T")
    )
    return tmp_path


def test_a_problem_has_the_state_of_its_regions(checkout: Path) -> None:
    said, unsaid = kernelbench.problems(checkout)
    assert (said.name, unsaid.number) == ("level2/2_Gemm_LayerNorm", 10)
    found = kernelbench.outcome(said)
    assert found.state == "tensor cores" and found.regions[0] == "matmul wgmma"
    assert any(text.startswith("rows ") for text in found.regions)
    missing = kernelbench.outcome(unsaid)
    assert missing.state == "missing" and "aten.linalg_eig" in missing.why
    board = kernelbench.board({said.name: found, unsaid.name: missing})
    assert board["rows"][1] == {
        "level": 2,
        "problems": 2,
        "tensor cores": 1,
        "bandwidth": 0,
        "loops": 0,
        "missing": 1,
    }


def test_sizes_are_made_small(checkout: Path) -> None:
    said, _ = kernelbench.problems(checkout)
    module = kernelbench.module_of(said, kernelbench.small)
    assert (module.batch_size, module.features) == (16, 16)
    assert [kernelbench.small(n) for n in (3, 16, 24, 36, 34, 4095)] == [3, 16, 24, 16, 12, 11]
    assert [kernelbench.fourth(n) for n in (9, 12, 16, 512, 513)] == [9, 12, 4, 128, 513]


def test_products_may_be_tf32_and_settings_come_back() -> None:
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    with kernelbench.tf32(torch):
        assert matmul.allow_tf32
    assert matmul.allow_tf32 == before


def test_the_board_is_as_it_was() -> None:
    where = os.environ.get("POLYC_KERNELBENCH")
    if not where:
        pytest.skip("POLYC_KERNELBENCH names no checkout of KernelBench")
    if not BOARD.is_file():
        pytest.skip("this tree comes without the results of benches")
    kept = json.loads(BOARD.read_text("utf-8"))["problems"]
    asked = kernelbench.problems(Path(where))[::SAMPLE]
    assert asked
    found = {one.name: kernelbench.outcome(one) for one in asked}
    changed = {
        name: f"{kept[name]['state']} before, {one.state} now {one.why}"
        for name, one in found.items()
        if kept.get(name, {}).get("state") != one.state
    }
    assert not changed, "python bench/kernelbench.py --kernelbench … --dry writes the board anew"
