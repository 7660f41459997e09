"""Lines of a user's Python program: the frame that called a builder, and where it stands.

Builders of IR (``polyc.tile``, ``polyc.trace``) read locations from the frame of the user's
function, so that no call needs an argument for them.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import TYPE_CHECKING

from polyc.dialects.common.diagnostic import Place

if TYPE_CHECKING:
    from xdsl.dialects.builtin import LocationAttr


def frame_outside(*packages: str) -> FrameType | None:
    """The innermost frame that is of none of ``packages``, this module's own left out."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    inside = (__name__, *packages)
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not any(name == package or name.startswith(package + ".") for package in inside):
            return frame
        frame = frame.f_back
    return None


@lru_cache(maxsize=256)
def _positions(code: CodeType) -> tuple[tuple[int | None, int | None], ...]:
    """Line and column of every instruction of ``code``."""
    return tuple((line, column) for line, _, column, _ in code.co_positions())


def location_of(frame: FrameType | None) -> LocationAttr:
    """The file, line and column of the instruction that ``frame`` is at, for an op."""
    from xdsl.dialects.builtin import UNKNOWN_LOC, FileLineColLoc, IntAttr, StringAttr

    if (place := place_of_frame(frame)) is None:
        return UNKNOWN_LOC
    return FileLineColLoc(StringAttr(place.file), IntAttr(place.line), IntAttr(place.column))


def place_of_frame(frame: FrameType | None) -> Place | None:
    """The same for an error, which needs no xDSL."""
    if frame is None:
        return None
    line, column = _positions(frame.f_code)[frame.f_lasti // 2]
    return Place(
        frame.f_code.co_filename, line or frame.f_lineno, 0 if column is None else column + 1
    )
