"""Models of PyTorch on a GPU: exported ones and torch.compile, in f16 against eager in f32."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import polyc
from polyc.tools.jit.torch_backend import torch_backend, torch_reports

torch: Any = pytest.importorskip("torch")
F: Any = torch.nn.functional


class Layer(torch.nn.Module):
    """A layer of an encoder."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        apart = self.qkv(self.first(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = apart.permute(2, 0, 3, 1, 4).unbind(0)
        heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        x = x + self.out(heads.reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Residual(torch.nn.Module):
    """A block of a residual network."""

    def __init__(self, width: int, out: int, stride: int) -> None:
        super().__init__()
        self.one = torch.nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.two = torch.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.skip = torch.nn.Conv2d(width, out, 1, stride, bias=False)
        self.a, self.b = torch.nn.BatchNorm2d(out), torch.nn.BatchNorm2d(out)

    def forward(self, x: Any) -> Any:
        y = self.b(self.two(F.relu(self.a(self.one(x)))))
        return F.relu(y + self.skip(x))


def encoder(layers: int = 2, width: int = 256) -> tuple[Any, Any]:
    made = torch.nn.Sequential(*(Layer(width, width // 64) for _ in range(layers)))
    return made, torch.randn(2, 128, width)


def residual(width: int = 64) -> tuple[Any, Any]:
    made = torch.nn.Sequential(
        torch.nn.Conv2d(8, width, 3, 1, 1),
        Residual(width, width, 1),
        Residual(width, 2 * width, 2),
        torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(),
        torch.nn.Linear(2 * width, 16),
    )
    return made, torch.randn(4, 8, 28, 28)


@pytest.mark.parametrize("make", [encoder, residual], ids=lambda make: make.__name__)
def test_a_model_in_half_precision(make: Callable[[], tuple[Any, Any]]) -> None:
    torch.manual_seed(0)
    model, x = make()
    model.eval()
    with torch.no_grad():
        right = model(x).cuda()
        model, x = model.half().cuda(), x.half().cuda()
        eager = model(x)
        program = torch.export.export(model, (x,), strict=False)
        ours = polyc.compile(polyc.from_exported(program))(x)
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=torch_backend)
        second = [compiled(x) for _ in range(2)][-1]
    assert not torch_reports()[-1].left
    off = float((eager.float() - right).abs().max())
    for found in (ours, second):
        assert found.dtype == torch.float16 and found.is_cuda
        assert float((found.float() - right).abs().max()) <= 2 * off
