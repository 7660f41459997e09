"""Diagnostics: one error class whose text is one sentence at a place in the user's file.

Everything that polyc refuses ends as a ``PolycError``.  Its text reads

    file:line:col: error[Kind]: sentence with the values and the way out

and its ``as_dict`` is the same as JSON data.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, cast

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ArrayAttr, LocationAttr
    from xdsl.ir import Attribute, Operation


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a source file; ``line`` and ``column`` count from 1, 0 means not known."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        text = self.file
        if self.line:
            text += f":{self.line}"
            if self.column:
                text += f":{self.column}"
        return text


def place_of(at: Operation | Attribute | Place | None) -> Place | None:
    """The first file position in ``at``, or None when it holds none.

    An operation without a position of its own takes that of the nearest op around it.
    """
    if at is None or isinstance(at, Place):
        return at
    # Whoever has an op or a location has imported xDSL; errors of the runtime do without.
    from xdsl.dialects.builtin import CallSiteLoc, FileLineColLoc, FusedLoc, NameLoc
    from xdsl.ir import Operation

    match at:
        case Operation():
            op: Operation | None = at
            while op is not None:
                if (found := place_of(op.location)) is not None:
                    return found
                op = op.parent_op()
            return None
        case FileLineColLoc():
            return Place(at.filename.data, at.line.data, at.column.data)
        case NameLoc():
            return place_of(at.location)
        case CallSiteLoc():
            return place_of(at.callee) or place_of(at.caller)
        case FusedLoc():
            for part in cast("ArrayAttr[Attribute]", at.locations):
                if (found := place_of(part)) is not None:
                    return found
            return None
        case _:
            return None


def _dialect_of(at: Operation | Attribute | Place | None) -> str | None:
    """The dialect of an op, None for a place."""
    if at is None or isinstance(at, Place):
        return None
    from xdsl.ir import Operation

    return at.name.partition(".")[0] if isinstance(at, Operation) else None


def one_line(text: str) -> str:
    """``text`` with every run of white space made one blank."""
    return " ".join(text.split())


class PolycError(Exception):
    """A refusal of the user's input or options.

    ``kind`` is one CamelCase word (``BroadcastMismatch``, ``NonSCoP``), ``message`` one
    sentence that holds the values and says what to change, ``at`` the operation or
    location it speaks of.  ``notes`` are further sentences, printed a line each, and
    ``layer`` is the pass that refused, which the tools fill in; without one, the dialect of the
    operation is the layer (S14.1).
    """

    kind: str
    message: str
    place: Place | None
    notes: tuple[str, ...]
    layer: str | None
    dialect: str | None

    def __init__(
        self,
        kind: str,
        message: str,
        at: Operation | LocationAttr | Place | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        super().__init__(kind, message)
        self.kind = kind
        self.message = one_line(message)
        self.place = place_of(at)
        self.notes = tuple(map(one_line, notes))
        self.layer = None
        self.dialect = _dialect_of(at)

    def located(self, at: Operation | LocationAttr | Place | None) -> PolycError:
        """This error, with the position of ``at`` when it has none yet."""
        if self.place is None:
            self.place = place_of(at)
        return self

    def format(self) -> str:
        """``file:line:col: error[Kind]: sentence``, then a line a note."""
        start = "" if self.place is None else f"{self.place}: "
        lines = [f"{start}error[{self.kind}]: {self.message}"]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, object]:
        """The error as JSON data, with the numbers and shapes that the message names, in order."""
        place = self.place
        shapes = _SHAPE.findall(self.message)
        return {
            "level": "error",
            "kind": self.kind,
            "message": self.message,
            "file": None if place is None else place.file,
            "line": None if place is None else place.line or None,
            "column": None if place is None else place.column or None,
            "layer": self.layer or self.dialect,
            "numbers": [json.loads(n) for n in _NUMBER.findall(_SHAPE.sub(" ", self.message))],
            "shapes": [[size.strip() for size in s.split(",") if size.strip()] for s in shapes],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return self.format()


def from_text(
    text: str, at: Operation | LocationAttr | Place | None = None, kind: str = "InvalidIR"
) -> PolycError:
    """The error of a verifier's or parser's sentence.

    xDSL's exceptions carry no kind, so ours may start with one: ``ResourceExceeded: …``.
    """
    text = one_line(text)
    if (found := _KIND.match(text)) is not None:
        kind, text = found[1], text[found.end() :]
    return PolycError(kind, text, at)


def of_verifier(
    error: Exception, at: Operation | LocationAttr | Place | None = None
) -> PolycError | None:
    """The error of what a dialect's verifier raised; None for any other exception."""
    module = sys.modules.get("xdsl.utils.exceptions")
    if module is None or not isinstance(error, module.VerifyException):
        return None
    return from_text(str(error), at)


_SHAPE = re.compile(r"\[([^\[\]:;]*)\]")
"""A list of sizes or indices in a message, ``[M, K + 1]``; a range ``[0:M]`` is none."""

_NUMBER = re.compile(r"(?<![\w.%@-])-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.]*\w)")
"""A number that stands alone in a message."""

_KIND = re.compile(r"([A-Z]\w*[a-z]\w*): (?=\S)")


def fail(
    kind: str,
    message: str,
    at: Operation | LocationAttr | Place | None = None,
    notes: Sequence[str] = (),
) -> NoReturn:
    """Raise a ``PolycError``."""
    raise PolycError(kind, message, at, notes)
