"""Draws of ops that move elements, or that read or write them where indices say, and of leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from polyc.test.fuzz import op_meanings as means
from polyc.test.fuzz.meant_programs import ONE, Size, Value, Writer, counts, number
from polyc.test.fuzz.op_draws import NUMBERS, few
from polyc.test.fuzz.op_meanings import DTYPE, INTEGER, REAL, Places

# Movements -----------------------------------------------------------------------------


def permute(w: Writer) -> None:
    x = w.value(least=1)
    order = w.dice.sample(range(x.rank), x.rank)
    dims = [x.dims[i] for i in order]
    w.emit(
        f"permute {x.name} perm {order}", [x], dims, x.element, x.array.transpose(order), x.exact
    )


def reshape(w: Writer) -> None:
    """Joins two axes, inserts one of 1, or splits one."""
    x = w.value(most=6)
    dims, chosen = list(x.dims), w.dice.random()
    if chosen < 0.4 and x.rank > 1:
        at = w.dice.randrange(x.rank - 1)
        p, q = dims[at : at + 2]
        if p.is_number and q.is_number:
            dims[at : at + 2] = [number(p.count * q.count)]
        else:
            w.needs(len(p.text) == len(q.text) == 1)
            dims[at : at + 2] = [Size(f"{p.text} * {q.text}", p.count * q.count)]
    elif chosen < 0.7 or not x.rank:
        dims.insert(w.dice.randint(0, x.rank), ONE)
    else:
        at = w.dice.randrange(x.rank)
        count = dims[at].count
        factors = [n for n in range(2, count) if count % n == 0 and dims[at].is_number]
        w.needs(bool(factors))
        factor = w.dice.choice(factors)
        dims[at : at + 1] = [number(factor), number(count // factor)]
    array = x.array.reshape(counts(dims))
    w.emit(f"reshape {x.name}", [x], dims, x.element, array, x.exact)


def expand(w: Writer) -> None:
    x = w.value(most=5)
    at, dims = w.dice.randint(0, x.rank), list(x.dims)
    dims.insert(at, w.size())
    w.needs(w.fits(dims))
    kept = [i + (i >= at) for i in range(x.rank)]
    array = np.broadcast_to(np.expand_dims(x.array, at), counts(dims))
    w.emit(f"expand {x.name} dims {kept}", [x], dims, x.element, array, x.exact)


def slice_(w: Writer) -> None:
    x = w.value(least=1)
    cuts: list[slice] = []
    dims: list[Size] = []
    texts: list[str] = []
    for d in x.dims:
        if not d.is_number:
            start, stop, step = 0, d.count, 1
            texts.append(f"0:{d.text}")
            dims.append(d)
        else:
            start, step = w.dice.randint(0, d.count), w.dice.choice((1, 1, 2, 3))
            stop = w.dice.randint(start, d.count)
            if w.chance(0.5):
                start, stop = 0, d.count
            texts.append(f"{start}:{stop}" + (f":{step}" if step > 1 else ""))
            dims.append(number(-(-(stop - start) // step)))
        cuts.append(slice(start, stop, step))
    op = f"slice {x.name} [{', '.join(texts)}]"
    w.emit(op, [x], dims, x.element, x.array[tuple(cuts)], x.exact)


def pad(w: Writer) -> None:
    x = w.value(NUMBERS, least=1, most=5)
    low, high = ([w.dice.choice((0, 0, 1, 2)) for _ in x.dims] for _ in range(2))
    fill = w.dice.choice((0.0, 1.5, -2.0) if x.element in REAL else (0, 1))
    dims: list[Size] = []
    for d, p, q in zip(x.dims, low, high, strict=True):
        text = f"{d.text} + {p + q}" if p + q else d.text
        dims.append(number(d.count + p + q) if d.is_number else Size(text, d.count + p + q))
    w.needs(w.fits(dims))
    array = np.pad(x.array, list(zip(low, high, strict=True)), constant_values=fill)
    op = f"pad {x.name} low {low} high {high} value {fill}"
    w.emit(op, [x], dims, x.element, array, x.exact)


def concat(w: Writer) -> None:
    x = w.value(least=1)
    axis = w.dice.randrange(x.rank)

    def others(v: Value) -> list[Size]:
        return [d for i, d in enumerate(v.dims) if i != axis]

    found = [
        v
        for v in w.values
        if v.element == x.element and v.rank == x.rank and others(v) == others(x)
    ]
    parts = w.dice.choices(found, k=w.dice.randint(1, 3))
    sizes, dims = [v.dims[axis] for v in parts], list(x.dims)
    total = sum(d.count for d in sizes)
    dims[axis] = Size(" + ".join(d.text for d in sizes), total)
    if all(d.is_number for d in sizes):
        dims[axis] = number(total)
    array = np.concatenate([v.array for v in parts], axis)
    op = f"concat {', '.join(v.name for v in parts)} axis {axis}"
    form = "({operands}) -> {result}" if len(parts) == 1 else "{operands} -> {result}"
    exact = all(v.exact for v in parts)
    w.emit(op, parts, dims, x.element, array, exact, form=form)


# Leaves --------------------------------------------------------------------------------


def constant(w: Writer) -> None:
    element = w.dice.choice(tuple(DTYPE))
    w.values.append(w.constant(0.25 if element == "f32" else 1, element))


def iota(w: Writer) -> None:
    dims, element = w.shape(w.dice.randint(1, 4)), w.dice.choice(INTEGER)
    axis = w.dice.randrange(len(dims))
    array = np.indices(counts(dims))[axis]
    w.emit(f"iota axis {axis}", [], dims, element, array, True)


def dim(w: Writer) -> None:
    size, element = w.size(), w.dice.choice(NUMBERS)
    w.emit(f"dim {size.text}", [], [], element, np.asarray(size.count), True)


# Gathers and scatters ------------------------------------------------------------------


@dataclass(frozen=True)
class Mode:
    """What an index outside names, as a gather writes it."""

    text: str
    where: Places
    fill: float


def _mode(w: Writer, x: Value) -> Mode:
    from_end, clamp = w.chance(0.5), w.chance(0.5)
    fill: float = 7
    if x.element in REAL:
        fill = w.dice.choice((0.5, -1.0))
    elif x.element == "i1":
        fill = w.dice.choice((0, 1))
    where = partial(means.at_index, from_end=from_end, clamp=clamp)
    text = " from_end" * from_end + (" clamp" if clamp else f" fill {fill}")
    return Mode(text, where, 0 if clamp else fill)


def _indices(w: Writer, dims: Sequence[Size], count: int) -> Value:
    """Indices of ``count`` places, some outside; sometimes a value that is there."""
    found = [v for v in w.values if v.element in INTEGER and list(v.dims) == list(dims)]
    if found and w.chance(0.5):
        return w.dice.choice(found)
    return w.input(dims, w.dice.choice(INTEGER), -count - 2, count + 2)


def gather(w: Writer) -> None:
    x = w.value(least=1, most=5)
    axis = w.dice.randrange(x.rank)
    found = [v for v in w.values if v.element in INTEGER and v.rank <= 2]
    if found and w.chance(0.5):
        indices = w.dice.choice(found)
    else:
        indices = _indices(w, w.shape(w.dice.randint(0, 2)), x.dims[axis].count)
    mode, dims = _mode(w, x), [*x.dims[:axis], *indices.dims, *x.dims[axis + 1 :]]
    w.needs(w.fits(dims))
    array = means.gather(x.array, indices.array, axis, mode.where, mode.fill)
    op = f"gather {x.name}, {indices.name} axis {axis}{mode.text}"
    w.emit(op, [x, indices], dims, x.element, array, x.exact)


def gather_elements(w: Writer) -> None:
    x = w.value(least=1, most=4)
    axis, dims = w.dice.randrange(x.rank), list(x.dims)
    dims[axis] = w.size()
    w.needs(w.fits(dims))
    indices, mode = _indices(w, dims, x.dims[axis].count), _mode(w, x)
    array = means.gather_elements(x.array, indices.array, axis, mode.where, mode.fill)
    op = f"gather_elements {x.name}, {indices.name} axis {axis}{mode.text}"
    w.emit(op, [x, indices], dims, x.element, array, x.exact)


def gather_nd(w: Writer) -> None:
    x = w.value(least=1, most=4)
    batch = w.dice.randrange(x.rank)
    count = w.dice.randint(1, x.rank - batch)
    first = [*x.dims[:batch], *w.shape(w.dice.randint(0, 2))]
    dims = [*first, *x.dims[batch + count :]]
    w.needs(w.fits(dims) and w.fits([*first, number(count)]))
    indices, mode = _indices(w, [*first, number(count)], 2), _mode(w, x)
    array = means.gather_nd(x.array, indices.array, batch, mode.where, mode.fill)
    op = f"gather_nd {x.name}, {indices.name} batch {batch}{mode.text}"
    w.emit(op, [x, indices], dims, x.element, array, x.exact)


def scatter(w: Writer) -> None:
    kind = w.dice.choice(("scatter", "scatter_elements", "scatter_nd"))
    x = w.value(least=1, most=4)
    fn = "set" if x.element == "i1" else w.dice.choice(tuple(means.COMBINE))
    axis, from_end = w.dice.randrange(x.rank), w.chance(0.5)
    size = x.dims[axis].count
    before, middle = list(x.dims[:axis]), w.shape(w.dice.randint(0, 2))
    count = w.dice.randint(1, x.rank - axis)
    if kind == "scatter":
        places, dims = middle, [*before, *middle, *x.dims[axis + 1 :]]
    elif kind == "scatter_elements":
        places = dims = [*before, w.size(), *x.dims[axis + 1 :]]
    else:
        places, size = [*before, *middle, number(count)], 2
        dims = [*before, *middle, *x.dims[axis + count :]]
    w.needs(w.fits(dims) and w.fits(places))
    indices, updates = _indices(w, places, size), w.alike(dims, x.element)
    where = partial(means.at_index, from_end=from_end, clamp=False)
    array = means.scatter(kind, fn, x.array, indices.array, updates.array, axis, where)
    along = "batch" if kind == "scatter_nd" else "axis"
    op = f"{kind} {fn} {x.name}, {indices.name}, {updates.name} {along} {axis}"
    op += " from_end" * from_end
    exact = x.exact and updates.exact and fn != "mul" and few(array)
    w.emit(op, [x, indices, updates], x.dims, x.element, array, exact)


DRAWS: tuple[Callable[[Writer], None], ...] = (
    *(permute, reshape, expand, slice_, pad, concat),
    *(constant, iota, dim),
    *(gather, gather_elements, gather_nd, scatter),
)
