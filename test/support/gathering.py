"""Gathers for tests: graphs of them, hostile indices, and what they mean, in plain loops."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import INTEGERS, Number, bounds, is_integer
from polyc.playback.functions import Array, dtype_of, round_to
from polyc.test.support.sketch import Sketch

Kind: TypeAlias = frontend.GatherOp | frontend.GatherElementsOp | frontend.GatherNdOp


@dataclass(frozen=True)
class Gathering:
    """One gather: its op, the shapes of its operands, and its axis or how many axes are a batch."""

    op: type[Kind]
    shape: tuple[int, ...]
    indices: tuple[int, ...]
    number: int = 0
    fill: Number | None = None
    from_end: bool = False

    def module(self, element: Attribute = f32, index: Attribute = INTEGERS[3]) -> ModuleOp:
        """A graph of the gather alone."""
        s = Sketch("gathered", element)
        x, i = s.input("x", *self.shape), s.input("i", *self.indices, element=index)
        return s.done(y=s.add(self.op(x, i, self.number, self.fill, from_end=self.from_end)))

    def axes(self) -> range:
        """The axes that indices are along."""
        nd = self.op is frontend.GatherNdOp
        return range(self.number, self.number + (self.indices[-1] if nd else 1))

    def given(self) -> tuple[int, ...]:
        """The shape of what it gives."""
        if self.op is frontend.GatherOp:
            return (*self.shape[: self.number], *self.indices, *self.shape[self.number + 1 :])
        if self.op is frontend.GatherElementsOp:
            return self.indices
        return (*self.indices[:-1], *self.shape[self.number + self.indices[-1] :])

    def meant(self, x: Array, i: Array) -> Array:
        """What the gather gives, element by element."""
        found = np.zeros(self.given(), x.dtype)
        for at in np.ndindex(*found.shape):
            found[at] = self._element(x, self.place(i, at))
        return found

    def place(self, i: Array, at: tuple[int, ...]) -> list[int]:
        """Where an element of the result comes from, as the indices say it."""
        n, rank = self.number, len(self.indices)
        if self.op is frontend.GatherOp:
            return [*at[:n], int(i[at[n : n + rank]]), *at[n + rank :]]
        if self.op is frontend.GatherElementsOp:
            return [*at[:n], int(i[at]), *at[n + 1 :]]
        tuples = at[: rank - 1]
        return [*at[:n], *map(int, i[tuples]), *at[rank - 1 :]]

    def _element(self, x: Array, place: list[int]) -> Any:
        for axis in self.axes():
            size = self.shape[axis]
            if self.from_end and place[axis] < 0:
                place[axis] += size
            if not 0 <= place[axis] < size:
                if self.fill is not None:
                    return self.fill
                place[axis] = min(max(place[axis], 0), size - 1)
        if not all(self.shape[axis] for axis in self.axes()):
            return 0 if self.fill is None else self.fill
        return x[tuple(place)]


def hostile(shape: Sequence[int], element: Attribute, size: int, dice: random.Random) -> Array:
    """Indices of an axis: some inside of it, most at its ends, beyond them, and at the type's."""
    least, most = bounds(element)
    beyond = (0, size - 1, -1, size, size + 1, -size, -size - 1, least, most)
    wrapping = (2**32 + 1, -(2**32) + 1, 2**31, 2**16 + 1, 2**8 + 1)
    known = [n for n in (*beyond, *wrapping) if least <= n <= most]
    known += [dice.randrange(size) for _ in range(5) if 0 < size <= most]
    count = int(np.prod(shape, dtype=np.int64))
    drawn = [dice.choice(known) for _ in range(count)]
    return np.asarray(drawn, dtype_of(element)).reshape(tuple(shape))


def data(shape: Sequence[int], element: Attribute, dice: random.Random) -> Array:
    """Elements that differ, with NaN, infinities and a zero below 0 among the floats."""
    count = int(np.prod(shape, dtype=np.int64))
    if is_integer(element):
        least, most = bounds(element)
        drawn = [dice.choice((least, most, dice.randint(least, most))) for _ in range(count)]
        return np.asarray(drawn, dtype_of(element)).reshape(tuple(shape))
    if element == i1:
        return np.asarray([dice.random() < 0.5 for _ in range(count)], np.bool_).reshape(shape)
    odd = (float("nan"), float("inf"), -float("inf"), -0.0)
    drawn = [dice.choice(odd) if dice.random() < 0.2 else dice.uniform(-9, 9) for _ in range(count)]
    return round_to(np.asarray(drawn, np.float32).reshape(tuple(shape)), element)


def assert_same(found: Array, wanted: Array, what: object = "") -> None:
    """Every element is the other's, NaN and the signs of zeros as well."""
    assert found.shape == wanted.shape, what
    a, b = (np.asarray(x, np.float64) if x.dtype.kind not in "iub" else x for x in (found, wanted))
    np.testing.assert_array_equal(a, b, err_msg=str(what))
    if a.dtype.kind == "f":
        real = ~np.isnan(b)
        np.testing.assert_array_equal(np.signbit(a)[real], np.signbit(b)[real], err_msg=str(what))


TAKE, BY_ELEMENT, TUPLES = frontend.GatherOp, frontend.GatherElementsOp, frontend.GatherNdOp

SHAPES = (
    *(Gathering(TAKE, (5, 3), (), axis) for axis in (0, 1)),
    *(Gathering(TAKE, (2, 5, 3), (4,), axis) for axis in (0, 1, 2)),
    *(Gathering(TAKE, (3, 4), (2, 3), axis) for axis in (0, 1)),
    Gathering(TAKE, (3, 2, 2), (2, 1, 3), 1),
    Gathering(TAKE, (1, 3), (4,), 0),
    Gathering(TAKE, (0, 3), (4,), 0),
    Gathering(TAKE, (3, 0), (4,), 0),
    Gathering(TAKE, (3, 2), (0,), 1),
    Gathering(TAKE, (6,), (7,), 0),
    *(Gathering(BY_ELEMENT, (4, 5), (3, 7) if axis else (7, 2), axis) for axis in (0, 1)),
    Gathering(BY_ELEMENT, (2, 3, 4), (2, 5, 4), 1),
    Gathering(BY_ELEMENT, (6,), (9,), 0),
    Gathering(BY_ELEMENT, (3, 0), (3, 4), 1),
    Gathering(BY_ELEMENT, (1, 1), (1, 1), 1),
    Gathering(TUPLES, (4, 5), (6, 2), 0),
    Gathering(TUPLES, (4, 5), (6, 1), 0),
    Gathering(TUPLES, (4, 5, 3), (2, 3, 2), 0),
    Gathering(TUPLES, (2, 4, 5), (2, 3, 1), 1),
    Gathering(TUPLES, (2, 4, 5), (2, 2), 1),
    Gathering(TUPLES, (4, 5), (2,), 0),
    Gathering(TUPLES, (2, 3, 4, 2), (2, 2, 2, 2), 1),
    Gathering(TUPLES, (4, 0), (3, 2), 0),
    Gathering(TUPLES, (1, 1), (3, 2), 0),
)
"""Each op along every axis, by indices of ranks 0 to 3, with sizes of 0 and 1."""


def cases(fills: Sequence[Number | None] = (None, 1)) -> Iterator[Gathering]:
    """``SHAPES`` with clamp and fill, with indices from the start and from the end."""
    for shape in SHAPES:
        for fill in fills:
            for from_end in (False, True):
                yield Gathering(shape.op, shape.shape, shape.indices, shape.number, fill, from_end)
