"""Pools, windows and statistics that go along the same points."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("pools/channel_statistics", (2, 6, 5, 7), (32, 128, 56, 56))
class ChannelStatistics(One):
    def forward(self, x):
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return torch.sigmoid(both.mean(1, keepdim=True)) * x


@novel("pools/column_extremes", (3, 7, 9), (64, 512, 256))
class ColumnExtremes(One):
    def forward(self, x):
        return x.sum(1), x.amax(1), x.amin(1)


@novel("pools/row_spread", (5, 40), (16384, 768))
class RowSpread(One):
    def forward(self, x):
        parts = [x.mean(-1), x.std(-1), x.amin(-1), x.amax(-1)]
        return torch.stack(parts, -1)


@novel("pools/segnet_unpool", (2, 3, 8, 8), (8, 32, 128, 128))
class SegnetUnpool(One):
    def forward(self, x):
        y, at = F.max_pool2d(x, 2, return_indices=True)
        z, far = F.max_pool2d(torch.tanh(y), 2, return_indices=True)
        up = F.max_unpool2d(torch.sigmoid(z), far, 2)
        return F.max_unpool2d(up, at, 2)


@novel("pools/unpool_of_three", (2, 3, 9, 12), (8, 32, 126, 126))
class UnpoolOfThree(One):
    def forward(self, x):
        y, at = F.max_pool2d(x, 3, return_indices=True)
        return F.max_unpool2d(torch.relu(y), at, 3)


@novel("pools/pool_gradient", (2, 3, 8, 12), (8, 64, 112, 112))
class PoolGradient(nn.Module):
    def __init__(self, n, c, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w), normal(n, c, h // 2, w // 2)]

    def forward(self, x, g):
        at = F.max_pool2d(x, 2, return_indices=True)[1].flatten(2)
        return torch.zeros_like(x).flatten(2).scatter_add(2, at, g.flatten(2)).view_as(x)


@novel("pools/joint_bilateral", (1, 3, 9, 9, 3), (4, 3, 256, 256, 5))
class JointBilateral(nn.Module):
    """One channel, weighed by how alike three others are."""

    def __init__(self, n, c, h, w, k):
        super().__init__()
        self.k = k

    @staticmethod
    def inputs(n, c, h, w, k):
        return [normal(n, c, h, w), normal(n, 1, h, w)]

    def forward(self, guide, x):
        r = self.k // 2

        def seen(v):
            return F.pad(v, (r,) * 4).unfold(2, self.k, 1).unfold(3, self.k, 1).flatten(4)

        weight = torch.exp(-(seen(guide) - guide[..., None]).abs().sum(1, keepdim=True))
        return (weight * seen(x)).sum(-1) / weight.sum(-1)


@novel("pools/soft_pool", (2, 3, 8, 8), (16, 64, 112, 112))
class SoftPool(One):
    def forward(self, x):
        power = torch.exp(x)
        return F.avg_pool2d(power * x, 2) / F.avg_pool2d(power, 2)


@novel("pools/average_less_maximum", (2, 3, 9, 9), (16, 64, 112, 112))
class AverageLessMaximum(One):
    def forward(self, x):
        return F.avg_pool2d(x, 3, 1, 1) - F.max_pool2d(x, 3, 1, 1)


@novel("pools/masked_rows_f16", (3, 4, 40), (64, 256, 1024))
class MaskedRows(nn.Module):
    LOOSE = 2e-2

    def __init__(self, n, c, t):
        super().__init__()

    @staticmethod
    def inputs(n, c, t):
        return [normal(n, c, t, dtype=torch.float16), torch.rand(n, t) > 0.3]

    def forward(self, x, mask):
        m = mask[:, None].float()
        count = m.sum(-1).clamp(min=1)
        mean = (x.float() * m).sum(-1) / count
        least = x.float().masked_fill(~mask[:, None], torch.inf).amin(-1)
        return torch.cat([mean, least], 1)


@novel("pools/pyramid_of_maxima", (1, 4, 9, 9), (8, 128, 40, 40))
class PyramidOfMaxima(One):
    def forward(self, x):
        a = F.max_pool2d(x, 5, 1, 2)
        b = F.max_pool2d(a, 5, 1, 2)
        return torch.cat([x, a, b, F.avg_pool2d(x, 3, 1, 1)], 1)
