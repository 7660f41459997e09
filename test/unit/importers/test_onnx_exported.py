"""Modules that PyTorch exports to ONNX, with fixed and with open sizes, against PyTorch itself."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import polyc
from polyc.test.support.onnx_cases import played

onnx: Any = pytest.importorskip("onnx", reason="onnx is not installed: pip install polyc[onnx]")
torch: Any = pytest.importorskip("torch", reason="torch is not installed: pip install polyc[torch]")
functional: Any = torch.nn.functional


def image() -> Any:
    """Convolutions, a norm of the batch, a pool, and a picture of twice the size."""
    nn = torch.nn

    class Image(nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.norm = nn.BatchNorm2d(8)
            self.each = nn.Conv2d(8, 8, 3, padding=1, groups=8)
            self.head = nn.Linear(8, 10)

        def forward(self, x: Any) -> Any:
            x = functional.max_pool2d(torch.relu(self.norm(self.first(x))), 3, 2, 1)
            x = functional.interpolate(functional.hardswish(self.each(x)), scale_factor=2.0)
            return self.head(x.mean((2, 3)))

    return Image()


def tokens() -> Any:
    """An embedding, causal attention of heads that are made by shape arithmetic, and a norm."""
    nn = torch.nn

    class Tokens(nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.table, self.head = nn.Embedding(50, 16), nn.Linear(16, 50)

        def forward(self, i: Any) -> Any:
            x = self.table(i)
            batch, length = i.shape
            q = x.view(batch, length, 2, 8).transpose(1, 2)
            a = functional.scaled_dot_product_attention(q, q, q, is_causal=True)
            a = a.transpose(1, 2).reshape(batch, length, 16)
            return self.head(functional.layer_norm(a + x, (16,)))

    return Tokens()


def rotary() -> Any:
    """Rotary positions, whose angles are made of the length."""

    class Rotary(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            length, width = x.shape[2:]
            places = torch.arange(length).float()
            angles = torch.outer(places, 1.0 / 10000 ** (torch.arange(0, width, 2).float() / width))
            both = torch.cat([angles, angles], -1)
            turned = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
            return x * both.cos() + turned * both.sin()

    return Rotary()


def shifted() -> Any:
    """Windows of a rolled picture, padded."""

    class Shifted(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            batch, channels, height, width = x.shape
            y = torch.roll(x, (1, 1), (2, 3))
            y = y.view(batch, channels, height // 2, 2, width // 2, 2)
            y = y.permute(0, 2, 4, 3, 5, 1).reshape(-1, 4, channels)
            y = functional.pad(y, (0, 0, 1, 2))
            return y.softmax(-1) + torch.where(y > 0, y, torch.zeros_like(y)).clamp(-1, 1)

    return Shifted()


def recurrent() -> Any:
    """Two layers of LSTM, in both directions."""

    class Recurrent(torch.nn.Module):
        def __init__(self) -> None:
            torch.nn.Module.__init__(self)
            self.layer = torch.nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    return Recurrent()


Open = dict[int, str]
MODULES: dict[str, tuple[Callable[[], Any], Callable[[], Any], Open]] = {
    "image": (image, lambda: torch.randn(2, 3, 16, 16), {0: "batch"}),
    "tokens": (tokens, lambda: torch.randint(0, 50, (2, 7)), {0: "batch", 1: "seq"}),
    "rotary": (rotary, lambda: torch.randn(2, 2, 5, 8), {0: "batch", 2: "seq"}),
    "shifted": (shifted, lambda: torch.randn(2, 4, 8, 8), {0: "batch"}),
    "recurrent": (recurrent, lambda: torch.randn(3, 4, 6), {}),
}


@pytest.mark.parametrize("opened", [False, True], ids=["fixed", "open"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_is_exported(name: str, opened: bool):
    torch.manual_seed(0)
    make, draw, sizes = MODULES[name]
    module, x = make().eval(), draw()
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (x,),
            file,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": sizes} if opened else None,
            dynamo=False,
            opset_version=18,
        )
    imported = polyc.from_onnx(onnx.load_from_string(file.getvalue()))
    assert [s for s in sizes.values() if s in imported.text] == (
        list(sizes.values()) if opened else []
    )
    (y,) = played(imported, {"x": x.numpy()})
    with torch.no_grad():
        np.testing.assert_allclose(y, module(x).numpy(), rtol=1e-4, atol=1e-5)
