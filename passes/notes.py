"""What a pass tells the user beside its result: remarks and warnings at an operation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field

from xdsl.ir import Operation

from polyc.dialects.diagnostic import place_of


@dataclass(frozen=True)
class Note:
    """One sentence of a kind at an operation; ``level`` is ``remark`` or ``warning``."""

    kind: str
    text: str
    at: Operation
    level: str = "remark"

    def format(self) -> str:
        """``file:line:col: level[Kind]: sentence``."""
        place = place_of(self.at)
        return f"{'' if place is None else f'{place}: '}{self.level}[{self.kind}]: {self.text}"


@dataclass
class Report:
    """What a run of patterns did (``fired``) and did not (``refused``)."""

    fired: list[Note] = field(default_factory=list[Note])
    refused: list[Note] = field(default_factory=list[Note])


def show(notes: Iterable[Note]) -> None:
    """Print ``notes`` on stderr, a line each."""
    for note in notes:
        print(note.format(), file=sys.stderr)
