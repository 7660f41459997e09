"""``torch.compile`` with polyc on a GPU: graphs, memory, streams, sizes, weights that move."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import copy
import gc
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from polyc.runtime import driver  # noqa: E402
from polyc.runtime.torch_workspaces import TorchArenas  # noqa: E402
from polyc.test.support.random_torch import Scaled, model_of  # noqa: E402
from polyc.tools.jit.torch_backend import Report, torch_backend  # noqa: E402
from polyc.tools.jit.torch_graphs import MOST  # noqa: E402

F: Any = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def mlp(width: int = 256, dtype: Any = None) -> Any:
    return torch.nn.Sequential(
        torch.nn.Linear(width, 2 * width),
        torch.nn.LayerNorm(2 * width),
        torch.nn.GELU(),
        torch.nn.Linear(2 * width, width),
    ).to("cuda", dtype or torch.float16)


def compiled(model: Any, reports: list[Report], **options: Any) -> Any:
    dynamic = options.pop("dynamic", None)
    options["report"] = lambda one: one in reports or reports.append(one)
    return torch.compile(model, backend=torch_backend, dynamic=dynamic, options=options)


def near(a: Any, b: Any, few: float = 0.02) -> None:
    assert a.shape == b.shape and a.dtype == b.dtype and a.device == b.device
    scale = float(b.float().abs().max()) if b.numel() else 0.0
    off = float((a.float() - b.float()).abs().max()) if b.numel() else 0.0
    assert off <= few * max(scale, 1.0), off


def flat(found: Any) -> Iterator[Any]:
    if isinstance(found, list | tuple):
        for one in found:
            yield from flat(one)
    elif isinstance(found, dict):
        for key in found:
            yield from flat(found[key])
    else:
        yield found


# CUDA graphs --------------------------------------------------------------------------------


def test_calls_are_captured_and_replayed():
    reports: list[Report] = []
    net = mlp()
    model = compiled(net, reports, graphs=True)
    kept = []
    for _ in range(5):
        x = torch.randn(64, 256, device="cuda", dtype=torch.float16)
        y = model(x)
        near(y, net(x))
        kept.append((x, y))
    for x, y in kept:  # results are no memory of the graph's
        near(y, net(x))
    assert reports[0].graphs == "1 kind of calls captured" and not reports[0].given_back
    assert "CUDA graphs: 1 kind of calls captured" in str(reports[0])


def test_graphs_of_several_sizes_without_compiling_again():
    reports: list[Report] = []
    net = mlp()
    model = compiled(net, reports, graphs=True, dynamic=True)
    for _ in range(3):
        for rows in (8, 33, 128):
            x = torch.randn(rows, 256, device="cuda", dtype=torch.float16)
            near(model(x), net(x))
    assert len(reports) == 1 and reports[0].graphs == "3 kinds of calls captured"


def test_more_sizes_than_graphs_are_kept():
    reports: list[Report] = []
    net = mlp(64)
    model = compiled(net, reports, graphs=True, dynamic=True)
    for rows in [*range(2, MOST + 6), 2, 2, 2, 3]:
        x = torch.randn(rows, 64, device="cuda", dtype=torch.float16)
        near(model(x), net(x))
    assert reports[0].graphs == "1 kind of calls captured"


def test_graphs_see_weights_that_are_written_to_or_replaced():
    reports: list[Report] = []
    net = torch.nn.Sequential(Scaled(64, 64), torch.nn.ReLU(), mlp(64)).cuda().half()
    model = compiled(net, reports, graphs=True)
    x = torch.randn(16, 64, device="cuda", dtype=torch.float16)
    for turn in range(3):
        for _ in range(3):
            near(model(x), net(x))
        if turn == 0:
            net[0].weight.mul_(-0.5)
            net[2][1].bias.add_(1)
        else:
            net[2][0].weight.data = torch.randn_like(net[2][0].weight) / 8
    near(model(x), net(x))


def test_a_weight_that_changes_at_every_call_is_data():
    reports: list[Report] = []
    net = mlp(64)
    model = compiled(net, reports, graphs=True)
    x = torch.randn(16, 64, device="cuda", dtype=torch.float16)
    for _ in range(8):
        net[0].weight.add_(0.01)
        near(model(x), net(x))
    assert "captured" in reports[0].graphs and "nothing" not in reports[0].graphs


def test_graphs_with_aliases_and_writing_in_place():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(8, device="cuda"))

        def forward(self, x: Any, y: Any) -> Any:
            self.count += 1
            y.mul_(2)
            z = x[:4] + y[4:]
            return z, z.t(), x.view(-1), self.count * 1

    reports: list[Report] = []
    net = Net()
    other = copy.deepcopy(net)
    model = compiled(net, reports, graphs=True)
    for _ in range(4):
        x = torch.randn(8, 8, device="cuda")
        a, b = x.clone(), x.clone()
        # The two arguments are one tensor.
        found, wanted = model(a, a), other(b, b)
        for got, right in zip(found, wanted, strict=True):
            near(got, right, 1e-5)
        near(a, b, 1e-6)
    near(net.count, other.count)


def test_what_cannot_be_captured_says_so_and_runs():
    def waits(x: Any, y: Any) -> Any:
        return (x * 2).relu() + y

    reports: list[Report] = []
    model = compiled(waits, reports, graphs=True)
    x = torch.randn(8, device="cuda")
    for value in (1.0, 2.0, 3.0):
        near(model(x, torch.tensor(value)), waits(x, torch.tensor(value)), 1e-5)
    assert "not captured: an input of shape [] is on the host" in reports[0].graphs
    reports.clear()

    class Host(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return (x * 2).cpu() + 1

    model = compiled(Host(), reports, graphs=True)
    for _ in range(3):
        near(model(x), x.cpu() * 2 + 1, 1e-5)
    assert reports[0].graphs.startswith("not captured: ")


def test_graphs_on_several_streams_and_threads():
    net = mlp()
    model = compiled(net, [], graphs=True)
    x = torch.randn(64, 256, device="cuda", dtype=torch.float16)
    for _ in range(2):
        model(x)
    wrong: list[str] = []

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            generator = torch.Generator("cuda").manual_seed(seed)
            for _ in range(20):
                x = torch.randn(64, 256, device="cuda", dtype=torch.float16, generator=generator)
                got, right = model(x), net(x)
                stream.synchronize()
                if float((got - right).abs().max()) > 0.05:
                    wrong.append(f"thread {seed}")

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


# Memory -------------------------------------------------------------------------------------


def test_no_weight_is_kept_twice(monkeypatch: pytest.MonkeyPatch):
    """Neither by us nor by PyTorch: also of ones that lie across, are padded, or are computed."""
    made: list[int] = []
    own = driver.Buffer.__init__

    def counted(self: Any, size: int, *more: Any, **named: Any) -> None:
        made.append(size)
        own(self, size, *more, **named)

    monkeypatch.setattr(driver.Buffer, "__init__", counted)
    width = 1024

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.plain = torch.nn.Linear(width, width)
            self.across = torch.nn.Parameter(torch.randn(width, width).t() / 32)
            self.odd = torch.nn.Linear(width, 1001)
            self.conv = torch.nn.Conv2d(64, 256, 3, padding=1)
            self.scaled = Scaled(1001, width)

        def forward(self, x: Any, image: Any) -> Any:
            y = self.scaled(self.odd(F.relu(self.plain(x)) @ self.across))
            return y, self.conv(image)

    net = Net().cuda().half()
    for layout in (torch.contiguous_format, torch.channels_last):
        net = net.to(memory_format=layout)
        torch._dynamo.reset()
        model = compiled(net, [])
        x = torch.randn(32, width, device="cuda", dtype=torch.float16)
        image = torch.randn(2, 64, 16, 16, device="cuda", dtype=torch.float16)
        image = image.contiguous(memory_format=layout)
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        made.clear()
        before = torch.cuda.memory_allocated()
        found = model(x, image)
        for got, right in zip(found, net(x, image), strict=True):
            near(got, right, 0.03)
        del got, right, found
        gc.collect()
        torch.cuda.synchronize()
        # Ours are small constants; PyTorch's allocator has nothing that was not there.
        assert sum(made) <= 1 << 18, made
        assert torch.cuda.memory_allocated() - before <= 1 << 16


def test_packed_weights_are_an_option():
    net = torch.nn.Sequential(torch.nn.Linear(256, 333), torch.nn.ReLU(), Scaled(333, 64))
    net = net.cuda().half()
    model = compiled(net, [], weights="packed")
    x = torch.randn(32, 256, device="cuda", dtype=torch.float16)
    for _ in range(3):
        near(model(x), net(x))
    net[0].weight.mul_(2)
    near(model(x), net(x))


def test_workspaces_are_of_pytorchs_allocator():
    """A program with memory between its kernels leaves none of it behind."""
    net = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda().half()
    model = compiled(net, [])
    x = torch.randn(512, 512, device="cuda", dtype=torch.float16)
    y = model(x)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    again = model(x)
    near(again, y, 1e-6)
    peak = torch.cuda.max_memory_allocated() - before
    assert peak > 2 * again.nbytes and torch.cuda.memory_allocated() == before + again.nbytes


def test_a_workspace_lives_for_a_call():
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    space = TorchArenas().of(0, stream.cuda_stream)
    assert space.pointer(1000) % 256 == 0 and torch.cuda.memory_allocated() > before
    del space
    assert torch.cuda.memory_allocated() == before


# Streams, sizes, types ----------------------------------------------------------------------


def test_the_current_stream():
    net = mlp()
    model = compiled(net, [])
    x = torch.randn(2048, 256, device="cuda", dtype=torch.float16)
    right = net(x)
    model(x)
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        late = torch.zeros_like(x)
        torch.cuda._sleep(20_000_000)
        late.copy_(x)
        found = model(late)
    stream.synchronize()
    near(found, right)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types_and_autocast(dtype: Any):
    net = mlp(128, dtype)
    model = compiled(net, [])
    x = torch.randn(32, 128, device="cuda", dtype=dtype)
    near(model(x), net(x))
    if dtype is torch.float32:
        torch._dynamo.reset()
        with torch.autocast("cuda", torch.float16):
            near(compiled(net, [])(x), net(x))
        with torch.inference_mode():
            torch._dynamo.reset()
            other = copy.deepcopy(net)
            model = compiled(other, [])
            near(model(x), other(x))
            other[0].weight.mul_(2)  # such a tensor does not tell that it was written to
            near(model(x), other(x))


def test_a_program_without_inputs_and_empty_ones():
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(5, 8))

        def forward(self, x: Any) -> Any:
            return (self.table * 2).relu().sum(1), x * 2, torch.arange(3, device=x.device) + 1

    net = Net().cuda()
    model = compiled(net, [])
    for rows in (4, 0):
        x = torch.randn(rows, 8, device="cuda")
        for got, right in zip(model(x), net(x), strict=True):
            near(got, right, 1e-5)


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("seed", range(24))
def test_random_models(seed: int, graphs: bool):
    case = model_of(seed)
    net = case.model.cuda()
    other = copy.deepcopy(net)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    model = compiled(net, [], graphs=graphs)
    named = {k: v.cuda() if hasattr(v, "cuda") else v for k, v in case.kwargs.items()}
    for _ in range(3):
        x = case.input(device="cuda")
        y = copy.deepcopy(x)
        found, wanted = list(flat(model(x, **named))), list(flat(other(y, **named)))
        for got, right in zip(found, wanted, strict=True):
            if isinstance(right, torch.Tensor):
                near(got, right, 3e-3)
            else:
                assert got == right
        near(x, y, 1e-5)
    for (name, one), (_, two) in zip(net.named_buffers(), other.named_buffers(), strict=True):
        assert torch.allclose(one.float(), two.float(), atol=1e-3), name
