"""Generators: blocks of diffusion's networks, what samples from them, and autoencoders."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, Rows, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("diffusion/transformer_block", (2, 5, 12, 3), (7, 289, 1152, 16))
class TransformerBlock(nn.Module):
    """DiT's: shifts, scales and gates of both halves come of one vector."""

    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.one = nn.LayerNorm(d, elementwise_affine=False, eps=1e-6)
        self.two = nn.LayerNorm(d, elementwise_affine=False, eps=1e-6)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))
        self.half()

    @staticmethod
    def inputs(b, t, d, heads):
        return [normal(b, t, d, dtype=torch.float16), normal(b, d, dtype=torch.float16)]

    def forward(self, x, c):
        s1, g1, a1, s2, g2, a2 = self.ada(c)[:, None].chunk(6, -1)
        y = self.one(x) * (1 + g1) + s1
        q, k, v = (
            z.unflatten(-1, (self.heads, -1)).transpose(1, 2) for z in self.qkv(y).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        x = x + a1 * self.out(y)
        return x + a2 * self.mlp(self.two(x) * (1 + g2) + s2)


@novel("diffusion/time_and_label", (5, 10, 12, 7), (77, 322, 1152, 1001))
class TimeAndLabel(nn.Module):
    """Sines of a step through a network, with a label's vector or that of none."""

    def __init__(self, b, few, d, labels):
        super().__init__()
        self.few = few
        self.mlp = nn.Sequential(nn.Linear(few, d), nn.SiLU(), nn.Linear(d, d))
        self.table = nn.Embedding(labels, d)

    @staticmethod
    def inputs(b, few, d, labels):
        return [
            torch.randint(0, 1000, (b,)),
            torch.randint(0, labels - 1, (b,)),
            torch.rand(b) < 0.2,
        ]

    def forward(self, t, label, drop):
        half = self.few // 2
        rate = torch.exp(-9.21034 * torch.arange(half, device=t.device) / half)
        angle = t[:, None].float() * rate
        wave = torch.cat([angle.cos(), angle.sin()], -1)
        label = torch.where(drop, self.table.num_embeddings - 1, label)
        return self.mlp(wave) + self.table(label)


@novel("diffusion/residual_with_time", (2, 8, 7, 5, 12, 6), (3, 192, 45, 61, 320, 512))
class ResidualWithTime(nn.Module):
    def __init__(self, n, c, h, w, out, time):
        super().__init__()
        self.one, self.two = nn.GroupNorm(4, c), nn.GroupNorm(4, out)
        self.a, self.b = nn.Conv2d(c, out, 3, padding=1), nn.Conv2d(out, out, 3, padding=1)
        self.time, self.skip = nn.Linear(time, 2 * out), nn.Conv2d(c, out, 1)

    @staticmethod
    def inputs(n, c, h, w, out, time):
        return [normal(n, c, h, w), normal(n, time)]

    def forward(self, x, t):
        y = self.a(F.silu(self.one(x)))
        scale, shift = self.time(F.silu(t))[..., None, None].chunk(2, 1)
        y = self.b(F.silu(self.two(y) * (1 + scale) + shift))
        return (self.skip(x) + y) / 2**0.5


@novel("diffusion/guided_step", (4, 3, 6, 5), (48, 4, 61, 83))
class GuidedStep(nn.Module):
    """Two predictions joined by guidance, its deviation set back, clipped by a quantile; DDIM."""

    def __init__(self, n, c, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, c, h, w):
        a = torch.rand(n, 2) * 0.8 + 0.1
        return [normal(n, c, h, w), normal(2 * n, c, h, w), a]

    def forward(self, x, both, alpha):
        free, held = both.chunk(2)
        e = free + 7.5 * (held - free)
        over = (1, 2, 3)
        e = 0.7 * e * (held.std(over, keepdim=True) / e.std(over, keepdim=True)) + 0.3 * e
        a, b = alpha[:, :, None, None, None].unbind(1)
        clean = (x - (1 - a).sqrt() * e) / a.sqrt()
        most = clean.flatten(1).abs().quantile(0.995, 1).clamp(min=1)[:, None, None, None]
        clean = torch.maximum(torch.minimum(clean, most), -most) / most
        return b.sqrt() * clean + (1 - b).sqrt() * e


@novel("diffusion/attention_of_pixels", (2, 8, 5, 3, 2), (3, 512, 29, 37, 1))
class AttentionOfPixels(nn.Module):
    def __init__(self, n, c, h, w, heads):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(4, c), heads
        self.q, self.k, self.v, self.out = (nn.Conv2d(c, c, 1) for _ in range(4))

    @staticmethod
    def inputs(n, c, h, w, heads):
        return [normal(n, c, h, w)]

    def forward(self, x):
        y = self.norm(x)
        q, k, v = (one(y).flatten(2) for one in (self.q, self.k, self.v))
        w = torch.bmm(q.transpose(1, 2), k) * q.shape[1] ** -0.5
        y = torch.bmm(v, w.softmax(2).transpose(1, 2))
        return x + self.out(y.view_as(x))


@novel("diffusion/decoder_level", (1, 8, 5, 3), (2, 160, 47, 59))
class DecoderLevel(nn.Module):
    """Up by repeated pixels, a convolution, norm and SiLU, and a head to three colours."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.up, self.norm = nn.Conv2d(c, c // 2, 3, padding=1), nn.GroupNorm(4, c // 2)
        self.head = nn.Conv2d(c // 2, 3, 3, padding=1)

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w)]

    def forward(self, x):
        y = F.interpolate(x, scale_factor=2.0, mode="nearest")
        y = self.head(F.silu(self.norm(self.up(y))))
        return ((y / 2 + 0.5).clamp(0, 1) * 255).round().to(torch.uint8)


@novel("diffusion/two_streams", (2, 3, 5, 16, 2), (3, 154, 475, 768, 12))
class TwoStreams(nn.Module):
    """Stable Diffusion 3's joint attention: words and patches, each with weights of its own."""

    def __init__(self, b, s, t, d, heads):
        super().__init__()
        self.heads = heads
        self.words, self.patches = nn.Linear(d, 3 * d), nn.Linear(d, 3 * d)
        self.gains = nn.Parameter(torch.ones(4, d // heads))
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)
        self.bfloat16()

    @staticmethod
    def inputs(b, s, t, d, heads):
        return [normal(b, s, d, dtype=torch.bfloat16), normal(b, t, d, dtype=torch.bfloat16)]

    def forward(self, x, y):
        def parts(z, layer, gains):
            q, k, v = layer(z).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            return F.rms_norm(q, q.shape[-1:], gains[0]), F.rms_norm(k, k.shape[-1:], gains[1]), v

        both = zip(
            parts(x, self.words, self.gains[:2]),
            parts(y, self.patches, self.gains[2:]),
            strict=True,
        )
        q, k, v = (torch.cat(pair, 2) for pair in both)
        z = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        n = x.shape[1]
        return x + self.a(z[:, :n]), y + self.b(z[:, n:])


@novel("diffusion/patches_and_back", (2, 4, 6, 9, 3, 10), (9, 4, 66, 93, 3, 384))
class PatchesAndBack(nn.Module):
    def __init__(self, n, c, h, w, p, d):
        super().__init__()
        self.p = p
        self.into, self.out = nn.Linear(c * p * p, d), nn.Linear(d, c * p * p)

    @staticmethod
    def inputs(n, c, h, w, p, d):
        return [normal(n, c, h, w)]

    def forward(self, x):
        n, c, h, w = x.shape
        p = self.p
        y = x.view(n, c, h // p, p, w // p, p)
        y = torch.einsum("nchpwq->nhwpqc", y).reshape(n, -1, p * p * c)
        y = self.out(F.silu(self.into(y))).view(n, h // p, w // p, p, p, c)
        return torch.einsum("nhwpqc->nchpwq", y).reshape(n, c, h, w)


@novel("diffusion/flow_matching", (3, 4, 5, 6), (53, 16, 45, 37))
class FlowMatching(nn.Module):
    """A velocity's loss with weights of a logit-normal time, and the mean by quarter of time."""

    def __init__(self, n, c, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, c, h, w):
        return [*(normal(n, c, h, w) for _ in range(3)), normal(n)]

    def forward(self, clean, noise, said, z):
        t = torch.sigmoid(z)
        s = 3.0 * t / (1 + 2.0 * t)
        wide = s[:, None, None, None]
        mixed = (1 - wide) * clean + wide * noise
        loss = (said + mixed - (noise - clean)).square().flatten(1).mean(1)
        quarter = (s * 4).long().clamp(0, 3)
        sums = torch.zeros(4, device=z.device, dtype=z.dtype).index_add_(0, quarter, loss)
        count = (quarter[:, None] == torch.arange(4, device=z.device)).sum(0)
        return loss.mean(), sums / count.clamp(min=1)


@novel("diffusion/preconditioned", (3, 4, 5, 6), (21, 3, 96, 104))
class Preconditioned(One):
    """EDM's scales around a network, and Heun's second step."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.net = nn.Conv2d(c, c, 3, padding=1)

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w), torch.rand(n) * 5 + 0.5]

    def _clean(self, x, sigma):
        sigma = sigma[:, None, None, None]
        var = sigma.square() + 0.25
        return x * 0.25 / var + self.net(x * var.rsqrt()) * sigma * 0.5 * var.rsqrt()

    def forward(self, x, sigma):
        low = sigma * 0.7
        d = (x - self._clean(x, sigma)) / sigma[:, None, None, None]
        y = x + (low - sigma)[:, None, None, None] * d
        e = (y - self._clean(y, low)) / low[:, None, None, None]
        return x + (low - sigma)[:, None, None, None] * (d + e) / 2


@novel("diffusion/causal_volume", (1, 6, 3, 5, 4), (1, 96, 9, 45, 61))
class CausalVolume(nn.Module):
    """A video's autoencoder: time is padded by its first frame, planes by zeros."""

    def __init__(self, n, c, t, h, w):
        super().__init__()
        self.a, self.b = nn.Conv3d(c, c, 3), nn.Conv3d(c, c, 3)
        self.gain = nn.Parameter(torch.ones(2, c))

    @staticmethod
    def inputs(n, c, t, h, w):
        return [normal(n, c, t, h, w)]

    def forward(self, x):
        y = x
        for gain, conv in zip(self.gain, (self.a, self.b), strict=True):
            y = F.normalize(y, dim=1) * y.shape[1] ** 0.5 * gain[:, None, None, None]
            y = F.silu(y)
            y = torch.cat([y[:, :, :1], y[:, :, :1], y], 2)
            y = conv(F.pad(y, (1, 1, 1, 1)))
        return x + y


@novel("diffusion/mapping_network", (5, 12, 3), (777, 512, 8))
class MappingNetwork(nn.Module):
    """StyleGAN's: a vector of length one through layers with a learning rate of their own."""

    def __init__(self, n, d, layers):
        super().__init__()
        self.w = nn.Parameter(torch.randn(layers, d, d) * 100)
        self.b = nn.Parameter(torch.zeros(layers, d))
        self.register_buffer("mean", torch.randn(d))

    @staticmethod
    def inputs(n, d, layers):
        return [normal(n, d)]

    def forward(self, z):
        z = z * torch.rsqrt(z.square().mean(1, keepdim=True) + 1e-8)
        for w, b in zip(self.w, self.b, strict=True):
            z = F.leaky_relu(F.linear(z, w * (0.01 / z.shape[1] ** 0.5), b * 0.01), 0.2) * 2**0.5
        return torch.lerp(self.mean, z, 0.7)[:, None].repeat(1, 3, 1)


@novel("diffusion/posterior", (3, 8, 5, 6), (11, 8, 91, 77))
class Posterior(One):
    """A Gaussian of an autoencoder: its sample with given noise, its divergence, its likelihood."""

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w), normal(n, c // 2, h, w)]

    def forward(self, moments, noise):
        mean, logvar = moments.chunk(2, 1)
        logvar = logvar.clamp(-30, 20)
        z = mean + torch.exp(0.5 * logvar) * noise
        kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).sum((1, 2, 3))
        nll = 0.5 * (1.8379 + logvar + (z - mean).square() / logvar.exp()).sum((1, 2, 3))
        return z * 0.18215, kl, nll


@novel("diffusion/masked_autoencoder", (2, 9, 8, 4), (13, 196, 192, 49))
class MaskedAutoencoder(Rows):
    """Patches in the order of given noise; those kept are encoded, the rest are one vector."""

    def __init__(self, b, t, d, keep):
        super().__init__()
        self.keep, self.mlp = keep, nn.Linear(d, d)
        self.hidden = nn.Parameter(torch.randn(1, 1, d))
        self.register_buffer("noise", torch.rand(b, t))

    def forward(self, x):
        order = self.noise.argsort(1)
        back = order.argsort(1)
        d = x.shape[2]
        kept = x.gather(1, order[:, : self.keep, None].expand(-1, -1, d))
        y = F.gelu(self.mlp(kept))
        rest = self.hidden.expand(x.shape[0], x.shape[1] - self.keep, -1)
        y = torch.cat([y, rest], 1).gather(1, back[..., None].expand(-1, -1, d))
        hidden = back >= self.keep
        loss = ((y - x).square().mean(-1) * hidden).sum() / hidden.sum()
        return y, loss
