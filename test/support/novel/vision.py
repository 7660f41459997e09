"""Vision: blocks of networks for images, detectors and generators."""

# pyright: basic

from __future__ import annotations

from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import below, normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Image(nn.Module):
    """What takes images of n, c, h and w, its first sizes."""

    @staticmethod
    def inputs(n: int, c: int, h: int, w: int, *_: Any) -> list[Any]:
        return [normal(n, c, h, w)]


@novel("vision/squeeze_excite", (2, 16, 7, 5, 4), (32, 256, 28, 28, 64))
class SqueezeExcite(_Image):
    def __init__(self, n, c, h, w, inner):
        super().__init__()
        self.down, self.up = nn.Conv2d(c, inner, 1), nn.Conv2d(inner, c, 1)

    def forward(self, x):
        s = x.mean((2, 3), keepdim=True)
        return x * F.hardsigmoid(self.up(F.silu(self.down(s))))


@novel("vision/cbam", (2, 16, 9, 7, 4), (16, 128, 56, 56, 16))
class Cbam(_Image):
    def __init__(self, n, c, h, w, ratio):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(c, c // ratio), nn.ReLU(), nn.Linear(c // ratio, c))
        self.spatial = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        gate = torch.sigmoid(self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3))))
        x = x * gate[:, :, None, None]
        both = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * torch.sigmoid(self.spatial(both))


@novel("vision/inverted_residual_mish", (1, 8, 10, 10, 3), (32, 64, 56, 56, 4))
class InvertedResidual(_Image):
    def __init__(self, n, c, h, w, grow):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(c, c * grow, 1, bias=False),
            nn.BatchNorm2d(c * grow),
            nn.Mish(),
            nn.Conv2d(c * grow, c * grow, 5, padding=2, groups=c * grow, bias=False),
            nn.BatchNorm2d(c * grow),
            nn.Softsign(),
            nn.Conv2d(c * grow, c, 1, bias=False),
            nn.BatchNorm2d(c),
        )

    def forward(self, x):
        return x + self.layers(x)


@novel("vision/eca_channel_attention", (2, 12, 5, 5, 3), (32, 512, 28, 28, 5))
class Eca(_Image):
    def __init__(self, n, c, h, w, k):
        super().__init__()
        self.conv = nn.Conv1d(1, 1, k, padding=k // 2, bias=False)

    def forward(self, x):
        y = self.conv(x.mean((2, 3)).unsqueeze(1)).squeeze(1)
        return x * torch.sigmoid(y)[..., None, None]


@novel("vision/coordinate_attention", (2, 8, 6, 9, 4), (16, 128, 56, 56, 16))
class CoordinateAttention(_Image):
    def __init__(self, n, c, h, w, inner):
        super().__init__()
        self.mix = nn.Sequential(nn.Conv2d(c, inner, 1), nn.BatchNorm2d(inner), nn.Hardswish())
        self.rows, self.cols = nn.Conv2d(inner, c, 1), nn.Conv2d(inner, c, 1)

    def forward(self, x):
        h, w = x.shape[-2:]
        rows, cols = x.mean(3, keepdim=True), x.mean(2, keepdim=True).transpose(2, 3)
        rows, cols = self.mix(torch.cat([rows, cols], 2)).split([h, w], 2)
        return x * self.rows(rows).sigmoid() * self.cols(cols.transpose(2, 3)).sigmoid()


@novel("vision/flow_warp", (1, 3, 9, 11), (8, 32, 128, 160))
class FlowWarp(nn.Module):
    """Backward warping by a flow of pixels, as optical flow networks do."""

    def __init__(self, n, c, h, w):
        super().__init__()

    @staticmethod
    def inputs(n, c, h, w):
        return [normal(n, c, h, w), normal(n, 2, h, w) * 2]

    def forward(self, x, flow):
        h, w = x.shape[-2:]
        ys, xs = torch.meshgrid(
            torch.arange(h, device=x.device), torch.arange(w, device=x.device), indexing="ij"
        )
        xs = (xs.to(flow) + flow[:, 0]) * (2 / (w - 1)) - 1
        ys = (ys.to(flow) + flow[:, 1]) * (2 / (h - 1)) - 1
        grid = torch.stack([xs, ys], -1)
        return F.grid_sample(x, grid, align_corners=True, padding_mode="border")


@novel("vision/deformable_sampling", (1, 4, 6, 7, 3), (4, 64, 64, 64, 9))
class DeformableSampling(nn.Module):
    """Deformable convolution by grid_sample at learned offsets, then a product over taps."""

    def __init__(self, n, c, h, w, taps):
        super().__init__()
        self.offset = nn.Conv2d(c, 2 * taps, 3, padding=1)
        self.mix = nn.Conv2d(c * taps, c, 1)
        self.taps = taps
        ys, xs = torch.meshgrid(torch.linspace(-1, 1, h), torch.linspace(-1, 1, w), indexing="ij")
        self.register_buffer("base", torch.stack([xs, ys], -1))

    @staticmethod
    def inputs(n, c, h, w, taps):
        return [normal(n, c, h, w)]

    def forward(self, x):
        n, c, h, w = x.shape
        moved = self.offset(x).view(n, self.taps, 2, h, w).permute(0, 1, 3, 4, 2) * 0.1
        grid = (self.base + moved).view(n, self.taps * h, w, 2)
        seen = F.grid_sample(x, grid, align_corners=False)
        seen = seen.view(n, c * self.taps, h, w)
        return self.mix(seen)


@novel("vision/subpixel_upsampler", (1, 6, 5, 7, 2), (4, 64, 96, 96, 2))
class Subpixel(_Image):
    def __init__(self, n, c, h, w, r):
        super().__init__()
        self.grow = nn.Conv2d(c, c * r * r, 3, padding=1)
        self.shuffle, self.act = nn.PixelShuffle(r), nn.PReLU(c)

    def forward(self, x):
        return self.act(self.shuffle(self.grow(x)))


@novel("vision/focus_stem", (1, 3, 8, 10, 8), (16, 3, 320, 320, 32))
class Focus(_Image):
    """YOLOv5's first layer: four slices of every second pixel."""

    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.conv = nn.Conv2d(4 * c, out, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(out)

    def forward(self, x):
        x = torch.cat([x[..., i::2, j::2] for j in (0, 1) for i in (0, 1)], 1)
        return F.silu(self.norm(self.conv(x)))


@novel("vision/pixel_unshuffle_depthwise", (2, 4, 8, 12, 2), (8, 32, 128, 128, 2))
class Unshuffled(_Image):
    def __init__(self, n, c, h, w, r):
        super().__init__()
        self.r = r
        self.depth = nn.Conv2d(c * r * r, c * r * r, 3, padding=1, groups=c * r * r)
        self.point = nn.Conv2d(c * r * r, c, 1)

    def forward(self, x):
        return self.point(F.elu(self.depth(F.pixel_unshuffle(x, self.r))))


@novel("vision/feature_pyramid", (1, 4, 8, 8, 6), (4, 64, 80, 80, 96))
class FeaturePyramid(nn.Module):
    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.lateral = nn.ModuleList(nn.Conv2d(c << i, out, 1) for i in range(3))
        self.smooth = nn.ModuleList(nn.Conv2d(out, out, 3, padding=1) for _ in range(3))

    @staticmethod
    def inputs(n, c, h, w, out):
        return [normal(n, c << i, h >> i, w >> i) for i in range(3)]

    def forward(self, a, b, c):
        c = self.lateral[2](c)
        b = self.lateral[1](b) + F.interpolate(c, scale_factor=2, mode="nearest")
        a = self.lateral[0](a) + F.interpolate(b, scale_factor=2, mode="nearest")
        return tuple(conv(x) for conv, x in zip(self.smooth, (a, b, c), strict=True))


@novel("vision/aspp", (1, 6, 13, 11, 4), (4, 256, 33, 33, 128))
class Aspp(_Image):
    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.branches = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(
                    c, out, 1 if d == 1 else 3, padding=0 if d == 1 else d, dilation=d, bias=False
                ),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            )
            for d in (1, 2, 4, 6)
        )
        self.pooled = nn.Conv2d(c, out, 1)
        self.project = nn.Conv2d(5 * out, out, 1)

    def forward(self, x):
        seen = [branch(x) for branch in self.branches]
        whole = F.relu(self.pooled(F.adaptive_avg_pool2d(x, 1)))
        seen.append(F.interpolate(whole, size=x.shape[-2:], mode="bilinear", align_corners=False))
        return self.project(torch.cat(seen, 1))


@novel("vision/unet_two_levels", (1, 3, 12, 12, 4), (4, 16, 128, 128, 32))
class UNet(_Image):
    def __init__(self, n, c, h, w, f):
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(c, f, 3, padding=1), nn.GroupNorm(4, f), nn.SiLU())
        self.low = nn.Sequential(
            nn.Conv2d(f, 2 * f, 3, padding=1), nn.InstanceNorm2d(2 * f), nn.LeakyReLU(0.2)
        )
        self.up = nn.ConvTranspose2d(2 * f, f, 2, stride=2)
        self.last = nn.Conv2d(2 * f, c, 3, padding=1)

    def forward(self, x):
        wide = self.down(x)
        low = self.low(F.max_pool2d(wide, 2))
        return torch.tanh(self.last(torch.cat([self.up(low), wide], 1)))


@novel("vision/modulated_conv", (2, 6, 8, 8, 5, 7), (4, 128, 32, 32, 128, 512))
class ModulatedConv(nn.Module):
    """StyleGAN2's convolution: a style scales the weights of each image, which are normalised."""

    def __init__(self, n, c, h, w, out, style):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, c, 3, 3))
        self.affine = nn.Linear(style, c)

    @staticmethod
    def inputs(n, c, h, w, out, style):
        return [normal(n, c, h, w), normal(n, style), normal(1, 1, h, w)]

    def forward(self, x, style, noise):
        n, c, h, w = x.shape
        weight = self.weight * (self.affine(style) + 1)[:, None, :, None, None]
        weight = weight * torch.rsqrt(weight.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        out = weight.shape[1]
        y = F.conv2d(
            x.reshape(1, n * c, h, w), weight.reshape(n * out, c, 3, 3), padding=1, groups=n
        )
        return F.leaky_relu(y.view(n, out, h, w) + 0.1 * noise, 0.2) * 2**0.5


@novel("vision/demodulated_by_scales", (2, 6, 8, 8, 5), (4, 128, 64, 64, 128))
class Demodulated(nn.Module):
    """The same style by scaling what goes in and what comes out."""

    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, c, 3, 3) / (9 * c) ** 0.5)

    @staticmethod
    def inputs(n, c, h, w, out):
        return [normal(n, c, h, w), normal(n, c)]

    def forward(self, x, style):
        sums = (self.weight.square().sum((2, 3))[None] * style.square()[:, None]).sum(2)
        y = F.conv2d(x * style[:, :, None, None], self.weight, padding=1)
        return y * torch.rsqrt(sums + 1e-8)[:, :, None, None]


@novel("vision/spectral_norm_discriminator", (2, 3, 12, 12, 8), (16, 3, 128, 128, 64))
class Discriminator(_Image):
    def __init__(self, n, c, h, w, f):
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        self.a = norm(nn.Conv2d(c, f, 4, 2, 1))
        self.b = norm(nn.Conv2d(f, 2 * f, 4, 2, 1))
        self.head = norm(nn.Linear(2 * f, 1))

    def forward(self, x):
        x = F.leaky_relu(self.b(F.leaky_relu(self.a(x), 0.1)), 0.1)
        return self.head(x.sum((2, 3)))


@novel("vision/local_response_norm", (2, 10, 6, 7), (32, 96, 55, 55))
class ResponseNorm(_Image):
    def __init__(self, n, c, h, w):
        super().__init__()
        self.norm = nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=2.0)

    def forward(self, x):
        return F.max_pool2d(self.norm(F.relu(x)), 3, 2)


@novel("vision/centre_point_head", (1, 8, 9, 9, 5, 6), (8, 64, 96, 96, 80, 100))
class CentrePoint(_Image):
    """A detector without non-maximum suppression: peaks of a heat map, the best, their boxes."""

    def __init__(self, n, c, h, w, classes, k):
        super().__init__()
        self.heat, self.size = nn.Conv2d(c, classes, 1), nn.Conv2d(c, 2, 1)
        self.k = k

    def forward(self, x):
        n = x.shape[0]
        heat = torch.sigmoid(self.heat(x))
        heat = heat * (F.max_pool2d(heat, 3, 1, 1) == heat)
        score, at = heat.amax(1).flatten(1).topk(self.k)
        size = self.size(x).flatten(2).gather(2, at[:, None].expand(n, 2, self.k))
        return score, size, at


@novel("vision/roi_bilinear", (2, 4, 9, 9, 3, 2), (4, 128, 50, 50, 64, 7))
class RoiBilinear(nn.Module):
    """Regions of interest sampled by grid_sample, as ROI align with one point a bin."""

    def __init__(self, n, c, h, w, boxes, size):
        super().__init__()
        at = (torch.arange(size) + 0.5) / size
        self.register_buffer("at", at)

    @staticmethod
    def inputs(n, c, h, w, boxes, size):
        lo = torch.rand(n, boxes, 2) * 0.5
        return [normal(n, c, h, w), torch.cat([lo, lo + 0.1 + torch.rand(n, boxes, 2) * 0.4], -1)]

    def forward(self, x, boxes):
        n, c = x.shape[:2]
        k, s = boxes.shape[1], self.at.shape[0]
        lo, hi = boxes[..., :2], boxes[..., 2:]
        at = lo[..., None, :] + (hi - lo)[..., None, :] * self.at[:, None]
        at = at * 2 - 1
        xs = at[..., 0][:, :, None, :].expand(n, k, s, s)
        ys = at[..., 1][:, :, :, None].expand(n, k, s, s)
        grid = torch.stack([xs, ys], -1).view(n, k * s, s, 2)
        seen = F.grid_sample(x, grid, align_corners=False)
        return seen.view(n, c, k, s, s).transpose(1, 2)


@novel("vision/spectral_mixing", (2, 6, 8, 8), (8, 128, 32, 32))
class SpectralMixing(_Image):
    """A global filter of a discrete Hartley transform along both axes, by products."""

    def __init__(self, n, c, h, w):
        super().__init__()
        for name, size in (("rows", h), ("cols", w)):
            angle = 2 * torch.pi * torch.outer(torch.arange(size), torch.arange(size)) / size
            self.register_buffer(name, (angle.cos() + angle.sin()) / size**0.5)
        self.filter = nn.Parameter(torch.randn(c, h, w))

    def forward(self, x):
        y = self.rows @ x @ self.cols
        return x + self.rows @ (y * self.filter) @ self.cols


@novel("vision/shuffle_unit", (2, 12, 6, 6, 3), (32, 240, 28, 28, 3))
class ShuffleUnit(_Image):
    def __init__(self, n, c, h, w, groups):
        super().__init__()
        self.g = groups
        self.a = nn.Conv2d(c, c // 4, 1, groups=groups, bias=False)
        self.depth = nn.Conv2d(c // 4, c // 4, 3, padding=1, groups=c // 4, bias=False)
        self.b = nn.Conv2d(c // 4, c, 1, groups=groups, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(one) for one in (c // 4, c // 4, c))

    def forward(self, x):
        y = F.relu6(self.norms[0](self.a(x)))
        n, c, h, w = y.shape
        y = y.view(n, self.g, c // self.g, h, w).transpose(1, 2).reshape(n, c, h, w)
        return F.relu6(x + self.norms[2](self.b(self.norms[1](self.depth(y)))))


@novel("vision/ghost_module", (2, 8, 7, 7, 6), (32, 96, 28, 28, 96))
class Ghost(_Image):
    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.main = nn.Sequential(nn.Conv2d(c, out // 2, 1), nn.BatchNorm2d(out // 2), nn.ReLU())
        self.cheap = nn.Conv2d(out // 2, out // 2, 3, padding=1, groups=out // 2)

    def forward(self, x):
        a = self.main(x)
        return torch.cat([a, F.relu(self.cheap(a))], 1)


@novel("vision/involution", (1, 8, 7, 6, 2, 3), (8, 64, 56, 56, 4, 7))
class Involution(_Image):
    """A kernel of each pixel's own, of what the pixel holds."""

    def __init__(self, n, c, h, w, groups, k):
        super().__init__()
        self.g, self.k = groups, k
        self.kernel = nn.Conv2d(c, groups * k * k, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        own = self.kernel(x).view(n, self.g, 1, self.k**2, h, w)
        seen = F.unfold(x, self.k, padding=self.k // 2)
        seen = seen.view(n, self.g, c // self.g, self.k**2, h, w)
        return (own * seen).sum(3).view(n, c, h, w)


@novel("vision/bilateral_filter", (1, 3, 9, 9, 3), (4, 3, 256, 256, 5))
class Bilateral(_Image):
    def __init__(self, n, c, h, w, k):
        super().__init__()
        self.k = k
        at = torch.arange(k) - k // 2
        self.register_buffer("space", torch.exp(-(at[:, None] ** 2 + at**2) / 4.0).flatten())

    def forward(self, x):
        r = self.k // 2
        padded = F.pad(x, (r, r, r, r), mode="reflect")
        seen = padded.unfold(2, self.k, 1).unfold(3, self.k, 1).flatten(4)
        far = (seen - x[..., None]).square().sum(1, keepdim=True)
        weight = torch.exp(-far) * self.space
        return (weight * seen).sum(-1) / weight.sum(-1)


@novel("vision/sobel_edges", (2, 3, 11, 13), (16, 3, 512, 512))
class Sobel(_Image):
    def __init__(self, n, c, h, w):
        super().__init__()
        g = torch.tensor([[1.0, 0.0, -1.0], [2.0, 0.0, -2.0], [1.0, 0.0, -1.0]])
        self.register_buffer("kernel", torch.stack([g, g.T])[:, None])
        self.register_buffer("grey", torch.tensor([0.299, 0.587, 0.114])[:, None, None])

    def forward(self, x):
        grey = (x * self.grey).sum(1, keepdim=True)
        g = F.conv2d(F.pad(grey, (1, 1, 1, 1), mode="replicate"), self.kernel)
        return g.square().sum(1, keepdim=True).sqrt()


@novel("vision/capsule_routing", (2, 5, 4, 3, 6), (16, 288, 8, 10, 16))
class Capsules(nn.Module):
    """Dynamic routing between capsules, three turns."""

    def __init__(self, n, ins, di, outs, do):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(ins, outs, di, do) * 0.1)

    @staticmethod
    def inputs(n, ins, di, outs, do):
        return [normal(n, ins, di)]

    def forward(self, x):
        u = torch.einsum("nid,iode->nioe", x, self.weight)
        b = u.new_zeros(u.shape[:3])
        v = None
        for turn in range(3):
            s = (b.softmax(2)[..., None] * u).sum(1)
            norm = s.square().sum(-1, keepdim=True)
            v = norm / (1 + norm) * s / (norm + 1e-8).sqrt()
            if turn < 2:
                b = b + (u * v[:, None]).sum(-1)
        return v


@novel("vision/mixup_shift_block", (2, 8, 6, 7), (16, 128, 56, 56))
class Shift(_Image):
    """Groups of channels shifted to four sides, then mixed."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.mix = nn.Conv2d(c, c, 1)

    def forward(self, x):
        a, b, c, d = x.chunk(4, 1)
        a, b = a.roll(1, 2), b.roll(-1, 2)
        c = F.pad(c[..., 1:], (0, 1))
        d = F.pad(d[..., :-1], (1, 0))
        return x + F.gelu(self.mix(torch.cat([a, b, c, d], 1)), approximate="tanh")


@novel("vision/volume_block", (1, 4, 5, 7, 6, 3), (2, 16, 24, 56, 56, 32))
class Volume(nn.Module):
    def __init__(self, n, c, d, h, w, out):
        super().__init__()
        self.space = nn.Conv3d(c, out, (1, 3, 3), padding=(0, 1, 1), bias=False)
        self.time = nn.Conv3d(out, out, (3, 1, 1), padding=(1, 0, 0), bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm3d(out) for _ in range(2))

    @staticmethod
    def inputs(n, c, d, h, w, out):
        return [normal(n, c, d, h, w)]

    def forward(self, x):
        x = F.relu(self.norms[0](self.space(x)))
        return F.max_pool3d(F.relu(self.norms[1](self.time(x))), (1, 2, 2))


@novel("vision/volume_decoder", (1, 6, 3, 4, 5), (2, 64, 16, 16, 16))
class VolumeDecoder(nn.Module):
    def __init__(self, n, c, d, h, w):
        super().__init__()
        self.up = nn.ConvTranspose3d(c, c // 2, 3, stride=2, padding=1, output_padding=1)
        self.norm = nn.InstanceNorm3d(c // 2, affine=True)
        self.head = nn.Conv3d(c // 2, 2, 1)

    @staticmethod
    def inputs(n, c, d, h, w):
        return [normal(n, c, d, h, w)]

    def forward(self, x):
        return self.head(F.leaky_relu(self.norm(self.up(x)), 0.01)).softmax(1)


@novel("vision/prime_sizes", (1, 5, 11, 13, 7), (3, 37, 61, 67, 53))
class Primes(_Image):
    def __init__(self, n, c, h, w, out):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, out, 3, 2, 1), nn.Conv2d(out, c, (5, 1), padding=(2, 0))

    def forward(self, x):
        return F.celu(self.b(F.relu(self.a(x))), 0.7)


@novel("vision/uint8_preprocess", (2, 9, 11, 3, 6), (32, 256, 256, 3, 224))
class Preprocess(nn.Module):
    """Images of bytes, channels last: to floats, normalised, resized, cut."""

    def __init__(self, n, h, w, c, size):
        super().__init__()
        self.size = size
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225])[:, None, None])

    @staticmethod
    def inputs(n, h, w, c, size):
        return [below(256, n, h, w, c).to(torch.uint8)]

    def forward(self, x):
        x = x.permute(0, 3, 1, 2).float() / 255
        x = F.interpolate(x, size=(self.size + 2, self.size + 2), mode="bilinear")
        x = x[..., 1:-1, 1:-1].flip(-1)
        return ((x - self.mean) / self.std).half()


@novel("vision/softargmax_keypoints", (2, 4, 6, 8), (32, 17, 64, 48))
class Keypoints(_Image):
    def __init__(self, n, c, h, w):
        super().__init__()
        self.register_buffer("ys", torch.linspace(0, 1, h))
        self.register_buffer("xs", torch.linspace(0, 1, w))

    def forward(self, x):
        p = x.flatten(2).softmax(-1).view(x.shape)
        at = torch.stack([(p.sum(2) * self.xs).sum(-1), (p.sum(3) * self.ys).sum(-1)], -1)
        return at, x.flatten(2).amax(-1)


@novel("vision/correlation_volume", (1, 4, 6, 7, 1), (2, 64, 48, 64, 4))
class Correlation(nn.Module):
    """PWC-Net's cost volume: products with a neighbourhood of shifted features."""

    def __init__(self, n, c, h, w, r):
        super().__init__()
        self.r = r

    @staticmethod
    def inputs(n, c, h, w, r):
        return [normal(n, c, h, w), normal(n, c, h, w)]

    def forward(self, a, b):
        h, w = a.shape[-2:]
        r = self.r
        b = F.pad(b, (r, r, r, r))
        shifted = [
            (a * b[..., i : i + h, j : j + w]).mean(1)
            for i in range(2 * r + 1)
            for j in range(2 * r + 1)
        ]
        return F.leaky_relu(torch.stack(shifted, 1), 0.1)


@novel("vision/non_local", (1, 8, 5, 6, 4), (4, 128, 28, 28, 64))
class NonLocal(_Image):
    def __init__(self, n, c, h, w, inner):
        super().__init__()
        self.q, self.k, self.v = (nn.Conv2d(c, inner, 1) for _ in range(3))
        self.out = nn.Conv2d(inner, c, 1)

    def forward(self, x):
        n, _c, h, w = x.shape
        q, k = self.q(x).flatten(2), F.max_pool2d(self.k(x), 2).flatten(2)
        v = F.max_pool2d(self.v(x), 2).flatten(2)
        p = (q.transpose(1, 2) @ k).softmax(-1)
        return x + self.out((p @ v.transpose(1, 2)).transpose(1, 2).reshape(n, -1, h, w))
