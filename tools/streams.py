"""Reading and writing: what the system refuses is told with its reason and the file."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn, TextIO, cast

from polyc.dialects.common.diagnostic import Place, PolycError

STDOUT = "<stdout>"

OS_KINDS = {
    errno.ENOENT: ("FileNotFound", "there is no such file"),
    errno.EISDIR: ("NotAFile", "it is a directory; name a file"),
    errno.EACCES: ("NoPermission", "permission denied"),
    errno.EPERM: ("NoPermission", "the system does not permit it"),
    errno.EROFS: ("NoPermission", "the file system is read-only"),
    errno.ENOTDIR: ("FileNotFound", "a part of the path is not a directory"),
    errno.EEXIST: ("NotAFolder", "it is a file; name a folder"),
    errno.ENOSPC: ("DiskFull", "no space left on the device"),
    errno.EDQUOT: ("DiskFull", "the quota of the disk is used up"),
}
"""The kind and the reason of what the system answers; another answer is told in its own words."""


def os_error(error: OSError, at: Place | None = None) -> PolycError:
    """The system's answer as a diagnostic, at the file that it names or else at ``at``."""
    kind, text = OS_KINDS.get(error.errno or 0, ("InputOutput", error.strerror or str(error)))
    return PolycError(kind, text, at if error.filename is None else Place(str(error.filename)))


@contextmanager
def naming(name: str) -> Generator[None]:
    """An OSError in the body is of the file ``name``, where it does not say which."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = name
        raise


# Standard streams --------------------------------------------------------------------------


class _Closed(io.RawIOBase):
    """A standard stream that was closed before the process began: Python has None there."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _refuse(self) -> NoReturn:
        raise OSError(errno.EBADF, "it is closed", self._name)

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: object, /) -> int:
        self._refuse()

    def write(self, b: object, /) -> int:
        self._refuse()


def mend_standard_streams() -> None:
    """In the place of a closed stream, one whose use is refused; a closed stderr takes all.

    What an encoding other than UTF-8 does not have is written as its escape, and refused nowhere.
    """
    for name in ("stdin", "stdout"):
        if getattr(sys, name) is None:
            raw = _Closed(f"<{name}>")
            stream = io.TextIOWrapper(cast("BinaryIO", raw), write_through=True)
            setattr(sys, name, stream)
    if cast("TextIO | None", sys.stderr) is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Write to stdout.  Raises OSError that names it."""
    with naming(STDOUT):
        sys.stdout.write(text)


def flush_stdout() -> None:
    """Raises OSError that names stdout."""
    with naming(STDOUT):
        sys.stdout.flush()


def drop_unwritten() -> None:
    """Flush stdout, or drop what it holds: the interpreter would fail with it at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# Files -------------------------------------------------------------------------------------


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file.  Raises OSError that names it."""
    with naming(str(path)), open(path, "rb") as file:
        return file.read()


def write(path: str, data: bytes) -> None:
    """Write ``data`` to ``path``, ``-`` being stdout; folders on the way are made.

    Raises PolycError with the system's reason, and OSError for stdout.
    """
    if path == "-":
        with naming(STDOUT):
            sys.stdout.flush()
            if (binary := getattr(sys.stdout, "buffer", None)) is None:
                # A stream of text alone, as a notebook has.
                sys.stdout.write(data.decode("utf-8", "backslashreplace"))
            else:
                binary.write(data)
                binary.flush()
        return
    target = Path(path)
    try:
        with naming(path):
            try:
                target.write_bytes(data)
            except FileNotFoundError:
                if target.parent.is_dir() or target.is_symlink():
                    raise
                make_folder(target.parent)
                target.write_bytes(data)
    except OSError as error:
        raise _not_made(error) from error


def make_folder(path: str | Path) -> None:
    """Make the folder ``path`` and those above it, where they are not there.

    Raises PolycError with the system's reason.
    """
    try:
        with naming(str(path)):
            os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise _not_made(error) from error


def _not_made(error: OSError) -> PolycError:
    """The reason why a file or a folder was not made."""
    path = Path(str(error.filename))
    at = Place(str(path))
    if isinstance(error, FileNotFoundError | FileExistsError) and path.is_symlink():
        return PolycError(
            "FileNotFound", f"it is a link to {os.readlink(path)}, which is not there", at
        )
    if isinstance(error, FileNotFoundError):
        return PolycError("NoPermission", f"the system lets nothing be made in {path.parent}", at)
    return os_error(error)


def decode(data: bytes, name: str) -> str:
    """``data`` as text, without a byte order mark in front.

    Raises PolycError of kind ``NotText`` at the first bad byte.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line = before.count(b"\n") + 1
        column = len(before) - (before.rfind(b"\n") + 1) + 1
        raise PolycError(
            "NotText",
            f"byte 0x{data[error.start]:02x} at offset {error.start} is not UTF-8; "
            "save the file as UTF-8 text",
            Place(name, line, column),
        ) from error


def read_text(path: str | Path) -> str:
    """The text of a file.  Raises OSError, and PolycError when it is not UTF-8."""
    return decode(read_bytes(path), str(path))


def is_python(path: str | Path) -> bool:
    """Whether a file is Python by its name."""
    return str(path).endswith(".py")
