"""Views and writes: strides, flips, slices of steps, writes in place, types that meet."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import One, below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


@novel("views/flips_and_steps", (3, 11, 7), (37, 1003, 517))
class FlipsAndSteps(One):
    def forward(self, x):
        a = x.flip(1)[:, ::3]
        b = x[:, 1::3, :].flip(0)[..., 2:]
        n = min(a.shape[1], b.shape[1])
        c = a[:, :n, :-2] - 2 * b[:, :n]
        return c.rot90(1, (1, 2)), (c[:, -1:] + c[:, :1]).cumsum(2).flip(2)


@novel("views/overlapping_strides", (5, 23), (301, 4001))
class OverlappingStrides(One):
    """Windows by ``as_strided``: medians, ranges and what lies in the middle."""

    def forward(self, x):
        n, t = x.shape
        w = x.as_strided((n, (t - 7) // 2 + 1, 7), (t, 2, 1))
        return w.median(-1).values, w.amax(-1) - w.amin(-1), w[..., 3] - w.mean(-1)


@novel("views/writes_in_place", (4, 9, 10), (61, 513, 390))
class WritesInPlace(One):
    def forward(self, x):
        y = x.clone()
        y[:, 1::2] *= 0.5
        y[:, ::2, 3:].add_(x[:, :1, 3:])
        y[..., 0] = y.mean(-1)
        y.transpose(1, 2)[:, -1].clamp_(min=0)
        y.masked_fill_(y > 2, 2.0)
        y[y < -2] = -2.0
        z = torch.empty_like(y)
        z.copy_(y)
        z[:, -2:].zero_()
        return y, z.sub_(x).abs_()


@novel("views/diagonals_written", (3, 9), (29, 403))
class DiagonalsWritten(nn.Module):
    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [normal(n, d, d), normal(n, d)]

    def forward(self, x, v):
        y = x.clone()
        y.diagonal(dim1=1, dim2=2).copy_(v)
        y.diagonal(2, 1, 2).mul_(-1)
        z = torch.diag_embed(v, 1)[:, :-1, :-1]
        return y + z, y.tril(-1).sum(-1) - y.triu(1).sum(-1), torch.diagonal(x @ y, dim1=1, dim2=2)


@novel("views/not_numbers", (5, 13), (1203, 777))
class NotNumbers(nn.Module):
    """What is missing is NaN: means and deviations without it, filled, compared, sorted."""

    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        x = normal(n, d)
        x[x > 1] = float("nan")
        x[x < -2] = float("-inf")
        return [x]

    def forward(self, x):
        bad = x.isnan() | x.isinf()
        clean = torch.where(bad, float("nan"), x)
        mean = clean.nanmean(1, keepdim=True)
        some = torch.nan_to_num(clean - mean, nan=0.0)
        var = some.square().sum(1) / (~bad).sum(1)
        return (
            torch.where(bad, mean, x),
            var,
            clean.nansum(0),
            torch.nan_to_num(x, nan=7.0, neginf=-3.0),
            torch.fmax(x, torch.zeros_like(x)),
            torch.maximum(x, torch.zeros_like(x)).isnan().sum(),
        )


@novel("views/odd_einsums", (3, 4, 5, 6), (45, 33, 77, 21))
class OddEinsums(nn.Module):
    def __init__(self, a, b, c, d):
        super().__init__()

    @staticmethod
    def inputs(a, b, c, d):
        return [normal(a, b, c), normal(c, d, a), normal(b, b, d)]

    def forward(self, x, y, z):
        return (
            torch.einsum("zqk,kvz->vq", x, y),
            torch.einsum("iij->ji", z),
            torch.einsum("...k,kd...->...d", x.sum(1), y.movedim(2, 2)[..., 0]),
            torch.einsum("abc,cda,bed->eb", x, y, z),
            torch.einsum("zqk,zqk->q", x, x),
        )


@novel("views/running_values", (4, 17), (203, 2501))
class RunningValues(One):
    def forward(self, x):
        low, at = x.cummin(1)
        back = x.flip(1).logcumsumexp(1).flip(1)
        prod = (1 + 0.01 * x).cumprod(1)
        return low, at, back, prod[:, -1:] / prod, x.cumsum(0)


@novel("views/types_that_meet", (3, 10), (501, 1310))
class TypesThatMeet(nn.Module):
    """Bytes, short and long integers, booleans, halves and floats in one program."""

    def __init__(self, n, d):
        super().__init__()

    @staticmethod
    def inputs(n, d):
        return [
            torch.randint(0, 256, (n, d), dtype=torch.uint8),
            torch.randint(-900, 900, (n, d), dtype=torch.int16),
            torch.randint(-9, 9, (d,)),
            normal(n, d, dtype=torch.bfloat16),
            torch.rand(n, 1) < 0.5,
        ]

    def forward(self, a, b, c, x, m):
        whole = a + b
        turned = torch.where(m, whole % 7, torch.div(whole, 5, rounding_mode="floor"))
        low = (a >> 4) ^ (a & 15)
        return (
            turned * c,
            low,
            x * c + m,
            (x > a) & m,
            whole.float() / (c.abs() + 1),
            torch.fmod(b, 11) - torch.remainder(b, 11),
            (a == 255) | (low < 3),
        )


@novel("views/axes_turned", (2, 3, 4, 5, 6), (7, 12, 33, 21, 50))
class AxesTurned(One):
    def forward(self, x):
        y = x.movedim(1, -1).swapaxes(0, 2).unflatten(3, (2, -1))
        parts = [p.squeeze(3) for p in y.split(1, 3)]
        z = torch.stack(parts[::-1], 0).flatten(0, 1)
        return z.permute(3, 0, 2, 1, 4).contiguous().view(x.shape[0] * 0 + z.shape[3], -1).T


@novel("views/scattered_extremes", (5, 13, 4), (203, 3001, 37))
class ScatteredExtremes(nn.Module):
    def __init__(self, n, d, bins):
        super().__init__()
        self.bins = bins

    @staticmethod
    def inputs(n, d, bins):
        return [normal(n, d), below(bins, n, d)]

    def forward(self, x, at):
        zero = torch.zeros(x.shape[0], self.bins, device=x.device, dtype=x.dtype)
        most = zero.scatter_reduce(1, at, x, "amax", include_self=False)
        mean = zero.scatter_reduce(1, at, x, "mean", include_self=True)
        return most, mean, x - most.gather(1, at)


@novel("views/payloads_sorted", (3, 12, 5), (41, 1201, 24))
class PayloadsSorted(nn.Module):
    """Rows in the order of a key that is stable, their first few, and places taken back."""

    def __init__(self, n, t, d):
        super().__init__()

    @staticmethod
    def inputs(n, t, d):
        return [below(9, n, t), normal(n, t, d)]

    def forward(self, key, x):
        order = key.argsort(stable=True, dim=1)
        y = torch.take_along_dim(x, order[..., None], 1)
        some = y.cumsum(1)
        back = order.argsort(1)
        k = min(7, key.shape[1])
        top, where = x[..., 0].topk(k, 1, largest=False)
        return torch.take_along_dim(some, back[..., None], 1), top, where, key.sort(1).values


@novel("views/pads_of_all_kinds", (2, 3, 7, 9), (9, 24, 61, 83))
class PadsOfAllKinds(One):
    def __init__(self, n, c, h, w):
        super().__init__()
        self.w = nn.Parameter(torch.randn(c, 1, 3, 3))

    def forward(self, x):
        c = x.shape[1]
        parts = [
            F.conv2d(F.pad(x, (1, 1, 1, 1), mode=mode), self.w, groups=c)
            for mode in ("reflect", "replicate", "circular", "constant")
        ]
        return torch.cat(parts, 1)[:, :: c + 1], F.pad(x, (-1, 2, 3, -2), value=0.5)


@novel("views/truths_counted", (4, 15), (1501, 999))
class TruthsCounted(One):
    def forward(self, x):
        high = x > 0.5
        first = high.float().argmax(1)
        run = (high[:, 1:] & high[:, :-1]).sum(1)
        same = (x[:, :, None][:, :8] == x[:, None, :8].amax(-1, keepdim=True)).any(1)
        return (
            high.any(1),
            high.all(0),
            first,
            run,
            same,
            torch.logical_xor(high[:, 1:], high[:, :-1]).sum(),
        )


@novel("views/scalars_and_ones", (1, 7, 1), (1, 100003, 1))
class ScalarsAndOnes(nn.Module):
    """Arrays of one element, of no axes and of axes of one, beside a long one."""

    def __init__(self, a, b, c):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(1.5))

    @staticmethod
    def inputs(a, b, c):
        return [normal(a, b, c), torch.tensor(0.3), normal(1, 1, 1, 1)]

    def forward(self, x, s, t):
        y = x * self.gain + s
        z = (y.squeeze() + t.squeeze()).softmax(-1)
        return y + t, z.sum() * s, torch.stack([s, self.gain, t[0, 0, 0, 0]]), y.std(1)


@novel("views/halves_and_brains", (3, 9, 10, 7), (131, 77, 390, 203))
class HalvesAndBrains(nn.Module):
    """A product in f16, one in bf16 and one in f32 meet in f32."""

    LOOSE = 3e-2

    def __init__(self, b, t, d, out):
        super().__init__()
        self.a = nn.Linear(d, out).half()
        self.b = nn.Linear(d, out).bfloat16()
        self.c = nn.Linear(d, out)

    @staticmethod
    def inputs(b, t, d, out):
        return [normal(b, t, d)]

    def forward(self, x):
        y = self.a(x.half()).float() * torch.sigmoid(self.b(x.bfloat16()).float())
        return (y + self.c(x)).to(torch.bfloat16), y.half().amax(1)
