"""Functions over traced values: ``polyc.softmax``, ``polyc.attention``, ``polyc.where``, ….

Each is an op of the ``frontend`` dialect, or a composition of a few.  What an op means on NaN,
infinities and empty axes is in docs/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xdsl.dialects.builtin import f32

from polyc.dialects import frontend
from polyc.dialects.common.dim import Dim
from polyc.dialects.common.elements import Number
from polyc.dialects.common.sizes import divided
from polyc.dialects.frontend import tensor
from polyc.trace.annotations import element_name
from polyc.trace.captured import is_array
from polyc.trace.elements import ELEMENTS, places_type
from polyc.trace.sizes import SizeLike, dim_of, size_of
from polyc.trace.source import public, refuse
from polyc.trace.values import Axes, Value, current, operand, same_type, value_of


def _unary(fn: str, doc: str) -> Callable[[Value], Value]:
    def function(x: Value) -> Value:
        one = value_of(x)
        return Value(one.builder, one.builder.elementwise(fn, one.ssa))

    function.__name__ = function.__qualname__ = fn
    function.__doc__ = doc
    return public(function)


abs = _unary("abs", "The absolute value.")
acos = _unary("acos", "The angle whose cosine is x; NaN beyond -1 and 1.")
acosh = _unary("acosh", "What cosh is x of, 0 or more; NaN below 1.")
asin = _unary("asin", "The angle whose sine is x; NaN beyond -1 and 1.")
asinh = _unary("asinh", "What sinh is x of.")
atan = _unary("atan", "The angle whose tangent is x.")
atanh = _unary("atanh", "What tanh is x of; NaN beyond -1 and 1.")
cbrt = _unary("cbrt", "The third root, of numbers below 0 too.")
ceil = _unary("ceil", "The next whole number upwards.")
cos = _unary("cos", "The cosine of an angle in radians.")
cosh = _unary("cosh", "The hyperbolic cosine.")
elu = _unary("elu", "x above 0, else exp(x) - 1.")
erf = _unary("erf", "The error function.")
erfc = _unary("erfc", "1 less the error function, near its true value where that is small too.")
exp = _unary("exp", "e to the x.")
exp2 = _unary("exp2", "2 to the x.")
expm1 = _unary("expm1", "exp(x) - 1, near its true value around 0 too.")
floor = _unary("floor", "The next whole number downwards.")
hard_sigmoid = _unary("hard_sigmoid", "relu6(x + 3) / 6.")
hard_swish = _unary("hard_swish", "x * hard_sigmoid(x).")
log = _unary("log", "The natural logarithm; NaN below 0, -inf at 0.")
log10 = _unary("log10", "The logarithm to base 10; NaN below 0, -inf at 0.")
log1p = _unary("log1p", "log(1 + x), near its true value around 0 too; NaN below -1.")
log2 = _unary("log2", "The logarithm to base 2; NaN below 0, -inf at 0.")
log_sigmoid = _unary("log_sigmoid", "The logarithm of sigmoid(x), which does not overflow.")
mish = _unary("mish", "x * tanh(softplus(x)).")
reciprocal = _unary("reciprocal", "1 / x.")
relu = _unary("relu", "The larger of x and 0; NaN at NaN.")
relu6 = _unary("relu6", "The larger of x and 0, at most 6; NaN at NaN.")
round = _unary("round", "The nearest whole number, the even one of two that are as near.")
rsqrt = _unary("rsqrt", "1 / sqrt(x).")
selu = _unary("selu", "1.0507 * x above 0, else 1.0507 * 1.6733 * (exp(x) - 1).")
sigmoid = _unary("sigmoid", "1 / (1 + exp(-x)).")
sign = _unary("sign", "1 above 0, -1 below 0, a zero of a zero, and NaN of NaN.")
silu = _unary("silu", "x * sigmoid(x).")
sin = _unary("sin", "The sine of an angle in radians.")
sinh = _unary("sinh", "The hyperbolic sine.")
softplus = _unary("softplus", "log(1 + exp(x)), which does not overflow.")
softsign = _unary("softsign", "x / (1 + |x|).")
sqrt = _unary("sqrt", "The square root; NaN below 0.")
tan = _unary("tan", "The tangent of an angle in radians.")
tanh = _unary("tanh", "The hyperbolic tangent.")
trunc = _unary("trunc", "The next whole number towards 0.")


@public
def gelu(x: Value, approximate: str = "none") -> Value:
    """``x * Phi(x)``, or its approximation by a hyperbolic tangent with ``approximate="tanh"``."""
    if approximate not in ("none", "tanh"):
        refuse("BadArgument", f'approximate is "none" or "tanh", not {approximate!r}')
    one = value_of(x)
    fn = "gelu" if approximate == "none" else "gelu_tanh"
    return Value(one.builder, one.builder.elementwise(fn, one.ssa))


def _pair(fn: str, x: object, y: object) -> Value:
    if not isinstance(x, Value) and not isinstance(y, Value):
        refuse("BadArgument", f"{fn} is of values of the graph, not of {x!r} and {y!r}")
    like = value_of(x if isinstance(x, Value) else y)
    a, b = operand(x, like), operand(y, like)
    same_type(fn, a, b)
    return Value(like.builder, like.builder.elementwise(fn, a.ssa, b.ssa))


@public
def maximum(x: Value | Number, y: Value | Number) -> Value:
    """The larger of two, element by element; NaN where one is NaN."""
    return _pair("max", x, y)


@public
def minimum(x: Value | Number, y: Value | Number) -> Value:
    """The smaller of two, element by element; NaN where one is NaN."""
    return _pair("min", x, y)


@public
def pow(x: Value | Number, y: Value | Number) -> Value:
    """x to the y, as C's ``powf``; of integers in their type, in which it wraps."""
    return _pair("pow", x, y)


@public
def mod(x: Value | Number, y: Value | Number) -> Value:
    """The rest of a division that rounds down, as ``x % y``: it has the sign of y."""
    return _pair("mod", x, y)


@public
def fmod(x: Value | Number, y: Value | Number) -> Value:
    """The rest of a division that rounds towards 0, C's ``fmod``: it has the sign of x."""
    return _pair("fmod", x, y)


@public
def atan2(y: Value | Number, x: Value | Number) -> Value:
    """The angle of the point (x, y), from -pi to pi."""
    return _pair("atan2", y, x)


@public
def where(condition: Value, x: Value | Number, y: Value | Number) -> Value:
    """``x`` where the condition holds, else ``y``; what is not taken is as if it was not there."""
    if not isinstance(x, Value) and not isinstance(y, Value):
        chosen = value_of(condition)
        like = Value(chosen.builder, chosen.builder.constant(0.0, f32))
    else:
        like = value_of(x if isinstance(x, Value) else y)
    when = value_of(condition)
    if when.dtype != "i1":
        refuse("TypeMismatch", f"a condition is i1, not {when!r}; compare it, as in x != 0")
    a, b = operand(x, like), operand(y, like)
    same_type("where", a, b)
    return Value(when.builder, when.builder.select(when.ssa, a.ssa, b.ssa))


@public
def cast(x: Value, dtype: object) -> Value:
    """Another element type; rounds to a narrower one."""
    return value_of(x).cast(dtype)


@public
def constant(tensor: object, name: str | None = None) -> Value:
    """A tensor with numbers, NumPy's or another library's: a parameter that the program keeps.

    Its numbers are those that it has when the program is bound, and are no part of the kernels.
    ``name`` is what its entry is called; a tensor that a function reads without this has a name of
    its own, ``constant0`` and so on.
    """
    builder = current()
    if not is_array(tensor):
        refuse("BadArgument", f"a {type(tensor).__name__} is no tensor with numbers")
    return Value(builder, builder.tensor(tensor, name))


@public
def parameter(name: str, shape: Sequence[int], dtype: object = "f32") -> Value:
    """An entry of the parameter file, or of the mapping, that is given as ``params``."""
    builder = current()
    element = ELEMENTS[element_name(dtype)]
    kind = tensor([dim_of(size) for size in shape], element)
    return Value(builder, builder.parameter(name, kind))


@public
def full(shape: Sequence[SizeLike | str], value: Number, dtype: object = "f32") -> Value:
    """A tensor of one number."""
    build = current()
    one = build.constant(value, ELEMENTS[element_name(dtype)])
    return Value(build, build.expand(one, [dim_of(size) for size in shape]))


@public
def arange(size: SizeLike | str, dtype: object = "i64") -> Value:
    """The numbers from 0 to ``size`` - 1, of an integer type."""
    return iota((size,), 0, dtype)


@public
def iota(shape: Sequence[SizeLike | str], axis: int, dtype: object = "i64") -> Value:
    """A tensor of its elements' places along an axis, of an integer type."""
    build = current()
    dims = [dim_of(size) for size in shape]
    place = axis + len(dims) if axis < 0 else axis
    kind = tensor(dims, ELEMENTS[element_name(dtype)])
    return Value(build, build.add(frontend.IotaOp(kind, place)))


def _question(fn: str, doc: str) -> Callable[[Value], Value]:
    def function(x: Value) -> Value:
        one = value_of(x)
        return Value(one.builder, one.builder.classify(fn, one.ssa))

    function.__name__ = function.__qualname__ = fn
    function.__doc__ = doc
    return public(function)


isfinite = _question("isfinite", "Where x is a finite number, as a condition.")
isinf = _question("isinf", "Where x is infinite, as a condition.")
isnan = _question("isnan", "Where x is no number, as a condition.")


# Products


@public
def matmul(a: Value, b: Value, dtype: object = None, *, precision: str | None = None) -> Value:
    """``a @ b``; ``dtype`` is ``"f32"`` where the sums are not to be rounded.

    ``precision`` is how precise products of f32 have to be: ``"tf32"``, ``"f32x3"``, or ``"f32"``,
    which they are without it.
    """
    element = None if dtype is None else ELEMENTS[element_name(dtype)]
    return Value._product(a, b, element, precision)  # pyright: ignore[reportPrivateUsage]


@public
def linear(x: Value, weight: Value, bias: Value | None = None) -> Value:
    """``x @ weight.T + bias`` with a weight [out, in], as PyTorch's ``Linear`` stores it."""
    made = matmul(x, value_of(weight).transpose())
    return made if bias is None else made + bias


@public
def attention(
    q: Value,
    k: Value,
    v: Value,
    mask: Value | Sequence[Value] | None = None,
    *,
    scale: float | None = None,
    cap: float | None = None,
    causal: bool = False,
    window: tuple[SizeLike, SizeLike] | None = None,
    offset: SizeLike | None = None,
    lse: bool = False,
    precision: str | None = None,
) -> Any:
    """``softmax(scale * q @ k.T, masked) @ v``: [..., Hq, M, D], [..., H, N, D], [..., H, N, E].

    Masks broadcast to the scores: conditions say which keys are allowed, numbers are added.
    ``scale`` is 1 / sqrt(D) unless given, ``cap`` bounds the scores as Gemma does, ``causal`` hides
    the keys after a query, ``window`` those further before and after than it says, ``offset`` is
    the position of query 0 among the keys.  With ``lse`` a pair: also the log of the sum of the
    scores' exponentials, [..., Hq, M] of f32.  ``precision`` is of both products, as of ``matmul``.
    """
    one, two, three = value_of(q), value_of(k), value_of(v)
    same_type("attention", one, two, three)
    masks = [] if mask is None else [mask] if isinstance(mask, Value) else list(mask)
    made = one.builder.attention(
        one.ssa,
        two.ssa,
        three.ssa,
        [value_of(m).ssa for m in masks],
        scale=scale,
        cap=cap,
        causal=causal,
        window=None if window is None else (dim_of(window[0]), dim_of(window[1])),
        offset=None if offset is None else dim_of(offset),
        lse=lse,
        precision=precision,
    )
    found = tuple(Value(one.builder, ssa) for ssa in made)
    return found if lse else found[0]


# Along axes


@public
def sum(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The sum over axes, all without ``axis``; 0 over nothing."""
    return value_of(x).sum(axis, keepdims)


@public
def max(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The largest over axes; NaN where one is NaN, -inf over nothing."""
    return value_of(x).max(axis, keepdims)


@public
def min(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The smallest over axes; NaN where one is NaN, inf over nothing."""
    return value_of(x).min(axis, keepdims)


@public
def mean(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The mean over axes; NaN over nothing."""
    return value_of(x).mean(axis, keepdims)


@public
def prod(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The product over axes, all without ``axis``; 1 over nothing."""
    return value_of(x).prod(axis, keepdims)


@public
def any(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """Whether any condition holds over axes; not over nothing."""
    return value_of(x).any(axis, keepdims)


@public
def all(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """Whether all conditions hold over axes; over nothing too."""
    return value_of(x).all(axis, keepdims)


@public
def norm(x: Value, axis: Axes = None, keepdims: bool = False, *, ord: int = 2) -> Value:
    """The root of the sum of squares over axes, or the sum of absolute values with ``ord=1``."""
    if ord not in (1, 2):
        refuse("BadArgument", f"ord is 1 or 2, not {ord!r}")
    one = value_of(x)
    return abs(one).sum(axis, keepdims) if ord == 1 else sqrt((one * one).sum(axis, keepdims))


@public
def var(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The mean of the squared differences to the mean, over axes."""
    one = value_of(x)
    away = one - one.mean(axis, True)
    return (away * away).mean(axis, keepdims)


def _places(fn: str, x: Value, axis: int | None, keepdims: bool, last: bool, dtype: str) -> Value:
    one = value_of(x)
    made = one.builder.arg_reduce(
        fn, one.ssa, axis, keepdims=keepdims, last=last, element=places_type(dtype)
    )
    return Value(one.builder, made)


@public
def argmax(
    x: Value,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    select_last_index: bool = False,
    dtype: str = "i64",
) -> Value:
    """Where the largest element is along an axis, or among all in row-major order.

    The first of equal ones, or the last with ``select_last_index``; of NaN where there is one.
    """
    return _places("max", x, axis, keepdims, select_last_index, dtype)


@public
def argmin(
    x: Value,
    axis: int | None = None,
    keepdims: bool = False,
    *,
    select_last_index: bool = False,
    dtype: str = "i64",
) -> Value:
    """Where the smallest element is along an axis, or among all in row-major order.

    The first of equal ones, or the last with ``select_last_index``; of NaN where there is one.
    """
    return _places("min", x, axis, keepdims, select_last_index, dtype)


def _sorted(
    x: Value, first: Dim | None, axis: int, descending: bool, dtype: str
) -> tuple[Value, Value]:
    one = value_of(x)
    values, places = one.builder.sort(
        one.ssa, axis, first, descending=descending, element=places_type(dtype)
    )
    return Value(one.builder, values), Value(one.builder, places)


@public
def sort(
    x: Value, axis: int = -1, descending: bool = False, *, dtype: str = "i64"
) -> tuple[Value, Value]:
    """The elements along an axis in their order, and where each of them stood.

    What is equal keeps its order, and NaN is above all.
    """
    return _sorted(x, None, axis, descending, dtype)


@public
def argsort(x: Value, axis: int = -1, descending: bool = False, *, dtype: str = "i64") -> Value:
    """Where the elements along an axis stand in their order: the places of ``sort``."""
    return _sorted(x, None, axis, descending, dtype)[1]


@public
def topk(
    x: Value, k: int, axis: int = -1, largest: bool = True, *, dtype: str = "i64"
) -> tuple[Value, Value]:
    """The k largest elements along an axis, the largest first, or the k smallest, the smallest
    first, and where each of them stood; the first of equal ones comes first.
    """
    if k < 0:
        refuse("BadArgument", f"topk gives k elements, 0 or more, not {k}")
    return _sorted(x, Dim.const(k), axis, largest, dtype)


@public
def softmax(x: Value, axis: int | Sequence[int] = -1) -> Value:
    """``exp(x - m) / sum(exp(x - m))`` with the maximum ``m``, along axes together."""
    one = value_of(x)
    return Value(one.builder, one.builder.softmax(one.ssa, axis))


@public
def log_softmax(x: Value, axis: int | Sequence[int] = -1) -> Value:
    """The logarithm of ``softmax``."""
    one = value_of(x)
    return Value(one.builder, one.builder.softmax(one.ssa, axis, log=True))


@public
def logsumexp(x: Value, axis: Axes = -1, keepdims: bool = False) -> Value:
    """``log(sum(exp(x)))`` over axes, below the maximum; -inf if every x is, inf if one is."""
    one = value_of(x)
    top = one.max(axis, True)
    # An infinite maximum has no difference to itself.
    below = where(isinf(top), full((), 0.0, one.dtype), top)
    found = log(exp(one - below).sum(axis, True)) + below
    return found if keepdims else found.squeeze(one.builder.axes(one.ssa, axis))


@public
def layer_norm(
    x: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    *,
    axis: int | Sequence[int] = -1,
    eps: float = 1e-5,
) -> Value:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` along axes together."""
    one = value_of(x)
    made = one.builder.layer_norm(
        one.ssa,
        axis,
        eps,
        None if weight is None else value_of(weight).ssa,
        None if bias is None else value_of(bias).ssa,
    )
    return Value(one.builder, made)


@public
def rms_norm(
    x: Value, weight: Value | None = None, *, axis: int | Sequence[int] = -1, eps: float = 1e-5
) -> Value:
    """``x / sqrt(mean(x * x) + eps) * weight`` along axes together."""
    one = value_of(x)
    scale = None if weight is None else value_of(weight).ssa
    return Value(one.builder, one.builder.rms_norm(one.ssa, axis, eps, scale))


# Movements


@public
def reshape(x: Value, *shape: Any) -> Value:
    """The elements in their order under another shape; one size may be -1."""
    return value_of(x).reshape(*shape)


@public
def permute(x: Value, *order: Any) -> Value:
    """Axes in another order: result axis ``i`` is axis ``order[i]``."""
    return value_of(x).permute(*order)


@public
def transpose(x: Value, a: int = -2, b: int = -1) -> Value:
    """Two axes exchanged, the last two unless named."""
    return value_of(x).transpose(a, b)


@public
def expand(x: Value, *shape: Any) -> Value:
    """The broadcast to a shape, right-aligned; -1 keeps a size."""
    return value_of(x).expand(*shape)


@public
def pad(x: Value, widths: Sequence[Any], value: Number = 0.0) -> Value:
    """Room around a tensor: a pair (before, after) an axis, filled with ``value``."""
    one = value_of(x)
    if len(widths) != one.ndim:
        refuse("RankMismatch", f"pad has {len(widths)} pairs for {one!r}; give one an axis")
    pairs: list[tuple[Dim, Dim]] = []
    for width in widths:
        try:
            before, after = width
        except (TypeError, ValueError):
            refuse("BadArgument", f"{width!r} is no pair: how much before and how much after")
        pairs.append((dim_of(before), dim_of(after)))
    low, high = [a for a, _ in pairs], [b for _, b in pairs]
    return Value(one.builder, one.builder.pad(one.ssa, low, high, float(value)))


@public
def concat(parts: Sequence[Value], axis: int = 0) -> Value:
    """Tensors one after another along an axis."""
    listed = [value_of(part) for part in parts]
    if not listed:
        refuse("BadArgument", "a concat has no tensor; give at least one")
    same_type("concat", *listed)
    build = listed[0].builder
    return Value(build, build.concat([one.ssa for one in listed], axis))


@public
def stack(parts: Sequence[Value], axis: int = 0) -> Value:
    """Tensors of one shape along a new axis."""
    return concat([value_of(part).unsqueeze(axis) for part in parts], axis)


@public
def split(x: Value, parts: int, axis: int = -1) -> tuple[Value, ...]:
    """Equal parts of an axis, whose size ``parts`` divides."""
    one = value_of(x)
    at = one.builder.axis(one.ssa, axis)
    size = one.kind.dims[at]
    found = divided(size, Dim.const(parts), one.builder.inside) if parts > 0 else None
    if found is None:
        refuse(
            "ShapeMismatch",
            f"axis {at} of {one!r} does not come in {parts} equal parts for all sizes; assume that "
            f"{size} mod {parts} == 0, or slice it",
        )
    width = size_of(found)
    before = (slice(None),) * at
    return tuple(one[(*before, slice(i * width, (i + 1) * width))] for i in range(parts))
