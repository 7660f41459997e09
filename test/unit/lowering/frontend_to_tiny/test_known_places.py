"""``SliceAtKnownPlaces``: which gathers are slices, what of, and that numbers stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, f32, i8, i64
from xdsl.ir import Attribute, SSAValue

from polyc.dialects import frontend
from polyc.dialects.frontend import tensor_of
from polyc.lowering.frontend_to_tiny.known_places import Places, SliceAtKnownPlaces, places_of
from polyc.playback.frontend import run
from polyc.rewriting.driver import rewrite
from polyc.test.support.gpu_text import only
from polyc.test.support.sketch import Size, Sketch, dim
from polyc.test.support.turns import examples

SIZES = {"B": 3, "N": 7}
FEW = settings(max_examples=examples(60), deadline=None, derandomize=True, database=None)


def counted(s: Sketch, axis: int, *shape: Size, element: Attribute = i64) -> SSAValue:
    """The places along an axis, repeated along the others, as a library's ``arange`` is."""
    one = [dim(size) if at == axis else dim(1) for at, size in enumerate(shape)]
    made = s.add(frontend.IotaOp(frontend.tensor(one, element), axis))
    whole = frontend.tensor([dim(size) for size in shape], element)
    return s.add(frontend.ExpandOp(made, range(len(shape)), whole))


def tuples(s: Sketch, *parts: SSAValue) -> SSAValue:
    dims = tensor_of(parts[0]).dims
    return s.concat(len(dims), *(s.reshape(part, *dims, 1) for part in parts))


def mask(s: Sketch) -> SSAValue:
    """What a library looks up at all pairs of a sequence and a key."""
    shape = ("B", 1, 5, "N")
    index = tuples(s, counted(s, 0, *shape), counted(s, 3, *shape))
    return s.add(frontend.GatherNdOp(s.input("x", "B", "N"), index, 0, from_end=True))


def turned(s: Sketch) -> SSAValue:
    index = tuples(s, counted(s, 1, "N", "B"), counted(s, 0, "N", "B"))
    return s.add(frontend.GatherNdOp(s.input("x", "B", "N", 4), index, 0, fill=2.0))


def batched(s: Sketch) -> SSAValue:
    index = s.reshape(counted(s, 1, "B", "N"), "B", "N", 1)
    return s.add(frontend.GatherNdOp(s.input("x", "B", "N", 2), index, 1))


def every_second(s: Sketch) -> SSAValue:
    index = s.cut(counted(s, 0, 9), 0, 2, 9)
    index = s.add(frontend.SliceOp(index, [0], [7], [2]))
    return s.add(frontend.GatherOp(s.input("x", 4, 9, 2), index, 1))


def one_row(s: Sketch) -> SSAValue:
    index = s.number(3, i64)
    return s.add(frontend.GatherOp(s.input("x", 4, "N"), index, 0, from_end=True))


def one_of_them(s: Sketch) -> SSAValue:
    """A place that is cut out of others, with axes of one point around it."""
    index = s.reshape(s.cut(counted(s, 0, 8), 0, 2, 3), 1, 1)
    return s.add(frontend.GatherOp(s.input("x", 9, "N"), index, 0))


FIRES = [mask, turned, batched, every_second, one_row, one_of_them]


def too_many(s: Sketch) -> SSAValue:
    return s.add(frontend.GatherOp(s.input("x", 4, 2), counted(s, 0, 5), 0))


def from_the_end(s: Sketch) -> SSAValue:
    return s.add(frontend.GatherOp(s.input("x", 4, 2), s.number(-1, i64), 0, from_end=True))


def diagonal(s: Sketch) -> SSAValue:
    index = tuples(s, counted(s, 0, 5), counted(s, 0, 5))
    return s.add(frontend.GatherNdOp(s.input("x", 5, 5), index, 0))


def along_the_batch(s: Sketch) -> SSAValue:
    index = s.reshape(counted(s, 0, "B", 2), "B", 2, 1)
    return s.add(frontend.GatherNdOp(s.input("x", "B", "B"), index, 1))


def of_another_size(s: Sketch) -> SSAValue:
    return s.add(frontend.GatherOp(s.input("x", "N", 2), counted(s, 0, "B"), 0))


def that_wrap(s: Sketch) -> SSAValue:
    return s.add(frontend.GatherOp(s.input("x", 300, 2), counted(s, 0, 300, element=i8), 0))


def of_data(s: Sketch) -> SSAValue:
    return s.add(frontend.GatherOp(s.input("x", "N", 2), s.input("i", "B", element=i64), 0))


REFUSES = [
    *(too_many, from_the_end, diagonal, along_the_batch, of_another_size, that_wrap, of_data),
]


def graph(made: Callable[[Sketch], SSAValue]) -> ModuleOp:
    s = Sketch("f", f32)
    return s.done(y=made(s))


def sliced(module: ModuleOp) -> bool:
    rewrite(module, [SliceAtKnownPlaces()], recursive=True)
    module.verify()
    return not any(isinstance(op, frontend.GatherOp | frontend.GatherNdOp) for op in module.walk())


@pytest.mark.parametrize("made", FIRES)
def test_places_that_are_counted_are_a_slice(made: Callable[[Sketch], SSAValue]) -> None:
    module = graph(made)
    found = only(module, frontend.GraphOp)
    shape = [d.evaluate(SIZES) for d in found.inputs[0].type.dims]
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    (right,) = run(found, [x], SIZES)
    assert sliced(module)
    (again,) = run(only(module, frontend.GraphOp), [x], SIZES)
    assert np.array_equal(again, right)


@pytest.mark.parametrize("made", REFUSES)
def test_others_stay(made: Callable[[Sketch], SSAValue]) -> None:
    assert not sliced(graph(made))


@FEW
@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 5), st.booleans(), st.booleans())
def test_slices_of_places_are_places(
    low: int, step: int, count: int, across: bool, single: bool
) -> None:
    s = Sketch("f", f32)
    value = counted(s, 1, 2, 20)
    high = low + (count - 1) * step + 1
    value = s.add(frontend.SliceOp(value, [0, low], [1 if single else 2, high], [1, step]))
    if across:
        value = s.permute(value, 1, 0)
    module = s.done(y=s.add(frontend.GatherOp(s.input("x", 30), value, 0)))
    found = places_of(value)
    assert found is not None
    x = np.arange(30, dtype=np.float32)
    (right,) = run(only(module, frontend.GraphOp), [x], {})
    assert found == Places(None if count == 1 else 0 if across else 1, low, step) or count == 1
    assert sliced(module)
    (again,) = run(only(module, frontend.GraphOp), [x], {})
    assert np.array_equal(again, right)
