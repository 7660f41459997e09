"""Calls in CUDA graphs: what is not captured, and why; the rest is on a GPU (test/gpu)."""

# pyright: basic

from __future__ import annotations

from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from polyc.tools.jit import torch_graphs  # noqa: E402
from polyc.tools.jit.torch_backend import Report  # noqa: E402
from polyc.tools.jit.torch_graphs import Captured  # noqa: E402
from polyc.tools.jit.torch_parts import OFTEN, Weights  # noqa: E402


def test_tensors_on_the_host_are_not_captured():
    report = Report("graph")
    called = Captured(lambda x, n: (x * n,), report, Weights([]))
    assert "nothing captured yet" in report.graphs
    for n in (2, 3, 3):
        (found,) = called(torch.ones(2), n)
        assert found.tolist() == [n, n]
    assert report.graphs.startswith("not captured: an input of shape [2] is on the host")
    assert report.graphs in str(report)


def test_a_call_without_tensors_is_not_captured():
    report = Report("graph")
    assert Captured(lambda n: (n + 1,), report, Weights([]))(3) == (4,)
    assert report.graphs == "not captured: no input is on a GPU"


def test_kinds_of_calls():
    """Sizes, strides, types and numbers tell calls apart; of weights what was last written."""
    weight, x = torch.ones(3), torch.ones(2, 3)

    def kind(*args: Any) -> Any:
        return torch_graphs._kind(torch, args, [0])

    first = kind(weight, x, 2)
    assert first == kind(weight, x + 1, 2) == kind(weight, torch.zeros(2, 3), 2)
    others = [x[:1], x.t().contiguous().t(), x.double(), x.expand(2, 3)[:, :2]]
    assert all(kind(weight, other, 2) != first for other in others)
    assert kind(weight, x, 3) != first and kind(weight.clone(), x, 2) != first
    weight.add_(1)
    assert kind(weight, x, 2) != first
    with torch.inference_mode():
        untold = torch.ones(3)
        assert kind(untold, x, 2) == kind(untold.add_(1), x, 2)


def test_weights_that_change_often_are_data():
    weights, one, two = Weights([0, 2]), torch.ones(2), torch.ones(2)
    for turn in range(OFTEN + 1):
        assert weights.numbers == [0, 2]
        weights.look([one, None, two])
        if turn < OFTEN:
            two.mul_(2)
    assert weights.numbers == [0] and weights.moving == {2}
