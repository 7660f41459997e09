"""JSON that a user writes: read strictly, and with the place of each of its parts.

Python's reader takes the last of several keys of one name, and ``NaN`` and ``Infinity``, which JSON
does not have (RFC 8259); here both are refused, at their line and column.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from polyc.dialects.common.diagnostic import Place, PolycError

Path_ = tuple[str | int, ...]
"""The keys and positions that lead to a part of the text."""

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class JsonText:
    """What a JSON file holds, and where: ``place`` gives the line and column of a part."""

    file: str
    data: object
    places: Mapping[Path_, Place] = field(repr=False)

    def place(self, *path: str | int) -> Place:
        """Where the value under these keys stands, or the nearest part around it."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, Place(self.file))


def read_json(path: str | Path, kind: str, what: str) -> JsonText:
    """The JSON in the file ``path``, which is ``what``: "the plan".

    Raises PolycError of the kind ``kind``: no such file, not JSON, a key given twice, a number that
    is none.
    """
    file = str(path)
    try:
        text = Path(path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise PolycError(kind, f"{what} {file} cannot be read: {reason}") from error
    starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def place(position: int) -> Place:
        line = bisect_right(starts, position)
        return Place(file, line, position - starts[line - 1] + 1)

    def refuse(reason: str, position: int | None = None) -> NoReturn:
        at = Place(file) if position is None else place(position)
        raise PolycError(kind, f"{what} {file} {reason}", at)

    try:
        data: object = json.loads(text)
    except json.JSONDecodeError as error:
        refuse(f"is not JSON: {error.msg} at line {error.lineno}", error.pos)
    except (ValueError, RecursionError) as error:
        deep = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        refuse(f"cannot be read: {deep}")
    places: dict[Path_, Place] = {}
    for found, position, token in _parts(text):
        if token in ("NaN", "Infinity", "-Infinity"):
            refuse(f"is not JSON: {token} is no number of it", position)
        if found in places:
            refuse(
                f"gives {json.dumps(found[-1])} twice, at line {places[found].line} too; "
                "say it once",
                position,
            )
        places[found] = place(position)
    return JsonText(file, data, places)


def _parts(text: str) -> Iterator[tuple[Path_, int, str]]:
    """Each value of a JSON text with what leads to it, where it begins (a key's value at its key),
    and its first token."""
    path: list[str | int] = []
    """The key or position in each object or list that is open."""
    inside: list[str] = []
    at_key = False
    key = 0
    for match in _TOKEN.finditer(text):
        token, position = match[0], match.start()
        if token in "}]":
            inside.pop()
            path.pop()
            at_key = False
        elif token == ",":
            at_key = inside[-1] == "{"
            if not at_key:
                path[-1] = int(path[-1]) + 1
        elif token == ":":
            at_key = False
        elif at_key:
            path[-1] = json.loads(token)
            key = position
        else:
            of_key = bool(inside) and inside[-1] == "{"
            yield tuple(path), key if of_key else position, token
            if token in "{[":
                inside.append(token)
                path.append(0)
                at_key = token == "{"
