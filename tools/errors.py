"""From any exception to one sentence on stderr and exit code 1.

Bad input never shows a traceback.  An exception that no part of polyc meant to raise is
a fault of polyc: it reads ``InternalError`` and the environment variable
``POLYC_TRACEBACK=1`` shows the trace.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from itertools import pairwise

from xdsl.utils.exceptions import (
    ArgSpecParseError,
    DiagnosticException,
    ParseError,
    VerifyException,
)

from polyc.dialects.diagnostic import Place, PolycError, from_text, one_line
from polyc.passes.driver import beyond_isl
from polyc.passes.notes import shown_as_json
from polyc.poly.isl import IslLimitExceeded

OS_KINDS = {
    errno.ENOENT: ("FileNotFound", "there is no such file"),
    errno.EISDIR: ("NotAFile", "it is a directory; name a file"),
    errno.EACCES: ("NoPermission", "permission denied"),
    errno.ENOTDIR: ("FileNotFound", "a part of the path is not a directory"),
    errno.EEXIST: ("NotAFolder", "it is a file; name a folder"),
    errno.ENOSPC: ("DiskFull", "no space left on the device"),
}


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
        case OSError():
            kind, text = OS_KINDS.get(
                error.errno or 0, ("InputOutput", error.strerror or str(error))
            )
            name = error.filename
            return PolycError(kind, text, Place(str(name)) if name is not None else at)
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
                f"{type(error).__name__}: {one_line(str(error))}; this is a fault of polyc, "
                "POLYC_TRACEBACK=1 shows where",
                at,
            )


def print_error(error: PolycError, as_json: bool = False) -> None:
    """Print ``error`` on stderr, a sentence or a line of JSON."""
    sys.stdout.flush()
    print(json.dumps(error.as_dict()) if as_json else error.format(), file=sys.stderr)


def wants_json(args: Sequence[str]) -> bool:
    """Whether a command line asks for errors as JSON, before it is known to parse."""
    after = pairwise([*args, ""])
    return any(a == "--diagnostics=json" or (a, b) == ("--diagnostics", "json") for a, b in after)


def guarded(main: Callable[[], int], as_json: Callable[[], bool] = lambda: False) -> int:
    """Run ``main`` and return its exit code; any error is one sentence and code 1."""
    try:
        with shown_as_json(as_json()):
            code = main()
        sys.stdout.flush()
        return code
    except (SystemExit, GeneratorExit):
        raise
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (`| head`): the rest has nowhere to go, which is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except BaseException as error:
        if os.environ.get("POLYC_TRACEBACK"):
            raise
        print_error(as_polyc_error(error), as_json())
        return 1
