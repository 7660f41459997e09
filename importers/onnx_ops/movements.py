"""Movements: elements in other places, and tensors that are made of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product, quotient
from polyc.dialects.frontend import broadcast
from polyc.importers.onnx_ops import elements
from polyc.importers.onnx_ops.items import Item
from polyc.importers.onnx_ops.node import MOST_KNOWN, Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import gathers as G
from polyc.trace.sizes import size_of
from polyc.trace.values import Value

ONE = Dim.const(1)


def reshaped(x: Value, dims: Sequence[Dim]) -> Value:
    """The elements in their order under another shape."""
    return Value(x.builder, x.builder.reshape(x.ssa, list(dims)))


def expanded(x: Value, dims: Sequence[Dim]) -> Value:
    """The broadcast to a shape."""
    return Value(x.builder, x.builder.expand(x.ssa, list(dims)))


def sliced(x: Value, axis: int, low: Dim | int, high: Dim | int, step: int = 1) -> Value:
    """A part of one axis."""
    dims = x.kind.dims
    lows, highs, steps = [Dim.const(0)] * len(dims), list(dims), [1] * len(dims)
    lows[axis], highs[axis], steps[axis] = Dim.of(low), Dim.of(high), step
    return Value(x.builder, x.builder.slice(x.ssa, lows, highs, steps))


def taken(x: Value, axis: int, places: Sequence[int]) -> Value:
    """Elements of one axis at places that are known; a flip among others."""
    indices = np.array(places, dtype=np.int64)
    count = len(places)
    if count and places == tuple(range(places[0], places[0] - count, -1)):
        index = F.arange(count) * -1 + int(places[0])
    else:
        index = Value(x.builder, x.builder.tensor(indices))
    return G.take(x, index, axis)


def axes_of(node: Node, rank: int) -> list[int] | None:
    """The axes of a node, an input or an attribute, None where all are meant."""
    listed: Any = node.ints(1, "its axes") if node.has(1) else node.attr("axes")
    return None if listed is None else [node.placed(int(a), rank) for a in listed]


@converter("onnx", "Reshape")
def reshape(node: Node) -> Value:
    """0 keeps a size, -1 is what is left."""
    x = node.value()
    own = x.kind.dims
    if not node.is_known(1) and (declared := node.declared()) is not None:
        return reshaped(x, declared)
    wanted = node.sizes(1) if node.has(1) else [Dim.const(n) for n in node.attr("shape", ())]
    if not node.attr("allowzero", 0):
        for i, d in enumerate(wanted):
            if d.constant() == 0:
                if i >= len(own):
                    node.unsaid(f"its shape keeps size {i} of a tensor with {len(own)}")
                wanted[i] = own[i]
    return reshaped(x, wanted)


@converter("onnx", "Flatten")
def flatten(node: Node) -> Value:
    """A matrix: the axes before ``axis``, and the others."""
    x = node.value()
    dims = x.kind.dims
    axis = int(node.attr("axis", 1))
    axis = axis + len(dims) if axis < 0 else axis
    return reshaped(x, [product(dims[:axis]), product(dims[axis:])])


@converter("onnx", "Transpose")
def transpose(node: Node) -> Value:
    """Axes in another order, turned round unless it is said."""
    x = node.value()
    return x.permute(list(node.attr("perm", range(x.ndim - 1, -1, -1))))


@converter("onnx", "Squeeze")
def squeeze(node: Node) -> Value:
    """Without axes of size 1."""
    x = node.value()
    if not node.is_known(1) and (declared := node.declared()) is not None:
        return reshaped(x, declared)
    axes = axes_of(node, x.ndim)
    return x.squeeze(axes)


@converter("onnx", "Unsqueeze")
def unsqueeze(node: Node) -> Value:
    """With axes of size 1."""
    x = node.value()
    if not node.is_known(1) and (declared := node.declared()) is not None:
        return reshaped(x, declared)
    listed: Any = node.ints(1, "its axes") if node.has(1) else node.attr("axes")
    rank = x.ndim + len(listed)
    places = {node.placed(int(a), rank) for a in listed}
    own = iter(x.kind.dims)
    return reshaped(x, [ONE if i in places else next(own) for i in range(rank)])


@converter("onnx", "Concat")
def concat(node: Node) -> Value:
    """Tensors one after another."""
    values = node.values()
    return F.concat(values, node.placed(int(node.attr("axis")), values[0].ndim))


@converter("onnx", "Expand")
def expand(node: Node) -> Value:
    """Broadcast both ways: a size of 1 of the shape keeps the tensor's."""
    x = node.value()
    if not node.is_known(1) and (declared := node.declared()) is not None:
        return expanded(x, declared)
    shape = tuple(node.sizes(1))
    found = broadcast((x.kind.dims, shape), node.builder.inside)
    if found is None:
        node.unsaid(f"{x!r} does not broadcast to [{', '.join(map(str, shape))}]")
    return expanded(x, found)


@converter("onnx", "Tile")
def tile(node: Node) -> Value:
    """Each axis repeated."""
    x = node.value()
    dims = x.kind.dims
    declared = None if node.is_known(1) else node.declared()
    times = (
        [] if declared is None else [quotient(b, a) for a, b in zip(dims, declared, strict=True)]
    )
    if declared is None or None in times:
        times = node.sizes(1, "its repeats")
    apart: list[Dim] = []
    wide: list[Dim] = []
    times = [by for by in times if by is not None]
    for size, by in zip(dims, times, strict=True):
        apart += [ONE, size]
        wide += [by, size]
    repeated = expanded(reshaped(x, apart), wide)
    return reshaped(repeated, [s * by for s, by in zip(dims, times, strict=True)])


@converter("onnx", "Split")
def split(node: Node) -> tuple[Value, ...]:
    """Parts of an axis: of given sizes, or as many as there are outputs."""
    x, axis = node.value(), node.axis()
    size = x.kind.dims[axis]
    shapes = [node.declared(i) for i in range(len(node.outputs))]
    if not node.is_known(1) and None not in shapes:
        widths = [shape[axis] for shape in shapes if shape is not None]
    elif node.has(1):
        widths = node.sizes(1, "its sizes")
    elif node.attr("split") is not None:
        widths = [Dim.const(n) for n in node.attr("split")]
    else:
        count = int(node.attr("num_outputs", len(node.outputs)))
        each = quotient(size, Dim.const(count))
        if each is None:
            each = size.ceildiv(count)
        widths = [each] * (count - 1) + [size - each * (count - 1)]
    parts: list[Value] = []
    start = Dim.const(0)
    for width in widths:
        parts.append(sliced(x, axis, start, start + width))
        start = start + width
    return tuple(parts)


@converter("onnx", "Slice")
def slice_(node: Node) -> Value:
    """Parts of axes; a step below 0 goes backwards."""
    x = node.value()
    if node.has(1):
        starts, ends = node.sizes(1, "where it starts"), node.sizes(2, "where it ends")
        axes = node.ints(3, "its axes") if node.has(3) else list(range(len(starts)))
        steps = node.ints(4, "its steps") if node.has(4) else [1] * len(starts)
    else:
        starts = [Dim.const(n) for n in node.attr("starts")]
        ends = [Dim.const(n) for n in node.attr("ends")]
        axes = list(node.attr("axes", range(len(starts))))
        steps = [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at = node.placed(axis, x.ndim)
        x = _part(node, x, at, start, end, step)
    return x


FAR = 2**31 - 1
"""From here on an end of a slice is the end of the axis, as exporters write it."""


def _part(node: Node, x: Value, axis: int, start: Dim, end: Dim, step: int) -> Value:
    size = x.kind.dims[axis]
    whole = size.constant()
    if (
        whole is not None
        and (a := start.constant()) is not None
        and (b := end.constant()) is not None
    ):
        places = range(whole)[slice(a, None if step < 0 and b < -whole else b, step)]
        if step > 0:
            return sliced(x, axis, places.start, max(places.start, places.stop), step)
        return taken(x, axis, tuple(places))
    if step < 1:
        node.unsaid(f"a step of {step} along {size}, which a call chooses")

    def placed(given: Dim) -> Dim:
        number = given.constant()
        if number is None:
            return given
        if number >= FAR:
            return size
        if number <= -FAR:
            return Dim.const(0)
        return size + number if number < 0 else given

    return sliced(x, axis, placed(start), placed(end), step)


@converter("onnx", "Pad")
def pad(node: Node) -> Value:
    """Room before and after axes; below 0 it is cut off."""
    x = node.value()
    mode: bytes = node.attr("mode", b"constant")
    pads = node.sizes(1, "its pads") if node.has(1) else [Dim.const(n) for n in node.attr("pads")]
    axes = (
        [node.placed(a, x.ndim) for a in node.ints(3, "its axes")]
        if node.has(3)
        else list(range(x.ndim))
    )
    number: Any = node.attr("value", 0.0)
    if node.has(2) and mode == b"constant":
        if not isinstance(node.item(2), np.ndarray):
            return _padded_with(node, x, axes, pads, node.value(2).reshape(()))
        number = node.number(2, "what it pads with")
    count = len(axes)
    low, high = [Dim.const(0)] * x.ndim, [Dim.const(0)] * x.ndim
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[count + i]
    for axis in range(x.ndim):  # what is cut off goes first
        a, b = low[axis].constant(), high[axis].constant()
        cut_low, cut_high = min(a or 0, 0), min(b or 0, 0)
        if cut_low or cut_high:
            x = sliced(x, axis, -cut_low, x.kind.dims[axis] + cut_high)
            low[axis] = Dim.const(0) if cut_low else low[axis]
            high[axis] = Dim.const(0) if cut_high else high[axis]
    if mode == b"constant":
        return padded(x, low, high, number)
    for axis in range(x.ndim):
        a, b, size = low[axis].constant(), high[axis].constant(), x.kind.dims[axis].constant()
        if a == 0 and b == 0:
            continue
        if a is None or b is None or size is None:
            node.unsaid(f"a {mode.decode()} pad of sizes that a call chooses")
        x = taken(x, axis, _mirrored(node, mode.decode(), size, a, b))
    return x


def _padded_with(node: Node, x: Value, axes: list[int], pads: list[Dim], number: Value) -> Value:
    """Room around a tensor, filled with a number that is data."""
    count = len(axes)
    low, high = [Dim.const(0)] * x.ndim, [Dim.const(0)] * x.ndim
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[count + i]
    if any((d.constant() or 0) < 0 for d in (*low, *high)):
        node.unsaid("a pad that cuts off, with a number that is data")
    inside = padded(node.constants.full(x.kind.dims, 1, "i32") != 0, low, high, False)
    wide = padded(x, low, high, 0)
    return F.where(inside, wide, _spread(number, wide))


def padded(x: Value, low: Sequence[Dim], high: Sequence[Dim], number: Any) -> Value:
    """Room around a tensor, of any element type."""
    build = x.builder
    if x.dtype == "i1":
        wide = Value(build, build.pad(x.cast("i32").ssa, low, high, int(bool(number))))
        return wide.cast("i1")
    if x.dtype in ("f16", "bf16", "f32"):
        return Value(build, build.pad(x.ssa, low, high, float(number)))
    if all(d.constant() == 0 for d in (*low, *high)):
        return x
    from polyc.dialects import frontend

    return Value(build, build.add(frontend.PadOp(x.ssa, low, high, int(number))))


def _mirrored(node: Node, mode: str, size: int, low: int, high: int) -> tuple[int, ...]:
    at = np.arange(-low, size + high)
    match mode:
        case "edge":
            at = np.clip(at, 0, size - 1)
        case "wrap":
            at = at % size
        case "reflect" if size == 1:
            at = at * 0
        case "reflect":
            at = np.abs((at + size - 1) % (2 * size - 2) - (size - 1))
        case _:
            node.unsaid(f"{mode} is no mode of a pad")
    return tuple(int(n) for n in at)


@converter("onnx", "CenterCropPad")
def center_crop_pad(node: Node) -> Value:
    """Axes cut off, or with zeros around them, to sizes, as much on either side."""
    x = node.value()
    declared = None if node.is_known(1) else node.declared()
    axes = [node.placed(a, x.ndim) for a in node.attr("axes", range(x.ndim))]
    wanted = node.sizes(1) if declared is None else [declared[a] for a in axes]
    for axis, target in zip(axes, wanted, strict=True):
        size = x.kind.dims[axis]
        more = (target - size).constant()
        if more is None:
            node.unsaid(f"{size} along an axis is more or less than {target} from call to call")
        if more < 0:
            first = (-more) // 2
            x = sliced(x, axis, first, target + first)
        elif more:
            low, high = [Dim.const(0)] * x.ndim, [Dim.const(0)] * x.ndim
            low[axis], high[axis] = Dim.const(more // 2), Dim.const(more - more // 2)
            x = padded(x, low, high, 0)
    return x


@converter("onnx", "DepthToSpace")
def depth_to_space(node: Node) -> Value:
    """Channels become blocks of the image."""
    x, by = node.value(), int(node.attr("blocksize"))
    n, c, h, w = x.kind.dims
    less = quotient(c, Dim.const(by * by))
    if less is None:
        node.unsaid(f"{c} channels are no multiple of {by * by}")
    b = Dim.const(by)
    if node.attr("mode", b"DCR") == b"DCR":
        apart = reshaped(x, [n, b, b, less, h, w]).permute(0, 3, 4, 1, 5, 2)
    else:
        apart = reshaped(x, [n, less, b, b, h, w]).permute(0, 1, 4, 2, 5, 3)
    return reshaped(apart, [n, less, h * by, w * by])


@converter("onnx", "SpaceToDepth")
def space_to_depth(node: Node) -> Value:
    """Blocks of the image become channels."""
    x, by = node.value(), int(node.attr("blocksize"))
    n, c, h, w = x.kind.dims
    rows, columns = quotient(h, Dim.const(by)), quotient(w, Dim.const(by))
    if rows is None or columns is None:
        node.unsaid(f"an image of {h} by {w} is not of blocks of {by}")
    b = Dim.const(by)
    if node.attr("mode", b"DCR") == b"DCR":
        apart = reshaped(x, [n, c, rows, b, columns, b]).permute(0, 3, 5, 1, 2, 4)
    else:
        apart = reshaped(x, [n, c, rows, b, columns, b]).permute(0, 1, 3, 5, 2, 4)
    return reshaped(apart, [n, c * (by * by), rows, columns])


# Of sizes ------------------------------------------------------------------------------------


@converter("onnx", "ConstantOfShape")
def constant_of_shape(node: Node) -> Item:
    """A tensor of one number."""
    declared = None if node.is_known(0) else node.declared()
    dims = node.sizes(0) if declared is None else list(declared)
    value = node.attr("value")
    number: Any = np.zeros(1, dtype=np.float32)
    if value is not None:
        number = node.tensors.array(value)
    known = [d.constant() for d in dims]
    numbers = [n for n in known if n is not None]
    if any(n < 0 for n in numbers):
        node.unsaid(f"its shape is {numbers}; sizes are 0 or more")
    if len(numbers) == len(known) and np.prod(numbers, dtype=object) <= MOST_KNOWN:
        return np.full(numbers, number.reshape(-1)[0], dtype=number.dtype)
    element = node.constants.element(elements.number_of_dtype(number.dtype))
    return node.constants.full(dims, number.reshape(-1)[0], element)


@converter("onnx", "Range")
def range_(node: Node) -> Item:
    """Numbers from a start on, below a limit."""
    item = node.item(1)
    if not isinstance(item, np.ndarray) and node.element(1) == "i64":
        start, limit, step = node.sizes(0)[0], node.sizes(1)[0], node.ints(2, "its step")[0]
        if step < 1 or node.known(0, "where it starts").size != 1:
            node.unsaid("a range backwards of sizes that a call chooses")
        made = F.arange(size_of((limit - start).ceildiv(step))) * step
        return made + int(node.number(0))
    declared = node.declared()
    if declared is not None and not all(node.is_known(i) for i in range(3)):
        # The declared size says how many; where it ends is no more to be asked.
        made = F.arange(size_of(declared[0])).cast(node.element(0))
        return made * node.value(2).reshape(()) + node.value(0).reshape(())
    start, limit, step = (
        node.known(i, what).reshape(())
        for i, what in enumerate(("its start", "its limit", "its step"))
    )
    with np.errstate(all="ignore"):
        count = float(np.ceil((limit.astype(np.float64) - start) / step))
    if not 0 <= count < 2**31:
        count = 0.0
    dtype = start.dtype
    if count <= MOST_KNOWN:
        return (start + np.arange(int(count)).astype(dtype) * step).astype(dtype)
    made = F.arange(int(count), "i64").cast(node.element(0))
    return made * step.item() + start.item()


@converter("onnx", "EyeLike")
def eye(node: Node) -> Value:
    """Ones on a diagonal."""
    dims = [size_of(d) for d in node.dims()]
    number = node.attr("dtype", node.number_of_element(0))
    on = F.iota(dims, 1) - F.iota(dims, 0) == int(node.attr("k", 0))
    return on.cast(node.constants.element(int(number)))


@converter("onnx", "Trilu")
def triangle(node: Node) -> Value:
    """The part above or below a diagonal."""
    x = node.value()
    shape = x.shape[-2:]
    offset: Any = 0
    if node.has(1):
        item = node.item(1)
        offset = int(node.number(1)) if isinstance(item, np.ndarray) else node.value(1).reshape(())
    behind = F.iota(shape, 1) - F.iota(shape, 0)
    kept = behind >= offset if node.attr("upper", 1) else behind <= offset
    if x.dtype == "i1":
        return x & Value(x.builder, x.builder.expand(kept.ssa, list(x.kind.dims)))
    kept = Value(x.builder, x.builder.expand(kept.ssa, list(x.kind.dims)))
    return F.where(kept, x, 0)


@converter("onnx", "OneHot")
def one_hot(node: Node) -> Value:
    """A number at each index, another one elsewhere."""
    index, values = node.value(0), node.value(2)
    axis = node.placed(int(node.attr("axis", -1)), index.ndim + 1)
    declared = None if node.is_known(1) else node.declared()
    depth = node.sizes(1, "its depth")[0] if declared is None else declared[axis]
    index = index.cast("i64")
    size = size_of(depth)
    index = F.where(index < 0, index + _number(node, depth), index).unsqueeze(axis)
    shape = list(index.shape)
    shape[axis] = size
    hit = index == F.iota(shape, axis)
    off, on = values[0], values[1]
    return F.where(hit, _spread(on, hit), _spread(off, hit))


def _spread(x: Value, like: Value) -> Value:
    return Value(x.builder, x.builder.expand(x.ssa, list(like.kind.dims)))


def _number(node: Node, size: Dim) -> Any:
    known = size.constant()
    if known is not None:
        return known
    from polyc.dialects import frontend

    return Value(node.builder, node.builder.add(frontend.DimOp(size)))


@converter("onnx", "ReverseSequence")
def reverse_sequence(node: Node) -> Value:
    """The first elements along an axis turned round, as many as each sequence has."""
    x, lengths = node.value(0), node.value(1).cast("i64")
    batch = node.placed(int(node.attr("batch_axis", 1)), x.ndim)
    time = node.placed(int(node.attr("time_axis", 0)), x.ndim)
    at = F.iota(x.shape, time)
    shape = [ONE] * x.ndim
    shape[batch] = x.kind.dims[batch]
    count = reshaped(lengths, shape)
    return G.take_along_axis(x, F.where(at < count, count - at - 1, at), time)
