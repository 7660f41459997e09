"""Attention of more kinds: what is masked, shared, shifted, mixed or chosen in it."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import Rows, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


def _split(x: Any, heads: int) -> Any:
    """b, t, h·d as b, h, t, d."""
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


@novel("heads/cross_with_padding", (2, 5, 7, 8, 2), (11, 333, 77, 640, 10))
class Cross(nn.Module):
    """Queries of one length, keys of another, of which some are padding; by hand, in f16."""

    def __init__(self, b, t, s, d, heads):
        super().__init__()
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.out = nn.Linear(d, d)
        self.heads = heads
        self.half()

    @staticmethod
    def inputs(b, t, s, d, heads):
        half = torch.float16
        real = torch.arange(s) < torch.tensor([[s - 3 * i % (s - 1)] for i in range(b)])
        return [normal(b, t, d, dtype=half), normal(b, s, d, dtype=half), real]

    def forward(self, x, y, real):
        q = _split(self.q(x), self.heads)
        k, v = (_split(one, self.heads) for one in self.kv(y).chunk(2, -1))
        w = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        w = w.masked_fill(~real[:, None, None], float("-inf")).float().softmax(-1).to(q)
        return self.out((w @ v).transpose(1, 2).flatten(2))


@novel("heads/neighbour_blocks", (2, 12, 8, 2, 3), (3, 2040, 192, 6, 120))
class NeighbourBlocks(Rows):
    """Longformer's windows: a block of queries sees itself and the blocks beside it."""

    def __init__(self, b, t, d, heads, block):
        super().__init__()
        self.qkv, self.heads, self.block = nn.Linear(d, 3 * d), heads, block

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        n = self.block
        q = q.unflatten(2, (-1, n))
        k, v = (F.pad(one, (0, 0, n, n)).unfold(2, 3 * n, n) for one in (k, v))
        w = torch.einsum("bhcid,bhcdj->bhcij", q, k) * q.shape[-1] ** -0.5
        blocks = q.shape[2]
        i, j = torch.arange(n, device=x.device), torch.arange(3 * n, device=x.device) - n
        near = (i[:, None] - j).abs() <= n
        at = torch.arange(blocks, device=x.device)[:, None] * n + j
        inside = (at >= 0) & (at < blocks * n)
        w = w.masked_fill(~(near & inside[:, None]), -1e9).softmax(-1)
        return torch.einsum("bhcij,bhcdj->bhcid", w, v).flatten(2, 3).transpose(1, 2).flatten(2)


@novel("heads/random_features", (2, 7, 8, 2, 5), (6, 1500, 384, 6, 150))
class RandomFeatures(Rows):
    """Performer: softmax's kernel by positive random features."""

    def __init__(self, b, t, d, heads, features):
        super().__init__()
        self.qkv, self.heads = nn.Linear(d, 3 * d), heads
        self.register_buffer("w", torch.randn(features, d // heads))

    def _kernel(self, x, over):
        x = x * x.shape[-1] ** -0.25
        y = x @ self.w.T
        size = x.square().sum(-1, keepdim=True) / 2
        most = y.amax(over, keepdim=True)
        return (torch.exp(y - size - most) + 1e-4) * self.w.shape[0] ** -0.5

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        q, k = self._kernel(q, (-1,)), self._kernel(k, (-1, -2))
        state = torch.einsum("bhnr,bhnd->bhrd", k, v)
        scale = 1 / torch.einsum("bhnr,bhr->bhn", q, k.sum(2))
        return torch.einsum("bhnr,bhrd,bhn->bhnd", q, state, scale).transpose(1, 2).flatten(2)


@novel("heads/low_rank_keys", (2, 9, 8, 2, 3), (5, 1000, 320, 5, 96))
class LowRankKeys(Rows):
    """Linformer: keys and values of all places drawn together to a few."""

    def __init__(self, b, t, d, heads, few):
        super().__init__()
        self.qkv, self.heads = nn.Linear(d, 3 * d), heads
        self.e = nn.Parameter(torch.randn(heads, t, few) / t**0.5)
        self.f = nn.Parameter(torch.randn(heads, t, few) / t**0.5)

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        k = torch.einsum("bhnd,hnk->bhkd", k, self.e)
        v = torch.einsum("bhnd,hnk->bhkd", v, self.f)
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


@novel("heads/talking_heads", (2, 6, 12, 3), (13, 197, 192, 4))
class TalkingHeads(Rows):
    """Scores are mixed over heads before softmax and after it (CaiT)."""

    def __init__(self, b, t, d, heads):
        super().__init__()
        self.qkv, self.heads, self.out = nn.Linear(d, 3 * d), heads, nn.Linear(d, d)
        self.before, self.after = nn.Linear(heads, heads), nn.Linear(heads, heads)

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        w = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
        w = self.before(w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2).softmax(-1)
        w = self.after(w.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.out((w @ v).transpose(1, 2).flatten(2))


@novel("heads/latent_keys", (2, 5, 16, 2, 6, 4, 2), (3, 700, 1536, 12, 384, 96, 32))
class LatentKeys(Rows):
    """DeepSeek's latent attention: keys and values from few numbers, positions apart; in bf16."""

    def __init__(self, b, t, d, heads, rank, plain, turned):
        super().__init__()
        self.heads, self.plain, self.turned = heads, plain, turned
        self.q = nn.Linear(d, heads * (plain + turned), bias=False)
        self.down = nn.Linear(d, rank + turned, bias=False)
        self.norm = nn.Parameter(torch.ones(rank))
        self.up = nn.Linear(rank, heads * 2 * plain, bias=False)
        self.out = nn.Linear(heads * plain, d, bias=False)
        angle = torch.outer(torch.arange(t), 10000 ** (-torch.arange(0, turned, 2) / turned))
        self.bfloat16()
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    @staticmethod
    def inputs(b, t, d, *_):
        return [normal(b, t, d, dtype=torch.bfloat16)]

    def _turn(self, x):
        a, b = x.float()[..., ::2], x.float()[..., 1::2]
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1).to(x)

    def forward(self, x):
        q = _split(self.q(x), self.heads)
        q = torch.cat([q[..., : self.plain], self._turn(q[..., self.plain :])], -1)
        low, place = self.down(x).split([self.norm.shape[0], self.turned], -1)
        wide = low.float()
        low = (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)).to(x) * self.norm
        k, v = _split(self.up(low), self.heads).chunk(2, -1)
        place = self._turn(place)[:, None].expand(-1, self.heads, -1, -1)
        y = F.scaled_dot_product_attention(q, torch.cat([k, place], -1), v, is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))


@novel("heads/sinks", (2, 6, 8, 4, 2, 3), (2, 1100, 512, 16, 4, 127))
class Sinks(Rows):
    """A learned score more in each row, and a window; groups of queries share keys (gpt-oss)."""

    def __init__(self, b, t, d, heads, keys, window):
        super().__init__()
        self.heads, self.keys, self.window = heads, keys, window
        one = d // heads
        self.qkv = nn.Linear(d, (heads + 2 * keys) * one)
        self.sink = nn.Parameter(torch.randn(heads))

    def forward(self, x):
        b, t, _ = x.shape
        y = self.qkv(x).view(b, t, self.heads + 2 * self.keys, -1).transpose(1, 2)
        q, k, v = y.split([self.heads, self.keys, self.keys], 1)
        share = self.heads // self.keys
        k, v = (z[:, :, None].expand(-1, -1, share, -1, -1).flatten(1, 2) for z in (k, v))
        w = q @ k.mT * q.shape[-1] ** -0.5
        i = torch.arange(t, device=x.device)
        away = i[:, None] - i
        w = w.masked_fill((away < 0) | (away >= self.window), float("-inf"))
        sink = self.sink[None, :, None, None].expand(b, -1, t, 1)
        w = torch.cat([w, sink], -1)
        w = (w - w.amax(-1, keepdim=True)).softmax(-1)[..., :-1]
        return (w @ v).transpose(1, 2).flatten(2)


@novel("heads/difference_of_two", (2, 6, 16, 2), (3, 900, 768, 6))
class Difference(Rows):
    """Differential attention: one softmax less λ of another, normed by head."""

    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads, self.qkv = heads, nn.Linear(d, 3 * d, bias=False)
        self.l = nn.Parameter(torch.randn(4, d // heads // 2) * 0.1)
        self.gain = nn.Parameter(torch.ones(d // heads))

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        a, b, c, d = self.l.unbind(0)
        lam = torch.exp((a * b).sum()) - torch.exp((c * d).sum()) + 0.2
        parts = zip(q.chunk(2, -1), k.chunk(2, -1), strict=True)
        one, two = (F.scaled_dot_product_attention(qi, ki, v, is_causal=True) for qi, ki in parts)
        y = one - lam * two
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * self.gain * 0.8
        return y.transpose(1, 2).flatten(2)


@novel("heads/axial_rotary", (2, 3, 4, 16, 2), (5, 23, 31, 512, 8))
class AxialRotary(nn.Module):
    """Patches of an image: half of a head is turned by its row, half by its column."""

    def __init__(self, b, h, w, d, heads):
        super().__init__()
        self.qkv, self.heads = nn.Linear(d, 3 * d), heads
        few = d // heads // 4
        rate = 100.0 ** (-torch.arange(few) / few)
        rows = torch.arange(h)[:, None, None].expand(h, w, few) * rate
        cols = torch.arange(w)[None, :, None].expand(h, w, few) * rate
        angle = torch.cat([rows, cols], -1).flatten(0, 1).repeat_interleave(2, -1)
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    @staticmethod
    def inputs(b, h, w, d, heads):
        return [normal(b, h * w, d)]

    def _turn(self, x):
        turned = torch.stack([-x[..., 1::2], x[..., ::2]], -1).flatten(-2)
        return x * self.cos + turned * self.sin

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(self._turn(q), self._turn(k), v)
        return y.transpose(1, 2).flatten(2)


@novel("heads/ring_cache", (3, 9, 8, 2), (29, 1531, 1024, 8))
class RingCache(nn.Module):
    """A step that writes its key and value in place, at its place of a ring, and reads the ring."""

    def __init__(self, b, s, d, heads):
        super().__init__()
        self.qkv, self.heads = nn.Linear(d, 3 * d, bias=False), heads
        self.half()

    @staticmethod
    def inputs(b, s, d, heads):
        half, one = torch.float16, d // heads
        rings = [normal(b, heads, s, one, dtype=half) for _ in range(2)]
        return [normal(b, 1, d, dtype=half), *rings, torch.tensor([s + 4])]

    def forward(self, x, keys, values, at):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        place = at % keys.shape[2]
        keys = keys.index_copy(2, place, k)
        values = values.index_copy(2, place, v)
        y = F.scaled_dot_product_attention(q, keys, values)
        return y.transpose(1, 2).flatten(2), keys, values


@novel("heads/cosine_with_bias_network", (3, 9, 8, 2), (132, 49, 96, 3))
class CosineWindows(Rows):
    """Swin v2: cosines with a capped scale, and a bias that a small network makes of offsets."""

    def __init__(self, b, t, d, heads):
        super().__init__()
        self.qkv, self.heads = nn.Linear(d, 3 * d), heads
        self.scale = nn.Parameter(torch.full((heads, 1, 1), 10.0).log())
        side = int(t**0.5)
        one = torch.arange(1 - side, side).float()
        table = torch.stack(torch.meshgrid(one, one, indexing="ij"), -1) * 8 / (side - 1)
        self.register_buffer("table", table.sign() * (table.abs() + 1).log2() / 3)
        at = torch.stack(torch.meshgrid(*[torch.arange(side)] * 2, indexing="ij")).flatten(1)
        away = at[:, :, None] - at[:, None] + side - 1
        self.register_buffer("index", away[0] * (2 * side - 1) + away[1])
        self.net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, heads, bias=False))

    def forward(self, x):
        q, k, v = (_split(one, self.heads) for one in self.qkv(x).chunk(3, -1))
        w = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
        w = w * self.scale.clamp(max=4.6052).exp()
        bias = self.net(self.table).flatten(0, 1)[self.index].permute(2, 0, 1)
        w = (w + 16 * torch.sigmoid(bias)).softmax(-1)
        return (w @ v).transpose(1, 2).flatten(2)


@novel("heads/row_attention_with_pairs", (3, 5, 8, 4, 2), (31, 131, 256, 128, 8))
class RowAttention(nn.Module):
    """AlphaFold's attention of rows of an alignment, with a bias of pairs, gated."""

    def __init__(self, s, r, c, z, heads):
        super().__init__()
        self.norm, self.pair = nn.LayerNorm(c), nn.LayerNorm(z)
        self.qkv, self.gate = nn.Linear(c, 3 * c, bias=False), nn.Linear(c, c)
        self.bias, self.out = nn.Linear(z, heads, bias=False), nn.Linear(c, c)
        self.heads = heads

    @staticmethod
    def inputs(s, r, c, z, heads):
        return [normal(s, r, c), normal(r, r, z), (torch.rand(s, r) > 0.1).float()]

    def forward(self, m, z, mask):
        m = self.norm(m)
        q, k, v = (_split(one, self.heads) for one in self.qkv(m).chunk(3, -1))
        bias = self.bias(self.pair(z)).permute(2, 0, 1) + (1e9 * (mask - 1))[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.out(torch.sigmoid(self.gate(m)) * y.transpose(1, 2).flatten(2))


@novel("heads/induced_sets", (3, 7, 8, 2, 3), (27, 1777, 256, 4, 33))
class InducedSets(Rows):
    """A set transformer's block through a few points of its own."""

    def __init__(self, b, t, d, heads, points):
        super().__init__()
        self.points = nn.Parameter(torch.randn(1, points, d))
        self.one = nn.MultiheadAttention(d, heads, batch_first=True)
        self.two = nn.MultiheadAttention(d, heads, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2))

    def forward(self, x):
        p = self.points.expand(x.shape[0], -1, -1)
        h = self.norms[0](p + self.one(p, x, x, need_weights=False)[0])
        return self.norms[1](x + self.two(x, h, h, need_weights=False)[0])


@novel("heads/resampler", (2, 9, 12, 2, 3), (7, 1025, 768, 12, 65))
class Resampler(Rows):
    """Perceiver's: learned queries see what is given and themselves."""

    def __init__(self, b, t, d, heads, queries):
        super().__init__()
        self.latents = nn.Parameter(torch.randn(queries, d))
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.a, self.b = nn.LayerNorm(d), nn.LayerNorm(d)
        self.heads = heads
        self.mlp = nn.Sequential(
            nn.LayerNorm(d), nn.Linear(d, 4 * d, bias=False), nn.GELU(), nn.Linear(4 * d, d)
        )

    def forward(self, x):
        z = self.latents.repeat(x.shape[0], 1, 1)
        n = self.b(z)
        both = torch.cat([self.a(x), n], 1)
        k, v = (_split(one, self.heads) for one in self.kv(both).chunk(2, -1))
        w = _split(self.q(n), self.heads) * (z.shape[-1] // self.heads) ** -0.5 @ k.mT
        w = w - w.amax(-1, keepdim=True).detach()
        z = z + (w.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return z + self.mlp(z)


@novel("heads/chosen_blocks", (2, 12, 2, 4, 3, 2), (3, 1440, 6, 80, 90, 4))
class ChosenBlocks(nn.Module):
    """Each block of queries takes the blocks of keys whose means are nearest to its own."""

    def __init__(self, b, t, heads, d, block, most):
        super().__init__()
        self.block, self.most = block, most

    @staticmethod
    def inputs(b, t, heads, d, block, most):
        return [normal(b, heads, t, d) for _ in range(3)]

    def forward(self, q, k, v):
        q, k, v = (x.unflatten(2, (-1, self.block)) for x in (q, k, v))
        score = q.mean(3) @ k.mean(3).mT
        best = score.topk(self.most, -1).indices[..., None, None]

        def chosen(x):
            wide = x[:, :, None].expand(-1, -1, x.shape[2], -1, -1, -1)
            return wide.gather(3, best.expand(-1, -1, -1, -1, *x.shape[3:])).flatten(3, 4)

        y = F.scaled_dot_product_attention(q, chosen(k), chosen(v))
        return y.flatten(2, 3)


@novel("heads/tree_of_drafts", (2, 7, 5, 4, 2, 8), (7, 1203, 13, 24, 6, 96))
class TreeOfDrafts(nn.Module):
    """Drafted tokens in a tree see the whole past and those that they follow; in bf16."""

    def __init__(self, b, s, n, heads, keys, d):
        super().__init__()
        follows = torch.eye(n, dtype=torch.bool)
        for i in range(1, n):
            follows[i] |= follows[(i - 1) // 2]
        self.register_buffer("follows", follows)

    @staticmethod
    def inputs(b, s, n, heads, keys, d):
        kind = torch.bfloat16
        past = [normal(b, keys, s, d, dtype=kind) for _ in range(2)]
        new = [normal(b, keys, n, d, dtype=kind) for _ in range(2)]
        return [normal(b, heads, n, d, dtype=kind), *past, *new]

    def forward(self, q, k, v, k1, v1):
        n, s = self.follows.shape[0], k.shape[2]
        mask = torch.cat([self.follows.new_ones(n, s), self.follows], 1)
        k, v = torch.cat([k, k1], 2), torch.cat([v, v1], 2)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


@novel("heads/shifted_windows", (2, 6, 9, 8, 2, 3), (5, 63, 77, 96, 3, 7))
class ShiftedWindows(nn.Module):
    """Windows of an image that was rolled, masked where they meet what was rolled in."""

    def __init__(self, b, h, w, d, heads, side):
        super().__init__()
        self.qkv, self.heads, self.side = nn.Linear(d, 3 * d), heads, side
        where = torch.zeros(h, w)
        shift = side // 2
        for i, rows in enumerate((slice(-side), slice(-side, -shift), slice(-shift, None))):
            for j, cols in enumerate((slice(-side), slice(-side, -shift), slice(-shift, None))):
                where[rows, cols] = 3 * i + j
        where = self._windows(where[None, ..., None]).squeeze(-1)
        mask = (where[:, :, None] != where[:, None]).float() * -100
        self.register_buffer("mask", mask)

    def _windows(self, x):
        n, (b, h, w, d) = self.side, x.shape
        x = x.view(b, h // n, n, w // n, n, d).transpose(2, 3)
        return x.reshape(-1, n * n, d)

    @staticmethod
    def inputs(b, h, w, d, *_):
        return [normal(b, h, w, d)]

    def forward(self, x):
        b, h, w, d = x.shape
        n, shift = self.side, self.side // 2
        y = self._windows(x.roll((-shift, -shift), (1, 2)))
        q, k, v = self.qkv(y).view(y.shape[0], n * n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mask = self.mask.repeat(b, 1, 1)[:, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).flatten(2)
        y = y.view(b, h // n, w // n, n, n, d).transpose(2, 3).reshape(b, h, w, d)
        return x + y.roll((shift, shift), (1, 2))


@novel("heads/complex_rotary", (2, 5, 2, 8), (5, 901, 12, 96))
class ComplexRotary(nn.Module):
    """Positions as Llama's first code had them: products of complex numbers."""

    def __init__(self, b, t, heads, d):
        super().__init__()
        angle = torch.outer(torch.arange(t), 10000 ** (-torch.arange(0, d, 2) / d))
        self.register_buffer("turn", torch.view_as_real(torch.polar(torch.ones_like(angle), angle)))

    @staticmethod
    def inputs(b, t, heads, d):
        return [normal(b, t, heads, d) for _ in range(2)]

    def forward(self, q, k):
        turn = torch.view_as_complex(self.turn)[:, None]

        def turned(x):
            z = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
            return torch.view_as_real(z * turn).flatten(-2)

        return torch.einsum("bihd,bjhd->bhij", turned(q), turned(k)).tril().amax(-1)


@novel("heads/slots", (2, 9, 8, 3), (21, 1100, 120, 7))
class Slots(Rows):
    """Slot attention: softmax over slots, a weighted mean, a gated unit, three times."""

    def __init__(self, b, t, d, slots):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, slots, d))
        self.q, self.kv = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.norm, self.own, self.cell = nn.LayerNorm(d), nn.LayerNorm(d), nn.GRUCell(d, d)

    def forward(self, x):
        b, _, d = x.shape
        k, v = self.kv(self.norm(x)).chunk(2, -1)
        s = self.slots.expand(b, -1, -1)
        for _ in range(3):
            w = (self.q(self.own(s)) @ k.mT * d**-0.5).softmax(1) + 1e-8
            new = (w / w.sum(-1, keepdim=True)) @ v
            s = self.cell(new.flatten(0, 1), s.flatten(0, 1)).view(b, -1, d)
        return s


@novel("heads/many_adapters", (5, 3, 8, 4, 2), (37, 3, 1000, 24, 24))
class ManyAdapters(nn.Module):
    """Rows of a batch, each with its own low-rank adapter, drawn from a store by its number."""

    def __init__(self, b, t, d, store, rank):
        super().__init__()
        self.base = nn.Linear(d, d)
        self.a = nn.Parameter(torch.randn(store, d, rank) / d**0.5)
        self.b = nn.Parameter(torch.randn(store, rank, d))

    @staticmethod
    def inputs(b, t, d, store, rank):
        return [normal(b, t, d), below(store, b)]

    def forward(self, x, which):
        return self.base(x) + torch.bmm(torch.bmm(x, self.a[which]), self.b[which]) * 0.5
