"""Physics: particles, fields, grids, symmetric features and what steps them."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("physics/lennard_jones", (2, 7), (5, 1101))
class LennardJones(nn.Module):
    """Forces and energy of particles in a periodic box, cut at a distance; and a Verlet step."""

    def __init__(self, n, p):
        super().__init__()

    @staticmethod
    def inputs(n, p):
        return [torch.rand(n, p, 3) * 9, normal(n, p, 3)]

    def forward(self, x, v):
        d = x[:, :, None] - x[:, None]
        d = d - 9 * torch.round(d / 9)
        r2 = d.square().sum(-1)
        own = torch.eye(x.shape[1], dtype=torch.bool, device=x.device)
        near = (r2 < 6.25) & ~own
        inv = torch.where(near, 1 / r2.masked_fill(own, 1.0).clamp(min=0.64), 0.0)
        s6 = inv**3
        force = ((48 * s6 * (s6 - 0.5) * inv)[..., None] * d).sum(2)
        v = v + 0.002 * force
        return torch.remainder(x + 0.002 * v, 9), v, 2 * (s6 * (s6 - 1)).sum((1, 2))


@novel("physics/maxwell", (2, 9, 11), (6, 405, 391))
class Maxwell(nn.Module):
    """Two steps of Yee's grid in place, with a source and walls that absorb."""

    def __init__(self, n, h, w):
        super().__init__()
        self.register_buffer("damp", torch.rand(h, w) * 0.1 + 0.9)

    @staticmethod
    def inputs(n, h, w):
        return [normal(n, h, w) for _ in range(3)]

    def forward(self, e, hx, hy):
        e, hx, hy = e.clone(), hx.clone(), hy.clone()
        for _ in range(2):
            hx[:, :, :-1] -= 0.5 * (e[:, :, 1:] - e[:, :, :-1])
            hy[:, :-1] += 0.5 * (e[:, 1:] - e[:, :-1])
            curl = hy[:, 1:-1, 1:-1] - hy[:, :-2, 1:-1] - hx[:, 1:-1, 1:-1] + hx[:, 1:-1, :-2]
            e[:, 1:-1, 1:-1] += 0.5 * curl
            e[:, 3, 4] += 1.0
            e *= self.damp
        return e, hx, hy


@novel("physics/shallow_water", (2, 7, 9), (9, 301, 267))
class ShallowWater(nn.Module):
    """A step of Lax and Friedrichs for three fields in flux form."""

    def __init__(self, n, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, h, w):
        return [torch.cat([torch.rand(n, 1, h, w) + 1, normal(n, 2, h, w) * 0.1], 1)]

    def forward(self, q):
        h, hu, hv = q.unbind(1)
        u, v = hu / h, hv / h
        fx = torch.stack([hu, hu * u + 4.905 * h * h, hu * v], 1)
        fy = torch.stack([hv, hu * v, hv * v + 4.905 * h * h], 1)
        near = sum(q.roll(s, d) for s in (1, -1) for d in (2, 3)) / 4
        x = fx.roll(-1, 3) - fx.roll(1, 3)
        y = fy.roll(-1, 2) - fy.roll(1, 2)
        speed = (torch.maximum(u.abs(), v.abs()) + (9.81 * h).sqrt()).amax((1, 2))
        return near - 0.05 * (x + y), speed


@novel("physics/smoothed_particles", (11, 4), (6007, 40))
class SmoothedParticles(nn.Module):
    """Density and pressure of a fluid's particles from lists of neighbours."""

    def __init__(self, n, k):
        super().__init__()

    @staticmethod
    def inputs(n, k):
        return [torch.rand(n, 3), normal(n, 3), below(n, n, k)]

    def forward(self, x, v, near):
        d = x[:, None] - x[near]
        r = d.norm(dim=-1)
        q = (r / 0.6).clamp(max=1)
        w = (1 - q) ** 4 * (1 + 4 * q)
        rho = w.sum(1) + 0.1
        p = 3 * ((rho / 5) ** 7 - 1)
        push = (p / rho**2)[:, None] + (p / rho**2)[near]
        grad = -20 * q * (1 - q) ** 3 / r.clamp(min=1e-6)
        drag = 0.1 * (v[near] - v[:, None]) * (w / rho[near])[..., None]
        return (-(push * grad)[..., None] * d + drag).sum(1), rho


@novel("physics/two_grids", (2, 8, 12), (12, 510, 390))
class TwoGrids(nn.Module):
    """A cycle of multigrid: smoothing, the residual's coarse grid, correction, smoothing."""

    def __init__(self, n, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, h, w):
        return [normal(n, 1, h, w), normal(n, 1, h, w)]

    @staticmethod
    def _near(u):
        p = F.pad(u, (1, 1, 1, 1))
        return p[..., :-2, 1:-1] + p[..., 2:, 1:-1] + p[..., 1:-1, :-2] + p[..., 1:-1, 2:]

    def forward(self, u, f):
        for _ in range(2):
            u = u + 0.8 * ((self._near(u) + f) / 4 - u)
        r = f + self._near(u) - 4 * u
        coarse = F.avg_pool2d(r, 2) * 4
        e = torch.zeros_like(coarse)
        for _ in range(3):
            e = e + 0.8 * ((self._near(e) + coarse) / 4 - e)
        u = u + F.interpolate(e, scale_factor=2, mode="bilinear", align_corners=False)
        return u + 0.8 * ((self._near(u) + f) / 4 - u)


@novel("physics/spherical_harmonics", (23,), (700001,))
class SphericalHarmonics(nn.Module):
    """Of degrees to three, of directions."""

    def __init__(self, n):
        super().__init__()

    @staticmethod
    def inputs(n):
        return [normal(n, 3)]

    def forward(self, r):
        x, y, z = F.normalize(r, dim=-1).unbind(-1)
        x2, y2, z2 = x * x, y * y, z * z
        one = torch.ones_like(x)
        parts = [
            0.28209479 * one, 0.48860251 * y, 0.48860251 * z, 0.48860251 * x,
            1.0925484 * x * y, 1.0925484 * y * z, 0.31539157 * (3 * z2 - 1), 1.0925484 * x * z,
            0.54627422 * (x2 - y2), 0.59004359 * y * (3 * x2 - y2), 2.8906114 * x * y * z,
            0.45704579 * y * (5 * z2 - 1), 0.37317633 * z * (5 * z2 - 3),
            0.45704579 * x * (5 * z2 - 1), 1.4453057 * z * (x2 - y2),
            0.59004359 * x * (x2 - 3 * y2),
        ]  # fmt: skip
        return torch.stack(parts, -1)


@novel("physics/tensor_product", (5, 3, 2, 3), (1501, 24, 24, 5))
class TensorProduct(nn.Module):
    """Features of two degrees joined by fixed coefficients and learned weights by channel."""

    def __init__(self, n, u, v, m):
        super().__init__()
        self.register_buffer("c", torch.randn(m, 3, m))
        self.w = nn.Parameter(torch.randn(u, v, u) / u)

    @staticmethod
    def inputs(n, u, v, m):
        return [normal(n, u, m), normal(n, v, 3)]

    def forward(self, x, y):
        return torch.einsum("zui,zvj,ijk,uvw->zwk", x, y, self.c, self.w)


@novel("physics/runge_kutta", (5, 6), (1203, 120))
class RungeKutta(nn.Module):
    """Four stages of a step whose slope is a small network."""

    def __init__(self, n, d):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(d + 1, 2 * d), nn.Tanh(), nn.Linear(2 * d, d))

    @staticmethod
    def inputs(n, d):
        return [normal(n, d), torch.rand(n, 1)]

    def forward(self, x, t):
        def slope(x, t):
            return self.net(torch.cat([x, t], -1))

        h = 0.1
        a = slope(x, t)
        b = slope(x + h / 2 * a, t + h / 2)
        c = slope(x + h / 2 * b, t + h / 2)
        d = slope(x + h * c, t + h)
        return x + h / 6 * (a + 2 * b + 2 * c + d)


@novel("physics/equivariant_graph", (9, 4, 6, 24), (2003, 32, 96, 9001))
class EquivariantGraph(nn.Module):
    """EGNN's layer: messages of distances move nodes and their features."""

    def __init__(self, n, few, d, edges):
        super().__init__()
        self.edge = nn.Sequential(nn.Linear(2 * d + 1, d), nn.SiLU(), nn.Linear(d, d), nn.SiLU())
        self.move = nn.Sequential(nn.Linear(d, d), nn.SiLU(), nn.Linear(d, 1, bias=False))
        self.node = nn.Sequential(nn.Linear(2 * d, d), nn.SiLU(), nn.Linear(d, d))

    @staticmethod
    def inputs(n, few, d, edges):
        return [normal(n, d), normal(n, 3), below(n, 2, edges)]

    def forward(self, h, x, edges):
        a, b = edges
        d = x[a] - x[b]
        r2 = d.square().sum(-1, keepdim=True)
        m = self.edge(torch.cat([h[a], h[b], r2], -1))
        step = d / (r2.sqrt() + 1) * self.move(m)
        moved = torch.zeros_like(x).index_add(0, a, step)
        count = torch.zeros_like(x[:, 0]).index_add(0, a, torch.ones_like(r2[:, 0]))
        got = torch.zeros_like(h).index_add(0, a, m)
        return h + self.node(torch.cat([h, got], -1)), x + moved / count.clamp(min=1)[:, None]


@novel("physics/filters_of_distance", (9, 8, 5, 3), (2003, 120, 25, 17))
class FiltersOfDistance(nn.Module):
    """SchNet: filters that a network makes of distances weigh what neighbours have."""

    def __init__(self, n, d, bases, k):
        super().__init__()
        self.register_buffer("mid", torch.linspace(0, 5, bases))
        self.net = nn.Sequential(nn.Linear(bases, d), nn.Softplus(), nn.Linear(d, d))
        self.into, self.out = nn.Linear(d, d, bias=False), nn.Linear(d, d)

    @staticmethod
    def inputs(n, d, bases, k):
        return [normal(n, d), torch.rand(n, k) * 6, below(n, n, k)]

    def forward(self, x, r, near):
        basis = torch.exp(-2 * (r[..., None] - self.mid) ** 2)
        cut = 0.5 * (torch.cos(r * 3.14159 / 5) + 1) * (r < 5)
        w = self.net(basis) * cut[..., None]
        y = (self.into(x)[near] * w).sum(1)
        return x + self.out(F.softplus(y) - 0.6931)


@novel("physics/forces_of_an_energy", (7, 3, 6), (3001, 3, 64))
class ForcesOfEnergy(nn.Module):
    """An energy's gradient, by hand: what a network of two layers gives back."""

    def __init__(self, n, d, inner):
        super().__init__()
        self.a, self.b = nn.Linear(d, inner), nn.Linear(inner, 1, bias=False)

    @staticmethod
    def inputs(n, d, inner):
        return [normal(n, d)]

    def forward(self, x):
        energy = torch.func.vmap(lambda one: self.b(torch.tanh(self.a(one))).sum())
        y = torch.tanh(self.a(x))
        return energy(x), -((1 - y * y) * self.b.weight[0]) @ self.a.weight


@novel("physics/ising_energy", (3, 6, 7), (41, 200, 310))
class IsingEnergy(nn.Module):
    """Integer spins in three types: neighbours, energies, magnetisation and its histogram."""

    def __init__(self, n, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, h, w):
        return [
            (torch.randint(0, 2, (n, h, w)) * 2 - 1).to(torch.int8),
            below(3, h, w).to(torch.int32),
        ]

    def forward(self, s, field):
        wide = s.to(torch.int32)
        near = wide.roll(1, 1) + wide.roll(-1, 1) + wide.roll(1, 2) + wide.roll(-1, 2)
        energy = -(wide * near) // 2 - field * wide
        flip = torch.where(near * wide <= 0, -s, s)
        count = (near[..., None] == torch.arange(-4, 5, 2, device=s.device)).sum((1, 2))
        return energy.sum((1, 2)), flip, wide.float().mean((1, 2)), count


@novel("physics/reversible_couplings", (3, 8, 5, 7), (25, 48, 41, 39))
class ReversibleCouplings(nn.Module):
    """Glow's step: a norm, an invertible product and a coupling; and back again."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.log, self.bias = nn.Parameter(torch.randn(c) * 0.1), nn.Parameter(torch.randn(c))
        q, _ = torch.linalg.qr(torch.randn(c, c))
        self.w = nn.Parameter(q)
        self.net = nn.Sequential(
            nn.Conv2d(c // 2, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 3, padding=1)
        )

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w)]

    def forward(self, x):
        y = (x + self.bias[:, None, None]) * self.log.exp()[:, None, None]
        y = F.conv2d(y, self.w[:, :, None, None])
        a, b = y.chunk(2, 1)
        shift, scale = self.net(a).split(a.shape[1], 1)
        scale = torch.sigmoid(scale + 2)
        b = (b + shift) * scale
        det = torch.log(scale).sum((1, 2, 3)) + self.log.sum() * x.shape[2] * x.shape[3]
        return torch.cat([a, b], 1), det


@novel("physics/stencil_of_27", (2, 5, 6, 7), (3, 61, 73, 89))
class Stencil27(One):
    """A heat step in space with weights of distance, walls that mirror, and its residual."""

    def forward(self, x):
        p = F.pad(x[:, None], (1, 1, 1, 1, 1, 1), mode="replicate")[:, 0]
        total = torch.zeros_like(x)
        d, h, w = x.shape[1:]
        for i in range(3):
            for j in range(3):
                for k in range(3):
                    far = abs(i - 1) + abs(j - 1) + abs(k - 1)
                    weight = (-4.0, 0.4, 0.1, 0.05)[far]
                    total = total + weight * p[:, i : i + d, j : j + h, k : k + w]
        return x + 0.1 * total, total.abs().amax((1, 2, 3))
