"""Whose fault an exception is: polyc's, or that of Python from outside which polyc ran.

A plug-in's pass, pattern, verifier or printer, and a user's file with tile programs, run in the
middle of polyc.  Where they fail, the place to look at is their own line, not the input's, and no
fault of polyc is reported.  The traceback tells: it has the frames of both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FrameType, TracebackType
from typing import cast

from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import DiagnosticException, VerifyException

from polyc.dialects.common.diagnostic import Place, PolycError, one_line, place_of

ROOMS = ("dialects", "lowering", "passes", "playback", "poly", "runtime", "tile", "tools", "trace")
"""The folders that are the package."""

LIBRARIES = frozenset({"xdsl", "numpy", "ml_dtypes", "islpy", "cuda"}) | sys.stdlib_module_names
"""Packages whose frames are nobody's own: the fault is of who calls them."""


@cache
def _own(file: str) -> bool:
    """Whether a file is polyc's own; a folder of the user's beside the rooms is not."""
    root = Path(__file__).parent.parent
    try:
        rest = Path(file).relative_to(root)
    except ValueError:
        return False
    return rest.parts[0] in ROOMS or rest.parts == ("__init__.py",)


def _owner(module: str, file: str) -> str:
    """``polyc``, ``library`` or ``outside``, for a module's name and its file."""
    package = module.partition(".")[0]
    if package == "polyc" or _own(file):
        return "polyc"
    return "library" if package in LIBRARIES or file.startswith("<") else "outside"


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _installed(frame: FrameType) -> bool:
    """Whether the file of a frame belongs to an installed package."""
    return "site-packages" in frame.f_code.co_filename


def _innermost(error: BaseException) -> tuple[FrameType, int, bool] | None:
    """The frame from outside that the error is of, its line, and whether polyc's came after it.

    Only code that polyc called counts, not who called polyc.
    """
    called = later = False
    found: tuple[FrameType, int] | None = None
    for frame, line in _frames(error.__traceback__):
        owner = _owner(str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename)
        if owner == "polyc":
            called = later = True
        elif owner == "outside" and called:
            # A package that the user's own code calls is not where he has to look.
            if found is None or not _installed(frame) or _installed(found[0]):
                found = frame, line
            later = False
    return None if found is None else (*found, later)


def place_in(error: BaseException) -> Place | None:
    """The line from outside that raised ``error``, or that does not parse; None without one."""
    if isinstance(error, SyntaxError) and error.filename is not None:
        return Place(error.filename, error.lineno or 0, error.offset or 0)
    found = _innermost(error)
    return None if found is None else Place(found[0].f_code.co_filename, found[1])


def error_text(error: BaseException) -> str:
    """The type and the text of an exception, whatever its own ``__str__`` does."""
    try:
        text = one_line(error.msg if isinstance(error, SyntaxError) else str(error))
    except Exception:
        text = ""
    name = type(error).__name__
    return f"{name}: {text}" if text else name


TRACE = "POLYC_TRACEBACK=1 shows the trace"


def outside_error(error: BaseException, name: str = "") -> PolycError | None:
    """``error`` as one of Python from outside, ``PluginFailed``, at its own line.

    ``name`` says what polyc ran, such as ``pass mark``.  None where the error is not theirs: it is
    a refusal that was meant, or nothing from outside ran.  What may be polyc's as well as theirs
    (no memory, too deep a nest) is theirs where it came up in their own lines.
    """
    if isinstance(error, PolycError | DiagnosticException | VerifyException | KeyboardInterrupt):
        return None
    if (found := _innermost(error)) is None:
        return None
    frame, line, later = found
    if later and isinstance(error, MemoryError | RecursionError | OSError):
        return None
    where = frame.f_code.co_qualname
    what = f"{name}, in {where}," if name else where
    ours = " in what it calls of polyc" if later else ""
    subject = cast(object, frame.f_locals.get("self"))
    at = ""
    if isinstance(subject, Operation):
        place = place_of(subject)
        at = f" for {subject.name}" + ("" if place is None else f" at {place}")
    return PolycError(
        "PluginFailed",
        f"{what} fails{ours}{at} with {error_text(error)}; it is no part of polyc, {TRACE}",
        Place(frame.f_code.co_filename, line),
    )


def left_broken(instance: ModulePass, error: Exception) -> PolycError | None:
    """The error where what a pass from outside left behind breaks a verifier, at the pass."""
    code = type(instance).apply.__code__
    if _owner(type(instance).__module__, code.co_filename) != "outside":
        return None
    fault = PolycError(
        "PluginFailed",
        f"pass {instance.name} leaves a module that no verifier can read, "
        f"{error_text(error)}; it is no part of polyc, {TRACE}",
        Place(code.co_filename, code.co_firstlineno),
    )
    fault.layer = instance.name
    return fault
