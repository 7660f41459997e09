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
            z = torch.special.airy_ai(y)
            return (z * 2).sum(1), x.double().sum()

    reports: list[Report] = []
    x = torch.randn(4, 8)
    for got, wanted in zip(compiled(Mixed(), reports)(x), Mixed()(x), strict=True):
        assert close(got, wanted)
    (report,) = reports
    assert len(report.programs) == 2
    text = str(report)
    assert "aten.special_airy_ai.default, 1 times, first at special_airy_ai (" in text
    assert "test_torch_backend.py" in text and "no converter" in text
    assert "torch.float64 is no element type" in text


def test_sizes_are_symbols_and_nothing_is_compiled_again(monkeypatch: pytest.MonkeyPatch):
    seen = seen_weights(monkeypatch)
    net, reports = Net().eval(), []
    model = compiled(net, reports, dynamic=True)
    for size in (3, 5, 17):
        x = torch.randn(size, 8)
        assert close(model(x), net(x))
    assert len(reports) == 1 and len(seen) == 1


def test_a_size_that_no_tensor_shows():
    def net(x: Any, n: int) -> Any:
        k = x.shape[0] * 2
        rest = torch.zeros(k, n), k, torch.special.airy_ai(x.relu().sum(0)) + k
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
        return torch.special.airy_ai((x + 1).transpose(0, 1)), (x * 2).permute(2, 0, 1)

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


def test_options_are_checked():
    for wrong in ({"graphs": "yes"}, {"weights": "twice"}, {"report": 3}, {"arch": "sm_1"}):
        with pytest.raises(PolycError):
            torch_backend(None, [], options=wrong)


def test_a_program_that_cannot_be_lowered_runs_in_pytorch(monkeypatch: pytest.MonkeyPatch):
    parts = import_module("polyc.tools.jit.torch_parts")

    def refused(*_: Any, **__: Any) -> None:
        raise PolycError("UnsupportedPlan", "there is no plan for it")

    monkeypatch.setattr(parts, "compiled", refused)
    net, x, reports = Net().eval(), torch.randn(3, 8), []
    model = compiled(net, reports)
    assert all(close(model(x), net(x)) for _ in range(2))
    # Told when it is made, and once more when it is given back.
    assert len(reports) == 2 and reports[0] is reports[1]
    assert "program 0 runs in PyTorch: there is no plan for it" in str(reports[0])


def test_sizes_that_no_kernel_takes_run_in_pytorch(monkeypatch: pytest.MonkeyPatch):
    parts = import_module("polyc.tools.jit.torch_parts")

    def refused(*_: Any) -> None:
        raise PolycError("NoVariant", "no kernel takes M = 1")

    net, x, reports = Net().eval(), torch.randn(3, 8), []
    model = compiled(net, reports)
    model(x)
    monkeypatch.setattr(parts._Made, "run", refused)
    assert close(model(x), net(x)) and "no kernel takes M = 1" in str(reports[-1])


def seen_weights(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The tensors that parts hold, each time that one is made."""
    parts = import_module("polyc.tools.jit.torch_parts")
    seen: list[Any] = []
    inner = parts.from_graph

    def counted(module: Any, name: str, held: Any) -> Any:
        found = inner(module, name, held)
        seen.append(found)
        return found

    monkeypatch.setattr(parts, "from_graph", counted)
    return seen


def test_weights_are_used_as_they_lie(monkeypatch: pytest.MonkeyPatch):
    """Of no layout of a weight a copy is made, nor of an input's or a result's."""

    class Lying(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.across = torch.nn.Parameter(torch.randn(16, 4).t())
            self.conv = torch.nn.Conv2d(4, 6, 3)
            self.tied = self.conv.weight

        def forward(self, x: Any, image: Any) -> Any:
            return x @ self.across, self.conv(image) + self.tied.sum()

    seen = seen_weights(monkeypatch)
    net = Lying().to(memory_format=torch.channels_last)
    x = torch.randn(3, 4)
    image = torch.randn(2, 4, 5, 5).contiguous(memory_format=torch.channels_last)
    model = compiled(net, [])
    for got, wanted in zip(model(x, image), net(x, image), strict=True):
        assert close(got, wanted) and got.stride() == wanted.stride()
    places = {p.data_ptr() for p in net.parameters()}
    found = [one for part in seen for one in part.imported.parameters.values()]
    assert {one.data_ptr() for one in found} == places and len(found) == 3
    orders = [order for part in seen for order in part.orders if order is not None]
    assert orders == [[0, 2, 3, 1]] * 2  # the image, and what is made of it


def test_a_weight_that_changes_often_is_data(monkeypatch: pytest.MonkeyPatch):
    seen = seen_weights(monkeypatch)
    net, x, reports = Net().eval(), torch.randn(3, 8), []
    model = compiled(net, reports)
    for _ in range(7):
        net.first.weight.add_(0.1)
        assert close(model(x), net(x))
    # It was a parameter at first, and is an input since.
    assert [len(part.imported.parameters) for part in seen] == [6, 5]


def test_a_buffer_that_the_model_writes_to_is_data(monkeypatch: pytest.MonkeyPatch):
    class Cache(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(8, 4))
            self.weight = torch.nn.Parameter(torch.randn(4, 4))

        def forward(self, x: Any, at: Any) -> Any:
            self.kept.index_put_((at,), x @ self.weight)
            return self.kept.sum(0), self.kept[:2] * 2

    seen = seen_weights(monkeypatch)
    net, other = Cache(), Cache()
    other.load_state_dict(net.state_dict())
    model, reports = compiled(net, []), []
    for turn in range(4):
        x, at = torch.randn(2, 4), torch.tensor([turn, 7 - turn])
        for got, wanted in zip(model(x, at), other(x, at), strict=True):
            assert close(got, wanted)
        assert close(net.kept, other.kept)
    (part,) = seen
    assert [tuple(one.shape) for one in part.imported.parameters.values()] == [(4, 4)]
    assert not reports


def test_weights_of_inference_mode_are_arguments(monkeypatch: pytest.MonkeyPatch):
    seen = seen_weights(monkeypatch)
    x = torch.randn(3, 8)
    with torch.inference_mode():
        net = Net().eval()
        model = compiled(net, [])
        assert close(model(x), net(x))
        net.first.weight.mul_(2)  # such tensors do not tell that they were written to
        assert close(model(x), net(x))
    assert [len(part.imported.parameters) for part in seen] == [0]


def test_what_is_made_of_weights_is_made_anew():
    """Of weights that go through ops: a norm that is folded, one of lengths, tables, quantised."""

    class Made(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.normed = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(8, 6))
            self.weight = torch.nn.Parameter(torch.randn(5, 6))
            self.scale = torch.nn.Parameter(torch.rand(5, 1))
            self.table = torch.nn.Parameter(torch.randn(20, 6))
            self.register_buffer("packed", torch.randint(-128, 127, (6, 6), dtype=torch.int8))
            self.conv, self.norm = torch.nn.Conv1d(5, 5, 1), torch.nn.BatchNorm1d(5)

        def forward(self, x: Any) -> Any:
            y = self.normed(x) @ (self.packed.float() * 0.01) + self.table[3:4]
            return self.norm(self.conv((y @ (self.weight * self.scale).T)[..., None]))

    net, x = Made().eval(), torch.randn(3, 8)
    model = compiled(net, [])
    exported = import_module("polyc").from_exported(torch.export.export(net, (x,)))
    program = import_module("polyc").compile(exported, device="cpu")
    assert close(program(x), net(x))
    named = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    for name, one in named.items():
        if one.ndim == 0:
            continue
        with torch.no_grad():
            one.copy_(one // 2 if one.dtype == torch.int8 else one * 0.5 + 0.1)
        assert close(model(x), net(x), 1e-4), name
    # An exported program keeps what it was given until it is told.
    assert not close(program(x), net(x))
    program.refresh()
    assert close(program(x), net(x), 1e-4)


def test_graphs_are_of_a_gpu():
    net, x, reports = Net().eval(), torch.randn(3, 8), []
    model = torch.compile(
        net, backend=torch_backend, options={"graphs": True, "report": reports.append}
    )
    for _ in range(3):
        assert close(model(x), net(x))
    assert "CUDA graphs: not captured: an input of shape" in str(reports[0])
    assert "is on the host" in reports[0].graphs


def test_numbers_kwargs_and_results_of_any_shape():
    def net(x: Any, *, n: int, scale: float = 2.0, flag: bool = True, more: Any = None) -> Any:
        y = {"a": x * n, "none": more, "both": (x.sum() * scale, [n, x.shape[0]])}
        return y if flag else x

    model = compiled(net, [])
    for n in (2, 3, 4):
        for flag in (True, False):
            x = torch.randn(3, 4)
            found, wanted = model(x, n=n, flag=flag), net(x, n=n, flag=flag)
            if not flag:
                assert found is x
                continue
            assert close(found["a"], wanted["a"]) and found["none"] is None
            assert close(found["both"][0], wanted["both"][0])
            assert found["both"][1] == wanted["both"][1]


def test_empty_tensors_and_programs_without_inputs():
    table = torch.nn.Parameter(torch.randn(5, 3))

    def net(x: Any) -> Any:
        return x * 2, x.sum(0), (table * 2).relu(), torch.arange(3) + 1

    model = compiled(net, [])
    for rows in (4, 0, 1):
        x = torch.randn(rows, 3)
        for got, wanted in zip(model(x), net(x), strict=True):
            assert close(got, wanted)


def test_a_training_graph_with_frozen_weights_and_an_input_that_asks_for_a_gradient():
    net, reports = Net().eval(), []
    model = compiled(net.requires_grad_(False), reports)
    with torch.enable_grad():
        x = torch.randn(3, 8)
        assert close(model(x), net(x))
        assert not reports[-1].trained  # nothing asks for a gradient
        x.requires_grad_()
        model(x).sum().backward()
        assert reports[-1].trained and x.grad is not None
    with torch.no_grad():
        assert close(model(x), net(x))


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
