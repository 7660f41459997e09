"""Speech: parts of recognisers, of encoders of waves and of speakers, and of vocoders."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import Rows, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("speech/relative_shift_attention", (2, 5, 8, 2), (12, 375, 144, 4))
class RelativeShift(Rows):
    """Transformer-XL's relative positions, shifted by a pad and a view, as conformers have them."""

    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.pos = nn.Linear(d, 3 * d), nn.Linear(d, d, bias=False)
        self.u = nn.Parameter(torch.randn(heads, d // heads) * 0.1)
        self.v = nn.Parameter(torch.randn(heads, d // heads) * 0.1)
        self.register_buffer("table", torch.randn(2 * t - 1, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
        p = self.pos(self.table).view(2 * t - 1, self.heads, -1)
        content = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        place = torch.einsum("bihd,rhd->bhir", q + self.v, p)
        place = F.pad(place, (1, 0)).view(b, self.heads, 2 * t, t)[:, :, 1:]
        place = place.reshape(b, self.heads, t, 2 * t - 1)[..., :t]
        w = ((content + place) * (d // self.heads) ** -0.5).softmax(-1)
        return torch.einsum("bhij,bjhd->bihd", w, v).flatten(2)


@novel("speech/positional_convolution", (2, 11, 8, 4, 2), (6, 499, 768, 128, 16))
class PositionalConvolution(Rows):
    """wav2vec 2.0's positions: a grouped convolution whose weight is normed over its taps."""

    def __init__(self, b, t, d, taps, groups):
        super().__init__()
        conv = nn.Conv1d(d, d, taps, padding=taps // 2, groups=groups)
        self.conv = nn.utils.parametrizations.weight_norm(conv, dim=2)
        self.norm = nn.LayerNorm(d)

    def forward(self, x):
        y = self.conv(x.transpose(1, 2))[..., :-1]
        return self.norm(x + F.gelu(y).transpose(1, 2))


@novel("speech/wave_features_group_norm", (2, 173, 6), (5, 32143, 512))
class WaveFeatures(nn.Module):
    """wav2vec 2.0's first layers: a norm of each channel over time after the first."""

    def __init__(self, n, t, d):
        super().__init__()
        self.first = nn.Conv1d(1, d, 10, 5, bias=False)
        self.norm = nn.GroupNorm(d, d)
        self.rest = nn.ModuleList(nn.Conv1d(d, d, k, 2, bias=False) for k in (3, 3, 2))

    @staticmethod
    def inputs(n, t, d):
        return [normal(n, t)]

    def forward(self, x):
        x = F.gelu(self.norm(self.first(x[:, None])))
        for conv in self.rest:
            x = F.gelu(conv(x))
        return x.transpose(1, 2)


@novel("speech/greedy_ctc", (2, 9, 7), (24, 733, 5001))
class GreedyCtc(nn.Module):
    """The best symbol of each frame, those that repeat and blanks taken out, and how sure it is."""

    def __init__(self, b, t, v):
        super().__init__()

    @staticmethod
    def inputs(b, t, v):
        return [normal(b, t, v), torch.tensor([t - i % 5 for i in range(b)])]

    def forward(self, logits, lengths):
        best, symbol = logits.log_softmax(-1).max(-1)
        real = torch.arange(logits.shape[1], device=logits.device) < lengths[:, None]
        before = F.pad(symbol[:, :-1], (1, 0), value=-1)
        keep = real & (symbol != 0) & (symbol != before)
        place = keep.long().cumsum(1)
        out = F.pad(torch.zeros_like(symbol), (0, 1))
        out = out.scatter_add(1, place * keep, symbol * keep)
        score = best.masked_fill(~real, 0).sum(1) / lengths
        return out[:, 1:], keep.sum(1), score


@novel("speech/ctc_forward", (2, 5, 7, 3), (31, 23, 67, 19))
class CtcForward(nn.Module):
    """The likelihood of labels: CTC's forward sums, frame by frame."""

    def __init__(self, b, t, v, labels):
        super().__init__()

    @staticmethod
    def inputs(b, t, v, labels):
        return [normal(b, t, v), below(v - 1, b, labels) + 1]

    def forward(self, logits, labels):
        b, n = labels.shape
        states = torch.stack([torch.zeros_like(labels), labels], 2).flatten(1)
        states = F.pad(states, (0, 1))
        log = logits.log_softmax(-1).gather(
            2, states[:, None].expand(b, logits.shape[1], 2 * n + 1)
        )
        skip = (states[:, 2:] != 0) & (states[:, 2:] != states[:, :-2])
        skip = F.pad(skip, (2, 0))
        low = -1e30
        at = torch.arange(2 * n + 1, device=logits.device)
        a = torch.where(at < 2, log[:, 0], torch.full_like(log[:, 0], low))
        for t in range(1, logits.shape[1]):
            one = F.pad(a[:, :-1], (1, 0), value=low)
            two = torch.where(skip, F.pad(a[:, :-2], (2, 0), value=low), low)
            a = torch.logsumexp(torch.stack([a, one, two]), 0) + log[:, t]
        return -torch.logaddexp(a[:, -1], a[:, -2])


@novel("speech/transducer_joint", (2, 3, 4, 5, 6, 7), (3, 97, 31, 320, 512, 1025))
class TransducerJoint(nn.Module):
    """An RNN-T's joint network: each frame with each label, to symbols' log probabilities."""

    def __init__(self, b, t, u, d, inner, v):
        super().__init__()
        self.frames, self.labels = nn.Linear(d, inner), nn.Linear(d, inner, bias=False)
        self.out = nn.Linear(inner, v)

    @staticmethod
    def inputs(b, t, u, d, inner, v):
        return [normal(b, t, d), normal(b, u, d)]

    def forward(self, x, y):
        z = torch.tanh(self.frames(x)[:, :, None] + self.labels(y)[:, None])
        z = self.out(z).log_softmax(-1)
        return z[..., 0], z[..., 1:].amax(-1)


@novel("speech/convolutional_subsampling", (2, 13, 11, 6), (9, 1003, 80, 176))
class Subsampling(nn.Module):
    def __init__(self, b, t, mels, d):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, d, 3, 2), nn.ReLU(), nn.Conv2d(d, d, 3, 2), nn.ReLU()
        )
        self.out = nn.Linear(d * (((mels - 1) // 2 - 1) // 2), d)
        self.scale = d**0.5

    @staticmethod
    def inputs(b, t, mels, d):
        return [normal(b, t, mels)]

    def forward(self, x):
        y = self.conv(x[:, None]).transpose(1, 2).flatten(2)
        return self.out(y) * self.scale


@novel("speech/masks_of_spectrograms", (2, 9, 11, 2), (33, 1201, 80, 2))
class SpecAugment(nn.Module):
    """Bands of time and of frequency, at given places, filled with the mean of what is real."""

    def __init__(self, b, mels, t, bands):
        super().__init__()

    @staticmethod
    def inputs(b, t, mels, bands):
        return [normal(b, t, mels), below(t // 2, b, bands), below(mels // 2, b, bands)]

    def forward(self, x, times, mels):
        t, m = (torch.arange(n, device=x.device) for n in x.shape[1:])
        rows = ((t >= times[..., None]) & (t < times[..., None] + 7)).any(1)
        cols = ((m >= mels[..., None]) & (m < mels[..., None] + 5)).any(1)
        hide = rows[:, :, None] | cols[:, None, :]
        kept = x.masked_fill(hide, 0.0)
        mean = kept.sum((1, 2), keepdim=True) / (~hide).sum((1, 2), keepdim=True)
        return torch.where(hide, mean, x)


@novel("speech/attentive_statistics", (2, 6, 9, 3), (45, 1536, 203, 128))
class AttentiveStatistics(nn.Module):
    """ECAPA's pooling: weighted mean and deviation of channels over time."""

    def __init__(self, b, c, t, inner):
        super().__init__()
        self.down, self.norm = nn.Conv1d(3 * c, inner, 1), nn.BatchNorm1d(inner)
        self.up = nn.Conv1d(inner, c, 1)

    @staticmethod
    def inputs(b, c, t, inner):
        return [normal(b, c, t)]

    def forward(self, x):
        mean, std = x.mean(2, keepdim=True), x.std(2, keepdim=True)
        wide = torch.cat([x, mean.expand_as(x), std.expand_as(x)], 1)
        w = self.up(torch.tanh(self.norm(F.relu(self.down(wide))))).softmax(2)
        mu = (w * x).sum(2)
        sg = ((w * x.square()).sum(2) - mu.square()).clamp(min=1e-6).sqrt()
        return torch.cat([mu, sg], 1)


@novel("speech/res2net_time", (2, 12, 11, 3), (18, 512, 301, 8))
class Res2Net(nn.Module):
    """Parts of channels in a chain of dilated convolutions, then squeeze and excite."""

    def __init__(self, b, c, t, parts):
        super().__init__()
        one = c // parts
        self.parts = parts
        self.convs = nn.ModuleList(
            nn.Sequential(nn.Conv1d(one, one, 3, dilation=2, padding=2), nn.ReLU())
            for _ in range(parts - 1)
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(one) for _ in range(parts - 1))
        self.down, self.up = nn.Linear(c, c // 2), nn.Linear(c // 2, c)

    @staticmethod
    def inputs(b, c, t, parts):
        return [normal(b, c, t)]

    def forward(self, x):
        first, *rest = x.chunk(self.parts, 1)
        out, last = [first], torch.zeros_like(first)
        for part, conv, norm in zip(rest, self.convs, self.norms, strict=True):
            last = norm(conv(part + last))
            out.append(last)
        y = torch.cat(out, 1)
        gate = torch.sigmoid(self.up(F.relu(self.down(y.mean(2)))))
        return x + y * gate[:, :, None]


@novel("speech/griffin_lim_step", (2, 40, 8, 4), (7, 30000, 400, 160))
class GriffinLim(nn.Module):
    """From a wave to frames, their transform by products, its phase with given magnitudes, back."""

    def __init__(self, b, t, n, hop):
        super().__init__()
        at, k = torch.arange(n), torch.arange(n // 2 + 1)
        angle = 2 * torch.pi * torch.outer(at, k) / n
        self.register_buffer("window", torch.hann_window(n))
        self.register_buffer("real", angle.cos())
        self.register_buffer("imag", -angle.sin())
        self.n, self.hop = n, hop

    @staticmethod
    def inputs(b, t, n, hop):
        frames = (t - n) // hop + 1
        return [normal(b, t), normal(b, frames, n // 2 + 1).abs()]

    def forward(self, wave, size):
        frames = wave.unfold(1, self.n, self.hop) * self.window
        re, im = frames @ self.real, frames @ self.imag
        long = torch.sqrt(re * re + im * im).clamp_min(1e-8)
        re, im = size * re / long, size * im / long
        twice = torch.full_like(self.real[0], 2.0)
        twice[0] = 1.0
        twice[-1] = 1.0
        back = ((re * twice) @ self.real.T + (im * twice) @ self.imag.T) / self.n * self.window
        t = (frames.shape[1] - 1) * self.hop + self.n
        wide = back.transpose(1, 2)
        return F.fold(wide, (1, t), (1, self.n), stride=(1, self.hop))[:, 0, 0]


@novel("speech/pitch_by_difference", (2, 60, 16, 8, 7), (11, 16001, 512, 200, 251))
class Yin(nn.Module):
    """YIN: squared differences of a frame and itself later, over their running mean."""

    def __init__(self, b, t, frame, hop, lags):
        super().__init__()
        self.frame, self.hop, self.lags = frame, hop, lags

    @staticmethod
    def inputs(b, t, frame, hop, lags):
        return [normal(b, t)]

    def forward(self, x):
        f = x.unfold(1, self.frame, self.hop)
        wide = self.frame - self.lags
        head = f[..., :wide]
        later = f.unfold(2, wide, 1)[:, :, : self.lags]
        d = (head[:, :, None] - later).square().sum(-1)
        mean = d[..., 1:].cumsum(-1) / torch.arange(1, self.lags, device=x.device)
        d = F.pad(d[..., 1:] / mean.clamp_min(1e-9), (1, 0), value=1.0)
        low = d < 0.1
        first = low.int().argmax(-1)
        return torch.where(low.any(-1), first, d.argmin(-1))


@novel("speech/memory_block", (2, 11, 6, 3), (17, 501, 360, 11))
class MemoryBlock(Rows):
    """FSMN: what was and what will be, weighted by channel, beside a projection."""

    def __init__(self, b, t, d, order):
        super().__init__()
        self.down, self.up = nn.Linear(d, d // 2, bias=False), nn.Linear(d // 2, d)
        self.left = nn.Conv1d(d // 2, d // 2, order, groups=d // 2, bias=False)
        self.right = nn.Conv1d(d // 2, d // 2, order, dilation=2, groups=d // 2, bias=False)
        self.order = order

    def forward(self, x):
        p = self.down(x).transpose(1, 2)
        past = self.left(F.pad(p, (self.order - 1, 0)))
        future = self.right(F.pad(p, (0, 2 * (self.order - 1))))
        return x + F.relu(self.up((p + past + future).transpose(1, 2)))


@novel("speech/product_codebooks", (2, 5, 6, 2, 3, 4), (8, 499, 512, 2, 320, 128))
class ProductCodebooks(nn.Module):
    """wav2vec 2.0's quantizer with given noise: straight-through symbols of groups of codes."""

    def __init__(self, b, t, d, groups, codes, inner):
        super().__init__()
        self.groups, self.codes = groups, codes
        self.logits = nn.Linear(d, groups * codes)
        self.book = nn.Parameter(torch.rand(groups, codes, inner))

    @staticmethod
    def inputs(b, t, d, groups, codes, inner):
        return [normal(b, t, d), torch.rand(b, t, groups, codes) * 0.98 + 0.01]

    def forward(self, x, noise):
        y = self.logits(x).unflatten(-1, (self.groups, self.codes))
        soft = ((y - torch.log(-torch.log(noise))) / 1.5).softmax(-1)
        hard = F.one_hot(soft.argmax(-1), self.codes).to(x) + soft - soft.detach()
        mean = y.softmax(-1).mean((0, 1))
        spread = torch.exp(-(mean * torch.log(mean + 1e-7)).sum(-1)).sum()
        return torch.einsum("btgc,gcd->btgd", hard, self.book).flatten(2), spread
