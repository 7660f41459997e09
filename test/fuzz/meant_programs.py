"""Random programs as text with their numbers: what a graph gives is known as it is written.

A ``Writer`` holds a graph that grows by one op at a time, and the array of each of its values
(``op_meanings.py``).  The ops are drawn in ``op_draws.py`` and ``place_draws.py``.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from polyc.test.fuzz.op_meanings import DTYPE, REAL, Array, computed, stored

SYMBOLS = ("M", "N", "K")
SMALL = (0, 1, 1, 2, 3, 4, 5, 7, 8)
WIDE = (1, 2, 3, 8, 16, 17, 33, 64)
RANKS = (0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 6, 7)
MOST_ELEMENTS = 3000
MOST_OUTPUTS = 4
LARGEST = 1e4
"""Real numbers beyond this would be lost to the errors of f16."""


class NotDrawn(Exception):
    """The dice chose what the language does not have, or what would be too large."""


@dataclass(frozen=True)
class Size:
    """A size as it is written, and what it is in this program."""

    text: str
    count: int

    @property
    def is_number(self) -> bool:
        return self.text.isdigit()


Dims = Sequence[Size]
ONE = Size("1", 1)


def number(count: int) -> Size:
    """A size that is written as a number."""
    return Size(str(count), count)


def type_text(dims: Dims, element: str) -> str:
    """The type of a tensor."""
    return f"!frontend.tensor<[{', '.join(d.text for d in dims)}], {element}>"


def counts(dims: Dims) -> tuple[int, ...]:
    """The shape of an array."""
    return tuple(d.count for d in dims)


def stretched(x: Dims, y: Dims) -> list[Size] | None:
    """What two shapes broadcast to, or None; a 1 stretches, a symbol that is 1 does not."""
    rank = max(len(x), len(y))
    made: list[Size] = []
    for p, q in zip(
        (ONE,) * (rank - len(x)) + (*x,), (ONE,) * (rank - len(y)) + (*y,), strict=True
    ):
        if ONE not in (p, q) and p != q:
            return None
        made.append(q if p == ONE else p)
    return made


@dataclass(frozen=True, eq=False)
class Value:
    """A value of the graph; ``exact`` where f32 has its numbers whatever is done first."""

    name: str
    dims: Dims
    element: str
    array: Array
    exact: bool

    @property
    def type(self) -> str:
        return type_text(self.dims, self.element)

    @property
    def rank(self) -> int:
        return len(self.dims)


@dataclass(frozen=True)
class Program:
    """A graph ``@f``, what it is given, and what it gives; the latter as it is stored."""

    text: str
    inputs: Sequence[Array]
    sizes: Mapping[str, int]
    outputs: Sequence[Array]


class Writer:
    """A graph that grows; every choice is one of its dice's."""

    def __init__(self, dice: random.Random, wide: bool = False) -> None:
        self.dice = dice
        self._numbers = np.random.default_rng(dice.randrange(1 << 32))
        self._counts = WIDE if wide else SMALL
        self.sizes: dict[str, int] = {}
        if dice.random() < 0.4:
            self.sizes = {symbol: dice.choice(self._counts) for symbol in SYMBOLS}
        self.inputs: list[Value] = []
        self.values: list[Value] = []
        self._lines: list[str] = []
        self._read: set[str] = set()
        self._named = 0

    # What the dice choose

    def chance(self, p: float) -> bool:
        return self.dice.random() < p

    def size(self) -> Size:
        """A number or a symbol."""
        if not self.sizes or self.chance(0.25):
            return number(self.dice.choice(self._counts))
        symbol = self.dice.choice(SYMBOLS)
        return Size(symbol, self.sizes[symbol])

    def shape(self, rank: int | None = None) -> list[Size]:
        """Sizes of a tensor that is not too large, whose rank is drawn too if it is not given."""
        rank = self.dice.choice(RANKS) if rank is None else rank
        for _ in range(20):
            dims = [self.size() for _ in range(rank)]
            if rank > 4:
                dims = [d if self.chance(0.5) else number(self.dice.choice((1, 2))) for d in dims]
            if self.fits(dims):
                return dims
        return [ONE] * rank

    def fits(self, dims: Dims) -> bool:
        return math.prod(counts(dims)) <= MOST_ELEMENTS

    def needs(self, condition: bool) -> None:
        """Raises NotDrawn unless the condition holds."""
        if not condition:
            raise NotDrawn

    def axes(self, rank: int) -> list[int]:
        """One to all of the axes, in order."""
        return sorted(self.dice.sample(range(rank), self.dice.randint(1, rank)))

    # Values to read

    def input(self, dims: Dims, element: str, low: int | None = None, high: int = 6) -> Value:
        """A new input: quarters from -2 to 2, conditions, or integers, from ``low`` to ``high``,
        or few or any if that is not given."""
        shape, draw = counts(dims), self._numbers.integers
        if element in REAL:
            array = draw(-8, 9, shape) / 4.0
        elif element == "i1":
            array = draw(0, 2, shape) == 1
        else:
            ends = np.iinfo(DTYPE[element])
            if low is None:
                low, high = (-5, 6) if self.chance(0.6) else (int(ends.min), int(ends.max))
            low, high = max(low, int(ends.min)), min(high, int(ends.max))
            array = draw(low, high, shape, dtype=DTYPE[element].type, endpoint=True)
        made = Value(f"%a{len(self.inputs)}", dims, element, computed(array, element), True)
        self.inputs.append(made)
        self.values.append(made)
        return made

    def value(
        self,
        kinds: Sequence[str] = tuple(DTYPE),
        least: int = 0,
        most: int = 7,
        exact: bool = False,
    ) -> Value:
        """A value of some types and ranks, rather one of the latest; now and then a new input."""
        found = [
            v
            for v in self.values
            if v.element in kinds and least <= v.rank <= most and (v.exact or not exact)
        ]
        if not found or self.chance(0.15):
            rank = self.dice.randint(least, min(most, least + 3))
            return self.input(self.shape(rank), self.dice.choice(kinds))
        return found[-1 - min(len(found) - 1, int(self.dice.expovariate(0.4)))]

    def partner(self, x: Value, element: str | None = None, exact: bool = False) -> Value:
        """A value that broadcasts with another, of its type if none is given."""
        element = element or x.element
        found = [
            v
            for v in self.values
            if v.element == element
            and (v.exact or not exact)
            and stretched(x.dims, v.dims) is not None
        ]
        chosen = self.dice.random()
        if found and chosen < 0.6:
            return self.dice.choice(found)
        if chosen < 0.75:
            real, whole = self.dice.choice((0.5, -1.5, 2.0)), self.dice.choice((0, 1, 2, 3))
            return self.constant(real if element in REAL else whole, element)
        dims = x.dims[self.dice.randint(0, x.rank) :]
        return self.input([ONE if self.chance(0.25) else d for d in dims], element)

    def alike(self, dims: Dims, element: str) -> Value:
        """A value of this type: one that is there, or a new input."""
        found = [v for v in self.values if v.element == element and list(v.dims) == list(dims)]
        if found and self.chance(0.6):
            return self.dice.choice(found)
        return self.input(dims, element)

    def constant(self, value: float, element: str) -> Value:
        """A number; of conditions there is no constant, and an input takes its place."""
        if element == "i1":
            return self.input((), "i1")
        text = repr(float(value)) if element in REAL else str(int(value))
        made = self.emit(f"constant {text}", (), (), element, np.asarray(value), True)
        self.values.pop()
        return made

    # Ops

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        dims: Dims,
        element: str,
        array: Array,
        exact: bool,
        *,
        form: str = "{operands} -> {result}",
    ) -> Value:
        """Write an op of one result, whose numbers are ``array``; ``form`` is that of its types.

        Raises NotDrawn where the result is too large or has too large numbers.
        """
        self.needs(self.fits(dims))
        numbers = computed(array, element)
        assert numbers.shape == counts(dims), f"{op}: {numbers.shape} of {dims}"
        if element in REAL:
            self.needs(bool((np.abs(numbers) < LARGEST).all()))
        made = Value(self.new_name(), dims, element, numbers, exact)
        types = ", ".join(v.type for v in operands)
        if len(operands) != 1:
            types = f"({types})"
        form = "{result}" if not operands else form
        self.reads(*operands)
        self.write(f"{made.name} = frontend.{op} : {form.format(operands=types, result=made.type)}")
        self.values.append(made)
        return made

    def new_name(self) -> str:
        self._named += 1
        return f"%v{self._named}"

    def reads(self, *values: Value) -> None:
        """Some op reads these."""
        self._read |= {v.name for v in values}

    def write(self, line: str) -> None:
        self._lines.append(f"  {line}")

    def step(self, draws: Sequence[Callable[[Writer], None]]) -> bool:
        """Add what one of ``draws`` writes; whether one of thirty that were tried did."""
        for _ in range(30):
            lines, values, inputs = len(self._lines), len(self.values), len(self.inputs)
            named = self._named
            try:
                with np.errstate(all="ignore"):
                    self.dice.choice(draws)(self)
                return True
            except NotDrawn:
                del self._lines[lines:], self.values[values:], self.inputs[inputs:]
                self._named = named
        return False

    def program(self) -> Program:
        """The graph with its outputs: in most the last values that no op reads, so that little is
        computed for nothing; in the others any."""
        made = [v for v in self.values if v not in self.inputs] or self.values
        unread = [v for v in made if v.name not in self._read]
        outputs = unread[-MOST_OUTPUTS:] if self.chance(0.7) else []
        for _ in range(self.dice.choice((0, 0, 1, 2)) + (not outputs)):
            outputs.append(self.dice.choice(self.values if self.chance(0.3) else made))
        given = {d.text for v in self.inputs for d in v.dims}
        for symbol, count in self.sizes.items():
            if symbol not in given:
                self.input([Size(symbol, count)], "f32")
        inputs = ", ".join(f"{v.name}: {v.type}" for v in self.inputs)
        types = ", ".join(v.type for v in outputs)
        results = types if len(outputs) == 1 else f"({types})"
        self.write(f"frontend.output {', '.join(v.name for v in outputs)} : {types}")
        text = "\n".join((f"frontend.graph @f({inputs}) -> {results} {{", *self._lines, "}\n"))
        return Program(text, _stored(self.inputs), self.sizes, _stored(outputs))


def _stored(values: Sequence[Value]) -> list[Any]:
    return [stored(v.array, v.element) for v in values]
