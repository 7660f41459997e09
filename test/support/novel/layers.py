"""Layers: routing, sparse functions, structured weights, memories, features of tables."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import Rows, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("layers/mixture_of_depths", (2, 9, 8, 3), (7, 1201, 480, 150))
class MixtureOfDepths(Rows):
    """A block takes the tokens that a router likes best, and writes them back where they were."""

    def __init__(self, b, t, d, most):
        super().__init__()
        self.most, self.router = most, nn.Linear(d, 1)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        score = self.router(x).squeeze(-1)
        best, at = score.topk(self.most, 1)
        at, order = at.sort(1)
        best = best.gather(1, order)
        index = at[..., None].expand(-1, -1, x.shape[-1])
        y = x.gather(1, index)
        y = y + torch.sigmoid(best)[..., None] * self.mlp(y)
        return x.scatter(1, index, y)


@novel("layers/experts_with_capacity", (12, 6, 3, 5), (1501, 384, 12, 150))
class ExpertsWithCapacity(nn.Module):
    """Switch: tokens to their best expert until it is full, by running counts; dense dispatch."""

    def __init__(self, t, d, experts, capacity):
        super().__init__()
        self.capacity = capacity
        self.router = nn.Linear(d, experts, bias=False)
        self.a = nn.Parameter(torch.randn(experts, d, d) / d**0.5)
        self.b = nn.Parameter(torch.randn(experts, d, d) / d**0.5)

    @staticmethod
    def inputs(t, d, experts, capacity):
        return [normal(t, d)]

    def forward(self, x):
        p = self.router(x).softmax(-1)
        gate, which = p.max(-1)
        hot = F.one_hot(which, p.shape[-1])
        place = (hot.cumsum(0) - 1) * hot
        kept = hot * (place < self.capacity)
        slot = F.one_hot(place.clamp(max=self.capacity - 1), self.capacity) * kept[..., None]
        slot = slot.to(x)
        y = torch.einsum("tec,td->ecd", slot, x)
        y = torch.einsum("ecf,efd->ecd", F.relu(torch.einsum("ecd,edf->ecf", y, self.a)), self.b)
        loss = (p.mean(0) * hot.float().mean(0)).sum() * p.shape[-1]
        return torch.einsum("tec,ecd->td", slot, y) * gate[:, None], loss


@novel("layers/experts_choose", (12, 6, 3, 4), (1777, 320, 10, 178))
class ExpertsChoose(nn.Module):
    """Each expert takes the tokens that suit it, and adds what it makes of them."""

    def __init__(self, t, d, experts, most):
        super().__init__()
        self.most, self.router = most, nn.Linear(d, experts)
        self.w = nn.Parameter(torch.randn(experts, d, d) / d**0.5)

    @staticmethod
    def inputs(t, d, experts, most):
        return [normal(t, d)]

    def forward(self, x):
        p = self.router(x).softmax(-1)
        gate, at = p.T.topk(self.most, -1)
        y = F.silu(torch.bmm(x[at], self.w)) * gate[..., None]
        return torch.zeros_like(x).index_add(0, at.flatten(), y.flatten(0, 1))


@novel("layers/soft_experts", (2, 7, 8, 3, 2), (9, 577, 384, 24, 3))
class SoftExperts(Rows):
    """Soft mixture: slots are means of tokens, tokens are means of what slots became."""

    def __init__(self, b, t, d, experts, slots):
        super().__init__()
        self.phi = nn.Parameter(torch.randn(d, experts, slots) / d**0.5)
        self.w = nn.Parameter(torch.randn(experts, d, d) / d**0.5)
        self.b = nn.Parameter(torch.zeros(experts, 1, d))

    def forward(self, x):
        w = torch.einsum("btd,des->btes", F.normalize(x, dim=-1), F.normalize(self.phi, dim=0))
        y = torch.einsum("btes,btd->besd", w.softmax(1), x)
        y = F.gelu(torch.einsum("besd,edf->besf", y, self.w) + self.b)
        back = w.flatten(2).softmax(-1)
        return torch.einsum("btk,bkd->btd", back, y.flatten(1, 2))


@novel("layers/sparsemax", (5, 11), (2003, 301))
class Sparsemax(nn.Module):
    """The nearest point of the simplex, by a sort and running sums; and its loss."""

    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [normal(n, d), below(d, n)]

    def forward(self, x, y):
        x = x - x.amax(-1, keepdim=True)
        z = x.sort(-1, descending=True).values
        s = z.cumsum(-1) - 1
        k = torch.arange(1, x.shape[-1] + 1, device=x.device).to(x)
        size = (k * z > s).sum(-1, keepdim=True)
        tau = s.gather(-1, size - 1) / size
        p = (x - tau).clamp(min=0)
        loss = 0.5 * (torch.where(p > 0, x.square() - tau.square(), 0.0)).sum(-1) + 0.5
        return p, loss - x.gather(-1, y[:, None]).squeeze(-1)


@novel("layers/entmax_by_bisection", (5, 11), (3001, 777))
class Entmax(nn.Module):
    """1.5-entmax, twenty halvings of an interval for each row."""

    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [normal(n, d)]

    def forward(self, x):
        x = x / 2
        top = x.amax(-1, keepdim=True)
        low, high = top - 1, top - x.shape[-1] ** -0.5
        for _ in range(20):
            mid = (low + high) / 2
            more = (x - mid).clamp(min=0).square().sum(-1, keepdim=True) >= 1
            low, high = torch.where(more, mid, low), torch.where(more, high, mid)
        p = (x - (low + high) / 2).clamp(min=0).square()
        return p / p.sum(-1, keepdim=True)


@novel("layers/monarch", (5, 3, 4), (1501, 24, 36))
class Monarch(nn.Module):
    """Two blocks of diagonals with a transposition between them."""

    def __init__(self, n, a, b):
        super().__init__()
        self.left = nn.Parameter(torch.randn(a, b, b) / b**0.5)
        self.right = nn.Parameter(torch.randn(b, a, a) / a**0.5)

    @staticmethod
    def inputs(n, a, b):
        return [normal(n, a * b)]

    def forward(self, x):
        n, a, b = x.shape[0], self.left.shape[0], self.right.shape[0]
        y = torch.einsum("nap,apq->naq", x.view(n, a, b), self.left)
        y = torch.einsum("nqa,qac->nqc", y.transpose(1, 2), self.right)
        return y.transpose(1, 2).reshape(n, a * b)


@novel("layers/circulant", (5, 12), (701, 500))
class Circulant(nn.Module):
    """A circulant matrix by an index, a Householder's reflection and a Toeplitz's band."""

    def __init__(self, n, d):
        super().__init__()
        self.c, self.v = nn.Parameter(torch.randn(d) / d**0.5), nn.Parameter(torch.randn(d))
        i = torch.arange(d)
        self.register_buffer("index", (i[:, None] - i) % d)
        self.band = nn.Parameter(torch.randn(2 * d - 1) / d**0.5)

    @staticmethod
    def inputs(n, d):
        return [normal(n, d)]

    def forward(self, x):
        y = x @ self.c[self.index]
        y = y - 2 * (y @ self.v)[:, None] * self.v / self.v.square().sum()
        t = self.band.unfold(0, x.shape[1], 1).flip(1)
        return y @ t


@novel("layers/codebook_weights", (3, 12, 10, 4), (19, 1536, 1100, 64))
class CodebookWeights(nn.Module):
    """NF4: bytes of two codes, looked up, with scales by block that are bytes themselves."""

    def __init__(self, n, k, m, block):
        super().__init__()
        self.register_buffer("codes", torch.randint(0, 256, (m, k // 2), dtype=torch.uint8))
        self.register_buffer("book", torch.linspace(-1, 1, 16) ** 3)
        self.register_buffer("scale", torch.randint(1, 256, (m, k // block), dtype=torch.uint8))
        self.block = block
        self.half()
        self.book = self.book.half()

    @staticmethod
    def inputs(n, k, m, block):
        return [normal(n, k, dtype=torch.float16)]

    def forward(self, x):
        both = torch.stack([self.codes >> 4, self.codes & 15], -1).flatten(1)
        w = self.book[both.long()].unflatten(1, (-1, self.block))
        w = w * (self.scale.to(x) / 512)[..., None]
        return F.linear(x, w.flatten(1))


@novel("layers/block_scaled", (5, 12, 4, 7), (260, 1536, 32, 700))
class BlockScaled(nn.Module):
    """Activations to scales of powers of two by block and few bits, a product, and back."""

    def __init__(self, n, k, block, m):
        super().__init__()
        self.block, self.w = block, nn.Parameter(torch.randn(m, k) / k**0.5)

    @staticmethod
    def inputs(n, k, block, m):
        return [normal(n, k)]

    def _rounded(self, x):
        x = x.unflatten(-1, (-1, self.block))
        most = x.abs().amax(-1, keepdim=True).clamp(min=1e-10)
        scale = torch.exp2(torch.floor(torch.log2(most * 0.999)) - 5)
        return ((x / scale).round().clamp(-63, 63) * scale).flatten(-2)

    def forward(self, x):
        return self._rounded(x) @ self._rounded(self.w).T


@novel("layers/weights_by_sample", (3, 4, 7, 6, 5), (37, 24, 45, 39, 12))
class WeightsBySample(nn.Module):
    """A network gives each sample its own filters: a grouped convolution of the whole batch."""

    def __init__(self, n, c, h, w, z):
        super().__init__()
        self.net = nn.Linear(z, c * c * 9)

    @staticmethod
    def inputs(n, c, h, w, z):
        return [normal(n, c, h, w), normal(n, z)]

    def forward(self, x, z):
        n, c = x.shape[:2]
        k = self.net(z).view(n * c, c, 3, 3)
        k = k / (k.square().sum((1, 2, 3), keepdim=True) + 1e-6).sqrt()
        y = F.conv2d(x.reshape(1, n * c, *x.shape[2:]), k, padding=1, groups=n)
        return F.leaky_relu(y.view_as(x), 0.1)


@novel("layers/addresses_of_memory", (3, 9, 6), (91, 1003, 40))
class Addresses(nn.Module):
    """A Turing machine's head: by likeness, blended, shifted around, sharpened; read and write."""

    def __init__(self, b, n, d):
        super().__init__()
        self.head = nn.Linear(d, 3 * d + 6)

    @staticmethod
    def inputs(b, n, d):
        return [normal(b, d), normal(b, n, d), normal(b, n).softmax(1)]

    def forward(self, h, memory, before):
        d = h.shape[1]
        key, erase, add, rest = self.head(h).split([d, d, d, 6], 1)
        w = F.cosine_similarity(key[:, None], memory, dim=-1)
        w = (F.softplus(rest[:, :1]) * w).softmax(-1)
        gate = torch.sigmoid(rest[:, 1:2])
        w = gate * w + (1 - gate) * before
        shift = rest[:, 2:5].softmax(-1)
        w = sum(w.roll(i - 1, 1) * shift[:, i : i + 1] for i in range(3))
        w = w ** (1 + F.softplus(rest[:, 5:]))
        w = w / (w.sum(1, keepdim=True) + 1e-9)
        read = torch.bmm(w[:, None], memory).squeeze(1)
        wide = w[..., None]
        return read, memory * (1 - wide * torch.sigmoid(erase)[:, None]) + wide * add[:, None], w


@novel("layers/oblivious_trees", (5, 7, 3, 4), (4003, 45, 24, 6))
class ObliviousTrees(nn.Module):
    """NODE: soft trees whose levels each ask one question; leaves by outer products."""

    def __init__(self, n, d, trees, depth):
        super().__init__()
        self.pick = nn.Parameter(torch.randn(d, trees * depth))
        self.cut = nn.Parameter(torch.randn(trees, depth))
        self.leaf = nn.Parameter(torch.randn(trees, 2**depth, 3))

    @staticmethod
    def inputs(n, d, trees, depth):
        return [normal(n, d)]

    def forward(self, x):
        ask = (x @ self.pick.softmax(0)).view(-1, *self.cut.shape)
        yes = (0.5 * (ask - self.cut) + 0.5).clamp(0, 1)
        way = torch.ones_like(yes[..., :1])
        for p in yes.unbind(-1):
            way = torch.stack([way * p[..., None], way * (1 - p)[..., None]], -1).flatten(-2)
        return torch.einsum("ntl,tlo->no", way, self.leaf)


@novel("layers/tokens_of_features", (5, 3, 4, 8, 2), (1201, 13, 9, 96, 4))
class TokensOfFeatures(nn.Module):
    """FT-Transformer: numbers and classes of a table as tokens, a block, the first one's head."""

    def __init__(self, n, numbers, classes, d, heads):
        super().__init__()
        self.w, self.b = (
            nn.Parameter(torch.randn(numbers, d)),
            nn.Parameter(torch.randn(numbers, d)),
        )
        self.tables = nn.Embedding(classes * 17, d)
        self.register_buffer("start", torch.arange(classes) * 17)
        self.first = nn.Parameter(torch.randn(1, 1, d))
        self.block = nn.TransformerEncoderLayer(
            d, heads, 2 * d, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        self.head = nn.Linear(d, 1)

    @staticmethod
    def inputs(n, numbers, classes, d, heads):
        return [normal(n, numbers), below(17, n, classes)]

    def forward(self, x, c):
        tokens = torch.cat(
            [
                self.first.expand(x.shape[0], -1, -1),
                x[..., None] * self.w + self.b,
                self.tables(c + self.start),
            ],
            1,
        )
        return self.head(F.relu(self.block(tokens)[:, 0]))


@novel("layers/compressed_interactions", (4, 5, 3, 6), (2003, 39, 10, 100))
class CompressedInteractions(nn.Module):
    """xDeepFM: outer products of fields, drawn together by layers, summed over vectors."""

    def __init__(self, n, fields, d, wide):
        super().__init__()
        self.a = nn.Conv1d(fields * fields, wide, 1)
        self.b = nn.Conv1d(wide * fields, wide, 1)
        self.out = nn.Linear(2 * wide, 1)

    @staticmethod
    def inputs(n, fields, d, wide):
        return [normal(n, fields, d)]

    def forward(self, x):
        one = F.relu(self.a(torch.einsum("nid,njd->nijd", x, x).flatten(1, 2)))
        two = F.relu(self.b(torch.einsum("nid,njd->nijd", one, x).flatten(1, 2)))
        return self.out(torch.cat([one.sum(2), two.sum(2)], 1))


@novel("layers/field_aware_factors", (4, 3, 7, 2), (4003, 26, 1009, 8))
class FieldAware(nn.Module):
    """Each feature has a vector for each other field; all pairs of fields meet once."""

    def __init__(self, n, fields, size, d):
        super().__init__()
        self.table = nn.Embedding(fields * size, fields * d)
        self.line = nn.Embedding(fields * size, 1)
        self.register_buffer("start", torch.arange(fields) * size)
        i, j = torch.triu_indices(fields, fields, 1)
        self.register_buffer("i", i)
        self.register_buffer("j", j)

    @staticmethod
    def inputs(n, fields, size, d):
        return [below(size, n, fields)]

    def forward(self, x):
        x = x + self.start
        v = self.table(x).unflatten(-1, (x.shape[1], -1))
        pairs = (v[:, self.i, self.j] * v[:, self.j, self.i]).sum((1, 2))
        return torch.sigmoid(self.line(x).sum(1).squeeze(1) + pairs)


@novel("layers/scores_of_triples", (5, 11, 6), (1003, 14951, 200))
class ScoresOfTriples(nn.Module):
    """ComplEx and RotatE: subjects and relations against all entities; ranks of the true ones."""

    def __init__(self, n, entities, d):
        super().__init__()
        self.e, self.r = nn.Embedding(entities, d), nn.Embedding(17, d)

    @staticmethod
    def inputs(n, entities, d):
        return [below(entities, n), below(17, n), below(entities, n)]

    def forward(self, s, r, o):
        (a, b), (c, d) = self.e(s).chunk(2, 1), self.r(r).chunk(2, 1)
        all_a, all_b = self.e.weight.chunk(2, 1)
        score = (a * c - b * d) @ all_a.T + (a * d + b * c) @ all_b.T
        true = score.gather(1, o[:, None])
        return (score > true).sum(1) + 1, F.cross_entropy(score, o, reduction="none")


@novel("layers/neighbour_gradient", (9, 2), (1501, 2))
class NeighbourGradient(nn.Module):
    """t-SNE's gradient: likeness by Student's kernel, against given affinities."""

    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        p = torch.rand(n, n)
        return [normal(n, d), (p + p.T) / (2 * p.sum())]

    def forward(self, y, p):
        r = y.square().sum(1)
        d = r[:, None] + r - 2 * y @ y.T
        w = (1 / (1 + d.clamp(min=0))).fill_diagonal_(0)
        q = (w / w.sum()).clamp(min=1e-12)
        k = (p - q) * w
        grad = 4 * (k.sum(1)[:, None] * y - k @ y)
        return grad, (p * torch.log(p.clamp(min=1e-12) / q)).sum()


@novel("layers/radial_network", (5, 4, 6, 7), (1003, 40, 8, 96))
class RadialNetwork(nn.Module):
    """A Kolmogorov-Arnold layer of bells on a grid, beside a plain one."""

    def __init__(self, n, d, grid, out):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.register_buffer("grid", torch.linspace(-2, 2, grid))
        self.w = nn.Parameter(torch.randn(out, d * grid) / (d * grid) ** 0.5)
        self.base = nn.Linear(d, out)

    @staticmethod
    def inputs(n, d, grid, out):
        return [normal(n, d)]

    def forward(self, x):
        step = 4 / (self.grid.shape[0] - 1)
        bells = torch.exp(-(((self.norm(x)[..., None] - self.grid) / step) ** 2))
        return F.linear(bells.flatten(1), self.w) + self.base(F.silu(x))


@novel("layers/diagonal_states", (2, 11, 6, 4), (7, 601, 192, 32))
class DiagonalStates(Rows):
    """S4D: a kernel of sums of complex decays, applied as a causal product of differences."""

    def __init__(self, b, t, d, states):
        super().__init__()
        self.re = nn.Parameter(torch.rand(d, states) * 0.5)
        self.im = nn.Parameter(torch.arange(states).float().repeat(d, 1) * 3.14159)
        self.c = nn.Parameter(torch.randn(d, states, 2) / states)
        self.step = nn.Parameter(torch.rand(d) * 0.1)
        self.skip = nn.Parameter(torch.randn(d))

    def forward(self, x):
        t = x.shape[1]
        at = torch.arange(t, device=x.device)
        dt = self.step[:, None, None]
        size = torch.exp(-self.re.exp()[..., None] * dt * at)
        angle = self.im[..., None] * dt * at
        k = 2 * (size * (self.c[..., :1] * angle.cos() - self.c[..., 1:] * angle.sin())).sum(1)
        away = at[:, None] - at
        wide = torch.where(away >= 0, k[:, away.clamp(min=0)], 0.0)
        return torch.einsum("dts,bsd->btd", wide, x) + x * self.skip


@novel("layers/ensembles_called", (3, 5, 6, 4), (12, 403, 96, 40))
class EnsemblesCalled(nn.Module):
    """Copies of one network with stacked weights, by ``vmap`` of a call with given parameters."""

    def __init__(self, models, n, d, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d, d), nn.LayerNorm(d), nn.Tanh(), nn.Linear(d, out))
        self.stacked = nn.ParameterDict(
            {
                name.replace(".", "_"): nn.Parameter(torch.randn(models, *one.shape) / d**0.5)
                for name, one in self.net.named_parameters()
            }
        )

    @staticmethod
    def inputs(models, n, d, out):
        return [normal(n, d)]

    def forward(self, x):
        own = {
            name: self.stacked[name.replace(".", "_")] for name, _ in self.net.named_parameters()
        }
        call = torch.func.functional_call
        y = torch.func.vmap(lambda p: call(self.net, p, (x,)))(own)
        mean = y.softmax(-1).mean(0)
        return mean, -(mean * mean.clamp(min=1e-9).log()).sum(-1), y.var(0)


@novel("layers/personal_rank", (11, 3, 40), (5003, 24, 60007))
class PersonalRank(nn.Module):
    """Ten steps of a walk that starts again, over edges with weights of degrees (APPNP)."""

    def __init__(self, n, d, edges):
        super().__init__()

    @staticmethod
    def inputs(n, d, edges):
        return [normal(n, d), below(n, 2, edges)]

    def forward(self, x, edges):
        a, b = edges
        one = torch.ones_like(a, dtype=x.dtype)
        degree = torch.zeros_like(x[:, 0]).index_add(0, a, one) + 1
        w = (degree[a] * degree[b]).rsqrt()[:, None]
        h = x
        for _ in range(4):
            h = 0.1 * x + 0.9 * (
                torch.zeros_like(x).index_add(0, b, h[a] * w) + h / degree[:, None]
            )
        return h.log_softmax(-1)
