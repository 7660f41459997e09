"""Losses and statistics."""

# pyright: basic

from __future__ import annotations

import math
from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Two(nn.Module):
    """What takes two arrays of all its sizes, and has no state."""

    def __init__(self, *sizes):
        super().__init__()

    @staticmethod
    def inputs(*sizes: Any) -> list[Any]:
        return [normal(*sizes), normal(*sizes)]


@novel("losses/info_nce", (6, 8), (4096, 256))
class InfoNce(_Two):
    def forward(self, a, b):
        a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
        logits = a @ b.T / 0.07
        own = torch.arange(a.shape[0], device=a.device)
        return (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / 2


@novel("losses/sigmoid_contrastive", (6, 8), (4096, 512))
class SigLip(_Two):
    def forward(self, a, b):
        logits = 10 * F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T - 10
        sign = 2 * torch.eye(a.shape[0], device=a.device) - 1
        return -F.logsigmoid(sign * logits).sum() / a.shape[0]


@novel("losses/nt_xent", (4, 8), (2048, 128))
class NtXent(_Two):
    def forward(self, a, b):
        z = F.normalize(torch.cat([a, b]), dim=-1)
        n = a.shape[0]
        s = z @ z.T / 0.5
        s = s.masked_fill(torch.eye(2 * n, dtype=torch.bool, device=s.device), float("-inf"))
        own = torch.cat([s.diagonal(n), s.diagonal(-n)])
        return (s.logsumexp(-1) - own).mean()


@novel("losses/focal", (5, 7), (65536, 80))
class Focal(nn.Module):
    def __init__(self, n, classes):
        super().__init__()

    @staticmethod
    def inputs(n, classes):
        return [normal(n, classes), below(2, n, classes).float()]

    def forward(self, x, y):
        p = torch.sigmoid(x)
        loss = F.binary_cross_entropy_with_logits(x, y, reduction="none")
        pt = p * y + (1 - p) * (1 - y)
        return ((0.25 * y + 0.75 * (1 - y)) * (1 - pt) ** 2 * loss).sum() / y.sum().clamp(min=1)


@novel("losses/dice_and_tversky", (2, 3, 5, 6), (8, 4, 512, 512))
class Dice(nn.Module):
    def __init__(self, n, c, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w), below(c, n, h, w)]

    def forward(self, x, y):
        p = x.softmax(1)
        t = F.one_hot(y, x.shape[1]).permute(0, 3, 1, 2).to(p)
        both = (p * t).sum((0, 2, 3))
        dice = (2 * both + 1) / (p.sum((0, 2, 3)) + t.sum((0, 2, 3)) + 1)
        tversky = (both + 1) / (
            both + 0.7 * (p * (1 - t)).sum((0, 2, 3)) + 0.3 * ((1 - p) * t).sum((0, 2, 3)) + 1
        )
        return 2 - dice.mean() - tversky.mean()


@novel("losses/batch_hard_triplet", (8, 6, 3), (1024, 256, 64))
class HardTriplet(nn.Module):
    def __init__(self, n, d, classes):
        super().__init__()

    @staticmethod
    def inputs(n, d, classes):
        return [normal(n, d), below(classes, n)]

    def forward(self, x, ids):
        far = torch.cdist(x, x)
        same = ids[:, None] == ids
        pos = far.masked_fill(~same, float("-inf")).amax(1)
        neg = far.masked_fill(same, float("inf")).amin(1)
        return F.relu(pos - neg + 0.3).mean()


@novel("losses/arcface", (5, 8, 11), (512, 512, 20000))
class ArcFace(nn.Module):
    def __init__(self, n, d, classes):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, d))

    @staticmethod
    def inputs(n, d, classes):
        return [normal(n, d), below(classes, n)]

    def forward(self, x, ids):
        cos = F.linear(F.normalize(x), F.normalize(self.weight)).clamp(-1, 1)
        sin = (1 - cos.square()).clamp(min=1e-9).sqrt()
        turned = cos * math.cos(0.5) - sin * math.sin(0.5)
        own = F.one_hot(ids, cos.shape[1]).bool()
        return F.cross_entropy(64 * torch.where(own, turned, cos), ids)


@novel("losses/distillation_kl", (6, 13), (2048, 16000))
class Distillation(_Two):
    def forward(self, student, teacher):
        t = 2.0
        q = F.log_softmax(student / t, -1)
        p = F.log_softmax(teacher / t, -1)
        return F.kl_div(q, p, reduction="batchmean", log_target=True) * t * t


@novel("losses/vae_elbo", (3, 7, 12), (1024, 64, 3072))
class Elbo(nn.Module):
    def __init__(self, n, z, d):
        super().__init__()
        self.head = nn.Linear(z, d)

    @staticmethod
    def inputs(n, z, d):
        return [normal(n, z), normal(n, z), normal(n, z), torch.rand(n, d)]

    def forward(self, mu, logvar, noise, x):
        logits = self.head(mu + noise * torch.exp(0.5 * logvar))
        seen = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return (seen - 0.5 * (1 + logvar - mu.square() - logvar.exp()).sum()) / x.shape[0]


@novel("losses/gaussian_nll_mixture", (6, 4, 5), (8192, 16, 32))
class MixtureNll(nn.Module):
    """A mixture density network's likelihood."""

    def __init__(self, n, k, d):
        super().__init__()

    @staticmethod
    def inputs(n, k, d):
        return [normal(n, k), normal(n, k, d), normal(n, k, d), normal(n, d)]

    def forward(self, logits, mu, raw, x):
        sigma = F.softplus(raw) + 1e-3
        z = (x[:, None] - mu) / sigma
        each = -0.5 * z.square() - sigma.log() - 0.5 * math.log(2 * math.pi)
        return -torch.logsumexp(logits.log_softmax(-1) + each.sum(-1), -1).mean()


@novel("losses/ssim", (1, 2, 13, 13), (8, 3, 256, 256))
class Ssim(nn.Module):
    def __init__(self, n, c, h, w):
        super().__init__()
        g = torch.exp(-((torch.arange(11) - 5.0) ** 2) / 4.5)
        g = g / g.sum()
        self.register_buffer("window", (g[:, None] * g)[None, None].expand(c, 1, 11, 11).clone())

    @staticmethod
    def inputs(n, c, h, w):
        return [torch.rand(n, c, h, w), torch.rand(n, c, h, w)]

    def forward(self, x, y):
        c = x.shape[1]

        def mean(z):
            return F.conv2d(z, self.window, groups=c)

        mx, my = mean(x), mean(y)
        vx, vy, xy = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
        s = (2 * mx * my + 1e-4) * (2 * xy + 9e-4)
        return 1 - (s / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4))).mean()


@novel("losses/total_variation_charbonnier", (2, 3, 7, 9), (16, 3, 512, 512))
class Variation(_Two):
    def forward(self, x, y):
        near = torch.sqrt((x - y).square() + 1e-6).mean()
        tv = (x[..., 1:, :] - x[..., :-1, :]).abs().mean() + (x[..., 1:] - x[..., :-1]).abs().mean()
        return near + 0.1 * tv


@novel("losses/gram_style", (2, 6, 5, 7), (4, 256, 64, 64))
class Gram(_Two):
    def forward(self, a, b):
        def gram(x):
            f = x.flatten(2)
            return f @ f.transpose(1, 2) / f.shape[-1]

        return F.mse_loss(gram(a), gram(b)) + F.smooth_l1_loss(a, b)


@novel("losses/giou_boxes", (9,), (262144,))
class Giou(nn.Module):
    def __init__(self, n):
        super().__init__()

    @staticmethod
    def inputs(n):
        return [torch.rand(n, 4).cumsum(-1), torch.rand(n, 4).cumsum(-1)]

    def forward(self, a, b):
        lo, hi = torch.maximum(a[:, :2], b[:, :2]), torch.minimum(a[:, 2:], b[:, 2:])
        both = (hi - lo).clamp(min=0).prod(-1)
        union = (a[:, 2:] - a[:, :2]).prod(-1) + (b[:, 2:] - b[:, :2]).prod(-1) - both
        wide = (torch.maximum(a[:, 2:], b[:, 2:]) - torch.minimum(a[:, :2], b[:, :2])).prod(-1)
        iou = both / union
        return (1 - (iou - (wide - union) / wide)).mean()


@novel("losses/pairwise_iou_match", (2, 7, 4), (16, 8400, 32))
class IouMatch(nn.Module):
    """All priors beside all boxes: how much each covers, and the best of both."""

    def __init__(self, n, priors, boxes):
        super().__init__()

    @staticmethod
    def inputs(n, priors, boxes):
        return [torch.rand(n, priors, 4).cumsum(-1), torch.rand(n, boxes, 4).cumsum(-1)]

    def forward(self, a, b):
        a, b = a[:, :, None], b[:, None]
        lo, hi = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
        both = (hi - lo).clamp(min=0).prod(-1)
        area = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1)
        iou = both / (area - both + 1e-9)
        best, at = iou.max(2)
        return best, at, iou.argmax(1)


@novel("losses/ranknet_pairs", (4, 7), (256, 128))
class RankNet(_Two):
    def forward(self, s, y):
        d = s[:, :, None] - s[:, None]
        sign = torch.sign(y[:, :, None] - y[:, None])
        return F.softplus(-sign * d).mul(sign != 0).sum((1, 2)).mean()


@novel("losses/listwise_softmax_rank", (4, 9), (8192, 200))
class ListMle(_Two):
    """The likelihood of an order: a running log-sum-exp from the end."""

    def forward(self, s, y):
        at = y.argsort(-1, descending=True)
        s = s.gather(-1, at)
        return (s.flip(-1).logcumsumexp(-1).flip(-1) - s).mean()


@novel("losses/ppo_clipped", (6, 5), (1024, 512))
class Ppo(nn.Module):
    def __init__(self, n, t):
        super().__init__()

    @staticmethod
    def inputs(n, t):
        return [normal(n, t) * 0.1, normal(n, t) * 0.1, normal(n, t), below(2, n, t).float()]

    def forward(self, new, old, adv, mask):
        total = mask.sum().clamp(min=1)
        mean = (adv * mask).sum() / total
        std = (((adv - mean).square() * mask).sum() / total).sqrt()
        adv = (adv - mean) / (std + 1e-8)
        ratio = torch.exp(new - old)
        loss = -torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv)
        return (loss * mask).sum() / total, ((ratio - 1) - (new - old)).mul(mask).sum() / total


@novel("losses/discounted_returns", (3, 9), (1024, 1024))
class Returns(nn.Module):
    """Discounted sums from the end, by powers and a running sum."""

    def __init__(self, n, t):
        super().__init__()
        self.register_buffer("powers", 0.99 ** torch.arange(t))

    @staticmethod
    def inputs(n, t):
        return [normal(n, t)]

    def forward(self, r):
        whole = (r * self.powers).flip(-1).cumsum(-1).flip(-1) / self.powers
        return (whole - whole.mean()) / (whole.std() + 1e-6)


@novel("statistics/kmeans_step", (12, 5, 3), (65536, 64, 256))
class Kmeans(nn.Module):
    def __init__(self, n, d, k):
        super().__init__()

    @staticmethod
    def inputs(n, d, k):
        return [normal(n, d), normal(k, d)]

    def forward(self, x, centres):
        at = torch.cdist(x, centres).argmin(1)
        total = torch.zeros_like(centres).index_add(0, at, x)
        count = torch.zeros_like(centres[:, 0]).index_add(0, at, torch.ones_like(x[:, 0]))
        return torch.where(count[:, None] > 0, total / count.clamp(min=1)[:, None], centres), at


@novel("statistics/vector_quantizer", (2, 6, 4, 9), (8, 1024, 64, 512))
class Quantizer(nn.Module):
    def __init__(self, b, t, d, codes):
        super().__init__()
        self.codes = nn.Embedding(codes, d)

    @staticmethod
    def inputs(b, t, d, codes):
        return [normal(b, t, d)]

    def forward(self, x):
        c = self.codes.weight
        far = x.square().sum(-1, keepdim=True) - 2 * x @ c.T + c.square().sum(-1)
        at = far.argmin(-1)
        q = self.codes(at)
        return x + (q - x).detach(), at, 1.25 * (q - x).square().mean()


@novel("statistics/covariance_correlation", (20, 6), (8192, 512))
class Covariance(One):
    def forward(self, x):
        y = x - x.mean(0)
        c = y.T @ y / (x.shape[0] - 1)
        s = c.diagonal().sqrt()
        return c, c / (s[:, None] * s)


@novel("statistics/whitening_newton_schulz", (20, 6), (4096, 256))
class Whitening(One):
    """The inverse root of a covariance by Newton's steps, applied."""

    def forward(self, x):
        y = x - x.mean(0)
        d = x.shape[1]
        c = y.T @ y / x.shape[0] + 1e-3 * torch.eye(d, device=x.device)
        trace = c.diagonal().sum()
        c = c / trace
        p = torch.eye(d, device=x.device)
        for _ in range(3):
            p = 1.5 * p - 0.5 * p @ p @ p @ c
        return y @ (p / trace.sqrt())


@novel("statistics/muon_orthogonal", (6, 9), (1024, 2048))
class Muon(One):
    """Muon's quintic iteration in bf16."""

    LOOSE = 0.1  # Either is off by 0.02 to 0.04 of what f64 gives.

    def forward(self, g):
        x = g.bfloat16()
        x = x / (x.norm() + 1e-7)
        for _ in range(3):
            a = x @ x.T
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x.to(g)


@novel("statistics/rbf_kernel_matrix", (7, 9, 4), (4096, 4096, 64))
class RbfKernel(nn.Module):
    def __init__(self, n, m, d):
        super().__init__()

    @staticmethod
    def inputs(n, m, d):
        return [normal(n, d), normal(m, d), normal(m, 1)]

    def forward(self, x, y, alpha):
        far = x.square().sum(1)[:, None] + y.square().sum(1) - 2 * x @ y.T
        k = torch.exp(-far.clamp(min=0) / x.shape[1])
        return k @ alpha


@novel("statistics/matern_kernel", (7, 9, 4), (2048, 2048, 16))
class Matern(nn.Module):
    def __init__(self, n, m, d):
        super().__init__()
        self.scale = nn.Parameter(torch.rand(d) + 0.5)

    @staticmethod
    def inputs(n, m, d):
        return [normal(n, d), normal(m, d)]

    def forward(self, x, y):
        r = torch.cdist(x / self.scale, y / self.scale) * 5**0.5
        return (1 + r + r * r / 3) * torch.exp(-r)


@novel("statistics/mmd_two_sample", (6, 5), (2048, 128))
class Mmd(_Two):
    def forward(self, x, y):
        z = torch.cat([x, y])
        far = torch.cdist(z, z).square()
        n = x.shape[0]
        k: Any = sum(torch.exp(-far / (s * z.shape[1])) for s in (0.5, 1.0, 2.0))
        return k[:n, :n].mean() + k[n:, n:].mean() - 2 * k[:n, n:].mean()


@novel("statistics/sinkhorn", (2, 6, 7), (16, 256, 256))
class Sinkhorn(One):
    def forward(self, cost):
        x = -cost / 0.1
        for _ in range(4):
            x = x - x.logsumexp(-1, keepdim=True)
            x = x - x.logsumexp(-2, keepdim=True)
        return x.exp()


@novel("statistics/robust_scaler", (31, 4), (65537, 64))
class Robust(One):
    """Columns less their median, over the mean absolute deviation from it."""

    def forward(self, x):
        y = x - x.median(0).values
        return torch.tanh(y / (y.abs().mean(0) * 1.4826 + 1e-6))


@novel("statistics/soft_histogram", (2, 30, 5), (64, 16384, 64))
class SoftHistogram(nn.Module):
    def __init__(self, n, t, bins):
        super().__init__()
        self.register_buffer("centres", torch.linspace(-2, 2, bins))

    @staticmethod
    def inputs(n, t, bins):
        return [normal(n, t)]

    def forward(self, x):
        w = torch.relu(1 - (x[..., None] - self.centres).abs() * (len(self.centres) - 1) / 4)
        h = w.sum(1)
        return h / h.sum(-1, keepdim=True).clamp(min=1e-6)


@novel("statistics/confusion_matrix", (40, 5), (262144, 32))
class Confusion(nn.Module):
    def __init__(self, n, classes):
        super().__init__()

    @staticmethod
    def inputs(n, classes):
        return [normal(n, classes), below(classes, n)]

    def forward(self, logits, ids):
        c = logits.shape[1]
        at = ids * c + logits.argmax(-1)
        m = torch.zeros(c * c, device=logits.device).scatter_add(0, at, torch.ones_like(at).float())
        m = m.view(c, c)
        return m, m.diagonal() / m.sum(1).clamp(min=1)


@novel("statistics/exponential_moving_average", (3, 12, 4), (64, 512, 128))
class Ema(One):
    """By a lower triangular matrix of powers."""

    def forward(self, x):
        t = x.shape[1]
        at = torch.arange(t, device=x.device)
        far = at[:, None] - at
        w = torch.where(far >= 0, 0.1 * 0.9 ** far.clamp(min=0).float(), 0.0)
        return w @ x


@novel("statistics/rolling_zscore", (3, 30, 5), (256, 4096, 32))
class Rolling(nn.Module):
    def __init__(self, n, t, window):
        super().__init__()
        self.window = window

    @staticmethod
    def inputs(n, t, window):
        return [normal(n, t)]

    def forward(self, x):
        seen = x.unfold(-1, self.window, 1)
        mean, var = seen.mean(-1), seen.var(-1)
        return (x[:, self.window - 1 :] - mean) / (var + 1e-6).sqrt()


@novel("statistics/power_iteration", (2, 7), (64, 512))
class PowerIteration(nn.Module):
    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [normal(n, d, d), normal(n, d)]

    def forward(self, a, v):
        for _ in range(3):
            v = F.normalize(torch.bmm(a, v[..., None]).squeeze(-1), dim=-1)
        return v, torch.einsum("bi,bij,bj->b", v, a, v)


@novel("statistics/conjugate_gradient", (2, 7), (32, 512))
class Conjugate(nn.Module):
    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        a = normal(n, d, d) / max(d, 1) ** 0.5
        return [a @ a.transpose(1, 2) + torch.eye(d), normal(n, d)]

    def forward(self, a, b):
        x, r = torch.zeros_like(b), b
        p, rr = r, b.square().sum(-1, keepdim=True)
        for _ in range(3):
            ap = (a @ p[..., None]).squeeze(-1)
            step = rr / (p * ap).sum(-1, keepdim=True)
            x, r = x + step * p, r - step * ap
            new = r.square().sum(-1, keepdim=True)
            p, rr = r + new / rr * p, new
        return x
