"""Physics, audio and geometry: stencils, complex numbers as pairs, filters, rays."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Field(nn.Module):
    """What takes a field of its first three sizes."""

    @staticmethod
    def inputs(*sizes: Any) -> list[Any]:
        return [normal(*sizes[:3])]


@novel("science/heat_step_slices", (2, 9, 11), (16, 1024, 1024))
class Heat(_Field):
    def __init__(self, n, h, w):
        super().__init__()

    def forward(self, u):
        inner = u[:, 1:-1, 1:-1]
        lap = u[:, 2:, 1:-1] + u[:, :-2, 1:-1] + u[:, 1:-1, 2:] + u[:, 1:-1, :-2] - 4 * inner
        return F.pad(inner + 0.1 * lap, (1, 1, 1, 1))


@novel("science/wave_step_roll", (2, 9, 11), (16, 1024, 1024))
class Wave(nn.Module):
    def __init__(self, n, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, h, w):
        return [normal(n, h, w), normal(n, h, w)]

    def forward(self, u, before):
        lap = sum(u.roll(s, d) for s in (1, -1) for d in (1, 2)) - 4 * u
        return 2 * u - before + 0.25 * lap, u


@novel("science/gray_scott", (1, 8, 8), (4, 1024, 1024))
class GrayScott(nn.Module):
    def __init__(self, n, h, w):
        super().__init__()
        kernel = torch.tensor([[0.05, 0.2, 0.05], [0.2, -1.0, 0.2], [0.05, 0.2, 0.05]])
        self.register_buffer("kernel", kernel[None, None])

    @staticmethod
    def inputs(n, h, w):
        return [torch.rand(n, 1, h, w), torch.rand(n, 1, h, w)]

    def forward(self, u, v):
        for _ in range(2):
            lu, lv = (
                F.conv2d(F.pad(x, (1, 1, 1, 1), mode="circular"), self.kernel) for x in (u, v)
            )
            r = u * v * v
            u, v = u + 0.2 * lu - r + 0.04 * (1 - u), v + 0.1 * lv + r - 0.1 * v
        return u, v


@novel("science/burgers_upwind", (2, 17), (256, 16384))
class Burgers(nn.Module):
    def __init__(self, n, x):
        super().__init__()

    @staticmethod
    def inputs(n, x):
        return [normal(n, x)]

    def forward(self, u):
        left, right = u - u.roll(1, -1), u.roll(-1, -1) - u
        u = u - 0.1 * torch.where(u > 0, u * left, u * right) + 0.01 * (right - left)
        return u, u.square().mean(-1)


@novel("science/lattice_boltzmann", (9, 6, 7), (9, 1024, 1024))
class Boltzmann(_Field):
    """D2Q9: moments, equilibrium, collision, and streaming by rolls."""

    def __init__(self, q, h, w):
        super().__init__()
        ex = [0, 1, 0, -1, 0, 1, -1, -1, 1]
        ey = [0, 0, 1, 0, -1, 1, 1, -1, -1]
        self.moves = list(zip(ey, ex, strict=True))
        self.register_buffer("e", torch.tensor([ex, ey]).float())
        self.register_buffer("w", torch.tensor([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4))

    def forward(self, f):
        f = f * 0.1 + self.w[:, None, None]
        rho = f.sum(0)
        u = torch.einsum("dq,qhw->dhw", self.e, f) / rho
        eu = torch.einsum("dq,dhw->qhw", self.e, u)
        equal = self.w[:, None, None] * rho * (1 + 3 * eu + 4.5 * eu**2 - 1.5 * u.square().sum(0))
        f = f - (f - equal) / 0.6
        return torch.stack([f[i].roll(move, (0, 1)) for i, move in enumerate(self.moves)])


@novel("science/pinn_sine_mlp", (9, 2, 16), (65536, 3, 128))
class Pinn(nn.Module):
    """SIREN: sines of layers of few inputs."""

    def __init__(self, n, d, inner):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(d, inner), nn.Linear(inner, inner), nn.Linear(inner, 1)

    @staticmethod
    def inputs(n, d, inner):
        return [normal(n, d)]

    def forward(self, x):
        return self.c(torch.sin(30 * self.b(torch.sin(30 * self.a(x)))))


@novel("science/fourier_features_nerf", (6, 4, 5, 16), (1024, 64, 10, 128))
class Nerf(nn.Module):
    """Positional encoding, a network with a skip, and the rendering of a ray."""

    def __init__(self, rays, samples, bands, inner):
        super().__init__()
        self.register_buffer("bands", 2.0 ** torch.arange(bands))
        d = 3 + 6 * bands
        self.a, self.b = nn.Linear(d, inner), nn.Linear(inner + d, inner)
        self.head = nn.Linear(inner, 4)

    @staticmethod
    def inputs(rays, samples, bands, inner):
        return [normal(rays, samples, 3), torch.rand(rays, samples) * 0.1]

    def forward(self, x, step):
        angle = (x[..., None, :] * self.bands[:, None]).flatten(-2)
        e = torch.cat([x, angle.sin(), angle.cos()], -1)
        h = F.relu(self.a(e))
        out = self.head(F.relu(self.b(torch.cat([h, e], -1))))
        alpha = 1 - torch.exp(-F.relu(out[..., 3]) * step)
        clear = torch.cumprod(1 - alpha + 1e-10, -1)
        clear = torch.cat([torch.ones_like(clear[:, :1]), clear[:, :-1]], -1)
        weight = alpha * clear
        return (weight[..., None] * torch.sigmoid(out[..., :3])).sum(1), weight.sum(1)


@novel("science/complex_pairs_product", (3, 8, 6), (64, 512, 512))
class ComplexPairs(nn.Module):
    """A complex product of matrices of pairs, and the magnitude."""

    def __init__(self, n, d, out):
        super().__init__()
        self.re, self.im = (nn.Parameter(torch.randn(d, out) / d**0.5) for _ in range(2))

    @staticmethod
    def inputs(n, d, out):
        return [normal(n, d, d, 2)]

    def forward(self, x):
        a, b = x[..., 0], x[..., 1]
        re, im = a @ self.re - b @ self.im, a @ self.im + b @ self.re
        return torch.stack([re, im], -1), (re.square() + im.square() + 1e-12).sqrt()


@novel("science/mobius_pairs", (5, 7), (4096, 2048))
class Mobius(nn.Module):
    """A quotient of complex numbers of pairs, iterated."""

    def __init__(self, n, m):
        super().__init__()

    @staticmethod
    def inputs(n, m):
        return [normal(n, m, 2)]

    def forward(self, z):
        x, y = z.unbind(-1)
        cx, cy = x, y
        count = torch.zeros_like(x, dtype=torch.int32)
        for _ in range(6):
            x, y = x * x - y * y + cx, 2 * x * y + cy
            x, y = x.clamp(-10, 10), y.clamp(-10, 10)
            count = count + (x * x + y * y < 4).int()
        return count, torch.atan2(y, x)


@novel("science/mel_spectrogram", (2, 80, 16, 8, 5), (16, 64000, 512, 160, 80))
class Mel(nn.Module):
    """A short-time transform by a convolution, powers, a filter bank and a logarithm."""

    def __init__(self, n, t, size, hop, mels):
        super().__init__()
        k = size // 2 + 1
        angle = 2 * torch.pi * torch.outer(torch.arange(k), torch.arange(size)) / size
        window = torch.hann_window(size)
        self.register_buffer("basis", (torch.cat([angle.cos(), -angle.sin()]) * window)[:, None])
        self.register_buffer("bank", torch.rand(mels, k))
        self.hop = hop

    @staticmethod
    def inputs(n, t, size, hop, mels):
        return [normal(n, t)]

    def forward(self, x):
        size = self.basis.shape[-1]
        x = F.pad(x[:, None], (size // 2, size // 2), mode="reflect")
        re, im = F.conv1d(x, self.basis, stride=self.hop).chunk(2, 1)
        return torch.log(torch.clamp(self.bank @ (re.square() + im.square()), min=1e-10))


@novel("science/overlap_add", (2, 7, 8, 4), (16, 400, 512, 128))
class OverlapAdd(nn.Module):
    """Frames back to a wave by fold, divided by the windows' sum."""

    def __init__(self, n, frames, size, hop):
        super().__init__()
        self.hop = hop
        self.register_buffer("window", torch.hann_window(size) + 0.01)

    @staticmethod
    def inputs(n, frames, size, hop):
        return [normal(n, size, frames)]

    def forward(self, x):
        size, frames = x.shape[1:]
        t = (frames - 1) * self.hop + size
        w = self.window[None, :, None]
        kind = {"output_size": (1, t), "kernel_size": (1, size), "stride": (1, self.hop)}
        y = F.fold(x * w, **kind)
        total = F.fold(w.square().expand(1, size, frames), **kind)
        return (y / total).flatten(1)


@novel("science/pre_emphasis_deltas", (2, 5, 20), (64, 80, 1500))
class Deltas(_Field):
    """Pre-emphasis, differences over time, mean and variance normalised."""

    def __init__(self, n, c, t):
        super().__init__()

    def forward(self, x):
        x = torch.cat([x[..., :1], x[..., 1:] - 0.97 * x[..., :-1]], -1)
        p = F.pad(x, (2, 2), mode="replicate")
        t = x.shape[-1]
        d = sum(n * (p[..., 2 + n : 2 + n + t] - p[..., 2 - n : 2 - n + t]) for n in (1, 2)) / 10
        y = torch.cat([x, d], 1)
        return (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True) + 1e-5)


@novel("science/n_body_forces", (2, 9, 3), (4, 1024, 3))
class Bodies(nn.Module):
    def __init__(self, n, bodies, d):
        super().__init__()

    @staticmethod
    def inputs(n, bodies, d):
        return [normal(n, bodies, d), torch.rand(n, bodies)]

    def forward(self, x, mass):
        far = x[:, None] - x[:, :, None]
        near = (far.square().sum(-1) + 0.01).pow(-1.5)
        return (far * (near * mass[:, None])[..., None]).sum(2)


@novel("science/quaternion_rotate", (5, 4), (4096, 256))
class Quaternions(nn.Module):
    def __init__(self, n, points):
        super().__init__()

    @staticmethod
    def inputs(n, points):
        return [normal(n, 4), normal(n, points, 3)]

    def forward(self, q, x):
        q = F.normalize(q, dim=-1)
        w, v = q[:, None, :1], q[:, None, 1:].expand_as(x)
        t = 2 * torch.cross(v, x, dim=-1)
        return x + w * t + torch.cross(v, t, dim=-1)


@novel("science/rotation_from_6d", (7, 5), (65536, 16))
class SixD(nn.Module):
    """Two vectors to a rotation by Gram-Schmidt, applied."""

    def __init__(self, n, points):
        super().__init__()

    @staticmethod
    def inputs(n, points):
        return [normal(n, 6), normal(n, points, 3)]

    def forward(self, x, points):
        a, b = x[:, :3], x[:, 3:]
        a = F.normalize(a, dim=-1)
        b = F.normalize(b - (a * b).sum(-1, keepdim=True) * a, dim=-1)
        turn = torch.stack([a, b, torch.linalg.cross(a, b)], -2)
        return points @ turn.transpose(1, 2), turn


@novel("science/ising_checkerboard", (2, 8, 8), (16, 1024, 1024))
class Ising(nn.Module):
    def __init__(self, n, h, w):
        super().__init__()
        at = torch.arange(h)[:, None] + torch.arange(w)
        self.register_buffer("even", at % 2 == 0)

    @staticmethod
    def inputs(n, h, w):
        return [torch.randint(0, 2, (n, h, w)).float() * 2 - 1, torch.rand(n, h, w)]

    def forward(self, spin, draw):
        around = spin.roll(1, 1) + spin.roll(-1, 1) + spin.roll(1, 2) + spin.roll(-1, 2)
        turn = (draw < torch.exp(-0.8 * spin * around)) & self.even
        spin = torch.where(turn, -spin, spin)
        return spin, spin.mean((1, 2))


@novel("science/life_uint8", (2, 9, 9), (8, 2048, 2048))
class Life(nn.Module):
    """Conway's game on bytes."""

    def __init__(self, n, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, h, w):
        return [torch.randint(0, 2, (n, h, w)).to(torch.uint8)]

    def forward(self, x):
        around = sum(
            x.roll((i, j), (1, 2)) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0)
        )
        return ((around == 3) | ((x == 1) & (around == 2))).to(torch.uint8)


@novel("science/ray_sphere_shading", (6, 3), (262144, 8))
class Spheres(nn.Module):
    def __init__(self, rays, spheres):
        super().__init__()
        self.centre = nn.Parameter(torch.randn(spheres, 3) + torch.tensor([0.0, 0.0, 4.0]))
        self.colour = nn.Parameter(torch.rand(spheres, 3))
        self.register_buffer("light", torch.tensor([0.6, 0.6, -0.5]))

    @staticmethod
    def inputs(rays, spheres):
        return [F.normalize(normal(rays, 3) * 0.3 + torch.tensor([0.0, 0.0, 1.0]), dim=-1)]

    def forward(self, d):
        b = d @ self.centre.T
        disc = b * b - self.centre.square().sum(-1) + 1
        t = torch.where(disc > 0, b - disc.clamp(min=0).sqrt(), torch.inf)
        best, at = t.min(-1)
        hit = torch.isfinite(best)
        point = d * torch.where(hit, best, 0.0)[:, None]
        normal_ = point - self.centre[at]
        light = (normal_ * self.light).sum(-1).clamp(min=0)
        return torch.where(hit[:, None], self.colour[at] * light[:, None], 0.0)
