"""Products: matrices, convolutions, and sums over named axes."""

from __future__ import annotations

from collections.abc import Sequence

from polyc.dialects.common.dim import Dim
from polyc.dialects.common.sizes import product
from polyc.importers.onnx_ops.arithmetic import elementwise, is_float
from polyc.importers.onnx_ops.movements import ONE, reshaped, sliced
from polyc.importers.onnx_ops.node import Node
from polyc.importers.registry import converter
from polyc.trace import functions as F
from polyc.trace import windows as W
from polyc.trace.values import Value

LONGEST = 64
"""Terms of an integer's sum that are written out, at most; longer ones are a reduction."""


def matmul(a: Value, b: Value) -> Value:
    """``a @ b`` by NumPy's rules, of integers too."""
    if is_float(a):
        return F.matmul(a, b)
    if a.ndim == 1 or b.ndim == 1:
        left = a.unsqueeze(0) if a.ndim == 1 else a
        right = b.unsqueeze(1) if b.ndim == 1 else b
        found = matmul(left, right)
        gone = ([found.ndim - 2] if a.ndim == 1 else []) + ([found.ndim - 1] if b.ndim == 1 else [])
        return found.squeeze(gone)
    # [..., M, K, 1] * [..., 1, K, N], summed along K in the type of the integers.
    return (a.unsqueeze(a.ndim) * b.unsqueeze(b.ndim - 2)).sum(-2)


@converter("onnx", "MatMul")
def matrix_product(node: Node) -> Value:
    """Matrices along the last two axes."""
    return matmul(node.value(0), node.value(1))


@converter("onnx", "Gemm")
def gemm(node: Node) -> Value:
    """``alpha * a @ b + beta * c``, either transposed."""
    a, b = node.value(0), node.value(1)
    a = a.T if node.attr("transA", 0) else a
    b = b.T if node.attr("transB", 0) else b
    alpha, beta = float(node.attr("alpha", 1.0)), float(node.attr("beta", 1.0))
    found = scaled(matmul(a, b), alpha)
    return found if not node.has(2) else found + scaled(node.value(2), beta)


def scaled(x: Value, by: float) -> Value:
    """A multiple; of integers by a whole number."""
    if by == 1:
        return x
    return x * by if is_float(x) else (x.cast("f32") * by).cast(x.dtype)


def _offset(node: Node, x: Value, index: int, axis: int | None = None) -> Value:
    """Integers of 8 bits as i32, less their zero point."""
    found = x.cast("i32")
    if not node.has(index):
        return found
    zero = node.value(index).cast("i32")
    if zero.ndim == 1 and axis is not None and zero.shape != (1,):
        shape = [ONE] * x.ndim
        shape[axis] = zero.kind.dims[0]
        zero = reshaped(zero, shape)
    elif zero.ndim == 1:
        zero = zero.reshape(())
    return found - zero


@converter("onnx", "MatMulInteger")
def matmul_integer(node: Node) -> Value:
    """Of integers with zero points, in i32."""
    a, b = node.value(0), node.value(1)
    return matmul(_offset(node, a, 2, a.ndim - 2), _offset(node, b, 3, b.ndim - 1))


# Convolutions --------------------------------------------------------------------------------


def windows_of(
    node: Node, x: Value, kernel: Sequence[int], transposed: bool = False
) -> tuple[list[int], list[int], list[int]]:
    """Stride, padding (before and after each axis) and dilation of a node with windows."""
    count = len(kernel)
    stride = list(node.attr("strides", [1] * count))
    dilation = list(node.attr("dilations", [1] * count))
    pads = list(node.attr("pads", [0] * (2 * count)))
    auto: bytes = node.attr("auto_pad", b"NOTSET")
    if auto in (b"SAME_UPPER", b"SAME_LOWER") and not transposed:
        pads = [0] * (2 * count)
        for i in range(count):
            size = x.kind.dims[x.ndim - count + i].constant()
            if size is None and stride[i] != 1:
                node.unsaid("auto_pad of a size that a call chooses; give pads")
            span = dilation[i] * (kernel[i] - 1) + 1
            windows = -(-size // stride[i]) if size is not None else 0
            whole = span - 1 if size is None else max((windows - 1) * stride[i] + span - size, 0)
            low = whole // 2 if auto == b"SAME_UPPER" else whole - whole // 2
            pads[i], pads[count + i] = low, whole - low
    elif auto == b"VALID":
        pads = [0] * (2 * count)
    rooms = [pads[i + side * count] for i in range(count) for side in (0, 1)]
    return stride, rooms, dilation


def _spatial(node: Node, w: Value) -> list[int]:
    found = [d.constant() for d in w.kind.dims[2:]]
    if any(k is None for k in found):
        node.unsaid("a convolution's window has sizes that a call chooses")
    return [k for k in found if k is not None]


def convolution(node: Node, x: Value, w: Value, bias: Value | None) -> Value:
    """A convolution of real numbers, with the attributes of a node."""
    kernel = _spatial(node, w)
    if len(kernel) not in (1, 2, 3) or x.ndim != len(kernel) + 2:
        node.unsaid(f"a convolution along {len(kernel)} axes")
    stride, padding, dilation = windows_of(node, x, kernel)
    conv = {1: W.conv1d, 2: W.conv2d, 3: W.conv3d}[len(kernel)]
    return conv(
        *(x, w, bias),
        stride=stride,
        padding=padding,
        dilation=dilation,
        groups=int(node.attr("group", 1)),
    )


@converter("onnx", "Conv")
def conv(node: Node) -> Value:
    """A convolution along one axis, two or three."""
    return convolution(node, node.value(0), node.value(1), node.optional(2))


EXACT = 2**24
"""Integers up to here are f32s."""


def whole_convolution(node: Node, x: Value, w: Value) -> Value:
    """A convolution of i32 whose factors came of 8 bits: exact in f32 while its sums are below
    2 to the 24, which these sizes have to show."""
    dims = w.kind.dims
    terms = product(dims[1:]).constant()
    if terms is None or terms * 255 * 255 > EXACT:
        node.unsaid(f"a convolution of integers with {terms} terms may be beyond 2 to the 24")
    return convolution(node, x.cast("f32"), w.cast("f32"), None).cast("i32")


@converter("onnx", "ConvInteger")
def conv_integer(node: Node) -> Value:
    """Of integers with zero points, in i32."""
    x, w = node.value(0), node.value(1)
    return whole_convolution(node, _offset(node, x, 2), _offset(node, w, 3, 0))


@converter("onnx", "ConvTranspose")
def conv_transpose(node: Node) -> Value:
    """A transposed convolution; ``output_shape`` says the padding."""
    x, w = node.value(0), node.value(1)
    kernel = _spatial(node, w)
    count = len(kernel)
    if count not in (1, 2, 3):
        node.unsaid(f"a transposed convolution along {count} axes")
    stride, rooms, dilation = windows_of(node, x, kernel, True)
    padding: list[int] = list(rooms)
    more: list[int] = list(node.attr("output_padding", [0] * count))
    wanted = node.attr("output_shape")
    auto: bytes = node.attr("auto_pad", b"NOTSET")
    if wanted is not None or auto in (b"SAME_UPPER", b"SAME_LOWER"):
        padding = []
        for i in range(count):
            size = x.kind.dims[2 + i].constant()
            if size is None:
                node.unsaid("a transposed convolution with a padding of sizes that a call chooses")
            whole = stride[i] * (size - 1) + more[i] + (kernel[i] - 1) * dilation[i] + 1
            target = size * stride[i] if wanted is None else list(wanted)[-count:][i]
            cut = whole - target
            half = cut // 2
            padding += [half, cut - half] if auto == b"SAME_UPPER" else [cut - half, half]
    # What would be cut off below 0 is room after it.
    after = [max(-padding[2 * i + 1], 0) for i in range(count)]
    before = [max(-padding[2 * i], 0) for i in range(count)]
    padding = [max(p, 0) for p in padding]
    transposed = {1: W.conv_transpose1d, 2: W.conv_transpose2d, 3: W.conv_transpose3d}[count]
    rest = [min(m, s - 1) if s > 1 else 0 for m, s in zip(more, stride, strict=True)]
    over = [m - r + a for m, r, a in zip(more, rest, after, strict=True)]
    found = transposed(
        *(x, w, None),
        stride=stride,
        padding=padding,
        output_padding=rest,
        dilation=dilation,
        groups=int(node.attr("group", 1)),
    )
    if any(over) or any(before):
        found = F.pad(found, [(0, 0), (0, 0), *zip(before, over, strict=True)])
    if node.has(2):
        found = found + node.value(2).reshape(-1, *[1] * count)
    return found


# Sums over named axes ---------------------------------------------------------------------------


@converter("onnx", "Einsum")
def einsum(node: Node) -> Value:
    """Letters name axes; those that the result has not are summed."""
    text: str = node.attr("equation").decode().replace(" ", "")
    values = node.values()
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(values):
        node.unsaid(f"{text!r} is of {len(terms)} tensors, and there are {len(values)}")
    dots = max(
        (
            v.ndim - len(t.replace("...", ""))
            for v, t in zip(values, terms, strict=True)
            if "..." in t
        ),
        default=0,
    )
    names = [_names(t, v.ndim, dots) for v, t in zip(values, terms, strict=True)]
    if arrow:
        wanted = _names(
            right, len(right.replace("...", "")) + (dots if "..." in right else 0), dots
        )
    else:
        every = [n for one in names for n in one]
        wanted = [f".{i}" for i in range(dots)]
        wanted += sorted(n for n in set(every) if every.count(n) == 1 and not n.startswith("."))
    parts: list[tuple[Value, list[str]]] = [
        _diagonal(v, list(n)) for v, n in zip(values, names, strict=True)
    ]
    while len(parts) > 1:
        (a, an), (b, bn), *rest = parts
        later = set(wanted) | {n for _, other in rest for n in other}
        parts = [_contract(a, an, b, bn, later), *rest]
    found, own = parts[0]
    gone = [i for i, n in enumerate(own) if n not in wanted]
    if gone:
        found = found.sum(gone)
        own = [n for n in own if n in wanted]
    return found.permute([own.index(n) for n in wanted])


def _names(term: str, rank: int, dots: int) -> list[str]:
    before, dotted, after = term.partition("...")
    if not dotted:
        return list(term)
    mine = rank - len(before) - len(after)
    return [*before, *(f".{i}" for i in range(dots - mine, dots)), *after]


def _diagonal(x: Value, names: list[str]) -> tuple[Value, list[str]]:
    """Without axes of one name twice."""
    for name in dict.fromkeys(names):
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            on = F.iota(x.shape, first) == F.iota(x.shape, second)
            x = F.where(on, x, 0).sum(second)
            del names[second]
    return x, names


def _contract(
    a: Value, an: list[str], b: Value, bn: list[str], kept: set[str]
) -> tuple[Value, list[str]]:
    """One tensor of two: names of both that nobody needs later are summed by a product."""
    for mine, theirs, which in ((an, bn, 0), (bn, an, 1)):
        alone = [i for i, n in enumerate(mine) if n not in theirs and n not in kept]
        if alone:
            if which == 0:
                a, an = a.sum(alone), [n for n in an if n in theirs or n in kept]
            else:
                b, bn = b.sum(alone), [n for n in bn if n in theirs or n in kept]
    both = [n for n in an if n in bn]
    batch, summed = [n for n in both if n in kept], [n for n in both if n not in kept]
    rows, columns = [n for n in an if n not in bn], [n for n in bn if n not in an]
    x = a.permute([an.index(n) for n in (*batch, *rows, *summed)])
    y = b.permute([bn.index(n) for n in (*batch, *summed, *columns)])

    def dims(value: Value, names: list[str], which: Sequence[str]) -> list[Dim]:
        return [value.kind.dims[names.index(n)] for n in which]

    batches = [
        p if q.constant() == 1 else q
        for p, q in zip(dims(a, an, batch), dims(b, bn, batch), strict=True)
    ]
    row, column, inner = dims(a, an, rows), dims(b, bn, columns), dims(a, an, summed)
    if not summed:
        # An outer product, or one element by element.
        x = reshaped(x, [*dims(a, an, batch), *row, *[ONE] * len(column)])
        y = reshaped(y, [*dims(b, bn, batch), *[ONE] * len(row), *column])
        return elementwise("mul", x, y), [*batch, *rows, *columns]
    x = reshaped(x, [*dims(a, an, batch), product(row), product(inner)])
    y = reshaped(y, [*dims(b, bn, batch), product(inner), product(column)])
    found = matmul(x, y)
    return reshaped(found, [*batches, *row, *column]), [*batch, *rows, *columns]


# Determinants ------------------------------------------------------------------------------------

LARGEST = 6
"""Rows of a matrix whose determinant is written out, at most."""


@converter("onnx", "Det")
def det(node: Node) -> Value:
    """The determinant of small matrices, by minors of growing size."""
    x = node.value()
    size = x.kind.dims[-1].constant()
    if size is None or size > LARGEST:
        node.unsaid(f"the determinant of {x!r}; of up to {LARGEST} rows it is written out")
    at = x.ndim - 2

    def entry(row: int, column: int) -> Value:
        one = sliced(sliced(x, at, row, row + 1), at + 1, column, column + 1)
        return reshaped(one, x.kind.dims[:-2])

    minors: dict[tuple[int, ...], Value] = {(): F.full((), 1.0, x.dtype)}
    for row in range(size):
        larger: dict[tuple[int, ...], Value] = {}
        for columns, minor in minors.items():
            for column in range(size):
                if column in columns:
                    continue
                key = tuple(sorted((*columns, column)))
                term = minor * entry(row, column)
                if sum(1 for c in columns if c > column) % 2:
                    term = -term
                larger[key] = larger[key] + term if key in larger else term
        minors = larger
    return minors[tuple(range(size))]
