"""Sequences: recurrences, scans, long and causal convolutions."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import Rows, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("sequence/lstm_cell_step", (3, 6, 8), (256, 512, 512))
class LstmStep(nn.Module):
    def __init__(self, b, d, hidden):
        super().__init__()
        self.cell = nn.LSTMCell(d, hidden)

    @staticmethod
    def inputs(b, d, hidden):
        return [normal(b, d), normal(b, hidden), normal(b, hidden)]

    def forward(self, x, h, c):
        return self.cell(x, (h, c))


@novel("sequence/gru_cell_by_hand", (3, 6, 8), (256, 512, 1024))
class GruStep(nn.Module):
    def __init__(self, b, d, hidden):
        super().__init__()
        self.x, self.h = nn.Linear(d, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    @staticmethod
    def inputs(b, d, hidden):
        return [normal(b, d), normal(b, hidden)]

    def forward(self, x, h):
        rx, zx, nx = self.x(x).chunk(3, -1)
        rh, zh, nh = self.h(h).chunk(3, -1)
        r, z = torch.sigmoid(rx + rh), torch.sigmoid(zx + zh)
        return torch.lerp(torch.tanh(nx + r * nh), h, z)


@novel("sequence/lstm_two_layers", (2, 4, 6, 5), (64, 24, 256, 256))
class Lstm(Rows):
    def __init__(self, b, t, d, hidden):
        super().__init__()
        self.lstm = nn.LSTM(d, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 3)

    def forward(self, x):
        y, (h, _) = self.lstm(x)
        return self.head(y), h


@novel("sequence/bidirectional_gru", (2, 4, 6, 5), (64, 16, 128, 128))
class BiGru(Rows):
    def __init__(self, b, t, d, hidden):
        super().__init__()
        self.gru = nn.GRU(d, hidden, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.gru(x)[0].amax(1)


@novel("sequence/minimal_gru_unrolled", (2, 5, 6), (128, 32, 256))
class MinimalGru(Rows):
    def __init__(self, b, t, d):
        super().__init__()
        self.z, self.h = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        z, h = torch.sigmoid(self.z(x)), self.h(x)
        state = torch.zeros_like(x[:, 0])
        seen = []
        for t in range(x.shape[1]):
            state = (1 - z[:, t]) * state + z[:, t] * h[:, t]
            seen.append(state)
        return torch.stack(seen, 1)


@novel("sequence/wavenet_layer", (2, 6, 17, 2), (8, 64, 8000, 16))
class WaveNet(nn.Module):
    def __init__(self, b, c, t, dilation):
        super().__init__()
        self.pad = dilation
        self.conv = nn.Conv1d(c, 2 * c, 2, dilation=dilation)
        self.skip, self.out = nn.Conv1d(c, c, 1), nn.Conv1d(c, c, 1)

    @staticmethod
    def inputs(b, c, t, dilation):
        return [normal(b, c, t)]

    def forward(self, x):
        a, g = self.conv(F.pad(x, (self.pad, 0))).chunk(2, 1)
        y = torch.tanh(a) * torch.sigmoid(g)
        return x + self.out(y), self.skip(y)


@novel("sequence/gated_conv_glu", (2, 8, 15), (16, 256, 1024))
class GatedConv(nn.Module):
    def __init__(self, b, c, t):
        super().__init__()
        self.a, self.b = nn.Conv1d(c, 2 * c, 3, padding=1), nn.Conv1d(c, c, 5, padding=2, groups=c)
        self.norm = nn.BatchNorm1d(c)

    @staticmethod
    def inputs(b, c, t):
        return [normal(b, c, t)]

    def forward(self, x):
        return x + F.silu(self.norm(self.b(F.glu(self.a(x), 1))))


@novel("sequence/causal_depthwise_conv", (2, 9, 8, 4), (8, 2048, 1024, 4))
class CausalDepthwise(Rows):
    """Mamba's short convolution on tokens, channels last."""

    def __init__(self, b, t, d, k):
        super().__init__()
        self.conv = nn.Conv1d(d, d, k, groups=d, padding=k - 1)

    def forward(self, x):
        t = x.shape[1]
        return F.silu(self.conv(x.transpose(1, 2))[..., :t].transpose(1, 2))


@novel("sequence/gated_scan_cumsum", (2, 9, 6), (8, 2048, 512))
class GatedScan(Rows):
    """A linear recurrence by sums of logarithms: what minGRU and S5 write."""

    def __init__(self, b, t, d):
        super().__init__()
        self.gate, self.value = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x):
        gate, value = self.gate(x), F.softplus(self.value(x))
        decay = -F.softplus(gate).cumsum(1)
        inner = torch.logcumsumexp(-F.softplus(-gate) + torch.log(value + 1e-6) - decay, 1)
        return torch.exp(decay + inner)


@novel("sequence/cumprod_decay", (2, 9, 6), (16, 1024, 256))
class CumprodDecay(Rows):
    def __init__(self, b, t, d):
        super().__init__()

    def forward(self, x):
        a = torch.sigmoid(x) * 0.1 + 0.9
        decay = a.cumprod(1)
        return decay * (x / decay).cumsum(1)


@novel("sequence/selective_scan_unrolled", (2, 5, 4, 3), (8, 32, 512, 16))
class SelectiveScan(nn.Module):
    """Mamba's scan step by step over a state."""

    def __init__(self, b, t, d, n):
        super().__init__()
        self.a = nn.Parameter(torch.rand(d, n))
        self.skip = nn.Parameter(torch.ones(d))

    @staticmethod
    def inputs(b, t, d, n):
        return [normal(b, t, d), normal(b, t, d), normal(b, t, n), normal(b, t, n)]

    def forward(self, u, delta, bs, cs):
        delta = F.softplus(delta)
        da = torch.exp(-delta[..., None] * self.a)
        dbu = (delta * u)[..., None] * bs[:, :, None]
        x = torch.zeros_like(da[:, 0])
        ys = []
        for t in range(u.shape[1]):
            x = da[:, t] * x + dbu[:, t]
            ys.append((x * cs[:, t, None]).sum(-1))
        return torch.stack(ys, 1) + u * self.skip


@novel("sequence/chunked_ssd", (1, 8, 2, 4, 3, 4), (4, 1024, 8, 64, 64, 64))
class ChunkedSsd(nn.Module):
    """Mamba-2's state space duality in chunks: products inside, a scan of states between."""

    def __init__(self, b, t, h, p, n, chunk):
        super().__init__()
        self.chunk = chunk

    @staticmethod
    def inputs(b, t, h, p, n, chunk):
        return [normal(b, t, h, p), -torch.rand(b, t, h), normal(b, t, h, n), normal(b, t, h, n)]

    def forward(self, x, a, bs, cs):
        _b, _t, _h, _ = x.shape
        x, bs, cs = (y.unflatten(1, (-1, self.chunk)) for y in (x, bs, cs))
        a = a.unflatten(1, (-1, self.chunk)).permute(0, 3, 1, 2)
        total = a.cumsum(-1)

        def segments(y):
            far = y[..., :, None] - y[..., None, :]
            keep = torch.ones(far.shape[-2:], dtype=torch.bool, device=far.device).tril()
            return far.masked_fill(~keep, float("-inf")).exp()

        inside = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", cs, bs, segments(total), x)
        decay = torch.exp(total[..., -1:] - total)
        states = torch.einsum("bclhn,bhcl,bclhp->bchpn", bs, decay, x)
        states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
        between = segments(F.pad(total[..., -1], (1, 0)).cumsum(-1))
        states = torch.einsum("bhzc,bchpn->bzhpn", between, states)[:, :-1]
        outside = torch.einsum("bclhn,bchpn,bhcl->bclhp", cs, states, total.exp())
        return (inside + outside).flatten(1, 2)


@novel("sequence/linear_attention_elu", (2, 9, 16, 2), (4, 2048, 512, 8))
class LinearAttention(Rows):
    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d)

    def forward(self, x):
        b, t, _d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        kv = torch.einsum("bthd,bthe->bhde", k, v)
        z = 1 / torch.einsum("bthd,bhd->bth", q, k.sum(1))
        return torch.einsum("bthd,bhde,bth->bthe", q, kv, z).flatten(2)


@novel("sequence/causal_linear_attention", (2, 8, 2, 4), (4, 512, 4, 32))
class CausalLinear(nn.Module):
    """Running sums of outer products of keys and values."""

    def __init__(self, b, t, h, d):
        super().__init__()

    @staticmethod
    def inputs(b, t, h, d):
        return [normal(b, h, t, d) for _ in range(3)]

    def forward(self, q, k, v):
        q, k = F.relu(q) + 0.1, F.relu(k) + 0.1
        kv = (k[..., :, None] * v[..., None, :]).cumsum(2)
        y = torch.einsum("bhtd,bhtde->bhte", q, kv)
        return y / (q * k.cumsum(2)).sum(-1, keepdim=True)


@novel("sequence/retention_parallel", (2, 8, 16, 2), (2, 1024, 1024, 8))
class Retention(nn.Module):
    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.qkvg = nn.Linear(d, 4 * d, bias=False)
        self.norm = nn.GroupNorm(heads, d)
        self.half()
        gamma = 1 - 2.0 ** (-5 - torch.arange(heads))
        at = torch.arange(t)
        far = (at[:, None] - at).clamp(min=0)
        self.register_buffer("decay", (gamma[:, None, None] ** far).tril().half())

    @staticmethod
    def inputs(b, t, d, heads):
        return [normal(b, t, d, dtype=torch.float16)]

    def forward(self, x):
        b, t, d = x.shape
        q, k, v, g = self.qkvg(x).view(b, t, 4, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = ((q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5 * self.decay) @ v
        y = self.norm(y.transpose(1, 2).reshape(b * t, d)).view(b, t, d)
        return y * F.silu(g.transpose(1, 2).reshape(b, t, d))


@novel("sequence/long_conv_toeplitz", (2, 8, 5), (16, 512, 64))
class LongConv(Rows):
    """Hyena's long convolution by a Toeplitz matrix a channel, and two gates."""

    def __init__(self, b, t, d):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(d, t) / t**0.5)
        self.proj = nn.Linear(d, 3 * d)

    def forward(self, x):
        t = x.shape[1]
        at = torch.arange(t, device=x.device)
        far = at[:, None] - at
        toeplitz = torch.where(far >= 0, self.filter[:, far.clamp(min=0)], 0.0)
        v, a, b = self.proj(x).chunk(3, -1)
        return torch.einsum("dts,bsd->btd", toeplitz, v * a) * b


@novel("sequence/temporal_pyramid", (2, 5, 24), (32, 128, 1024))
class TemporalPyramid(nn.Module):
    def __init__(self, b, c, t):
        super().__init__()
        self.conv = nn.Conv1d(3 * c, c, 1)

    @staticmethod
    def inputs(b, c, t):
        return [normal(b, c, t)]

    def forward(self, x):
        t = x.shape[-1]
        means = [F.adaptive_avg_pool1d(x, t // s) for s in (2, 4)]
        wide = [F.interpolate(m, size=t, mode="linear", align_corners=False) for m in means]
        return self.conv(torch.cat([x, *wide], 1)) + F.avg_pool1d(x, 3, 1, 1)


@novel("sequence/upsampler_vocoder", (2, 6, 9), (8, 256, 400))
class Vocoder(nn.Module):
    """HiFi-GAN: transposed convolution, then residual dilated ones."""

    def __init__(self, b, c, t):
        super().__init__()
        self.up = nn.ConvTranspose1d(c, c // 2, 8, stride=4, padding=2)
        self.convs = nn.ModuleList(
            nn.Conv1d(c // 2, c // 2, 3, padding=d, dilation=d) for d in (1, 3, 5)
        )

    @staticmethod
    def inputs(b, c, t):
        return [normal(b, c, t)]

    def forward(self, x):
        x = self.up(F.leaky_relu(x, 0.1))
        for conv in self.convs:
            x = x + conv(F.leaky_relu(x, 0.1))
        return torch.tanh(x)


@novel("sequence/gated_additive_pooling", (2, 9, 8, 5), (64, 512, 256, 128))
class AdditivePooling(Rows):
    """Bahdanau's attention of one query over a sequence, with lengths."""

    def __init__(self, b, t, d, inner):
        super().__init__()
        self.key, self.query = nn.Linear(d, inner), nn.Linear(d, inner, bias=False)
        self.score = nn.Linear(inner, 1, bias=False)

    @staticmethod
    def inputs(b, t, d, inner):
        return [normal(b, t, d), normal(b, d), torch.randint(1, t + 1, (b,))]

    def forward(self, x, query, lengths):
        s = self.score(torch.tanh(self.key(x) + self.query(query)[:, None])).squeeze(-1)
        out = torch.arange(x.shape[1], device=x.device)[None] >= lengths[:, None]
        p = s.masked_fill(out, float("-inf")).softmax(-1)
        return torch.bmm(p[:, None], x).squeeze(1), p


@novel("sequence/crf_forward", (2, 5, 4), (64, 32, 24))
class Crf(nn.Module):
    """The partition function of a chain: a log-sum-exp a step."""

    def __init__(self, b, t, tags):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(tags, tags))

    @staticmethod
    def inputs(b, t, tags):
        return [normal(b, t, tags)]

    def forward(self, x):
        alpha = x[:, 0]
        for t in range(1, x.shape[1]):
            alpha = torch.logsumexp(alpha[:, :, None] + self.trans, 1) + x[:, t]
        return alpha.logsumexp(-1)


@novel("sequence/viterbi_steps", (2, 5, 4), (64, 24, 32))
class Viterbi(nn.Module):
    def __init__(self, b, t, tags):
        super().__init__()
        self.trans = nn.Parameter(torch.randn(tags, tags))

    @staticmethod
    def inputs(b, t, tags):
        return [normal(b, t, tags)]

    def forward(self, x):
        score, back = x[:, 0], []
        for t in range(1, x.shape[1]):
            best, at = (score[:, :, None] + self.trans).max(1)
            score = best + x[:, t]
            back.append(at)
        return score.max(-1).values, torch.stack(back, 1)


@novel("sequence/segment_cumsum_reset", (2, 9, 4), (32, 4096, 64))
class CumsumReset(Rows):
    """Sums within episodes: the running sum less what it was at the last reset."""

    def __init__(self, b, t, d):
        super().__init__()

    @staticmethod
    def inputs(b, t, d):
        return [normal(b, t, d), torch.rand(b, t) < 0.1]

    def forward(self, x, done):
        whole = x.cumsum(1)
        base = torch.where(done[..., None], whole - x, torch.zeros_like(x))
        at = torch.where(done, torch.arange(x.shape[1], device=x.device)[None], 0).cummax(1).values
        return whole - base.gather(1, at[..., None].expand_as(x))
