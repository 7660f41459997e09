"""Modules that nobody named: they stay right at playback, and the board has all of them."""

# pyright: basic

from __future__ import annotations

import json
from typing import Any

import pytest

from polyc.dialects.region import KernelOp
from polyc.test.support import kernelbench, zoo
from polyc.test.support.root import ROOT
from polyc.test.support.zoo import Outcome

torch: Any = pytest.importorskip(
    "torch", reason="PyTorch is not installed: pip install polyc[torch]"
)

from polyc.bench import novel as bench  # noqa: E402
from polyc.test.support.novel import (  # noqa: E402
    FIELDS,
    Novel,
    corpus,
    registry,
)
from polyc.test.support.novel.finance import BinomialTree  # noqa: E402

BOARD = ROOT / bench.BOARD

NAMES = [one.name for one in corpus()]


@pytest.mark.turns(12)
@pytest.mark.parametrize("name", NAMES)
def test_a_module_is_right_at_playback(name: str) -> None:
    """At its small size, beside PyTorch in f64."""
    found = zoo.outcome(Novel(name).case(), plan=False)
    assert found.state == "right", found.why


def test_a_part_of_a_value_is_not_stored_as_all_of_it() -> None:
    """Each step of a tree has an element less: a kernel that reads a state's first ones, at the
    points where it has others, does not store that state."""
    model, inputs = BinomialTree(57, 20), BinomialTree.inputs(57, 20)
    job = kernelbench.planned(kernelbench.imported(model, inputs), "region")
    job.module.verify()
    kernels = [op for op in job.module.walk() if isinstance(op, KernelOp)]
    for kernel in kernels:
        assert {out.shape for out in kernel.outs} == {kernel.outs.data[0].shape}


def test_every_field_has_modules_of_two_sizes() -> None:
    assert len(NAMES) > 300 and len(FIELDS) == 17
    for one in corpus():
        small, real = (one.module(smaller) for smaller in (True, None))
        assert small.Model is real.Model
        assert small.get_init_inputs() != real.get_init_inputs(), one.name


def test_a_name_is_given_once() -> None:
    with pytest.raises(ValueError, match="two modules are called"):
        registry.novel(NAMES[0], (1,), (2,))(object)


def test_the_board_has_the_corpus() -> None:
    if not BOARD.is_file():
        pytest.skip("this tree comes without the results of benches")
    board = json.loads(BOARD.read_text("utf-8"))
    assert set(board["rows"]) == set(NAMES)
    assert sum(board["states"].values()) == board["modules"] == len(NAMES)
    assert set(board["states"]) == {"right"}


def test_a_row_has_what_the_model_says_or_why_it_does_not() -> None:
    kernels = [{"kernel": "a", "us": 2.0}, {"kernel": "b", "us": 1.0}]
    said = {"us": 3.0, "floor_us": 1.5, "over_floor": 2.0, "in_loops": 0.0, "kernels": kernels}
    said |= {"products_in_loops": 0.0, "seconds_of_import": 0.1, "seconds_of_plans": 0.2}
    row = bench.row_of(Outcome("right", modelled=said))
    assert row["state"] == "right" and row["kernels"] == 2 and row["slowest"] == kernels
    assert "2.00x" in bench.line("x", row) and "a 2, b 1" in bench.line("x", row)
    failed = bench.row_of(Outcome("right", modelled={"why": "no plan"}))
    assert failed == {"state": "unplanned", "why": "no plan"}
    whole = bench.board({"x": row, "y": failed})
    assert whole["states"] == {"right": 1, "unplanned": 1}
    assert whole["over floor, geometric mean"] == 2.0
