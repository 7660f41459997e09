"""``torch.compile`` with polyc as its backend: programs, what is left, weights and sizes."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from polyc import PolycError  # noqa: E402
from polyc.test.support.root import ROOT  # noqa: E402
from polyc.tools.jit.torch_backend import Report, torch_backend, torch_reports  # noqa: E402


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.second = torch.nn.Linear(16, 4)

    def forward(self, x: Any) -> Any:
        return self.second(torch.nn.functional.gelu(self.norm(self.first(x)))).softmax(-1)


def compiled(model: Any, reports: list[Report], **how: Any) -> Any:
    return torch.compile(model, backend=torch_backend, options={"report": reports.append}, **how)


def close(a: Any, b: Any, few: float = 1e-5) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and torch.allclose(a, b, atol=few, rtol=few)


def test_a_model_is_one_program():
    net, x, reports = Net().eval(), torch.randn(3, 8), []
    assert close(compiled(net, reports)(x), net(x))
    (report,) = reports
    assert len(report.programs) == 1 and not report.left and report in torch_reports()
    assert "ops in 1 program of polyc, 0 with PyTorch" in str(report)


def test_what_is_not_there_stays_with_pytorch():
    class Mixed(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.relu(x @ x.T) + 1
            z = torch.special.bessel_j0(y)
            return (z * 2).sum(1), x.double().sum()

    reports: list[Report] = []
    x = torch.randn(4, 8)
    for got, wanted in zip(compiled(Mixed(), reports)(x), Mixed()(x), strict=True):
        assert close(got, wanted)
    (report,) = reports
    assert len(report.programs) == 2
    text = str(report)
    assert "aten.special_bessel_j0.default, 1 times, first at special_bessel_j0 (" in text
    assert "test_torch_backend.py" in text and "no converter" in text
    assert "torch.float64 is no element type" in text


def test_sizes_are_symbols_and_nothing_is_compiled_again():
    net, reports = Net().eval(), []
    model = compiled(net, reports, dynamic=True)
    for size in (3, 5, 17):
        x = torch.randn(size, 8)
        assert close(model(x), net(x))
    assert len(reports) == 1


def test_a_size_that_no_tensor_shows():
    def net(x: Any, n: int) -> Any:
        k = x.shape[0] * 2
        rest = torch.zeros(k, n), k, torch.special.bessel_j0(x.relu().sum(0)) + k
        return torch.arange(n) + x.sum(), x.reshape(-1, x.shape[1] * 2), *rest

    reports: list[Report] = []
    model = compiled(net, reports, dynamic=True)
    for n, rows in ((3, 4), (7, 6)):
        x = torch.randn(rows, 5)
        for got, wanted in zip(model(x, n), net(x, n), strict=True):
            assert close(torch.as_tensor(got), torch.as_tensor(wanted))
    assert len(reports) == 1 and "a dim is not in the signature" in str(reports[0])


def test_weights_are_those_of_the_call():
    net, x, reports = Net().eval(), torch.randn(3, 8), []
    model = compiled(net, reports)
    before = model(x)
    net.first.weight.mul_(2)
    assert close(model(x), net(x)) and not close(model(x), before)
    net.second.weight = torch.nn.Parameter(torch.randn(4, 16))
    assert close(model(x), net(x))


def test_weights_are_bound_once(monkeypatch: pytest.MonkeyPatch):
    backend = import_module("polyc.tools.jit.torch_parts")
    seen: list[Any] = []
    inner = backend.from_graph

    def counted(module: Any, name: str, held: Any) -> Any:
        seen.append(held)
        return inner(module, name, held)

    monkeypatch.setattr(backend, "from_graph", counted)
    net, reports = Net().eval(), []
    model = compiled(net, reports)
    for _ in range(3):
        model(torch.randn(3, 8))
    (held,) = seen
    assert len(held) == 6
    assert {one.data_ptr() for one in held.values()} == {p.data_ptr() for p in net.parameters()}


def test_half_precision_and_autocast():
    net, x = Net().eval(), torch.randn(3, 8)
    half = Net().eval().half()
    assert close(compiled(half, [])(x.half()), half(x.half()), 0.01)
    bf16 = Net().eval().bfloat16()
    assert close(compiled(bf16, [])(x.bfloat16()), bf16(x.bfloat16()), 0.03)
    with torch.autocast("cpu", torch.bfloat16):
        assert close(compiled(net, [])(x), net(x), 0.03)


def test_memory_lies_as_pytorch_has_it():
    """A result that is transposed in memory is so here, for ops that are left."""

    def net(x: Any) -> Any:
        return torch.special.bessel_j0((x + 1).transpose(0, 1)), (x * 2).permute(2, 0, 1)

    x = torch.randn(2, 3, 4)
    for got, wanted in zip(compiled(net, [])(x), net(x), strict=True):
        assert close(got, wanted) and got.stride() == wanted.stride()


def test_inputs_that_are_views_and_are_written_to():
    def net(x: Any, y: Any) -> Any:
        y.add_(1)
        return (x * 2 + y).relu()

    x, y = torch.randn(4, 3).T, torch.zeros(3, 4)
    again = y.clone()
    assert close(compiled(net, [])(x, y), net(x, again)) and close(y, again)


def test_what_is_trained_stays_with_pytorch():
    net, x, reports = Net(), torch.randn(3, 8), []
    with torch.enable_grad():
        model = compiled(net, reports)
        model(x).square().sum().backward()
        mine = net.first.weight.grad.clone()
        net.zero_grad()
        net(x).square().sum().backward()
    assert close(mine, net.first.weight.grad)
    assert reports[0].trained and "stays with PyTorch" in str(reports[0])


def test_an_option_that_there_is_not():
    model = torch.compile(Net(), backend=torch_backend, options={"graph": True})
    with pytest.raises(Exception, match="no option graph; there are arch, graphs, report, weights"):
        model(torch.randn(3, 8))
    with pytest.raises(PolycError):
        torch_backend(None, [], options={"graph": True})


def test_the_entry_point():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (text,) = data["project"]["entry-points"]["torch_dynamo_backends"].values()
    module, _, name = text.partition(":")
    assert getattr(import_module(module), name) is torch_backend


def test_pytorch_finds_it_by_name(tmp_path: Path):
    """Where the metadata of an installed polyc is on the path."""
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    (line,) = data["torch_dynamo_backends"].items()
    info = tmp_path / "polyc-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: polyc\nVersion: 0\n")
    (info / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{line[0]} = {line[1]}\n")
    code = (
        "import torch, polyc\n"
        "with torch.no_grad():\n"
        "    torch.compile(lambda x: x + 1, backend='polyc')(torch.ones(3))\n"
        "print(polyc.torch_reports()[0])\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT / ".typecheck")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.stdout == "graph 0: 1 op in 1 program of polyc, 0 with PyTorch\n", done.stderr
