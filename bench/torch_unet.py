"""A UNet as Stable Diffusion 1.5 has one, at its widths, in plain PyTorch, with random weights.

Residual blocks with group norms and an embedding of the step, transformers with attention to the
image's places and to a text, halving by strides and doubling by the nearest, and what the way down
keeps for the way up.  ``depth`` is the number of blocks of a resolution on the way down: 2 in
Stable Diffusion.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Two convolutions of normed images, with a step's embedding between, beside a skip."""

    def __init__(self, width: int, out: int, step: int, groups: int) -> None:
        super().__init__()
        self.first, self.second = nn.GroupNorm(groups, width), nn.GroupNorm(groups, out)
        self.one = nn.Conv2d(width, out, 3, padding=1)
        self.two = nn.Conv2d(out, out, 3, padding=1)
        self.step = nn.Linear(step, out)
        self.skip = nn.Conv2d(width, out, 1) if width != out else nn.Identity()

    def forward(self, x: Any, at: Any) -> Any:
        silu = functional.silu
        y = self.one(silu(self.first(x))) + self.step(silu(at))[:, :, None, None]
        return self.skip(x) + self.two(silu(self.second(y)))


class Attention(nn.Module):
    """Attention of tokens to others, which may be of another width."""

    def __init__(self, width: int, other: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(other, width, bias=False) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, other: Any) -> Any:
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for y in (self.q(x), self.k(other), self.v(other))
        )
        y = functional.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    """Attention over an image's places and to a text, and a gated layer of four times the width."""

    def __init__(self, width: int, text: int, heads: int, groups: int) -> None:
        super().__init__()
        self.norm, self.enter = nn.GroupNorm(groups, width, eps=1e-6), nn.Conv2d(width, width, 1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.own, self.text = Attention(width, width, heads), Attention(width, text, heads)
        self.wide, self.narrow = nn.Linear(width, 8 * width), nn.Linear(4 * width, width)
        self.leave = nn.Conv2d(width, width, 1)

    def forward(self, x: Any, text: Any) -> Any:
        y = self.enter(self.norm(x)).flatten(2).transpose(1, 2)
        z = self.norms[0](y)
        y = y + self.own(z, z)
        y = y + self.text(self.norms[1](y), text)
        value, gate = self.wide(self.norms[2](y)).chunk(2, -1)
        y = y + self.narrow(value * functional.gelu(gate))
        return x + self.leave(y.transpose(1, 2).reshape(x.shape))


class UNet(nn.Module):
    """Called on an image's latents, the step of each, and its text's embedding."""

    def __init__(
        self,
        widths: Sequence[int] = (320, 640, 1280, 1280),
        depth: int = 2,
        text: int = 768,
        heads: int = 8,
        groups: int = 32,
        channels: int = 4,
    ) -> None:
        super().__init__()
        first, last = widths[0], len(widths) - 1
        step = 4 * first
        self.waves = first // 2
        self.embed = nn.ModuleList([nn.Linear(first, step), nn.Linear(step, step)])
        self.enter = nn.Conv2d(channels, first, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()

        def parts(width: int, out: int, attends: bool) -> list[nn.Module]:
            block: nn.Module = Block(width, out, step, groups)
            return [block, Transformer(out, text, heads, groups)] if attends else [block]

        at, kept = first, [first]
        for level, width in enumerate(widths):
            for _ in range(depth):
                self.down.append(nn.ModuleList(parts(at, width, level < last)))
                at = width
                kept.append(at)
            if level < last:
                self.down.append(nn.ModuleList([nn.Conv2d(at, at, 3, 2, 1)]))
                kept.append(at)
        self.middle = nn.ModuleList([*parts(at, at, True), *parts(at, at, False)])
        for level, width in reversed(list(enumerate(widths))):
            for number in range(depth + 1):
                made = parts(at + kept.pop(), width, level < last)
                if level and number == depth:
                    made += [nn.Upsample(scale_factor=2.0), nn.Conv2d(width, width, 3, padding=1)]
                self.up.append(nn.ModuleList(made))
                at = width
        self.norm, self.leave = nn.GroupNorm(groups, at), nn.Conv2d(at, channels, 3, padding=1)

    def forward(self, x: Any, step: Any, text: Any) -> Any:
        speeds = torch.arange(self.waves, device=x.device, dtype=torch.float32)
        angles = step[:, None].float() * torch.exp(speeds * (-math.log(10000) / self.waves))
        at = torch.cat([angles.cos(), angles.sin()], -1).to(x.dtype)
        at = self.embed[1](functional.silu(self.embed[0](at)))

        def through(parts: Any, x: Any) -> Any:
            for part in parts:
                match part:
                    case Block():
                        x = part(x, at)
                    case Transformer():
                        x = part(x, text)
                    case _:
                        x = part(x)
            return x

        x = self.enter(x)
        kept = [x]
        for parts in self.down:
            x = through(parts, x)
            kept.append(x)
        x = through(self.middle, x)
        for parts in self.up:
            x = through(parts, torch.cat([x, kept.pop()], 1))
        return self.leave(functional.silu(self.norm(x)))
