"""The zoo's board: what was right stays right, what becomes right is told, and how it is made."""

# pyright: basic

from __future__ import annotations

import json
from typing import Any

import pytest

import polyc
from polyc.bench import zoo as bench
from polyc.test.support import zoo
from polyc.test.support.kernelbench import planned, regions
from polyc.test.support.root import ROOT
from polyc.test.support.zoo import Case, Outcome
from polyc.test.support.zoo_times import modelled

BOARD = ROOT / bench.BOARD

SAMPLE = 3
"""Cases of which each runs again: so many that are right, and all that PyTorch exports and polyc
does not say."""


def kept() -> dict[str, Any]:
    if not BOARD.is_file():
        pytest.skip("this tree comes without the results of benches")
    board: dict[str, Any] = json.loads(BOARD.read_text("utf-8"))
    for name in ("torch", "timm", "transformers"):
        own = pytest.importorskip(name).__version__
        if own != board[name]:
            pytest.skip(f"the board is of {name} {board[name]}, and {own} is installed")
    return board


def test_a_sample_of_the_board_is_as_it_was():
    rows = kept()["models"]
    cases = {one.name: one for one in zoo.cases()}
    right = [name for name, row in rows.items() if row["state"] == "right"]
    small = [name for name in right if name.startswith("transformers/")]
    step = max(1, len(small) // SAMPLE)
    others = [name for name, row in rows.items() if row["state"] in ("wrong", "missing", "broken")]
    for name in [*small[step // 2 :: step][:SAMPLE], *others[:SAMPLE]]:
        found = zoo.outcome(cases[name], plan=False)
        told = f"{name}: {found.why}; python bench/zoo.py --only {name} --again writes it anew"
        assert found.state == rows[name]["state"], told


def test_the_board_counts_its_models():
    board = kept()
    assert {*board["models"]} <= {one.name for one in zoo.cases()}
    assert sum(row["models"] for row in board["rows"]) == len(board["models"])
    assert {row["state"] for row in board["rows"]} <= {*zoo.STATES}


def test_a_case_on_the_board_is_asked_for_by_its_states():
    assert bench._states(None) == {"new"}
    assert bench._states({"state": "wrong"}) == {"wrong", "unmodelled"}
    assert bench._states({"state": "right", "modelled": {"us": 1}}) == {"right"}


def test_a_row_has_what_there_is_to_say():
    one = Outcome("right", regions=["rows warp", "rows warp"], modelled={"us": 3.0})
    assert bench._row(one) == {
        "state": "right",
        "modelled": {"us": 3.0},
        "regions": {"rows warp": 2},
    }
    assert bench._row(Outcome("missing", "no " * 400))["why"] == ("no " * 400)[: bench.MOST_TEXT]


def test_models_count_alike_in_the_mean():
    rows = [
        {"over": over, "loops": 0.5, "products in loops": 0.0, **({"slowest": "x"} if slow else {})}
        for over, slow in ((1.0, False), (4.0, True))
    ]
    found = bench._summary(rows)
    assert found["over, geometric mean"] == 2.0
    assert (found["models"], found["with a slow kernel"]) == (2, 1)
    assert bench._summary([]) == {}


def test_kernels_are_beside_their_rooflines():
    torch = pytest.importorskip("torch")

    class Two(torch.nn.Module):
        def forward(self, x: Any, w: Any) -> Any:
            return (x @ w).cumsum(0)

    given = (torch.zeros(256, 512).half(), torch.zeros(512, 256).half())
    job = planned(polyc.from_exported(torch.export.export(Two(), given, strict=False)))
    found = modelled(regions(job))
    assert found["kernels"] == 2 and found["over"] > 1
    assert found["loops"] == found["products in loops"] == 0
    assert modelled([]) == {}


def test_a_process_that_ends_is_an_outcome(monkeypatch: pytest.MonkeyPatch):
    def made(case: Case) -> Outcome:
        if case.name == "bad":
            raise SystemExit(3)
        return Outcome("right")

    cases = [Case("good", lambda: (None, (), {})), Case("bad", lambda: (None, (), {}))]
    found = {case.name: one for case, one in bench.outcomes(cases, made, 1, 60)}
    assert found["good"].state == "right"
    assert found["bad"].state == "broken" and "ended with 3" in found["bad"].why
