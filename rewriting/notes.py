"""What a pass tells the user beside its result: remarks and warnings at an operation."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from xdsl.ir import Operation

from polyc.dialects.common.diagnostic import PolycError, place_of

_as_json = ContextVar("_as_json", default=False)
_silent = ContextVar("_silent", default=False)


@contextmanager
def shown_as_json(wanted: bool) -> Generator[None]:
    """Within it ``show`` prints lines of JSON, if ``wanted`` (S14.1)."""
    before = _as_json.set(wanted)
    try:
        yield
    finally:
        _as_json.reset(before)


@contextmanager
def unsaid() -> Generator[None]:
    """Within it ``show`` prints nothing: what is tried out is not what is done."""
    before = _silent.set(True)
    try:
        yield
    finally:
        _silent.reset(before)


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

    def as_dict(self) -> dict[str, object]:
        """The fields of an error as JSON data, with this note's level."""
        return PolycError(self.kind, self.text, self.at).as_dict() | {"level": self.level}


@dataclass
class Report:
    """What a run of patterns did (``fired``) and did not (``refused``)."""

    fired: list[Note] = field(default_factory=list[Note])
    refused: list[Note] = field(default_factory=list[Note])


def show(notes: Iterable[Note]) -> None:
    """Print ``notes`` on stderr, a line each."""
    for note in notes:
        if _silent.get():
            continue
        text = json.dumps(note.as_dict()) if _as_json.get() else note.format()
        print(text, file=sys.stderr)
