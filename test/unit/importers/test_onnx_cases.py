"""The board of ONNX's node cases: what was right stays right, and what becomes right is told."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from polyc.importers import onnx_ops
from polyc.test.support import onnx_cases
from polyc.test.support.root import ROOT

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")

BOARD = ROOT / "bench" / "results" / "onnx_cases.json"


def test_the_board_is_as_it_was():
    if not BOARD.is_file():
        pytest.skip("this tree comes without the results of benches")
    kept = json.loads(BOARD.read_text("utf-8"))
    if kept["onnx"] != onnx.__version__:
        pytest.skip(f"the board is of onnx {kept['onnx']}, and {onnx.__version__} is installed")
    found = onnx_cases.board()
    before, now = onnx_cases.states(kept), onnx_cases.states(found)
    changed = {
        name: f"{before.get(name, 'right')} before, {now.get(name, 'right')} now"
        for name in sorted({*before, *now})
        # A case at the edge of its tolerance is right on one machine and wrong on another.
        if before.get(name, "right") != now.get(name, "right") and before.get(name) != "wrong"
    }
    told = "python bench/onnx_cases.py writes the board anew"
    assert not changed, told
    assert kept["cases"] == found["cases"]


def test_every_group_has_converters():
    from polyc.importers.registry import converters

    onnx_ops.register()
    modules = {one.__module__.rpartition(".")[2] for one in converters("onnx").values()}
    assert set(onnx_ops.GROUPS) <= modules


SAMPLE = 90
"""One of so many cases goes through all layers."""

FOUND = ("convtranspose_autopad_same", "simple_rnn_batchwise")
"""Cases that found faults of a layer."""

SIMULATED = (
    *(
        "relu",
        "matmul_2d",
        "softmax_axis_1",
        "maxpool_2d_default",
        "gather_0",
        "basic_conv_with_padding",
    ),
    *(
        "layer_normalization_2d_axis1",
        "attention_4d",
        "where_example",
        "scatter_elements_with_axis",
    ),
)
"""Cases whose kernels run in the simulator."""


def test_a_sample_agrees_at_every_layer():
    named = {case.name.removeprefix("test_"): case for case in onnx_cases.cases()}
    names = [*list(named)[::SAMPLE], *FOUND]
    right = [n for n in names if onnx_cases.outcome(named[n]).state not in ("wrong", "missing")]
    assert len(right) > len(names) * 3 // 4 and set(FOUND) <= set(right)
    for name in right:
        onnx_cases.lowered(named[name])


@pytest.mark.parametrize("name", SIMULATED)
def test_the_kernels_of_a_case_are_simulated(name: str):
    named = {case.name: case for case in onnx_cases.cases()}
    onnx_cases.lowered(named[f"test_{name}"], simulated=True)


def test_a_difference_is_seen():
    one = np.array([1.0, 2.0], dtype=np.float32)
    assert onnx_cases.unlike(one, one, 1e-3, 1e-7) is None
    assert onnx_cases.unlike(one * 1.002, one, 1e-3, 1e-7) == "2 of 2 numbers"
    assert "shape" in (onnx_cases.unlike(one[:1], one, 1e-3, 1e-7) or "")
    assert "type" in (onnx_cases.unlike(one.astype(np.int32), one, 1e-3, 1e-7) or "")
    assert onnx_cases.unlike(one, one.astype(np.float64), 1e-3, 1e-7) is None


def test_each_state_is_reached():
    named = {case.name: case for case in onnx_cases.cases()}
    states = {
        "test_relu": "right",
        "test_slice": "specialised",
        "test_cumsum_1d": "emulated",
        "test_nonmaxsuppression_two_classes": "missing",
    }
    assert {n: onnx_cases.outcome(named[n]).state for n in states} == states
