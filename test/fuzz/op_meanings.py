"""What the ops of ``frontend`` mean, written a second time: NumPy after docs/semantics.md.

Real numbers are f64 here and are rounded where an op says so and nowhere else; integers have their
own type and wrap.  Nothing comes from playback, so that a mistake of it is not repeated here.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from polyc.playback.functions import DTYPES

Array: TypeAlias = NDArray[Any]
Function = Callable[[Array], Array]
Function2 = Callable[[Array, Array], Array]

DTYPE = {str(element): dtype for element, dtype in DTYPES.items()}
REAL = ("f16", "bf16", "f32")
INTEGER = tuple(name for name in DTYPE if name not in (*REAL, "i1"))


def computed(array: Any, element: str) -> Array:
    """``array`` as this module computes with numbers of an element type."""
    return np.asarray(array, np.float64 if element in REAL else DTYPE[element])


def stored(array: Array, element: str) -> Array:
    """``array`` in memory: a real number is first one of f32."""
    if element not in REAL:
        return array.astype(DTYPE[element])
    with np.errstate(all="ignore"):
        return array.astype(np.float32).astype(DTYPE[element])


def rounded(array: Array, element: str) -> Array:
    """``array`` of real numbers, rounded to a type and read again."""
    return stored(array, element).astype(np.float64)


# Functions of elements -----------------------------------------------------------------


def _erf(x: Array) -> Array:
    return np.asarray([math.erf(v) for v in x.flat], np.float64).reshape(x.shape)


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array) -> Array:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


UNARY: dict[str, Function] = {
    "abs": np.abs,
    "neg": np.negative,
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "sin": np.sin,
    "cos": np.cos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "cbrt": np.cbrt,
    "erf": _erf,
    "gelu": lambda x: x / 2 * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "elu": _elu,
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * _elu(x)),
    "softplus": _softplus,
    "log_sigmoid": lambda x: -_softplus(-x),
    "mish": lambda x: x * np.tanh(_softplus(x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_swish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
}
"""Of real numbers, and without jumps."""
EXACT = ("abs", "neg", "relu", "relu6")
"""Those that are not rounded."""
JUMPS: dict[str, Function] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sign": np.sign,
}
WHOLE_UNARY: dict[str, Function] = {
    "abs": np.abs,
    "neg": np.negative,
    "sign": np.sign,
    "not": np.invert,
}
"""Of integers; conditions have the last."""
BINARY: dict[str, Function2] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "div": np.divide,
    "atan2": np.arctan2,
}
COMPARE: dict[str, Function2] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
CONDITIONS: dict[str, Function2] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def _towards_zero(p: int, q: int) -> int:
    if q == 0:
        return 0
    return abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)


def _shift(p: int, q: int, width: int, left: bool) -> int:
    """A shift by more bits than there are, or by fewer than 0, moves all of them out."""
    if not 0 <= q < width:
        return -1 if p < 0 and not left else 0
    return p << q if left else p >> q


def _power(p: int, q: int, width: int) -> int:
    if q >= 0:
        return pow(p, q, 1 << width)
    return {1: 1, -1: -1 if q % 2 else 1}.get(p, 0)


WHOLE: dict[str, Callable[[int, int, int], int]] = {
    "add": lambda p, q, _: p + q,
    "sub": lambda p, q, _: p - q,
    "mul": lambda p, q, _: p * q,
    "max": lambda p, q, _: max(p, q),
    "min": lambda p, q, _: min(p, q),
    "and": lambda p, q, _: p & q,
    "or": lambda p, q, _: p | q,
    "xor": lambda p, q, _: p ^ q,
    "div": lambda p, q, _: _towards_zero(p, q),
    "mod": lambda p, q, _: p % q if q else 0,
    "fmod": lambda p, q, _: p - q * _towards_zero(p, q) if q else 0,
    "shl": lambda p, q, width: _shift(p, q, width, True),
    "shr": lambda p, q, width: _shift(p, q, width, False),
    "pow": _power,
}
"""Of two integers and the bits of their type, before the result wraps."""


def whole_binary(fn: str, x: Array, y: Array) -> Array:
    """A function of integers of one type, which wraps, or of conditions."""
    if x.dtype == np.bool_:
        return CONDITIONS[fn](x, y)
    width, signed = 8 * x.dtype.itemsize, x.dtype.kind == "i"
    left, right = np.broadcast_arrays(x, y)
    made: list[int] = []
    for p, q in zip(left.flat, right.flat, strict=True):
        value = WHOLE[fn](int(p), int(q), width) % (1 << width)
        made.append(value - (1 << width) if signed and value >> (width - 1) else value)
    return np.asarray(made, x.dtype).reshape(left.shape)


def cast(x: Array, element: str) -> Array:
    """Rounds real numbers to nearest, and to integers towards 0 and to the ends of the type."""
    if element in REAL:
        return rounded(x.astype(np.float64), element)
    if element == "i1":
        return x != 0
    if x.dtype != np.float64:
        return x.astype(DTYPE[element])
    ends = np.iinfo(DTYPE[element])
    made = [min(max(int(v), int(ends.min)), int(ends.max)) for v in x.flat]
    return np.asarray(made, DTYPE[element]).reshape(x.shape)


# Reductions, orders and scans ----------------------------------------------------------


REDUCE: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "prod": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
    "any": np.any,
    "all": np.all,
}


def _neutral(fn: str, dtype: np.dtype[Any]) -> Any:
    if fn in ("sum", "prod"):
        return int(fn == "prod")
    if dtype.kind == "f":
        return -np.inf if fn == "max" else np.inf
    return np.iinfo(dtype).min if fn == "max" else np.iinfo(dtype).max


def reduce(fn: str, x: Array, axes: Sequence[int], keepdims: bool) -> Array:
    """Sums and products wrap; an extreme of no integers is the end of their type."""
    more: dict[str, Any] = {"axis": tuple(axes), "keepdims": keepdims}
    if fn in ("sum", "prod"):
        more["dtype"] = x.dtype
    if fn in ("max", "min") and x.dtype.kind in "iu":
        more["initial"] = _neutral(fn, x.dtype)
    return np.asarray(REDUCE[fn](x, **more))


def place_of(fn: str, x: Array, axis: int, keepdims: bool, last: bool) -> Array:
    """Where the first, or the last, extreme stands."""
    line = np.flip(x, axis) if last else x
    found = (np.argmax if fn == "max" else np.argmin)(line, axis=axis, keepdims=keepdims)
    return np.asarray(x.shape[axis] - 1 - found if last else found)


def sort(x: Array, axis: int, descending: bool, count: int) -> tuple[Array, Array]:
    """The first ``count`` in order and their places; equal ones stay in theirs."""
    line = np.moveaxis(x, axis, -1)
    if descending:
        back = np.argsort(np.flip(line, -1), axis=-1, kind="stable")
        order = line.shape[-1] - 1 - np.flip(back, -1)
    else:
        order = np.argsort(line, axis=-1, kind="stable")
    order = order[..., :count]
    values = np.take_along_axis(line, order, -1)
    return np.moveaxis(values, -1, axis), np.moveaxis(order, -1, axis)


SCAN = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def scan(fn: str, x: Array, axis: int, reverse: bool, exclusive: bool) -> Array:
    """An exclusive one begins with the neutral element and leaves out the last."""
    line = np.flip(x, axis) if reverse else x
    if exclusive:
        shape = [1 if i == axis else n for i, n in enumerate(x.shape)]
        first = np.full(shape, _neutral(fn, x.dtype), x.dtype)
        line = np.take(np.concatenate([first, line], axis), range(x.shape[axis]), axis)
    made = SCAN[fn].accumulate(line, axis=axis, dtype=x.dtype)
    return np.flip(made, axis) if reverse else made


def softmax(x: Array, axes: Sequence[int], log: bool) -> Array:
    """The softmax over several axes, or its logarithm."""
    if not x.size:
        return x
    away = x - x.max(axis=tuple(axes), keepdims=True)
    total = np.exp(away).sum(axis=tuple(axes), keepdims=True)
    return away - np.log(total) if log else np.exp(away) / total


def norm(
    x: Array,
    axes: Sequence[int],
    eps: float,
    centered: bool,
    weight: Array | None,
    bias: Array | None,
) -> Array:
    """``layer_norm`` if centered, else ``rms_norm``; weight and bias have the axes alone."""
    over = tuple(axes)
    away = x - x.mean(axis=over, keepdims=True) if centered else x
    made = away / np.sqrt((away * away).mean(axis=over, keepdims=True) + eps)
    shape = [n if i in over else 1 for i, n in enumerate(x.shape)]
    if weight is not None:
        made = made * weight.reshape(shape)
    return made if bias is None else made + bias.reshape(shape)


# Products ------------------------------------------------------------------------------


def conv(
    image: Array,
    weight: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """A convolution, tap by tap, of ``[N, C, …]`` with ``[F, C / groups, …]``."""
    taps, sides = weight.shape[2:], len(weight.shape) - 2
    room = [(padding[2 * i], padding[2 * i + 1]) for i in range(sides)]
    padded = np.pad(image, [(0, 0), (0, 0), *room])
    shape = windows(image.shape[2:], taps, strides, padding, dilation)
    made = np.zeros((image.shape[0], weight.shape[0], *shape))
    few, many = image.shape[1] // groups, weight.shape[0] // groups
    for at in np.ndindex(*shape):
        for tap in np.ndindex(*taps):
            read = tuple(at[i] * strides[i] + tap[i] * dilation[i] for i in range(sides))
            for g in range(groups):
                part = padded[(slice(None), slice(g * few, (g + 1) * few), *read)]
                filters = slice(g * many, (g + 1) * many)
                made[(slice(None), filters, *at)] += part @ weight[(filters, slice(None), *tap)].T
    return made


def conv_transpose(
    image: Array,
    weight: Array,
    strides: Sequence[int],
    padding: Sequence[int],
    longer: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Array:
    """Each element of ``[N, C, …]`` adds its multiple of ``[C, F / groups, …]``; of the whole the
    padding is cut off, and its end is ``longer``."""
    taps, sides, many = weight.shape[2:], range(weight.ndim - 2), weight.shape[1]
    space = image.shape[2:]
    whole = [(space[i] - 1) * strides[i] + (taps[i] - 1) * dilation[i] + 1 for i in sides]
    room = [n + more for n, more in zip(whole, longer, strict=True)]
    made = np.zeros((image.shape[0], many * groups, *room))
    few = image.shape[1] // groups
    for at in np.ndindex(*space):
        for tap in np.ndindex(*taps):
            to = tuple(at[i] * strides[i] + tap[i] * dilation[i] for i in sides)
            for g in range(groups):
                channels, filters = slice(g * few, (g + 1) * few), slice(g * many, (g + 1) * many)
                part = image[(slice(None), channels, *at)] @ weight[(channels, slice(None), *tap)]
                made[(slice(None), filters, *to)] += part
    cut = [slice(padding[2 * i], room[i] - padding[2 * i + 1]) for i in sides]
    return made[(slice(None), slice(None), *cut)]


def windows(
    sizes: Sequence[int],
    taps: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> list[int]:
    """How many windows lie along each axis; less than 1 where not even one fits."""
    return [
        (n + padding[2 * i] + padding[2 * i + 1] - (t - 1) * d - 1) // s + 1
        for i, (n, t, s, d) in enumerate(zip(sizes, taps, strides, dilation, strict=True))
    ]


def attention(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """Scores over √D; a causal query sees the keys up to its own place."""
    groups = q.shape[-3] // k.shape[-3]
    keys, values = np.repeat(k, groups, axis=-3), np.repeat(v, groups, axis=-3)
    scores = q @ np.swapaxes(keys, -1, -2) / math.sqrt(q.shape[-1])
    if causal:
        rows, columns = np.indices(scores.shape[-2:])
        scores = np.where(columns <= rows, scores, -np.inf)
    return softmax(scores, [scores.ndim - 1], False) @ values


# Windows and sizes ---------------------------------------------------------------------


Inside = Callable[[Sequence[tuple[int, ...]], Array], Array]
"""Of places inside of an operand, and of what stands there, to what a window gives."""


def _of_windows(
    x: Array,
    axes: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    none: Any,
    dtype: Any,
    inside: Inside,
) -> Array:
    """What each window gives, and ``none`` where nothing of it is inside of ``x``."""
    sides = range(len(axes))
    lines = np.moveaxis(x, axes, sides)
    shape = windows([x.shape[a] for a in axes], size, strides, padding, dilation)
    made = np.full((*shape, *lines.shape[len(axes) :]), none, dtype)
    for at in np.ndindex(*shape):
        places: list[tuple[int, ...]] = []
        for tap in np.ndindex(*size):
            read = [at[i] * strides[i] + tap[i] * dilation[i] - padding[2 * i] for i in sides]
            if all(0 <= read[i] < lines.shape[i] for i in sides):
                places.append(tuple(read))
        if places:
            made[at] = inside(places, np.stack([lines[place] for place in places]))
    return np.moveaxis(made, sides, axes)


def pool(
    fn: str,
    x: Array,
    axes: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    count_pad: bool,
) -> Array:
    """A function of what each window has inside of ``x``; the mean of nothing is NaN, and one of
    ``count_pad`` divides by all places of a window."""
    none = _neutral(fn, x.dtype) if fn in ("max", "min") else np.nan if fn == "mean" else 0

    def inside(_: Sequence[tuple[int, ...]], found: Array) -> Array:
        return _window(fn, found, math.prod(size) if count_pad else len(found))

    return _of_windows(x, axes, size, strides, padding, dilation, none, x.dtype, inside)


def place_in_window(
    fn: str,
    x: Array,
    axes: Sequence[int],
    size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> Array:
    """Where the first extreme of each window stands in the plane of ``axes``; -1 of nothing."""
    plane = [x.shape[a] for a in axes]

    def inside(places: Sequence[tuple[int, ...]], found: Array) -> Array:
        numbers = np.asarray([np.ravel_multi_index(place, plane) for place in places])
        return numbers[place_of(fn, found, 0, False, False)]

    return _of_windows(x, axes, size, strides, padding, dilation, -1, np.int64, inside)


def _window(fn: str, inside: Array, count: int) -> Array:
    match fn:
        case "l1":
            return np.abs(inside).sum(0, dtype=inside.dtype)
        case "l2":
            return np.sqrt((inside * inside).sum(0))
        case "mean":
            return inside.sum(0) / count
        case _:
            return reduce(fn, inside, [0], False)


def adaptive_pool(fn: str, x: Array, axis: int, count: int) -> Array:
    """Window i is of ⌊i n / count⌋ up to ⌈(i + 1) n / count⌉."""
    lines, n = np.moveaxis(x, axis, 0), x.shape[axis]
    parts = [lines[i * n // count : -(-(i + 1) * n // count)] for i in range(count)]
    return np.moveaxis(np.stack([reduce(fn, part, [0], False) for part in parts]), 0, axis)


def nearest(x: Array, axis: int, size: int, half_pixel: bool) -> Array:
    """Each from the element below, or, of centers, from the nearest, the upper one of two."""
    n = x.shape[axis]
    if half_pixel:
        middles = [Fraction(2 * i + 1, 2) * n / size for i in range(size)]
        # Half a step down to where elements stand, and half a step up to round to the nearest.
        read = [min(max(math.floor(m), 0), n - 1) for m in middles]
    else:
        read = [i * n // size for i in range(size)]
    return np.take(x, read, axis)


# Gathers and scatters ------------------------------------------------------------------


def at_index(index: int, size: int, from_end: bool, clamp: bool) -> int | None:
    """The place that an index names, or None where it names none."""
    place = index + size if from_end and index < 0 else index
    if 0 <= place < size:
        return place
    return min(max(place, 0), size - 1) if clamp and size else None


Places = Callable[[int, int], "int | None"]
"""Index and size to a place: ``at_index`` with an op's way."""


def gather(x: Array, indices: Array, axis: int, where: Places, fill: Any) -> Array:
    """Slices of ``x`` along an axis, one of ``fill`` where there is none."""
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    made = np.full(shape, fill, x.dtype)
    for at in np.ndindex(*indices.shape):
        if (place := where(int(indices[at]), x.shape[axis])) is not None:
            made[(*(slice(None),) * axis, *at)] = np.take(x, place, axis)
    return made


def gather_elements(x: Array, indices: Array, axis: int, where: Places, fill: Any) -> Array:
    """Elements of ``x``, each on its own line."""
    made = np.full(indices.shape, fill, x.dtype)
    for at in np.ndindex(*indices.shape):
        if (place := where(int(indices[at]), x.shape[axis])) is not None:
            made[at] = x[(*at[:axis], place, *at[axis + 1 :])]
    return made


def gather_nd(x: Array, indices: Array, batch: int, where: Places, fill: Any) -> Array:
    """Slices at several indices together, which the last axis of ``indices`` has."""
    count = indices.shape[-1]
    made = np.full((*indices.shape[:-1], *x.shape[batch + count :]), fill, x.dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        places = [where(int(indices[(*at, i)]), x.shape[batch + i]) for i in range(count)]
        if None not in places:
            made[at] = x[(*at[:batch], *places)]
    return made


COMBINE: dict[str, Callable[[Any, Any], Any]] = {
    "set": lambda _, new: new,
    "add": operator.add,
    "mul": operator.mul,
    "max": max,
    "min": min,
}


def scatter(
    kind: str, fn: str, x: Array, indices: Array, updates: Array, axis: int, where: Places
) -> Array:
    """``scatter``, ``scatter_elements`` or ``scatter_nd`` (whose axis is its batch), update by
    update in their order; one at no place is left out."""
    made, rank = x.copy(), indices.ndim
    for at in np.ndindex(*updates.shape):
        rest: tuple[int, ...]
        if kind == "scatter":
            read, rest = [indices[at[axis : axis + rank]]], at[axis + rank :]
        elif kind == "scatter_elements":
            read, rest = [indices[at]], at[axis + 1 :]
        else:
            read, rest = list(indices[at[: rank - 1]]), at[rank - 1 :]
        places = [where(int(p), x.shape[axis + i]) for i, p in enumerate(read)]
        if None not in places:
            to = (*at[:axis], *places, *rest)
            made[to] = COMBINE[fn](made[to], updates[at])
    return made


# Random numbers ------------------------------------------------------------------------

WORD = 1 << 32


def philox(place: int, seed: int) -> int:
    """The word at a place of a seed's stream: Philox4x32-10 (Salmon et al., SC 2011)."""
    block, word = divmod(place % (1 << 64), 4)
    counter = [block % WORD, block // WORD, 0, 0]
    key = [seed % WORD, seed // WORD % WORD]
    for _ in range(10):
        high, low = 0xCD9E8D57 * counter[2], 0xD2511F53 * counter[0]
        counter = [
            *((high // WORD) ^ counter[1] ^ key[0], high % WORD),
            *((low // WORD) ^ counter[3] ^ key[1], low % WORD),
        ]
        key = [(key[0] + 0x9E3779B9) % WORD, (key[1] + 0xBB67AE85) % WORD]
    return counter[word]


def words(seed: int, offset: int, shape: Sequence[int]) -> Array:
    """Words of a stream from ``offset`` on, in the order of the elements."""
    made = [philox(offset + i, seed) for i in range(math.prod(shape))]
    return np.asarray(made, np.uint64).reshape(shape)


BITS = {"f32": 24, "f16": 11, "bf16": 8}
"""Bits of a uniform number: as many as the type's significand has."""


def uniform(random: Array, element: str) -> Array:
    """From 0 up to 1, of a word's upper bits."""
    return (random >> np.uint64(32 - BITS[element])) / 2.0 ** BITS[element]


def bernoulli(random: Array, p: float) -> Array:
    """True with the probability p."""
    return random < np.uint64(int(p * WORD))
