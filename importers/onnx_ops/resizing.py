"""Resize, Upsample, GridSample, AffineGrid and RoiAlign: elements at other coordinates.

What ``frontend.resize`` says goes there.  The rest of ONNX's Resize (a scale that sizes do not
show, antialiasing, crops) is linear in the tensor all the same: with sizes that are known it is a
product with a matrix of weights along each axis, or elements at known places.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import floor
from typing import Any

import numpy as np

from polyc.dialects.common.dim import Dim
from polyc.importers.onnx_ops.items import Array
from polyc.importers.onnx_ops.movements import taken
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace import windows as W
from polyc.trace.values import Value


class _Axis:
    """One axis of a Resize: its size, the result's, and the scale as ONNX counts it."""

    def __init__(self, axis: int, size: Dim, count: Dim, scale: float | None) -> None:
        self.axis, self.size, self.count, self.scale = axis, size, count, scale

    @property
    def exact(self) -> bool:
        """Whether the sizes show the scale."""
        n, m = self.size.constant(), self.count.constant()
        if self.scale is None:
            return True
        return n is not None and m is not None and n * self.scale == m

    @property
    def stays(self) -> bool:
        """Whether nothing is done."""
        return self.size == self.count and self.scale in (None, 1.0)


def _axes(node: Node, x: Value, scales: int, sizes: int) -> list[_Axis]:
    listed = node.attr("axes")
    axes = list(range(x.ndim)) if listed is None else [node.placed(a, x.ndim) for a in listed]
    dims = [x.kind.dims[a] for a in axes]
    if node.has(sizes) and not _empty(node, sizes):
        policy: bytes = node.attr("keep_aspect_ratio_policy", b"stretch")
        declared = None if node.is_known(sizes) or policy != b"stretch" else node.declared()
        counts = node.sizes(sizes, "its sizes") if declared is None else [declared[a] for a in axes]
        if policy != b"stretch":
            known = [d.constant() for d in (*dims, *counts)]
            numbers = [n for n in known if n is not None]
            if len(numbers) < len(known):
                node.unsaid("a Resize that keeps the aspect of sizes that a call chooses")
            own, wanted = numbers[: len(dims)], numbers[len(dims) :]
            pick = min if policy == b"not_larger" else max
            by = pick(w / n for n, w in zip(own, wanted, strict=True))
            return [
                _Axis(a, d, Dim.const(floor(n * by + 0.5)), by)
                for a, d, n in zip(axes, dims, own, strict=True)
            ]
        return [_Axis(a, d, c, None) for a, d, c in zip(axes, dims, counts, strict=True)]
    found = [float(s) for s in node.known(scales, "its scales").reshape(-1)]
    made: list[_Axis] = []
    for axis, size, scale in zip(axes, dims, found, strict=True):
        known = size.constant()
        if known is not None:
            made.append(_Axis(axis, size, Dim.const(floor(known * scale)), scale))
        elif scale.is_integer():
            made.append(_Axis(axis, size, size * int(scale), None))
        elif scale > 0 and (1 / scale).is_integer():
            made.append(_Axis(axis, size, size.floordiv(int(1 / scale)), None))
        else:
            node.unsaid(f"a scale of {scale} of {size}, which a call chooses")
    return made


def _empty(node: Node, index: int) -> bool:
    item = node.item(index)
    return isinstance(item, np.ndarray) and item.size == 0


@converter("onnx", "Resize")
def resize(node: Node) -> Value:
    """Another grid of elements, by scales or sizes of axes."""
    x = node.value(0)
    if node.version < 11:
        return _resized(node, x, _axes(node, x, 1, 9), "asymmetric", rounding="floor")
    axes = _axes(node, x, 2, 3)
    coordinates = node.attr("coordinate_transformation_mode", b"half_pixel").decode()
    rounding = node.attr("nearest_mode", b"round_prefer_floor").decode()
    return _resized(node, x, axes, coordinates, rounding)


def _mode(node: Node, default: bytes) -> str:
    """The name of a mode as the dialect has it."""
    name: str = node.attr("mode", default).decode()
    return {"bilinear": "linear", "bicubic": "cubic"}.get(name, name)


@converter("onnx", "Upsample")
def upsample(node: Node) -> Value:
    """Resize as it was before operator set 10."""
    x = node.value(0)
    if not node.has(1):
        scales = np.array(node.attr("scales"), dtype=np.float32)
        node.inputs.append(scales)
    return _resized(node, x, _axes(node, x, 1, 9), "asymmetric", "floor")


def _resized(node: Node, x: Value, axes: Sequence[_Axis], coordinates: str, rounding: str) -> Value:
    mode = _mode(node, b"nearest")
    moved = [a for a in axes if not a.stays or coordinates == "tf_crop_and_resize"]
    plain = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
    cubic: dict[str, Any] = {
        "coefficient": float(node.attr("cubic_coeff_a", -0.75)),
        "exclude_outside": bool(node.attr("exclude_outside", 0)),
    }
    if not moved:
        return x
    if coordinates != "tf_crop_and_resize":  # its regions are in the order of the attribute
        moved = sorted(moved, key=lambda a: a.axis)
    if coordinates in plain and not node.attr("antialias", 0) and all(a.exact for a in moved):
        made = x.builder.resize(
            x.ssa,
            [a.axis for a in moved],
            [a.count for a in moved],
            mode=mode,
            coordinates=coordinates,
            rounding=rounding if mode == "nearest" else None,
            **(cubic if mode == "cubic" else {}),
        )
        return Value(x.builder, made)
    outside: list[tuple[int, Array]] = []
    for one in moved:
        n, m = one.size.constant(), one.count.constant()
        if n is None or m is None:
            node.unsaid(f"a Resize by {coordinates} of sizes that a call chooses")
        scale = one.scale if one.scale is not None else m / n
        at = _coordinates(node, coordinates, one, axes, n, m, scale)
        if coordinates == "tf_crop_and_resize":
            outside.append((one.axis, (at < 0) | (at > n - 1)))
        if mode == "nearest":
            x = taken(x, one.axis, tuple(_nearest(at, rounding, n)))
        else:
            x = _weighed(x, one.axis, _weights(node, mode, at, n, scale, cubic))
    if any(o.any() for _, o in outside):
        number = float(node.attr("extrapolation_value", 0.0))
        for axis, gone in outside:
            shape = [1] * x.ndim
            shape[axis] = gone.size
            there = Value(x.builder, x.builder.tensor(gone.astype(np.int32).reshape(shape))) != 0
            wide = Value(x.builder, x.builder.expand(there.ssa, list(x.kind.dims)))
            x = F.where(wide, number, x)
    return x


def _coordinates(
    node: Node, how: str, one: _Axis, axes: Sequence[_Axis], n: int, m: int, scale: float
) -> Array:
    """Where the elements of the result are in the operand."""
    i = np.arange(m, dtype=np.float64)
    width = scale * n
    match how:
        case "half_pixel":
            return (i + 0.5) / scale - 0.5
        case "half_pixel_symmetric":
            return n / 2 * (1 - m / width) + (i + 0.5) / scale - 0.5
        case "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if m > 1 else i * 0
        case "asymmetric":
            return i / scale
        case "align_corners":
            return i * (n - 1) / (width - 1) if width != 1 else i * 0
        case "tf_crop_and_resize":
            roi = [float(r) for r in node.known(1, "its region").reshape(-1)]
            place = list(axes).index(one)
            start, end = roi[place], roi[len(axes) + place]
            if m > 1:
                return start * (n - 1) + i * (end - start) * (n - 1) / (m - 1)
            return i * 0 + 0.5 * (start + end) * (n - 1)
        case _:
            node.unsaid(f"{how} is no coordinate transformation of a Resize")


def _nearest(at: Array, rounding: str, size: int) -> list[int]:
    match rounding:
        case "floor":
            found = np.floor(at)
        case "ceil":
            found = np.ceil(at)
        case "round_prefer_ceil":
            found = np.floor(at + 0.5)
        case _:
            found = np.ceil(at - 0.5)
    return [int(n) for n in np.clip(found, 0, size - 1)]


def _weights(
    node: Node, mode: str, at: Array, size: int, scale: float, cubic: dict[str, Any]
) -> Array:
    """How much of each element is in each of the result: [result, operand]."""
    by = min(scale, 1.0) if node.attr("antialias", 0) else 1.0
    reach = 1 if mode == "linear" else 2
    start = floor(-reach / by) + 1
    taps = 2 - 2 * start
    made = np.zeros((at.size, size))
    for row, x in enumerate(at):
        places = np.ceil(x) - 1 + np.arange(start, start + taps)
        away = np.abs((places - x) * by)
        if mode == "linear":
            weights = np.clip(1 - away, 0, 1)
        else:
            a = cubic["coefficient"]
            near = (a + 2) * away**3 - (a + 3) * away**2 + 1
            far = a * away**3 - 5 * a * away**2 + 8 * a * away - 4 * a
            weights = np.where(away <= 1, near, np.where(away < 2, far, 0))
        if cubic["exclude_outside"]:
            weights = np.where((places >= 0) & (places < size), weights, 0)
        if by < 1 or cubic["exclude_outside"]:
            weights = weights / weights.sum()
        for place, weight in zip(places, weights, strict=True):
            made[row, int(np.clip(place, 0, size - 1))] += weight
    return made


def _weighed(x: Value, axis: int, weights: Array) -> Value:
    matrix = Value(x.builder, x.builder.tensor(weights.astype(np.float32)))
    order = [i for i in range(x.ndim) if i != axis] + [axis]
    back = [order.index(i) for i in range(x.ndim)]
    last = x.permute(order).cast("f32")
    rows = last if last.ndim > 1 else last.unsqueeze(0)
    found = F.matmul(rows, matrix.T)
    found = found if last.ndim > 1 else found.squeeze(0)
    return found.permute(back).cast(x.dtype)


@converter("onnx", "GridSample")
def grid_sample(node: Node) -> Value:
    """What lies at the coordinates of a grid."""
    return W.grid_sample(
        node.value(0),
        node.value(1),
        mode=_mode(node, b"linear"),
        padding=node.attr("padding_mode", b"zeros").decode(),
        align_corners=bool(node.attr("align_corners", 0)),
    )


@converter("onnx", "RoiAlign")
def roi_align(node: Node) -> Value:
    """Means or maxima of samples in each bin of regions: [regions, C, rows, columns]."""
    x, regions, batch = node.value(0), node.value(1), node.value(2).cast("i64")
    rows, columns = int(node.attr("output_height", 1)), int(node.attr("output_width", 1))
    samples = int(node.attr("sampling_ratio", 0))
    if not samples:
        node.unsaid("a RoiAlign whose samples in a bin depend on the region; give sampling_ratio")
    default = b"half_pixel" if node.version >= 16 else b"output_half_pixel"
    half = node.attr("coordinate_transformation_mode", default) == b"half_pixel"
    scale, shift = float(node.attr("spatial_scale", 1.0)), 0.5 if half else 0.0
    _, c, h, w = x.shape
    edges = regions * scale - shift  # [regions, 4]: x0, y0, x1, y1
    low = {"x": edges[:, 0:1], "y": edges[:, 1:2]}
    size = {"x": edges[:, 2:3] - low["x"], "y": edges[:, 3:4] - low["y"]}
    if not half:
        size = {k: F.maximum(v, 1.0) for k, v in size.items()}
    places: dict[str, tuple[Value, Value, Value, Value]] = {}
    for k, bins, most in (("y", rows, h), ("x", columns, w)):
        step = (F.arange(bins * samples).cast("f32") + 0.5) * (1.0 / samples)
        at = low[k] + step.reshape(1, -1) * (size[k] * (1.0 / bins))
        top = _as_value(node, most) - 1.0
        inside = (at >= -1.0) & (at <= top + 1.0)
        at = F.maximum(at, 0.0)
        first = F.minimum(F.floor(at), top)
        second = F.minimum(first + 1.0, top)
        part = F.where(at >= top, 0.0, at - first)
        places[k] = first.cast("i64"), second.cast("i64"), part, inside
    y, xs = places["y"], places["x"]
    count = regions.shape[0]
    wide = (count, rows * samples, columns * samples)
    picture = batch.reshape(-1, 1, 1).expand(*wide).unsqueeze(3)
    flat = x.permute(0, 2, 3, 1)

    def corner(a: int, b: int) -> Value:
        down = y[a].unsqueeze(2).expand(*wide).unsqueeze(3)
        right = xs[b].unsqueeze(1).expand(*wide).unsqueeze(3)
        found = G.gather_nd(flat, F.concat([picture, down, right], 3))
        part_y = y[2] if a else 1.0 - y[2]
        part_x = xs[2] if b else 1.0 - xs[2]
        there = (y[3].unsqueeze(2).expand(*wide) & xs[3].unsqueeze(1).expand(*wide)).unsqueeze(3)
        weight = part_y.unsqueeze(2) * part_x.unsqueeze(1)
        return F.where(there.expand(*found.shape), found * weight.unsqueeze(3), 0.0)

    corners = [corner(a, b) for a in (0, 1) for b in (0, 1)]
    binned = (count, rows, samples, columns, samples, c)
    if node.attr("mode", b"avg") == b"avg":
        found = (corners[0] + corners[1] + corners[2] + corners[3]).reshape(*binned).mean([2, 4])
    else:
        largest = F.maximum(F.maximum(*corners[:2]), F.maximum(*corners[2:]))
        found = largest.reshape(*binned).max([2, 4])
    return found.permute(0, 3, 1, 2)


def _as_value(node: Node, size: Any) -> Value:
    from polyc.dialects import frontend
    from polyc.trace.elements import ELEMENTS
    from polyc.trace.sizes import dim_of

    made = node.builder.add(frontend.DimOp(dim_of(size), ELEMENTS["f32"]))
    return Value(node.builder, made)
