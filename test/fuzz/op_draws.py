"""Draws of ops that compute: functions of elements, reductions, products, windows and numbers.

A draw writes one op on values of a ``Writer``, with what ``op_meanings.py`` says of it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from polyc.test.fuzz import op_meanings as means
from polyc.test.fuzz.meant_programs import ONE, Size, Value, Writer, number, stretched
from polyc.test.fuzz.op_meanings import DTYPE, INTEGER, REAL, Array

NUMBERS = (*REAL, *INTEGER)
SAME = "{result}"
"""The form of types where an operand has the result's."""
FEW_BITS = 60.0
"""Below it, sums and products of few quarters are exact in f32, and in f16 nearly always."""


def few(array: Array) -> bool:
    """Whether numbers stay exact in what is done with them next."""
    return float(np.abs(array.astype(np.float64)).max(initial=0)) < FEW_BITS


def unary(w: Writer) -> None:
    x, fn = w.value(REAL), w.dice.choice(tuple(means.UNARY))
    exact = x.exact and fn in means.EXACT
    op = f"elementwise {fn} {x.name}"
    w.emit(op, [x], x.dims, x.element, means.UNARY[fn](x.array), exact, form=SAME)


def jump(w: Writer) -> None:
    x, fn = w.value(REAL, exact=True), w.dice.choice(tuple(means.JUMPS))
    op = f"elementwise {fn} {x.name}"
    w.emit(op, [x], x.dims, x.element, means.JUMPS[fn](x.array), True, form=SAME)


def whole_unary(w: Writer) -> None:
    x = w.value((*INTEGER, "i1"))
    functions = ("abs", "neg", "sign", "not")
    if x.element == "i1":
        functions = ("not",)
    elif x.element.startswith("u"):
        functions = ("sign", "not")
    fn = w.dice.choice(functions)
    array = means.WHOLE_UNARY[fn](x.array)
    w.emit(f"elementwise {fn} {x.name}", [x], x.dims, x.element, array, True, form=SAME)


def _of_two(
    w: Writer, op: str, x: Value, y: Value, element: str, array: Array, exact: bool
) -> None:
    dims = stretched(x.dims, y.dims)
    assert dims is not None
    w.emit(f"{op} {x.name}, {y.name}", [x, y], dims, element, array, exact)


def binary(w: Writer) -> None:
    x = w.value(REAL)
    y, fn = w.partner(x), w.dice.choice(tuple(means.BINARY))
    if fn == "div":
        w.needs(bool((np.abs(y.array) >= 0.25).all()))
    elif w.chance(0.5):
        x, y = y, x
    exact = x.exact and y.exact
    w.needs(exact or fn != "atan2")
    exact = exact and fn not in ("div", "atan2") and few(x.array) and few(y.array)
    array = means.BINARY[fn](x.array, y.array)
    _of_two(w, f"elementwise {fn}", x, y, x.element, array, exact and few(array))


def whole_binary(w: Writer) -> None:
    x = w.value((*INTEGER, "i1"))
    y = w.partner(x)
    fn = w.dice.choice(tuple(means.CONDITIONS if x.element == "i1" else means.WHOLE))
    array = means.whole_binary(fn, x.array, y.array)
    _of_two(w, f"elementwise {fn}", x, y, x.element, array, True)


def compare(w: Writer) -> None:
    x = w.value(exact=True)
    y = w.partner(x, exact=True)
    fn = w.dice.choice(("eq", "ne") if x.element == "i1" else tuple(means.COMPARE))
    _of_two(w, f"compare {fn}", x, y, "i1", means.COMPARE[fn](x.array, y.array), True)


def select(w: Writer) -> None:
    condition = w.value(("i1",))
    x = w.partner(condition, w.dice.choice(tuple(DTYPE)))
    both = stretched(condition.dims, x.dims)
    assert both is not None
    y = w.partner(Value("", both, "i1", condition.array, True), x.element)
    dims = stretched(both, y.dims)
    assert dims is not None
    array = np.where(condition.array, x.array, y.array)
    op = f"select {condition.name}, {x.name}, {y.name}"
    w.emit(op, [condition, x, y], dims, x.element, array, x.exact and y.exact)


def cast(w: Writer) -> None:
    x = w.value()
    element = w.dice.choice([name for name in DTYPE if name != x.element])
    if element not in REAL:
        w.needs(x.exact)
    elif x.element not in REAL:
        w.needs(float(np.abs(x.array.astype(np.float64)).max(initial=0)) <= 200)
    w.emit(f"cast {x.name}", [x], x.dims, element, means.cast(x.array, element), x.exact)


def _left(dims: list[Size], axes: list[int], keepdims: bool) -> list[Size]:
    if keepdims:
        return [ONE if i in axes else d for i, d in enumerate(dims)]
    return [d for i, d in enumerate(dims) if i not in axes]


def reduce(w: Writer) -> None:
    x = w.value(least=1)
    axes, keepdims = w.axes(x.rank), w.chance(0.4)
    functions = ("sum", "max", "min", "prod")
    if x.element == "i1":
        functions = ("any", "all")
    elif x.element in REAL:
        functions = ("sum", "max", "min", "mean")
    fn = w.dice.choice(functions)
    if x.element in REAL and fn != "sum":
        w.needs(all(x.dims[i].count for i in axes))
    array = means.reduce(fn, x.array, axes, keepdims)
    op = f"reduce {fn} {x.name} axes {axes}{' keepdims' * keepdims}"
    exact = x.exact and fn != "mean" and few(array)
    w.emit(op, [x], _left(list(x.dims), axes, keepdims), x.element, array, exact)


def arg_reduce(w: Writer) -> None:
    x = w.value(NUMBERS, least=1, exact=True)
    axis, fn = w.dice.randrange(x.rank), w.dice.choice(("max", "min"))
    keepdims, last = w.chance(0.4), w.chance(0.4)
    w.needs(x.dims[axis].count > 0)
    array = means.place_of(fn, x.array, axis, keepdims, last)
    op = f"arg_reduce {fn} {x.name} axis {axis}{' keepdims' * keepdims}{' last' * last}"
    dims = _left(list(x.dims), [axis], keepdims)
    w.emit(op, [x], dims, w.dice.choice(("i32", "i64")), array, True)


def sort(w: Writer) -> None:
    x = w.value(NUMBERS, least=1, exact=True)
    axis, descending = w.dice.randrange(x.rank), w.chance(0.5)
    dims = list(x.dims)
    if dims[axis].is_number and w.chance(0.5):
        dims[axis] = number(w.dice.randint(0, dims[axis].count))
    values, places = means.sort(x.array, axis, descending, dims[axis].count)
    kind = w.dice.choice(("i32", "i64"))
    made = [
        Value(w.new_name(), dims, x.element, values, True),
        Value(w.new_name(), dims, kind, means.computed(places, kind), True),
    ]
    op = f"sort {x.name} axis {axis}{' descending' * descending}"
    types = ", ".join(v.type for v in made)
    w.write(f"{made[0].name}, {made[1].name} = frontend.{op} : ({x.type}) -> ({types})")
    w.reads(x)
    w.values += reversed(made) if w.chance(0.5) else made


def scan(w: Writer) -> None:
    x = w.value(NUMBERS, least=1)
    axis, fn = w.dice.randrange(x.rank), w.dice.choice(tuple(means.SCAN))
    reverse, exclusive = w.chance(0.4), w.chance(0.3)
    # One of real numbers would begin with an infinity.
    exclusive = exclusive and not (x.element in REAL and fn in ("max", "min"))
    array = means.scan(fn, x.array, axis, reverse, exclusive)
    op = f"scan {fn} {x.name} axis {axis}{' reverse' * reverse}{' exclusive' * exclusive}"
    exact = x.exact and fn != "prod" and few(array)
    w.emit(op, [x], x.dims, x.element, array, exact, form=SAME)


def softmax(w: Writer) -> None:
    x = w.value(REAL, least=1)
    axes, fn = w.axes(x.rank), w.dice.choice(("softmax", "log_softmax"))
    array = means.softmax(x.array, axes, fn == "log_softmax")
    w.emit(f"{fn} {x.name} axes {axes}", [x], x.dims, x.element, array, False, form=SAME)


def norm(w: Writer) -> None:
    x = w.value(REAL, least=1)
    w.needs(x.array.size > 0)
    axes, centered = w.axes(x.rank), w.chance(0.5)
    dims = [x.dims[i] for i in axes]
    weight = w.input(dims, w.dice.choice(REAL)) if w.chance(0.5) else None
    bias = w.input(dims, w.dice.choice(REAL)) if centered and w.chance(0.5) else None
    given = [v.array if v else None for v in (weight, bias)]
    array = means.norm(x.array, axes, 0.25, centered, *given)
    op = f"{'layer' if centered else 'rms'}_norm {x.name}"
    op += f" weight {weight.name}" if weight else ""
    op += f" bias {bias.name}" if bias else ""
    operands = [v for v in (x, weight, bias) if v]
    form = "{operands} -> {result}" if len(operands) > 1 else SAME
    op += f" axes {axes} eps 0.25"
    w.emit(op, operands, x.dims, x.element, array, False, form=form)


def gemm(w: Writer) -> None:
    x = w.value(REAL, least=2, most=4)
    turned_a, turned_b = w.chance(0.3), w.chance(0.5)
    batch, (m, k) = list(x.dims[:-2]), x.dims[-2:]
    if turned_a:
        m, k = k, m
    found = [
        v
        for v in w.values
        if v.element == x.element
        and v.rank >= 2
        and v.dims[-1 if turned_b else -2] == k
        and stretched(batch, v.dims[:-2]) is not None
    ]
    if found and w.chance(0.5):
        y = w.dice.choice(found)
    else:
        first = len(batch) if w.chance(0.4) else w.dice.randint(0, len(batch))
        n, dims = w.size(), [ONE if w.chance(0.3) else d for d in batch][first:]
        y = w.input([*dims, n, k] if turned_b else [*dims, k, n], x.element)
    rest = stretched(batch, y.dims[:-2])
    assert rest is not None
    dims = [*rest, m, y.dims[-2 if turned_b else -1]]
    w.needs(w.fits(dims))
    left, right = (means.rounded(v.array, v.element) for v in (x, y))
    left = np.swapaxes(left, -1, -2) if turned_a else left
    right = np.swapaxes(right, -1, -2) if turned_b else right
    array = left @ right
    flags = ["acc = f32", *["transpose_a"] * turned_a, *["transpose_b"] * turned_b]
    op = f"gemm {x.name}, {y.name} {{{', '.join(flags)}}}"
    exact = x.exact and y.exact and few(array)
    w.emit(op, [x, y], dims, w.dice.choice((x.element, "f32")), array, exact)


LAYOUTS = {1: ("ncw", "nwc"), 2: ("nchw", "nhwc"), 3: ("ncdhw", "ndhwc")}


def conv(w: Writer) -> None:
    """A convolution along one to three axes, or a transposed one."""
    sides, groups, last = w.dice.choice((1, 1, 2, 2, 3)), w.dice.choice((1, 1, 2)), w.chance(0.5)
    element, transposed = w.dice.choice(REAL), w.chance(0.4)
    taps = [w.dice.randint(1, 3 if sides < 3 else 2) for _ in range(sides)]
    strides, dilation = ([w.dice.randint(1, 2) for _ in range(sides)] for _ in range(2))
    padding = [w.dice.randint(0, 1 if transposed else 2) for _ in range(2 * sides)]
    x = _image(w, element, sides, groups, last)
    image = means.rounded(x.array, element)
    image = np.moveaxis(image, -1, 1) if last else image
    w.needs(image.shape[1] > 0 and image.shape[1] % groups == 0)
    filters = w.dice.choice((1, 2, 3, 8)) * groups
    first, second = filters, image.shape[1] // groups
    if transposed:
        first, second = image.shape[1], filters // groups
    sizes = [first, *taps, second] if last else [first, second, *taps]
    weight = w.input([number(n) for n in sizes], element)
    kernel = np.moveaxis(weight.array, -1, 1) if last else weight.array
    more = ""
    if transposed:
        longer = [w.dice.randrange(s) for s in strides]
        w.needs(min(image.shape[2:]) > 0)
        array = means.conv_transpose(image, kernel, strides, padding, longer, dilation, groups)
        more = f"output_padding {longer} "
    else:
        w.needs(min(means.windows(image.shape[2:], taps, strides, padding, dilation)) > 0)
        array = means.conv(image, kernel, strides, padding, dilation, groups)
    w.needs(min(array.shape[2:]) > 0)
    array = np.moveaxis(array, 1, -1) if last else array
    op = (
        f"conv{'_transpose' * transposed}{sides}d {LAYOUTS[sides][last]} {x.name}, {weight.name} "
        f"stride {strides} padding {padding} {more}dilation {dilation} groups {groups} "
        "{acc = f32}"
    )
    dims = [number(n) for n in array.shape]
    result = w.dice.choice((element, "f32"))
    w.emit(op, [x, weight], dims, result, array, x.exact and few(array))


def _image(w: Writer, element: str, sides: int, groups: int, last: bool) -> Value:
    """A value with sizes that are numbers, or a new input whose channels the groups divide."""
    found = [
        v
        for v in w.values
        if v.element == element and v.rank == sides + 2 and all(d.is_number for d in v.dims)
    ]
    if found and w.chance(0.6):
        return w.dice.choice(found)
    space = [number(w.dice.randint(1, 9 if sides < 3 else 5)) for _ in range(sides)]
    channels, images = number(w.dice.choice((1, 2, 4)) * groups), number(w.dice.choice((1, 2)))
    dims = [images, *space, channels] if last else [images, channels, *space]
    w.needs(w.fits(dims))
    return w.input(dims, element)


def attention(w: Writer) -> None:
    element, causal = w.dice.choice(REAL), w.chance(0.4)
    heads, few_heads = w.dice.choice(((1, 1), (2, 2), (4, 2), (2, 1)))
    m, n = w.size(), w.size()
    depth, width = (number(w.dice.choice((4, 8, 16))) for _ in range(2))
    w.needs(n.count > 0)
    batch = [w.size()] if w.chance(0.6) else []
    shapes = [
        [*batch, number(heads), m, depth],
        [*batch, number(few_heads), n, depth],
        [*batch, number(few_heads), n, width],
    ]
    w.needs(all(w.fits(dims) for dims in (*shapes, [*batch, number(heads), m, n])))
    q, k, v = operands = [w.alike(dims, element) for dims in shapes]
    rounded = [means.rounded(x.array, element) for x in operands]
    array = means.attention(rounded[0], rounded[1], rounded[2], causal)
    op = f"attention {q.name}, {k.name}, {v.name}{' causal' * causal} {{acc = f32}}"
    dims = [*batch, number(heads), m, width]
    w.emit(op, operands, dims, w.dice.choice((element, "f32")), array, False)


def pool(w: Writer) -> None:
    """A function of windows, or where their extremes stand."""
    placed = w.chance(0.3)
    x = w.value(NUMBERS, least=1, exact=placed)
    axes = sorted(w.dice.sample(range(x.rank), w.dice.randint(1, min(x.rank, 3))))
    w.needs(all(x.dims[a].is_number for a in axes))
    size, strides = ([w.dice.randint(1, 3) for _ in axes] for _ in range(2))
    dilation = [w.dice.randint(1, 2) for _ in axes]
    padding = [
        w.dice.randint(0, t * d // 2) for t, d in zip(size, dilation, strict=True) for _ in range(2)
    ]
    sides = [x.dims[a].count for a in axes]
    shape = means.windows(sides, size, strides, padding, dilation)
    w.needs(min(shape) > 0)
    dims = list(x.dims)
    for a, n in zip(axes, shape, strict=True):
        dims[a] = number(n)
    w.needs(w.fits(dims))
    text = (
        f"{x.name} axes {axes} size {size} stride {strides} padding {padding} dilation {dilation}"
    )
    if placed:
        fn, kind = w.dice.choice(("max", "min")), w.dice.choice(("i32", "i64"))
        array = means.place_in_window(fn, x.array, axes, size, strides, padding, dilation)
        w.emit(f"arg_pool {fn} {text}", [x], dims, kind, array, True)
        return
    fn = w.dice.choice(("max", "min", "sum", "l1", *("mean", "l2") * (x.element in REAL)))
    count_pad = fn == "mean" and w.chance(0.5)
    array = means.pool(fn, x.array, axes, size, strides, padding, dilation, count_pad)
    op = f"pool {fn} {text}{' count_include_pad' * count_pad}"
    exact = x.exact and fn not in ("mean", "l2") and few(array)
    w.emit(op, [x], dims, x.element, array, exact)


def _numbered_axis(w: Writer, x: Value) -> int:
    axis = w.dice.randrange(x.rank)
    w.needs(x.dims[axis].is_number and x.dims[axis].count > 0)
    return axis


def adaptive_pool(w: Writer) -> None:
    x = w.value(REAL, least=1)
    axis, count = _numbered_axis(w, x), w.dice.randint(1, 6)
    fn = w.dice.choice(("max", "min", "sum", "mean"))
    dims = [number(count) if i == axis else d for i, d in enumerate(x.dims)]
    array = means.adaptive_pool(fn, x.array, axis, count)
    op = f"adaptive_pool {fn} {x.name} axes [{axis}]"
    w.emit(op, [x], dims, x.element, array, x.exact and fn in ("max", "min"))


def resize(w: Writer) -> None:
    x = w.value(NUMBERS, least=1)
    axis, count, half = _numbered_axis(w, x), w.dice.randint(1, 9), w.chance(0.5)
    dims = [number(count) if i == axis else d for i, d in enumerate(x.dims)]
    w.needs(w.fits(dims))
    way = "half_pixel round_prefer_ceil" if half else "asymmetric floor"
    op = f"resize nearest {x.name} axes [{axis}] {way}"
    w.emit(op, [x], dims, x.element, means.nearest(x.array, axis, count, half), x.exact)


def random_numbers(w: Writer) -> None:
    seed = w.value(("i64", "ui8", "i32"), most=0, exact=True)
    offset = w.value(("ui64", "i16", "i64"), most=0, exact=True)
    fn = w.dice.choice(("bits", "uniform", "bernoulli"))
    dims = w.shape(w.dice.randint(0, 3))
    words = means.words(int(seed.array), int(offset.array), [d.count for d in dims])
    op = f"random {fn} {seed.name}, {offset.name}"
    match fn:
        case "bits":
            w.emit(op, [seed, offset], dims, "ui32", words, True)
        case "uniform":
            element = w.dice.choice(REAL)
            w.emit(op, [seed, offset], dims, element, means.uniform(words, element), False)
        case _:
            p = w.dice.choice((0.25, 0.5))
            w.emit(f"{op} p {p}", [seed, offset], dims, "i1", means.bernoulli(words, p), True)


def dropout(w: Writer) -> None:
    seed = w.value(("i64", "ui8", "i32"), most=0, exact=True)
    offset = w.value(("ui64", "i16", "i64"), most=0, exact=True)
    x, p = w.value(REAL, most=4), w.dice.choice((0.25, 0.5))
    words = means.words(int(seed.array), int(offset.array), x.array.shape)
    array = np.where(means.bernoulli(words, 1 - p), x.array / (1 - p), 0)
    op = f"dropout {x.name}, {seed.name}, {offset.name} p {p}"
    w.emit(op, [x, seed, offset], x.dims, x.element, array, False)


DRAWS: tuple[Callable[[Writer], None], ...] = (
    *(unary, jump, whole_unary, binary, whole_binary, compare, select, cast),
    *(reduce, arg_reduce, sort, scan, softmax, norm),
    *(gemm, conv, attention, pool, adaptive_pool, resize),
    *(random_numbers, dropout),
)
