"""The frame outside of packages, and where it stands."""

from __future__ import annotations

from xdsl.dialects.builtin import UNKNOWN_LOC

from polyc.dialects.common.diagnostic import place_of
from polyc.dialects.common.python_source import frame_outside, location_of


def test_the_innermost_frame_that_is_of_no_package():
    frame = frame_outside()
    assert frame is not None and frame.f_code.co_name.startswith("test_the_innermost")
    outer = frame_outside(__name__)
    assert outer is not None and outer.f_globals["__name__"] != __name__
    line, place = frame.f_lineno, place_of(location_of(frame))
    assert place is not None and place.file == __file__ and place.line == line
    assert location_of(None) == UNKNOWN_LOC
