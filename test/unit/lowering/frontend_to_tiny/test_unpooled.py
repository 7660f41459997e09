"""Scatters to where extremes of windows stand: which become choices, what stays, and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32, i64
from xdsl.ir import SSAValue

from polyc.dialects import frontend, tiny
from polyc.lowering.frontend_to_tiny import FrontendToTiny
from polyc.lowering.frontend_to_tiny.unpooled import ChooseAtPlaces
from polyc.playback.frontend import run
from polyc.rewriting.driver import rewrite, verify
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.registry import make_context

SCATTERS = (frontend.ScatterOp, frontend.ScatterElementsOp, frontend.ScatterNdOp)


def unpooled(
    fn: str = "set",
    form: str = "rows",
    *,
    plane: Sequence[int] = (8, 9),
    size: int = 2,
    stride: int | None = None,
    padding: int = 0,
    dilation: int = 1,
    whole: bool = False,
    lead: Sequence[int] = (2, 3),
    off: int = 0,
    room: int = 0,
    read: bool = False,
) -> ModuleOp:
    """What is pooled, scattered to its places: ``rows`` and ``tuples`` by one index of all that is
    scattered to, ``planes`` by one in each plane, with so much more ``room`` than the plane."""
    s, count = Sketch("f", f32), len(plane)
    shape = [*lead, *plane]
    x, axes = s.input("x", *shape), list(range(len(lead), len(shape)))
    sizes, steps, spreads = ([n] * count for n in (size, stride or size, dilation))
    words: dict[str, Any] = {"stride": steps, "padding": [padding] * 2 * count}
    words["dilation"] = spreads
    y = s.add(frontend.PoolOp("max", x, axes, sizes, **words))
    at = s.add(frontend.ArgPoolOp("max", x, axes, sizes, whole=whole, **words))
    own = [int(n.constant() or 0) for n in frontend.tensor_of(y).dims]
    flat, base = own[len(lead) :], [*lead, prod(plane) + room]
    if form == "planes":
        given = s.input("base", *base)
        index, update = (s.reshape(v, *lead, prod(flat)) for v in (at, y))
        out = s.add(frontend.ScatterElementsOp(fn, given, index, update, len(lead)))
        return s.done(y=out, at=at) if read else s.done(y=out)
    if not whole:
        for axis, _ in enumerate(lead):
            dims = [n if i == axis else 1 for i, n in enumerate([*lead, *[1] * count])]
            one = s.add(frontend.IotaOp(frontend.tensor(dims, i64), axis))
            step = s.number(prod(shape[axis + 1 :]) + off, i64)
            at = s.fn("add", at, s.fn("mul", one, step))
    given = s.input("base", prod(shape) + room)
    index, update = s.reshape(at, prod(own)), s.reshape(y, prod(own))
    out: SSAValue
    if form == "rows":
        out = s.add(frontend.ScatterOp(fn, given, index, update, 0))
    else:
        out = s.add(frontend.ScatterNdOp(fn, given, s.reshape(index, prod(own), 1), update, 0))
    return s.done(y=out, at=at) if read else s.done(y=out)


def chosen(module: ModuleOp) -> bool:
    """Whether nothing is scattered any more."""
    rewrite(module, [ChooseAtPlaces()], recursive=True)
    verify(module)
    return not any(find(module, kind) for kind in SCATTERS)


@settings(max_examples=examples(40), deadline=None)
@given(
    fn=st.sampled_from(("set", "add")),
    form=st.sampled_from(("rows", "tuples", "planes")),
    plane=st.lists(st.integers(3, 7), min_size=1, max_size=3),
    size=st.integers(1, 3),
    more=st.integers(0, 2),
    padding=st.integers(0, 1),
    ways=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 2**31),
)
def test_values_stay(
    fn: str,
    form: str,
    plane: list[int],
    size: int,
    more: int,
    padding: int,
    ways: tuple[bool, bool],
    seed: int,
) -> None:
    """Of windows that are apart, with gaps, padding and NaN."""
    whole = ways[0] and form != "planes"
    padding = min(padding, size - 1)
    made = [
        unpooled(
            fn,
            form,
            plane=plane,
            size=size,
            stride=size + more,
            padding=padding,
            whole=whole,
            read=ways[1],
        )
        for _ in range(2)
    ]
    assert chosen(made[1])
    dice = np.random.default_rng(seed)
    x = dice.integers(-3, 3, (2, 3, *plane)).astype(np.float32)
    x[dice.random(x.shape) < 0.1] = np.nan
    base = dice.standard_normal(x.size).astype(np.float32)
    base = base.reshape(2, 3, -1) if form == "planes" else base
    right, found = (run(only(one, frontend.GraphOp), [x, base], {}) for one in made)
    for one, other in zip(right, found, strict=True):
        assert np.array_equal(np.asarray(one), np.asarray(other), equal_nan=True)


@pytest.mark.parametrize(
    "module",
    [
        unpooled("max"),
        unpooled(size=3, stride=2),
        unpooled(dilation=2, size=2, stride=4),
        unpooled(off=1),
        unpooled(room=1),
        unpooled(form="planes", room=1),
        unpooled(form="planes", whole=True, lead=(1, 1)),
    ],
    ids=[
        "the larger one",
        "windows that overlap",
        "elements apart",
        "another place",
        "room behind all",
        "another plane",
        "places in all of it, by planes",
    ],
)
def test_others_stay(module: ModuleOp) -> None:
    assert not chosen(module)


def test_places_are_found_once() -> None:
    """With the extremes, in one reduction; nothing is left of the indices."""
    module = unpooled()
    FrontendToTiny().apply(make_context(), module)
    assert not find(module, tiny.ScatterOp) and len(find(module, tiny.ReduceOp)) == 1
