"""Convolutions of few channels or filters, of far or long windows, and beside other things."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Wave(nn.Module):
    """What takes one wave of its first two sizes."""

    @staticmethod
    def inputs(n: Any, t: Any, *_: Any) -> list[Any]:
        return [normal(n, 1, t)]


class _Image(nn.Module):
    """What takes an image of its first four sizes."""

    @staticmethod
    def inputs(n: Any, c: Any, h: Any, w: Any, *_: Any) -> list[Any]:
        return [normal(n, c, h, w)]


@novel("filters/wave_encoder", (2, 50, 5), (16, 64000, 512))
class WaveEncoder(_Wave):
    """A speech model's first two layers, of no padding."""

    def __init__(self, n, t, f):
        super().__init__()
        self.a, self.b = nn.Conv1d(1, f, 10, 5, bias=False), nn.Conv1d(f, f, 3, 2)

    def forward(self, x):
        return F.gelu(self.b(F.gelu(self.a(x))))


@novel("filters/sinc_bank", (2, 70, 3, 21), (16, 16000, 80, 251))
class SincBank(_Wave):
    def __init__(self, n, t, f, taps):
        super().__init__()
        self.register_buffer("bank", torch.randn(f, 1, taps) / taps)

    def forward(self, x):
        return F.max_pool1d(F.conv1d(x, self.bank).abs(), 3)


@novel("filters/cqt_two_channels", (2, 90, 3, 33, 16), (16, 64000, 84, 1023, 256))
class TwoChannels(nn.Module):
    """Stereo, long filters, far steps, an odd number of each."""

    def __init__(self, n, t, f, taps, hop):
        super().__init__()
        self.bank = nn.Conv1d(2, f, taps, hop, taps // 2)

    @staticmethod
    def inputs(n, t, f, taps, hop):
        return [normal(n, 2, t)]

    def forward(self, x):
        return F.relu(self.bank(x))


@novel("filters/overlapping_patches", (1, 3, 20, 20, 8, 6, 4), (32, 3, 224, 224, 768, 16, 10))
class Overlapping(_Image):
    def __init__(self, n, c, h, w, f, size, step):
        super().__init__()
        self.conv = nn.Conv2d(c, f, size, step)

    def forward(self, x):
        return self.conv(x).flatten(2).transpose(1, 2)


@novel("filters/patches_with_rest", (1, 3, 13, 14, 8, 4), (32, 3, 225, 230, 768, 16))
class Patches(_Image):
    def __init__(self, n, c, h, w, f, size):
        super().__init__()
        self.conv = nn.Conv2d(c, f, size, size)

    def forward(self, x):
        return self.conv(x).flatten(2).transpose(1, 2)


@novel("filters/colour_blur", (1, 3, 9, 10), (16, 3, 512, 512))
class ColourBlur(_Image):
    """Three filters of three channels."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return torch.sigmoid(x + self.conv(x))


@novel("filters/mask_head", (1, 16, 7, 9), (16, 16, 256, 256))
class MaskHead(_Image):
    """One filter of some channels."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.conv = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x):
        return torch.sigmoid(self.conv(x))


@novel("filters/gabor_bank", (1, 1, 20, 17, 8, 7), (8, 1, 256, 256, 32, 31))
class GaborBank(_Image):
    def __init__(self, n, c, h, w, f, size):
        super().__init__()
        self.conv = nn.Conv2d(c, f, size, padding=size // 2, bias=False)

    def forward(self, x):
        return self.conv(x).square()


@novel("filters/grey_features", (1, 1, 9, 11, 8), (16, 1, 512, 512, 8))
class GreyFeatures(_Image):
    def __init__(self, n, c, h, w, f):
        super().__init__()
        self.conv = nn.Conv2d(c, f, 3, padding=1)

    def forward(self, x):
        return F.leaky_relu(self.conv(x), 0.1)


@novel("filters/large_kernel_block", (1, 4, 12, 12, 7), (4, 64, 112, 112, 31))
class LargeKernel(_Image):
    """A wide filter of each channel, and a small one beside it."""

    def __init__(self, n, c, h, w, size):
        super().__init__()
        self.a = nn.Conv2d(c, c, size, padding=size // 2, groups=c)
        self.b = nn.Conv2d(c, c, 5, padding=2, groups=c)

    def forward(self, x):
        return x + self.a(x) + self.b(x)


@novel("filters/conformer_conv", (2, 6, 20, 5), (16, 512, 1600, 31))
class ConformerConv(nn.Module):
    """Gates, a long filter of each channel, a norm, an activation."""

    def __init__(self, n, c, t, size):
        super().__init__()
        self.up, self.down = nn.Conv1d(c, 2 * c, 1), nn.Conv1d(c, c, 1)
        self.own = nn.Conv1d(c, c, size, padding=size // 2, groups=c)
        self.norm = nn.BatchNorm1d(c)

    @staticmethod
    def inputs(n, c, t, size):
        return [normal(n, c, t)]

    def forward(self, x):
        return self.down(F.silu(self.norm(self.own(F.glu(self.up(x), 1)))))


@novel("filters/time_embedded_block", (2, 8, 6, 7, 8), (4, 320, 64, 64, 320))
class TimeEmbedded(nn.Module):
    """A diffusion model's block: a number for each image and channel inside."""

    def __init__(self, n, c, h, w, f):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, f, 3, padding=1), nn.Conv2d(f, c, 3, padding=1)
        self.time = nn.Linear(c, f)

    @staticmethod
    def inputs(n, c, h, w, f):
        return [normal(n, c, h, w), normal(n, c)]

    def forward(self, x, t):
        y = F.silu(self.a(x) + self.time(t)[:, :, None, None])
        return x + self.b(y)


@novel("filters/gram_of_joined", (3, 4, 8), (2048, 31, 128))
class GramOfJoined(nn.Module):
    def __init__(self, b, m, d):
        super().__init__()

    @staticmethod
    def inputs(b, m, d):
        return [normal(b, 1, d), normal(b, m, d)]

    def forward(self, one, many):
        t = torch.cat([one, many], 1)
        return (t @ t.transpose(1, 2)).softmax(-1)


@novel("filters/smoothed_extremes", (2, 3, 50), (32, 64, 4096))
class SmoothedExtremes(nn.Module):
    """A moving mean, maximum and root of a power, of long windows."""

    def __init__(self, n, c, t):
        super().__init__()

    @staticmethod
    def inputs(n, c, t):
        return [normal(n, c, t)]

    def forward(self, x):
        low, high = F.avg_pool1d(x, 25, 1, 12), F.max_pool1d(x, 31, 1, 15)
        return high - low, F.lp_pool1d(x, 2, 20, 2)


@novel("filters/narrow_groups", (1, 16, 7, 8, 4), (24, 32, 112, 112, 4))
class NarrowGroups(_Image):
    """Eight channels in each group."""

    def __init__(self, n, c, h, w, groups):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, padding=1, groups=groups)

    def forward(self, x):
        return F.relu(x + self.conv(x))


@novel("filters/inverse_transform", (2, 9, 12, 4), (16, 257, 800, 128))
class InverseTransform(nn.Module):
    """Frames by a product, and added where they overlap."""

    def __init__(self, n, bins, frames, hop):
        super().__init__()
        self.hop, size = hop, 4 * hop
        self.register_buffer("basis", torch.randn(size, bins) / bins)

    @staticmethod
    def inputs(n, bins, frames, hop):
        return [normal(n, bins, frames)]

    def forward(self, x):
        y = self.basis @ x
        length = (x.shape[2] - 1) * self.hop + y.shape[1]
        return F.fold(y, (1, length), (1, y.shape[1]), stride=(1, self.hop)).flatten(1)
