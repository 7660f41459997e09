"""Each converter of ATen's ops against PyTorch: types, shapes and numbers of small examples."""

# pyright: basic, reportUnknownLambdaType=false

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import polyc  # noqa: E402
from polyc.importers.aten import quantized, ranks, special  # noqa: E402
from polyc.importers.fx import op_name  # noqa: E402
from polyc.importers.parts import from_graph  # noqa: E402
from polyc.importers.registry import converters  # noqa: E402

aot: Any = importlib.import_module("torch._functorch.aot_autograd")
aten: Any = torch.ops.aten
F: Any = torch.nn.functional

Case = tuple[str, Callable[..., Any], int]
"""A name, a function, and how many arguments it takes."""


class All(torch.nn.Module):
    """Several functions of their own arguments, whose results are one after another."""

    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *args: Any) -> Any:
        found: list[Any] = []
        given = list(args)
        for _, function, count in self.cases:
            found += flat(function(*given[:count]))
            del given[:count]
        return found


def flat(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple | list) else [found]


def lowered(module: Any, args: Sequence[Any]) -> Any:
    """The graph that a backend of ``torch.compile`` gets, where nothing is trained."""
    seen: list[Any] = []

    def keep(graph: Any, _: Any) -> Any:
        seen.append(graph)
        return graph

    with torch.no_grad():
        aot.aot_function(module, fw_compiler=keep, inference_compiler=keep)(*args)
    return seen[0]


def check(cases: Mapping[str, Sequence[Any]], lower: bool) -> set[str]:
    """What is imported gives PyTorch's types, shapes and numbers; NaN at the same places.

    A case is a function and its arguments, and all of them are one program: an exported one, or
    with ``lower`` the graph that ``torch.compile`` gives its backends.  Returns its ops.
    """
    args = tuple(one.contiguous() for _, *given in cases.values() for one in given)
    module = All([(name, one, len(given)) for name, (one, *given) in cases.items()])
    if lower:
        functional = lowered(module, args)
        part = from_graph(functional, "lower", {})
        imported, orders = part.imported, part.orders[len(part.tensors) :]
    else:
        program = torch.export.export(module, args, strict=False)
        functional = program.run_decompositions({})
        imported, orders = polyc.from_exported(program), None
    found = flat(polyc.compile(imported, device="cpu")(*args))
    if orders is not None:
        # A result lies as PyTorch has it.
        turned = zip(found, orders, strict=True)
        found = [one if o is None else one.permute(np.argsort(o).tolist()) for one, o in turned]
    wanted = [(name, one) for name, (f, *given) in cases.items() for one in flat(f(*given))]
    assert len(found) == len(wanted)
    for got, (name, one) in zip(found, wanted, strict=True):
        assert (got.dtype, got.shape) == (one.dtype, one.shape), name
        if one.dtype.is_floating_point:
            few = 2e-5 if one.dtype == torch.float32 else 0.01
            a, b = got.double().numpy(), one.double().numpy()
            np.testing.assert_allclose(a, b, rtol=few, atol=few, err_msg=name)
        else:
            assert torch.equal(got, one), name
    return {op_name(one) for one in functional.graph.nodes if one.op == "call_function"}


def g(*shape: int, seed: int = 0) -> Any:
    made = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=made)


def pos(*shape: int) -> Any:
    return g(*shape).abs() + 0.1


def unit(*shape: int) -> Any:
    return torch.tanh(g(*shape)) * 0.9


def whole(*shape: int, low: int = -5, high: int = 6) -> Any:
    made = torch.Generator().manual_seed(sum(shape))
    return torch.randint(low, high, shape, generator=made)


def yes(*shape: int, seed: int = 0) -> Any:
    return g(*shape, seed=seed) > 0


X, Y = g(3, 4), g(3, 4, seed=9)
I, J = whole(3, 4), whole(3, 4, low=1)  # noqa: E741
B, C = yes(3, 4), yes(3, 4, seed=7)
H = X.half()
IMAGE = g(2, 4, 6, 6)
SPECIAL = torch.tensor([0.0, -0.0, 1.5, -2.5, float("inf"), float("-inf"), float("nan"), 3.0])

UNARY = {
    **dict.fromkeys(
        [
            "neg",
            "abs",
            "sign",
            "relu",
            "relu6",
            "gelu",
            "silu",
            "mish",
            "sigmoid",
            "tanh",
            "exp",
            "expm1",
            "sin",
            "cos",
        ],
        X,
    ),
    **dict.fromkeys(
        [
            "erf",
            "erfc",
            "exp2",
            "sinh",
            "cosh",
            "tan",
            "atan",
            "asinh",
            "round",
            "floor",
            "ceil",
            "trunc",
        ],
        X,
    ),
    **dict.fromkeys(
        ["selu", "hardswish", "hardsigmoid", "softplus", "elu", "celu", "leaky_relu", "hardtanh"], X
    ),
    **dict.fromkeys(
        ["hardshrink", "softshrink", "square", "frac", "log_sigmoid", "logit", "nan_to_num", "sgn"],
        X,
    ),
    **dict.fromkeys(["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"], pos(3, 4)),
    **dict.fromkeys(["acos", "asin", "atanh"], unit(3, 4)),
    "acosh": pos(3, 4) + 1,
    "logit": torch.sigmoid(X),
    "fix": X,
    "positive": X,
}
WHOLE = ("neg", "abs", "sign", "relu", "floor", "ceil", "trunc", "round", "sin", "sqrt", "sigmoid")
WHOLE += ("square", "sgn", "nan_to_num", "exp")


SPECIALS = ("isnan", "isinf", "isfinite", "relu", "nan_to_num", "sign", "fmax", "maximum")
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "remainder",
    "fmod",
    "floor_divide",
]
PAIRS: dict[str, tuple[Any, Any]] = {
    "f32": (X, Y),
    "i64": (I, J),
    "f32 and i64": (X, I.abs() + 1),
    "f16 and f32": (H, X + 3),
    "a row": (X, g(4)),
    "f16 and a scalar": (H, torch.tensor(2.5)),
    "i64 and f32": (I, X[:1] + 3),
    "NaN": (SPECIAL, SPECIAL.flip(0)),
}


def named(name: str) -> Any:
    return getattr(aten, name)


CASES: dict[str, tuple[Any, ...]] = {
    # Types and promotion
    "to f16": (lambda x: x.to(torch.float16), X),
    "to i64": (lambda x: x.to(torch.int64), X * 3),
    "to i1": (lambda x: x.to(torch.bool), I),
    "to f32 of i1": (lambda x: x.to(torch.float32), B),
    "type_as": (lambda x, y: aten.type_as(x, y), X, H),
    "prims": (lambda x: torch.ops.prims.convert_element_type(x, torch.float16), X),
    "copy": (lambda x, y: aten.copy(x, y), X, I),
    "add scalar": (lambda x: x + 1.5, I),
    "add int scalar": (lambda x: x + 2, H),
    "add conditions": (lambda x, y: x + y, B, C),
    "mul conditions": (lambda x, y: x * y, B, C),
    "max conditions": (lambda x, y: (torch.maximum(x, y), torch.minimum(x, y)), B, C),
    "bool and int": (lambda x, y: x * y, B, I),
    "add alpha": (lambda x, y: torch.add(x, y, alpha=2), X, Y),
    "sub alpha": (lambda x, y: torch.sub(x, y, alpha=0.5), X, Y),
    "rsub": (lambda x: aten.rsub(x, 2.0), X),
    "rsub ints": (lambda x: 1 - x, I),
    "div floor": (lambda x, y: torch.div(x, y, rounding_mode="floor"), X * 4, Y),
    "div trunc": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), X * 4, Y),
    "div floor ints": (lambda x, y: torch.div(x, y, rounding_mode="floor"), I, J),
    "div trunc ints": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), I, J),
    "div ints": (lambda x, y: x / y, I, J),
    "floor by 0": (lambda x: torch.div(x, x * 0, rounding_mode="floor"), X),
    "pow 2": (lambda x: x**2, X),
    "pow 3": (lambda x: x**3, I),
    "pow 1": (lambda x: x**1, X),
    "pow half": (lambda x: x**0.5, pos(3, 4)),
    "pow -1": (lambda x: x**-1, pos(3, 4)),
    "pow -half": (lambda x: x**-0.5, pos(3, 4)),
    "pow -2": (lambda x: x**-2, pos(3, 4)),
    "pow 3 halves": (lambda x: x**1.5, pos(3, 4)),
    "pow -5 halves": (lambda x: x**-2.5, pos(3, 4)),
    "pow real": (lambda x: x**1.7, pos(3, 4)),
    "pow tensor": (lambda x, y: x**y, pos(3, 4), Y),
    "pow scalar": (lambda x: 2.0**x, X),
    "clamp": (lambda x: torch.clamp(x, -0.5, 0.5), X),
    "clamp ints": (lambda x: torch.clamp(x, min=0), I),
    "clamp tensors": (lambda x, y: torch.clamp(x, y), X, Y),
    "clamp_min": (lambda x: aten.clamp_min(x, 0.1), X),
    "clamp_max": (lambda x: aten.clamp_max(x, 0.1), X),
    "lerp": (lambda x, y: torch.lerp(x, y, 0.3), X, Y),
    "lerp tensor": (lambda x, y: torch.lerp(x, y, x), X, Y),
    "addcmul": (lambda x, y: torch.addcmul(x, x, y, value=0.5), X, Y),
    "addcdiv": (lambda x, y: torch.addcdiv(x, x, y.abs() + 1, value=0.5), X, Y),
    "atan2": (lambda x, y: torch.atan2(x, y), X, Y),
    "atan2 ints": (lambda x, y: torch.atan2(x, y), I, J),
    "hypot": (lambda x, y: torch.hypot(x, y), X, Y),
    "xlogy": (lambda x, y: torch.xlogy(torch.relu(x), y), X, pos(3, 4)),
    "logaddexp": (lambda x, y: torch.logaddexp(x, y), X, Y),
    "round digits": (lambda x: torch.round(x, decimals=1), X),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"), X),
    "hardtanh": (lambda x: F.hardtanh(x, -0.3, 0.7), X),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.3), X),
    "prelu": (lambda x, w: F.prelu(x, w), g(2, 4, 3), g(4)),
    "prelu one": (lambda x, w: F.prelu(x, w), X, g(1)),
    "elu": (lambda x: F.elu(x, 0.4), X),
    "celu": (lambda x: F.celu(x, 0.4), X),
    "softplus": (lambda x: F.softplus(x * 20, 2.0, 5.0), X),
    "logsigmoid": (lambda x: F.logsigmoid(x), X),
    "log_sigmoid_forward": (lambda x: aten.log_sigmoid_forward(x)[0], X),
    "logit eps": (lambda x: torch.logit(x, 0.2), unit(3, 4).abs()),
    "threshold": (lambda x: F.threshold(x, 0.2, 5.0), X),
    "shrink": (lambda x: (F.hardshrink(x, 0.3), F.softshrink(x, 0.3)), X),
    "glu": (lambda x: F.glu(x, 1), X),
    "nan_to_num": (lambda x: torch.nan_to_num(x, 1.0, 2.0, -3.0), SPECIAL),
    "dropout": (lambda x: F.dropout(x, 0.5, False), X),
    "native_dropout": (lambda x: aten.native_dropout(x, 0.5, False)[0], X),
    # Relations
    "eq": (lambda x, y: (x == y, x != y), I, J),
    "eq conditions": (lambda x, y: (x == y, x != y), B, C),
    "order": (lambda x, y: (x < y, x <= y, x > y, x >= y), X, Y),
    "order scalar": (lambda x: (x < 1, x <= 0.5, x > 1, x >= 2), I),
    "order conditions": (lambda x, y: (x < y, x <= y, x > y, x >= y), B, C),
    "bits": (lambda x, y: (x & y, x | y, x ^ y, ~x), I, J),
    "bits of conditions": (lambda x, y: (x & y, x | y, x ^ y, ~x), B, C),
    "bitwise": (
        lambda x: (aten.bitwise_and(x, 3), aten.bitwise_or(x, 3), aten.bitwise_xor(x, 1)), I
    ),
    "shifts": (lambda x, y: (x << y, x >> y), I, J.abs()),
    "shift ops": (
        lambda x, y: (aten.bitwise_left_shift(x, y), aten.bitwise_right_shift(x, y)), I, J.abs()
    ),
    "logical": (
        lambda x, y: (
            torch.logical_and(x, y), torch.logical_or(x, y), torch.logical_xor(x, y),
            torch.logical_not(x),
        ),
        I, B,
    ),
    "where": (lambda c, x, y: torch.where(c, x, y), B, X, Y),
    "where scalar": (lambda c, x: torch.where(c, x, 2.5), B, I.float()),
    "where promotes": (lambda c, x, y: torch.where(c, x, y), B, I, Y),
    "where conditions": (lambda c, x: torch.where(c, x, ~x), B, C),
    "masked_fill": (lambda x, m: x.masked_fill(m, float("-inf")), X, B),
    "masked_fill tensor": (lambda x, m: x.masked_fill(m, torch.tensor(3)), I, B),
    # Movements
    "view": (lambda x: x.view(2, 6), X),
    "view -1": (lambda x: x.reshape(-1, 2), X),
    "flatten": (lambda x: (aten.flatten(x, 1, -2), torch.flatten(x)), IMAGE),
    "unflatten": (lambda x: x.unflatten(1, (2, -1)), X),
    "permute": (lambda x: x.permute(2, 0, 1), g(2, 3, 4)),
    "transpose": (lambda x: (x.transpose(0, -1), x.swapaxes(0, 1), x.mT), g(2, 3, 4)),
    "t": (lambda x: (x.t(), x.T), X),
    "movedim": (lambda x: (torch.movedim(x, 0, 2), torch.movedim(x, (0, 1), (1, 2))), g(2, 3, 4)),
    "expand": (lambda x: x.expand(3, -1, 4), g(2, 1)),
    "expand_as": (lambda x, y: (x.expand_as(y), torch.broadcast_to(x, (5, 3, 4))), g(4), X),
    "view_as": (lambda x, y: (x.view_as(y), x.reshape_as(y)), X, g(6, 2)),
    "squeeze": (lambda x: (x.squeeze(), x.squeeze(0), x.squeeze(1), x.squeeze((0, 2))), g(1, 3, 1)),
    "unsqueeze": (lambda x: (x.unsqueeze(0), x.unsqueeze(-1)), X),
    "slice": (lambda x: (x[1:], x[:, -3:-1], x[:, ::2], x[5:], x[2:1]), X),
    "narrow": (lambda x: x.narrow(1, 1, 2), X),
    "select": (lambda x: (x[1], x[:, -1]), X),
    "slice_scatter": (lambda x, y: torch.slice_scatter(x, y, 1, 1, 3), X, g(3, 2)),
    "slice_scatter step": (lambda x, y: torch.slice_scatter(x, y, 1, 0, 4, 2), X, g(3, 2)),
    "select_scatter": (lambda x, y: torch.select_scatter(x, y, 1, -1), X, g(3)),
    "split": (lambda x: torch.split(x, 3, 1), X),
    "split sizes": (lambda x: torch.split(x, [1, 3], 1), X),
    "chunk": (lambda x: torch.chunk(x, 3, 1), g(2, 7)),
    "tensor_split": (lambda x: torch.tensor_split(x, 3, 1), g(2, 7)),
    "unbind": (lambda x: torch.unbind(x, 1), X),
    "as_strided": (lambda x: torch.as_strided(x * 2, (3, 4), (4, 1)), X),
    "diagonal": (lambda x: (torch.diagonal(x), torch.diagonal(x, 1), torch.diagonal(x, -1)), X),
    "diagonal axes": (lambda x: torch.diagonal(x, 0, 0, 2), g(2, 3, 4)),
    "flip": (lambda x: torch.flip(x, [0, 1]), X),
    "flip around a scan": (
        lambda x: (x.flip(1).cumsum(1).flip(1), x.flip(0).cumsum(1).flip(0), x.flip(0).cumprod(0)
                   .flip(1), x.flip(1).cumsum(1).flip(1).flip(1), x.flip(1).cumsum(1).flip(-1, 0)),
        X,
    ),
    "roll": (lambda x: (torch.roll(x, 1, 1), torch.roll(x, (1, -2), (0, 1)), torch.roll(x, 3)), X),
    "cat": (lambda x, y: torch.cat([x, y], 1), X, Y),
    "cat promotes": (lambda x, y: torch.cat([x, y]), X, I),
    "stack": (lambda x, y: torch.stack([x, y], -1), X, Y),
    "repeat": (lambda x: (x.repeat(2, 1, 3), torch.tile(x, (2,))), X),
    "repeat_interleave": (
        lambda x: (torch.repeat_interleave(x, 2, 1), torch.repeat_interleave(x, 2)), X
    ),
    "meshgrid": (lambda x, y: torch.meshgrid(x, y, indexing="ij"), g(2), g(3)),
    "meshgrid xy": (lambda x, y: torch.meshgrid(x, y, indexing="xy"), g(2), g(3)),
    "pad": (lambda x: F.pad(x, (1, 2, 0, 1), value=2.0), X),
    "pad cuts": (lambda x: F.pad(x, (-1, 2)), X),
    "pad integers": (lambda x: (F.pad(x, (1, 2), value=3), F.pad(x, (-1, 0))), I),
    "constant_pad": (lambda x: aten.constant_pad_nd(x, [1, 0, 0, 1], 0.5), X),
    "pad reflect": (lambda x: F.pad(x, (2, 1, 1, 2), mode="reflect"), IMAGE),
    "pad replicate": (lambda x: F.pad(x, (2, 1, 1, 2), mode="replicate"), IMAGE),
    "pad circular": (lambda x: F.pad(x, (2, 1, 1, 2), mode="circular"), IMAGE),
    "reflection_pad": (lambda x: aten.reflection_pad2d(x, [1, 1, 2, 0]), IMAGE),
    "replication_pad": (lambda x: aten.replication_pad1d(x, [1, 2]), g(2, 3, 4)),
    "pixel_shuffle": (lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2)), IMAGE),
    "channel_shuffle": (lambda x: aten.channel_shuffle(x, 2), IMAGE),
    # Creation
    "full": (lambda x: x + torch.full((3, 4), 2.5) + torch.full((), 3), X),
    "full like": (lambda x: (torch.full_like(x, 2), torch.zeros_like(x), torch.ones_like(x)), H),
    "full of conditions": (lambda x: x & torch.full((3, 4), True), B),
    "new": (lambda x: (x.new_full((2,), 3), x.new_zeros(2), x.new_ones(2)), I),
    "zeros": (lambda x: (x + torch.zeros(3, 4), x + torch.ones(4)), X),
    "fill": (lambda x: aten.fill(x, 2.0), X),
    "scalar_tensor": (lambda x: x + torch.scalar_tensor(2.0), X),
    "arange": (lambda x: (x + torch.arange(4), x + torch.arange(1, 9, 2)), X),
    "arange real": (lambda x: (x + torch.arange(4.0), x + torch.arange(0.5, 2.5, 0.5)), X),
    "arange back": (lambda x: x + torch.arange(8, 0, -2), I),
    "iota": (
        lambda x: x
        + torch.ops.prims.iota(
            4, start=1, step=2, dtype=torch.int64, device=torch.device("cpu"), requires_grad=False
        ),
        I,
    ),
    "linspace": (lambda x: (x + torch.linspace(-1, 1, 4), torch.linspace(0.0, 1.0, 1)), X),
    "eye": (lambda x: (x + torch.eye(3, 4), torch.eye(2, dtype=torch.bool)), X),
    "triangles": (lambda x: (torch.triu(x, 1), torch.tril(x, -1), torch.tril(x)), X),
    "triangle of conditions": (lambda x: torch.tril(x), B),
    # Reductions
    "sum": (lambda x: (x.sum(), x.sum(1), x.sum((0, 1), keepdim=True)), X),
    "sum ints": (lambda x: (x.sum(), x.sum(0)), I),
    "sum conditions": (lambda x: (x.sum(), x.sum(0, dtype=torch.float32)), B),
    "mean": (lambda x: (x.mean(), x.mean(-1, keepdim=True), x.mean((0, 1))), X),
    "prod": (lambda x: (x.prod(), x.prod(1)), X),
    "extremes": (lambda x: (x.max(), x.min(), x.amax(1), x.amin((0, 1))), X),
    "extremes with places": (lambda x: (*x.max(1), *x.min(0, keepdim=True)), X),
    "extremes of conditions": (lambda x: (x.amax(1), x.amin(0)), B),
    "aminmax": (lambda x: torch.aminmax(x, dim=1), X),
    "places": (lambda x: (x.argmax(), x.argmax(1), x.argmin(0, keepdim=True)), X),
    "any": (lambda x: (x.any(), x.any(1), x.all(0), x.all()), B),
    "any of numbers": (lambda x: (x.any(1), x.all(0, keepdim=True)), I),
    "var": (lambda x: (x.var(), x.var(1), x.std(0, correction=0), x.std()), X),
    "var overloads": (
        lambda x: (aten.var.dim(x, [1], False), aten.std.dim(x, [1]), aten.var(x), aten.std(x)), X
    ),
    "var_mean overloads": (
        lambda x: (*aten.var_mean.dim(x, [1]), *aten.std_mean.dim(x, [0], False)), X
    ),
    "var_mean": (lambda x: (*torch.var_mean(x, 1), *torch.std_mean(x, 1, correction=0)), X),
    "norms": (
        lambda x: (x.norm(), x.norm(dim=1), torch.linalg.vector_norm(x, 1, 1),
                   torch.linalg.vector_norm(x, float("inf"), 1), torch.linalg.vector_norm(x, 3, 1)),
        X,
    ),
    "weight norm": (
        lambda x, g: (torch._weight_norm(x, g, 0), *aten._weight_norm_interface(x, g, 0)),
        X,
        g(3, 1),
    ),
    "norm 0": (lambda x: torch.linalg.vector_norm(torch.relu(x), 0, 1), X),
    "linalg_norm": (lambda x: torch.linalg.norm(x, dim=1), X),
    "softmax": (lambda x: (x.softmax(-1), x.log_softmax(0)), X),
    "softmax in f32": (lambda x: x.softmax(-1, dtype=torch.float32), H),
    "_softmax": (lambda x: (aten._softmax(x, -1, False), aten._log_softmax(x, 1, False)), X),
    "_safe_softmax": (lambda x: aten._safe_softmax(x, -1), X),
    "logsumexp": (lambda x: x.logsumexp(1), X),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), X),
    "cumsum ints": (lambda x: x.cumsum(1), I),
    "cumsum conditions": (lambda x: x.cumsum(1), B),
    "cumprod": (lambda x: x.cumprod(1), X),
    "diff": (lambda x: (x.diff(), x.diff(dim=0, prepend=x[:1])), I),
    "diff of conditions": (lambda x: x.diff(), B),
    "topk": (lambda x: (*x.topk(2), *x.topk(2, dim=0, largest=False)), X),
    "sort": (lambda x: (*x.sort(), *x.sort(dim=0, descending=True), x.argsort()), X),
    "sort stable": (lambda x: (*torch.sort(x, stable=True), torch.argsort(x, stable=True)), I),
    # Indices
    "embedding": (lambda w, i: F.embedding(i, w), g(10, 4), I.abs()),
    "index_select": (lambda x, i: x.index_select(1, i), X, torch.tensor([3, 0, 0])),
    "gather": (lambda x, i: x.gather(1, i), X, I[:2].abs() % 4),
    "take_along_dim": (lambda x, i: torch.take_along_dim(x, i, 1), X, I.abs() % 4),
    "take_along_dim flat": (lambda x, i: torch.take_along_dim(x, i), X, I.abs() % 4),
    "take": (lambda x, i: torch.take(x, i), X, I.abs()),
    "index": (lambda x, i: (x[i], x[:, i]), X, torch.tensor([2, -1])),
    "index two": (lambda x, i, j: (x[i, j], x[i[:, None], j]), X, I[0] % 3, J[0] % 4),
    "index behind": (lambda x, i, j: x[:, i, j], g(2, 3, 4), I[0] % 3, J[0] % 4),
    "index apart": (lambda x, i, j: x[i, :, j], g(2, 3, 4), I[0] % 2, J[0] % 4),
    "index_put": (lambda x, i, v: torch.index_put(x, [i], v), X, torch.tensor([2, 0]), g(2, 4)),
    "index_put adds": (
        lambda x, i, j: torch.index_put(x, [i, j], torch.tensor(2.0), True), X, I[0] % 3, J[0] % 4
    ),
    "index_put where": (lambda x, m: torch.index_put(x, [m], torch.tensor(2.0)), X, B),
    "index_add": (
        lambda x, i, v: torch.index_add(x, 0, i, v, alpha=2), X, torch.tensor([2, 2]), g(2, 4)
    ),
    "index_copy": (lambda x, i, v: torch.index_copy(x, 0, i, v), X, torch.tensor([2, 0]), g(2, 4)),
    "index_fill": (lambda x, i: torch.index_fill(x, 1, i, 3.0), X, torch.tensor([2, 0])),
    "scatter": (lambda x, i, v: torch.scatter(x, 0, i, v), X, torch.tensor([[0, 1, 2]]), g(2, 3)),
    "scatter value": (lambda x, i: torch.scatter(x, 1, i, 2.0), X, torch.tensor([[0], [1], [3]])),
    "scatter_add": (lambda x, i, v: torch.scatter_add(x, 1, i, v), X, I.abs() % 4, Y),
    "scatter mul": (
        lambda x, i, v: torch.scatter(x, 1, i, v, reduce="multiply"), X, I.abs() % 4, Y
    ),
    "scatter_reduce": (
        lambda x, i, v: torch.scatter_reduce(x, 1, i, v, "amax"), X, I.abs() % 4, Y
    ),
    # Products
    "linear": (lambda x, w, b: (F.linear(x, w), F.linear(x, w, b)), g(2, 3, 4), g(5, 4), g(5)),
    "matmul": (lambda x, y: (x @ y, x @ y[0], x[0, 0] @ y[0]), g(2, 3, 4), g(2, 4, 5)),
    "mm": (lambda x, y: (aten.mm(x, y), aten.mv(x, y[:, 0]), torch.dot(x[0], y[:, 0])), X, g(4, 5)),
    "bmm": (lambda x, y: torch.bmm(x, y), g(2, 3, 4), g(2, 4, 5)),
    "addmm": (
        lambda b, x, y: (torch.addmm(b, x, y), torch.addmm(b, x, y, beta=0.5, alpha=2)),
        g(5), X, g(4, 5),
    ),
    "addmm 0": (lambda b, x, y: torch.addmm(b, x, y, beta=0), g(5), X, g(4, 5)),
    "baddbmm": (lambda b, x, y: torch.baddbmm(b, x, y), g(2, 3, 5), g(2, 3, 4), g(2, 4, 5)),
    "outer": (lambda x, y: torch.outer(x, y), g(3), g(4)),
    "linalg_cross": (
        lambda x, y, z: (torch.linalg.cross(x, y), torch.cross(z, z.flip(0), dim=1)),
        g(2, 5, 3), g(2, 1, 3), g(4, 3, 2),
    ),
    "einsum": (
        lambda x, y: (torch.einsum("bij,bjk->bik", x, y), torch.einsum("bij,bjk->kb", x, y)),
        g(2, 3, 4), g(2, 4, 5),
    ),
    "einsum three": (lambda x, y: torch.einsum("ij,ij,j->i", x, y, y[0]), X, Y),
    "einsum implicit": (lambda x: torch.einsum("ij,kj", x, x), X),
    # Layers
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 1), g(2, 4, 9), g(6, 4, 3), g(6)),
    "conv2d": (lambda x, w: F.conv2d(x, w, None, (2, 1), (1, 2), 2, 2), IMAGE, g(6, 2, 3, 3)),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same"), IMAGE, g(6, 4, 2, 3)),
    "conv2d valid": (lambda x, w: F.conv2d(x, w, padding="valid"), IMAGE, g(6, 4, 2, 3)),
    "conv2d of one": (lambda x, w: F.conv2d(x[0], w), IMAGE, g(6, 4, 2, 3)),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), g(1, 2, 4, 4, 4), g(3, 2, 3, 3, 3)),
    "convolution": (
        lambda x, w: aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1),
        IMAGE, g(6, 4, 3, 3),
    ),
    "convolution transposed": (
        lambda x, w: aten.convolution(x, w, None, [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
        IMAGE, g(4, 6, 3, 3),
    ),
    "conv_transpose": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2), IMAGE, g(4, 3, 3, 3), g(6)
    ),
    "conv_transpose1d": (lambda x, w: F.conv_transpose1d(x, w, stride=2), g(2, 4, 5), g(4, 3, 3)),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v), *(g(2, 4, n, 8) for n in (5, 7, 7))
    ),
    "attention causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3),
        *(g(2, 4, n, 8) for n in (5, 7, 7)),
    ),
    "attention masks": (
        lambda q, k, v, m, a: (
            F.scaled_dot_product_attention(q, k, v, m), F.scaled_dot_product_attention(q, k, v, a)
        ),
        *(g(2, 4, n, 8) for n in (5, 7, 7)), yes(2, 1, 5, 7), g(5, 7),
    ),
    "attention groups": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        g(2, 4, 5, 8), g(2, 2, 7, 8), g(2, 2, 7, 8),
    ),
    "attention of one head": (
        lambda q, k: F.scaled_dot_product_attention(q, k, k), g(5, 8), g(7, 8)
    ),
    "attention for cpu": (
        lambda q, k: aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, 0.0, True),
        g(2, 4, 5, 8), g(2, 4, 5, 8),
    ),
    "encoder layer": (
        lambda x, *w: tuple(
            aten._transformer_encoder_layer_fwd(x, 8, 2, *w[:4], gelu, first, 1e-5, *w[4:])
            for gelu in (False, True) for first in (False, True)
        ),
        g(2, 5, 8), g(24, 8), g(24), g(8, 8), g(8), *(g(8, seed=i) for i in range(4)),
        g(6, 8), g(6), g(8, 6), g(8),
    ),
    "layer_norm": (
        lambda x, w, b: (F.layer_norm(x, (4,), w, b), F.layer_norm(x, (3, 4))), X, g(4), g(4)
    ),
    "native_layer_norm": (lambda x, w: aten.native_layer_norm(x, [4], w, None, 1e-5), X, g(4)),
    "rms_norm": (lambda x, w: (F.rms_norm(x, (4,), w), F.rms_norm(x, (4,), eps=0.1)), X, g(4)),
    "_fused_rms_norm": (lambda x, w: aten._fused_rms_norm(x, [4], w, 1e-5)[0], X, g(4)),
    "group_norm": (lambda x, w: (F.group_norm(x, 2), F.group_norm(x, 2, w, w)), IMAGE, g(4)),
    "native_group_norm": (
        lambda x, w: aten.native_group_norm(x, w, None, 2, 4, 36, 2, 1e-5), IMAGE, g(4)
    ),
    "instance_norm": (lambda x, w: (F.instance_norm(x), F.instance_norm(x, weight=w)), IMAGE, g(4)),
    "instance_norm kept": (
        lambda x, w: F.instance_norm(x, w, w.abs(), use_input_stats=False), IMAGE, g(4)
    ),
    "batch_norm": (
        lambda x, m, v: (F.batch_norm(x, m, v), F.batch_norm(x, m, v, m, v, eps=0.1)),
        IMAGE, g(4), pos(4),
    ),
    "native batch_norm": (
        lambda x, m, v: (
            aten._native_batch_norm_legit_no_training(x, m, v, m, v, 0.1, 1e-5)[0],
            aten.native_batch_norm(x, m, v, m, v, False, 0.1, 1e-5)[0],
        ),
        IMAGE, g(4), pos(4),
    ),
    "max_pool": (lambda x: (F.max_pool2d(x, 2), F.max_pool2d(x, 3, 2, 1, 1, True)), IMAGE),
    "max_pool of one": (lambda x: F.max_pool2d(x[0], 2), IMAGE),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 1), g(2, 4, 9)),
    "max_pool places": (lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), IMAGE),
    "avg_pool": (
        lambda x: (F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                   F.avg_pool2d(x, 2, divisor_override=3)),
        IMAGE,
    ),
    "avg_pool1d": (lambda x: F.avg_pool1d(x, 3, 2, 1), g(2, 4, 9)),
    "adaptive": (
        lambda x: (F.adaptive_avg_pool2d(x, 1), F.adaptive_avg_pool2d(x, (3, 4)),
                   F.adaptive_max_pool2d(x, 2)),
        IMAGE,
    ),
    "nearest": (
        lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(4, 9))), IMAGE
    ),
    "bilinear": (
        lambda x: (F.interpolate(x, scale_factor=2.0, mode="bilinear"),
                   F.interpolate(x, size=(4, 9), mode="bilinear", align_corners=True)),
        IMAGE,
    ),
    "bicubic": (lambda x: F.interpolate(x, size=(4, 9), mode="bicubic"), IMAGE),
    "linear resize": (lambda x: F.interpolate(x, size=7, mode="linear"), g(2, 3, 5)),
    "upsample overloads": (
        lambda x: (aten.upsample_nearest2d(x, [9, 12]), aten.upsample_bilinear2d(x, [9, 12], False),
                   aten.upsample_bicubic2d(x, [9, 12], True)),
        IMAGE,
    ),
    "nearest exact": (
        lambda x, y: (F.interpolate(x, size=(9, 5), mode="nearest-exact"),
                      aten._upsample_nearest_exact2d(x, [3, 12]),
                      F.interpolate(y, size=7, mode="nearest-exact")),
        IMAGE, g(2, 3, 5),
    ),
    "unfold": (
        lambda x, y: (F.unfold(x, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1)),
                      aten.im2col(x, [2, 2], [1, 1], [0, 0], [2, 2]), F.unfold(y, 3)),
        IMAGE, g(2, 4, 5),
    ),
    "fold": (
        lambda x, y, z: (F.fold(x, (5, 6), (3, 2), padding=(1, 0), stride=(2, 1)),
                         F.fold(x, (10, 11), (3, 2), (2, 3), (2, 0), (2, 3)),
                         F.fold(y, (5, 4), 2, stride=2),
                         F.fold(y, (4, 3), 2, stride=2, padding=(0, 1)),
                         F.fold(z, (4, 5), 2, dilation=2)),
        g(2, 12, 15), g(2, 8, 4), g(8, 6),
    ),
    "grid_sample": (
        lambda x, at: (F.grid_sample(x, at, align_corners=False),
                       F.grid_sample(x, at, "nearest", "border", True)),
        IMAGE, unit(2, 3, 5, 2) * 1.5,
    ),
    # Losses
    "broadcast_tensors": (lambda x, y: torch.broadcast_tensors(x, y), g(3, 1), g(2, 1, 4)),
    "losses of differences": (
        lambda x, y: (F.mse_loss(x, y), F.l1_loss(x, y, reduction="sum"), F.smooth_l1_loss(x, y),
                      F.smooth_l1_loss(x, y, beta=0.5, reduction="none"), F.huber_loss(x, y),
                      F.huber_loss(x, y, delta=0.3, reduction="sum"),
                      aten.smooth_l1_loss(x, y, 1, 0.0)),
        X, Y,
    ),
    "cross_entropy": (
        lambda x, y, w: (F.cross_entropy(x, y), F.cross_entropy(x, y, w, reduction="sum"),
                         F.cross_entropy(x, y, w), F.cross_entropy(x, y, ignore_index=1),
                         F.cross_entropy(x, y, w, label_smoothing=0.1, ignore_index=1),
                         F.cross_entropy(x, y, label_smoothing=0.2, reduction="none"),
                         F.cross_entropy(x[0], y[0])),
        g(5, 4) * 3, whole(5, low=0, high=4), pos(4),
    ),
    "cross_entropy of pixels": (
        lambda x, y: (F.cross_entropy(x, y), F.cross_entropy(x, y, reduction="none")),
        g(2, 4, 3, 3), whole(2, 3, 3, low=0, high=4),
    ),
    "cross_entropy of shares": (
        lambda x, y, w: (F.cross_entropy(x, y), F.cross_entropy(x, y, w, reduction="sum"),
                         F.cross_entropy(x, y, label_smoothing=0.1),
                         F.cross_entropy(x[0], y[0])),
        g(5, 4), torch.softmax(g(5, 4, seed=3), 1), pos(4),
    ),
    "cross_entropy of large scores": (
        lambda x, y: F.cross_entropy(x, y), g(5, 4) * 1e4, whole(5, low=0, high=4),
    ),
    "nll_loss": (
        lambda x, y, w: (F.nll_loss(x, y), F.nll_loss(x, y, w, ignore_index=2),
                         aten.nll_loss_forward(x, y, w, 1, -100)[0],
                         F.nll_loss(x[0], y[0])),
        torch.log_softmax(g(5, 4), 1), whole(5, low=0, high=4), pos(4),
    ),
    "kl_div": (
        lambda x, y: (F.kl_div(x, y, reduction="batchmean"), F.kl_div(x, y, reduction="sum"),
                      F.kl_div(x, y.log(), reduction="none", log_target=True)),
        torch.log_softmax(X, 1), torch.softmax(Y, 1),
    ),
    "binary_cross_entropy": (
        lambda x, y, w: (F.binary_cross_entropy(x, y), F.binary_cross_entropy(x, y, w),
                         F.binary_cross_entropy_with_logits(x, y, w),
                         F.binary_cross_entropy_with_logits(x, y, pos_weight=w)),
        torch.sigmoid(X), torch.sigmoid(Y), pos(3, 4),
    ),
    "losses of signs": (
        lambda x, y, t: (F.soft_margin_loss(x, t), F.margin_ranking_loss(x, y, t, margin=0.2),
                         F.hinge_embedding_loss(x, t, margin=0.5)),
        X, Y, g(3, 4, seed=5).sign(),
    ),
    "poisson_nll_loss": (
        lambda x, y: (F.poisson_nll_loss(x, y), F.poisson_nll_loss(y, y, log_input=False),
                      F.poisson_nll_loss(x, y * 4, full=True)),
        X, pos(3, 4),
    ),
    "losses of pairs": (
        lambda x, y, t: (F.cosine_embedding_loss(x, y, t, margin=0.1),
                         F.triplet_margin_loss(x, y, x + y * y),
                         F.triplet_margin_loss(x, y, x * y, margin=0.5, p=1.0, swap=True,
                                               reduction="none"),
                         F.cosine_similarity(x, y, dim=0), F.cosine_similarity(x, y, dim=-1),
                         F.pairwise_distance(x, y), F.pairwise_distance(x, y, 3.0, keepdim=True)),
        X, Y, g(3, seed=5).sign(),
    ),
    "other names": (
        lambda x, y: (torch.multiply(x, y), torch.subtract(x, y, alpha=2), torch.negative(x),
                      torch.absolute(x), torch.arctan2(x, y), torch.greater(x, y),
                      torch.less_equal(x, 0.5), torch.special.expit(x)),
        X, Y,
    ),
}  # fmt: skip


ONLY_ON_GPUS = {"flash_attention", "efficient_attention", "cudnn_attention"}
"""Attention as PyTorch has it there; each is what the others are."""

GROUPS: dict[str, Callable[[], Mapping[str, Sequence[Any]]]] = {
    "of one": lambda: {one: (named(one), x) for one, x in UNARY.items()},
    "of integers": lambda: {one: (named(one), I.abs() + 1) for one in WHOLE},
    "of special numbers": lambda: {
        **{one: (named(one), SPECIAL) for one in SPECIALS[:-2]},
        **{one: (named(one), SPECIAL, SPECIAL.flip(0)) for one in SPECIALS[-2:]},
        **{f"{one} of integers": (named(one), I) for one in SPECIALS[:3]},
    },
    "of two": lambda: {
        f"{one} of {pair}": (named(one), *given)
        for pair, given in PAIRS.items()
        for one in BINARY
        if pair != "NaN" or one in ("add", "mul", "fmax", "fmin", "maximum", "minimum")
    },
}
PARTS = 6
"""Programs that the other cases are tested in."""


@cache
def said(group: str | int, lower: bool) -> set[str]:
    if isinstance(group, int):
        names = list(CASES)[group::PARTS]
        return check({name: CASES[name] for name in names}, lower)
    return check(GROUPS[group](), lower)


@pytest.mark.parametrize("lower", [False, True], ids=["exported", "compiled"])
@pytest.mark.parametrize("group", [*GROUPS, *range(PARTS)])
def test_ops(group: str | int, lower: bool) -> None:
    assert said(group, lower)


BY_KNOWN_SIZES = (
    *("addbmm", "bilinear", "bucketize", "cdist", "embedding_bag"),
    *("grouped_mm", "histc", "masked_scatter"),
    *("searchsorted", "unfold", "upsample_bicubic_smooth", "upsample_bilinear_smooth"),
)
"""Converters with cases in ``test_decomposed.py``."""

ELSEWHERE = {one.__name__ for one in (quantized, ranks, special)}
"""Files whose converters, and these, have cases in ``test_rarer_ops.py``."""

RARER = (
    "as_strided_scatter",
    "block_diag",
    "diagonal_scatter",
    "index_reduce",
    "std_mean_all",
    "var_mean_all",
)


def test_every_converter_has_a_case() -> None:
    names: set[str] = set()
    for group in [*GROUPS, *range(PARTS)]:
        names |= said(group, False) | said(group, True)
    asked = names | {one.rpartition(".")[0] for one in names}
    own = {
        n: one
        for n, one in converters("torch").items()
        if n.startswith(("aten.", "prims.")) and one.__module__ not in ELSEWHERE
    }
    untested = {one.__name__ for one in own.values()} - {
        one.__name__ for n, one in own.items() if n in asked
    }
    assert sorted(untested) == sorted({*ONLY_ON_GPUS, *BY_KNOWN_SIZES, *RARER})
