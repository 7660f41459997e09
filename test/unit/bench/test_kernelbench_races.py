"""Races of KernelBench's problems: errors, kernels made ahead, and what is kept of rows."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path
from typing import Any

import pytest

from polyc.bench import kernelbench_races as races
from polyc.test.support.kernelbench import Problem
from polyc.test.support.limits import TooLong, limited

torch: Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install polyc[torch]"
)

ROW: dict[str, Any] = {
    "case": "level1/1_A",
    "us": {"polyc": 2.0, "eager": 4.0, "torch.compile": 3.0},
    "over_eager": 2.0,
    "over_compile": 1.5,
    "error": 1e-3,
    "error_of_eager": 0.0,
}


def test_an_error_is_relative_to_the_largest_number():
    right = torch.tensor([1.0, -4.0, float("inf")])
    assert races.error_of(torch, torch.tensor([1.0, -3.0, float("inf")]), right) == 0.25
    assert races.error_of(torch, torch.tensor([1.0, -4.0, 2.0]), right) == float("inf")
    assert races.error_of(torch, right[:2], right) == float("inf")
    assert races.error_of(torch, torch.tensor([1, 2]), torch.tensor([1, 3])) == 0.5


def test_a_result_may_be_off_as_far_as_tf32_or_eager_pytorch_is():
    assert races.is_right(ROW)
    assert not races.is_right(ROW | {"error": 5e-3})
    assert races.is_right(ROW | {"error": 5e-3, "error_of_eager": 3e-3})
    assert not races.is_right(ROW | {"error": float("nan")})


def test_what_takes_too_long_is_stopped():
    with pytest.raises(TooLong), limited(0.01):
        time.sleep(5)
    with limited(0.01):
        pass
    time.sleep(0.02)  # Nothing comes after the end.


def test_kernels_are_made_of_inputs_without_memory(monkeypatch: pytest.MonkeyPatch):
    inductor = importlib.import_module("torch._inductor.compile_fx")
    made: list[int] = []

    def compile_fx(graph: Any, inputs: Any) -> Any:
        made.append(len(inputs))
        return graph

    monkeypatch.setattr(inductor, "compile_fx", compile_fx)
    hollow = torch.empty(4, 8)
    hollow.untyped_storage().resize_(0)
    with torch.no_grad():
        fast = races.ahead(torch, torch.nn.ReLU(), [hollow])
        assert made == [1]
        given = torch.randn(4, 8)
        assert torch.equal(fast(given), given.relu())
    assert made == [1], "compiled again for inputs that have memory"


def test_what_is_eager_between_graphs_waits_for_inputs_with_memory(
    monkeypatch: pytest.MonkeyPatch,
):
    inductor = importlib.import_module("torch._inductor.compile_fx")

    def compile_fx(graph: Any, inputs: Any) -> Any:
        return graph

    monkeypatch.setattr(inductor, "compile_fx", compile_fx)

    @torch._dynamo.disable
    def turned(x: Any) -> Any:
        return x.t()

    class Broken(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return turned(x).relu()

    hollow = torch.empty(4, 8)
    hollow.untyped_storage().resize_(0)
    with torch.no_grad():
        fast = races.ahead(torch, Broken(), [hollow])
        given = torch.randn(4, 8)
        assert torch.equal(fast(given), given.t().relu())


def test_rows_are_kept_as_they_come_and_not_raced_again(tmp_path: Path):
    args = argparse.Namespace(out=str(tmp_path / "race.json"), resume=True, seed=1)
    board = races.Board(args)
    board.keep(Problem(1, 1, Path("1_A.py")), "row", ROW)
    board.keep(Problem(1, 2, Path("2_B.py")), "failed", "ValueError: no")
    board.keep(Problem(1, 3, Path("3_C.py")), "left", "no memory beside what else runs")
    again = races.Board(args)
    assert again.done == {"level1/1_A", "level1/2_B"}, "what was left out is asked again"
    assert json.loads(Path(args.out).read_text())["left_out"] == board.left


def test_a_peer_that_no_graph_holds_is_named_and_the_others_are_timed(
    monkeypatch: pytest.MonkeyPatch,
):
    def graph_of(_: Any, racer: races.Contestant, copies: int) -> tuple[str, int, int]:
        if racer.name in refused:
            raise RuntimeError("a copy from the host")
        return racer.name, copies, 1

    refused = {"eager"}
    monkeypatch.setattr(races, "graph_of", graph_of)

    def is_broken(_: Any) -> bool:
        return False

    def time_batch(*_: Any) -> float:
        return 6.0

    monkeypatch.setattr(races, "is_broken", is_broken)
    monkeypatch.setattr(races.race, "time_batch", time_batch)

    def racers() -> list[races.Contestant]:
        names = ("polyc", "eager", "torch.compile")
        return [races.Contestant(name, str, name != "polyc") for name in names]

    found, untimed = races.measured(torch, racers(), 2, 3)
    assert [one.name for one in found] == ["polyc", "torch.compile"]
    assert found[0].milliseconds == [3.0] * 3
    assert untimed == {"eager": "a copy from the host"}
    refused = {"polyc"}
    with pytest.raises(RuntimeError, match="host"):
        races.measured(torch, racers(), 2, 3)
