"""A frontend graph as a PyTorch function: what a program is raced against.

Each op is what a PyTorch user writes for it: ``linear``, ``scaled_dot_product_attention``,
``rms_norm``, ``conv2d`` in channels-last memory.  Rounding is PyTorch's own, after each op where it
runs eagerly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from xdsl.dialects.builtin import i64
from xdsl.ir import Operation, SSAValue

from polyc.bench.torch_attention import Attend, Run, dot_product
from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import is_integer, is_unsigned, neutral, width
from polyc.dialects.frontend import GraphOp, tensor_of
from polyc.dialects.frontend.gathers import GatherBase

UNARY = (
    *("abs", "erf", "erfc", "exp", "log", "neg", "reciprocal", "relu", "rsqrt", "sigmoid", "sqrt"),
    "tanh",
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "exp2", "expm1"),
    *("floor", "log10", "log1p", "log2", "round", "sign", "sin", "sinh", "tan", "trunc"),
)
FUNCTIONAL = {
    **{fn: fn for fn in ("elu", "gelu", "mish", "relu6", "selu", "silu", "softplus", "softsign")},
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
    "log_sigmoid": "logsigmoid",
}
"""What ``torch.nn.functional`` calls a function."""

BINARY = {
    "add": "add",
    "atan2": "atan2",
    "div": "div",
    "fmod": "fmod",
    "mod": "remainder",
    "max": "maximum",
    "min": "minimum",
    "mul": "mul",
    "pow": "pow",
    "sub": "sub",
}


def function(
    torch: Any,
    graph: GraphOp,
    sizes: Mapping[str, int],
    wide: bool = False,
    attend: Attend = dot_product,
) -> Run:
    """``graph`` as a function of its inputs, at these sizes; it returns a tuple of its outputs.

    With ``wide`` no value is narrower than f32, as its inputs are.  ``attend`` is what attentions
    become.
    """
    steps = [op for op in graph.body.block.ops if not isinstance(op, frontend.OutputOp)]
    last = graph.body.block.last_op
    assert last is not None
    arguments = list(graph.body.block.args)
    made = [(op, _step(torch, op, sizes, attend)) for op in steps]
    if wide:
        made = [(op, _widened(torch, op, step)) for op, step in made]

    def run(*inputs: Any) -> Any:
        values: dict[SSAValue, Any] = dict(zip(arguments, inputs, strict=True))
        for op, step in made:
            found = step(*(values[o] for o in op.operands))
            several = cast("tuple[Any, ...]", found) if isinstance(found, tuple) else (found,)
            values.update(zip(op.results, several, strict=False))
        return tuple(values[o] for o in last.operands)

    return run


def _widened(torch: Any, op: Operation, step: Run) -> Run:
    """A step without narrowing casts, whose results are f32 where they are floats."""
    if isinstance(op, frontend.CastOp) and element(torch, op.result).is_floating_point:

        def cast(x: Any) -> Any:
            return x.float()

        return cast

    def run(*operands: Any) -> Any:
        made = step(*operands)
        # A sort gives several tensors, with its values as they were.
        narrow = torch.is_tensor(made) and made.is_floating_point()
        return made.float() if narrow else made

    return run


def _shape(dims: Sequence[Dim], sizes: Mapping[str, int]) -> list[int]:
    return [d.evaluate(sizes) for d in dims]


def element(torch: Any, value: SSAValue) -> Any:
    """PyTorch's type of a value."""
    kind = tensor_of(value).element_type
    if is_integer(kind):
        return getattr(torch, f"{'u' * is_unsigned(kind)}int{width(kind)}")
    names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "i1": "bool"}
    return getattr(torch, names[str(kind)])


def _step(torch: Any, op: Operation, sizes: Mapping[str, int], attend: Attend) -> Run:
    """One op as a function of its operands."""
    f = torch.nn.functional
    match op:
        case frontend.GemmOp():
            return _gemm(torch, op)
        case frontend.ConvOp() | frontend.ConvTransposeOp():
            return _conv(f, op)
        case frontend.AttentionOp():
            return attend(torch, op, sizes)
        case frontend.ElementwiseOp():
            return _elementwise(torch, op.function)
        case frontend.CastOp():
            kind = element(torch, op.result)

            def cast(x: Any) -> Any:
                return x.to(kind)

            return cast
        case frontend.ConstantOp():
            number = op.number

            def constant() -> Any:
                return number

            return constant
        case frontend.ClassifyOp():
            return cast_any(getattr(torch, op.function))
        case frontend.SelectOp():
            return cast_any(torch.where)
        case frontend.ReduceOp():
            if op.function == "prod":
                return _product(torch, op)
            names = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}
            names |= {"any": "any", "all": "all"}
            how = {"dim": list(op.axes), "keepdim": op.keepdims is not None}
            return partial(cast_any(getattr(torch, names[op.function])), **how)
        case frontend.ArgReduceOp():
            return _arg_reduce(torch, op)
        case frontend.SortOp():
            return _sort(torch, op, sizes)
        case frontend.GatherOp():
            return _take(torch, op)
        case frontend.GatherElementsOp():
            return _take_along(torch, op)
        case frontend.GatherNdOp():
            return _take_tuples(torch, op)
        case frontend.ScanOp():
            return _scan(torch, op)
        case frontend.PoolOp():
            return _pool(f, op)
        case frontend.ArgPoolOp():
            return _arg_pool(torch, f, op)
        case frontend.ResizeOp():
            return _resize(f, op, sizes)
        case frontend.SoftmaxOp() | frontend.LogSoftmaxOp():
            soft = f.log_softmax if isinstance(op, frontend.LogSoftmaxOp) else f.softmax
            (axis,) = op.axes
            return partial(cast_any(soft), dim=axis)
        case frontend.LayerNormOp() | frontend.RmsNormOp():
            norm = f.layer_norm if isinstance(op, frontend.LayerNormOp) else f.rms_norm
            eps, axes = op.eps, op.axes

            def normed(x: Any, *rest: Any) -> Any:
                return norm(x, tuple(x.shape[a] for a in axes), *rest, eps=eps)

            return normed
        case frontend.ConcatOp():
            joined = op.axis

            def concat(*parts: Any) -> Any:
                return torch.cat(parts, dim=joined)

            return concat
        case _:
            return _movement(f, op, sizes)


def cast_any(function: Any) -> Run:
    """A function of PyTorch's, whose types nobody knows here."""
    return function


def _movement(f: Any, op: Operation, sizes: Mapping[str, int]) -> Run:
    match op:
        case frontend.ReshapeOp():
            shape = _shape(tensor_of(op.result).dims, sizes)

            def reshape(x: Any) -> Any:
                return x.reshape(shape)

            return reshape
        case frontend.PermuteOp():
            order = op.perm

            def permute(x: Any) -> Any:
                return x.permute(order)

            return permute
        case frontend.SliceOp():
            low, high = _shape(op.low, sizes), _shape(op.high, sizes)
            where = tuple(slice(a, b) for a, b in zip(low, high, strict=True))

            def cut(x: Any) -> Any:
                return x[where]

            return cut
        case frontend.PadOp():
            pairs = zip(_shape(op.low, sizes), _shape(op.high, sizes), strict=True)
            room = [n for pair in reversed(list(pairs)) for n in pair]
            return partial(cast_any(f.pad), pad=room, value=op.number)
        case _:
            raise NotImplementedError(op.name)


def _gemm(torch: Any, op: frontend.GemmOp) -> Run:
    left, right = op.transpose_a is not None, op.transpose_b is not None
    linear = torch.nn.functional.linear
    wide = tensor_of(op.a).element_type != tensor_of(op.result).element_type
    kind = element(torch, op.result) if wide else None

    def run(a: Any, b: Any) -> Any:
        a = a.mT if left else a
        made = linear(a, b) if right and b.dim() == 2 else torch.matmul(a, b.mT if right else b)
        return made if kind is None else made.to(kind)

    return run


def _conv(f: Any, op: frontend.ConvOp | frontend.ConvTransposeOp) -> Run:
    low = op.padding[::2]
    assert low == op.padding[1::2]
    groups = op.groups.constant()
    how = {"stride": op.stride, "padding": low, "dilation": op.dilation, "groups": groups}
    if isinstance(op, frontend.ConvTransposeOp):
        how["output_padding"] = op.output_padding
    function = getattr(f, op.word())

    def run(x: Any, w: Any) -> Any:
        if op.channels_first:
            return function(x, w, **how)
        # Contiguous NHWC is channels-last memory of NCHW.
        return function(x.movedim(-1, 1), w.movedim(-1, 1), **how).movedim(1, -1)

    return run


def _pool(f: Any, op: frontend.PoolOp) -> Run:
    """A maximum or a mean along one to three axes, the last ones or those before the last."""
    low, count = op.padding[::2], len(op.axes)
    assert low == op.padding[1::2] and op.function in ("max", "mean")
    size = [taps.constant() for taps in op.size]
    how: dict[str, Any] = {
        "stride": op.stride,
        "padding": low,
        "ceil_mode": op.ceil_mode is not None,
    }
    if op.function == "max":
        how["dilation"] = op.dilation
    else:
        assert set(op.dilation) == {1}
        how["count_include_pad"] = op.count_include_pad is not None
    kind = "max" if op.function == "max" else "avg"
    function = getattr(f, f"{kind}_pool{count}d")
    last = op.axes[-1] == tensor_of(op.operand).rank - 1

    def run(x: Any) -> Any:
        if last:
            return function(x, size, **how)
        return function(x.movedim(-1, 1), size, **how).movedim(1, -1)

    return run


def _arg_pool(torch: Any, f: Any, op: frontend.ArgPoolOp) -> Run:
    """Places of maxima in the plane of the last axes."""
    assert op.function == "max" and op.whole is None and op.padding[::2] == op.padding[1::2]
    assert op.axes[-1] == tensor_of(op.operand).rank - 1
    kind = torch.int64 if tensor_of(op.result).element_type == i64 else torch.int32
    function = getattr(f, f"max_pool{len(op.axes)}d")
    how: dict[str, Any] = {
        "kernel_size": [taps.constant() for taps in op.size],
        "stride": op.stride,
        "padding": op.padding[::2],
        "dilation": op.dilation,
        "ceil_mode": op.ceil_mode is not None,
        "return_indices": True,
    }

    def run(x: Any) -> Any:
        return function(x, **how)[1].to(kind)

    return run


def _place(torch: Any, op: GatherBase, index: Any, size: int) -> tuple[Any, Any]:
    """The places of an axis that are nearest to indices, and which of these are inside."""
    index = index.long()
    if is_unsigned(tensor_of(op.indices).element_type):
        index = torch.where(index < 0, size, index)  # from 2**63 on
    elif op.counts_from_end:
        index = torch.where(index < 0, index + size, index)
    return index.clamp(0, size - 1), (index >= 0) & (index < size)


def _settled(torch: Any, op: GatherBase, found: Any, inside: Any) -> Any:
    """What was found, but for what is outside where that is filled."""
    if op.outside is None:
        return found
    inside = inside.reshape((*inside.shape, *(1,) * (found.dim() - inside.dim())))
    return torch.where(inside, found, torch.full_like(found, op.outside))


def _take(torch: Any, op: frontend.GatherOp) -> Run:
    axis = op.number

    def run(x: Any, index: Any) -> Any:
        at, inside = _place(torch, op, index, x.shape[axis])
        found = x.index_select(axis, at.reshape(-1))
        found = found.reshape((*x.shape[:axis], *at.shape, *x.shape[axis + 1 :]))
        return _settled(torch, op, found, inside.reshape((*(1,) * axis, *inside.shape)))

    return run


def _take_along(torch: Any, op: frontend.GatherElementsOp) -> Run:
    axis = op.number

    def run(x: Any, index: Any) -> Any:
        at, inside = _place(torch, op, index, x.shape[axis])
        return _settled(torch, op, torch.gather(x, axis, at), inside)

    return run


def _take_tuples(torch: Any, op: frontend.GatherNdOp) -> Run:
    batch = op.number

    def run(x: Any, index: Any) -> Any:
        places: list[Any] = []
        for axis in range(batch):
            line = torch.arange(x.shape[axis], device=x.device)
            places.append(line.reshape((-1, *(1,) * (index.dim() - 2 - axis))))
        inside = torch.ones((), dtype=torch.bool, device=x.device)
        for number in range(index.shape[-1]):
            at, here = _place(torch, op, index[..., number], x.shape[batch + number])
            inside = inside & here
            places.append(at)
        return _settled(torch, op, x[tuple(places)], inside)

    return run


def _product(torch: Any, op: frontend.ReduceOp) -> Run:
    """PyTorch's product is over one axis."""

    def run(x: Any) -> Any:
        for axis in reversed(op.axes):
            x = torch.prod(x, axis, keepdim=op.keepdims is not None)
        return x

    return run


def _arg_reduce(torch: Any, op: frontend.ArgReduceOp) -> Run:
    """PyTorch's is the first of equal ones; the last is that of the turned axis."""
    kind = torch.int64 if tensor_of(op.result).element_type == i64 else torch.int32
    keep = op.keepdims is not None
    find = getattr(torch, f"arg{op.function}")

    def run(x: Any) -> Any:
        if op.last is None:
            return find(x, op.axis, keepdim=keep).to(kind)
        return (x.shape[op.axis] - 1 - find(x.flip(op.axis), op.axis, keepdim=keep)).to(kind)

    return run


def _sort(torch: Any, op: frontend.SortOp, sizes: Mapping[str, int]) -> Run:
    """All of an axis, or the first of it; which of equal ones topk takes PyTorch does not say."""
    kind = torch.int64 if tensor_of(op.places).element_type == i64 else torch.int32
    first = None if op.first == tensor_of(op.operand).dims[op.axis] else op.first.evaluate(sizes)
    turned = op.descending is not None

    def run(x: Any) -> Any:
        if first is None:
            values, places = torch.sort(x, dim=op.axis, descending=turned, stable=True)
        else:
            values, places = torch.topk(x, first, op.axis, largest=turned)
        return values, places.to(kind)

    return run


def _scan(torch: Any, op: frontend.ScanOp) -> Run:
    """PyTorch's scans go forward, and take the element itself along."""
    axis, names = op.axis, {"sum": "cumsum", "prod": "cumprod", "max": "cummax", "min": "cummin"}
    function = getattr(torch, names[op.function])

    def run(x: Any) -> Any:
        if op.is_reverse:
            x = x.flip(axis)
        found = function(x, axis)
        found = found if op.function in ("sum", "prod") else found.values
        if op.is_exclusive:
            element = tensor_of(op.result).element_type
            first = torch.full_like(found.narrow(axis, 0, 1), neutral(op.function, element))
            found = torch.cat([first, found.narrow(axis, 0, found.shape[axis] - 1)], axis)
        return found.flip(axis) if op.is_reverse else found

    return run


def _cube_root(torch: Any) -> Run:
    def run(x: Any) -> Any:
        return torch.sign(x) * torch.pow(torch.abs(x), 1 / 3)

    return run


def _resize(f: Any, op: frontend.ResizeOp, sizes: Mapping[str, int]) -> Run:
    known: Mapping[tuple[str, str | None], str] = {
        ("asymmetric", "floor"): "nearest",
        ("half_pixel", "round_prefer_ceil"): "nearest-exact",
    }
    between = {"linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}
    corners: bool | None = None
    if op.mode == "nearest":
        mode = known[op.coordinates, op.rounding]
    else:
        mode = between[op.mode][len(op.axes) - 1]
        corners = op.coordinates == "align_corners"
    shape = _shape(tensor_of(op.result).dims, sizes)
    size = [shape[axis] for axis in op.axes]
    last = op.axes[-1] == len(shape) - 1

    def run(x: Any) -> Any:
        if last:
            return f.interpolate(x, size=size, mode=mode, align_corners=corners)
        turned = x.movedim(-1, 1)
        return f.interpolate(turned, size=size, mode=mode, align_corners=corners).movedim(1, -1)

    return run


def _elementwise(torch: Any, name: str) -> Run:
    f = torch.nn.functional
    if name in FUNCTIONAL:
        return cast_any(getattr(f, FUNCTIONAL[name]))
    if name == "cbrt":
        return _cube_root(torch)
    if name == "gelu_tanh":
        return partial(cast_any(f.gelu), approximate="tanh")
    if name in UNARY:
        return cast_any(getattr(torch, name))
    binary = getattr(torch, BINARY[name])

    def run(a: Any, b: Any) -> Any:
        if isinstance(a, float) and not isinstance(b, float):
            a = torch.full((), a, dtype=b.dtype, device=b.device)
        return binary(a, b)

    return run
