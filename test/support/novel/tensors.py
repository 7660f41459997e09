"""Work on tensors: einsum of many, movements, indices, types of numbers, norms."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("tensors/trilinear_einsum", (4, 5, 6, 7), (256, 64, 64, 64))
class Trilinear(nn.Module):
    def __init__(self, b, i, j, k):
        super().__init__()
        self.core = nn.Parameter(torch.randn(i, j, k) / (i * j) ** 0.5)

    @staticmethod
    def inputs(b, i, j, k):
        return [normal(b, i), normal(b, j), normal(b, k)]

    def forward(self, x, y, z):
        return torch.einsum("bi,bj,ijk->bk", x, y, self.core) * z


@novel("tensors/tucker_reconstruct", (5, 6, 7, 3), (64, 96, 128, 16))
class Tucker(nn.Module):
    def __init__(self, a, b, c, r):
        super().__init__()

    @staticmethod
    def inputs(a, b, c, r):
        return [normal(r, r, r), normal(a, r), normal(b, r), normal(c, r)]

    def forward(self, core, x, y, z):
        return torch.einsum("pqr,ap,bq,cr->abc", core, x, y, z)


@novel("tensors/tensor_train_linear", (5, 3, 4, 2), (1024, 32, 32, 16))
class TensorTrain(nn.Module):
    def __init__(self, n, p, q, r):
        super().__init__()
        self.a = nn.Parameter(torch.randn(p, p, r) / (p * r) ** 0.5)
        self.b = nn.Parameter(torch.randn(r, q, q) / q**0.5)

    @staticmethod
    def inputs(n, p, q, r):
        return [normal(n, p * q)]

    def forward(self, x):
        x = x.unflatten(-1, (self.a.shape[0], -1))
        return torch.einsum("npq,pir,rqj->nij", x, self.a, self.b).flatten(1)


@novel("tensors/kronecker_linear", (5, 3, 4), (256, 32, 48))
class Kronecker(nn.Module):
    def __init__(self, n, a, b):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(a, a)), nn.Parameter(torch.randn(b, b))

    @staticmethod
    def inputs(n, a, b):
        return [normal(n, a * b)]

    def forward(self, x):
        return x @ torch.kron(self.a, self.b) / 10


@novel("tensors/tensordot_axes", (4, 3, 5, 6), (64, 32, 48, 128))
class Tensordot(nn.Module):
    def __init__(self, n, a, b, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(b, a, out))

    @staticmethod
    def inputs(n, a, b, out):
        return [normal(n, a, b, 7)]

    def forward(self, x):
        return torch.tensordot(x, self.weight, dims=([2, 1], [0, 1]))


@novel("tensors/bilinear_pooling", (3, 5, 4, 6), (64, 128, 196, 128))
class BilinearPooling(nn.Module):
    def __init__(self, n, a, t, b):
        super().__init__()

    @staticmethod
    def inputs(n, a, t, b):
        return [normal(n, a, t), normal(n, b, t)]

    def forward(self, x, y):
        z = torch.einsum("nat,nbt->nab", x, y).flatten(1) / x.shape[-1]
        z = torch.sign(z) * torch.sqrt(z.abs() + 1e-10)
        return F.normalize(z, dim=-1)


@novel("tensors/mixer_axes", (2, 6, 5, 7), (32, 196, 384, 512))
class Mixer(nn.Module):
    """Products along tokens, then along features."""

    def __init__(self, n, t, d, inner):
        super().__init__()
        self.a, self.b = nn.Linear(t, t), nn.Linear(d, inner)
        self.c = nn.Linear(inner, d)
        self.norm = nn.LayerNorm(d)

    @staticmethod
    def inputs(n, t, d, inner):
        return [normal(n, t, d)]

    def forward(self, x):
        x = x + self.a(self.norm(x).transpose(1, 2)).transpose(1, 2)
        return x + self.c(F.hardswish(self.b(x)))


@novel("tensors/axial_einsum_attention", (1, 4, 5, 6), (2, 32, 32, 64))
class Axial(nn.Module):
    def __init__(self, n, h, w, d):
        super().__init__()
        self.qkv = nn.Linear(d, 3 * d, bias=False)

    @staticmethod
    def inputs(n, h, w, d):
        return [normal(n, h, w, d)]

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        rows = torch.einsum("nhwd,nhvd->nhwv", q, k).softmax(-1)
        cols = torch.einsum("nhwd,ngwd->nwhg", q, k).softmax(-1)
        y = torch.einsum("nhwv,nhvd->nhwd", rows, v)
        return y + torch.einsum("nwhg,ngwd->nhwd", cols, v)


@novel("tensors/triangle_multiplication", (1, 6, 4, 5), (1, 192, 64, 64))
class Triangle(nn.Module):
    """AlphaFold's: products of edges that share a node, gated."""

    def __init__(self, n, t, d, inner):
        super().__init__()
        self.norm, self.after = nn.LayerNorm(d), nn.LayerNorm(inner)
        self.a, self.b = nn.Linear(d, inner), nn.Linear(d, inner)
        self.ga, self.gb, self.gate = nn.Linear(d, inner), nn.Linear(d, inner), nn.Linear(d, d)
        self.out = nn.Linear(inner, d)

    @staticmethod
    def inputs(n, t, d, inner):
        return [normal(n, t, t, d)]

    def forward(self, x):
        x = self.norm(x)
        a = torch.sigmoid(self.ga(x)) * self.a(x)
        b = torch.sigmoid(self.gb(x)) * self.b(x)
        y = torch.einsum("nikc,njkc->nijc", a, b)
        return torch.sigmoid(self.gate(x)) * self.out(self.after(y))


@novel("tensors/outer_product_mean", (1, 5, 6, 3, 4), (1, 64, 128, 16, 64))
class OuterMean(nn.Module):
    def __init__(self, n, s, t, c, out):
        super().__init__()
        self.a, self.b = nn.Linear(out, c), nn.Linear(out, c)
        self.out = nn.Linear(c * c, out)

    @staticmethod
    def inputs(n, s, t, c, out):
        return [normal(n, s, t, out)]

    def forward(self, x):
        y = torch.einsum("nsic,nsjd->nijcd", self.a(x), self.b(x)) / x.shape[1]
        return self.out(y.flatten(3))


@novel("tensors/block_causal_mask", (1, 2, 8, 4, 2), (2, 8, 1024, 64, 64))
class BlockCausal(nn.Module):
    def __init__(self, n, h, t, d, block):
        super().__init__()
        self.block = block

    @staticmethod
    def inputs(n, h, t, d, block):
        return [normal(n, h, t, d, dtype=torch.float16) for _ in range(3)]

    def forward(self, q, k, v):
        at = torch.arange(q.shape[2], device=q.device) // self.block
        return F.scaled_dot_product_attention(q, k, v, attn_mask=at[:, None] >= at)


@novel("tensors/triangles_and_diagonals", (3, 7, 7), (64, 512, 512))
class Triangles(One):
    def forward(self, x):
        low, high = x.tril(-1), x.triu(1)
        s = low + low.transpose(1, 2) + torch.diag_embed(x.diagonal(dim1=1, dim2=2).exp())
        return s, high.sum((1, 2))


@novel("tensors/where_chain", (5, 9), (4096, 4096))
class WhereChain(One):
    def forward(self, x):
        y = torch.where(x > 1, x.log1p(), torch.where(x < -1, -torch.log1p(-x), x * 0.7))
        return torch.where((y > 0) ^ (x.frac() > 0.5), y, y.square() - 1)


@novel("tensors/piecewise_linear_search", (5, 9, 6), (1024, 4096, 33))
class PiecewiseLinear(nn.Module):
    """A learned function between knots, which searchsorted finds."""

    def __init__(self, n, m, knots):
        super().__init__()
        self.register_buffer("x", torch.linspace(-2, 2, knots))
        self.y = nn.Parameter(torch.randn(knots))

    @staticmethod
    def inputs(n, m, knots):
        return [normal(n, m)]

    def forward(self, v):
        at = torch.searchsorted(self.x, v).clamp(1, len(self.x) - 1)
        x0, x1 = self.x[at - 1], self.x[at]
        return torch.lerp(self.y[at - 1], self.y[at], (v - x0) / (x1 - x0))


@novel("tensors/spline_basis_kan", (6, 5, 7, 8), (2048, 64, 64, 8))
class Kan(nn.Module):
    """A Kolmogorov-Arnold layer: cubic B-splines of each input, products with coefficients."""

    def __init__(self, n, d, out, grid):
        super().__init__()
        h = 2 / grid
        self.register_buffer("knots", torch.arange(-3, grid + 4) * h - 1)
        self.coef = nn.Parameter(torch.randn(out, d, grid + 3) * 0.1)
        self.base = nn.Linear(d, out)

    @staticmethod
    def inputs(n, d, out, grid):
        return [normal(n, d)]

    def forward(self, x):
        k, y = self.knots, x[..., None]
        b = ((y >= k[:-1]) & (y < k[1:])).to(x)
        for p in (1, 2, 3):
            b = (y - k[: -p - 1]) / (k[p:-1] - k[: -p - 1]) * b[..., :-1] + (k[p + 1 :] - y) / (
                k[p + 1 :] - k[1:-p]
            ) * b[..., 1:]
        return self.base(F.silu(x)) + torch.einsum("ndg,odg->no", b, self.coef)


@novel("tensors/chebyshev_features", (6, 5, 7), (8192, 64, 64))
class Chebyshev(nn.Module):
    def __init__(self, n, d, out):
        super().__init__()
        self.coef = nn.Parameter(torch.randn(d, out, 5) * 0.1)

    @staticmethod
    def inputs(n, d, out):
        return [normal(n, d)]

    def forward(self, x):
        x = torch.tanh(x)
        t = [torch.ones_like(x), x]
        for _ in range(3):
            t.append(2 * x * t[-1] - t[-2])
        return torch.einsum("ndk,dok->no", torch.stack(t, -1), self.coef)


@novel("tensors/vmapped_products", (4, 5, 6), (64, 256, 128))
class Vmapped(nn.Module):
    """A function of one example, mapped over a batch."""

    def __init__(self, n, d, out):
        super().__init__()

    @staticmethod
    def inputs(n, d, out):
        return [normal(n, d), normal(n, d, out)]

    def forward(self, x, w):
        def one(v, m):
            y = torch.tanh(v @ m)
            return y / (1 + y.norm()), (v[:, None] * m).sum(0).max()

        return torch.vmap(one)(x, w)


@novel("tensors/ensemble_vmap", (3, 5, 4, 6), (8, 1024, 64, 128))
class Ensemble(nn.Module):
    def __init__(self, models, n, d, inner):
        super().__init__()
        self.a = nn.Parameter(torch.randn(models, d, inner) / d**0.5)
        self.b = nn.Parameter(torch.randn(models, inner, 1) / inner**0.5)

    @staticmethod
    def inputs(models, n, d, inner):
        return [normal(n, d)]

    def forward(self, x):
        y = torch.vmap(lambda a, b: torch.relu(x @ a) @ b)(self.a, self.b).squeeze(-1)
        return y.mean(0), y.var(0)


@novel("tensors/interleaved_repeat_tile", (2, 3, 5), (64, 128, 256))
class Interleaved(One):
    def forward(self, x):
        a = x.repeat_interleave(3, dim=1)
        b = x.repeat(1, 3, 1).flip(1)
        return torch.stack([a, b], 2).flatten(1, 2).roll((1, -2), (1, 2))


@novel("tensors/odd_even_merge", (3, 8, 6), (64, 1024, 256))
class OddEven(One):
    """One step of a sorting network, and of a lifting wavelet."""

    def forward(self, x):
        even, odd = x[:, ::2], x[:, 1::2]
        low, high = torch.minimum(even, odd), torch.maximum(even, odd)
        d = high - (low + low.roll(-1, 1)) / 2
        s = low + (d + d.roll(1, 1)) / 4
        return torch.stack([s, d], 2).reshape(x.shape)


@novel("tensors/haar_wavelet_2d", (2, 3, 8, 12), (8, 16, 256, 256))
class Haar(One):
    def forward(self, x):
        a, b = x[..., ::2, ::2], x[..., ::2, 1::2]
        c, d = x[..., 1::2, ::2], x[..., 1::2, 1::2]
        return torch.cat([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d], 1) / 2


@novel("tensors/walsh_hadamard", (5, 16), (4096, 1024))
class Hadamard(One):
    """The fast transform, by views and stacks."""

    def forward(self, x):
        n, d = x.shape
        h = 1
        while h < d:
            y = x.view(n, d // (2 * h), 2, h)
            a, b = y[:, :, 0], y[:, :, 1]
            x = torch.stack([a + b, a - b], 2).view(n, d)
            h *= 2
        return x / d**0.5


@novel("tensors/butterfly_layer", (5, 8), (4096, 256))
class Butterfly(nn.Module):
    def __init__(self, n, d):
        super().__init__()
        self.log = d.bit_length() - 1
        self.twiddle = nn.Parameter(torch.randn(self.log, d // 2, 2, 2) / 2**0.5)

    @staticmethod
    def inputs(n, d):
        return [normal(n, d)]

    def forward(self, x):
        n, d = x.shape
        for i in range(self.log):
            s = 1 << i
            t = self.twiddle[i].view(d // (2 * s), s, 2, 2).permute(0, 2, 3, 1)
            y = x.view(n, d // (2 * s), 1, 2, s)
            x = (t * y).sum(3).reshape(n, d)
        return x


@novel("tensors/local_patch_covariance", (1, 2, 9, 8), (4, 8, 128, 128))
class PatchCovariance(One):
    def forward(self, x):
        p = F.unfold(x, 3).unflatten(1, (x.shape[1], 9))
        p = p - p.mean(2, keepdim=True)
        c = torch.einsum("nakl,nbkl->nlab", p, p) / 9
        return c, c.diagonal(dim1=2, dim2=3).sum(-1)


@novel("tensors/group_norm_of_rows", (6, 12, 8), (8192, 512, 1024))
class GroupedRows(nn.Module):
    """GroupNorm after a linear layer, dropout that does nothing, and BatchNorm1d of rows."""

    def __init__(self, n, d, out):
        super().__init__()
        self.linear, self.norm = nn.Linear(d, out), nn.GroupNorm(4, out)
        self.drop, self.batch = nn.Dropout(0.3), nn.BatchNorm1d(out)

    @staticmethod
    def inputs(n, d, out):
        return [normal(n, d)]

    def forward(self, x):
        return self.batch(self.drop(F.selu(self.norm(self.linear(x)))))


@novel("tensors/norms_by_hand", (3, 7, 10), (64, 512, 768))
class Norms(nn.Module):
    """Scale norm, power norm and a weighted p-norm, one after another."""

    def __init__(self, n, t, d):
        super().__init__()
        self.g = nn.Parameter(torch.ones(d))

    @staticmethod
    def inputs(n, t, d):
        return [normal(n, t, d)]

    def forward(self, x):
        x = x / x.norm(dim=-1, keepdim=True).clamp(min=1e-5) * x.shape[-1] ** 0.5
        x = x / (x.abs().pow(3).mean(-1, keepdim=True).pow(1 / 3) + 1e-5)
        return x * self.g / x.abs().amax(-1, keepdim=True)


@novel("tensors/dyt_and_layer_scale", (3, 7, 10), (64, 1024, 768))
class DynamicTanh(nn.Module):
    """A tanh instead of a norm, in bf16, and a layer's scale."""

    def __init__(self, n, t, d):
        super().__init__()
        self.alpha = nn.Parameter(torch.full((1,), 0.5))
        self.w, self.b = nn.Parameter(torch.ones(d)), nn.Parameter(torch.zeros(d))
        self.scale = nn.Parameter(torch.full((d,), 1e-2))
        self.bfloat16()

    @staticmethod
    def inputs(n, t, d):
        return [normal(n, t, d, dtype=torch.bfloat16)]

    def forward(self, x):
        return x + self.scale * (torch.tanh(self.alpha * x) * self.w + self.b)


@novel("tensors/weight_standardised_conv", (1, 5, 7, 9, 8), (16, 128, 28, 28, 128))
class Standardised(nn.Module):
    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, c, 3, 3))
        self.norm = nn.GroupNorm(4, out)

    @staticmethod
    def inputs(n, c, h, w, out):
        return [normal(n, c, h, w)]

    def forward(self, x):
        w = self.weight
        w = (w - w.mean((1, 2, 3), keepdim=True)) / (w.std((1, 2, 3), keepdim=True) + 1e-5)
        return F.relu(self.norm(F.conv2d(x, w, padding=1)))


@novel("tensors/filter_response_norm", (2, 6, 5, 7), (32, 128, 56, 56))
class FilterResponse(nn.Module):
    def __init__(self, n, c, h, w):
        super().__init__()
        self.g, self.b, self.t = (nn.Parameter(torch.rand(1, c, 1, 1)) for _ in range(3))

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w)]

    def forward(self, x):
        x = x * torch.rsqrt(x.square().mean((2, 3), keepdim=True) + 1e-6)
        return torch.maximum(self.g * x + self.b, self.t)


@novel("tensors/batch_statistics_eval", (2, 4, 5, 6, 7), (4, 32, 16, 56, 56))
class FoldedNorms(nn.Module):
    """Norms of three kinds with statistics that are there."""

    def __init__(self, n, c, d, h, w):
        super().__init__()
        self.a, self.b = nn.BatchNorm3d(c), nn.BatchNorm2d(c * d)
        self.conv = nn.Conv3d(c, c, 1)

    @staticmethod
    def inputs(n, c, d, h, w):
        return [normal(n, c, d, h, w)]

    def forward(self, x):
        y = F.relu(self.a(self.conv(x)))
        return self.b(y.flatten(1, 2)).amax(1)


@novel("tensors/fake_quantised", (5, 12, 9), (1024, 1024, 1024))
class FakeQuantised(nn.Module):
    """Rows to steps of 8 bits and back, around a product."""

    def __init__(self, n, d, out):
        super().__init__()
        self.linear = nn.Linear(d, out)

    @staticmethod
    def inputs(n, d, out):
        return [normal(n, d)]

    def forward(self, x):
        s = x.abs().amax(-1, keepdim=True).clamp(min=1e-5) / 127
        x = (x / s).round().clamp(-128, 127) * s
        return F.linear(x, self.linear.weight, self.linear.bias)


@novel("tensors/dynamic_int8_rows", (5, 12), (8192, 4096))
class DynamicInt8(nn.Module):
    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [normal(n, d, dtype=torch.bfloat16)]

    def forward(self, x):
        s = x.abs().amax(-1, keepdim=True).float().clamp(min=1e-5) / 127
        return torch.round(x.float() / s).clamp(-128, 127).to(torch.int8), s


@novel("tensors/stochastic_bits_hash", (5, 9), (2048, 4096))
class Hash(nn.Module):
    """A hash of integers, and a number between zero and one of each."""

    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [torch.randint(0, 1 << 30, (n, d), dtype=torch.int32)]

    def forward(self, x):
        x = x ^ (x >> 16)
        x = x * 73244475
        x = x ^ (x >> 15)
        return (x & 0xFFFFFF).float() / 16777216.0


@novel("tensors/packed_bits", (5, 16), (8192, 4096))
class PackedBits(One):
    """Signs of numbers, eight a byte."""

    def __init__(self, *sizes):
        super().__init__()
        self.register_buffer("weights", (2 ** torch.arange(8)).to(torch.uint8))

    def forward(self, x):
        bits = (x > 0).unflatten(-1, (-1, 8)).to(torch.uint8)
        return (bits * self.weights).sum(-1, dtype=torch.int32).to(torch.uint8)


@novel("tensors/index_put_and_select", (6, 5, 4), (8192, 256, 1024))
class IndexPut(nn.Module):
    def __init__(self, n, d, k):
        super().__init__()

    @staticmethod
    def inputs(n, d, k):
        return [normal(n, d), torch.randperm(n)[:k], normal(k, d)]

    def forward(self, x, at, new):
        y = x.index_put((at,), new * 0.5 + x[at] * 0.5)
        return y, y.index_select(0, at.flip(0)).sum(0)


@novel("tensors/masked_statistics", (4, 6, 9), (64, 256, 512))
class MaskedStatistics(nn.Module):
    def __init__(self, n, c, t):
        super().__init__()

    @staticmethod
    def inputs(n, c, t):
        return [normal(n, c, t), torch.rand(n, t) > 0.3]

    def forward(self, x, mask):
        m = mask[:, None].to(x)
        count = m.sum(-1).clamp(min=1)
        mean = (x * m).sum(-1) / count
        var = ((x - mean[..., None]).square() * m).sum(-1) / count
        most = x.masked_fill(~mask[:, None], -torch.inf).amax(-1)
        return torch.cat([mean, (var + 1e-6).sqrt(), most], 1)


@novel("tensors/bicubic_and_area", (1, 3, 6, 8), (8, 16, 96, 96))
class Resized(One):
    def forward(self, x):
        h, w = x.shape[-2:]
        up = F.interpolate(x, size=(h * 3 // 2, w * 3 // 2), mode="bicubic", align_corners=True)
        down = F.interpolate(x, size=(h // 2, w // 2), mode="area")
        return up, x - F.interpolate(down, size=(h, w), mode="nearest-exact")


@novel("tensors/max_unpool", (2, 3, 6, 8), (8, 32, 128, 128))
class Unpool(One):
    def forward(self, x):
        y, at = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(y * 2, at, 2) + x


@novel("tensors/lp_pool_and_norms", (2, 3, 9, 9), (16, 64, 112, 112))
class LpPool(One):
    def forward(self, x):
        a = F.lp_pool2d(x.abs(), 2, 3, stride=2)
        b = F.avg_pool2d(x, 3, stride=2, divisor_override=5)
        return torch.cat([a, b], 1)


@novel("tensors/cummax_drawdown", (4, 12), (1024, 4096))
class Drawdown(One):
    def forward(self, x):
        price = torch.exp((x * 0.01).cumsum(-1))
        peak = price.cummax(-1).values
        return (price / peak - 1).amin(-1), price.diff(dim=-1)


@novel("tensors/fold_of_experts_mean", (2, 8, 6), (8, 4096, 512))
class Topk(One):
    """Half of the tokens kept by a score, in their order, with their places."""

    def forward(self, x):
        score = x.square().mean(-1)
        at = score.topk(x.shape[1] // 2, dim=1).indices.sort(dim=1).values
        return x.gather(1, at[..., None].expand(-1, -1, x.shape[-1])), at


@novel("tensors/gumbel_hard_one_hot", (4, 9, 7), (64, 512, 128))
class Hard(nn.Module):
    def __init__(self, n, t, k):
        super().__init__()

    @staticmethod
    def inputs(n, t, k):
        return [normal(n, t, k), torch.rand(n, t, k).clamp(1e-6, 1 - 1e-6)]

    def forward(self, x, u):
        soft = ((x - torch.log(-torch.log(u))) / 0.5).softmax(-1)
        hard = torch.zeros_like(soft).scatter(-1, soft.argmax(-1, keepdim=True), 1.0)
        return hard - soft.detach() + soft


@novel("tensors/batch_one_mlp", (1, 12, 20), (1, 4096, 11008))
class BatchOne(nn.Module):
    def __init__(self, n, d, inner):
        super().__init__()
        self.a, self.b = nn.Linear(d, inner), nn.Linear(inner, d)
        self.half()

    @staticmethod
    def inputs(n, d, inner):
        return [normal(n, d, dtype=torch.float16)]

    def forward(self, x):
        return self.b(F.softsign(self.a(x)) * torch.erf(self.a(x)))


@novel("tensors/unusual_activations_f16", (3, 8, 10), (4096, 1024, 1024))
class Unusual(nn.Module):
    """A network with an activation a layer that few use."""

    def __init__(self, n, d, inner):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Linear(a, b) for a, b in ((d, inner), (inner, inner), (inner, inner), (inner, d))
        )
        self.half()

    @staticmethod
    def inputs(n, d, inner):
        return [normal(n, d, dtype=torch.float16)]

    def forward(self, x):
        x = F.logsigmoid(self.layers[0](x))
        x = F.tanhshrink(self.layers[1](x))
        x = F.softshrink(self.layers[2](x), 0.1)
        return F.hardtanh(self.layers[3](x), -2, 2).cos()


@novel("tensors/rational_activation_f32", (3, 8, 10), (4096, 512, 1024))
class Rational(nn.Module):
    """A quotient of polynomials with learned coefficients between two layers."""

    def __init__(self, n, d, inner):
        super().__init__()
        self.a, self.b = nn.Linear(d, inner), nn.Linear(inner, d)
        self.p, self.q = nn.Parameter(torch.randn(4) * 0.3), nn.Parameter(torch.randn(2) * 0.3)

    @staticmethod
    def inputs(n, d, inner):
        return [normal(n, d)]

    def forward(self, x):
        h = self.a(x)
        top = self.p[0] + h * (self.p[1] + h * (self.p[2] + h * self.p[3]))
        return self.b(top / (1 + (h * (self.q[0] + h * self.q[1])).abs()))
