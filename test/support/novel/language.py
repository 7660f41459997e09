"""Language: parts of decoders, encoders and of what samples from them."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import Rows, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Half(nn.Module):
    """What takes tokens of b, t and d in f16."""

    @staticmethod
    def inputs(b: int, t: int, d: int, *_: Any) -> list[Any]:
        return [normal(b, t, d, dtype=torch.float16)]


class _Brain(nn.Module):
    """What takes tokens of b, t and d in bf16."""

    @staticmethod
    def inputs(b: int, t: int, d: int, *_: Any) -> list[Any]:
        return [normal(b, t, d, dtype=torch.bfloat16)]


@novel("language/rope_halves", (2, 7, 2, 8), (4, 2048, 32, 128))
class RopeHalves(nn.Module):
    """Rotary positions, the two halves of a head turned: the convention of Llama."""

    def __init__(self, b, t, heads, d):
        super().__init__()
        angle = torch.outer(torch.arange(t), 10000 ** (-torch.arange(0, d, 2) / d))
        self.register_buffer("cos", torch.cat([angle, angle], -1).cos().half())
        self.register_buffer("sin", torch.cat([angle, angle], -1).sin().half())

    @staticmethod
    def inputs(b, t, heads, d):
        return [normal(b, t, heads, d, dtype=torch.float16) for _ in range(2)]

    def forward(self, q, k):
        cos, sin = self.cos[None, :, None], self.sin[None, :, None]

        def turned(x):
            a, b = x.chunk(2, -1)
            return x * cos + torch.cat([-b, a], -1) * sin

        return turned(q).transpose(1, 2), turned(k).transpose(1, 2)


@novel("language/rope_pairs", (2, 7, 2, 8), (4, 2048, 32, 128))
class RopePairs(nn.Module):
    """Rotary positions, neighbours turned: the convention of the paper."""

    def __init__(self, b, t, heads, d):
        super().__init__()
        angle = torch.outer(torch.arange(t), 10000 ** (-torch.arange(0, d, 2) / d))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())

    @staticmethod
    def inputs(b, t, heads, d):
        return [normal(b, t, heads, d, dtype=torch.bfloat16)]

    def forward(self, q):
        a, b = q.float().unflatten(-1, (-1, 2)).unbind(-1)
        cos, sin = self.cos[:, None], self.sin[:, None]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(q)


@novel("language/rope_by_positions", (2, 3, 2, 8, 16), (64, 1, 32, 128, 4096))
class RopePositions(nn.Module):
    """Rotary positions that are gathered from a table, a decoding step's."""

    def __init__(self, b, t, heads, d, most):
        super().__init__()
        angle = torch.outer(torch.arange(most), 10000 ** (-torch.arange(0, d, 2) / d))
        self.register_buffer("table", torch.cat([angle.cos(), angle.sin()], -1))

    @staticmethod
    def inputs(b, t, heads, d, most):
        return [normal(b, t, heads, d), below(most, b, t)]

    def forward(self, q, at):
        cos, sin = self.table[at][:, :, None].chunk(2, -1)
        a, b = q.chunk(2, -1)
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


@novel("language/alibi_attention", (1, 9, 16, 4), (2, 1024, 1024, 16))
class Alibi(_Half):
    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.half()
        slopes = 2.0 ** (-8 * (torch.arange(heads) + 1) / heads)
        self.register_buffer("slopes", slopes.half())

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        at = torch.arange(t, device=x.device)
        far = (at[None, :] - at[:, None]).to(x.dtype)
        scores = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        scores = scores + self.slopes[:, None, None] * far
        scores = scores.masked_fill(far > 0, float("-inf"))
        return (scores.float().softmax(-1).to(v) @ v).transpose(1, 2).reshape(b, t, d)


@novel("language/sliding_window_attention", (1, 11, 16, 2, 4), (1, 2048, 1024, 16, 256))
class Sliding(_Brain):
    def __init__(self, b, t, d, heads, window):
        super().__init__()
        self.heads, self.window = heads, window
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.bfloat16()

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        ones = torch.ones(t, t, dtype=torch.bool, device=x.device)
        mask = ones.tril() & ones.triu(1 - self.window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


@novel("language/soft_capped_attention", (1, 9, 16, 2), (1, 1024, 1024, 8))
class SoftCapped(_Brain):
    """Gemma's: logits of attention are capped by tanh."""

    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.bfloat16()

    def forward(self, x):
        b, t, _d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        s = q @ k.mT * 0.0625
        s = torch.tanh(s / 50) * 50
        s = s.masked_fill(~torch.ones(t, t, dtype=torch.bool, device=x.device).tril(), -1e9)
        return (s.softmax(-1, dtype=torch.float32).to(v) @ v).transpose(1, 2).flatten(2)


@novel("language/reglu_squared_mlp", (2, 5, 16, 24), (4, 512, 1024, 4096))
class SquaredMlp(_Half):
    """ReLU squared, Primer's."""

    def __init__(self, b, t, d, inner):
        super().__init__()
        self.up, self.down = nn.Linear(d, inner, bias=False), nn.Linear(inner, d, bias=False)
        self.half()

    def forward(self, x):
        return x + self.down(F.relu(self.up(x)).square())


@novel("language/geglu_packed", (2, 5, 16, 24), (4, 512, 1024, 2730))
class PackedGeglu(_Half):
    """One projection that is cut in two, of an inner width that nothing divides."""

    def __init__(self, b, t, d, inner):
        super().__init__()
        self.up, self.down = nn.Linear(d, 2 * inner), nn.Linear(inner, d)
        self.half()

    def forward(self, x):
        a, b = self.up(x).chunk(2, -1)
        return self.down(F.gelu(a) * b)


@novel("language/snake_mlp", (2, 5, 16, 24), (8, 512, 768, 3072))
class SnakeMlp(_Half):
    """Snake's activation, with a frequency a feature."""

    def __init__(self, b, t, d, inner):
        super().__init__()
        self.up, self.down = nn.Linear(d, inner), nn.Linear(inner, d)
        self.alpha = nn.Parameter(torch.ones(inner))
        self.half()

    def forward(self, x):
        h = self.up(x)
        return self.down(h + torch.sin(self.alpha * h).square() / (self.alpha + 1e-3))


@novel("language/maxout_mlp", (2, 5, 16, 24, 3), (8, 256, 768, 1024, 4))
class Maxout(_Half):
    def __init__(self, b, t, d, inner, parts):
        super().__init__()
        self.up, self.down = nn.Linear(d, inner * parts), nn.Linear(inner, d)
        self.parts = parts
        self.half()

    def forward(self, x):
        return self.down(self.up(x).unflatten(-1, (-1, self.parts)).amax(-1))


@novel("language/unit_offset_rmsnorm", (2, 5, 24), (8, 1024, 2304))
class UnitOffset(_Brain):
    """Gemma's norm: in f32, and one more than the weight."""

    def __init__(self, b, t, d):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d, dtype=torch.bfloat16) * 0.1)

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1.0 + self.weight.float())).to(x)


@novel("language/qk_norm_attention", (1, 9, 16, 2), (2, 1024, 1024, 8))
class QkNorm(_Half):
    def __init__(self, b, t, d, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.q, self.k = nn.LayerNorm(d // heads), nn.LayerNorm(d // heads)
        self.half()

    def forward(self, x):
        b, t, _d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).unbind(2)
        q, k, v = (y.transpose(1, 2) for y in (self.q(q), self.k(k), v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


@novel("language/grouped_queries", (1, 9, 16, 4, 2), (2, 1024, 1024, 16, 4))
class Grouped(_Half):
    """Keys repeated to the queries' heads by expand and reshape."""

    def __init__(self, b, t, d, heads, kv):
        super().__init__()
        self.heads, self.kv = heads, kv
        self.q = nn.Linear(d, d, bias=False)
        self.pair = nn.Linear(d, 2 * kv * (d // heads), bias=False)
        self.half()

    def forward(self, x):
        b, t, _d = x.shape
        q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
        k, v = self.pair(x).view(b, t, 2, self.kv, -1).permute(2, 0, 3, 1, 4)
        k, v = (y.repeat_interleave(self.heads // self.kv, 1) for y in (k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


@novel("language/moe_dense_top2", (2, 5, 16, 24, 4), (2, 256, 512, 1024, 8))
class DenseMoe(_Half):
    """All experts compute; a gate of the two best weighs them."""

    def __init__(self, b, t, d, inner, experts):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, d, inner) / d**0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, d) / inner**0.5)
        self.half()

    def forward(self, x):
        scores = self.gate(x).float().softmax(-1)
        best, at = scores.topk(2, -1)
        best = best / best.sum(-1, keepdim=True)
        weights = torch.zeros_like(scores).scatter(-1, at, best).to(x)
        h = F.silu(torch.einsum("btd,edf->betf", x, self.up))
        y = torch.einsum("betf,efd->betd", h, self.down)
        return torch.einsum("betd,bte->btd", y, weights)


@novel("language/moe_gathered", (6, 16, 12, 5), (32, 512, 1024, 16))
class GatheredMoe(nn.Module):
    """Few tokens, each with the weights of its own two experts gathered."""

    def __init__(self, t, d, inner, experts):
        super().__init__()
        self.gate = nn.Linear(d, experts)
        self.up = nn.Parameter(torch.randn(experts, inner, d) / d**0.5)
        self.down = nn.Parameter(torch.randn(experts, d, inner) / inner**0.5)

    @staticmethod
    def inputs(t, d, inner, experts):
        return [normal(t, d)]

    def forward(self, x):
        weights, at = self.gate(x).topk(2, -1)
        h = F.relu(torch.einsum("td,tkfd->tkf", x, self.up[at]))
        y = torch.einsum("tkf,tkdf->tkd", h, self.down[at])
        return (y * weights.softmax(-1)[..., None]).sum(1)


@novel("language/lora_linear", (2, 5, 16, 24, 3), (4, 512, 2048, 2048, 16))
class Lora(_Half):
    def __init__(self, b, t, d, out, rank):
        super().__init__()
        self.base = nn.Linear(d, out, bias=False)
        self.a, self.b = nn.Linear(d, rank, bias=False), nn.Linear(rank, out, bias=False)
        self.half()

    def forward(self, x):
        return self.base(x) + self.b(self.a(F.dropout(x, 0.1, self.training))) * 2.0


@novel("language/dora_linear", (2, 5, 16, 24, 3), (4, 512, 1024, 1024, 16))
class Dora(_Half):
    """The merged weight is normalised by column: computed of parameters alone."""

    def __init__(self, b, t, d, out, rank):
        super().__init__()
        self.base = nn.Parameter(torch.randn(out, d) / d**0.5)
        self.a = nn.Parameter(torch.randn(rank, d) / d**0.5)
        self.b = nn.Parameter(torch.randn(out, rank) * 0.1)
        self.size = nn.Parameter(torch.ones(out, 1))
        self.half()

    def forward(self, x):
        weight = self.base + self.b @ self.a
        weight = self.size * weight / weight.norm(dim=1, keepdim=True)
        return F.linear(x, weight)


@novel("language/tied_logits_capped", (2, 5, 16, 33), (1, 256, 768, 32000))
class TiedLogits(nn.Module):
    """Embedding, norm, and logits by the same weights, capped."""

    def __init__(self, b, t, d, vocabulary):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d)
        self.norm = nn.LayerNorm(d)
        self.half()

    @staticmethod
    def inputs(b, t, d, vocabulary):
        return [below(vocabulary, b, t)]

    def forward(self, ids):
        x = self.embed(ids) * self.embed.weight.shape[1] ** 0.5
        logits = F.linear(self.norm(x), self.embed.weight)
        return 30 * torch.tanh(logits / 30)


@novel("language/cache_update_step", (2, 3, 4, 7, 5), (8, 16, 128, 2048, 512))
class CacheStep(nn.Module):
    """A step of decoding: keys go into a cache at a position, and attention is over it."""

    def __init__(self, b, heads, d, most, at):
        super().__init__()

    @staticmethod
    def inputs(b, heads, d, most, at):
        half = {"dtype": torch.float16}
        return [
            *(normal(b, heads, 1, d, **half) for _ in range(3)),
            *(normal(b, heads, most, d, **half) for _ in range(2)),
            torch.tensor([at]),
        ]

    def forward(self, q, k, v, keys, values, at):
        keys, values = keys.index_copy(2, at, k), values.index_copy(2, at, v)
        seen = torch.arange(keys.shape[2], device=q.device) <= at
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen[None, None, None])
        return y, keys, values


@novel("language/speculative_accept", (3, 4, 11), (32, 8, 32000))
class Speculative(nn.Module):
    """How many drafted tokens a model accepts, and what is left of the first it does not."""

    def __init__(self, b, k, vocabulary):
        super().__init__()

    @staticmethod
    def inputs(b, k, vocabulary):
        return [
            normal(b, k, vocabulary),
            normal(b, k, vocabulary),
            below(vocabulary, b, k),
            torch.rand(b, k),
        ]

    def forward(self, target, draft, ids, draws):
        p, q = target.softmax(-1), draft.softmax(-1)
        at = ids[..., None]
        ratio = (p.gather(-1, at) / q.gather(-1, at)).squeeze(-1)
        accepted = (draws < ratio.clamp(max=1)).long().cumprod(-1).sum(-1)
        left = (p - q).clamp(min=0)
        return accepted, left / left.sum(-1, keepdim=True).clamp(min=1e-9)


@novel("language/bag_classifier", (4, 6, 50, 8, 3), (4096, 32, 50000, 128, 20))
class Bags(nn.Module):
    """fastText: means of embeddings that are not padding, and a linear layer."""

    def __init__(self, b, t, vocabulary, d, classes):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, d, padding_idx=0)
        self.head = nn.Linear(d, classes)

    @staticmethod
    def inputs(b, t, vocabulary, d, classes):
        return [below(vocabulary, b, t)]

    def forward(self, ids):
        kept = (ids != 0).float()[..., None]
        mean = (self.embed(ids) * kept).sum(1) / kept.sum(1).clamp(min=1)
        return self.head(mean).log_softmax(-1)


@novel("language/embedding_bag_weighted", (12, 5, 40, 8), (8192, 20, 100000, 64))
class WeightedBags(nn.Module):
    def __init__(self, b, t, vocabulary, d):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocabulary, d, mode="sum")

    @staticmethod
    def inputs(b, t, vocabulary, d):
        return [below(vocabulary, b, t), torch.rand(b, t)]

    def forward(self, ids, weights):
        return self.bag(ids, per_sample_weights=weights)


@novel("language/smoothed_cross_entropy", (6, 13), (4096, 32000))
class Smoothed(nn.Module):
    def __init__(self, rows, classes):
        super().__init__()

    @staticmethod
    def inputs(rows, classes):
        ids = below(classes, rows)
        return [normal(rows, classes, dtype=torch.bfloat16), torch.where(ids % 5 == 0, -100, ids)]

    def forward(self, logits, ids):
        return F.cross_entropy(logits.float(), ids, ignore_index=-100, label_smoothing=0.1)


@novel("language/next_token_loss", (2, 6, 16, 30), (2, 512, 1024, 16000))
class NextToken(nn.Module):
    """Logits of all but the last against ids of all but the first, and the z loss."""

    def __init__(self, b, t, d, vocabulary):
        super().__init__()
        self.head = nn.Linear(d, vocabulary, bias=False)
        self.half()

    @staticmethod
    def inputs(b, t, d, vocabulary):
        return [normal(b, t, d, dtype=torch.float16), below(vocabulary, b, t)]

    def forward(self, x, ids):
        logits = self.head(x)[:, :-1].float()
        lse = logits.logsumexp(-1)
        own = logits.gather(-1, ids[:, 1:, None]).squeeze(-1)
        return (lse - own).mean() + 1e-4 * lse.square().mean()


@novel("language/beam_step", (2, 3, 11), (16, 8, 32000))
class BeamStep(nn.Module):
    def __init__(self, b, beams, vocabulary):
        super().__init__()

    @staticmethod
    def inputs(b, beams, vocabulary):
        return [normal(b, beams, vocabulary), normal(b, beams), below(vocabulary, b, beams, 5)]

    def forward(self, logits, scores, before):
        _b, beams, vocabulary = logits.shape
        whole = scores[..., None] + logits.log_softmax(-1)
        best, at = whole.flatten(1).topk(beams)
        beam, token = at // vocabulary, at % vocabulary
        kept = before.gather(1, beam[..., None].expand(-1, -1, before.shape[-1]))
        return best, torch.cat([kept, token[..., None]], -1)


@novel("language/top_p_filter", (3, 17), (64, 32000))
class TopP(nn.Module):
    def __init__(self, b, vocabulary):
        super().__init__()

    @staticmethod
    def inputs(b, vocabulary):
        return [normal(b, vocabulary) * 3]

    def forward(self, logits):
        ordered, at = logits.sort(-1, descending=True)
        p = ordered.softmax(-1)
        drop = p.cumsum(-1) - p > 0.9
        ordered = ordered.masked_fill(drop, float("-inf"))
        return torch.empty_like(logits).scatter(-1, at, ordered).softmax(-1)


@novel("language/repetition_penalty", (3, 17, 4), (64, 32000, 256))
class Repetition(nn.Module):
    def __init__(self, b, vocabulary, before):
        super().__init__()

    @staticmethod
    def inputs(b, vocabulary, before):
        return [normal(b, vocabulary), below(vocabulary, b, before)]

    def forward(self, logits, ids):
        own = logits.gather(1, ids)
        own = torch.where(own < 0, own * 1.2, own / 1.2)
        return (logits.scatter(1, ids, own) / 0.7).softmax(-1).argmax(-1)


@novel("language/relative_bias_buckets", (1, 9, 16, 2, 8), (4, 512, 512, 8, 32))
class RelativeBias(Rows):
    """T5's buckets of distances, made while the model runs."""

    def __init__(self, b, t, d, heads, buckets):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.bias = nn.Embedding(buckets, heads)
        self.qkv = nn.Linear(d, 3 * d, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        at = torch.arange(t, device=x.device)
        far = (at[:, None] - at[None, :]).clamp(min=0)
        exact = self.buckets // 2
        large = exact + (torch.log(far.float().clamp(min=1) / exact) * exact / 3.5).long()
        bucket = torch.where(far < exact, far, large.clamp(max=self.buckets - 1))
        bias = self.bias(bucket).permute(2, 0, 1)
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        p = (q @ k.transpose(-1, -2) + bias).softmax(-1)
        return (p @ v).transpose(1, 2).reshape(b, t, d)


@novel("language/token_shift_mix", (2, 7, 16), (8, 1024, 1024))
class TokenShift(_Half):
    """RWKV's channel mixing: each token mixed with the one before it."""

    def __init__(self, b, t, d):
        super().__init__()
        self.k, self.r, self.v = (nn.Linear(d, d, bias=False) for _ in range(3))
        self.mix = nn.Parameter(torch.rand(2, d))
        self.half()

    def forward(self, x):
        before = F.pad(x, (0, 0, 1, -1))
        k = self.k(torch.lerp(before, x, self.mix[0]))
        r = self.r(torch.lerp(before, x, self.mix[1]))
        return torch.sigmoid(r) * self.v(F.relu(k).square())


@novel("language/prefix_pooling", (3, 7, 16), (64, 512, 768))
class MeanPooling(nn.Module):
    """Sentence embeddings: the mean of what a mask keeps, normalised, and its likeness."""

    def __init__(self, b, t, d):
        super().__init__()

    @staticmethod
    def inputs(b, t, d):
        return [normal(b, t, d, dtype=torch.float16), below(2, b, t).bool()]

    def forward(self, x, mask):
        kept = mask[..., None].to(x)
        mean = (x * kept).sum(1) / kept.sum(1).clamp(min=1)
        y = F.normalize(mean, dim=-1)
        return y @ y.T


@novel("language/int8_weights", (3, 16, 24), (16, 2048, 4096))
class Int8Weights(nn.Module):
    """Weights of bytes with a scale a row, widened while the model runs."""

    def __init__(self, rows, d, out):
        super().__init__()
        self.register_buffer("weight", below(255, out, d).sub(127).to(torch.int8))
        self.register_buffer("scale", (torch.rand(out, 1) / 1000).half())

    @staticmethod
    def inputs(rows, d, out):
        return [normal(rows, d, dtype=torch.float16)]

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype) * self.scale)


@novel("language/int4_packed_weights", (3, 16, 24, 8), (8, 2048, 2048, 128))
class Int4Weights(nn.Module):
    """Two weights a byte, with a scale and a zero a group."""

    def __init__(self, rows, d, out, group):
        super().__init__()
        self.group = group
        self.register_buffer("packed", below(256, out, d // 2).to(torch.uint8))
        self.register_buffer("scale", (torch.rand(out, d // group, 1) / 100).half())

    @staticmethod
    def inputs(rows, d, out, group):
        return [normal(rows, d, dtype=torch.float16)]

    def forward(self, x):
        low, high = self.packed & 15, self.packed >> 4
        codes = torch.stack([low, high], -1).flatten(1).to(x.dtype) - 8
        weight = (codes.unflatten(1, (-1, self.group)) * self.scale).flatten(1)
        return x @ weight.t()


@novel("language/mixed_precision_block", (2, 5, 16, 24), (4, 512, 1024, 2048))
class Mixed(_Brain):
    """The residual in f32, products in bf16."""

    LOOSE = 8e-3

    def __init__(self, b, t, d, inner):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.up = nn.Linear(d, inner, dtype=torch.bfloat16)
        self.down = nn.Linear(inner, d, dtype=torch.bfloat16)

    def forward(self, x):
        wide = x.float()
        y = self.norm(wide).bfloat16()
        return wide + self.down(F.gelu(self.up(y), approximate="tanh")).float()
