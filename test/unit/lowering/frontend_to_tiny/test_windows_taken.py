"""Gathers at places that slide along an axis: which are windows, what of, and that numbers stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32, i8, i64
from xdsl.ir import Attribute

from polyc.dialects import frontend, tiny
from polyc.dialects.frontend import GraphOp
from polyc.passes.pipeline import build
from polyc.playback.reference import make_inputs
from polyc.test.support.agreeing import assert_agree, meant
from polyc.test.support.gpu_text import find, only
from polyc.test.support.sketch import Sketch
from polyc.test.support.turns import examples
from polyc.tools.pipeline import run_pass
from polyc.tools.play import play
from polyc.tools.registry import make_context

FEW = settings(max_examples=examples(30), deadline=None, derandomize=True, database=None)


def sliding(
    shape: tuple[int, int],
    steps: tuple[int, int],
    start: int = 0,
    long: int = 40,
    axis: int = 1,
    element: Attribute = i64,
) -> ModuleOp:
    """A gather at ``start + steps[0] * i + steps[1] * j``, of i and j along two axes."""
    s = Sketch("taken", f32)
    sizes = [3, 2]
    sizes.insert(axis, long)
    x = s.input("x", *sizes)

    def along(at: int) -> object:
        one = s.add(frontend.IotaOp(frontend.tensor(shape, element), at))
        return s.fn("mul", one, s.number(steps[at], element))

    places = s.fn("add", along(0), along(1))  # type: ignore[arg-type]
    places = s.fn("add", places, s.number(start, element))
    return s.done(y=s.add(frontend.GatherOp(x, places, axis)))


def lowered(module: ModuleOp) -> ModuleOp:
    made = module.clone()
    run_pass(make_context(), build("frontend-to-tiny", ""), made)
    return made


def windows(module: ModuleOp) -> list[tiny.WindowOp]:
    return find(lowered(module), tiny.WindowOp)


@FEW
@given(
    st.tuples(st.integers(2, 6), st.integers(2, 6)),
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.integers(0, 3),
    st.integers(0, 2),
)
def test_places_that_slide_are_windows(
    shape: tuple[int, int], steps: tuple[int, int], start: int, axis: int
) -> None:
    module = sliding(shape, steps, start, 40, axis)
    (window,) = windows(module)
    assert window.axes == (axis,) and not find(lowered(module), tiny.GatherOp)
    inputs = make_inputs(only(module, GraphOp), {}, 1)
    played = play(lowered(module), "taken", inputs, {})
    assert played is not None
    assert_agree(played, meant(module, inputs, {}))
    last = start + sum(step * (n - 1) for step, n in zip(steps, shape, strict=True))
    taken = np.take(inputs[0], np.arange(start, last + 1), axis)
    assert played[0].shape[axis : axis + 2] == shape and taken.shape[axis] == last + 1 - start


@pytest.mark.parametrize(
    "module",
    [
        sliding((4, 5), (1, -1), 4),
        sliding((4, 5), (1, 1), -1),
        sliding((4, 5), (9, 4)),
        sliding((40, 4), (4, 1), 0, 200, element=i8),
    ],
    ids=["backwards", "before the start", "behind the end", "beyond the type"],
)
def test_others_are_gathers(module: ModuleOp) -> None:
    assert not windows(module) and find(lowered(module), tiny.GatherOp)
