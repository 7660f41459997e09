"""From any exception to one sentence on stderr and exit code 1.

Bad input never shows a traceback.  An exception that no part of polyc meant to raise is a fault of
the Python from outside that raised it, or else of polyc: it reads ``PluginFailed`` or
``InternalError``, and the environment variable ``POLYC_TRACEBACK=1`` shows the trace.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress

from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    VerifyException,
)

from polyc.affine.isl import IslLimitExceeded
from polyc.dialects.common.diagnostic import Place, PolycError, from_text, one_line
from polyc.rewriting.driver import beyond_isl
from polyc.rewriting.notes import shown_as_json
from polyc.rewriting.outside import error_text, outside_error
from polyc.tools.interrupt import EXIT_CODE, MESSAGE
from polyc.tools.streams import (
    drop_unwritten,
    flush_stdout,
    mend_standard_streams,
    os_error,
)

ENDED_BY_PIPE = 141
"""The exit code where the reader of stdout went away, as in ``| head``: a shell's for SIGPIPE."""


def as_polyc_error(error: BaseException, file: str | None = None) -> PolycError:
    """``error`` as a PolycError; ``file`` is the place when nothing better is known."""
    at = None if file is None else Place(file)
    match error:
        case PolycError():
            return error.located(at)
        case ParseError():
            where = error.span.get_location()
            at = Place(where.file, where.line, where.col)
            return from_text(error.msg, at, "ParseError")
        case VerifyException():
            return from_text(str(error), at)
        case DiagnosticException():
            return PolycError("Failed", str(error), at)
        case IslLimitExceeded():
            return beyond_isl(error).located(at)
        case ArgSpecParseError():
            reason = str(error).strip().splitlines()[-1].lstrip("^ ")
            return PolycError(
                "BadPipeline",
                f"{reason}; write name,name{{option=value}} without blanks after commas",
                at,
            )
        case _ if (fault := outside_error(error)) is not None:
            return fault
        case OSError():
            return os_error(error, at)
        case RecursionError():
            return PolycError(
                "NestedTooDeep", "the program is nested deeper than polyc can follow", at
            )
        case MemoryError():
            more = f": {one_line(str(error))}" if str(error) else ""
            return PolycError(
                "OutOfMemory", f"not enough memory on the host; use smaller sizes{more}", at
            )
        case _:
            return PolycError(
                "InternalError",
                f"{error_text(error)}; this is a fault of polyc, POLYC_TRACEBACK=1 shows where",
                at,
            )


def print_error(error: PolycError, as_json: bool = False) -> None:
    """Print ``error`` on stderr, a sentence or a line of JSON, after what stdout holds."""
    drop_unwritten()
    with suppress(OSError, ValueError):
        print(json.dumps(error.as_dict()) if as_json else error.format(), file=sys.stderr)
        sys.stderr.flush()


def guarded(main: Callable[[], int], as_json: Callable[[], bool] = lambda: False) -> int:
    """Run ``main`` and return its exit code; any error is one sentence and code 1."""
    mend_standard_streams()
    try:
        with shown_as_json(as_json()):
            code = main()
        flush_stdout()
        return code
    except GeneratorExit:
        raise
    except KeyboardInterrupt:
        print_error(PolycError("Interrupted", MESSAGE), as_json())
        return EXIT_CODE
    except BrokenPipeError:
        # The reader went away (`| head`): the rest has nowhere to go, which is no error.
        drop_unwritten()
        return ENDED_BY_PIPE
    except BaseException as error:
        if isinstance(error, SystemExit) and outside_error(error) is None:
            raise
        if os.environ.get("POLYC_TRACEBACK"):
            raise
        print_error(as_polyc_error(error), as_json())
        return 1
