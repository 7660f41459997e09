"""Graphs and recommenders: sums over edges, segments, and products of features."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Graph(nn.Module):
    """What takes nodes of n and d, and e edges."""

    @staticmethod
    def inputs(n: int, e: int, d: int, *_: Any) -> list[Any]:
        return [normal(n, d), below(n, e), below(n, e)]


@novel("graphs/gcn_layer", (7, 15, 6, 5), (10000, 100000, 128, 128))
class Gcn(_Graph):
    def __init__(self, n, e, d, out):
        super().__init__()
        self.linear = nn.Linear(d, out, bias=False)

    def forward(self, x, source, target):
        n = x.shape[0]
        ones = torch.ones_like(source, dtype=x.dtype)
        degree = torch.zeros(n, device=x.device).index_add(0, target, ones) + 1
        norm = degree.rsqrt()
        y = self.linear(x) * norm[:, None]
        y = y.index_add(0, target, y[source]) * norm[:, None]
        return F.relu(y)


@novel("graphs/gat_layer", (7, 15, 6, 2, 4), (5000, 50000, 128, 4, 32))
class Gat(_Graph):
    """Attention of nodes: a softmax over the edges that come in."""

    def __init__(self, n, e, d, heads, out):
        super().__init__()
        self.heads = heads
        self.linear = nn.Linear(d, heads * out, bias=False)
        self.a, self.b = (nn.Parameter(torch.randn(heads, out) * 0.1) for _ in range(2))

    def forward(self, x, source, target):
        n = x.shape[0]
        h = self.linear(x).view(n, self.heads, -1)
        s = F.leaky_relu((h * self.a).sum(-1)[source] + (h * self.b).sum(-1)[target], 0.2)
        most = s.new_full((n, self.heads), float("-inf"))
        most = most.scatter_reduce(0, target[:, None].expand_as(s), s, "amax")
        p = (s - most[target]).exp()
        total = torch.zeros_like(most).index_add(0, target, p)
        p = p / (total[target] + 1e-16)
        y = torch.zeros_like(h).index_add(0, target, h[source] * p[..., None])
        return F.elu(y.flatten(1))


@novel("graphs/sage_mean", (7, 15, 6, 5), (10000, 100000, 128, 256))
class Sage(_Graph):
    def __init__(self, n, e, d, out):
        super().__init__()
        self.own, self.other = nn.Linear(d, out), nn.Linear(d, out, bias=False)

    def forward(self, x, source, target):
        n = x.shape[0]
        total = torch.zeros_like(x).scatter_add(
            0, target[:, None].expand(-1, x.shape[1]), x[source]
        )
        count = torch.zeros(n, device=x.device).scatter_add(
            0, target, torch.ones_like(source).to(x)
        )
        y = self.own(x) + self.other(total / count.clamp(min=1)[:, None])
        return F.normalize(y, dim=-1)


@novel("graphs/edge_conv_max", (7, 3, 6, 8), (4096, 16, 64, 128))
class EdgeConv(nn.Module):
    """DGCNN: the largest over k neighbours of a layer of pairs."""

    def __init__(self, n, k, d, out):
        super().__init__()
        self.mlp = nn.Linear(2 * d, out)

    @staticmethod
    def inputs(n, k, d, out):
        return [normal(n, d), below(n, n, k)]

    def forward(self, x, at):
        other = x[at]
        own = x[:, None].expand_as(other)
        return F.leaky_relu(self.mlp(torch.cat([own, other - own], -1)), 0.2).amax(1)


@novel("graphs/knn_points", (2, 9, 3, 4), (8, 1024, 3, 16))
class KnnPoints(nn.Module):
    """The nearest points of each by their distances, and what stands there."""

    def __init__(self, b, n, d, k):
        super().__init__()
        self.k = k

    @staticmethod
    def inputs(b, n, d, k):
        return [normal(b, n, d)]

    def forward(self, x):
        squares = x.square().sum(-1)
        far = squares[:, :, None] + squares[:, None] - 2 * x @ x.transpose(1, 2)
        at = far.topk(self.k, -1, largest=False).indices
        rows = torch.arange(x.shape[0], device=x.device)[:, None, None]
        return x[rows, at] - x[:, :, None], at


@novel("graphs/pointnet_segments", (2, 12, 3, 8), (16, 4096, 3, 128))
class PointNet(nn.Module):
    def __init__(self, b, n, d, out):
        super().__init__()
        self.a, self.b = nn.Conv1d(d, 64, 1), nn.Conv1d(64, out, 1)
        self.norm = nn.BatchNorm1d(64)

    @staticmethod
    def inputs(b, n, d, out):
        return [normal(b, d, n)]

    def forward(self, x):
        y = self.b(F.relu(self.norm(self.a(x))))
        return torch.cat([y, y.amax(-1, keepdim=True).expand_as(y)], 1)


@novel("graphs/dense_adjacency_gin", (2, 9, 6, 8), (64, 128, 64, 128))
class DenseGin(nn.Module):
    def __init__(self, b, n, d, out):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d, out), nn.ReLU(), nn.Linear(out, out))
        self.eps = nn.Parameter(torch.zeros(1))

    @staticmethod
    def inputs(b, n, d, out):
        return [normal(b, n, d), below(2, b, n, n).float()]

    def forward(self, x, adjacency):
        return self.mlp((1 + self.eps) * x + adjacency @ x).sum(1)


@novel("graphs/message_passing_gru", (7, 15, 6), (5000, 40000, 64))
class GatedGraph(_Graph):
    def __init__(self, n, e, d):
        super().__init__()
        self.message, self.cell = nn.Linear(d, d), nn.GRUCell(d, d)

    def forward(self, x, source, target):
        for _ in range(2):
            m = torch.zeros_like(x).index_add(0, target, self.message(x)[source])
            x = self.cell(m, x)
        return x


@novel("graphs/graph_readout_norm", (12, 3, 6), (40000, 64, 128))
class Readout(nn.Module):
    """Mean and deviation of each graph's nodes, and nodes normalised by these."""

    def __init__(self, n, graphs, d):
        super().__init__()
        self.graphs = graphs

    @staticmethod
    def inputs(n, graphs, d):
        return [normal(n, d), below(graphs, n).sort().values]

    def forward(self, x, which):
        count = (
            torch.zeros(self.graphs, device=x.device)
            .index_add(0, which, torch.ones_like(which).to(x))
            .clamp(min=1)[:, None]
        )
        zero = x.new_zeros(self.graphs, x.shape[1])
        mean = zero.index_add(0, which, x) / count
        y = x - mean[which]
        var = zero.index_add(0, which, y * y) / count
        return y * (var + 1e-5).rsqrt()[which], mean


@novel("graphs/radial_basis_filter", (7, 15, 6, 9), (4000, 60000, 64, 50))
class SchNet(nn.Module):
    """SchNet's continuous filter: Gaussians of distances, and products with neighbours."""

    def __init__(self, n, e, d, basis):
        super().__init__()
        self.register_buffer("centres", torch.linspace(0, 5, basis))
        self.filter = nn.Sequential(nn.Linear(basis, d), nn.Softplus(), nn.Linear(d, d))

    @staticmethod
    def inputs(n, e, d, basis):
        return [normal(n, d), normal(n, 3), below(n, e), below(n, e)]

    def forward(self, x, at, source, target):
        far = (at[source] - at[target] + 1e-3).norm(dim=-1)
        g = torch.exp(-10 * (far[:, None] - self.centres).square())
        smooth = 0.5 * (torch.cos(far * torch.pi / 5) + 1) * (far < 5)
        m = x[source] * self.filter(g) * smooth[:, None]
        return x + torch.zeros_like(x).index_add(0, target, m)


@novel("recommend/dlrm_interaction", (4, 5, 8, 3), (4096, 26, 64, 13))
class Dlrm(nn.Module):
    """Embeddings and dense features: products of all pairs, below the diagonal."""

    def __init__(self, b, tables, d, dense):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(dense, d), nn.ReLU())
        self.top = nn.Linear(d + (tables + 1) * tables // 2, 1)
        i, j = torch.tril_indices(tables + 1, tables + 1, -1)
        self.register_buffer("i", i)
        self.register_buffer("j", j)

    @staticmethod
    def inputs(b, tables, d, dense):
        return [normal(b, dense), normal(b, tables, d)]

    def forward(self, dense, rows):
        x = self.bottom(dense)
        t = torch.cat([x[:, None], rows], 1)
        z = torch.bmm(t, t.transpose(1, 2))[:, self.i, self.j]
        return torch.sigmoid(self.top(torch.cat([x, z], 1)))


@novel("recommend/factorisation_machine", (4, 6, 30, 5), (8192, 39, 100000, 16))
class Machine(nn.Module):
    def __init__(self, b, fields, features, d):
        super().__init__()
        self.first, self.second = nn.Embedding(features, 1), nn.Embedding(features, d)

    @staticmethod
    def inputs(b, fields, features, d):
        return [below(features, b, fields), torch.rand(b, fields)]

    def forward(self, ids, values):
        e = self.second(ids) * values[..., None]
        pairs = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(-1)
        return torch.sigmoid((self.first(ids).squeeze(-1) * values).sum(1) + pairs)


@novel("recommend/deep_cross_layers", (4, 9), (8192, 512))
class DeepCross(nn.Module):
    def __init__(self, b, d):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(d) / d**0.5) for _ in range(3))
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(d)) for _ in range(3))

    @staticmethod
    def inputs(b, d):
        return [normal(b, d)]

    def forward(self, x):
        y = x
        for w, b in zip(self.weights, self.biases, strict=True):
            y = x * (y @ w)[:, None] + b + y
        return y


@novel("recommend/cross_v2_low_rank", (4, 12, 3), (8192, 512, 64))
class CrossV2(nn.Module):
    def __init__(self, b, d, rank):
        super().__init__()
        self.v, self.u = nn.Linear(d, rank, bias=False), nn.Linear(rank, d)
        self.bfloat16()

    @staticmethod
    def inputs(b, d, rank):
        return [normal(b, d, dtype=torch.bfloat16)]

    def forward(self, x):
        return x * self.u(torch.tanh(self.v(x))) + x


@novel("recommend/behaviour_attention", (3, 7, 6, 5), (1024, 50, 64, 36))
class Behaviour(nn.Module):
    """DIN: a network scores each of what a user did beside what is offered."""

    def __init__(self, b, t, d, inner):
        super().__init__()
        self.a, self.b = nn.Linear(4 * d, inner), nn.Linear(inner, 1)
        self.act = nn.PReLU()

    @staticmethod
    def inputs(b, t, d, inner):
        return [normal(b, t, d), normal(b, d), below(2, b, t).bool()]

    def forward(self, seen, item, mask):
        item = item[:, None].expand_as(seen)
        x = torch.cat([seen, item, seen - item, seen * item], -1)
        s = self.b(self.act(self.a(x))).squeeze(-1)
        return ((s * mask)[..., None] * seen).sum(1)


@novel("recommend/mixture_of_gates", (4, 8, 5, 3, 2), (4096, 256, 128, 8, 3))
class Gates(nn.Module):
    """MMoE: experts shared by tasks, a gate a task."""

    def __init__(self, b, d, out, experts, tasks):
        super().__init__()
        self.experts = nn.Parameter(torch.randn(experts, d, out) / d**0.5)
        self.gates = nn.Parameter(torch.randn(tasks, d, experts) / d**0.5)

    @staticmethod
    def inputs(b, d, out, experts, tasks):
        return [normal(b, d)]

    def forward(self, x):
        h = F.relu(torch.einsum("bd,edo->beo", x, self.experts))
        g = torch.einsum("bd,tde->bte", x, self.gates).softmax(-1)
        return torch.einsum("bte,beo->tbo", g, h)


@novel("recommend/hashed_embedding", (5, 4, 13, 6), (8192, 26, 100003, 32))
class Hashed(nn.Module):
    """Two hashes of an id, the product of what stands at both: the QR trick."""

    def __init__(self, b, fields, size, d):
        super().__init__()
        self.rest, self.quotient = nn.Embedding(size, d), nn.Embedding(997, d)
        self.size = size

    @staticmethod
    def inputs(b, fields, size, d):
        return [below(size * 900, b, fields)]

    def forward(self, ids):
        return (self.rest(ids % self.size) * self.quotient(ids // self.size)).flatten(1)


@novel("recommend/bucketized_features", (6, 4, 5, 3), (16384, 13, 64, 16))
class Bucketized(nn.Module):
    """Numbers into buckets of quantiles, embedded a feature."""

    def __init__(self, b, features, buckets, d):
        super().__init__()
        self.register_buffer("bounds", torch.linspace(-2, 2, buckets))
        self.table = nn.Parameter(torch.randn(features, buckets + 1, d))

    @staticmethod
    def inputs(b, features, buckets, d):
        return [normal(b, features)]

    def forward(self, x):
        at = torch.bucketize(x, self.bounds)
        return self.table[torch.arange(x.shape[1], device=x.device), at].flatten(1)
