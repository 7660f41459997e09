"""Pictures of kernels as SVG: a shared tile's layout with its banks, and a timeline.

They need nothing but a browser to look at, and are the same bytes for the same input.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from polyc.dialects.gpu.types import SharedType, element_bytes

BANKS = 32
"""Banks of shared memory, 4 bytes wide each."""

CHUNK = 16
"""Bytes of a cell of the layout picture: what a swizzle keeps together."""

GROUPS = BANKS * 4 // CHUNK
"""Groups of four banks, which one chunk takes."""

COLOURS = (
    "#4e79a7",
    "#f28e2b",
    "#59a14f",
    "#e15759",
    "#76b7b2",
    "#edc948",
    "#b07aa1",
    "#9c755f",
)
"""One a group of banks."""


def _text(x: float, y: float, words: str, size: int = 10, anchor: str = "middle") -> str:
    return (
        f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}">'
        f"{escape(words)}</text>"
    )


def _rect(x: float, y: float, width: float, height: float, colour: str, title: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}" '
        f'stroke="#ffffff"><title>{escape(title)}</title></rect>'
    )


def _svg(width: float, height: float, body: Iterable[str]) -> str:
    lines = "\n".join(body)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'font-family="monospace">\n<rect width="100%" height="100%" fill="#ffffff"/>\n'
        f"{lines}\n</svg>\n"
    )


def bank_group(kind: SharedType, row: int, column: int) -> int:
    """Which group of four banks the 16-byte chunk at an element falls into."""
    return kind.offset(row, column) // CHUNK % GROUPS


def column_conflicts(kind: SharedType, rows: int = 8) -> int:
    """Passes that reading one chunk of each of ``rows`` neighbouring rows takes, at worst.

    Eight chunks at once are what ``ldmatrix`` reads; 1 is free of conflicts.
    """
    per_chunk = CHUNK // element_bytes(kind.element_type)
    worst = 1
    for first in range(0, kind.sizes[0] - rows + 1, rows):
        for column in range(0, kind.sizes[1], per_chunk):
            hits = [0] * GROUPS
            for row in range(first, first + rows):
                hits[bank_group(kind, row, column)] += 1
            worst = max(worst, *hits)
    return worst


def layout_svg(kind: SharedType, title: str = "") -> str:
    """A matrix tile: a cell a 16-byte chunk, coloured by the banks that it falls into.

    Raises ValueError for a tile that is no matrix or whose layout is open.
    """
    if len(kind.sizes) != 2 or kind.swizzle_bytes is None:
        raise ValueError(f"{kind} is no matrix tile with a layout")
    rows, columns = kind.sizes
    per_chunk = CHUNK // element_bytes(kind.element_type)
    across = -(-columns // per_chunk)
    cell_width, cell_height, left, top = 26, 14, 46, 54
    heading = title or str(kind)
    body = [
        _text(left, 18, heading, 13, "start"),
        _text(
            left,
            36,
            f"a cell is 16 bytes, its number the group of four banks; reading 8 rows of one "
            f"column takes {column_conflicts(kind)} pass(es)",
            10,
            "start",
        ),
    ]
    for chunk in range(across):
        body.append(_text(left + (chunk + 0.5) * cell_width, top - 4, str(chunk * per_chunk), 8))
    for row in range(rows):
        y = top + row * cell_height
        body.append(_text(left - 6, y + 10, str(row), 8, "end"))
        for chunk in range(across):
            column = chunk * per_chunk
            group = bank_group(kind, row, column)
            x = left + chunk * cell_width
            where = f"[{row}, {column}] at byte {kind.offset(row, column)}"
            body.append(_rect(x, y, cell_width, cell_height, COLOURS[group], where))
            body.append(_text(x + cell_width / 2, y + 10, str(group), 8))
    width = max(left + across * cell_width + 10, left + 7 * len(heading) + 200, 620)
    return _svg(width, top + rows * cell_height + 10, body)


@dataclass(frozen=True, slots=True)
class Event:
    """``agent`` does ``what`` from step ``start`` to step ``end``, on behalf of ``stage``."""

    agent: str
    start: int
    end: int
    what: str
    stage: int | None = None


KINDS = {"wait": "#d9d9d9", "copy": "#59a14f", "mma": "#4e79a7", "store": "#f28e2b"}
"""Colours of what is done, by the first word of ``what``; anything else is violet."""


def timeline_svg(events: Sequence[Event], title: str = "") -> str:
    """Who does what at each step: a row an agent, a bar an event with its stage in it."""
    agents = list(dict.fromkeys(event.agent for event in events))
    last = max((event.end for event in events), default=1)
    left, top, row_height = 130, 46, 22
    scale = min(12.0, max(0.5, 1600 / max(1, last)))
    body = [_text(left, 18, title or "timeline", 13, "start")]
    for i, (word, colour) in enumerate([*KINDS.items(), ("other", "#b07aa1")]):
        body.append(_rect(left + i * 90, 26, 12, 12, colour, word))
        body.append(_text(left + i * 90 + 16, 36, word, 10, "start"))
    for i, agent in enumerate(agents):
        body.append(_text(left - 8, top + i * row_height + 15, agent, 10, "end"))
    for event in events:
        y = top + agents.index(event.agent) * row_height + 2
        width = max(1.0, (event.end - event.start) * scale)
        colour = KINDS.get(event.what.split()[0], "#b07aa1")
        where = f"{event.agent}: {event.what}, steps {event.start} to {event.end}"
        body.append(_rect(left + event.start * scale, y, width, row_height - 4, colour, where))
        if event.stage is not None and width > 8:
            x = left + event.start * scale + width / 2
            body.append(_text(x, y + 13, str(event.stage), 9))
    return _svg(left + last * scale + 20, top + len(agents) * row_height + 10, body)
