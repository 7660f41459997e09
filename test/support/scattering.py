"""Scatters for tests: graphs of them, and what they mean, in plain loops over the updates."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f32, i1
from xdsl.ir import Attribute

from polyc.dialects import frontend
from polyc.dialects.common.elements import INTEGERS, is_integer
from polyc.dialects.common.gathers import SCATTERS
from polyc.playback.functions import Array, round_to
from polyc.test.support.gathering import SHAPES, Gathering, Kind, assert_same, data, hostile
from polyc.test.support.sketch import Sketch

Writer: TypeAlias = frontend.ScatterOp | frontend.ScatterElementsOp | frontend.ScatterNdOp

WRITES: Mapping[type[Kind], type[Writer]] = {
    frontend.GatherOp: frontend.ScatterOp,
    frontend.GatherElementsOp: frontend.ScatterElementsOp,
    frontend.GatherNdOp: frontend.ScatterNdOp,
}
"""The scatter that writes where a gather reads."""

JOIN: Mapping[str, Callable[[Any, Any], Any]] = {
    "set": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


@dataclass(frozen=True)
class Scattering:
    """One scatter: its function, and the gather that reads where it writes."""

    fn: str
    at: Gathering

    def module(self, element: Attribute = f32, index: Attribute = INTEGERS[3]) -> ModuleOp:
        """A graph of the scatter alone."""
        s, at = Sketch("scattered", element), self.at
        x, i = s.input("x", *at.shape), s.input("i", *at.indices, element=index)
        u = s.input("u", *at.given())
        op = WRITES[at.op](self.fn, x, i, u, at.number, from_end=at.from_end)
        return s.done(y=s.add(op))

    def meant(self, x: Array, i: Array, u: Array, element: Attribute) -> Array:
        """What the scatter gives, update by update, the last axis fastest; real ones in f32."""
        real = not is_integer(element) and element != i1
        found = x.astype(np.float32) if real else x.copy()
        news = u.astype(found.dtype)
        with np.errstate(all="ignore"):
            for at in np.ndindex(*u.shape):
                place = self.at.place(i, at)
                if self.at.from_end:
                    place = [
                        p + self.at.shape[a] if a in self.at.axes() and p < 0 else p
                        for a, p in enumerate(place)
                    ]
                if all(0 <= p < n for p, n in zip(place, self.at.shape, strict=True)):
                    found[tuple(place)] = JOIN[self.fn](found[tuple(place)], news[at])
        return round_to(found, element)

    def draw(
        self, element: Attribute, index: Attribute, dice: random.Random
    ) -> tuple[Array, Array, Array]:
        """What is updated, indices that are hostile to the last axis of theirs, and updates."""
        x = data(self.at.shape, element, dice)
        size = self.at.shape[self.at.axes()[-1]]
        i = hostile(self.at.indices, index, size, dice)
        return x, i, data(self.at.given(), element, dice)

    def assert_same(self, found: Array, wanted: Array, what: object = "") -> None:
        """Every element is the other's; of zeros that are equal an extreme may be either."""
        if self.fn in ("max", "min") and found.dtype.kind not in "iub":
            found, wanted = (a + np.zeros((), a.dtype) for a in (found, wanted))
        assert_same(found, wanted, what)


def cases() -> Iterator[Scattering]:
    """The places of each gather that is tested, from the start and from the end, with a function
    each in turn."""
    for number, at in enumerate(SHAPES):
        for from_end in (False, True):
            fn = SCATTERS[(2 * number + from_end) % len(SCATTERS)]
            yield Scattering(fn, replace(at, from_end=from_end))
