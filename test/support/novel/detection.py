"""Detection and segmentation: anchors, boxes, heads, what joins levels and what draws masks."""

# pyright: basic

from __future__ import annotations

from itertools import pairwise
from typing import Any

from polyc.importers.registry import library
from polyc.test.support.novel.registry import normal, novel

torch: Any = library("torch", "torch")
nn: Any = torch.nn
F: Any = torch.nn.functional


class _Levels(nn.Module):
    """What takes three maps of one width, each half as large as the one before."""

    @staticmethod
    def inputs(n: int, c: int, h: int, w: int, *_: Any) -> list[Any]:
        return [normal(n, c, h >> i, w >> i) for i in range(3)]


class _Map(nn.Module):
    """What takes one map of n, c, h and w."""

    @staticmethod
    def inputs(n: int, c: int, h: int, w: int, *_: Any) -> list[Any]:
        return [normal(n, c, h, w)]


@novel("detection/anchors_decoded", (2, 3, 4, 3), (9, 45, 61, 9))
class AnchorsDecoded(nn.Module):
    """Faster R-CNN: deltas of anchors of a grid as boxes, clipped, small ones marked."""

    def __init__(self, n, h, w, a):
        super().__init__()
        size = 32 * 2.0 ** (torch.arange(a) / 3)
        ratio = torch.tensor([0.5, 1.0, 2.0])[torch.arange(a) % 3].sqrt()
        half = torch.stack([size / ratio, size * ratio], -1) / 2
        self.register_buffer("base", torch.cat([-half, half], -1))

    @staticmethod
    def inputs(n, h, w, a):
        return [normal(n, 4 * a, h, w)]

    def forward(self, deltas):
        n, _, h, w = deltas.shape
        y, x = torch.meshgrid(
            torch.arange(h, device=deltas.device) * 16.0,
            torch.arange(w, device=deltas.device) * 16.0,
            indexing="ij",
        )
        at = torch.stack([x, y, x, y], -1)[:, :, None] + self.base
        d = deltas.view(n, -1, 4, h, w).permute(0, 3, 4, 1, 2)
        size, mid = at[..., 2:] - at[..., :2], (at[..., 2:] + at[..., :2]) / 2
        mid = mid + d[..., :2] * size
        size = size * d[..., 2:].clamp(max=4.135).exp()
        boxes = torch.cat([mid - size / 2, mid + size / 2], -1).flatten(1, 3)
        x1, y1, x2, y2 = boxes.unbind(-1)
        boxes = torch.stack(
            [x1.clamp(0, w * 16), y1.clamp(0, h * 16), x2.clamp(0, w * 16), y2.clamp(0, h * 16)], -1
        )
        return boxes, ((boxes[..., 2:] - boxes[..., :2]) >= 1).all(-1)


@novel("detection/grid_head", (2, 6, 8, 12, 3, 2), (7, 128, 76, 52, 3, 80))
class GridHead(_Levels):
    """YOLO's head over levels: sigmoids, offsets of cells and sizes of anchors, all in a list."""

    def __init__(self, n, c, h, w, a, classes):
        super().__init__()
        self.a = a
        self.heads = nn.ModuleList(nn.Conv2d(c, a * (5 + classes), 1) for _ in range(3))
        self.register_buffer("sizes", torch.rand(3, a, 2) * 50 + 5)

    def forward(self, *maps):
        out = []
        for i, (x, head) in enumerate(zip(maps, self.heads, strict=True)):
            n, _, h, w = x.shape
            y = head(x).view(n, self.a, -1, h, w).permute(0, 1, 3, 4, 2).sigmoid()
            ys, xs = (torch.arange(k, device=x.device) for k in (h, w))
            cell = torch.stack(torch.meshgrid(xs, ys, indexing="xy"), -1)
            mid = (y[..., :2] * 2 - 0.5 + cell) * (8 << i)
            size = (y[..., 2:4] * 2) ** 2 * self.sizes[i][:, None, None]
            out.append(torch.cat([mid, size, y[..., 4:]], -1).reshape(n, -1, y.shape[-1]))
        return torch.cat(out, 1)


@novel("detection/matrix_suppression", (2, 7), (6, 500))
class MatrixSuppression(nn.Module):
    """SOLOv2's soft suppression: scores fall by the largest overlap with what is better."""

    def __init__(self, n, boxes):
        super().__init__()

    @staticmethod
    def inputs(n, boxes):
        at = torch.rand(n, boxes, 2) * 100
        return [torch.cat([at, at + torch.rand(n, boxes, 2) * 60], -1), torch.rand(n, boxes)]

    def forward(self, boxes, scores):
        scores, order = scores.sort(descending=True)
        boxes = boxes.gather(1, order[..., None].expand(-1, -1, 4))
        low = torch.maximum(boxes[:, :, None, :2], boxes[:, None, :, :2])
        high = torch.minimum(boxes[:, :, None, 2:], boxes[:, None, :, 2:])
        both = (high - low).clamp(min=0).prod(-1)
        area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
        iou = (both / (area[:, :, None] + area[:, None] - both)).triu(1)
        most = iou.amax(1)
        fall = torch.exp(-2 * (iou.square() - most[:, :, None].square())).amin(1)
        return scores * fall, boxes


@novel("detection/sines_of_masks", (2, 5, 7, 4), (12, 43, 57, 128))
class SinesOfMasks(nn.Module):
    """DETR's positions: running sums of what is not padding, as sines and cosines."""

    def __init__(self, n, h, w, few):
        super().__init__()
        self.few = few

    @staticmethod
    def inputs(n, h, w, few):
        pad = torch.zeros(n, h, w, dtype=torch.bool)
        for i in range(n):
            pad[i, h - i % 3 :] = True
            pad[i, :, w - i % 4 :] = True
        return [pad]

    def forward(self, pad):
        out = []
        for dim in (1, 2):
            x = (~pad).cumsum(dim, dtype=torch.float32)
            last = x[:, -1:] if dim == 1 else x[:, :, -1:]
            x = x / (last + 1e-6) * 6.283185
            k = torch.arange(self.few, device=pad.device)
            x = x[..., None] / 10000 ** (2 * torch.div(k, 2, rounding_mode="floor") / self.few)
            out.append(torch.stack([x[..., ::2].sin(), x[..., 1::2].cos()], 4).flatten(3))
        return torch.cat(out, 3).permute(0, 3, 1, 2)


@novel("detection/deformable_levels", (2, 3, 4, 8, 2, 2), (3, 300, 44, 256, 8, 4))
class DeformableLevels(nn.Module):
    """Deformable DETR: each query samples a few points of each level, by learned weights."""

    def __init__(self, n, q, side, d, heads, points):
        super().__init__()
        self.heads, self.points = heads, points
        self.sides = [side >> i for i in range(3)]
        self.value, self.out = nn.Linear(d, d), nn.Linear(d, d)
        self.away = nn.Linear(d, heads * 3 * points * 2)
        self.weight = nn.Linear(d, heads * 3 * points)

    @staticmethod
    def inputs(n, q, side, d, heads, points):
        cells = sum((side >> i) ** 2 for i in range(3))
        return [normal(n, q, d), torch.rand(n, q, 2), normal(n, cells, d)]

    def forward(self, query, at, memory):
        n, q, d = query.shape
        v = self.value(memory).view(n, -1, self.heads, d // self.heads)
        away = self.away(query).view(n, q, self.heads, 3, self.points, 2)
        w = self.weight(query).view(n, q, self.heads, -1).softmax(-1)
        parts = v.split([s * s for s in self.sides], 1)
        found = []
        for i, (side, part) in enumerate(zip(self.sides, parts, strict=True)):
            grid = 2 * (at[:, :, None, None] + away[:, :, :, i] / side) - 1
            grid = grid.transpose(1, 2).flatten(0, 1)
            maps = part.flatten(2).transpose(1, 2).reshape(n * self.heads, -1, side, side)
            found.append(F.grid_sample(maps, grid, padding_mode="zeros", align_corners=False))
        w = w.transpose(1, 2).reshape(n * self.heads, 1, q, -1)
        y = (torch.stack(found, -2).flatten(-2) * w).sum(-1).view(n, d, q)
        return self.out(y.transpose(1, 2))


@novel("detection/distribution_of_edges", (2, 5, 7), (13, 3549, 17))
class DistributionOfEdges(nn.Module):
    """Edges as means of distributions over bins, boxes of them, and both losses of these."""

    def __init__(self, n, cells, bins):
        super().__init__()

    @staticmethod
    def inputs(n, cells, bins):
        at, far = torch.rand(cells, 2) * 60, torch.rand(n, cells, 4) * (bins - 1.1)
        return [normal(n, cells, 4 * bins), at, far]

    def forward(self, x, at, far):
        x = x.unflatten(-1, (4, -1))
        bins = torch.arange(x.shape[-1], device=x.device, dtype=x.dtype)
        edges = x.softmax(-1) @ bins
        boxes = torch.cat([at - edges[..., :2], at + edges[..., 2:]], -1)
        left = far.long()
        right = left + 1
        log = x.log_softmax(-1)
        a = log.gather(-1, left[..., None]).squeeze(-1) * (right - far)
        b = log.gather(-1, right[..., None]).squeeze(-1) * (far - left)
        return boxes, -(a + b).mean(-1)


@novel("detection/complete_iou", (3, 7), (31, 4803))
class CompleteIou(nn.Module):
    def __init__(self, n, boxes):
        super().__init__()

    @staticmethod
    def inputs(n, boxes):
        def some():
            at = torch.rand(n, boxes, 2) * 10
            return torch.cat([at, at + torch.rand(n, boxes, 2) * 6 + 0.5], -1)

        return [some(), some()]

    def forward(self, a, b):
        low, high = torch.maximum(a, b), torch.minimum(a, b)
        both = (high[..., 2:] - low[..., :2]).clamp(min=0).prod(-1)
        sa, sb = a[..., 2:] - a[..., :2], b[..., 2:] - b[..., :2]
        iou = both / (sa.prod(-1) + sb.prod(-1) - both + 1e-7)
        around = torch.maximum(a, b)[..., 2:] - torch.minimum(a, b)[..., :2]
        away = ((a[..., 2:] + a[..., :2] - b[..., 2:] - b[..., :2]) / 2).square().sum(-1)
        slant = [torch.atan(s[..., 0] / s[..., 1]) for s in (sa, sb)]
        v = 0.405285 * (slant[1] - slant[0]) ** 2
        alpha = (v / (1 - iou + v + 1e-7)).detach()
        return 1 - iou + away / around.square().sum(-1) + alpha * v


@novel("detection/weighted_pyramid", (2, 8, 12, 8), (5, 88, 76, 92))
class WeightedPyramid(_Levels):
    """BiFPN: levels joined up and down by normed weights and separable convolutions."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.w = nn.Parameter(torch.rand(4, 3))
        self.convs = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(c, c, 3, padding=1, groups=c, bias=False),
                nn.Conv2d(c, c, 1),
                nn.BatchNorm2d(c, eps=1e-3),
            )
            for _ in range(4)
        )

    def _join(self, i, *maps):
        w = F.relu(self.w[i][: len(maps)])
        w = w / (w.sum() + 1e-4)
        return self.convs[i](F.silu(sum(one * x for one, x in zip(w, maps, strict=True))))

    def forward(self, a, b, c):
        def up(x, like):
            return F.interpolate(x, size=like.shape[-2:], mode="nearest")

        mid = self._join(0, b, up(c, b))
        low = self._join(1, a, up(mid, a))
        mid = self._join(2, b, mid, F.max_pool2d(low, 3, 2, 1)[..., : b.shape[-2], : b.shape[-1]])
        return (
            low,
            mid,
            self._join(3, c, F.max_pool2d(mid, 3, 2, 1)[..., : c.shape[-2], : c.shape[-1]]),
        )


@novel("detection/pools_in_a_chain", (2, 8, 9, 7), (11, 512, 21, 19))
class PoolsInAChain(_Map):
    def __init__(self, n, c, h, w):
        super().__init__()
        self.a, self.b = nn.Conv2d(c, c // 2, 1, bias=False), nn.Conv2d(2 * c, c, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(c // 2), nn.BatchNorm2d(c)

    def forward(self, x):
        x = F.silu(self.na(self.a(x)))
        one = F.max_pool2d(x, 5, 1, 2)
        two = F.max_pool2d(one, 5, 1, 2)
        return F.silu(self.nb(self.b(torch.cat([x, one, two, F.max_pool2d(two, 5, 1, 2)], 1))))


@novel("detection/sum_of_levels", (2, 8, 8, 12, 4), (3, 256, 68, 100, 54))
class SumOfLevels(_Levels):
    """Panoptic FPN: each level up to the first by convolutions, norms and bilinear steps."""

    def __init__(self, n, c, h, w, classes):
        super().__init__()
        one = c // 2
        self.stages = nn.ModuleList()
        for i in range(3):
            wide = [c] + [one] * max(i, 1)
            self.stages.append(
                nn.ModuleList(
                    nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.GroupNorm(4, b))
                    for a, b in pairwise(wide)
                )
            )
        self.head = nn.Conv2d(one, classes, 1)

    def forward(self, *maps):
        total = None
        for i, (x, stage) in enumerate(zip(maps, self.stages, strict=True)):
            for layer in stage:
                x = F.relu(layer(x))
                if i:
                    x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
            total = x if total is None else total + x
        y = F.interpolate(self.head(total), scale_factor=4, mode="bilinear", align_corners=False)
        return y.argmax(1)


@novel("detection/mlp_of_levels", (2, 8, 8, 12, 6, 5), (5, 160, 64, 88, 256, 150))
class MlpOfLevels(_Levels):
    """SegFormer's head: linear layers of levels, all as large as the first, joined."""

    def __init__(self, n, c, h, w, d, classes):
        super().__init__()
        self.into = nn.ModuleList(nn.Linear(c, d) for _ in range(3))
        self.fuse, self.norm = nn.Conv2d(3 * d, d, 1, bias=False), nn.BatchNorm2d(d)
        self.head = nn.Conv2d(d, classes, 1)

    def forward(self, *maps):
        size = maps[0].shape[-2:]
        out = []
        for x, layer in zip(maps, self.into, strict=True):
            y = layer(x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[-2:])
            out.append(F.interpolate(y, size=size, mode="bilinear", align_corners=False))
        return self.head(F.relu(self.norm(self.fuse(torch.cat(out[::-1], 1)))))


@novel("detection/pooled_scene", (2, 8, 11, 9), (4, 512, 61, 47))
class PooledScene(_Map):
    """PSPNet: pools of 1, 2, 3 and 6 cells, drawn up again beside the map."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(c, c // 4, 1) for _ in range(4))
        self.out = nn.Conv2d(2 * c, c // 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(c // 4)

    def forward(self, x):
        parts = [x]
        for bins, conv in zip((1, 2, 3, 6), self.convs, strict=True):
            y = F.relu(conv(F.adaptive_avg_pool2d(x, bins)))
            parts.append(F.interpolate(y, x.shape[-2:], mode="bilinear", align_corners=True))
        return F.relu(self.norm(self.out(torch.cat(parts, 1))))


@novel("detection/masked_queries", (2, 3, 8, 5, 4, 2), (3, 101, 256, 45, 62, 8))
class MaskedQueries(nn.Module):
    """Mask2Former: masks of queries by products; the next attention sees what they cover."""

    def __init__(self, n, q, d, h, w, heads):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(d, d), nn.ReLU(), nn.Linear(d, d))
        self.q, self.kv, self.heads = nn.Linear(d, d), nn.Linear(d, 2 * d), heads

    @staticmethod
    def inputs(n, q, d, h, w, heads):
        return [normal(n, q, d), normal(n, d, h, w)]

    def forward(self, x, maps):
        masks = torch.einsum("bqc,bchw->bqhw", self.mlp(x), maps)
        hide = (masks.sigmoid() < 0.5).flatten(2)
        hide = hide & ~hide.all(-1, keepdim=True)
        k, v = self.kv(maps.flatten(2).mT).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=~hide[:, None])
        return x + y.transpose(1, 2).flatten(2), masks


@novel("detection/uncertain_points", (2, 3, 8, 7, 5), (19, 81, 56, 60, 196))
class UncertainPoints(nn.Module):
    """PointRend: the points whose two best classes are nearest, and what lies there."""

    def __init__(self, n, classes, h, w, points):
        super().__init__()
        self.points = points
        self.mlp = nn.Conv1d(2 * classes, classes, 1)

    @staticmethod
    def inputs(n, classes, h, w, points):
        return [normal(n, classes, h, w), normal(n, classes, 2 * h, 2 * w)]

    def forward(self, coarse, fine):
        up = F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)
        best = up.topk(2, 1).values
        doubt = (best[:, 1] - best[:, 0]).flatten(1)
        at = doubt.topk(self.points, 1).indices
        wide = up.shape[-1]
        grid = torch.stack([(at % wide + 0.5) / wide, (at // wide + 0.5) / up.shape[-2]], -1)
        grid = 2 * grid[:, :, None] - 1
        drawn = [F.grid_sample(m, grid, align_corners=False).squeeze(-1) for m in (coarse, fine)]
        new = self.mlp(torch.cat(drawn, 1))
        index = at[:, None].expand(-1, up.shape[1], -1)
        return up.flatten(2).scatter(2, index, new).view_as(up)


@novel("detection/lifted_to_ground", (2, 6, 5, 7, 4, 20), (6, 64, 18, 44, 41, 6400))
class LiftedToGround(nn.Module):
    """Lift-splat: a camera's features spread over depths and summed into cells of the ground."""

    def __init__(self, n, c, h, w, depths, cells):
        super().__init__()
        self.c, self.cells = c, cells
        self.head = nn.Conv2d(c, c + depths, 1)
        self.register_buffer("cell", torch.randint(0, cells, (n, depths, h, w)))

    @staticmethod
    def inputs(n, c, h, w, depths, cells):
        return [normal(n, c, h, w)]

    def forward(self, x):
        y = self.head(x)
        lifted = y[:, self.c :].softmax(1)[:, None] * y[:, : self.c, None]
        rows = lifted.permute(0, 2, 3, 4, 1).reshape(-1, self.c)
        ground = torch.zeros(self.cells, self.c, device=x.device, dtype=x.dtype)
        return ground.index_add_(0, self.cell.flatten(), rows)


@novel("detection/content_aware_upsampling", (2, 6, 5, 7), (5, 128, 37, 45))
class Carafe(_Map):
    """CARAFE: each new pixel is a softmax's mean of the 25 around its source."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.down, self.kernels = nn.Conv2d(c, c // 2, 1), nn.Conv2d(c // 2, 100, 3, padding=1)

    def forward(self, x):
        n, c, h, w = x.shape
        k = F.pixel_shuffle(self.kernels(self.down(x)), 2).softmax(1)
        near = F.unfold(x, 5, padding=2).view(n, c * 25, h, w)
        near = F.interpolate(near, scale_factor=2, mode="nearest").view(n, c, 25, 2 * h, 2 * w)
        return (near * k[:, None]).sum(2)


@novel("detection/large_kernel_attention", (2, 6, 13, 11), (9, 96, 55, 71))
class LargeKernel(_Map):
    """VAN: a depthwise convolution, a dilated one and a product are a gate."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.a = nn.Conv2d(c, c, 5, padding=2, groups=c)
        self.b = nn.Conv2d(c, c, 7, padding=9, dilation=3, groups=c)
        self.c = nn.Conv2d(c, c, 1)
        self.scale = nn.Parameter(torch.full((c, 1, 1), 1e-2))

    def forward(self, x):
        y = F.gelu(x)
        return x + self.scale * y * self.c(self.b(self.a(y)))


@novel("detection/reparameterised", (2, 8, 9, 7), (15, 112, 45, 53))
class Reparameterised(_Map):
    """RepVGG before its branches are merged: three of them, each with a norm."""

    def __init__(self, n, c, h, w):
        super().__init__()
        self.a = nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.b = nn.Conv2d(c, c, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(c) for _ in range(3))

    def forward(self, x):
        y = self.norms[0](self.a(x)) + self.norms[1](self.b(x)) + self.norms[2](x)
        return F.relu(y)
