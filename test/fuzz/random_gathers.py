"""Random frontend programs of gathers, scatters and what is computed around them, from a seed."""

from __future__ import annotations

import random

from xdsl.ir import SSAValue

from polyc.dialects.frontend import tensor_of
from polyc.test.fuzz.random_programs import SYMBOLS, Maker, RandomProgram


def drawn(dice: random.Random) -> RandomProgram:
    """A program of one to four steps, about half of which read or write at indices."""
    sizes = {s: dice.choice((0, 1, 2, 3, 4, 5, 6, 7)) for s in SYMBOLS}
    maker = GatherMaker(dice, sizes)
    for _ in range(dice.randint(1, 4)):
        maker.step()
    return RandomProgram(maker.closed(), sizes)


class GatherMaker(Maker):
    """A graph that grows by gathers and scatters of the newest values, and by other ops."""

    def step(self) -> None:
        if self.dice.random() < 0.5:
            super().step()
            return
        found: list[SSAValue] = [v for v in self.values[-3:] if 0 < tensor_of(v).rank <= 4]
        step = self.gather if self.dice.random() < 0.6 else self.scatter
        made = step(self.dice.choice(found or self.values[:1]))
        if self.fits(tensor_of(made).dims):
            self.values.append(made)
