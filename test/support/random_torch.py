"""Random small models of PyTorch, and calls of them: for ``torch.compile`` and for exports.

``model_of(seed)`` draws layers one after another from what fits the shape so far, images, sequences
or rows, and then what the model does with its inputs and results: views, writing in place, several
results, numbers among them, buffers that it writes to.
"""

# pyright: basic

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class Lambda(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Any], Any], text: str) -> None:
        super().__init__()
        self.function, self.text = function, text

    def forward(self, x: Any) -> Any:
        return self.function(x)

    def extra_repr(self) -> str:
        return self.text


class Residual(nn.Module):
    """A layer beside its input."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return x + self.inner(x)


class Attention(nn.Module):
    """Heads of a sequence."""

    def __init__(self, width: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.heads, self.causal = heads, causal

    def forward(self, x: Any) -> Any:
        n, length, width = x.shape
        parts = self.qkv(x).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(n, length, width))


class Scaled(nn.Module):
    """A product by a weight that is made of others."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, width) / width**0.5)
        self.scale = nn.Parameter(torch.rand(out, 1) + 0.5)

    def forward(self, x: Any) -> Any:
        return x @ (self.weight * self.scale).T


Kind = str
"""``image``, ``sequence`` or ``rows``."""

POINTWISE: list[tuple[str, Callable[[], Any]]] = [
    ("relu", lambda: nn.ReLU()),
    ("gelu", lambda: nn.GELU()),
    ("tanh gelu", lambda: nn.GELU(approximate="tanh")),
    ("silu", lambda: nn.SiLU(inplace=True)),
    ("hardswish", lambda: nn.Hardswish()),
    ("elu", lambda: nn.ELU(0.7)),
    ("leaky", lambda: nn.LeakyReLU(0.1, inplace=True)),
    ("softplus", lambda: nn.Softplus()),
    ("mish", lambda: nn.Mish()),
    ("sigmoid", lambda: nn.Sigmoid()),
    ("tanh", lambda: nn.Tanh()),
    ("clamp", lambda: Lambda(lambda x: x.clamp(-1.5, 0.75), "clamp")),
    ("square", lambda: Lambda(lambda x: x * x - 0.5, "square")),
    ("where", lambda: Lambda(lambda x: torch.where(x > 0, x, 0.1 * x.exp()), "where")),
    ("in place", lambda: Lambda(lambda x: (x + 1).mul_(0.5).add_(x), "in place")),
    ("dropout", lambda: nn.Dropout(0.3)),
    ("identity", lambda: nn.Identity()),
]


def image(draw: random.Random, shape: list[int]) -> tuple[Any, Kind, list[int]]:
    """A layer of images."""
    n, c, h, w = shape
    wide = draw.choice([3, 4, 8])
    choice = draw.randrange(11)
    if choice <= 2:
        k, step = draw.choice([(1, 1), (3, 1), (3, 2)])
        groups = draw.choice([1, c]) if k == 3 else 1
        out = c * draw.choice([1, 2]) if groups == c else wide
        layer = nn.Conv2d(c, out, k, step, k // 2, groups=groups, bias=draw.random() < 0.5)
        return layer, "image", [n, out, (h - 1) // step + 1, (w - 1) // step + 1]
    if choice == 3:
        return nn.BatchNorm2d(c), "image", shape
    if choice == 4:
        groups = draw.choice([g for g in (1, 2, c) if c % g == 0])
        return nn.GroupNorm(groups, c), "image", shape
    if choice == 5 and min(h, w) >= 4:
        pool = draw.choice([nn.MaxPool2d, nn.AvgPool2d])(2)
        return pool, "image", [n, c, h // 2, w // 2]
    if choice == 6 and h * w <= 64:
        mode = draw.choice(["nearest", "bilinear"])
        return nn.Upsample(scale_factor=2, mode=mode), "image", [n, c, 2 * h, 2 * w]
    if choice == 7:
        pad = Lambda(lambda x: F.pad(x, (1, 0, 2, 1)), "pad")
        return pad, "image", [n, c, h + 3, w + 1]
    if choice == 8:
        return Lambda(lambda x: x.mean((2, 3)), "mean of pixels"), "rows", [n, c]
    if choice == 9:
        layer = Lambda(lambda x: x.flatten(2).transpose(1, 2), "pixels as a sequence")
        return layer, "sequence", [n, h * w, c]
    return Lambda(lambda x: x.flip(3).roll(1, 2), "flip"), "image", shape


def sequence(draw: random.Random, shape: list[int]) -> tuple[Any, Kind, list[int]]:
    """A layer of sequences."""
    n, length, width = shape
    out = draw.choice([4, 8, 12])
    choice = draw.randrange(9)
    if choice <= 1:
        return nn.Linear(width, out, bias=draw.random() < 0.5), "sequence", [n, length, out]
    if choice == 2:
        return nn.LayerNorm(width), "sequence", shape
    if choice == 3 and width % 4 == 0:
        return Attention(width, draw.choice([1, 2]), draw.random() < 0.5), "sequence", shape
    if choice == 4:
        layer = Lambda(lambda x: x.softmax(draw_axis).cumsum(1), "softmax and sums")
        draw_axis = draw.choice([1, 2])
        return layer, "sequence", shape
    if choice == 5 and length > 2:
        return Lambda(lambda x: x[:, 1:-1], "slice"), "sequence", [n, length - 2, width]
    if choice == 6:
        return Lambda(lambda x: x.amax(1), "greatest"), "rows", [n, width]
    if choice == 7 and hasattr(nn, "RMSNorm"):
        return nn.RMSNorm(width), "sequence", shape
    layer = Lambda(lambda x: torch.cat([x, x.flip(1)], 2), "twice beside each other")
    return layer, "sequence", [n, length, 2 * width]


def rows(draw: random.Random, shape: list[int]) -> tuple[Any, Kind, list[int]]:
    """A layer of rows."""
    n, width = shape
    out = draw.choice([4, 6, 16])
    choice = draw.randrange(7)
    if choice <= 1:
        return nn.Linear(width, out), "rows", [n, out]
    if choice == 2:
        return Scaled(width, out), "rows", [n, out]
    if choice == 3:
        layer = nn.utils.parametrizations.weight_norm(nn.Linear(width, out))
        return layer, "rows", [n, out]
    if choice == 4:
        return nn.BatchNorm1d(width), "rows", shape
    if choice == 5:
        return Lambda(lambda x: F.normalize(x, dim=1).log_softmax(1), "normalised"), "rows", shape
    return Lambda(lambda x: x.unflatten(1, (1, -1)), "a sequence of one"), "sequence", [n, 1, width]


NEXT = {"image": image, "sequence": sequence, "rows": rows}


class Model(nn.Module):
    """Layers, and something around them."""

    def __init__(self, layers: Any, around: str, shape: list[int]) -> None:
        super().__init__()
        self.layers, self.around = layers, around
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("cache", torch.zeros(4, *shape[1:]))

    def forward(self, x: Any, n: int = 2, scale: Any = None) -> Any:
        match self.around:
            case "writes to its input":
                x.add_(0.5)
                return self.layers(x)
            case "counts":
                self.seen += 1
                return self.layers(x) * (1 + self.seen)
            case "keeps a cache":
                self.cache[: x.shape[0]].copy_(x)
                return self.layers(x), self.cache[:1] * 2
            case "several results":
                y = self.layers(x)
                return {"y": y, "none": None, "size": y.shape[-1], "sum": (y.sum(), [y + 1])}
            case "views":
                y = self.layers(x)
                return y, y.flatten(), x[..., :1], x
            case "a size":
                y = self.layers(x)
                return y * n, torch.arange(n, device=x.device), n + 1
            case "by name":
                return self.layers(x) * (2.0 if scale is None else scale)
            case "breaks":
                y = self.layers(x)
                torch._dynamo.graph_break()
                return torch.relu(y) + y.mean()
            case "left":
                y = self.layers(x)
                return torch.special.bessel_j0(y) + y, y.numel()
            case "inner view":
                y = self.layers(x.clone()).contiguous()
                z = y.view(-1)
                z[0:2] = 1.0
                return y, z * 2
            case "twice":
                y = self.layers(x)
                return y, y
            case _:
                return self.layers(x)


AROUND = (
    "",
    "writes to its input",
    "counts",
    "keeps a cache",
    "several results",
    "views",
    "a size",
    "by name",
    "breaks",
    "left",
    "inner view",
    "twice",
)


@dataclass
class Case:
    """A model, and what makes inputs for it."""

    model: Any
    shape: list[int]
    layout: str
    kwargs: dict[str, Any]

    def input(self, batch: int | None = None, device: str = "cpu", dtype: Any = None) -> Any:
        """A random input, of another first size where one is given."""
        shape = list(self.shape) if batch is None else [batch, *self.shape[1:]]
        x = torch.randn(shape, device=device, dtype=dtype)
        if self.layout == "turned":
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        if self.layout == "channels last" and x.ndim == 4:
            return x.contiguous(memory_format=torch.channels_last)
        if self.layout == "cut":
            return torch.cat([x, x], -1)[..., : x.shape[-1]]
        return x


def model_of(seed: int) -> Case:
    """The model of a seed."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    kind = draw.choice(["image", "sequence", "rows"])
    shape = {
        "image": [2, draw.choice([3, 4]), draw.choice([5, 8]), draw.choice([6, 8])],
        "sequence": [2, draw.choice([3, 7]), draw.choice([4, 8])],
        "rows": [3, draw.choice([4, 10])],
    }[kind]
    first, layers = list(shape), []
    for _ in range(draw.randint(1, 6)):
        if draw.random() < 0.4:
            inner = draw.choice(POINTWISE)[1]()
            # What writes in place would write to the input that stands beside it.
            beside = draw.random() < 0.2 and not getattr(inner, "inplace", False)
            layers.append(Residual(inner) if beside else inner)
            continue
        layer, kind, shape = NEXT[kind](draw, shape)
        layers.append(layer)
    if isinstance(layers[0], nn.Identity | nn.Dropout) or getattr(layers[0], "inplace", False):
        # An input is written to by intent alone: a dropout of an eager GPU copies, and no other.
        layers.insert(0, Lambda(lambda x: x * 1.0, "a copy"))
    model = Model(nn.Sequential(*layers), draw.choice(AROUND), first)
    model.train(draw.random() < 0.15)
    if draw.random() < 0.1:
        model = model.to(memory_format=torch.channels_last) if len(first) == 4 else model
    for one in model.modules():
        if isinstance(one, nn.BatchNorm1d | nn.BatchNorm2d):
            one.running_mean.uniform_(-1, 1)
            one.running_var.uniform_(0.5, 2)
        if isinstance(one, nn.Dropout):
            one.eval()  # what is random is no result to compare
    kwargs: dict[str, Any] = {}
    if model.around == "a size":
        kwargs["n"] = draw.randint(1, 5)
    if model.around == "by name" and draw.random() < 0.5:
        kwargs["scale"] = torch.tensor(1.5)
    return Case(model, first, draw.choice(["", "", "turned", "channels last", "cut"]), kwargs)
