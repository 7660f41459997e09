"""Finance and statistics: prices, paths with given noise, risks, filters and tests."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


def _cdf(x: Any) -> Any:
    """Of the normal distribution."""
    return 0.5 * (1 + torch.erf(x / 2**0.5))


@novel("finance/black_scholes", (37,), (3000017,))
class BlackScholes(One):
    """Prices of calls and puts and four of their derivatives."""

    @staticmethod
    def inputs(n):
        return [
            torch.rand(n) * 50 + 75,
            torch.rand(n) * 50 + 75,
            torch.rand(n) * 2 + 0.1,
            torch.rand(n) * 0.4 + 0.1,
        ]

    def forward(self, s, k, t, vol):
        r = 0.03
        root = vol * t.sqrt()
        d1 = (torch.log(s / k) + (r + vol * vol / 2) * t) / root
        d2 = d1 - root
        later = k * torch.exp(-r * t)
        call = s * _cdf(d1) - later * _cdf(d2)
        bell = torch.exp(-d1 * d1 / 2) * 0.3989422804
        gamma, vega = bell / (s * root), s * bell * t.sqrt()
        theta = -s * bell * vol / (2 * t.sqrt()) - r * later * _cdf(d2)
        return call, call - s + later, _cdf(d1), gamma, vega, theta


@novel("finance/asian_paths", (7, 12), (100003, 252))
class AsianPaths(One):
    """Paths of given noise: means, extremes and a barrier of each, and the option's price."""

    def forward(self, noise):
        step = 1 / noise.shape[1]
        path = 100 * torch.exp((-0.02 * step + 0.2 * step**0.5 * noise).cumsum(1))
        alive = (path.amax(1) < 140).to(noise)
        pay = (path.mean(1) - 100).clamp(min=0) * alive
        geo = torch.exp(torch.log(path).mean(1))
        return pay.mean(), pay.std() / pay.shape[0] ** 0.5, (geo - 100).clamp(min=0).mean()


@novel("finance/binomial_tree", (3, 6), (2003, 48))
class BinomialTree(nn.Module):
    """American puts by a tree, each step the larger of waiting and exercise."""

    def __init__(self, n, steps):
        super().__init__()
        self.steps = steps

    @staticmethod
    def inputs(n, steps):
        return [torch.rand(n) * 40 + 80, torch.rand(n) * 0.3 + 0.1]

    def forward(self, spot, vol):
        dt = 1 / self.steps
        up = torch.exp(vol * dt**0.5)[:, None]
        p = (1.0003 - 1 / up) / (up - 1 / up)
        i = torch.arange(self.steps + 1, device=spot.device)
        price = spot[:, None] * up ** (2 * i - self.steps).to(spot)
        value = (100 - price).clamp(min=0)
        for step in range(self.steps - 1, -1, -1):
            value = 0.9997 * (p * value[:, 1:] + (1 - p) * value[:, :-1])
            price = spot[:, None] * up ** (2 * i[: step + 1] - step).to(spot)
            value = torch.maximum(value, 100 - price)
        return value[:, 0]


@novel("finance/stochastic_volatility", (9, 4), (200003, 20))
class Heston(nn.Module):
    """Heston's paths, step by step, with noise that is joined by a correlation."""

    def __init__(self, n, steps):
        super().__init__()

    @staticmethod
    def inputs(n, steps):
        return [normal(steps, 2, n)]

    def forward(self, noise):
        dt, rho = 1 / noise.shape[0], -0.7
        log = torch.zeros_like(noise[0, 0])
        var = torch.full_like(log, 0.04)
        for a, b in noise:
            b = rho * a + (1 - rho * rho) ** 0.5 * b
            real = var.clamp(min=0)
            log = log - 0.5 * real * dt + (real * dt).sqrt() * a
            var = var + 1.5 * (0.04 - real) * dt + 0.3 * (real * dt).sqrt() * b
        return 100 * log.exp(), var


@novel("finance/value_at_risk", (41, 5), (20011, 37))
class ValueAtRisk(nn.Module):
    """Losses of portfolios over scenarios: a quantile of them and the mean beyond it."""

    def __init__(self, n, assets):
        super().__init__()
        self.weights = nn.Parameter(torch.rand(assets, 3).softmax(0))

    @staticmethod
    def inputs(n, assets):
        return [normal(n, assets) * 0.02]

    def forward(self, x):
        loss = -(x @ self.weights)
        order = loss.sort(0, descending=True).values
        k = max(1, x.shape[0] // 20)
        return order[k - 1], order[:k].mean(0), loss.kthvalue(x.shape[0] // 2, 0).values


@novel("finance/kalman", (3, 4), (5003, 9))
class Kalman(nn.Module):
    """A filter of place and speed for many series at once; its covariances are two by two."""

    def __init__(self, n, steps):
        super().__init__()
        self.register_buffer("f", torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
        self.register_buffer("q", torch.eye(2) * 0.01)

    @staticmethod
    def inputs(n, steps):
        return [normal(n, steps)]

    def forward(self, seen):
        n = seen.shape[0]
        x = torch.zeros(n, 2, device=seen.device, dtype=seen.dtype)
        p = torch.eye(2, device=seen.device, dtype=seen.dtype).expand(n, 2, 2)
        out = []
        for z in seen.unbind(1):
            x, p = x @ self.f.T, self.f @ p @ self.f.T + self.q
            s = p[:, 0, 0] + 0.5
            gain = p[:, :, 0] / s[:, None]
            x = x + gain * (z - x[:, 0])[:, None]
            p = p - gain[:, :, None] * p[:, :1]
            out.append(x[:, 0])
        return torch.stack(out, 1)


@novel("finance/decayed_covariance", (9, 5), (2501, 203))
class DecayedCovariance(nn.Module):
    """Returns weighted by age, their covariance, and risks and shares of portfolios."""

    def __init__(self, t, assets):
        super().__init__()
        self.w = nn.Parameter(torch.rand(7, assets).softmax(1))

    @staticmethod
    def inputs(t, assets):
        return [torch.exp(normal(t, assets) * 0.01).cumprod(0) * 50]

    def forward(self, price):
        r = torch.log(price[1:] / price[:-1])
        age = torch.arange(r.shape[0], device=r.device).flip(0)
        w = 0.97**age
        w = (w / w.sum())[:, None]
        r = r - (w * r).sum(0)
        cov = r.T @ (w * r)
        own = self.w @ cov
        var = (own * self.w).sum(1)
        vol = torch.diagonal(cov).sqrt()
        return var.sqrt(), own * self.w / var[:, None], cov / torch.outer(vol, vol)


@novel("finance/rank_correlation", (4, 9), (203, 1501))
class RankCorrelation(nn.Module):
    """Spearman's: ranks of rows, and the products of what is left of them."""

    def __init__(self, n, t):
        super().__init__()

    @staticmethod
    def inputs(n, t):
        return [normal(n, t)]

    def forward(self, x):
        rank = x.argsort(1).argsort(1).to(x)
        rank = rank - rank.mean(1, keepdim=True)
        rank = rank / rank.norm(dim=1, keepdim=True)
        return rank @ rank.T


@novel("finance/bootstrap", (11, 5), (5003, 701))
class Bootstrap(nn.Module):
    """Means and deviations of samples drawn by given numbers."""

    def __init__(self, n, draws):
        super().__init__()

    @staticmethod
    def inputs(n, draws):
        return [normal(n), below(n, draws, n)]

    def forward(self, x, which):
        drawn = x[which]
        mean = drawn.mean(1)
        low, high = torch.quantile(mean, torch.tensor([0.025, 0.975], device=x.device).to(x))
        return mean, drawn.var(1, unbiased=False), low, high


@novel("finance/kolmogorov_smirnov", (3, 11, 7), (45, 3001, 2003))
class KolmogorovSmirnov(nn.Module):
    """The largest distance of two samples' distributions, by searches in sorted rows."""

    def __init__(self, b, n, m):
        super().__init__()

    @staticmethod
    def inputs(b, n, m):
        return [normal(b, n), normal(b, m) * 1.2]

    def forward(self, x, y):
        x, y = x.sort(1).values, y.sort(1).values
        every = torch.cat([x, y], 1)
        a = torch.searchsorted(x, every, right=True) / x.shape[1]
        b = torch.searchsorted(y, every, right=True) / y.shape[1]
        return (a - b).abs().amax(1)


@novel("finance/expectation_maximisation", (13, 3, 4), (50021, 24, 12))
class ExpectationMaximisation(nn.Module):
    """A step for a mixture of normal distributions with own variances by axis."""

    def __init__(self, n, d, k):
        super().__init__()
        self.mean = nn.Parameter(torch.randn(k, d))
        self.log = nn.Parameter(torch.randn(k, d) * 0.1)
        self.prior = nn.Parameter(torch.zeros(k))

    @staticmethod
    def inputs(n, d, k):
        return [normal(n, d)]

    def forward(self, x):
        inv = torch.exp(-self.log)
        dist = (x.square() @ inv.T) - 2 * (x @ (inv * self.mean).T) + (inv * self.mean**2).sum(1)
        joint = self.prior.log_softmax(0) - 0.5 * (dist + self.log.sum(1))
        total = joint.logsumexp(1, keepdim=True)
        r = torch.exp(joint - total)
        count = r.sum(0)
        mean = r.T @ x / count[:, None]
        var = r.T @ x.square() / count[:, None] - mean.square()
        return total.mean(), count / x.shape[0], mean, var


@novel("finance/dirichlet", (5, 4), (20011, 30))
class Dirichlet(One):
    """Divergence of Dirichlet distributions from the even one, and Student's likelihood."""

    def forward(self, x):
        a = F.softplus(x) + 1
        s = a.sum(-1, keepdim=True)
        kl = (
            torch.lgamma(s.squeeze(-1))
            - torch.lgamma(a).sum(-1)
            - torch.lgamma(torch.tensor(float(x.shape[-1]), device=x.device).to(x))
        )
        kl = kl + ((a - 1) * (torch.digamma(a) - torch.digamma(s))).sum(-1)
        t = torch.lgamma(a / 2 + 0.5) - torch.lgamma(a / 2) - (a + 1) / 2 * torch.log1p(x * x / a)
        return kl, t.mean(-1)


@novel("finance/hawkes", (3, 9), (40, 907))
class Hawkes(nn.Module):
    """A process that excites itself: intensities at its own times, and its likelihood."""

    def __init__(self, n, t):
        super().__init__()

    @staticmethod
    def inputs(n, t):
        return [torch.rand(n, t).cumsum(1), torch.rand(n, 3) + 0.2]

    def forward(self, times, how):
        mu, a, b = how[:, :, None].unbind(1)
        away = times[:, :, None] - times[:, None]
        near = torch.where(away > 0, torch.exp(-b[:, :, None] * away), torch.zeros_like(away))
        rate = mu + a * near.sum(2)
        last = times[:, -1:]
        whole = mu * last + (a / b) * (1 - torch.exp(-b * (last - times))).sum(1, keepdim=True)
        return torch.log(rate).sum(1) - whole.squeeze(1), rate


@novel("finance/logistic_newton", (17, 4), (30011, 28))
class LogisticNewton(nn.Module):
    """A step of weighted least squares, its system solved by elimination without pivots."""

    def __init__(self, n, d):
        super().__init__()
        self.w = nn.Parameter(torch.randn(d) * 0.1)

    @staticmethod
    def inputs(n, d):
        return [normal(n, d), (torch.rand(n) < 0.4).float()]

    def forward(self, x, y):
        p = torch.sigmoid(x @ self.w)
        d = x.shape[1]
        h = x.T @ (x * (p * (1 - p))[:, None]) + torch.eye(d, device=x.device)
        g = x.T @ (y - p) - self.w
        a = torch.cat([h, g[:, None]], 1)
        for i in range(d):
            row = a[i] / a[i, i]
            col = a[:, i].clone()
            col[i] = 0
            a = torch.where(
                torch.arange(d, device=x.device)[:, None] == i, row, a - torch.outer(col, row)
            )
        return self.w + a[:, -1]


@novel("finance/normal_scores", (3, 9), (57, 4001))
class NormalScores(One):
    """Ranks as quantiles of the normal distribution, and moments of what comes out."""

    def forward(self, x):
        u = (x.argsort(-1).argsort(-1) + 0.5) / x.shape[-1]
        z = torch.special.ndtri(u.clamp(1e-6, 1 - 1e-6))
        c = z - z.mean(-1, keepdim=True)
        v = c.square().mean(-1)
        return z, (c.abs() ** 3).mean(-1) / v**1.5, (c**4).mean(-1) / v**2 - 3


@novel("finance/periodic_density", (5, 7), (3001, 257))
class PeriodicDensity(nn.Module):
    """Von Mises kernels' density on a grid, by the modified Bessel function."""

    def __init__(self, n, grid):
        super().__init__()
        self.register_buffer("grid", torch.linspace(-3.14159, 3.14159, grid))

    @staticmethod
    def inputs(n, grid):
        return [torch.rand(n) * 6.28318 - 3.14159, torch.rand(n) * 4 + 0.5]

    def forward(self, x, kappa):
        log = kappa * (torch.cos(self.grid[:, None] - x) - 1)
        return (torch.exp(log) / (6.283185 * torch.special.i0e(kappa))).mean(1)
